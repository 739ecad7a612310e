//! Which line of a text a place is on.
//!
//! A text of JSON is written where it lies, without its escapes, once it is read: what was `\n` is a line end then. So where there are escapes, line ends are
//! counted as they were before.

use crate::format::Reader;
use memchr::{memchr, memchr_iter};

/// Counts the line ends before places, each behind the last one.
#[derive(Debug)]
pub struct LineEnds {
    before: Option<Vec<u8>>,
    at: usize,
    count: u64,
}

impl LineEnds {
    /// Of a text that is not read yet.
    pub fn new(reader: &Reader, text: &[u8]) -> LineEnds {
        let changes = matches!(reader, Reader::Json(_)) && memchr(b'\\', text).is_some();
        LineEnds { before: changes.then(|| text.to_vec()), at: 0, count: 0 }
    }

    /// How many are before a place of the text.
    pub fn before(&mut self, text: &[u8], place: usize) -> u64 {
        if place < self.at {
            (self.at, self.count) = (0, 0);
        }
        let text = self.before.as_deref().unwrap_or(text);
        self.count += memchr_iter(b'\n', &text[self.at..place]).count() as u64;
        self.at = place;
        self.count
    }
}
