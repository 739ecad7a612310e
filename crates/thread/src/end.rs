//! How a thread begins and ends, and how it is joined.
//!
//! The slot at the top of the thread's stack (boxed, if it is too large for that) holds the closure that the thread
//! runs, and later its result. So a thread keeps its stack until its handle has joined it or is dropped. The word `end`
//! of its record holds its state, and at most one waiter (or the kernel threads that wait):
//!
//! | bits | values | meaning |
//! |---|---|---|
//! | 0-1 | RUNS | the thread has not ended, and a handle exists |
//! | | ENDS | the result is in the slot; the thread is still on its stack |
//! | | OVER | the result is in the slot; no thread is on the stack |
//! | | LOOSE | the handle was dropped before the end |
//! | 2 | 1 | kernel threads sleep on this word |
//! | 3-31 | number | the light thread that waits for the end |
//!
//! ```text
//!   RUNS --thread--> ENDS --its successor on the proc--> OVER --handle: takes the result, gives the stack back
//!    |
//!    +--handle dropped--> LOOSE: the thread drops its result itself; its successor on the proc gives the stack back
//! ```
//!
//! - The handle sets LOOSE only while the state is RUNS. A handle that is dropped later waits for OVER and drops the
//!   result itself.
//!   A plain store does it where the thread and the dropper belong to a runtime's only proc and nothing waits: the thread
//!   and its successor, which alone write the word besides, run on that proc, and so not now.
//! - A waiter that takes the place of another in the word wakes that other when it goes itself, whatever ends its wait: the other then looks again, and
//!   takes a place again if the thread has not ended.
//! - The thread's successor cannot touch the stack before the switch has left it, so OVER, and the use of the stack for
//!   another thread, come after that.
//!
//! Visibility: the thread releases its result with ENDS; its successor releases all that it did with OVER; the joiner
//! acquires OVER.
//!
//! Deaths: a panic, or `destroy`, ends the thread as its return does, with an error as its result. A trap that ends it
//! (`trapping`) leaves its frames as they are: record and stack are never used again, since others may still refer to
//! what lies there, and the joiner makes the result. All of this ends with the process.

use crate::id::ThreadId;
use crate::over::{ENDS, LOOSE, OVER, RUNS, SLEEPER, STATE, WAITER, clear, wake};
use crate::proc::records::{self, On};
use crate::proc::{run, stands_still};
use crate::record::{self, Extra, SMALLEST, Thread, current};
use crate::trap::Trap;
use crate::words::asked::Op;
use crate::words::token;
use crate::{asks, local, modes, thread};
use chappe_plat::atomic::{Ordering, pause};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, End, Waits, asked};
use std::any::Any;
use std::io;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A thread's result: its value, or the payload of its panic.
pub type Result<T> = std::result::Result<T, Box<dyn Any + Send>>;

/// At the top of a thread's stack: the closure that it runs, then its result.
#[repr(C)]
union Slot<F, T> {
    body: ManuallyDrop<F>,
    result: ManuallyDrop<MaybeUninit<Result<T>>>,
}

/// The properties of a light thread that is to begin.
///
/// ```
/// let worker = chappe_thread::Builder::new().name("worker").stack_size(256 * 1024).level(2);
/// let answer = worker.spawn(chappe_thread::name)?.join().unwrap();
/// assert_eq!(answer.as_deref(), Some("worker"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default, Clone)]
#[must_use = "it does nothing until `spawn`"]
pub struct Builder {
    name: Option<String>,
    stack: Option<usize>,
    level: u8,
    pinned: bool,
    own_modes: bool,
}

