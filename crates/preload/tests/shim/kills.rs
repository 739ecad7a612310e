//! Processes that use semaphores are killed at any moment: nobody is left asleep beside a unit.

use crate::stage::{Stage, compiled, well};

#[test]
#[ignore = "storm: kills at random"]
fn a_killed_process_leaves_no_waiter_asleep() {
    let Some(program) = compiled("kills") else { return };
    let stage = Stage::new();
    assert_eq!(well(stage.under(&program).arg("60")), "memory: all go on\nnamed: all go on\n");
    assert_eq!(well(stage.owned(&program).arg("60")), "memory: all go on\nnamed: all go on\n");
}

#[test]
#[ignore = "storm: kills at random"]
fn makers_of_names_that_are_killed_leave_nothing() {
    let Some(program) = compiled("makers") else { return };
    let stage = Stage::new();
    assert_eq!(well(stage.under(&program).arg("150")), "all names are well\n");
    assert_eq!(stage.files(), [""; 0]);
}
