//! The least that a record between two processes takes: copied into memory that both share, and out of it.
//!
//! *There and back*: one place for the record and beside it a number that says whose turn it is. The two wait for that by
//! spinning, or asleep by a futex. *One way*: a ring of places, each with a word that says whether it is full; both spin.

use crate::handoff::{Course, await_turn, duel, pass};
use crate::process::{Zeroable, shared};
use crate::raw::{self, Scope};
use crate::tube::wire::Wire;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// So long is a record that goes there and back.
pub const SMALL: usize = 64;
const PLACES: usize = 64;

/// Room for a record, and whose it is.
#[repr(C, align(128))]
struct Place<const N: usize> {
    turn: AtomicU32,
    record: UnsafeCell<[u8; N]>,
}

// SAFETY: the record is touched only by whose turn it is.
unsafe impl<const N: usize> Sync for Place<N> {}
// SAFETY: zeroes are a number and bytes.
unsafe impl<const N: usize> Zeroable for Place<N> {}

impl<const N: usize> Place<N> {
    /// Puts it here.
    ///
    /// # Safety
    /// It is the caller's turn.
    unsafe fn put(&self, record: &[u8]) {
        // SAFETY: as the caller promises.
        unsafe { &mut *self.record.get() }.copy_from_slice(record);
    }

    /// Gets it from here.
    ///
    /// # Safety
    /// It is the caller's turn.
    unsafe fn get(&self, record: &mut [u8]) {
        // SAFETY: as the caller promises.
        record.copy_from_slice(unsafe { &*self.record.get() });
    }
}

/// How the two wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// They never sleep.
    Spinning,
    /// They sleep at once.
    Asleep,
}

fn give(turn: &AtomicU32, next: u32, waiting: Waiting) {
    match waiting {
        // Release: pairs with the load in `raw::spin`.
        Waiting::Spinning => turn.store(next, Ordering::Release),
        Waiting::Asleep => pass(turn, next, Scope::Shared),
    }
}

fn await_ours(turn: &AtomicU32, ours: u32, waiting: Waiting) {
    match waiting {
        Waiting::Spinning => raw::spin(turn, ours),
        Waiting::Asleep => await_turn(turn, ours, Scope::Shared),
    }
}

/// A round trip of a record; nanoseconds.
pub fn there_and_back(course: Course, waiting: Waiting) -> f64 {
    let place = shared::<Place<SMALL>>();
    duel(
        course,
        |start| {
            let mut record = [1; SMALL];
            start();
            for trip in 0..course.trips {
                // SAFETY: the turn is even, which is ours.
                unsafe { place.put(&record) };
                give(&place.turn, 2 * trip + 1, waiting);
                await_ours(&place.turn, 2 * trip + 2, waiting);
                // SAFETY: it is ours again.
                unsafe { place.get(&mut record) };
            }
            assert_eq!(record, [1; SMALL]);
        },
        |start| {
            let mut record = [0; SMALL];
            start();
            for trip in 0..course.trips {
                await_ours(&place.turn, 2 * trip + 1, waiting);
                // SAFETY: the turn is odd, which is ours.
                unsafe {
                    place.get(&mut record);
                    place.put(&record);
                }
                give(&place.turn, 2 * trip + 2, waiting);
            }
        },
    )
}

/// A ring of places for records of N bytes. A process that takes an end begins at its first place.
pub struct Ring<const N: usize>(&'static [Place<N>; PLACES]);

const EMPTY: u32 = 0;
const FULL: u32 = 1;

impl<const N: usize> Ring<N> {
    /// Makes one.
    pub fn make() -> Ring<N> {
        Ring(shared::<[Place<N>; PLACES]>())
    }
}

impl<const N: usize> Wire for Ring<N> {
    fn sender(&self) -> impl FnMut(&[u8]) {
        let mut places = self.0.iter().cycle();
        move |record| {
            let place = places.next().expect("it is a cycle");
            raw::spin(&place.turn, EMPTY);
            // SAFETY: one that is empty is the sender's.
            unsafe { place.put(record) };
            give(&place.turn, FULL, Waiting::Spinning);
        }
    }
    fn receiver(&self) -> impl FnMut(&mut [u8]) {
        let mut places = self.0.iter().cycle();
        move |record| {
            let place = places.next().expect("it is a cycle");
            raw::spin(&place.turn, FULL);
            // SAFETY: one that is full is the receiver's.
            unsafe { place.get(record) };
            give(&place.turn, EMPTY, Waiting::Spinning);
        }
    }
}
