//! Which sections of helping locks and monitors a thread is inside, for those who must not wait there.
//!
//! A section that waits for an event keeps everybody from the lock for as long (nonblocking-real-time, 3.2, rule 4), whatever priority it inherits. Monitors
//! ask in every build; waits of all other kinds ask in builds with debug assertions.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// A section: of what, and where it was begun.
#[derive(Clone)]
struct Section {
    of: usize,
    name: Arc<str>,
    #[cfg_attr(not(debug_assertions), allow(dead_code, reason = "told by builds that check"))]
    at: &'static Location<'static>,
}

thread_local! {
    static INSIDE: RefCell<Vec<Section>> = const { RefCell::new(Vec::new()) };
}

/// The thread has begun one.
pub(crate) fn begin(of: usize, name: &Arc<str>, at: &'static Location<'static>) {
    INSIDE.with_borrow_mut(|all| all.push(Section { of, name: name.clone(), at }));
}

/// It has ended it.
pub(crate) fn end(of: usize) {
    // No thread-locals any more: then nobody asks.
    let _ = INSIDE.try_with(|all| {
        let mut all = all.borrow_mut();
        if let Some(at) = all.iter().rposition(|s| s.of == of) {
            all.remove(at);
        }
    });
}

/// The name of another one that the thread is inside of.
pub(crate) fn beside(of: usize) -> Option<Arc<str>> {
    INSIDE.with_borrow(|all| all.iter().find(|s| s.of != of).map(|s| s.name.clone()))
}

/// Before the thread sleeps.
///
/// # Panics
/// In builds with debug assertions, inside of a section.
#[track_caller]
pub(crate) fn may_sleep() {
    #[cfg(debug_assertions)]
    if let Ok(Some(section)) = INSIDE.try_with(|all| all.borrow().last().cloned()) {
        panic!(
            "a section of `{}`, begun at {}, waits: unlock before you wait, or use a Monitor",
            section.name, section.at
        );
    }
}
