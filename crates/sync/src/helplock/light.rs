//! The light form, among light threads of one proc (the kernel thread that runs them): a waiter passes its turn to the holder, and gets it back
//! with the lock (nonblocking-real-time, 3.3 and 4.3: the switch hint).
//!
//! Light threads are not preempted, so a lock is contended only if its holder gave way inside its section. The first waiter, by level and
//! then by arrival, stays ready: each of its turns goes to the holder at once. The other waiters sleep. So the holder runs whenever the
//! highest waiter would, and no thread of a level between them delays it.
//!
//! ```text
//!   holder (level 7)  lock -- gives way                -- unlock, hands it over, switches back: ready, as the first of its level
//!   middle (level 3)          |  computes, gives way ..                                        ..
//!   waiter (level 0)              lock: switches to the holder |                             | has it
//! ```
//!
//! | word | values |
//! |---|---|
//! | `owner` | 0: nobody; the record of the holder, and AWAITED: a waiter is in the lines |
//! | `busy` | 1: a thread is at the lines |
//!
//! Invariants:
//! - I1: only the thread that has set `busy` changes the lines (one a level), and `owner` while a waiter is in them; it does not give way,
//!   wait or lend meanwhile. So only a thread that is away from the proc (`block_in_place`), or one of another proc, finds `busy` set.
//! - I2: AWAITED stands exactly while a waiter is in the lines. So a holder that unlocks without it wakes nobody.
//! - I3: the first waiter in the lines is not `asleep`, or its holder was not ready when it looked; a waiter that becomes the first is woken.
//! - I4: a waiter's place in the lines is on its own stack, until it has the lock, or its stack is unwound (`destroy`): then it takes itself out.
//! - I5: a holder that was handed the lock, and has not run since, still says that it waits for it: it is ready.
//!
//! Progress: blocking, bounded by the sections before it. Deaths: light threads end with their process; a holder that panics leaves the data torn.
//! A guard that is leaked leaves the lock locked.

use super::HelpError;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, pause};
use chappe_plat::light::{self, Record, Turn, Waits};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{from_ref, null};
use std::sync::Arc;

const AWAITED: u64 = 1;
const LEVELS: usize = 8;
/// How many holders that wait for each other are looked at.
const CHAIN: usize = 64;

/// A thread that waits.
struct Waiter {
    record: &'static Record,
    next: Cell<*const Waiter>,
    /// It has the lock.
    granted: AtomicU32,
    /// It is parked, or about to be. Read and written at the lines.
    asleep: Cell<bool>,
}

/// The waiters of one level, by arrival.
struct Line {
    head: Cell<*const Waiter>,
    tail: Cell<*const Waiter>,
}

/// A lock of this form, and its data.
pub(crate) struct Light<T> {
    pub lock: LightLock,
    data: UnsafeCell<T>,
}

// SAFETY: only the holder reaches the data.
unsafe impl<T: Send> Sync for Light<T> {}

impl<T> Light<T> {
    pub fn new(value: T) -> Box<Light<T>> {
        Box::new(Light { lock: LightLock::new(), data: UnsafeCell::new(value) })
    }

    pub fn data(&self) -> *mut T {
        self.data.get()
    }
}

pub(crate) struct LightLock {
    owner: AtomicU64,
    busy: AtomicU32,
    lines: [Line; LEVELS],
    /// A waiter has lent its turn to the present holder. Read and written at the lines.
    lent: Cell<bool>,
    /// A holder panicked, and no holder has said since that the data is whole. The holder's.
    torn: Cell<bool>,
    condemned: Cell<bool>,
}

// SAFETY: only the thread that has set `busy` touches the lines, and only the holder touches what is the holder's.
unsafe impl Sync for LightLock {}
// SAFETY: as above; no waiter is in the lines of a lock that is moved.
unsafe impl Send for LightLock {}

impl LightLock {
    fn new() -> LightLock {
        let line = || Line { head: Cell::new(null()), tail: Cell::new(null()) };
        LightLock {
            owner: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            lines: std::array::from_fn(|_| line()),
            lent: Cell::new(false),
            torn: Cell::new(false),
            condemned: Cell::new(false),
        }
    }

