//! The ring of a private tube: bounded, many senders, many receivers, and nobody waits for one that is not running.
//!
//! A tube's two counting semaphores, messages and holes (nix-semaphores-tubes, 3), are the ring's own states. The slot is
//! claimed first, by a swap of its word; the two indices are hints, stored plainly, that may be behind (synthesis, 3.3.1,
//! claims by the index: who is stopped between claim and message then holds up all others).
//!
//! A position is a lap and a slot. A slot has two words:
//!
//! | word | | |
//! |---|---|---|
//! | `word` | lap, EMPTY, WRITING or FULL | EMPTY l: no position of this slot before lap l is to be used |
//! | `passed` | lap n, PENDING | positions of this slot before lap n have been passed over |
//!
//! ```text
//!            claim: swap           commit: store              take: swap
//!  EMPTY l ---------------> WRITING l ----------> FULL l ---------------------> EMPTY l+1
//!                               ^                   | passed over: swap            |
//!                               +--- next lap ------+---- EMPTY n -----------------+
//! ```
//!
//! So a message costs two locked operations, and there is neither a lock nor a fence in the fast path. A sender that was
//! descheduled between claim and commit is passed over by receivers as soon as there is a message behind it, and by senders
//! as soon as there is a hole. It finds out when it commits, takes its message back, and sends it again. So order is that of
//! the claim, or of the last one; and what one sender sends stays in order.
//!
//! Invariants:
//! - I1: who has claimed position p may write there until it commits; nobody else writes there before.
//! - I2: a receiver walks on from position p only if it was taken, or passed over for good: not PENDING, and then not FULL.
//! - I3: a position is passed over in three steps: the mark, PENDING; a fence for all threads; the mark for good. A sender
//!   commits in three: FULL; a fence for itself; a look at the mark. So of a receiver that walks on and the sender, one has
//!   seen the other (E2): either the receiver found FULL, or the sender takes its message back. It may find it taken: then it
//!   was received in time.
//! - I4: a position that is passed over is not claimed: who came to it by a hint that is behind would send there what a
//!   receiver finds before the sender's earlier message. If the mark comes in between, the claimer is told when it commits.
//! - I5: nobody claims p+1 unless p is claimed or passed over; and receivers take in the same order. So EMPTY and not passed
//!   over at a receiver's position: nothing is there, and nothing behind it is claimed. FULL of an earlier lap and not
//!   passed over at a sender's position: it is told that there is no hole. There may be some behind, of senders that came
//!   back late and could not be waited for: so many, they can be used after the next `take`, all at once.
//! - I6: a message is copied before it is taken; what was copied counts only if the swap then succeeds, from the very word
//!   that was read before. So a receiver may stop anywhere and holds up nobody.
//!
//! Races: R1 two claim one position: one swap. R2 two pass over one position: the mark only grows, and each makes it good
//! itself. R3 a mark against a claim: I4. R4 a mark against a commit: I3. R5 taking against taking back: one swap.
//!
//! Ordering edges: E1 (release/acquire) message before FULL; copy before EMPTY; both before the hint, so that who is led past
//! a position has seen what became of it. E2 (asymmetric) FULL / look at the mark
//! against mark / look at the word: the fence that costs is with who passes over, which is rare.
//!
//! Progress: `push` and `take` are lock-free. With one slot, or when all others are full, who is descheduled between claim
//! and commit keeps its slot. Each that is costs the others about one fence a lap. A hint that one has left behind, who was
//! descheduled between its swap and its store, is walked from there (3 ns a position).
//!
//! Deaths: a private tube's threads die together. One that ends without unwinding before it has committed, or taken back,
//! leaves its slot passed over for ever.
//!
//! Measured (pair, one thread, 1,024 slots of 8 bytes): 14-15 ns; with a swap for the commit 24; with a fence instead 21;
//! Vyukov's ring, where a descheduled sender holds up everybody, 13; crossbeam-channel 22.
//!
//! Explored: `tests/crash_ring.rs`, `tests/loom_ring.rs`. Left out: wrap-around of the lap (2^44 laps of a ring of 2^20).

use chappe_plat::atomic::{AtomicU64, Ordering, pause};
use chappe_plat::{fence, step};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};

