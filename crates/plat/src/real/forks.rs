//! Actions that a process does once, and forks: a fork in the middle of such an action leaves no child waiting.
//!
//! A forked child has one thread. What another thread of the parent was doing at that moment is never finished there. A `Once` or a
//! `OnceLock` of the standard library that was running is running for ever in the child, and its next user hangs. So this library has none
//! that two threads can come to. It has these instead:
//!
//! - [`Once`]: an action with an effect on the process (fork handlers are registered). The child does it again.
//! - [`Made`](crate::Made) and [`Row`](crate::Row): a value that is made when it is first asked for. Every thread that finds none makes
//!   one, and the first to store its own wins. No thread ever waits.
//! - plain atomics, if the value fits into one and each thread would find the same (`fence`, `futex`, `life`, `rseq`).
//!
//! | word of a [`Once`] | |
//! |---|---|
//! | 0 | not done yet |
//! | `incarnation:32`, `thread:30`, `DOING` | that thread of that process does it |
//! | `DONE` | it is done, in this process or in one that it was forked from |
//!
//! - I1: a thread that finds another process's `DOING` is in a child that was forked in the midst of the action. It does the action itself.
//!   The parent may have completed it already: the action must tolerate being done twice.
//! - I2: a thread that finds its own `DOING` is in a signal handler that interrupted the action, or was called by it. It goes on without
//!   the action: otherwise it would wait for itself.
//! - I3: fork handlers may therefore be registered twice, and called twice around one fork. [`Nest`] tells the inner call
//!   from the outer one.

use super::atomic::{AtomicU32, AtomicU64, Ordering, low_half};
use super::futex::{self, Scope};
use super::process;

const DOING: u64 = 1;
const DONE: u64 = 2;

/// An action that a process does once.
pub struct Once(AtomicU64);

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}

impl Once {
    /// One that is not done yet.
    pub const fn new() -> Once {
        Once(AtomicU64::new(0))
    }

    /// When it returns, the action is done (but see I2). Blocks only while another thread of this process does it.
    #[inline]
    pub fn call(&self, action: impl FnOnce()) {
        // Acquire: behind the action.
        if self.0.load(Ordering::Acquire) != DONE {
            self.call_slow(action);
        }
    }

    #[cold]
    fn call_slow(&self, action: impl FnOnce()) {
        let process = process::incarnation() << 32;
        let mine = process | u64::from(process::tid()) << 2 | DOING;
        // Acquire: behind the action.
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            // I2 as well.
            if now == DONE || now == mine {
                return;
            }
            if now & DOING != 0 && now >> 32 == process >> 32 {
                futex::wait(low_half(&self.0), now as u32, None, Scope::Private);
                // Acquire: as the first.
                now = self.0.load(Ordering::Acquire);
                continue;
            }
            // I1. Acquire, both: as the first.
            match self.0.compare_exchange(now, mine, Ordering::Acquire, Ordering::Acquire) {
                Err(seen) => now = seen,
                Ok(_) => break,
            }
        }
        action();
        // Release: the action comes before.
        self.0.store(DONE, Ordering::Release);
        futex::wake(low_half(&self.0), u32::MAX, Scope::Private);
    }
}

/// A pair of fork handlers.
pub struct Around {
    once: Once,
    before: extern "C" fn(),
    after: extern "C" fn(),
}

impl Around {
    /// Handlers that are not registered yet. `after` is called in the parent and in the child. Both bear being called twice
    /// around one fork (I3).
    pub const fn new(before: extern "C" fn(), after: extern "C" fn()) -> Around {
        Around { once: Once::new(), before, after }
    }

    /// When it returns, they are registered. Blocks only while another thread is at it.
    #[inline]
    pub fn ensure(&self) {
        self.once.call(|| process::around_forks(self.before, self.after));
    }
}

/// Tells handlers that are called twice around one fork apart (I3).
pub struct Nest {
    /// The thread that forks and is between its handlers. 0: none.
    forker: AtomicU32,
    /// How often `before` was called for it. Only that thread touches it.
    times: AtomicU32,
}

impl Default for Nest {
    fn default() -> Self {
        Nest::new()
    }
}

impl Nest {
    /// No thread forks.
    pub const fn new() -> Nest {
        Nest { forker: AtomicU32::new(0), times: AtomicU32::new(0) }
    }

    /// First thing in `before`. True: this thread is between its handlers already, and has taken what they take.
    pub fn is_inner(&self) -> bool {
        // Relaxed: only this thread stores its own number.
        let inner = self.forker.load(Ordering::Relaxed) == process::tid();
        if inner {
            // Relaxed: this thread's alone.
            self.times.fetch_add(1, Ordering::Relaxed);
        }
        inner
    }

    /// In `before`, with the first of the locks taken, where [`Nest::is_inner`] said false.
    pub fn begin(&self) {
        // Relaxed, both: under the lock.
        self.times.store(1, Ordering::Relaxed);
        self.forker.store(process::tid(), Ordering::Relaxed);
    }

    /// First thing in `after`. True: this is the outer one, which lets go of the locks. In the child, too, where the thread
    /// has another number.
    pub fn end(&self) -> bool {
        // Relaxed, both: under the lock.
        let outer = self.times.fetch_sub(1, Ordering::Relaxed) == 1;
        if outer {
            self.forker.store(0, Ordering::Relaxed);
        }
        outer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32 as Count;

    static CALLS: Count = Count::new(0);
    static NEST: Nest = Nest::new();

    extern "C" fn before() {
        if !NEST.is_inner() {
            NEST.begin();
            CALLS.fetch_add(1, Ordering::SeqCst);
        }
    }

    extern "C" fn after() {
        if NEST.end() {
            CALLS.fetch_add(16, Ordering::SeqCst);
        }
    }

    fn status_of(child: libc::pid_t) -> i32 {
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_forked_during_a_registration_does_not_wait_for_it() {
        let around = Around::new(before, after);
        // As a fork leaves it: the handlers are registered, and the word does not say so yet.
        around.ensure();
        around.once.0.store((process::incarnation() + 1) << 32 | 77 << 2 | DOING, Ordering::SeqCst);
        around.ensure();
        around.ensure();
        assert_eq!(around.once.0.load(Ordering::SeqCst), DONE);
        // SAFETY: the child ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends this process.
            unsafe { libc::_exit(CALLS.load(Ordering::SeqCst) as i32) };
        }
        assert_eq!((status_of(child), CALLS.load(Ordering::SeqCst)), (17, 17), "registered twice, done once");
    }

    #[test]
    fn a_recursive_call_of_once_does_not_wait_for_itself() {
        let (once, times) = (Once::new(), std::cell::Cell::new(0));
        once.call(|| once.call(|| times.set(times.get() + 1)));
        assert_eq!(times.get(), 0, "the inner call goes on without");
        once.call(|| times.set(times.get() + 1));
        assert_eq!(times.get(), 0, "it is done");
    }
}
