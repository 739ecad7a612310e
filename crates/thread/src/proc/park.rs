//! How a light thread gives its proc up and gets it back: by parking, by yielding, and by going away (`block_in_place`,
//! in which the thread keeps its kernel thread and another kernel thread takes the proc). Invariants: the proc's.

use super::*;

/// Parks the calling light thread until `unpark`, or until the deadline.
///
/// Not called through `back_by_jump`: `park` has few callers, shared by the threads that wait for each other, so the
/// processor predicts its returns. One more jump before the return into the program made the prediction worse
/// (measured: a round trip of 83 ns instead of 56).
#[inline(never)]
pub(super) fn park(deadline: Option<u64>) {
    let me = current().expect("only light threads park");
    if deadline.is_some() || me.away.get() {
        return park_until(me, deadline);
    }
    may_wait(me);
    if token::park(&me.core.token, PARKED) {
        rest(me);
    }
    asks::after_park(me);
}

/// Panics if the thread runs an interrupt: an interrupt runs inside the thread's own wait, so it must not begin
/// another.
#[inline(always)]
pub(crate) fn may_wait(me: &Thread) {
    assert!(!asks::is_inside(me), "an interrupt of a light thread must not wait: it may tell, give and try");
}

/// Runs others while `me` is parked. The waker that puts `me` into the queue again has consumed the token: see `wakes`.
#[inline(always)]
fn rest(me: &'static Thread) {
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
            Some(_) => return proc.leave(),
            None => {}
        }
    }
}

/// `park` with a deadline, or of a thread that is away.
#[inline(never)]
fn park_until(me: &'static Thread, deadline: Option<u64>) {
    may_wait(me);
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
    may_wait(me);
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

/// Gives a thread its token. True: the thread was parked and has consumed the token; the caller must put it into a
/// queue (I1).
#[inline(always)]
pub(super) fn wakes(record: &Record) -> bool {
    done(record, token::give(&record.token))
}

#[inline(always)]
fn done(record: &Record, wakes: Wakes) -> bool {
    if wakes == Wakes::Asleep {
        futex::wake(&record.token, 1, Scope::Private);
    }
    wakes == Wakes::Parked
}

/// A thread was told of events: it looks for them.
pub(crate) fn tell(thread: &'static Thread) {
    if done(&thread.core, token::tell(&thread.core.token)) {
        ready(thread);
    }
}

#[inline(never)]
pub(super) fn unpark(record: &'static Record) {
    if wakes(record) {
        ready(of(record));
    }
}

/// Puts a thread into its proc's queue or inbox. I1: the caller has taken it out of PARKED or STOPPED, or made it.
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

/// `ready`, called by a kernel thread that runs no proc: the thread may move to an idle proc.
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
    if me.away.get() || asks::is_inside(me) {
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
fn go_last(proc: &'static Proc, me: &'static Thread) {
    proc.queue.push(me);
    loop {
        match proc.pick() {
            Some(next) if std::ptr::eq(next, me) => {
                // Counts as a dispatch, so that a thread that yields alone does not keep the timers from being looked
                // at.
                proc.count();
                return proc.leave();
            }
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

/// Before a call that blocks the kernel thread: another kernel thread takes the proc.
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
        proc.leave();
        return;
    }
    kernel.proc.set(null());
}

/// After a call that blocks: the thread returns to the queue of its proc.
#[cold]
pub(super) fn blocked() {
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
