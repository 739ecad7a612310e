//! Makes programs: operations are shared, folded and simplified as they are added, and what nobody uses is left out.
//!
//! Factoring invariants (Synthesis 3.2.1) is [`specialise`]: the parameters become constants, and whatever depends on constants
//! alone is computed here once: `F_create`. Comparisons with texts become comparisons of words under masks. Collapsing layers
//! (3.2.2) is [`fuse`]: what the second program loads from a row is what the first one computed for it, so the row is never
//! written.
//!
//! No rule here may change what a program means, to the bit; so there is none for doubles but the computing of constants.

use crate::ir::{
    Aggregate, Bin, Column, Id, MAX_OPS, Op, Pattern, Program, ProgramError, Source, Type, Un, Value, Verified, With,
    binary, load_type, unary,
};
use crate::schema::Scalar;
use std::collections::HashMap;

/// Operations being put together.
#[derive(Default)]
pub struct Builder {
    /// The program so far.
    pub program: Program,
    index: HashMap<Op, Id>,
}

impl Builder {
    /// For records of so many bytes.
    pub fn new(record: u32) -> Builder {
        Builder { program: Program { record, ..Program::default() }, index: HashMap::new() }
    }

    /// With a program's operations.
    pub fn from(program: Program) -> Builder {
        Builder { program, index: HashMap::new() }
    }

    fn add(&mut self, op: Op) -> Id {
        let next = self.program.ops.len() as Id;
        let id = *self.index.entry(op).or_insert(next);
        if id == next {
            self.program.ops.push(op);
        }
        id
    }

    /// The bits of a constant.
    pub fn constant(&self, id: Id) -> Option<u64> {
        match self.program.ops[id as usize] {
            Op::Word(n) | Op::Double(n) => Some(n),
            Op::Bool(b) => Some(u64::from(b)),
            _ => None,
        }
    }

    /// A constant of a type.
    pub fn of(&mut self, t: Type, bits: u64) -> Id {
        self.add(match t {
            Type::Word => Op::Word(bits),
            Type::Double => Op::Double(bits),
            Type::Bool => Op::Bool(bits != 0),
        })
    }

    /// Adds an operation, or finds it, or what it comes to.
    pub fn push(&mut self, op: Op) -> Id {
        match op {
            Op::Un(un, a) => {
                if let Some(a) = self.constant(a) {
                    return self.of(un.types().1, unary(un, a));
                }
                match (un, self.program.ops[a as usize]) {
                    (Un::Not, Op::Un(Un::Not, inner)) => return inner,
                    (Un::Not, Op::Bin(Bin::Eq, x, y)) => return self.push(Op::Bin(Bin::Ne, x, y)),
                    (Un::Not, Op::Bin(Bin::Ne, x, y)) => return self.push(Op::Bin(Bin::Eq, x, y)),
                    (Un::Not, Op::Bin(Bin::LtS, x, y)) => return self.push(Op::Bin(Bin::LeS, y, x)),
                    (Un::Not, Op::Bin(Bin::LeS, x, y)) => return self.push(Op::Bin(Bin::LtS, y, x)),
                    (Un::Not, Op::Bin(Bin::LtU, x, y)) => return self.push(Op::Bin(Bin::LeU, y, x)),
                    (Un::Not, Op::Bin(Bin::LeU, x, y)) => return self.push(Op::Bin(Bin::LtU, y, x)),
                    _ => {}
                }
            }
            Op::Bin(bin, a, b) => {
                if let Some(id) = self.simpler(bin, a, b) {
                    return id;
                }
            }
            Op::Select(c, a, b) => match self.constant(c) {
                Some(0) => return b,
                Some(_) => return a,
                None if a == b => return a,
                None => {}
            },
            _ => {}
        }
        self.add(op)
    }

