//! Pools under loom: one holder of a permit at a time, and no thread sleeps beside a free one.

use crate::arena::arena;
use crate::loom::{three_reach, two_reach};
use chappe_plat::explore::{Data, sleeps, together};
use chappe_sync::model::{Actor, PoolAt, Refusal};

#[derive(Clone, Copy)]
struct Scene {
    who: [Actor; 3],
    one: PoolAt,
    two: PoolAt,
    data: Data,
}

fn scene() -> Scene {
    let (map, who) = arena();
    let make = |name, permits| PoolAt::make(map, name, permits).expect("room");
    Scene { who, one: make("one", 1), two: make("two", 2), data: Data::new() }
}

/// Adds one to what is there, if the permit comes in time.
fn add(s: Scene, me: usize, deadline: Option<u64>) -> u64 {
    match s.who[me].acquire(&[s.one], deadline) {
        Ok((_, held)) => {
            s.data.set(s.data.get() + 1);
            assert!(s.who[me].release(held));
            1
        }
        Err(e) => {
            assert_eq!((e, deadline), (Refusal::TimedOut, Some(0)));
            0
        }
    }
}

fn settled(s: Scene) {
    assert!(s.one.waiters().is_empty() && s.two.waiters().is_empty(), "somebody's bit still stands");
    assert_eq!([s.one.free(), s.two.free()], [1, 2], "all came back");
}

#[test]
fn two_hold_the_permit_one_after_the_other() {
    let both = |s: Scene| {
        together(s, [|s: Scene| add(s, 0, None), |s: Scene| add(s, 1, None)]);
        settled(s);
        assert_eq!(s.data.get(), 2);
        sleeps()
    };
    two_reach(3, scene, both, [0, 1]);
}

#[test]
fn three_hold_the_permit_one_after_the_other() {
    let all = |s: Scene| {
        together(s, [|s: Scene| add(s, 0, None), |s: Scene| add(s, 1, None), |s: Scene| add(s, 2, None)]);
        settled(s);
        assert_eq!(s.data.get(), 3);
        sleeps()
    };
    three_reach(2, scene, all, [0, 1, 2]);
}

#[test]
fn a_permit_for_somebody_who_gives_up_goes_on() {
    let all = |s: Scene| {
        let [_, in_time, _] =
            together(s, [|s: Scene| add(s, 0, None), |s: Scene| add(s, 1, Some(0)), |s: Scene| add(s, 2, None)]);
        settled(s);
        assert_eq!(s.data.get(), 2 + in_time);
        (in_time, sleeps())
    };
    three_reach(2, scene, all, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
}

#[test]
fn a_waiter_for_two_permits_gets_them_one_by_one() {
    let both = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    let (_, held) = s.who[0].acquire(&[s.two], None).expect("there is one");
                    assert!(s.who[0].release(held));
                },
                |s: Scene| {
                    let all = s.who[1].acquire_many(s.two, 2, None).expect("there are two");
                    assert_eq!(all.len(), 2);
                    all.into_iter().for_each(|held| assert!(s.who[1].release(held)));
                },
            ],
        );
        settled(s);
        sleeps()
    };
    two_reach(2, scene, both, [0, 1]);
}

#[test]
fn a_choice_of_two_pools_takes_one_permit() {
    let all = |s: Scene| {
        let [_, at] = together(
            s,
            [
                |s: Scene| add(s, 0, None),
                |s: Scene| {
                    let (at, held) = s.who[1].acquire(&[s.one, s.two], None).expect("there is one");
                    assert!(s.who[1].release(held));
                    at as u64
                },
            ],
        );
        settled(s);
        (at, sleeps())
    };
    two_reach(3, scene, all, [(0, 0), (0, 1), (1, 0)]);
}
