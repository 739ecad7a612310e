//! The second engine: operation by operation over a block of records, for batches.
//!
//! A block's values of one operation lie in a column of 64-bit words, or of bytes for bools, and each operation is one loop
//! over columns that the compiler makes vector instructions of. A comparison of a field with a constant is one loop from the records
//! to a column of bools. Columns are reused as soon as nobody needs their values, so that a block stays in the first cache.
//!
//! Two passes: the filter over all records of the block, which gives the numbers of those that pass; then what is computed for
//! these, over them alone.

use crate::ir::{
    Bin, Fold, Id, Op, Pattern, Source, TextTest, Type, Un, Verified, With, binary, load, matches, settled, text_of,
    text_test, unary,
};
use crate::records::Records;
use crate::schema::Scalar;

/// How many records go through an operation at once.
pub const BLOCK: usize = 512;

/// What an operation takes: a column, or the same for all.
#[derive(Clone, Copy, Debug)]
enum From {
    Column(usize),
    Constant(u64),
}

#[derive(Clone, Debug)]
enum Step {
    Load { at: u32, kind: Scalar, to: usize },
    LoadBool { at: u32, to: usize },
    CompareLoad { op: Bin, at: u32, kind: Scalar, with: u64, first: bool, to: usize },
    MaskedEqual { at: u32, mask: u64, with: u64, to: usize },
    Match { at: u32, width: u32, prefix: bool, text: Vec<u8>, to: usize },
    TextIs { test: TextTest, of: From, text: Vec<u8>, to: usize },
    Texts { test: TextTest, of: From, with: From, to: usize },
    Constant { bits: u64, to: usize, bools: bool },
    Un { op: Un, of: From, to: usize },
    Bin { op: Bin, a: From, b: From, to: usize },
    Select { c: From, a: From, b: From, to: usize, bools: bool },
}

/// Straight-line steps, and where the values that somebody asked for are at their end.
#[derive(Default, Debug)]
struct Plan {
    steps: Vec<Step>,
    words: usize,
    bools: usize,
    results: Vec<usize>,
}

#[derive(Debug)]
enum Cell {
    Copy { at: usize, from: usize, width: usize },
    Value { at: usize, kind: Type, result: usize },
}

/// A program as loops over blocks.
#[derive(Debug)]
pub struct Vectors {
    record: usize,
    row: usize,
    filter: Option<Plan>,
    rest: Plan,
    cells: Vec<Cell>,
    folds: Vec<(Fold, Option<(usize, Type)>)>,
}

/// Columns, kept from block to block.
#[derive(Default, Debug)]
pub struct Scratch {
    words: Vec<Vec<u64>>,
    bools: Vec<Vec<u8>>,
    chosen: Vec<u32>,
}

impl Plan {
    /// The steps for these values of a program.
    fn new(program: &Verified, wanted: &[Id]) -> Plan {
        let mut last = vec![0usize; program.ops.len()];
        for id in wanted {
            last[*id as usize] = usize::MAX;
        }
        let simple = |id: Id| match program.ops[id as usize] {
            Op::Word(n) | Op::Double(n) => Some(n),
            Op::Bool(b) => Some(u64::from(b)),
            _ => None,
        };
        let mut planner = Planner { program, plan: Plan::default(), place: vec![usize::MAX; program.ops.len()] };
        // What a step takes of loads that it does by itself needs no column of its own.
        let mut needed = vec![false; program.ops.len()];
        for id in wanted {
            needed[*id as usize] = true;
        }
        let mut order = Vec::new();
        for at in (0..program.ops.len()).rev() {
            if !needed[at] {
                continue;
            }
            let alone = planner.alone(at as Id);
            if alone.is_none() {
                for id in program.ops[at].operands().filter(|id| simple(*id).is_none()) {
                    needed[id as usize] = true;
                    last[id as usize] = last[id as usize].max(at);
                }
            }
            order.push((at, alone));
        }
        let (mut free_words, mut free_bools) = (Vec::new(), Vec::new());
        for (at, alone) in order.into_iter().rev() {
            let bools = program.type_of(at as Id) == Type::Bool;
            let plan = &mut planner.plan;
            let (free, count) =
                if bools { (&mut free_bools, &mut plan.bools) } else { (&mut free_words, &mut plan.words) };
            let to = free.pop().unwrap_or_else(|| {
                *count += 1;
                *count - 1
            });
            planner.place[at] = to;
            planner.step(at as Id, to, alone);
            let mut freed: Vec<Id> = Vec::new();
            for id in program.ops[at].operands() {
                if needed[id as usize] && last[id as usize] == at && !freed.contains(&id) {
                    freed.push(id);
                    let place = planner.place[id as usize];
                    if program.type_of(id) == Type::Bool { free_bools.push(place) } else { free_words.push(place) }
                }
            }
        }
        planner.plan.results = wanted.iter().map(|id| planner.place[*id as usize]).collect();
        planner.plan
    }

