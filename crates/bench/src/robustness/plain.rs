//! Plain algorithms for what cannot be left out of ours: a semaphore that is a counter, and Vyukov's ring.
//!
//! Both have what a sleeper needs and no more: a word that says whether a thread sleeps, looked at after each change, and a
//! wake. A death between two steps wedges the ring; a death anywhere may lose what the counter had.

use crate::peers::Lock;
use crate::raw::{self, Scope};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A count, and whether a thread sleeps. Down by a compare-and-swap, up by an addition.
pub struct Counter {
    word: AtomicU64,
    bell: AtomicU32,
}

const SLEEPERS: u64 = 1 << 63;

impl Counter {
    /// With this value.
    pub fn new(value: u32) -> Counter {
        Counter { word: AtomicU64::new(value.into()), bell: AtomicU32::new(0) }
    }

    #[cold]
    fn sleep(&self) {
        let rung = self.bell.load(Ordering::SeqCst);
        if self.word.fetch_or(SLEEPERS, Ordering::SeqCst) & !SLEEPERS == 0 {
            raw::wait(&self.bell, rung, Scope::Shared);
        }
    }

    #[cold]
    fn ring(&self) {
        self.word.fetch_and(!SLEEPERS, Ordering::SeqCst);
        self.bell.fetch_add(1, Ordering::SeqCst);
        // All of them: a thread that finds nothing announces again that it sleeps.
        (0..64).for_each(|_| raw::wake(&self.bell, Scope::Shared));
    }
}

impl Lock for Counter {
    #[inline(always)]
    fn lock(&self) {
        loop {
            let seen = self.word.load(Ordering::SeqCst);
            if seen & !SLEEPERS == 0 {
                self.sleep();
            } else if self.word.compare_exchange(seen, seen - 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }
    #[inline(always)]
    fn unlock(&self) {
        if self.word.fetch_add(1, Ordering::SeqCst) & SLEEPERS != 0 {
            self.ring();
        }
    }
}

#[repr(align(64))]
struct Place {
    stamp: AtomicU64,
    value: UnsafeCell<u64>,
}

#[repr(align(128))]
struct Apart(AtomicU64);

/// A bounded ring of many senders and receivers, claimed by its indices (D. Vyukov). Its operations do not wait.
pub struct Vyukov {
    tail: Apart,
    head: Apart,
    places: Box<[Place]>,
    /// Whether the thread that has changed it makes a fence, and looks for a sleeper.
    sleepers: bool,
    asleep: [AtomicU32; 2],
}

// SAFETY: a place's value is touched only by the thread that has claimed its index, and published by its stamp.
unsafe impl Sync for Vyukov {}

impl Vyukov {
    /// With so many places, a power of two.
    pub fn new(places: usize, sleepers: bool) -> Vyukov {
        assert!(places.is_power_of_two(), "{places} places");
        let place = |stamp| Place { stamp: AtomicU64::new(stamp), value: UnsafeCell::new(0) };
        Vyukov {
            tail: Apart(AtomicU64::new(0)),
            head: Apart(AtomicU64::new(0)),
            places: (0..places as u64).map(place).collect(),
            sleepers,
            asleep: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    #[inline(always)]
    fn place(&self, index: u64) -> &Place {
        &self.places[index as usize & (self.places.len() - 1)]
    }

    /// The index of a place with this stamp, claimed; none if the ring is full, or empty.
    #[inline(always)]
    fn claim(&self, index: &AtomicU64, ahead: u64) -> Option<u64> {
        // Relaxed: a failure is found out by the swap.
        let mut at = index.load(Ordering::Relaxed);
        loop {
            // Acquire: what the last one did with the place.
            let stamp = self.place(at).stamp.load(Ordering::Acquire);
            if stamp == at + ahead {
                // Relaxed, both: the stamp publishes.
                match index.compare_exchange_weak(at, at + 1, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(at),
                    Err(now) => at = now,
                }
            } else if (stamp.wrapping_sub(at + ahead) as i64) < 0 {
                return None;
            } else {
                // Relaxed: as above.
                at = index.load(Ordering::Relaxed);
            }
        }
    }

    #[inline(always)]
    fn tell(&self, who: usize) {
        if self.sleepers {
            fence(Ordering::SeqCst);
            // Relaxed: after the fence.
            if self.asleep[who].load(Ordering::Relaxed) != 0 {
                raw::wake(&self.asleep[who], Scope::Shared);
            }
        }
    }

    /// False: it is full.
    #[inline(always)]
    pub fn push(&self, value: u64) -> bool {
        let Some(at) = self.claim(&self.tail.0, 0) else { return false };
        let place = self.place(at);
        // SAFETY: claimed, and not yet stamped: no other thread touches it.
        unsafe { *place.value.get() = value };
        // Release: the value before its stamp.
        place.stamp.store(at + 1, Ordering::Release);
        self.tell(0);
        true
    }

    /// None: it is empty.
    #[inline(always)]
    pub fn pop(&self) -> Option<u64> {
        let at = self.claim(&self.head.0, 1)?;
        let place = self.place(at);
        // SAFETY: as in `push`.
        let value = unsafe { *place.value.get() };
        // Release: the look before the next value.
        place.stamp.store(at + self.places.len() as u64, Ordering::Release);
        self.tell(1);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_full_and_empty_when_it_should_be() {
        let ring = Vyukov::new(4, true);
        for lap in 0..3 {
            assert!((0..4).all(|n| ring.push(lap * 10 + n)) && !ring.push(9));
            assert!((0..4).all(|n| ring.pop() == Some(lap * 10 + n)) && ring.pop().is_none());
        }
    }

    #[test]
    fn a_counter_of_one_lets_one_in_at_a_time() {
        const TURNS: u64 = 5_000;
        let (counter, sum) = (Counter::new(1), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..TURNS {
                        counter.lock();
                        // Relaxed: guarded.
                        sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        counter.unlock();
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 3 * TURNS);
    }
}
