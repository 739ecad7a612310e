//! Forks while another thread is in the middle of the process's first query: at every system call of it the child gets on.

#![cfg(feature = "jit")]

#[path = "../../chappe/tests/house/forked.rs"]
mod forked;

use chappe_synth::{Form, Live, Schema};

/// Compiled by this thread, so that the whole of it is seen.
fn compiled() {
    let schema = Schema::parse("qty: i32").unwrap();
    let live = Live::filter(&schema, "qty > 3", &[]).unwrap();
    assert!(live.compile(Form::Test));
    let mut evaluator = live.evaluator();
    assert_eq!(evaluator.engine(Form::Test), "machine code");
    assert!(evaluator.test(&4i32.to_le_bytes()) && !evaluator.test(&3i32.to_le_bytes()));
}

/// One test: it forks.
#[test]
fn a_child_forked_at_any_place_of_a_first_query_gets_on() {
    match forked::at_every_place("a query", || (), compiled) {
        Some(places) => assert!(places > 3, "{places} places"),
        None => eprintln!("not tested: forks at each place of a first query: nobody may be traced here"),
    }
}
