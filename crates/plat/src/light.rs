//! Light threads, as the protocols see them: which light thread the caller is, how it gives up its processor, and how it gets it back.
//!
//! The scheduler is a layer above (`crates/thread`), and installs its functions here, so that dependencies point down only. Where there is
//! no scheduler there are no light threads, and asking costs one load.
//!
//! A light thread has one *token*, as in `std::thread::park`. [`park`] takes it, or returns when another thread has put it there;
//! [`unpark`] puts it there. So an `unpark` that comes before the `park` is not lost, two count as one, and one that was meant for
//! something else only makes the thread look again: a caller of `park` calls it in a loop.
//!
//! A record belongs to a thread for as long as it lives, then to another thread; it never goes away. So a late `unpark` is harmless.
//!
//! Another *process* cannot call `unpark`. It rings a [`Chime`]: a word of shared memory on which the thread's proc (the scheduler's
//! processor, a kernel thread) sleeps, beside its own word. The proc then reads from the waiters' words what was granted. The chime's word
//! has a count, raised by two for each ring, and a low bit that says that the proc sleeps on it:
//!
//! ```text
//!   the ringer:  (waiter's word decided) -- word += 2 -- was the low bit set: wake
//!   the proc:    low bit set -- has the count changed since it was answered? -- no: sleep while the word is the same -- low bit cleared
//! ```
//!
//! - C1: the ringer decides first and rings then; the proc notes the count first and looks at its waiters then. So a ring that the proc has
//!   noted is of a decision that it sees.
//! - C2: the low bit is set until the proc has woken up. A ringer that dies between count and wake leaves it set, and the next ring for it
//!   (by recovery of its member, or by a thread that meets the same waiter) wakes the proc. So any thread can repeat a ring.

use crate::backend::atomic::{AtomicU32, AtomicU64};
use crate::backend::futex::{self, Scope};
use crate::step;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a protocol keeps with a light thread. The scheduler's own part lies behind it.
#[repr(C)]
pub struct Record {
    /// What has become of its wait: the word of the protocol in which it waits.
    pub word: AtomicU64,
    /// The token: the scheduler's.
    pub token: AtomicU32,
    /// Its number: dense, from 1.
    pub number: u32,
    /// What it waits for, for observers.
    pub waits: Cell<Waits>,
    /// What other threads ask of it ([`asked`]), and which one this is of all the threads that have had the record.
    pub control: AtomicU32,
    /// The address of what it waits for, or how many there are.
    pub at: Cell<u64>,
    /// What the protocols keep with each thread: see [`keep_until_end`].
    pub kept: Cell<*mut ()>,
    /// What ends its waits early: the protocols'; null: nothing.
    pub ends: Cell<*const ()>,
}

// SAFETY: the cells are written by the thread itself alone; an observer elsewhere copies memory.
unsafe impl Sync for Record {}

/// The bits of [`Record::control`]. The scheduler defines what they mean together: see `chappe_thread`.
pub mod asked {
    /// It is to be taken out at its next dispatch.
    pub const STOPME: u32 = 1;
    /// It is in no queue.
    pub const STOPPED: u32 = 1 << 1;
    /// It is to run no interrupt either.
    pub const HELD: u32 = 1 << 2;
    /// Interrupts are to be run.
    pub const SIGNAL: u32 = 1 << 3;
    /// It is to end.
    pub const KILL: u32 = 1 << 4;
    /// It is to go on for one instruction.
    pub const STEP: u32 = 1 << 5;
    /// It has had its proc for a long time while other threads were ready.
    pub const DUE: u32 = 1 << 6;
    /// The thread's own: its stack is being unwound.
    pub const DYING: u32 = 1 << 7;
    /// The thread's own: it is in the middle of something that must be finished first.
    pub const SHIELD: u32 = 1 << 8;
    /// The thread's own: it runs an interrupt.
    pub const INSIDE: u32 = 1 << 9;
    /// It keeps floating-point modes of its own: for the dispatcher.
    pub const MODES: u32 = 1 << 10;
    /// The thread's own: it calls out: see [`Out`](super::Out).
    pub const OUT: u32 = 1 << 11;
    /// What the thread looks for at a safe point.
    pub const COME_BY: u32 = STOPME | SIGNAL | KILL | STEP | DUE;
    /// All of these.
    pub const FLAGS: u32 = (1 << GENERATION) - 1;
    /// From this bit on: how many threads have had the record before.
    pub const GENERATION: u32 = 12;
}

