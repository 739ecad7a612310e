//! What columns are, from the first records.
//!
//! Whole numbers are `i64`, other numbers `f64`, `true` and `false` `bool`, all else text; any may be NULL. A number that begins with a zero
//! (a postal code) or does not fit `i64` is text: neither may lose a digit. `NaN`, `inf` and `-inf` are doubles, as those are written here. What JSON
//! quotes is text.

use crate::number;
use chappe_synth::{FieldType, Scalar};

/// What the values of a column have been so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Guess {
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
    fn and(self, of: Guess) -> Guess {
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
            _ if leads_with_zero(value) => Guess::Text,
            all if all.iter().all(u8::is_ascii_digit) => {
                if number::int(value).is_some() {
                    Guess::Int
                } else {
                    Guess::Text
                }
            }
            [b'0'..=b'9' | b'.', ..] if number::double(value).is_some() => Guess::Double,
            // As doubles are written here, and elsewhere.
            b"NaN" | b"inf" if value[0] != b'+' => Guess::Double,
            _ => Guess::Text,
        }
    }

    /// As a field of a record.
    fn field(self) -> FieldType {
        match self {
            Guess::Bool => FieldType::Maybe(Scalar::Bool),
            Guess::Int => FieldType::Maybe(Scalar::I64),
            Guess::Double => FieldType::Maybe(Scalar::F64),
            Guess::Nothing | Guess::Text => FieldType::Str,
        }
    }
}

/// Whether a value is digits with a zero before them, as of a postal code: as a number it has lost that.
#[inline]
pub fn leads_with_zero(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").or_else(|| value.strip_prefix(b"+")).unwrap_or(value);
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

/// Whether a value would be guessed to be a number.
pub fn is_number(value: &[u8]) -> bool {
    matches!(Guess::of(value), Guess::Int | Guess::Double)
}

/// What the first values of a column say.
#[derive(Clone, Debug, Default)]
pub struct Column {
    guess: Guess,
    /// Without those that are no numbers.
    numbers: Guess,
    count: u64,
    /// How many are no numbers, and the first of them.
    others: u64,
    other: Vec<u8>,
}

impl Column {
    /// One value more; a text, if it is `quoted` where only texts are.
    pub fn see(&mut self, value: &[u8], quoted: bool) {
        let of = if quoted { Guess::Text } else { Guess::of(value) };
        self.guess = self.guess.and(of);
        if let Guess::Int | Guess::Double = of {
            self.numbers = self.numbers.and(of);
            self.count += 1;
        } else {
            if self.others == 0 {
                self.other = value.to_vec();
            }
            self.others += 1;
        }
    }

    /// With what the first values of a further text say.
    pub fn and(&mut self, other: Column) {
        self.guess = self.guess.and(other.guess);
        self.numbers = self.numbers.and(other.numbers);
        (self.count, self.others) = (self.count + other.count, self.others + other.others);
        if self.other.is_empty() {
            self.other = other.other;
        }
    }

    /// Whether there was no value.
    pub fn is_empty(&self) -> bool {
        self.guess == Guess::Nothing
    }

    /// What it is.
    pub fn field(&self) -> FieldType {
        self.guess.field()
    }

    /// What it would be without a few values, and the first of those.
    pub fn spoilt(&self) -> Option<(Scalar, &[u8])> {
        let few = self.others > 0 && self.count >= 4 * self.others;
        match self.numbers.field() {
            FieldType::Maybe(kind) if few && self.guess == Guess::Text => Some((kind, &self.other)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_what_all_their_values_are() {
        let guess = |values: &[&str]| values.iter().fold(Guess::Nothing, |g, v| g.and(Guess::of(v.as_bytes())));
        assert_eq!(guess(&["1", "-20", "0"]), Guess::Int);
        assert_eq!(guess(&["1", "2.5"]), Guess::Double);
        assert_eq!((guess(&["1e3"]), guess(&[".5"]), guess(&["-0.5"])), (Guess::Double, Guess::Double, Guess::Double));
        assert_eq!((guess(&["true", "false"]), guess(&["true", "1"])), (Guess::Bool, Guess::Text));
        assert_eq!(
            (guess(&["01234"]), guess(&["9223372036854775808"]), guess(&["nan"]), guess(&["1e400", "2.5"])),
            (Guess::Text, Guess::Text, Guess::Text, Guess::Text)
        );
        assert_eq!(
            (guess(&["1", "NaN"]), guess(&["-inf", "2"]), guess(&["inf", "x"])),
            (Guess::Double, Guess::Double, Guess::Text)
        );
        assert_eq!((guess(&["-"]), guess(&[]), guess(&["1", "x"])), (Guess::Text, Guess::Nothing, Guess::Text));
    }
}
