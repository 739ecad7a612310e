//! Tasks at barriers: parties as threads are, for one round each; what is dropped is taken back.

use crate::house::eventually;
use crate::tasks::{LONG, bell, block_on, in_a_house, poll};
use chappe::task::choice::choose;
use chappe::task::ends::Down;
use chappe::{Barrier, BarrierError, Broke, Semaphore};
use std::pin::pin;
use std::task::Poll;

/// A private one, and one of an arena that the test removes at its end.
fn of_each_kind(name: &str, parties: u32, test: impl Fn(&Barrier)) {
    test(&Barrier::private(parties).unwrap());
    in_a_house(name, || test(&Barrier::create("b", parties).unwrap()));
}

fn arrived(barrier: &Barrier) -> u32 {
    barrier.info().unwrap().arrived
}

#[test]
fn tasks_and_a_thread_turn_one_round_and_each_has_an_index() {
    of_each_kind("barrier_turns", 3, |barrier| {
        for round in 0..3 {
            let ((waker, _, woken), (other_waker, _, other_woken)) = (bell(), bell());
            let (mut one, mut other) = (pin!(barrier.wait_async()), pin!(barrier.wait_async()));
            assert!(poll(&mut one, &waker).is_pending());
            assert!(poll(&mut one, &waker).is_pending(), "a poll for no reason changes nothing");
            assert!(poll(&mut other, &other_waker).is_pending());
            assert_eq!(arrived(barrier), 2);
            let thread = barrier.wait_once().unwrap();
            woken.recv_timeout(LONG).unwrap();
            other_woken.recv_timeout(LONG).unwrap();
            let (Poll::Ready(Ok(a)), Poll::Ready(Ok(b))) = (poll(&mut one, &waker), poll(&mut other, &other_waker))
            else {
                panic!("woken without a turn")
            };
            assert_eq!([a.round, b.round, thread.round], [round; 3]);
            let mut all = [a.index, b.index, thread.index];
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
            // They were parties of that round only.
            assert_eq!(barrier.info().unwrap().joined, 0);
        }
    });
}

#[test]
fn the_last_of_tasks_alone_does_not_wait() {
    of_each_kind("barrier_alone", 2, |barrier| {
        let (waker, _, woken) = bell();
        let mut first = pin!(barrier.wait_async());
        assert!(poll(&mut first, &waker).is_pending());
        assert_eq!(block_on(barrier.wait_async()).unwrap().index, 0);
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut first, &waker), Poll::Ready(Ok(turn)) if turn.index == 1));
    });
}

#[test]
fn a_dropped_tasks_arrival_is_taken_back() {
    of_each_kind("barrier_dropped", 2, |barrier| {
        let (waker, ..) = bell();
        {
            let mut given_up = pin!(barrier.wait_async());
            assert!(poll(&mut given_up, &waker).is_pending());
            assert_eq!(arrived(barrier), 1);
        }
        assert_eq!(arrived(barrier), 0);
        let arrival = barrier.arrive_owned().unwrap();
        assert!(!arrival.is_over());
        assert!(arrival.take_back(), "its round has not turned");
        let info = barrier.info().unwrap();
        assert_eq!((info.arrived, info.joined, info.rounds), (0, 0, 0));
    });
}

#[test]
fn an_arrival_turns_or_breaks_its_round_when_its_time_is_up() {
    of_each_kind("barrier_time", 2, |barrier| {
        let (first, last) = (barrier.arrive_owned().unwrap(), barrier.arrive_owned().unwrap());
        assert!(first.is_over() && last.is_over());
        assert_eq!(first.turn_or_break().unwrap().index + last.turn_or_break().unwrap().index, 1);
        let (waker, _, woken) = bell();
        let mut other = pin!(barrier.wait_async());
        let alone = barrier.arrive_owned().unwrap();
        std::thread::scope(|s| {
            // Broken by another thread than that which arrived.
            let ends = s.spawn(|| alone.turn_or_break());
            let broken = |e: &_| matches!(e, BarrierError::Broken { how: Broke::TimedOut, .. });
            assert!(broken(&ends.join().unwrap().unwrap_err()));
            assert!(matches!(poll(&mut other, &waker), Poll::Ready(Err(e)) if broken(&e)));
        });
        barrier.reset().unwrap();
        let mut again = pin!(barrier.wait_async());
        assert!(poll(&mut again, &waker).is_pending());
        barrier.abort().unwrap();
        woken.recv_timeout(LONG).unwrap();
        let aborted = |e: &_| matches!(e, BarrierError::Broken { how: Broke::Aborted, .. });
        assert!(matches!(poll(&mut again, &waker), Poll::Ready(Err(e)) if aborted(&e)));
    });
}

#[test]
fn an_arrival_stands_while_another_arm_of_the_choice_is_chosen() {
    of_each_kind("barrier_choice", 2, |barrier| {
        let stop = Semaphore::private(0).unwrap();
        let mut arrival = barrier.arrive_owned().unwrap();
        for chosen in [1, 0] {
            let (waker, _, woken) = bell();
            let mut choice = pin!(choose((arrival.__task_turn(), (Down::of(&stop), ())), false, None));
            assert!(poll(&mut choice, &waker).is_pending());
            if chosen == 1 {
                stop.up().unwrap();
            } else {
                let _ = barrier.wait_once().unwrap();
            }
            woken.recv_timeout(LONG).unwrap();
            assert!(matches!(poll(&mut choice, &waker), Poll::Ready(Ok(choice)) if choice.at == chosen));
        }
        assert_eq!(arrival.conclude().unwrap().index, 1);
    });
}

#[test]
fn a_removed_barriers_tasks_are_told_and_its_memory_is_used_again() {
    in_a_house("barrier_removed", || {
        // More of them than the arena has room for at once.
        for _ in 0..400 {
            let barrier = Barrier::create("b", 2).unwrap();
            let (waker, _, woken) = bell();
            let mut wait = pin!(barrier.wait_async());
            assert!(poll(&mut wait, &waker).is_pending());
            Barrier::remove("b", true).unwrap();
            woken.recv_timeout(LONG).unwrap();
            assert!(matches!(poll(&mut wait, &waker), Poll::Ready(Err(BarrierError::Dead { .. }))));
        }
    });
}

#[test]
fn more_tasks_than_have_seats_at_an_object_turn_one_round() {
    const MANY: u32 = 200;
    of_each_kind("barrier_many", MANY + 1, |barrier| {
        let (waker, ..) = bell();
        let mut all: Vec<_> = (0..MANY).map(|_| Box::pin(barrier.wait_async())).collect();
        assert!(all.iter_mut().all(|wait| poll(&mut wait.as_mut(), &waker).is_pending()));
        assert_eq!(arrived(barrier), MANY);
        assert_eq!(barrier.wait_once().unwrap().index, 0);
        let mut indices: Vec<u32> = all.into_iter().map(|wait| block_on(wait).unwrap().index).collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(1..=MANY), "an index was given twice");
        eventually("nobody is left", || arrived(barrier) == 0);
    });
}
