//! Slots without an end: runs of slots, linked one behind the other, for tubes without a bound.
//!
//! A run has one lap, which is its number. Its words begin as EMPTY of that lap. Once all of its positions are done with, the run goes to
//! the spare runs, and comes back with a later number. So a slot is reused as a ring's is, and a thread that still works with it
//! finds another lap there; no run is freed before the track is.
//!
//! ```text
//!        first                               last
//!          v                                   v
//!        run 7 --next--> run 8 --next--> run 9 --next--> 10, none      spare, late: runs of no number
//! ```
//!
//! What names a run in `first`, `last` and `next` is `number:36 | place:28`: the place among all that were made, from 1 on, and
//! the number as which it was linked (its lowest bits; the whole one is in the run). `next` of run n names n+1, or `n+1 | 0`.
//! Places lie in rows of 1, 2, 4... runs.
//!
//! Invariants:
//! - I1: `first` and `last` only go on, from n to n+1, by a swap; `last` is never before `first`. So neither names a run that was
//!   given up; a thread that loaded its name before finds laps of a later number in it, or another `next`.
//! - I2: a run is numbered after it was taken from the spare ones, one more than the last run of that moment, and linked by a swap
//!   of `n+1 | 0`. So its number only grows, whether it was linked as that or not, and each number is that of one linked run.
//! - I3: `first` goes on when a receiver has walked past all of the run's positions. It is given up when, besides, no slot of it
//!   is still WRITING, READING or FULL: until then it waits among the `late` ones, and is looked at when the next is given up.
//! - I4: the memory of a large row is given back, and reads as zeroes, while one thread has all of its runs in hand. Zeroes are of a
//!   lap later than any, number no linked run, and lead to no next one: to a thread that loaded a name before, such a run looks like
//!   one that was used again. The row's bit in `blank` is set afterwards; the thread that clears it owns the runs.
//!
//! Trimming: after each second, the receiver that goes on to the next run gives back the largest rows that the most runs in service
//! during that second did without. A row whose runs are not all spare has those that are *held* back for the next time; a sender takes
//! them if nothing else is spare. Rows of fewer than 16 runs stay.
//!
//! Progress: lock-free, but for the allocation when there is no spare run: then twice as many as the last time are made. One thread
//! at a time trims; the others go on meanwhile.
//!
//! Explored: `tests/crash_ring.rs`, with runs of two, and rows of two and more given back at once.

use super::slots::{End, Off, Slot, Slots};
use super::word::{EMPTY, STATE, lap_of, word};
use crate::stamp::Stamp;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::{Pages, Row, clock, step};
use std::mem::MaybeUninit;

/// Slots of a run.
const SHIFT: u32 = if cfg!(any(feature = "sim", feature = "loom")) { 1 } else { 5 };
const LENGTH: usize = 1 << SHIFT;
/// Runs are made by ones, twos, fours...
const SIZES: u32 = 28;
/// Rows of the first so many sizes keep their memory once they are made. (loom cannot explore memory that the kernel zeroes.)
const SMALL: u32 = if cfg!(feature = "sim") {
    1
} else if cfg!(feature = "loom") {
    SIZES
} else {
    4
};
/// Runs that were used during the last so many nanoseconds are kept.
const KEPT: u64 = if cfg!(feature = "sim") { 0 } else { 1_000_000_000 };

/// No run.
const NONE: u64 = 0;

type Number = Stamp<SIZES, { u64::BITS - SIZES }>;

fn named(n: u64, place: u64) -> u64 {
    Number::word(n) | place
}

fn place_in(name: u64) -> u64 {
    name & !Number::MASK
}

fn number_in(name: u64) -> u64 {
    Number::of(name)
}

/// All that is shared of a run may be zeroed while another thread reads it (I4).
struct Run<T> {
    /// Written only by the thread that owns the run; of a late run, the number as which it was last linked.
    number: AtomicU64,
    next: AtomicU64,
    /// If the run is in a list: the next run of the list.
    below: AtomicU64,
    slots: [Slot<T>; LENGTH],
}

