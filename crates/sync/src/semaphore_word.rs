//! Semaphores as a protocol: a count of saved wake-ups, and how a unit gets from the count to a waiter.
//!
//! These are the semaphores of Nix (nix-semaphores-tubes, 2.2 and 2.3): a count, strong semantics,
//! `down` and `up` without a system call while no thread waits. Nix locks the structure in user
//! space and in the kernel; here there is one word and the wait queue. Two things differ from a
//! pool's cells. A unit has no owner, so nothing returns with a death. And a unit is in no cell, so
//! the word itself must name a unit that is on its way to a waiter. (Terms:
//! `book/src/glossary.md`.)
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | 4 | a semaphore's word |
//! | 3 | WAITERS | a waiter's bit may stand: no thread takes past it, and a thread that adds must look |
//! | 4-35 | count | saved wake-ups |
//! | 36 | WAY | a unit is on its way |
//! | 37 | back | WAY: it goes from the member to the count, not to the member |
//! | 38-53 | member | WAY: the member it goes to or comes from |
//! | 54-63 | short | WAY: the low bits of the number |
//! | 37-63 | number | without WAY: the low bits of the slot's generation: successive semaphores in one slot have different words |
//!
//! Beside the word stands the *stamp* ([`Object`]'s `slot.since`), 64 bits. It rises by one with each change of the word. It need not where a change only
//! adds to or takes from the count while no member waits, and does not on the fast paths. A change with a stamp swaps both words together (two neighbours, one instruction). So such a
//! swap succeeds only if nothing was sent, brought back, marked or unmarked since the thread read the two, however long ago that was. A change without
//! a stamp swaps the word alone, and only from a word without WAITERS and WAY: an equal word is the same semaphore's and has the same count and no
//! waiter, so the change is right even if the word has changed and changed back meanwhile.
//!
//! ```text
//!   down: count - 1 ------------------------------------- one compare-and-swap, if not WAITERS
//!   up:   count + 1 ------------------------------------- one; then, if WAITERS, a look for waiters
//!
//!   hand-off, by any drainer:                a grant that goes back (I4):
//!     count - 1, to m                          back from m
//!     m's word: WAITING n -> GRANTED           m's word: GRANTED -> RETURNED
//!     to nobody   (or m gave up: count + 1)    count + 1, to nobody;  m's word: IDLE
//! ```
//!
//! RETURNED is GRANTED with bit 25 of the wait word. An `up` of one unit that finds waiters, and
//! nothing else to do, sends the unit with the swap that would have added it. The hand-off goes on
//! from there.
//!
//! Invariants:
//! - I1: a unit is in the count, on its way (at most one), or in the word of a member that says GRANTED by this semaphore
//!   and not RETURNED. `up` adds one; a member that goes from GRANTED to IDLE has taken one. Nothing else changes the number.
//! - I2: m does not leave GRANTED before its semaphore's word no longer says "to m". So a thread
//!   that finds "to m", and then m's word GRANTED by this semaphore, knows that m has the unit. A
//!   thread that finds m's word otherwise, and cannot grant it, knows that m was never granted it,
//!   and the unit goes back into the count.
//! - I3: before m publishes a wait on this semaphore, it ends what is on its way to it and changes
//!   the stamp. So while m is in such a wait n, each "to m" was made for wait n. A granter reads
//!   the word, then m's word and bit, then the word again: what was on its way then was for the
//!   wait that it saw. If a thread finds that m no longer waits, wait n is decided, and no grant to
//!   it succeeds any more.
//! - I4: a unit that goes back takes the steps of the drawing in that order: no word is RETURNED
//!   before "back from m", "back" counts the unit only after RETURNED, and RETURNED ends after
//!   "back". A grant is taken back by a recoverer of dead m, or by m itself: if m only wanted to
//!   look (`hand_back`), or finds that its slot is another object's by now (`refuse` of the wait
//!   queue). That thread reads the word, then m's word (a recoverer also the owner of m's slot),
//!   then swaps the word: a late swap fails, since the stamp has changed. m's word is changed
//!   together with its ticket (wait queue), so no other wait's word is changed.
//! - I5: the count never exceeds [`MAX`] by `up`. Units that come back may exceed it, by one for each member (the field has
//!   room).
//! - I6: a waiter sets its bit, then WAITERS, and changes the stamp even if WAITERS stood. A thread that clears WAITERS has read the
//!   word, then seen no bit, then swaps the word. So while a bit stands and its waiter may sleep, WAITERS stands.
//! - I7: strong: after a waiter has set WAITERS, no `down` takes a unit before it, not even a
//!   `down` that had begun before: that one swaps from a word without WAITERS, or word and stamp
//!   together, and fails.
//! - I8: if a unit is on its way to m, and m's word says GRANTED by this semaphore, the grant is of
//!   this unit. The sender read the stamp, and then saw m wait: m had no grant then, and has got no
//!   other since. So neither the word nor the grant numbers the units.
//!
//! Barging: waiters may be overtaken, for throughput. A unit is not sent; the drainer tells the oldest waiters to try again
//! ([`RETRY`]), as many at once as there are units. If a waiter that was told dies, or finds no unit, nothing is lost:
//! recovery looks again, and the waiter that finds none waits on in its old place.
//!
//! `up` never waits: a compare-and-swap fails only because another succeeded. It keeps no record,
//! so a signal handler may call it, also in the middle of any operation of the same thread on the
//! same semaphore (but for tasks on a private one: there it calls a waker, which is somebody else's). After its swap it touches only the object's slot, which never holds anything but
//! an object, and only if there were waiters: what it does there is correct for any object in the
//! slot by then. So a thread that `up` has woken may remove the semaphore. An `up` without waiters
//! needs no attachment: it is one swap, and its death leaves nothing undone. An `up` that finds
//! waiters needs one: its unit may not be handed on yet when it dies, and only the death of a
//! member is noticed, so that recovery drains.
//!
//! Measured: a swap from a guess of the word, tried before any load, makes a pair 0.94 of one that loads first, since the
//! swap need not wait for the load (two locked operations with nothing else: 0.85 of `sem_t`; this: 0.89).
//!
//! Death at each step: before the swap of `up`, nothing; after it, recovery drains. A unit on its way is ended by the next user: a later `up`
//! or `down`, a waiter, recovery. A stopped thread does not hold up the others; what it had sent on its way reaches its member as soon as
//! any thread touches the semaphore.
//!
//! A word that is no semaphore's (a wild write) makes the semaphore dead for ever, and all waiters are told (nix-semaphores-tubes,
//! 2.4, "dead semaphores").
//!
//! Not handled: if a single thread of a living process ends without unwinding in the middle of a *mixed* choice, after a private semaphore had
//! granted to it, and another process recovers it, that unit is lost: only its own process could return it. And a forked child's copy of a
//! private semaphore lacks a unit that a mixed choice of the parent had been granted and not taken.
//!
//! Explored: `tests/crash_semaphore.rs`.

