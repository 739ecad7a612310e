//! Kills a real process at every instruction of an operation, and asks the survivors.
//!
//! The explorer (crashsim) kills virtual processes between operations of `plat`; this crate kills real ones
//! between *instructions*, where compiler, C library and kernel have their say. Test-only; x86-64 only, because
//! it recognises locked instructions by their bytes and uses debug registers.
//!
//! The words of the stage are used throughout. A [`Scenario`] is one operation with its surroundings. Its cast are
//! processes: the **victim**, which runs the operation; the **keeper**, a survivor that sets the stage before and
//! checks everything after; **helpers**, survivors that wait for something meanwhile. The **director** is this
//! process: single-threaded, it never touches chappe itself, so that a fork of it is as good as a new process. Every
//! trial has a new cast and a new, empty directory of arenas.
//!
//! ```text
//! director   fork keeper   fork helpers   fork victim    lead it to instruction k, SIGKILL   hear the verdicts
//! keeper        set the stage ... ready                                            check ... verdict
//! victim                                    begin |------ the operation ---x
//! recoverer                     (of a double fault)                          begin |--- make up for it ---x
//! ```
//!
//! [`sweep()`] does that for every instruction. Where nothing that outlives the victim changes between two of them, one death tells of
//! both: [`sight`] says why, and takes a look after each instruction of a first run. So a hundred trials stand for ten thousand
//! instructions, and there is time for more: the recoverer of a death is killed too ([`double`]). Two directors ([`crew`]) use two
//! processors. [`soak`] kills at random while jobs share pools under the real command, or a storm of processes uses everything there is
//! ([`soak::chaos`]). The feature `rivals` exposes chappe and other libraries to
//! the same kills (`churn`).
//!
//! What the survivors may find is a [`Fault`]: *wedged* (a process makes no progress within the watchdog), *torn* (state contradicts
//! itself), *lost* (a permit does not come back), *doubled* (one permit, two holders), *leaked* (a slot stays out of use after the sweep).
//! How often the one-second backstop had to fire is counted beside them: it must never. What each column of the table counts is said in
//! [`tally`].
//!
//! **Stops.** In the scenes called *stopped* others must make progress beside the stopped victim, which then dies or goes on. In *met* a
//! newcomer comes for the same thing meanwhile: it must get through, unless the scenario says why it may wait, for a permit that the victim
//! has, or for the one lock under which an arena's objects are made and removed. How often that was so is the column *held up*; no process
//! ever waits for a dead one.
//!
//! An injector that finds nothing proves nothing: [`control`] has operations known to be broken, one at least for each
//! column, [`cast`] a supervisor known to be, and the chaos run [mistakes](soak::chaos::worker::Mistake) to be made; the tests demand
//! that they are caught.
//!
//! What is left out: wild writes, power loss, and weak memory beyond what x86 shows. Threads that the victim's operation
//! starts are not led; they die with it.

#![cfg(target_arch = "x86_64")]

pub mod board;
pub mod cast;
pub mod child;
pub mod control;
pub mod crew;
pub mod double;
pub mod lead;
pub mod patience;
pub mod plan;
pub mod report;
#[cfg(feature = "rivals")]
pub mod rivals;
pub mod scenario;
pub mod sight;
pub mod soak;
pub mod step;
pub mod sweep;
pub mod tally;
pub mod trial;

pub use board::{Cue, Fault, Stage, Verdict};
pub use plan::Plan;
pub use sweep::{repeat, sweep};
pub use tally::Tally;
pub use trial::{Pause, Route, Scenario};
