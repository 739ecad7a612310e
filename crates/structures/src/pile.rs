//! A bounded stack in memory that threads or processes share, any of which may be killed or stopped at any step.
//!
//! Synthesis (5.2.2, figure 5.5) keeps a stack as an array, whose pointer and top element change together, by a CAS of two words that lie apart. No
//! processor has that today; and a process that dies between two instructions must not leave a half-done change. So the top element stands beside the
//! pointer, in one pair of words, and goes to its place in the array with the next change (as in Shafiei's array-based stack, 2009): the member that
//! changes the top writes the last top down first, and any member may do so. Elements are cells of bytes of their own; the array has their numbers.
//!
//! ```text
//!  top: stamp | height, cell         slots 1..capacity: stamp, cell          cells: state | height, length, bytes
//!
//!      push: fill a cell --> write the last top down --> swap the top --> say that the cell is used
//!      pop:  write the last top down --> copy the cell out --> swap the top for what is below --> free the cell
//! ```
//!
//! | step | what happened |
//! |---|---|
//! | `top` --> another, one higher | the element was pushed |
//! | `top` --> the slot below, one lower | the element was popped |
//!
//! Invariants:
//! - I1: the top's stamp rises by one with every change. So a swap from a top that was seen means that nothing has happened to it since.
//! - I2: no member changes the top before the slot at its height says the same cell and stamp. So for a top that is found unchanged, the slots below
//!   its height say what lies there.
//! - I3: a slot changes by a swap from what was read before the top was found unchanged. A late writer finds that the slot has changed: if the top has
//!   changed since, the slot had been written down first (I2), with a stamp that it never had before.
//! - I4: a cell says its height before the top leads to it, and stays at that height. So a USED cell to which neither the top nor the slot at its height
//!   leads is in no stack: it was popped, and its popper has not freed it.
//! - I5: a member that has read a cell, and then swapped the top that led to it, has read that element.
//! - I6: the turn of a cell that is freed was read while the top led to it (see `turns`).
//! - I7: each member has at most one cell in hand, pushed and not yet used, or popped and not yet free, and there are as many spare cells as members. So
//!   while the stack is not full there is a free cell, or one that a dead member had in hand.
//! - I8: the number of a dead member is a later one's as soon as its death is made up for, which another recoverer may do at any time. So a recoverer
//!   swaps a state from what it read only if that was still to be done after it had read everything else. (The memory is the stack's: it visits,
//!   arena, visit.rs.)
//!
//! Races: R1 two push, or pop: one swap. R2 a member that writes the last top down, and is stopped: I3. R3 a recoverer that was stopped, and a later owner of
//! the cell: the state was read first, and the swap is from that. R4 a popper and a recoverer free one cell: I6.
//!
//! Ordering edges: E1 (release/acquire) a cell's words before the top that leads there; a slot before the top that says that it was written down. E2
//! (release/acquire) a cell is taken before it is written over, and freed before that: a popper that reads a word of the new content fails to swap the top.
//!
//! Progress: lock-free: an operation begins again because another one has succeeded. Reading writes nothing.
//!
//! Deaths: before the swap of the top, an operation has not happened; after it, it has. `recover` finds the cell that the dead member had in hand.
//!
//! Explored: `tests/crash_stack.rs`. Left out: a member that was stopped for 2^42 changes of the top.

use crate::stamp::Stamp;
use crate::tries::{self, Loop};
#[cfg(feature = "sim")]
use crate::turns::FREE;
use crate::turns::{self, OWNED, USED, freed, is_owned_by, kind, read, turn, used, write};
use chappe_arena::Visit;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::pair::Pair;
use chappe_plat::step;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

/// The most elements that a stack can have.
pub const MOST_ELEMENTS: u32 = 1 << 20;
/// The most bytes of an element.
pub const MOST_BYTES: u32 = 1 << 20;
/// The most cells beyond one per element.
const MOST_SPARE: u32 = 256;
/// Of the top that was written down in a slot; below it is the cell.
type Written = Stamp<21, 43>;

