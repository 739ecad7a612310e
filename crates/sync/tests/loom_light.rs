//! Light threads at tubes without slots under loom: one lock, a packet and a token each.

use crate::arena::arena;
use crate::loom::{three_reach, two_reach};
use chappe_plat::explore::together;
use chappe_plat::light::Record;
use chappe_sync::Interrupt;
use chappe_sync::model::{Got, TubeAt, ask, destroy, interrupt, light};

/// Loom's deadlines that pass at once.
const SOON: Option<u64> = Some(1);

#[derive(Clone, Copy)]
struct Scene {
    one: &'static TubeAt,
    two: &'static TubeAt,
    lights: [&'static Record; 3],
    stop: &'static Interrupt,
}

fn scene() -> Scene {
    let map = arena().0;
    let [one, two] = [(); 2].map(|()| {
        let tube: &'static TubeAt = Box::leak(Box::new(TubeAt::bounded(map, 0)));
        tube.touch();
        tube
    });
    Scene { one, two, lights: [1, 2, 3].map(light), stop: interrupt() }
}

/// The same where light threads have waited before: they wait in a straight line.
fn later_scene() -> Scene {
    let scene = scene();
    [scene.one, scene.two].into_iter().for_each(TubeAt::has_been_waited_at);
    scene
}

/// As a number: what loom's threads can answer.
fn code(got: Got) -> u64 {
    match got {
        Got::Sent => 1,
        Got::Nothing => 2,
        Got::Gone => 3,
        Got::Message(message) => 10 + message,
        Got::Down | Got::Ready(_) => unreachable!("no such arm"),
    }
}

const SENT: u64 = 1;
const LATE: u64 = 2;
const GONE: u64 = 3;

#[test]
fn two_light_threads_meet() {
    let meet = |s: Scene| {
        together(
            s,
            [
                |s: Scene| code(s.one.send_lightly(s.lights[0], 7, None)),
                |s| code(s.one.recv_lightly(s.lights[1], None)),
            ],
        )
    };
    two_reach(3, scene, meet, [[SENT, 17]]);
    two_reach(3, later_scene, meet, [[SENT, 17]]);
}

#[test]
fn a_timed_out_meeting_happened_at_both_ends_or_at_none() {
    let meet = |s: Scene| {
        together(
            s,
            [
                |s: Scene| code(s.one.send_lightly(s.lights[0], 7, SOON)),
                |s| code(s.one.recv_lightly(s.lights[1], SOON)),
            ],
        )
    };
    two_reach(2, scene, meet, [[SENT, 17], [LATE, LATE]]);
}

#[test]
fn an_interrupted_meeting_happened_at_both_ends_or_at_none() {
    let receives = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    ask(s.stop, s.lights[1]);
                    code(s.one.send_lightly(s.lights[0], 7, SOON))
                },
                |s| code(s.one.recv_lightly_until(s.stop, s.lights[1])),
            ],
        )
    };
    two_reach(3, scene, receives, [[SENT, 17], [LATE, LATE]]);
    let sends = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    ask(s.stop, s.lights[1]);
                    code(s.one.recv_lightly(s.lights[0], SOON))
                },
                |s| code(s.one.send_lightly_until(s.stop, s.lights[1], 7)),
            ],
        )
    };
    two_reach(3, scene, sends, [[17, SENT], [LATE, LATE]]);
}

#[test]
fn a_waiter_learns_that_the_other_end_leaves() {
    let go = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.one.no_sender();
                    0
                },
                |s| code(s.one.recv_lightly(s.lights[1], None)),
            ],
        )
    };
    two_reach(3, scene, go, [[0, GONE]]);
    two_reach(3, later_scene, go, [[0, GONE]]);
}

#[test]
fn a_kernel_thread_that_comes_is_seen_or_tells() {
    let come = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.one.come_attached();
                    0
                },
                |s| s.one.come_until_attached(s.lights[1]),
            ],
        )
    };
    two_reach(3, scene, come, [[0, 0], [0, 1]]);
    let receive = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.one.come_attached();
                    0
                },
                |s| {
                    s.one.recv_until_attached(s.lights[1]);
                    0
                },
            ],
        )
    };
    two_reach(3, later_scene, receive, [[0, 0]]);
}

#[test]
fn one_that_is_told_and_destroyed_leaves_it_to_the_next() {
    let come = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.one.come_attached();
                    destroy(s.lights[0]);
                    0
                },
                |s| {
                    s.one.recv_until_destroyed(s.lights[0]);
                    0
                },
                |s| {
                    s.one.recv_until_attached(s.lights[1]);
                    0
                },
            ],
        )
    };
    three_reach(1, later_scene, come, [[0, 0, 0]]);
}

#[test]
fn a_choice_is_met_once() {
    let choose = |s: Scene| {
        together(
            s,
            [
                |s: Scene| code(s.one.send_lightly(s.lights[0], 1, SOON)),
                |s| code(s.two.send_lightly(s.lights[2], 2, SOON)),
                |s| {
                    let (at, got) = s.one.recv_either_lightly(s.two, s.lights[1], SOON);
                    at as u64 * 100 + code(got)
                },
            ],
        )
    };
    three_reach(1, scene, choose, [[SENT, LATE, 11], [LATE, SENT, 112], [LATE, LATE, 202]]);
}

/// A choice for ever, the straight way, twice: which arms, and what came.
fn chooses_twice(s: Scene) -> u64 {
    let one = || {
        let (at, got) = s.one.recv_either_lightly(s.two, s.lights[1], None);
        at as u64 * 100 + code(got)
    };
    one() * 1000 + one()
}

fn sends_one(s: Scene) -> u64 {
    code(s.one.send_lightly(s.lights[0], 1, None))
}

fn sends_two(s: Scene) -> u64 {
    code(s.two.send_lightly(s.lights[2], 2, None))
}

/// No node of the first wait is left where the second stands.
#[test]
fn a_choice_for_ever_is_met_each_time() {
    let meet = |s: Scene| together(s, [sends_one, sends_two, chooses_twice]);
    three_reach(1, scene, meet, [[SENT, SENT, 11_112], [SENT, SENT, 112_011]]);
}

/// The last begins first: it waits at the second arm, and the choice has stood at the first when it sees that.
#[test]
fn a_choice_that_gives_way_forgets_nobody_who_has_met_it() {
    let meet = |s: Scene| together(s, [sends_one, chooses_twice, sends_two]);
    three_reach(1, scene, meet, [[SENT, 11_112, SENT], [SENT, 112_011, SENT]]);
}

#[test]
fn two_choices_that_wait_for_each_other_meet() {
    let choose = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    let (at, got) = s.one.send_or_recv_lightly(1, s.two, s.lights[0]);
                    at as u64 * 100 + code(got)
                },
                |s| {
                    let (at, got) = s.two.send_or_recv_lightly(2, s.one, s.lights[1]);
                    at as u64 * 100 + code(got)
                },
            ],
        )
    };
    two_reach(1, scene, choose, [[SENT, 111], [112, SENT]]);
}
