//! A stack of values of any type for the threads of one process, linked.
//!
//! Synthesis, 5.2.1 (figure 5.4: insertion and deletion at the head of a list). There a CAS of two words keeps the head and its element together; here the
//! head has a tag that rises with every change (Treiber's stack). Nodes are type-stable: they come from chunks that stay until the stack goes, and free
//! nodes are a stack of the same kind.
//!
//! ```text
//!  head: tag:40 | node + 1:24 --> node: next, depth, value --> node --> 0          free: the same, of free nodes
//! ```
//!
//! Invariants:
//! - I1: tags only rise. So a swap of a head from what was seen means that nothing has happened to it since: `next`, and `depth`, which were read before
//!   it, were its node's.
//! - I2: a node is on one of the two stacks, or in one thread's hands. Only the thread that has it in hand touches its value.
//! - I3: a node's depth is one more than that of the node below it: so the head's node says how many there are.
//! - I4: a chunk is put in place before a number of its nodes is handed out, and stays.
//!
//! Ordering edges: E1 (release/acquire) value, `next` and depth before the head that leads there; what was taken out of a node before the free head that
//! leads to it.
//!
//! Progress: lock-free, except for a chunk's allocation: 64 nodes, then as many again as there are. A thread that is killed takes its process along; a
//! thread that is stopped holds up no other. Explored: `tests/crash_stack.rs`. Left out: a thread that was stopped for 2^40 changes of one head.

use crate::stamp::Stamp;
use crate::tries::{self, Loop};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::step;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The tag.
type Changes = Stamp<24, 40>;
const INDEX: u64 = !Changes::MASK;
/// The most nodes.
pub const MOST_NODES: u32 = (1 << 24) - 1;
/// Nodes of the first chunk; each further one doubles the number.
const FIRST: u32 = 64;
const CHUNKS: usize = 19;

