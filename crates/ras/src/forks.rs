//! Handlers around forks, registered once a process, and never waited for in vain.
//!
//! | word | |
//! |---|---|
//! | 0 | nobody has registered them |
//! | `DOING`, and above it a process by its incarnation | a thread of that process registers them |
//! | `DONE` | they are registered, for its forked children, too |
//!
//! - I1: who finds another process's `DOING` was forked while that one's thread was at it, which is not here. It registers them itself;
//!   it may be that they were registered already. So handlers must bear being called twice around one fork.

use chappe_plat::atomic::{AtomicU64, Ordering, low_half};
use chappe_plat::futex::{self, Scope};
use chappe_plat::process;

const DOING: u64 = 1;
const DONE: u64 = 2;

/// A pair of handlers.
pub(crate) struct Around {
    word: AtomicU64,
    before: extern "C" fn(),
    after: extern "C" fn(),
}

impl Around {
    pub const fn new(before: extern "C" fn(), after: extern "C" fn()) -> Around {
        Around { word: AtomicU64::new(0), before, after }
    }

    /// When it returns, they are registered. Blocks only while another thread is at it.
    pub fn ensure(&self) {
        // Acquire: behind the registration.
        let mut now = self.word.load(Ordering::Acquire);
        if now == DONE {
            return;
        }
        let mine = DOING | process::incarnation() << 32;
        while now != DONE {
            if now == mine {
                futex::wait(low_half(&self.word), now as u32, None, Scope::Private);
                // Acquire: as the first.
                now = self.word.load(Ordering::Acquire);
                continue;
            }
            // I1. Acquire, both: as the first.
            match self.word.compare_exchange(now, mine, Ordering::Acquire, Ordering::Acquire) {
                Err(seen) => now = seen,
                Ok(_) => {
                    process::around_forks(self.before, self.after);
                    // Release: the registration comes before.
                    self.word.store(DONE, Ordering::Release);
                    futex::wake(low_half(&self.word), u32::MAX, Scope::Private);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_plat::atomic::AtomicU32;

    static CALLS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn called() {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn who_was_forked_while_another_registered_does_not_wait_for_it() {
        let around = Around::new(called, called);
        // As a fork leaves it.
        around.word.store(DOING | (process::incarnation() + 1) << 32, Ordering::SeqCst);
        around.ensure();
        around.ensure();
        assert_eq!(around.word.load(Ordering::SeqCst), DONE);
        // SAFETY: the child ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends this process.
            unsafe { libc::_exit(CALLS.load(Ordering::SeqCst) as i32) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WEXITSTATUS(status), CALLS.load(Ordering::SeqCst)), (2, 2), "once before, once behind");
    }
}
