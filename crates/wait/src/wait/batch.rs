//! Batches: the waiters of an object in the order of arrival, so that a drainer finds the next one without a scan of all.
//!
//! A drainer that has scanned many waiters sorts them by their tickets and keeps the result: a *batch*. The next drainers take from its front, and
//! scan all again when it is used up. So N waiters cost one scan, one sort, and a few loads each. The bits and the members' words stay
//! authoritative: an entry is only a hint where to look.
//!
//! A batch lies in the memory of the process whose drainers use it, and dies with that process; so several processes may have batches of the
//! same object, and each finds its own way through the same queue. Batches are used for pools and semaphores that serve in the order of
//! arrival. Objects whose waiters often re-enter with old tickets (mutexes, barging semaphores), or that serve by priority, are always scanned.
//! Objects share a small number of batches.
//!
//! What the processes share are two words in the arena's header for the objects that share a batch, and one word a member:
//! - `batched`: some process may have a batch of all waiters with smaller tickets. It only grows.
//! - `late`: how often a waiter found its ticket to be smaller than `batched`, and so may lack in a batch. It only grows.
//! - `enlisting`, of each member: the ticket with which it is just setting its bits; 0: it is not. (A builder looks at the first members, and at those
//!   that say that they are joining: arena, far.rs.)
//!
//! The tag of a batch changes with each step of it:
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-19 | object | whose waiters they are |
//! | 20-21 | phase | NONE; CLAIMED: a drainer builds it; READY |
//! | 22-63 | version | one more with each claim |
//!
//! ```text
//!   NONE, READY -- claim --> CLAIMED -- entries, count, next, late --> READY, or NONE if there are few
//! ```
//!
//! `next` is the index of the first entry that may still wait, below the version, so that no drainer moves on a later batch. An entry is a
//! member (16 bits) below its ticket, of which it says by how much it is before the builder's bound: all ones for the bound itself. Where a waiter has come
//! earlier than that can tell (2^48 tickets), there is no batch.
//!
//! Invariants:
//! - B1: while the tag says READY and the arena's `late` is the batch's, each waiter of the object whose bit stands and whose ticket is smaller
//!   than the builder's bound has an entry, not before `next`. So the first entry whose waiter still waits is the smallest candidate.
//! - B2: an entry whose wait is over is so for ever: a wait that begins again with the same ticket is late.
//! - B3: only the drainer whose claim it was writes the entries, `count`, `before` (the bound) and `late`, and only before READY; so they are whole when READY is
//!   seen, and of the tag seen if the tag is the same afterwards.
//!
//! B1 follows from this order (E4, sequentially consistent). A waiter writes its ticket to `enlisting`; reads `batched`; adds one to `late` if
//! `batched` is greater than its ticket; sets its bits; writes 0 to `enlisting`. A builder reads `late`; raises `batched` to its bound, which is
//! the arena's next ticket; reads every `enlisting`, and lowers the bound to the smallest; reads the bits. A waiter that reads `batched` before
//! it is raised is seen in `enlisting`, or its bit is seen. A waiter that reads it afterwards counts itself late, after the builder has read
//! `late` and before its bit is set: the batch is void before the waiter is in line.
//!
//! Deaths: a thread that dies while it builds a batch leaves it CLAIMED: from then on its process scans the objects that share the batch, as all
//! objects are scanned without a batch. No other process looks there. A member that dies while enlisting is skipped, as it is dead; its
//! slot's cleaner clears the word. A forked child begins with no batch. What a dead process raised in `batched` costs later waiters nothing: their tickets are
//! greater. A stopped builder has the same effect until it goes on; while a waiter is stopped that is just enlisting, batches end at its
//! ticket, so that later waiters are scanned. So no thread waits for another here, and an `up` in a signal handler in the
//! middle of a build scans all.
//!
//! Progress: lock-free. A build is bounded by the number of members; it allocates nothing.
//!
//! Measured (`cargo xtask bench queue`, instructions outside of the kernel): see docs/benchmarks.md, "a long queue".
//!
//! Explored: `tests/crash_batch.rs`.

use super::discipline::{Discipline, is_barging};
use super::line::{Candidate, each, waits_at};
use super::parties::{Parties, Party};
use super::state::State;
use super::word::word_of;
use chappe_arena::layout::{Head, Kind, MAX_MEMBERS};
use chappe_arena::{Batch, Map, Place};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{Life, step};
use chappe_structures::stamp::Stamp;

/// With fewer waiters a scan of all is as quick.
pub const FEW: u32 = if cfg!(feature = "sim") { 1 } else { 16 };

const PHASE: u64 = 3 << 20;
const NONE: u64 = 0;
const CLAIMED: u64 = 1 << 20;
const READY: u64 = 3 << 20;
const OBJECT: u64 = (1 << 20) - 1;
type Version = Stamp<22, 42>;
/// The width of the low field of an entry (below the ticket) and of `next` (below the version).
const LOW: u32 = 16;
const MASK: u64 = (1 << LOW) - 1;
const _: () = assert!(MAX_MEMBERS as u64 <= MASK);

