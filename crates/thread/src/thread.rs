//! A light thread as others see it.

use crate::asks::{self, Refusal};
use crate::id::ThreadId;
use crate::proc::park::wait_for_events;
use crate::record::{self, current};
use crate::step;
use crate::words::asked::Op;
use chappe_plat::atomic::Ordering;
use chappe_plat::clock;
use chappe_plat::light::asked::{FLAGS, GENERATION, STOPME, STOPPED};
use chappe_plat::light::{self, Waits};
use std::sync::Arc;
use std::time::Duration;

/// The most events: they are bits 0 to 23.
const EVENTS: u32 = (1 << 24) - 1;
/// The most signals.
const SIGNALS: u32 = 32;

/// A reference to a light thread, with which others wake, stop, interrupt, notify or end it. It refers to this thread,
/// and to no later thread with the same number: an operation on a thread that has ended is refused. (The generation has
/// 20 bits: it repeats after a million threads with one number.)
///
/// Any thread, light or not, may call each operation, and the caller never waits for the target. The target does what
/// it is asked at its next *safe point*: where it waits, has waited, yields, or meets the other end of a tube without
/// slots. So a target that only computes goes on.
///
/// | state, after | `suspend` | `resume` | `stop` | `step` | `interrupt` | `destroy` |
/// |---|---|---|---|---|---|---|
/// | running, ready, waiting | suspending | the same | stopping | refused | runs it | killed |
/// | suspending | the same | running | stopping | refused | runs it | killed |
/// | suspended | the same | ready | stopped | refused | runs it, then suspended | killed |
/// | stopping | the same | running | the same | refused | later | killed |
/// | stopped | the same | ready | the same | one instruction | when it is resumed | killed |
/// | killed, ended | refused | refused | refused | refused | refused | nothing; refused |
///
/// ```
/// # chappe_thread::Runtime::new(1).unwrap().run(|| {
/// use chappe_thread::{Destroyed, park, spawn, yield_now};
/// let worker = spawn(|| loop { park() });
/// yield_now();
/// let (tx, rx) = chappe_sync::tube::bounded(1);
/// worker.thread().interrupt(move || tx.send("run by the worker").unwrap()).unwrap();
/// assert_eq!(rx.recv(), Ok("run by the worker"));
/// worker.thread().destroy().unwrap();
/// assert!(worker.join().unwrap_err().is::<Destroyed>());
/// # });
/// ```
///
/// Paper: synthesis, 4.3.2 and 5.3.2 (figure 5.10).
#[derive(Clone, Copy)]
pub struct Thread {
    pub(crate) record: &'static record::Thread,
    pub(crate) generation: u32,
}

impl PartialEq for Thread {
    fn eq(&self, other: &Thread) -> bool {
        self.generation == other.generation && std::ptr::eq(self.record, other.record)
    }
}

impl Eq for Thread {}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).finish()
    }
}

impl Thread {
    pub(crate) fn of(record: &'static record::Thread) -> Thread {
        let next = record.generation();
        // One that drops its result has ended: the generation is the next thread's by then.
        let generation = if record.lives.get() { next } else { next.wrapping_sub(1) & (u32::MAX >> GENERATION) };
        Thread { record, generation }
    }

    /// The one that has this number now.
    ///
    /// ```
    /// use chappe_thread::{Thread, current, spawn};
    /// let found = spawn(|| Thread::find(current().id()) == Some(current()));
    /// assert!(found.join().unwrap());
    /// ```
    pub fn find(number: ThreadId) -> Option<Thread> {
        let record = record::number(number.0)?;
        // Acquire: S4 of `words::asked`. Before the look whether it lives: an end in between refuses what is asked of this generation.
        let generation = record.core.control.load(Ordering::Acquire) >> GENERATION;
        record.lives.get().then_some(Thread { record, generation })
    }

    /// Its number.
    pub fn id(&self) -> ThreadId {
        ThreadId(self.record.number())
    }

    fn flags(&self) -> Option<u32> {
        // Acquire: what the thread did before the dispatcher set STOPPED.
        let control = self.record.core.control.load(Ordering::Acquire);
        (control >> GENERATION == self.generation).then_some(control & FLAGS)
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        self.flags().is_some()
    }

    /// Whether it is kept from running, or will be at its next safe point.
    pub fn is_suspended(&self) -> bool {
        self.flags().is_some_and(|flags| flags & STOPME != 0)
    }

    /// Whether it is suspended or stopped by now, and in no queue.
    pub fn is_out(&self) -> bool {
        self.flags().is_some_and(|flags| flags & STOPPED != 0)
    }

    /// Lets it go on from [`park`](crate::park), now or when it comes there. From any thread, light or not, and any signal handler; never waits. (Plan 9's
    /// `runthread`.)
    pub fn unpark(&self) {
        light::unpark(&self.record.core);
    }

    /// Keeps the thread from running, from its next safe point on. A thread that waits now keeps its place in the
    /// queue, and stays suspended when its wait is over. It keeps what it holds, and still runs interrupts. A thread
    /// that suspends itself goes on until its next safe point, such as [`yield_now`](crate::yield_now). Any thread and
    /// any signal handler may call this.
    ///
    /// # Errors
    /// [`Refusal::Ended`].
    pub fn suspend(&self) -> Result<(), Refusal> {
        asks::ask(self.record, self.generation, Op::Suspend)
    }

    /// The same, and it runs no interrupts either: for debuggers. What comes meanwhile it runs when it is resumed.
    ///
    /// # Errors
    /// [`Refusal::Ended`].
    pub fn stop(&self) -> Result<(), Refusal> {
        asks::ask(self.record, self.generation, Op::Stop)
    }

