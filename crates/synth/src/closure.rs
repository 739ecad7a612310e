//! The first engine: closures inside closures, made in a microsecond or two, for single records.
//!
//! Each operation becomes a closure over those of its operands; a comparison of a field with a constant, which is what most
//! predicates are made of, becomes one closure for its type and operator. `&&` and `||` stop at the first operand that decides,
//! which nothing can notice: operations have no effects and do not fail.
//!
//! A value that two operations use is computed twice. Where that would be too often (values shared at many levels double
//! the work with each), or the closures too deep for a stack, there are none: [`Closures::new`] answers `None` and the
//! caller interprets.

use crate::ir::{
    Bin, Fold, Id, Op, Pattern, Program, Source, Type, Un, Verified, binary, load, matches, settled, unary,
};
use crate::records::Records;
use crate::schema::Scalar;

/// A number of a record.
pub type Words = Box<dyn Fn(&[u8]) -> u64 + Send + Sync>;
/// A truth about a record.
pub type Bools = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// How deep closures may call each other: some 100 bytes of stack each, more in a debug build.
const DEEPEST: u32 = 512;
/// How many closures there may be for each operation.
const COPIES: u64 = 4;

enum Cell {
    Copy { at: usize, from: usize, width: usize },
    Bool { at: usize, value: Bools },
    Word { at: usize, value: Words },
    Double { at: usize, value: Words },
}

/// A program as closures.
pub struct Closures {
    record: usize,
    row: usize,
    filter: Option<Bools>,
    cells: Vec<Cell>,
    folds: Vec<(Fold, Option<Words>)>,
}

impl Closures {
    /// Makes them, unless that would be too many or too deep. The program must have no parameters.
    pub fn new(program: &Verified) -> Option<Closures> {
        // A closure sees a record, and no texts beside it.
        if program.ops.iter().any(|o| matches!(o, Op::Param(..) | Op::Text { .. })) {
            return None;
        }
        let (mut sizes, mut depths): (Vec<u64>, Vec<u32>) = (Vec::new(), Vec::new());
        for op in &program.ops {
            sizes.push(op.operands().fold(1u64, |n, id| n.saturating_add(sizes[id as usize])));
            depths.push(op.operands().map(|id| depths[id as usize] + 1).max().unwrap_or(0));
        }
        let values = program.columns.iter().filter_map(|c| match c.source {
            Source::Value(id) => Some(id),
            Source::Copy { .. } => None,
        });
        let roots = program.filter.into_iter().chain(values).chain(program.aggregates.iter().filter_map(|a| a.value));
        let total = roots.fold(0u64, |n, id| n.saturating_add(sizes[id as usize]));
        if total > COPIES * program.ops.len() as u64 + 64 || depths.iter().any(|d| *d > DEEPEST) {
            return None;
        }
        let make = Maker { program };
        let cell = |c: &crate::ir::Column| {
            let at = c.at as usize;
            match c.source {
                Source::Copy { from, width } => Cell::Copy { at, from: from as usize, width: width as usize },
                Source::Value(id) => match program.type_of(id) {
                    Type::Bool => Cell::Bool { at, value: make.bools(id) },
                    Type::Word => Cell::Word { at, value: make.words(id) },
                    Type::Double => Cell::Double { at, value: make.words(id) },
                },
            }
        };
        Some(Closures {
            record: program.record as usize,
            row: program.row as usize,
            filter: program.filter.map(|id| make.bools(id)),
            cells: program.columns.iter().map(cell).collect(),
            folds: program.aggregates.iter().map(|a| (a.fold, a.value.map(|id| make.words(id)))).collect(),
        })
    }

    /// Whether a record passes.
    ///
    /// # Panics
    /// When it is shorter than the program's records.
    #[inline]
    pub fn test(&self, record: &[u8]) -> bool {
        let record = &record[..self.record];
        self.filter.as_ref().is_none_or(|f| f(record))
    }

    /// Appends the numbers of the records that pass.
    pub fn select(&self, records: Records<'_>, out: &mut Vec<u32>) {
        out.extend((0..records.len()).filter(|i| self.test(records.get(*i))).map(|i| i as u32));
    }

    /// Appends a row for each record that passes. How many.
    pub fn project(&self, records: Records<'_>, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        let mut count = 0;
        for record in (0..records.len()).map(|i| &records.get(i)[..self.record]) {
            if !self.test(record) {
                continue;
            }
            let start = before + count * self.row;
            out.resize(start + self.row, 0);
            let row = &mut out[start..];
            for cell in &self.cells {
                match cell {
                    Cell::Copy { at, from, width } => {
                        row[*at..at + width].copy_from_slice(&record[*from..from + width])
                    }
                    Cell::Bool { at, value } => row[*at] = u8::from(value(record)),
                    Cell::Word { at, value } => row[*at..at + 8].copy_from_slice(&value(record).to_le_bytes()),
                    Cell::Double { at, value } => {
                        row[*at..at + 8].copy_from_slice(&settled(value(record)).to_le_bytes())
                    }
                }
            }
            count += 1;
        }
        count
    }

