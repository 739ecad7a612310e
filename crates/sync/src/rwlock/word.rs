//! Readers-writer locks as a protocol: one writer, named in the word, or any number of readers, each with a bit; first come, first served.
//!
//! Plan 9's `RWLock` (plan9-semaphores, 3) queues readers and writers in one line and hands the lock on; so does this lock. The critical section
//! can survive its holder (nonblocking-real-time, section 3), as the mutex's (`lock`) can.
//!
//! Three slots of the arena make one lock. The *lock* has the word, and the writers wait there. The *line* is where the readers wait. The
//! *inside* has one bit for each member that reads: a bit set over members like a wait set, but no member waits in it. So a reader that
//! dies leaves a bit that does not count, and no counter has to be corrected.
//!
//! The word of the lock is an owner word: see the table in `owner`, and `book/src/glossary.md` for
//! the terms. FREE means here that no writer has the lock; readers may be inside. While WAITERS is
//! set, for a bit in the lock or in the line, no thread enters but one that was told, or granted
//! (I3). The member is the writer, or the one that the lock is reserved for. A condemned lock is
//! abandoned if a writer, or any reader, has leaked its guard.
//!
//! `slot.since` says where the line (bits 0-31) and the inside (32-63) are, one more each.
//!
//! ```text
//!   read:   no WAITERS (or told), FREE?  -- set bit -- still so, and the head still our lock's (I7)? --> inside
//!                         else: clear the bit, drain; wait in the line
//!   write:  no WAITERS, FREE, nobody inside?  -- HELD -- still nobody? --> ours
//!                         else: FREE, drain; wait in the lock
//!   drain, FREE:      first in line a reader: tell it to try, and the next
//!                     first in line a writer: RESERVED for it
//!   drain, RESERVED:  nobody inside any more: grant
//! ```
//!
//! - I1: a writer has the data only while the word names it (HELD), and after it has seen no reader
//!   inside since the word said HELD or RESERVED. A reader has it only while its bit stands inside,
//!   and after it has seen behind its bit the word FREE and the head of its lock (or has itself freed
//!   the word then: `downgrade`). So of a reader and a writer one sees the other (E1).
//! - I2: a waiter that has set its bit (in lock or line) sets WAITERS. Only a drainer that finds no waiter clears it, and then looks again; a drainer
//!   that finds a waiter sets it. So no thread that leaves misses a standing bit for good.
//! - I3: first come, first served: while WAITERS stands, only a member that was told, or granted, enters. A reader is told when all before it are readers; a
//!   writer's turn comes when it is first of all, and no told member has yet to try. A told reader that finds a writer waits again, in its old place.
//! - I4: a reservation is valid while its writer waits in the wait that it names. From then on no reader enters; the last reader inside that leaves, or backs
//!   out, drains. If the writer gives up, it drains, and the reservation goes.
//! - I5: the bit of a member does not count while its life word says that it is dead. A cleaner
//!   claims that word: then the bit counts again, until the cleaner clears it, before the slot has
//!   another occupant. So the cleaner drains afterwards.
//! - I6: a member has one bit, so it reads once. A second request of it is refused (`Own`): it would wait for itself.
//! - I7: the line and the inside are parts: they are made before their lock and removed after it.
//!   Their slots are used again only when the lock's was cleared, and that only when no bit stands
//!   in any of the three. So a thread that sets a bit by an old handle sees the lock's head, and
//!   clears the bit, before the slot is another object's. A thread that comes later still may set
//!   its bit in the inside of another lock. It sees the head too, and clears the bit. But a writer
//!   there may have found the bit, and wait for it to go: so the thread drains what is there by
//!   then. So does a late waiter of any object that had the slot (wait queue, I7).
//! - A death at each step: bit set, word not yet looked at: I5. Backed out and not drained, left
//!   and not drained, told, reserved: recovery drains. The writer's, also with its bit set to
//!   become a reader: TORN. If its remover dies half-way: a drainer of a part whose lock has gone
//!   takes the part out of service. A reader that leaves the arena in good order with a leaked
//!   guard condemns the lock for ever: references to the data may live.
//!
//! Ordering edges: E1 (SeqCst): set bit inside, read word, against swap word, read bits inside; likewise bits of a line against WAITERS.
//!
//! Progress: entering and leaving without waiters is wait-free for readers, lock-free for writers. A reader that was told, and is stopped before
//! it tries, holds up the writers behind it, as if it were inside.
//!
//! Explored: `tests/crash_rwlock.rs`.

