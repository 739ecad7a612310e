//! The value that a handle keeps for its thread from one call to the next: the slot that a sender has reserved, the
//! record that a receiver has borrowed.
//!
//! One thread uses such a handle at a time. But another thread may fork while this one changes the value: then the
//! child's copy is half-written, and no thread of the child will finish it. Therefore the word that says that the value
//! is in use holds the incarnation of the process: a value that was in use in another process, or that the parent kept,
//! is forgotten.

use chappe::raw::incarnation;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something, or nothing.
pub struct Kept<T> {
    /// The incarnation of the process whose thread is at it; 0: none is.
    at_it: AtomicU64,
    it: UnsafeCell<Option<T>>,
}

/// While a thread is at it.
struct Turn<'a>(&'a AtomicU64);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release); // Release: what was written.
    }
}

impl<T> Kept<T> {
    pub fn new() -> Kept<T> {
        Kept { at_it: AtomicU64::new(0), it: UnsafeCell::new(None) }
    }

    /// Does something with it. `None`: another thread is at it, against what the handle is for.
    pub fn with<R>(&self, act: impl FnOnce(&mut Option<T>) -> R) -> Option<R> {
        let now = incarnation();
        // Relaxed: the swap decides.
        let was = self.at_it.load(Ordering::Relaxed);
        // Acquire: what the last one wrote. Relaxed on failure: nothing was taken.
        if was == now || self.at_it.compare_exchange(was, now, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        let _turn = Turn(&self.at_it);
        if was != 0 {
            // SAFETY: ours alone, by the swap. Not dropped: its bytes may be of two values.
            unsafe { self.it.get().write(None) };
        }
        // SAFETY: ours alone, by the swap, until the turn is over.
        Some(act(unsafe { &mut *self.it.get() }))
    }

    /// Whether there is nothing, and nobody is at it: two loads.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        // Acquire: as in `with`.
        // SAFETY: the handle's one thread looks, so nobody writes.
        self.at_it.load(Ordering::Acquire) == 0 && unsafe { (*self.it.get()).is_none() }
    }

    /// What there is, for good.
    pub fn take(&mut self) -> Option<T> {
        self.with(Option::take).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_forgets_a_value_that_another_thread_was_using() {
        let mut kept = Kept::new();
        assert!(kept.is_none());
        assert_eq!(kept.with(|it| it.replace(vec![1])), Some(None));
        assert!(!kept.is_none());
        // As a forked child finds it if another thread of its parent was using it during the fork.
        kept.at_it.store(incarnation() + 1, Ordering::Relaxed); // Relaxed: one thread.
        assert!(!kept.is_none());
        assert_eq!(kept.with(|it| it.clone()), Some(None));
        assert!(kept.is_none());
        assert_eq!(kept.with(|it| it.replace(vec![2])), Some(None));
        assert_eq!(kept.take(), Some(vec![2]));
    }

    #[test]
    fn one_thread_is_at_it_at_a_time() {
        let kept = Kept::<u32>::new();
        assert_eq!(kept.with(|_| kept.with(|_| ())), Some(None));
        let panics = std::panic::AssertUnwindSafe(|| kept.with(|_| std::panic::resume_unwind(Box::new(()))));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(kept.with(|it| *it), Some(None));
    }
}
