//! Where fields and lines end: 64 bytes at a time, as a word with a bit for each separator.

use memchr::memchr;

/// Bytes behind the text that a look may read: a block begins at any byte of it.
pub const PAD: usize = 64;

/// The separators of a text, from some place on.
pub struct Seps {
    delimiter: u8,
    /// Where the block begins whose separators are in `mask`.
    base: usize,
    mask: u64,
}

impl Seps {
    /// From a place on. The text has [`PAD`] bytes more behind it.
    #[inline]
    pub fn new(delimiter: u8, text: &[u8], from: usize) -> Seps {
        Seps { delimiter, base: from, mask: mask(text, from, delimiter) }
    }

    /// The place of the next separator. There must be one: a text ends with a line end.
    #[inline]
    pub fn next(&mut self, text: &[u8]) -> usize {
        while self.mask == 0 {
            self.base += 64;
            self.mask = mask(text, self.base, self.delimiter);
        }
        let at = self.base + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        at
    }

    /// Goes on at a later place.
    #[inline]
    pub fn skip_to(&mut self, text: &[u8], place: usize) {
        let ahead = place - self.base;
        if ahead < 64 {
            self.mask &= u64::MAX << ahead;
        } else {
            *self = Seps::new(self.delimiter, text, place);
        }
    }
}

/// Where a byte first stands between two places of a text that has [`PAD`] bytes more behind it. Fields are short: most end within the first 16 bytes,
/// nearly all within 64, which are looked at without a call.
#[inline]
pub fn find(text: &[u8], from: usize, to: usize, byte: u8) -> Option<usize> {
    for block in [from, from + 16, from + 32, from + 48] {
        if block >= to {
            return None;
        }
        let found = equal(text, block, byte);
        if found != 0 {
            let at = block + found.trailing_zeros() as usize;
            return (at < to).then_some(at);
        }
    }
    let rest = text.get(from + 64..to)?;
    memchr(byte, rest).map(|at| from + 64 + at)
}

/// Which of the 64 bytes from a place on are this one.
#[inline]
pub fn places(text: &[u8], from: usize, byte: u8) -> u64 {
    let block = &text[from..from + 64];
    (0..4).fold(0, |all, part| all | u64::from(equal(block, 16 * part, byte)) << (16 * part))
}

/// Which of the 16 bytes from a place on are this one.
#[cfg(target_arch = "x86_64")]
#[inline]
fn equal(text: &[u8], from: usize, byte: u8) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let block: &[u8; 16] = text[from..from + 16].try_into().expect("16 bytes");
    // SAFETY: every x86-64 processor has SSE2. 16 bytes are there, and the load takes any alignment.
    let found = unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed())))
    };
    found.cast_unsigned()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn equal(text: &[u8], from: usize, byte: u8) -> u32 {
    text[from..from + 16].iter().rev().fold(0, |found, b| found << 1 | u32::from(*b == byte))
}

/// Which of the 16 bytes from a place on a JSON string cannot have as they are: quotes, backslashes, control characters. None: the text ends there.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn special(text: &[u8], from: usize) -> Option<u32> {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let block: &[u8; 16] = text.get(from..from + 16)?.try_into().ok()?;
    // SAFETY: every x86-64 processor has SSE2. 16 bytes are there, and the load takes any alignment.
    let found = unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
        let [quote, back] = [b'"', b'\\'].map(|b| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b.cast_signed())));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, back), control))
    };
    Some(found.cast_unsigned())
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn special(text: &[u8], from: usize) -> Option<u32> {
    Some(bits(text.get(from..from + 16)?, |b| matches!(b, b'"' | b'\\' | 0..=0x1f)))
}

/// Which of the 16 bytes from a place on are digits. None: the text ends there.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn digits(text: &[u8], from: usize) -> Option<u32> {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8, _mm_sub_epi8,
    };
    let block: &[u8; 16] = text.get(from..from + 16)?.try_into().ok()?;
    // SAFETY: every x86-64 processor has SSE2. 16 bytes are there, and the load takes any alignment.
    let found = unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
        let values = _mm_sub_epi8(bytes, _mm_set1_epi8(b'0'.cast_signed()));
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values))
    };
    Some(found.cast_unsigned())
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn digits(text: &[u8], from: usize) -> Option<u32> {
    Some(bits(text.get(from..from + 16)?, |b| b.is_ascii_digit()))
}

