//! Compare-and-swap of up to eight words at once, in memory shared by threads or processes, any of which may be killed or stopped anywhere.
//!
//! Synthesis has two words (5.1.3, CAS2, figure 5.3), by an instruction that no processor has today. nonblocking-real-time (2.1, 6) wants any
//! number, and gets them by keeping the processor. Here it is an algorithm: a thread that meets an operation in progress finishes it (helping),
//! so no thread waits for another. It takes k + 1 swaps where Harris, Fraser and Pratt take 3k + 1: as in Guerraoui, Kogan, Marathe and
//! Zablotchi (2020), a word keeps leading to the *record* (descriptor) of the operation that changed it last. The record is reused only when no
//! word leads to it (the weak descriptors of Arbel-Raviv and Brown). A *party* is a thread's set of records.
//!
//! A word consists of two: its value, and a stamp. Stamps are never reused, so a value that comes
//! back does no harm (no ABA problem). A stamp may *lead* to an entry of a record: it names the
//! party, the record's slot there, and the slot's turn (which use of the slot it is). Then the
//! word's value is the entry's, old or new by the record's state. `fresh` numbers a party's stamps
//! that do not lead. (Terms: `book/src/glossary.md`.)
//!
//! ```text
//!   word: value | stamp --led--> party 3, slot 1, turn 9, entry 0          value: what the entry says, by the record's state
//!   word: value | stamp, not led                                            value: what is there
//!
//!   party: fresh | slot 0..3: state | word, old, new | word, old, new ..
//! ```
//!
//! | a record's state | set by | a word that leads to it has |
//! |---|---|---|
//! | UNDECIDED | its owner, before any word leads there | the old value |
//! | HELPED as well | a helper, before it helps: from then on it may lead a word there at any time (I4) | the old value |
//! | DONE | a thread that has seen that all words lead there | the new value |
//! | FAILED | a thread that has seen a value other than the old one | the old value |
//! | FAILED | or, if the owner is dead, the next owner of its party | the old value |
//!
//! An operation on one word uses no record: it is one swap of value and stamp. The steps of any other: fill a record; lead each word to it, by
//! ascending index of the words, in which the caller has to give them (R1); decide; later, before the record is reused, *settle*: in each word
//! that still leads there, replace value and stamp, in one swap of 16 bytes, by the value and a stamp that is not led. A thread whose swap of a
//! word fails looks at the word again: only a value other than the old one makes the operation fail.
//!
//! Invariants:
//! - I1: a stamp is put in a word only once. So a successful swap from a stamp that was read means that the word has not changed since.
//! - I2: a word that leads to an undecided record changes only after the decision. So when the state becomes DONE all words lead there, and
//!   all change at that step.
//! - I3: a thread that puts a record's stamp in a word has read, in this order, the word's stamp, the value under it, and that the record is
//!   undecided. So the stamp that it swaps from was there before the decision.
//! - I4: when a record is reused, no word leads to its last turn, and no former helper can make one
//!   do so (`clean`). After DONE this follows from I1 and I3. After FAILED without HELPED there is
//!   no helper, and the owner settles the words that lead there. After FAILED with HELPED a stopped
//!   helper may still swap. So the owner gives each of the record's words a stamp that is younger
//!   than the decision, wherever the word leads: then that swap fails.
//! - I5: a thread that has read an entry, and then finds the record's turn, has read that turn's entry.
//! - I6: only one thread at a time fills a party's slots: the member that has the party, and not in a signal handler that interrupted it. The party's
//!   `inside` holds a number of the member's life during an operation. A handler finds that of its own life there, and is refused
//!   (`WordsError::Interrupting`). What a dead member left is another life's number, so the party's next owner may begin.
//!
//! Races: R1 two operations on the same words: both take the words in one order, and the second helps. If each had an order of its own, each
//! could hold a word that the other wants, and helpers would go from one operation to the other without end. R2 a helper that was stopped, and
//! continues after the decision: I3, I4. R3 a reader that was stopped while the record was reused: I5, it looks again. R4 a value that changed and
//! changed back: I1.
//!
//! Ordering edges: E1 (release/acquire) a record before the stamp that leads there. E2 (release/acquire) a record's turn before its entries are
//! overwritten: a reader of a new entry sees that the turn has changed. E3 (release/acquire) the decision before what is done because of it. E4
//! value and stamp of a settled word, by one swap.
//!
//! Progress: lock-free, reading too, which writes nothing. An operation starts over only because another has changed one of its words, and
//! helps at most as many operations as there are parties before one of them has succeeded.
//!
//! Deaths: any thread that meets a dead thread's undecided operation finishes it, or finds that it
//! failed. If none meets it, the next owner of the party sets FAILED before it reuses the record.
//! Nothing has to be recovered before others can continue.
//!
//! Explored: `tests/crash_mcas.rs`. Left out: a thread that was stopped for 2^44 operations of one party.

