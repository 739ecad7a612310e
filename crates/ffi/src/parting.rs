//! What a thread that ends, or leaves an arena, still has of the ends of tubes: slots that it has reserved, records that it has borrowed.
//!
//! A thread of a Rust program has dropped them by then, or leaked them, and perhaps references to them: nobody gets those any more. In
//! C they lie in handles, which outlive the thread. So before it leaves, its slots are given up, and its records are put back.
//!
//! Each thread remembers the handles in which it has something. What it remembers goes before its places in arenas do: thread-locals are
//! dropped in the reverse order, and the place was there first. The first thread's go when the process calls exit: what it has then is left
//! to recovery, as at any death of a process.

use crate::handle::{self, Object};
use chappe::Arena;
use std::cell::RefCell;

/// An end that lends slots or records to threads.
pub trait Lends: Object {
    /// Lets go of what the calling thread has in it, if that is of this arena, or any. False: it is of another.
    fn let_go(&self, of: Option<&Arena>) -> bool;
}

/// A handle, and what lets go of what the thread has in it.
struct Thing {
    handle: usize,
    let_go: fn(usize, Option<&Arena>) -> bool,
}

struct Things(RefCell<Vec<Thing>>);

impl Drop for Things {
    fn drop(&mut self) {
        // SAFETY: these take nothing, and cannot fail.
        let is_first = unsafe { libc::gettid() == libc::getpid() };
        if !is_first {
            self.0.get_mut().iter().for_each(|thing| _ = (thing.let_go)(thing.handle, None));
        }
    }
}

thread_local! {
    static THINGS: Things = const { Things(RefCell::new(Vec::new())) };
}

/// The calling thread has something in a handle now, of which this is a part.
pub fn has<E: Lends>(part: &impl Sized) {
    let thing = Thing { handle: handle::of(part), let_go: let_go::<E> };
    let _ = THINGS.try_with(|things| {
        let mut things = things.0.borrow_mut();
        // It is there still if another thread closed the handle, and it is a new one's by now.
        match things.iter_mut().find(|there| there.handle == thing.handle) {
            Some(there) => *there = thing,
            None => things.push(thing),
        }
    });
}

/// It has nothing there any more.
pub fn has_not<T>(part: &T) {
    forget(handle::of(part));
}

/// The handle was closed.
pub fn forget(handle: usize) {
    let _ = THINGS.try_with(|things| {
        let mut things = things.0.borrow_mut();
        if let Some(at) = things.iter().rposition(|thing| thing.handle == handle) {
            things.swap_remove(at);
        }
    });
}

/// The calling thread is about to leave an arena.
pub fn leaves(arena: &Arena) {
    let _ = THINGS.try_with(|things| {
        // Taken out meanwhile: what is let go must not be looked for.
        let all = std::mem::take(&mut *things.0.borrow_mut());
        let kept = all.into_iter().filter(|thing| !(thing.let_go)(thing.handle, Some(arena))).collect();
        *things.0.borrow_mut() = kept;
    });
}

/// As [`Lends::let_go`]. A handle that was closed is another's by now, or nobody's: then there is nothing of this thread's.
fn let_go<E: Lends>(handle: usize, of: Option<&Arena>) -> bool {
    handle::quick::<E>(std::ptr::with_exposed_provenance(handle)).is_none_or(|end| end.let_go(of))
}
