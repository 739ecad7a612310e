//! `after`, `at`, `tick` and `never` are receivers whose messages are moments. None comes too soon, and a missed one is
//! not made up for.

use chappe::tube::{Receiver, RecvTimeoutError, Select, TryRecvError, after, at, bounded, never, select, tick};

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

fn contents(rx: &Receiver<Instant>) -> (Option<usize>, usize, bool, bool) {
    (rx.capacity(), rx.len(), rx.is_empty(), rx.is_full())
}

const EMPTY: (Option<usize>, usize, bool, bool) = (Some(1), 0, true, false);
const HOLDING: (Option<usize>, usize, bool, bool) = (Some(1), 1, false, true);

#[test]
fn after_fires_once_and_not_too_soon() {
    let start = Instant::now();
    let rx = after(ms(30));
    let fired = rx.recv().unwrap();
    assert!(start.elapsed() >= ms(30));
    assert!(start.elapsed() < LONG);
    assert!(fired >= start + ms(30) && fired <= Instant::now());
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(rx.recv_timeout(ms(10)), Err(RecvTimeoutError::Timeout));
    assert_eq!(rx.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
}

#[test]
fn after_holds_one_message_from_its_moment_until_it_is_taken() {
    let (rx, early) = within(ms(300), || {
        let rx = after(ms(300));
        let early = contents(&rx);
        (rx, early)
    });
    assert_eq!(early, EMPTY);
    until(|| !rx.is_empty());
    assert_eq!(contents(&rx), HOLDING);
    assert!(rx.try_recv().is_ok());
    assert_eq!(contents(&rx), EMPTY);
}

#[test]
fn after_tells_its_moment_and_not_the_time_of_receipt() {
    let before = Instant::now();
    let rx = after(ms(10));
    let made = Instant::now();
    thread::sleep(ms(60));
    let told = rx.recv().unwrap();
    assert!(told >= before + ms(10) && told <= made + ms(10));
}

#[test]
fn at_tells_exactly_the_moment_it_was_given() {
    for moment in [Instant::now(), Instant::now() + ms(20)] {
        let rx = at(moment);
        assert_eq!(rx.recv(), Ok(moment));
        assert!(Instant::now() >= moment);
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    }
}

#[test]
fn at_a_past_moment_is_there_at_once() {
    let moment = Instant::now();
    nap();
    let rx = at(moment);
    assert_eq!(contents(&rx), HOLDING);
    assert_eq!(rx.try_recv(), Ok(moment));
    assert_eq!(contents(&rx), EMPTY);
}

#[test]
fn at_a_future_moment_is_not_there_yet() {
    let rx = at(Instant::now() + LONG);
    assert_eq!(contents(&rx), EMPTY);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(rx.recv_timeout(ms(5)), Err(RecvTimeoutError::Timeout));
}

#[test]
fn after_no_time_is_there_at_once() {
    let rx = after(Duration::ZERO);
    assert_eq!(rx.len(), 1);
    assert!(rx.try_recv().is_ok());
    assert_eq!(rx.len(), 0);
}

#[test]
fn clones_of_after_share_its_one_message() {
    let rx = after(ms(5));
    let twin = rx.clone();
    assert!(rx.same_channel(&twin));
    until(|| rx.len() == 1 && twin.len() == 1);
    assert!(twin.recv().is_ok());
    assert_eq!((rx.len(), twin.len()), (0, 0));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(rx.recv_timeout(ms(5)), Err(RecvTimeoutError::Timeout));
}

#[test]
#[ignore = "storm: it takes a machine that does not stand still"]
fn one_of_many_threads_gets_the_message_of_after() {
    in_time(|| {
        let rx = after(ms(20));
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let rx = rx.clone();
                thread::spawn(move || rx.recv_timeout(ms(150)).is_ok())
            })
            .collect();
        let got = waiting.into_iter().map(|t| t.join().unwrap()).filter(|&got| got).count();
        assert_eq!(got, 1);
    });
}

#[test]
fn a_wait_shorter_than_the_timer_leaves_it_whole() {
    let (start, rx, early, chosen) = within(ms(400), || {
        let start = Instant::now();
        let rx = after(ms(400));
        let early = rx.recv_timeout(ms(5));
        let mut choice = Select::new();
        choice.recv(&rx);
        let chosen = choice.select_timeout(ms(5)).map(|chosen| chosen.recv(&rx));
        (start, rx, early, chosen)
    });
    assert_eq!(early, Err(RecvTimeoutError::Timeout));
    assert!(chosen.is_err());
    assert!(rx.recv_timeout(LONG).is_ok());
    assert!(start.elapsed() >= ms(400));
}

