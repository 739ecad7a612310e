//! A tube without slots: a message goes from its sender to its receiver when both are there.
//!
//! One waits, the other acts. Who acts swaps the wait word of the one who came first among those that wait at the other end, from
//! WAITING to GRANTED([`MET`]): from then on the two have each other, and nobody else has either. What is handed over
//! passes through the *packet* that who waits had made known before (`Member::packet`).
//!
//! A choice says only afterwards where its message is, or where one is to go. So there are two ways:
//!
//! ```text
//!   who waits has said where:   who acts copies                              -- packet DONE --> who waits goes on
//!   who waits will say where:   who acts puts its own packet into the other -- packet OFFERED --> who waits copies
//!                               and waits for its own            <-- DONE -- and goes on
//!   the same, to receive,
//!   and the message is small:   who acts copies it into the other's packet    -- packet IN_ROOM --> who waits takes it from there
//! ```
//!
//! So each packet is its owner's, who does not let go of it before the last word is said in it; what the other does after that
//! is a wake by address, which harms nobody.
//!
//! When both wait (each has looked, and neither saw the other), nobody acts. So who begins to wait looks at the other end after a
//! fence, and if somebody waits there the one of the two who arrived first is told to try again. Not both: they would look past
//! each other for ever; nor either one: of all that wait for each other the last to arrive is told by nobody, and so is found
//! by whom it makes act.
//!
//! Invariants:
//! - I1: a packet is known before the wait that it is for, and read before the swap of that wait's word: if this succeeds it was
//!   the wait's.
//! - I2: of two who wait for each other, one sees the other: bit and count before the fence, look after it. Both come to wait, so both
//!   have a fence of their own, and need none for all threads as at a ring (end, I1): who only tries, and misses one who is just coming, has
//!   tried before.
//! - I3: who acts waits nowhere meanwhile, so nobody else can meet it.
//! - I4: who was told to act meets whoever came first, not always the one for whose sake it was told (who came first may have been
//!   about to look itself). So it then looks whether there are two more that wait for each other, and tells one of them.
//!
//! A thread never meets itself. Who only looks (`ready`) is met by nobody, and told when somebody comes whom it could meet.
//!
//! Progress: who meets one that has said where its message is, or is to go, waits for nobody. Who meets a choice waits for its
//! thread to say so.
//!
//! Explored: `tests/crash_tube.rs`.

use super::end::End;
use super::lights::{Lights, Side};
use crate::wait::{Candidate, MET, NUDGE, Party};
use chappe_arena::Map;
use chappe_plat::atomic::{self, AtomicU32, AtomicU64, Ordering, give_way, pause};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, Record};
use chappe_plat::step;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

const OPEN: u32 = 0;
/// Somebody sleeps until it is said.
const AWAITED: u32 = 1;
const OFFERED: u32 = 2;
const DONE: u32 = 3;
/// Its owner is to try again: nobody has met it.
const TOLD: u32 = 4;
/// The message of who acted is in the packet.
const IN_ROOM: u32 = 5;
/// No member.
const NOBODY: u32 = u32::MAX;
/// Looks with 1, 2, 4... pauses in between before one sleeps, then with giving way: who is to say it may need this very processor.
const PAUSING: u32 = 4;
const GIVING_WAY: u32 = 64;
/// The explorer's threads are processes.
const SCOPE: Scope = if cfg!(feature = "sim") { Scope::Shared } else { Scope::Private };

/// Room for a small message.
type Room = [u64; 4];

/// Whether a message of this kind has room in a packet.
const fn has_room<T>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// Where a message is handed over.
pub struct Packet {
    state: AtomicU32,
    /// Where the message is, or is to go; 0: its owner will say later.
    place: AtomicU64,
    /// The packet of who acts.
    other: AtomicU64,
    /// A small message, for a choice that will say later where it is to go.
    room: UnsafeCell<MaybeUninit<Room>>,
    /// The light thread that hears what is said in it; null: a kernel thread does.
    owner: Cell<*const Record>,
}