    /// Lets it go on after [`suspend`](Self::suspend) or [`stop`](Self::stop), however often that was said. From any thread and any signal handler.
    ///
    /// # Errors
    /// [`Refusal::Ended`].
    pub fn resume(&self) -> Result<(), Refusal> {
        asks::ask(self.record, self.generation, Op::Resume)
    }

    /// Has a thread that is stopped go on for one machine instruction, after which it is stopped again: [`is_out`](Self::is_out) says when. The first ones
    /// are the library's own, on the way back from where it was stopped; what it does at its proc's queue counts as one. It stops where it is: if it
    /// holds a lock there, of the allocator for one, others wait for that with their kernel threads. Step from a kernel thread
    /// or another proc, then. x86-64 only; the process's handler of SIGTRAP is the library's from the first step on, and passes others on.
    ///
    /// # Errors
    /// [`Refusal::NotStopped`], also while it is stepping; [`Refusal::Ended`]; [`Refusal::Unsupported`].
    pub fn step(&self) -> Result<(), Refusal> {
        if !step::prepare() {
            return Err(Refusal::Unsupported);
        }
        asks::ask(self.record, self.generation, Op::Step)
    }

    /// Has it call a procedure, on its own stack, at its next safe point, and go on where it was; one that waits or is suspended does so now, and waits or is
    /// suspended again. As a signal handler does, it comes in the middle of whatever the thread was about: it must not wait, nor
    /// take what the thread may have borrowed. It may `try_`, send where there is room, `up`, tell, unpark. A panic ends it alone.
    ///
    /// # Errors
    /// [`Refusal::Ended`]: it was not called, and is dropped.
    pub fn interrupt(&self, procedure: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
        asks::interrupt(self.record, self.generation, Box::new(procedure))
    }

    /// Has it call what it has named with [`set_signal`] for that number, as [`interrupt`](Self::interrupt) does; nothing if it has named nothing. The same
    /// signal twice before it was heard is one. Takes no memory: from any thread and any signal handler.
    ///
    /// # Errors
    /// [`Refusal::Ended`].
    ///
    /// # Panics
    /// If there is no such number: they are 0 to 31.
    pub fn signal(&self, number: u32) -> Result<(), Refusal> {
        assert!(number < SIGNALS, "signals of light threads are 0 to 31, not {number}");
        asks::signal(self.record, self.generation, number)
    }

    /// Tells it of events, bits 0 to 23: see [`wait`]. An event stays until it was waited for. From any thread and any signal handler.
    ///
    /// # Panics
    /// If there are others.
    ///
    /// Paper: nonblocking-real-time, 4.3 and figure 3; synthesis, 4.3.2.
    pub fn notify(&self, events: u32) {
        assert_eq!(events & !EVENTS, 0, "events are bits 0 to 23, not {events:#x}");
        asks::notify(self.record, self.generation, events);
    }

    /// Ends it: at its next safe point its stack is unwound, so that what it holds is given back, and `join` answers [`Destroyed`](crate::Destroyed). A wait
    /// for a tube, a choice, `sleep`, `park`, `join` or events ends by that; one for a semaphore, a pool, a lock or something named answers `Interrupted`, and
    /// the thread ends at its next safe point. One that was suspended or stopped is unwound as well; one that has not begun never begins.
    ///
    /// # Errors
    /// [`Refusal::Ended`]: it had ended before.
    pub fn destroy(&self) -> Result<(), Refusal> {
        asks::ask(self.record, self.generation, Op::Destroy)
    }
}

/// Waits until the calling light thread has been told of one of these events ([`Thread::notify`]), or has been since it last waited for it: answers which, and
/// takes note of them.
///
/// ```
/// use chappe_thread::{current, spawn, wait};
/// let waits = spawn(|| wait(0b110));
/// waits.thread().notify(0b100);
/// assert_eq!(waits.join().unwrap(), 0b100);
/// ```
///
/// # Panics
/// If there are events but bits 0 to 23, or none; if the caller is a kernel thread.
///
/// Paper: nonblocking-real-time, 4.3 and figure 3 (a thread's conditions in the word that says whether it is ready).
pub fn wait(events: u32) -> u32 {
    wait_until(events, None)
}

/// The same for at most so long; 0: none came.
///
/// # Panics
/// As [`wait`].
pub fn wait_timeout(events: u32, duration: Duration) -> u32 {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    wait_until(events, Some(clock::now().saturating_add(ns)))
}

fn wait_until(events: u32, deadline: Option<u64>) -> u32 {
    assert!(events != 0 && events & !EVENTS == 0, "events are bits 0 to 23, not {events:#x}");
    let me = current().expect("a kernel thread has no events");
    loop {
        light::safe_point(&me.core);
        me.core.waits.set(Waits::Events);
        me.core.at.set(u64::from(events));
        let told = wait_for_events(me, events, deadline);
        me.core.waits.set(Waits::Nothing);
        if told != 0 || deadline.is_some_and(|at| clock::now() >= at) {
            return told;
        }
    }
}

/// Names what the calling light thread does on a signal, 0 to 31: see [`Thread::signal`]. (Synthesis' `setsignal`.)
///
/// # Panics
/// If there is no such number; if the caller is a kernel thread.
pub fn set_signal(number: u32, handler: impl Fn() + Send + Sync + 'static) {
    assert!(number < SIGNALS, "signals of light threads are 0 to 31, not {number}");
    let handlers = &mut current().expect("a kernel thread has none of these signals").extra().handlers;
    handlers.retain(|(n, _)| *n != number);
    handlers.push((number, Arc::new(handler)));
}
