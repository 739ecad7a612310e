//! Runtimes: a fixed number of procs, and the threads that serve them.
//!
//! - *Procs* (`chappe-proc-N`): kernel threads that run light threads, see `proc`.
//! - *The tick* (`chappe-tick`, with two procs or more): sleeps unless some procs idle and others do not (`words::ticks`).
//!   Then it looks every ten milliseconds: if a proc has run one thread all the time while others are ready there, the
//!   tick marks that thread as due (it yields at its next safe point) and tells an idle proc to take half of the ready
//!   threads: each idle proc helps one. Where fewer procs idle than are stuck, the tick helps another one at each look.
//!   What other processes grant to threads of such a proc it does not see: that proc itself hears their bells.
//! - *Spares* (`chappe-spare`): kernel threads without a proc. A thread that is about to block its kernel thread
//!   (`block_in_place`) hands its proc to a spare.
//! - *The deadlock watch* (`report_deadlocks`): the last proc to idle sleeps for a tenth of a second at most (longer, each
//!   time that it has found nothing), then checks whether anything can still wake a light thread. That is: the procs of
//!   all runtimes idle, no inbox holds a thread, no timer runs, no thread waits for something from outside, and each
//!   other kernel thread of the process sleeps so that only threads of the process can wake it, all at one moment
//!   (`chappe_plat::quiet`). Then the process reports its threads and ends. Which threads hold an end of what is waited
//!   for cannot be known, so any thread that may go on counts as one that does.
//!
//! | word | values | changed by |
//! |---|---|---|
//! | `idle` | a bit for each proc that idles | that proc, before it sets SLEEPS and after it is awake |
//! | `ticks` | 1: the tick runs | a proc sets 1 and wakes the tick; the tick sets 0: `words::ticks` |
//! | `stop` | 1: the procs end when they have no thread to run | the runtime's drop |
//! | `Kernel::bell` | 1: the spare was given a proc | the kernel thread that hands its proc over |
//!
//! Deaths: the memory of a runtime is never freed. Its procs end when it is dropped while no thread lives, else with the
//! process. A forked child has none.

use crate::end::{Builder, JoinHandle};
use crate::proc::deadlock::ALL;
use crate::proc::records::On;
use crate::proc::{KERNEL_STACK, Proc, Shared, TICK, lend, park, run, wake};
use crate::timers::Timers;
use crate::words::{asked, ticks};
use crate::{asks, outside, record, trapping};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::forks::Once;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, Hooks};
use chappe_plat::{Made, clock, fence, quiet, thread};
use std::cell::UnsafeCell;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

/// The most procs: `idle` has a bit for each.
const MOST: usize = 64;
static HOOKS: Hooks = Hooks {
    park: park::park,
    unpark: wake::unpark,
    give_way: park::yield_now,
    blocks: park::blocks,
    blocked: park::blocked,
    proc: park::number,
    listen: park::listen,
    come_by: asks::come_by,
    lend: lend::lend,
    is_here: lend::is_here,
    level: lend::level,
};

impl Shared {
    /// So many procs, which no kernel thread runs yet. They stay for good: threads' records name them.
    pub(crate) fn new(procs: usize) -> &'static Shared {
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            procs,
            timers: Timers::new(),
            list: UnsafeCell::new(Vec::new()),
            idle: AtomicU64::new(0),
            stop: AtomicU32::new(0),
            spares: Mutex::new(Vec::new()),
            came_in: AtomicU32::new(0),
            next: AtomicU32::new(0),
            ticks: AtomicU32::new(0),
            watches: AtomicU32::new(0),
        }));
        // SAFETY: nobody else has it yet.
        unsafe { *shared.list.get() = (0..procs).map(|at| Proc::new(shared, at)).collect() };
        shared
    }

    fn tick(&self) {
        let _serves = quiet::serves_others();
        let (mut seen, mut starts, mut turn) = (vec![0u32; self.procs], true, 0u32);
        loop {
            // SeqCst: T1 of `words::ticks`.
            while self.ticks.load(Ordering::SeqCst) == 0 {
                futex::wait(&self.ticks, 0, None, Scope::Private);
            }
            if std::mem::take(&mut starts) {
                // A thread that has its proc from now on until the next look has had it for a tick. Relaxed: a hint.
                self.all().for_each(|proc| seen[proc.index] = proc.dispatches.load(Ordering::Relaxed));
            }
            // A plain sleep: no thread wakes this word while it is 1.
            futex::wait(&self.ticks, 1, Some(clock::now().saturating_add(TICK)), Scope::Private);
            let mut stuck = 0;
            for proc in self.all() {
                // Relaxed, all: hints, looked at again at the next tick.
                let now = proc.dispatches.load(Ordering::Relaxed);
                let stands = now == std::mem::replace(&mut seen[proc.index], now);
                let running = proc.running.load(Ordering::Relaxed);
                // SAFETY: 0, or a record, which never goes away.
                let runs = unsafe { (running as *const record::Thread).as_ref() };
                if let Some(runs) = runs.filter(|_| stands && proc.has_ready()) {
                    asked::is_due(&runs.core.control);
                    stuck |= 1 << proc.index;
                }
            }
            // SeqCst: as in `ticks::idles`.
            for (idle, other) in ticks::pairs(self.idle.load(Ordering::SeqCst), stuck, turn) {
                self.proc(idle).help(other);
            }
            turn = turn.wrapping_add(1);
            starts = ticks::stops(&self.ticks, &self.idle, self.all_bits());
        }
    }
}