/// What a light thread waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Waits {
    /// Nothing: it runs, or is ready.
    #[default]
    Nothing = 0,
    /// To send on a tube.
    Send = 1,
    /// To receive from a tube.
    Recv = 2,
    /// For one of several things.
    Choice = 3,
    /// Until a moment.
    Sleep = 4,
    /// For another thread's end.
    Join = 5,
    /// For a semaphore, a pool or a lock.
    Object = 6,
    /// For a descriptor.
    Descriptor = 7,
    /// For the program's own purpose: `thread::park`.
    Parked = 8,
    /// For the other side of a meeting to move its message.
    Meeting = 9,
    /// For something named: its attachment is said.
    Named = 10,
    /// For events.
    Events = 11,
    /// For a lock among light threads: its address is said.
    Lock = 12,
}

impl Waits {
    /// Decodes a number that was read from another process; an unknown number means nothing.
    pub fn of(number: u32) -> Waits {
        use Waits::{
            Choice, Descriptor, Events, Join, Lock, Meeting, Named, Nothing, Object, Parked, Recv, Send, Sleep,
        };
        let all = [Send, Recv, Choice, Sleep, Join, Object, Descriptor, Parked, Meeting, Named, Events, Lock];
        all.into_iter().find(|waits| *waits as u32 == number).unwrap_or(Nothing)
    }
}

/// The proc sleeps on the word of a chime.
const SLEEPS: u32 = 1;
/// What a ring adds.
const RING: u32 = 2;

/// Rings: wakes the proc if it sleeps on this word; otherwise the proc notices before it sleeps. Never waits.
pub fn ring(word: &AtomicU32) {
    // SeqCst: C1, after the decision; against the low bit, of which one side sees the other.
    if word.fetch_add(RING, Ordering::SeqCst) & SLEEPS != 0 {
        step!("rung, not yet woken");
        futex::wake(word, 1, Scope::Shared);
    }
}

/// A word that other processes ring, and the function that answers it.
pub struct Chime {
    word: &'static AtomicU32,
    /// The count that was answered. The proc's.
    seen: Cell<u32>,
    /// How many threads wait for it: if none does, the proc need not listen.
    // Ordering: Relaxed: counted on the proc itself, before it looks; if it listens once too often, no harm is done.
    waiters: AtomicU32,
    answer: Answer,
}

/// Calls the function with each light thread whose wait is over.
pub type Answer = fn(&'static Chime, &mut dyn FnMut(&'static Record));

// SAFETY: `seen` is the proc's alone.
unsafe impl Sync for Chime {}
// SAFETY: as above.
unsafe impl Send for Chime {}

impl Chime {
    /// Takes the present count as answered: to be created before the first wait that is to ring it.
    pub fn new(word: &'static AtomicU32, answer: Answer) -> Chime {
        // SeqCst: before the first wait.
        let seen = Cell::new(word.load(Ordering::SeqCst) & !SLEEPS);
        Chime { word, seen, waiters: AtomicU32::new(0), answer }
    }

    /// One more thread waits.
    pub fn comes(&self) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
    }

    /// One fewer.
    pub fn goes(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether any thread waits.
    pub fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// The proc's: it is about to sleep. Answers the word to sleep on, and what it must say; `None`: it has been rung.
    pub fn sleeps(&self) -> Option<(&'static AtomicU32, u32)> {
        // SeqCst: as in `ring`.
        let now = self.word.fetch_or(SLEEPS, Ordering::SeqCst) | SLEEPS;
        (now & !SLEEPS == self.seen.get()).then_some((self.word, now))
    }

    /// The proc's: it is awake.
    pub fn is_up(&self) {
        // SeqCst: C2, a ring from now on is noticed before the next sleep.
        self.word.fetch_and(!SLEEPS, Ordering::SeqCst);
    }

    /// The proc's: whether it was rung since this was last asked.
    #[inline(always)]
    pub fn is_rung(&self) -> bool {
        // SeqCst: C1, before the look at the waiters.
        let now = self.word.load(Ordering::SeqCst) & !SLEEPS;
        now != self.seen.replace(now)
    }

    /// The proc's, after that: calls `up` with each thread whose wait is over.
    pub fn answer(&'static self, up: &mut dyn FnMut(&'static Record)) {
        (self.answer)(self, up);
    }
}

/// How many light threads wait for something that may come from outside the process: see [`from_outside`].
static OUTSIDE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Runs a wait for something that may come from outside the process: a descriptor, something named. Meanwhile no deadlock is certain.
pub fn from_outside<R>(wait: impl FnOnce() -> R) -> R {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            OUTSIDE.fetch_sub(1, Ordering::SeqCst); // SeqCst: as below.
        }
    }
    OUTSIDE.fetch_add(1, Ordering::SeqCst); // SeqCst: before its proc says that it idles.
    let _over = Over;
    wait()
}

/// Whether any thread is in [`from_outside`].
pub fn waits_from_outside() -> bool {
    OUTSIDE.load(Ordering::SeqCst) != 0 // SeqCst: after all procs have said that they idle.
}

