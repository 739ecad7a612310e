//! The wait queue: which members wait for which objects, in which order they are served, and how a waiter is granted something.
//!
//! In Nix's `altsems` (nix-semaphores-tubes, 2.3.3) a waker marks a process as woken by one
//! test-and-set, so that the process takes exactly one of several wake-ups. Here the mark is one
//! word per member, which also says what was granted. Nix queues under locks shared with the
//! kernel, and wakes out of order. Here there is no queue to lock: an object's queue is a bit set
//! with one bit per member, and the arrival order is a ticket in the member's record. (Pools and
//! semaphores can serve by priority: `discipline`.) So nothing can be half-linked, a dead member
//! leaves only a bit without meaning, and a choice over any number of objects needs one record and
//! one bit per object. There is no allocation, and no helping to unlock. (For many waiters:
//! `batch`.)
//!
//! Terms: `book/src/glossary.md`. A *mixed* choice has arms in a named arena and in the private
//! one. Its member has a slot in both, and the wait word of the named one counts. The wait word of
//! a member (`Member::state`), whose low half is the futex it sleeps on:
//!
//! | bits | field | set by |
//! |---|---|---|
//! | 0-1 | phase: IDLE, WAITING, ASLEEP, GRANTED | see below |
//! | 2-24 | the low bits of the wait's number, which rises by one with each wait | the member |
//! | 25 | RETURNED: the unit has gone back (`semaphore_word`) | the thread that takes it back |
//! | 26 | granted by the private arena: in a mixed choice, of which arena the object is | the granter |
//! | 27 | granted an error: the object is dead, or has fewer permits than were asked for | the thread that found out |
//! | 28-31, 52-63 | which: see below | the granter |
//! | 32-51 | which object | the granter |
//! | 32-63 | unless GRANTED: the high bits of the number, also in `Member::era` | the member |
//!
//! *Which* is a pool's permit; 0 from a semaphore or a condition variable; [`MET`] from a tube
//! without slots, whose other end will hand over or take a message; with bit 27, 0 for a dead
//! object and [`TOO_MANY`]. [`RETRY`], or [`AFTER_DEATH`] (by a thread that does not use the
//! object), grants nothing: the waiter is told to try again. Objects whose waiters may be overtaken
//! say so, and a readers-writer lock to its readers. No object's word records a retry, a meeting or
//! a notification. So their *which* has a bit [`WOKEN`]: the waiter needs no wake. If the granter
//! stops before the wake, the next thread that looks repeats the wake and sets the bit.
//!
//! ```text
//!                     cancel: compare-and-swap by the member
//!        +-----------------------------+------------------+
//!        v                             |                  |
//!      IDLE ----publish---> WAITING n -+---> ASLEEP n ----+
//!        ^                   |  grant: compare-and-swap   |
//!        |                   v                            v
//!        +----- taken --- GRANTED n (object, which) <-----+     then, if it was asleep, one wake
//! ```
//!
//! Invariants:
//! - I1: a member's bits are set only while it is in wait n, after its word says WAITING n, and all are cleared before wait n+1 is
//!   published. Only the member sets them; only the member, or the owner of its dead life word, clears them. So a granter that reads the
//!   word (WAITING n), then the bit (set), then swaps the word from WAITING n, grants to a member that waits there.
//! - I2: a permit is granted in two steps, and any thread may finish or undo either. First the object's word says what is for which
//!   member (each kind in its own way: `drain`, `semaphore_word`, `lock`); then the member's word goes from n to GRANTED. What is meant for wait n is
//!   valid while the word says WAITING n, ASLEEP n, or GRANTED n with this, and never again after that.
//! - I3: of all grants to wait n one wins, since each swaps the same word. The other granters undo their reservations and go on with the
//!   next waiter.
//! - I4: a thread that makes a permit free looks at the bits afterwards; a waiter that sets a bit looks at the permits afterwards (E1).
//!   At least one of them brings the two together. If it dies before it does, recovery of any dead member drains every object.
//! - I5: FIFO per object, or by priority and FIFO within one: the drainer grants to the smallest [`Candidate`], and the ticket is taken before any
//!   bit is set. While a waiter's bit stands and the object's word has WAITERS, which the waiter sets behind its bit, no thread takes a strong
//!   semaphore's unit or enters a readers-writer lock directly (but a reader that was told to). A pool's cell has no WAITERS: a thread looks at the
//!   bits before it takes a permit. Mutexes, barging semaphores and tubes can be taken directly at any time: there the drainer only
//!   tells a waiter to try again.
//! - I6: a member whose word is GRANTED takes or gives back what was granted, even when its time is
//!   up. (Told to try again, it tries before it reports that its time is up.) Only then is its word
//!   IDLE, and only then are its bits cleared. If the bits went first, the slot could be used for
//!   another object while the word still says GRANTED by it (I7).
//! - I7: a slot is used again, for anything, only when no bit stands on it (arena, object.rs: I4).
//!   A granter has seen the bit, and then that the slot still is its object's. So what it grants
//!   belongs to the object that the member waits for. A late member sets its bit on the next object
//!   in the slot, finds another head, clears the bit, and drains that object: a writer there may
//!   take the bit for a reader's, and wait for it to go.
//! - I8: a member notes the number of its wait before its word says ASLEEP. A thread that would repeat a wake and finds another number there
//!   need not: the member has not slept in this wait, and a word that says GRANTED never says ASLEEP again in it. So a member that is awake
//!   makes no system call, and no thread makes one for it.
//! - I9: a grant ends a wait on all its objects, but only its granter, and the users of the
//!   granter's object, know of the wake that it may need. So a drainer that has something on
//!   another of these objects, and no waiter to grant it to, wakes each member whose bit stands
//!   there and that was granted elsewhere. A remover does so too. A stopped granter does not keep a
//!   choice from what other threads give.
//! - I10: a light thread that sleeps as a member names its proc's bell there before the word says
//!   ASLEEP (`Member::bell_of`). A granter rings the bell instead of waking the word. The bell is
//!   in a slot that its process keeps. The proc sleeps on it (plat, light: C1, C2), and reads the
//!   words of all its members there to find whose wait is over. If the process dies, the slot's
//!   next occupant is woken for no reason.
//!
//! Races, by name:
//! - R1 bit against fast take: I4. - R2 grant against time-out or cancel: one swap decides. - R3 two granters,
//!   one choice: I3. - R4 grant while still enlisting: the member looks at its word after each bit, and takes.
//! - R5 granter dead before the reservation, before the grant, before the wake: a free permit, a reservation that any thread resolves, a
//!   granted member that recovery wakes. - R6 member dead while granted: its reservation is no longer valid once recovery has set its word
//!   to IDLE; the permit goes on. - R7 slot reuse: the number of the wait goes on across occupants.
//!
//! Ordering edges:
//! - E1 (SeqCst): set bit / read cell against free cell / read bits. With less, the waiter may miss
//!   the free cell, and the other thread the bit: then the waiter sleeps beside a free permit.
//! - E2 (release/acquire): ticket, need, priority, time, alias before the word that says WAITING.
//! - E3: grant before wake; the futex compares the low half.
//!
//! Progress: lock-free, except for the sleep itself. A stopped granter holds up only what it had not yet granted, as if it had not begun to
//! release; other threads that touch the object go on.
//!
//! Explored: `tests/crash_pool.rs`. Left out there: store buffers (all accesses are sequentially consistent in the explorer).
//!
//! Wrap-around: a word that says WAITING or ASLEEP has 55 bits of the wait's number, and only such words
//! are granted: a granter that was stopped for any time grants in the wait that it saw, or fails. GRANTED
//! and reservations have 23 of the bits, a reservation in a cell of a pool 20. A word that says GRANTED is changed by another thread only
//! together with the ticket beside it, which no other wait has. A reservation for an earlier wait with the
//! same low bits is valid for this one: if the member waits at that object, it is granted; if not, the
//! reservation is undone. The member looks at the cell before it takes, and waits again if it got nothing.
//! In the explorer the low bits are one.

