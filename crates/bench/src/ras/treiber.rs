//! Treiber's stack, as a free list of numbered places: what the free list of each processor is held against.
//!
//! Links are numbers of places; the head carries a tag that every change raises, so that a head that came back is not taken for
//! one that never went (ABA).
//!
//! | bits of the head | meaning |
//! |---|---|
//! | 0-31 | the first place, or NONE |
//! | 32-63 | the tag |

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const NONE: u32 = u32::MAX;

/// On a line of its own: it has no neighbours.
#[repr(align(128))]
struct Head(AtomicU64);

/// The stack.
pub struct Treiber {
    head: Head,
    next: Vec<AtomicU32>,
}

fn head(tag: u64, first: u32) -> u64 {
    tag << 32 | u64::from(first)
}

impl Treiber {
    /// With all of so many places on it.
    pub fn new(places: u32) -> Treiber {
        let next = (0..places).map(|n| AtomicU32::new(if n + 1 < places { n + 1 } else { NONE })).collect();
        Treiber { head: Head(AtomicU64::new(head(0, if places > 0 { 0 } else { NONE }))), next }
    }

    /// Takes one.
    #[inline(always)]
    pub fn pop(&self) -> Option<u32> {
        // Acquire: the link that was stored before the place was pushed.
        let mut seen = self.head.0.load(Ordering::Acquire);
        loop {
            let first = seen as u32;
            // Relaxed: if it is not the newest, neither is the head, and the swap fails.
            let next = self.next.get(first as usize)?.load(Ordering::Relaxed);
            let new = head((seen >> 32) + 1, next);
            // Acquire: as above.
            match self.head.0.compare_exchange_weak(seen, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => seen = now,
            }
        }
    }

    /// Puts one that was taken back.
    #[inline(always)]
    pub fn push(&self, place: u32) {
        // Relaxed: only compared with; what it names is not looked at.
        let mut seen = self.head.0.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the swap.
            self.next[place as usize].store(seen as u32, Ordering::Relaxed);
            let new = head((seen >> 32) + 1, place);
            // Release: the link, to the thread that takes the place. Relaxed: as above.
            match self.head.0.compare_exchange_weak(seen, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn all_places_come_out_once_and_the_last_in_first() {
        let stack = Treiber::new(3);
        let mut all: Vec<u32> = std::iter::from_fn(|| stack.pop()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        stack.push(2);
        stack.push(0);
        assert_eq!([stack.pop(), stack.pop(), stack.pop()], [Some(0), Some(2), None]);
    }

    #[test]
    fn no_two_threads_have_the_same_place() {
        let (stack, held) = (&Treiber::new(4), &[const { AtomicBool::new(false) }; 4]);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..20_000 {
                        let place = stack.pop().expect("three of four are held at most");
                        assert!(!held[place as usize].swap(true, Ordering::SeqCst));
                        held[place as usize].store(false, Ordering::SeqCst);
                        stack.push(place);
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| stack.pop()).count(), 4);
    }
}