    fn simpler(&mut self, bin: Bin, a: Id, b: Id) -> Option<Id> {
        let (x, y) = (self.constant(a), self.constant(b));
        if let (Some(x), Some(y)) = (x, y) {
            return Some(self.of(bin.types().1, binary(bin, x, y)));
        }
        match (bin, x, y) {
            (Bin::And, Some(0), _) | (Bin::Or, _, Some(0)) | (Bin::And, _, Some(1)) => Some(a),
            (Bin::And, _, Some(0)) | (Bin::Or, Some(0), _) | (Bin::And, Some(1), _) => Some(b),
            (Bin::Or, Some(1), _) => Some(a),
            (Bin::Or, _, Some(1)) => Some(b),
            (Bin::And | Bin::Or, _, _) if a == b => Some(a),
            (Bin::Add | Bin::Sub | Bin::Shl | Bin::ShrU | Bin::OrWord | Bin::XorWord, _, Some(0)) => Some(a),
            (Bin::Mul | Bin::DivU | Bin::DivS, _, Some(1)) | (Bin::AndWord, _, Some(u64::MAX)) => Some(a),
            (Bin::Add | Bin::OrWord | Bin::XorWord, Some(0), _) | (Bin::Mul, Some(1), _) => Some(b),
            (Bin::Mul | Bin::AndWord, _, Some(0)) => Some(b),
            (Bin::Mul | Bin::AndWord, Some(0), _) => Some(a),
            // Doubles are left out: a NaN does not equal itself.
            (Bin::Eq | Bin::LeS | Bin::LeU, _, _) if a == b => Some(self.of(Type::Bool, 1)),
            (Bin::Ne | Bin::LtS | Bin::LtU, _, _) if a == b => Some(self.of(Type::Bool, 0)),
            (Bin::Sub | Bin::XorWord, _, _) if a == b => Some(self.of(Type::Word, 0)),
            _ => None,
        }
    }

    /// All of them, in a tree as flat as can be. None: true.
    pub fn all(&mut self, of: &[Id]) -> Id {
        self.balanced(Bin::And, of)
    }

    /// Any of them. None: false.
    pub fn any(&mut self, of: &[Id]) -> Id {
        self.balanced(Bin::Or, of)
    }

    fn balanced(&mut self, bin: Bin, of: &[Id]) -> Id {
        match of {
            [] => self.of(Type::Bool, u64::from(bin == Bin::And)),
            [one] => *one,
            more => {
                let (a, b) = more.split_at(more.len() / 2);
                let (a, b) = (self.balanced(bin, a), self.balanced(bin, b));
                self.push(Op::Bin(bin, a, b))
            }
        }
    }

    /// A program's text, kept once.
    pub fn text(&mut self, text: &[u8]) -> u32 {
        let texts = &mut self.program.texts;
        let at = texts.iter().position(|t| t == text).unwrap_or_else(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        });
        at as u32
    }

    /// Whether the field of `width` bytes at `at` is (or begins with) a text, by words under masks where that is not too much.
    fn match_text(&mut self, at: u32, width: u32, prefix: bool, text: &[u8]) -> Id {
        /// How long a text may be for that.
        const MOST: usize = 64;
        if text.len() > width as usize || text.contains(&0) {
            return self.of(Type::Bool, 0);
        }
        let mut expected = text.to_owned();
        if !prefix && text.len() < width as usize {
            expected.push(0);
        }
        if expected.len() > MOST || self.program.ops.len() > MAX_OPS / 2 {
            let pattern = Pattern::Literal(self.text(text));
            return self.push(Op::Match { at, width, prefix, pattern });
        }
        let mut all = Vec::new();
        let mut done = 0;
        while done < expected.len() {
            let part = self.word_at(at + done as u32, &expected[done..]);
            all.push(part.1);
            done += part.0;
        }
        self.all(&all)
    }

    /// Whether the record at `at` begins with these bytes, or as many of them as one load has: how many, and the value.
    fn word_at(&mut self, at: u32, bytes: &[u8]) -> (usize, Id) {
        let record = self.program.record;
        let (kind, from, have) = if at + 8 <= record {
            (Scalar::U64, at, 8)
        } else if record >= 8 {
            // The last 8 bytes of the record, of which the first ones are not asked for.
            (Scalar::U64, record - 8, record - at)
        } else if at + 4 <= record && bytes.len() >= 4 {
            (Scalar::U32, at, 4)
        } else if at + 2 <= record && bytes.len() >= 2 {
            (Scalar::U16, at, 2)
        } else {
            (Scalar::U8, at, 1)
        };
        let count = bytes.len().min(have as usize);
        let mut wanted = [0; 8];
        wanted[..count].copy_from_slice(&bytes[..count]);
        let shift = 8 * (at - from);
        let mask = (u64::MAX >> (64 - 8 * count)) << shift;
        let wanted = u64::from_le_bytes(wanted) << shift;
        let loaded = self.push(Op::Load { at: from, kind });
        let whole = u64::MAX >> (64 - 8 * kind.width());
        let mask = self.of(Type::Word, if mask == whole { u64::MAX } else { mask });
        let masked = self.push(Op::Bin(Bin::AndWord, loaded, mask));
        let wanted = self.of(Type::Word, wanted);
        (count, self.push(Op::Bin(Bin::Eq, masked, wanted)))
    }

    /// Leaves out what nobody uses, and checks.
    ///
    /// # Errors
    /// What a program must not be; too large, where its parts were not.
    pub fn finish(self) -> Result<Verified, ProgramError> {
        let mut p = self.program;
        let mut used = vec![false; p.ops.len()];
        let roots = p.filter.iter().copied();
        let roots = roots.chain(p.columns.iter().filter_map(|c| match c.source {
            Source::Value(id) => Some(id),
            Source::Copy { .. } => None,
        }));
        for root in roots.chain(p.aggregates.iter().filter_map(|a| a.value)) {
            used[root as usize] = true;
        }
        for at in (0..p.ops.len()).rev() {
            if used[at] {
                p.ops[at].operands().for_each(|id| used[id as usize] = true);
            }
        }
        let mut place = vec![0; p.ops.len()];
        let mut ops = Vec::new();
        for (at, op) in p.ops.iter().enumerate() {
            if used[at] {
                place[at] = ops.len() as Id;
                ops.push(op.over(|id| place[id as usize]));
            }
        }
        p.ops = ops;
        p.filter = p.filter.map(|id| place[id as usize]);
        for c in &mut p.columns {
            if let Source::Value(id) = &mut c.source {
                *id = place[*id as usize];
            }
        }
        for a in &mut p.aggregates {
            a.value = a.value.map(|id| place[id as usize]);
        }
        p.verify()
    }
}

