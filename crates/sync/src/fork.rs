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

use crate::lease::WATCHED;
use chappe_plat::forks::{Around, Nest};
use chappe_plat::{dir, process};
use chappe_wait::attachment::{PROCESS_MEMBERS, WATCH};
use chappe_wait::known::{FAMILY, KNOWN};
use chappe_wait::label::LABEL;
#[cfg(not(any(feature = "sim", feature = "loom")))]
use chappe_wait::lent::{ATTACHMENTS, holders::NAMED};
use chappe_wait::private::PRIVATE;
#[cfg(not(any(feature = "sim", feature = "loom")))]
use chappe_wait::tasks::{DRIVERS, FREE, crowd::CROWDS, timer::TIMES};
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What is done before this process forks, while it holds no lock of ours.
static FIRST: OnceLock<fn()> = OnceLock::new();

/// What a module that stands above this one keeps of the process, behind a mutex that a fork takes. That module alone knows its type.
pub(crate) struct Kept(Mutex<Option<Box<dyn Any + Send>>>);

/// The ends of named tubes that this process has.
pub(crate) static ATTACHED: Kept = Kept::new();
/// Those with descriptors.
pub(crate) static ENDS: Kept = Kept::new();
/// The descriptors that were ever waited for.
pub(crate) static DESCRIPTORS: Kept = Kept::new();

impl Kept {
    const fn new() -> Kept {
        Kept(Mutex::new(None))
    }

    /// Takes the mutex. `T` is the same in every call.
    pub fn lock<T: Any + Send + Default>(&'static self) -> KeptGuard<T> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guard.get_or_insert_with(|| Box::new(T::default()));
        KeptGuard(guard, PhantomData)
    }
}

/// [`Kept`], locked.
pub(crate) struct KeptGuard<T>(MutexGuard<'static, Option<Box<dyn Any + Send>>>, PhantomData<T>);

impl<T: Any> Deref for KeptGuard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().and_then(|kept| kept.downcast_ref()).expect("one type each")
    }
}

impl<T: Any> DerefMut for KeptGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().and_then(|kept| kept.downcast_mut()).expect("one type each")
    }
}

/// All the guards, outermost first; none while no thread forks.
struct Held(UnsafeCell<Vec<Box<dyn Any>>>);

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
    if let Some(first) = FIRST.get() {
        first();
    }
    let attached = of(&ATTACHED.0);
    NEST.begin();
    // SAFETY: this thread has the first mutex, so no other thread is between its `before` and its `after`.
    let held = unsafe { &mut *HELD.0.get() };
    held.push(attached);
    held.push(of(&ENDS.0));
    held.push(of(&FAMILY));
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    {
        held.push(of(&DRIVERS));
        held.push(of(&ATTACHMENTS));
        held.push(of(&NAMED));
        held.push(of(&FREE));
        held.push(of(&CROWDS));
        held.push(of(&TIMES));
    }
    held.push(of(&PROCESS_MEMBERS));
    held.push(of(&PRIVATE));
    held.push(of(&KNOWN));
    held.push(of(&LABEL));
    held.push(of(&DESCRIPTORS.0));
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
    chappe_wait::known::forget_parents_presence();
}

/// Makes forks safe from now on. Called before the first of the mutexes is used for long; and before other fork handlers are set
/// up, if those take locks that are held while something here is called.
pub fn prepare() {
    // As in `after`.
    process::incarnation();
    FORKS.ensure();
}

/// The same, and calls `first` before each fork.
pub(crate) fn prepare_with(first: fn()) {
    prepare();
    FIRST.get_or_init(|| first);
}
