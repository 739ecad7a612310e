//! Rule `waits`: one place parks, one place wakes.
//!
//! A thread that waits for somebody else passes its time in `sync/src/wait/rest.rs`, and is woken by `wake` of `sync/src/wait/word.rs`: there the
//! roles, light threads, bells, interrupts, and the deaths of wakers are taken care of. Whatever sleeps, wakes or yields elsewhere below the
//! surface does without all that. [`PLACES`] says which files do so, and why each; no other may. A place that no longer does is
//! to be struck off. The room `plat` has what the others call; what is above the facade may sleep as it likes.

use super::Finding;
use super::house::{House, room, ships};
use super::source::has_word;

/// What sleeps, wakes or yields.
const WAYS: [&str; 11] = [
    "futex::wait",
    "futex::wait_any",
    "futex::wait_any_of",
    "futex::wake",
    "thread::sleep",
    "thread::park",
    "thread::park_timeout",
    "thread::yield_now",
    "atomic::give_way",
    "give_way",
    "nanosleep",
];

/// The rooms in which a thread could wait for a peer.
const ROOMS: [&str; 9] = ["arena", "lane", "structures", "wait", "tube", "sync", "ras", "thread", "stream"];

/// Where that may stand, and why.
const PLACES: [(&str, &str); 52] = [
    ("crates/wait/src/wait/rest.rs", "the one place to park"),
    ("crates/wait/src/wait/word.rs", "the one place to wake"),
    (
        "crates/wait/src/patience.rs",
        "sleeps for a time and waits for no other thread: a light thread gives its processor up meanwhile",
    ),
    ("crates/wait/src/interrupt.rs", "wakes a sleeper from outside again and again, until it has left its sleep"),
    ("crates/sync/src/contend.rs", "looks at a mutex for a while before it sleeps: adaptive"),
    ("crates/wait/src/spin.rs", "looks at a ring for a while before it sleeps: adaptive"),
    ("crates/wait/src/end.rs", "looks again at one that is just coming or going, for some turns"),
    ("crates/wait/src/lights.rs", "a lock of some instructions, held by a thread of this process"),
    (
        "crates/wait/src/handoff.rs",
        "the side that moves the message is at it: some instructions, and no death can end them",
    ),
    ("crates/structures/src/combine.rs", "a request's own word: the combiner answers it, and no other wait is like it"),
    ("crates/structures/src/room.rs", "a monitor's conditions have their own slots: the caller holds the lock"),
    ("crates/sync/src/plan9/word.rs", "words that lie anywhere: no arena, no member, no queue but the kernel's"),
    ("crates/wait/src/attachment.rs", "a thread that holds the process's life words, and does nothing else"),
    ("crates/wait/src/lent.rs", "a thread that holds light threads' life words, and does nothing else"),
    ("crates/sync/src/lease.rs", "looks whether a job's processes run on: they tell nobody"),
    ("crates/sync/src/lease/locks.rs", "the same, inside a lock that such a job keeps"),
    ("crates/sync/src/model/lights.rs", "a light thread as the explorer has it"),
    (
        "crates/arena/src/admin.rs",
        "the lock of an arena's administration, with which the wait queue's objects are made",
    ),
    (
        "crates/arena/src/member.rs",
        "says to the watchers that a member has come; a gate that is held for some instructions",
    ),
    ("crates/arena/src/reaper.rs", "watches for deaths: what a waiter cannot do"),
    ("crates/arena/src/reaper/group.rs", "watches for deaths: what a waiter cannot do"),
    ("crates/lane/src/ends.rs", "a pipe's writer, in a program that is no member of an arena"),
    ("crates/lane/src/demotion.rs", "each thread that comes to a pipe while its ring is given up, in such a program"),
    ("crates/ras/src/lock/parking.rs", "the slow way of a lock that is no object of an arena"),
    ("crates/ras/src/lock/patience.rs", "looks at a lock for a while before it sleeps: adaptive"),
    ("crates/ras/src/gate.rs", "one trial of restartable sequences a process; the others wait for its outcome"),
    ("crates/ras/src/gate/trial.rs", "a trial: threads that are in each other's way on purpose"),
    ("crates/ras/src/mechanism/system_call.rs", "what is measured: a sequence with the kernel's help"),
    ("crates/ras/src/mechanism/sequence.rs", "what is measured: a sequence's slow way"),
    ("crates/ras/src/mechanism/interlocked.rs", "what is measured: a sequence's slow way"),
    ("crates/ras/src/free_list.rs", "looks again at a list that another processor's thread is changing"),
    ("crates/ras/src/wide.rs", "the same two words, without the instruction: some of another thread's instructions"),
    ("crates/ras/src/sharded/latch.rs", "the first use of a processor's part, once"),
    ("crates/thread/src/runtime.rs", "idle workers, and the tick: the scheduler is below all waits of light threads"),
    ("crates/thread/src/proc.rs", "wakes a proc that is idle, and the tick"),
    ("crates/thread/src/proc/run.rs", "an idle proc: where all its light threads' waits end"),
    ("crates/thread/src/proc/wake.rs", "what the wait queue calls to wake light threads"),
    ("crates/thread/src/proc/park.rs", "what the wait queue calls for light threads that wait"),
    ("crates/thread/src/over.rs", "wakes what joins a light thread: its record's own word"),
    ("crates/thread/src/outside.rs", "a mailbox for other processes: words of the table, no arena"),
    ("crates/thread/src/end.rs", "a kernel thread joins a light one: its record's own word"),
    ("crates/sync/src/model/tasks.rs", "the driver, for the explorer"),
    ("crates/wait/src/tasks/driver.rs", "the thread that sleeps at a process's bell, for all its tasks"),
    ("crates/wait/src/tasks/timer.rs", "the thread that sleeps until the earliest time for which a task waits"),
    ("crates/thread/src/asks.rs", "a light thread lets others have its proc, as it was asked to"),
    ("crates/thread/src/step.rs", "a light thread lets others have its proc, as it was asked to"),
    (
        "crates/stream/src/node/window.rs",
        "a thread that draws on a terminal, at most 60 times a second: no stage waits for it",
    ),
    ("crates/stream/src/node/frame.rs", "a thread that shows pictures at a refresh: no stage waits for it"),
    ("crates/stream/src/process/keep.rs", "looks whether a graph's processes run on: they tell nobody"),
    (
        "crates/stream/src/process/tubes.rs",
        "looks whether a sender has come to a tube that is empty: no object tells it",
    ),
    ("crates/stream/src/process/part.rs", "looks whether the graph is to stop: a word of its keeper's, no object"),
    ("crates/thread/src/lib.rs", "what kernel threads get of the functions that sleep and yield by name"),
];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = Vec::new();
    for (path, source) in house.rust() {
        if !ships(path) || path.ends_with("/tests.rs") || !room(path).is_some_and(|room| ROOMS.contains(&room)) {
            continue;
        }
        for (at, line) in source.lines.iter().enumerate().filter(|(_, l)| !l.test) {
            let Some(way) = WAYS.iter().find(|way| calls(&line.code, way)) else { continue };
            if PLACES.iter().any(|(place, _)| *place == path) {
                used.push(path.to_owned());
                continue;
            }
            let text = format!(
                "`{way}`: only the wait queue parks and wakes (sync/src/wait/rest.rs, word.rs); wait by it, or say in the lint's table why not"
            );
            findings.push(Finding::new(path, at + 1, "waits", text));
        }
        if PLACES.iter().any(|(place, _)| *place == path) && !used.iter().any(|u| u == path) {
            findings.push(Finding::new(
                path,
                0,
                "waits",
                "nothing waits here any more: strike it off the lint's table",
            ));
        }
    }
    findings
}