/// Which bytes of two texts of 16 are the same.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn same(one: &[u8; 16], other: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};
    // SAFETY: every x86-64 processor has SSE2. 16 bytes are there, and the load takes any alignment.
    let found = unsafe {
        let [one, other] = [one, other].map(|block| _mm_loadu_si128(block.as_ptr().cast::<__m128i>()));
        _mm_movemask_epi8(_mm_cmpeq_epi8(one, other))
    };
    found.cast_unsigned()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn same(one: &[u8; 16], other: &[u8; 16]) -> u32 {
    one.iter().zip(other).rev().fold(0, |found, (a, b)| found << 1 | u32::from(a == b))
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn bits(block: &[u8], is_one: impl Fn(&u8) -> bool) -> u32 {
    block.iter().rev().fold(0, |found, b| found << 1 | u32::from(is_one(b)))
}

/// Which of the 64 bytes from a place on are the delimiter or a line end.
#[cfg(target_arch = "x86_64")]
#[inline]
fn mask(text: &[u8], from: usize, delimiter: u8) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    let block: &[u8; 64] = text[from..from + 64].try_into().expect("64 bytes");
    let mut mask = 0;
    for (part, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: every x86-64 processor has SSE2. 16 bytes are there, and the load takes any alignment.
        let found = unsafe {
            let (a, b) = (_mm_set1_epi8(delimiter.cast_signed()), _mm_set1_epi8(b'\n'.cast_signed()));
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, a), _mm_cmpeq_epi8(bytes, b)))
        };
        mask |= u64::from(found as u16) << (16 * part);
    }
    mask
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn mask(text: &[u8], from: usize, delimiter: u8) -> u64 {
    plain_mask(text, from, delimiter)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_mask(text: &[u8], from: usize, delimiter: u8) -> u64 {
    let block = &text[from..from + 64];
    block.iter().rev().fold(0, |mask, b| mask << 1 | u64::from(*b == delimiter || *b == b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_where_it_first_stands_on_its_line() {
        let mut text: Vec<u8> = (0..400u32).map(|n| b"aaaaaaaaaab] \""[(n * n / 7) as usize % 14]).collect();
        let len = text.len();
        text[230] = b'\n';
        text.resize(len + PAD, b'x');
        for (from, to) in (0..=len).flat_map(|from| [(from, 230), (from, len)]).filter(|(from, to)| from <= to) {
            // A line has no line end.
            if text[from..to].contains(&b'\n') {
                continue;
            }
            for byte in *b"b] \"z" {
                let plain = text[from..to].iter().position(|b| *b == byte).map(|at| from + at);
                assert_eq!(find(&text, from, to, byte), plain, "{byte} from {from} to {to}");
            }
        }
    }

    #[test]
    fn each_byte_has_its_kind_at_each_place_of_a_block() {
        let text: Vec<u8> = (0..=255).chain(0..=255).collect();
        for from in 0..256 {
            let block: &[u8; 16] = text[from..from + 16].try_into().expect("16 bytes");
            let is_special = |b: &u8| matches!(b, b'"' | b'\\' | 0..=0x1f);
            assert_eq!(special(&text, from), Some(bits(block, is_special)), "from {from}");
            assert_eq!(digits(&text, from), Some(bits(block, u8::is_ascii_digit)), "from {from}");
            let mut other = *block;
            other[from % 16] ^= 1;
            assert_eq!(same(block, &other), 0xffff ^ 1 << (from % 16));
        }
        assert_eq!((special(&text, 497), digits(&text, 497)), (None, None));
    }

    #[test]
    fn each_separator_is_found_once_from_any_place_on() {
        let mut text: Vec<u8> = (0..500u32).map(|n| b",\n;ab\"\xff\0"[(n * n / 3) as usize % 8]).collect();
        text.push(b'\n');
        let len = text.len();
        text.resize(len + PAD, 0);
        for from in 0..len {
            assert_eq!(mask(&text, from, b','), plain_mask(&text, from, b','));
            let plain: Vec<usize> = (from..len).filter(|at| matches!(text[*at], b',' | b'\n')).collect();
            let mut seps = Seps::new(b',', &text, from);
            let found: Vec<usize> = plain.iter().map(|_| seps.next(&text)).collect();
            assert_eq!(found, plain);
            let mut seps = Seps::new(b',', &text, from);
            let later = from + (len - from) / 2;
            seps.skip_to(&text, later);
            assert_eq!(Some(&seps.next(&text)), plain.iter().find(|at| **at >= later));
        }
    }
}
