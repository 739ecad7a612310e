//! What each operation means, as bits: the one place that says so, for the reference, the folding of constants, the closures and the
//! loops over blocks. Machine code is held against it.

use crate::ops::{Bin, TextTest, Un};
use crate::schema::Scalar;

/// What leaves a program: the one NaN instead of any.
#[inline(always)]
pub fn settled(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
}

/// One operand: bits to bits.
#[inline(always)]
pub fn unary(op: Un, a: u64) -> u64 {
    match op {
        Un::NegWord => a.wrapping_neg(),
        Un::NotWord => !a,
        Un::NegDouble => (-f64::from_bits(a)).to_bits(),
        Un::Not => a ^ 1,
        Un::IntToDouble => (a as i64 as f64).to_bits(),
        Un::UintToDouble => (a as f64).to_bits(),
        Un::DoubleToInt => f64::from_bits(a) as i64 as u64,
        Un::DoubleToUint => f64::from_bits(a) as u64,
        Un::BoolToWord => a,
    }
}

/// Two operands: bits to bits.
#[inline(always)]
pub fn binary(op: Bin, a: u64, b: u64) -> u64 {
    let (s, t) = (a as i64, b as i64);
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    match op {
        Bin::Add => a.wrapping_add(b),
        Bin::Sub => a.wrapping_sub(b),
        Bin::Mul => a.wrapping_mul(b),
        Bin::DivS => {
            if t == 0 {
                0
            } else {
                s.wrapping_div(t) as u64
            }
        }
        Bin::DivU => a.checked_div(b).unwrap_or(0),
        Bin::RemS => {
            if t == 0 {
                a
            } else {
                s.wrapping_rem(t) as u64
            }
        }
        Bin::RemU => a.checked_rem(b).unwrap_or(a),
        Bin::AndWord => a & b,
        Bin::OrWord => a | b,
        Bin::XorWord => a ^ b,
        Bin::Shl => a.wrapping_shl(b as u32),
        Bin::ShrU => a.wrapping_shr(b as u32),
        Bin::AddDouble => (x + y).to_bits(),
        Bin::SubDouble => (x - y).to_bits(),
        Bin::MulDouble => (x * y).to_bits(),
        Bin::DivDouble => (x / y).to_bits(),
        Bin::Eq => u64::from(a == b),
        Bin::Ne => u64::from(a != b),
        Bin::LtS => u64::from(s < t),
        Bin::LeS => u64::from(s <= t),
        Bin::LtU => u64::from(a < b),
        Bin::LeU => u64::from(a <= b),
        Bin::EqDouble => u64::from(x == y),
        Bin::NeDouble => u64::from(x != y),
        Bin::LtDouble => u64::from(x < y),
        Bin::LeDouble => u64::from(x <= y),
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
    }
}

/// A number of a record, as 64 bits.
///
/// # Panics
/// When it lies outside.
#[inline(always)]
pub fn load(record: &[u8], at: u32, kind: Scalar) -> u64 {
    let at = at as usize;
    macro_rules! read {
        ($t:ty) => {{
            let bytes = &record[at..at + size_of::<$t>()];
            <$t>::from_le_bytes(bytes.try_into().expect("as long as asked for"))
        }};
    }
    match kind {
        Scalar::Bool => u64::from(record[at] != 0),
        Scalar::I8 => read!(i8) as i64 as u64,
        Scalar::I16 => read!(i16) as i64 as u64,
        Scalar::I32 => read!(i32) as i64 as u64,
        Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::Time => read!(u64),
        Scalar::U8 => u64::from(read!(u8)),
        Scalar::U16 => u64::from(read!(u16)),
        Scalar::U32 => u64::from(read!(u32)),
        Scalar::F32 => f64::from(read!(f32)).to_bits(),
    }
}

/// What stands for no text.
pub const NO_TEXT: u64 = (u32::MAX as u64) << 32;

/// A text of any length: its place is in the low 32 bits, its length in the high ones. One that lies outside, or is none, is empty.
#[inline]
pub fn text_of(word: u64, texts: &[u8]) -> &[u8] {
    let (at, len) = (word as u32 as usize, (word >> 32) as usize);
    at.checked_add(len).and_then(|end| texts.get(at..end)).unwrap_or(&[])
}

/// A test of two texts. By order, bytes are compared: that is the order of characters.
#[inline]
pub fn text_test(test: TextTest, a: &[u8], b: &[u8]) -> bool {
    match test {
        TextTest::Is => a == b,
        TextTest::Less => a < b,
        TextTest::LessEqual => a <= b,
        TextTest::Greater => a > b,
        TextTest::GreaterEqual => a >= b,
        TextTest::Begins => a.starts_with(b),
        TextTest::Ends => a.ends_with(b),
        TextTest::Contains => b.is_empty() || a.windows(b.len()).any(|part| part == b),
    }
}

/// Whether a text of a record, which ends at its first zero byte, is (or begins with) a pattern. A pattern with a zero byte
/// in it is no text, and never fits.
#[inline]
pub fn matches(field: &[u8], prefix: bool, pattern: &[u8]) -> bool {
    let fits = pattern.len() <= field.len() && field[..pattern.len()] == *pattern && !pattern.contains(&0);
    fits && (prefix || field.get(pattern.len()).is_none_or(|next| *next == 0))
}
