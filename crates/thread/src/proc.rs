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
//! two cases: its own proc has run one thread for a whole tick of ten milliseconds (half of the ready threads move), or
//! a thread outside the runtime wakes it while its own proc is busy. (Passing on every ready thread made a fine-grained
//! program take twice as long.)

mod landed;
mod lend;
mod park;
mod records;

pub(crate) use park::{give_way, may_wait, ready, tell, wait_for_events, yield_and_back, yield_now};
pub(crate) use records::{make, recycle, start};

use crate::modes::{self, Modes};
use crate::queue::Queue;
use crate::record::Thread;
use crate::runtime::{Runtime, Shared};
use crate::words::token::{self, ASLEEP, Look, PARKED, Wakes};
use crate::words::{asked, inbox, turns};
use crate::{asks, record, switch, watched};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, pause};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, Chime, Hooks, Record};
use chappe_plat::{back_by_jump, clock, process, stacks, tls};
use landed::{ENDED, MODES, TOLD, landed, pass_modes, take_note, whose};
use park::{blocked, blocks, listen, number, park, unpark, wakes};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{from_ref, null};

/// Looks at the inbox before it sleeps: at most, and where it does not pay.
const SPIN_MOST: u32 = 2_000;
const SPIN_LEAST: u32 = 1;
/// Where it does not pay, so many looks once in so many times find out when it does again.
const SPIN_PROBE: u32 = 64;
const PROBES: u32 = 16;
/// Timers are looked at once in so many dispatches.
const DISPATCHES: u32 = 16;
/// Threads that have ended, kept by a proc for the next that are made.
const KEPT: u32 = 1 << 12;

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
    pub ready: AtomicU32,
    /// What each note says besides: [`TOLD`], [`MODES`], or nothing.
    told: Cell<usize>,
    /// The floating-point modes that threads share, while one with its own runs.
    shared_modes: Cell<Modes>,
    apart: Apart,
}

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

pub(crate) static HOOKS: Hooks = Hooks {
    park,
    unpark,
    give_way: yield_now,
    blocks,
    blocked,
    proc: number,
    listen,
    come_by: asks::come_by,
    lend: lend::lend,
    is_here: lend::is_here,
    level: lend::level,
};

/// The light thread that is running here.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    // SAFETY: a record is the first part of a thread, and there is no other scheduler.
    light::current().map(|record| unsafe { &*from_ref(record).cast::<Thread>() })
}

