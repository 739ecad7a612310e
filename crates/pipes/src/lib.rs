//! Lanes before the pipes of Linux: what a lane asks of its pipe, by system calls on a descriptor.
//!
//! | | |
//! |---|---|
//! | `descriptor` | a pipe's end, as a process has it |
//! | `place` | the memory of a lane: its words, and its ring |
//! | `table` | which pipe has which lane, for the processes of a run |

mod descriptor;
mod place;
mod table;

pub use descriptor::Descriptor;
pub use place::Place;
pub use table::Table;
