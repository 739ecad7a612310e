//! Kills a real process at every instruction of an operation, and asks the survivors.
//!
//! The explorer (crashsim) kills virtual processes between operations of `plat`; this crate kills real ones
//! between *instructions*, where compiler, C library and kernel have their say. Test-only; x86-64 only, because
//! it recognises locked instructions by their bytes and uses debug registers.
//!
//! The words of the stage are used throughout. A [`Play`] is one operation with its surroundings. Its cast are
//! processes: the **victim**, which runs the operation; the **keeper**, a survivor that sets the stage before and
//! checks everything after; **helpers**, survivors that wait for something meanwhile. The **director** is this
//! process: single-threaded, it never touches chappe itself, so that a fork of it is as good as a new process. Every
//! trial has a new cast and a new, empty directory of arenas.
//!
//! ```text
//! director   fork keeper   fork helpers   fork victim    lead it to instruction k, SIGKILL   hear the verdicts
//! keeper        set the stage ... ready                                            check ... verdict
//! victim                                    begin |------ the operation ---x
//! ```
//!
//! [`sweep()`] does that for every instruction, [`soak`] kills at random while jobs share pools under the real command,
//! or senders and receivers tubes ([`soak::tubes`]), or a zoo of processes everything there is ([`soak::zoo`]).
//!
//! What the survivors may find is a [`Fault`]: *wedged* (somebody does not get on within the watchdog), *torn* (state
//! contradicts itself), *lost* (a permit does not come back), *doubled* (one permit, two holders), *leaked* (a slot stays
//! out of use after the sweep). How often the one-second backstop had to fire is counted beside them: it must never.
//!
//! An injector that finds nothing proves nothing: [`control`] has operations known to be broken, [`cast`] a supervisor
//! known to be, and the zoo [mistakes](soak::zoo::limb::Mistake) to be made; the tests demand that they are caught.
//!
//! What is left out: wild writes, power loss, and weak memory beyond what x86 shows. Threads that the victim's operation
//! starts are not led; they die with it.

#![cfg(target_arch = "x86_64")]

pub mod board;
pub mod cast;
pub mod control;
pub mod play;
pub mod report;
pub mod soak;
pub mod step;
pub mod sweep;
pub mod trial;

pub use board::{Cue, Fault, Stage, Verdict};
pub use sweep::{Plan, Tally, repeat, sweep};
pub use trial::{Pause, Play};
