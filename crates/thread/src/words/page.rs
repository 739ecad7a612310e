//! Whose turn it is in the page in which another process asks something of this one (`outside`).
//!
//! | `state` | | set by |
//! |---|---|---|
//! | IDLE | nothing is asked | the asker, when it gives up, or for one that has died |
//! | ASKED | the request is there | the asker |
//! | TAKEN | it is carried out | the process |
//! | DONE | the answer is there | the process |
//!
//! - O1: one process asks at a time: it has a lock on its descriptor of the page, which the kernel gives up when it dies, whatever its PID namespace. The
//!   next asker takes back a request that was not taken, and writes nothing while one is carried out that was.
//! - O2: a request is carried out once, or, if it is taken back in time, not at all: one swap of `state` decides.

use chappe_plat::atomic::{AtomicU32, Ordering};

pub(crate) const IDLE: u32 = 0;
pub(crate) const ASKED: u32 = 1;
pub(crate) const TAKEN: u32 = 2;
pub(crate) const DONE: u32 = 3;

/// By the asker, which has the lock: takes back what the last asker has left. False: that is carried out just now (O1).
pub(crate) fn is_free(state: &AtomicU32) -> bool {
    // SeqCst: O2. Acquire: the process has done with the request.
    take_back(state) || state.load(Ordering::Acquire) != TAKEN
}

/// By the asker, which has the lock: its request is there.
pub(crate) fn ask(state: &AtomicU32) {
    state.store(ASKED, Ordering::SeqCst); // SeqCst: the request comes before, the look for the answer after.
}

/// The same, when its time is up. True: nothing is, or will be, done.
pub(crate) fn take_back(state: &AtomicU32) -> bool {
    // SeqCst, both: O2.
    state.compare_exchange(ASKED, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// The process: takes a request. False: none is there, or it was taken back.
pub(crate) fn take(state: &AtomicU32) -> bool {
    // SeqCst, both: O2; the request as it was written.
    state.compare_exchange(ASKED, TAKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// The same: the answer is there.
pub(crate) fn is_done(state: &AtomicU32) {
    state.store(DONE, Ordering::SeqCst); // SeqCst: the answer comes before.
}
