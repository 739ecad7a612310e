//! Each program prints the same with the C library alone, with the library in front, and with it as `--owned` has it.

use crate::stage::{Stage, compiled, run, well};
use std::process::Command;

#[track_caller]
fn alike(name: &str) {
    let Some(program) = compiled(name) else { return };
    let said = |c: &mut Command| {
        let ran = run(c);
        (
            ran.status.to_string(),
            String::from_utf8_lossy(&ran.stdout).into_owned(),
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    let stage = Stage::new();
    let wanted = said(&mut stage.plain(&program));
    assert_eq!(
        (wanted.0.as_str(), wanted.2.as_str()),
        ("exit status: 0", ""),
        "{name}, with the C library alone:\n{}",
        wanted.1
    );
    for (how, got) in
        [("under the shim", said(&mut stage.under(&program))), ("owned", said(&mut stage.owned(&program)))]
    {
        for (wanted, got) in wanted.1.lines().zip(got.1.lines()) {
            assert_eq!(got, wanted, "{name}, {how}");
        }
        assert_eq!(got, wanted, "{name}, {how}");
    }
    // A process that ends has closed nothing. The next process clears up.
    let sweeper = compiled("makers").expect("there is a compiler");
    well(stage.under(sweeper).arg("0"));
    assert_eq!(stage.files(), [""; 0], "{name}: nothing is left of what was unlinked");
}

#[test]
fn arguments_and_values() {
    alike("values");
}

#[test]
fn signals_end_the_waits_that_they_should() {
    alike("signals");
}

#[test]
fn cancellation_acts_where_it_should() {
    alike("cancel");
}

#[test]
fn names_flags_and_addresses() {
    alike("named");
}

#[test]
fn names_that_begin_alike_are_told_apart() {
    alike("crowded");
}

#[test]
fn forked_children_share_and_copy() {
    alike("forks");
}

#[test]
#[ignore = "storm: processes that race"]
fn processes_race_for_names_and_strangers_share_memory() {
    alike("races");
}

#[test]
fn a_semaphore_in_a_file_outlives_its_maker() {
    alike("lasting");
}

#[test]
fn handlers_wait_and_jump() {
    alike("jumps");
}

#[test]
fn handlers_post_within_the_programs_own_malloc() {
    alike("own");
}

#[test]
fn a_cancellation_does_not_wait_for_a_handler() {
    alike("atop");
}

#[test]
fn a_process_outlives_its_first_thread_and_no_longer_than_the_last() {
    alike("leaves");
}

#[test]
fn more_wait_than_there_is_room_for() {
    alike("crowd");
}

#[test]
#[ignore = "storm: threads and processes that race"]
fn nothing_is_lost_or_doubled() {
    alike("counts");
}

#[test]
fn semaphores_go_on_when_their_arenas_lose_their_files() {
    alike("unlinked");
}

#[test]
fn a_resource_limit_kills_no_process() {
    alike("limits");
}

#[test]
fn a_process_ends_where_there_is_little_room_for_another_thread() {
    alike("narrow");
}

#[test]
fn a_helper_thread_takes_no_descriptor_number_of_the_program() {
    alike("files");
}

#[test]
fn a_moved_semaphore_is_not_the_one_left_behind() {
    alike("moved");
}

#[test]
#[ignore = "storm: posts that race ends"]
fn a_wait_that_was_posted_to_ends_well_though_the_semaphore_goes() {
    alike("posted");
}