mod batch;
mod discipline;
mod line;
mod parties;
mod queue;
mod removed;
mod rest;
mod state;
mod terms;
mod word;

#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use batch::has_batches;
pub use discipline::Discipline;
pub use discipline::{Arrival, BARGING, NUMBER, arrive, is_barging};
pub use line::{Candidate, candidate, each, is_no_others, is_still, waits_at, waits_on};
pub use parties::Patience;
pub use parties::{Parties, Party};
#[cfg(not(feature = "sim"))]
pub use queue::in_line;
pub use queue::{next, queue, tried_and_next, wake_elsewhere};
pub use removed::notify_dead;
pub use rest::{rest, sleeps};
pub use state::{AFTER_DEATH, Grant, MET, RETRY, State, TOO_MANY};
pub use terms::{Begun, Ended, Terms};
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use word::still_waits;
#[cfg(not(feature = "sim"))]
pub use word::{Lately, lately};
pub use word::{
    change_granted, change_granted_of, grant, make_up, make_up_now, tell, ticket_of, wake_granted, wake_told, word_of,
};

use crate::kinds;
use crate::mark::Mark;
use crate::operation::{Arm, Looking, Mode, Nature, Site};
use chappe_arena::Place;
use chappe_arena::layout::Member;
use chappe_plat::atomic::{self, Ordering};
use chappe_plat::{fence, light, probe, step};
use state::{WAIT_MASK, WAITING, era, short};

