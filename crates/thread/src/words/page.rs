//! The state word of the page through which another process (the asker) sends requests to this one (the server,
//! `chappe-control`): see `outside`.
//!
//! | `state` | meaning | set by |
//! |---|---|---|
//! | IDLE | no request | the asker, when it gives up, or on behalf of an asker that has died |
//! | ASKED | the page holds a request | the asker |
//! | TAKEN | the server carries the request out | the server |
//! | DONE | the page holds the answer | the server |
//!
//! - O1: one process asks at a time: the asker holds a lock on its descriptor of the page, which the kernel releases
//!   when the asker dies, whatever its PID namespace. The next asker takes back a request that the server has not
//!   taken, and writes nothing while the server carries one out.
//! - O2: a request is carried out once, or, if the asker takes it back in time, not at all: one compare-exchange of
//!   `state` decides.
//!
//! Deaths: an asker that dies leaves ASKED, TAKEN or DONE; the next asker waits for TAKEN to end and reuses the page.
//! If the process dies, its page dies with it: the asker's wait times out.

use chappe_plat::atomic::{AtomicU32, Ordering};

pub(crate) const IDLE: u32 = 0;
pub(crate) const ASKED: u32 = 1;
pub(crate) const TAKEN: u32 = 2;
pub(crate) const DONE: u32 = 3;

/// The asker, which holds the lock, takes back what the last asker has left. False: the server carries that out at the
/// moment (O1).
pub(crate) fn is_free(state: &AtomicU32) -> bool {
    // SeqCst: O2. Acquire: the process has done with the request.
    take_back(state) || state.load(Ordering::Acquire) != TAKEN
}

/// The asker, which holds the lock, publishes its request.
pub(crate) fn ask(state: &AtomicU32) {
    state.store(ASKED, Ordering::SeqCst); // SeqCst: the request is written before, the answer is read after.
}

/// The asker takes its request back when its time is up. True: the request is not, and will not be, carried out.
pub(crate) fn take_back(state: &AtomicU32) -> bool {
    // SeqCst, both: O2.
    state.compare_exchange(ASKED, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// The server takes a request. False: there is none, or the asker has taken it back.
pub(crate) fn take(state: &AtomicU32) -> bool {
    // SeqCst, both: O2; the request as it was written.
    state.compare_exchange(ASKED, TAKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// The server publishes the answer.
pub(crate) fn is_done(state: &AtomicU32) {
    state.store(DONE, Ordering::SeqCst); // SeqCst: the answer is written before.
}