// SAFETY: the owner is set by who makes it known, before, and not changed until it is taken back; the room is of who has met it, until it
// says so, then of its owner.
unsafe impl Sync for Packet {}

impl Packet {
    /// One of a party whose message is there, or is to go there; null: it will say later.
    pub fn new(place: *mut ()) -> Packet {
        let owner = Cell::new(super::lights::owner());
        let (state, place) = (AtomicU32::new(OPEN), AtomicU64::new(place as u64));
        Packet { state, place, other: AtomicU64::new(0), room: UnsafeCell::new(MaybeUninit::uninit()), owner }
    }

    /// What has become of it, as its owner sees it.
    #[inline(always)]
    pub fn outcome(&self) -> Outcome {
        // Acquire: what was written before it was said.
        match self.state.load(Ordering::Acquire) {
            DONE => Outcome::Done,
            TOLD => Outcome::Told,
            _ => Outcome::Open,
        }
    }

    /// Makes it ready for another wait for the same.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    #[inline(always)]
    pub fn open_again(&self) {
        self.state.store(OPEN, Ordering::Relaxed); // Relaxed: published with the wait.
    }

    /// One of a light thread, that is yet to say where.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    #[inline(always)]
    pub fn of(owner: &'static Record) -> Packet {
        Packet {
            state: AtomicU32::new(OPEN),
            place: AtomicU64::new(0),
            other: AtomicU64::new(0),
            room: UnsafeCell::new(MaybeUninit::uninit()),
            owner: Cell::new(owner),
        }
    }

    /// One of a light thread whose message is there, or is to go there, in its place. (Its room is nobody's, and stays as it is.)
    #[inline(always)]
    pub fn direct<'p>(packet: &'p mut MaybeUninit<Packet>, owner: &'static Record, place: *mut ()) -> &'p Packet {
        let at = packet.as_mut_ptr();
        // SAFETY: the place is ours; after this all of it is set but the room, which may be as it likes.
        unsafe {
            (&raw mut (*at).state).write(AtomicU32::new(OPEN));
            (&raw mut (*at).place).write(AtomicU64::new(0));
            (&raw mut (*at).other).write(AtomicU64::new(0));
            (&raw mut (*at).owner).write(Cell::new(owner));
            (*at).says(place);
            &*at
        }
    }

    /// Says where the message is, or is to go.
    #[inline(always)]
    pub fn says(&self, place: *mut ()) {
        self.place.store(place as u64, Ordering::Relaxed); // Relaxed: published with the wait.
    }

    /// Its address, for those who will act.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// Makes it ready for another wait.
    pub fn reopen(&self) {
        // Relaxed, both: published with the wait.
        self.state.store(OPEN, Ordering::Relaxed);
        self.place.store(0, Ordering::Relaxed); // Relaxed: as above.
        self.owner.set(super::lights::owner());
    }

    /// Says so, and wakes who waits for it.
    #[inline(always)]
    fn say(&self, what: u32) {
        // Before: once it is said the packet may be gone.
        let owner = self.owner.get();
        // SAFETY: null, or a record, which never goes away.
        if let Some(owner) = unsafe { owner.as_ref() } {
            // Release: what was written before.
            self.state.store(what, Ordering::Release);
            light::unpark(owner);
            return;
        }
        // AcqRel: what was written before; whether somebody sleeps.
        if self.state.swap(what, Ordering::AcqRel) == AWAITED {
            // It may be gone already: a wake by address.
            futex::wake(&self.state, 1, SCOPE);
        }
    }

