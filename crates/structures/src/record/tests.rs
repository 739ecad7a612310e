//! Threads that send and receive at once: counts, and each sender's order. (Every order of a few steps: `tests/crash_record.rs`.)

use super::*;
use chappe_arena::Visit;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

const EACH: u64 = if cfg!(debug_assertions) { 1_000 } else { 40_000 };
const SIZE: u32 = 40;

fn many(slots: u32) -> Shape {
    Shape::many(slots, SIZE, 8)
}

/// A ring as it lies in a mapping, which outlives the test.
fn ring(shape: Shape) -> Ring<'static> {
    let memory = vec![0u8; bytes_needed(shape.slots, shape.size, shape.align) + 64].leak();
    let aligned = memory.as_mut_ptr().align_offset(64);
    // SAFETY: as many bytes, zeroed and aligned, that no other thread knows of.
    unsafe { Ring::new(NonNull::from(&mut memory[aligned..]).cast(), shape) }
}

/// A message: all its words say the same, and so does its length.
fn record(message: u64) -> ([u8; SIZE as usize], usize) {
    let mut bytes = [0; SIZE as usize];
    bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&message.to_le_bytes()));
    (bytes, 8 + (message as usize * 7) % 33)
}

fn message(bytes: &[u8]) -> u64 {
    let message = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (whole, len) = record(message);
    assert_eq!(bytes, &whole[..len], "torn");
    message
}

fn send(ring: &Ring<'_>, me: u16, message: u64) -> bool {
    let (bytes, len) = record(message);
    ring.try_send(me, &bytes[..len])
}

fn receive(ring: &Ring<'_>) -> Option<(u64, bool)> {
    let mut buffer = [MaybeUninit::new(0u8); SIZE as usize];
    let got = ring.try_recv(&mut buffer)?;
    // SAFETY: they were there from the start.
    let bytes = buffer.map(|b| unsafe { b.assume_init() });
    Some((message(&bytes[..got.len as usize]), got.again))
}

/// Writes a message in place. Answers its length.
fn fill(ring: &Ring<'_>, slot: &Slot, message: u64) -> u32 {
    let (bytes, len) = record(message);
    // SAFETY: ours, and large enough.
    unsafe { ring.place(slot).copy_from_nonoverlapping(bytes.as_ptr(), len) };
    len as u32
}

fn look(ring: &Ring<'_>, borrowed: &Borrowed) -> u64 {
    let (place, len) = ring.record(borrowed);
    // SAFETY: so many bytes, and ours.
    message(unsafe { std::slice::from_raw_parts(place, len as usize) })
}

/// Sends from a reservation, some of which it gives up.
fn send_in_place(ring: &Ring<'_>, me: u16, message: u64) -> bool {
    let Some(slot) = ring.reserve(me) else { return false };
    let len = fill(ring, &slot, message);
    if message.is_multiple_of(5) {
        ring.abandon(slot);
        return false;
    }
    let mut slot = slot;
    loop {
        match ring.commit(slot, len) {
            Ok(()) => return true,
            Err(Unsent::Full(back)) => slot = back,
            Err(e) => panic!("{e:?}"),
        }
        thread::yield_now();
    }
}

/// Until it succeeds.
fn insist<T>(mut f: impl FnMut() -> Option<T>) -> T {
    loop {
        match f() {
            Some(t) => return t,
            None => thread::yield_now(),
        }
    }
}

