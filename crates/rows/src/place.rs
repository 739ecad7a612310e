//! Fields of text into their places of a record.

use crate::infer::{is_number, leads_with_zero};
use crate::number;
use chappe_synth::ir::NO_TEXT;
use chappe_synth::{FieldType, Scalar, Schema, TimePattern, time};

/// A column that is read: which one, and where its value goes.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its number in the text, where columns have numbers.
    pub column: usize,
    /// Its name.
    pub name: String,
    /// The first byte in the record.
    pub at: usize,
    /// What goes there.
    pub kind: FieldType,
    /// How a time is written, where that is said.
    pub pattern: Option<TimePattern>,
    /// It is a text as nobody has said, or could see, what it is: a number that comes is no text.
    pub doubtful: bool,
    /// Nobody has said what it is: a number that would lose a digit is none.
    pub guessed: bool,
}

/// The slots of a schema whose fields are columns of these names, by their order in the text. A name that no column has is answered.
///
/// # Errors
/// The name.
pub fn slots(schema: &Schema, columns: &[String]) -> Result<Vec<Slot>, String> {
    let slot = |f: &chappe_synth::Field| {
        let column = columns.iter().position(|c| *c == f.name).ok_or_else(|| f.name.clone())?;
        Ok(Slot {
            column,
            name: f.name.clone(),
            at: f.at as usize,
            kind: f.kind,
            pattern: None,
            doubtful: false,
            guessed: false,
        })
    };
    let mut slots: Vec<Slot> = schema.fields().iter().map(slot).collect::<Result<_, String>>()?;
    slots.sort_by_key(|s| s.column);
    Ok(slots)
}

/// Whether each of these can say that it has no value.
pub fn may_be_null(slots: &[Slot]) -> bool {
    slots.iter().all(|s| !matches!(s.kind, FieldType::Scalar(_)))
}

/// Says in a record that none of these has a value. Whether each can say so.
pub fn none(slots: &[Slot], record: &mut [u8]) -> bool {
    record.fill(0);
    slots.iter().fold(true, |all, slot| all & slot.none(record))
}

impl Slot {
    /// Says in a record that there is no value. Whether that can be said.
    #[inline]
    pub fn none(&self, record: &mut [u8]) -> bool {
        match self.kind {
            // The record was zeroed.
            FieldType::Maybe(_) => true,
            FieldType::Str => {
                record[self.at..self.at + 8].copy_from_slice(&NO_TEXT.to_le_bytes());
                true
            }
            FieldType::Text(_) => true,
            FieldType::Scalar(_) => false,
        }
    }

    /// Puts the text between two places into a record. Whether it fits.
    #[inline]
    pub fn put(&self, text: &[u8], from: usize, to: usize, record: &mut [u8]) -> bool {
        let value = &text[from..to];
        match self.kind {
            FieldType::Maybe(_) if self.guessed && leads_with_zero(value) => false,
            FieldType::Str if self.doubtful && is_number(value) => false,
            FieldType::Str => self.put_text(from, to, record),
            FieldType::Maybe(Scalar::F64) => match number::double(value) {
                Some(n) => {
                    record[self.at..self.at + 8].copy_from_slice(&n.to_le_bytes());
                    record[self.at + 8] = 1;
                    true
                }
                None => self.put_slowly(value, record),
            },
            FieldType::Maybe(Scalar::I64) => match number::int(value) {
                Some(n) => {
                    record[self.at..self.at + 8].copy_from_slice(&n.to_le_bytes());
                    record[self.at + 8] = 1;
                    true
                }
                None => self.put_slowly(value, record),
            },
            _ => self.put_slowly(value, record),
        }
    }

    /// Puts the text between two places into a record, which is no number whatever stands in it. Whether it is to be a text.
    #[inline]
    pub fn put_text(&self, from: usize, to: usize, record: &mut [u8]) -> bool {
        let word = ((to - from) as u64) << 32 | from as u64;
        if self.kind == FieldType::Str {
            record[self.at..self.at + 8].copy_from_slice(&word.to_le_bytes());
        }
        self.kind == FieldType::Str
    }

