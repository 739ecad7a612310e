//! Sleeping on words: the kernel's queue is one of loom's locks, so that a wake without a sleeper is lost, and a thread that sleeps for
//! ever is found.
//!
//! What comes before a wake is visible to the sleeper, as with the kernel's own lock: an ordering that is missing but for the wake is found
//! by a thread that only looked, not by the one that slept.

use super::atomic::{self, AtomicU32};
use super::explore::{self, Queue};
pub use kernel::{Scope, WAIT_ANY_MAX, Wait, wait_any, wait_any_supported};
use std::rc::Rc;

#[path = "../real/futex.rs"]
mod kernel;

fn queue(word: &AtomicU32) -> Option<Rc<Queue>> {
    explore::queue(word.as_ptr() as usize)
}

/// A deadline as far off as this never passes: nothing may depend on it.
const FAR_NS: u64 = 1_000_000_000;

/// Sleeps while `word` holds `expected`, until woken. A deadline that is near passes at once: whatever may happen before it
/// can as well happen before the call.
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>, scope: Scope) -> Wait {
    let Some(queue) = queue(word) else { return kernel::wait(word, expected, deadline, scope) };
    let mut sleepers = queue.sleepers.lock().expect("nobody panics in the kernel");
    if explore::low_half(word.as_ptr() as usize) != expected {
        return Wait::Changed;
    }
    if deadline.is_some_and(|d| d < FAR_NS) {
        return Wait::TimedOut;
    }
    *sleepers += 1;
    explore::note_sleep();
    drop(queue.bell.wait(sleepers));
    Wait::Woken
}

/// Wakes at most `count` sleepers; tells how many.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> u32 {
    let Some(queue) = queue(word) else { return kernel::wake(word, count, scope) };
    let mut sleepers = queue.sleepers.lock().expect("nobody panics in the kernel");
    let woken = count.min(*sleepers);
    for _ in 0..woken {
        queue.bell.notify_one();
    }
    *sleepers -= woken;
    woken
}
