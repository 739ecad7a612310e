//! The ring of a broadcast tube. Each record lies there once. Each subscription has a bit for each slot: 1, if the
//! slot's record is there for the subscription to take.
//!
//! ```text
//!             slot 0   slot 1   slot 2   slot 3       a slot: word | position | length | receivers | record
//!   word      FULL 4   FULL 5   WRITING  FULL 3
//!   wanted 0     1        0        1        0          of subscription 0: the low half of a word for 32 slots,
//!   wanted 1     0        1        0        0          and in the high half how many bits were ever set there
//! ```
//!
//! The word is `lap:45 | owner:16 | state:3`; position p lies in slot `p mod slots`, in lap `p div slots + 1`. Zeroed memory is an
//! empty ring: every slot has been empty for lap 0.
//!
//! | state | owner | meaning |
//! |---|---|---|
//! | EMPTY | | the slot has never held a record |
//! | WRITING | publisher | position p is claimed |
//! | FULL | | the record of position p is there |
//! | SKIPPED | publisher | positions up to p are over; their publisher still has the slot |
//! | VOID | | position p is over, and the slot holds no record |
//! | KEPT | | position p is over; an older record is still there for a subscription that drops the newest |
//!
//! ```text
//!            claim             bits, then commit
//!  lap l-1 ---------> WRITING l ---------------> FULL l -----------> (lap l+1)
//!                       |                          | still pinned: KEPT l+1
//!        passed over:   v      its publisher, or recovery
//!                    SKIPPED l ---------------------------> VOID l
//! ```
//!
//! To publish: claim a slot; clear the bits that stand there (of subscriptions that drop the oldest: each has lost a
//! record); write the record; set the bits of the subscriptions that want the record; commit by one swap. So a
//! publisher that is killed before the swap has sent to none, and one that is killed after it has sent to all. To take:
//! find the first record whose bit is set; copy it; clear the bit by a swap from the word that was read before. A
//! publisher that overwrites the record clears the bit before it writes: so if the swap succeeds, the copy is whole.
//!
//! Invariants:
//! - I1: the words of a slot only grow: by lap, and in a lap along the arrows.
//! - I2: a publisher walks on from a position only if that was claimed or is over: so when it comes to a position, all
//!   earlier ones are claimed or over. `tail` and `settled` are hints that may be behind. Before `settled` no position
//!   is WRITING.
//! - I3: only the publisher that has the slot WRITING sets a bit, and before its commit. So an observer that reads FULL
//!   sees all bits of the record, and a subscriber that has seen `settled` pass a position, and then no bit, gets no
//!   record from it.
//! - I4: before a subscriber that takes position p reads the bits, it has read that `settled` had reached p. If it had
//!   not, the subscriber settles the open positions: it waits a moment, then passes over the publishers that are
//!   writing. So all subscriptions see all records in one order.
//! - I5: a slot with a bit of a subscription that blocks is not claimed; a slot with a bit of a subscription that drops
//!   the newest becomes KEPT. So only a subscription that drops the oldest can find that a record is gone, or is
//!   overwritten while it copies it.
//! - I6: the high half of a word of bits grows with each bit that is set, and shrinks only when recovery, or a publisher that was passed over,
//!   takes back a bit of what was never sent. So the word is the same as before only if no bit was set again meanwhile: a swap
//!   from a word that was seen takes the record that was seen. And the sum of the high halves, less the bits that stand, less what was
//!   taken, is what was lost.
//! - I7: recovery, which clears bits of a dead publisher's slot, checks between reading and swapping the bits that the
//!   slot's word is still the dead publisher's: so a bit of a later record is not in the word that it read.
//!
//! Races:
//! - R1: two publishers claim one slot: one swap decides.
//! - R2: a commit races with being passed over: one swap decides.
//! - R3: taking races with overwriting: the word of the bit decides (I6).
//! - R4: two members recover one slot: I7, and one swap of the word.
//! - R5: a recoverer is stopped until the member's number has a new owner: after it has read the word, it checks that
//!   the death has not been recovered yet.
//!
//! Ordering edges:
//! - E1 (SeqCst): bits before commit, commit before `settled`, taking before the read of `room`; all swaps and reads of
//!   words are SeqCst.
//! - E2 (release fence): a publisher clears the bits of the previous record before it writes the bytes; a subscriber
//!   that swaps its bit after it has copied has whole bytes.
//!
//! Progress: lock-free. A publisher that is stopped while it writes delays subscribers for a moment; its slot is
//! unusable for as long as it is stopped.
//!
//! Deaths: recovery moves a dead publisher's WRITING or SKIPPED slot on as the table and the picture show. If a
//! publisher dies after a whole lap of others has passed it, recovery cannot tell whether a bit is that of the previous
//! record, which is lost, or of the record that was not sent: for a subscription that drops the oldest it counts as
//! lost.
//!
//! Explored: `tests/crash_broadcast.rs`. Left out: weak memory; 2^32 records for one word of bits while a taker is
//! stopped between two instructions.