    /// I1: does something at the lines: with `busy` set.
    fn at_lines<R>(&self, act: impl FnOnce() -> R) -> R {
        // Acquire: what was done there before. Relaxed: once more.
        while self.busy.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            pause();
        }
        let done = act();
        self.busy.store(0, Ordering::Release); // Release: as above.
        done
    }

    /// The next waiter. At the lines.
    fn first(&self) -> Option<&Waiter> {
        // SAFETY: I4: a waiter is there until it has the lock.
        self.lines.iter().find_map(|line| unsafe { line.head.get().as_ref() })
    }

    /// Adds a waiter. At the lines.
    fn enlist(&self, waiter: &Waiter, level: u8) {
        let line = &self.lines[usize::from(level) % LEVELS];
        // SAFETY: I4: a waiter is there until it has the lock.
        match unsafe { line.tail.replace(waiter).as_ref() } {
            Some(last) => last.next.set(waiter),
            None => line.head.set(waiter),
        }
    }

    /// Locks it. Answers whether the data is whole.
    #[inline]
    pub fn lock(&self, name: &Arc<str>, wait: bool) -> Result<bool, HelpError> {
        let Some(me) = light::current() else { return Err(HelpError::NotLight { name: name.clone() }) };
        let mine = from_ref(me) as u64;
        // Acquire: what the last holder did. Relaxed: it is looked at again.
        if let Err(now) = self.owner.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed) {
            if now & !AWAITED == mine {
                return Err(HelpError::Deadlock { name: name.clone() });
            }
            if !wait {
                return Err(HelpError::WouldBlock { name: name.clone() });
            }
            if !self.wait(me) {
                return Err(HelpError::Deadlock { name: name.clone() });
            }
        }
        if self.condemned.get() {
            self.release();
            return Err(HelpError::Condemned { name: name.clone() });
        }
        Ok(!self.torn.get())
    }

    /// Waits until the caller has the lock. False: its holder waits for the caller.
    #[cold]
    fn wait(&self, me: &'static Record) -> bool {
        if self.holder_at_hand(me).is_err() {
            return false;
        }
        let waiter =
            Waiter { record: me, next: Cell::new(null()), granted: AtomicU32::new(0), asleep: Cell::new(false) };
        let has_it = self.at_lines(|| {
            // Relaxed: the swap looks.
            let mut now = self.owner.load(Ordering::Relaxed);
            let has_it = loop {
                let (next, has) = if now == 0 { (from_ref(me) as u64, true) } else { (now | AWAITED, false) };
                // Acquire: what the last holder did. Relaxed: once more.
                match self.owner.compare_exchange(now, next, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => break has,
                    Err(seen) => now = seen,
                }
            };
            if !has_it {
                self.enlist(&waiter, light::level());
            }
            has_it
        });
        if has_it {
            return true;
        }
        let before = (me.waits.replace(Waits::Lock), me.at.replace(from_ref(self) as u64));
        let enlisted = Enlisted { lock: self, waiter: &waiter, level: light::level() };
        // Acquire: what the last holder did.
        while waiter.granted.load(Ordering::Acquire) == 0 {
            let leads = self.at_lines(|| {
                let leads = self.first().is_some_and(|first| std::ptr::eq(first, &raw const waiter));
                self.lent.set(self.lent.get() || leads);
                waiter.asleep.set(!leads);
                leads
            });
            let lent =
                leads && self.holder_at_hand(me).is_ok_and(|to| to.is_some_and(|to| light::lend(to, Turn::Last)));
            if !lent && self.may_sleep(&waiter) {
                light::park(None);
                // A thread that is destroyed is unwound here: see `Enlisted`.
                light::safe_point(me);
            }
        }
        std::mem::forget(enlisted);
        me.waits.set(before.0);
        me.at.set(before.1);
        true
    }

    /// Says that the waiter is about to sleep, unless it has the lock by now.
    fn may_sleep(&self, waiter: &Waiter) -> bool {
        self.at_lines(|| {
            // Relaxed: written at the lines.
            let waits = waiter.granted.load(Ordering::Relaxed) == 0;
            waiter.asleep.set(waits);
            waits
        })
    }

    /// The holder, or the holder of what that one waits for, and so on: the thread whose turn brings the lock nearer. `None`: it is not with this
    /// proc. An error: it is the caller itself.
    fn holder_at_hand(&self, me: &'static Record) -> Result<Option<&'static Record>, ()> {
        let mut lock = self;
        for _ in 0..CHAIN {
            // Acquire: a record, which never goes away.
            let owner = (lock.owner.load(Ordering::Acquire) & !AWAITED) as *const Record;
            // SAFETY: as above.
            let Some(owner) = (unsafe { owner.as_ref() }) else { return Ok(None) };
            if std::ptr::eq(owner, me) {
                return Err(());
            }
            if !light::is_here(owner) {
                return Ok(None);
            }
            if owner.waits.get() != Waits::Lock {
                return Ok(Some(owner));
            }
            // SAFETY: it is in `wait` of that lock, which it has borrowed, and does not run before we give way.
            let awaited = unsafe { &*(owner.at.get() as *const LightLock) };
            if std::ptr::eq(awaited, lock) {
                // I5.
                return Ok(Some(owner));
            }
            lock = awaited;
        }
        Ok(None)
    }

    /// Unlocks: the first waiter has the lock, and runs at once if it has lent its turn, or has a higher priority than the caller.
    #[inline]
    pub fn unlock(&self, unwinding: bool) {
        if !unwinding && std::thread::panicking() {
            self.torn.set(true);
        }
        self.release();
    }

    /// Unlocks with the data as it is.
    #[inline]
    fn release(&self) {
        // Relaxed: the caller has it: the record is its own, and AWAITED is looked at again by the swap.
        let mine = self.owner.load(Ordering::Relaxed) & !AWAITED;
        // Release: what was done under it. Relaxed: I2.
        if self.owner.compare_exchange(mine, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&self) {
        let next = self.at_lines(|| {
            let Some((level, line)) = self.lines.iter().enumerate().find(|(_, line)| !line.head.get().is_null()) else {
                // The last waiter has gone meanwhile.
                self.owner.store(0, Ordering::Release); // Release: what was done under it.
                return None;
            };
            // SAFETY: I4: a waiter is there until it has the lock.
            let next = unsafe { line.head.get().as_ref() }?;
            line.head.set(next.next.get());
            if next.next.get().is_null() {
                line.tail.set(null());
            }
            let record = next.record;
            let mut wake = [next.asleep.get().then_some(record), None];
            let after = self.first();
            if let Some(after) = after.filter(|w| w.asleep.replace(false)) {
                // I3.
                wake[1] = Some(after.record);
            }
            let awaited = if after.is_some() { AWAITED } else { 0 };
            // Release, both: what was done under it. From the second on the waiter may be gone: I4.
            self.owner.store(from_ref(record) as u64 | awaited, Ordering::Release);
            next.granted.store(1, Ordering::Release); // Release: as above.
            Some((record, level, self.lent.replace(false), wake))
        });
        let Some((record, level, lent, wake)) = next else { return };
        wake.into_iter().flatten().for_each(light::unpark);
        if light::current().is_some() && (lent || level < usize::from(light::level())) {
            light::lend(record, Turn::First);
        }
    }

    /// Takes a waiter out of its line. At the lines.
    fn strike(&self, waiter: &Waiter, level: u8) {
        let was_first = self.first().is_some_and(|first| std::ptr::eq(first, waiter));
        let line = &self.lines[usize::from(level) % LEVELS];
        let (mut before, mut at): (Option<&Waiter>, _) = (None, line.head.get());
        // SAFETY: I4: a waiter is there until it has the lock, or is struck out here.
        while let Some(this) = unsafe { at.as_ref() } {
            at = this.next.get();
            if std::ptr::eq(this, waiter) {
                match before {
                    Some(before) => before.next.set(at),
                    None => line.head.set(at),
                }
                if at.is_null() {
                    line.tail.set(before.map_or(null(), from_ref));
                }
                break;
            }
            before = Some(this);
        }
        match self.first() {
            // I3.
            Some(first) if was_first && first.asleep.replace(false) => light::unpark(first.record),
            Some(_) => {}
            // I2. AcqRel: the holder that unlocks meanwhile finds nobody.
            None => _ = self.owner.fetch_and(!AWAITED, Ordering::AcqRel),
        }
    }

    /// Says that the data is whole again. By the holder.
    pub fn make_whole(&self) {
        self.torn.set(false);
    }

    /// No thread is to have the data any more. By the holder.
    pub fn condemn(&self) {
        self.condemned.set(true);
    }
}

/// I4: a waiter whose stack may be unwound there (a thread that is destroyed): it leaves the lines, or gives up what it was given meanwhile.
struct Enlisted<'a> {
    lock: &'a LightLock,
    waiter: &'a Waiter,
    level: u8,
}

impl Drop for Enlisted<'_> {
    #[cold]
    fn drop(&mut self) {
        let has_it = self.lock.at_lines(|| {
            // Relaxed: written at the lines.
            let has_it = self.waiter.granted.load(Ordering::Relaxed) != 0;
            if !has_it {
                self.lock.strike(self.waiter, self.level);
            }
            has_it
        });
        self.waiter.record.waits.set(Waits::Nothing);
        if has_it {
            self.lock.release();
        }
    }
}
