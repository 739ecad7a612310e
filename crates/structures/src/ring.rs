//! The ring of a private tube: bounded, with many senders and receivers. No thread waits for a thread that is not running.
//!
//! A tube's two counting semaphores, messages and holes (nix-semaphores-tubes, 3), are the states
//! of the ring's own slots. A thread first claims a slot by a swap of its word; the two indices are
//! hints, stored plainly, that may be behind. (Synthesis, 3.3.1, claims by the index: a thread
//! stopped between claim and message then holds up all others.) Terms: `book/src/glossary.md`.
//!
//! A position is a lap and a slot. A slot has two words:
//!
//! | word | | |
//! |---|---|---|
//! | `word` | lap, EMPTY, WRITING, FULL or READING | EMPTY l: no position of this slot before lap l is to be used |
//! | `passed` | lap n, PENDING | positions of this slot before lap n have been passed over |
//!
//! ```text
//!            claim: swap           commit: store              take: swap
//!  EMPTY l ---------------> WRITING l ----------> FULL l ----------------------> EMPTY l+1
//!                                                   | |  swap              store |
//!                                                   | +----> READING l ----------+
//!                                                   |
//!                                                   +-- taken back: swap --> EMPTY n
//!   EMPTY l is claimed in lap l or, if that was passed over, in a later one: -> WRITING m
//! ```
//!
//! A sender whose position was passed over takes its message back; n is the lap in `passed`. One that has no message after all passes
//! its position over itself, and gives the slot up: EMPTY n from WRITING (`give_up`).
//! READING is for choices, where a message is chosen before its destination is known
//! (`claim_message`). Receivers walk on past it, as past a message that was taken. Senders pass
//! over such a slot as over one that is being written, by the mark alone. Only the claimer ends
//! READING, when it has read.
//!
//! The slots lie on a *track*: a fixed number of slots, used lap after lap, or a chain that grows (see there), where no lap is
//! used twice and a sender never finds all slots full. A chain gives memory back to the kernel, so a thread that follows an old
//! name may find zeroes there. Laps stand inverted in the words: a word of zeroes is of a lap later than any, and the thread goes
//! on.
//!
//! So a message costs two locked operations, and there is neither a lock nor a fence in the fast
//! path. Receivers pass over a sender that was descheduled between claim and commit as soon as
//! there is a message behind it, and senders pass over it as soon as there is a hole. It finds out
//! when it commits, takes its message back (unless a receiver has taken it: then it was received),
//! and sends it again. So messages are in the order of their (last) claims, and what one sender
//! sends stays in order.
//!
//! Invariants:
//! - I1: the claimer of position p may write there until it commits; no other thread writes there before.
//! - I2: a receiver walks on from position p only if its message was taken, or if it finds that p
//!   is passed over for good (the mark without PENDING), and looks at the word after that, which is
//!   not FULL.
//! - I3: a position is passed over in three steps: the mark, PENDING; a fence for all threads; the mark for good. A sender
//!   commits in three: FULL; a fence for itself; a look at the mark. So of a receiver that walks on and the sender, one has
//!   seen the other (E2): either the receiver found FULL, or the sender takes its message back. If the sender finds the message taken, it
//!   was received in time.
//! - I4: a position that is passed over is not claimed. Otherwise a sender led there by a hint that
//!   is behind would put its next message before its last one. If the mark comes in between, the
//!   claimer is told when it commits.
//! - I5: no thread claims p+1 unless p is claimed or passed over; and receivers take in the same order. So EMPTY and not passed
//!   over at a receiver's position: nothing is there, and nothing behind it is claimed. FULL of an earlier lap and not
//!   passed over at a sender's position: the sender is told that the ring is full. There may be holes behind that position all the same:
//!   those of senders that came back late and were passed over. All of them can be used after the next `take`.
//! - I6: a message is copied before it is taken; the copy counts only if the swap then succeeds, from the very word
//!   that was read before. So a receiver may stop anywhere and holds up no other thread.
//! - I7: where there is only one sender it needs no claim: it writes, then stores FULL. EMPTY and
//!   not passed over at a receiver's position still means that nothing is behind. (For one sender
//!   and one receiver there is `spsc`. One receiver of many senders swaps like many: a sender that
//!   was passed over may take its message back just then.)
//!
//! Races: R1 two claim one position: one swap. R2 two pass over one position: the mark only grows, and each makes it good
//! itself. R3 a mark against a claim: I4. R4 a mark against a commit: I3. R5 taking against taking back: one swap.
//!
//! Ordering edges: E1 (release/acquire) message before FULL; copy before EMPTY; both before the hint, so that a thread led past
//! a position has seen what became of it. E2 (asymmetric) FULL / look at the mark
//! against mark / look at the word: the thread that passes over, which is rare, executes the expensive fence.
//!
//! Progress: `push` and `take` are lock-free. With one slot, or when all others are full, a thread descheduled between claim
//! and commit keeps its slot. Each such thread costs the others about one fence a lap. A thread that was descheduled between its swap and its
//! store of the hint may set the hint back; the others walk on from there (3 ns a position).
//!
//! Deaths: a private tube's threads die together. A thread that ends without unwinding before it has committed, or taken back,
//! leaves its slot passed over for ever.
//!
//! Measured (pair, one thread, 1,024 slots of 8 bytes): 14-15 ns; with a swap for the commit 24; with a fence instead 21;
//! Vyukov's ring, where a descheduled sender holds up all other threads, 13; crossbeam-channel 22.
//!
//! Explored: `tests/crash_ring.rs`, `tests/crash_ring_queue.rs`, `tests/loom_ring.rs`. Left out: wrap-around of the lap (2^44
//! laps of a ring of 2^20).

