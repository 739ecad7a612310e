//! The order in which a strong semaphore serves, and the faults of the papers' own code that concern it, by name.

use crate::house::{LONG, eventually};
use chappe::{DownError, Role, Select, Semaphore, set_role};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn work(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn timeouts_and_other_choices_leave_the_order_of_arrival() {
    let (main, away) = (Semaphore::private(0).unwrap(), Semaphore::private(0).unwrap());
    for round in 0..30 {
        let (tell, heard) = channel();
        std::thread::scope(|s| {
            let mut stay = Vec::new();
            let mut turned = 0;
            for number in 0..12usize {
                let how = (number + round) % 4;
                let (main, away, tell) = (&main, &away, tell.clone());
                s.spawn(move || {
                    set_role([Role::TimeSharing, Role::Sleeper][number % 2]);
                    let served = match how {
                        // Its time is up before anything comes.
                        0 => main.down_timeout(Duration::from_micros(500)).is_ok(),
                        // It chooses something else.
                        1 => {
                            let mut either = Select::new();
                            let mine = either.down(main);
                            either.down(away);
                            either.wait().unwrap().index() == mine
                        }
                        2 => main.down_timeout(LONG).is_ok(),
                        _ => main.down().is_ok(),
                    };
                    tell.send((number, served)).unwrap();
                });
                match how {
                    0 => assert_eq!(heard.recv().unwrap(), (number, false)),
                    1 => turned += 1,
                    _ => stay.push(number),
                }
                eventually("all of them wait", || main.waiters().len() == stay.len() + turned);
            }
            away.up_many(turned as u32).unwrap();
            for _ in 0..turned {
                assert!(!heard.recv().unwrap().1);
            }
            assert_eq!(main.waiters().len(), stay.len());
            for number in stay {
                main.up().unwrap();
                assert_eq!(heard.recv().unwrap(), (number, true));
            }
        });
        assert_eq!((main.value(), away.value()), (0, 0));
    }
}

#[test]
#[ignore = "storm: units that race time-outs"]
fn units_that_meet_time_outs_are_served_in_order_and_none_is_lost() {
    const WAITERS: usize = 6;
    let semaphore = Semaphore::private(0).unwrap();
    for round in 0..150usize {
        let (tell, heard) = channel();
        let (ended, due) = (AtomicUsize::new(0), Instant::now() + Duration::from_millis(2));
        std::thread::scope(|s| {
            for number in 0..WAITERS {
                let (semaphore, tell, ended) = (&semaphore, tell.clone(), &ended);
                // The times of some are up while units come.
                let limit = due + Duration::from_micros(((round * 7 + number * 13) % 11 * 20) as u64);
                s.spawn(move || {
                    let got = semaphore.down_deadline(limit).is_ok();
                    ended.fetch_add(1, Ordering::SeqCst);
                    tell.send((number, got)).unwrap();
                });
                // Arrivals are one after the other. The ended first: a thread that ends in between is counted once at most.
                eventually("it came", || ended.load(Ordering::SeqCst) + semaphore.waiters().len() > number);
            }
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            let (mut ups, mut served, mut heard_of, mut last) = (0, 0, 0, None);
            while heard_of < WAITERS {
                semaphore.up().unwrap();
                ups += 1;
                // Until this one has gone to a waiter, or none is left.
                while heard_of < WAITERS {
                    let (number, got) = heard.recv().unwrap();
                    heard_of += 1;
                    if got {
                        assert!(last < Some(number), "{number} was served after {last:?}");
                        (last, served) = (Some(number), served + 1);
                        break;
                    }
                }
            }
            assert_eq!(semaphore.value(), ups - served);
        });
        while semaphore.try_down().is_ok() {}
    }
}

/// Three threads, of which one holds for 100 us and two for 5 us. A thread that gives up its unit comes back to the end of the queue: each
/// gets as many turns as the others. (A semaphore that lets the quick ones barge gives them many times as many.)
#[test]
#[ignore = "storm: counts of a race"]
fn strong_semantics_give_each_thread_its_turn() {
    const ROUNDS: u32 = 500;
    let semaphore = Semaphore::private(1).unwrap();
    let counts: [AtomicU32; 3] = Default::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for me in 0..3 {
            let (semaphore, counts, stop) = (&semaphore, &counts, &stop);
            s.spawn(move || {
                let hold = Duration::from_micros(if me == 0 { 100 } else { 5 });
                while !stop.load(Ordering::SeqCst) {
                    semaphore.down().unwrap();
                    // The count does not depend on which thread is kept from running: both others are in the queue.
                    eventually("both others wait", || semaphore.waiters().len() == 2 || stop.load(Ordering::SeqCst));
                    let turns = counts[me].fetch_add(1, Ordering::SeqCst) + 1;
                    work(hold);
                    if turns == ROUNDS {
                        stop.store(true, Ordering::SeqCst);
                    }
                    semaphore.up().unwrap();
                }
            });
        }
    });
    let all: Vec<u32> = counts.iter().map(|c| c.load(Ordering::SeqCst)).collect();
    let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!(most - least <= 2, "{all:?}");
    assert_eq!(semaphore.value(), 1);
}

