//! Many subscriptions of one stream: all of them as one routine, beside each asked for itself.

use super::trades::{MANY, SIZE, schema, trades};
use crate::table::{Aim, Case, Table, times};
use chappe::synth::closure::Closures;
use chappe::synth::{Query, Switchboard, Trust};
use std::hint::black_box;
use std::time::Instant;

/// What subscribers of trades ask for: ranges, a symbol, a venue.
fn filter(n: usize) -> String {
    let (low, high) = (n % 19, n % 19 + 1 + n / 19 % 4);
    match n % 3 {
        0 => format!("price > {low}.0 && price <= {high}.0 && sym == 'X'"),
        1 => format!("qty >= {} && qty < {} && venue == {}", n % 97, n % 97 + 5, n % 7),
        _ => format!("volume > {}.5 && sym == '{}'", 990 - n, if n.is_multiple_of(2) { 'X' } else { 'Y' }),
    }
}

fn each(all: &[u8], mut route: impl FnMut(&[u8]) -> u64) -> f64 {
    let start = Instant::now();
    for record in all.chunks_exact(SIZE) {
        black_box(route(record));
    }
    start.elapsed().as_nanos() as f64 / MANY as f64
}

/// The table, and what was wanted.
///
/// # Panics
/// When the routine and the filters differ.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let all = trades();
    let all: &[u8] = bytemuck::cast_slice(&all);
    let schema = schema();
    let bound = |n| Query::filter(&schema, &filter(n)).expect("a filter").bind(&[]).expect("no parameters");
    let of = |count: usize| {
        let board = Switchboard::new(&schema);
        (0..count).for_each(|n| _ = board.subscribe(&bound(n), Trust::Own).expect("room"));
        board
    };
    let (few, many) = (of(8), of(256));
    let (mut few, mut many) = (few.reader(), many.reader());
    let alone: Vec<Closures> = (0..256).map(|n| Closures::new(bound(n).program()).expect("closures")).collect();
    let by_one = |record: &[u8], count: usize| {
        (0..count).filter(|n| alone[*n].test(record)).map(|n| 1u64.rotate_left(n as u32)).fold(0, u64::wrapping_add)
    };
    let (mut wanted, mut seen) = (Vec::new(), 0);
    for record in all.chunks_exact(SIZE) {
        let words = many.route(record, &mut wanted);
        let same = (0..256).all(|n| (words[n / 64] >> (n % 64) & 1 != 0) == alone[n].test(record));
        assert!(same, "the routine and the filters agree");
        seen += words.iter().map(|w| w.count_ones()).sum::<u32>();
    }
    assert!(seen > 0, "something passes");
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let table = Table::measure(
        "who wants a record, of so many subscriptions",
        rounds,
        vec![
            Case::new("8, as one routine", || each(all, |r| few.route(r, &mut a)[0])),
            Case::new("256, as one routine", || each(all, |r| many.route(r, &mut b)[0])),
            Case::new("8, one by one", || each(all, |r| by_one(r, 8))),
            Case::new("256, one by one", || each(all, |r| by_one(r, 256))),
        ],
    );
    println!("{}", table.report());
    vec![Aim::at_most("256 subscriptions beside 8, as one routine", 4.0, table.ratio("256, as one routine"), times)]
}
