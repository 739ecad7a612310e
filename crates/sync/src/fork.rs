//! Forks of a process whose other threads are in the middle of something.
//!
//! A forked child has one thread. If another thread of the parent had one of this library's mutexes at that moment, the child's copy
//! of the mutex would stay locked for ever. The library's own reaper is such a thread, so this is no rare case. So
//! the forking thread first takes every process-local mutex, in the order in which they nest, and parent and child each
//! unlock their own. All of them are held for short, except the directory's (a thread may hold it while another process makes
//! an arena), the process_member's and that of the ends with descriptors (while their threads start): a fork waits for these.
//!
//! The C library starts this library's threads in the child (`chappe_plat::thread`): it is ready for that, and the
//! standard library is not.
//!
//! Thread-local state needs no such care: the child has the copy of the thread that forks, and that thread is
//! not in the middle of it. A thread that forks in a signal handler may be: the function that it interrupted goes on in the child, where
//! the handler returns, as in the parent, and ends; until then the child's handler must not join an arena, as the parent's must not.
//!
//! The locks in shared memory need none either: they belong to the parent's thread, which the child does not have.

use crate::attachment::{LABEL, PROCESS_MEMBERS, WATCH};
use crate::descriptor::REGISTRY;
use crate::family::{self, FAMILY};
use crate::lease::WATCHED;
use crate::registry::{KNOWN, PRIVATE};
use crate::tube::named::{ATTACHED, LIST};
use chappe_plat::forks::{Around, Nest};
use chappe_plat::{dir, process};
use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All the guards, outermost first; none while no thread forks.
struct Held(UnsafeCell<Vec<Box<dyn std::any::Any>>>);

// SAFETY: touched only by the thread that forks, between `before` and `after`; another thread that forks meanwhile sleeps on the
// first mutex.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(Vec::new()));

fn of<T>(mutex: &'static Mutex<T>) -> Box<MutexGuard<'static, T>> {
    Box::new(mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

static FORKS: Around = Around::new(before, after);
static NEST: Nest = Nest::new();

extern "C" fn before() {
    if NEST.is_inner() {
        return;
    }
    family::before_fork();
    let attached = of(&ATTACHED);
    NEST.begin();
    // SAFETY: this thread has the first mutex, so no other thread is between its `before` and its `after`.
    let held = unsafe { &mut *HELD.0.get() };
    held.push(attached);
    held.push(of(&LIST));
    held.push(of(&FAMILY));
    held.push(of(&PROCESS_MEMBERS));
    held.push(of(&PRIVATE));
    held.push(of(&KNOWN));
    held.push(of(&LABEL));
    held.push(of(&REGISTRY));
    held.push(Box::new(dir::quiet()));
    held.push(of(&WATCHED));
    held.push(Box::new(WATCH.quiet()));
}

extern "C" fn after() {
    // The child gets a number before it can vfork: a number given in the vforked process would have the wrong pid.
    process::incarnation();
    if !NEST.end() {
        return;
    }
    // SAFETY: as in `before`: this thread, or its copy in the child, has the first mutex.
    let held = std::mem::take(unsafe { &mut *HELD.0.get() });
    // Innermost first; the first mutex last, since it guards the list.
    held.into_iter().rev().for_each(drop);
    crate::registry::forget_parents_presence();
}

/// Makes forks safe from now on. Called before the first of the mutexes is used for long; and before other fork handlers are set
/// up, if those take locks that are held while something here is called.
pub fn prepare() {
    // As in `after`.
    process::incarnation();
    FORKS.ensure();
}
