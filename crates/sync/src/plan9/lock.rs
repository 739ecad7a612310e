//! The semaphore-based lock: what replaced Plan 9's spin locks.
//!
//! plan9-semaphores, section 5, unchanged, with `canlock`, which the paper leaves out. All bytes zero is an unlocked
//! lock, as Plan 9's programs expect.
//!
//! | word | value | means |
//! |---|---|---|
//! | `key` | 0 | unlocked |
//! | | n above 0 | one thread holds it, n - 1 wait or are about to |
//! | `sem` | 0 or 1 | 1: the thread that takes it holds the lock |
//!
//! ```text
//!   lock: key + 1 --was 0--> holds it              unlock: key - 1 --was 1--> done
//!            |was above 0                                     |was above 1
//!            v                                                v
//!       semacquire(sem) <. . . . . . . . . . . . . . . . semrelease(sem, 1)
//! ```
//!
//! Invariants:
//! - I1: while `key` is above 0 there is one holder, or 1 on `sem`, or 1 owed to it: an unlock that leaves others
//!   behind passes the lock on and never sets it free. A thread that comes meanwhile goes to `sem`, too, and may be the first
//!   there.
//! - I2: only a holder unlocks, and it is counted in `key`. An unlock that finds 0 there is a mistake of the caller.
//! - I3: `canlock` goes in by compare-and-swap from 0, or leaves no trace.
//!
//! Ordering edges: E1 (release/acquire) from an unlock to the next lock, on `key`, whose every change is a
//! read-modify-write, or on `sem`, E1 of the words.
//!
//! Progress: `lock` waits for the holder; `canlock` is one step; `unlock` never waits.
//!
//! Death returns nothing:
//!
//! | killed | where | what is left |
//! |---|---|---|
//! | the holder | anywhere | locked for good |
//! | `lock` | waiting, or about to | `key` is 1 too high for good: each unlock leaves 1 on `sem`, the next locker takes it; `canlock` succeeds no more |
//! | `unlock` | between `key` and `sem` | locked for good |
//!
//! Explored: `tests/crash_plan9.rs`; left out: what the words' own head names.

use super::word::{Plan9Error, semacquire_uninterrupted, semrelease};
use chappe_plat::atomic::{AtomicI32, Ordering};
use chappe_plat::step;

/// A lock in two plain words, that enters the kernel only to wait and to wake: Plan 9's `Lock` as section 5 rebuilds
/// it.
///
/// It may lie in any memory that its users share; zeroed memory is an unlocked lock. It guards nothing by itself,
/// has no owner (any thread may unlock it), and a death returns nothing: for a lock around data that survives
/// its owner's death there is `Mutex`.
///
/// ```
/// # #[cfg(not(feature = "sim"))] {
/// use chappe_sync::plan9::Lock;
///
/// static LOCK: Lock = Lock::new();
/// LOCK.lock();
/// assert!(!LOCK.canlock());
/// LOCK.unlock();
/// # }
/// ```
#[derive(Debug, Default)]
#[repr(C)]
pub struct Lock {
    key: AtomicI32,
    sem: AtomicI32,
}

const _: () = assert!(size_of::<Lock>() == 8 && align_of::<Lock>() == 4);

impl Lock {
    /// An unlocked lock: all bytes zero.
    pub const fn new() -> Lock {
        Lock { key: AtomicI32::new(0), sem: AtomicI32::new(0) }
    }

    /// Locks, waiting until no other thread has it; no signal ends the wait.
    ///
    /// *Blocks* while another thread has it. *Fairness*: that of [`semacquire`](super::semacquire); [`Lock::canlock`]
    /// overtakes no waiter.
    ///
    /// # Panics
    /// When what lies here is no lock: its semaphore is negative.
    pub fn lock(&self) {
        if let Err(e) = lock(&self.key, &self.sem) {
            panic!("what lies here is no Lock, or was overwritten: {e}");
        }
    }

    /// Locks if no thread has it. Never waits, never enters the kernel.
    pub fn canlock(&self) -> bool {
        canlock(&self.key)
    }

    /// Unlocks, and lets in one waiter. Never waits.
    ///
    /// # Panics
    /// When no thread holds the lock, or what lies here is no lock.
    pub fn unlock(&self) {
        match unlock(&self.key, &self.sem) {
            Ok(()) => {}
            Err(Plan9Error::NotLocked { key, .. }) => panic!("unlock of a Lock that nobody holds (its key is {key})"),
            Err(e) => panic!("what lies here is no Lock, or was overwritten: {e}"),
        }
    }
}

/// [`Lock::lock`].
///
/// # Errors
/// `Negative`: what lies there is no lock, or was overwritten.
pub fn lock(key: &AtomicI32, sem: &AtomicI32) -> Result<(), Plan9Error> {
    // Acquire: E1.
    if key.fetch_add(1, Ordering::Acquire) == 0 {
        return Ok(());
    }
    semacquire_uninterrupted(sem)
}

/// [`Lock::canlock`].
pub fn canlock(key: &AtomicI32) -> bool {
    // Acquire: E1, I3. Relaxed on failure: nothing was taken.
    key.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// [`Lock::unlock`].
///
/// # Errors
/// `NotLocked`; `Negative`: what lies there is no lock, or was overwritten.
pub fn unlock(key: &AtomicI32, sem: &AtomicI32) -> Result<(), Plan9Error> {
    // Relaxed: a holder has made it 1 or more, and sees at least its own, I2.
    let now = key.load(Ordering::Relaxed);
    if now <= 0 {
        return Err(Plan9Error::NotLocked { address: key.as_ptr() as usize, key: now });
    }
    // Release: E1.
    if key.fetch_sub(1, Ordering::Release) == 1 {
        return Ok(());
    }
    step!("unlocked, nobody let in yet");
    semrelease(sem, 1).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn locks_and_unlocks() {
        let lock = Lock::default();
        lock.lock();
        assert!(!lock.canlock());
        lock.unlock();
        assert!(lock.canlock());
        lock.unlock();
        assert_eq!((lock.key.into_inner(), lock.sem.into_inner()), (0, 0));
    }

    #[test]
    fn an_unlock_too_many_is_a_mistake_that_changes_nothing() {
        let e = catch_unwind(|| Lock::new().unlock()).unwrap_err();
        assert!(e.downcast_ref::<String>().unwrap().contains("nobody holds"));
        static LOCK: Lock = Lock::new();
        assert!(catch_unwind(|| LOCK.unlock()).is_err());
        assert!(LOCK.canlock());
    }

    #[test]
    fn a_word_that_is_no_lock_is_refused() {
        let broken = || Lock { key: AtomicI32::new(2), sem: AtomicI32::new(-1) };
        assert!(catch_unwind(|| broken().lock()).is_err());
        assert!(catch_unwind(|| broken().unlock()).is_err());
    }
}