/// Waits on all arms until granted, until the deadline, or until one of them is found dead.
///
/// If it was granted, the wait word says so, and the bits stand, until the caller has taken it and said [`finish`].
pub fn wait<A: Arm + ?Sized>(who: &Parties, arms: &[&A], terms: Terms<'_>) -> (Ended, Begun) {
    let begun = begin(who, arms, terms);
    if arms.iter().any(|arm| matches!(arm.site().nature, Nature::Descriptor(_))) {
        light::from_outside(|| rest(who, &begun, terms));
    } else {
        rest(who, &begun, terms);
    }
    (end(who, arms, &begun), begun)
}

/// The first part of a wait: from its end on, this member is granted what it waits for.
pub fn begin<A: Arm + ?Sized>(who: &Parties, arms: &[&A], terms: Terms<'_>) -> Begun {
    let word = &who.main.map.member(who.main.member).state;
    // Relaxed: only we leave IDLE.
    let mut last = State(word.load(Ordering::Relaxed)).number(|| 0);
    if let Some(p) = &who.private {
        let m = p.map.member(p.member);
        // Relaxed: only we leave IDLE.
        last = last.max(State(m.state.load(Ordering::Relaxed)).number(|| 0));
    }
    let number = last.wrapping_add(1) & WAIT_MASK;
    let mut drains = false;
    for site in arms.iter().map(|arm| arm.site()).filter(|site| site.nature.drains()) {
        drains = true;
        kinds::before(site.map, site.place.index);
    }
    publish(who, number, terms);
    // The others have no batches.
    let joining = drains.then(|| batch::Joining::begin(who, terms.arrival.tickets));
    let mut begun = Begun { number, first: terms.first, enlisted: 0, dead: None, is_blind: false };
    let mut is_late = false;
    for k in 0..arms.len() {
        let at = (terms.first + k) % arms.len();
        let Site { map, place, nature } = arms[at].site();
        if !nature.is_queued() {
            begun.enlisted = k + 1;
            continue;
        }
        let me = who.party(map);
        let member = me.member;
        if nature.has_end()
            && let Some(standing) = arms[at].standing()
        {
            standing.own.enlists();
        }
        joining.iter().for_each(|joining| joining.before_bit(map, place.index));
        // E1, before our look at the cells.
        map.enlist(place.index, member);
        begun.enlisted = k + 1;
        probe::wait(&map.header().name, &map.object(place.index).name, place.index, member);
        // SeqCst: after the bit; pairs with the remover, which changes the head and then looks at the bits.
        if map.object(place.index).head.load(Ordering::SeqCst) != place.head.0 {
            begun.dead = Some(at);
            break;
        }
        match nature {
            Nature::Granting | Nature::Barging => kinds::enlisted(map, place.index),
            Nature::Shared { fenced: false } | Nature::Event => {
                // SeqCst: I1 of the tube.
                atomic::fence(Ordering::SeqCst);
                tell_myself(arms[at], me, number);
            }
            _ => is_late = true,
        }
        // SeqCst: R4.
        if State(word.load(Ordering::SeqCst)).is_granted() {
            return begun;
        }
    }
    // All bits are set: whatever else this wait does, it is in no batch's way.
    drop(joining);
    if begun.dead.is_none() && is_late {
        begun.is_blind = !look(who, arms, &begun);
    }
    begun
}

