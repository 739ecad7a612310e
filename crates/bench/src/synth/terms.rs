//! What a condition costs: of two terms over many records at once, and of six terms for one message.

use super::trades::{MANY, Trade, records, schema, trades};
use crate::table::{Aim, Case, Table, nanoseconds, times};
use bytemuck::bytes_of;
use chappe::synth::closure::Closures;
use chappe::synth::interpret::Interpreter;
use chappe::synth::vector::{Scratch, Vectors};
use chappe::synth::{Form, Live, Query, Trust};
use std::hint::black_box;
use std::time::Instant;

/// Two terms.
pub const TWO: &str = "price > 10.0 && qty < 50";
/// Six terms.
pub const SIX: &str = "price > 2.0 && qty < 90 && sym == 'X' && volume < 900.0 && venue != 3 && id >= 16u";

/// The numbers of those that pass, without a branch. `out` has room for each.
#[inline(never)]
fn by_hand(all: &[Trade], out: &mut Vec<u32>) {
    out.clear();
    out.reserve(all.len());
    let room = out.as_mut_ptr();
    let mut count = 0;
    for (at, t) in all.iter().enumerate() {
        // SAFETY: there is room for as many numbers as there are records, and `count` is at most `at`.
        unsafe { room.add(count).write(at as u32) };
        count += usize::from((t.price > 10.0) & (t.qty < 50));
    }
    // SAFETY: so many were written.
    unsafe { out.set_len(count) };
}

fn passes(t: &Trade) -> bool {
    let sym = u64::from_ne_bytes(t.sym) == u64::from_ne_bytes(*b"X\0\0\0\0\0\0\0");
    (t.price > 2.0) & (t.qty < 90) & sym & (t.volume < 900.0) & (t.venue != 3) & (t.id >= 16)
}

#[inline(never)]
fn called(t: &Trade) -> bool {
    passes(t)
}

fn batch(mut select: impl FnMut(&mut Vec<u32>), wanted: &[u32]) -> impl FnMut() -> f64 {
    const AGAIN: u32 = 16;
    let mut out = Vec::with_capacity(MANY + 1);
    select(&mut out);
    assert_eq!(out, wanted, "the same records");
    move || {
        let start = Instant::now();
        for _ in 0..AGAIN {
            out.clear();
            select(&mut out);
            black_box(&out);
        }
        start.elapsed().as_nanos() as f64 / f64::from(AGAIN) / MANY as f64
    }
}

fn one<'a>(all: &'a [Trade], count: usize, mut test: impl FnMut(&Trade) -> bool + 'a) -> impl FnMut() -> f64 + 'a {
    let wanted = all.iter().filter(|t| passes(t)).count() * count / MANY;
    move || {
        let start = Instant::now();
        let passed = all.iter().cycle().take(count).filter(|t| test(t)).count();
        let ns = start.elapsed().as_nanos() as f64 / count as f64;
        assert!(!count.is_multiple_of(MANY) || passed == wanted, "the same records");
        ns
    }
}