/// Procs, and the light threads that run on them.
///
/// [`spawn`](crate::spawn) uses the runtime of the calling light thread; a kernel thread's go to the standard one, which has as many
/// procs as there are processors and is made when it is first needed. One with a single proc runs its threads one at a time, on one
/// kernel thread.
///
/// When it is dropped, its procs end if no thread lives; else they go on until the process ends.
///
/// ```
/// let runtime = chappe_thread::Runtime::new(1)?;
/// let sum = runtime.run(|| {
///     let (tx, rx) = chappe_sync::tube::bounded(0);
///     chappe_thread::spawn(move || (1..=10).for_each(|n| tx.send(n).unwrap()));
///     rx.iter().sum::<u32>()
/// });
/// assert_eq!(sum, 55);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Paper: plan9-semaphores, 4 (procs); synthesis, 5.3.1.
pub struct Runtime {
    shared: &'static Shared,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("procs", &self.shared.procs).field("live", &self.shared.live()).finish()
    }
}

static STANDARD: Made<Result<Runtime, String>> = Made::new();
/// One thread at a time makes the standard runtime. A child that was forked meanwhile makes its own.
static MAKING: Once = Once::new();

impl Runtime {
    /// One with so many procs, 1 to 64. Each is a kernel thread, `chappe-proc-N`.
    ///
    /// # Errors
    /// `InvalidInput` for a number that cannot be; the system's, when it refuses a kernel thread or the address space.
    pub fn new(procs: usize) -> io::Result<Runtime> {
        if !(1..=MOST).contains(&procs) {
            let why = format!("a runtime has 1 to {MOST} procs, not {procs}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        record::prepare()?;
        trapping::prepare();
        outside::prepare(|name, body| Builder::new().name(name).spawn(move || body()).map(|handle| handle.id()));
        fence::prepare();
        light::install(&HOOKS);
        let shared = Shared::new(procs);
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(shared);
        for proc in shared.all() {
            let name = format!("chappe-proc-{}", proc.index);
            thread::background_with(&name, KERNEL_STACK, move || run::run(shared, Some(proc)))
                .inspect_err(|_| shared.end())?;
        }
        if procs > 1 {
            thread::background("chappe-tick", move || shared.tick()).inspect_err(|_| shared.end())?;
        }
        Ok(Runtime { shared })
    }

    /// The standard one.
    ///
    /// # Errors
    /// As [`Runtime::new`].
    pub fn standard() -> io::Result<&'static Runtime> {
        if STANDARD.get().is_none() {
            MAKING.call(|| {
                let procs = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
                STANDARD.get_or(|| Runtime::new(procs).map_err(|e| e.to_string()));
            });
        }
        match STANDARD.get() {
            Some(Ok(runtime)) => Ok(runtime),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
            None => Err(io::Error::other("no runtime was made")),
        }
    }

    /// How many procs there are.
    pub fn procs(&self) -> usize {
        self.shared.procs
    }

    /// How many light threads have begun and not ended. A count: it may be old.
    pub fn live(&self) -> usize {
        self.shared.live()
    }

    /// Begins a light thread here: see [`spawn`](crate::spawn).
    ///
    /// # Panics
    /// If there is no room for one more.
    pub fn spawn<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        Builder::new().spawn_on(self, body).unwrap_or_else(|e| panic!("spawn: {e}"))
    }

    /// Runs something as a light thread, and waits for it; a panic goes on here.
    ///
    /// # Panics
    /// With what it panicked with.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        // SAFETY: it is over before we return, even by a panic.
        let handle = unsafe { Builder::new().name("main").begin(On::This(self.shared), body) };
        match handle.unwrap_or_else(|e| panic!("run: {e}")).join() {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// From now on, when all threads of this runtime wait and nothing in the process can end the wait of any of them, the
    /// process ends: with a line about each light thread on its error output, and exit status 2.
    ///
    /// Something can if a kernel thread of the process runs, or sleeps for a time, in a system call, or on memory that is
    /// shared with other processes; if a light thread of any runtime runs, sleeps, or waits for a descriptor, a file or
    /// something named; or if the program handles a signal. Kernel threads that wait for each other or for light threads
    /// (at chappe's private objects, at locks and channels of the standard library, in `join`) cannot. What the kernel tells of a thread
    /// in `/proc` is needed for that: where it is not there, only a process without threads of its own is reported, or none.
    pub fn report_deadlocks(&self) {
        self.shared.watches.store(1, Ordering::Relaxed); // Relaxed: set once.
    }
}

/// On the caller's runtime, or the standard one.
pub(crate) const CALLERS: On = On::Callers(|| Runtime::standard().map(|runtime| runtime.shared));

impl Builder {
    /// Begins it. It runs when its proc comes to it: not before the caller waits, yields or ends, if the caller is a light thread of a
    /// runtime with one proc.
    ///
    /// # Errors
    /// `InvalidInput` for a stack that is too small; `OutOfMemory` if there is no room for one more; `Unsupported` in a forked child.
    pub fn spawn<T: Send + 'static>(self, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        // SAFETY: nothing it refers to goes away.
        unsafe { self.begin(CALLERS, body) }
    }

    /// The same on that runtime.
    ///
    /// # Errors
    /// As above.
    pub fn spawn_on<T: Send + 'static>(
        self,
        runtime: &Runtime,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        // SAFETY: nothing it refers to goes away.
        unsafe { self.begin(On::This(runtime.shared), body) }
    }
}

impl Shared {
    fn end(&self) {
        // SeqCst: before a proc sleeps it looks.
        self.stop.store(1, Ordering::SeqCst);
        self.all().for_each(Proc::wake);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.shared.live() == 0 {
            self.shared.end();
        }
    }
}