    /// Adds the records that pass to the states. How many.
    pub fn fold(&self, records: Records<'_>, states: &mut [u64]) -> usize {
        let mut count = 0;
        for record in (0..records.len()).map(|i| &records.get(i)[..self.record]) {
            if self.test(record) {
                count += 1;
                for (state, (fold, value)) in states.iter_mut().zip(&self.folds) {
                    *state = fold.step(*state, value.as_ref().map_or(0, |v| v(record)));
                }
            }
        }
        count
    }
}

/// A word or double of a program, for which there are closures: [`Closures::new`] has said so of every program that it comes from.
pub fn word_of(program: &Program, id: Id) -> Words {
    Maker { program }.words(id)
}

/// The same of a bool.
pub fn bool_of(program: &Program, id: Id) -> Bools {
    Maker { program }.bools(id)
}

struct Maker<'a> {
    program: &'a Program,
}

/// A closure in which `$kind` is a constant: the load is one instruction.
macro_rules! for_kind {
    ($kind:expr, $k:ident => $closure:expr) => {
        match $kind {
            Scalar::Bool => {
                const $k: Scalar = Scalar::Bool;
                Box::new($closure)
            }
            Scalar::I8 => {
                const $k: Scalar = Scalar::I8;
                Box::new($closure)
            }
            Scalar::I16 => {
                const $k: Scalar = Scalar::I16;
                Box::new($closure)
            }
            Scalar::I32 => {
                const $k: Scalar = Scalar::I32;
                Box::new($closure)
            }
            Scalar::U8 => {
                const $k: Scalar = Scalar::U8;
                Box::new($closure)
            }
            Scalar::U16 => {
                const $k: Scalar = Scalar::U16;
                Box::new($closure)
            }
            Scalar::U32 => {
                const $k: Scalar = Scalar::U32;
                Box::new($closure)
            }
            Scalar::F32 => {
                const $k: Scalar = Scalar::F32;
                Box::new($closure)
            }
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::Time => {
                const $k: Scalar = Scalar::I64;
                Box::new($closure)
            }
        }
    };
}

/// A closure in which the operator is a constant, for each of those that `for_bins!` is given.
macro_rules! for_bins {
    ($bin:expr, [$($name:ident),*], $b:ident => $made:expr, else $other:expr) => {
        match $bin {
            $(Bin::$name => { const $b: Bin = Bin::$name; $made })*
            #[allow(unreachable_patterns, reason = "some lists name all of them")]
            _ => $other,
        }
    };
}

