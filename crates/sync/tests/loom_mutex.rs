//! Mutexes and condition variables under loom: what one holder wrote the next one reads, and no thread sleeps for ever.

use crate::arena::arena;
use crate::loom::{three_reach, two_reach};
use chappe_plat::explore::{Data, my_sleeps, sleeps, together};
use chappe_sync::model::{Actor, CondvarAt, Locking, MutexAt};

#[derive(Clone, Copy)]
struct Scene {
    who: [Actor; 3],
    mutex: MutexAt,
    condvar: CondvarAt,
    data: Data,
}

fn scene() -> Scene {
    let (map, who) = arena();
    let mutex = MutexAt::make(map, "mutex").expect("room");
    Scene { who, mutex, condvar: CondvarAt::make(map, "condvar").expect("room"), data: Data::new() }
}

/// Adds one to what is there, if it is locked in time.
fn add(s: Scene, me: usize, deadline: Option<u64>) -> u64 {
    match s.who[me].lock(s.mutex, deadline) {
        Locking::Locked => {
            s.data.set(s.data.get() + 1);
            assert!(s.who[me].unlock(s.mutex));
            1
        }
        other => {
            assert_eq!((other, deadline), (Locking::Busy, Some(0)));
            0
        }
    }
}

fn settled(s: Scene, sum: u64) {
    assert_eq!(s.data.get(), sum);
    assert_eq!(s.mutex.holder(), None);
    assert_eq!(s.who[0].try_lock(s.mutex), Locking::Locked);
    assert!(s.who[0].unlock(s.mutex));
}

#[test]
fn two_lock_one_after_the_other() {
    let both = |s: Scene| {
        together(s, [|s: Scene| add(s, 0, None), |s: Scene| add(s, 1, None)]);
        settled(s, 2);
        sleeps()
    };
    two_reach(3, scene, both, [0, 1]);
}

#[test]
fn three_lock_one_after_the_other() {
    let all = |s: Scene| {
        together(s, [|s: Scene| add(s, 0, None), |s: Scene| add(s, 1, None), |s: Scene| add(s, 2, None)]);
        settled(s, 3);
        sleeps()
    };
    three_reach(2, scene, all, [0, 1, 2]);
}

#[test]
fn a_timed_out_locker_holds_up_no_other() {
    let all = |s: Scene| {
        let [_, in_time, _] =
            together(s, [|s: Scene| add(s, 0, None), |s: Scene| add(s, 1, Some(0)), |s: Scene| add(s, 2, None)]);
        settled(s, 2 + in_time);
        (in_time, sleeps())
    };
    three_reach(2, scene, all, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
}

#[test]
fn a_thread_that_relocks_overtakes_a_waiter_once() {
    let both = |s: Scene| {
        let again = |s: Scene| {
            assert_eq!(add(s, 0, None) + add(s, 0, None) + add(s, 0, None), 3);
            0
        };
        let [_, slept] = together(
            s,
            [again, |s: Scene| {
                add(s, 1, None);
                my_sleeps()
            }],
        );
        settled(s, 4);
        slept
    };
    two_reach(3, scene, both, [0, 1, 2]);
}

#[test]
fn a_notification_finds_who_waits_for_it() {
    let both = |s: Scene| {
        let [_, waits] = together(
            s,
            [
                |s: Scene| {
                    let added = add(s, 0, None);
                    s.condvar.notify_one();
                    added
                },
                |s: Scene| {
                    assert_eq!(s.who[1].lock(s.mutex, None), Locking::Locked);
                    let mut waits = 0;
                    while s.data.get() == 0 {
                        waits += 1;
                        assert_eq!(s.who[1].wait(s.condvar, s.mutex, None), (true, Locking::Locked));
                    }
                    assert!(s.who[1].unlock(s.mutex));
                    waits
                },
            ],
        );
        settled(s, 1);
        waits
    };
    two_reach(3, scene, both, [0, 1]);
}
