//! The typed intermediate form that all engines take, its meaning, and the verifier.
//!
//! A [`Program`] is straight-line: an array of operations, each over values that stand before it. There are no jumps, no calls
//! and no stores among them; what is done with the values is said apart: the filter, the columns of the output, the
//! aggregates. So a program over one record ends after as many steps as it has operations.
//!
//! Values have three types: `Word` (64 bits, signed or not as the operation says), `Double`, `Bool`. All operations are
//! total:
//!
//! | operation | where others fail, this answers |
//! |---|---|
//! | `+ - *` and negation of words | the low 64 bits (wraps) |
//! | `a / 0` | 0 |
//! | `a % 0` | a |
//! | least int `/ -1`, `% -1` | least int, 0 |
//! | shifts | by the low 6 bits of the count |
//! | doubles | IEEE 754, round to nearest; NaN compares unequal to all, itself too |
//! | double to int or uint | towards 0, saturating; NaN is 0 |
//! | int to uint and back | the same bits |
//!
//! - I1: every operand of an operation stands before it, and has the type that the operation takes.
//! - I2: every load, and every text that is looked at, lies within the record: `at + width <= record`.
//! - I3: there are at most [`MAX_OPS`] operations, [`MAX_COLUMNS`] columns and [`MAX_AGGREGATES`] aggregates.
//! - I4: columns lie within an output row, none over another.
//!
//! [`Program::verify`] checks I1 to I4, and every engine demands a [`Verified`] program, which nothing else makes. The
//! value of a NaN's payload is no part of the meaning: what leaves a program is the one NaN that `f64::NAN` is, and a field
//! that is merely copied is copied as it is.

pub use crate::meaning::{NO_TEXT, binary, load, matches, settled, text_of, text_test, unary};
pub use crate::ops::{Bin, TextTest, Type, Un};
use crate::schema::Scalar;
use std::fmt;

/// The most operations of a program.
pub const MAX_OPS: usize = 1 << 14;
/// The most columns of an output row.
pub const MAX_COLUMNS: usize = 1024;
/// The most aggregates.
pub const MAX_AGGREGATES: usize = 64;
/// The most bytes of a text in an expression.
pub const MAX_TEXT: usize = 4096;

/// A value's number: that of the operation which makes it.
pub type Id = u32;

/// What a text of any length is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum With {
    /// A text that is written out, or a parameter.
    Pattern(Pattern),
    /// Another text of the record.
    Value(Id),
}

/// What a text of the record is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// One of the program's texts.
    Literal(u32),
    /// One of its parameters, which is a text.
    Param(u32),
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// 64 bits.
    Word(u64),
    /// The bits of a double: two NaNs are the same constant or are not.
    Double(u64),
    /// True or false.
    Bool(bool),
    /// A parameter that is no text.
    Param(u32, Type),
    /// A number or bool of the record, made 64 bits wide or a double.
    Load {
        /// Its first byte.
        at: u32,
        /// What lies there.
        kind: Scalar,
    },
    /// Whether a text of the record is, or begins with, another.
    Match {
        /// Its first byte.
        at: u32,
        /// How many it has at most.
        width: u32,
        /// Whether it need only begin so.
        prefix: bool,
        /// With what.
        pattern: Pattern,
    },
    /// A test of a text of any length, whose place and length are a word.
    Text {
        /// Which.
        test: TextTest,
        /// Of what.
        of: Id,
        /// Against what.
        with: With,
    },
    /// One operand.
    Un(Un, Id),
    /// Two operands.
    Bin(Bin, Id, Id),
    /// The second if the first is true, else the third.
    Select(Id, Id, Id),
}

impl Op {
    /// The operands.
    pub fn operands(&self) -> impl Iterator<Item = Id> + use<> {
        let of = match *self {
            Op::Un(_, a) => [Some(a), None, None],
            Op::Bin(_, a, b) => [Some(a), Some(b), None],
            Op::Text { of, with: With::Value(with), .. } => [Some(of), Some(with), None],
            Op::Text { of, .. } => [Some(of), None, None],
            Op::Select(a, b, c) => [Some(a), Some(b), Some(c)],
            _ => [None; 3],
        };
        of.into_iter().flatten()
    }