/// So many senders and receivers; what each receiver got of each sender rises, and all of it comes.
fn all_arrives(ring: Ring<'static>, senders: u16, receivers: u16, in_place: bool) {
    let got = Mutex::new(BTreeSet::new());
    // In a small ring each message takes a switch of threads.
    let each = EACH.min(300 * u64::from(ring.slots()));
    let total = each * u64::from(senders);
    thread::scope(|s| {
        for me in 0..senders {
            s.spawn(move || {
                for i in 0..each {
                    let message = u64::from(me) << 32 | i;
                    insist(|| {
                        let sent = match in_place && i % 2 == 0 {
                            true if message.is_multiple_of(5) => {
                                !send_in_place(&ring, me, message) && send(&ring, me, message)
                            }
                            true => send_in_place(&ring, me, message),
                            false => send(&ring, me, message),
                        };
                        sent.then_some(())
                    });
                }
            });
        }
        for me in 0..receivers {
            let got = &got;
            s.spawn(move || {
                let mut last = vec![None; senders.into()];
                loop {
                    let message = if in_place {
                        ring.borrow(100 + me).map(|borrowed| {
                            let message = look(&ring, &borrowed);
                            assert!(!borrowed.again() && ring.release(borrowed));
                            message
                        })
                    } else {
                        receive(&ring).map(|(message, again)| {
                            assert!(!again);
                            message
                        })
                    };
                    let Some(message) = message else {
                        if got.lock().expect("no panic").len() as u64 == total {
                            return;
                        }
                        thread::yield_now();
                        continue;
                    };
                    let last = &mut last[(message >> 32) as usize];
                    assert!(*last < Some(message), "{message:x} after {last:x?}");
                    *last = Some(message);
                    assert!(got.lock().expect("no panic").insert(message), "{message:x} came twice");
                }
            });
        }
    });
    assert_eq!(got.into_inner().expect("no panic").len() as u64, total);
    assert_eq!((ring.len(), ring.dropped(), ring.redelivered()), (0, 0, 0));
}

#[test]
fn the_slots_count_what_has_gone_through() {
    let ring = ring(many(3));
    let passed = || (ring.passed().sent, ring.passed().received);
    for n in 0..10 {
        assert!(send(&ring, 1, n));
        assert_eq!(passed(), (n + 1, n));
        assert_eq!(receive(&ring), Some((n, false)));
        assert_eq!(passed(), (n + 1, n + 1));
    }
    assert!(send(&ring, 1, 10));
    let borrowed = ring.borrow(2).expect("a record");
    let slot = ring.reserve(1).expect("a hole");
    assert_eq!(passed(), (11, 10));
    ring.release(borrowed);
    assert_eq!(passed(), (11, 11));
    let len = fill(&ring, &slot, 11);
    ring.commit(slot, len).expect("it was not passed over");
    assert_eq!(passed(), (12, 11));
    // Given up: as if it had been sent and received.
    ring.abandon(ring.reserve(1).expect("a hole"));
    assert_eq!(passed(), (13, 12));
}

#[test]
fn many_senders_and_receivers_lose_no_record() {
    for slots in [1, 2, 3, 64] {
        all_arrives(ring(many(slots)), 2, 2, false);
        all_arrives(ring(many(slots)), 2, 2, true);
    }
}

#[test]
fn laps_may_end_and_begin_anew() {
    for lap in [(1 << 45) - 5, (1 << 44) - 5, (1 << 32) - 5, (1 << 31) - 5] {
        let ring = ring(many(3));
        ring.begin_at(lap);
        all_arrives(ring, 2, 2, true);
    }
}

#[test]
fn ends_that_only_one_has_lose_nothing() {
    for slots in [1, 2, 64] {
        for (senders, receivers) in [(1, 1), (2, 1), (1, 2)] {
            let shape = Shape { one_sender: senders == 1, one_receiver: receivers == 1, ..many(slots) };
            all_arrives(ring(shape), senders, receivers, false);
            all_arrives(ring(shape), senders, receivers, true);
        }
    }
}

#[test]
fn a_reservation_and_a_loan_hold_up_nobody() {
    let ring = ring(many(4));
    assert!(send(&ring, 1, 1));
    let loan = ring.borrow(2).expect("a record");
    let slot = ring.reserve(3).expect("a hole");
    let len = fill(&ring, &slot, 2);
    for i in 10..1_000 {
        assert!(send(&ring, 1, i) && send(&ring, 1, i + 10_000), "{i}");
        assert!(!send(&ring, 1, 5), "more than there is room for");
        assert_eq!(
            (receive(&ring), receive(&ring), receive(&ring)),
            (Some((i, false)), Some((i + 10_000, false)), None)
        );
    }
    ring.commit(slot, len).expect("there is a hole");
    assert_eq!(look(&ring, &loan), 1);
    assert_eq!(receive(&ring), Some((2, false)));
    assert!(ring.release(loan));
    assert_eq!((0..9).filter(|i| send(&ring, 1, *i)).count(), 4);
}

