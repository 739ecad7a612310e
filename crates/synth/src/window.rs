//! Windows of a query: which of them a record is in, and when they end.
//!
//! ```text
//! every 1000                             by number: the records 0 to 999, 1000 to 1999, ...
//! every 10s                              by the clock of the machine, when records come
//! every 10000 on ts                      by a field: those of which `ts` is from 10000 k to 10000 k + 9999, whatever it counts
//! every 10000 on ts hop 2000             hopping: a window begins every 2000, and has 10000
//! every 10s on ts                        the same where `ts` is a `time`
//! every 10000 on ts late 3000            a window ends when `ts` has gone 3000 beyond it
//! ```
//!
//! All three are the same: a record has a time, windows begin at the multiples of the hop, and a window is `many` hops long. A window is known by the
//! number `k` of the hop at which it begins. The *mark* is the number of the hop that time has reached, less what records may be late by: a window
//! has ended when its last hop is below the mark.

use crate::ir::{Kind, load};
use crate::schema::{Field, FieldType, Scalar};

/// The most windows that a record may be in.
pub const MAX_WINDOWS: u64 = 1000;

/// What time is.
#[derive(Clone, PartialEq, Debug)]
pub enum By {
    /// The number of the record.
    Number,
    /// The machine's clock, in nanoseconds.
    Clock,
    /// A field of the record.
    Field(Field),
}

/// A length of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step {
    /// Of what has whole numbers.
    Whole(u64),
    /// Of a field of doubles.
    Double(Decimal),
}

/// A double as people write it: so many units of one part of a power of ten. A multiple of it is the double nearest to what people would write.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decimal {
    /// The double.
    pub value: f64,
    units: f64,
    parts: f64,
}

/// Doubles have all whole numbers up to here.
const EXACT: f64 = (1u64 << 53) as f64;
/// And all powers of ten up to this one.
const TENS: i32 = 22;

impl Decimal {
    /// Of a double that is finite, and not negative.
    pub fn new(value: f64) -> Decimal {
        let text = format!("{value:e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let places = digits.split_once('.').map_or(0, |(_, part)| part.len() as i32);
        let power: i32 = power.parse::<i32>().unwrap_or(0) - places;
        let units: f64 = digits.replace('.', "").parse().unwrap_or(value);
        if (-TENS..=0).contains(&power) {
            Decimal { value, units, parts: 10f64.powi(-power) }
        } else {
            Decimal { value, units: value, parts: 1.0 }
        }
    }

    fn times(self, many: f64) -> f64 {
        let units = many * self.units;
        // Both are exact, so one division rounds once.
        if units.abs() <= EXACT { units / self.parts } else { many * self.value }
    }

    /// The greatest multiple that is not above a time; none: doubles do not tell multiples there from each other.
    fn below(self, time: f64) -> Option<i128> {
        let mut many = (time / self.value).floor();
        if many.is_nan() || many.abs() >= EXACT {
            return None;
        }
        // The division rounds; what a window is named by decides.
        while self.times(many) > time {
            many -= 1.0;
        }
        while self.times(many + 1.0) <= time {
            many += 1.0;
        }
        Some(many as i128)
    }
}

/// The windows of a query.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// What time is.
    pub by: By,
    /// From the begin of a window to that of the next.
    pub hop: Step,
    /// How many hops a window has.
    pub many: u64,
    /// By so much time a record may be late.
    pub late: Step,
}

/// The hop that a record is in, and the mark behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The number of the hop.
    pub hop: i128,
    /// The number of the first hop whose windows go on.
    pub mark: i128,
}

impl Window {
    /// The place of a time in whole numbers.
    pub fn at(&self, time: i128) -> Place {
        let (Step::Whole(hop), Step::Whole(late)) = (self.hop, self.late) else { return Place { hop: 0, mark: 0 } };
        let (hop, late) = (i128::from(hop), i128::from(late));
        Place { hop: time.div_euclid(hop), mark: (time - late).div_euclid(hop) }
    }

    /// The place of a record by its field; none: it has no time.
    pub fn of(&self, field: &Field, record: &[u8]) -> Option<Place> {
        let scalar = match field.kind {
            FieldType::Maybe(scalar) if record[(field.at + scalar.width()) as usize] == 0 => return None,
            FieldType::Maybe(scalar) | FieldType::Scalar(scalar) => scalar,
            _ => return None,
        };
        let word = load(record, field.at, scalar);
        let (Step::Double(hop), Step::Double(late)) = (self.hop, self.late) else {
            return Some(self.at(if is_unsigned(scalar) { i128::from(word) } else { i128::from(word.cast_signed()) }));
        };
        let time = f64::from_bits(word);
        Some(Place { hop: hop.below(time)?, mark: hop.below(time - late.value)? })
    }

    fn is_unsigned(&self) -> bool {
        matches!(&self.by, By::Field(field) if matches!(field.kind, FieldType::Scalar(s) | FieldType::Maybe(s) if is_unsigned(s)))
    }

    /// The first hop that windows begin at: its column names none before it. The window with the least time of all is named by that.
    pub fn first(&self) -> i128 {
        match self.hop {
            Step::Whole(each) if !self.is_unsigned() => i128::from(i64::MIN).div_euclid(each.into()),
            Step::Whole(_) => 0,
            Step::Double(_) => i128::MIN,
        }
    }

    /// Where a window begins, as its column has it.
    pub fn start(&self, hop: i128) -> u64 {
        match self.hop {
            Step::Whole(each) => {
                let at = hop.saturating_mul(each.into());
                if self.is_unsigned() {
                    return at.clamp(0, u64::MAX.into()) as u64;
                }
                (at.clamp(i64::MIN.into(), i64::MAX.into()) as i64).cast_unsigned()
            }
            Step::Double(each) => each.times(hop as f64).to_bits(),
        }
    }

    /// What the column is that says where a window begins.
    pub fn column(&self) -> FieldType {
        FieldType::Scalar(match (&self.by, self.hop) {
            (_, Step::Double(_)) => Scalar::F64,
            (By::Clock, _) => Scalar::Time,
            (By::Field(field), _) if is_time(field.kind) => Scalar::Time,
            _ if self.is_unsigned() => Scalar::U64,
            _ => Scalar::I64,
        })
    }
}

fn is_unsigned(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
}

/// Whether a field is a time.
pub fn is_time(kind: FieldType) -> bool {
    matches!(kind, FieldType::Scalar(Scalar::Time) | FieldType::Maybe(Scalar::Time))
}

/// What kind of number a field is; none: it is none.
pub fn number(kind: FieldType) -> Option<Kind> {
    match kind {
        FieldType::Scalar(Scalar::Bool) | FieldType::Maybe(Scalar::Bool) | FieldType::Text(_) | FieldType::Str => None,
        FieldType::Scalar(Scalar::F32 | Scalar::F64) | FieldType::Maybe(Scalar::F32 | Scalar::F64) => {
            Some(Kind::Double)
        }
        _ => Some(Kind::Int),
    }
}
