//! Random expressions, records and programs, from a seed: the same seed gives the same ones.

#![allow(dead_code, reason = "each test file takes what it needs of it; delete what none does")]

use chappe_synth::ir::{Aggregate, Bin, Column, Fold, Op, Program, Source, Type, Un};
use chappe_synth::{Scalar, Schema};

/// Numbers by splitmix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Bits at which things go wrong more often than elsewhere.
    pub fn bits(&mut self) -> u64 {
        let edges = [
            0,
            1,
            2,
            7,
            u64::MAX,
            i64::MAX as u64,
            i64::MIN as u64,
            (-2i64) as u64,
            (-0.0f64).to_bits(),
            1.5f64.to_bits(),
            f64::NAN.to_bits(),
            (-f64::NAN).to_bits() | 5,
            f64::INFINITY.to_bits(),
            f64::NEG_INFINITY.to_bits(),
            1e19f64.to_bits(),
            (-1e19f64).to_bits(),
        ];
        match self.below(4) {
            0 => self.next(),
            1 => self.below(10) as u64,
            2 => (self.below(2000) as f64 / 8.0 - 100.0).to_bits(),
            _ => *self.of(&edges),
        }
    }
}

pub const SCHEMA: &str = "flag: bool, a: i8, b: i16, c: i32, d: i64, e: u8, f: u16, g: u32, h: u64, x: f32, y: f64, \
                          s: str[3], t: str[8], u: str[13], on: bool";

pub fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

/// Records of [`SCHEMA`], with texts that are often those of the expressions.
pub fn records(dice: &mut Dice, schema: &Schema, count: usize) -> Vec<u8> {
    let size = schema.size() as usize;
    let mut bytes = Vec::with_capacity(size * count);
    for _ in 0..count {
        let start = bytes.len();
        while bytes.len() < start + size {
            bytes.push(dice.next() as u8);
        }
        for field in schema.fields() {
            let at = start + field.at as usize;
            let width = field.kind.width() as usize;
            let bits = match field.kind {
                chappe_synth::FieldType::Text(_) => {
                    let text = *dice.of(&TEXTS);
                    let n = text.len().min(width);
                    bytes[at..at + n].copy_from_slice(&text.as_bytes()[..n]);
                    if n < width {
                        bytes[at + n] = 0;
                    }
                    continue;
                }
                chappe_synth::FieldType::Scalar(Scalar::F32) => {
                    u64::from((f64::from_bits(dice.bits()) as f32).to_bits())
                }
                chappe_synth::FieldType::Scalar(_) => dice.bits(),
                other => unreachable!("no schema of this test has {other}"),
            };
            bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
        }
    }
    bytes
}

const TEXTS: [&str; 8] = ["", "A", "AB", "ABC", "ABCD", "ABCDEFGH", "ABCDEFGHIJKLM", "B"];

/// An expression of a type: `i` int, `u` uint, `d` double, `b` bool. With parameters `$i`, `$u`, `$d`, `$b`, `$t`, if asked for.
pub fn expression(dice: &mut Dice, kind: char, depth: usize, params: bool) -> String {
    let next = depth.saturating_sub(1);
    let mut sub = |kind: char| expression(dice, kind, next, params);
    if depth == 0 {
        return leaf(dice, kind, params);
    }
    match kind {
        'b' => {
            let k = ['i', 'u', 'd'][sub('i').len() % 3];
            let (p, q, r) = (sub(k), sub(k), sub(k));
            let (v, w) = (sub('b'), sub('b'));
            let relation = *dice.of(&["<", "<=", ">", ">=", "==", "!="]);
            match dice.below(10) {
                0..=3 => format!("{p} {relation} {q}"),
                4 => format!("{v} && {w}"),
                5 => format!("({v} || {w})"),
                6 => format!("!({v})"),
                7 => format!("({v}) == ({w})"),
                8 => format!("{p} in [{q}, {r}]"),
                _ => text_test(dice, params),
            }
        }
        'd' => {
            let (p, q, v) = (sub('d'), sub('d'), sub('b'));
            let whole = sub(if p.len() % 2 == 0 { 'i' } else { 'u' });
            match dice.below(9) {
                0..=4 => format!("({p} {} {q})", dice.of(&["+", "-", "*", "/"])),
                5 => format!("double({whole})"),
                6 => format!("({v} ? {p} : {q})"),
                7 => format!("math.{}({p}, {q})", dice.of(&["least", "greatest"])),
                _ => format!("-math.abs({p})"),
            }
        }
        _ => {
            let (p, q, v) = (sub(kind), sub(kind), sub('b'));
            let name = if kind == 'i' { "int" } else { "uint" };
            let other = sub(['d', if kind == 'i' { 'u' } else { 'i' }][p.len() % 2]);
            match dice.below(11) {
                0..=4 => format!("({p} {} {q})", dice.of(&["+", "-", "*", "/", "%"])),
                5 => format!("{name}({other})"),
                6 => format!("({v} ? {p} : {q})"),
                7 => format!("math.{}({p}, {q})", dice.of(&["least", "greatest"])),
                8 if kind == 'i' => format!("-math.abs({p})"),
                8 => format!("math.bitNot({p})"),
                9 => format!("{name}({v})"),
                _ => {
                    let ops = ["bitAnd", "bitOr", "bitXor", "bitShiftLeft", "bitShiftRight"];
                    format!("math.{}({p}, {q})", dice.of(&ops))
                }
            }
        }
    }
}