pub(crate) mod arm;

use chappe_arena::layout::{Head, Kind, MAX_MEMBERS, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_structures::stamp::Stamp;
use chappe_wait::operation::Refused;
use chappe_wait::owner::store_words;
use chappe_wait::wait::{
    Candidate, RETRY, State, change_granted_of, grant, is_barging, next, notify_dead, tell, ticket_of, tried_and_next,
    waits_on, wake_elsewhere, wake_granted, word_of,
};

/// The greatest value.
pub const MAX: u32 = i32::MAX as u32;

const TAG: u64 = 4;
const WAITERS: u64 = 1 << 3;
const ONE: u64 = 1 << 4;
const WAY: u64 = 1 << 36;
const BACK: u64 = 1 << 37;
const MEMBER_AT: u32 = 38;
/// A member's number, and all that is above the count.
const MEMBER: u64 = 0xffff << MEMBER_AT;
const ABOVE: u64 = u64::MAX << 36;
const _: () = assert!(MAX_MEMBERS - 1 <= 0xffff);
type Number = Stamp<37, 27>;
type Short = Stamp<54, 10>;
/// What a grant says: which unit it is, nobody need tell (I8).
const UNIT: u32 = 0;

/// The word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Units(pub u64);

impl std::fmt::Debug for Units {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match (self.0 & WAY, self.0 & BACK) {
            (0, _) => format!("none under way, number {}", Number::of(self.0)),
            (_, 0) => format!("one under way to {}", self.member()),
            _ => format!("one under way back from {}", self.member()),
        };
        let waiters = if self.0 & WAITERS != 0 { ", waiters" } else { "" };
        write!(f, "{} units, {way}{waiters}", self.count())
    }
}

