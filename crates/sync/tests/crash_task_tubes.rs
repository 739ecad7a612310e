//! Tasks at the ends of tubes, explored: private ones, and those between processes. What must hold is what holds for threads (`crash_tube`,
//! `crash_named`), and that a task which is dropped loses nothing for others.

use crate::crash_named::{Act, ONE, Processes, RECEIVES, SENDS, explored, world};
use crate::crash_tube::Act::*;
use crate::crash_tube::{Threads, explored_as, none, one};
use chappe_crashsim::Search;

#[test]
fn a_task_is_woken_by_what_it_waits_for() {
    let receives: Threads<'_> = &[("sender", &[Send(0, 10), Send(0, 11)]), ("receiver", &[TaskRecv(0); 2])];
    explored_as("task_receives_one", [&one, &one], receives, &[]);
    explored_as("task_receives_none", [&none, &none], receives, &[]);
    let both: Threads<'_> = &[("sender", &[TaskSend(0, 10), TaskSend(0, 11)]), ("receiver", &[TaskRecv(0); 2])];
    explored_as("tasks_meet", [&none, &none], both, &[]);
}

#[test]
fn tasks_and_threads_at_one_end_are_told_one_each() {
    let threads: Threads<'_> = &[
        ("sender", &[Send(0, 10)]),
        ("task that sends", &[TaskSend(0, 20)]),
        ("receiver", &[Recv(0)]),
        ("task that receives", &[TaskRecv(0)]),
    ];
    explored_as("task_crowd_none", [&none, &none], threads, &[]);
}

/// A task that is dropped was told perhaps, or met: nothing is lost, and the next is told. (Nobody leaves: a leaver tells all.)
#[test]
fn a_dropped_task_passes_on_what_it_was_told_of() {
    let received: Threads<'_> = &[("hasty", &[DroppedRecv(0)]), ("next", &[TaskRecv(0)]), ("sender", &[Send(0, 10)])];
    explored_as("dropped_receiver_one", [&one, &one], received, &["gave up"]);
    explored_as("dropped_receiver_none", [&none, &none], received, &["gave up"]);
    let met: Threads<'_> = &[("hasty", &[DroppedSend(0, 10)]), ("next", &[Send(0, 20)]), ("receiver", &[Recv(0)])];
    explored_as("dropped_sender_none", [&none, &none], met, &["gave up"]);
    let full: Threads<'_> = &[
        ("hasty", &[Send(0, 10), DroppedSend(0, 11)]),
        ("next", &[TaskSend(0, 20)]),
        ("receiver", &[Recv(0), Recv(0)]),
    ];
    explored_as("dropped_sender_one", [&one, &one], full, &["gave up"]);
}

#[test]
fn tasks_of_processes_are_served_or_told_of_a_death() {
    let tasks: Processes<'_> = &[
        ("sender", SENDS, &[Act::TaskPut(10), Act::TaskPut(11), Act::Leave(true)]),
        ("receiver", RECEIVES, &[Act::TaskGet, Act::TaskGet, Act::TaskGet, Act::Leave(false)]),
    ];
    explored("tasks", ONE, tasks, &["nobody sends", "nobody receives"]);
}

/// Nobody leaves: a leaver tells all. And nobody dies, whose message would be lost with it.
#[test]
fn a_dropped_tasks_notice_of_a_message_goes_on() {
    let dropped: Processes<'_> = &[
        ("hasty", &[true, false], &[Act::DroppedGet]),
        ("next", RECEIVES, &[Act::TaskGet]),
        ("sender", SENDS, &[Act::Put(10)]),
    ];
    let all = [
        Search::depth("named_dropped_schedules", 3).schedules(5_000),
        Search::sweep("named_dropped_stop").stops(1).resume(),
        Search::priorities("named_dropped_pct", 4).stops(1).resume().schedules(5_000),
    ]
    .map(|search| search.run(world(ONE, dropped)));
    for report in &all {
        report.assert_clean();
        assert!(report.outcomes().contains_key("next"));
    }
    assert!(all.iter().any(|report| report.outcomes().contains_key("gave up")));
}
