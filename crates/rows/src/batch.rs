//! Records that have been read, and what is wrong with those that could not be.

use crate::place::Slot;
use chappe_synth::{time, written};
use std::borrow::Cow;

/// How many records are handed on at once: they stay in the nearest caches.
const BATCH: usize = 1024;

/// Records, one behind the other, and where each begins in the text.
#[derive(Debug, Default)]
pub struct Batch {
    size: usize,
    most: usize,
    /// The records.
    pub records: Vec<u8>,
    /// The place of each in the text.
    pub places: Vec<u32>,
    /// How many have something wrong, and are not among them.
    pub left_out: u64,
}

impl Batch {
    /// For records of so many bytes.
    pub fn new(size: usize) -> Batch {
        Batch { size, most: BATCH, ..Batch::default() }
    }

    /// The same, for as many as a text has.
    pub fn of_all(size: usize) -> Batch {
        Batch { most: usize::MAX, ..Batch::new(size) }
    }

    /// None.
    pub fn clear(&mut self) {
        self.records.clear();
        self.places.clear();
        self.left_out = 0;
    }

    /// Whether no more are to come.
    pub fn is_full(&self) -> bool {
        self.places.len() == self.most
    }

    /// One more, zeroed, from a place of the text.
    #[inline]
    pub fn begin(&mut self, place: usize) -> &mut [u8] {
        let start = self.records.len();
        self.places.push(place as u32);
        self.records.resize(start + self.size, 0);
        &mut self.records[start..]
    }

    /// The last one is none.
    fn undo(&mut self) {
        self.places.pop();
        self.records.truncate(self.places.len() * self.size);
    }
}

/// What a reader is to do: a text, from a place on, into a batch, until that is full or the text ends.
pub struct Fill<'a> {
    /// The text, and behind it room for a look too far.
    pub text: &'a mut [u8],
    /// How many bytes are text.
    pub len: usize,
    /// Where the next record begins.
    pub from: usize,
    /// Where the records go.
    pub batch: &'a mut Batch,
    /// A record with something wrong is kept, with NULL for what is wrong.
    pub keep: bool,
    /// Hears of each record with something wrong: the text, where the record begins in it, and what.
    pub bad: &'a mut dyn FnMut(&[u8], usize, &Trouble),
}

impl Fill<'_> {
    /// Whether the batch is full, or the text has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.batch.is_full() || self.from >= self.len
    }

    /// The last record has something wrong. It is left out, unless it is to be kept and can be.
    pub fn wrong(&mut self, start: usize, what: &Trouble, can: bool) {
        if self.keep && can {
            return (self.bad)(self.text, start, what);
        }
        self.batch.undo();
        self.batch.left_out += 1;
        (self.bad)(self.text, start, what);
    }
}

/// What is wrong with a record.
#[derive(Debug)]
pub enum Trouble {
    /// A field does not fit: the slot, and where its text lies.
    Field(usize, usize, usize),
    /// So many fields, and there are so many columns.
    Fields(usize, usize),
    /// A quote has no end.
    Open,
    /// Something stands behind the quote that ends a field.
    Behind,
    /// Something else.
    Other(String),
}

impl Trouble {
    /// To people.
    pub fn told(&self, text: &[u8], slots: &[Slot]) -> String {
        match self {
            Trouble::Field(slot, from, to) => {
                let Slot { name, kind, .. } = &slots[*slot];
                let kind = kind.to_string();
                if from == to && kind.ends_with('?') {
                    return format!(
                        "`{name}` is an empty text, \"\", and no {}: write nothing for NULL",
                        kind.trim_end_matches('?')
                    );
                }
                if from == to {
                    return format!("`{name}` is empty, and {kind} has no NULL: the schema may say {kind}?");
                }
                let (value, kind) = (&text[*from..*to], kind.trim_end_matches('?'));
                if slots[*slot].doubtful && kind == "str" {
                    let (name, value) = (written(name), shown(value));
                    return format!(
                        "`{name}` is `{value}`, and had no value where columns are guessed: the schema must say what it is, \
                         `{name}: f64` or `{name}: str`"
                    );
                }
                let far = if let Some(pattern) = &slots[*slot].pattern {
                    format!(" as `{}` has it", pattern.text())
                } else if kind == "time" && time::is_far(value) {
                    format!(": they are from {}", time::RANGE)
                } else {
                    String::new()
                };
                format!("`{name}` is `{}`, and no {kind}{far}", shown(value))
            }
            Trouble::Fields(has, wanted) => {
                format!("it has {has} field{}, and the first line {wanted}", if *has == 1 { "" } else { "s" })
            }
            Trouble::Open => "a quote is not closed".into(),
            Trouble::Behind => {
                "something stands behind the quote that ends a field: a quote within one is doubled".into()
            }
            Trouble::Other(what) => what.clone(),
        }
    }
}

/// A text of a file, as it may stand in a message.
pub fn shown(text: &[u8]) -> Cow<'_, str> {
    const MOST: usize = 40;
    let lossy = String::from_utf8_lossy(text);
    let is_short = lossy.chars().nth(MOST).is_none();
    if is_short && !lossy.contains(char::is_control) {
        return lossy;
    }
    let first = lossy.chars().take(MOST);
    let plain = first.map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() });
    (plain.collect::<String>() + if is_short { "" } else { "..." }).into()
}