impl Units {
    fn new(count: u32, generation: u32) -> Units {
        Units(TAG | u64::from(count) << 4 | Number::word(generation.into()))
    }
    pub fn count(self) -> u32 {
        (self.0 >> 4) as u32
    }
    fn member(self) -> u32 {
        ((self.0 & MEMBER) >> MEMBER_AT) as u32
    }
    fn under_way(self) -> bool {
        self.0 & WAY != 0
    }
    fn is_whole(self, map: &Map) -> bool {
        self.0 & 7 == TAG && (!self.under_way() || self.member() < map.members_used())
    }
    fn marked(self) -> Units {
        Units(self.0 | WAITERS)
    }
    fn less(self) -> Units {
        Units(self.0 - ONE)
    }
    fn more(self, n: u32) -> Units {
        Units(self.0 + u64::from(n) * ONE)
    }
    fn unmarked(self) -> Units {
        Units(self.0 & !WAITERS)
    }
    /// A semaphore's word without waiters, and no unit is under way.
    #[inline(always)]
    fn is_plain(self) -> bool {
        self.0 & (7 | WAITERS | WAY) == TAG
    }
    fn to(self, member: u32) -> Units {
        Units((self.0 - ONE) & !ABOVE | WAY | u64::from(member) << MEMBER_AT | Short::word(Number::of(self.0)))
    }
    fn back_from(self, member: u32) -> Units {
        Units(self.0 & !ABOVE | WAY | BACK | u64::from(member) << MEMBER_AT | Short::word(Number::of(self.0)))
    }
    /// The unit has arrived where it was sent, or is in the count. The object is the semaphore, if its word still is this one.
    fn arrived(self, o: &Object, in_count: bool) -> Units {
        // Acquire: after the word: with the head of a later object in the slot, the swap of word and stamp fails.
        let generation = Head(o.head.load(Ordering::Acquire)).generation();
        Units((self.0 & !ABOVE | Number::word(generation.into())) + if in_count { ONE } else { 0 })
    }
}

/// Reads the word.
#[inline(always)]
fn load(o: &Object) -> Units {
    // SeqCst: E1 of the wait queue, after the caller's bit.
    Units(o.slot.word.load(Ordering::SeqCst))
}

/// Swaps the exact word alone: a plain one, or to add to the count while no member waits.
#[inline(always)]
fn swap(o: &Object, from: Units, to: Units) -> bool {
    // SeqCst: E1 of the wait queue, before the caller's look at the bits.
    o.slot.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// The word, and the stamp beside it, which was read first.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    units: Units,
    stamp: u64,
}

/// Reads both.
fn look(o: &Object) -> Seen {
    // SeqCst: before the word: no change that has a stamp is missed between the two.
    let stamp = o.slot.since.load(Ordering::SeqCst);
    Seen { units: load(o), stamp }
}

/// Swaps both, if the stamp is unchanged and the count is as it was. Answers what is there then.
fn change(o: &Object, from: Seen, to: Units) -> Option<Seen> {
    let next = Seen { units: to, stamp: from.stamp.wrapping_add(1) };
    // A swap of both is a full fence: E1 of the wait queue, as in `swap`.
    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    let done = o.slot.pair().compare_exchange([from.units.0, from.stamp], [to.0, next.stamp]).is_ok();
    // loom has no such swap: the stamp first. In its searches no thread is stopped there while others send and end all that the word says.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    let done = {
        // SeqCst: as the swap of the word.
        let since = o.slot.since.compare_exchange(from.stamp, next.stamp, Ordering::SeqCst, Ordering::SeqCst);
        since.is_ok() && swap(o, from.units, to)
    };
    done.then_some(next)
}

/// How many units there are, without the one under way.
pub(crate) fn value(o: &Object) -> u32 {
    load(o).count()
}

/// Whether the word is no semaphore's: the next user will mark the semaphore dead.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_broken(map: &Map, o: &Object) -> bool {
    !load(o).is_whole(map)
}