const EMPTY: u64 = 0;
const WRITING: u64 = 1;
const FULL: u64 = 2;
const STATE: u64 = 3;
const PENDING: u64 = 1;
/// How many times one looks whether a sender that is just writing commits, before it is passed over.
const PATIENCE: u32 = if cfg!(any(feature = "sim", feature = "loom")) { 0 } else { 64 };

fn word(lap: u64, state: u64) -> u64 {
    lap << 2 | state
}

fn lap_of(word: u64) -> u64 {
    word >> 2
}

/// The first step of passing over (I3), from what was seen.
fn mark<T>(slot: &Slot<T>, seen: u64, lap: u64) -> Option<u64> {
    let mark = lap << 1 | PENDING;
    // SeqCst: E2, before the fence. A failure: somebody else marks.
    slot.passed.compare_exchange(seen, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok().then_some(mark)
}

/// On a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

struct Slot<T> {
    word: AtomicU64,
    passed: AtomicU64,
    message: Place<T>,
}

/// A message, so that it can be copied by words.
#[repr(C, align(8))]
struct Whole<T>(T);

/// Where a message lies.
struct Place<T>(UnsafeCell<MaybeUninit<Whole<T>>>);

impl<T> Place<T> {
    /// What lies there, or a mixture of what lies there now and then: which, its caller finds out.
    #[inline(always)]
    fn copied(&self) -> MaybeUninit<Whole<T>> {
        let mut copy = MaybeUninit::<Whole<T>>::uninit();
        let (from, to) = (self.0.get().cast::<MaybeUninit<u64>>(), copy.as_mut_ptr().cast::<MaybeUninit<u64>>());
        for i in 0..size_of::<Whole<T>>() / 8 {
            // SAFETY: both are so many words, aligned; a word of any bytes may be copied. Volatile: others may write there.
            unsafe { to.add(i).write(from.add(i).read_volatile()) };
        }
        copy
    }
}

impl<T> Slot<T> {
    /// Whether positions of this lap were passed over, or are about to be.
    fn is_passed(&self, lap: u64) -> bool {
        // Acquire: whoever marked has seen why.
        self.passed.load(Ordering::Acquire) >> 1 > lap
    }
}

/// A position that its claimer has yet to write.
#[must_use = "a slot that is claimed and never written is out of use"]
pub struct Claim<'r, T> {
    ring: &'r Ring<T>,
    position: u64,
}

impl<'r, T> Claim<'r, T> {
    /// Sends a message to the position, if that was not passed over meanwhile.
    ///
    /// # Errors
    /// The message: claim another position.
    #[inline]
    pub fn fill(self, message: T) -> Result<(), T> {
        let (slot, lap) = self.ring.at(self.position);
        let message = ManuallyDrop::new(message);
        // SAFETY: I1. Our own copy stays until it is known which of the two counts.
        unsafe { slot.message.0.get().cast::<T>().copy_from_nonoverlapping(&raw const *message, 1) };
        step!("written, not yet there");
        if self.ring.commit(slot, lap) { Ok(()) } else { Err(ManuallyDrop::into_inner(message)) }
    }

    /// Which: for models, whose scenes are copied.
    #[cfg(any(feature = "sim", feature = "loom"))]
    pub fn position(self) -> u64 {
        self.position
    }

    /// The claim of this position.
    #[cfg(any(feature = "sim", feature = "loom"))]
    pub fn of(ring: &'r Ring<T>, position: u64) -> Claim<'r, T> {
        Claim { ring, position }
    }
}

/// A ring of slots for messages.
pub struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// Positions are `lap << shift | slot`.
    shift: u32,
    /// Where the next to be taken is, or behind that.
    head: Apart,
    /// Where the next to be claimed is, or behind that.
    tail: Apart,
}

