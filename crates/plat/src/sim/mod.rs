//! The explorer in place of Linux: the same names, each operation a step of crashsim.
//!
//! All atomics are sequentially consistent here, but in searches with store buffers. What the model of the kernel covers
//! is said in crashsim.

pub mod life;

pub use chappe_crashsim::{atomic, clock, futex, process, recovering, step_point};

/// The directory where named arenas lie, the files in it, and mapping them.
pub mod dir {
    pub use chappe_crashsim::files::{Dir, Facts, File, Locked, map_private};
}

/// The kernel's side of restartable sequences: virtual processors.
pub mod rseq {
    pub use chappe_crashsim::cpu::{current as cpu, fence};

    /// As on Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Area {
        /// There is one for each thread that was put on a processor.
        Library,
        /// Never here.
        Own,
    }

    /// Nothing to find out.
    pub fn prepare() -> Area {
        Area::Library
    }

    /// Nothing to do.
    pub fn enter() -> bool {
        false
    }
}

/// Sections of several steps, which are aborted as the kernel does it.
pub mod sections {
    pub use chappe_crashsim::cpu::{begin, commit, end, visit};

    /// The compiler's order is kept anyway.
    pub fn light() {}
}

/// The asymmetric fence: all is in order here.
pub mod fence {
    /// Nothing to find out.
    pub fn prepare() {}
    /// It is.
    pub fn is_asymmetric() -> bool {
        true
    }
    /// The frequent side.
    pub fn light() {}
    /// The same.
    pub fn light_alone() {}
    /// The rare side: a step. What is private to a process is explored between processes, too.
    pub fn heavy() {
        super::atomic::fence_others();
    }

    /// As above.
    pub fn try_heavy() -> bool {
        heavy();
        true
    }

    /// Between processes.
    pub mod across {
        /// All can go without.
        pub fn register() -> bool {
            true
        }

        /// There is such a fence.
        pub fn is_possible() -> bool {
            true
        }

        /// The frequent side.
        pub fn light(_plain: bool) {}

        /// The rare side: a step.
        pub fn try_heavy() -> bool {
            crate::backend::atomic::fence_others();
            true
        }
    }
}

/// Threads of our own.
pub mod thread {
    pub use chappe_crashsim::process::background;
}
