//! What one thread may do to another: Synthesis' thread operations (synthesis, 4.3.2 and 5.3.2).
//!
//! The words are `words::asked` and `words::token`. Here is what the thread does itself, at its safe points: it runs interrupts, unwinds its
//! stack, goes out of its proc's queue, or goes on for one instruction. There are two kinds of places:
//!
//! - *After each park*: somebody in the middle of a wait. It may be stopped there, and run interrupts; nothing else, since what it waits for has
//!   its node.
//! - *Where nothing is half done*: before and after a wait, at a yield, at the beginning. There it may be unwound, too.
//!
//! Beside the table of records lies one of what has been asked (`Asks`): memory that is touched for threads of whom something was asked.

use crate::proc;
use crate::record::{self, Thread as Record};
use crate::words::asked::{self, Op, Refused, Then};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::light;
use chappe_plat::light::asked::{
    COME_BY, DUE, DYING, FLAGS, GENERATION, HELD, INSIDE, KILL, SHIELD, SIGNAL, STEP, STOPME,
};
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

/// What has been asked of a thread, beside its record.
#[repr(C)]
pub(crate) struct Asks {
    /// The last interrupt that was put in.
    interrupts: AtomicU64,
    /// Signals: 32 bits, and above them of which generation.
    signals: AtomicU64,
}

type Procedure = Box<dyn FnOnce() + Send>;

/// A procedure that is to be run once. Whoever takes it out of the lock runs or drops it.
struct Interrupt {
    body: Arc<Mutex<Option<Procedure>>>,
    generation: u32,
    next: u64,
}

/// A handler of a signal.
pub(crate) type Handler = Arc<dyn Fn() + Send + Sync>;

/// The generation of the thread that has the record now.
pub(crate) fn generation(thread: &Record) -> u32 {
    // Relaxed: of one that lives, it does not change.
    thread.core.control.load(Ordering::Relaxed) >> GENERATION
}

/// Does it.
pub(crate) fn ask(thread: &'static Record, generation: u32, op: Op) -> Result<(), Refusal> {
    match asked::ask(&thread.core.control, generation, op) {
        Ok(Then::Nothing) => {}
        Ok(Then::Ready) => proc::ready(thread),
        Ok(Then::Wake) => light::unpark(&thread.core),
        Err(Refused::Ended) => return Err(Refusal::Ended),
        Err(Refused::NotStopped) => return Err(Refusal::NotStopped),
    }
    Ok(())
}

/// Has the thread run a procedure.
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

/// Has it run its handler of that signal.
pub(crate) fn signal(thread: &'static Record, generation: u32, number: u32) -> Result<(), Refusal> {
    let signals = &record::asks(thread).signals;
    // Relaxed: the swap decides.
    let mut now = signals.load(Ordering::Relaxed);
    loop {
        // After the word was read: so it is not that of a later thread.
        if self::generation(thread) != generation {
            return Err(Refusal::Ended);
        }
        let old = if (now >> 32) as u32 == generation { now as u32 } else { 0 };
        let next = u64::from(generation) << 32 | u64::from(old | 1 << (number % 32));
        // AcqRel: before it is asked to look. Relaxed: once more.
        match signals.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => now = other,
        }
    }
    ask(thread, generation, Op::Interrupt)
}

/// Whether the calling thread runs an interrupt: it must not wait.
pub(crate) fn is_inside(me: &Record) -> bool {
    me.core.control.load(Ordering::Relaxed) & INSIDE != 0 // Relaxed: the thread's own.
}

/// Runs what was put in, the first first. A panic ends the procedure alone.
fn run_interrupts(me: &'static Record) {
    let (asks, generation) = (record::asks(me), generation(me));
    me.core.control.fetch_or(INSIDE, Ordering::Relaxed); // Relaxed: the thread's own.
    // What it waits for, for who looks, is as before afterwards.
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
    // Acquire: what was done before it was sent.
    let signals = asks.signals.swap(0, Ordering::Acquire);
    if (signals >> 32) as u32 == generation {
        for number in (0..32).filter(|number| signals as u32 & 1 << number != 0) {
            if let Some(handler) = me.handler(number) {
                let _ = catch_unwind(AssertUnwindSafe(|| handler()));
            }
        }
    }
    me.core.waits.set(waits);
    me.core.at.set(at);
    me.core.control.fetch_and(!INSIDE, Ordering::Relaxed); // Relaxed: as above.
}

/// The thread ends: what was put in and not run goes.
pub(crate) fn end(me: &'static Record) {
    // Relaxed: a look; who asks just now finds out by the generation.
    let asked = me.core.control.load(Ordering::Relaxed) & (SIGNAL | FLAGS) != 0;
    self::asked::end(&me.core.control);
    if asked {
        forget(record::asks(me));
    }
}

fn forget(asks: &Asks) {
    // Acquire: the nodes as they are.
    let mut at = asks.interrupts.swap(0, Ordering::Acquire) as *mut Interrupt;
    while !at.is_null() {
        // SAFETY: as in `run_interrupts`.
        let node = unsafe { Box::from_raw(at) };
        at = node.next as *mut Interrupt;
    }
}

/// After a park: S3, and whatever does not unwind.
#[inline(always)]
pub(crate) fn after_park(me: &'static Record) {
    // Relaxed: who asks gives the token after that.
    if me.core.control.load(Ordering::Relaxed) & (COME_BY & !KILL) != 0 {
        obey(me);
    }
}

/// What others have asked, but for the end.
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
            return crate::step::go(me);
        } else if now & (STOPME | DUE) != 0 {
            me.core.control.fetch_and(!DUE, Ordering::Relaxed); // Relaxed: it does.
            if me.away.get() {
                // It is stopped when it comes back.
                return;
            }
            proc::give_way(me);
        } else {
            return;
        }
    }
}

/// A place where nothing is half done.
#[cold]
pub(crate) fn come_by() {
    let Some(me) = proc::current() else { return };
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

/// Procedures that others may name: see `offer`.
static OFFERS: Mutex<Vec<(String, Handler)>> = Mutex::new(Vec::new());

/// Says under which name `chappe threads PID --create NAME` begins this as a light thread, and `--interrupt N=NAME` has thread N run it. The same
/// name again replaces it.
pub fn offer(name: impl Into<String>, procedure: impl Fn() + Send + Sync + 'static) {
    let (name, procedure): (String, Handler) = (name.into(), Arc::new(procedure));
    let mut all = OFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(n, _)| *n != name);
    all.push((name, procedure));
}

/// What was offered under that name.
pub(crate) fn offered(name: &str) -> Option<Handler> {
    let all = OFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|(n, _)| n == name).map(|(_, procedure)| Arc::clone(procedure))
}
