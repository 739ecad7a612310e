//! Forks of a process whose other threads are in the middle of something here.
//!
//! Whoever forks first takes the locks of this library, in the order in which they nest, and parent and child each let go of theirs. Those
//! of the crates below are taken behind them, and the heap's last of all, since all others allocate. The C library calls
//! what was registered last first: so the heap's is registered first, before anything else here is done.

use crate::{cancel, folder, heap, named, place};
use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The guards, outermost first.
struct Held(UnsafeCell<Vec<Box<dyn Any>>>);

// SAFETY: touched only by the thread that forks, between `before` and `after`; who else forks meanwhile waits for the
// first of the locks.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(Vec::new()));

static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Which of the processes this is, in a line of forks.
pub fn generation() -> u32 {
    // Relaxed: changed only where nobody else runs.
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn before() {
    let first = Box::new(folder::quiet());
    // SAFETY: with the first lock ours, no other thread is between its `before` and its `after`.
    let held = unsafe { &mut *HELD.0.get() };
    held.push(first);
    held.push(Box::new(named::quiet()));
    held.push(Box::new(place::quiet()));
    held.push(Box::new(cancel::quiet()));
}

extern "C" fn after() {
    // SAFETY: as in `before`: this thread, or its copy in the child, has the first lock.
    let held = std::mem::take(unsafe { &mut *HELD.0.get() });
    // Innermost first; the first lock last, since it guards the list.
    held.into_iter().rev().for_each(drop);
}

extern "C" fn after_in_child() {
    after();
    // Relaxed: nobody else runs.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    cancel::only_this_thread();
}

/// Makes forks safe from now on.
pub fn prepare() {
    // SAFETY: functions that stay.
    unsafe { libc::pthread_atfork(Some(heap::before_fork), Some(heap::after_fork), Some(heap::after_fork)) };
    chappe::prepare_forks();
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after_in_child)) };
}