use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, Map, Place};
use chappe_plat::atomic::{Ordering, pause};
use chappe_plat::{Life, step};
use chappe_wait::cell::Word;
use chappe_wait::kinds;
#[cfg(not(feature = "sim"))]
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Mode, Refused, Site, Taken};
#[cfg(not(feature = "sim"))]
use chappe_wait::operation::{Looking, look_by_taking};
use chappe_wait::owner;
#[cfg(not(feature = "sim"))]
use chappe_wait::owner::ABANDONED;
use chappe_wait::owner::{
    CONDEMNED, FREE, HELD, KEPT, RESERVED, TORN, WAITERS, held_by, is_condemned, load, member_of, pass, reserved_for,
    resolve, swap, update,
};
use chappe_wait::part::{head_of, whole};
use chappe_wait::wait::{
    Candidate, Grant, Party, RETRY, is_still, next, notify_dead, queue, tell, tried_and_next, waits_on, wake_elsewhere,
};

/// How many times a writer looks at readers that may be about to back out.
const LOOKS: u32 = if cfg!(any(feature = "sim", feature = "loom")) { 1 } else { 64 };

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Ours, and whole.
    Whole,
    /// Ours; an earlier writer died or panicked, and the data is as it left it.
    Torn,
    /// A member has it, or waits for it.
    Busy,
    /// This very member reads, or writes.
    Own,
    /// Condemned.
    Condemned,
    /// The lock was removed.
    Dead,
}

impl Entry {
    fn of(word: u64) -> Entry {
        if word & TORN != 0 { Entry::Torn } else { Entry::Whole }
    }

    /// The result for a choice. (The maker of the guard finds out whether a condemned lock is dead.)
    fn taken(self, me: &Party) -> Result<Taken, Refused> {
        let word = Word(held_by(me.member, me.generation));
        match self {
            Entry::Whole => Ok(Taken { position: 0, word }),
            Entry::Torn => Ok(Taken { position: 1, word }),
            Entry::Busy | Entry::Own => Err(Refused::NoneFree),
            Entry::Condemned | Entry::Dead => Err(Refused::Dead(0)),
        }
    }
}

/// The three slots of a lock: the lock itself, its line and its inside.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    pub map: &'static Map,
    /// The lock, where the writers wait.
    pub lock: Place,
    /// The line, where the readers wait.
    line: Place,
    /// The inside.
    inside: u32,
    /// The word of the free lock, without its number and flags.
    free: u64,
}

/// As [`Slots`], for a caller that has the arena for a moment only.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'m> {
    map: &'m Map,
    lock: Place,
    pub(crate) line: Place,
    pub(crate) inside: u32,
    pub(crate) free: u64,
}

/// A part of a lock in service or removed and not yet cleared, if it is its own.
fn part(map: &Map, index: u32, kind: Kind, lock: Place) -> Option<Place> {
    let head = head_of(map, index);
    let its =
        head.kind() == Some(kind) && !head.is_free() && whole(map, index)? == (lock.index, lock.head.generation());
    let place = Place { index, head: Head::live(head.generation(), kind) };
    its.then(|| {
        map.through(place);
        place
    })
}

impl<'m> Parts<'m> {
    /// The parts of a lock; none if the slot has gone meanwhile, or its words are invalid.
    pub(crate) fn of(map: &'m Map, lock: Place) -> Option<Parts<'m>> {
        map.through(lock);
        // Acquire: written before the lock was in service.
        let both = map.object(lock.index).slot.since.load(Ordering::Acquire);
        let at = |both: u64| (both as u32).checked_sub(1).filter(|index| *index < map.geometry().objects);
        let line = part(map, at(both)?, Kind::Line, lock)?;
        let inside = part(map, at(both >> 32)?, Kind::Inside, lock)?.index;
        Some(Parts { map, lock, line, inside, free: owner::high(lock.head) })
    }

    pub(crate) fn object(&self) -> &'m Object {
        self.map.object(self.lock.index)
    }

