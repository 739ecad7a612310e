//! Objects of all kinds in listings, those that programs make included, and their removal.

use crate::place::{Place, Running, kill, until};
use chappe::{Condvar, LockError, Mutex, MutexGuard};
use serde_json::json;
use std::process::Stdio;

/// What the program below is to do.
const ROLE: &str = "CHAPPE_TEST_ROLE";

/// A program with a mutex and a condition variable; nothing when it is run as a test.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let m = Mutex::open_or_create("m", [0u8; 20]).unwrap();
    let taken = || match m.lock() {
        Ok(guard) | Err(LockError::OwnerDied(guard)) => guard,
        Err(e) => panic!("{e}"),
    };
    match role.as_str() {
        "hold" => {
            let _guard = taken();
            std::fs::write("held", std::process::id().to_string()).unwrap();
            loop {
                std::thread::park();
            }
        }
        "lock" => drop(m.lock()),
        "condemn" => MutexGuard::condemn(taken()),
        "wait" => drop(Condvar::open_or_create("c").unwrap().wait(taken())),
        other => panic!("{other}"),
    }
}

fn start(here: &Place, role: &str) -> Running {
    let me = std::env::current_exe().unwrap();
    let mut c = here.program(me.to_str().unwrap(), &["--exact", "objects::program", "--test-threads=1"]);
    Place::spawn(c.env(ROLE, role).stdout(Stdio::null()))
}

#[test]
fn a_mutex_that_programs_made_is_listed_and_shown() {
    let here = Place::new();
    let holder = start(&here, "hold");
    until("held", || here.file("held").exists().then_some(()));
    let waiter = start(&here, "lock");
    here.wait_for_waiters("m", 1);
    let row = here.json(&["ls"])[0].clone();
    let who = row["holder"].clone();
    assert_eq!(who["pid"], holder.pid());
    assert_eq!(
        row,
        json!({"name": "m", "arena": "default", "kind": "mutex", "holder": who, "torn": false, "condemned": false,
            "bytes": 20, "waiting": 1})
    );
    let by = format!("locked by pid {} `{}`, 20 bytes", holder.pid(), who["label"].as_str().unwrap());
    assert_eq!(here.ok(&["ls"]), format!("NAME  KIND   WAITING  STATE\nm     mutex        1  {by}\n"), "one line");
    let shown = here.ok(&["show", "m"]);
    assert!(shown.starts_with(&format!("m: mutex, {by}, 1 waiting\n  1. in line: pid {} `", waiter.pid())), "{shown}");
    assert_eq!(here.json(&["show", "m"])["waiters"][0]["pid"], waiter.pid());
    assert_eq!(here.json(&["doctor"])["arenas"][0]["capacity"]["data_used"], 64);

    kill(holder.pid(), libc::SIGKILL);
    assert_eq!(holder.end().signal, Some(libc::SIGKILL));
    assert_eq!(waiter.end().status, Some(0));
    let row = &here.json(&["ls"])[0];
    assert_eq!((&row["holder"], &row["torn"], &row["condemned"]), (&json!(null), &json!(true), &json!(false)));
    assert_eq!(here.ok(&["show", "m"]), "m: mutex, free, a holder died, 20 bytes, 0 waiting\n");
    assert!(here.ok(&["doctor"]).contains("mutex `m` was left by a holder that died"));

    assert_eq!(start(&here, "condemn").end().status, Some(0));
    assert_eq!(here.json(&["show", "m"])["condemned"], true);
    assert_eq!(here.ok(&["show", "m"]), "m: mutex, condemned, 20 bytes, 0 waiting\n");
    assert!(here.ok(&["doctor"]).contains("mutex `m` is condemned"));
    assert_eq!(here.json(&["rm", "m"]), json!({"removed": "m", "kind": "mutex"}));
    assert_eq!(here.json(&["ls"]), json!([]));
}

#[test]
fn a_condition_variable_is_listed_and_shown() {
    let here = Place::new();
    let waiter = start(&here, "wait");
    until("a wait", || here.json(&["ls"]).as_array().unwrap().iter().any(|r| r["waiting"] == 1).then_some(()));
    // It is listed before it unlocks.
    until("who waits has unlocked", || (here.json(&["show", "m"])["holder"] == json!(null)).then_some(()));
    let rows = here.json(&["ls"]);
    assert_eq!(rows[0], json!({"name": "c", "arena": "default", "kind": "condition variable", "waiting": 1}));
    assert_eq!((&rows[1]["name"], &rows[1]["holder"]), (&json!("m"), &json!(null)));
    assert!(here.ok(&["ls"]).contains("c     condition variable        1\n"));
    let shown = here.ok(&["show", "c"]);
    assert!(
        shown.starts_with(&format!("c: condition variable, 1 waiting\n  1. in line: pid {} `", waiter.pid())),
        "{shown}"
    );
    let why = here.fails(1, &["rm", "c"]);
    assert!(why.contains("condition variable `c` is in use: 1 waiting"), "{why}");
    assert_eq!(here.json(&["rm", "c", "--force"])["kind"], "condition variable");
    assert_eq!(waiter.end().status, Some(0), "it was told, and has the mutex again");
}

