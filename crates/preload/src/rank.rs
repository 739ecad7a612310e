//! The calling thread's real-time priority, by which its waits are served: POSIX has `sem_post` wake the waiter of the highest priority where
//! threads have SCHED_FIFO or SCHED_RR, and of those the one that has waited longest. All other threads have 0 here, and are served in
//! the order of arrival.
//!
//! The kernel is asked when a thread is about to wait, at most once a tick of its coarse clock (1 to 10 ms): so where threads hand each
//! other units without a pause, it is hardly ever asked. A thread whose priority changes within a tick of its last wait has the old one in
//! its next wait, and so has one whose priority changes while it waits.

use chappe::{Priority, set_priority};
use std::cell::Cell;

thread_local! {
    /// When the kernel was last asked; 0: never.
    static ASKED: Cell<i128> = const { Cell::new(0) };
}

/// Before a wait: the calling thread's waits are served by its real-time priority.
pub fn note() {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time; the clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    let now = (i128::from(now.tv_sec) << 32) + i128::from(now.tv_nsec) + 1;
    // A thread that has no local data any more has the priority that it had.
    if ASKED.try_with(|asked| asked.replace(now) == now).unwrap_or(true) {
        return;
    }
    let rank = Priority(real_time());
    if Priority::current() != rank {
        set_priority(rank);
    }
}

/// 1 to 99, or 0.
fn real_time() -> u8 {
    let mut its = libc::sched_param { sched_priority: 0 };
    // SAFETY: asks about the calling thread; a place for the answer.
    let (policy, asked) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut its)) };
    let policy = policy & !libc::SCHED_RESET_ON_FORK;
    if asked == 0 && matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR) {
        its.sched_priority.clamp(0, i32::from(u8::MAX)) as u8
    } else {
        0
    }
}
