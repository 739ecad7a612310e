//! Operations of one thread on another: Synthesis' thread operations (synthesis, 4.3.2 and 5.3.2).
//!
//! The protocols are `words::asked` and `words::token`. This file holds what the target thread does itself at its safe
//! points: it runs interrupts, unwinds its stack, leaves its proc's queue (suspension), or runs one instruction (a
//! step). There are two kinds of safe points:
//!
//! - *After each park* (`after_park`): the thread is in the middle of a wait. It may be suspended there and run
//!   interrupts, but not be unwound, since the object that it waits for still refers to its wait node.
//! - *Where nothing is half done* (`come_by`): before and after a wait, at a yield, at the thread's beginning. There it
//!   may be unwound as well.
//!
//! A second table beside that of the records holds the requests' data (`Asks`). Its memory is written only for threads
//! that were interrupted, signalled or notified.

use crate::proc::{run, wake};
use crate::record::{self, Asks, Thread as Record, current};
use crate::step;
use crate::words::asked::{self, Op, Refused, Then};
use crate::words::told;
use chappe_plat::atomic::Ordering;
use chappe_plat::light;
use chappe_plat::light::asked::{COME_BY, DUE, DYING, HELD, INSIDE, KILL, SHIELD, SIGNAL, STEP, STOPME};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Why an operation on a thread was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The thread has ended, or is about to: it was destroyed.
    Ended,
    /// Only a thread that is stopped can be made to step: [`Thread::stop`](crate::Thread::stop) it, and wait until it is
    /// ([`Thread::is_out`](crate::Thread::is_out)); one step at a time.
    NotStopped,
    /// This machine cannot do it.
    Unsupported,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::Ended => "the light thread has ended",
            Refusal::NotStopped => "the light thread is not stopped: stop it first, and step it once at a time",
            Refusal::Unsupported => "this machine cannot step a thread of its own process",
        })
    }
}

impl std::error::Error for Refusal {}

/// What a thread that was destroyed has panicked with, for [`JoinHandle::join`](crate::JoinHandle::join).
#[derive(Debug)]
pub struct Destroyed;

type Procedure = Box<dyn FnOnce() + Send>;

/// A procedure that is to be run once. The thread that takes it out of the lock runs or drops it.
struct Interrupt {
    body: Arc<Mutex<Option<Procedure>>>,
    generation: u32,
    next: u64,
}

/// Applies an operation, and wakes or readies the thread where the operation says so.
pub(crate) fn ask(thread: &'static Record, generation: u32, op: Op) -> Result<(), Refusal> {
    match asked::ask(&thread.core.control, generation, op) {
        Ok(Then::Nothing) => {}
        Ok(Then::Ready) => wake::ready(thread),
        Ok(Then::Wake) => light::unpark(&thread.core),
        Err(Refused::Ended) => return Err(Refusal::Ended),
        Err(Refused::NotStopped) => return Err(Refusal::NotStopped),
    }
    Ok(())
}

