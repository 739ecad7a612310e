//! A track without an end: runs of slots, linked one behind the other, for tubes without a bound.
//!
//! A run is of one lap: its number. Its words begin as EMPTY of that lap; once each of its positions is done with it goes to
//! the spare ones, and comes back with a later number. So a slot is used again as one of a ring is, and who still has it in hand
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
//!
//! Invariants:
//! - I1: `first` and `last` only go on, from n to n+1, by a swap; `last` is never before `first`. So neither names a run that was
//!   given up, and who loaded one before finds laps of a later number in it, or another `next`.
//! - I2: a run is numbered after it was taken from the spare ones, one more than the last run of that moment, and linked by a swap
//!   of `n+1 | 0`. So its number only grows, whether it was linked as that or not, and each number is that of one linked run.
//! - I3: `first` goes on when a receiver has walked past all of the run's positions. It is given up when, besides, no slot of it
//!   is still WRITING, READING or FULL: until then it waits among the `late` ones, and is looked at when the next is given up.
//!
//! Progress: lock-free, but for the allocation when there is no spare run: then twice as many as the last time are made. The
//! memory is that of the most messages that were ever there at once.
//!
//! Explored: `tests/crash_ring.rs`, with runs of two.

use super::track::{End, Off, Slot, Track};
use super::{EMPTY, STATE, lap_of, word};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::step;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Slots of a run.
const SHIFT: u32 = if cfg!(any(feature = "sim", feature = "loom")) { 1 } else { 5 };
const LENGTH: usize = 1 << SHIFT;
/// Runs are made by ones, twos, fours...
const SIZES: u32 = 28;

/// No run.
const NONE: u64 = 0;

fn named(n: u64, place: u64) -> u64 {
    n << SIZES | place
}

fn place_in(name: u64) -> u64 {
    name & ((1 << SIZES) - 1)
}

struct Run<T> {
    place: u64,
    /// Written while it is nobody else's; of a late one, what it was last linked as.
    number: AtomicU64,
    next: AtomicU64,
    /// Of those that are spare or late: the next of the list.
    below: AtomicU64,
    slots: [Slot<T>; LENGTH],
}

impl<T> Run<T> {
    /// Makes one that was linked as number 0, as the first is, where it is to lie: its messages need not be written.
    fn lay(run: &mut MaybeUninit<Run<T>>, place: u64) {
        let run = run.as_mut_ptr();
        // SAFETY: each part of it, but for places of messages, which may be anything.
        unsafe {
            (&raw mut (*run).place).write(place);
            (&raw mut (*run).number).write(AtomicU64::new(0));
            (&raw mut (*run).next).write(AtomicU64::new(named(1, NONE)));
            (&raw mut (*run).below).write(AtomicU64::new(NONE));
            let slots = (&raw mut (*run).slots).cast::<Slot<T>>();
            (0..LENGTH).for_each(|slot| Slot::lay(slots.add(slot), word(0, EMPTY)));
        }
    }

    /// Whether nobody has anything to do in it any more. Everybody has walked past it.
    fn is_done(&self, n: u64) -> bool {
        // Acquire: what was done there comes before it is used again.
        self.slots.iter().map(|slot| slot.word.load(Ordering::Acquire)).all(|w| lap_of(w) > n && w & STATE == EMPTY)
    }
}

/// On a line of its own.
#[repr(align(128))]
struct Apart(AtomicU64);

/// Runs of slots.
pub struct Chain<T> {
    first: Apart,
    last: Apart,
    /// Lists. One is taken from `spare`, whose name has a number, too, one more each time; all of `late`.
    spare: AtomicU64,
    late: AtomicU64,
    made: AtomicU64,
    runs: [OnceLock<Box<[Run<T>]>>; SIZES as usize],
}

enum After<'c, T> {
    Run(&'c Run<T>),
    Nothing,
    /// The one before was given up meanwhile.
    Overtaken,
}

impl<T> Chain<T> {
    pub(super) fn new() -> Chain<T> {
        Chain {
            first: Apart(AtomicU64::new(named(0, 1))),
            last: Apart(AtomicU64::new(named(0, 1))),
            spare: AtomicU64::new(NONE),
            late: AtomicU64::new(NONE),
            made: AtomicU64::new(1),
            runs: [const { OnceLock::new() }; SIZES as usize],
        }
    }

    /// As if so many runs had gone by: the position where it begins.
    #[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
    pub(super) fn begin_at(&self, number: u64) -> u64 {
        let run = self.run(1);
        for slot in &run.slots {
            slot.word.store(word(number, EMPTY), Ordering::Relaxed); // Relaxed, here and below: nobody else has it yet.
        }
        run.number.store(number, Ordering::Relaxed); // Relaxed: as above.
        run.next.store(named(number + 1, NONE), Ordering::Relaxed); // Relaxed: as above.
        self.first.0.store(named(number, 1), Ordering::Relaxed); // Relaxed: as above.
        self.last.0.store(named(number, 1), Ordering::Relaxed); // Relaxed: as above.
        number << SHIFT
    }

    #[inline(always)]
    fn run(&self, place: u64) -> &Run<T> {
        let size = 1 << place.ilog2();
        let make = || {
            let mut runs = Box::<[Run<T>]>::new_uninit_slice(size as usize);
            runs.iter_mut().zip(size..).for_each(|(run, place)| Run::lay(run, place));
            // SAFETY: each was made.
            unsafe { runs.assume_init() }
        };
        &self.runs[place.ilog2() as usize].get_or_init(make)[(place - size) as usize]
    }

