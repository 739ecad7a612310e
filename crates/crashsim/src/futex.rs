//! Sleeping on words, as Linux does it.
//!
//! The queue of a word is first come, first served, wake-one. A wake takes the sleeper out of the queue at once; if
//! it is then killed before it runs, the wake is lost; if it is stopped, it keeps the wake. [`wait_any`] looks
//! at one word after the other and stands in all queues until it runs: it swallows a wake in each.
//! A deadline may come at any moment while others run; the clock jumps there. When no thread can run it jumps to the earliest. A wake that
//! comes between the deadline and the sleeper's next step counts as the wake.

use crate::atomic::AtomicU32;
use crate::state::{Block, Woken};
use crate::trace::{QUEUE, Touch};
use crate::turn::{Mode, block, me, mode, saw, turn_in_order, with};
use std::panic::Location;

/// The threads that can sleep on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only.
    Private,
    /// Any process that maps the word.
    Shared,
}

/// Why a wait came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A thread woke the caller (or sent a wake meant for an earlier user of the word): look again.
    Woken,
    /// The word did not hold the expected value.
    Changed,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// This kernel cannot do it (only [`wait_any`]).
    Unsupported,
}

/// The most words that one [`wait_any`] takes.
pub const WAIT_ANY_MAX: usize = 128;

fn place(word: &AtomicU32) -> usize {
    word.as_ptr() as usize
}

/// What tells queues of private words apart.
fn number(scope: Scope) -> u32 {
    match scope {
        Scope::Shared => 0,
        Scope::Private => with(|e| e.threads[me()].process as u32 + 1),
    }
}

/// Sleeps while `word` holds `expected`, until woken, or until `deadline` (monotonic, ns).
#[track_caller]
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>, scope: Scope) -> Wait {
    sleep_on(&[(word, expected)], deadline, scope, Location::caller())
}

/// Sleeps while every word holds its expected value, until one is woken or `deadline` passes.
#[track_caller]
pub fn wait_any(words: &[(&AtomicU32, u32)], deadline: Option<u64>, scope: Scope) -> Wait {
    if !wait_any_supported() {
        return Wait::Unsupported;
    }
    assert!(words.len() <= WAIT_ANY_MAX, "futex_waitv takes {WAIT_ANY_MAX} words at most");
    sleep_on(words, deadline, scope, Location::caller())
}

/// Whether this kernel has futex_waitv: a world may say that it has not.
pub fn wait_any_supported() -> bool {
    mode() == Mode::Outside || with(|e| !e.files.no_waitv)
}

fn sleep_on(words: &[(&AtomicU32, u32)], deadline: Option<u64>, scope: Scope, at: &'static Location<'static>) -> Wait {
    let thread = me();
    let scope = number(scope);
    with(|e| e.threads[thread].woken = Woken::No);
    for (i, (word, expected)) in words.iter().enumerate() {
        turn_in_order();
        let found = word.peek();
        saw(place(word), 30, Touch::Read, at, |n| {
            let (name, was) = (n.of(place(word)), n.show(place(word), found.into()));
            let then = if found == *expected { "sleeps on it" } else { "does not sleep" };
            format!("{name}: is {was}, {then}")
        });
        if found != *expected {
            let swallowed = mode() == Mode::Fibre && with(|e| e.dequeue(thread, i));
            return if swallowed { Wait::Woken } else { Wait::Changed };
        }
        if mode() == Mode::Fibre {
            with(|e| e.enqueue(thread, scope, place(word)));
        }
    }
    let early = with(|e| {
        // A wake while it was still on its way through the words, or a deadline in the past.
        let standing = e.queue.iter().filter(|s| s.thread == thread).count();
        mode() == Mode::Fibre && (standing < words.len() || deadline.is_some_and(|d| d <= e.now))
    });
    if !early {
        let places: Vec<_> = words.iter().map(|(w, _)| place(w)).collect();
        block(Block::Futex, &places, deadline, "futex wait");
    }
    if mode() != Mode::Fibre {
        return if deadline.is_some() { Wait::TimedOut } else { Wait::Woken };
    }
    let woken = with(|e| {
        let woken = std::mem::replace(&mut e.threads[thread].woken, Woken::No);
        if e.dequeue(thread, words.len()) {
            return Wait::Woken;
        }
        match woken {
            Woken::ByChance => Wait::Interrupted,
            _ => Wait::TimedOut,
        }
    });
    saw(0, 0, Touch::Read, at, |_| format!("wakes: {woken:?}"));
    woken
}

/// Wakes at most `count` sleepers; tells how many.
#[track_caller]
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> u32 {
    turn_in_order();
    if mode() == Mode::Outside {
        return 0;
    }
    let by = me();
    let scope = number(scope);
    saw(place(word) | QUEUE, 31, Touch::Write, Location::caller(), |n| {
        format!("{}: wakes sleepers", n.of(place(word)))
    });
    with(|e| e.wake(by, scope, place(word), count))
}
