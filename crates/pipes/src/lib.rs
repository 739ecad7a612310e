//! Lanes before the pipes of Linux: what a lane asks of its pipe, by system calls on a descriptor.
//!
//! | | |
//! |---|---|
//! | `descriptor` | a pipe's end, as a process has it |
//! | `place` | the memory of a lane: its words, and its ring |
//! | `holders` | which other processes have an end of a pipe |
//! | `meeting` | where the two owners find each other's memory |
//! | `report` | what a run's programs tell of their pipes |
//!
//! The owners come in the middle of the stream. Each proves by `/proc` that its end is its own alone ([`Run::others`]), the writer begins
//! a lane ([`Meeting::begin`]), and the reader joins it ([`Meeting::join`]). So no process writes uncounted bytes, waits for bytes
//! that are in the ring, or could read what a killed owner leaves behind.
//!
//! Limits: a child that another thread forks while one demotes has the second descriptor of the pipe until exec, and may have a raised soft limit
//! on descriptors for good: a program with threads that fork waits for its demoters. A process that gives its user away (`setuid`) demotes
//! before: afterwards its calls on a lane with bytes in the ring fail with `EACCES` until another process has demoted.

mod descriptor;
mod holders;
mod meeting;
mod place;
mod report;

pub use descriptor::{Descriptor, is_stream};
pub use holders::{Others, Run};
pub use meeting::Meeting;
pub use place::Place;
pub use report::{Count, End, EndRow, Program, Report};
