//! A pool of equal things that are taken and given back, without an interlocked instruction where possible.
//!
//! Each CPU has a list of free nodes, which sections push to and pop from. Beside the lists there is one overflow, a stack that is changed
//! by compare-and-swap. All nodes start there, and a node goes there if a thread cannot put it into its CPU's list (no sequences, the list
//! is closed, or the thread is traced step by step and aborted each time). A thread that finds its list and the overflow empty steals
//! another CPU's list, whole.
//!
//! ```text
//!     take:   own list  --empty-->  overflow  --empty-->  each other CPU's list  --empty-->  None
//!               pop, a section        compare-and-swap      close, fence, take all; the first is the caller's, the rest
//!                                                           goes to its own list, or to the overflow; open
//!     give:   own list  --cannot--> overflow
//! ```
//!
//! The overflow's word: bits 0-31 are the number of the first node plus one, or 0; bits 32-63 count its changes, so that a thread that has
//! seen an older word does not take the newer one for it (for 2^32 changes).
//!
//! - I1: a node is in one list, in the overflow, or taken by one thread. It moves by one commit, or while the list is closed.
//! - I2: nodes live as long as the list, and their links are nothing but links: a section may read the link of a node that is gone (it is
//!   aborted then), and the overflow's compare-and-swap may have an old link (the count has changed then).
//! - I3: a link's value is 0 or a node's address, always.
//! - E1: what was done to a node before it was given is visible to the thread that takes it: on one CPU, by the order of its instructions
//!   and the kernel's switch between threads; from the overflow by release and acquire; of a stolen list by the fence.
//! - R1, a section pops while its list is stolen: either it has committed before the fence, and the thief finds what follows; or it is
//!   aborted. Without the fence it would store its `next`, and the list would exist twice.
//! - R2, the fence is refused: that list stays where it is, and its nodes can be taken on its CPU alone. A thread that was refused each
//!   time does not look again: it would be refused again.
//! - R3, a thread looks while nodes move from a list that it has not seen to one that it has: `moves` shows this, and the thread looks
//!   again, a few times. So `None` says that nothing was found, not that at one moment nothing was free: other threads take and give
//!   meanwhile.
//! - R4, a thief that is stopped holds the nodes that it is moving; all other threads go on without. A signal handler that interrupts a
//!   thief finds that list closed, and goes on without.
//! - R5, a fork while another thread steals: in the child that list stays closed for ever, the nodes being moved are lost, and a thread
//!   that finds nothing there looks `ROUNDS` times each time. Give children lists of their own.
//!
//! Wait-free on the own list, lock-free in the overflow.

use crate::per_cpu::{PerCpu, SeizeError};
use crate::sequence::{Index, Link, Outcome};
use chappe_plat::atomic::{AtomicU64, Ordering, fence, give_way};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// How often a thread that finds nothing while nodes move looks again.
const ROUNDS: u32 = 16;

#[repr(C)]
struct Node<T> {
    link: Link,
    value: UnsafeCell<T>,
}

/// On a line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// How many steals have begun, and how many of them have ended.
#[repr(align(128))]
#[derive(Default)]
struct Moves {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// What came of the steals of one round.
#[derive(Default)]
struct Steals {
    begun: u64,
    refused: u64,
}

/// A fixed number of things of one kind; each is free, or taken by one thread.
///
/// ```
/// let buffers = chappe_ras::FreeList::new(chappe_ras::Index::Cpu, 4, || vec![0_u8; 4096]);
/// let mut buffer = buffers.take().expect("nobody has any");
/// buffer[0] = 1;
/// drop(buffer); // It is free again.
/// ```
pub struct FreeList<T> {
    /// Owned. No box: all that is reached by an address from a link is reached by this pointer.
    nodes: NonNull<[Node<T>]>,
    heads: PerCpu<AtomicU64>,
    overflow: Line,
    moves: Moves,
}

// SAFETY: a value is reached only by the thread that has taken its node, one thread at a time.
unsafe impl<T: Send> Send for FreeList<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for FreeList<T> {}

impl<T> FreeList<T> {
    /// Makes `count` of them, all free.
    ///
    /// # Panics
    /// More than 2^32 - 2.
    pub fn new(index: Index, count: usize, mut make: impl FnMut() -> T) -> FreeList<T> {
        assert!(count < u32::MAX as usize, "a free list has at most 2^32 - 2 things");
        let node = |_| Node { link: Link::new(), value: UnsafeCell::new(make()) };
        let nodes: Box<[Node<T>]> = (0..count).map(node).collect();
        let nodes = NonNull::from(Box::leak(nodes));
        // Sections reach nodes by their addresses alone.
        nodes.cast::<Node<T>>().as_ptr().expose_provenance();
        let list = FreeList {
            nodes,
            heads: PerCpu::new(index, || AtomicU64::new(0)),
            overflow: Line(AtomicU64::new(0)),
            moves: Moves::default(),
        };
        list.nodes().iter().rev().for_each(|node| list.put_over(node.link.address(), &node.link));
        list
    }