    /// The same operation over other operands.
    pub fn over(self, mut map: impl FnMut(Id) -> Id) -> Op {
        match self {
            Op::Un(op, a) => Op::Un(op, map(a)),
            Op::Bin(op, a, b) => Op::Bin(op, map(a), map(b)),
            Op::Select(a, b, c) => Op::Select(map(a), map(b), map(c)),
            Op::Text { test, of, with } => {
                let of = map(of);
                let with = if let With::Value(id) = with { With::Value(map(id)) } else { with };
                Op::Text { test, of, with }
            }
            other => other,
        }
    }
}

/// What a parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is named as the type of expressions")]
pub enum Kind {
    Int,
    Uint,
    Double,
    Bool,
    Text,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Int => "int",
            Kind::Uint => "uint",
            Kind::Double => "double",
            Kind::Bool => "bool",
            Kind::Text => "string",
        })
    }
}

/// A parameter's value, or a result's.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "each is named as the type of expressions")]
pub enum Value {
    Int(i64),
    Uint(u64),
    Double(f64),
    Bool(bool),
    Text(Vec<u8>),
}

impl Value {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Int(_) => Kind::Int,
            Value::Uint(_) => Kind::Uint,
            Value::Double(_) => Kind::Double,
            Value::Bool(_) => Kind::Bool,
            Value::Text(_) => Kind::Text,
        }
    }

    /// Its 64 bits, as values are kept while a program runs. A text has none.
    pub fn bits(&self) -> u64 {
        match self {
            Value::Int(n) => *n as u64,
            Value::Uint(n) => *n,
            Value::Double(d) => d.to_bits(),
            Value::Bool(b) => u64::from(*b),
            Value::Text(_) => 0,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Uint(n) => write!(f, "{n}"),
            Value::Double(d) => write!(f, "{d:?}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Text(t) => write!(f, "{}", String::from_utf8_lossy(t)),
        }
    }
}

/// What a column of the output is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// So many bytes of the record, as they are.
    Copy {
        /// The first one.
        from: u32,
        /// How many.
        width: u32,
    },
    /// A value: 8 bytes, or 1 for a bool.
    Value(Id),
}

/// A column of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its first byte in the row.
    pub at: u32,
    /// What it is made of.
    pub source: Source,
}

/// What is made of a value of many records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as what it does")]
pub enum Fold {
    Count,
    MinS,
    MinU,
    MinDouble,
    MaxS,
    MaxU,
    MaxDouble,
    Last,
}

impl Fold {
    /// All of them.
    pub const ALL: [Fold; 8] =
        [Fold::Count, Fold::MinS, Fold::MinU, Fold::MinDouble, Fold::MaxS, Fold::MaxU, Fold::MaxDouble, Fold::Last];

    /// What the state is before the first record.
    pub fn start(self) -> u64 {
        match self {
            Fold::Count | Fold::Last | Fold::MaxU => 0,
            Fold::MinS => i64::MAX as u64,
            Fold::MinU => u64::MAX,
            Fold::MinDouble => f64::INFINITY.to_bits(),
            Fold::MaxS => i64::MIN as u64,
            Fold::MaxDouble => f64::NEG_INFINITY.to_bits(),
        }
    }

    /// The state after one more value. A NaN is never the least nor the greatest; of equal ones the first stays.
    #[inline(always)]
    pub fn step(self, state: u64, value: u64) -> u64 {
        let (s, v) = (f64::from_bits(state), f64::from_bits(value));
        match self {
            Fold::Count => state.wrapping_add(1),
            Fold::MinS => (state as i64).min(value as i64) as u64,
            Fold::MinU => state.min(value),
            Fold::MinDouble => {
                if v < s {
                    value
                } else {
                    state
                }
            }
            Fold::MaxS => (state as i64).max(value as i64) as u64,
            Fold::MaxU => state.max(value),
            Fold::MaxDouble => {
                if s < v {
                    value
                } else {
                    state
                }
            }
            Fold::Last => value,
        }
    }