/// The scheduler's functions.
pub struct Hooks {
    /// Gives the processor up until the token is there, or, at the earliest, until a moment (monotonic nanoseconds); takes the token.
    pub park: fn(Option<u64>),
    /// Puts the token there. From any thread and any signal handler; never waits.
    pub unpark: fn(&'static Record),
    /// Lets the ready threads go first.
    pub give_way: fn(),
    /// What follows blocks the kernel thread: the other light threads are to go on elsewhere.
    pub blocks: fn(),
    /// The blocking part is over.
    pub blocked: fn(),
    /// The number of the proc that runs the calling light thread, which no other proc ever has; `None`: it cannot sleep on chimes.
    pub proc: fn() -> Option<usize>,
    /// Makes that proc listen to this chime, too, from now on.
    pub listen: fn(&'static Chime),
    /// Does what other threads have asked of the calling light thread: it may yield, run interrupts, and unwind.
    pub come_by: fn(),
    /// Makes another thread of the same proc run in the caller's place: see [`lend`].
    pub lend: fn(&'static Record, Turn) -> bool,
    /// Whether a thread is with the proc that runs the calling light thread.
    pub is_here: fn(&Record) -> bool,
    /// The level of the calling light thread: 0 comes first.
    pub level: fn() -> u8,
}

/// When the caller of [`lend`] runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// As the first of its level: it was cut off.
    First,
    /// As the last of its level: it gives its turn away.
    Last,
}

// Ordering: Release and Acquire: the table as it was made.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(std::ptr::null_mut());

/// Installs the scheduler's functions.
pub fn install(hooks: &'static Hooks) {
    HOOKS.store(std::ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

#[inline(always)]
fn hooks() -> &'static Hooks {
    let hooks = HOOKS.load(Ordering::Acquire);
    debug_assert!(!hooks.is_null(), "there are light threads only where there is a scheduler");
    // SAFETY: a record comes from a scheduler, which has installed its functions before, for ever.
    unsafe { &*hooks }
}

/// Which of the TLS words says which light thread is running.
#[cfg(not(any(feature = "sim", feature = "loom")))]
const RUNNING: usize = 3;

/// The light thread that is running, if the caller is one.
#[inline(always)]
pub fn current() -> Option<&'static Record> {
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    // SAFETY: the scheduler has put it there, and records never go away.
    return unsafe { (crate::tls::get::<RUNNING>() as *const Record).as_ref() };
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    // SAFETY: as above; loom's threads are all in one of the system's.
    return unsafe { (crate::explore::light_here() as *const Record).as_ref() };
    #[cfg(feature = "sim")]
    None
}

/// From now on this is the light thread that is running here; null: none. The scheduler's.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub fn set_current(record: *const Record) {
    #[cfg(not(feature = "loom"))]
    crate::tls::set::<RUNNING>(record as usize);
    #[cfg(feature = "loom")]
    crate::explore::set_light_here(record as usize);
}

/// Gives up the processor until a thread calls [`unpark`], or, at the earliest, until the deadline (monotonic nanoseconds). May return
/// spuriously. Only for light threads.
#[inline(always)]
pub fn park(deadline: Option<u64>) {
    (hooks().park)(deadline);
}

/// Lets a light thread go on. From any thread and any signal handler; never waits.
#[inline(always)]
pub fn unpark(who: &'static Record) {
    (hooks().unpark)(who);
}

/// Lets the light threads that are ready go first.
pub fn give_way() {
    (hooks().give_way)();
}

/// A place where nothing is half done: if other threads have asked something of the calling light thread, it is done here. It may unwind.
#[inline(always)]
pub fn safe_point(me: &Record) {
    // Relaxed: a request that comes just now is seen at the next safe point.
    if me.control.load(Ordering::Relaxed) & asked::COME_BY != 0 {
        (hooks().come_by)();
    }
}

/// As [`safe_point`], for a caller that may be a kernel thread, or may have ended a wait because of [`is_destroyed`].
#[cold]
pub fn come_by() {
    if let Some(me) = current() {
        safe_point(me);
    }
}

/// Whether the calling thread is a light thread that is to end here. Then its waits end early, and the caller, once all is as if it had not
/// waited, calls [`come_by`], which unwinds. False within [`shielded`], and while the thread is being unwound.
#[inline]
pub fn is_destroyed() -> bool {
    current().is_some_and(|me| {
        use asked::{DYING, KILL, SHIELD};
        // Relaxed: the thread that asks wakes it after that.
        me.control.load(Ordering::Relaxed) & (KILL | DYING | SHIELD) == KILL && !std::thread::panicking()
    })
}

/// Until this is dropped, nothing ends the calling light thread: what it does must be completed. Of two, the one that was raised last goes first.
pub struct Shield(Option<&'static Record>);

impl Shield {
    /// From here on.
    pub fn raise() -> Shield {
        // Relaxed, both: the thread's own.
        let outer = current().filter(|me| me.control.load(Ordering::Relaxed) & asked::SHIELD == 0);
        if let Some(me) = outer {
            me.control.fetch_or(asked::SHIELD, Ordering::Relaxed);
        }
        Shield(outer)
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        if let Some(me) = self.0 {
            me.control.fetch_and(!asked::SHIELD, Ordering::Relaxed); // Relaxed: the thread's own.
        }
    }
}

/// Runs something that must be completed even if the calling light thread is to end: its waits go on.
pub fn shielded<R>(act: impl FnOnce() -> R) -> R {
    let _shield = Shield::raise();
    act()
}

thread_local! {
    /// Of a kernel thread that is no light thread.
    static OUT: Cell<bool> = const { Cell::new(false) };
}

/// The explorers' threads are not threads, and call nobody.
const CALLS: bool = !cfg!(any(feature = "sim", feature = "loom"));

/// The calling thread, light or not, calls somebody else's function in the middle of an operation of its own, which goes on behind it: until this is
/// dropped. Of two, the one that began last goes first.
pub struct Out {
    by: Option<&'static Record>,
    /// It is the outer one.
    outer: bool,
}

impl Out {
    /// From here on.
    pub fn begin() -> Out {
        let (by, outer) = (current(), CALLS && !is_out());
        match by {
            _ if !outer => {}
            // Relaxed: the thread's own.
            Some(me) => _ = me.control.fetch_or(asked::OUT, Ordering::Relaxed),
            None => OUT.set(true),
        }
        Out { by, outer }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        match self.by {
            _ if !self.outer => {}
            Some(me) => _ = me.control.fetch_and(!asked::OUT, Ordering::Relaxed), // Relaxed: the thread's own.
            None => OUT.set(false),
        }
    }
}

/// Whether the calling thread is inside of an [`Out`].
pub fn is_out() -> bool {
    match current() {
        // Relaxed: the thread's own.
        Some(me) => me.control.load(Ordering::Relaxed) & asked::OUT != 0,
        None => OUT.get(),
    }
}

/// A mutex of chappe's own, locked.
pub struct Locked<'m, T> {
    // First: it is unlocked before the shield goes.
    guard: MutexGuard<'m, T>,
    _shield: Shield,
}

/// Locks a mutex of chappe's own, also one that a thread has panicked in. Meanwhile nothing ends the calling light thread: all other threads would wait.
pub fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let shield = Shield::raise();
    Locked { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _shield: shield }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Runs something that blocks the kernel thread: if the caller is a light thread, the others go on elsewhere meanwhile.
pub fn blocking<R>(act: impl FnOnce() -> R) -> R {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            (hooks().blocked)();
        }
    }
    if current().is_none() {
        return act();
    }
    (hooks().blocks)();
    let _back = Back;
    act()
}