/// Why nothing was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are as many elements as the stack was made for.
    Elements,
    /// More members than there are spare cells are at work.
    Cells,
}

/// What a stack is made for. All its users pass the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The most elements.
    pub capacity: u32,
    /// The bytes of an element.
    pub size: u32,
    /// How many cells there are beyond one per element.
    pub spare: u32,
}

impl Shape {
    /// A shape for so many members.
    pub fn new(capacity: u32, size: u32, members: u32) -> Shape {
        Shape { capacity, size, spare: members.clamp(1, MOST_SPARE) }
    }

    /// Whether there can be such a stack.
    pub fn is_possible(self) -> bool {
        (1..=MOST_ELEMENTS).contains(&self.capacity)
            && self.size <= MOST_BYTES
            && (1..=MOST_SPARE).contains(&self.spare)
    }

    fn cells(self) -> u32 {
        self.capacity + self.spare
    }

    fn cell_words(self) -> usize {
        1 + (self.size as usize).div_ceil(8)
    }

    fn cells_at(self) -> usize {
        (self.capacity + self.cells()) as usize
    }

    /// How many bytes it takes, from an address that is a multiple of 64.
    pub fn bytes(self) -> usize {
        size_of::<Head>() + (self.cells_at() + self.cells() as usize * self.cell_words()) * 8
    }
}

#[derive(Default)]
#[repr(C, align(64))]
struct Head {
    top: Pair,
    /// Where a member has last found a free cell: a hint.
    hint: AtomicU64,
}

/// The top, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Top {
    stamp: u64,
    height: u32,
    /// The cell's number plus one; 0 at the bottom.
    cell: u32,
}

impl Top {
    fn words(self) -> [u64; 2] {
        [self.stamp, u64::from(self.height) << 32 | u64::from(self.cell)]
    }

    fn of(stamp: u64, high: u64) -> Top {
        Top { stamp, height: (high >> 32) as u32, cell: high as u32 }
    }

    /// What the slot at its height says.
    fn slot(self) -> u64 {
        Written::word(self.stamp) | u64::from(self.cell)
    }
}

/// The cell's number plus one, as a slot says it.
fn cell_of(slot: u64) -> u32 {
    (slot & !Written::MASK) as u32
}

/// A stack in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Pile<'a> {
    head: &'a Head,
    words: NonNull<AtomicU64>,
    shape: Shape,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: all that is shared is atomic words.
unsafe impl Send for Pile<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pile<'_> {}