    fn nodes(&self) -> &[Node<T>] {
        // SAFETY: they live as long as the list; what changes in them is in cells.
        unsafe { self.nodes.as_ref() }
    }

    /// Takes a free thing: the one that was given back last on this CPU if there is one. None: none was found (R3 of the file's head says
    /// what that means while other threads take and give). Never waits for other threads.
    #[inline(always)]
    pub fn take(&self) -> Option<Taken<'_, T>> {
        match self.pop() {
            Outcome::Done(node) => Some(Taken { list: self, node: self.at(node) }),
            _ => self.take_elsewhere(),
        }
    }

    #[inline(always)]
    fn pop(&self) -> Outcome<u64> {
        // SAFETY: only sections on the slot write to its head, and the thread that has seized it; nodes live as long as the list (I2).
        self.heads.attempt(|here, slot| unsafe { here.pop(slot.owner(), slot.value()) })
    }

    #[inline(always)]
    fn give(&self, node: &Node<T>) {
        let it = node.link.address();
        // SAFETY: as above; the node is the caller's.
        let pushed = self.heads.attempt(|here, slot| unsafe { here.push(slot.owner(), slot.value(), it, it) });
        if !matches!(pushed, Outcome::Done(())) {
            self.put_over(it, &node.link);
        }
    }

    #[inline(always)]
    fn at(&self, address: u64) -> &Node<T> {
        let first: *const Node<T> = self.nodes.cast().as_ptr();
        // SAFETY: I3, of a node that was in a list.
        unsafe { &*first.with_addr(address as usize) }
    }