/// Whether the line calls it; `use` and definitions do not.
fn calls(code: &str, way: &str) -> bool {
    let code = code.trim_start();
    let declares = code.starts_with("use ") || code.starts_with("pub use ") || code.starts_with("pub(crate) use ");
    !declares && !code.contains(&format!("fn {way}")) && has_word(code, way) && code.contains(&format!("{way}("))
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&house(path, text)).len()
    }

    #[test]
    fn a_sleep_outside_the_list_is_caught() {
        let sleeps = "//! A head.\nfn f() {\n    std::thread::sleep(time);\n}\n";
        assert_eq!(found("crates/sync/src/pool.rs", sleeps), 1);
        assert_eq!(found("crates/wait/src/wait/rest.rs", sleeps), 0);
        assert_eq!(found("crates/cli/src/main.rs", sleeps), 0, "what is above the facade may");
        assert_eq!(found("crates/sync/tests/storm.rs", sleeps), 0, "tests may");
        assert_eq!(
            found(
                "crates/sync/src/pool.rs",
                "//! A head.\nuse chappe_plat::atomic::give_way;\nfn f() {\n    give_way();\n}\n"
            ),
            1
        );
        assert_eq!(found("crates/sync/src/pool.rs", "//! A head.\n// thread::sleep(time) would do.\n"), 0);
    }

    #[test]
    fn a_place_that_waits_no_more_is_caught() {
        assert_eq!(found("crates/sync/src/lease.rs", "//! A head.\nfn f() {}\n"), 1);
    }
}
