//! Procs: kernel threads that run light threads (plan9-semaphores, 4; synthesis, 5.3).
//!
//! A proc has a run queue, which its owner (the kernel thread that runs the proc) uses, and an inbox, into which any
//! thread puts ready threads. A light thread that parks, yields or ends picks its successor from the queue and switches
//! to it directly: no scheduler stack lies in between. If the queue is empty, a thread that parks idles on its own
//! stack; a thread that ends switches to the kernel thread's stack, which idles.
//!
//! | word | values | changed by |
//! |---|---|---|
//! | token (`Record::token`) | EMPTY, PARKED, NOTIFIED, ASLEEP: `words::token` | `park`; `unpark` and `tell` |
//! | `busy` | 1: the owner is at the queue, or idles | the owner |
//! | `taken` | 1: a thief is at the queue | another proc |
//! | `inbox` | a list of ready threads, the newest first | any thread adds one; the proc takes all |
//! | `sleep` | AWAKE, SLEEPS | the proc sets both; a waker sets AWAKE |
//! | `off` of a thread | 1: no kernel thread runs on its stack | its successor sets 1 after the switch; a dispatch sets 0 |
//!
//! ```text
//!   park:     token EMPTY -> PARKED; pick a successor; switch to it. Token NOTIFIED -> EMPTY: no wait
//!   unpark:   token PARKED -> EMPTY: push the thread onto its proc's queue, if the caller runs there and it is free;
//!                 otherwise put it into that proc's inbox, and wake the proc if it sleeps
//!             any other token -> NOTIFIED
//! ```
//!
//! Invariants:
//! - I1: a thread is in at most one queue or inbox. The waker that changes the token from PARKED puts the thread there;
//!   a thread that yields puts itself there; a stopped thread is in none (S1 of `words::asked`).
//! - I2: only the proc to which a thread belongs runs it. Another proc takes the thread only after it has read `off` =
//!   1, so no two kernel threads run on one stack.
//! - I3: owner and thief are never both at the queue: `words::turns`.
//! - I4: a proc does not sleep while its inbox holds a thread: `words::inbox`.
//! - I5: a signal handler that has interrupted the owner at the queue reads `busy` = 1 and uses the inbox. So `unpark`
//!   never waits.
//!
//! Visibility: what a thread wrote before it left its stack is visible to its successor, which runs on the same kernel
//! thread; the successor's release store of `off` publishes it to a proc that takes the thread over (acquire). What a
//! waker wrote is published by its change of the token.
//!
//! Deaths: procs and light threads end with their process, so no word here is ever recovered. What light threads hold
//! in named arenas is recovered by the other processes (`chappe_sync`). A forked child has no procs.
//!
//! Policy: a thread stays with its proc, so threads that talk to each other stay together. It moves to an idle proc in
//! two cases: its own proc has run one thread for a whole tick of ten milliseconds (half of the threads that are ready, in queue and inbox, move, those first that would be late: `due`), or
//! a thread outside the runtime wakes it while its own proc is busy. (Passing on every ready thread made a fine-grained
//! program take twice as long.)

pub(crate) mod deadlock;
mod landed;
pub(crate) mod lend;
pub(crate) mod park;
pub(crate) mod records;
pub(crate) mod run;
pub(crate) mod wake;

use crate::modes::Modes;
use crate::queue::Queue;
use crate::record::{self, Thread, current};
use crate::timers::Timers;
use crate::words::{asked, inbox, ticks, turns};
use crate::{switch, watched};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::Chime;
use std::cell::{Cell, UnsafeCell};
use std::ptr::{from_ref, null};
use std::sync::Mutex;

/// The tick's interval, in nanoseconds: see `runtime`.
pub(crate) const TICK: u64 = 10_000_000;
/// Timers are looked at once in so many dispatches.
pub(super) const DISPATCHES: u32 = 16;
/// Threads that have ended, kept by a proc for the next that are made.
const KEPT: u32 = 1 << 12;
/// The stack of a kernel thread that runs procs, in bytes: only the scheduler uses it.
pub(crate) const KERNEL_STACK: usize = 128 * 1024;