mod place;

pub use place::{Field, MOST, MOST_PARTIES, MOST_WORDS, Shape};

use crate::tries::{self, Loop};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::pair::Pair;
use chappe_plat::step;
use place::{DONE, FAILED, HELPED, Slot, Stamp, UNDECIDED, is_undecided, state_of, status_of, turn_of};

/// One word of an operation: its index, the value it must have, and the value it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The index of the word.
    pub word: u32,
    /// The value it must have.
    pub old: u64,
    /// The value it gets.
    pub new: u64,
}

/// The value found under a stamp.
enum Found {
    Value(u64),
    /// It leads to an operation in progress; the value until that is decided.
    Under(u64),
    /// The word has changed meanwhile.
    Changed,
}

/// A helper's copy of an operation.
struct Copied {
    stamp: Stamp,
    count: usize,
    steps: [Step; MOST],
}

impl<'a> Field<'a> {
    /// The value of a word. Writes nothing.
    #[inline]
    pub fn load(&self, word: u32) -> u64 {
        let cell = self.cell(word);
        let mut tries = 0;
        loop {
            // Acquire: E1, E4.
            let stamp = Stamp(cell.high.load(Ordering::Acquire));
            match self.under(cell, stamp) {
                Found::Value(value) => return value,
                // It had the old value when the record was seen to be undecided: I2.
                Found::Under(old) => return old,
                Found::Changed => {}
            }
            tries += 1;
            tries::retried(Loop::Read, tries);
        }
    }

    #[inline(always)]
    fn under(&self, cell: &Pair, stamp: Stamp) -> Found {
        if !stamp.is_led() {
            // Acquire: E4, before the second look.
            let value = cell.low.load(Ordering::Acquire);
            // Acquire: as above.
            let same = cell.high.load(Ordering::Acquire) == stamp.0;
            return if same { Found::Value(value) } else { Found::Changed };
        }
        let slot = self.slot(stamp);
        let entry = &slot.entries[stamp.entry()];
        // Acquire, both: I5, before the record's turn.
        let (old, new) = (entry.old.load(Ordering::Acquire), entry.new.load(Ordering::Acquire));
        step!("read an entry, not yet sure of it");
        // Acquire: I5, E3.
        let status = slot.status.load(Ordering::Acquire);
        if turn_of(status) != stamp.turn() {
            return Found::Changed;
        }
        match state_of(status) {
            DONE => Found::Value(new),
            FAILED => Found::Value(old),
            _ => Found::Under(old),
        }
    }