#[test]
fn a_passed_over_record_may_find_no_hole_and_wait() {
    let ring = ring(many(3));
    let slot = ring.reserve(1).expect("a hole");
    let len = fill(&ring, &slot, 7);
    assert!(send(&ring, 2, 8));
    assert_eq!(receive(&ring), Some((8, false)));
    // Its own slot is the one that is left.
    assert!(send(&ring, 2, 9) && send(&ring, 2, 10) && !send(&ring, 2, 11));
    let Err(Unsent::Full(slot)) = ring.commit(slot, len) else {
        panic!("there is no hole before the others are taken")
    };
    assert_eq!(receive(&ring), Some((9, false)));
    ring.commit(slot, len).expect("a hole");
    assert_eq!((receive(&ring), receive(&ring)), (Some((10, false)), Some((7, false))));
}

/// Receivers forget what they have borrowed, as if they had died there, and are recovered, while the others go on.
fn with_deaths(drops: bool) {
    let ring = ring(Shape { drops, ..many(8) });
    let got = Mutex::new((BTreeSet::new(), BTreeSet::new()));
    let count = |got: &Mutex<(BTreeSet<u64>, BTreeSet<u64>)>| {
        let got = got.lock().expect("no panic");
        (got.0.len(), got.1.len())
    };
    thread::scope(|s| {
        s.spawn(move || (0..EACH).for_each(|i| insist(|| send(&ring, 1, i).then_some(()))));
        for me in 2..4 {
            let got = &got;
            s.spawn(move || {
                let mut turn = 0;
                while count(got).0 as u64 + ring.dropped() < EACH {
                    turn += 1;
                    let Some(borrowed) = ring.borrow(me) else {
                        thread::yield_now();
                        continue;
                    };
                    if turn % 7 == 0 || (borrowed.again() && turn % 3 == 0) {
                        // Another thread may do it too.
                        thread::scope(|s| {
                            (0..2).for_each(|_| {
                                _ = s.spawn(|| ring.recover(&Visit::of_own_memory(), me, || true, |_| ()))
                            })
                        });
                        continue;
                    }
                    let message = look(&ring, &borrowed);
                    let mut got = got.lock().expect("no panic");
                    assert!(got.0.insert(message), "{message} came twice");
                    if borrowed.again() {
                        got.1.insert(message);
                    }
                    drop(got);
                    assert!(ring.release(borrowed));
                }
            });
        }
    });
    let (all, again) = count(&got);
    assert_eq!(all as u64 + ring.dropped(), EACH);
    assert!(ring.dropped() > 0 && (again > 0) != drops, "{again} came again, {} were dropped", ring.dropped());
    assert_eq!(ring.len(), 0);
}

#[test]
fn a_dead_members_record_comes_again_or_is_counted() {
    with_deaths(false);
    with_deaths(true);
}

#[test]
fn records_have_their_own_lengths_and_lie_aligned() {
    for (size, align) in [(1, 1), (7, 2), (8, 8), (20, 4), (64, 64), (100, 32), (0, 1)] {
        let ring = ring(Shape::many(3, size, align));
        for len in 0..=size {
            let bytes: Vec<u8> = (0..len as u8).map(|i| i.wrapping_mul(7).wrapping_add(len as u8)).collect();
            assert!(ring.try_send(1, &bytes));
            let loan = ring.borrow(2).expect("a record");
            let (place, its) = ring.record(&loan);
            // SAFETY: so many bytes, ours.
            assert_eq!(unsafe { std::slice::from_raw_parts(place, its as usize) }, bytes);
            assert!(place.addr().is_multiple_of(align as usize));
            assert!(ring.release(loan));
        }
    }
}

#[test]
fn a_living_member_taken_for_dead_is_told() {
    let ring = ring(many(2));
    let slot = ring.reserve(1).expect("a hole");
    ring.recover(&Visit::of_own_memory(), 1, || true, |_| ());
    assert!(matches!(ring.commit(slot, 8), Err(Unsent::Revoked)));
    assert!(send(&ring, 2, 5));
    let loan = ring.borrow(1).expect("a record");
    ring.recover(&Visit::of_own_memory(), 1, || true, |_| ());
    assert!(!ring.release(loan));
    assert_eq!(receive(&ring), Some((5, true)));
}