impl Builder {
    /// As [`spawn`](crate::spawn) makes them.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A name, for listings and reports.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// The size of its stack in bytes, at least 16 KiB. Without this it has one of 128 KiB (its guard included) from a
    /// pool, of which it uses the memory that it touches; one of another size comes from the kernel each time (some
    /// microseconds).
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack = Some(bytes);
        self
    }

    /// Its level, 0 to 7: of the turns of a proc, level 0 has a half, level 1 a quarter, and so on; a level that has nobody
    /// leaves its turns to the others. Without this it is that of the thread that begins it.
    pub fn level(mut self, level: u8) -> Builder {
        self.level = level.min(7) + 1;
        self
    }

    /// It stays with its proc: with the one of the thread that begins it.
    pub fn pinned(mut self) -> Builder {
        self.pinned = true;
        self
    }

    /// It keeps floating-point modes of its own (rounding, flush to zero, precision, what traps; with them MXCSR's, or
    /// FPSR's, sticky flags), and is the only one that does: it begins with those of the thread that begins it, and has
    /// those that it sets over all waits and on each kernel thread. Without this the modes are the kernel thread's, and
    /// all light threads there share them. Each switch from or to such a thread costs some ten nanoseconds more; the
    /// others cost what they did.
    ///
    /// For C libraries and assembly that change the modes (`fesetround`, `_MM_SET_FLUSH_ZERO_MODE`): Rust's own
    /// arithmetic may be computed as if nobody did. The sticky flags of the x87 stay the kernel thread's.
    ///
    /// Paper: synthesis, 3.3.2 (a switch preserves of the floating-point unit what its threads use).
    pub fn own_float_modes(mut self) -> Builder {
        self.own_modes = true;
        self
    }

    /// # Safety
    /// What the body refers to stays until the thread is over.
    #[inline]
    pub(crate) unsafe fn begin<F: FnOnce() -> T + Send, T: Send>(self, on: On, body: F) -> io::Result<JoinHandle<T>> {
        let Builder { name, stack, level, pinned, own_modes } = self;
        if stack.is_some_and(|bytes| bytes < SMALLEST) {
            let why =
                format!("a stack of {} bytes is too small: it takes at least {SMALLEST}", stack.unwrap_or_default());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        refuse_inherited()?;
        let own = stack.map(record::own_stack).transpose()?;
        let start = match records::make(on) {
            Ok(made) => made,
            Err(e) => {
                // SAFETY: nobody has it.
                own.inspect(|own| unsafe { record::drop_stack(*own) });
                return Err(e);
            }
        };
        let thread = start.thread;
        if name.is_some() || own.is_some() {
            *thread.extra() = Extra::new(name, own);
        }
        thread.level.set(match level {
            0 => start.near.or_else(current).map_or(0, |me| me.level.get()),
            level => level - 1,
        });
        thread.pinned.set(pinned);
        thread.lives.set(true);
        thread.latest.set(0);
        thread.tls.set(0);
        // Relaxed, all: published with the thread.
        thread.end.store(RUNS, Ordering::Relaxed);
        thread.core.token.store(token::EMPTY, Ordering::Relaxed);
        thread.off.store(1, Ordering::Relaxed);
        thread.proc.store(std::ptr::from_ref(start.proc) as u64, Ordering::Relaxed);
        if own_modes {
            thread.modes.set(modes::now());
            thread.core.control.fetch_or(asked::MODES, Ordering::Relaxed); // Relaxed: as above.
        }
        // What is too large for a part of the stack is boxed.
        let fits = size_of::<Slot<F, T>>() <= SMALLEST / 4;
        let slot = if fits {
            // SAFETY: the thread is new.
            unsafe { thread.lay_out(size_of::<Slot<F, T>>(), align_of::<Slot<F, T>>()).cast::<Slot<F, T>>() }
        } else {
            Box::into_raw(Box::<Slot<F, T>>::new_uninit()).cast()
        };
        // SAFETY: the place is ours; the stack below is free.
        unsafe {
            slot.write(Slot { body: ManuallyDrop::new(body) });
            let top = if fits { slot.cast() } else { thread.lay_out(0, 16) };
            thread.begin_with(top, entry::<F, T>, slot.cast());
        }
        let generation = thread.generation();
        records::start(start);
        Ok(JoinHandle { thread, generation, slot: slot.cast(), free: free::<F, T>, kind: PhantomData })
    }
}

/// Whether this is a child that was forked from a process with light threads: the procs are not there.
pub(crate) fn is_inherited() -> bool {
    static MADE: chappe_plat::Made<u64> = chappe_plat::Made::new();
    let made = *MADE.get_or(chappe_plat::process::incarnation);
    !chappe_plat::process::is_incarnation(made as u32)
}

fn refuse_inherited() -> io::Result<()> {
    if !is_inherited() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this is a forked child: the parent's procs are not here; call exec, or begin light threads in the child only",
    ))
}

/// Frees a slot that is boxed.
///
/// # Safety
/// It is one of `begin`'s, and what was in it has been moved out.
unsafe fn free<F, T>(slot: *mut ()) {
    if size_of::<Slot<F, T>>() > SMALLEST / 4 {
        // SAFETY: `begin` has boxed it; what was in it has been moved out.
        drop(unsafe { Box::from_raw(slot.cast::<MaybeUninit<Slot<F, T>>>()) });
    }
}

