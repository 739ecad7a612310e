//! Semaphores under loom: every stale read that the orders allow.

use crate::arena::arena;
use crate::loom::{three_reach, two_reach};
use chappe_plat::explore::{Data, sleeps, together};
use chappe_sync::model::{Actor, AnyAt, Refusal, SemaphoreAt};

#[derive(Clone, Copy)]
struct Scene {
    who: [Actor; 3],
    s: SemaphoreAt,
    t: SemaphoreAt,
    data: Data,
}

fn scene(barging: bool) -> Scene {
    let (map, who) = arena();
    let make = |name| SemaphoreAt::make(map, name, 0, barging).expect("room");
    Scene { who, s: make("s"), t: make("t"), data: Data::new() }
}

fn strong() -> Scene {
    scene(false)
}

fn barging() -> Scene {
    scene(true)
}

/// Gives a unit, and data with it.
fn publish_and_up(s: Scene) -> u64 {
    s.data.set(1);
    s.s.up(1).into()
}

fn down(s: Scene, me: usize) -> u64 {
    s.who[me].down(s.s, None).expect("there is a unit for it");
    1
}

fn settled(s: Scene, units: [u32; 2]) {
    assert!(s.s.waiters().is_empty() && s.t.waiters().is_empty(), "somebody's bit still stands");
    assert_eq!([s.s.value(), s.t.value()], units, "the units that are left");
    assert_eq!([s.s.units(), s.t.units()], units, "with those under way");
}

/// Whether the unit was there at once, and how often a thread slept.
fn up_against_down(s: Scene) -> (u64, u64) {
    let [_, at_once] = together(
        s,
        [publish_and_up, |s| {
            let at_once = s.who[1].try_down(s.s).is_ok();
            if !at_once {
                down(s, 1);
            }
            assert_eq!(s.data.get(), 1);
            at_once.into()
        }],
    );
    settled(s, [0, 0]);
    (at_once, sleeps())
}

#[test]
fn no_wake_up_is_lost() {
    two_reach(3, strong, up_against_down, [(1, 0), (0, 0), (0, 1)]);
}

#[test]
fn no_wake_up_is_lost_where_waiters_may_be_overtaken() {
    two_reach(3, barging, up_against_down, [(1, 0), (0, 0), (0, 1)]);
}

#[test]
fn two_units_from_two_threads_serve_two_waiters() {
    let both = |s: Scene| {
        let [_, slept] =
            together(s, [|s: Scene| u64::from(s.s.up(1)) + down(s, 0), |s: Scene| u64::from(s.s.up(1)) + down(s, 1)]);
        settled(s, [0, 0]);
        (slept, sleeps())
    };
    two_reach(3, strong, both, [(2, 0)]);
}

#[test]
fn two_ups_wake_two_who_wait() {
    let both = |s: Scene| {
        together(s, [|s: Scene| down(s, 1), |s: Scene| down(s, 2), |s: Scene| u64::from(s.s.up(1) && s.s.up(1))]);
        settled(s, [0, 0]);
        sleeps()
    };
    three_reach(2, strong, both, [0, 1, 2]);
}

#[test]
fn an_up_of_two_wakes_two_who_wait() {
    let both = |s: Scene| {
        together(s, [|s: Scene| down(s, 1), |s: Scene| down(s, 2), |s: Scene| u64::from(s.s.up(2))]);
        settled(s, [0, 0]);
        sleeps()
    };
    three_reach(2, strong, both, [0, 1, 2]);
}

/// Whether it was in time.
fn up_against_time_out(s: Scene) -> bool {
    let [_, taken] = together(
        s,
        [publish_and_up, |s| match s.who[1].down(s.s, Some(0)) {
            Ok(()) => s.data.get(),
            Err(e) => {
                assert_eq!(e, Refusal::TimedOut);
                0
            }
        }],
    );
    settled(s, [1 - taken as u32, 0]);
    taken == 1
}

#[test]
fn a_unit_for_somebody_who_gives_up_goes_back() {
    two_reach(3, strong, up_against_time_out, [true, false]);
}

#[test]
fn a_try_for_somebody_who_gives_up_is_lost_to_nobody() {
    two_reach(3, barging, up_against_time_out, [true, false]);
}

#[test]
fn a_unit_for_somebody_who_gives_up_goes_on_to_the_next() {
    let three = |s: Scene| {
        let [in_time, _, _] = together(
            s,
            [
                |s: Scene| u64::from(s.who[1].down(s.s, Some(0)).is_ok() && s.s.up(1)),
                |s: Scene| down(s, 2),
                |s: Scene| u64::from(s.s.up(1)),
            ],
        );
        settled(s, [0, 0]);
        (in_time, sleeps())
    };
    three_reach(2, strong, three, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

fn choose(s: Scene) -> u64 {
    let both = [AnyAt::Semaphore(s.s), AnyAt::Semaphore(s.t)];
    s.who[1].choose(&both, None).expect("there is a unit").0 as u64
}

#[test]
fn of_two_units_a_choice_takes_one() {
    let execution = |s: Scene| {
        let [_, at] = together(s, [|s: Scene| u64::from(s.s.up(1) && s.t.up(1)), choose]);
        settled(s, if at == 0 { [0, 1] } else { [1, 0] });
        (at, sleeps())
    };
    two_reach(3, strong, execution, [(0, 0), (0, 1), (1, 0)]);
}

#[test]
fn of_two_units_that_two_give_a_choice_takes_one() {
    let execution = |s: Scene| {
        let [_, _, at] = together(s, [|s: Scene| u64::from(s.s.up(1)), |s: Scene| u64::from(s.t.up(1)), choose]);
        settled(s, if at == 0 { [0, 1] } else { [1, 0] });
        (at, sleeps())
    };
    three_reach(2, strong, execution, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}