mod segmented;
mod slots;
mod spsc;
#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
mod tests;
mod word;

pub use segmented::Segmented;
pub use slots::{Fixed, Slots};
pub use spsc::Spsc;

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, pause};
use chappe_plat::{fence, step};
use slots::{End, Off, Slot};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use word::{EMPTY, FULL, READING, STATE, WRITING, check, is_later, lap_of, word};

const PENDING: u64 = 1;
/// How many times a thread looks whether a writer or reader of a slot is done, before it passes over the slot.
const PATIENCE: u32 = if cfg!(any(feature = "sim", feature = "loom")) { 0 } else { 64 };

/// The first step of passing over (I3), from what was seen.
fn mark<T>(slot: &Slot<T>, seen: u64, lap: u64) -> Option<u64> {
    let mark = lap << 1 | PENDING;
    // SeqCst: E2, before the fence. A failure: another thread marks.
    slot.passed.compare_exchange(seen, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok().then_some(mark)
}

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// A position that its claimer has yet to write, or whose message it has yet to read.
#[must_use = "a slot that is claimed and then left is out of use"]
pub struct Claim<'r, T> {
    slot: &'r Slot<T>,
    lap: u64,
}

impl<'r, T> Claim<'r, T> {
    /// Sends a message to the position, if that was not passed over meanwhile.
    ///
    /// # Errors
    /// The message: claim another position.
    #[inline]
    pub fn fill(self, message: T) -> Result<(), T> {
        let message = ManuallyDrop::new(message);
        // SAFETY: I1. Our own copy stays until it is known which of the two counts.
        unsafe { self.slot.message.get().copy_from_nonoverlapping(&raw const *message, 1) };
        step!("written, not yet there");
        if commit(self.slot, self.lap) { Ok(()) } else { Err(ManuallyDrop::into_inner(message)) }
    }

    /// Receives the message of a position that was claimed to be read.
    #[inline]
    pub fn read(self) -> T {
        // SAFETY: from FULL to READING it became ours alone.
        let message = unsafe { self.slot.message.get().read() };
        step!("read, not yet given up");
        // Release: E1, after the copy.
        self.slot.word.store(word(self.lap + 1, EMPTY), Ordering::Release);
        message
    }

    /// As a number.
    pub fn number(self) -> u64 {
        std::ptr::from_ref(self.slot) as u64
    }

    /// The claim with this number.
    ///
    /// # Safety
    /// It is a claim's, of a ring that is still there, and is used once.
    pub unsafe fn of(slot: u64) -> Claim<'r, T> {
        // SAFETY: by the caller's promise; a slot does not move.
        let slot = unsafe { &*(slot as *const Slot<T>) };
        // Relaxed: it says WRITING or READING, and only we change it.
        Claim { slot, lap: lap_of(slot.word.load(Ordering::Relaxed)) }
    }

    /// As [`Claim::of`], for a known lap: loom tries fewer orders for a thread that loads a word before it stores there.
    ///
    /// # Safety
    /// As [`Claim::of`].
    #[cfg(feature = "loom")]
    pub unsafe fn of_lap(slot: u64, lap: u64) -> Claim<'r, T> {
        // SAFETY: by the caller's promise; a slot does not move.
        Claim { slot: unsafe { &*(slot as *const Slot<T>) }, lap }
    }
}

