//! Rings whose positions go past what 31 and 32 bits hold (evidence, fault 5: Nix's cursors were signed and taken modulo), on
//! every kind of track; and what lies across a slot or is dropped with the ring.

use super::word::{EMPTY, word};
use super::{Fixed, Ring, Segmented, Spsc};
use chappe_plat::atomic::{AtomicU32, Ordering};
use std::cell::Cell;

thread_local! {
    /// How often this thread has waited a moment for a slot.
    pub static WAITS: Cell<u32> = const { Cell::new(0) };
}

impl<T> Ring<T, Fixed<T>> {
    /// As if so many laps had gone by.
    fn begin_at(capacity: usize, lap: u64) -> Ring<T> {
        let ring = Ring::new(capacity);
        let position = lap << capacity.next_power_of_two().trailing_zeros();
        ring.track.begin_at(word(lap, EMPTY));
        ring.head.0.store(position, Ordering::Relaxed); // Relaxed: no other thread has it yet.
        ring.tail.0.store(position, Ordering::Relaxed); // Relaxed: as above.
        ring
    }
}

impl<T> Ring<T, Segmented<T>> {
    /// As if so many runs had gone by.
    fn begin_at_run(number: u64) -> Ring<T, Segmented<T>> {
        let ring = Ring::unbounded();
        let position = ring.track.begin_at(number);
        ring.head.0.store(position, Ordering::Relaxed); // Relaxed: no other thread has it yet.
        ring.tail.0.store(position, Ordering::Relaxed); // Relaxed: as above.
        ring
    }
}

/// Ends before which cursors start.
const EDGES: [u64; 5] = [1 << 31, 1 << 32, 1 << 33, 1 << 35, 1 << 40];

/// Sends and takes across the edge: full, then empty, over and over.
fn goes_on(push: impl Fn(u64) -> bool, take: impl Fn() -> Option<u64>, room: u64, rounds: u64) {
    for round in 0..rounds {
        for i in 0..room {
            assert!(push(round * room + i), "message {i} of round {round}");
        }
        for i in 0..room {
            assert_eq!(take(), Some(round * room + i));
        }
        assert_eq!(take(), None, "round {round}");
    }
}

#[test]
fn fault_5_cursors_past_2_to_the_31_and_32_go_on() {
    for edge in EDGES {
        for capacity in [1, 2, 3, 4] {
            // The positions, and the laps, in turn.
            for lap in [edge / (capacity as u64).next_power_of_two() - 3, edge - 3] {
                let ring = Ring::begin_at(capacity, lap);
                let full = || ring.push(0).is_err();
                goes_on(|m| ring.push(m).is_ok(), || ring.take(), capacity as u64, 6);
                (0..capacity).for_each(|_| ring.push(0).unwrap());
                assert!(full() && ring.count() == capacity);
                let ring = Ring::begin_at(capacity, lap);
                goes_on(|m| ring.push_alone(m).is_ok(), || Some(ring.claim_message()?.read()), capacity as u64, 6);
            }
            let line = Spsc::begin_at(capacity, edge - 5);
            // SAFETY: one thread has both ends.
            let push = |m| unsafe { line.has_hole().then(|| line.put(m)).is_some() };
            // SAFETY: as above.
            goes_on(push, || unsafe { line.take() }, capacity as u64, 12);
        }
        let ring = Ring::begin_at_run(edge - 2);
        goes_on(|m| ring.push(m).is_ok(), || ring.take(), 70, 4);
        // The number of a run beside its name has 36 bits.
        let ring = Ring::begin_at_run((1 << 36) - 2);
        goes_on(|m| ring.push(m).is_ok(), || ring.take(), 70, 4);
    }
}

#[test]
fn a_sender_of_the_last_hole_does_not_wait_for_itself() {
    for capacity in [1, 2, 3] {
        let ring = Ring::new(capacity);
        (1..capacity).for_each(|m| ring.push(m).unwrap());
        let claim = ring.claim().unwrap();
        assert!(!ring.has_hole() && ring.push(9).is_err());
        claim.fill(capacity).unwrap();
        // The first is taken, and its place is written again: another lap.
        assert_eq!((ring.take(), ring.has_hole()), (Some(1), true));
        let claim = ring.claim().unwrap();
        assert!(!ring.has_hole() && ring.push(9).is_err());
        assert_eq!(WAITS.get(), 0, "{capacity}");
        claim.fill(9).unwrap();
    }
    // It is worth a moment where a hole is behind.
    let ring = Ring::new(2);
    let claim = ring.claim().unwrap();
    ring.push(2).unwrap();
    assert_eq!((ring.take(), ring.push(3)), (Some(2), Ok(())));
    assert!(WAITS.get() > 0);
    assert!(claim.fill(1).is_err(), "it was passed over");
}

#[test]
fn an_older_lap_means_empty_to_a_receiver() {
    let ring = Ring::begin_at(2, 7);
    // A slot that no thread has come to for some laps.
    ring.track.set(1, word(3, EMPTY));
    assert_eq!(ring.take(), None);
    assert!(ring.push(1).is_ok());
    assert_eq!(ring.take(), Some(1));
    assert_eq!(ring.take(), None, "the second slot is of an older lap");
    assert!(ring.push(2).is_ok());
    assert_eq!(ring.take(), Some(2));
}

#[repr(align(64))]
struct Wide([u8; 100], std::sync::Arc<AtomicU32>);

impl Drop for Wide {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed); // Relaxed: counted by one thread.
    }
}

#[test]
fn wide_and_aligned_messages_keep_their_place_and_are_dropped_once() {
    let dropped = std::sync::Arc::new(AtomicU32::new(0));
    let message = |n| Wide([n; 100], dropped.clone());
    let ring = Ring::new(3);
    let unbounded = Ring::unbounded();
    for n in 0..3 {
        assert!(ring.push(message(n)).is_ok() && unbounded.push(message(n)).is_ok());
    }
    for n in 0..2 {
        for got in [ring.take().unwrap(), unbounded.take().unwrap()] {
            assert_eq!((got.0, std::ptr::from_ref(&got).addr() % 64), ([n; 100], 0));
        }
    }
    drop((ring, unbounded));
    assert_eq!(dropped.load(Ordering::Relaxed), 6); // Relaxed: as above.
}

#[test]
fn an_unbounded_ring_gives_back_what_the_last_second_did_without() {
    let ring = Ring::unbounded();
    let burst = |many: u64| {
        (0..many).for_each(|n| ring.push(n).unwrap());
        (0..many).for_each(|n| assert_eq!(ring.take(), Some(n)));
    };
    burst(20_000);
    // 625 runs were in use, of 32 messages each.
    assert_eq!(ring.track.backed(), 1023);
    // A receiver that goes on to the next run in the same second gives nothing back; later, one row at a time becomes all spare.
    burst(100);
    assert_eq!(ring.track.backed(), 1023);
    for _ in 0..8 {
        ring.track.age();
        burst(100);
    }
    assert_eq!(ring.track.backed(), 15, "the small rows stay");
    // As before, and what it needs is not given back.
    for _ in 0..3 {
        burst(20_000);
        ring.track.age();
    }
    assert_eq!(ring.track.backed(), 1023);
    burst(100);
    assert_eq!(ring.track.backed(), 1023, "the second that has just gone by has used it");
}