/// A note's flag: the thread that left has ended.
pub(super) const ENDED: usize = 1;
/// A note's flag: the sanitizer must be told which thread goes on.
pub(super) const TOLD: usize = 2;
/// A note's flag: the predecessor or the successor keeps floating-point modes of its own.
pub(super) const MODES: usize = 4;
/// The flags: the bits that are not part of the record's address.
pub(super) const BITS: usize = ENDED | TOLD | MODES;

/// Looks at the inbox before it sleeps: at most.
pub(super) const SPIN_MOST: u32 = 2_000;

/// A kernel thread's own stack, and what it is running.
pub(crate) struct Kernel {
    /// Where its own stack was left.
    root: Cell<usize>,
    /// The proc it runs; null: none.
    proc: Cell<*const Proc>,
    /// A thread that has come back from something that blocks, and left its stack just now.
    back: Cell<*const Thread>,
    /// A proc for it to run, when it has none.
    pub given: AtomicU64,
    /// The word on which it sleeps until a proc is given to it.
    pub bell: AtomicU32,
    tls: Cell<usize>,
    /// Its floating-point modes, while a thread with its own is away on it.
    modes: Cell<Modes>,
}

#[repr(C, align(128))]
pub(crate) struct Proc {
    pub shared: &'static Shared,
    pub index: usize,
    /// It is the runtime's only proc: there is no thief, and no proc to share with.
    lone: bool,
    // Written by the owner only.
    busy: AtomicU32,
    queue: Queue,
    kernel: Cell<*const Kernel>,
    /// Threads that have ended.
    free: Cell<*const Thread>,
    free_len: Cell<u32>,
    spin: Cell<u32>,
    /// How often it has idled.
    idled: Cell<u32>,
    /// Its count of dispatches at its last look for a deadlock, and how many looks have found none since then.
    looks: Cell<(u32, u32)>,
    begun: Cell<u64>,
    over: Cell<u64>,
    /// The chimes that other processes ring to wake its threads.
    chimes: UnsafeCell<Vec<&'static Chime>>,
    /// `chimes` is not empty.
    listens: Cell<bool>,
    // Written by the owner, read by others.
    pub dispatches: AtomicU32,
    /// The kernel thread that runs it.
    pub tid: AtomicU32,
    pub running: AtomicU64,
    /// What each note says besides: [`TOLD`], [`MODES`], or nothing.
    told: Cell<usize>,
    /// The floating-point modes that threads share, while one with its own runs.
    shared_modes: Cell<Modes>,
    apart: Apart,
}

/// What the procs of a runtime share.
pub(crate) struct Shared {
    pub procs: usize,
    pub timers: Timers,
    pub list: UnsafeCell<Vec<Proc>>,
    pub idle: AtomicU64,
    pub stop: AtomicU32,
    /// Kernel threads without a proc.
    pub spares: Mutex<Vec<usize>>,
    /// Threads that were begun from outside.
    pub came_in: AtomicU32,
    pub next: AtomicU32,
    /// 1: the tick runs.
    pub ticks: AtomicU32,
    /// 1: the process reports a deadlock, and ends, when all procs idle for ever.
    pub watches: AtomicU32,
}

// SAFETY: the list is filled before anybody else sees it; the rest is made for sharing.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// Written by others: on a line of its own.
#[repr(align(128))]
struct Apart {
    inbox: AtomicU64,
    sleep: AtomicU32,
    taken: AtomicU32,
    /// From which proc it is to take something, plus one.
    take_from: AtomicU32,
}

// SAFETY: the owner's cells are used by the kernel thread that runs the proc, or by a thief at the queue, never by both
// (I3).
unsafe impl Sync for Proc {}

impl Thread {
    pub fn proc(&self) -> &'static Proc {
        // Acquire: the proc that it was given to.
        // SAFETY: procs are never given back.
        unsafe { &*(self.proc.load(Ordering::Acquire) as *const Proc) }
    }
}

