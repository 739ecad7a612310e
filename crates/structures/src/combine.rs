//! A server among the threads of one process (flat combining): a thread that finds the server idle carries out its own request, and then those that
//! came meanwhile. The *server* is the thread that is serving just now.
//!
//! ```text
//!   word: 0                nobody serves
//!   word: SERVED           somebody serves, nobody else has come
//!   word: SERVED | request --> request --> 0       the last that came first; each lies on its caller's stack
//! ```
//!
//! | a request's state | set by | then |
//! |---|---|---|
//! | WAITING | its caller | the caller looks for a while |
//! | ASLEEP | its caller | the caller sleeps on the word |
//! | DONE | the server, last of all | the caller returns: the request is no more |
//! | SERVE | the server, when it has served enough | the caller is the server, with all requests that are behind its own |
//!
//! Invariants:
//! - I1: only the server touches the data. A thread is the server from its swap of 0 for SERVED, or from SERVE, until it swaps SERVED for 0 or gives
//!   SERVE.
//! - I2: a request is on the list, or in the server's hands, from its caller's swap until DONE or SERVE. The caller does not change it until then; the
//!   server does not touch it afterwards, except for the wake of its word, which may be another request's by then: a sleeper looks again.
//! - I3: the server sets 0 only by a swap of SERVED: so it has seen every request that has come.
//! - I4: requests are served in the order in which they came; a server serves at most [`MOST`] requests of others.
//!
//! Ordering edges: E1 (release/acquire) the data, by the swaps of the word and by SERVE. E2 (release/acquire) a request before the swap that puts it on
//! the list. E3 (release/acquire) the answer before DONE.
//!
//! Blocking: a caller that comes while a thread serves waits for that thread, as with a lock; at most for [`MOST`] requests and those before its own. A
//! server that is stopped stops all.
//! Explored: `tests/crash_server.rs`; no thread is killed alone.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, pause};
use chappe_plat::futex::{self, Scope};
use chappe_plat::step;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const SERVED: u64 = 1;
const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const DONE: u32 = 2;
const SERVE: u32 = 3;

/// How many requests of others one thread carries out at most.
pub const MOST: u32 = if cfg!(feature = "sim") { 1 } else { 64 };
/// How often a caller looks before it sleeps.
const PATIENCE: u32 = if cfg!(feature = "sim") { 0 } else { 300 };

/// A caller's request, on its stack.
struct Request<T> {
    /// The request that came before it; in the server's hands, the request that comes after it.
    next: AtomicU64,
    state: AtomicU32,
    /// Carries it out: `(this, data)`.
    run: unsafe fn(*mut (), &mut T),
    what: *mut (),
}

/// The data, and the state of its serving.
pub struct Combined<T> {
    word: AtomicU64,
    /// The thread that serves, so that a caller can find out whether it is the server itself.
    by: AtomicU64,
    data: UnsafeCell<T>,
}

// SAFETY: the data goes from server to server (I1).
unsafe impl<T: Send> Sync for Combined<T> {}

/// A request's function, and its result.
struct Slot<F, R> {
    function: Option<F>,
    ended: Option<std::thread::Result<R>>,
}

/// # Safety
/// `what` is a `Slot<F, R>` that no other thread touches.
unsafe fn carried_out<T, R, F: FnOnce(&mut T) -> R>(what: *mut (), data: &mut T) {
    // SAFETY: as promised.
    let slot = unsafe { &mut *what.cast::<Slot<F, R>>() };
    if let Some(function) = slot.function.take() {
        // A panic goes to the caller.
        slot.ended = Some(catch_unwind(AssertUnwindSafe(|| function(data))));
    }
}

/// The identity of this thread: an address that is its own.
fn myself() -> u64 {
    thread_local!(static ME: u8 = const { 0 });
    ME.try_with(|me| std::ptr::from_ref(me).addr() as u64).unwrap_or(0)
}

impl<T> Combined<T> {
    /// An idle server of this data.
    pub fn new(data: T) -> Combined<T> {
        Combined { word: AtomicU64::new(0), by: AtomicU64::new(0), data: UnsafeCell::new(data) }
    }

    /// The data, when there are no callers any more.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }

    /// Carries out a function of the data, or waits until the server has carried it out.
    ///
    /// # Panics
    /// As the function; and if it is called by a request to the same server.
    #[inline]
    pub fn call<R, F: FnOnce(&mut T) -> R>(&self, function: F) -> R {
        // Acquire: E1. Relaxed, a failure: looks again.
        if self.word.compare_exchange(0, SERVED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return self.serve_first(function);
        }
        self.call_busy(function)
    }

    /// I1: this thread is the server, and begins with its own request.
    #[inline]
    fn serve_first<R, F: FnOnce(&mut T) -> R>(&self, function: F) -> R {
        self.by.store(myself(), Ordering::Relaxed); // Relaxed: only the thread itself needs it.
        let rest = Rest(self);
        // SAFETY: this thread is the server: I1.
        let answer = function(unsafe { &mut *self.data.get() });
        // Also when the function panics: all requests that have come are served.
        drop(rest);
        answer
    }