    fn run(&self, scratch: &mut Scratch, records: Records<'_>, chosen: Option<&[u32]>) {
        let n = chosen.map_or(records.len(), <[u32]>::len);
        while scratch.words.len() < self.words {
            scratch.words.push(vec![0; BLOCK]);
        }
        while scratch.bools.len() < self.bools {
            scratch.bools.push(vec![0; BLOCK]);
        }
        for step in &self.steps {
            step.run(scratch, records, chosen, n);
        }
    }
}

struct Planner<'a> {
    program: &'a Verified,
    plan: Plan,
    place: Vec<usize>,
}

impl Planner<'_> {
    fn constant(&self, id: Id) -> Option<u64> {
        match self.program.ops[id as usize] {
            Op::Word(n) | Op::Double(n) => Some(n),
            Op::Bool(b) => Some(u64::from(b)),
            _ => None,
        }
    }

    /// A comparison that reads the record by itself, into column 0.
    fn alone(&self, id: Id) -> Option<Step> {
        let Op::Bin(op, a, b) = self.program.ops[id as usize] else { return None };
        if op.types().1 != Type::Bool || op.types().0 == Type::Bool {
            return None;
        }
        let field = |id: Id| match self.program.ops[id as usize] {
            Op::Load { at, kind } => Some((at, kind)),
            _ => None,
        };
        if let (Some((at, kind)), Some(with)) = (field(a), self.constant(b)) {
            return Some(Step::CompareLoad { op, at, kind, with, first: true, to: 0 });
        }
        if let (Some(with), Some((at, kind))) = (self.constant(a), field(b)) {
            return Some(Step::CompareLoad { op, at, kind, with, first: false, to: 0 });
        }
        if let (Bin::Eq, Op::Bin(Bin::AndWord, x, m), Some(with)) = (op, self.program.ops[a as usize], self.constant(b))
            && let (Some((at, Scalar::U64)), Some(mask)) = (field(x), self.constant(m))
        {
            return Some(Step::MaskedEqual { at, mask, with, to: 0 });
        }
        None
    }

    fn text(&self, pattern: Pattern) -> Vec<u8> {
        match pattern {
            Pattern::Literal(n) => self.program.texts[n as usize].clone(),
            // A specialised program has none.
            Pattern::Param(_) => vec![0],
        }
    }

    fn from(&self, id: Id) -> From {
        match self.constant(id) {
            Some(bits) => From::Constant(bits),
            None => From::Column(self.place[id as usize]),
        }
    }

    fn step(&mut self, id: Id, place: usize, alone: Option<Step>) {
        let bools = self.program.type_of(id) == Type::Bool;
        let step = match (alone, self.program.ops[id as usize]) {
            (Some(Step::CompareLoad { op, at, kind, with, first, .. }), _) => {
                Step::CompareLoad { op, at, kind, with, first, to: place }
            }
            (Some(Step::MaskedEqual { at, mask, with, .. }), _) => Step::MaskedEqual { at, mask, with, to: place },
            (_, Op::Word(bits) | Op::Double(bits)) => Step::Constant { bits, to: place, bools },
            (_, Op::Bool(b)) => Step::Constant { bits: u64::from(b), to: place, bools },
            // A specialised program has none.
            (_, Op::Param(..)) => Step::Constant { bits: 0, to: place, bools },
            (_, Op::Load { at, .. }) if bools => Step::LoadBool { at, to: place },
            (_, Op::Load { at, kind }) => Step::Load { at, kind, to: place },
            (_, Op::Match { at, width, prefix, pattern }) => {
                Step::Match { at, width, prefix, text: self.text(pattern), to: place }
            }
            (_, Op::Text { test, of, with: With::Pattern(pattern) }) => {
                Step::TextIs { test, of: self.from(of), text: self.text(pattern), to: place }
            }
            (_, Op::Text { test, of, with: With::Value(with) }) => {
                Step::Texts { test, of: self.from(of), with: self.from(with), to: place }
            }
            (_, Op::Un(op, a)) => Step::Un { op, of: self.from(a), to: place },
            (_, Op::Bin(op, a, b)) => Step::Bin { op, a: self.from(a), b: self.from(b), to: place },
            (_, Op::Select(c, a, b)) => {
                Step::Select { c: self.from(c), a: self.from(a), b: self.from(b), to: place, bools }
            }
        };
        self.plan.steps.push(step);
    }
}

