//! How a light thread gives its proc up and gets it back: parking, yielding, going away. Invariants: the proc's.

use super::*;

#[inline(never)]
pub(super) fn park(deadline: Option<u64>) {
    let me = current().expect("only light threads park");
    if deadline.is_some() || me.away.get() {
        return park_until(me, deadline);
    }
    // AcqRel: I1. Acquire: what was done before the token came.
    if me.core.token.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        me.core.token.swap(EMPTY, Ordering::AcqRel); // AcqRel: as above.
        return;
    }
    let proc = me.proc();
    proc.enter();
    match proc.pick() {
        Some(next) if !std::ptr::eq(next, me) => proc.switch_to(me, next),
        Some(_) => proc.leave(),
        None => idle_until_ready(proc, me),
    }
    // The token was taken for us by whoever put us into the queue: see `wakes`.
}

/// Nobody is ready.
#[inline(never)]
fn idle_until_ready(proc: &'static Proc, me: &'static Thread) {
    loop {
        proc.idle();
        match proc.pick() {
            Some(next) if !std::ptr::eq(next, me) => return proc.switch_to(me, next),
            Some(_) => return proc.leave(),
            None => {}
        }
    }
}

/// The same with a deadline, or away.
#[inline(never)]
fn park_until(me: &'static Thread, deadline: Option<u64>) {
    let token = &me.core.token;
    if me.away.get() {
        return park_away(me, deadline);
    }
    // AcqRel: I1. Acquire: what was done before the token came.
    if token.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // AcqRel: as above.
        token.swap(EMPTY, Ordering::AcqRel);
        return;
    }
    let proc = me.proc();
    if let Some(at) = deadline
        && proc.shared.timers.add(at, me)
        && proc.shared.procs > 1
    {
        proc.shared.wake_one(proc.index);
    }
    proc.enter();
    match proc.pick() {
        Some(next) if !std::ptr::eq(next, me) => proc.switch_to(me, next),
        Some(_) => proc.leave(),
        None => idle_until_ready(proc, me),
    }
    if let Some(at) = deadline {
        me.proc().shared.timers.remove(at, me);
    }
}

#[cold]
fn park_away(me: &'static Thread, deadline: Option<u64>) {
    let token = &me.core.token;
    // AcqRel: as in `park`.
    if token.compare_exchange(EMPTY, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        futex::wait(token, ASLEEP, deadline, Scope::Private);
    }
    token.swap(EMPTY, Ordering::AcqRel); // AcqRel: as in `park`.
}

/// Gives a thread its token. True: it is parked, has taken the token by that, and the caller has it to put it into a queue (I1).
#[inline(always)]
pub(super) fn wakes(record: &Record) -> bool {
    // AcqRel: I1; what was done before comes before it goes on. Relaxed: the swap decides.
    if record.token.compare_exchange(PARKED, EMPTY, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        return true;
    }
    leave_token(record)
}

/// It runs, or is just going to park.
#[cold]
fn leave_token(record: &Record) -> bool {
    // AcqRel: as above.
    match record.token.swap(NOTIFIED, Ordering::AcqRel) {
        // It has just parked. The token stays, and it comes back from its next wait for no reason: to take it away again could take another's.
        PARKED => true,
        ASLEEP => {
            futex::wake(&record.token, 1, Scope::Private);
            false
        }
        _ => false,
    }
}

#[inline(never)]
pub(super) fn unpark(record: &'static Record) {
    if wakes(record) {
        ready(of(record));
    }
}

/// I1: the caller has it.
#[inline(always)]
pub(crate) fn ready(thread: &'static Thread) {
    let home = thread.proc();
    match current() {
        Some(me) if !me.away.get() => {
            if !std::ptr::eq(me.proc(), home) || !home.try_push(thread) {
                home.put_in(thread);
            }
        }
        _ => ready_from_outside(thread, home),
    }
}

/// Somebody who runs on no proc: the thread may go to one that idles.
#[cold]
fn ready_from_outside(thread: &'static Thread, home: &'static Proc) {
    let mut to = home;
    // Acquire: I2.
    let may_go = || !home.is_asleep() && !thread.pinned.get() && thread.off.load(Ordering::Acquire) != 0;
    if home.shared.procs > 1
        && may_go()
        && let Some(idle) = home.shared.an_idle_one()
    {
        to = idle;
        thread.proc.store(from_ref(to) as u64, Ordering::Release); // Release: it is that one's.
    }
    to.put_in(thread);
}

/// Lets those that are ready go first.
#[inline(never)]
pub(crate) fn yield_now() {
    let Some(me) = current() else { return std::thread::yield_now() };
    if me.away.get() {
        return std::thread::yield_now();
    }
    let proc = me.proc();
    proc.enter();
    proc.empty_inbox();
    // Relaxed: who asks just now is seen the next time.
    let stays = me.control.load(Ordering::Relaxed) == 0;
    if stays && proc.queue.is_empty() && !proc.listens.get() && proc.shared.timers.earliest() == u64::MAX {
        proc.leave();
        return;
    }
    proc.queue.push(me);
    loop {
        match proc.pick() {
            Some(next) if std::ptr::eq(next, me) => return proc.leave(),
            Some(next) => return proc.switch_to(me, next),
            // The caller is suspended.
            None => proc.idle(),
        }
    }
}

/// The proc of the calling thread, for chimes.
pub(super) fn number() -> Option<usize> {
    let me = current().filter(|me| !me.away.get())?;
    futex::wait_any_supported().then(|| from_ref(me.proc()) as usize)
}

pub(super) fn listen(chime: &'static Chime) {
    let proc = current().expect("only light threads wait for chimes").proc();
    // SAFETY: the owner's, which is not at it: it runs the caller.
    unsafe { (*proc.chimes.get()).push(chime) };
    proc.listens.set(true);
}

/// What follows blocks the kernel thread: another takes the proc.
#[cold]
pub(super) fn blocks() {
    let me = current().expect("only light threads go away");
    if me.away.get() {
        return;
    }
    let proc = me.proc();
    proc.enter();
    // SAFETY: the kernel thread lives as long as it has a proc.
    let kernel = unsafe { &*proc.kernel.get() };
    // Relaxed: for who looks.
    proc.running.store(0, Ordering::Relaxed);
    if !proc.shared.hand_over(proc) {
        // There is no kernel thread to be had: it blocks them all.
        proc.leave();
        return;
    }
    kernel.proc.set(null());
    // Relaxed: our own while we are away.
    me.inbox.store(from_ref(kernel) as u64, Ordering::Relaxed);
    me.away.set(true);
}

/// That was it: back to the queue of its proc.
#[cold]
pub(super) fn blocked() {
    let me = current().expect("only light threads come back");
    if !me.away.get() {
        return;
    }
    // SAFETY: it waits for us.
    let kernel = unsafe { &*(me.inbox.load(Ordering::Relaxed) as *const Kernel) }; // Relaxed: as in `blocks`.
    for (kept, now) in me.near.iter().zip([near::get::<0>(), near::get::<1>(), near::get::<2>()]) {
        kept.set(now);
    }
    kernel.back.set(me);
    // SAFETY: we run on it, and it was left when it ran its first thread.
    unsafe { to_root(kernel, me.sp.as_ptr()) };
    landed();
}