/// Takes a unit if the word is as it was seen or guessed, a unit is there and no member waits: the commonest case. Answers the
/// word that it leaves; `None` means nothing: take the slow path.
#[inline(always)]
pub(crate) fn take_from(o: &Object, place: Place, seen: Units) -> Option<Units> {
    o.through(place.head);
    let left = Units(seen.0.wrapping_sub(ONE));
    // Acquire: the object as its maker left it; a slot used again has another head, and another word.
    let there = seen.count() > 0 && seen.is_plain() && o.head.load(Ordering::Acquire) == place.head.0;
    (there && swap(o, seen, left)).then_some(left)
}

/// As [`take_from`], of the word as it is now.
#[inline(always)]
pub(crate) fn take_one(o: &Object, place: Place) -> Option<Units> {
    take_from(o, place, load(o))
}

/// Takes a unit if there is one and, in a strong semaphore, no member waits for it. Never blocks. The thread that adds a unit hands it
/// on; only a unit found under way is concluded here, which may wake its waiter.
pub(crate) fn take(map: &Map, place: Place) -> Result<(), Refused> {
    let o = map.object(place.index);
    loop {
        let (seen, waits) = find(map, place)?;
        // I6.
        let rest = if waits { seen.units } else { seen.units.unmarked() };
        if change(o, seen, rest.less()).is_some() {
            return Ok(());
        }
    }
}

/// Whether [`take`] would take one.
fn is_there(map: &Map, place: Place) -> Result<bool, Refused> {
    match find(map, place) {
        Ok(_) => Ok(true),
        Err(Refused::NoneFree) => Ok(false),
        Err(e) => Err(e),
    }
}

/// For a waiter in the queue that was not granted anything: a mark that changes with each unit that was added and not granted to it.
fn mark_in_queue(map: &Map, place: Place) -> Option<u64> {
    let o = map.object(place.index);
    if !is_barging(o) {
        return Some(0);
    }
    let Seen { units, stamp } = look(o);
    (units.is_whole(map) && units.count() == 0).then_some(stamp)
}

/// A word with a unit that may be taken, and whether a waiter's bit stands.
fn find(map: &Map, place: Place) -> Result<(Seen, bool), Refused> {
    let o = map.reach(place);
    loop {
        let seen @ Seen { units, .. } = look(o);
        // Acquire: as in `take_from`.
        let head = Head(o.head.load(Ordering::Acquire));
        if head != place.head {
            if head == place.head.dead() {
                // The thread that found it broken may have died before it had told all waiters.
                notify_dead(map, place.index, head, &mut map.visitor());
            }
            return Err(Refused::Dead(0));
        }
        if !units.is_whole(map) {
            break_off(map, place.index);
            return Err(Refused::Dead(0));
        }
        if units.count() == 0 && units.under_way() {
            // The unit may be on its way to a waiter that gave up: then it goes into the count.
            conclude(map, place.index, o, seen);
            continue;
        }
        let waits = map.waits_on(place.index, o);
        if units.count() == 0 || (!is_barging(o) && waits && next(map, place).is_some()) {
            return Err(Refused::NoneFree);
        }
        return Ok((seen, waits));
    }
}

/// Why units were not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// The count would exceed [`MAX`]; this is the count.
    Overflow(u32),
    /// The semaphore is dead.
    Dead,
}

/// Adds `n` units if the word is as it was seen or guessed, and no member waits: the commonest case. Needs no slot in the
/// arena. Answers the word that it leaves; `None` means nothing: take the slow path.
#[inline(always)]
pub(crate) fn give_to(o: &Object, place: Place, seen: Units, n: u32) -> Option<Units> {
    o.through(place.head);
    let left = Units(seen.0.wrapping_add(u64::from(n) * ONE));
    let fits = n <= MAX.saturating_sub(seen.count());
    // Acquire: as in `take_from`.
    let there = fits && seen.is_plain() && o.head.load(Ordering::Acquire) == place.head.0;
    (there && swap(o, seen, left)).then_some(left)
}

/// As [`give_to`], to the word as it is now.
#[inline(always)]
pub(crate) fn give_one(o: &Object, place: Place, n: u32) -> Option<Units> {
    give_to(o, place, load(o), n)
}