    #[cold]
    fn call_busy<R, F: FnOnce(&mut T) -> R>(&self, function: F) -> R {
        // Relaxed: it is this thread, or changes while we look.
        assert!(
            self.by.load(Ordering::Relaxed) != myself() || cfg!(feature = "sim"),
            "a request to a server calls the same server: it would wait for itself"
        );
        let mut slot = Slot { function: Some(function), ended: None };
        let request = Request {
            next: AtomicU64::new(0),
            state: AtomicU32::new(WAITING),
            run: carried_out::<T, R, F>,
            what: std::ptr::from_mut(&mut slot).cast(),
        };
        let at = std::ptr::from_ref(&request).expose_provenance() as u64;
        loop {
            // Relaxed: the swap looks again.
            let seen = self.word.load(Ordering::Relaxed);
            if seen == 0 {
                // Acquire: E1. Relaxed, a failure: looks again.
                if self.word.compare_exchange(0, SERVED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    let function = slot.function.take().expect("not carried out yet");
                    return self.serve_first(function);
                }
                continue;
            }
            request.next.store(seen & !SERVED, Ordering::Relaxed); // Relaxed: E2.
            // Release: E2. Relaxed, a failure: looks again.
            if self.word.compare_exchange(seen, at | SERVED, Ordering::Release, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        step!("on the list");
        if wait(&request.state) == SERVE {
            self.by.store(myself(), Ordering::Relaxed); // Relaxed: as above.
            // SAFETY: I1, and the slot is ours.
            unsafe { (request.run)(request.what, &mut *self.data.get()) };
            // Relaxed: E1, written before SERVE.
            self.finish(request.next.load(Ordering::Relaxed));
        }
        match slot.ended.expect("it was carried out") {
            Ok(answer) => answer,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Serves the requests that have come, `first` before those on the list, and ceases to be the server.
    fn finish(&self, mut first: u64) {
        let mut served = 0;
        loop {
            if first == 0 {
                self.by.store(0, Ordering::Relaxed); // Relaxed: as above.
                // Release: E1. Acquire, a failure: E2.
                match self.word.compare_exchange(SERVED, 0, Ordering::Release, Ordering::Acquire) {
                    Ok(_) => return,
                    Err(_) => first = self.in_order(),
                }
            }
            // SAFETY: I2: it is in our hands.
            let request = unsafe { &*std::ptr::with_exposed_provenance::<Request<T>>(first as usize) };
            if served == MOST {
                // I4: all behind it are its.
                step!("has served enough");
                return answer(&request.state, SERVE);
            }
            // Relaxed: ours.
            first = request.next.load(Ordering::Relaxed);
            // SAFETY: I1, I2: its caller waits, and touches nothing.
            unsafe { (request.run)(request.what, &mut *self.data.get()) };
            step!("carried out, not yet said");
            answer(&request.state, DONE);
            served += 1;
        }
    }

    /// Takes the list; answers the request that came first, each linked to the next.
    fn in_order(&self) -> u64 {
        // AcqRel: E1, E2.
        let mut at = self.word.swap(SERVED, Ordering::AcqRel) & !SERVED;
        let mut first = 0;
        while at != 0 {
            // SAFETY: its caller keeps it until it is answered: I2.
            let request = unsafe { &*std::ptr::with_exposed_provenance::<Request<T>>(at as usize) };
            // Relaxed, both: ours.
            let before = request.next.load(Ordering::Relaxed);
            request.next.store(first, Ordering::Relaxed); // Relaxed: as above.
            (first, at) = (at, before);
        }
        first
    }
}

/// Serves all requests that have come when it is dropped.
struct Rest<'a, T>(&'a Combined<T>);

impl<T> Drop for Rest<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.finish(0);
    }
}

/// Waits until a request is done, or its caller is to serve.
fn wait(state: &AtomicU32) -> u32 {
    #[allow(clippy::reversed_empty_ranges, reason = "none where it is explored")]
    for _ in 0..PATIENCE {
        // Acquire: E3, E1.
        let now = state.load(Ordering::Acquire);
        if now != WAITING {
            return now;
        }
        pause();
    }
    // Relaxed: the wait looks again. Acquire, a failure: E3, E1.
    if let Err(now) = state.compare_exchange(WAITING, ASLEEP, Ordering::Relaxed, Ordering::Acquire) {
        return now;
    }
    loop {
        futex::wait(state, ASLEEP, None, Scope::Private);
        // Acquire: E3, E1.
        let now = state.load(Ordering::Acquire);
        if now != ASLEEP {
            return now;
        }
    }
}

/// I2: sets a request's state, and wakes its caller. The request may be no more once the state is set.
fn answer(state: &AtomicU32, how: u32) {
    // Release: E3, E1.
    if state.swap(how, Ordering::AcqRel) == ASLEEP {
        futex::wake(state, 1, Scope::Private);
    }
}
