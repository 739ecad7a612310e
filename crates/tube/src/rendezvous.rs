//! A tube without slots (rendezvous): a message goes from its sender to its receiver when both are there.
//!
//! One thread waits, the other acts. The acting thread takes the first waiter at the other end, and
//! swaps that waiter's wait word from WAITING to GRANTED([`MET`]). From then on the two are paired,
//! and no other thread can meet either. The message passes through the waiter's *packet*, whose
//! address the waiter has published before it waits (`Member::packet`). (Terms:
//! `book/src/glossary.md`.)
//!
//! A thread that waits in a choice names the place of its message (where it is, or is to go) only after it was met. So there are
//! these forms:
//!
//! ```text
//!   the waiter has named it:
//!     the actor copies                            -- packet DONE -->    the waiter goes on
//!   the waiter will name it later:
//!     the actor puts its own packet into it       -- packet OFFERED --> the waiter copies
//!     and waits for its own                       <-- DONE --           and goes on
//!   the same, the waiter receives, and the packet has room for the message:
//!     the actor copies it into the packet         -- packet IN_ROOM --> the waiter takes it
//! ```
//!
//! A packet belongs to the thread that made it. That thread keeps it until the other has stored the
//! last state there: DONE, OFFERED or IN_ROOM in the waiter's, DONE in the actor's. After that
//! store the other thread only wakes by address, which is harmless if the packet is gone. Both are
//! threads of one process and die together.
//!
//! If both wait (each has looked, and neither saw the other), nobody acts. So a thread that begins
//! to wait makes a fence, and then looks at the other end. Of two kernel threads, the earlier is
//! told to try again. Not both: they would look past each other for ever. Nor an arbitrary one:
//! nobody tells the last of all that arrive, so it stays, and the earlier ones that it makes act
//! find it. If one is a kernel thread and the other a light thread, the light thread is told,
//! whichever came first (`lights`, I6).
//!
//! Invariants:
//! - I1: a packet is published before the wait that it is for, and read before the swap of that wait's word: if the swap succeeds,
//!   the packet was that wait's.
//! - I2: of two threads that wait for each other, one sees the other: each sets its bit and its
//!   count before its fence, and looks after it. Both come to wait, so both make a fence of their
//!   own, and neither needs the fence for all threads that a ring needs (`end`, I1). A thread that
//!   only tries, and misses a waiter that is just coming, counts as having tried before.
//! - I3: an acting thread waits nowhere meanwhile, so no other thread can meet it.
//! - I4: a thread that was told to act meets the first waiter, which is not always the one for whose sake it was told (the first may
//!   have been about to look itself). So it then looks for two more threads that wait for each other, and tells one of them.
//!
//! A thread never meets itself. A thread that only looks (`ready`) is never met; it is told when a thread comes that it could meet.
//!
//! A task that receives is never met either: it may be dropped, and a message that it had been given would be lost. It waits without a packet, and
//! takes what waits for it itself:
//! - I5: a waiter without a packet looks for one that can be met, and tries again if there is one. One that can be met, and finds such a waiter to
//!   be the first at the other end, tells it to try, and stays. Two without packets would not meet: they are of one end. A task that sends is met, and
//!   goes on: if the actor has not stored the last state by then, the packet is the actor's (`handoff`, ABANDONED).
//!   A light thread that finds a waiter without a packet to be the first stays as well. So when that one has met another, or is dropped, it tells a
//!   light thread if one that can be met waits: that may have come, and told nobody, before the light thread waited (lights, I6).
//!
//! Progress: a thread that meets a waiter whose place is named waits for nobody. A thread that
//! meets a choice waits until the choosing thread has named the place (unless it sends, and the
//! packet has room). A waiter that was met waits until the acting thread has stored the last state,
//! without limit, also past its deadline: its wait is decided.
//!
//! Explored: `tests/crash_tube.rs`.