/// Whether the member looks only when all bits are set, and after a fence for other threads.
fn is_fenced(nature: Nature) -> bool {
    nature.has_end() || nature == Nature::Shared { fenced: true }
}

/// A member's look at an arm, once its bit is set. If there is something, it tells itself, not the
/// first waiter: that one may be stopped.
fn tell_myself<A: Arm + ?Sized>(arm: &A, me: &Party, number: u64) -> bool {
    let there = !matches!(arm.look(me, Looking::Waiting), Ok(Mark::Nothing(_)));
    if there {
        // A failure: it was decided already.
        tell(me.map, me.member, State::new(WAITING, number), arm.site().place.index, AFTER_DEATH);
    }
    there
}

/// The second look, at the arms that need one. False: it was made without the fence, and may have missed something.
fn look<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun) -> bool {
    let (mut private, mut process_shared, mut alone) = (false, false, false);
    // One end per wait: a later wait turns the next.
    let mut turns = None;
    for arm in arms.iter().filter(|arm| is_fenced(arm.site().nature)) {
        let Some(standing) = arm.standing() else {
            process_shared = true;
            continue;
        };
        // The thread's own fence is enough where each that could miss the bit makes one as well.
        if standing.meets || standing.own.is_turned() {
            alone = true;
            continue;
        }
        private = true;
        let Site { map, nature, .. } = arm.site();
        if turns.is_none()
            && nature == Nature::Tube
            && let Ok(Mark::Nothing(gone_in)) = arm.look(who.party(map), Looking::Mark)
            && standing.own.turns(gone_in)
        {
            turns = Some(standing.own);
        }
    }
    if alone {
        fence_alone();
    }
    let threads_are_fenced = !private || fence::try_heavy();
    turns.into_iter().for_each(|end| end.turn(threads_are_fenced));
    let are_fenced = threads_are_fenced && (!process_shared || fence::process_shared::try_heavy());
    let mut late = enlisted(arms, begun).filter(|(_, site)| is_fenced(site.nature));
    late.any(|(arm, site)| tell_myself(arm, who.party(site.map), begun.number));
    are_fenced
}

/// I2 of the meetings (tube, `rendezvous`): between the waiter's own bit and count, and its look at the other end.
#[inline]
pub fn fence_alone() {
    // SeqCst: pairs with the fence of a waiter that comes at the other end; and with the swap by which the last handle
    // there goes (end, I4).
    atomic::fence(Ordering::SeqCst);
}

/// The last part of a wait: decides how it ended. If it ended without a grant, everything is cleared up.
pub fn end<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun) -> Ended {
    let word = &who.main.map.member(who.main.member).state;
    let number = begun.number;
    let ended = loop {
        // SeqCst: what was decided.
        let state = State(word.load(Ordering::SeqCst));
        if let Some(g) = state.grant() {
            let at = arm_granted(arms, begun, g);
            // Or it is of a later object in the slot.
            let Site { map, place, .. } = arms[at].site();
            let is_its = is_no_others(map, place.index, place.head);
            break match (g.dead, g.permit) {
                (true, TOO_MANY) if is_its => Ended::TooMany,
                (true, _) => Ended::Dead(at),
                (false, _) if is_its => Ended::Granted(g, short(number)),
                (false, _) => return refuse(who, arms, at, state, begun),
            };
        }
        // SeqCst: R2, this or the grant.
        if word.compare_exchange(state.0, State::idle(number).0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            break begun.dead.map_or(Ended::TimedOut, Ended::Dead);
        }
    };
    step!("wait decided, bits still set");
    // SeqCst: what was decided.
    leave(who, arms, begun, State(word.load(Ordering::SeqCst)).grant());
    if !matches!(ended, Ended::Granted(..)) {
        finish(who, arms, begun);
    }
    ended
}

/// What was granted is another object's, which came into the slot before our bit: it goes back there.
#[cold]
fn refuse<A: Arm + ?Sized>(who: &Parties, arms: &[&A], at: usize, state: State, begun: &Begun) -> Ended {
    let Site { map, place: Place { index: object, .. }, .. } = arms[at].site();
    kinds::take_back(map, who.party(map).member, state, None);
    leave(who, arms, begun, None);
    finish(who, arms, begun);
    // Now what was reserved for us, or the try that we were told, goes to the next waiter.
    kinds::untold(map, object);
    kinds::drain(map, object);
    Ended::Dead(at)
}