// SAFETY: a message is written by one thread and moved out by one (I1, I6); the words order the two (E1).
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// One with room for so many messages.
    ///
    /// # Panics
    /// If it is none.
    pub fn new(capacity: usize) -> Ring<T> {
        assert!(capacity > 0, "a ring without slots");
        let slot = || Slot {
            word: AtomicU64::new(word(0, EMPTY)),
            passed: AtomicU64::new(0),
            message: Place(UnsafeCell::new(MaybeUninit::uninit())),
        };
        fence::prepare();
        Ring {
            slots: (0..capacity).map(|_| slot()).collect(),
            shift: capacity.next_power_of_two().trailing_zeros(),
            head: Apart::default(),
            tail: Apart::default(),
        }
    }

    #[inline(always)]
    fn at(&self, position: u64) -> (&Slot<T>, u64) {
        (&self.slots[(position & ((1 << self.shift) - 1)) as usize], position >> self.shift)
    }

    #[inline(always)]
    fn next(&self, position: u64) -> u64 {
        let slot = position & ((1 << self.shift) - 1);
        if slot + 1 < self.slots.len() as u64 { position + 1 } else { ((position >> self.shift) + 1) << self.shift }
    }

    /// The position after this one, or further on if somebody has been there.
    fn onward(&self, position: u64, hint: &AtomicU64) -> u64 {
        // Acquire: E1.
        self.next(position).max(hint.load(Ordering::Acquire))
    }

    /// Sends a message, unless there is no hole: then it comes back.
    ///
    /// # Errors
    /// The message.
    #[inline]
    pub fn push(&self, message: T) -> Result<(), T> {
        let mut message = message;
        loop {
            let Some(claim) = self.claim() else { return Err(message) };
            match claim.fill(message) {
                Ok(()) => return Ok(()),
                Err(back) => message = back,
            }
        }
    }

    /// Claims the next position to be written, if there is a hole.
    #[inline]
    pub fn claim(&self) -> Option<Claim<'_, T>> {
        // Acquire: E1, what became of the positions before it.
        let mut position = self.tail.0.load(Ordering::Acquire);
        loop {
            let (slot, lap) = self.at(position);
            // Acquire: E1, what was there has been copied.
            let seen = slot.word.load(Ordering::Acquire);
            if seen & STATE == EMPTY && lap_of(seen) <= lap && !slot.is_passed(lap) {
                // AcqRel: as above; and whoever sees it sees what we gave up before, I5. Relaxed: look again.
                if slot.word.compare_exchange(seen, word(lap, WRITING), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    // Release: E1.
                    self.tail.0.store(self.next(position), Ordering::Release);
                    return Some(Claim { ring: self, position });
                }
            } else if self.is_behind_claims(slot, seen, lap) {
                position = self.onward(position, &self.tail.0);
            } else {
                position = self.past_a_stopped_one(position, seen)?;
            }
        }
    }

    /// Whether a sender's position was claimed or passed over.
    fn is_behind_claims(&self, slot: &Slot<T>, seen: u64, lap: u64) -> bool {
        lap_of(seen) > lap || (lap_of(seen) == lap && seen & STATE != EMPTY) || slot.is_passed(lap)
    }

    /// The slot still has what came there in an earlier lap. If that is only because a sender is stopped, and there is a
    /// hole behind, passes over the position.
    #[cold]
    fn past_a_stopped_one(&self, position: u64, seen: u64) -> Option<u64> {
        let (slot, lap) = self.at(position);
        let is_full = |slot: &Slot<T>, seen: u64| seen & STATE == FULL && !slot.is_passed(lap_of(seen));
        if is_full(slot, seen) {
            // I5.
            return None;
        }
        let mut behind = position;
        for _ in 1..self.slots.len() {
            behind = self.next(behind);
            let (other, its) = self.at(behind);
            // Acquire: E1, as in `claim`.
            let there = other.word.load(Ordering::Acquire);
            if there & STATE == EMPTY && lap_of(there) <= its && !other.is_passed(its) {
                self.pass_over(slot, lap + 1);
                return Some(self.next(position));
            }
            if lap_of(there) < its && is_full(other, there) {
                break;
            }
        }
        // Acquire: I5, after those behind. Unless it has changed meanwhile: then look again.
        (slot.word.load(Ordering::Acquire) != seen || slot.is_passed(lap)).then_some(position)
    }

    /// Makes a written message visible. False: its position was passed over, and nobody has received it.
    #[inline]
    fn commit(&self, slot: &Slot<T>, lap: u64) -> bool {
        // Release: E1, the message.
        slot.word.store(word(lap, FULL), Ordering::Release);
        // E2.
        fence::light();
        // Relaxed: after the fence; the swap below decides.
        let passed = slot.passed.load(Ordering::Relaxed) >> 1;
        passed <= lap || !self.take_back(slot, lap, passed)
    }

    #[cold]
    fn take_back(&self, slot: &Slot<T>, lap: u64, passed: u64) -> bool {
        step!("passed over, not yet taken back");
        // Relaxed, both: the message is ours all the time; a failure means that it was received.
        slot.word.compare_exchange(word(lap, FULL), word(passed, EMPTY), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Marks the positions of this slot before this lap as passed over.
    fn pass_over(&self, slot: &Slot<T>, lap: u64) {
        loop {
            // Acquire: I2, what is good already.
            let mut seen = slot.passed.load(Ordering::Acquire);
            if seen >> 1 >= lap && seen & PENDING == 0 {
                return;
            }
            if seen >> 1 < lap {
                let Some(mark) = mark(slot, seen, lap) else { continue };
                seen = mark;
            }
            // E2, for whoever marked.
            fence::heavy();
            // Release: I2, after the fence. A failure: it is good, or has grown.
            let _ = slot.passed.compare_exchange(seen, seen & !PENDING, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Marks a position, and no more: as one that is stopped then.
    #[cfg(feature = "loom")]
    pub fn begin_to_pass(&self, position: u64) {
        let (slot, lap) = self.at(position);
        // Relaxed: the swap is of what was seen.
        mark(slot, slot.passed.load(Ordering::Relaxed), lap + 1);
    }

    /// Takes the next message, if there is one.
    #[inline]
    pub fn take(&self) -> Option<T> {
        // Acquire: E1, what became of the positions before it.
        let mut position = self.head.0.load(Ordering::Acquire);
        loop {
            let (slot, lap) = self.at(position);
            // Acquire: E1, the message.
            let seen = slot.word.load(Ordering::Acquire);
            if seen == word(lap, FULL) {
                // It may be overwritten while it is copied; then the swap fails, and the copy is forgotten.
                let copy = slot.message.copied();
                // Release: E1, after the copy.
                if slot.word.compare_exchange(seen, word(lap + 1, EMPTY), Ordering::Release, Ordering::Relaxed).is_ok()
                {
                    // Release: E1.
                    self.head.0.store(self.next(position), Ordering::Release);
                    // SAFETY: I6, the swap has succeeded.
                    return Some(unsafe { copy.assume_init() }.0);
                }
            } else if lap_of(seen) > lap {
                position = self.onward(position, &self.head.0);
            } else {
                position = self.past_an_unwritten_one(position, seen)?;
            }
        }
    }

    /// There is no message at a receiver's position (yet). If one is behind it, passes over the position.
    #[cold]
    fn past_an_unwritten_one(&self, position: u64, seen: u64) -> Option<u64> {
        let (slot, lap) = self.at(position);
        // Acquire: I2.
        let passed = slot.passed.load(Ordering::Acquire);
        if passed >> 1 <= lap {
            if seen != word(lap, WRITING) {
                // I5.
                return None;
            }
            let mut left = PATIENCE;
            while left > 0 {
                left -= 1;
                pause();
                // Relaxed: the caller looks again.
                if slot.word.load(Ordering::Relaxed) != seen {
                    return Some(position);
                }
            }
            if !self.has_message_behind(position) {
                // Acquire: I5, after those behind. Unless it has changed meanwhile: then look again.
                let same = slot.word.load(Ordering::Acquire) == seen && !slot.is_passed(lap);
                return (!same).then_some(position);
            }
        }
        self.pass_over(slot, lap + 1);
        // Acquire: I2, after the mark was good.
        let now = slot.word.load(Ordering::Acquire);
        Some(if now == word(lap, FULL) { position } else { self.onward(position, &self.head.0) })
    }

    fn has_message_behind(&self, position: u64) -> bool {
        let mut behind = position;
        for _ in 1..self.slots.len() {
            behind = self.next(behind);
            let (slot, lap) = self.at(behind);
            // Acquire: as in `take`.
            let seen = slot.word.load(Ordering::Acquire);
            if seen == word(lap, FULL) {
                return true;
            }
            if seen & STATE == EMPTY && lap_of(seen) <= lap && !slot.is_passed(lap) {
                // I5.
                return false;
            }
        }
        false
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        struct Rest<'r, T>(&'r Ring<T>);
        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                while self.0.take().is_some() {}
            }
        }
        // If a message panics when it is dropped, those behind it are dropped all the same.
        let rest = Rest(self);
        while rest.0.take().is_some() {}
    }
}
