//! What columns are, from the first records.
//!
//! Whole numbers are `i64`, other numbers `f64`, `true` and `false` `bool`, all else text; any may be NULL. A number that begins with a zero
//! (a postal code) or does not fit `i64` is text: neither may lose a digit. What JSON quotes is text.

use crate::number;
use chappe_synth::{FieldType, Scalar};

/// What the values of a column have been so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Guess {
    /// There was none.
    #[default]
    Nothing,
    /// `true` and `false`.
    Bool,
    /// Whole numbers.
    Int,
    /// Numbers.
    Double,
    /// Something else.
    Text,
}

impl Guess {
    /// With one value more.
    #[must_use]
    pub fn and(self, value: &[u8]) -> Guess {
        let of = Guess::of(value);
        match (self, of) {
            (Guess::Nothing, of) => of,
            (a, b) if a == b => a,
            (Guess::Int | Guess::Double, Guess::Int | Guess::Double) => Guess::Double,
            _ => Guess::Text,
        }
    }

    fn of(value: &[u8]) -> Guess {
        let digits = value.strip_prefix(b"-").or_else(|| value.strip_prefix(b"+")).unwrap_or(value);
        match digits {
            b"true" | b"false" if digits.len() == value.len() => Guess::Bool,
            [b'0', b'0'..=b'9', ..] => Guess::Text,
            all if all.iter().all(u8::is_ascii_digit) => {
                if number::int(value).is_some() {
                    Guess::Int
                } else {
                    Guess::Text
                }
            }
            [b'0'..=b'9' | b'.', ..] if number::double(value).is_some() => Guess::Double,
            _ => Guess::Text,
        }
    }

    /// As a field of a record.
    pub fn field(self) -> FieldType {
        match self {
            Guess::Bool => FieldType::Maybe(Scalar::Bool),
            Guess::Int => FieldType::Maybe(Scalar::I64),
            Guess::Double => FieldType::Maybe(Scalar::F64),
            Guess::Nothing | Guess::Text => FieldType::Str,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_what_all_their_values_are() {
        let guess = |values: &[&str]| values.iter().fold(Guess::Nothing, |g, v| g.and(v.as_bytes()));
        assert_eq!(guess(&["1", "-20", "0"]), Guess::Int);
        assert_eq!(guess(&["1", "2.5"]), Guess::Double);
        assert_eq!((guess(&["1e3"]), guess(&[".5"]), guess(&["-0.5"])), (Guess::Double, Guess::Double, Guess::Double));
        assert_eq!((guess(&["true", "false"]), guess(&["true", "1"])), (Guess::Bool, Guess::Text));
        assert_eq!(
            (guess(&["01234"]), guess(&["9223372036854775808"]), guess(&["nan"])),
            (Guess::Text, Guess::Text, Guess::Text)
        );
        assert_eq!((guess(&["-"]), guess(&[]), guess(&["1", "x"])), (Guess::Text, Guess::Nothing, Guess::Text));
    }
}