/// The number of the proc that runs the calling light thread, for chimes; `None`: it cannot listen to any.
pub fn proc() -> Option<usize> {
    (hooks().proc)()
}

/// Makes the proc that runs the calling light thread listen to this chime from now on. To be called once for each.
pub fn listen(chime: &'static Chime) {
    (hooks().listen)(chime);
}

/// Runs another light thread at once in the place of the calling one, which stays ready. False, and nothing happens: that thread is not
/// ready, or is another proc's; or the caller is no light thread, or away from its proc.
pub fn lend(to: &'static Record, turn: Turn) -> bool {
    (hooks().lend)(to, turn)
}

/// Whether a light thread is with the proc that runs the calling one. If so, it does not run meanwhile.
pub fn is_here(who: &Record) -> bool {
    (hooks().is_here)(who)
}

/// The level of the calling light thread: 0 comes first.
pub fn level() -> u8 {
    (hooks().level)()
}

// Ordering: Release and Acquire: read by a thread that has something to forget.
static FORGET: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// How a light thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By its return, or unwound: what it still holds it has leaked.
    Leaves,
    /// In the middle of anything, and none of its frames ever runs again.
    Dies,
}

/// Keeps a value with a light thread until the thread ends; then the thread itself calls `forget` with it. All callers pass the same
/// `forget`.
pub fn keep_until_end(record: &Record, what: *mut (), forget: fn(*mut (), End)) {
    FORGET.store(forget as *mut (), Ordering::Release);
    record.kept.set(what);
}

/// The thread ends: calls `forget`. The scheduler's.
#[cold]
pub fn forget_kept(record: &Record, how: End) {
    let what = record.kept.replace(std::ptr::null_mut());
    let forget = FORGET.load(Ordering::Acquire);
    if !what.is_null() && !forget.is_null() {
        // SAFETY: `keep_until_end` has stored it.
        unsafe { std::mem::transmute::<*mut (), fn(*mut (), End)>(forget)(what, how) };
    }
}