    /// I5: the members that read. A member that is just checking whether it may is among them for a moment.
    pub(crate) fn readers(self) -> impl Iterator<Item = u32> + 'm {
        let Parts { map, inside, .. } = self;
        // E1.
        let all = map
            .enlisted(inside)
            .flat_map(move |(first, bits)| (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| first + bit));
        all.filter(move |m| *m < map.geometry().members && map.member(*m).life.probe() != Life::Dead)
    }

    fn is_read(self) -> bool {
        self.readers().next().is_some()
    }

    pub(crate) fn reads(self, member: u32) -> bool {
        waits_on(self.map, self.inside, member)
    }

    fn is_live(self) -> bool {
        is_still(self.map, self.lock.index, self.lock.head)
    }

    pub(crate) fn out(self, member: u32) {
        // SeqCst: E1, before the look at the word.
        self.map.waiting(self.inside, member as usize / 64).fetch_and(!(1 << (member % 64)), Ordering::SeqCst);
    }

    /// A bit inside was cleared, by a reader that leaves or backs out: I4.
    pub(crate) fn drain_after(self) {
        step!("not inside any more, not yet looked who waits");
        if load(self.object()) & (7 | WAITERS) != FREE {
            kinds::drain(self.map, self.lock.index);
        }
    }

    /// Enters to read. `told`: it is this member's turn.
    fn enter(self, member: u32, told: bool) -> Entry {
        let o = self.object();
        let passes = |seen: u64| seen & 7 == FREE && (told || seen & WAITERS == 0);
        if self.reads(member) && self.is_live() {
            return Entry::Own;
        }
        let seen = load(o);
        if passes(seen) {
            // E1, before the second look at the word. A bit that stood already is not this lock's: the lock was removed.
            if self.map.enlist(self.inside, member) {
                return Entry::Dead;
            }
            step!("bit inside set, word not yet looked at");
            let seen = load(o);
            let is_live = self.is_live();
            if passes(seen) && is_live {
                return Entry::of(seen);
            }
            self.out(member);
            if is_live {
                self.drain_after();
            } else {
                // I7: the bit may have stood in the inside of another lock, and a writer may wait for it to go.
                kinds::drain(self.map, self.inside);
            }
        }
        self.refused(member)
    }

    /// Why the member does not enter.
    fn refused(self, member: u32) -> Entry {
        let seen = load(self.object());
        if !self.is_live() {
            Entry::Dead
        } else if is_condemned(seen) {
            Entry::Condemned
        } else if seen & 7 == HELD && member_of(seen) == member {
            Entry::Own
        } else {
            Entry::Busy
        }
    }

    /// Enters to write, if no member is inside or waits.
    fn enter_alone(self, member: u32, mine: u64) -> Entry {
        let o = self.object();
        if self.reads(member) && self.is_live() {
            return Entry::Own;
        }
        let seen = load(o);
        if seen & (7 | WAITERS) != FREE || self.is_read() || !self.is_live() || !swap(o, seen, mine | seen & KEPT) {
            return self.refused(member);
        }
        step!("held, not yet looked who reads");
        let mut left = LOOKS;
        while left > 0 && self.is_read() {
            pause();
            left -= 1;
        }
        // I1. It may have been removed meanwhile.
        if left == 0 && self.is_read() || !self.is_live() {
            self.leave_alone(mine);
            return self.refused(member);
        }
        Entry::of(seen)
    }

    /// Takes the lock that was reserved for wait `number` of ours, while the wait word still says so.
    fn collect(self, member: u32, mine: u64, number: u32) -> Entry {
        pass(self.object(), reserved_for(member, number), mine).map_or(Entry::Busy, Entry::of)
    }

    /// The writer leaves, to `to`. False: the lock no longer was the writer's.
    fn leave_to(self, mine: u64, to: u64) -> bool {
        let Some(seen) = pass(self.object(), mine, to) else { return false };
        step!("not written any more, not yet looked who waits");
        if seen & WAITERS != 0 || is_condemned(to) {
            kinds::drain(self.map, self.lock.index);
        }
        true
    }

    fn leave_alone(self, mine: u64) -> bool {
        self.leave_to(mine, self.free)
    }

    /// I2: a bit was set in a line.
    pub(crate) fn mark(self) {
        let o = self.object();
        // The exact word: a slot that is another kind's by now is not touched.
        update(o, || load(o), |seen| (seen & 7 >= FREE && self.is_live()).then_some(seen | WAITERS));
    }

    /// Whether a member was told, and has yet to try; and the next to enter, with whether it is a writer.
    fn first(self) -> (bool, Option<(Candidate, bool)>) {
        let (trying, reader) = tried_and_next(self.map, self.line);
        let writer = next(self.map, self.lock);
        let first = match (reader, writer) {
            (Some(r), Some(w)) if w.ticket < r.ticket => Some((w, true)),
            (Some(r), _) => Some((r, false)),
            (None, w) => w.map(|w| (w, true)),
        };
        (trying > 0, first)
    }

    pub(crate) fn drain(self) {
        let o = self.object();
        loop {
            let seen = load(o);
            match seen & 7 {
                HELD if is_condemned(seen) => {
                    notify_dead(self.map, self.lock.index, self.lock.head, &mut self.map.visitor());
                    return notify_dead(self.map, self.line.index, self.line.head, &mut self.map.visitor());
                }
                FREE => match self.first() {
                    // I3.
                    (true, Some((_, true)) | None) => return,
                    (false, None) => {
                        if self.nobody_waits(seen) {
                            return;
                        }
                    }
                    (_, Some((_, _))) if seen & WAITERS == 0 => self.mark(),
                    (_, Some((reader, false))) => {
                        tell(self.map, reader.member, reader.state, self.line.index, RETRY);
                    }
                    (false, Some((writer, true))) => {
                        if swap(o, seen, reserved_for(writer.member, writer.state.wait()) | seen & KEPT) {
                            step!("reserved, not yet looked who reads");
                        }
                    }
                },
                // I4. A reader inside drains when it leaves.
                RESERVED if !resolve(self.map, self.lock.index, o, seen, || !self.is_read()) => {}
                _ => return,
            }
            if !self.is_live() {
                return;
            }
        }
    }

    /// I2: clears WAITERS. False: look again.
    fn nobody_waits(self, seen: u64) -> bool {
        let o = self.object();
        if seen & WAITERS != 0 {
            if !swap(o, seen, seen & !WAITERS) {
                return false;
            }
            step!("said that nobody waits, not yet looked again");
            let (trying, first) = self.first();
            if trying || first.is_some() {
                self.mark();
                return false;
            }
        }
        wake_elsewhere(self.map, self.lock);
        wake_elsewhere(self.map, self.line);
        true
    }

    /// For a member that has leaked a guard: no other member may get the lock, nor the slot.
    #[cfg(not(feature = "sim"))]
    pub(crate) fn abandon(self, member: u32, mine: u64) {
        let o = self.object();
        let next = |seen: u64| {
            let is_had = self.reads(member) || seen & !KEPT == mine;
            let is_done = seen & 7 < FREE || is_condemned(seen) && seen & ABANDONED != 0;
            (is_had && !is_done).then_some(CONDEMNED | ABANDONED | seen & KEPT)
        };
        if update(o, || load(o), next).is_some() {
            kinds::drain(self.map, self.lock.index);
        }
    }
}

