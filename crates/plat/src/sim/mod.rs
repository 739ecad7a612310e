//! The explorer in place of Linux: the same names, each operation a step of crashsim.
//!
//! All atomics are sequentially consistent here, but in searches with store buffers. What the model of the kernel covers
//! is said in crashsim.

pub mod life;

pub use chappe_crashsim::{atomic, clock, futex, pair, process, recovering, step_point};

pub(crate) fn through<'a>(seen: impl FnOnce() -> (&'a atomic::AtomicU64, u64)) {
    let (head, seen) = seen();
    chappe_crashsim::guard::through(head, seen);
}

/// The directory where named arenas lie, the files in it, and mapping them.
pub mod dir {
    pub use chappe_crashsim::files::{Bytes, Dir, Facts, File, Locked, bytes_of, give_up, map_private};

    /// All memory is there.
    ///
    /// # Errors
    /// None.
    pub fn back(_at: *mut u8, _len: usize) -> std::io::Result<()> {
        Ok(())
    }

    /// None is given back.
    pub fn unback(_at: *mut u8, _len: usize) {}

    /// Nothing more is needed.
    pub fn can_back() -> bool {
        true
    }

    /// All files are of one user.
    pub fn owner_of(_path: &std::path::Path) -> Option<u32> {
        None
    }

    /// Where all files are memory.
    pub fn is_tmpfs(_path: &std::path::Path) -> bool {
        true
    }

    /// Nothing is refused here.
    pub fn file_at(_path: &std::path::Path) -> Option<Facts> {
        None
    }
}

/// Memory for large things: from the allocator, so that a schedule's end gives it back. Wiping goes word by word, in steps.
pub mod pages {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1), 4096).ok()
    }

    /// Zeroed memory.
    pub fn map(len: usize) -> Option<NonNull<u8>> {
        // SAFETY: not of no bytes.
        layout(len).and_then(|layout| NonNull::new(unsafe { alloc_zeroed(layout) }))
    }

    /// Its words are zero already.
    ///
    /// # Errors
    /// None.
    ///
    /// # Safety
    /// It was mapped here.
    pub unsafe fn wipe(_at: NonNull<u8>, _len: usize) -> std::io::Result<()> {
        Ok(())
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It was mapped here, and no thread uses it any more.
    pub unsafe fn unmap(at: NonNull<u8>, len: usize) {
        if let Some(layout) = layout(len) {
            // SAFETY: the caller's promise.
            unsafe { dealloc(at.as_ptr(), layout) };
        }
    }
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
    pub mod process_shared {
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

/// Background threads.
pub mod thread {
    /// No signal comes here.
    pub fn undisturbed<R>(act: impl FnOnce() -> R) -> R {
        act()
    }

    pub use chappe_crashsim::process::background;
}

/// Whether all threads sleep: of the system's alone.
pub mod quiet {
    /// Nobody looks.
    pub fn serves_others() -> impl Sized {}
}

/// Descriptors to wait by.
pub mod poll {
    use super::atomic::{AtomicU32, Ordering};
    use super::futex::{self, Scope};

    /// A descriptor that is readable from a signal on until it is cleared: a word here.
    #[derive(Debug)]
    pub struct Event(AtomicU32);

    impl Event {
        /// One that is not readable yet.
        ///
        /// # Errors
        /// None.
        pub fn new() -> std::io::Result<Event> {
            Ok(Event(AtomicU32::new(0)))
        }

        /// From now on it is readable.
        pub fn signal(&self) {
            self.0.store(1, Ordering::SeqCst);
            futex::wake(&self.0, u32::MAX, Scope::Shared);
        }

        /// From now on it is not.
        pub fn clear(&self) {
            self.0.store(0, Ordering::SeqCst);
        }

        /// Sleeps until it is readable, as poll(2) does.
        pub fn wait(&self) {
            while self.0.load(Ordering::SeqCst) == 0 {
                futex::wait(&self.0, 0, None, Scope::Shared);
            }
        }
    }
}