/// Adds `n` units, and hands on what it can. The caller must have an attachment, so that its death is noticed: see `attachment`.
pub(crate) fn give(map: &Map, place: Place, o: &Object, n: u32) -> Result<(), Unwanted> {
    o.through(place.head);
    loop {
        // Before the head: if the swap succeeds, it was this semaphore's word.
        let both = look(o);
        let seen = both.units;
        // Acquire: as in `take_from`.
        if o.head.load(Ordering::Acquire) != place.head.0 || !seen.is_whole(map) {
            return Err(refuse(map, place, seen));
        }
        if n > MAX.saturating_sub(seen.count()) {
            return Err(Unwanted::Overflow(seen.count()));
        }
        if seen.is_plain() {
            if swap(o, seen, seen.more(n)) {
                return Ok(());
            }
            continue;
        }
        // The commonest hand-off: one unit, a waiter, and nothing else to do. The swap that adds the unit also sends it.
        let is_alone = n == 1 && seen.count() == 0 && !seen.under_way() && !is_barging(o);
        if let Some(next) = if is_alone { next(map, place) } else { None } {
            let Some(sent) = change(o, both, seen.more(1).to(next.member)) else { continue };
            if !deliver(map, place.index, o, next, sent) {
                hand_on(map, place.index);
            }
            return Ok(());
        }
        // The stamp records a unit that is granted to no member, for the waiter that only wants to see whether a unit came.
        if change(o, both, seen.more(n)).is_some() {
            hand_on(map, place.index);
            return Ok(());
        }
    }
}

#[cold]
fn refuse(map: &Map, place: Place, seen: Units) -> Unwanted {
    // Acquire: as in `take_from`.
    if map.object(place.index).head.load(Ordering::Acquire) == place.head.0 && !seen.is_whole(map) {
        break_off(map, place.index);
    }
    Unwanted::Dead
}

#[cold]
fn hand_on(map: &Map, object: u32) {
    step!("added, not yet handed on");
    chappe_wait::kinds::drain(map, object);
}

/// Brings units and waiters together. The object is a semaphore in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    let o = map.object(object);
    loop {
        let both = look(o);
        let seen = both.units;
        if !seen.is_whole(map) {
            // The slot may be another kind's by now: then its word is that kind's.
            return break_off(map, object);
        }
        if seen.under_way() {
            conclude(map, object, o, both);
            continue;
        }
        if seen.0 & WAITERS != 0 && !map.waits_on(object, o) {
            // I6. A failure: look again.
            change(o, both, seen.unmarked());
            continue;
        }
        if seen.count() == 0 {
            return;
        }
        if is_barging(o) {
            return tell_oldest(map, object, head, o);
        }
        let Some(next) = next(map, Place { index: object, head }) else {
            // If the word is unchanged, no waiter is left. Else another thread has sent the unit to the waiter, which may not have been woken.
            if look(o) == both {
                return wake_elsewhere(map, Place { index: object, head });
            }
            continue;
        };
        if let Some(sent) = change(o, both, seen.to(next.member)) {
            deliver(map, object, o, next, sent);
        }
    }
}

/// Grants what was sent. False: the grant failed, and the unit was concluded otherwise.
fn deliver(map: &Map, object: u32, o: &Object, to: Candidate, sent: Seen) -> bool {
    step!("unit sent, not yet granted");
    let granted = grant(map, to.member, to.state, object, UNIT, false);
    if granted {
        // I2: if the object's word still says so, so does the member's. The member was woken: no thread need repeat that.
        change(o, sent, sent.units.arrived(o, false));
    } else {
        conclude(map, object, o, sent);
    }
    granted
}

/// Tells as many of the oldest waiters to try again as there are units.
fn tell_oldest(map: &Map, object: u32, head: Head, o: &Object) {
    loop {
        // Before counting the waiters that are trying: each of them will look after this, so there is a waiter for each of these
        // units. A thread that adds more units looks itself.
        let seen = load(o);
        let count = if seen.is_whole(map) { seen.count() } else { 0 };
        let (trying, next) = tried_and_next(map, Place { index: object, head });
        match next {
            _ if trying >= count => return,
            None => return wake_elsewhere(map, Place { index: object, head }),
            Some(next) => _ = tell(map, next.member, next.state, object, RETRY),
        }
    }
}

/// Ends what is under way. Idempotent: if several threads conclude the same word, it happens once.
fn conclude(map: &Map, object: u32, o: &Object, seen: Seen) {
    conclude_by(map, object, o, seen, u32::MAX);
}