/// A ring of slots for messages.
pub struct Ring<T, K: Slots<T> = Fixed<T>> {
    track: K,
    /// Whether a position was ever passed over.
    passed: AtomicU32,
    /// Whether a message has panicked when it was dropped: the messages that are left are not dropped.
    leaks: AtomicU32,
    /// Where the next to be taken is, or behind that.
    head: Apart,
    /// Where the next to be claimed is, or behind that.
    tail: Apart,
    messages: PhantomData<T>,
}

// SAFETY: a message is written by one thread and moved out by one (I1, I6); the words order the two (E1).
unsafe impl<T: Send, K: Slots<T>> Send for Ring<T, K> {}
// SAFETY: as above.
unsafe impl<T: Send, K: Slots<T>> Sync for Ring<T, K> {}

impl<T> Ring<T> {
    /// A ring with room for so many messages.
    ///
    /// # Panics
    /// If the number is 0, or the memory for so many is beyond what can be addressed.
    pub fn new(capacity: usize) -> Ring<T> {
        assert!(capacity > 0, "a ring without slots");
        check::<Slot<T>>(capacity);
        Ring::on(Fixed::new(capacity))
    }
}

impl<T> Ring<T, Segmented<T>> {
    /// A ring without a bound.
    pub fn unbounded() -> Ring<T, Segmented<T>> {
        Ring::on(Segmented::new())
    }
}

impl<T, K: Slots<T>> Ring<T, K> {
    fn on(track: K) -> Ring<T, K> {
        fence::prepare();
        let (head, tail) = (Apart::default(), Apart::default());
        Ring { track, passed: AtomicU32::new(0), leaks: AtomicU32::new(0), head, tail, messages: PhantomData }
    }

    /// The number of slots; `None`: unbounded.
    pub fn capacity(&self) -> Option<usize> {
        self.track.capacity()
    }

    /// Where a thread looks again whose position no longer lies anywhere.
    #[cold]
    fn again(&self, first: u64, hint: &AtomicU64) -> u64 {
        // Acquire: E1.
        first.max(hint.load(Ordering::Acquire))
    }

    /// The position after this one, or further on if the hint says that another thread has come further.
    fn onward(&self, position: u64, hint: &AtomicU64) -> u64 {
        // Acquire: E1.
        self.track.next(position).max(hint.load(Ordering::Acquire))
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

    /// As [`Ring::push`], where no other thread sends (I7).
    ///
    /// # Errors
    /// As [`Ring::push`].
    #[inline]
    pub fn push_alone(&self, message: T) -> Result<(), T> {
        // Relaxed: it is ours.
        let mut position = self.tail.0.load(Ordering::Relaxed);
        let Some((slot, lap, _)) = self.back(&mut position) else { return Err(message) };
        // SAFETY: I7, no other thread claims it.
        unsafe { slot.message.get().write(message) };
        step!("written, not yet there");
        // Release: E1, the message.
        slot.word.store(word(lap, FULL), Ordering::Release);
        // Release: E1.
        self.tail.0.store(self.track.next(position), Ordering::Release);
        Ok(())
    }

    /// Claims the next position to be written, if there is a hole.
    #[inline]
    pub fn claim(&self) -> Option<Claim<'_, T>> {
        // Acquire: E1, what became of the positions before it.
        let mut position = self.tail.0.load(Ordering::Acquire);
        loop {
            let (slot, lap, seen) = self.back(&mut position)?;
            // AcqRel: as above; and a thread that sees it sees what we gave up before, I5. Relaxed: look again.
            if slot.word.compare_exchange(seen, word(lap, WRITING), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // Release: E1.
                self.tail.0.store(self.track.next(position), Ordering::Release);
                return Some(Claim { slot, lap });
            }
        }
    }

    /// Whether a position can be claimed.
    pub fn has_hole(&self) -> bool {
        // Acquire: as in `claim`.
        self.track.capacity().is_none() || self.back(&mut self.tail.0.load(Ordering::Acquire)).is_some()
    }