    /// Changes one word, without a record: one swap of value and stamp.
    #[inline]
    fn swap_one(&self, me: u16, one: &Step) -> bool {
        let cell = self.cell(one.word);
        let mut tries = 0;
        loop {
            // Acquire: E1, E4.
            let stamp = Stamp(cell.high.load(Ordering::Acquire));
            // Acquire: before the swap, which fails if this value does not belong to the stamp.
            let low = cell.low.load(Ordering::Acquire);
            match self.under(cell, stamp) {
                Found::Value(value) if value != one.old => return false,
                Found::Value(_) => {
                    let fresh = self.fresh(me);
                    step!("about to change one word");
                    // I1, E4: value and stamp in one swap.
                    if cell.compare_exchange([low, stamp.0], [one.new, fresh.0]).is_ok() {
                        return true;
                    }
                }
                Found::Under(_) => self.help(stamp),
                Found::Changed => {}
            }
            tries += 1;
            tries::retried(Loop::Swap, tries);
        }
    }

    /// Changes all the words, if each has its old value; returns whether it did. Each word occurs once, in ascending order; there is at
    /// least one, and at most [`MOST`].
    #[inline]
    pub fn swap(&self, me: u16, steps: &[Step]) -> bool {
        // With a known number each of these becomes a run of instructions without loops. The steps are read word by word where the caller
        // has just written them: a copy in wider pieces would wait for the caller's stores.
        let field = *self;
        if let [one] = steps {
            field.swap_one(me, one)
        } else if let Ok(two) = <&[Step; 2]>::try_from(steps) {
            field.swap_several(me, two)
        } else if let Ok(four) = <&[Step; 4]>::try_from(steps) {
            field.swap_several(me, four)
        } else {
            field.swap_several(me, steps)
        }
    }

    #[inline(always)]
    fn swap_several(&self, me: u16, steps: &[Step]) -> bool {
        let stamp = self.fill(me, steps);
        step!("filled, no word leads there yet");
        if let Some(other) = self.push(stamp, steps) {
            self.help(other);
            self.come_through(stamp, steps);
        }
        // Acquire: E3. Only this thread begins another turn.
        state_of(self.slot(stamp).status.load(Ordering::Acquire)) == DONE
    }

    /// Continues after another operation was in the way; it, or another, may be again.
    #[cold]
    fn come_through(&self, stamp: Stamp, steps: &[Step]) {
        let mut tries = 1;
        tries::retried(Loop::Swap, tries);
        while let Some(other) = self.push(stamp, steps) {
            self.help(other);
            tries += 1;
            tries::retried(Loop::Swap, tries);
        }
    }

    /// Helps the operation in the way, and any that is in its way, until one of them is decided.
    #[cold]
    fn help(&self, stamp: Stamp) {
        let mut next = Some(stamp);
        while let Some(other) = next.take() {
            if let Some(copy) = self.announced(other) {
                step!("announced that it helps");
                next = self.push(copy.stamp, &copy.steps[..copy.count]);
            }
        }
    }

    /// Marks the operation as helped, and copies it. `None`: it is decided.
    fn announced(&self, stamp: Stamp) -> Option<Copied> {
        let slot = self.slot(stamp);
        loop {
            // Acquire: E1.
            let status = slot.status.load(Ordering::Acquire);
            if !is_undecided(status, stamp) {
                return None;
            }
            // AcqRel: I4: before any word is looked at for it. Relaxed, a failure: looks again.
            let helped = status | HELPED;
            if status == helped
                || slot.status.compare_exchange(status, helped, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                break;
            }
        }
        let mut copy = Copied { stamp, count: 0, steps: [Step::default(); MOST] };
        // Acquire: I5.
        copy.count = (slot.count.load(Ordering::Acquire) as usize).min(MOST);
        for (step, entry) in copy.steps.iter_mut().zip(&slot.entries).take(copy.count) {
            // Acquire, all: I5.
            let word = entry.word.load(Ordering::Acquire) as u32;
            let (old, new) = (entry.old.load(Ordering::Acquire), entry.new.load(Ordering::Acquire));
            *step = Step { word, old, new };
        }
        // Acquire: I5.
        is_undecided(slot.status.load(Ordering::Acquire), stamp).then_some(copy)
    }

