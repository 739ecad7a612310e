//! The interface of a lock, and what a section of one comes to.

/// Held by a thread that came through the section: it unlocks by a plain store.
pub(crate) const HELD_FAST: u32 = 0x8000_0001;

/// The result of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The caller has the lock.
    Locked,
    /// It was not free.
    Busy,
    /// The lock is not biased to this processor.
    Elsewhere,
    /// The kernel has taken the thread off the processor within the section.
    Aborted,
}

/// The interface of a lock: the biased one, or another in its place.
///
/// # Safety
/// Between `lock`, or a `try_lock` that answers true, and `unlock`, no other `lock` returns, and no other `try_lock` answers true; what
/// came before `unlock` is seen after the `lock` that follows.
pub unsafe trait RawLock {
    /// Locks. Blocks while any thread holds it, the calling thread included.
    fn lock(&self);

    /// Locks if it is free. Never sleeps.
    fn try_lock(&self) -> bool;

    /// Unlocks. Never blocks.
    ///
    /// # Safety
    /// The caller has locked it (or the lock was handed to it), and has not unlocked it since.
    unsafe fn unlock(&self);

    /// Whether it is held. A look, not a promise.
    fn is_locked(&self) -> bool;
}
