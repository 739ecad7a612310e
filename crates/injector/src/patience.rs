//! Waiting for something that others do, and not for ever.

use std::time::{Duration, Instant};

/// A member that has not looked for so long was stopped: on the busiest machine it looks sooner.
const STOPPED: Duration = Duration::from_secs(5);

/// Waits until `true_now` says so, for `limit` at most. Says whether it did. The time for which this process was stopped
/// itself does not count, nor that for which a processor stood still that another process has to run on: a virtual one does so for up to half a
/// minute ("workqueue lockup" in the kernel's log). So before this gives up, it runs on each processor, and the others have a part of the time again.
pub fn within(limit: Duration, mut true_now: impl FnMut() -> bool) -> bool {
    let mut last = Instant::now();
    let mut end = last + limit;
    let mut visited = false;
    loop {
        if true_now() {
            return true;
        }
        let now = Instant::now();
        if now - last > STOPPED {
            end += now - last;
        }
        if now >= end {
            if visited {
                return true_now();
            }
            visit_processors();
            visited = true;
            end = Instant::now() + limit / 4;
        }
        last = now;
        pause();
    }
}

/// Runs on each processor that the process may use, one after the other.
fn visit_processors() {
    // SAFETY: zeros are no processors; the sets live, and have the size that is told.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) != 0 {
            return;
        }
        for cpu in (0..8 * size_of_val(&all)).filter(|cpu| libc::CPU_ISSET(*cpu, &all)) {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
        libc::sched_setaffinity(0, size_of_val(&all), &raw const all);
    }
}

/// A short sleep between two looks at a word: two CPUs are too few to spin on.
pub fn pause() {
    std::thread::sleep(Duration::from_micros(20));
}
