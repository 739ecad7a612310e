//! Where the members of an object lie, if its line is written as programs write it: names without escapes, not too deep. All else, whatever is wrong
//! with it, is left to `serde_json`, which takes three times as long; what is found here is what it would have found.

use crate::seps::{PAD, digits, same, special};

/// Values lie at most so deep in one another.
const DEEPEST: usize = 64;

/// A member's name as a line has it, with the blanks around it and the colon.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its first bytes, and zeros.
    head: [u8; 16],
    /// How many of them count, and which.
    len: usize,
    mask: u32,
    rest: Box<[u8]>,
}

/// A place in a text that has [`PAD`] bytes more behind it.
pub struct Plain<'a> {
    text: &'a [u8],
    /// The next byte.
    pub at: usize,
}

impl<'a> Plain<'a> {
    /// From a place on.
    pub fn new(text: &'a [u8], at: usize) -> Plain<'a> {
        Plain { text, at }
    }

    /// The next byte that is no blank, which stays the next one.
    #[inline]
    pub fn next(&mut self) -> u8 {
        while matches!(self.text[self.at], b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
        self.text[self.at]
    }

    /// Goes behind this byte, if it is the next one that is no blank.
    #[inline]
    pub fn take(&mut self, byte: u8) -> Option<()> {
        (self.next() == byte).then(|| self.at += 1)
    }

    /// A name, and the colon behind it. The next byte is that of its value.
    #[inline]
    pub fn name(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let from = self.at;
        let escaped = self.string()?;
        let name = &self.text[from..self.at - 1];
        self.take(b':')?;
        self.next();
        (!escaped).then_some(name)
    }

    /// The name between a place and the value that is next, to know it again; none: it is too long.
    pub fn written(&self, from: usize) -> Option<Written> {
        /// Longer names are rare.
        const MOST: usize = 256;
        let bytes = self.text.get(from..self.at).filter(|bytes| bytes.len() <= MOST)?;
        let (head, rest) = bytes.split_at(bytes.len().min(16));
        let mut written =
            Written { head: [0; 16], len: head.len(), mask: u32::MAX >> (32 - head.len()), rest: rest.into() };
        written.head[..head.len()].copy_from_slice(head);
        Some(written)
    }

    /// Goes behind a name that is written as another one was, if that is next. The next byte is that of its value.
    #[inline]
    pub fn goes_behind(&mut self, written: &Written) -> bool {
        let Some(Ok(next)) = self.text.get(self.at..self.at + 16).map(<&[u8; 16]>::try_from) else { return false };
        if same(next, &written.head) & written.mask != written.mask {
            return false;
        }
        let head = self.at + written.len;
        let behind = head + written.rest.len();
        if !written.rest.is_empty() && self.text.get(head..behind) != Some(&written.rest) {
            return false;
        }
        self.at = behind;
        self.next();
        true
    }

    /// Goes behind a value whose first byte is the next one.
    #[inline]
    pub fn value(&mut self, depth: usize) -> Option<()> {
        match self.text[self.at] {
            b'"' => {
                self.at += 1;
                self.string().map(|_| ())
            }
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'{' if depth < DEEPEST => self.members(depth + 1),
            b'[' if depth < DEEPEST => self.elements(depth + 1),
            _ => None,
        }
    }

    fn members(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.name()?;
            self.value(depth)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn elements(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.next();
            self.value(depth)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_it = self.text[self.at..].starts_with(word);
        self.at += word.len();
        is_it.then_some(())
    }

    /// Goes behind the quote that ends a string. Whether it has escapes.
    #[inline]
    fn string(&mut self) -> Option<bool> {
        // Most end within 16 bytes.
        let found = special(self.text, self.at)?;
        let end = self.at + found.trailing_zeros() as usize;
        if found != 0 && self.text[end] == b'"' {
            self.at = end + 1;
            return Some(false);
        }
        self.long_string()
    }

    fn long_string(&mut self) -> Option<bool> {
        let mut escaped = false;
        loop {
            let found = loop {
                match special(self.text, self.at)? {
                    0 => self.at += 16,
                    found => break found,
                }
            };
            self.at += found.trailing_zeros() as usize;
            match self.text[self.at] {
                b'"' => {
                    self.at += 1;
                    return Some(escaped);
                }
                b'\\' => match self.text[self.at + 1] {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                    b'u' if self.text[self.at + 2..self.at + 6].iter().all(u8::is_ascii_hexdigit) => self.at += 6,
                    _ => return None,
                },
                _ => return None,
            }
            escaped = true;
        }
    }

    #[inline]
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.text[self.at].is_ascii_digit() {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    /// Goes behind a number. Most have no exponent, and at most 15 characters behind the sign.
    #[inline]
    fn number(&mut self) -> Option<()> {
        let from = self.at + usize::from(self.text[self.at] == b'-');
        let others = !digits(self.text, from)?;
        let whole = others.trailing_zeros();
        let point = from + whole as usize;
        let part = (others >> whole >> 1).trailing_zeros();
        let end = if self.text[point] == b'.' { point + 1 + part as usize } else { point };
        let is_whole = whole > 0 && (whole == 1 || self.text[from] != b'0');
        let is_short = end < from + 16 && (end == point || part > 0);
        if is_whole && is_short && !matches!(self.text[end], b'e' | b'E' | b'.') {
            self.at = end;
            return Some(());
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<()> {
        self.at += usize::from(self.text[self.at] == b'-');
        if self.text[self.at] == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text[self.at] == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.text[self.at], b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.text[self.at], b'+' | b'-'));
            self.digits()?;
        }
        Some(())
    }
}

const _: () = assert!(PAD >= 16, "a look at a line's last byte stays in the text");