    #[inline(never)]
    fn put_slowly(&self, value: &[u8], record: &mut [u8]) -> bool {
        match self.kind {
            FieldType::Text(width) => {
                let fits = value.len() <= width as usize && !value.contains(&0);
                if fits {
                    record[self.at..self.at + value.len()].copy_from_slice(value);
                }
                fits
            }
            FieldType::Scalar(scalar) => self.scalar_into(scalar, value.trim_ascii(), &mut record[self.at..]),
            FieldType::Maybe(scalar) => {
                let fits = self.scalar_into(scalar, value.trim_ascii(), &mut record[self.at..]);
                record[self.at + scalar.width() as usize] = u8::from(fits);
                fits
            }
            FieldType::Str => false,
        }
    }
}

impl Slot {
    fn scalar_into(&self, scalar: Scalar, value: &[u8], place: &mut [u8]) -> bool {
        let width = scalar.width() as usize;
        let word = match scalar {
            Scalar::Bool => match value {
                b"true" | b"1" => Some(1),
                b"false" | b"0" => Some(0),
                _ => None,
            },
            Scalar::Time => {
                let time = self.pattern.as_ref().map_or_else(|| time::parse(value), |pattern| pattern.time(value));
                time.map(i64::cast_unsigned)
            }
            Scalar::F64 => number::double(value).map(f64::to_bits),
            Scalar::F32 => {
                let number = std::str::from_utf8(value).ok().and_then(|t| t.parse::<f32>().ok());
                // As of doubles: infinity has no digit.
                number.filter(|n| n.is_finite() || !value.iter().any(u8::is_ascii_digit)).map(|n| n.to_bits().into())
            }
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => {
                number::uint(value).filter(|n| width == 8 || n >> (8 * width) == 0)
            }
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
                let spare = 64 - 8 * width as u32;
                number::int(value).filter(|n| n << spare >> spare == *n).map(i64::cast_unsigned)
            }
        };
        if let Some(word) = word {
            place[..width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
        word.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kind: FieldType, text: &str) -> Option<Vec<u8>> {
        let slot = Slot { column: 0, name: "x".into(), at: 1, kind, pattern: None, doubtful: false, guessed: false };
        let mut record = vec![0; 1 + kind.width() as usize];
        slot.put(text.as_bytes(), 0, text.len(), &mut record).then(|| record.split_off(1))
    }

    #[test]
    fn a_text_that_does_not_fit_a_field_is_refused() {
        let scalar = |s: Scalar, text: &str| put(FieldType::Scalar(s), text);
        assert_eq!(scalar(Scalar::I8, "-128"), Some(vec![0x80]));
        assert_eq!(
            (scalar(Scalar::I8, "128"), scalar(Scalar::U8, "256"), scalar(Scalar::U8, "-1")),
            (None, None, None)
        );
        assert_eq!(scalar(Scalar::U16, " 256 "), Some(vec![0, 1]));
        assert_eq!(scalar(Scalar::U64, "18446744073709551615"), Some(vec![255; 8]));
        assert_eq!(scalar(Scalar::F32, "0.5"), Some(0.5f32.to_le_bytes().to_vec()));
        assert_eq!((scalar(Scalar::F32, "1e39"), scalar(Scalar::F64, "1e400")), (None, None));
        assert_eq!(scalar(Scalar::F32, "inf"), Some(f32::INFINITY.to_le_bytes().to_vec()));
        assert_eq!((scalar(Scalar::Bool, "true"), scalar(Scalar::Bool, "yes")), (Some(vec![1]), None));
        let there = |n: i64| [&n.to_le_bytes()[..], &[1]].concat();
        assert_eq!(put(FieldType::Maybe(Scalar::I64), "7"), Some(there(7)));
        assert_eq!(put(FieldType::Maybe(Scalar::I64), " 7"), Some(there(7)));
        assert_eq!(put(FieldType::Maybe(Scalar::I64), "7.5"), None);
        assert_eq!((put(FieldType::Text(2), "ab"), put(FieldType::Text(2), "abc")), (Some(b"ab".to_vec()), None));
        assert_eq!(put(FieldType::Str, "abc"), Some([0, 0, 0, 0, 3, 0, 0, 0].to_vec()));
    }
}