impl Shared {
    pub fn proc(&self, at: usize) -> &'static Proc {
        // SAFETY: filled before any proc ran, and never given back.
        unsafe { &(&*self.list.get())[at] }
    }

    pub fn all(&self) -> impl Iterator<Item = &'static Proc> {
        (0..self.procs).map(|at| self.proc(at))
    }

    pub fn stops(&self) -> bool {
        // SeqCst: `end` stores it before it wakes the procs that sleep.
        self.stop.load(Ordering::SeqCst) != 0
    }

    /// A proc begins or ceases to idle.
    pub fn idles(&self, index: usize, idles: bool) {
        if ticks::idles(&self.idle, 1 << index, idles, self.all_bits(), &self.ticks) {
            futex::wake(&self.ticks, 1, Scope::Private);
        }
    }

    /// The bits of all procs in `idle`.
    pub fn all_bits(&self) -> u64 {
        u64::MAX >> (64 - self.procs)
    }

    pub fn an_idle_one(&self) -> Option<&'static Proc> {
        // SeqCst: as in `ticks::idles`.
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
}

impl Proc {
    pub fn new(shared: &'static Shared, index: usize) -> Proc {
        Proc {
            shared,
            index,
            lone: shared.procs == 1,
            told: Cell::new(if watched::sees_switches() { TOLD } else { 0 }),
            shared_modes: Cell::new(0),
            busy: AtomicU32::new(1),
            queue: Queue::new(),
            kernel: Cell::new(null()),
            free: Cell::new(null()),
            free_len: Cell::new(0),
            spin: Cell::new(SPIN_MOST),
            idled: Cell::new(0),
            looks: Cell::new((0, 0)),
            begun: Cell::new(0),
            over: Cell::new(0),
            chimes: UnsafeCell::new(Vec::new()),
            listens: Cell::new(false),
            dispatches: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            running: AtomicU64::new(0),
            apart: Apart {
                inbox: AtomicU64::new(0),
                sleep: AtomicU32::new(inbox::AWAKE),
                taken: AtomicU32::new(0),
                take_from: AtomicU32::new(0),
            },
        }
    }

    /// The owner enters the queue.
    #[inline(always)]
    fn enter(&self) {
        if self.lone {
            turns::enter_alone(&self.busy);
        } else {
            turns::enter(&self.busy, &self.apart.taken);
        }
    }

    /// The owner leaves the queue.
    #[inline(always)]
    fn leave(&self) {
        turns::leave(&self.busy);
    }