fn text_test(dice: &mut Dice, params: bool) -> String {
    let (field, text) = (*dice.of(&["s", "t", "u"]), *dice.of(&TEXTS));
    let text = if params && dice.below(3) == 0 { "$t".to_owned() } else { format!("'{text}'") };
    match dice.below(4) {
        0 => format!("{field} == {text}"),
        1 => format!("{field} != {text}"),
        2 => format!("{field}.startsWith({text})"),
        _ => format!("{field} in ['AB', {text}]"),
    }
}

fn leaf(dice: &mut Dice, kind: char, params: bool) -> String {
    if params && dice.below(4) == 0 {
        // What says its type by itself: two parameters beside each other would be ints.
        return match kind {
            'i' => "int($i)".to_owned(),
            'u' => "uint($u)".to_owned(),
            'd' => "double($d)".to_owned(),
            _ => "!$b".to_owned(),
        };
    }
    let fields: &[&str] = match kind {
        'i' => &["a", "b", "c", "d"],
        'u' => &["e", "f", "g", "h"],
        'd' => &["x", "y"],
        _ => &["flag", "on", "true", "math.isNaN(y)"],
    };
    if kind == 'b' || dice.below(3) > 0 {
        return (*dice.of(fields)).to_owned();
    }
    match kind {
        'i' => format!("{}", dice.below(40) as i64 - 10),
        'u' => format!("{}u", dice.bits()),
        _ => (*dice.of(&["0.0", "1.5", "-0.0", "1e300", "-7.25"])).to_owned(),
    }
}

/// Operations at random, some of them wrong: what the verifier is there for.
pub fn program(dice: &mut Dice) -> Program {
    let record = *dice.of(&[1u32, 3, 7, 8, 9, 16, 33, 64]);
    let mut p = Program { record, ..Program::default() };
    let wrong = dice.below(4) == 0;
    let mut by_type: [Vec<u32>; 3] = Default::default();
    // What takes an operand that is not there, or comes later, has no type: `Program::type_of` is for operations that stand in order, and
    // would never end on a circle of them.
    let mut typed: Vec<bool> = Vec::new();
    for _ in 0..1 + dice.below(24) {
        let op = operation(dice, &p, &by_type, wrong);
        let Some(op) = op else { continue };
        p.ops.push(op);
        let id = (p.ops.len() - 1) as u32;
        let has_type = op.operands().all(|o| typed.get(o as usize) == Some(&true));
        typed.push(has_type);
        if has_type {
            by_type[p.type_of(id) as usize].push(id);
        }
    }
    let pick = |dice: &mut Dice, t: Type| {
        let of = &by_type[t as usize];
        if of.is_empty() { None } else { Some(of[dice.below(of.len())]) }
    };
    p.filter = pick(dice, Type::Bool);
    for t in [Type::Word, Type::Double, Type::Bool] {
        if let Some(id) = pick(dice, t) {
            p.columns.push(Column { at: p.row, source: Source::Value(id) });
            p.row += 8;
        }
    }
    let width = dice.below(record as usize) as u32 + 1;
    let from = dice.below(record as usize) as u32;
    if wrong || from + width <= record {
        p.columns.push(Column { at: p.row, source: Source::Copy { from, width } });
        p.row += width;
    }
    for fold in Fold::ALL {
        let value = match fold {
            Fold::Count => None,
            fold => pick(dice, fold.takes().unwrap_or(Type::Double)),
        };
        if wrong || fold == Fold::Count || value.is_some() {
            p.aggregates.push(Aggregate { fold, value });
        }
    }
    p
}

fn operation(dice: &mut Dice, p: &Program, by_type: &[Vec<u32>; 3], wrong: bool) -> Option<Op> {
    let wild = wrong && dice.below(8) == 0;
    let mut operand = |t: Type| {
        if wild {
            return Some(dice.below(p.ops.len() + 2) as u32);
        }
        let of = &by_type[t as usize];
        if of.is_empty() { None } else { Some(of[dice.below(of.len())]) }
    };
    let (w, d, b) = (operand(Type::Word), operand(Type::Double), operand(Type::Bool));
    let (w2, d2, b2) = (operand(Type::Word), operand(Type::Double), operand(Type::Bool));
    let of = |t: Type, first: bool| match (t, first) {
        (Type::Word, true) => w,
        (Type::Word, false) => w2,
        (Type::Double, true) => d,
        (Type::Double, false) => d2,
        (Type::Bool, true) => b,
        (Type::Bool, false) => b2,
    };
    Some(match dice.below(12) {
        0 => Op::Word(dice.bits()),
        1 => Op::Double(dice.bits()),
        2..=4 => {
            let kind = *dice.of(&Scalar::ALL);
            let room = i64::from(p.record) - i64::from(kind.width());
            if room < 0 && !wild {
                return None;
            }
            let at = if wild { dice.next() as u32 } else { dice.below(room as usize + 1) as u32 };
            Op::Load { at, kind }
        }
        5..=6 => {
            let op = *dice.of(&Un::ALL);
            Op::Un(op, of(op.types().0, true)?)
        }
        7..=10 => {
            let op = *dice.of(&Bin::ALL);
            Op::Bin(op, of(op.types().0, true)?, of(op.types().0, false)?)
        }
        _ => {
            let t = *dice.of(&[Type::Word, Type::Double, Type::Bool]);
            Op::Select(b?, of(t, true)?, of(t, false)?)
        }
    })
}