#[test]
fn tick_fires_again_and_again_at_its_interval() {
    let start = Instant::now();
    let rx = tick(ms(10));
    let mut last = start;
    for n in 1..=5 {
        let told = rx.recv().unwrap();
        assert!(told >= last + ms(10), "two ticks told moments closer than the interval");
        assert!(told >= start + ms(10) * n);
        assert!(Instant::now() >= told, "a tick came before its moment");
        last = told;
    }
    assert!(start.elapsed() >= ms(50) && start.elapsed() < LONG);
}

#[test]
fn tick_is_empty_between_ticks() {
    let (rx, early, tried) = within(ms(400), || {
        let rx = tick(ms(400));
        let early = contents(&rx);
        let tried = rx.try_recv();
        (rx, early, tried)
    });
    assert_eq!((early, tried), (EMPTY, Err(TryRecvError::Empty)));
    until(|| !rx.is_empty());
    assert_eq!(contents(&rx), HOLDING);
    // The next is a whole interval away from when this one is taken.
    let left = within(ms(400), || {
        until(|| !rx.is_empty());
        assert!(rx.try_recv().is_ok());
        contents(&rx)
    });
    assert_eq!(left, EMPTY);
}

#[test]
fn missed_ticks_are_not_made_up_for() {
    let start = Instant::now();
    let rx = tick(ms(100));
    let made = Instant::now();
    thread::sleep(ms(350));
    // One tick is waiting, and it tells when it was due and not when it was taken.
    assert_eq!(rx.len(), 1);
    let taking = Instant::now();
    let due = rx.try_recv().unwrap();
    assert!(due >= start + ms(100) && due <= made + ms(100));
    let second = rx.try_recv();
    // When the machine stopped for so long, the second tick may truly be due.
    if taking.elapsed() < ms(100) {
        assert_eq!(second, Err(TryRecvError::Empty), "a missed tick was made up for");
        // The next is due an interval after the late one was taken.
        assert!(rx.recv().unwrap() >= taking + ms(100));
    }
}

#[test]
fn a_late_recv_takes_the_tick_at_once_and_puts_off_the_next() {
    let start = Instant::now();
    let rx = tick(ms(40));
    let made = Instant::now();
    thread::sleep(ms(150));
    let taking = Instant::now();
    let due = rx.recv().unwrap();
    assert!(due >= start + ms(40) && due <= made + ms(40));
    assert!(rx.recv().unwrap() >= taking + ms(40));
}

#[test]
fn clones_of_tick_share_its_ticks() {
    in_time(|| {
        let start = Instant::now();
        let rx = tick(ms(10));
        let twin = rx.clone();
        assert!(rx.same_channel(&twin));
        let other = thread::spawn(move || [twin.recv().unwrap(), twin.recv().unwrap(), twin.recv().unwrap()]);
        let mut told = vec![rx.recv().unwrap(), rx.recv().unwrap(), rx.recv().unwrap()];
        told.extend(other.join().unwrap());
        told.sort();
        // Six different ticks, so the last is at least six intervals in.
        assert!(told.windows(2).all(|pair| pair[0] + ms(10) <= pair[1]));
        assert!(start.elapsed() >= ms(60));
    });
}

#[test]
fn a_tick_of_no_interval_is_always_there() {
    let rx = tick(Duration::ZERO);
    assert_eq!(contents(&rx), HOLDING);
    assert_eq!(rx.iter().take(500).count(), 500);
    assert_eq!(rx.try_iter().take(500).count(), 500);
}

#[test]
fn ticks_can_be_iterated_and_chosen() {
    let start = Instant::now();
    let rx = tick(ms(10));
    assert_eq!(rx.iter().take(2).count(), 2);
    assert!(start.elapsed() >= ms(20));
    let (_tx, data) = bounded::<u8>(0);
    for _ in 0..2 {
        select! {
            recv(data) -> _ => unreachable!(),
            recv(rx) -> told => assert!(told.unwrap() <= Instant::now()),
        }
    }
    assert!(start.elapsed() >= ms(40));
}

#[test]
fn a_wait_shorter_than_the_interval_takes_no_tick() {
    let (start, rx, made, early) = within(ms(300), || {
        let start = Instant::now();
        let rx = tick(ms(300));
        let made = Instant::now();
        let early = rx.recv_timeout(ms(5));
        (start, rx, made, early)
    });
    assert_eq!(early, Err(RecvTimeoutError::Timeout));
    // The abandoned wait must not have used up the first tick.
    let first = rx.recv().unwrap();
    assert!(first >= start + ms(300) && first <= made + ms(300));
    assert!(rx.recv().unwrap() >= first + ms(300));
}