impl Slots {
    /// The slots of a lock; none if it has gone meanwhile.
    pub fn of(map: &'static Map, lock: Place) -> Option<Slots> {
        let Parts { line, inside, .. } = Parts::of(map, lock)?;
        Some(Slots { map, lock, line, inside, free: owner::high(lock.head) })
    }

    fn parts(&self) -> Parts<'static> {
        let Slots { map, lock, line, inside, free } = *self;
        [lock, line].into_iter().for_each(|place| map.through(place));
        Parts { map, lock, line, inside, free }
    }

    /// Where the lock is, its line, and its inside.
    #[cfg(any(feature = "sim", feature = "loom"))]
    pub fn places(&self) -> (Place, Place, u32) {
        (self.lock, self.line, self.inside)
    }

    /// A reader leaves.
    pub fn leave(&self, member: u32) {
        self.parts().out(member);
        self.parts().drain_after();
    }

    /// The writer leaves. False: the lock no longer was the writer's.
    pub fn leave_alone(&self, mine: u64) -> bool {
        self.parts().leave_alone(mine)
    }

    /// The writer becomes a reader, with no other writer in between.
    pub fn downgrade(&self, mine: u64) {
        let member = member_of(mine);
        // E1, before the word says FREE.
        self.map.enlist(self.inside, member);
        step!("reads and writes");
        self.parts().leave_alone(mine);
    }

    /// Marks the data as whole again (`false`) or torn (`true`). The caller is the writer.
    pub fn tear(&self, mine: u64, torn: bool) {
        let o = self.parts().object();
        owner::tear(o, || load(o), mine, torn);
    }

    /// Condemns the lock: no member gets it any more. The caller is the writer.
    pub fn condemn(&self, mine: u64) {
        self.parts().leave_to(mine, CONDEMNED);
    }

    /// Whether the lock is condemned.
    pub fn is_condemned(&self) -> bool {
        is_condemned(load(self.parts().object()))
    }

    /// Whether the word names this writer.
    #[cfg(not(feature = "sim"))]
    pub fn writes(&self, mine: u64) -> bool {
        load(self.parts().object()) & !KEPT == mine
    }

    /// Whether a member reads.
    #[cfg(not(feature = "sim"))]
    pub fn reads(&self, member: u32) -> bool {
        self.parts().reads(member)
    }

    /// The lock's users, as text.
    #[cfg(not(feature = "sim"))]
    pub fn in_use(&self) -> String {
        let (map, seen) = (self.map, load(self.parts().object()));
        let waiting = kinds::line(map, self.lock).len();
        let writer = (seen & 7 == HELD && !is_condemned(seen)).then(|| member_of(seen));
        let has = |member: u32, what: &str| {
            let who = map.who(member);
            format!("{what} by pid {} `{}`", who.pid, who.label)
        };
        let mut readers = self.parts().readers();
        let by = match (writer, readers.next()) {
            (Some(member), _) => has(member, "written"),
            (None, Some(member)) => has(member, &format!("read by {} thread(s), first", readers.count() + 1)),
            (None, None) => "locked by nobody".into(),
        };
        format!("{by}, {waiting} waiting")
    }

    /// Takes a lock that is to be removed, unless a member has it or waits.
    pub fn take_idle(&self, member: u32, mine: u64) -> bool {
        kinds::drain(self.map, self.lock.index);
        let idle = |at| queue(self.map, at).is_empty();
        let nobody = || idle(self.lock) && idle(self.line) && !self.parts().is_read();
        if self.is_condemned() {
            return nobody();
        }
        let taken = matches!(self.parts().enter_alone(member, mine), Entry::Whole | Entry::Torn);
        if taken && !nobody() {
            self.leave_alone(mine);
            return false;
        }
        taken
    }

    /// Takes it out of service: the lock first, I7. The caller holds `admin`.
    pub fn unmake(&self, admin: &Admin) {
        self.map.unmake(admin, self.lock);
        step!("lock dead, its parts not yet");
        self.map.unmake(admin, self.line);
        let inside = Head::live(head_of(self.map, self.inside).generation(), Kind::Inside);
        self.map.unmake(admin, Place { index: self.inside, head: inside });
    }
}