fn of(record: &'static Record) -> &'static Thread {
    // SAFETY: as above.
    unsafe { &*from_ref(record).cast::<Thread>() }
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
            ready: AtomicU32::new(0),
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

    /// Asks this proc to take threads from `other`.
    pub fn help(&self, other: usize) {
        // SeqCst: before the wake.
        self.apart.take_from.store(other as u32 + 1, Ordering::SeqCst);
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

    /// The thread that runs next, taken out of the queue. The caller is at the queue.
    #[inline(always)]
    fn pick(&self) -> Option<&'static Thread> {
        self.empty_inbox();
        // Relaxed: the owner's count.
        if self.dispatches.load(Ordering::Relaxed).is_multiple_of(DISPATCHES) {
            self.look_round();
        }
        let next = loop {
            match self.queue.pop() {
                Some(next) if !self.takes(next) => {}
                next => break next,
            }
        };
        if !self.lone {
            let left = !self.queue.is_empty();
            self.ready.store(left.into(), Ordering::Relaxed); // Relaxed: a hint for the tick and for observers.
            if left {
                self.shared.may_want_help();
            }
        }
        next
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

    /// Now and then: timers, and what other processes have rung for. At the queue.
    #[inline(never)]
    fn look_round(&self) {
        if self.shared.timers.earliest() != u64::MAX {
            self.shared.timers.ring();
            self.empty_inbox();
        }
        if self.listens.get() {
            self.hear();
        }
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

    /// Puts the threads into the queue for which other processes have rung a chime. The caller is at the queue.
    #[inline(never)]
    fn hear(&self) -> bool {
        let mut some = false;
        for chime in self.chimes() {
            if chime.is_rung() {
                chime.answer(&mut |record| {
                    some = true;
                    let thread = of(record);
                    match wakes(record) {
                        true if std::ptr::eq(thread.proc(), self) => self.queue.push(thread),
                        true => thread.proc().put_in(thread),
                        false => {}
                    }
                });
            }
        }
        some
    }

    /// Sleeps on its own word, and on the chimes that are waited for.
    fn sleep(&self, until: Option<u64>) {
        if !self.listens.get() {
            futex::wait(&self.apart.sleep, inbox::SLEEPS, until, Scope::Private);
            return;
        }
        let mut words = vec![(&self.apart.sleep, inbox::SLEEPS, Scope::Private)];
        let mut rung = false;
        let chimes: Vec<_> = self.chimes().take(futex::WAIT_ANY_MAX - 1).collect();
        for chime in &chimes {
            match chime.sleeps() {
                Some((word, value)) => words.push((word, value, Scope::Shared)),
                None => rung = true,
            }
        }
        if !rung {
            futex::wait_any_of(&words, until);
        }
        for chime in &chimes {
            chime.is_up();
        }
    }

    /// Switches from the stack of `me` to that of `next`. Returns when `me` is dispatched again, on any proc.
    #[inline(always)]
    fn switch_to(&self, me: &'static Thread, next: &'static Thread) {
        self.prepare_for(next);
        me.tls.set(tls::get::<0>());
        self.load(next);
        // SAFETY: I2: the stack was left, and the thread was in our queue.
        let left = unsafe { switch::switch(me.sp.as_ptr(), next.sp.get(), from_ref(me) as usize | self.told.get()) };
        landed::<false>(me, left);
    }

    /// One more dispatch.
    #[inline(always)]
    fn count(&self) {
        // Relaxed, both: only the owner writes it; observers read a hint.
        self.dispatches.store(self.dispatches.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline(always)]
    fn prepare_for(&self, next: &'static Thread) {
        self.count();
        debug_assert!(std::ptr::eq(next.proc(), self), "whoever puts a thread into a queue has said whose it is");
        // Relaxed, both: only the owner writes `running`, and observers read a hint; the thread's `off` is the owner's
        // by I2.
        self.running.store(from_ref(next) as u64, Ordering::Relaxed);
        next.off.store(0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn load(&self, next: &'static Thread) {
        tls::set::<0>(next.tls.get());
        light::set_current(&next.core);
    }

    /// No thread is ready: waits until one may be. The caller is at the queue.
    #[inline(never)]
    fn idle(&self) {
        // Relaxed: a hint for the tick and for observers.
        self.running.store(0, Ordering::Relaxed);
        self.shared.timers.ring();
        let idled = self.idled.get().wrapping_add(1);
        self.idled.set(idled);
        let spins = if idled.is_multiple_of(PROBES) { self.spin.get().max(SPIN_PROBE) } else { self.spin.get() };
        for _ in 0..spins {
            if inbox::has_some(&self.apart.inbox) || (self.listens.get() && self.hear()) {
                self.spin.set((spins * 2).min(SPIN_MOST));
                return;
            }
            pause();
        }
        self.spin.set((self.spin.get() / 2).max(SPIN_LEAST));
        self.shared.idles(self.index, true);
        let nothing = inbox::lie_down(&self.apart.sleep, &self.apart.inbox);
        let due = self.shared.timers.earliest();
        // Relaxed: the owner's count.
        let ran = self.dispatches.load(Ordering::Relaxed);
        let (since, looks) = self.looks.get();
        let looks = if since == ran { looks } else { 0 };
        let limit = self.shared.watch_for_deadlock(looks);
        let until = [Some(due).filter(|due| *due != u64::MAX), limit].into_iter().flatten().min();
        // SeqCst: as in `help`, after it has been said that it sleeps.
        if nothing && self.apart.take_from.load(Ordering::SeqCst) == 0 && !self.shared.stops() {
            self.sleep(until);
        }
        inbox::get_up(&self.apart.sleep);
        self.shared.idles(self.index, false);
        if limit.is_some_and(|limit| clock::now() >= limit) {
            self.looks.set((ran, looks.saturating_add(1)));
            self.shared.look_for_deadlock(self);
        }
        // Acquire: the other's state as the monitor saw it.
        let other = self.apart.take_from.swap(0, Ordering::Acquire);
        if other != 0 {
            self.take_from(self.shared.proc(other as usize - 1));
        }
    }

    /// Takes half of what is ready there, if its owner is elsewhere.
    fn take_from(&self, other: &Proc) {
        turns::steal(&other.busy, &other.apart.taken, || {
            other.empty_inbox();
            // Acquire: I2.
            let may = |t: &Thread| !t.pinned.get() && t.off.load(Ordering::Acquire) != 0;
            other.queue.share(may, |thread| {
                thread.proc.store(from_ref(self) as u64, Ordering::Release); // Release: it is ours.
                self.queue.push(thread);
            });
        });
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

/// The first thing that a thread does.
pub(crate) fn begin(left: usize) {
    landed::<true>(current().expect("a thread is itself"), left);
}

/// The last.
pub(crate) fn finish(me: &'static Thread) -> ! {
    let proc = me.proc();
    proc.enter();
    let (mut nowhere, next) = (0, proc.pick());
    let ended = from_ref(me) as usize | ENDED | proc.told.get();
    if let Some(next) = next {
        proc.prepare_for(next);
        proc.load(next);
        // SAFETY: I2; we never come back.
        unsafe { switch::switch(&raw mut nowhere, next.sp.get(), ended) };
    } else {
        // SAFETY: the kernel thread lives as long as it has a proc.
        let kernel = unsafe { &*proc.kernel.get() };
        // SAFETY: its own stack was left when it ran the first thread.
        unsafe { to_root(kernel, &raw mut nowhere, ended) };
    }
    unreachable!("a thread that has ended goes on")
}

/// # Safety
/// The calling thread runs on this kernel thread, whose own stack was left.
unsafe fn to_root(kernel: &Kernel, from: *mut usize, note: usize) -> usize {
    tls::set::<0>(kernel.tls.get());
    light::set_current(null());
    // SAFETY: the caller's promise.
    unsafe { switch::switch(from, kernel.root.get(), note) }
}

/// A kernel thread: runs procs, one at a time, until there is none for it any more.
pub(crate) fn run(shared: &'static Shared, first: Option<&'static Proc>) {
    stacks::prepare_for_overflow();
    run_procs(shared, first);
    watched::root_ends();
}

fn run_procs(shared: &'static Shared, first: Option<&'static Proc>) {
    let kernel = Kernel {
        root: Cell::new(0),
        proc: Cell::new(null()),
        back: Cell::new(null()),
        given: AtomicU64::new(0),
        bell: AtomicU32::new(0),
        tls: Cell::new(0),
        modes: Cell::new(0),
    };
    let mut next = first;
    while let Some(proc) = next.take().or_else(|| shared.wait_for_proc(&kernel)) {
        kernel.proc.set(proc);
        proc.kernel.set(&raw const kernel);
        proc.tid.store(process::tid(), Ordering::Relaxed); // Relaxed: a number for observers.
        while !kernel.proc.get().is_null() {
            match proc.pick() {
                Some(thread) => run_one(&kernel, proc, thread),
                None if shared.stops() => return,
                None => proc.idle(),
            }
        }
    }
}

/// Runs a thread, and those that come after it, until one leaves nobody to go on with.
#[inline(never)]
fn run_one(kernel: &Kernel, proc: &'static Proc, thread: &'static Thread) {
    kernel.tls.set(tls::get::<0>());
    proc.prepare_for(thread);
    proc.load(thread);
    // SAFETY: I2, the thread was in the proc's queue.
    let left = unsafe { switch::switch(kernel.root.as_ptr(), thread.sp.get(), proc.told.get()) };
    if left & MODES != 0 {
        pass_modes(proc, left, None);
    }
    if proc.told.get() & TOLD != 0 {
        // SAFETY: a record, or null.
        let back = unsafe { kernel.back.get().as_ref() };
        watched::landed_at_root(back.or_else(|| whose(left)), left & ENDED != 0);
    }
    // SAFETY: a record.
    if let Some(back) = unsafe { kernel.back.replace(null()).as_ref() } {
        back.away.set(false);
        back.off.store(1, Ordering::Release); // Release: I2.
        ready(back);
    }
    // One that was away has left no note: it leaves its proc's queue alone.
    take_note(proc, left);
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