impl Maker<'_> {
    fn constant(&self, id: Id) -> Option<u64> {
        match self.program.ops[id as usize] {
            Op::Word(n) | Op::Double(n) => Some(n),
            Op::Bool(b) => Some(u64::from(b)),
            _ => None,
        }
    }

    fn words(&self, id: Id) -> Words {
        match self.program.ops[id as usize] {
            Op::Word(n) | Op::Double(n) => Box::new(move |_| n),
            Op::Load { at, kind } => for_kind!(kind, K => move |r: &[u8]| load(r, at, K)),
            Op::Un(op, a) if self.program.type_of(a) == Type::Bool => {
                let a = self.bools(a);
                Box::new(move |r| unary(op, u64::from(a(r))))
            }
            Op::Un(op, a) => {
                let a = self.words(a);
                Box::new(move |r| unary(op, a(r)))
            }
            Op::Bin(op, a, b) if op.types().0 != Type::Bool && op.types().1 != Type::Bool => {
                let a = self.words(a);
                if let Some(c) = self.constant(b) {
                    return for_bins!(op, [Add, Sub, Mul, DivS, DivU, RemS, RemU, AndWord, OrWord, XorWord, Shl, ShrU,
                        AddDouble, SubDouble, MulDouble, DivDouble], B => Box::new(move |r: &[u8]| binary(B, a(r), c)),
                        else Box::new(move |r: &[u8]| binary(op, a(r), c)));
                }
                let b = self.words(b);
                for_bins!(op, [Add, Sub, Mul, DivS, DivU, RemS, RemU, AndWord, OrWord, XorWord, Shl, ShrU,
                    AddDouble, SubDouble, MulDouble, DivDouble], B => Box::new(move |r: &[u8]| binary(B, a(r), b(r))),
                    else Box::new(move |r: &[u8]| binary(op, a(r), b(r))))
            }
            Op::Select(c, a, b) if self.program.type_of(a) != Type::Bool => {
                let (c, a, b) = (self.bools(c), self.words(a), self.words(b));
                Box::new(move |r| if c(r) { a(r) } else { b(r) })
            }
            _ => {
                let of = self.bools(id);
                Box::new(move |r| u64::from(of(r)))
            }
        }
    }

    /// The operands of a chain of `&&` or `||`, in order.
    fn chain(&self, bin: Bin, id: Id, of: &mut Vec<Id>) {
        match self.program.ops[id as usize] {
            Op::Bin(op, a, b) if op == bin => {
                self.chain(bin, a, of);
                self.chain(bin, b, of);
            }
            _ => of.push(id),
        }
    }

    fn bools(&self, id: Id) -> Bools {
        match self.program.ops[id as usize] {
            Op::Bool(b) => Box::new(move |_| b),
            Op::Load { at, .. } => Box::new(move |r| r[at as usize] != 0),
            Op::Match { at, width, prefix, pattern } => {
                let pattern = match pattern {
                    Pattern::Literal(n) => self.program.texts[n as usize].clone(),
                    Pattern::Param(_) => vec![0],
                };
                let range = at as usize..(at + width) as usize;
                Box::new(move |r| matches(&r[range.clone()], prefix, &pattern))
            }
            Op::Un(Un::Not, a) => {
                let a = self.bools(a);
                Box::new(move |r| !a(r))
            }
            Op::Bin(bin @ (Bin::And | Bin::Or), _, _) => {
                let mut of = Vec::new();
                self.chain(bin, id, &mut of);
                let mut of: Vec<Bools> = of.into_iter().map(|id| self.bools(id)).collect();
                let all = bin == Bin::And;
                match of.len() {
                    2 => {
                        let (b, a) = (of.remove(1), of.remove(0));
                        if all { Box::new(move |r| a(r) && b(r)) } else { Box::new(move |r| a(r) || b(r)) }
                    }
                    _ if all => Box::new(move |r| of.iter().all(|f| f(r))),
                    _ => Box::new(move |r| of.iter().any(|f| f(r))),
                }
            }
            Op::Bin(Bin::Xor, a, b) => {
                let (a, b) = (self.bools(a), self.bools(b));
                Box::new(move |r| a(r) != b(r))
            }
            Op::Bin(op, a, b) => self.comparison(op, a, b),
            Op::Select(c, a, b) => {
                let (c, a, b) = (self.bools(c), self.bools(a), self.bools(b));
                Box::new(move |r| if c(r) { a(r) } else { b(r) })
            }
            Op::Un(..) | Op::Word(_) | Op::Double(_) | Op::Param(..) | Op::Text { .. } => {
                let of = self.words(id);
                Box::new(move |r| of(r) != 0)
            }
        }
    }

    fn comparison(&self, op: Bin, a: Id, b: Id) -> Bools {
        let at_of = |id: Id| match self.program.ops[id as usize] {
            Op::Load { at, kind } => Some((at, kind)),
            _ => None,
        };
        if let (Some((at, kind)), Some(c)) = (at_of(a), self.constant(b)) {
            return for_bins!(op, [Eq, Ne, LtS, LeS, LtU, LeU, EqDouble, NeDouble, LtDouble, LeDouble],
                B => for_kind!(kind, K => move |r: &[u8]| binary(B, load(r, at, K), c) != 0),
                else Box::new(move |r: &[u8]| binary(op, load(r, at, kind), c) != 0));
        }
        if let (Some(c), Some((at, kind))) = (self.constant(a), at_of(b)) {
            return for_bins!(op, [LtS, LeS, LtU, LeU, LtDouble, LeDouble],
                B => for_kind!(kind, K => move |r: &[u8]| binary(B, c, load(r, at, K)) != 0),
                else Box::new(move |r: &[u8]| binary(op, c, load(r, at, kind)) != 0));
        }
        // A text, compared as a word under a mask.
        if let (Op::Bin(Bin::AndWord, x, m), Some(c)) = (self.program.ops[a as usize], self.constant(b))
            && let (Some((at, Scalar::U64)), Some(m), Bin::Eq) = (at_of(x), self.constant(m), op)
        {
            return Box::new(move |r| load(r, at, Scalar::U64) & m == c);
        }
        let (a, b) = (self.words(a), self.words(b));
        for_bins!(op, [Eq, Ne, LtS, LeS, LtU, LeU, EqDouble, NeDouble, LtDouble, LeDouble],
            B => Box::new(move |r: &[u8]| binary(B, a(r), b(r)) != 0),
            else Box::new(move |r: &[u8]| binary(op, a(r), b(r)) != 0))
    }
}
