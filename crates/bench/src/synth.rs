//! Synthesis, chapter 3: code that is made for what stays the same, beside code that asks again each time; what a record costs.
//!
//! The thesis' table 3.1 puts bytes into a buffer; here a subscriber's condition is asked of records, which is where chappe makes code:
//! [`measure`], for the lab. `bench synth` ([`all`]) has records of 64 bytes:
//!
//! | table | module |
//! |---|---|
//! | two terms over many records, six terms for one message, beside hand-written Rust and interpreters | [`terms`] |
//! | the same two terms by NumPy and polars | [`python`] |
//! | a broadcast tube with a filter that passes 1 % | [`filtered`] |
//! | 256 subscriptions beside 8 | [`many`] |
//! | from the text to machine code | [`creation`] |
//! | five stages as one | [`fused`] |
//! | the engine that is chosen beside the best one | [`even`] |
//! | a number printed by fixed-point arithmetic (7.4.1) | [`fixed`] |
//! | a device's callback as its sources come and go (table 3.4) | [`period`] |

pub mod creation;
pub mod even;
pub mod filtered;
pub mod fixed;
pub mod fused;
pub mod many;
#[cfg(feature = "expressions")]
pub mod peers;
pub mod period;
pub mod python;
pub mod terms;
pub mod trades;

use crate::process::pin;
use crate::table::{Aim, Case, Table};
use chappe::synth::closure::Closures;
use chappe::synth::{Form, Live, Query, Schema, Trust, Value};
use std::hint::black_box;
use std::time::Instant;

const RECORDS: usize = 4_096;
const SIZE: usize = 24;

/// `price: f64, qty: i32, sym: str[8]`, in turns below and above what is asked for.
fn records() -> Vec<u8> {
    let mut all = Vec::with_capacity(RECORDS * SIZE);
    for n in 0..RECORDS as u32 {
        let mut record = [0u8; SIZE];
        // A fixed walk through prices from 0 to 19.
        record[..8].copy_from_slice(&f64::from(n * 7 % 20).to_le_bytes());
        record[8..12].copy_from_slice(&((n % 100) as i32).to_le_bytes());
        record[12] = if n % 3 == 0 { b'X' } else { b'Y' };
        all.extend_from_slice(&record);
    }
    all
}

fn by_hand(record: &[u8]) -> bool {
    let price = f64::from_le_bytes(record[..8].try_into().expect("eight bytes"));
    let quantity = i32::from_le_bytes(record[8..12].try_into().expect("four bytes"));
    price > 10.0 && record[12] == b'X' && record[13] == 0 && quantity < 50
}

/// Nanoseconds a record.
fn each(records: &[u8], mut test: impl FnMut(&[u8]) -> bool) -> f64 {
    let start = Instant::now();
    let count = records.chunks_exact(SIZE).filter(|r| test(r)).count();
    black_box(count);
    start.elapsed().as_nanos() as f64 / RECORDS as f64
}

/// Measures and prints.
///
/// # Panics
/// When the condition cannot be compiled.
pub fn measure(rounds: u32) {
    const TEXT: &str = "price > $limit && sym == 'X' && qty < 50";
    let schema = Schema::parse("price: f64, qty: i32, sym: str[8]").expect("a schema");
    let all = records();
    let query = Query::filter(&schema, TEXT).expect("a condition");
    let limit = [("limit", Value::Int(10))];
    let closures = Closures::new(query.bind(&limit).expect("a limit").program()).expect("closures");
    let of = |trust| Live::new(&query, &limit, trust).expect("a query");
    let (own, foreign) = (of(Trust::Own), of(Trust::Foreign));
    let compiled = own.compile(Form::Test);
    let (mut evaluator, mut slow) = (own.evaluator(), foreign.evaluator());
    let name = format!("Live: {}", evaluator.engine(Form::Test));
    let wanted = all.chunks_exact(SIZE).filter(|r| by_hand(r)).count();
    assert_eq!(all.chunks_exact(SIZE).filter(|r| evaluator.test(r)).count(), wanted, "the same records");
    if !compiled {
        println!("no machine code is made on this machine");
    }
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            let cases = vec![
                Case::new("hand-written, in Rust", || each(&all, by_hand)),
                Case::new(name, || each(&all, |r| evaluator.test(r))),
                Case::new("closures", || each(&all, |r| closures.test(r))),
                Case::new("interpreted", || each(&all, |r| slow.test(r))),
            ];
            print!("{}", Table::measure("a condition of three comparisons, a record", rounds * 4, cases).report());
        });
        measured.join().expect("the measuring thread");
    });
}

/// All of `bench synth`; the aims. Call with a place for arenas.
///
/// # Panics
/// When engines differ, a message is lost, or a thread compiles that must not.
pub fn all(rounds: u32) -> Vec<Aim> {
    let mut aims = terms::measure(rounds);
    python::measure(rounds);
    aims.extend(many::measure(rounds));
    aims.extend(fused::measure(rounds));
    aims.extend(creation::measure(rounds));
    aims.extend(even::measure(rounds));
    aims.extend(period::measure(rounds));
    aims.extend(filtered::measure(rounds));
    aims
}
