//! Records that have been read, and what is wrong with those that could not be.

use crate::place::Slot;
use std::borrow::Cow;

/// How many records are handed on at once: they stay in the nearest caches.
pub const BATCH: usize = 1024;

/// Records, one behind the other, and where each begins in the text.
#[derive(Debug, Default)]
pub struct Batch {
    size: usize,
    /// The records.
    pub records: Vec<u8>,
    /// The place of each in the text.
    pub places: Vec<u32>,
}

impl Batch {
    /// For records of so many bytes.
    pub fn new(size: usize) -> Batch {
        Batch { size, ..Batch::default() }
    }

    /// None.
    pub fn clear(&mut self) {
        self.records.clear();
        self.places.clear();
    }

    /// Whether no more are to come.
    pub fn is_full(&self) -> bool {
        self.places.len() == BATCH
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
    pub fn undo(&mut self) {
        self.places.pop();
        self.records.truncate(self.places.len() * self.size);
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
                if from == to {
                    return format!("`{name}` is empty, and {kind} has no NULL: the schema may say {kind}?");
                }
                format!("`{name}` is `{}`, and no {}", shown(&text[*from..*to]), kind.trim_end_matches('?'))
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
    if lossy.chars().count() <= MOST && !lossy.contains(char::is_control) {
        return lossy;
    }
    let plain: String = lossy.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST).collect();
    format!("{plain}...").into()
}