use chappe_arena::Map;
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::end::End;
use chappe_wait::handoff::{DONE, Handoff, IN_ROOM, OFFERED, has_room};
use chappe_wait::lights::{Lights, Side};
use chappe_wait::wait::{Candidate, MET, Party, RETRY};
use std::ptr::null_mut;

/// No member.
const NOBODY: u32 = u32::MAX;
/// The direction of a message, as seen by one of the two threads that met.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The message comes to this thread.
    In,
    /// The message goes from this thread.
    Out,
}

/// The other end, as the acting thread sees it.
#[derive(Clone, Copy)]
pub(crate) struct Opposite<'t> {
    pub end: &'t End,
    pub lights: &'t Lights,
    pub side: Side,
}

/// Meets the first waiter at the other end, if there is one: returns that waiter's packet.
#[inline(always)]
pub(crate) fn meet(other: Opposite<'_>, me: &Party) -> Option<u64> {
    if !other.end.has_lights() {
        return meet_attached(other.end, me);
    }
    // Where light and kernel threads both wait, they take turns.
    if other.end.has_waiters() && other.lights.take_turn() {
        return meet_attached(other.end, me).or_else(|| other.lights.meet(other.side));
    }
    other.lights.meet(other.side).or_else(|| meet_attached(other.end, me))
}

#[inline(always)]
fn meet_attached(other: &End, me: &Party) -> Option<u64> {
    if other.has_waiters() { meet_first_attached(other, me) } else { None }
}

#[inline(never)]
fn meet_first_attached(other: &End, me: &Party) -> Option<u64> {
    loop {
        let first = other.first_met_but(me.member)?;
        let packet = packet_of(other.map(), first);
        if other.tell(first, MET) {
            return Some(packet);
        }
    }
}

fn packet_of(map: &Map, who: Candidate) -> u64 {
    // Acquire: I1.
    map.member(who.member).packet.load(Ordering::Acquire)
}

/// Whether a thread waits at the other end that `me` could meet.
pub(crate) fn is_awaited(other: Opposite<'_>, me: &Party) -> bool {
    other.end.first_met_but(me.member).is_some() || other.end.has_lights() && other.lights.is_awaited(other.side)
}

/// The look of a light thread that begins to wait (lights, I6). True: the light thread is to try.
fn is_awaited_by_light(other: &End) -> bool {
    if !other.is_awaited_by_others() {
        return false;
    }
    other.tell_lookers();
    first_is_met(other)
}

/// I5: whether the first that waits there can be met, for the caller's side to act. If not, that one is told to try.
#[must_use]
pub(crate) fn first_is_met(end: &End) -> bool {
    while let Some(first) = end.first_but(NOBODY) {
        if end.meets(first) {
            return true;
        }
        if end.tell(first, RETRY) {
            return false;
        }
    }
    false
}

/// The look of a thread that begins to wait, after the fence; a light thread is no member.
/// True: that thread is to try again.
pub(crate) fn look(other: Opposite<'_>, me: &Party) -> bool {
    let Opposite { end: other, lights, side } = other;
    if me.member == NOBODY {
        return is_awaited_by_light(other);
    }
    let m = me.map.member(me.member);
    // Relaxed, both: our own.
    let (ticket, need) = (m.ticket.load(Ordering::Relaxed), m.need.load(Ordering::Relaxed));
    // Relaxed: as above.
    if need == 0 || m.packet.load(Ordering::Relaxed) == 0 {
        return other.first_met_but(me.member).is_some() || other.has_lights() && lights.is_awaited(side);
    }
    if other.has_lights() {
        // I6 of the light threads (`lights`): the light thread moves, we stay.
        lights.tell_one(side);
    }
    other.tell_lookers();
    loop {
        match other.first_but(me.member) {
            // The first was met meanwhile, or gave up: the next one.
            Some(first) if (first.ticket < ticket || !other.meets(first)) && !other.tell(first, RETRY) => {}
            Some(first) => return first.ticket > ticket && other.meets(first),
            None => return false,
        }
    }
}

