//! A question about texts that grow: pieces of any of them come in any order, and the answer is written as they come.
//!
//! What ends in the middle of a line waits for the rest of it. Windows by records or fields are over the records in the order in which they came.

use crate::ask::{Ask, AskError, Asked};
use crate::cut::{Cut, MAX_RECORD_TEXT};
use crate::format::Reader;
use crate::report::Report;
use crate::run::{Sink, Task, Worker};
use crate::seps::PAD;
use crate::text::{Part, ReadError};
use crate::write::Style;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// A text that grows.
struct Text {
    cut: Cut,
    /// What came, and is no whole record yet.
    rest: Vec<u8>,
    /// Its own line of names has been read.
    reader: Option<Arc<Reader>>,
    /// It is left out: how it begins cannot be read.
    out: bool,
}

impl Text {
    fn new(ask: &Ask) -> Text {
        Text { cut: Cut::new(&ask.format), rest: Vec::new(), reader: None, out: false }
    }
}

/// Answers a question about texts that grow.
pub struct Growing<'a> {
    ask: Ask,
    style: Style,
    texts: Vec<Text>,
    names: Vec<String>,
    /// None: no record has come.
    asked: Option<(Asked, Worker, Sink<'a>)>,
    out: Option<&'a mut dyn Write>,
    number: u64,
}

impl<'a> Growing<'a> {
    /// For no text yet.
    pub fn new(ask: Ask, style: Style, out: &'a mut dyn Write) -> Growing<'a> {
        let (texts, names) = (Vec::new(), Vec::new());
        Growing { ask, style, texts, names, asked: None, out: Some(out), number: 0 }
    }

    /// One more text; answers its number.
    pub fn begin(&mut self, name: &str) -> usize {
        self.texts.push(Text::new(&self.ask));
        self.names.push(name.to_owned());
        if let Some((.., sink)) = &mut self.asked {
            sink.names.push(name.to_owned());
        }
        self.texts.len() - 1
    }

    /// The name of a text.
    pub fn name(&self, text: usize) -> &str {
        &self.names[text]
    }

    /// A text is left out: nothing that comes of it is read, unless it begins anew.
    pub fn leave_out(&mut self, text: usize) {
        self.texts[text] = Text { out: true, ..Text::new(&self.ask) };
    }

    /// A text begins anew: what is no whole line of it is forgotten.
    pub fn begin_anew(&mut self, text: usize) {
        self.texts[text] = Text::new(&self.ask);
        if let Some((.., sink)) = &mut self.asked {
            sink.no_lines(text);
        }
    }

    /// More of a text has come. Whether more is wanted.
    ///
    /// # Errors
    /// As of [`run`](crate::run).
    pub fn piece(&mut self, text: usize, piece: &[u8]) -> Result<bool, AskError> {
        self.come(text, piece, false)
    }

    /// A text has ended: what has no line end is its last line. Whether more is wanted.
    ///
    /// # Errors
    /// As of [`run`](crate::run).
    pub fn end(&mut self, text: usize) -> Result<bool, AskError> {
        self.come(text, &[], true)
    }

    fn come(&mut self, at: usize, piece: &[u8], ended: bool) -> Result<bool, AskError> {
        let text = &mut self.texts[at];
        if text.out {
            return Ok(true);
        }
        let mut room = std::mem::take(&mut text.rest);
        room.extend_from_slice(piece);
        let mut len = room.len();
        if len == 0 {
            return Ok(true);
        }
        room.resize(len + 1 + PAD, 0);
        let found = text.cut.whole(&mut room, &mut len, ended);
        // A line of names alone says nothing of the columns.
        let is_first = text.reader.is_none();
        let whole = found.filter(|whole| ended || !is_first || text.cut.has_more_than_names(&room, *whole));
        let Some(whole) = whole else {
            room.truncate(len);
            text.rest = room;
            if len >= MAX_RECORD_TEXT {
                let lines = self.asked.as_ref().map_or(0, |(.., sink)| sink.lines_of(at));
                return Err(ReadError::Long(self.names[at].clone(), lines + 1).into());
            }
            return Ok(true);
        };
        text.rest.extend_from_slice(&room[whole..len]);
        if whole == 0 {
            return Ok(true);
        }
        let mut part = Part { input: at, text: room, len: whole, first: is_first, number: self.number, short: true };
        self.number += 1;
        let mut from = 0;
        if let Some((asked, ..)) = self.asked.as_ref().filter(|_| is_first) {
            let (reader, begin) = asked.reader_of(&self.ask, &self.names[at], &mut part)?;
            (self.texts[at].reader, from) = (Some(Arc::new(reader)), begin);
        } else if is_first {
            let (asked, reader, begin) = Asked::new(&self.ask, &self.names[at], &mut part, &mut || None)?;
            (self.texts[at].reader, from) = (Some(Arc::new(reader)), begin);
            let worker = Worker::new(&self.ask, &asked, self.style, 1)?;
            let Some(out) = self.out.take() else { return Ok(false) };
            let sink = Sink::new(&self.ask, &asked, self.names.clone(), self.style, out);
            self.asked = Some((asked, worker, sink));
        }
        let (Some((_, worker, sink)), Some(reader)) = (&mut self.asked, &self.texts[at].reader) else {
            return Ok(false);
        };
        let (more, _) = sink.take(worker.work(Task { part, reader: Arc::clone(reader), from }))?;
        Ok(more)
    }

    /// How long it is until a window ends by the clock, if one is open.
    pub fn ends_in(&self) -> Option<Duration> {
        self.asked.as_ref().and_then(|(_, worker, _)| worker.ends_in())
    }

    /// Nothing has come for a while: windows by the clock may have ended.
    ///
    /// # Errors
    /// As of [`run`](crate::run).
    pub fn time_goes_by(&mut self) -> Result<(), AskError> {
        let Some((_, worker, sink)) = &mut self.asked else { return Ok(()) };
        sink.take(worker.time_goes_by()).map(|_| ())
    }

    /// No more is read, though texts may go on: what was added up, or ordered, is written. What is no whole record yet at the end of a text is left
    /// out ([`Report::halves`]).
    ///
    /// # Errors
    /// As of [`run`](crate::run).
    pub fn stop(mut self) -> Result<Report, AskError> {
        let halves = self.texts.iter().zip(&self.names).filter(|(text, _)| !text.rest.is_empty());
        let halves = halves.map(|(_, name)| name.clone()).collect();
        match self.asked.take() {
            Some((_, worker, sink)) => Ok(Report { halves, ..sink.finish(worker.windows)? }),
            None => Ok(Report { halves, ..Report::default() }),
        }
    }

    /// No more comes: what was added up, or ordered, is written. Each text that has not ended ends.
    ///
    /// # Errors
    /// As of [`run`](crate::run).
    pub fn finish(mut self) -> Result<Report, AskError> {
        for text in 0..self.texts.len() {
            if !self.end(text)? {
                break;
            }
        }
        match self.asked {
            Some((_, worker, sink)) => sink.finish(worker.windows),
            None => Ok(Report::default()),
        }
    }
}
