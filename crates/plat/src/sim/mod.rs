//! The explorer in place of Linux: the same names, each operation a step of crashsim.
//!
//! All atomics are sequentially consistent here. What the model of the kernel covers is said in crashsim.

pub mod life;

pub use chappe_crashsim::{atomic, clock, futex, process, step_point};

/// The directory where named arenas lie, the files in it, and mapping them.
pub mod dir {
    pub use chappe_crashsim::files::{Dir, Facts, File, Locked, map_private};
}

/// Threads of our own.
pub mod thread {
    pub use chappe_crashsim::process::background;
}
