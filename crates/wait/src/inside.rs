//! Which sections of helping locks and monitors a thread is inside: a thread must not wait there.
//!
//! A section that waits for an event keeps all others from the lock for as long (nonblocking-real-time, 3.2, rule 4), whatever priority it
//! inherits. Monitors ask in every build; waits of all other kinds ask in builds with debug assertions.
//!
//! A light thread may give way inside of a section, and go on on another kernel thread: so the sections of light threads are kept apart.

use chappe_plat::light;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::{Arc, Mutex};

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

/// The sections of light threads, by the thread's number.
static LIGHTLY: Mutex<Vec<(u32, Section)>> = Mutex::new(Vec::new());

/// The calling thread has begun a section.
pub fn begin(of: usize, name: &Arc<str>, at: &'static Location<'static>) {
    let section = Section { of, name: name.clone(), at };
    match light::current() {
        Some(me) => light::lock(&LIGHTLY).push((me.number, section)),
        None => INSIDE.with_borrow_mut(|all| all.push(section)),
    }
}

/// The calling thread has ended a section.
pub fn end(of: usize) {
    if let Some(me) = light::current() {
        let mut all = light::lock(&LIGHTLY);
        if let Some(at) = all.iter().rposition(|(who, s)| *who == me.number && s.of == of) {
            all.remove(at);
        }
        return;
    }
    // The thread-locals are destroyed already: then nobody asks.
    let _ = INSIDE.try_with(|all| {
        let mut all = all.borrow_mut();
        if let Some(at) = all.iter().rposition(|s| s.of == of) {
            all.remove(at);
        }
    });
}

/// The last section, of those that fit, that the calling thread has begun.
fn last(is: impl Fn(&Section) -> bool) -> Option<Section> {
    if let Some(me) = light::current() {
        let all = light::lock(&LIGHTLY);
        return all.iter().rev().find(|(who, s)| *who == me.number && is(s)).map(|(_, s)| s.clone());
    }
    INSIDE.try_with(|all| all.borrow().iter().rev().find(|s| is(s)).cloned()).ok().flatten()
}

/// The name of another section that the calling thread is inside of.
pub fn beside(of: usize) -> Option<Arc<str>> {
    last(|s| s.of != of).map(|s| s.name)
}

/// Called before the thread sleeps.
///
/// # Panics
/// In builds with debug assertions, inside of a section.
#[track_caller]
pub fn may_sleep() {
    #[cfg(debug_assertions)]
    if let Some(section) = last(|_| true) {
        panic!(
            "a section of `{}`, begun at {}, waits: unlock before you wait, or use a Monitor",
            section.name, section.at
        );
    }
}