    /// The next position that can be claimed, from this one on: its slot, its lap, and what its word says.
    #[inline(always)]
    fn back(&self, position: &mut u64) -> Option<(&Slot<T>, u64, u64)> {
        loop {
            let (slot, lap) = match self.track.at(*position, End::Tail) {
                Ok(here) => here,
                Err(Off::Gone(first)) => {
                    *position = self.again(first, &self.tail.0);
                    continue;
                }
                Err(Off::Beyond) => {
                    self.track.grow();
                    continue;
                }
            };
            // Acquire: E1, what was there has been copied.
            let seen = slot.word.load(Ordering::Acquire);
            if seen & STATE == EMPTY && !is_later(seen, lap) && !slot.is_passed(lap) {
                return Some((slot, lap, seen));
            }
            if is_behind_claims(slot, seen, lap) {
                *position = self.onward(*position, &self.tail.0);
            } else {
                *position = self.past_a_stopped_one(*position, slot, lap, seen)?;
            }
        }
    }

    /// The slot still has what came there in an earlier lap. If that is only because its sender or receiver is stopped, and there is a
    /// hole behind, passes over the position.
    #[cold]
    fn past_a_stopped_one(&self, position: u64, slot: &Slot<T>, lap: u64, seen: u64) -> Option<u64> {
        if is_full(slot, seen) {
            // I5.
            return None;
        }
        // A slot that is written is no hole afterwards either: its writer, which may be the caller, is worth a moment only for one behind.
        if seen & STATE != WRITING || self.is_hole_behind(position) {
            if has_changed(slot, seen) {
                return Some(position);
            }
            if self.is_hole_behind(position) {
                self.pass_over(slot, lap + 1);
                return Some(self.track.next(position));
            }
        }
        // Acquire: I5, after those behind. Unless it has changed meanwhile: then look again.
        (slot.word.load(Ordering::Acquire) != seen || slot.is_passed(lap)).then_some(position)
    }

    /// Whether a position behind this one can be claimed once this one is passed over.
    fn is_hole_behind(&self, position: u64) -> bool {
        let mut behind = position;
        for _ in 1..self.track.capacity().unwrap_or(1) {
            behind = self.track.next(behind);
            let Ok((other, its)) = self.track.at(behind, End::Ahead) else { break };
            // Acquire: E1, as in `claim`.
            let there = other.word.load(Ordering::Acquire);
            if there & STATE == EMPTY && !is_later(there, its) && !other.is_passed(its) {
                return true;
            }
            if lap_of(there) < its && is_full(other, there) {
                break;
            }
        }
        false
    }