/// The program with its parameters as constants, and everything that follows from that.
///
/// # Errors
/// [`ProgramError::Unknown`] if a parameter's value is not of its kind, or missing.
pub fn specialise(program: &Verified, params: &[Value]) -> Result<Verified, ProgramError> {
    if params.len() != program.params.len() || program.params.iter().zip(params).any(|(kind, v)| *kind != v.kind()) {
        return Err(ProgramError::Unknown(0));
    }
    let mut builder = Builder::new(program.record);
    let place = copy(&mut builder, program, params, |b, at, kind| b.push(Op::Load { at, kind }));
    builder.program.filter = program.filter.map(|id| place[id as usize]);
    take_uses(&mut builder, program, &place);
    if builder.program.filter.is_some_and(|f| builder.constant(f) == Some(1)) {
        builder.program.filter = None;
    }
    builder.finish()
}

/// Adds a specialised program's operations to others over the same records; answers where each is now.
pub fn merge(builder: &mut Builder, program: &Verified) -> Vec<Id> {
    copy(builder, program, &[], |b, at, kind| b.push(Op::Load { at, kind }))
}

/// Copies a program's operations; answers where each is now.
fn copy(
    builder: &mut Builder,
    program: &Verified,
    params: &[Value],
    mut load: impl FnMut(&mut Builder, u32, Scalar) -> Id,
) -> Vec<Id> {
    let mut place: Vec<Id> = Vec::with_capacity(program.ops.len());
    let text_of = |pattern: Pattern| match pattern {
        Pattern::Literal(n) => program.texts[n as usize].as_slice(),
        Pattern::Param(n) => match &params[n as usize] {
            Value::Text(t) => t.as_slice(),
            _ => &[0],
        },
    };
    for op in &program.ops {
        let id = match *op {
            Op::Param(n, t) => builder.of(t, params[n as usize].bits()),
            Op::Match { at, width, prefix, pattern } => builder.match_text(at, width, prefix, text_of(pattern)),
            Op::Text { test, of, with: With::Pattern(pattern) } => {
                let pattern = Pattern::Literal(builder.text(text_of(pattern)));
                builder.push(Op::Text { test, of: place[of as usize], with: With::Pattern(pattern) })
            }
            Op::Load { at, kind } => load(builder, at, kind),
            other => builder.push(other.over(|id| place[id as usize])),
        };
        place.push(id);
    }
    place
}

/// Takes over columns and aggregates.
fn take_uses(builder: &mut Builder, program: &Verified, place: &[Id]) {
    builder.program.row = program.row;
    builder.program.columns = program.columns.clone();
    for c in &mut builder.program.columns {
        if let Source::Value(id) = &mut c.source {
            *id = place[*id as usize];
        }
    }
    let aggregates = program.aggregates.iter();
    builder.program.aggregates =
        aggregates.map(|a| Aggregate { fold: a.fold, value: a.value.map(|id| place[id as usize]) }).collect();
}