    /// Waits until it is said.
    fn hear(&self, what: u32) {
        if !self.owner.get().is_null() {
            // Acquire: what was written before it was said.
            while self.state.load(Ordering::Acquire) != what {
                light::park(None);
            }
            return;
        }
        let looks = if cfg!(any(feature = "sim", feature = "loom")) { 0 } else { PAUSING + GIVING_WAY };
        for look in 0..looks {
            // Acquire: what was written before it was said.
            if self.state.load(Ordering::Acquire) == what {
                return;
            }
            if look < PAUSING { (0..1 << look).for_each(|_| pause()) } else { give_way() }
        }
        // Acquire: as above. A failure: it has been said.
        let _ = self.state.compare_exchange(OPEN, AWAITED, Ordering::Acquire, Ordering::Acquire);
        // Acquire: as above.
        while self.state.load(Ordering::Acquire) != what {
            futex::wait(&self.state, AWAITED, None, SCOPE);
        }
    }
}

/// What its owner hears from a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Open,
    /// Its message was taken, or is there.
    Done,
    /// It is to try again.
    Told,
}

/// Says in the packet of one that waits that it is to try again; it is woken afterwards.
///
/// # Safety
/// Its owner waits, and nobody else says anything in it.
pub(crate) unsafe fn tell(packet: u64) {
    // SAFETY: its owner waits until something is said in it. Release: what the caller has seen.
    unsafe { &*(packet as *const Packet) }.state.store(TOLD, Ordering::Release);
}

/// Which way a message goes for one of the two who met.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To it.
    In,
    /// From it.
    Out,
}

/// The other end, as who would meet somebody there sees it.
#[derive(Clone, Copy)]
pub(crate) struct Opposite<'t> {
    pub end: &'t End,
    pub lights: &'t Lights,
    pub side: Side,
}

/// Meets who came first at the other end, if anybody waits there: answers its packet.
#[inline(always)]
pub(crate) fn meet(other: Opposite<'_>, me: &Party) -> Option<u64> {
    if !other.end.has_lights() {
        return meet_seated(other.end, me);
    }
    // Where both kinds wait they take turns.
    if other.end.has_waiters() && other.lights.take_turn() {
        return meet_seated(other.end, me).or_else(|| other.lights.meet(other.side));
    }
    other.lights.meet(other.side).or_else(|| meet_seated(other.end, me))
}

#[inline(always)]
fn meet_seated(other: &End, me: &Party) -> Option<u64> {
    if other.has_waiters() { meet_first_seated(other, me) } else { None }
}