    /// Whether its owner is at the queue. Of the owner, by a signal handler.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) != 0 // Relaxed: our own kernel thread's.
    }

    /// A thread of this proc is ready. By its owner, not at the queue.
    #[inline(always)]
    fn try_push(&self, thread: &'static Thread) -> bool {
        let may = match self.lone {
            true => turns::try_enter_alone(&self.busy),
            false => turns::try_enter(&self.busy, &self.apart.taken),
        };
        if !may {
            return false;
        }
        self.queue.push(thread);
        self.leave();
        true
    }

    /// A thread of this proc is ready. By anybody.
    pub fn put_in(&self, thread: &'static Thread) {
        inbox::put(&self.apart.inbox, from_ref(thread) as u64, &thread.inbox);
        self.wake();
    }

    /// Wakes it if it sleeps.
    pub fn wake(&self) {
        if inbox::rouses(&self.apart.sleep) {
            futex::wake(&self.apart.sleep, 1, Scope::Private);
        }
    }

    /// Asks this proc to take threads from `other`, unless it was asked before and has not done that yet.
    pub fn help(&self, other: usize) {
        // SeqCst: before the wake. Relaxed: it helps another first.
        let _ = self.apart.take_from.compare_exchange(0, other as u32 + 1, Ordering::SeqCst, Ordering::Relaxed);
        self.wake();
    }

    pub fn is_asleep(&self) -> bool {
        // SeqCst: I4.
        self.apart.sleep.load(Ordering::SeqCst) == inbox::SLEEPS
    }

    /// Whether its inbox holds no thread.
    pub fn has_nobody(&self) -> bool {
        !inbox::has_some(&self.apart.inbox)
    }

    /// Whether threads are ready that it does not run, in its queue or in its inbox. A hint for the tick.
    pub fn has_ready(&self) -> bool {
        !self.queue.is_empty() || !self.has_nobody()
    }

    /// Empties the inbox into the queue, the oldest thread first.
    #[inline(always)]
    fn empty_inbox(&self) {
        if inbox::has_some(&self.apart.inbox) {
            self.empty_inbox_slow();
        }
    }

    #[inline(never)]
    fn empty_inbox_slow(&self) {
        let mut at = inbox::take(&self.apart.inbox) as *const Thread;
        let mut first: *const Thread = null();
        // SAFETY: what is in an inbox is a record.
        while let Some(thread) = unsafe { at.as_ref() } {
            // Relaxed: published by the swap.
            at = thread.inbox.load(Ordering::Relaxed) as *const Thread;
            thread.next.set(first);
            first = thread;
        }
        // SAFETY: as above.
        while let Some(thread) = unsafe { first.as_ref() } {
            first = thread.next.get();
            self.queue.push(thread);
        }
    }

    /// The next of the caller's level, behind which the caller is put, if there is nothing else to look at, which is the usual case. Else nothing
    /// was done. At the queue.
    #[inline(always)]
    fn next_in_turn(&self, me: &'static Thread) -> Option<&'static Thread> {
        // Relaxed: the owner's count.
        let is_plain = self.lone && !self.dispatches.load(Ordering::Relaxed).is_multiple_of(DISPATCHES);
        if !is_plain || inbox::has_some(&self.apart.inbox) {
            return None;
        }
        self.queue.go_round(me, |next| asked::is_plain(&next.core.control))
    }

    /// Whether a thread whose turn it is runs. At the queue.
    #[inline(always)]
    fn takes(&self, next: &'static Thread) -> bool {
        asked::is_plain(&next.core.control) || self.takes_otherwise(next)
    }

    #[cold]
    fn takes_otherwise(&self, next: &'static Thread) -> bool {
        // One that is suspended goes out of the queue here (S1).
        let runs = asked::may_run(&next.core.control);
        if runs && next.keeps_modes() {
            self.told.set(self.told.get() | MODES);
        }
        runs
    }

    /// Whether only the queue can hold a thread for this proc at the moment: the inbox is empty, and no chime or timer
    /// is pending.
    #[cold]
    fn is_alone(&self) -> bool {
        !inbox::has_some(&self.apart.inbox) && !self.listens.get() && self.shared.timers.earliest() == u64::MAX
    }

    /// The chimes that are waited for. The owner's.
    fn chimes(&self) -> impl Iterator<Item = &'static Chime> {
        // SAFETY: only the owner has it, and changes it in `listen` alone.
        unsafe { &*self.chimes.get() }.iter().copied().filter(|chime| chime.is_awaited())
    }

    /// A thread for the next that is made; at the queue.
    #[inline(always)]
    fn take_free(&self) -> Option<&'static Thread> {
        // SAFETY: what is in the list is a record.
        let first = unsafe { self.free.get().as_ref() }?;
        let next = first.next.get();
        // The one after it is mostly in no first-level cache.
        switch::expect(next as usize, 2);
        self.free.set(next);
        self.free_len.set(self.free_len.get() - 1);
        Some(first)
    }

    /// A thread that has ended, whose stack nobody is on; at the queue.
    #[inline(always)]
    fn put_free(&self, thread: &'static Thread) {
        if self.free_len.get() >= KEPT {
            self.put_many_back();
        }
        thread.next.set(self.free.get());
        self.free.set(thread);
        self.free_len.set(self.free_len.get() + 1);
    }

    #[cold]
    #[inline(never)]
    fn put_many_back(&self) {
        let half = (0..KEPT / 2).filter_map(|_| self.take_free()).collect::<Vec<_>>();
        record::put(half.into_iter());
    }

    /// How often it has run another thread than before.
    pub fn switches(&self) -> u32 {
        self.dispatches.load(Ordering::Relaxed) // Relaxed: the owner's count.
    }

    /// How many threads have begun and not ended, of those that began or ended here.
    pub fn balance(&self) -> i64 {
        self.begun.get().wrapping_sub(self.over.get()) as i64
    }
}

/// Whether a thread neither begins nor ends before the calling one gives its proc up: both are of the only proc, where threads begin and end. (One
/// that is away comes back there first.)
#[inline(always)]
pub(crate) fn stands_still(thread: &Thread) -> bool {
    current().is_some_and(|me| {
        let proc = me.proc();
        proc.lone && !me.away.get() && std::ptr::eq(proc, thread.proc())
    })
}
