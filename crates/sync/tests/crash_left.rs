//! Threads that wait by a descriptor at a tube without slots, explored: they meet, with each other and with those that wait at the tube.

use crate::crash_tube::Act::*;
use crate::crash_tube::{Threads, explored_as, none, one};
use chappe_crashsim::{Search, World, reached};

#[test]
fn two_that_wait_by_descriptors_meet() {
    let threads: Threads<'_> =
        &[("sender", &[PollSend(0, 10), PollSend(0, 11)]), ("receiver", &[PollRecv(0), PollRecv(0)])];
    explored_as("left_two", [&none, &none], threads, &[]);
}

#[test]
fn several_that_wait_by_one_descriptor_all_meet() {
    let threads: Threads<'_> = &[
        ("one", &[PollSend(0, 10)]),
        ("other", &[PollSend(0, 20)]),
        ("receiver", &[PollRecv(0)]),
        ("second", &[PollRecv(0)]),
    ];
    explored_as("left_several", [&none, &none], threads, &[]);
}

#[test]
fn a_waiting_receiver_gets_a_message_left_for_a_receiver_that_gave_up() {
    let threads: Threads<'_> = &[("sender", &[PollSend(0, 10)]), ("gives up", &[Arm(0)]), ("receiver", &[Recv(0)])];
    explored_as("left_behind", [&none, &none], threads, &[]);
    let threads: Threads<'_> = &[("sender", &[PollSend(0, 10)]), ("gives up", &[Arm(0)]), ("chooser", &[Either])];
    explored_as("left_to_a_choice", [&none, &one], threads, &[]);
    let threads: Threads<'_> =
        &[("sender", &[PollSend(0, 10)]), ("gives up", &[Arm(0)]), ("looker", &[Look(0), PollRecv(0)])];
    explored_as("left_to_look_at", [&none, &none], threads, &[]);
}

#[test]
fn those_at_the_tube_and_those_by_descriptors_all_meet() {
    let threads: Threads<'_> = &[
        ("by descriptor", &[PollSend(0, 10)]),
        ("sender", &[Send(0, 20)]),
        ("receiver", &[Recv(0)]),
        ("by another", &[PollRecv(0)]),
    ];
    explored_as("left_mixed", [&none, &none], threads, &[]);
}

#[test]
fn a_receiver_that_goes_leaves_no_sender_waiting_and_keeps_nothing() {
    let threads: Threads<'_> = &[("sender", &[PollSend(0, 10)]), ("goes", &[Arm(0), NoReceiver(0)])];
    let world = |world: &World| {
        let scene = crate::crash_tube::Scene::new(world, 3, [&none, &none]);
        for (name, acts) in threads {
            scene.thread(world, name, acts);
        }
        world.prepare("last").last().run(move || {
            scene.holds_nothing(0);
            reached("looked");
        });
    };
    for search in [
        Search::depth("left_gone_depth", 3).schedules(15_000),
        Search::uniform("left_gone_buffers").store_buffers(4).spurious(1).schedules(4_000),
    ] {
        search.run(world).assert_clean();
    }
}

#[test]
fn one_message_is_left_for_each_arming() {
    let report = Search::depth("left_once", 0).schedules(10).run(|world: &World| {
        let scene = crate::crash_tube::Scene::new(world, 2, [&none, &none]);
        world.prepare("one thread").run(move || scene.leaves_one_for_each_arming());
    });
    report.assert_clean();
}