/// A lock as its readers wait for it.
#[derive(Clone, Copy)]
pub(crate) struct Reading(pub Slots);

/// A lock as its writers wait for it.
#[derive(Clone, Copy)]
pub(crate) struct Writing(pub Slots);

impl Arm for Reading {
    fn site(&self) -> Site {
        Site::of(self.0.map, self.0.line)
    }
    fn attempt(&self, me: &Party, _told: bool) -> Result<Taken, Refused> {
        self.try_enter(me.member).taken(me)
    }
    fn collect(&self, me: &Party, _grant: Option<Grant>, _number: u32, _aim: Mode) -> Collected {
        self.0.parts().enter(me.member, true).taken(me).map_or(Collected::Void, Collected::Taken)
    }
    #[cfg(not(feature = "sim"))]
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        if how == Looking::Dead { Ok(revive(&self.0).into()) } else { look_by_taking(self, me, how) }
    }
    fn give_back(&self, taken: Taken) {
        self.0.leave(member_of(taken.word.0));
    }
}

impl Arm for Writing {
    fn site(&self) -> Site {
        Site::of(self.0.map, self.0.lock)
    }
    fn attempt(&self, me: &Party, _told: bool) -> Result<Taken, Refused> {
        self.try_enter(me.member, held_by(me.member, me.generation)).taken(me)
    }
    fn collect(&self, me: &Party, _grant: Option<Grant>, number: u32, _aim: Mode) -> Collected {
        let entry = self.0.parts().collect(me.member, held_by(me.member, me.generation), number);
        entry.taken(me).map_or(Collected::Void, Collected::Taken)
    }
    #[cfg(not(feature = "sim"))]
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        if how == Looking::Dead { Ok(revive(&self.0).into()) } else { look_by_taking(self, me, how) }
    }
    fn give_back(&self, taken: Taken) {
        self.0.leave_alone(taken.word.0);
    }
}

impl Reading {
    pub fn try_enter(&self, member: u32) -> Entry {
        self.0.parts().enter(member, false)
    }
}

impl Writing {
    pub fn try_enter(&self, member: u32, mine: u64) -> Entry {
        self.0.parts().enter_alone(member, mine)
    }
}

/// Gives back what dead members have of the lock, or were granted; clears WAITERS if no member waits.
#[cfg(not(feature = "sim"))]
pub(crate) fn revive(slots: &Slots) -> bool {
    let Slots { map, lock, .. } = *slots;
    let seen = load(map.object(lock.index));
    let named = seen & 7 != FREE && member_of(seen) < map.geometry().members;
    if named && map.dead(member_of(seen)).is_some() {
        map.recover_dead();
    }
    kinds::drain(map, lock.index);
    true
}
