//! From the text of a subscription to machine code, which another thread makes.

use super::trades::{Trade, schema, trade};
use crate::table::{Aim, Table, nanoseconds};
use chappe::synth::engine::{Measured, compiled_here};
use chappe::synth::{Form, Live, Query, Trust};
use std::time::{Duration, Instant};

/// Each time another condition, of two to six terms.
fn text(n: u32) -> String {
    let terms = [
        format!("price > {}.5", n % 20),
        format!("qty < {}", n % 97 + 2),
        "sym == 'X'".to_owned(),
        format!("volume < {}.25", n % 900 + 1),
        format!("venue != {}", n % 7),
        format!("id >= {n}u"),
    ];
    terms[..2 + n as usize % 5].join(" && ")
}

/// Until an evaluator has machine code. None: nothing came in a second.
fn until(mut there: impl FnMut() -> bool) -> Option<f64> {
    let start = Instant::now();
    while !there() {
        if start.elapsed() > Duration::from_secs(1) {
            return None;
        }
    }
    Some(start.elapsed().as_nanos() as f64)
}

/// The table, and what was wanted.
///
/// # Panics
/// When the thread that uses a query compiles it.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let schema = schema();
    let (mut checked, mut asked, mut flowing) = (Vec::new(), Vec::new(), Vec::new());
    let before = compiled_here();
    for n in 0..rounds * 8 {
        let start = Instant::now();
        let query = Query::filter(&schema, &text(n)).expect("a condition");
        let live = Live::new(&query, &[], Trust::Own).expect("a query");
        let parsed = start.elapsed().as_nanos() as f64;
        let (mut evaluator, mut measured) = (live.evaluator(), Measured::default());
        measured.counts(u64::MAX / 2);
        measured.took(&live.version(), Form::Test, 1e6);
        let Some(_) = until(|| evaluator.engine(Form::Test) == "machine code") else {
            println!("\nno machine code is made on this machine");
            return Vec::new();
        };
        // The first few find neither the thread nor the caches.
        if n >= 8 {
            asked.push(start.elapsed().as_nanos() as f64);
            checked.push(parsed);
        }
    }
    let record: Trade = trade(1);
    for n in 0..rounds * 8 {
        let start = Instant::now();
        let live = Live::filter(&schema, &text(1000 + n), &[]).expect("a query");
        let mut evaluator = live.evaluator();
        let came = until(|| {
            for _ in 0..32 {
                std::hint::black_box(evaluator.test(bytemuck::bytes_of(&record)));
            }
            evaluator.engine(Form::Test) == "machine code"
        });
        flowing.extend(came.map(|_| start.elapsed().as_nanos() as f64));
    }
    assert_eq!(compiled_here(), before, "the thread that uses a query does not compile it");
    let mut rows = vec![
        ("read, checked, closures made".to_owned(), checked),
        ("that, and machine code asked for at once".to_owned(), asked),
    ];
    let most = rows[1].1.len();
    if flowing.len() > most {
        flowing.truncate(most);
        rows.push(("that, asked for when it pays, records flowing".to_owned(), flowing));
    }
    let table = Table::of("from the text to machine code, by another thread", rows);
    println!("{}", table.report());
    let median = table.row("that, and machine code asked for at once").quantile(0.5);
    vec![Aim::at_most("from subscribe to machine code, p50", 150_000.0, median, nanoseconds)]
}
