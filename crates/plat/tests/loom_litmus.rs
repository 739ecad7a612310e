//! What loom's backend tells apart: the small programs by which memory models are known.

use chappe_plat::atomic::{AtomicU64, Ordering, low_half};
use chappe_plat::explore::{Data, FOUND, TWO_THREADS, search, together};
use chappe_plat::futex::{self, Scope};
use std::collections::BTreeSet;
use std::panic::catch_unwind;

#[derive(Clone, Copy)]
struct Two {
    x: &'static AtomicU64,
    y: &'static AtomicU64,
    data: Data,
}

fn two() -> Two {
    let word = || &*Box::leak(Box::new(AtomicU64::new(0)));
    Two { x: word(), y: word(), data: Data::new() }
}

fn all(execution: fn(Two) -> [u64; 2]) -> BTreeSet<[u64; 2]> {
    search(TWO_THREADS, 3, two, execution).0
}

fn found(execution: fn(Two) -> [u64; 2]) -> String {
    let failed = catch_unwind(|| all(execution)).expect_err("a mistake that was not found");
    let text = *failed.downcast::<String>().expect("a message");
    assert!(text.starts_with(FOUND), "{text}");
    text
}

const BOTH_MISSED: [u64; 2] = [0, 0];

/// Each sets its own and looks at the other's.
macro_rules! store_buffering {
    ($set:expr, $look:expr) => {
        |two| {
            together(
                two,
                [
                    |t: Two| {
                        t.x.fetch_or(1, $set);
                        t.y.load($look)
                    },
                    |t: Two| {
                        t.y.fetch_or(1, $set);
                        t.x.load($look)
                    },
                ],
            )
        }
    };
}

#[test]
fn of_two_that_set_and_look_one_sees_the_other() {
    let reached = all(store_buffering!(Ordering::SeqCst, Ordering::SeqCst));
    assert_eq!(reached, BTreeSet::from([[0, 1], [1, 0], [1, 1]]));
}

#[test]
fn both_miss_the_other_if_either_half_is_weaker() {
    // AcqRel and Acquire: what these tests are about, as are the orders below.
    for reached in [
        all(store_buffering!(Ordering::AcqRel, Ordering::SeqCst)),
        all(store_buffering!(Ordering::SeqCst, Ordering::Acquire)),
        all(store_buffering!(Ordering::AcqRel, Ordering::Acquire)),
    ] {
        assert_eq!(reached, BTreeSet::from([BOTH_MISSED, [0, 1], [1, 0], [1, 1]]));
    }
}

#[test]
fn a_write_before_a_release_is_visible_after_the_acquire() {
    let reached = all(|two| {
        together(
            two,
            [
                |t: Two| {
                    t.data.set(7);
                    t.x.store(1, Ordering::Release); // Release: the message.
                    0
                },
                // Acquire: pairs with it.
                |t: Two| if t.x.load(Ordering::Acquire) == 1 { t.data.get() } else { 0 },
            ],
        )
    });
    assert_eq!(reached, BTreeSet::from([[0, 0], [0, 7]]));
}

#[test]
fn data_behind_a_relaxed_message_is_a_race() {
    let text = found(|two| {
        together(
            two,
            [
                |t: Two| {
                    t.data.set(7);
                    t.x.store(1, Ordering::Relaxed); // Relaxed: the mistake.
                    0
                },
                // Acquire: pairs with nothing.
                |t: Two| if t.x.load(Ordering::Acquire) == 1 { t.data.get() } else { 0 },
            ],
        )
    });
    assert!(text.contains("Causality violation"), "{text}");
}

fn sleeper(t: Two) -> u64 {
    while t.x.load(Ordering::SeqCst) == 0 {
        futex::wait(low_half(t.x), 0, None, Scope::Private);
    }
    t.x.load(Ordering::SeqCst)
}

#[test]
fn a_sleeper_that_is_woken_goes_on() {
    let reached = all(|two| {
        together(
            two,
            [sleeper, |t: Two| {
                t.x.store(1, Ordering::SeqCst);
                futex::wake(low_half(t.x), 1, Scope::Private).into()
            }],
        )
    });
    assert_eq!(reached, BTreeSet::from([[1, 0], [1, 1]]));
}

#[test]
fn a_wake_up_that_nobody_gives_is_a_deadlock() {
    let text = found(|two| {
        together(
            two,
            [sleeper, |t: Two| {
                t.x.store(1, Ordering::SeqCst);
                0
            }],
        )
    });
    assert!(text.contains("deadlock"), "{text}");
}
