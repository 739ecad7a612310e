//! Forks of a process whose other threads are in the middle of something here.
//!
//! A thread that forks first takes the locks of this library, in the order in which they nest, and parent and child each release theirs.
//! The locks of the crates below are taken after them, and the heap's last of all, since all others allocate. No signal is delivered to the
//! forking thread from before the first lock to after the last: a handler may post, and take them. The C library calls fork handlers in the
//! reverse order of their registration: so the heap's is registered first, before anything else here is done. Handlers that others have
//! registered before this library would be called while all this is held, and may use semaphores: so the dynamic linker runs this library's
//! constructor first (`build.rs`). That may not be granted; so every first use of this library prepares for forks.

use crate::shield::{self, Kept, without_signals};
use crate::{cancel, folder, heap, last, locals, named, place};
use chappe::forks::{Nest, Once};
use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The guards, outermost first.
type Guards = Vec<Box<dyn Any>>;

/// What keeps signals out, and the guards.
struct Held(UnsafeCell<(Option<Kept>, Guards)>);

// SAFETY: touched only by the thread that forks, between `before` and `after`; another thread that forks meanwhile waits for the first of
// the locks.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new((None, Vec::new())));
static NEST: Nest = Nest::new();

static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Which of the processes this is, in a line of forks.
pub fn generation() -> u32 {
    // Relaxed: changed only where no other thread runs.
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn before() {
    if NEST.is_inner() {
        return;
    }
    let kept = shield::keep_out();
    let first = Box::new(folder::quiet());
    // SAFETY: with the first lock ours, no other thread is between its `before` and its `after`.
    let (signals, held) = unsafe { &mut *HELD.0.get() };
    NEST.begin();
    *signals = Some(kept);
    held.push(first);
    held.push(Box::new(named::quiet()));
    held.push(Box::new(place::quiet()));
    held.push(Box::new(cancel::quiet()));
    held.push(Box::new(folder::quiet_known()));
}

/// Lets go of all. What it answers lets signals in again where it is dropped.
fn let_go() -> impl Sized {
    // SAFETY: as in `before`: this thread, or its copy in the child, has the first lock.
    let (signals, held) = std::mem::take(unsafe { &mut *HELD.0.get() });
    // Innermost first; the first lock last, since it guards the list.
    held.into_iter().rev().for_each(drop);
    signals
}

extern "C" fn after() {
    if NEST.end() {
        drop(let_go());
    }
}

extern "C" fn after_in_child() {
    if !NEST.end() {
        return;
    }
    let _signals = let_go();
    // Relaxed: no other thread runs.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    cancel::only_this_thread();
    last::only_this_thread();
}

static PREPARED: Once = Once::new();

/// Makes forks safe from now on. Before the first lock that is taken here, and the first handler that the crates below register.
///
/// The C library may call the program's `malloc` for what is registered here, and that may use semaphores: the inner call goes on
/// without, and so does a thread that a fork has left alone with another's half of it (`Once`).
#[inline]
pub fn prepare() {
    PREPARED.call(|| without_signals(first));
}

#[cold]
fn first() {
    // Early: the first ones need no memory.
    locals::key();
    chappe::kernel_thread::prepare();
    // SAFETY: functions that stay.
    unsafe { libc::pthread_atfork(Some(heap::before_fork), Some(heap::after_fork), Some(heap::after_fork)) };
    chappe::prepare_forks();
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after_in_child)) };
}