    /// Leads the words of an operation to its record, and decides it. Returns the stamp in the way; `None`: it is decided.
    #[inline(always)]
    fn push(&self, stamp: Stamp, steps: &[Step]) -> Option<Stamp> {
        let status = &self.slot(stamp).status;
        let mut tries = 0;
        for (i, step) in steps.iter().enumerate() {
            let (cell, mine) = (self.cell(step.word), stamp.of_entry(i));
            loop {
                // Acquire: I3, E1, E4.
                let there = Stamp(cell.high.load(Ordering::Acquire));
                if there == mine {
                    break;
                }
                let found = self.under(cell, there);
                step!("read a word, not yet sure that the operation is undecided");
                // Acquire: I3: after the word.
                if !is_undecided(status.load(Ordering::Acquire), stamp) {
                    return None;
                }
                match found {
                    Found::Value(value) if value != step.old => {
                        self.decide(status, stamp, FAILED);
                        return None;
                    }
                    // AcqRel: E1. Relaxed, a failure: looks again.
                    Found::Value(_)
                        if cell.high.compare_exchange(there.0, mine.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() =>
                    {
                        break;
                    }
                    Found::Under(_) => return Some(there),
                    Found::Value(_) | Found::Changed => {}
                }
                tries += 1;
                tries::retried(Loop::Swap, tries);
            }
        }
        step!("all words lead there");
        self.decide(status, stamp, DONE);
        None
    }

    #[inline(always)]
    fn decide(&self, status: &AtomicU64, stamp: Stamp, state: u64) {
        // Most often there is no helper: the swap finds out.
        let mut seen = status_of(stamp.turn());
        while is_undecided(seen, stamp) {
            let decided = seen & !UNDECIDED | state;
            // AcqRel: E3. Relaxed, a failure: another has decided, or has marked that it helps.
            match status.compare_exchange(seen, decided, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Fills a record of the party for this operation; no word leads there yet.
    #[inline(always)]
    fn fill(&self, me: u16, steps: &[Step]) -> Stamp {
        let party = self.party(me);
        // Relaxed, both: I6.
        let number = party.next.load(Ordering::Relaxed);
        party.next.store(number.wrapping_add(1), Ordering::Relaxed); // Relaxed: as above.
        let at = self.nth(number);
        let slot = &party.slots[at];
        self.clean(me, at, slot);
        // Relaxed: I6, and it is decided.
        let turn = turn_of(slot.status.load(Ordering::Relaxed)).wrapping_add(1);
        let stamp = Stamp::new(me, at, turn);
        // Release, and below: E2, the turn first. (The swap of a word publishes all of it: E1.)
        slot.status.store(status_of(stamp.turn()), Ordering::Release);
        slot.count.store(steps.len() as u64, Ordering::Release); // Release: as above.
        for (step, entry) in steps.iter().zip(&slot.entries) {
            entry.word.store(step.word.into(), Ordering::Release); // Release: as above.
            entry.old.store(step.old, Ordering::Release); // Release: as above.
            entry.new.store(step.new, Ordering::Release); // Release: as above.
        }
        stamp
    }

    /// I4: makes no word lead to a record.
    #[inline(always)]
    fn clean(&self, me: u16, at: usize, slot: &Slot) {
        // Acquire: E3.
        let mut status = slot.status.load(Ordering::Acquire);
        if status & UNDECIDED == UNDECIDED && state_of(status) == UNDECIDED {
            // Its owner is dead, and the party is the caller's now.
            self.decide(&slot.status, Stamp::new(me, at, turn_of(status)), FAILED);
            status = slot.status.load(Ordering::Acquire); // Acquire: as above.
        }
        let stamp = Stamp::new(me, at, turn_of(status));
        let helped = state_of(status) == FAILED && status & HELPED != 0;
        // Relaxed: I6.
        let count = (slot.count.load(Ordering::Relaxed) as usize).min(MOST);
        for (i, entry) in slot.entries.iter().enumerate().take(count) {
            // Relaxed: I6.
            let cell = self.cell(entry.word.load(Ordering::Relaxed) as u32);
            // Acquire: I4.
            let there = Stamp(cell.high.load(Ordering::Acquire));
            let mine = stamp.of_entry(i);
            if there == mine {
                self.settle(me, cell, there);
            } else if helped && !self.settle(me, cell, there) {
                step!("a word changed that was to be settled");
                // Acquire: I4: a helper may have led the word here; no other helper can.
                if cell.high.load(Ordering::Acquire) == mine.0 {
                    self.settle(me, cell, mine);
                }
            }
        }
    }

    /// Gives a word a stamp that is younger than the decision of the record it may lead to. False: another thread changed the word first.
    #[cold]
    fn settle(&self, me: u16, cell: &Pair, there: Stamp) -> bool {
        // Acquire: before the swap, which fails if this value does not belong to the stamp.
        let low = cell.low.load(Ordering::Acquire);
        // A stamp that leads to an operation in progress was put there as such, and no thread swaps from it before that is decided.
        let value = match self.under(cell, there) {
            Found::Value(value) => value,
            Found::Under(_) => return true,
            Found::Changed => return false,
        };
        let fresh = self.fresh(me);
        step!("about to settle a word");
        // E4, I1.
        cell.compare_exchange([low, there.0], [value, fresh.0]).is_ok()
    }

    /// A stamp that is not led, and was in no word before.
    #[inline(always)]
    fn fresh(&self, me: u16) -> Stamp {
        let party = self.party(me);
        // Relaxed: I6.
        let turn = party.fresh.load(Ordering::Relaxed).wrapping_add(1);
        party.fresh.store(turn, Ordering::Release); // Release: before the stamp is anywhere.
        Stamp::unled(me, turn)
    }

    /// The values of all the words at one moment. `None`: one has changed meanwhile.
    ///
    /// Under one stamp a value changes at most once, when its record is done: so values found twice, under the same stamps, were there in between.
    #[inline(always)]
    fn seen_twice<const K: usize>(&self, words: &[u32; K]) -> Option<[u64; K]> {
        let mut seen = [(0, 0); K];
        for again in [false, true] {
            for (word, seen) in words.iter().zip(&mut seen) {
                let cell = self.cell(*word);
                // Acquire: E1, E4.
                let stamp = Stamp(cell.high.load(Ordering::Acquire));
                let (Found::Value(value) | Found::Under(value)) = self.under(cell, stamp) else { return None };
                if again && *seen != (stamp.0, value) {
                    return None;
                }
                *seen = (stamp.0, value);
            }
            if K == 1 {
                break;
            }
        }
        Some(seen.map(|(_, value)| value))
    }

    /// The values of all the words at one moment. Writes nothing.
    #[inline]
    pub fn load_all<const K: usize>(&self, words: &[u32; K]) -> [u64; K] {
        let mut tries = 0;
        loop {
            if let Some(values) = self.seen_twice(words) {
                return values;
            }
            tries += 1;
            tries::retried(Loop::Read, tries);
        }
    }

    /// I6: the party begins an operation. False: it is in the middle of one, which a signal handler has interrupted. `life` must be another
    /// number for each member that has the party in turn, and not 0.
    #[inline(always)]
    pub fn enter(&self, me: u16, life: u64) -> bool {
        let inside = &self.party(me).inside;
        // Relaxed, both: only its own thread looks, and a member that died in the middle had another number.
        let free = inside.load(Ordering::Relaxed) != life;
        if free {
            inside.store(life, Ordering::Relaxed); // Relaxed: as above.
        }
        free
    }

    /// The operation has ended.
    #[inline(always)]
    pub fn leave(&self, me: u16) {
        self.party(me).inside.store(0, Ordering::Relaxed); // Relaxed: as in `enter`.
    }

    /// Writes a word, before the field is published.
    pub fn begin_with(&self, word: u32, value: u64) {
        self.cell(word).low.store(value, Ordering::Relaxed); // Relaxed: published with the field.
    }
}
