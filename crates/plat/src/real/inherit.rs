//! A lock whose holder inherits the priority of its waiters, and whose next holder is told if the last holder died.
//!
//! It is the C library's mutex with `PTHREAD_PRIO_INHERIT`, `ROBUST`, `PSHARED` and `ERRORCHECK`. The kernel knows the holder, runs it at
//! the highest priority among the waiters, and gives the lock to the waiter of highest priority, first come first served among equals.
//! Without contention: one locked instruction each way, no system call.
//!
//! A mutex that the C library calls inconsistent is declared consistent at once: the user of this lock keeps its own note that the data is
//! torn.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

/// How it was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// After its last holder gave it up.
    Whole,
    /// After its last holder died with it.
    AfterDeath,
}

/// Why it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheld {
    /// Another thread has it.
    Busy,
    /// This thread has it, or its holder waits for a lock that this thread has.
    Deadlock,
    /// The system's word.
    System(i32),
}

/// The lock. It stays where it was made.
#[repr(C, align(8))]
pub struct InheritLock {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
}

// SAFETY: a pthread mutex is made to be used from many threads; all access goes through pthread calls.
unsafe impl Sync for InheritLock {}
// SAFETY: as above; a thread that moves it has it alone, and it is not locked then.
unsafe impl Send for InheritLock {}

impl InheritLock {
    /// Makes one.
    ///
    /// # Errors
    /// The system's: a kernel without such locks.
    ///
    /// # Safety
    /// The place is valid, aligned, not yet in use, and the lock is not moved from there.
    pub unsafe fn init(at: *mut InheritLock) -> io::Result<()> {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: initialised before it is used, and destroyed after; the mutex's place is the caller's promise.
        let why = unsafe {
            libc::pthread_mutexattr_init(attributes);
            libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED);
            let mut why = libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT);
            if why == 0 {
                why = libc::pthread_mutex_init((*at).mutex.get(), attributes);
            }
            libc::pthread_mutexattr_destroy(attributes);
            why
        };
        if why == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(why)) }
    }

    #[inline(always)]
    fn outcome(&self, why: i32) -> Result<Held, Unheld> {
        if why == 0 { Ok(Held::Whole) } else { self.not_as_usual(why) }
    }

    #[cold]
    fn not_as_usual(&self, why: i32) -> Result<Held, Unheld> {
        match why {
            libc::EOWNERDEAD => {
                // SAFETY: made by `init`; this thread holds it.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
                Ok(Held::AfterDeath)
            }
            libc::EBUSY => Err(Unheld::Busy),
            libc::EDEADLK => Err(Unheld::Deadlock),
            e => Err(Unheld::System(e)),
        }
    }

    /// Locks it; waits until it is free.
    ///
    /// # Errors
    /// `Deadlock`, `System`.
    #[inline]
    pub fn lock(&self) -> Result<Held, Unheld> {
        // SAFETY: made by `init`.
        self.outcome(unsafe { libc::pthread_mutex_lock(self.mutex.get()) })
    }

    /// Locks it if it is free.
    ///
    /// # Errors
    /// `Busy` also if this thread has it; `System`.
    #[inline]
    pub fn try_lock(&self) -> Result<Held, Unheld> {
        // SAFETY: made by `init`.
        self.outcome(unsafe { libc::pthread_mutex_trylock(self.mutex.get()) })
    }

    /// Releases it; the waiter of highest priority has it then. Nothing happens if this thread does not hold it.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: made by `init`; a mutex that checks errors refuses a thread that does not hold it.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_ended_is_told_and_the_lock_goes_on() {
        let mut lock = Box::new(MaybeUninit::<InheritLock>::uninit());
        // SAFETY: our own place, which stays.
        let lock = unsafe {
            InheritLock::init(lock.as_mut_ptr()).unwrap();
            lock.assume_init_ref()
        };
        assert_eq!(lock.lock(), Ok(Held::Whole));
        assert_eq!(lock.lock(), Err(Unheld::Deadlock));
        std::thread::scope(|s| {
            let other = s.spawn(|| {
                let busy = lock.try_lock();
                lock.unlock();
                busy
            });
            assert_eq!(other.join().unwrap(), Err(Unheld::Busy));
        });
        lock.unlock();
        std::thread::scope(|s| {
            // Ends with it.
            assert_eq!(s.spawn(|| lock.lock()).join().unwrap(), Ok(Held::Whole));
        });
        assert_eq!(lock.lock(), Ok(Held::AfterDeath));
        lock.unlock();
        assert_eq!(lock.lock(), Ok(Held::Whole));
        lock.unlock();
    }
}