/// Runs `$body` with `$k` a constant, so that its loop is for one type.
macro_rules! by_kind {
    ($kind:expr, $k:ident => $body:expr) => {
        match $kind {
            Scalar::Bool => {
                const $k: Scalar = Scalar::Bool;
                $body
            }
            Scalar::I8 => {
                const $k: Scalar = Scalar::I8;
                $body
            }
            Scalar::I16 => {
                const $k: Scalar = Scalar::I16;
                $body
            }
            Scalar::I32 => {
                const $k: Scalar = Scalar::I32;
                $body
            }
            Scalar::U8 => {
                const $k: Scalar = Scalar::U8;
                $body
            }
            Scalar::U16 => {
                const $k: Scalar = Scalar::U16;
                $body
            }
            Scalar::U32 => {
                const $k: Scalar = Scalar::U32;
                $body
            }
            Scalar::F32 => {
                const $k: Scalar = Scalar::F32;
                $body
            }
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::Time => {
                const $k: Scalar = Scalar::I64;
                $body
            }
        }
    };
}

macro_rules! by_bin {
    ($bin:expr, [$($name:ident),*], $b:ident => $body:expr) => {
        match $bin {
            $(Bin::$name => { const $b: Bin = Bin::$name; $body })*
            other => unreachable!("{other:?} is not among them"),
        }
    };
}

/// One value for each record of the block, or for each that was chosen.
#[inline(always)]
fn each<T>(out: &mut [T], records: Records<'_>, chosen: Option<&[u32]>, at: u32, value: impl Fn(&[u8]) -> T) {
    let (stride, at) = (records.stride(), at as usize);
    match chosen {
        None => {
            let bytes = &records.bytes()[at..];
            // Chunks, not offsets: one test of the bounds for each, and none inside.
            for (out, record) in out.iter_mut().zip(bytes.chunks(stride)) {
                *out = value(record);
            }
        }
        Some(chosen) => {
            for (out, i) in out.iter_mut().zip(chosen) {
                *out = value(&records.bytes()[*i as usize * stride + at..]);
            }
        }
    }
}

#[inline(always)]
fn map1<A: Copy, T>(out: &mut [T], a: &[A], f: impl Fn(A) -> T) {
    for (out, a) in out.iter_mut().zip(a) {
        *out = f(*a);
    }
}

#[inline(always)]
fn map2<A: Copy, T>(out: &mut [T], a: Operand<'_, A>, b: Operand<'_, A>, f: impl Fn(A, A) -> T) {
    match (a, b) {
        (Operand::Column(a), Operand::Column(b)) => {
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = f(*a, *b);
            }
        }
        (Operand::Column(a), Operand::Constant(b)) => map1(out, a, |a| f(a, b)),
        (Operand::Constant(a), Operand::Column(b)) => map1(out, b, |b| f(a, b)),
        (Operand::Constant(a), Operand::Constant(b)) => out.iter_mut().for_each(|o| *o = f(a, b)),
    }
}

#[derive(Clone, Copy)]
enum Operand<'a, T> {
    Column(&'a [T]),
    Constant(T),
}

impl<T: Copy> Operand<'_, T> {
    #[inline(always)]
    fn get(&self, at: usize) -> T {
        match self {
            Operand::Column(c) => c[at],
            Operand::Constant(c) => *c,
        }
    }
}