impl<T> Run<T> {
    /// Makes a run in place that was linked as number 0, as the first is; its messages need not be written.
    fn lay(run: &mut MaybeUninit<Run<T>>) {
        let run = run.as_mut_ptr();
        // SAFETY: each part of it, but for places of messages, which may be anything.
        unsafe {
            (&raw mut (*run).number).write(AtomicU64::new(0));
            (&raw mut (*run).next).write(AtomicU64::new(named(1, NONE)));
            (&raw mut (*run).below).write(AtomicU64::new(NONE));
            let slots = (&raw mut (*run).slots).cast::<Slot<T>>();
            (0..LENGTH).for_each(|slot| Slot::lay(slots.add(slot), word(0, EMPTY)));
        }
    }

    /// Whether no thread still writes or reads in the run. Receivers have walked past it already.
    fn is_done(&self, n: u64) -> bool {
        // Acquire: what was done there comes before it is used again.
        self.slots.iter().map(|slot| slot.word.load(Ordering::Acquire)).all(|w| lap_of(w) > n && w & STATE == EMPTY)
    }

    /// What the kernel does to it when its memory is given back, one word after the other.
    #[cfg(feature = "sim")]
    fn wipe(&self) {
        for slot in &self.slots {
            slot.wipe();
        }
        for word in [&self.below, &self.next, &self.number] {
            word.store(0, Ordering::Release); // Release: as what the kernel does is seen.
        }
    }
}

/// On a cache line of its own.
#[repr(align(128))]
struct Apart(AtomicU64);

/// Runs of slots.
pub struct Segmented<T> {
    first: Apart,
    last: Apart,
    /// Lists. A thread takes one run from `spare` or `held`, whose names have a number, too, which rises with each change; or takes all, as of `late`.
    spare: AtomicU64,
    late: AtomicU64,
    /// The spare runs of the largest row, kept from use until all of them are spare; and the place where that row begins: a hint.
    held: AtomicU64,
    holds: AtomicU64,
    made: AtomicU64,
    /// A bit for each row whose memory was given back.
    blank: AtomicU64,
    /// The most runs that were in service at once since then.
    most: AtomicU64,
    since: AtomicU64,
    /// Whether a thread trims.
    trimmed: AtomicU32,
    /// The runs of each size, one after the other.
    small: [Row<Run<T>>; SMALL as usize],
    large: [Pages<Run<T>>; (SIZES - SMALL) as usize],
}

/// A run, its place, and the number as which it was linked.
struct Here<'c, T> {
    run: &'c Run<T>,
    place: u64,
    n: u64,
}

impl<T> Clone for Here<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Here<'_, T> {}

enum After<'c, T> {
    Run(Here<'c, T>),
    Nothing,
    /// The one before was given up meanwhile.
    Overtaken,
}

impl<T> Segmented<T> {
    pub(super) fn new() -> Segmented<T> {
        Segmented {
            first: Apart(AtomicU64::new(named(0, 1))),
            last: Apart(AtomicU64::new(named(0, 1))),
            spare: AtomicU64::new(NONE),
            late: AtomicU64::new(NONE),
            held: AtomicU64::new(NONE),
            holds: AtomicU64::new(NONE),
            made: AtomicU64::new(1),
            blank: AtomicU64::new(0),
            most: AtomicU64::new(0),
            since: AtomicU64::new(0),
            trimmed: AtomicU32::new(0),
            small: std::array::from_fn(|size| Row::new(1 << size)),
            // SAFETY: words, and places of messages; neither is dropped.
            large: std::array::from_fn(|size| unsafe { Pages::new(1 << (size as u32 + SMALL)) }),
        }
    }

    /// As if so many runs had gone by: the position where it begins.
    #[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
    pub(super) fn begin_at(&self, number: u64) -> u64 {
        let run = self.run(1);
        for slot in &run.slots {
            slot.word.store(word(number, EMPTY), Ordering::Relaxed); // Relaxed, here and below: no other thread has it yet.
        }
        run.number.store(number, Ordering::Relaxed); // Relaxed: as above.
        run.next.store(named(number + 1, NONE), Ordering::Relaxed); // Relaxed: as above.
        self.first.0.store(named(number, 1), Ordering::Relaxed); // Relaxed: as above.
        self.last.0.store(named(number, 1), Ordering::Relaxed); // Relaxed: as above.
        number << SHIFT
    }

