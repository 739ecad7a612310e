//! Whether threads sleep: for tests of what wakes a thread that waits.

use std::time::Duration;

/// The calling thread, for [`until_asleep`].
pub fn this_thread() -> String {
    // SAFETY: no pointers.
    format!("{}/task/{}", std::process::id(), unsafe { libc::gettid() })
}

/// Waits until a thread sleeps: it has found nothing, and waits.
pub fn until_asleep(thread: &str) {
    let stat = format!("/proc/{thread}/stat");
    while !std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" S") {
        std::thread::sleep(Duration::from_millis(1));
    }
}
