//! What a test waits for comes, or fails the test: no wait is without an end.

use chappe_stream::{Report, RunError, Running};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

pub const WATCHDOG: Duration = Duration::from_secs(120);

/// Looks until it holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < WATCHDOG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The end of a graph, which is stopped, and then has too little, when its time is up.
pub fn ended(running: Running) -> Result<Report, RunError> {
    let ((over, is_over), stopper) = (channel::<()>(), running.stopper());
    std::thread::spawn(move || {
        if is_over.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
            stopper.stop();
        }
    });
    let ended = running.wait();
    drop(over);
    ended
}
