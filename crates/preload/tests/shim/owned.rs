//! `--owned`: a lock returns when its holder is killed; what was no lock returns nothing.

use crate::stage::{Stage, compiled, run, well};
use chappe::{Arena, ArenaOptions};

#[test]
fn a_lock_returns_when_its_holder_is_killed_and_nothing_else_does() {
    let Some(program) = compiled("owned") else { return };
    let stage = Stage::new();
    for kind in ["memory", "named"] {
        let wanted = [
            "killed while it holds: the next has it",
            "ends while it holds, by _exit: nobody has it",
            "ends while it holds, by exit: nobody has it",
            "ends while it holds, by return: nobody has it",
            "ends while it holds, by quick_exit: nobody has it",
            "ends while it holds, by daemon: nobody has it",
            "what is its daemon: of a session of its own, in /, with nothing open",
            "execs while it holds: the next has it",
            "killed behind a post by another: nobody has it",
            "killed, that started at 2: nobody has it",
            "a child gives back what its parent holds: two have it",
            "taken by one thread, given back by another, killed: value 1",
            "asleep when the holder is killed: each has it",
        ];
        let said = well(stage.owned(&program).arg(kind));
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(said, wanted, "{kind}");
    }
}

#[test]
fn without_owned_no_death_returns_anything() {
    let Some(program) = compiled("owned") else { return };
    let said = well(Stage::new().under(&program).args(["memory", "first"]));
    assert_eq!(said, "killed while it holds: nobody has it\n");
}

/// Set for a child that is this program, and makes an arena in which hardly anybody has room.
const SMALL: &str = "CHAPPE_SHIM_TEST_SMALL";

/// How many objects it has.
const OBJECTS: &str = "CHAPPE_SHIM_TEST_OBJECTS";

#[test]
fn actor() {
    if std::env::var_os(SMALL).is_some() {
        let objects = std::env::var(OBJECTS).ok().and_then(|said| said.parse().ok());
        Arena::create("posix", &ArenaOptions { members: Some(3), objects, ..ArenaOptions::default() }).expect("room");
    }
}

#[test]
fn a_full_arena_is_reported_as_the_c_library_reports_it() {
    let Some(program) = compiled("full") else { return };
    let stage = Stage::new();
    let wanted = well(&mut stage.plain(&program));
    let this = std::env::current_exe().expect("this test is a file");
    assert!(run(stage.plain(this).args(["--exact", "owned::actor"]).env(SMALL, "1")).status.success());
    assert!(stage.path().join("posix").is_file());
    assert_eq!(well(&mut stage.owned(&program)), wanted);
    assert_eq!(well(&mut stage.under(&program)), wanted);
}

/// The tally in the lock's file: how many were made since the last look for the dead, and what that cost.
fn tally(stage: &Stage) -> [u64; 2] {
    let bytes = std::fs::read(stage.path().join(".posix/.lock")).expect("somebody has made names");
    [0, 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes")))
}

#[test]
fn more_names_than_there_is_room_for_do_not_cost_a_look_each() {
    let Some(program) = compiled("crowded") else { return };
    let stage = Stage::new();
    let this = std::env::current_exe().expect("this test is a file");
    let mut actor = stage.plain(this);
    actor.args(["--exact", "owned::actor"]).env(SMALL, "1").env(OBJECTS, "64");
    assert!(run(&mut actor).status.success());
    assert_eq!(well(stage.under(&program).arg("1000")), "1000 names\n");
    let [made, cost] = tally(&stage);
    assert!(made > 0 && cost > 900, "{made} made since a look at {cost} entries");
    assert_eq!(stage.files(), [""; 0]);
}
