//! Python's multiprocessing and threading, unmodified.

use crate::stage::{Stage, is_there, not_tested, well};
use std::path::{Path, PathBuf};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name).with_extension("py")
}

fn is_absent() -> bool {
    let absent = !is_there("python3");
    if absent {
        not_tested("Python's multiprocessing: there is no python3");
    }
    absent
}

#[test]
#[ignore = "storm: a program for many seconds"]
fn everything_of_multiprocessing_works_however_processes_begin() {
    if is_absent() {
        return;
    }
    for method in ["fork", "spawn"] {
        let stage = Stage::new();
        assert_eq!(well(stage.under("python3").arg(script("everything")).arg(method)), format!("{method}: all well\n"));
        assert_eq!(well(stage.owned("python3").arg(script("everything")).arg(method)), format!("{method}: all well\n"));
        assert_eq!(stage.files(), [""; 0]);
    }
}

#[test]
fn threading_works() {
    if !is_absent() {
        assert_eq!(well(Stage::new().under("python3").arg(script("threads"))), "all well\n");
    }
}

#[test]
#[ignore = "storm: kills, and a program for many seconds"]
fn work_goes_on_after_a_worker_was_killed_with_the_lock() {
    if is_absent() {
        return;
    }
    for method in ["fork", "spawn"] {
        let said = well(Stage::new().owned("python3").arg(script("killed")).arg(method));
        assert_eq!(said, format!("{method}: 20 workers killed with the lock, 60 turns since\n"));
    }
}

#[test]
fn a_queue_keeps_its_capacity_when_producers_go() {
    if !is_absent() {
        let said = well(Stage::new().owned("python3").arg(script("producers")));
        assert_eq!(said, "10 producers gone, never more than 1 in the queue\n");
    }
}