/// Nix's `semalt` overwrote its own loop bound: of four empty semaphores it queued on one.
#[test]
fn fault_1_every_arm_of_a_choice_counts() {
    let all: Vec<_> = (0..4).map(|_| Semaphore::private(0).unwrap()).collect();
    for biased in [false, true] {
        for which in 0..4 {
            std::thread::scope(|s| {
                let chooser = s.spawn(|| {
                    let mut select = if biased { Select::new_biased() } else { Select::new() };
                    let arms: Vec<usize> = all.iter().map(|one| select.down(one)).collect();
                    let chosen = select.wait().unwrap().index();
                    arms.iter().position(|arm| *arm == chosen).unwrap()
                });
                eventually("it waits on all four", || all.iter().all(|one| one.waiters().len() == 1));
                all[which].up().unwrap();
                assert_eq!(chooser.join().unwrap(), which);
            });
            assert!(all.iter().all(|one| one.value() == 0 && one.waiters().is_empty()));
        }
    }
}

/// Nix's `downsem(s, nonblocking)` that lost a race said that it had succeeded.
#[test]
#[ignore = "storm: threads that race"]
fn fault_2_a_nonblocking_down_that_succeeds_has_a_permit() {
    const UNITS: u32 = 3;
    for barging in [false, true] {
        let semaphore = if barging { Semaphore::private_barging(UNITS) } else { Semaphore::private(UNITS) }.unwrap();
        let (inside, most, tries) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        // How often another thread had made progress since this one's last turn: a thread that has the time for all its turns before the
        // others begin races with none.
        let (mixed, late) = (AtomicU32::new(0), Instant::now() + Duration::from_secs(10));
        let enough = || {
            let raced = mixed.load(Ordering::SeqCst) >= 2_000 || Instant::now() > late;
            tries.load(Ordering::SeqCst) >= 60_000 && raced
        };
        std::thread::scope(|s| {
            for _ in 0..6 {
                s.spawn(|| {
                    let mut next = 0;
                    while !enough() {
                        match semaphore.try_down() {
                            Ok(()) => {
                                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                                let before = tries.fetch_add(1, Ordering::SeqCst);
                                mixed.fetch_add(u32::from(before != next), Ordering::SeqCst);
                                next = before + 1;
                                inside.fetch_sub(1, Ordering::SeqCst);
                                semaphore.up().unwrap();
                            }
                            Err(DownError::WouldBlock) => std::thread::yield_now(),
                            Err(e) => panic!("{e}"),
                        }
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= UNITS, "{most:?} had one of {UNITS} units");
        assert_eq!(semaphore.value(), UNITS);
    }
}

/// Nix swapped the last entry of its queue to the head when it woke the first.
#[test]
fn fault_3_wake_ups_are_fifo() {
    const WAITERS: usize = 16;
    let semaphore = Semaphore::private(0).unwrap();
    let (tell, heard) = channel();
    let order: Vec<usize> = std::thread::scope(|s| {
        for number in 0..WAITERS {
            let (semaphore, tell) = (&semaphore, tell.clone());
            s.spawn(move || {
                semaphore.down().unwrap();
                tell.send(number).unwrap();
            });
            eventually("it waits", || semaphore.waiters().len() == number + 1);
        }
        // No other comes between. All are served before anything is asserted: none is left waiting.
        let serve = |_| {
            let refused = matches!(semaphore.try_down(), Err(DownError::WouldBlock));
            semaphore.up().unwrap();
            let served = heard.recv().unwrap();
            if refused { served } else { usize::MAX }
        };
        (0..WAITERS).map(serve).collect()
    });
    assert_eq!(order, Vec::from_iter(0..WAITERS));
}