    /// What its value must be; `None`: it has none, or takes any.
    pub fn takes(self) -> Option<Type> {
        match self {
            Fold::Count | Fold::Last => None,
            Fold::MinDouble | Fold::MaxDouble => Some(Type::Double),
            _ => Some(Type::Word),
        }
    }
}

/// An aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregate {
    /// How.
    pub fold: Fold,
    /// Over what; a count has none.
    pub value: Option<Id>,
}

/// What is computed for each record, and what is done with it.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Program {
    /// Bytes of a record.
    pub record: u32,
    /// The operations.
    pub ops: Vec<Op>,
    /// Texts that the record's are compared with.
    pub texts: Vec<Vec<u8>>,
    /// What the parameters are.
    pub params: Vec<Kind>,
    /// Which records pass; none: all.
    pub filter: Option<Id>,
    /// What is written for each record that passes.
    pub columns: Vec<Column>,
    /// Bytes of an output row.
    pub row: u32,
    /// What is added up over the records that pass.
    pub aggregates: Vec<Aggregate>,
}

/// What is wrong with a program: never with one that was made from a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// An operand does not stand before its operation.
    #[error("operation {0} takes a value that does not stand before it")]
    Order(usize),
    /// An operand, or what is done with a value, has another type.
    #[error("operation {0} takes a value of another type")]
    Type(usize),
    /// A load, or a copy, leaves the record.
    #[error("operation {0} reads outside of the record")]
    Outside(usize),
    /// A text or parameter that is not there, or a text that is too long.
    #[error("operation {0} names a text or a parameter that is not there")]
    Unknown(usize),
    /// The filter, a column or an aggregate names no value, or one of another type.
    #[error("what is done with the values names one that is not there, or is of another type")]
    Use,
    /// Columns lie over each other, or outside of the row.
    #[error("columns lie over each other, or outside of the row")]
    Columns,
    /// There is more of something than there may be.
    #[error("the program is too large")]
    Size,
}

/// A program that holds I1 to I4.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified(Program);

impl std::ops::Deref for Verified {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

impl Program {
    /// What a value is. For operations that stand in order.
    pub fn type_of(&self, id: Id) -> Type {
        match self.ops[id as usize] {
            Op::Word(_) => Type::Word,
            Op::Double(_) => Type::Double,
            Op::Bool(_) | Op::Match { .. } | Op::Text { .. } => Type::Bool,
            Op::Param(_, t) => t,
            Op::Load { kind, .. } => load_type(kind),
            Op::Un(op, _) => op.types().1,
            Op::Bin(op, _, _) => op.types().1,
            Op::Select(_, a, _) => self.type_of(a),
        }
    }

    /// Checks I1 to I4.
    ///
    /// # Errors
    /// What does not hold.
    pub fn verify(self) -> Result<Verified, ProgramError> {
        let limits = self.ops.len() <= MAX_OPS
            && self.columns.len() <= MAX_COLUMNS
            && self.aggregates.len() <= MAX_AGGREGATES
            && self.record <= crate::schema::MAX_RECORD
            && self.row <= 8 * crate::schema::MAX_RECORD
            && self.texts.iter().all(|t| t.len() <= MAX_TEXT);
        if !limits {
            return Err(ProgramError::Size);
        }
        let mut types: Vec<Type> = Vec::with_capacity(self.ops.len());
        for (at, op) in self.ops.iter().enumerate() {
            types.push(self.check(at, op, &types)?);
        }
        let is = |id: Id, wanted: Type| types.get(id as usize) == Some(&wanted);
        if self.filter.is_some_and(|f| !is(f, Type::Bool)) {
            return Err(ProgramError::Use);
        }
        self.check_columns(&types)?;
        for a in &self.aggregates {
            let fits = match (a.fold, a.value) {
                (Fold::Count, None) => true,
                (Fold::Count, Some(_)) | (_, None) => false,
                (fold, Some(v)) => (v as usize) < types.len() && fold.takes().is_none_or(|t| is(v, t)),
            };
            if !fits {
                return Err(ProgramError::Use);
            }
        }
        Ok(Verified(self))
    }