/// The table of two terms.
///
/// # Panics
/// When engines differ.
fn two(rounds: u32) -> Vec<Aim> {
    let all = trades();
    let query = Query::filter(&schema(), TWO).expect("a condition");
    let program = query.program();
    let (closures, vectors) = (Closures::new(program).expect("closures"), Vectors::new(program));
    let live = Live::new(&query, &[], Trust::Own).expect("a query");
    let compiled = live.compile(Form::Select);
    let (mut evaluator, mut scratch, mut interpreter) = (live.evaluator(), Scratch::default(), Interpreter::default());
    let mut wanted = Vec::new();
    by_hand(&all, &mut wanted);
    let mut cases = vec![Case::new("hand-written, branch-free Rust", batch(|out| by_hand(&all, out), &wanted))];
    if compiled {
        cases.push(Case::new("machine code", batch(|out| evaluator.select(records(&all), out), &wanted)));
    }
    cases.push(Case::new("vectorised", batch(|out| vectors.select(&mut scratch, records(&all), out), &wanted)));
    cases.push(Case::new("closures", batch(|out| closures.select(records(&all), out), &wanted)));
    cases.push(Case::new(
        "interpreted",
        batch(
            |out| {
                let r = records(&all);
                out.extend((0..MANY as u32).filter(|at| interpreter.run(program, &[], r.get(*at as usize))));
            },
            &wanted,
        ),
    ));
    #[cfg(feature = "expressions")]
    {
        let (mut cel, mut fast) = (super::peers::cel(TWO), super::peers::fasteval(TWO));
        let few = all.len() / 16;
        cases.push(Case::new("cel (an interpreter)", few_of(&all[..few], &wanted, move |t| cel(t))));
        cases.push(Case::new("fasteval (numbers, compiled to a tree)", few_of(&all[..few], &wanted, move |t| fast(t))));
    }
    let table = Table::measure("two terms, many records of 64 B at once", rounds, cases);
    println!("{}", table.report());
    let mut aims = Vec::new();
    if compiled {
        aims.push(Aim::at_most(
            "2 terms, batched: machine code beside hand-written",
            1.2,
            table.ratio("machine code"),
            times,
        ));
    }
    let vector = table.row("vectorised").quantile(0.5);
    aims.push(Aim::at_most("2 terms, batched: without machine code", 2.5, vector, nanoseconds));
    aims
}

/// For peers that take long: some of the records.
#[cfg(feature = "expressions")]
fn few_of<'a>(
    some: &'a [Trade],
    wanted: &[u32],
    mut test: impl FnMut(&Trade) -> bool + 'a,
) -> impl FnMut() -> f64 + 'a {
    let wanted: Vec<u32> = wanted.iter().copied().filter(|at| (*at as usize) < some.len()).collect();
    move || {
        let start = Instant::now();
        let passed: Vec<u32> = (0..).zip(some).filter(|(_, t)| test(t)).map(|(at, _)| at).collect();
        let ns = start.elapsed().as_nanos() as f64 / some.len() as f64;
        assert_eq!(passed, wanted, "the same records");
        ns
    }
}

/// The table of six terms.
fn six(rounds: u32) -> Vec<Aim> {
    let all = trades();
    let query = Query::filter(&schema(), SIX).expect("a condition");
    let closures = Closures::new(query.program()).expect("closures");
    let live = Live::new(&query, &[], Trust::Own).expect("a query");
    let compiled = live.compile(Form::Test);
    let (mut evaluator, mut interpreter) = (live.evaluator(), Interpreter::default());
    let test: fn(&Trade) -> bool = black_box(called);
    let mut cases = vec![Case::new("hand-written, called for each message", one(&all, 4 * MANY, test))];
    cases.push(Case::new("hand-written, part of the loop", one(&all, 4 * MANY, passes)));
    if compiled {
        cases.push(Case::new("machine code", one(&all, 4 * MANY, |t| evaluator.test(bytes_of(t)))));
    }
    cases.push(Case::new("closures", one(&all, 2 * MANY, |t| closures.test(bytes_of(t)))));
    cases.push(Case::new("interpreted", one(&all, MANY, |t| interpreter.run(query.program(), &[], bytes_of(t)))));
    #[cfg(feature = "expressions")]
    cases.push(Case::new("cel (an interpreter)", one(&all, MANY / 16, super::peers::cel(SIX))));
    let table = Table::measure("six terms, one message of 64 B", rounds, cases);
    println!("{}", table.report());
    if !compiled {
        return Vec::new();
    }
    let machine = table.row("machine code").quantile(0.5);
    vec![
        Aim::at_most("6 terms, one message: machine code", 4.0, machine, nanoseconds),
        Aim::at_most("6 terms, one message: beside hand-written, called", 1.2, table.ratio("machine code"), times),
    ]
}

/// Both tables, and what was wanted.
///
/// # Panics
/// When engines differ.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let mut aims = two(rounds);
    aims.extend(six(rounds));
    aims
}