/// I4: called by a thread that was told to act, after it has met a waiter.
pub(crate) fn rematch(senders: &End, receivers: &End) {
    let pair = || {
        let s = senders.first_but(NOBODY)?;
        if let Some(r) = receivers.first_but(s.member) {
            return Some((s, r));
        }
        // The only receiver is the member that is first to send: then the next sender.
        let r = receivers.first_but(NOBODY)?;
        Some((senders.first_but(r.member)?, r))
    };
    while let Some((s, r)) = pair() {
        if if s.ticket < r.ticket && receivers.meets(r) { senders.tell(s, RETRY) } else { receivers.tell(r, RETRY) } {
            return;
        }
    }
}

/// Hands a message to the owner of this packet, or takes one from it: the acting thread's part. `place`: where the
/// message is, or is to go.
///
/// # Safety
/// `meet` returned the packet, and this is done once; `T` is the tube's; what lies at `place` is left as moved out.
#[inline(always)]
pub(crate) unsafe fn act<T>(packet: u64, place: *mut T, way: Way) {
    // SAFETY: the owner waits until the last state is stored in it.
    let packet = unsafe { &*(packet as *const Handoff) };
    // Acquire: I1.
    let there = packet.place.load(Ordering::Acquire) as *mut T;
    if !there.is_null() {
        let (from, to) = if way == Way::In { (there, place) } else { (place, there) };
        // SAFETY: I1: one is the message, the other a place for it, and no other thread has either.
        unsafe { to.copy_from_nonoverlapping(from, 1) };
        step!("handed over, not yet said");
        packet.say(DONE);
        return;
    }
    // SAFETY: the caller's promise; the owner will name the place.
    unsafe { act_first::<T>(packet, place, way) };
}

/// The same where the waiter names the place of its message only afterwards.
///
/// # Safety
/// As above.
#[inline(never)]
unsafe fn act_first<T>(packet: &Handoff, place: *mut T, way: Way) {
    if way == Way::Out && has_room::<T>() {
        // SAFETY: the owner reads the room after IN_ROOM is stored; the message is ours, and moved out.
        unsafe { packet.room.get().cast::<T>().copy_from_nonoverlapping(place, 1) };
        step!("handed over, not yet said");
        packet.say(IN_ROOM);
        return;
    }
    let mine = Handoff::new(null_mut());
    mine.says(place.cast());
    // Release: published by the state.
    packet.other.store(mine.address(), Ordering::Release);
    packet.say(OFFERED);
    mine.hear(DONE);
}

/// The waiter's part where it had named the place: blocks until the message was copied.
pub(crate) fn await_done(packet: &Handoff) {
    packet.hear(DONE);
}

/// The waiter's part where it names the place only now.
///
/// # Safety
/// As for [`act`]; the caller was met with this packet.
pub(crate) unsafe fn answer<T>(packet: &Handoff, place: *mut T, way: Way) {
    if way == Way::In && has_room::<T>() {
        packet.hear(IN_ROOM);
        // SAFETY: the acting thread has put it there, and no other thread takes it.
        unsafe { place.copy_from_nonoverlapping(packet.room.get().cast::<T>(), 1) };
        return;
    }
    packet.hear(OFFERED);
    // Acquire: what was offered.
    let other = packet.other.load(Ordering::Acquire) as *const Handoff;
    // SAFETY: the acting thread waits until the last state is stored in it.
    let other = unsafe { &*other };
    // Acquire: as above.
    let there = other.place.load(Ordering::Acquire) as *mut T;
    let (from, to) = if way == Way::In { (there, place) } else { (place, there) };
    // SAFETY: one is the message, the other a place for it, and no other thread has either.
    unsafe { to.copy_from_nonoverlapping(from, 1) };
    step!("answered, not yet said");
    other.say(DONE);
}