#[test]
fn never_has_nothing_and_stays_open() {
    let rx = never::<u8>();
    assert_eq!((rx.capacity(), rx.len()), (Some(0), 0));
    assert!(rx.is_empty() && rx.is_full());
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    let start = Instant::now();
    assert_eq!(rx.recv_timeout(ms(20)), Err(RecvTimeoutError::Timeout));
    let moment = Instant::now() + ms(20);
    assert_eq!(rx.recv_deadline(moment), Err(RecvTimeoutError::Timeout));
    assert!(Instant::now() >= moment && start.elapsed() >= ms(40));
    assert_eq!(rx.try_iter().next(), None);
}

#[test]
fn every_never_is_the_same_channel() {
    assert!(never::<u8>().same_channel(&never()));
    assert!(never::<u8>().same_channel(&never().clone()));
    let (_tx, rx) = bounded(0);
    assert!(!never::<u8>().same_channel(&rx));
    assert!(!rx.same_channel(&never::<u8>()));
}

#[test]
fn each_clock_is_a_channel_of_its_own() {
    let moment = Instant::now() + LONG;
    let all = [after(LONG), after(LONG), at(moment), at(moment), tick(LONG), tick(LONG), never(), bounded(1).1];
    for (i, one) in all.iter().enumerate() {
        for (j, other) in all.iter().enumerate() {
            assert_eq!(one.same_channel(other), i == j, "{i} and {j}");
        }
    }
}

#[test]
fn a_clock_beyond_all_time_is_never() {
    for rx in [after(Duration::MAX), tick(Duration::MAX)] {
        assert!(rx.same_channel(&never()));
        assert_eq!(contents(&rx), (Some(0), 0, true, true));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(rx.recv_timeout(ms(5)), Err(RecvTimeoutError::Timeout));
    }
}

#[test]
fn clocks_travel_through_channels() {
    in_time(|| {
        let (tx, rx) = bounded::<Receiver<Instant>>(1);
        let other = thread::spawn(move || rx.iter().map(|clock| clock.recv().unwrap()).collect::<Vec<_>>());
        let moments = [Instant::now() + ms(10), Instant::now() + ms(5), Instant::now()];
        for moment in moments {
            tx.send(at(moment)).unwrap();
        }
        drop(tx);
        assert_eq!(other.join().unwrap(), moments);
    });
}

#[test]
fn a_clock_stands_for_an_optional_timeout() {
    let wait = |timeout: Option<Duration>| {
        let (tx, rx) = bounded(1);
        let clock = timeout.map_or_else(never, after);
        if timeout.is_none() {
            tx.send(1).unwrap();
        }
        select! {
            recv(rx) -> got => got.ok(),
            recv(clock) -> _ => None,
        }
    };
    assert_eq!(wait(None), Some(1));
    assert_eq!(wait(Some(ms(5))), None);
}

#[test]
fn each_of_many_timers_fires_once_with_its_own_moment() {
    in_time(|| {
        let start = Instant::now();
        let clocks: Vec<_> = [50, 10, 40, 20, 30].iter().map(|&n| at(start + ms(n))).collect();
        let mut choice = Select::new();
        for clock in &clocks {
            choice.recv(clock);
        }
        let mut told = Vec::new();
        while told.len() < 5 {
            let chosen = choice.select();
            let i = chosen.index();
            let moment = chosen.recv(&clocks[i]).unwrap();
            assert!(Instant::now() >= moment);
            told.push(moment);
        }
        assert!(choice.try_select().is_err());
        told.sort();
        assert_eq!(told, [10, 20, 30, 40, 50].map(|n| start + ms(n)));
    });
}

#[test]
fn ticking_while_working_loses_no_work() {
    in_time(|| {
        let (tx, rx) = bounded(4);
        let worker = thread::spawn(move || (0..2000).for_each(|n| tx.send(n).unwrap()));
        let clock = tick(ms(1));
        let mut next = 0;
        loop {
            select! {
                recv(rx) -> got => match got {
                    Ok(n) => { assert_eq!(n, next); next += 1 }
                    Err(_) => break,
                },
                recv(clock) -> told => assert!(told.is_ok()),
            }
        }
        assert_eq!(next, 2000);
        worker.join().unwrap();
    });
}
