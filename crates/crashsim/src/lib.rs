//! A deterministic explorer of protocols: every schedule, every death.
//!
//! A *world* is a few virtual processes that run real code against a facade: atomic words, futexes, robust locks, a clock, processes, a
//! directory of files. Each operation of the facade is a *step*; between two steps the explorer may run another thread, kill a process,
//! stop it, let a deadline come. A *search* plays many schedules of a world and reports for the first that fails what happened, in words,
//! with a token that replays it.
//!
//! ```text
//!   Search::depth("name", 2)      which schedules: depth(preemptions), priorities(changes), uniform(), sweep()
//!       .kills(1).stops(1)        what may befall processes in one schedule
//!       .schedules(100_000)       how many at most
//!       .run(|world| { .. })      the world, built anew for each schedule
//!       .assert_clean();          or assert_caught(), for a planted mistake
//! ```
//!
//! In a world: `let x = world.share(value)` is memory that all processes see; `world.process("p1", move || ..)` a process;
//! `world.invariant(..)` holds after each step; `world.check(..)` runs when all has come to rest. Then no thread may sleep except daemons,
//! lingering threads, and the threads that `world.may_wait(..)` excuses.
//!
//! A world reports with `reached("..")` what it came to, and the test asserts the set of these: a search that explores nothing must not
//! pass.
//!
//! State of the test's own (which threads are inside, what was taken) belongs in `world.share` too, as standard atomics or cells: what the
//! code does between two steps happens at once.
//!
//! What is modelled is said at the head of each module: `atomic` (sequential consistency only), `futex`,
//! `robust`, `process`, `files`, `clock`, and `kernel.rs` for deaths. A killed thread is dropped where it stands,
//! without running destructors; the memory it had allocated leaks, some hundred bytes a death.
//!
//! Rules for worlds: no state that outlives a schedule (statics, thread-locals); no hash map whose order
//! decides anything; no lock of the standard library held across a step.

pub mod atomic;
mod buffer;
mod chance;
pub mod clock;
mod coverage;
pub mod cpu;
mod depth;
mod disk;
mod event;
mod fibre;
pub mod files;
pub mod futex;
pub mod guard;
mod guarded;
mod kernel;
mod memory;
mod offer;
pub mod pair;
mod play;
pub mod process;
mod replay;
mod report;
pub mod robust;
mod search;
mod state;
mod stored;
mod story;
mod strategy;
mod sweep;
mod trace;
mod turn;
mod world;

/// The page for users in other projects; its example is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Page;

pub use coverage::{Coverage, Hits, Site};
pub use memory::Shared;
pub use report::{Counts, Fault, Found, Report};
pub use search::Search;
pub use world::{Fate, Process, Word, World, backstops, falls, note, reached};

/// Runs the recovery from a death: a kill within counts as a double fault, and searches aim at it. No step.
pub fn recovering<R>(recovery: impl FnOnce() -> R) -> R {
    let count = |by: i32| {
        if turn::mode() == turn::Mode::Fibre {
            turn::with(|e| {
                let t = &mut e.threads[turn::me()];
                t.recovers = t.recovers.saturating_add_signed(by);
            });
        }
    };
    count(1);
    let r = recovery();
    count(-1);
    r
}

/// A point between two operations at which a switch or a death is of interest, though nothing is touched.
#[track_caller]
pub fn step_point(what: &'static str) {
    turn::turn();
    turn::saw(0, 0, trace::Touch::Read, std::panic::Location::caller(), |_| what.to_owned());
}
