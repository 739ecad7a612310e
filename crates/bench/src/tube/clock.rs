//! Sleeping to the point, and the processor time that a process has used.

/// Processor time that this process has used, all its threads together, in nanoseconds.
pub fn used() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is a valid place; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// From here on the kernel ends this thread's sleeps as soon as it can; otherwise it may be 50 us late on purpose.
pub fn punctual() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Sleeps until this time of [`crate::process::now`].
pub fn sleep_until(time: u64) {
    let ts = libc::timespec { tv_sec: (time / 1_000_000_000) as _, tv_nsec: (time % 1_000_000_000) as _ };
    // SAFETY: ts is a valid place; an absolute sleep leaves nothing to be told.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &ts, std::ptr::null_mut()) };
}
