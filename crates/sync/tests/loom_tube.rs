//! The ends of tubes under loom: of a waiter and a sender, one sees the other. The asymmetric fence is two full ones here.

#[allow(dead_code, reason = "two threads are enough here")]
use crate::arena::arena;
use crate::loom::two_reach;
use chappe_plat::explore::together;
use chappe_plat::fence;
use chappe_sync::model::{Got, TubeAt};

#[derive(Clone, Copy)]
struct Scene {
    tube: &'static TubeAt,
}

fn scene(make: impl Fn(&'static chappe_arena::Map) -> TubeAt) -> Scene {
    let tube: &'static TubeAt = Box::leak(Box::new(make(arena().0)));
    // Every word is touched while the scene is set up.
    assert!(!tube.send_and_look(1));
    assert_eq!(tube.try_recv(), Got::Message(1));
    Scene { tube }
}

fn ring() -> Scene {
    scene(|map| TubeAt::bounded(map, 2))
}

fn line() -> Scene {
    scene(|map| TubeAt::line(map, 2))
}

fn one_sees_the_other(s: Scene) -> (bool, bool) {
    let [told, saw]: [u64; 2] =
        together(s, [|s: Scene| s.tube.send_and_look(2).into(), |s| s.tube.begin_to_wait().into()]);
    (told == 1, saw == 1)
}

/// The same where the end has turned: no thread asks the kernel.
fn turned(s: Scene) -> Scene {
    s.tube.turn();
    // It was touched while the scene was set up.
    assert!(!s.tube.send_and_look_turned(1));
    assert_eq!(s.tube.try_recv(), Got::Message(1));
    s
}

fn one_sees_the_other_turned(s: Scene) -> (bool, bool) {
    let [told, saw]: [u64; 2] =
        together(s, [|s: Scene| s.tube.send_and_look_turned(2).into(), |s| s.tube.begin_to_wait_turned().into()]);
    (told == 1, saw == 1)
}

/// Each word is touched while the scene is set up.
fn meeting() -> Scene {
    let tube: &'static TubeAt = Box::leak(Box::new(TubeAt::bounded(arena().0, 0)));
    assert!(!tube.is_awaited());
    Scene { tube }
}

fn each_comes_to_wait(s: Scene) -> (bool, bool) {
    let [thread, light]: [u64; 2] =
        together(s, [|s: Scene| s.tube.begin_to_meet().into(), |s| s.tube.begin_to_meet_lightly().into()]);
    (thread == 1, light == 1)
}

#[test]
fn of_two_who_come_to_meet_one_sees_the_other() {
    two_reach(3, meeting, each_comes_to_wait, [(false, true), (true, false), (true, true)]);
}

#[test]
fn a_waiter_sees_the_message_or_is_seen() {
    let all = [(false, true), (true, false), (true, true)];
    two_reach(3, ring, one_sees_the_other, all);
    two_reach(3, line, one_sees_the_other, all);
}

#[test]
fn at_a_busy_end_sender_and_waiter_see_each_other_without_the_kernel() {
    let all = [(false, true), (true, false), (true, true)];
    fence::unaided(true);
    two_reach(3, || turned(ring()), one_sees_the_other_turned, all);
    two_reach(3, || turned(line()), one_sees_the_other_turned, all);
    fence::unaided(false);
}