#[inline(never)]
fn meet_first_seated(other: &End, me: &Party) -> Option<u64> {
    loop {
        let first = other.first_but(me.member)?;
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

/// Whether anybody waits at the other end whom one could meet.
pub(crate) fn is_awaited(other: Opposite<'_>, me: &Party) -> bool {
    other.end.first_but(me.member).is_some() || other.end.has_lights() && other.lights.is_awaited(other.side)
}

/// The look of a light thread that begins to wait (lights, I6). True: it is to try.
pub(crate) fn is_awaited_by_light(other: &End) -> bool {
    if !other.is_awaited_by_others() {
        return false;
    }
    other.tell_lookers();
    other.first_but(NOBODY).is_some()
}

/// I2: between one's own bit and count, and the look at the other end.
pub(crate) fn fence() {
    // SeqCst: pairs with that of whoever comes to wait at the other end; and with the swap by which the last handle there goes (end, I4).
    atomic::fence(Ordering::SeqCst);
}

/// The look of who begins to wait, after the fence. True: it is to try again.
pub(crate) fn look(other: Opposite<'_>, me: &Party) -> bool {
    let Opposite { end: other, lights, side } = other;
    let m = me.map.member(me.member);
    // Relaxed, both: our own.
    let (ticket, need) = (m.ticket.load(Ordering::Relaxed), m.need.load(Ordering::Relaxed));
    if need == 0 {
        return other.first_but(me.member).is_some() || other.has_lights() && lights.is_awaited(side);
    }
    if other.has_lights() {
        // The sixth invariant of `lights`: it moves, we stay.
        lights.tell_one(side);
    }
    other.tell_lookers();
    loop {
        match other.first_but(me.member) {
            // It was met, or gave up: the next one.
            Some(first) if first.ticket < ticket && !other.tell(first, NUDGE) => {}
            Some(first) => return first.ticket > ticket,
            None => return false,
        }
    }
}

/// I4: after who was told to act has met somebody.
pub(crate) fn rematch(senders: &End, receivers: &End) {
    let pair = || {
        let s = senders.first_but(NOBODY)?;
        if let Some(r) = receivers.first_but(s.member) {
            return Some((s, r));
        }
        // The only one to receive is the first to send: then the next to send.
        let r = receivers.first_but(NOBODY)?;
        Some((senders.first_but(r.member)?, r))
    };
    while let Some((s, r)) = pair() {
        if if s.ticket < r.ticket { senders.tell(s, NUDGE) } else { receivers.tell(r, NUDGE) } {
            return;
        }
    }
}

/// Hands a message over, or takes one, with somebody whose packet this is: by who acts. `place`: where the message is, or is
/// to go.
///
/// # Safety
/// The packet was answered by `meet`, and this is done once; `T` is the tube's; what lies at `place` is left as moved out.
#[inline(always)]
pub(crate) unsafe fn act<T>(packet: u64, place: *mut T, way: Way) {
    // SAFETY: its owner waits until the last word is said in it.
    let packet = unsafe { &*(packet as *const Packet) };
    // Acquire: I1.
    let there = packet.place.load(Ordering::Acquire) as *mut T;
    if !there.is_null() {
        let (from, to) = if way == Way::In { (there, place) } else { (place, there) };
        // SAFETY: I1: one is the message, the other a place for it, and nobody else has either.
        unsafe { to.copy_from_nonoverlapping(from, 1) };
        step!("handed over, not yet said");
        packet.say(DONE);
        return;
    }
    // SAFETY: the caller's promise; its owner will say where.
    unsafe { act_first::<T>(packet, place, way) };
}

/// The same where who waits says only afterwards where its message is, or is to go.
///
/// # Safety
/// As above.
#[inline(never)]
unsafe fn act_first<T>(packet: &Packet, place: *mut T, way: Way) {
    if way == Way::Out && has_room::<T>() {
        // SAFETY: its owner looks into the room when it is said; the message is ours, and moved out.
        unsafe { packet.room.get().cast::<T>().copy_from_nonoverlapping(place, 1) };
        step!("handed over, not yet said");
        packet.say(IN_ROOM);
        return;
    }
    let mine = Packet::new(null_mut());
    mine.says(place.cast());
    // Release: published by what is said.
    packet.other.store(mine.address(), Ordering::Release);
    packet.say(OFFERED);
    mine.hear(DONE);
}

/// The same by who waited, and had said where: waits until it is done.
pub(crate) fn await_done(packet: &Packet) {
    packet.hear(DONE);
}

/// The same by who waited and says only now where.
///
/// # Safety
/// As for [`act`]; it was met with this packet.
pub(crate) unsafe fn answer<T>(packet: &Packet, place: *mut T, way: Way) {
    if way == Way::In && has_room::<T>() {
        packet.hear(IN_ROOM);
        // SAFETY: who acted has put it there, and nobody else will take it.
        unsafe { place.copy_from_nonoverlapping(packet.room.get().cast::<T>(), 1) };
        return;
    }
    packet.hear(OFFERED);
    // Acquire: what was offered.
    let other = packet.other.load(Ordering::Acquire) as *const Packet;
    // SAFETY: who acts waits for the last word in it.
    let other = unsafe { &*other };
    // Acquire: as above.
    let there = other.place.load(Ordering::Acquire) as *mut T;
    let (from, to) = if way == Way::In { (there, place) } else { (place, there) };
    // SAFETY: one is the message, the other a place for it, and nobody else has either.
    unsafe { to.copy_from_nonoverlapping(from, 1) };
    step!("answered, not yet said");
    other.say(DONE);
}
