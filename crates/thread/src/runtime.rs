//! Runtimes: a fixed number of procs, and the threads that serve them.
//!
//! - *Procs* (`chappe-proc-N`): kernel threads that run light threads, see `proc`.
//! - *The tick* (`chappe-tick`, with two procs or more): sleeps unless a proc has ready threads while another proc
//!   idles. Then it looks every ten milliseconds: if a proc has run one thread all the time, the tick marks that thread
//!   as due (it yields at its next safe point) and tells an idle proc to take half of the ready threads.
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
//! | `ticks` | 1: the tick runs | a proc sets 1 and wakes the tick; the tick sets 0 |
//! | `stop` | 1: the procs end when they have no thread to run | the runtime's drop |
//! | `Kernel::bell` | 1: the spare was given a proc | the kernel thread that hands its proc over |
//!
//! Deaths: the memory of a runtime is never freed. Its procs end when it is dropped while no thread lives, else with the
//! process. A forked child has none.

use crate::proc::{self, HOOKS, Kernel, Proc};
use crate::record;
use crate::timers::Timers;
use crate::words::asked;
use crate::{JoinHandle, outside, report};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::forks::Once;
use chappe_plat::futex::{self, Scope};
use chappe_plat::{Made, clock, fence, light, process, quiet, thread};
use std::cell::UnsafeCell;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The tick's interval.
const TICK: u64 = 10_000_000;
/// How long all procs must idle before the last of them checks for a deadlock.
const LULL: u64 = 100_000_000;
/// After so many checks that found nothing it is 16 times as long.
const PATIENT: u32 = 4;
/// The most procs: `idle` has a bit for each.
const MOST: usize = 64;
/// The stack of a kernel thread that runs procs, in bytes: only the scheduler uses it.
const KERNEL_STACK: usize = 128 * 1024;

/// What the procs of a runtime share.
pub(crate) struct Shared {
    pub procs: usize,
    pub timers: Timers,
    list: UnsafeCell<Vec<Proc>>,
    idle: AtomicU64,
    stop: AtomicU32,
    /// Kernel threads without a proc.
    spares: Mutex<Vec<usize>>,
    /// Threads that were begun from outside.
    came_in: AtomicU32,
    next: AtomicU32,
    /// 1: the tick runs.
    ticks: AtomicU32,
    /// 1: the process reports a deadlock, and ends, when all procs idle for ever.
    watches: AtomicU32,
}

