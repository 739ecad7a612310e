//! Where the members of an object lie, if its line is written as programs write it: names without escapes, not too deep. All else, whatever is wrong
//! with it, is left to `serde_json`, which takes three times as long; what is found here is what it would have found.

use crate::seps::PAD;

/// Values lie at most so deep in one another.
const DEEPEST: usize = 64;

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
        let mut escaped = false;
        loop {
            self.at += special(self.text, self.at)?;
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

    #[inline]
    fn number(&mut self) -> Option<()> {
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

/// How far it is to the next byte that a string cannot have as it is: a quote, a backslash, a control character. A line end is one, and each line
/// has one; none: there is none before the text's last bytes.
#[cfg(target_arch = "x86_64")]
#[inline]
fn special(text: &[u8], from: usize) -> Option<usize> {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut at = from;
    loop {
        let block: &[u8; 16] = text.get(at..at + 16)?.try_into().ok()?;
        // SAFETY: every x86-64 processor has SSE2. 16 bytes are there, and the load takes any alignment.
        let found = unsafe {
            let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
            let [quote, back] = [b'"', b'\\'].map(|b| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b.cast_signed())));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, back), control))
        };
        if found != 0 {
            return Some(at - from + found.trailing_zeros() as usize);
        }
        at += 16;
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn special(text: &[u8], from: usize) -> Option<usize> {
    text[from..].iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))
}

const _: () = assert!(PAD >= 16, "a look at a line's last byte stays in the text");
