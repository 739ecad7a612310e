//! Lanes before the pipes of Linux: what a lane asks of its pipe, by system calls on a descriptor.
//!
//! | | |
//! |---|---|
//! | `descriptor` | a pipe's end, as a process has it |
//! | `place` | the memory of a lane: its words, and its ring |
//! | `table` | which pipe has which lane, for the processes of a run |
//!
//! Limits: a child that another thread forks while one demotes has the second descriptor of the pipe until exec, and may have a raised soft limit
//! on descriptors for good: a program with threads that fork waits for its demoters. A process that gives its user away (`setuid`) demotes
//! before: afterwards its calls on a lane with bytes in the ring fail with `EACCES` until another process has demoted.

mod descriptor;
mod place;
mod table;

pub use descriptor::Descriptor;
pub use place::Place;
pub use table::Table;