    /// A run that is in service when this is called, and its number.
    #[inline(always)]
    fn from(&self, from: &Apart) -> (&Run<T>, u64) {
        loop {
            // Acquire: the run as it was linked.
            let name = from.0.load(Ordering::Acquire);
            let run = self.run(place_in(name));
            // Acquire: as above. A later one: it was given up after we loaded its name (I1).
            let n = run.number.load(Ordering::Acquire);
            if named(n, run.place) == name {
                return (run, n);
            }
        }
    }

    /// The run after this one, if there is one.
    fn after(&self, run: &Run<T>, n: u64) -> After<'_, T> {
        // Acquire: the next as it was linked.
        let next = run.next.load(Ordering::Acquire);
        if next == named(n + 1, NONE) {
            After::Nothing
        } else if next ^ place_in(next) == named(n + 1, NONE) {
            After::Run(self.run(place_in(next)))
        } else {
            After::Overtaken
        }
    }

    /// Goes on from this run.
    #[cold]
    fn go_on(&self, end: End, run: &Run<T>, n: u64, next: &Run<T>) {
        let (from, to) = (named(n, run.place), named(n + 1, next.place));
        // SeqCst: I1, before `first` goes on. A failure: it has gone on already.
        let _ = self.last.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        // SeqCst: as above.
        if end == End::Head && self.first.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            step!("nobody comes to the run any more");
            // Acquire: each as it was left; nobody else has any of these now.
            let mut late = place_in(self.late.swap(NONE, Ordering::Acquire));
            self.give_up(run);
            while late != NONE {
                let run = self.run(late);
                // Relaxed: it is ours alone.
                late = place_in(run.below.load(Ordering::Relaxed));
                self.give_up(run);
            }
        }
    }

    /// I3.
    fn give_up(&self, run: &Run<T>) {
        // Relaxed: it is ours alone.
        let done = run.is_done(run.number.load(Ordering::Relaxed));
        put(if done { &self.spare } else { &self.late }, run);
    }

    /// A run that nobody has.
    fn fresh(&self) -> &Run<T> {
        // Acquire: the run as it was left.
        let mut top = self.spare.load(Ordering::Acquire);
        loop {
            if place_in(top) == NONE {
                // Relaxed: a number that nobody else gets.
                return self.run(self.made.fetch_add(1, Ordering::Relaxed) + 1);
            }
            let run = self.run(place_in(top));
            // Relaxed: if it is another's by now, the swap fails: the list's number is another.
            let below = run.below.load(Ordering::Relaxed);
            let rest = named((top >> SIZES) + 1, place_in(below));
            // Acquire, both: as above.
            match self.spare.compare_exchange(top, rest, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return run,
                Err(now) => top = now,
            }
        }
    }

    /// The last run, and its number.
    fn end(&self) -> (&Run<T>, u64) {
        loop {
            let (run, n) = self.from(&self.last);
            match self.after(run, n) {
                After::Nothing => return (run, n),
                After::Run(next) => self.go_on(End::Tail, run, n, next),
                After::Overtaken => {}
            }
        }
    }

    /// A position before `last`, or one that is done with.
    #[cold]
    fn before(&self, position: u64) -> Result<(&Slot<T>, u64), Off> {
        let (mut run, mut n) = self.from(&self.first);
        while n < position >> SHIFT
            && let After::Run(next) = self.after(run, n)
        {
            (run, n) = (next, n + 1);
        }
        let here = n == position >> SHIFT;
        if here { Ok((&run.slots[position as usize & (LENGTH - 1)], n)) } else { Err(Off::Gone(n << SHIFT)) }
    }
}

fn put<T>(list: &AtomicU64, run: &Run<T>) {
    // Relaxed: the swap decides.
    let mut top = list.load(Ordering::Relaxed);
    loop {
        // Relaxed: published by the swap.
        run.below.store(top, Ordering::Relaxed);
        // Release: the run as it was left.
        match list.compare_exchange(top, named((top >> SIZES) + 1, run.place), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => top = now,
        }
    }
}

impl<T> Track<T> for Chain<T> {
    #[inline(always)]
    fn at(&self, position: u64, end: End) -> Result<(&Slot<T>, u64), Off> {
        let wanted = position >> SHIFT;
        let from = if end == End::Tail { &self.last } else { &self.first };
        let (mut run, mut n) = self.from(from);
        loop {
            if n == wanted {
                return Ok((&run.slots[position as usize & (LENGTH - 1)], wanted));
            }
            if n > wanted {
                return self.before(position);
            }
            match self.after(run, n) {
                After::Nothing => return Err(Off::Beyond),
                After::Run(next) => {
                    if end != End::Ahead {
                        self.go_on(end, run, n, next);
                    }
                    (run, n) = (next, n + 1);
                }
                After::Overtaken => (run, n) = self.from(from),
            }
        }
    }

    #[inline(always)]
    fn next(&self, position: u64) -> u64 {
        position + 1
    }

    #[cold]
    fn grow(&self) {
        let fresh = self.fresh();
        // I2: after that.
        let (last, n) = self.end();
        for slot in &fresh.slots {
            // Relaxed: published by the link.
            slot.word.store(word(n + 1, EMPTY), Ordering::Relaxed);
        }
        // Relaxed, both: as above.
        fresh.number.store(n + 1, Ordering::Relaxed);
        fresh.next.store(named(n + 2, NONE), Ordering::Relaxed); // Relaxed: as above.
        step!("numbered, not yet linked");
        let (none, this) = (named(n + 1, NONE), named(n + 1, fresh.place));
        // SeqCst: I2, publishes the run.
        if last.next.compare_exchange(none, this, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            put(&self.spare, fresh);
        }
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn rank(&self, position: u64) -> u64 {
        position
    }
}
