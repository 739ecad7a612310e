//! Waiting for something that others do, and not for ever.

use std::time::{Duration, Instant};

/// A member that has not looked for so long was stopped: on the busiest machine it looks sooner.
const STOPPED: Duration = Duration::from_secs(5);

/// Waits until `true_now` says so, for `limit` at most. Says whether it did. The time for which this process was stopped
/// itself does not count.
pub fn within(limit: Duration, mut true_now: impl FnMut() -> bool) -> bool {
    let mut last = Instant::now();
    let mut end = last + limit;
    loop {
        if true_now() {
            return true;
        }
        let now = Instant::now();
        if now - last > STOPPED {
            end += now - last;
        }
        if now >= end {
            return true_now();
        }
        last = now;
        pause();
    }
}

/// A short sleep between two looks at a word: two CPUs are too few to spin on.
pub fn pause() {
    std::thread::sleep(Duration::from_micros(20));
}
