//! Names on other machines: what is refused before any engine is asked.

use crate::place::Place;

/// Fails with this status, and says all of these.
#[track_caller]
fn refused(args: &[&str], status: i32, parts: &[&str]) {
    let ran = Place::new().run(args);
    assert_eq!(ran.status, Some(status), "{args:?}: {ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{args:?}: {part}: {}", ran.err);
    }
}

#[cfg(not(feature = "remote"))]
#[test]
fn a_build_without_the_client_says_which_command_builds_it() {
    let how = "`cargo install --path crates/cli --features remote`";
    refused(&["acquire", "@lab/gpu", "--", "true"], 125, &["built without names on other machines", how]);
    refused(&["--on", "etcd://h/lab", "ls"], 1, &[how]);
    refused(&["show", "@lab/gpu"], 1, &[how]);
    refused(&["pool", "create", "@lab/gpu"], 1, &[how]);
}

#[test]
fn an_operation_that_no_engine_has_is_refused_with_advice() {
    refused(&["lock", "@lab/x", "--", "true"], 125, &["`@lab/x`", "a pool of one permit"]);
    refused(
        &["jobserver", "--pool", "@lab/x", "--", "true"],
        125,
        &["chappe acquire -n 8 @REMOTE/POOL -- chappe jobserver"],
    );
    refused(&["sem", "create", "--barging", "@lab/x"], 1, &["in the order of arrival"]);
    refused(&["sem", "down", "--priority", "1", "@lab/x"], 1, &["in the order of arrival"]);
    refused(&["pool", "create", "--mutex", "x"], 1, &["--mutex is for an engine", "chappe lock"]);
    refused(&["acquire", "--priority", "1", "@lab/x", "--", "true"], 125, &["`@lab/x`", "in the order of arrival"]);
    refused(&["pool", "create", "--priority", "@lab/x"], 1, &["leave --priority and --barging out"]);
    refused(&["--on", "etcd://h/lab", "threads", "1"], 1, &["--on", "memory of one machine"]);
    refused(&["watch", "@lab/gpu.waiting > 3", "--", "true"], 1, &["`chappe metrics` has an engine's figures"]);
    for args in
        [vec!["create", "@lab/m"], vec!["put", "@lab/m", "k", "v"], vec!["watch", "@lab/m"], vec!["rm", "@lab/m"]]
    {
        refused(&[&["map"], args.as_slice()].concat(), 1, &["`@lab/m` is not possible here", "a map is in the memory"]);
    }
    refused(&["barrier", "wait", "@lab/b", "-n", "2"], 1, &["`@lab/b`", "processes of one machine"]);
    refused(&["schema", "show", "@lab/s"], 1, &["`@lab/s`", "memory of one machine"]);
    refused(&["term", "show", "@lab/t"], 1, &["`@lab/t`", "on one machine"]);
    refused(
        &["acquire", "@lab/x", "gpu0", "--", "true"],
        125,
        &["one choice cannot have both", "chappe acquire @lab/x -- chappe acquire gpu0 -- COMMAND"],
    );
    refused(&["--on", "etcd://h/lab", "acquire", "@lab/x", "--", "true"], 125, &["--on too: leave one out"]);
}

#[cfg(feature = "remote")]
#[test]
fn a_name_that_is_an_engines_or_stands_twice_is_told_as_it_is_written() {
    for args in [["show", "@lab"], ["rm", "@lab"]] {
        refused(&args, 1, &["`@lab` is an engine, and no object there: write @lab/NAME; `chappe ls @lab`"]);
    }
    refused(&["--on", "etcd://h/lab", "acquire", "x", "x", "--", "true"], 125, &["pool `x` is named twice"]);
}

#[test]
fn a_local_name_does_not_look_like_one_on_another_machine() {
    refused(&["pool", "create", "lab/@x"], 1, &["starts with `@`, as the names on other machines do"]);
}