impl Scratch {
    fn words(&self, from: From, n: usize) -> Operand<'_, u64> {
        match from {
            From::Column(c) => Operand::Column(&self.words[c][..n]),
            From::Constant(bits) => Operand::Constant(bits),
        }
    }

    fn bools(&self, from: From, n: usize) -> Operand<'_, u8> {
        match from {
            From::Column(c) => Operand::Column(&self.bools[c][..n]),
            From::Constant(bits) => Operand::Constant(bits as u8),
        }
    }

    /// Writes a column, which is taken out for so long: no step reads the one that it writes.
    fn write_words(&mut self, to: usize, n: usize, write: impl FnOnce(&Scratch, &mut [u64])) {
        let mut column = std::mem::take(&mut self.words[to]);
        write(self, &mut column[..n]);
        self.words[to] = column;
    }

    fn write_bools(&mut self, to: usize, n: usize, write: impl FnOnce(&Scratch, &mut [u8])) {
        let mut column = std::mem::take(&mut self.bools[to]);
        write(self, &mut column[..n]);
        self.bools[to] = column;
    }
}

impl Step {
    fn run(&self, s: &mut Scratch, records: Records<'_>, chosen: Option<&[u32]>, n: usize) {
        match *self {
            Step::Load { at, kind, to } => s.write_words(to, n, |_, out| {
                by_kind!(kind, K => each(out, records, chosen, at, |r| load(r, 0, K)));
            }),
            Step::LoadBool { at, to } => {
                s.write_bools(to, n, |_, out| each(out, records, chosen, at, |r| u8::from(r[0] != 0)));
            }
            Step::CompareLoad { op, at, kind, with, first, to } => s.write_bools(to, n, |_, out| {
                compare(out, records, chosen, op, at, kind, with, first);
            }),
            Step::MaskedEqual { at, mask, with, to } => s.write_bools(to, n, |_, out| {
                each(out, records, chosen, at, |r| u8::from(load(r, 0, Scalar::U64) & mask == with));
            }),
            Step::Match { at, width, prefix, ref text, to } => s.write_bools(to, n, |_, out| {
                each(out, records, chosen, at, |r| u8::from(matches(&r[..width as usize], prefix, text)));
            }),
            Step::TextIs { test: TextTest::Is, of, ref text, to } => s.write_bools(to, n, |s, out| {
                let (of, texts) = (s.words(of, n), records.texts());
                for (i, out) in out.iter_mut().enumerate() {
                    *out = u8::from(text_of(of.get(i), texts) == text.as_slice());
                }
            }),
            Step::TextIs { test, of, ref text, to } => s.write_bools(to, n, |s, out| {
                let (of, texts) = (s.words(of, n), records.texts());
                for (i, out) in out.iter_mut().enumerate() {
                    *out = u8::from(text_test(test, text_of(of.get(i), texts), text));
                }
            }),
            Step::Texts { test, of, with, to } => s.write_bools(to, n, |s, out| {
                let (of, with, texts) = (s.words(of, n), s.words(with, n), records.texts());
                for (i, out) in out.iter_mut().enumerate() {
                    *out = u8::from(text_test(test, text_of(of.get(i), texts), text_of(with.get(i), texts)));
                }
            }),
            Step::Constant { bits, to, bools: true } => s.write_bools(to, n, |_, out| out.fill(bits as u8)),
            Step::Constant { bits, to, .. } => s.write_words(to, n, |_, out| out.fill(bits)),
            Step::Un { op, of, to } => one(s, op, of, to, n),
            Step::Bin { op, a, b, to } => two(s, op, a, b, to, n),
            Step::Select { c, a, b, to, bools: true } => s.write_bools(to, n, |s, out| {
                let (c, a, b) = (s.bools(c, n), s.bools(a, n), s.bools(b, n));
                for (i, out) in out.iter_mut().enumerate() {
                    *out = if c.get(i) != 0 { a.get(i) } else { b.get(i) };
                }
            }),
            Step::Select { c, a, b, to, .. } => s.write_words(to, n, |s, out| {
                let (c, a, b) = (s.bools(c, n), s.words(a, n), s.words(b, n));
                for (i, out) in out.iter_mut().enumerate() {
                    *out = if c.get(i) != 0 { a.get(i) } else { b.get(i) };
                }
            }),
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "what a comparison is, and over what; each is named where it is called")]
fn compare(
    out: &mut [u8],
    records: Records<'_>,
    chosen: Option<&[u32]>,
    op: Bin,
    at: u32,
    kind: Scalar,
    c: u64,
    first: bool,
) {
    if first {
        by_bin!(op, [Eq, Ne, LtS, LeS, LtU, LeU, EqDouble, NeDouble, LtDouble, LeDouble], B =>
            by_kind!(kind, K => each(out, records, chosen, at, |r| binary(B, load(r, 0, K), c) as u8)));
    } else {
        by_bin!(op, [Eq, Ne, LtS, LeS, LtU, LeU, EqDouble, NeDouble, LtDouble, LeDouble], B =>
            by_kind!(kind, K => each(out, records, chosen, at, |r| binary(B, c, load(r, 0, K)) as u8)));
    }
}

fn one(s: &mut Scratch, op: Un, of: From, to: usize, n: usize) {
    macro_rules! loops {
        ($($name:ident),*) => {
            match op {
                Un::Not => s.write_bools(to, n, |s, out| match s.bools(of, n) {
                    Operand::Column(a) => map1(out, a, |a| a ^ 1),
                    Operand::Constant(c) => out.fill(c ^ 1),
                }),
                Un::BoolToWord => s.write_words(to, n, |s, out| match s.bools(of, n) {
                    Operand::Column(a) => map1(out, a, u64::from),
                    Operand::Constant(c) => out.fill(u64::from(c)),
                }),
                $(Un::$name => s.write_words(to, n, |s, out| match s.words(of, n) {
                    Operand::Column(a) => map1(out, a, |a| unary(Un::$name, a)),
                    Operand::Constant(c) => out.fill(unary(Un::$name, c)),
                }),)*
            }
        };
    }
    loops!(NegWord, NotWord, NegDouble, IntToDouble, UintToDouble, DoubleToInt, DoubleToUint);
}

fn two(s: &mut Scratch, op: Bin, a: From, b: From, to: usize, n: usize) {
    macro_rules! loops {
        (words: [$($w:ident),*], compare: [$($c:ident),*], bools: [$($l:ident),*]) => {
            match op {
                $(Bin::$w => s.write_words(to, n, |s, out| {
                    map2(out, s.words(a, n), s.words(b, n), |a, b| binary(Bin::$w, a, b));
                }),)*
                $(Bin::$c => s.write_bools(to, n, |s, out| {
                    map2(out, s.words(a, n), s.words(b, n), |a, b| binary(Bin::$c, a, b) as u8);
                }),)*
                $(Bin::$l => s.write_bools(to, n, |s, out| {
                    map2(out, s.bools(a, n), s.bools(b, n), |a, b| binary(Bin::$l, u64::from(a), u64::from(b)) as u8);
                }),)*
            }
        };
    }
    loops!(
        words: [Add, Sub, Mul, DivS, DivU, RemS, RemU, AndWord, OrWord, XorWord, Shl, ShrU, AddDouble, SubDouble,
            MulDouble, DivDouble],
        compare: [Eq, Ne, LtS, LeS, LtU, LeU, EqDouble, NeDouble, LtDouble, LeDouble],
        bools: [And, Or, Xor]
    );
}

impl Vectors {
    /// Plans it. The program must have no parameters.
    pub fn new(program: &Verified) -> Vectors {
        let mut wanted = Vec::new();
        let mut result = |id: Id| {
            wanted.push(id);
            wanted.len() - 1
        };
        let cells = program.columns.iter().map(|c| match c.source {
            Source::Copy { from, width } => {
                Cell::Copy { at: c.at as usize, from: from as usize, width: width as usize }
            }
            Source::Value(id) => Cell::Value { at: c.at as usize, kind: program.type_of(id), result: result(id) },
        });
        let cells = cells.collect();
        let folds = program.aggregates.iter().map(|a| (a.fold, a.value.map(|id| (result(id), program.type_of(id)))));
        let folds = folds.collect();
        Vectors {
            record: program.record as usize,
            row: program.row as usize,
            filter: program.filter.map(|id| Plan::new(program, &[id])),
            rest: Plan::new(program, &wanted),
            cells,
            folds,
        }
    }

