//! Robust locks: a word that names the thread that owns it, and that the kernel marks when that thread dies.
//!
//! In a world of several PID namespaces the pending entry names the word from a step before the claim until a step after the release: there
//! the kernel may find another namespace's thread of the same number in the word, and marks it. In a world of one namespace no other thread
//! has the number, and these steps are left out.
//!
//! As glibc's robust, process-shared, normal mutex: release sets the word to 0 and, if it was watched, wakes one sleeper. Between the two,
//! and all the while a thread claims, the pending entry of its robust list names the word: if it dies there and the word has no owner, the
//! kernel wakes one in its place. What the kernel does at death is in `kernel.rs`.

use crate::atomic::{AtomicU32, Ordering::SeqCst};
use crate::futex::{Scope, wait, wake};
use crate::kernel::{OWNER_DIED, TID_MASK, WATCHED};
use crate::trace::Touch;
use crate::turn::{Mode, me, mode, saw, turn_in_order, with};
use std::panic::Location;

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller owns it; its last owner released it.
    Fresh,
    /// The caller owns it; its last owner died with it.
    AfterDeath,
    /// A living thread owns it.
    Busy,
}

/// The word, changed by the step that has been taken.
fn put(word: &AtomicU32, value: u32) {
    // SAFETY: an atomic may be written through its pointer while no other thread of the system touches it, and
    // all virtual threads are one such thread.
    unsafe { word.as_ptr().write_volatile(value) };
}

/// Sets the pending entry of the calling thread's robust list. No step: no other thread sees it.
pub fn pending(word: Option<&AtomicU32>) {
    if mode() != Mode::Outside {
        with(|e| e.threads[me()].pending = word.map(|w| w.as_ptr() as usize));
    }
}

fn claim_with(word: &AtomicU32, watched: u32, at: &'static Location<'static>) -> Claim {
    turn_in_order();
    let old = word.peek();
    let place = word.as_ptr() as usize;
    let tid = with(|e| e.threads.get(me()).map_or(1, |t| t.tid));
    let claim = if old & OWNER_DIED != 0 {
        Claim::AfterDeath
    } else if old == 0 {
        Claim::Fresh
    } else {
        Claim::Busy
    };
    if claim != Claim::Busy {
        put(word, tid | watched | (old & WATCHED));
        if mode() != Mode::Outside {
            with(|e| e.threads[me()].held.push(place));
        }
    }
    let how = if claim == Claim::Busy { Touch::Read } else { Touch::Write };
    saw(place, 40, how, at, |n| format!("{}: claim: {claim:?}", n.of(place)));
    claim
}

/// Whether numbers of threads are unique among all that can reach the word.
fn is_alone() -> bool {
    mode() == Mode::Outside || !with(|e| e.files.namespaces)
}

/// Takes the lock for this thread if no living thread has it. Never blocks.
#[track_caller]
pub fn try_claim(word: &AtomicU32) -> Claim {
    let at = Location::caller();
    if is_alone() {
        return claim_with(word, 0, at);
    }
    turn_in_order();
    pending(Some(word));
    saw(0, 0, Touch::Read, at, |n| format!("{}: is about to claim it", n.of(word.as_ptr() as usize)));
    let claim = claim_with(word, 0, at);
    pending(None);
    claim
}

/// Takes the lock, waiting while a living thread has it. Never answers `Busy`.
#[track_caller]
pub fn claim(word: &AtomicU32) -> Claim {
    claim_waiting(word, 0, Location::caller())
}

/// The same for a lock with priority inheritance: the kernel knows the waiters, so that a claim that comes between a release and a woken
/// waiter that dies hides none.
#[track_caller]
pub fn claim_inherited(word: &AtomicU32) -> Claim {
    claim_waiting(word, WATCHED, Location::caller())
}

fn claim_waiting(word: &AtomicU32, mut watched: u32, at: &'static Location<'static>) -> Claim {
    loop {
        pending(Some(word));
        match claim_with(word, watched, at) {
            Claim::Busy => {}
            done => {
                pending(None);
                return done;
            }
        }
        if mode() == Mode::Failing {
            return Claim::Fresh;
        }
        let now = word.load(SeqCst);
        if now & TID_MASK == 0 {
            continue;
        }
        if now & WATCHED == 0 && word.compare_exchange(now, now | WATCHED, SeqCst, SeqCst).is_err() {
            continue;
        }
        // A thread that has slept takes the lock watched: others may sleep behind it.
        watched = WATCHED;
        wait(word, now | WATCHED, None, Scope::Shared);
    }
}

/// Releases the lock; wakes one of the threads that watch the word. Nothing happens if another thread owns it.
#[track_caller]
pub fn release(word: &AtomicU32) {
    let at = Location::caller();
    turn_in_order();
    let old = word.peek();
    let place = word.as_ptr() as usize;
    let tid = with(|e| e.threads.get(me()).map_or(1, |t| t.tid));
    if old & TID_MASK != tid {
        return;
    }
    put(word, 0);
    if mode() != Mode::Outside {
        with(|e| {
            let t = &mut e.threads[me()];
            t.held.retain(|w| *w != place);
            t.pending = Some(place);
        });
    }
    saw(place, 41, Touch::Write, at, |n| format!("{}: released", n.of(place)));
    if old & WATCHED != 0 {
        wake(word, 1, Scope::Shared);
    }
    if !is_alone() {
        turn_in_order();
        saw(0, 0, Touch::Read, at, |n| format!("{}: has released it", n.of(place)));
    }
    pending(None);
}