/// Makes the thread run a procedure.
pub(crate) fn interrupt(thread: &'static Record, generation: u32, body: Procedure) -> Result<(), Refusal> {
    let asks = record::asks(thread);
    let body = Arc::new(Mutex::new(Some(body)));
    let node = Box::into_raw(Box::new(Interrupt { body: Arc::clone(&body), generation, next: 0 }));
    // Relaxed: the swap decides.
    let mut first = asks.interrupts.load(Ordering::Relaxed);
    loop {
        // SAFETY: nobody else has it yet.
        unsafe { (*node).next = first };
        // Release: the node as it is. Relaxed: once more.
        match asks.interrupts.compare_exchange(first, node as u64, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    ask(thread, generation, Op::Interrupt).inspect_err(|_| {
        // The node stays until the next thread with this record finds it, and sees that it is another's; the procedure goes now.
        let body = body.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(body);
    })
}

/// Makes the thread run its handler of that signal.
pub(crate) fn signal(thread: &'static Record, generation: u32, number: u32) -> Result<(), Refusal> {
    if !told::tell(&record::asks(thread).signals, &thread.core.control, generation, 1 << (number % 32)) {
        return Err(Refusal::Ended);
    }
    ask(thread, generation, Op::Interrupt)
}

/// Tells the thread of events, if it has not ended.
pub(crate) fn notify(thread: &'static Record, generation: u32, events: u32) {
    if told::tell(&record::asks(thread).events, &thread.core.control, generation, events) {
        wake::tell(thread);
    }
}

/// Takes those of `events` that the calling thread was told of.
pub(crate) fn events(me: &Record, events: u32) -> u32 {
    told::take(&record::asks(me).events, me.generation(), events)
}

/// Runs the procedures that were put in, the oldest first, then the handlers of pending signals. A panic ends its
/// procedure only.
fn run_interrupts(me: &'static Record) {
    let (asks, generation) = (record::asks(me), me.generation());
    me.core.control.fetch_or(INSIDE, Ordering::Relaxed); // Relaxed: the thread's own.
    // An interrupt may change what observers read about the thread's wait: it is restored below.
    let (waits, at) = (me.core.waits.get(), me.core.at.get());
    // Acquire: the nodes as they are.
    let mut at_node = asks.interrupts.swap(0, Ordering::Acquire) as *mut Interrupt;
    let mut all = Vec::new();
    while !at_node.is_null() {
        // SAFETY: `interrupt` has made it, and the swap gave it to us.
        let node = unsafe { Box::from_raw(at_node) };
        at_node = node.next as *mut Interrupt;
        all.push(node);
    }
    for node in all.into_iter().rev().filter(|node| node.generation == generation) {
        let body = node.body.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = catch_unwind(AssertUnwindSafe(|| body.map(|body| body())));
    }
    let signals = told::take(&asks.signals, generation, u32::MAX);
    for number in (0..32).filter(|number| signals & 1 << number != 0) {
        if let Some(handler) = me.handler(number) {
            let _ = catch_unwind(AssertUnwindSafe(|| handler()));
        }
    }
    me.core.waits.set(waits);
    me.core.at.set(at);
    me.core.control.fetch_and(!INSIDE, Ordering::Relaxed); // Relaxed: as above.
}

/// The thread ends: drops the procedures that it has not run.
#[inline(always)]
pub(crate) fn end(me: &'static Record) {
    // S4: an asker is refused from here on, or its flag is among these.
    if self::asked::end(&me.core.control) != 0 {
        forget(record::asks(me));
    }
}

#[cold]
fn forget(asks: &Asks) {
    // Acquire: the nodes as they are.
    let mut at = asks.interrupts.swap(0, Ordering::Acquire) as *mut Interrupt;
    while !at.is_null() {
        // SAFETY: as in `run_interrupts`.
        let node = unsafe { Box::from_raw(at) };
        at = node.next as *mut Interrupt;
    }
}

/// After a park: S3; does everything that was asked, except unwinding.
#[inline(always)]
pub(crate) fn after_park(me: &'static Record) {
    // Relaxed: S3, the asker sets the flag before it gives the token.
    if me.core.control.load(Ordering::Relaxed) & (COME_BY & !KILL) != 0 {
        obey(me);
    }
}

/// Does what others have asked, except unwinding.
#[cold]
fn obey(me: &'static Record) {
    loop {
        // Relaxed: S3.
        let now = me.core.control.load(Ordering::Relaxed);
        if now & INSIDE != 0 {
            return;
        }
        if now & SIGNAL != 0 && now & HELD == 0 {
            // Acquire: what was put in before.
            me.core.control.fetch_and(!SIGNAL, Ordering::Acquire);
            run_interrupts(me);
        } else if now & STEP != 0 {
            return step::go(me);
        } else if now & (STOPME | DUE) != 0 {
            me.core.control.fetch_and(!DUE, Ordering::Relaxed); // Relaxed: it does.
            if me.away.get() {
                // It is stopped when it comes back.
                return;
            }
            run::give_way(me);
        } else {
            return;
        }
    }
}

/// A safe point where nothing is half done: does what others have asked, and unwinds a thread that is to be destroyed.
#[cold]
pub(crate) fn come_by() {
    let Some(me) = current() else { return };
    obey(me);
    // Relaxed: as above.
    let now = me.core.control.load(Ordering::Relaxed);
    if now & (KILL | DYING | SHIELD | INSIDE) == KILL && !std::thread::panicking() {
        me.core.control.fetch_or(DYING, Ordering::Relaxed); // Relaxed: the thread's own.
        // A kernel thread counts its panics: the unwinding begins and ends on one.
        me.pinned.set(true);
        resume_unwind(Box::new(Destroyed));
    }
}