/// As [`conclude`], by the member `me`, which is awake.
fn conclude_by(map: &Map, object: u32, o: &Object, both: Seen, me: u32) {
    let seen = both.units;
    let member = seen.member();
    // Before the word: another wait has another ticket.
    let ticket = ticket_of(map, member);
    let (word, _) = word_of(map, member);
    let its = |state: State| state.grant().filter(|g| !g.dead && g.of(map, object));
    // SeqCst: I2 to I4, after the object's word.
    let mut state = State(word.load(Ordering::SeqCst));
    if seen.0 & BACK != 0 {
        if its(state).is_some_and(|g| !g.returned) && look(o) == both {
            // I4, before the word goes on. A failure: another thread did it.
            change_granted_of(map, member, ticket, state, state.returned());
            // SeqCst: as above.
            state = State(word.load(Ordering::SeqCst));
        }
        let returned = its(state).is_some_and(|g| g.returned);
        change(o, both, seen.arrived(o, returned));
        return;
    }
    let mine = |state: State| its(state).is_some();
    // I3: a member that waits for something else by now has no bit here; the second look at the word.
    if state.is_waiting() && waits_on(map, object, member) && look(o) == both {
        grant(map, member, state, object, UNIT, false);
        // SeqCst: what was decided.
        state = State(word.load(Ordering::SeqCst));
    }
    if mine(state) && member != me {
        // Its granter may have died or been stopped before the wake.
        wake_granted(map, member);
    }
    change(o, both, seen.arrived(o, !mine(state)));
}

/// I3: before a member publishes a wait on this semaphore.
pub(crate) fn before(map: &Map, object: u32) {
    stamp(map, object, |seen| seen);
}

/// I6: a member's bit was set.
pub(crate) fn mark(map: &Map, object: u32) {
    stamp(map, object, Units::marked);
}

/// Changes the word, once nothing is under way.
fn stamp(map: &Map, object: u32, to: fn(Units) -> Units) {
    let o = map.object(object);
    loop {
        let both = look(o);
        let seen = both.units;
        if !seen.is_whole(map) {
            return;
        }
        if seen.under_way() {
            conclude(map, object, o, both);
        } else if change(o, both, to(seen)).is_some() {
            return;
        }
    }
}

/// I2: before a member leaves GRANTED, and when it gave up: ends what is under way to it, and hands the unit on.
pub(crate) fn left(map: &Map, object: u32, member: u32) {
    let o = map.object(object);
    loop {
        let both = look(o);
        let seen = both.units;
        if !seen.is_whole(map) || !seen.under_way() || seen.member() != member {
            return;
        }
        conclude_by(map, object, o, both, member);
        chappe_wait::kinds::drain(map, object);
    }
}

/// Gives back what a member was granted and has not taken: because it died, or because it no longer wants it. Returns
/// once the member's word says RETURNED and the unit is in the count, or the word no longer has a grant of this semaphore.
pub(crate) fn take_back(map: &Map, object: u32, member: u32, granted: State, whose: Option<u32>) {
    let o = map.object(object);
    loop {
        let seen = look(o);
        if !seen.units.is_whole(map) {
            return break_off(map, object);
        }
        if seen.units.under_way() {
            conclude(map, object, o, seen);
            continue;
        }
        let (word, _) = word_of(map, member);
        // SeqCst: I4, after the word. The exact word: a later occupant of the slot was granted in another wait, or after this look.
        let same = word.load(Ordering::SeqCst) == granted.0;
        // SeqCst: after the member's word: a later occupant's word may say the same by now.
        let its = whose.is_none_or(|g| (map.member(member).ident.load(Ordering::SeqCst) >> 32) as u32 == g);
        if !same || !its || granted.grant().is_none_or(|g| g.returned) {
            return;
        }
        if let Some(back) = change(o, seen, seen.units.back_from(member)) {
            step!("unit on its way back");
            conclude(map, object, o, back);
        }
    }
}

/// As [`take_back`], by the member itself, which was granted a unit but only wanted to know of it. False: it was told to try
/// again, and has no unit.
fn hand_back(map: &Map, object: u32, member: u32) -> bool {
    // SeqCst: our own word, which only a thread that takes the unit back still changes.
    let granted = State(word_of(map, member).0.load(Ordering::SeqCst));
    let is_unit = granted.grant().is_some_and(|g| !g.is_retry());
    if is_unit {
        take_back(map, object, member, granted, None);
    }
    is_unit
}