#[test]
fn a_mutex_in_use_is_removed_only_by_force() {
    let here = Place::new();
    let holder = start(&here, "hold");
    until("held", || here.file("held").exists().then_some(()));
    let why = here.fails(1, &["rm", "m"]);
    let by = format!("locked by pid {} `", holder.pid());
    assert!(why.contains("mutex `m` is in use: ") && why.contains(&by) && why.contains("--force"), "{why}");
    here.ok(&["rm", "m", "--force"]);
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn all_kinds_share_one_table() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu", "-p", "2"]);
    here.ok(&["sem", "create", "ready", "-v", "7"]);
    here.ok(&["sem", "create", "lab/fast", "--barging"]);
    assert_eq!(start(&here, "lock").end().status, Some(0));
    assert_eq!(
        here.ok(&["ls"]),
        "NAME      KIND       WAITING  STATE\n\
         gpu       pool             0  2 permits, 2 free, 0 held\n\
         m         mutex            0  free, 20 bytes\n\
         ready     semaphore        0  value 7\n\
         lab/fast  semaphore        0  value 0, barging\n"
    );
    assert_eq!(here.ok(&["show", "ready"]), "ready: semaphore, value 7, 0 waiting\n");
    assert_eq!(here.ok(&["show", "lab/fast"]), "lab/fast: semaphore, value 0, barging, 0 waiting\n");
    assert_eq!(here.ok(&["show", "gpu"]), "gpu: 2 permits, 2 free, 0 waiting\n");
    for name in ["gpu", "m", "ready", "lab/fast"] {
        assert_eq!(here.ok(&["rm", name]), "");
    }
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn a_missing_object_is_reported_with_those_that_exist() {
    let here = Place::new();
    for args in [["show", "x"], ["rm", "x"]] {
        let why = here.fails(1, &args);
        assert!(why.contains("no object `x` in arena `default` (no objects exist here yet)"), "{why}");
        assert!(
            why.contains("`chappe pool create x`, `chappe sem create x` and `chappe tube create x` make one"),
            "{why}"
        );
    }
    here.ok(&["pool", "create", "lab/p"]);
    here.ok(&["sem", "create", "lab/s"]);
    for args in [["show", "lab/x"], ["rm", "lab/x"]] {
        let why = here.fails(1, &args);
        assert!(why.contains("no object `lab/x` in arena `lab` (there are `lab/p`, `lab/s`)"), "{why}");
    }
    for args in [["show", "a b"], ["rm", ""], ["show", "lab/"], ["rm", ".x"]] {
        assert!(here.fails(1, &args).contains("is not a valid object name"), "{args:?}");
    }
    assert!(here.fails(1, &["show", "/x"]).contains("is not a valid object name: it is a path"));
}

#[test]
fn several_names_make_and_remove_several() {
    let here = Place::new();
    here.ok(&["pool", "create", "a", "b", "lab/c", "--permits", "2"]);
    here.ok(&["sem", "create", "s", "t"]);
    here.ok(&["tube", "create", "u", "v", "--size", "64"]);
    assert_eq!((here.free("a"), here.free("lab/c")), (2, 2));
    // What can be done is done; the rest is said.
    let ran = here.run(&["--json", "pool", "create", "b", "d", "s"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.out, "{\"name\":\"d\",\"permits\":1}\n", "{ran:?}");
    assert!(
        ran.err.lines().count() == 2
            && ran.err.contains("pool `b` is already there")
            && ran.err.contains("`s` is a semaphore"),
        "{ran:?}"
    );
    let text = here.fails(1, &["rm", "a", "nothing", "s", "u"]);
    assert!(text.contains("there is no object `nothing`") && text.contains("`v`"), "tubes are listed, too: {text}");
    here.ok(&["pool", "rm", "b", "d"]);
    here.ok(&["sem", "rm", "t"]);
    here.ok(&["tube", "rm", "v"]);
    assert_eq!(here.json(&["ls", "default"]), serde_json::json!([]));
}

#[test]
fn a_number_is_refused_as_a_name_with_its_likely_meaning() {
    let here = Place::new();
    for (status, args, meaning) in [
        (125, &["acquire", "--create", "3", "zz", "--", "true"][..], "--create=3"),
        (1, &["pool", "create", "zz", "3"], "--permits 3"),
        (1, &["sem", "create", "zz", "3"], "--value 3"),
        (1, &["tube", "create", "zz", "3"], "--slots 3"),
    ] {
        let text = here.fails(status, args);
        assert!(text.contains("`3` is a number") && text.contains(&format!("did you mean `{meaning}`?")), "{text}");
        assert!(!here.arenas().join("default").exists(), "{args:?}: nothing was made");
    }
    here.ok(&["pool", "create", "gpu"]);
    assert!(here.fails(125, &["acquire", "gpu", "2", "--", "true"]).contains("did you mean `-n 2`?"));
}