struct Node<T> {
    /// The node below, and one.
    next: AtomicU32,
    depth: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A stack of values of any type.
pub struct Linked<T> {
    head: Line<AtomicU64>,
    free: Line<AtomicU64>,
    /// How many nodes were ever handed out.
    fresh: AtomicU32,
    capacity: u32,
    /// Addresses: a chunk each.
    chunks: [AtomicU64; CHUNKS],
    of: std::marker::PhantomData<T>,
}

#[repr(align(64))]
struct Line<T>(T);

// SAFETY: only the thread that has its node in hand touches a value (I2), and values go from thread to thread.
unsafe impl<T: Send> Send for Linked<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Linked<T> {}

/// Which chunk has a node, and where.
fn place(node: u32) -> (usize, u32) {
    let chunk = (node / FIRST + 1).ilog2();
    (chunk as usize, node - FIRST * ((1 << chunk) - 1))
}

fn chunk_len(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

/// The head after this one.
#[inline(always)]
fn leading(head: u64, to: u32) -> u64 {
    Changes::next(Changes::alone(head)) | u64::from(to)
}

impl<T> Linked<T> {
    /// An empty stack, for so many values at most.
    pub fn new(capacity: u32) -> Linked<T> {
        Linked {
            head: Line(AtomicU64::new(0)),
            free: Line(AtomicU64::new(0)),
            fresh: AtomicU32::new(0),
            capacity: capacity.min(MOST_NODES),
            chunks: std::array::from_fn(|_| AtomicU64::new(0)),
            of: std::marker::PhantomData,
        }
    }

    /// The most values.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// A node that was handed out: its number and one.
    #[inline(always)]
    fn node(&self, number: u32) -> &Node<T> {
        let (chunk, at) = place(number - 1);
        // Acquire: I4.
        let first = self.chunks[chunk].load(Ordering::Acquire) as usize as *const Node<T>;
        // SAFETY: I4: the chunk is there, and has so many nodes.
        unsafe { &*first.add(at as usize) }
    }

    /// I4: puts a chunk in place.
    #[cold]
    fn grow(&self, chunk: usize) {
        let nodes: Box<[Node<T>]> = (0..chunk_len(chunk))
            .map(|_| Node {
                next: AtomicU32::new(0),
                depth: AtomicU32::new(0),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        let at = Box::into_raw(nodes);
        // AcqRel: I4. Relaxed, a failure: another thread was first.
        let mine = at.cast::<Node<T>>() as usize as u64;
        if self.chunks[chunk].compare_exchange(0, mine, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: made above, and no other thread knows of it.
            drop(unsafe { Box::from_raw(at) });
        }
    }

    /// Takes the first node of a stack.
    #[inline(always)]
    fn unlink(&self, head: &AtomicU64) -> Option<u32> {
        let mut tries = 0;
        // Acquire: E1.
        let mut seen = head.load(Ordering::Acquire);
        loop {
            let first = (seen & INDEX) as u32;
            if first == 0 {
                return None;
            }
            // Relaxed: I1: it is the node's if the swap succeeds.
            let next = self.node(first).next.load(Ordering::Relaxed);
            step!("read what is below, not yet sure of it");
            // Acquire, both: E1.
            match head.compare_exchange(seen, leading(seen, next), Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => seen = now,
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
    }

    /// A node for a value.
    #[inline(always)]
    fn take(&self) -> Option<u32> {
        self.unlink(&self.free.0).or_else(|| self.take_fresh())
    }

    #[cold]
    fn take_fresh(&self) -> Option<u32> {
        // Relaxed, all: the number alone; the chunk is put in place below.
        let mut fresh = self.fresh.load(Ordering::Relaxed);
        loop {
            if fresh >= MOST_NODES {
                return None;
            }
            // Relaxed, both: as above.
            match self.fresh.compare_exchange(fresh, fresh + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => fresh = now,
            }
        }
        let (chunk, _) = place(fresh);
        // Acquire: I4.
        if self.chunks[chunk].load(Ordering::Acquire) == 0 {
            self.grow(chunk);
        }
        Some(fresh + 1)
    }

    fn give_back(&self, number: u32) {
        let node = self.node(number);
        let mut tries = 0;
        // Relaxed: the swap looks again.
        let mut seen = self.free.0.load(Ordering::Relaxed);
        loop {
            node.next.store((seen & INDEX) as u32, Ordering::Relaxed); // Relaxed: published by the head.
            // Release: E1. Relaxed, a failure: looks again.
            let swapped =
                self.free.0.compare_exchange(seen, leading(seen, number), Ordering::Release, Ordering::Relaxed);
            match swapped {
                Ok(_) => return,
                Err(now) => seen = now,
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
    }

    /// How many are at and below the node to which a head leads.
    #[inline(always)]
    fn depth(&self, head: u64) -> u32 {
        let first = (head & INDEX) as u32;
        // Relaxed: I1, I3: sure if the head is found unchanged.
        if first == 0 { 0 } else { self.node(first).depth.load(Ordering::Relaxed) }
    }

    /// Pushes a value.
    ///
    /// # Errors
    /// It is full: the value.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let Some(number) = self.take() else { return Err(value) };
        let node = self.node(number);
        // SAFETY: I2: the node is ours.
        unsafe { (*node.value.get()).write(value) };
        let mut tries = 0;
        // Acquire: I3, the depth.
        let mut seen = self.head.0.load(Ordering::Acquire);
        loop {
            let depth = self.depth(seen);
            if depth >= self.capacity {
                // Acquire: I1: after the depth.
                let now = self.head.0.load(Ordering::Acquire);
                if now == seen {
                    // SAFETY: written above, and the node is still ours.
                    let value = unsafe { (*node.value.get()).assume_init_read() };
                    self.give_back(number);
                    return Err(value);
                }
                seen = now;
                continue;
            }
            node.next.store((seen & INDEX) as u32, Ordering::Relaxed); // Relaxed: published by the head.
            node.depth.store(depth + 1, Ordering::Relaxed); // Relaxed: as above.
            step!("node ready, not yet pushed");
            // AcqRel, and Acquire for a failure: E1, I3.
            match self.head.0.compare_exchange(seen, leading(seen, number), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
            tries += 1;
            tries::retried(Loop::Stack, tries);
        }
    }

    /// Pops the value that was pushed last.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let number = self.unlink(&self.head.0)?;
        // SAFETY: I2: the node is ours, and was pushed with a value, which no other thread reads again.
        let value = unsafe { (*self.node(number).value.get()).assume_init_read() };
        step!("value taken, node not yet free");
        self.give_back(number);
        Some(value)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        loop {
            // Acquire, both: I1, I3.
            let seen = self.head.0.load(Ordering::Acquire);
            let depth = self.depth(seen);
            // Acquire: as above.
            if self.head.0.load(Ordering::Acquire) == seen {
                return depth;
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Linked<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
        for (chunk, at) in self.chunks.iter().enumerate() {
            // Relaxed: no other thread uses it.
            let first = at.load(Ordering::Relaxed) as usize as *mut Node<T>;
            if !first.is_null() {
                // SAFETY: from `grow`, of so many nodes; no value is in them any more.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first, chunk_len(chunk))) });
            }
        }
    }
}