/// The semaphore is out of service, and no waiter has been told yet: a unit on its way to a waiter was given before, and arrives.
pub(crate) fn settle(map: &Map, object: u32) {
    let o = map.object(object);
    let seen = look(o);
    if seen.units.is_whole(map) && seen.units.under_way() {
        conclude(map, object, o, seen);
    }
}

/// Marks the semaphore dead: its word is no semaphore's.
#[cold]
fn break_off(map: &Map, object: u32) {
    let o = map.object(object);
    // Acquire: as in `take_from`.
    let head = Head(o.head.load(Ordering::Acquire));
    let bad = load(o);
    if !head.is_live(Kind::Semaphore) || bad.is_whole(map) {
        return;
    }
    // SeqCst: before the look at the bits in `notify_dead`; pairs with the waiter's second look. A failure: another thread
    // did it.
    if o.head.compare_exchange(head.0, head.dead().0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        step!("object dead, waiters not yet told");
        notify_dead(map, object, head.dead(), &mut map.visitor());
    }
}

/// How waiters are served: in the order of arrival, ...
pub(crate) const STRONG: u32 = 0;

/// Makes a semaphore; `how`: [`STRONG`], [`BARGING`] or a discipline's code. The caller holds `admin` and has seen that the name is free.
pub(crate) fn make(map: &'static Map, admin: &Admin, name: &str, value: u32, how: u32) -> Result<Place, ArenaError> {
    make_part(map, admin, name, value, how, 0)
}

/// As [`make`], a semaphore that is a part of another object. `flags`: see [`Object::run`].
pub(crate) fn make_part(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    value: u32,
    how: u32,
    flags: u32,
) -> Result<Place, ArenaError> {
    map.make(admin, name, Kind::Semaphore, |index, generation| {
        let o = map.object(index);
        o.permits.store(how, Ordering::Relaxed); // Relaxed: published by the head.
        o.more.store(0, Ordering::Relaxed); // Relaxed: published by the head.
        o.run.store(flags, Ordering::Relaxed); // Relaxed: published by the head.
        // Beyond the stamps of the semaphore before, if that had 2^32 changes at most; else another number is in the word, 1,024 times in a row.
        store_words(o, Units::new(value, generation).0, u64::from(generation) << 32);
        Ok(())
    })
}

/// I7, for onlookers.
#[cfg(any(feature = "sim", feature = "loom"))]
pub(crate) fn is_awaited(o: &Object) -> bool {
    load(o).0 & WAITERS != 0
}

/// I1, for onlookers between two steps: all the units there are.
#[cfg(any(feature = "sim", feature = "loom"))]
pub(crate) fn all(map: &Map, object: u32) -> u32 {
    let seen = load(map.object(object));
    let of = |member: u32| {
        // SeqCst: for onlookers.
        let state = State(word_of(map, member).0.load(Ordering::SeqCst));
        state.grant().filter(|g| !g.dead && !g.returned && !g.is_retry() && g.of(map, object))
    };
    let granted = (0..map.members_used()).filter(|m| of(*m).is_some()).count() as u32;
    let way = match (seen.under_way(), seen.0 & BACK != 0) {
        (false, _) => 0,
        // The member has it by now, or not yet.
        (true, false) => u32::from(of(seen.member()).is_none()),
        (true, true) => u32::from(of(seen.member()).is_none()),
    };
    seen.count() + granted + way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_every_member_beside_the_count() {
        for count in [1, MAX, u32::MAX] {
            let free = Units::new(count, 0x1234_5678);
            assert!(free.is_plain() && !free.marked().is_plain() && free.count() == count);
            for member in [0, 4_095, 4_096, MAX_MEMBERS - 1] {
                let (to, back) = (free.marked().to(member), free.back_from(member));
                assert_eq!((to.member(), to.count(), to.0 & (BACK | WAITERS)), (member, count - 1, WAITERS));
                assert_eq!((back.member(), back.count(), back.0 & BACK), (member, count, BACK));
                assert_eq!((Short::of(to.0), Short::of(back.0)), (0x278, 0x278));
                assert!(to.under_way() && back.under_way() && !to.is_plain() && !back.is_plain());
            }
        }
        // Successive semaphores of a slot have different words.
        assert_ne!(Units::new(1, 1 << 26).0, Units::new(1, 0).0);
    }
}