/// The first function on a new thread's stack: runs its body, stores the result, and ends the thread.
///
/// # Safety
/// The slot is the thread's, with its body in it.
unsafe extern "C" fn entry<F: FnOnce() -> T, T>(slot: *mut (), _entry: *mut (), left: usize) -> ! {
    run::begin(left);
    let slot = slot.cast::<Slot<F, T>>();
    // SAFETY: `begin` has put it there; it is moved out once.
    let body = unsafe { ManuallyDrop::take(&mut (*slot).body) };
    let result = catch_unwind(AssertUnwindSafe(|| {
        // The thread may have been destroyed before it began.
        light::come_by();
        body()
    }));
    let me = current().expect("a thread is itself");
    tidy(me);
    // SAFETY: the body was moved out.
    unsafe { (*slot).result = ManuallyDrop::new(MaybeUninit::new(result)) };
    if !ends(me) {
        // SAFETY: just written, and nobody else will have it.
        let result = unsafe { (*slot).result.assume_init_read() };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(result)));
        // SAFETY: as above.
        unsafe { free::<F, T>(slot.cast()) };
    }
    run::finish(me)
}

/// Drops the thread's locals and what it has kept, and ends what others may ask of it.
#[inline(always)]
fn tidy(me: &'static Thread) {
    // SAFETY: the thread's own.
    if unsafe { &*me.extra.get() }.is_some() {
        local::end(me);
    }
    if !me.core.kept.get().is_null() {
        light::forget_kept(&me.core, End::Leaves);
    }
    // Before the generation rises: the next is another thread's.
    me.lives.set(false);
    asks::end(me);
}

/// Ends the calling thread where it is, with nothing dropped: what it holds of chappe's objects comes back as at a death.
/// The caller leaves its stack next, and nobody uses that again.
pub(crate) fn abandon(me: &'static Thread, trap: Trap) {
    me.extra().trapped = Some(trap);
    light::forget_kept(&me.core, End::Dies);
    me.lives.set(false);
    asks::end(me);
    if !ends(me) {
        // Relaxed: there is no handle, and no waiter.
        me.end.store(ENDS, Ordering::Relaxed);
    }
}

