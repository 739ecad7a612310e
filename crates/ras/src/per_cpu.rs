//! A value for each CPU, and how a thread on another CPU gets at it.
//!
//! A slot has an `owner` word and a value; slots lie on cache lines of their own. A thread on that CPU changes the value within sections
//! (see `sequence`), which compare the owner first. A thread that wants the slot for itself, from any CPU, closes it:
//!
//! | owner | means | set by |
//! |---|---|---|
//! | the slot's number | open: sections on that CPU may commit | the thread that closed it |
//! | [`CLOSED`] | one thread has the slot to itself | compare-and-swap of that thread, from open |
//!
//! ```text
//!     a thread elsewhere                        sections of that CPU
//!       owner: number -> CLOSED (one wins)        one that compared before: goes on
//!       fence(that CPU)                           it is aborted here, or was committed before
//!       has the value to itself                   one that begins now: Moved, and goes another way
//!       owner = number (release)                  one that begins now: finds the value as it was left
//! ```
//!
//! - I1: between the fence's return and the opening no section of that slot commits: those that had compared were aborted, and those that
//!   compare later do not find the number.
//! - I2: a thread that finds the slot closed does not wait for it to open, but takes another way that is right beside the sections: the
//!   thread that closed it may be stopped, or be interrupted by this very signal handler.
//! - R1, a fence that is refused (a filter was installed after the start): nothing is known of sections that had compared, so the value
//!   must not be touched. The slot is opened again, which is right at any time, and the caller is told.
//! - R2, without the fence: a section that has compared and loaded stores after the value was taken, and what was taken exists twice.
//! - R3, a CPU that is not there any more: its threads were moved, so their sections were aborted; the fence answers at once.
//! - By concurrency ids it is not known on which CPU the slot's thread runs: the fence goes to all.
//! - A fork while another thread has a slot closed leaves it closed in the child, for ever: by I2 the child works without that slot. What
//!   that thread was about to move is lost in the child.
//!
//! Where there are no sequences there are no slots, and every operation takes another way.

use crate::gate;
use crate::sequence::{self, CLOSED, Finder, Here, Index, Outcome};
use chappe_plat::atomic::{AtomicU32, Ordering};

/// How often a section is tried before the caller takes another way: a thread that is traced step by step is aborted each time.
const TRIES: u32 = 8;

/// Of each CPU, or each concurrency id, a `T`.
pub struct PerCpu<T> {
    slots: Box<[Slot<T>]>,
    finder: Finder,
    index: Index,
}

/// What one CPU has.
#[repr(C, align(128))]
pub struct Slot<T> {
    owner: AtomicU32,
    value: T,
}

impl<T> Slot<T> {
    /// The word that sections on this slot compare.
    #[inline(always)]
    pub fn owner(&self) -> &AtomicU32 {
        &self.owner
    }

    /// What is changed by sections.
    #[inline(always)]
    pub fn value(&self) -> &T {
        &self.value
    }
}

/// Why a slot cannot be seized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeizeError {
    /// Another thread has it: try again later, or do without.
    #[error("another thread has this CPU's slot to itself just now; go on without it, or try again later")]
    Busy,
    /// The kernel refuses the fence now (R1). Nothing was changed.
    #[error("the kernel refuses membarrier, which it allowed at the start; install filters before the first use")]
    Refused,
}

impl<T> PerCpu<T> {
    /// Makes a `T` for each CPU that this machine can ever have; none where there are no sequences. By concurrency id only where the
    /// kernel keeps them, else by CPU.
    pub fn new(index: Index, mut make: impl FnMut() -> T) -> PerCpu<T> {
        let count = if gate::sequences() { sequence::slots() } else { 0 };
        let index = if index == Index::ConcurrencyId && !sequence::has_concurrency_ids() { Index::Cpu } else { index };
        let slot = |n| Slot { owner: AtomicU32::new(n as u32), value: make() };
        PerCpu { slots: (0..count).map(slot).collect(), finder: Finder::new(index), index }
    }

    /// By what the slots are chosen.
    pub fn index(&self) -> Index {
        self.index
    }

    /// All slots' values, for a caller that only looks.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|s| &s.value)
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none: no sequences here.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What the slot of that number has.
    pub fn value(&self, slot: usize) -> &T {
        &self.slots[slot].value
    }

    /// The number of the calling thread's slot a moment ago.
    pub fn here(&self) -> Option<usize> {
        let slot = self.finder.here().slot() as usize;
        (slot < self.slots.len()).then_some(slot)
    }

    /// Runs a section on the calling thread's slot, and again with a fresh look if it was aborted or moved: eight times in all, then
    /// answers what the last one came to. Never waits.
    #[inline(always)]
    pub fn attempt<R>(&self, section: impl Fn(Here, &Slot<T>) -> Outcome<R>) -> Outcome<R> {
        match self.try_once(&section) {
            Outcome::Moved | Outcome::Aborted => self.try_more(section),
            outcome => outcome,
        }
    }

    #[inline(always)]
    fn try_once<R>(&self, section: impl Fn(Here, &Slot<T>) -> Outcome<R>) -> Outcome<R> {
        let here = self.finder.here();
        self.slots.get(here.slot() as usize).map_or(Outcome::Moved, |slot| section(here, slot))
    }

    #[cold]
    #[inline(never)]
    fn try_more<R>(&self, section: impl Fn(Here, &Slot<T>) -> Outcome<R>) -> Outcome<R> {
        let mut outcome = Outcome::Moved;
        // The compiler is not to make as many copies of the section.
        for _ in 1..std::hint::black_box(TRIES) {
            if self.here().is_none() && !self.enter() {
                return Outcome::Moved;
            }
            outcome = self.try_once(&section);
            if matches!(outcome, Outcome::Done(_) | Outcome::Differs) {
                break;
            }
        }
        outcome
    }

    /// Gives the thread an area, if this library registers areas.
    fn enter(&self) -> bool {
        !self.slots.is_empty() && sequence::enter()
    }

    /// Takes a slot for the caller alone, until the answer is dropped. Interrupts that CPU if a thread of this process runs there: 0.3 to 2
    /// us. Never waits for other threads, and they never wait for it.
    ///
    /// # Errors
    /// [`SeizeError::Busy`], and [`SeizeError::Refused`] where the kernel does.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn seize(&self, slot: usize) -> Result<Seized<'_, T>, SeizeError> {
        let (number, seized) = (slot as u32, &self.slots[slot]);
        // SeqCst: before the fence. Acquire of a former opening is in it. Relaxed: then the slot is not the caller's.
        let ours = seized.owner.compare_exchange(number, CLOSED, Ordering::SeqCst, Ordering::Relaxed);
        if ours.is_err() {
            return Err(SeizeError::Busy);
        }
        let seized = Seized { slot: seized, number };
        let one = (self.index == Index::Cpu).then_some(number);
        // I1, R1.
        if sequence::fence(one) { Ok(seized) } else { Err(SeizeError::Refused) }
    }
}

/// A slot that is the caller's alone. Opens it when it is dropped.
pub struct Seized<'a, T> {
    slot: &'a Slot<T>,
    number: u32,
}

impl<T> std::ops::Deref for Seized<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.slot.value
    }
}

impl<T> Drop for Seized<'_, T> {
    fn drop(&mut self) {
        // Release: what was done to the value comes before; pairs with the owner's comparison, which comes first in
        // each section.
        self.slot.owner.store(self.number, Ordering::Release);
    }
}