    /// Marks the positions of this slot before this lap as passed over.
    fn pass_over(&self, slot: &Slot<T>, lap: u64) {
        // Relaxed: for `count`, which is exact only when all is quiet.
        self.passed.store(1, Ordering::Relaxed);
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
            // E2, whichever thread marked.
            fence::heavy();
            // Release: I2, after the fence. A failure: it is good, or has grown.
            let _ = slot.passed.compare_exchange(seen, seen & !PENDING, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Gives up a position that was claimed to be written: nothing is sent.
    #[cold]
    pub fn give_up(&self, claim: Claim<'_, T>) {
        let Claim { slot, lap } = claim;
        // I5: or a receiver would take the slot, EMPTY, for the end of what there is.
        self.pass_over(slot, lap + 1);
        step!("passed over, not yet given up");
        // Relaxed: the mark only grows, and this thread has seen it of that lap. If it grows now, the slot is a hole of a later lap: see `claim`.
        let passed = slot.passed.load(Ordering::Relaxed) >> 1;
        // Release: E1, the mark before EMPTY. Only we change WRITING (I1).
        slot.word.store(word(passed, EMPTY), Ordering::Release);
    }

    /// Marks a position, and no more: as a thread that is stopped then.
    #[cfg(feature = "loom")]
    pub fn begin_to_pass(claim: &Claim<'_, T>) {
        // Relaxed: the swap is of what was seen.
        mark(claim.slot, claim.slot.passed.load(Ordering::Relaxed), claim.lap + 1);
    }

    /// Takes the next message, if there is one.
    #[inline]
    pub fn take(&self) -> Option<T> {
        // Acquire: E1, what became of the positions before it.
        let mut position = self.head.0.load(Ordering::Acquire);
        loop {
            let (slot, lap) = self.front(&mut position)?;
            // The message may be overwritten while it is copied; then the swap fails, and the copy is discarded.
            let copy = slot.message.copied();
            // Release: E1, after the copy.
            if self.swap(slot, lap, word(lap + 1, EMPTY), Ordering::Release) {
                // Release: E1.
                self.head.0.store(self.track.next(position), Ordering::Release);
                // SAFETY: I6, the swap has succeeded.
                return Some(unsafe { copy.assume_init() }.0);
            }
        }
    }

    /// Claims the next message, to be read later.
    pub fn claim_message(&self) -> Option<Claim<'_, T>> {
        // Acquire: as in `take`.
        let mut position = self.head.0.load(Ordering::Acquire);
        loop {
            let (slot, lap) = self.front(&mut position)?;
            // Acquire: E1, the message.
            if self.swap(slot, lap, word(lap, READING), Ordering::Acquire) {
                // Release: E1.
                self.head.0.store(self.track.next(position), Ordering::Release);
                return Some(Claim { slot, lap });
            }
        }
    }

    /// Whether there may be a message; if not, there was none. One look at one slot.
    #[inline(always)]
    pub fn may_have_message(&self) -> bool {
        // Acquire: as in `take`.
        match self.track.at(self.head.0.load(Ordering::Acquire), End::Ahead) {
            Ok((slot, lap)) => {
                // Acquire: as in `take`.
                let seen = slot.word.load(Ordering::Acquire);
                // I5.
                seen & STATE != EMPTY || is_later(seen, lap) || slot.is_passed(lap)
            }
            Err(Off::Gone(_)) => true,
            Err(Off::Beyond) => false,
        }
    }

    /// Whether there is a message to be taken.
    pub fn has_message(&self) -> bool {
        // Acquire: as in `take`.
        self.front(&mut self.head.0.load(Ordering::Acquire)).is_some()
    }

    /// Drops the messages that are there. If one panics when it is dropped, those behind it leak, now and later: a drop of the ring while
    /// that panic unwinds must not cause a second panic, which would end the process.
    pub fn drain(&self) {
        struct Leak<'r>(&'r AtomicU32);
        impl Drop for Leak<'_> {
            fn drop(&mut self) {
                // Relaxed: for this thread, which unwinds; other threads may still drop what they find.
                self.0.store(1, Ordering::Relaxed);
            }
        }
        // Relaxed: as above.
        if self.leaks.load(Ordering::Relaxed) != 0 {
            return;
        }
        let leak = Leak(&self.leaks);
        while self.take().is_some() {}
        std::mem::forget(leak);
    }

    /// If there is no message, the position where the next will be.
    pub fn no_message(&self) -> Option<u64> {
        // Acquire: as in `take`.
        let mut position = self.head.0.load(Ordering::Acquire);
        self.front(&mut position).is_none().then_some(position)
    }

    /// If there is no hole, the position where the next will be.
    pub fn no_hole(&self) -> Option<u64> {
        // Acquire: as in `claim`.
        let mut position = self.tail.0.load(Ordering::Acquire);
        (self.track.capacity().is_some() && self.back(&mut position).is_none()).then_some(position)
    }

    #[inline(always)]
    fn swap(&self, slot: &Slot<T>, lap: u64, to: u64, order: Ordering) -> bool {
        // Relaxed: look again.
        slot.word.compare_exchange(word(lap, FULL), to, order, Ordering::Relaxed).is_ok()
    }

    /// The next position with a message, from this one on: its slot and its lap.
    #[inline(always)]
    fn front(&self, position: &mut u64) -> Option<(&Slot<T>, u64)> {
        loop {
            let (slot, lap) = match self.track.at(*position, End::Head) {
                Ok(here) => here,
                Err(Off::Gone(first)) => {
                    *position = self.again(first, &self.head.0);
                    continue;
                }
                Err(Off::Beyond) => return None,
            };
            // Acquire: E1, the message.
            let seen = slot.word.load(Ordering::Acquire);
            if seen == word(lap, FULL) {
                return Some((slot, lap));
            }
            if is_later(seen, lap) || seen == word(lap, READING) {
                *position = self.onward(*position, &self.head.0);
            } else {
                *position = self.past_an_unwritten_one(*position, slot, lap, seen)?;
            }
        }
    }

    /// There is no message at a receiver's position (yet). If one is behind it, passes over the position.
    #[cold]
    fn past_an_unwritten_one(&self, position: u64, slot: &Slot<T>, lap: u64, seen: u64) -> Option<u64> {
        // Acquire: I2.
        let passed = slot.passed.load(Ordering::Acquire);
        if passed >> 1 <= lap {
            if seen != word(lap, WRITING) {
                // I5.
                return None;
            }
            if has_changed(slot, seen) {
                return Some(position);
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
        for _ in 1..self.track.capacity().unwrap_or(usize::MAX) {
            behind = self.track.next(behind);
            let Ok((slot, lap)) = self.track.at(behind, End::Ahead) else { break };
            // Acquire: as in `take`.
            let seen = slot.word.load(Ordering::Acquire);
            if seen == word(lap, FULL) {
                return true;
            }
            if seen & STATE == EMPTY && !is_later(seen, lap) && !slot.is_passed(lap) {
                // I5.
                return false;
            }
        }
        false
    }

    /// How many messages have gone in, about.
    pub fn gone_in(&self) -> u64 {
        self.track.rank(self.tail.0.load(Ordering::Relaxed)) // Relaxed: a hint.
    }

    /// How many messages there are: exact when no operation is under way, else approximate.
    pub fn count(&self) -> usize {
        // Acquire, both: E1.
        let (mut head, mut tail) = (self.head.0.load(Ordering::Acquire), self.tail.0.load(Ordering::Acquire));
        let done = |slot: &Slot<T>, seen, lap| is_later(seen, lap) || seen == word(lap, READING) || slot.is_passed(lap);
        while head < tail && self.is(head, done) {
            head = self.track.next(head);
        }
        while self.is(tail, is_behind_claims) {
            tail = self.track.next(tail);
        }
        // Relaxed: see `pass_over`.
        if self.passed.load(Ordering::Relaxed) == 0 {
            return (self.track.rank(tail) - self.track.rank(head.min(tail))) as usize;
        }
        let mut count = 0;
        while head < tail {
            count += usize::from(!self.is(head, done));
            head = self.track.next(head);
        }
        count
    }

    /// Asks `what` of the position's slot, lap and word. A position that is done with: true; one without a slot: false.
    fn is(&self, position: u64, what: impl Fn(&Slot<T>, u64, u64) -> bool) -> bool {
        match self.track.at(position, End::Ahead) {
            // Acquire: E1.
            Ok((slot, lap)) => what(slot, slot.word.load(Ordering::Acquire), lap),
            Err(Off::Gone(_)) => true,
            Err(Off::Beyond) => false,
        }
    }
}

/// Whether a sender's position was claimed or passed over.
fn is_behind_claims<T>(slot: &Slot<T>, seen: u64, lap: u64) -> bool {
    is_later(seen, lap) || (lap_of(seen) == lap && seen & STATE != EMPTY) || slot.is_passed(lap)
}

/// Whether a message is there that no receiver has to pass over.
fn is_full<T>(slot: &Slot<T>, seen: u64) -> bool {
    seen & STATE == FULL && !slot.is_passed(lap_of(seen))
}

/// Waits a moment for the thread that has the slot to change it.
fn has_changed<T>(slot: &Slot<T>, seen: u64) -> bool {
    #[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
    tests::WAITS.set(tests::WAITS.get() + 1);
    (0..PATIENCE).any(|_| {
        pause();
        // Relaxed: the caller looks again.
        slot.word.load(Ordering::Relaxed) != seen
    })
}

/// Makes a written message visible. False: its position was passed over, and no receiver has taken the message.
#[inline]
fn commit<T>(slot: &Slot<T>, lap: u64) -> bool {
    // Release: E1, the message.
    slot.word.store(word(lap, FULL), Ordering::Release);
    // E2.
    fence::light();
    // Relaxed: after the fence; the swap below decides.
    let passed = slot.passed.load(Ordering::Relaxed) >> 1;
    passed <= lap || !take_back(slot, lap, passed)
}

#[cold]
fn take_back<T>(slot: &Slot<T>, lap: u64, passed: u64) -> bool {
    step!("passed over, not yet taken back");
    // Relaxed, both: the message is ours all the time; a failure means that it was received.
    slot.word.compare_exchange(word(lap, FULL), word(passed, EMPTY), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

impl<T, K: Slots<T>> Drop for Ring<T, K> {
    fn drop(&mut self) {
        self.drain();
    }
}
