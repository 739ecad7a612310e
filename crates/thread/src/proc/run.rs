//! How a proc runs its threads: it picks one, switches to it, and idles where there is none. Invariants: the proc's.

use super::landed::{landed, pass_modes, take_note, whose};
use super::wake::{ready, wakes};
use super::{DISPATCHES, ENDED, KERNEL_STACK, Kernel, MODES, Proc, SPIN_MOST, Shared, TICK, TOLD};
use crate::record::{Thread, current, of};
use crate::words::{inbox, turns};
use crate::{due, switch, watched};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, pause};
use chappe_plat::futex::{self, Scope};
use chappe_plat::{clock, faults, light, process, thread, tls};
use std::cell::Cell;
use std::ptr::{from_ref, null};
use std::sync::PoisonError;

/// Looks at the inbox before it sleeps, where it does not pay.
const SPIN_LEAST: u32 = 1;
/// Where it does not pay, so many looks once in so many times find out when it does again.
const SPIN_PROBE: u32 = 64;
const PROBES: u32 = 16;

impl Proc {
    /// The thread that runs next, taken out of the queue. The caller is at the queue.
    #[inline(always)]
    pub(crate) fn pick(&self) -> Option<&'static Thread> {
        self.empty_inbox();
        // Relaxed: the owner's count.
        if self.dispatches.load(Ordering::Relaxed).is_multiple_of(DISPATCHES) {
            self.look_round();
        }
        loop {
            match self.queue.pop() {
                Some(next) if !self.takes(next) => {}
                next => break next,
            }
        }
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
    pub(crate) fn switch_to(&self, me: &'static Thread, next: &'static Thread) {
        self.prepare_for(next);
        me.tls.set(tls::get::<0>());
        self.load(next);
        // SAFETY: I2: the stack was left, and the thread was in our queue.
        let left = unsafe { switch::switch(me.sp.as_ptr(), next.sp.get(), from_ref(me) as usize | self.told.get()) };
        landed::<false>(me, left);
    }

    /// One more dispatch.
    #[inline(always)]
    pub(crate) fn count(&self) {
        // Relaxed, both: only the owner writes it; observers read a hint.
        self.dispatches.store(self.dispatches.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline(always)]
    fn prepare_for(&self, next: &'static Thread) {
        self.count();
        debug_assert!(std::ptr::eq(next.proc(), self), "whoever puts a thread into a queue has said whose it is");
        self.runs(next);
        // Relaxed: the owner's by I2.
        next.off.store(0, Ordering::Relaxed);
    }

    /// Says which thread it runs.
    #[inline(always)]
    pub(super) fn runs(&self, next: &'static Thread) {
        // Relaxed: only the owner writes it; the tick and observers read a hint.
        self.running.store(from_ref(next) as u64, Ordering::Relaxed);
    }

    #[inline(always)]
    fn load(&self, next: &'static Thread) {
        tls::set::<0>(next.tls.get());
        light::set_current(&next.core);
    }

    /// No thread is ready: waits until one may be. The caller is at the queue.
    #[inline(never)]
    pub(crate) fn idle(&self) {
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
            self.take_from(self.shared.proc(other as usize - 1), clock::now());
        }
    }

    /// Takes half of what is ready there, if its owner is elsewhere: first what would be late if it waited there for another tick.
    fn take_from(&self, other: &Proc, now: u64) {
        turns::steal(&other.busy, &other.apart.taken, || {
            other.empty_inbox();
            // Acquire: I2.
            let may = |t: &Thread| !t.pinned.get() && t.off.load(Ordering::Acquire) != 0;
            let first = |t: &Thread| due::is_about_to_be_late(t, now, TICK);
            other.queue.share(first, may, |thread| {
                thread.proc.store(from_ref(self) as u64, Ordering::Release); // Release: it is ours.
                self.queue.push(thread);
            });
        });
    }
}

impl Shared {
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
        let made = thread::background_with("chappe-spare", KERNEL_STACK, move || run(self, Some(proc)));
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
}

