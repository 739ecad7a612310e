//! Which engine is chosen, beside the one that would have been best, for so many messages: all of it from the text on.

use super::terms::SIX;
use super::trades::{MANY, Trade, schema, trades};
use crate::table::{Aim, Case, Table, times};
use chappe::synth::closure::Closures;
use chappe::synth::interpret::Interpreter;
use chappe::synth::{Form, Live, Query, Schema, Trust};
use std::hint::black_box;
use std::time::Instant;

/// Nanoseconds for all messages, with what must be made for them.
fn whole<'a, F: FnMut(&[u8]) -> bool>(
    all: &'a [Trade],
    messages: usize,
    schema: &'a Schema,
    make: impl Fn(Query) -> F + 'a,
) -> impl FnMut() -> f64 + 'a {
    move || {
        // The case before may have been the compiler, which fills the caches: each begins behind the same work.
        black_box(make(Query::filter(schema, SIX).expect("a condition"))(bytemuck::bytes_of(&all[0])));
        let start = Instant::now();
        let mut test = make(Query::filter(schema, SIX).expect("a condition"));
        for n in 0..messages {
            black_box(test(bytemuck::bytes_of(&all[n % MANY])));
        }
        start.elapsed().as_nanos() as f64
    }
}

/// The tables, and what was wanted.
///
/// # Panics
/// When a query cannot be made.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let (all, schema) = (trades(), schema());
    let mut aims = Vec::new();
    for messages in [10, 1_000, 100_000] {
        let live = |query: Query| Live::new(&query, &[], Trust::Own).expect("a query");
        let cases = vec![
            Case::new(
                "chosen",
                whole(&all, messages, &schema, |q| {
                    let mut evaluator = live(q).evaluator();
                    move |r: &[u8]| evaluator.test(r)
                }),
            ),
            Case::new(
                "interpreted",
                whole(&all, messages, &schema, |q| {
                    let bound = q.bind(&[]).expect("no parameters");
                    let mut interpreter = Interpreter::default();
                    move |r: &[u8]| interpreter.run(bound.program(), &[], r)
                }),
            ),
            Case::new(
                "closures",
                whole(&all, messages, &schema, |q| {
                    let closures = Closures::new(q.bind(&[]).expect("no parameters").program()).expect("closures");
                    move |r: &[u8]| closures.test(r)
                }),
            ),
            Case::new(
                "machine code, made first",
                whole(&all, messages, &schema, |q| {
                    let live = live(q);
                    live.compile(Form::Test);
                    let mut evaluator = live.evaluator();
                    move |r: &[u8]| evaluator.test(r)
                }),
            ),
        ];
        let table = Table::measure(format!("from the text on, {messages} messages"), rounds, cases);
        println!("{}", table.report());
        let best = table.best(&["interpreted", "closures", "machine code, made first"]);
        let what = format!("{messages} messages: what was chosen beside the best ({best})");
        aims.push(Aim::at_most(what, 1.1, table.ratio_to("chosen", best), times));
    }
    aims
}
