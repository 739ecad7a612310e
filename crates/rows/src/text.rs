//! A text in parts: as many bytes at once as there is room for, each part made of whole records.

use crate::cut::{Cut, MAX_RECORD_TEXT};
use crate::format::Format;
use crate::seps::PAD;
use memchr::memchr_iter;
use std::io::{Cursor, Read};

/// How many bytes a part has. Few where tests are to see many parts.
const PART: usize = if cfg!(debug_assertions) { 1 << 16 } else { 1 << 20 };
/// What is read: its name, for messages, and its bytes.
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Box<dyn Read + Send>,
}

/// What an input's error is made of (`std::io::Error::other`) if no more is to be read, though there may be more: the answer is of what has come.
#[derive(Debug, thiserror::Error)]
#[error("no more is to be read")]
pub struct Stopped;

/// What a look at an input has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// As much as was wanted.
    All,
    /// Less: it is a pipe with a slow writer.
    Less,
    /// Its end.
    End,
    /// No more is to be read.
    Stopped,
}

/// Some whole records.
#[derive(Debug, Default)]
pub struct Part {
    /// The number of the input.
    pub input: usize,
    /// The text, and behind it room for a look too far.
    pub text: Vec<u8>,
    /// How many bytes are text.
    pub len: usize,
    /// It is the first of its input.
    pub first: bool,
    /// The number among all parts.
    pub number: u64,
    /// What reads the input gives no more at once: it is a pipe with a slow writer, or at its end.
    pub short: bool,
}

/// Why reading has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system's reason.
    #[error("cannot read {0}: {1}")]
    Read(String, #[source] std::io::Error),
    /// A record is too long.
    #[error(
        "{0}:{1}: this record has more than {MAX_RECORD_TEXT} bytes: is a quote not closed, or is it no text of lines?"
    )]
    Long(String, u64),
}

/// All inputs, one behind the other.
pub struct Text {
    cut: Cut,
    inputs: Vec<Input>,
    at: usize,
    /// What was read and is no whole record yet.
    rest: Vec<u8>,
    begins: bool,
    number: u64,
    /// Lines of this input before `rest`.
    lines: u64,
    spare: Vec<Vec<u8>>,
    over: bool,
    /// It is over as no more is to be read, with half a record of this input.
    pub stopped: Option<Option<usize>>,
}

impl Text {
    /// Of these.
    pub fn new(format: &Format, inputs: Vec<Input>) -> Text {
        let over = inputs.is_empty();
        Text {
            cut: Cut::new(format),
            inputs,
            at: 0,
            rest: Vec::new(),
            begins: true,
            number: 0,
            lines: 0,
            spare: Vec::new(),
            over,
            stopped: None,
        }
    }

    /// The name of an input.
    pub fn name(&self, input: usize) -> &str {
        &self.inputs[input].name
    }

    /// Whether all has been read.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The begins of the inputs behind one, each when it is asked for, and whether that is all of it. They are read again later, so all together have a bound.
    pub fn begins_behind(&mut self, input: usize) -> impl FnMut() -> Option<(Vec<u8>, bool)> {
        /// So many bytes of each input, and of all of them.
        const BEGIN: usize = 1 << 16;
        const ALL: usize = 1 << 26;
        let (mut next, mut kept) = (input + 1, 0);
        move || {
            let input = self.inputs.get_mut(next).filter(|_| kept < ALL)?;
            next += 1;
            let mut begin = Vec::new();
            let ended = (&mut input.bytes).take(BEGIN as u64).read_to_end(&mut begin).is_ok_and(|n| n < BEGIN);
            kept += begin.len();
            let rest = std::mem::replace(&mut input.bytes, Box::new(std::io::empty()));
            input.bytes = Box::new(Cursor::new(begin.clone()).chain(rest));
            Some((begin, ended))
        }
    }

    /// Room that is no longer used.
    pub fn give_back(&mut self, room: Vec<u8>) {
        self.spare.push(room);
    }

    /// The next part; none: there is no more.
    ///
    /// # Errors
    /// It cannot be read, or a record is too long.
    pub fn next(&mut self) -> Result<Option<Part>, ReadError> {
        while !self.over {
            // What stands in a room that was used is written over, or lies behind the text.
            let mut text = self.spare.pop().unwrap_or_default();
            let mut len = self.rest.len();
            text.resize(text.len().max(len), 0);
            text[..len].copy_from_slice(&self.rest);
            self.rest.clear();
            let mut want = PART.max((2 * len).min(MAX_RECORD_TEXT));
            let part = loop {
                text.resize(text.len().max(want + PAD), 0);
                let came = self.fill(&mut text, &mut len, want)?;
                let (ended, short) = (came == Came::End, matches!(came, Came::End | Came::Less));
                let found = self.cut.whole(&mut text, &mut len, ended);
                // A line of names alone says nothing of the columns: at an input's begin a record comes with it.
                let whole = found.filter(|whole| ended || !self.begins || self.cut.has_more_than_names(&text, *whole));
                if came == Came::Stopped {
                    let half = len > whole.unwrap_or(0);
                    (self.over, self.stopped) = (true, Some(half.then_some(self.at)));
                }
                let Some(whole) = whole else {
                    if self.over {
                        return Ok(None);
                    }
                    if len >= MAX_RECORD_TEXT {
                        let names = memchr_iter(b'\n', &text[..found.unwrap_or(0)]).count() as u64;
                        return Err(ReadError::Long(self.inputs[self.at].name.clone(), self.lines + names + 1));
                    }
                    want = if len < want { want } else { (2 * want).min(MAX_RECORD_TEXT) };
                    continue;
                };
                self.rest.extend_from_slice(&text[whole..len]);
                let first = std::mem::take(&mut self.begins);
                self.lines += memchr_iter(b'\n', &text[..whole]).count() as u64;
                let part = Part { input: self.at, text, len: whole, first, number: self.number, short };
                if ended {
                    self.at += 1;
                    (self.begins, self.lines) = (true, 0);
                    self.cut.begin();
                    self.over = self.at == self.inputs.len();
                }
                break part;
            };
            // An input of nothing has no part.
            if part.len > 0 {
                self.number += 1;
                return Ok(Some(part));
            }
            self.spare.push(part.text);
        }
        Ok(None)
    }

    /// Reads until there is as much as is wanted, the input gives less than it was asked for, or ends.
    fn fill(&mut self, text: &mut [u8], len: &mut usize, want: usize) -> Result<Came, ReadError> {
        let input = &mut self.inputs[self.at];
        while *len < want {
            match input.bytes.read(&mut text[*len..want]) {
                Ok(0) => return Ok(Came::End),
                Ok(n) => {
                    *len += n;
                    if *len < want && n < PART / 32 {
                        return Ok(Came::Less);
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.get_ref().is_some_and(|e| e.is::<Stopped>()) => return Ok(Came::Stopped),
                Err(e) => return Err(ReadError::Read(input.name.clone(), e)),
            }
        }
        Ok(Came::All)
    }
}