/// Tells the arms that the wait is over, and the first arm of the granting object what was granted.
fn leave<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun, grant: Option<Grant>) {
    let mut grant = grant;
    for (arm, Site { map, place, nature }) in enlisted(arms, begun) {
        let its = grant.filter(|g| g.of(map, place.index));
        if its.is_some() {
            grant = None;
        }
        if nature.drains() {
            kinds::left(map, place.index, who.party(map).member);
        } else if let Some(standing) = arm.standing() {
            standing.own.left(its.map(|g| g.permit));
        } else {
            arm.collect(who.party(map), None, 0, Mode::Take);
        }
    }
}

/// The arms whose bits were set.
fn enlisted<'a, A: Arm + ?Sized>(arms: &'a [&A], begun: &Begun) -> impl Iterator<Item = (&'a A, Site)> {
    let (first, len) = (begun.first, arms.len());
    let all = (0..begun.enlisted).map(move |k| arms[(first + k) % len]);
    all.map(|arm| (arm, arm.site())).filter(|(_, site)| site.nature.is_queued())
}

/// Notes that what was granted has been taken, or could not be; then clears the bits. In this order: while the word says
/// GRANTED its object's bit stands, and so the slot is not used for another object.
pub fn finish<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun) {
    let word = &who.main.map.member(who.main.member).state;
    // SeqCst: after the cell was taken; helpers see the reservation valid until then, I2.
    word.store(State::idle(begun.number).0, Ordering::SeqCst);
    step!("idle, bits still set");
    for (_, Site { map, place, .. }) in enlisted(arms, begun) {
        let member = who.party(map).member;
        // AcqRel: I1; a drainer that saw the bit is refused by the wait word.
        map.waiting(place.index, member as usize / 64).fetch_and(!(1 << (member % 64)), Ordering::AcqRel);
    }
    if let Some(late) = begun.dead.map(|at| arms[at].site()) {
        // I7.
        kinds::drain(late.map, late.place.index);
    }
}

fn publish(who: &Parties, number: u64, terms: Terms<'_>) {
    let m = who.main.map.member(who.main.member);
    let note = |m: &Member, ticket: u64| {
        // Relaxed, these: E2, published by the store of the word below, and by the bit that is set later in the private arena.
        m.era.store(era(number), Ordering::Relaxed);
        m.waiting_since.store(terms.arrival.since, Ordering::Relaxed); // Relaxed: as above.
        m.priority.store(terms.arrival.priority.into(), Ordering::Relaxed); // Relaxed: as above.
        m.ticket.store(ticket, Ordering::Relaxed); // Relaxed: as above.
        m.need.store(terms.need, Ordering::Relaxed); // Relaxed: as above.
        m.packet.store(terms.packet, Ordering::Relaxed); // Relaxed: as above.
    };
    note(m, terms.arrival.tickets.0);
    // Relaxed: E2, as above.
    m.alias.store(0, Ordering::Relaxed);
    if let Some(p) = &who.private {
        let m = p.map.member(p.member);
        note(m, terms.arrival.tickets.1);
        m.alias.store(std::ptr::from_ref(who.main.map.member(who.main.member)) as u64, Ordering::Relaxed); // Relaxed: as above.
        // Relaxed: keeps the private slot's numbers ahead of every reservation made in it.
        m.state.store(State::idle(number).0, Ordering::Relaxed);
    }
    // Release: E2; before any bit, which is set by a swap.
    m.state.store(State::new(WAITING, number).0, Ordering::Release);
}

/// The arm that a grant belongs to.
pub(crate) fn arm_granted<A: Arm + ?Sized>(arms: &[&A], begun: &Begun, grant: Grant) -> usize {
    // In the order in which they were enlisted: of an object that is in two arms, either arm.
    let mut all = (0..arms.len()).map(|k| (begun.first + k) % arms.len());
    let is_its = |site: Site| site.nature.is_queued() && grant.of(site.map, site.place.index);
    all.find(|at| is_its(arms[*at].site())).unwrap_or(0)
}
