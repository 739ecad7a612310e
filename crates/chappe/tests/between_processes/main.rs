//! Objects between processes, in one program: what its suites share is built and linked once. Each has an `actor`, which is what its
//! children do. None of them counts what the whole process has, or needs a process in which nothing has run: those have a program each.

#[path = "../house/asleep.rs"]
mod asleep;
#[path = "../../../sync/tests/history/mod.rs"]
mod history;
#[path = "../house/mod.rs"]
#[allow(dead_code, reason = "not every program uses all of it")]
mod house;
#[path = "../recorder/mod.rs"]
mod recorder;

mod barrier;
#[cfg(feature = "synth")]
mod broadcast;
mod choice_rounds;
mod doctor;
mod family;
mod helplock_named;
mod maps;
mod mutex_processes;
mod owned;
mod permits_at_once;
mod processes;
mod rwlock;
mod slots_in_use;
mod structures;
mod tubes_ends;
mod tubes_named;