    /// As if a second had gone by.
    #[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
    pub(super) fn age(&self) {
        self.since.store(0, Ordering::Relaxed); // Relaxed: a hint.
    }

    /// How many runs have memory.
    #[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
    pub(super) fn backed(&self) -> u64 {
        // Relaxed, both: no other thread is there.
        let (made, blank) = (self.made.load(Ordering::Relaxed), self.blank.load(Ordering::Relaxed));
        (2 << made.ilog2()) - 1 - blank
    }

    #[inline(always)]
    fn run(&self, place: u64) -> &Run<T> {
        let row = place.ilog2();
        let at = (place - (1 << row)) as usize;
        if row >= SMALL {
            return &self.large[(row - SMALL) as usize].get()[at];
        }
        // SAFETY: each is laid.
        unsafe { &self.small[row as usize].get_or(|runs| runs.iter_mut().for_each(Run::lay))[at] }
    }

    /// A run that is in service when this is called.
    #[inline(always)]
    fn from(&self, from: &Apart) -> Here<'_, T> {
        loop {
            // Acquire: the run as it was linked.
            let name = from.0.load(Ordering::Acquire);
            let place = place_in(name);
            let run = self.run(place);
            // Acquire: as above. A later number, or none: the run was given up after we loaded its name (I1, I4).
            let n = run.number.load(Ordering::Acquire);
            if named(n, place) == name {
                return Here { run, place, n };
            }
        }
    }

    /// The run after this one, if there is one.
    fn after(&self, here: Here<'_, T>) -> After<'_, T> {
        // Acquire: the next as it was linked.
        let next = here.run.next.load(Ordering::Acquire);
        let (place, n) = (place_in(next), here.n + 1);
        if next == named(n, NONE) {
            After::Nothing
        } else if next ^ place == named(n, NONE) {
            After::Run(Here { run: self.run(place), place, n })
        } else {
            After::Overtaken
        }
    }

    /// Goes on from this run.
    #[cold]
    fn go_on(&self, end: End, here: Here<'_, T>, next: Here<'_, T>) {
        let (from, to) = (named(here.n, here.place), named(next.n, next.place));
        // SeqCst: I1, before `first` goes on. A failure: it has gone on already.
        let _ = self.last.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        // SeqCst: as above.
        if end == End::Head && self.first.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            step!("nobody comes to the run any more");
            // Acquire: each as it was left; no other thread has any of these now.
            let mut late = place_in(self.late.swap(NONE, Ordering::Acquire));
            self.give_up(here.place);
            while late != NONE {
                let place = late;
                late = self.below(place);
                self.give_up(place);
            }
            self.trim();
        }
    }

    /// The next run down in a list that is ours alone.
    fn below(&self, place: u64) -> u64 {
        // Relaxed: as said.
        place_in(self.run(place).below.load(Ordering::Relaxed))
    }

    /// I3.
    fn give_up(&self, place: u64) {
        let run = self.run(place);
        // Relaxed: it is ours alone.
        let done = run.is_done(run.number.load(Ordering::Relaxed));
        // Relaxed: a hint.
        let holds = self.holds.load(Ordering::Relaxed);
        let spare = if (holds..2 * holds).contains(&place) { &self.held } else { &self.spare };
        self.put(if done { spare } else { &self.late }, place);
    }

    fn put(&self, list: &AtomicU64, place: u64) {
        let run = self.run(place);
        // Relaxed: the swap decides.
        let mut top = list.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the swap.
            run.below.store(top, Ordering::Relaxed);
            let with = named(number_in(top) + 1, place);
            // Release: the run as it was left.
            match list.compare_exchange(top, with, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes the uppermost of a list.
    fn pop(&self, list: &AtomicU64) -> Option<u64> {
        // Acquire: the run as it was left.
        let mut top = list.load(Ordering::Acquire);
        loop {
            let place = place_in(top);
            if place == NONE {
                return None;
            }
            // If it is another's by now, the swap fails: the list's number is another.
            let rest = named(number_in(top) + 1, self.below(place));
            // Acquire, both: as above.
            match list.compare_exchange(top, rest, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(place),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all of a list. Answers the uppermost.
    fn pop_all(&self, list: &AtomicU64) -> u64 {
        // Acquire: the runs as they were left.
        let mut top = list.load(Ordering::Acquire);
        loop {
            // Acquire, both: as above.
            match list.compare_exchange(top, named(number_in(top) + 1, NONE), Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return place_in(top),
                Err(now) => top = now,
            }
        }
    }

    /// The place of a run that no other thread has.
    fn fresh(&self) -> u64 {
        self.pop(&self.spare).or_else(|| self.pop(&self.held)).or_else(|| self.pop_blank()).unwrap_or_else(|| {
            // Relaxed: a number that no other thread gets.
            self.made.fetch_add(1, Ordering::Relaxed) + 1
        })
    }

    /// Takes the smallest of the rows whose memory was given back: one of its runs; the others are spare then.
    fn pop_blank(&self) -> Option<u64> {
        // Acquire: I4, after its memory was given back.
        let mut blank = self.blank.load(Ordering::Acquire);
        while blank != 0 {
            // Acquire, both: as above.
            match self.blank.compare_exchange(blank, blank & (blank - 1), Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    let first = 1 << blank.trailing_zeros();
                    (first + 1..2 * first).for_each(|place| self.put(&self.spare, place));
                    return Some(first);
                }
                Err(now) => blank = now,
            }
        }
        None
    }

    /// How many runs there are from `first` to `last`, about.
    fn in_service(&self) -> u64 {
        // Relaxed, both: what is counted may have changed by now.
        let (last, first) = (self.last.0.load(Ordering::Relaxed), self.first.0.load(Ordering::Relaxed));
        (number_in(last).wrapping_sub(number_in(first)) & (u64::MAX >> SIZES)) + 1
    }

    /// Gives back the largest rows, if the last second did without them.
    fn trim(&self) {
        // Relaxed, here and below: hints, but for the swap.
        if self.made.load(Ordering::Relaxed) < 1 << SMALL {
            return;
        }
        let now = clock::coarse();
        // Acquire: after the last thread that trimmed.
        if now < self.since.load(Ordering::Relaxed) + KEPT || self.trimmed.swap(1, Ordering::Acquire) != 0 {
            return;
        }
        self.since.store(now, Ordering::Relaxed); // Relaxed: as above.
        let most = self.most.swap(self.in_service(), Ordering::Relaxed); // Relaxed: as above.
        self.holds.store(NONE, Ordering::Relaxed); // Relaxed: as above.
        while let Some(row) = self.largest()
            && (1 << row) - 1 > most
            && self.give_back(row)
        {}
        // Release: before the next thread that trims.
        self.trimmed.store(0, Ordering::Release);
    }

    /// The largest row with memory that can be given back.
    fn largest(&self) -> Option<u32> {
        // Relaxed, both: only one thread trims at a time.
        let (made, blank) = (self.made.load(Ordering::Relaxed), self.blank.load(Ordering::Relaxed));
        (SMALL..=made.ilog2()).rev().find(|row| blank & 1 << row == 0)
    }

    /// Gives back the memory of a row, if all of its runs are spare; holds back those that are, if not (I4).
    fn give_back(&self, row: u32) -> bool {
        let places = 1_u64 << row..2 << row;
        self.holds.store(places.start, Ordering::Relaxed); // Relaxed: a hint.
        // Runs that were never handed out. Relaxed: a number that no other thread gets.
        let mut made = self.made.load(Ordering::Relaxed);
        while places.contains(&made) && made + 1 < places.end {
            // Relaxed, both: as above.
            match self.made.compare_exchange(made, places.end - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    (made + 1..places.end).for_each(|place| self.put(&self.held, place));
                    break;
                }
                Err(now) => made = now,
            }
        }
        let part = |from: u64| {
            let (mut next, mut count) = (from, 0);
            while next != NONE {
                let place = next;
                next = self.below(place);
                if places.contains(&place) {
                    count += 1;
                }
                self.put(if places.contains(&place) { &self.held } else { &self.spare }, place);
            }
            count
        };
        part(self.pop_all(&self.spare));
        step!("held back what is spare");
        let held = self.pop_all(&self.held);
        let (mut next, mut count) = (held, 0);
        while next != NONE {
            count += u64::from(places.contains(&next));
            next = self.below(next);
        }
        if count < 1 << row || !self.wipe(row, held) {
            part(held);
            return false;
        }
        // Release: I4.
        self.blank.fetch_or(1 << row, Ordering::Release);
        true
    }

    /// Gives back the memory of a row all of whose runs are ours, in this list. Other runs in the list are spare from now on.
    fn wipe(&self, row: u32, list: u64) -> bool {
        let places = 1_u64 << row..2 << row;
        let (mut next, mut others) = (list, Vec::new());
        while next != NONE {
            if !places.contains(&next) {
                others.push(next);
            }
            next = self.below(next);
        }
        #[cfg(feature = "sim")]
        places.for_each(|place| self.run(place).wipe());
        // SAFETY: all its runs are ours, and zeroes look to others as a run that was used again (I4).
        if unsafe { self.large[(row - SMALL) as usize].wipe() }.is_err() {
            return false;
        }
        others.into_iter().for_each(|place| self.put(&self.spare, place));
        true
    }

    /// The last run.
    fn end(&self) -> Here<'_, T> {
        loop {
            let here = self.from(&self.last);
            match self.after(here) {
                After::Nothing => return here,
                After::Run(next) => self.go_on(End::Tail, here, next),
                After::Overtaken => {}
            }
        }
    }

    /// A position before `last`, or one that is done with.
    #[cold]
    fn before(&self, position: u64) -> Result<(&Slot<T>, u64), Off> {
        let mut here = self.from(&self.first);
        while here.n < position >> SHIFT
            && let After::Run(next) = self.after(here)
        {
            here = next;
        }
        if here.n == position >> SHIFT {
            Ok((&here.run.slots[position as usize & (LENGTH - 1)], here.n))
        } else {
            Err(Off::Gone(here.n << SHIFT))
        }
    }
}

impl<T> Slots<T> for Segmented<T> {
    #[inline(always)]
    fn at(&self, position: u64, end: End) -> Result<(&Slot<T>, u64), Off> {
        let wanted = position >> SHIFT;
        let from = if end == End::Tail { &self.last } else { &self.first };
        let mut here = self.from(from);
        loop {
            if here.n == wanted {
                return Ok((&here.run.slots[position as usize & (LENGTH - 1)], wanted));
            }
            if here.n > wanted {
                return self.before(position);
            }
            match self.after(here) {
                After::Nothing => return Err(Off::Beyond),
                After::Run(next) => {
                    if end != End::Ahead {
                        self.go_on(end, here, next);
                    }
                    here = next;
                }
                After::Overtaken => here = self.from(from),
            }
        }
    }

    #[inline(always)]
    fn next(&self, position: u64) -> u64 {
        position + 1
    }

    #[cold]
    fn grow(&self) {
        let place = self.fresh();
        let fresh = self.run(place);
        // I2: after that.
        let last = self.end();
        let n = last.n + 1;
        for slot in &fresh.slots {
            // Relaxed: published by the link.
            slot.word.store(word(n, EMPTY), Ordering::Relaxed);
        }
        // Relaxed, both: as above.
        fresh.number.store(n, Ordering::Relaxed);
        fresh.next.store(named(n + 1, NONE), Ordering::Relaxed); // Relaxed: as above.
        step!("numbered, not yet linked");
        // SeqCst: I2, publishes the run.
        if last.run.next.compare_exchange(named(n, NONE), named(n, place), Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            self.put(&self.spare, place);
        }
        let most = self.in_service() + 1;
        // Relaxed, both: a hint.
        if most > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(most, Ordering::Relaxed);
        }
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn rank(&self, position: u64) -> u64 {
        position
    }
}