/// Runs others while `me` is parked. The waker that puts `me` into the queue again has consumed the token: see `wakes`.
#[inline(always)]
pub(crate) fn rest(me: &'static Thread) {
    let proc = me.proc();
    proc.enter();
    match proc.pick() {
        Some(next) if !std::ptr::eq(next, me) => proc.switch_to(me, next),
        Some(_) => proc.leave(),
        None => idle_until_ready(proc, me),
    }
}

/// No thread is ready: idles on the stack of `me`.
#[inline(never)]
fn idle_until_ready(proc: &'static Proc, me: &'static Thread) {
    loop {
        proc.idle();
        match proc.pick() {
            Some(next) if !std::ptr::eq(next, me) => return proc.switch_to(me, next),
            Some(_) => {
                proc.runs(me);
                return proc.leave();
            }
            None => {}
        }
    }
}

/// `yield_now`, also if no other thread is ready: the dispatcher then takes out a caller that is to be suspended. The
/// caller runs no interrupt.
pub(crate) fn give_way(me: &'static Thread) {
    let proc = me.proc();
    proc.enter();
    proc.empty_inbox();
    go_last(proc, me);
}

/// Puts the caller last, and runs the thread that is next. The caller is at the queue, and leaves it.
#[inline(always)]
pub(crate) fn go_last(proc: &'static Proc, me: &'static Thread) {
    proc.queue.push(me);
    loop {
        match proc.pick() {
            Some(next) if std::ptr::eq(next, me) => {
                // Counts as a dispatch, so that a thread that yields alone does not keep the timers from being looked
                // at.
                proc.count();
                // It may have idled meanwhile.
                proc.runs(me);
                return proc.leave();
            }
            Some(next) => return proc.switch_to(me, next),
            // The caller is suspended.
            None => proc.idle(),
        }
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
pub(crate) unsafe fn to_root(kernel: &Kernel, from: *mut usize, note: usize) -> usize {
    tls::set::<0>(kernel.tls.get());
    light::set_current(null());
    // SAFETY: the caller's promise.
    unsafe { switch::switch(from, kernel.root.get(), note) }
}

/// A kernel thread: runs procs, one at a time, until there is none for it any more.
pub(crate) fn run(shared: &'static Shared, first: Option<&'static Proc>) {
    faults::prepare_thread();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    #[test]
    fn an_idle_proc_takes_the_threads_first_that_would_be_late_where_they_are() {
        record::prepare().unwrap();
        chappe_plat::fence::prepare();
        let shared = Shared::new(2);
        let (full, idle) = (shared.proc(0), shared.proc(1));
        // Its owner is elsewhere.
        full.leave();
        let now = 1_000 * TICK;
        // Passed; late in two ticks; it says nothing; late in this one, of level 1 and of level 0; it may not go; it says nothing.
        let says = [now - 1, now + 2 * TICK, 0, now + TICK - 1, now, now + 1, 0, 0];
        let threads: Vec<_> = says.iter().map(|_| record::take().unwrap()).collect();
        for (thread, latest) in threads.iter().zip(says) {
            thread.level.set(0);
            thread.pinned.set(false);
            thread.latest.set(latest);
            thread.off.store(1, Ordering::Release); // Release: as a thread that has left its stack.
        }
        threads[3].level.set(1);
        threads[5].pinned.set(true);
        threads.iter().for_each(|thread| full.queue.push(thread));
        idle.take_from(full, now);
        let at = |thread: &Thread| threads.iter().position(|t| std::ptr::eq(*t, thread)).unwrap();
        let taken: Vec<usize> = std::iter::from_fn(|| idle.queue.pop().map(at)).collect();
        let mut went = taken.clone();
        went.sort_unstable();
        assert_eq!(went, [0, 1, 3, 4], "{taken:?}");
        for (number, thread) in threads.iter().enumerate() {
            let is_there = thread.proc.load(Ordering::Acquire) == from_ref(idle) as u64; // Acquire: as its reader.
            assert_eq!(is_there, taken.contains(&number), "{number}");
        }
        while full.queue.pop().is_some() {}
        threads.iter().for_each(|thread| thread.latest.set(0));
        record::put(threads.into_iter());
    }
}