impl<'a> Pile<'a> {
    /// The stack at a place. Zeroed memory is an empty one.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as the shape says, for as long as `'a`, which nothing touches but by atomic words.
    ///
    /// # Panics
    /// If there can be no such stack.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Pile<'a> {
        assert!(shape.is_possible(), "a stack of {shape:?}");
        assert!(place.addr().get().is_multiple_of(64), "a stack that is not aligned");
        // SAFETY: as the caller promises; any bytes are a `Head`.
        let head = unsafe { place.cast::<Head>().as_ref() };
        // SAFETY: the words come after it.
        let words = unsafe { place.add(size_of::<Head>()) }.cast();
        Pile { head, words, shape, memory: PhantomData }
    }

    /// What it is made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    #[inline(always)]
    fn at(&self, word: usize) -> &'a AtomicU64 {
        // SAFETY: one of the stack's words: callers come with numbers below the counts of the shape.
        unsafe { self.words.add(word).as_ref() }
    }

    /// The slot at a height, 1 at least. A height beyond the last comes from a wild write: the first.
    #[inline(always)]
    fn slot(&self, height: u32) -> &'a AtomicU64 {
        let at = height.wrapping_sub(1);
        self.at(if at < self.shape.capacity { at as usize } else { 0 })
    }

    /// A cell's number; one beyond the last as above.
    #[inline(always)]
    fn led(&self, cell: u32) -> usize {
        if cell < self.shape.cells() { cell as usize } else { 0 }
    }

    #[inline(always)]
    fn state(&self, cell: u32) -> &'a AtomicU64 {
        self.at(self.shape.capacity as usize + self.led(cell))
    }

    /// A cell's height.
    #[inline(always)]
    fn height(&self, cell: u32) -> &'a AtomicU64 {
        self.at(self.shape.cells_at() + self.led(cell) * self.shape.cell_words())
    }

    #[inline(always)]
    fn bytes(&self, cell: u32) -> &'a [AtomicU64] {
        let from = self.shape.cells_at() + self.led(cell) * self.shape.cell_words() + 1;
        // SAFETY: within a cell of the stack.
        unsafe { std::slice::from_raw_parts(self.words.add(from).as_ptr(), self.shape.cell_words() - 1) }
    }

    /// The top, of one moment.
    #[inline(always)]
    fn top(&self) -> Top {
        let mut tries = 0;
        loop {
            // Acquire, both: E1; I1, before the second look.
            let stamp = self.head.top.low.load(Ordering::Acquire);
            let high = self.head.top.high.load(Ordering::Acquire); // Acquire: as above.
            // Acquire: I1.
            if self.head.top.low.load(Ordering::Acquire) == stamp {
                return Top::of(stamp, high);
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
    }

    #[inline(always)]
    fn is_still(&self, top: Top) -> bool {
        // Acquire: I1, I3: after what was read.
        self.head.top.low.load(Ordering::Acquire) == top.stamp
    }

    /// I2: the slot at the top's height says it. False: the top has changed meanwhile.
    #[inline(always)]
    fn write_down(&self, top: Top) -> bool {
        if top.height == 0 {
            return true;
        }
        let slot = self.slot(top.height);
        // Acquire: before the second look at the top.
        let seen = slot.load(Ordering::Acquire);
        if seen == top.slot() {
            return true;
        }
        step!("read a slot, not yet sure that it is to be written down");
        if !self.is_still(top) {
            return false;
        }
        // AcqRel: E1. Relaxed, a failure: another member did (I3).
        let _ = slot.compare_exchange(seen, top.slot(), Ordering::AcqRel, Ordering::Relaxed);
        true
    }

    /// I1: changes the top.
    #[inline(always)]
    fn swap(&self, top: Top, height: u32, cell: u32) -> bool {
        let next = Top { stamp: top.stamp.wrapping_add(1), height, cell };
        self.head.top.compare_exchange(top.words(), next.words()).is_ok()
    }

    fn take_cell(&self, me: u16) -> Option<(u32, u64)> {
        let take = || turns::take(me, 0..self.shape.cells(), &self.head.hint, |i| self.state(i));
        take().or_else(|| {
            self.look_at_all(&|_| false, &|| true);
            take()
        })
    }

    /// Pushes an element: so many bytes as the stack's elements have, or fewer, and zeros.
    ///
    /// # Errors
    /// It is full; nothing was pushed.
    #[inline]
    pub fn push(&self, me: u16, bytes: &[u8]) -> Result<(), Full> {
        let Some((cell, mine)) = self.take_cell(me) else {
            return Err(if self.top().height == self.shape.capacity { Full::Elements } else { Full::Cells });
        };
        step!("cell taken");
        write(self.bytes(cell), bytes);
        let mut tries = 0;
        loop {
            let top = self.top();
            if top.height >= self.shape.capacity {
                turns::free(self.state(cell), turn(mine));
                return Err(Full::Elements);
            }
            if self.write_down(top) {
                // Release: E2, I4.
                self.height(cell).store(u64::from(top.height) + 1, Ordering::Release);
                step!("cell ready, not yet pushed");
                if self.swap(top, top.height + 1, cell + 1) {
                    break;
                }
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
        step!("pushed, not yet said");
        turns::settle(self.state(cell), mine);
        Ok(())
    }

    /// Pops the element that was pushed last; copies it out. False: there is none.
    #[inline]
    pub fn pop(&self, to: &mut [u8]) -> bool {
        let mut tries = 0;
        loop {
            let top = self.top();
            if top.height == 0 {
                return false;
            }
            let cell = top.cell.wrapping_sub(1);
            // Acquire: I6, before the swap of the top.
            let state = self.state(cell).load(Ordering::Acquire);
            if self.write_down(top) {
                read(self.bytes(cell), to);
                // Acquire: I2.
                let below =
                    if top.height == 1 { 0 } else { cell_of(self.slot(top.height - 1).load(Ordering::Acquire)) };
                step!("copied out, not yet popped");
                if self.swap(top, top.height - 1, below) {
                    step!("popped, not yet free");
                    turns::free(self.state(cell), turn(state));
                    return true;
                }
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
    }

    /// Copies out what was pushed last. False: there is none.
    #[inline]
    pub fn peek(&self, to: &mut [u8]) -> bool {
        let mut tries = 0;
        loop {
            let top = self.top();
            if top.height == 0 {
                return false;
            }
            read(self.bytes(top.cell.wrapping_sub(1)), to);
            step!("read an element, not yet sure of it");
            if self.is_still(top) {
                return true;
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> u32 {
        self.top().height
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Recovers a dead member. `is_dead` says that this is not yet done: the number is still the dead member's. When this has
    /// completed, the number may be reused.
    pub fn recover(&self, _: &Visit<'_>, member: u16, is_dead: impl Fn() -> bool) {
        self.look_at_all(&|state| is_owned_by(state, member), &is_dead);
    }

    /// `is_its`: whether a state says that the dead member has the cell; `is_left`: whether its recovery is still to be done.
    fn look_at_all(&self, is_its: &dyn Fn(u64) -> bool, is_left: &dyn Fn() -> bool) {
        for cell in 0..self.shape.cells() {
            let at = self.state(cell);
            // Acquire: R3, before everything else.
            let state = at.load(Ordering::Acquire);
            let left = kind(state) == OWNED && is_its(state);
            if !left && kind(state) != USED {
                continue;
            }
            let in_place = self.is_in_place(cell);
            if in_place && !left {
                continue;
            }
            step!("looked for the dead's cell");
            // R3, I8: after all that was read.
            if !is_left() {
                return;
            }
            let next = if in_place { used(state) } else { freed(state) };
            // AcqRel: E2. Relaxed, a failure: another recoverer did, or the cell is another's by now.
            let _ = at.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// I4: whether a cell that is OWNED by the dead member, or USED, is an element.
    fn is_in_place(&self, cell: u32) -> bool {
        loop {
            let top = self.top();
            // Acquire, both: I2, before the second look at the top.
            let height = self.height(cell).load(Ordering::Acquire) as u32;
            let slot = self.slot(height).load(Ordering::Acquire); // Acquire: as above.
            let says = match height {
                0 => 0,
                h if h > top.height => 0,
                h if h == top.height => top.cell,
                _ => cell_of(slot),
            };
            step!("looked where the cell should be");
            if self.is_still(top) {
                return says == cell + 1;
            }
        }
    }

    /// Takes a cell, as the first step of a push.
    #[cfg(feature = "sim")]
    pub fn takes(&self, me: u16) -> bool {
        self.take_cell(me).is_some()
    }

    /// How many cells are not free, for onlookers.
    #[cfg(feature = "sim")]
    pub fn taken(&self) -> usize {
        // Relaxed: when all is over.
        (0..self.shape.cells()).filter(|i| kind(self.state(*i).load(Ordering::Relaxed)) != FREE).count()
    }

    /// Names its words, for the explorer's reports.
    #[cfg(feature = "sim")]
    pub fn each_word(&self, name: &mut dyn FnMut(&'a AtomicU64, String, fn(u64) -> String)) {
        name(&self.head.top.low, "stamp of the top".into(), |v| v.to_string());
        name(&self.head.top.high, "top".into(), |v| format!("height {}, cell {}", v >> 32, v as u32));
        for i in 1..=self.shape.capacity {
            name(self.slot(i), format!("slot {i}"), |v| format!("cell {} ({})", cell_of(v), Written::of(v)));
        }
        for i in 0..self.shape.cells() {
            name(self.state(i), format!("state of cell {}", i + 1), turns::state_in_words);
        }
    }
}
