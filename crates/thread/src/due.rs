//! Which threads are passed to another proc first: those that would be late where they are (synthesis, 6.5: "if a job is
//! making poor progress towards its deadline locally, it is a good candidate for migration").
//!
//! A thread may say by when it must be done, and what that takes; so it must run at `latest`, the difference, or be late.
//! The threads of a proc that one thread has had for a whole tick wait for a tick more at least. So if an idle proc
//! takes half of them, those go first whose `latest` comes before the next tick, and the others by age. One whose
//! `latest` has passed is late wherever it runs: it gains nothing by going first.

use crate::record::{Thread, current};
use chappe_plat::clock;
use std::time::{Duration, Instant};

/// Says that the calling light thread is to be done with something by then, which takes it so long; `None`: with nothing
/// any more. It counts until it says something else.
///
/// Where a thread computes for long, an idle proc takes half of the threads that wait behind it: those that would be late if
/// they stayed go first, and the others by age. Of a kernel thread it does nothing.
///
/// ```
/// use std::time::{Duration, Instant};
/// chappe_thread::spawn(|| {
///     let period = Duration::from_millis(10);
///     for n in 1..=3 {
///         chappe_thread::set_due(Some((Instant::now() + period * n, Duration::from_millis(1))));
///         chappe_thread::yield_now();
///     }
/// })
/// .join()
/// .unwrap();
/// ```
///
/// Paper: synthesis, 6.4.2 and 6.5.
pub fn set_due(by: Option<(Instant, Duration)>) {
    let Some(me) = current() else { return };
    let latest = by.map_or(0, |(deadline, takes)| {
        let ahead =
            deadline.checked_sub(takes).map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        clock::now().saturating_add(u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX))
    });
    me.latest.set(latest);
}

/// Whether it will be late if it stays for so long, and would not be if it ran now.
pub(crate) fn is_about_to_be_late(thread: &Thread, now: u64, stays: u64) -> bool {
    // 0 has passed long ago.
    (now..now.saturating_add(stays)).contains(&thread.latest.get())
}
