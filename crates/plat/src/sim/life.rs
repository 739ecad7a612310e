//! Life words, over the explorer's robust locks. See the Linux backend for what each operation promises.

use super::atomic::{AtomicU32, Ordering};
use crate::word::{Life, OWNER_DIED, TID_MASK, WATCHED};
use chappe_crashsim::robust;
pub use chappe_crashsim::robust::Claim;

/// A robust, process-shared lock whose word can be watched. As large as a pthread mutex.
#[repr(C, align(8))]
pub struct LifeLock {
    word: AtomicU32,
    rest: [u32; 9],
}

const _: () = assert!(size_of::<LifeLock>() == 40 && align_of::<LifeLock>() == 8);

/// Which C library's mutex layout this is: none.
pub const LAYOUT: u32 = 9;

/// All threads are fit here.
///
/// # Errors
/// None.
pub fn fit() -> Result<(), &'static str> {
    Ok(())
}

/// How a thread has a wake passed on that it may have taken along into its death.
pub struct PassOn(());

impl PassOn {
    /// For the calling thread.
    pub fn of_this_thread() -> PassOn {
        PassOn(())
    }

    /// If this thread dies from now on, one sleeper on `word` is woken.
    pub fn to(&self, word: &AtomicU32) {
        robust::pending(Some(word));
    }

    /// From now on no sleeper is woken.
    pub fn to_nobody(&self) {
        robust::pending(None);
    }
}

impl LifeLock {
    /// Initialises the lock at `place`, free. No step: no other thread can see it yet.
    ///
    /// # Safety
    /// `place` is valid for writes, and no other thread uses the lock yet.
    pub unsafe fn init(place: *mut LifeLock) {
        // SAFETY: the caller's promise; all bytes zero is a free lock.
        unsafe { place.write_bytes(0, 1) };
    }

    /// Makes a free lock of zeros, which are one here.
    pub fn make(&self) {}

    /// Whether it is a lock at all: always, here.
    pub fn is_whole(&self) -> bool {
        true
    }

    /// Takes the lock for this thread if no living thread has it. Never blocks.
    #[track_caller]
    pub fn try_claim(&self) -> Claim {
        robust::try_claim(&self.word)
    }

    /// Releases the lock; wakes the threads that watch the word.
    #[track_caller]
    pub fn release(&self) {
        robust::release(&self.word);
    }

    /// The word that the kernel marks.
    #[inline(always)]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// What the word says now.
    #[track_caller]
    pub fn probe(&self) -> Life {
        Life::of(self.word.load(Ordering::SeqCst))
    }

    /// Makes the word name the process instead of the thread that owns it.
    #[track_caller]
    pub fn name_process(&self) {
        self.rename(super::process::pid());
    }

    /// Releases a word that [`LifeLock::name_process`] renamed.
    #[track_caller]
    pub fn release_as_process(&self) {
        self.rename(super::process::tid());
        self.release();
    }

    #[track_caller]
    fn rename(&self, id: u32) {
        let mut now = self.word.load(Ordering::SeqCst);
        while let Err(seen) =
            self.word.compare_exchange(now, (now & !TID_MASK) | id, Ordering::SeqCst, Ordering::SeqCst)
        {
            now = seen;
        }
    }

    /// Asks the kernel to wake a sleeper when the owner dies; returns the value to sleep on, or `None` if there is no living owner to
    /// watch.
    #[track_caller]
    pub fn watch(&self) -> Option<u32> {
        let mut now = self.word.load(Ordering::SeqCst);
        loop {
            match Life::of(now) {
                Life::Free | Life::Dead => return None,
                Life::Alive(_) if now & WATCHED != 0 => return Some(now),
                Life::Alive(_) => {
                    match self.word.compare_exchange(now, now | WATCHED, Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(_) => return Some(now | WATCHED),
                        Err(seen) => now = seen,
                    }
                }
            }
        }
    }

    /// Marks the word as the kernel would, for an owner known to be gone although its own id was no
    /// longer the one in the word.
    #[track_caller]
    pub fn mark_dead(&self, id: u32) {
        let mut now = self.word.load(Ordering::SeqCst);
        while Life::of(now) == Life::Alive(id) {
            match self.word.compare_exchange(now, OWNER_DIED | (now & WATCHED), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    super::futex::wake(&self.word, u32::MAX, super::futex::Scope::Shared);
                    return;
                }
                Err(seen) => now = seen,
            }
        }
    }
}