    /// The numbers of those that pass, of one block, at the head of `scratch.chosen`. How many.
    fn choose(&self, scratch: &mut Scratch, block: Records<'_>) -> usize {
        let n = block.len();
        scratch.chosen.resize(BLOCK, 0);
        let Some(filter) = &self.filter else {
            scratch.chosen[..n].iter_mut().enumerate().for_each(|(i, c)| *c = i as u32);
            return n;
        };
        filter.run(scratch, block, None);
        let Scratch { bools, chosen, .. } = scratch;
        let chosen = chosen.first_chunk_mut::<BLOCK>().expect("a block's room");
        let mut count = 0;
        for (i, passes) in bools[filter.results[0]][..n].iter().enumerate() {
            // Without a branch: each is written, and the next one over it unless it passes. `count` is at most `i`, less than a block: the
            // remainder tells the compiler so.
            chosen[count % BLOCK] = i as u32;
            count += usize::from(*passes);
        }
        count
    }

    fn blocks<'r>(&self, records: Records<'r>) -> impl Iterator<Item = (usize, Records<'r>)> + use<'r> {
        let len = records.len();
        (0..len).step_by(BLOCK).map(move |from| (from, records.part(from, BLOCK.min(len - from))))
    }

    /// Appends the numbers of the records that pass.
    ///
    /// # Panics
    /// When the records are shorter than the program's.
    pub fn select(&self, scratch: &mut Scratch, records: Records<'_>, out: &mut Vec<u32>) {
        for (from, block) in self.blocks(records) {
            let count = self.choose(scratch, block);
            out.extend(scratch.chosen[..count].iter().map(|i| i + from as u32));
        }
    }

    /// Appends a row for each record that passes. How many.
    ///
    /// # Panics
    /// When the records are shorter than the program's.
    pub fn project(&self, scratch: &mut Scratch, records: Records<'_>, out: &mut Vec<u8>) -> usize {
        let mut total = 0;
        for (_, block) in self.blocks(records) {
            let count = self.choose(scratch, block);
            let room = std::mem::take(&mut scratch.chosen);
            let chosen = &room[..count];
            self.rest.run(scratch, block, Some(chosen));
            let start = out.len();
            out.resize(start + chosen.len() * self.row, 0);
            for cell in &self.cells {
                let rows = out[start..].chunks_exact_mut(self.row.max(1)).zip(chosen);
                match *cell {
                    Cell::Copy { at, from, width } => rows.for_each(|(row, i)| {
                        row[at..at + width].copy_from_slice(&block.get(*i as usize)[from..from + width]);
                    }),
                    Cell::Value { at, kind, result } => {
                        let place = self.rest.results[result];
                        match kind {
                            Type::Bool => rows.enumerate().for_each(|(k, (row, _))| row[at] = scratch.bools[place][k]),
                            Type::Word => rows.enumerate().for_each(|(k, (row, _))| {
                                row[at..at + 8].copy_from_slice(&scratch.words[place][k].to_le_bytes());
                            }),
                            Type::Double => rows.enumerate().for_each(|(k, (row, _))| {
                                row[at..at + 8].copy_from_slice(&settled(scratch.words[place][k]).to_le_bytes());
                            }),
                        }
                    }
                }
            }
            total += chosen.len();
            scratch.chosen = room;
        }
        total
    }

    /// Adds the records that pass to the states. How many.
    ///
    /// # Panics
    /// When the records are shorter than the program's.
    pub fn fold(&self, scratch: &mut Scratch, records: Records<'_>, states: &mut [u64]) -> usize {
        let mut total = 0;
        for (_, block) in self.blocks(records) {
            let count = self.choose(scratch, block);
            let room = std::mem::take(&mut scratch.chosen);
            let chosen = &room[..count];
            self.rest.run(scratch, block, Some(chosen));
            let n = chosen.len();
            for (state, (fold, value)) in states.iter_mut().zip(&self.folds) {
                match value {
                    None => *state = state.wrapping_add(n as u64),
                    Some((result, kind)) => {
                        let place = self.rest.results[*result];
                        if *kind == Type::Bool {
                            *state = scratch.bools[place][..n].iter().fold(*state, |s, v| fold.step(s, u64::from(*v)));
                        } else {
                            *state = add_up(*fold, *state, &scratch.words[place][..n]);
                        }
                    }
                }
            }
            total += n;
            scratch.chosen = room;
        }
        total
    }

    /// Bytes of a record.
    pub fn record(&self) -> usize {
        self.record
    }
}

fn add_up(fold: Fold, state: u64, values: &[u64]) -> u64 {
    macro_rules! loops {
        ($($name:ident),*) => {
            match fold { $(Fold::$name => values.iter().fold(state, |s, v| Fold::$name.step(s, *v)),)* }
        };
    }
    loops!(Count, MinS, MinU, MinDouble, MaxS, MaxU, MaxDouble, Last)
}