/// An entry. `None`: it has no room for so early a ticket.
fn entry(member: u32, ticket: u64, before: u64) -> Option<u64> {
    let early = before.wrapping_sub(ticket);
    (early <= u64::MAX >> LOW).then_some(!early << LOW | u64::from(member))
}

/// The member and the ticket of an entry.
fn taken_apart(entry: u64, before: u64) -> (u32, u64) {
    ((entry & MASK) as u32, before.wrapping_sub(!entry >> LOW))
}

/// The tag with another phase.
fn at(tag: u64, phase: u64) -> u64 {
    tag & !PHASE | phase
}

/// Whether the object's waiters may be in batches.
pub fn has_batches(map: &Map, object: u32) -> bool {
    let o = map.object(object);
    // Relaxed: the granter that finds a waiter looks at the head once more.
    let kind = Head(o.head.load(Ordering::Relaxed)).kind();
    let is_strict = match kind {
        Some(Kind::Pool) => true,
        Some(Kind::Semaphore) => !is_barging(o),
        _ => false,
    };
    is_strict && Discipline::of(o) == Discipline::Fifo
}

/// The waiter to be served first, if a batch names it; dead members excluded. None: scan all.
pub fn next(map: &Map, at: Place) -> Option<Candidate> {
    let batch = map.batch(at.index).filter(|_| has_batches(map, at.index))?;
    // Acquire: B3.
    let tag = batch.tag.load(Ordering::Acquire);
    if tag & (PHASE | OBJECT) != READY | u64::from(at.index) {
        return None;
    }
    loop {
        // Acquire: B3; as far as another drainer has come.
        let next = batch.next.load(Ordering::Acquire);
        let index = (next & MASK) as usize;
        // Acquire: B3, if the tag is the same below: what a later builder has written comes after its claim.
        let count = batch.count.load(Ordering::Acquire) as usize;
        let entry = (index < count).then(|| batch.entries.get(index)).flatten()?.load(Ordering::Acquire); // Acquire: as above.
        // Acquire: as above.
        let (member, ticket) = taken_apart(entry, batch.before.load(Ordering::Acquire));
        let found = waiting(map, at, member, ticket);
        // Acquire: B3, as the count.
        let late = batch.late.load(Ordering::Acquire);
        // SeqCst, both: E4, after whatever the caller has seen; B3, after all of that.
        if map.late(at.index).load(Ordering::SeqCst) != late || batch.tag.load(Ordering::SeqCst) != tag {
            return None;
        }
        if found.is_some() {
            return found;
        }
        // AcqRel: B2, the wait is over. A failure: another drainer has moved on.
        let _ = batch.next.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The wait of that ticket, if it is not over.
fn waiting(map: &Map, at: Place, member: u32, ticket: u64) -> Option<Candidate> {
    if member >= map.geometry().members {
        // The entry is of a batch that is being rewritten.
        return None;
    }
    let m = map.member(member);
    // SeqCst: before the bit, I1 of the wait queue.
    let state = State(word_of(map, member).0.load(Ordering::SeqCst));
    // Acquire, both: E2 of the wait queue.
    let (its, need) = (m.ticket.load(Ordering::Acquire), m.need.load(Ordering::Acquire));
    let waits = state.is_waiting() && its == ticket && waits_at(map, at, member);
    (waits && m.life.probe() != Life::Dead).then_some(Candidate { member, state, rank: 0, ticket, need })
}

/// Builds a batch of the object's waiters: there are many, and no batch has them.
#[cold]
pub fn build(map: &Map, whose: Place) {
    let object = whose.index;
    let Some(batch) = map.batch(object).filter(|_| has_batches(map, object)) else { return };
    // Relaxed: the claim below decides.
    let seen = batch.tag.load(Ordering::Relaxed);
    if seen & PHASE == CLAIMED {
        return;
    }
    let tag = Version::next(at(seen & !OBJECT, CLAIMED)) | u64::from(object);
    // SeqCst: B3, from here on it is ours.
    if batch.tag.compare_exchange(seen, tag, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return;
    }
    // SeqCst: E4, before `batched` is raised.
    let late = map.late(object).load(Ordering::SeqCst);
    batch.late.store(late, Ordering::Release); // Release: B3, after the claim.
    // SeqCst: a wait whose ticket is taken later is not in this batch.
    let mut before = map.header().ticket.load(Ordering::SeqCst);
    // SeqCst: E4, before the look at the waiters that are enlisting.
    map.batched(object).fetch_max(before, Ordering::SeqCst);
    for member in map.joining() {
        // SeqCst: E4, after `batched` was raised.
        let ticket = map.enlisting(member).map_or(0, |e| e.load(Ordering::SeqCst));
        if ticket != 0 && ticket < before && map.member(member).life.probe() != Life::Dead {
            before = ticket;
        }
    }
    let (mut count, mut fits) = (0, true);
    each(map, whose, |c| {
        if c.state.is_waiting() && c.ticket < before && count < batch.entries.len() {
            let Some(entry) = entry(c.member, c.ticket, before) else { return fits = false };
            // Release: B3, after the claim.
            batch.entries[count].store(entry, Ordering::Release);
            count += 1;
        }
    });
    sort(batch, count);
    batch.before.store(before, Ordering::Release); // Release: B3, after the claim.
    batch.count.store(count as u64, Ordering::Release); // Release: as above.
    batch.next.store(Version::of(tag) << LOW, Ordering::Release); // Release: B3, as the tag.
    // Release: B3. No other thread changes a claimed batch.
    batch.tag.store(at(tag, if fits && count > FEW as usize { READY } else { NONE }), Ordering::Release);
}

/// Heapsort: in place, since a signal handler may be here.
fn sort(batch: &Batch, count: usize) {
    // Relaxed: the drainer's own until READY, B3.
    let get = |i: usize| batch.entries[i].load(Ordering::Relaxed);
    // Release: B3, after the claim.
    let put = |i: usize, entry: u64| batch.entries[i].store(entry, Ordering::Release);
    let sift = |root: usize, end: usize| {
        let (mut hole, it) = (root, get(root));
        while hole * 2 + 1 < end {
            let left = hole * 2 + 1;
            let right = if left + 1 < end { get(left + 1) } else { 0 };
            let (child, larger) = if right > get(left) { (left + 1, right) } else { (left, get(left)) };
            if larger <= it {
                break;
            }
            put(hole, larger);
            hole = child;
        }
        put(hole, it);
    };
    (0..count / 2).rev().for_each(|root| sift(root, count));
    for end in (1..count).rev() {
        let (first, last) = (get(0), get(end));
        put(0, last);
        put(end, first);
        sift(0, end);
    }
}

/// A waiter that is about to set its bits.
pub(crate) struct Joining<'a> {
    who: &'a Parties,
    tickets: (u64, u64),
}

impl<'a> Joining<'a> {
    /// After its record is published, before its first bit.
    #[inline]
    pub fn begin(who: &'a Parties, tickets: (u64, u64)) -> Joining<'a> {
        let it = Joining { who, tickets };
        it.each(|party, word, ticket| {
            // SeqCst: E4, before `batched`.
            word.store(ticket, Ordering::SeqCst);
            party.map.begin_joining(party.member);
        });
        it
    }

    /// Before its bit on this object is set: voids the batches that may lack it.
    #[inline]
    pub fn before_bit(&self, map: &Map, object: u32) {
        if map.batch(object).is_none() || !has_batches(map, object) {
            return;
        }
        let is_private = self.who.private.is_some_and(|p| std::ptr::eq(p.map, map));
        let ticket = if is_private { self.tickets.1 } else { self.tickets.0 };
        // SeqCst: E4, after `enlisting`, before the bit.
        if map.batched(object).load(Ordering::SeqCst) > ticket {
            // SeqCst: B1, before the bit.
            map.late(object).fetch_add(1, Ordering::SeqCst);
            step!("late for a batch, bit not yet set");
        }
    }

    fn each(&self, then: impl Fn(&Party, &AtomicU64, u64)) {
        let main = (Some(&self.who.main), self.tickets.0);
        for (party, ticket) in [main, (self.who.private.as_ref(), self.tickets.1)] {
            if let Some((party, word)) = party.and_then(|p| Some((p, p.map.enlisting(p.member)?))) {
                then(party, word, ticket);
            }
        }
    }
}

impl Drop for Joining<'_> {
    /// All the waiter's bits are set, or it has given up.
    fn drop(&mut self) {
        // Release: E4, the bits come before.
        self.each(|party, word, _| {
            word.store(0, Ordering::Release);
            party.map.end_joining(party.member);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{MASK, entry, taken_apart};

    #[test]
    fn an_entry_names_every_member_and_keeps_the_order_of_the_tickets() {
        for before in [1u64 << 20, 1 << 48, (1 << 48) + 5, u64::MAX - 3] {
            let early = [1, 2, 4095, 4096, 1 << 19, (1 << 48) - 1];
            let of = |member: u32, early: u64| entry(member, before - early, before);
            for (early, member) in
                early.into_iter().filter(|early| *early < before).zip([0, 4095, 4096, 65_534].into_iter().cycle())
            {
                assert_eq!(taken_apart(of(member, early).unwrap(), before), (member, before - early));
                assert!(of(65_534, early) < of(0, early - 1), "{early} before {before}");
            }
        }
        assert_eq!(entry(7, 0, 1 << 48), None, "it came too early");
        assert_eq!(MASK, 0xffff);
    }
}