    fn check(&self, at: usize, op: &Op, types: &[Type]) -> Result<Type, ProgramError> {
        if op.operands().any(|id| id as usize >= at) {
            return Err(ProgramError::Order(at));
        }
        let within = |from: u32, width: u32| from.checked_add(width).is_some_and(|end| end <= self.record);
        let known = |pattern: Pattern| match pattern {
            Pattern::Literal(n) => (n as usize) < self.texts.len(),
            Pattern::Param(n) => self.params.get(n as usize) == Some(&Kind::Text),
        };
        let expect = |id: Id, wanted: Type| {
            if types[id as usize] == wanted { Ok(()) } else { Err(ProgramError::Type(at)) }
        };
        match *op {
            Op::Word(_) => Ok(Type::Word),
            Op::Double(_) => Ok(Type::Double),
            Op::Bool(_) => Ok(Type::Bool),
            Op::Param(n, t) => match self.params.get(n as usize) {
                None | Some(Kind::Text) => Err(ProgramError::Unknown(at)),
                Some(kind) if kind_type(*kind) != Some(t) => Err(ProgramError::Type(at)),
                Some(_) => Ok(t),
            },
            Op::Load { at: from, kind } if within(from, kind.width()) => Ok(load_type(kind)),
            Op::Load { .. } => Err(ProgramError::Outside(at)),
            Op::Match { pattern, .. } if !known(pattern) => Err(ProgramError::Unknown(at)),
            Op::Match { at: from, width, .. } if within(from, width) => Ok(Type::Bool),
            Op::Match { .. } => Err(ProgramError::Outside(at)),
            Op::Text { of, with, .. } => {
                expect(of, Type::Word)?;
                match with {
                    With::Value(id) => expect(id, Type::Word)?,
                    With::Pattern(pattern) if !known(pattern) => return Err(ProgramError::Unknown(at)),
                    With::Pattern(_) => {}
                }
                Ok(Type::Bool)
            }
            Op::Un(op, a) => expect(a, op.types().0).map(|()| op.types().1),
            Op::Bin(op, a, b) => {
                expect(a, op.types().0)?;
                expect(b, op.types().0).map(|()| op.types().1)
            }
            Op::Select(c, a, b) => {
                expect(c, Type::Bool)?;
                expect(b, types[a as usize]).map(|()| types[a as usize])
            }
        }
    }

    fn check_columns(&self, types: &[Type]) -> Result<(), ProgramError> {
        let mut ranges = Vec::with_capacity(self.columns.len());
        for c in &self.columns {
            let width = match c.source {
                Source::Copy { from, width } => {
                    if from.checked_add(width).is_none_or(|end| end > self.record) {
                        return Err(ProgramError::Columns);
                    }
                    width
                }
                Source::Value(id) => match types.get(id as usize) {
                    None => return Err(ProgramError::Use),
                    Some(Type::Bool) => 1,
                    Some(_) => 8,
                },
            };
            let end = c.at.checked_add(width).filter(|end| *end <= self.row).ok_or(ProgramError::Columns)?;
            ranges.push((c.at, end));
        }
        ranges.sort_unstable();
        match ranges.windows(2).any(|two| two[0].1 > two[1].0) {
            true => Err(ProgramError::Columns),
            false => Ok(()),
        }
    }
}

/// What a number of a record becomes.
pub fn load_type(kind: Scalar) -> Type {
    match kind {
        Scalar::Bool => Type::Bool,
        Scalar::F32 | Scalar::F64 => Type::Double,
        _ => Type::Word,
    }
}

/// What a parameter is while a program runs; a text is no value.
pub fn kind_type(kind: Kind) -> Option<Type> {
    match kind {
        Kind::Int | Kind::Uint => Some(Type::Word),
        Kind::Double => Some(Type::Double),
        Kind::Bool => Some(Type::Bool),
        Kind::Text => None,
    }
}
