//! Processes and pages that they share, processors that they are pinned to.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

/// Makes zeroed memory that this process shares with the children it forks, for the rest of its life.
///
/// # Panics
/// When there is no memory.
pub fn shared<T: Zeroable>() -> &'static T {
    // SAFETY: the kernel chooses the place; nothing of ours is replaced.
    let page = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), size_of::<T>().max(4096), libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert!(page != libc::MAP_FAILED, "no shared memory: {}", io::Error::last_os_error());
    // SAFETY: a fresh page, aligned for anything, zeroed, never unmapped; Zeroable says that zeroes are a T that may
    // be shared.
    unsafe { &*page.cast::<T>() }
}

/// Types that may lie in [`shared`] memory.
///
/// # Safety
/// All zeroes is a valid value, and processes change it only in ways that are sound between processes: atomics, or
/// objects of the C library in an `UnsafeCell`.
pub unsafe trait Zeroable: Sync {}

// SAFETY: zero is a number.
unsafe impl Zeroable for std::sync::atomic::AtomicU32 {}
// SAFETY: zero is a number.
unsafe impl Zeroable for std::sync::atomic::AtomicU64 {}
// SAFETY: each element is.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// A process that we forked.
pub struct Child {
    pid: libc::pid_t,
}

impl Child {
    /// Runs `work` in a forked copy of this process, which then ends: with status 0, or 101 after a panic.
    ///
    /// # Panics
    /// When the system refuses another process.
    pub fn fork(work: impl FnOnce()) -> Child {
        // SAFETY: the child runs on the C library's own provisions for a fork of a process with threads; it uses
        // nothing that another thread may have had half-done but the allocator, which the C library looks after.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "cannot fork: {}", io::Error::last_os_error());
        if pid == 0 {
            let status = if catch_unwind(AssertUnwindSafe(work)).is_ok() { 0 } else { 101 };
            // SAFETY: takes a number, does not return.
            unsafe { libc::_exit(status) };
        }
        Child { pid }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        // SAFETY: the child has not been waited for, so its id is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    /// Waits for its end; the wait status.
    pub fn end(self) -> i32 {
        let mut status = 0;
        // SAFETY: status is a valid place; the child is ours.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } < 0 {
            assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted, "the child is gone");
        }
        status
    }
}

/// The processors that the program could use when it first asked: by then it had pinned no thread.
static OURS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    // SAFETY: an empty set is a valid value; the calls only read and write it.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut may);
        (0..libc::CPU_SETSIZE as usize).filter(|c| libc::CPU_ISSET(*c, &may)).collect()
    }
});

/// Keeps the calling thread, and those that it starts, on one processor (counted among those that we may use).
///
/// # Panics
/// When there is no such processor.
pub fn pin(processor: usize) {
    // SAFETY: an empty set is a valid value; the calls only read and write it.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(OURS[processor % OURS.len()], &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one), 0);
    }
}

/// The monotonic clock, comparable between processes.
pub fn now() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is a valid place; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}