    #[cold]
    fn take_elsewhere(&self) -> Option<Taken<'_, T>> {
        for round in 0..ROUNDS {
            // Acquire: before the looks below (R3).
            let ended = self.moves.ended.load(Ordering::Acquire);
            let found = if round > 0
                && let Outcome::Done(node) = self.pop()
            {
                Some(node)
            } else {
                None
            };
            let mut stole = Steals::default();
            let found = found.or_else(|| self.take_over()).or_else(|| self.steal(&mut stole));
            if let Some(node) = found {
                return Some(Taken { list: self, node: self.at(node) });
            }
            // R2.
            if stole.begun > 0 && stole.refused == stole.begun {
                return None;
            }
            // SeqCst: after the looks above. Relaxed: the fence before it. All that have begun had ended before them, but the own ones,
            // which moved nothing.
            fence(Ordering::SeqCst);
            if self.moves.begun.load(Ordering::Relaxed).wrapping_sub(stole.begun) == ended {
                return None;
            }
            give_way();
        }
        None
    }

    /// The overflow's word for a node, after this one.
    fn word(&self, address: u64, old: u64) -> u64 {
        let first = self.nodes.cast::<Node<T>>().addr().get() as u64;
        let number = if address == 0 { 0 } else { (address - first) / size_of::<Node<T>>() as u64 + 1 };
        (old >> 32).wrapping_add(1) << 32 | number
    }

    /// The node of an overflow's word.
    fn first(&self, word: u64) -> Option<&Node<T>> {
        (word as u32).checked_sub(1).map(|n| &self.nodes()[n as usize])
    }

    /// Puts a chain into the overflow.
    #[cold]
    fn put_over(&self, first: u64, last: &Link) {
        // Relaxed, both: the swap decides.
        let mut old = self.overflow.0.load(Ordering::Relaxed);
        loop {
            last.0.store(self.first(old).map_or(0, |n| n.link.address()), Ordering::Relaxed);
            let new = self.word(first, old);
            // Release: E1. Relaxed: tried again.
            match self.overflow.0.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => old = seen,
            }
        }
    }

    fn take_over(&self) -> Option<u64> {
        // Acquire: E1, and the link.
        let mut old = self.overflow.0.load(Ordering::Acquire);
        loop {
            let node = self.first(old)?;
            let new = self.word(node.link.next(), old);
            // Acquire, both: as above.
            match self.overflow.0.compare_exchange_weak(old, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(node.link.address()),
                Err(seen) => old = seen,
            }
        }
    }

    /// Takes another CPU's list, and keeps what follows its first node.
    fn steal(&self, stole: &mut Steals) -> Option<u64> {
        let own = self.heads.here().unwrap_or(0);
        let all = self.heads.len();
        (1..=all).map(|n| (own + n) % all).find_map(|slot| self.steal_from(slot, stole))
    }

    fn steal_from(&self, slot: usize, stole: &mut Steals) -> Option<u64> {
        // Relaxed: a look, which costs its CPU nothing.
        if self.heads.value(slot).load(Ordering::Relaxed) == 0 {
            return None;
        }
        stole.begun += 1;
        // Relaxed: R3, and the fence of `seize` follows.
        self.moves.begun.fetch_add(1, Ordering::Relaxed);
        // I1: until it is opened again, when this closure ends, no section touches it.
        let seized = self.heads.seize(slot);
        stole.refused += u64::from(matches!(seized, Err(SeizeError::Refused)));
        let stolen = seized.ok().and_then(|head| {
            // Relaxed, both: the caller has seized it; E1 was the fence.
            let node = head.load(Ordering::Relaxed);
            head.store(0, Ordering::Relaxed);
            if node == 0 {
                return None;
            }
            self.keep(self.at(node).link.next());
            Some(node)
        });
        // Release: R3, after the nodes are where they are to be.
        self.moves.ended.fetch_add(1, Ordering::Release);
        stolen
    }

    /// Puts a chain into the own list if that is empty still, else into the overflow.
    fn keep(&self, chain: u64) {
        if chain == 0 {
            return;
        }
        // SAFETY: as in `pop`; the chain is ours.
        let kept = self.heads.attempt(|h, s| unsafe { h.compare_store(s.owner(), s.value(), 0, chain) });
        if !matches!(kept, Outcome::Done(())) {
            let mut last = &self.at(chain).link;
            while last.next() != 0 {
                last = &self.at(last.next()).link;
            }
            self.put_over(chain, last);
        }
    }
}

impl<T> Drop for FreeList<T> {
    fn drop(&mut self) {
        // SAFETY: the box that was leaked; nobody has anything of it any more.
        drop(unsafe { Box::from_raw(self.nodes.as_ptr()) });
    }
}

/// A thing that was taken. Dropping it gives it back, on whatever CPU that happens.
pub struct Taken<'a, T> {
    list: &'a FreeList<T>,
    node: &'a Node<T>,
}

// SAFETY: its holder has the value.
unsafe impl<T: Send> Send for Taken<'_, T> {}
// SAFETY: shared, it shares the value.
unsafe impl<T: Sync + Send> Sync for Taken<'_, T> {}

impl<T> std::ops::Deref for Taken<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: I1: the node is ours, and nobody else's.
        unsafe { &*self.node.value.get() }
    }
}

impl<T> std::ops::DerefMut for Taken<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: I1, and this is borrowed alone.
        unsafe { &mut *self.node.value.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.list.give(self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thief continues after another thread has given a node to the list of its CPU meanwhile: then the rest of what it stole goes
    /// elsewhere.
    #[test]
    fn stolen_nodes_replace_no_node_on_the_list() {
        for _ in 0..20 {
            let list = FreeList::new(Index::Cpu, 4, || ());
            let [one, other, given] = [(); 3].map(|()| list.take().expect("there are four"));
            drop(given);
            // Relaxed: no other thread has them.
            one.node.link.0.store(other.node.link.address(), Ordering::Relaxed);
            other.node.link.0.store(0, Ordering::Relaxed);
            let stolen = one.node.link.address();
            std::mem::forget((one, other));
            list.keep(stolen);
            let all: Vec<_> = std::iter::from_fn(|| list.take()).collect();
            assert_eq!(all.len(), 4);
        }
    }
}