/// Sets ENDS: the result is in the slot. False: the handle was dropped, so the thread drops its result itself.
#[inline(always)]
fn ends(me: &'static Thread) -> bool {
    // Relaxed: the compare-exchange decides.
    let mut now = me.end.load(Ordering::Relaxed);
    loop {
        if now & STATE == LOOSE {
            return false;
        }
        // AcqRel: publishes the result. Relaxed: the loop retries.
        match me.end.compare_exchange(now, now & !STATE | ENDS, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
}

/// The waiters whose place in the word another has taken: they are woken when that one goes.
struct Ousted(&'static Thread, Vec<u32>);

impl Ousted {
    #[cold]
    fn add(&mut self, waits: u32) {
        if !self.1.contains(&waits) {
            self.1.push(waits);
        }
    }
}

impl Drop for Ousted {
    #[inline(always)]
    fn drop(&mut self) {
        self.1.iter().for_each(|waits| wake(self.0, *waits));
    }
}

/// A light thread that can be waited for. When it is dropped the thread goes on alone.
///
/// The thread keeps its stack until it was joined, or this is dropped.
pub struct JoinHandle<T> {
    thread: &'static Thread,
    generation: u32,
    slot: *mut (),
    free: unsafe fn(*mut ()),
    kind: PhantomData<T>,
}

// SAFETY: the result is sent from one thread to another.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: by reference it only tells whether the thread is over.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("thread", &self.id()).finish()
    }
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended, and answers its result: its value, or the payload of its panic. Blocks a
    /// kernel thread, parks a light one. Resumes the thread if it is suspended.
    ///
    /// # Errors
    /// What it panicked with; [`Destroyed`](crate::Destroyed); the [`Trap`](crate::Trap) that has ended it.
    ///
    /// # Panics
    /// If a thread joins itself.
    pub fn join(self) -> Result<T> {
        self.resume();
        self.wait_for_end();
        let this = ManuallyDrop::new(self);
        // SAFETY: it is over, and the handle goes.
        unsafe { this.take() }
    }

    /// The result of a thread that is over; what the thread had is given back.
    ///
    /// # Safety
    /// It is over; called once.
    unsafe fn take(&self) -> Result<T> {
        // SAFETY: the result is there, nobody else has it, and its place stays until the stack is given back.
        unsafe {
            if let Some(trap) = self.thread.trapped() {
                (self.free)(self.slot);
                return Err(Box::new(trap));
            }
            // The result is the first of the slot whatever the body was.
            let result = self.slot.cast::<Result<T>>().read();
            (self.free)(self.slot);
            clear(self.thread);
            records::recycle(self.thread);
            result
        }
    }

    /// Waits until the thread has ended, and leaves its result for `join`.
    ///
    /// # Panics
    /// If a thread waits for itself.
    pub fn wait_for_end(&self) {
        let end = &self.thread.end;
        let me = current();
        assert!(!me.is_some_and(|me| std::ptr::eq(me, self.thread)), "a thread joins itself: it would wait for ever");
        let waiter = me.map_or(SLEEPER, |me| me.number() << WAITER);
        let mut ousted = Ousted(self.thread, Vec::new());
        loop {
            // Acquire: the result.
            let now = end.load(Ordering::Acquire);
            if now & STATE == OVER {
                return;
            }
            let other = now & !STATE;
            if other != waiter {
                // AcqRel: as above. Acquire: as above.
                if end.compare_exchange(now, now & STATE | waiter, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    continue;
                }
                if other != 0 {
                    ousted.add(other);
                }
            }
            match me {
                Some(me) => {
                    chappe_sync::inside::may_sleep();
                    me.core.waits.set(Waits::Join);
                    me.core.at.set(u64::from(self.thread.number()));
                    light::park(None);
                    me.core.waits.set(Waits::Nothing);
                    light::safe_point(&me.core);
                }
                None => {
                    futex::wait(end, now & STATE | waiter, None, Scope::Private);
                }
            }
        }
    }

    /// Keeps the thread from running, from the next time on that it waits, yields or is passed on; one that waits now keeps its place, and stays
    /// where it is when its wait is over. Until [`resume`](Self::resume), `join`, or the end of this handle. Never waits; from any thread
    /// and any signal handler. What the thread holds it keeps.
    ///
    /// ```
    /// # chappe_thread::Runtime::new(1).unwrap().run(|| {
    /// let counter = chappe_thread::spawn(|| 7);
    /// counter.suspend();
    /// chappe_thread::yield_now();
    /// assert!(!counter.is_finished());
    /// counter.resume();
    /// assert_eq!(counter.join().unwrap(), 7);
    /// # });
    /// ```
    ///
    /// Paper: synthesis, 4.3.2 and 5.3.2 (figure 5.10).
    pub fn suspend(&self) {
        let _ = asks::ask(self.thread, self.generation, Op::Suspend);
    }

    /// Lets it go on after [`suspend`](Self::suspend), however often that was said. Never waits; from any thread and any signal handler.
    pub fn resume(&self) {
        let _ = asks::ask(self.thread, self.generation, Op::Resume);
    }

    /// Whether it is kept from running, or will be at its next dispatch.
    pub fn is_suspended(&self) -> bool {
        self.thread().is_suspended()
    }

    /// Whether it has ended: then `join` does not wait.
    pub fn is_finished(&self) -> bool {
        // Acquire: the result.
        self.thread.end.load(Ordering::Acquire) & STATE == OVER
    }

    /// Which thread it is.
    pub fn id(&self) -> ThreadId {
        ThreadId(self.thread.number())
    }

    /// To wake it: see [`park`](crate::park).
    pub fn thread(&self) -> thread::Thread {
        thread::Thread { record: self.thread, generation: self.generation }
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Relaxed: what was asked by this handle was asked before.
        let asked = self.thread.core.control.load(Ordering::Relaxed) & asked::FLAGS;
        // Relaxed: if the thread stands still, the word is ours.
        if asked == 0 && self.thread.end.load(Ordering::Relaxed) == RUNS && stands_still(self.thread) {
            // Relaxed: the thread, and the one that comes after it, run on this very proc.
            return self.thread.end.store(LOOSE, Ordering::Relaxed);
        }
        self.drop_at_length();
    }
}

impl<T> JoinHandle<T> {
    #[inline(never)]
    fn drop_at_length(&mut self) {
        // A user that has suspended it by this handle has done so before.
        if self.is_suspended() {
            self.resume();
        }
        let end = &self.thread.end;
        // Relaxed: the swap decides.
        let mut now = end.load(Ordering::Relaxed);
        while now & STATE == RUNS {
            // Release: what the handle did comes before the thread's successor gives the stack back. Relaxed: the loop
            // retries.
            match end.compare_exchange(now, LOOSE, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
        // The thread is about to leave its stack, on another proc.
        // Acquire: the result.
        while end.load(Ordering::Acquire) & STATE != OVER {
            pause();
        }
        // SAFETY: as in `join`.
        drop(unsafe { self.take() });
    }
}