pub mod place;

use chappe_arena::Visit;
use chappe_plat::atomic::{AtomicU64, Ordering, fence, pause};
use chappe_plat::step;
use place::{EMPTY, FULL, GROUP, KEPT, Mask, Ring, SKIPPED, Terms, VOID, WRITING, each, lap, owner, state, word};
use std::mem::MaybeUninit;

/// How many times a subscriber reads a slot that is being written before it passes the publisher over.
const PATIENCE: u32 = if cfg!(feature = "sim") { 0 } else { 256 };

/// A record that is there for a subscription.
struct Found {
    position: u64,
    slot: u32,
    /// The word of bits.
    seen: u64,
}

/// There is no room.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom;

enum Pin {
    Free,
    Blocked,
    Kept,
}

/// What a word says now.
#[inline(always)]
fn look(word: &AtomicU64) -> u64 {
    word.load(Ordering::SeqCst) // SeqCst: E1.
}

#[inline(always)]
fn swap(word: &AtomicU64, from: u64, to: u64) -> bool {
    // SeqCst, both: E1. A failure: another has changed it; the caller looks again.
    word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

impl Ring<'_> {
    /// Whether a position is over, or there.
    fn is_decided(&self, position: u64) -> bool {
        let (now, its) = (look(&self.slot(self.slot_of(position)).word), self.lap_of(position));
        lap(now) > its || (lap(now) == its && state(now) != WRITING)
    }

    /// How many positions were ever claimed.
    pub fn claimed(&self) -> u64 {
        look(&self.head.tail.0)
    }

    /// Says up to where all is decided. A recoverer leaves that to publishers and subscribers: it is a hint, and may be behind.
    fn settle(&self) {
        let from = look(&self.head.settled.0);
        let mut to = from;
        while to - from < u64::from(self.shape.slots) && self.is_decided(to) {
            to += 1;
        }
        if to > from {
            self.head.settled.0.fetch_max(to, Ordering::SeqCst); // SeqCst: E1.
        }
    }

    /// Decides the open positions before `to`: waits a moment, then passes over the publishers that are writing there.
    fn resolve(&self, from: u64, to: u64) {
        for position in from..to {
            let (at, mut patience) = (&self.slot(self.slot_of(position)).word, PATIENCE);
            while !self.is_decided(position) {
                let seen = look(at);
                if patience > 0 {
                    patience -= 1;
                    pause();
                } else if state(seen) == WRITING && lap(seen) == self.lap_of(position) {
                    swap(at, seen, word(lap(seen), owner(seen), SKIPPED));
                }
            }
        }
        self.settle();
    }

    fn bit(slot: u32) -> u64 {
        1 << (slot % GROUP)
    }

    /// Whether a subscription's bit of a slot stands.
    #[inline(always)]
    fn has_bit(&self, who: u32, slot: u32) -> bool {
        look(&self.wanted(who)[(slot / GROUP) as usize]) & Self::bit(slot) != 0
    }

    /// Sets it, and counts it.
    #[inline(always)]
    fn give(&self, who: u32, slot: u32) {
        let at = &self.wanted(who)[(slot / GROUP) as usize];
        loop {
            let seen = look(at);
            if swap(at, seen, (seen | Self::bit(slot)).wrapping_add(1 << 32)) {
                return;
            }
        }
    }

    /// Takes a bit away while `is_ours` says that the slot is as it was; `unsent`: it is not counted either.
    fn take_away(&self, who: u32, slot: u32, unsent: bool, is_ours: impl Fn() -> bool) {
        let at = &self.wanted(who)[(slot / GROUP) as usize];
        loop {
            let seen = look(at);
            if seen & Self::bit(slot) == 0 || !is_ours() {
                return;
            }
            let less = if unsent { 1 << 32 } else { 0 };
            if swap(at, seen, (seen & !Self::bit(slot)).wrapping_sub(less)) {
                return;
            }
        }
    }

    /// Whether somebody still needs what is in a slot.
    fn pin(&self, slot: u32) -> Pin {
        let mask = self.mask(slot);
        let mut kept = false;
        for who in each(&mask).filter(|who| *who < self.shape.subscriptions && self.has_bit(*who, slot)) {
            let sub = self.sub(who);
            match Terms::of(look(&sub.terms)) {
                _ if look(&sub.owner) == 0 => {}
                Terms::Block => return Pin::Blocked,
                Terms::Newest(_) => kept = true,
                Terms::Oldest => {}
            }
        }
        if kept { Pin::Kept } else { Pin::Free }
    }

    fn mask(&self, slot: u32) -> Mask {
        // Relaxed: of a slot that is not being written, seen with its word; else the caller looks at all.
        self.slot(slot).mask.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    /// Claims a position.
    fn claim(&self, me: u16) -> Result<u64, NoRoom> {
        let mut position = look(&self.head.tail.0);
        let mut passed = 0;
        while passed <= self.shape.slots {
            let (slot, its) = (self.slot_of(position), self.lap_of(position));
            let at = &self.slot(slot).word;
            let seen = look(at);
            if lap(seen) >= its {
                position += 1;
                // A publisher that is far behind skips ahead instead of walking all the way.
                position = position.max(look(&self.head.tail.0));
                continue;
            }
            let next = match state(seen) {
                WRITING | SKIPPED => word(its, owner(seen), SKIPPED),
                EMPTY => word(its, me, WRITING),
                _ => match self.pin(slot) {
                    Pin::Free => word(its, me, WRITING),
                    Pin::Kept => word(its, 0, KEPT),
                    // What was seen may be over by now.
                    Pin::Blocked if look(at) != seen => continue,
                    Pin::Blocked => return Err(NoRoom),
                },
            };
            if swap(at, seen, next) {
                self.head.tail.0.fetch_max(position + 1, Ordering::SeqCst); // SeqCst: E1; I2, a hint.
                if state(next) == WRITING {
                    return Ok(position);
                }
                position += 1;
                passed += 1;
            }
        }
        Err(NoRoom)
    }

    /// Whether a claim would find room, as far as can be seen without one.
    pub fn has_room(&self) -> bool {
        let from = look(&self.head.tail.0);
        for position in from..from + u64::from(self.shape.slots) {
            let seen = look(&self.slot(self.slot_of(position)).word);
            match state(seen) {
                WRITING | SKIPPED => {}
                EMPTY => return true,
                _ => match self.pin(self.slot_of(position)) {
                    Pin::Free => return true,
                    Pin::Blocked => return false,
                    Pin::Kept => {}
                },
            }
        }
        false
    }

    /// Removes from `wanted` the subscriptions that drop the newest and have no room for one more; counts the record as
    /// dropped there.
    pub fn narrow(&self, wanted: &mut Mask) {
        let all = *wanted;
        for who in each(&all) {
            if let Terms::Newest(most) = Terms::of(look(&self.sub(who).terms))
                && self.pending(who) >= most
            {
                self.sub(who).dropped.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
                wanted[who as usize / 64] &= !(1 << (who % 64));
            }
        }
    }

    /// Sends a record to the subscriptions in `wanted`: to all of them, or to none.
    #[inline]
    pub fn publish(&self, me: u16, record: &[u8], wanted: &Mask) -> Result<(), NoRoom> {
        assert!(record.len() <= self.shape.size as usize, "a record of {} bytes", record.len());
        loop {
            let position = self.claim(me)?;
            if self.publish_at(me, position, record, wanted) {
                return Ok(());
            }
        }
    }

    /// All of it but the commit: what a publisher that dies in the middle leaves.
    #[cfg(feature = "sim")]
    pub fn half_publishes(&self, me: u16, record: &[u8], wanted: &Mask) {
        if let Ok(position) = self.claim(me) {
            self.fill(position, record, wanted);
        }
    }

    /// False: it was passed over.
    fn publish_at(&self, me: u16, position: u64, record: &[u8], wanted: &Mask) -> bool {
        self.fill(position, record, wanted);
        let (slot, its) = (self.slot_of(position), self.lap_of(position));
        let s = self.slot(slot);
        if swap(&s.word, word(its, me, WRITING), word(its, 0, FULL)) {
            self.settle();
            return true;
        }
        each(wanted).for_each(|who| self.take_away(who, slot, true, || true));
        self.let_go(slot, me);
        false
    }

    /// Writes the record of a position that is ours, and sets the bits of those who want it.
    #[inline(always)]
    fn fill(&self, position: u64, record: &[u8], wanted: &Mask) {
        let slot = self.slot_of(position);
        let s = self.slot(slot);
        // A record whose bit is cleared here is lost to a subscription that drops the oldest. (No bit is of one that
        // blocks: I5.)
        for who in each(&self.mask(slot)).filter(|who| *who < self.shape.subscriptions) {
            self.take_away(who, slot, false, || true);
        }
        fence(Ordering::Release); // E2: the bits before the bytes.
        // Relaxed, all: published by the commit; E2.
        s.at.store(position, Ordering::Relaxed);
        for (word, value) in s.mask.iter().zip(wanted) {
            word.store(*value, Ordering::Relaxed); // Relaxed: as above.
        }
        s.len.store(record.len() as u64, Ordering::Relaxed); // Relaxed: as above.
        self.write(slot, record);
        step!("written, nobody's yet");
        each(wanted).for_each(|who| self.give(who, slot));
    }

    /// A slot whose position was passed over is free again.
    fn let_go(&self, slot: u32, me: u16) {
        let at = &self.slot(slot).word;
        loop {
            let seen = look(at);
            if state(seen) != SKIPPED || owner(seen) != me || swap(at, seen, word(lap(seen), 0, VOID)) {
                return;
            }
        }
    }

    /// The first record that is there for a subscription which has seen all before `next`.
    fn first(&self, who: u32, next: u64) -> Option<Found> {
        let (wanted, start) = (self.wanted(who), self.slot_of(next));
        let (group, low) = ((start / GROUP) as usize, (1u64 << (start % GROUP)) - 1);
        let mut best: Option<Found> = None;
        for k in 0..=wanted.len() {
            let at = (group + k) % wanted.len();
            let seen = look(&wanted[at]);
            let mut bits = seen & 0xffff_ffff;
            if k == 0 {
                bits &= !low;
            }
            if k == wanted.len() {
                bits &= low;
            }
            while bits != 0 {
                let slot = at as u32 * GROUP + bits.trailing_zeros();
                bits &= bits - 1;
                let now = look(&self.slot(slot).word);
                let position = match state(now) {
                    FULL => self.position(lap(now), slot),
                    // Relaxed: seen with the word; E2, looked at again.
                    KEPT => self.slot(slot).at.load(Ordering::Relaxed),
                    _ => continue,
                };
                let found = Found { position, slot, seen };
                let expected = next + u64::from(slot.wrapping_sub(start) & (self.shape.slots - 1));
                if best.is_none() && position == expected {
                    return Some(found);
                }
                if best.as_ref().is_none_or(|best| position < best.position) {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// Whether something is there for a subscription.
    pub fn has(&self, who: u32) -> bool {
        // Relaxed: only its owner writes it; anybody else's guess serves as well.
        self.first(who, self.sub(who).next.load(Ordering::Relaxed)).is_some()
    }

    /// Takes the next record of a subscription, which is the caller's; its bytes.
    #[inline]
    pub fn take(&self, who: u32, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
        assert!(buffer.len() >= self.shape.size as usize, "a buffer of {} bytes", buffer.len());
        let sub = self.sub(who);
        loop {
            // I4: before the look at the bits.
            let settled = look(&self.head.settled.0);
            let next = sub.next.load(Ordering::Relaxed); // Relaxed: ours.
            let found = self.first(who, next)?;
            if settled < found.position {
                self.resolve(settled, found.position);
                continue;
            }
            let len = self.read(found.slot, buffer);
            // E2: a publisher that overwrites the record clears the bit before it writes.
            let at = &self.wanted(who)[(found.slot / GROUP) as usize];
            if !swap(at, found.seen, found.seen & !Self::bit(found.slot)) {
                continue;
            }
            sub.next.store(found.position + 1, Ordering::Relaxed); // Relaxed: ours.
            sub.taken.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
            return Some(len);
        }
    }

    /// How many records are there for a subscription, those that are just being written too.
    pub fn pending(&self, who: u32) -> u32 {
        self.wanted(who).iter().map(|word| (look(word) as u32).count_ones()).sum()
    }

    /// How many it has lost because it was too slow, modulo 2^32.
    pub fn lost(&self, who: u32) -> u32 {
        let gone = |word: &AtomicU64| {
            let seen = look(word);
            ((seen >> 32) as u32).wrapping_sub((seen as u32).count_ones())
        };
        let taken = self.sub(who).taken.load(Ordering::SeqCst) as u32; // SeqCst: before what may grow.
        let gone = self.wanted(who).iter().map(gone).fold(0, u32::wrapping_add);
        let lost = gone.wrapping_sub(taken);
        // An observer that reads while a record is taken may see it counted on one side only.
        if lost > u32::MAX / 2 { 0 } else { lost }
    }

    /// A subscription begins. The caller holds `admin`, and nobody has it.
    pub fn begin(&self, who: u32, terms: Terms) {
        let sub = self.sub(who);
        for word in self.wanted(who) {
            // SeqCst: E1; a late publisher's bit is a record that is sent from here on.
            word.store(0, Ordering::SeqCst);
        }
        // Relaxed, all: published by the owner.
        sub.terms.store(terms.number(), Ordering::Relaxed);
        sub.next.store(look(&self.head.settled.0), Ordering::Relaxed); // Relaxed: as above.
        sub.taken.store(0, Ordering::Relaxed); // Relaxed: as above.
        sub.dropped.store(0, Ordering::Relaxed); // Relaxed: as above.
        sub.waiter.store(0, Ordering::Relaxed); // Relaxed: as above.
        sub.len.store(0, Ordering::Relaxed); // Relaxed: as above.
    }

    /// What becomes of what a subscription is too slow for.
    pub fn terms(&self, who: u32) -> Terms {
        Terms::of(look(&self.sub(who).terms))
    }

    /// Makes up for what a dead member was writing. `is_dead` is asked after its word was read.
    pub fn recover(&self, _: &Visit<'_>, member: u16, is_dead: impl Fn() -> bool) {
        for slot in 0..self.shape.slots {
            let s = self.slot(slot);
            loop {
                let seen = look(&s.word);
                if !matches!(state(seen), WRITING | SKIPPED) || owner(seen) != member || !is_dead() {
                    break;
                }
                // Relaxed: what its owner wrote before it died, if it came so far.
                let unsent = self.lap_of(s.at.load(Ordering::Relaxed)) == lap(seen);
                for who in 0..self.shape.subscriptions {
                    // I5: of the others nothing was there when it was claimed.
                    let unsent = unsent || self.terms(who) != Terms::Oldest;
                    self.take_away(who, slot, unsent, || look(&s.word) == seen);
                }
                swap(&s.word, seen, word(lap(seen), 0, VOID));
            }
        }
    }

    /// Whether a member has a slot.
    pub fn is_used_by(&self, member: u16) -> bool {
        (0..self.shape.slots).any(|slot| {
            let seen = look(&self.slot(slot).word);
            matches!(state(seen), WRITING | SKIPPED) && owner(seen) == member
        })
    }
}
