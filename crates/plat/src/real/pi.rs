//! A lock that is the kernel's: each step on it is a system call (FUTEX_LOCK_PI and its companions).
//!
//! The word is 0 where it is free, else the holder's thread id and the kernel's flags. Here no user code ever changes it: that is what the
//! paper's two system calls did, and their price. (The kernel also lends the holder the priority of the waiters.)
//!
//! A holder that ends without releasing it: the kernel hands the lock to the thread that has waited longest, and marks the word. What the
//! holder was doing is left half done. So here that lock is held for ever, and the thread that was given it is told that the holder is
//! gone.

use super::atomic::{AtomicU32, Ordering};
use crate::OWNER_DIED;

const LOCK_PI: i32 = 6;
const UNLOCK_PI: i32 = 7;
const TRYLOCK_PI: i32 = 8;
const PRIVATE: i32 = 128;

/// Why the kernel did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another thread has it.
    Held,
    /// The caller itself has it; or its holder waits, perhaps through others, for a lock that the caller has.
    Ours,
    /// The caller does not have it.
    NotOurs,
    /// The holder ended without releasing it. The kernel may have given it to the caller, which then keeps it: no other thread gets it any
    /// more.
    Gone,
    /// Something else: this kernel has no such locks, a filter forbids them, or the word was written by others.
    Error(i32),
}

fn call(word: &AtomicU32, op: i32) -> Result<(), Refused> {
    loop {
        // SAFETY: the word is aligned and mapped; there is no time-out.
        let r = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op | PRIVATE, 0, std::ptr::null::<()>()) };
        // Relaxed: the kernel's mark, which names the present holder.
        let died = || op != UNLOCK_PI && word.load(Ordering::Relaxed) & OWNER_DIED != 0;
        if r == 0 {
            return if died() { Err(Refused::Gone) } else { Ok(()) };
        }
        match std::io::Error::last_os_error().raw_os_error().unwrap_or(0) {
            libc::EAGAIN if op == TRYLOCK_PI => return Err(Refused::Held),
            // The holder is just about to end, or the word changed under the kernel's hands: again, as it asks for.
            libc::EAGAIN | libc::EINTR => {}
            // Given to the caller, and refused, before.
            libc::EDEADLK if died() => return Err(Refused::Gone),
            libc::EDEADLK => return Err(Refused::Ours),
            libc::EPERM => return Err(Refused::NotOurs),
            libc::ESRCH => return Err(Refused::Gone),
            e => return Err(Refused::Error(e)),
        }
    }
}

/// Takes it if it is free.
///
/// # Errors
/// [`Refused`]; a holder that has ended is told as [`Refused::Gone`] or [`Refused::Held`].
pub fn try_lock(word: &AtomicU32) -> Result<(), Refused> {
    call(word, TRYLOCK_PI)
}

/// Takes it, and waits until it is free.
///
/// # Errors
/// [`Refused`], but never `Held`.
pub fn lock(word: &AtomicU32) -> Result<(), Refused> {
    call(word, LOCK_PI)
}

/// Releases it; the thread that has waited longest, of the highest priority, has it then.
///
/// # Errors
/// [`Refused`], but never `Held`.
pub fn unlock(word: &AtomicU32) -> Result<(), Refused> {
    call(word, UNLOCK_PI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_whose_it_is() {
        let word = AtomicU32::new(0);
        if let Err(why) = try_lock(&word) {
            println!("not tested: the_kernel_knows_whose_it_is: {why:?}");
            return;
        }
        assert_eq!(try_lock(&word), Err(Refused::Ours));
        assert_eq!(lock(&word), Err(Refused::Ours));
        std::thread::scope(|s| {
            let other = s.spawn(|| (try_lock(&word), unlock(&word)));
            assert_eq!(other.join().unwrap(), (Err(Refused::Held), Err(Refused::NotOurs)));
        });
        assert_eq!(unlock(&word), Ok(()));
        assert_eq!(unlock(&word), Err(Refused::NotOurs));
    }

    #[test]
    fn the_lock_of_a_thread_that_ended_is_given_to_nobody() {
        let word = AtomicU32::new(0);
        if let Err(why) = try_lock(&word).and_then(|()| unlock(&word)) {
            println!("not tested: the_lock_of_a_thread_that_ended_is_given_to_nobody: {why:?}");
            return;
        }
        std::thread::scope(|s| {
            s.spawn(|| {
                assert_eq!(lock(&word), Ok(()));
                // Ends as soon as somebody waits.
                while word.load(Ordering::SeqCst) & crate::WATCHED == 0 {
                    std::thread::yield_now();
                }
            });
            while word.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(lock(&word), Err(Refused::Gone));
        });
        assert_eq!((try_lock(&word), lock(&word)), (Err(Refused::Gone), Err(Refused::Gone)));
        assert!(std::thread::scope(|s| s.spawn(|| try_lock(&word)).join()).unwrap().is_err());
    }
}
