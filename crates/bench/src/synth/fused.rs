//! Five stages as one loop, beside a loop for each over a block of records.

use super::trades::{MANY, records, schema, trades};
use crate::table::{Aim, Case, Table, times};
use chappe::synth::vector::{BLOCK, Scratch, Vectors};
use chappe::synth::{Bound, Evaluator, Form, Live, Query, Records, Schema, Trust};
use std::hint::black_box;
use std::time::Instant;

/// What each stage lets through, and what it makes of that.
const STAGES: [(Option<&str>, &str); 5] = [
    (Some("price > 1.0"), "price, volume, qty, venue, price * volume as worth"),
    (None, "worth - price * 2.0 as net, qty * 3 as lots, venue, volume"),
    (Some("lots < 270"), "net, lots + venue as key, volume, net / (volume + 1.0) as rate"),
    (Some("rate > 0.5"), "net * 0.75 as share, key * 7 % 64 as slot, rate, volume"),
    (Some("slot != 5"), "share + rate as total, slot, volume - rate as rest"),
];

fn stages() -> Vec<Bound> {
    let mut over: Schema = schema();
    let mut all = Vec::new();
    for (condition, list) in STAGES {
        let query = Query::new(&over, condition, Some(list)).unwrap_or_else(|e| panic!("{e}"));
        over = query.rows().expect("rows").clone();
        all.push(query.bind(&[]).expect("no parameters"));
    }
    all
}

/// A stage after the other, a block at a time, so that what lies between them stays in the first cache.
fn by_blocks(
    all: Records<'_>,
    count: usize,
    between: &mut [Vec<u8>; 2],
    sizes: &[usize],
    out: &mut Vec<u8>,
    mut stage: impl FnMut(usize, Records<'_>, &mut Vec<u8>),
) {
    for from in (0..all.len()).step_by(BLOCK) {
        let mut block = all.part(from, BLOCK.min(all.len() - from));
        let [a, b] = between;
        for (at, size) in sizes.iter().copied().enumerate().take(count) {
            let to: &mut Vec<u8> = if at + 1 == count { &mut *out } else { &mut *b };
            if at + 1 < count {
                to.clear();
            }
            stage(at, block, to);
            if at + 1 < count {
                std::mem::swap(a, b);
                block = Records::new(&*a, size, size);
            }
        }
    }
}

fn timed(mut work: impl FnMut(&mut Vec<u8>)) -> impl FnMut() -> f64 {
    let mut out = Vec::new();
    move || {
        const AGAIN: u32 = 8;
        let start = Instant::now();
        for _ in 0..AGAIN {
            out.clear();
            work(&mut out);
            black_box(&out);
        }
        start.elapsed().as_nanos() as f64 / f64::from(AGAIN) / MANY as f64
    }
}

/// The table, and what was wanted.
///
/// # Panics
/// When what comes out differs by a bit.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let all = trades();
    let stages = stages();
    let sizes: Vec<usize> = stages.iter().map(|s| s.query().rows().expect("rows").size() as usize).collect();
    let one = stages[1..].iter().fold(stages[0].clone(), |first, next| first.then(next).expect("a chain"));
    let vectors: Vec<Vectors> = stages.iter().map(|s| Vectors::new(s.program())).collect();
    let fused = Vectors::new(one.program());
    let mut compiled = true;
    let mut evaluator = |bound: &Bound| -> Evaluator {
        let live = Live::of(bound.clone(), Trust::Own).expect("a query");
        compiled &= live.compile(Form::Project);
        live.evaluator()
    };
    let mut machines: Vec<Evaluator> = stages.iter().map(&mut evaluator).collect();
    let mut machine = evaluator(&one);
    let (mut s, mut t) = (Scratch::default(), Scratch::default());
    let count = stages.len();
    let (mut x, mut y) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
    let mut in_blocks = |out: &mut Vec<u8>| {
        by_blocks(records(&all), count, &mut x, &sizes, out, |at, r, to| _ = vectors[at].project(&mut s, r, to));
    };
    let mut by_machine = |out: &mut Vec<u8>| {
        by_blocks(records(&all), count, &mut y, &sizes, out, |at, r, to| _ = machines[at].project(r, to));
    };
    let mut as_one = |out: &mut Vec<u8>| _ = fused.project(&mut t, records(&all), out);
    let mut as_code = |out: &mut Vec<u8>| _ = machine.project(records(&all), out);
    let mut outs = [const { Vec::new() }; 4];
    in_blocks(&mut outs[0]);
    by_machine(&mut outs[1]);
    as_one(&mut outs[2]);
    as_code(&mut outs[3]);
    assert!(outs.iter().all(|o| *o == outs[0] && !o.is_empty()), "equal to the bit");
    let rows = outs[0].len() / sizes[count - 1];
    let mut cases =
        vec![Case::new("block by block, vectorised", timed(in_blocks)), Case::new("as one, vectorised", timed(as_one))];
    if compiled {
        cases.push(Case::new("block by block, machine code", timed(by_machine)));
        cases.push(Case::new("as one, machine code", timed(as_code)));
    }
    let table = Table::measure(format!("five stages, a record ({rows} of {MANY} come out)"), rounds, cases);
    println!("{}", table.report());
    let mut aims = Vec::new();
    if compiled {
        let of = |base| table.ratio_to("as one, machine code", base);
        aims.push(Aim::at_most(
            "five stages as one beside block by block, machine code",
            0.6,
            of("block by block, machine code"),
            times,
        ));
        aims.push(Aim::at_most(
            "five stages as one beside block by block, vectorised",
            0.6,
            of("block by block, vectorised"),
            times,
        ));
    }
    aims
}