// SAFETY: the list is filled before anybody else sees it; the rest is made for sharing.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    pub fn proc(&self, at: usize) -> &'static Proc {
        // SAFETY: filled before any proc ran, and never given back.
        unsafe { &(&*self.list.get())[at] }
    }

    fn all(&self) -> impl Iterator<Item = &'static Proc> {
        (0..self.procs).map(|at| self.proc(at))
    }

    pub fn stops(&self) -> bool {
        // SeqCst: `end` stores it before it wakes the procs that sleep.
        self.stop.load(Ordering::SeqCst) != 0
    }

    pub fn idles(&self, index: usize, idles: bool) {
        // SeqCst, both: ordered with the reads of `idle` by a waker, the tick, and a thread that adds a deadline.
        if idles {
            self.idle.fetch_or(1 << index, Ordering::SeqCst);
        } else {
            self.idle.fetch_and(!(1 << index), Ordering::SeqCst);
        }
    }

    pub fn an_idle_one(&self) -> Option<&'static Proc> {
        // SeqCst: as above.
        let idle = self.idle.load(Ordering::SeqCst);
        (idle != 0).then(|| self.proc(idle.trailing_zeros() as usize))
    }

    /// Wakes an idle proc other than `but`, so that it looks at the timers again.
    pub fn wake_one(&self, but: usize) {
        // SeqCst: as above.
        let idle = self.idle.load(Ordering::SeqCst) & !(1 << but);
        if idle != 0 {
            self.proc(idle.trailing_zeros() as usize).wake();
        }
    }

    /// A proc has ready threads that it does not run: starts the tick if another proc idles.
    #[inline(always)]
    pub fn may_want_help(&self) {
        // Relaxed, both: looked at again at the next dispatch.
        if self.idle.load(Ordering::Relaxed) != 0 && self.ticks.load(Ordering::Relaxed) == 0 {
            self.start_ticks();
        }
    }

    #[cold]
    fn start_ticks(&self) {
        // AcqRel: one wakes it. Relaxed: another has.
        if self.ticks.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            futex::wake(&self.ticks, 1, Scope::Private);
        }
    }

    pub fn came_in(&self) {
        self.came_in.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
    }

    pub fn next_proc(&self) -> &'static Proc {
        // Relaxed: a hint.
        self.proc(self.next.fetch_add(1, Ordering::Relaxed) as usize % self.procs)
    }

    /// Threads that have begun and not ended.
    pub fn live(&self) -> usize {
        // Relaxed: a count.
        let came_in = i64::from(self.came_in.load(Ordering::Relaxed));
        usize::try_from(came_in + self.all().map(Proc::balance).sum::<i64>()).unwrap_or(0)
    }

    /// Gives a proc to a spare, or to a new kernel thread. False: the kernel refuses a new one.
    pub fn hand_over(&'static self, proc: &'static Proc) -> bool {
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(spare) = spare {
            // SAFETY: it waits until a proc is given to it.
            let kernel = unsafe { &*(spare as *const Kernel) };
            // Release: the proc as it was left.
            kernel.given.store(std::ptr::from_ref(proc) as u64, Ordering::Release);
            kernel.bell.store(1, Ordering::Release);
            futex::wake(&kernel.bell, 1, Scope::Private);
            return true;
        }
        let made = thread::background_with("chappe-spare", KERNEL_STACK, move || proc::run(self, Some(proc)));
        made.is_ok()
    }

    /// A kernel thread without a proc (a spare) waits for one. `None`: there will be none.
    pub fn wait_for_proc(&self, kernel: &Kernel) -> Option<&'static Proc> {
        kernel.bell.store(0, Ordering::Relaxed); // Relaxed: published by the lock.
        kernel.given.store(0, Ordering::Relaxed);
        self.spares.lock().unwrap_or_else(PoisonError::into_inner).push(std::ptr::from_ref(kernel) as usize);
        // Acquire: the proc.
        while kernel.bell.load(Ordering::Acquire) == 0 {
            futex::wait(&kernel.bell, 0, None, Scope::Private);
        }
        // Acquire: as above.
        let given = kernel.given.load(Ordering::Acquire) as *const Proc;
        // SAFETY: null, or a proc, which is never given back.
        unsafe { given.as_ref() }
    }

    /// Until when the last proc to idle sleeps before it checks whether any thread can still be woken; `None`: no check.
    /// `looks`: how many checks have found nothing since it last ran a thread.
    pub fn watch_for_deadlock(&self, looks: u32) -> Option<u64> {
        // SeqCst: the bits of the procs that idle.
        let all_idle = self.idle.load(Ordering::SeqCst).count_ones() as usize == self.procs;
        // Relaxed: set once.
        let watches = self.watches.load(Ordering::Relaxed) == 1;
        // Two procs that look at the same moment see each other awake: so that they do not meet again, no two wait for
        // the same time.
        let own = || u64::from(process::tid() % 61) * 1_000_000;
        (watches && all_idle && self.timers.earliest() == u64::MAX && !light::waits_from_outside())
            .then(|| clock::now().saturating_add((LULL << looks.min(PATIENT)) + own()))
    }

    /// All procs have idled for long: reports a deadlock, if nothing can wake a thread. The caller is the proc `me`.
    pub fn look_for_deadlock(&self, me: &Proc) {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let procs = || all.iter().filter(|shared| !shared.stops()).flat_map(|shared| shared.all());
        let rests = |proc: &Proc| std::ptr::eq(proc, me) || proc.is_asleep();
        let holds = || {
            !light::waits_from_outside()
                && !outside::may_act()
                && all.iter().all(|shared| shared.timers.earliest() == u64::MAX)
                && procs().all(|proc| rests(proc) && proc.has_nobody())
        };
        // Relaxed: a number for observers.
        let of_procs = |tid| procs().any(|proc| proc.is_asleep() && proc.tid.load(Ordering::Relaxed) == tid);
        if self.live() > 0 && holds() && quiet::all_sleep(of_procs, holds) {
            report::deadlock();
        }
    }

    fn tick(&self) {
        let _serves = quiet::serves_others();
        let (mut seen, mut starts) = (vec![0u32; self.procs], true);
        loop {
            // Acquire: what the proc that started the tick did before.
            while self.ticks.load(Ordering::Acquire) == 0 {
                futex::wait(&self.ticks, 0, None, Scope::Private);
            }
            if std::mem::take(&mut starts) {
                // A thread that has its proc from now on until the next look has had it for a tick. Relaxed: a hint.
                self.all().for_each(|proc| seen[proc.index] = proc.dispatches.load(Ordering::Relaxed));
            }
            // A plain sleep: no thread wakes this word while it is 1.
            futex::wait(&self.ticks, 1, Some(clock::now().saturating_add(TICK)), Scope::Private);
            let mut wanted = false;
            for proc in self.all() {
                // Relaxed, all: hints, looked at again at the next tick.
                let now = proc.dispatches.load(Ordering::Relaxed);
                let stuck = now == std::mem::replace(&mut seen[proc.index], now);
                let running = proc.running.load(Ordering::Relaxed);
                let busy = running != 0 && proc.ready.load(Ordering::Relaxed) > 0;
                wanted |= busy;
                // SAFETY: 0, or a record, which never goes away.
                let runs = unsafe { (running as *const record::Thread).as_ref() };
                if let Some(runs) = runs.filter(|_| stuck && busy) {
                    asked::is_due(&runs.core.control);
                }
                if stuck
                    && busy
                    && let Some(idle) = self.an_idle_one()
                {
                    idle.help(proc.index);
                }
            }
            // SeqCst: as in `idles`.
            if !wanted || self.idle.load(Ordering::SeqCst) == 0 {
                starts = true;
                // Release: the next dispatch starts it again.
                self.ticks.store(0, Ordering::Release);
            }
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

/// All that were made.
static ALL: Mutex<Vec<&'static Shared>> = Mutex::new(Vec::new());
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
        outside::prepare();
        fence::prepare();
        light::install(&HOOKS);
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
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(shared);
        for proc in shared.all() {
            let name = format!("chappe-proc-{}", proc.index);
            thread::background_with(&name, KERNEL_STACK, move || proc::run(shared, Some(proc)))
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

    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
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
        crate::Builder::new().spawn_on(self, body).unwrap_or_else(|e| panic!("spawn: {e}"))
    }

    /// Runs something as a light thread, and waits for it; a panic goes on here.
    ///
    /// # Panics
    /// With what it panicked with.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        crate::end::run(self, body)
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