/// Two specialised programs as one: the second's records are the first's rows. A record passes if it passes both.
///
/// # Errors
/// [`ProgramError::Use`] if the second's records are not as long as the first's rows, if it looks at part of a column (or at the gap
/// between two), if the first adds up instead of writing rows, or if parameters are left; [`ProgramError::Size`].
pub fn fuse(first: &Verified, second: &Verified) -> Result<Verified, ProgramError> {
    if second.record != first.row
        || !first.aggregates.is_empty()
        || !(first.params.is_empty() && second.params.is_empty())
    {
        return Err(ProgramError::Use);
    }
    let mut builder = Builder::new(first.record);
    let place = copy(&mut builder, first, &[], |b, at, kind| b.push(Op::Load { at, kind }));
    let column = |at: u32, width: u32| {
        first.columns.iter().find_map(|c| match c.source {
            Source::Copy { from, width: w } => {
                (c.at <= at && at + width <= c.at + w).then(|| (Source::Copy { from: from + (at - c.at), width }, 0))
            }
            Source::Value(id) => {
                let w = if first.type_of(id) == Type::Bool { 1 } else { 8 };
                (c.at <= at && at + width <= c.at + w).then(|| (Source::Value(place[id as usize]), at - c.at))
            }
        })
    };
    let mut lost = false;
    let passed = first.filter.map(|id| place[id as usize]);
    let again = copy(&mut builder, second, &[], |b, at, kind| match column(at, kind.width()) {
        Some((Source::Copy { from, .. }, _)) => b.push(Op::Load { at: from, kind }),
        Some((Source::Value(id), 0)) if b.program.type_of(id) == load_type(kind) && is_whole(kind) => id,
        _ => {
            lost = true;
            b.of(load_type(kind), 0)
        }
    });
    take_uses(&mut builder, second, &again);
    let mut columns = Vec::new();
    for c in &second.columns {
        match c.source {
            Source::Value(id) => columns.push(Column { at: c.at, source: Source::Value(again[id as usize]) }),
            Source::Copy { from, width } => match column(from, width) {
                Some((Source::Copy { from, width }, _)) => {
                    columns.push(Column { at: c.at, source: Source::Copy { from, width } });
                }
                Some((Source::Value(id), 0)) => columns.push(Column { at: c.at, source: Source::Value(id) }),
                _ => lost = true,
            },
        }
    }
    builder.program.columns = columns;
    // A comparison of texts that was not made of words would look at the record instead of the row.
    lost |= second.ops.iter().any(|op| matches!(op, Op::Match { .. }));
    if lost {
        return Err(ProgramError::Use);
    }
    let both: Vec<Id> = passed.into_iter().chain(second.filter.map(|id| again[id as usize])).collect();
    builder.program.filter = if both.is_empty() { None } else { Some(builder.all(&both)) };
    builder.finish()
}

fn is_whole(kind: Scalar) -> bool {
    matches!(kind, Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::Bool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::Interpreter;

    #[test]
    fn a_constant_is_computed_once() {
        let mut b = Builder::new(8);
        let (two, three) = (b.of(Type::Word, 2), b.of(Type::Word, 3));
        let five = b.push(Op::Bin(Bin::Add, two, three));
        let x = b.push(Op::Load { at: 0, kind: Scalar::I64 });
        let less = b.push(Op::Bin(Bin::LtS, x, five));
        let yes = b.of(Type::Bool, 1);
        let both = b.push(Op::Bin(Bin::And, less, yes));
        b.program.filter = Some(both);
        let p = b.finish().unwrap();
        assert_eq!(p.ops, [Op::Word(5), Op::Load { at: 0, kind: Scalar::I64 }, Op::Bin(Bin::LtS, 1, 0)]);
    }

    #[test]
    fn texts_by_words_are_texts() {
        // Every place and length in a record of 1 to 11 bytes, with what follows the text being another's.
        let mut seen = [0; 2];
        for record in 1..=11u32 {
            for at in 0..record {
                for width in 1..=record - at {
                    for len in 0..=width.min(10) as usize {
                        let text = &b"abcdefghij"[..len];
                        for prefix in [false, true] {
                            let mut b = Builder::new(record);
                            let pattern = Pattern::Literal(b.text(text));
                            b.program.filter = Some(b.push(Op::Match { at, width, prefix, pattern }));
                            let general = b.finish().unwrap();
                            let special = specialise(&general, &[]).unwrap();
                            assert!(!special.ops.iter().any(|o| matches!(o, Op::Match { .. })));
                            for change in 0..=len + 1 {
                                let mut bytes = vec![b'z'; record as usize];
                                let end = (at as usize + len).min(bytes.len());
                                bytes[at as usize..end].copy_from_slice(&text[..end - at as usize]);
                                if let Some(next) = bytes.get_mut(end) {
                                    *next = 0;
                                }
                                if let Some(byte) = bytes.get_mut(at as usize + change) {
                                    *byte ^= u8::from(change <= len);
                                }
                                let (mut x, mut y) = (Interpreter::default(), Interpreter::default());
                                let passes = x.run(&general, &[], &bytes);
                                assert_eq!(
                                    passes,
                                    y.run(&special, &[], &bytes),
                                    "{record} {at} {width} {len} {change}"
                                );
                                seen[usize::from(passes)] += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(seen[0] > 1000 && seen[1] > 1000, "{seen:?}");
    }
}
