//! How a light thread gives its proc up and gets it back: by parking, by yielding, and by going away (`block_in_place`,
//! in which the thread keeps its kernel thread and another kernel thread takes the proc). Invariants: the proc's.

use super::landed::landed;
use super::run::{go_last, rest, to_root};
use super::{Kernel, Proc};
use crate::record::{Thread, current};
use crate::words::token::{self, ASLEEP, Look, PARKED};
use crate::{asks, modes};
use chappe_plat::atomic::Ordering;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, Chime};
use chappe_plat::{back_by_jump, tls};
use std::ptr::{from_ref, null};

/// Parks the calling light thread until `unpark`, or until the deadline.
///
/// Not called through `back_by_jump`: `park` has few callers, shared by the threads that wait for each other, so the
/// processor predicts its returns. One more jump before the return into the program made the prediction worse
/// (measured: a round trip of 83 ns instead of 56).
#[inline(never)]
pub(crate) fn park(deadline: Option<u64>) {
    let me = current().expect("only light threads park");
    if deadline.is_some() || me.away.get() {
        return park_until(me, deadline);
    }
    me.may_wait();
    if token::park(&me.core.token, PARKED) {
        rest(me);
    }
    asks::after_park(me);
}

/// `park` with a deadline, or of a thread that is away.
#[inline(never)]
fn park_until(me: &'static Thread, deadline: Option<u64>) {
    me.may_wait();
    if me.away.get() {
        if token::park(&me.core.token, ASLEEP) {
            sleep_away(me, deadline);
        }
    } else if token::park(&me.core.token, PARKED) {
        rest_until(me, deadline);
    }
    asks::after_park(me);
}

/// Runs others while `me` is parked, until the deadline at most.
fn rest_until(me: &'static Thread, deadline: Option<u64>) {
    let proc = me.proc();
    if let Some(at) = deadline
        && proc.shared.timers.add(at, me)
        && proc.shared.procs > 1
    {
        proc.shared.wake_one(proc.index);
    }
    rest(me);
    if let Some(at) = deadline {
        me.proc().shared.timers.remove(at, me);
    }
}

/// The thread is away: its kernel thread sleeps on the token.
#[cold]
fn sleep_away(me: &'static Thread, deadline: Option<u64>) {
    // Acquire: an event may have come already.
    let now = me.core.token.load(Ordering::Acquire);
    if token::state(now) == ASLEEP {
        futex::wait(&me.core.token, now, deadline, Scope::Private);
    }
    token::is_up(&me.core.token);
}

/// Takes those of `events` that `me` was told of, or waits. Answers 0 if it has waited or consumed a token, whether or
/// not an event came.
pub(crate) fn wait_for_events(me: &'static Thread, events: u32, deadline: Option<u64>) -> u32 {
    me.may_wait();
    let away = me.away.get();
    loop {
        token::heard(&me.core.token);
        let told = asks::events(me, events);
        if told != 0 {
            return told;
        }
        match token::look(&me.core.token, if away { ASLEEP } else { PARKED }) {
            Look::Told => continue,
            Look::Token => {}
            Look::Parks if away => sleep_away(me, deadline),
            Look::Parks => rest_until(me, deadline),
        }
        break;
    }
    asks::after_park(me);
    0
}

back_by_jump! {
    /// Lets those that are ready go first: see `yield_now`.
    pub(crate) fn yield_and_back() = yield_for_jump;
}

extern "C-unwind" fn yield_for_jump() {
    yield_now();
}

/// Lets those that are ready go first.
#[inline]
pub(crate) fn yield_now() {
    let Some(me) = current() else { return std::thread::yield_now() };
    if me.away.get() || me.is_inside() {
        return std::thread::yield_now();
    }
    let proc = me.proc();
    proc.enter();
    match proc.next_in_turn(me) {
        Some(next) => proc.switch_to(me, next),
        None => yield_at_length(proc, me),
    }
    light::safe_point(&me.core);
}

/// Where several levels have somebody, or nobody is ready, or there is more to look at. At the queue.
#[inline(never)]
fn yield_at_length(proc: &'static Proc, me: &'static Thread) {
    if proc.queue.is_empty() && proc.is_alone() {
        proc.leave();
    } else {
        go_last(proc, me);
    }
}

/// The proc of the calling thread, for chimes.
pub(crate) fn number() -> Option<usize> {
    let me = current().filter(|me| !me.away.get())?;
    futex::wait_any_supported().then(|| from_ref(me.proc()) as usize)
}

pub(crate) fn listen(chime: &'static Chime) {
    let proc = current().expect("only light threads wait for chimes").proc();
    // SAFETY: the owner's, which is not at it: it runs the caller.
    unsafe { (*proc.chimes.get()).push(chime) };
    proc.listens.set(true);
}

/// Before a call that blocks the kernel thread: another kernel thread takes the proc.
#[cold]
pub(crate) fn blocks() {
    let me = current().expect("only light threads go away");
    if me.away.get() {
        return;
    }
    let proc = me.proc();
    proc.enter();
    // SAFETY: the kernel thread lives as long as it has a proc.
    let kernel = unsafe { &*proc.kernel.get() };
    // Relaxed: a hint for the tick and for observers.
    proc.running.store(0, Ordering::Relaxed);
    // M2. A kernel thread begins with the modes of the one that makes it.
    kernel.modes.set(proc.shared_modes.get());
    let keeps = me.keeps_modes().then(|| {
        let own = modes::now();
        modes::set(kernel.modes.get());
        own
    });
    // Relaxed: our own while we are away.
    me.inbox.store(from_ref(kernel) as u64, Ordering::Relaxed);
    // I5. Before the proc is another kernel thread's: a signal handler that wakes a thread here finds the queue's owner at it, or gone.
    me.away.set(true);
    let handed_over = proc.shared.hand_over(proc);
    if let Some(own) = keeps {
        modes::set(own);
    }
    if !handed_over {
        // No other kernel thread can be had: the call blocks all threads of the proc.
        me.away.set(false);
        proc.runs(me);
        proc.leave();
        return;
    }
    kernel.proc.set(null());
}

/// After a call that blocks: the thread returns to the queue of its proc.
#[cold]
pub(crate) fn blocked() {
    let me = current().expect("only light threads come back");
    if !me.away.get() {
        return;
    }
    // SAFETY: it waits for us.
    let kernel = unsafe { &*(me.inbox.load(Ordering::Relaxed) as *const Kernel) }; // Relaxed: as in `blocks`.
    me.tls.set(tls::get::<0>());
    kernel.back.set(me);
    if me.keeps_modes() {
        // M2.
        me.modes.set(modes::now());
        modes::set(kernel.modes.get());
    }
    // SAFETY: we run on it, and it was left when it ran its first thread.
    let left = unsafe { to_root(kernel, me.sp.as_ptr(), 0) };
    landed::<false>(me, left);
}
