//! Semaphores, as shell users have them.

use crate::place::{Place, Running, until};
use serde_json::{Value, json};

/// `chappe sem down` in the background.
fn down(here: &Place, args: &[&str]) -> Running {
    Place::spawn(&mut here.command(&[&["sem", "down"], args].concat()))
}

fn value(here: &Place, name: &str) -> u64 {
    here.ok(&["sem", "value", name]).trim().parse().expect("a number")
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    assert!(text.starts_with("chappe: ") || text.starts_with("error: "), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn each_saved_unit_is_consumed_once() {
    let here = Place::new();
    assert_eq!(here.ok(&["sem", "create", "ready", "--value", "2"]), "");
    assert_eq!(here.ok(&["sem", "value", "ready"]), "2\n");
    assert_eq!(here.ok(&["sem", "down", "ready"]), "");
    here.ok(&["sem", "down", "ready", "--nonblock"]);
    let why = here.fails(124, &["sem", "down", "ready", "--nonblock"]);
    assert_eq!(why, "chappe: semaphore `ready` has nothing to take: its value is 0, 0 waiting\n");
    here.ok(&["sem", "up", "ready", "-n", "3"]);
    here.ok(&["sem", "post", "ready", "--count=1"]);
    here.ok(&["semaphore", "wait", "ready", "--timeout", "1h"]);
    assert_eq!(value(&here, "ready"), 3);
    here.ok(&["sem", "rm", "ready"]);
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let here = Place::new();
    here.ok(&["sem", "create", "s"]);
    let mut waiting = Vec::new();
    for i in 1..=4 {
        waiting.push(down(&here, &["s"]));
        here.wait_for_waiters("s", i);
    }
    let shown = here.json(&["show", "s"]);
    let pids: Vec<u64> = shown["waiters"].as_array().unwrap().iter().map(|w| w["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids, waiting.iter().map(|w| u64::from(w.pid())).collect::<Vec<_>>());
    assert_eq!(shown["waiters"][0]["label"], "chappe sem down s");
    for (left, next) in (0..4).rev().zip(waiting) {
        here.ok(&["sem", "up", "s"]);
        assert_eq!(next.end().status, Some(0));
        here.wait_for_waiters("s", left);
    }
    assert_eq!(value(&here, "s"), 0);
}

#[test]
fn waiters_are_served_by_priority_where_it_was_made_so() {
    let here = Place::new();
    here.ok(&["sem", "create", "s", "--priority", "--aging", "never"]);
    here.ok(&["pool", "create", "p", "--priority", "--aging", "never"]);
    here.ok(&["pool", "create", "q", "--priority"]);
    assert_eq!(
        here.ok(&["ls"]),
        "NAME  KIND       WAITING  STATE\n\
         p     pool             0  1 permit, 1 free, 0 held, by priority\n\
         q     pool             0  1 permit, 1 free, 0 held, by priority, aging 1s\n\
         s     semaphore        0  value 0, by priority\n"
    );
    let waiting: Vec<_> = ["0", "9", "0", "200"]
        .into_iter()
        .enumerate()
        .map(|(i, priority)| {
            let waiter = down(&here, &["s", "--priority", priority]);
            here.wait_for_waiters("s", i + 1);
            waiter
        })
        .collect();
    let wanted: Vec<u64> = [3, 1, 0, 2].iter().map(|i: &usize| u64::from(waiting[*i].pid())).collect();
    for left in (0..4).rev() {
        let shown = here.json(&["show", "s"]);
        let pids: Vec<u64> = shown["waiters"].as_array().unwrap().iter().map(|w| w["pid"].as_u64().unwrap()).collect();
        assert_eq!(pids, wanted[3 - left..]);
        here.ok(&["sem", "up", "s"]);
        here.wait_for_waiters("s", left);
    }
    let (holder, _) = here.holder("a", &["p"]);
    let low = here.job(&["p"], "echo low >> log");
    here.wait_for_waiters("p", 1);
    let high = here.job(&["--priority", "7", "p"], "echo high >> log");
    here.wait_for_waiters("p", 2);
    let shown = here.json(&["show", "p"]);
    assert_eq!(shown["by_priority"], json!({"aging_ms": null}));
    assert_eq!(here.json(&["show", "q"])["by_priority"], json!({"aging_ms": 1000}));
    here.go("a");
    for ended in [holder, low, high] {
        assert_eq!(ended.end().status, Some(0));
    }
    assert_eq!(here.read("log"), "high\nlow");
    here.fails(2, &["sem", "create", "t", "--aging", "1s"]);
    here.fails(2, &["sem", "create", "t", "--barging", "--priority"]);
}

#[test]
fn several_at_once_serve_several() {
    let here = Place::new();
    here.ok(&["sem", "create", "s"]);
    let waiting = [down(&here, &["s"]), down(&here, &["s"]), down(&here, &["s", "--timeout", "1h"])];
    here.wait_for_waiters("s", 3);
    assert_eq!(here.json(&["sem", "up", "s", "-n", "5"])["added"], 5);
    for w in waiting {
        assert_eq!(w.end().status, Some(0));
    }
    assert_eq!(value(&here, "s"), 2);
}

#[test]
fn a_wait_that_is_over_in_vain_takes_nothing() {
    let here = Place::new();
    here.ok(&["sem", "create", "lab/s"]);
    for time in ["0", "50ms"] {
        let why = here.fails(124, &["sem", "down", "lab/s", "--timeout", time]);
        says(&why, &["timed out after", "waiting for semaphore `lab/s`"]);
    }
    here.wait_for_waiters("lab/s", 0);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGKILL] {
        let dead = down(&here, &["lab/s"]);
        here.wait_for_waiters("lab/s", 1);
        let next = down(&here, &["lab/s"]);
        here.wait_for_waiters("lab/s", 2);
        dead.kill(signal);
        assert_eq!(dead.end().signal, Some(signal));
        here.ok(&["sem", "up", "lab/s"]);
        assert_eq!(next.end().status, Some(0));
        assert_eq!(value(&here, "lab/s"), 0);
    }
}

#[test]
fn a_granted_waiter_killed_before_it_wakes_passes_the_unit_on() {
    let here = Place::new();
    here.ok(&["sem", "create", "s"]);
    let stopped = down(&here, &["s"]);
    here.wait_for_waiters("s", 1);
    stopped.kill(libc::SIGSTOP);
    until("stopped", || (crate::place::state(stopped.pid()) == Some('T')).then_some(()));
    here.ok(&["sem", "up", "s"]);
    assert_eq!(value(&here, "s"), 0, "it has been handed over");
    let next = down(&here, &["s"]);
    here.wait_for_waiters("s", 1);
    stopped.kill(libc::SIGKILL);
    stopped.end();
    assert_eq!(next.end().status, Some(0));
    assert_eq!(value(&here, "s"), 0);
}

#[test]
fn json_tells_all() {
    let here = Place::new();
    assert_eq!(here.json(&["sem", "create", "s", "-v", "1"]), json!({"name": "s", "value": 1, "barging": false}));
    let urgent = here.json(&["sem", "create", "lab/urgent", "--priority", "--aging", "never"]);
    assert_eq!(urgent, json!({"name": "lab/urgent", "value": 0, "barging": false, "by_priority": {"aging_ms": null}}));
    here.ok(&["sem", "rm", "lab/urgent"]);
    let fast = here.json(&["sem", "create", "lab/fast", "--barging"]);
    assert_eq!(fast, json!({"name": "lab/fast", "value": 0, "barging": true}));
    assert_eq!(here.json(&["sem", "up", "s"]), json!({"name": "s", "added": 1, "value": 2}));
    let taken = here.json(&["sem", "down", "s"]);
    assert_eq!((&taken["name"], &taken["value"]), (&"s".into(), &1.into()));
    assert!(taken["waited_ms"].is_u64());
    assert_eq!(here.json(&["sem", "value", "s"]), json!({"name": "s", "value": 1}));
    assert_eq!(
        here.json(&["ls"]),
        json!([
            {"name": "s", "arena": "default", "kind": "semaphore", "value": 1, "barging": false, "waiting": 0},
            {"name": "lab/fast", "arena": "lab", "kind": "semaphore", "value": 0, "barging": true, "waiting": 0},
        ])
    );
    let waiter = down(&here, &["lab/fast"]);
    here.wait_for_waiters("lab/fast", 1);
    let shown = here.json(&["show", "lab/fast"]);
    assert_eq!((&shown["kind"], &shown["waiting"]), (&"semaphore".into(), &1.into()));
    assert_eq!(shown["waiters"][0]["pid"], waiter.pid());
    assert_eq!(shown.get("holders"), None);
    let late: Value =
        serde_json::from_str(&here.fails(124, &["--json", "sem", "down", "lab/fast", "--nonblock"])).unwrap();
    assert_eq!(late["status"], 124);
    assert!(late["error"].as_str().unwrap().contains("0, 1 waiting"), "{late}");
    let gone: Value = serde_json::from_str(&here.fails(1, &["--json", "sem", "up", "gone"])).unwrap();
    assert_eq!(gone.get("status"), None);
    here.ok(&["sem", "up", "lab/fast"]);
    assert_eq!(waiter.end().status, Some(0));
    assert_eq!(here.json(&["sem", "rm", "s"]), json!({"removed": "s"}));
}

#[test]
fn an_unknown_one_names_those_that_are_there_and_the_command_that_makes_one() {
    let here = Place::new();
    let all = [&["sem", "up", "x"][..], &["sem", "down", "x"], &["sem", "value", "x"], &["sem", "rm", "x"]];
    let makes = "`chappe sem create x` makes one";
    for args in all {
        says(&here.fails(1, args), &["no semaphore `x` in arena `default`", "no semaphores exist here yet", makes]);
    }
    here.ok(&["sem", "create", "a"]);
    here.ok(&["sem", "create", "b"]);
    here.ok(&["pool", "create", "p"]);
    for args in all {
        says(&here.fails(1, args), &["there are `a`, `b`)", makes]);
    }
    says(&here.fails(1, &["sem", "up", "lab/x"]), &["no semaphore `lab/x`", "`chappe sem create lab/x` makes one"]);
}

#[test]
fn names_are_those_of_one_kind_of_object() {
    let here = Place::new();
    here.ok(&["sem", "create", "s"]);
    here.ok(&["pool", "create", "p"]);
    says(&here.fails(1, &["sem", "create", "s"]), &["semaphore `s` is already there"]);
    for args in [&["sem", "create", "p"][..], &["sem", "up", "p"], &["sem", "down", "p"], &["sem", "rm", "p"]] {
        says(&here.fails(1, args), &["`p` is a pool, not a semaphore"]);
    }
    for args in [&["pool", "create", "s"][..], &["pool", "rm", "s"], &["release", "s"]] {
        says(&here.fails(1, args), &["`s` is a semaphore, not a pool"]);
    }
    says(&here.fails(125, &["acquire", "--create", "s", "--", "true"]), &["`s` is a semaphore, not a pool"]);
    for (name, why) in [("", "it is empty"), (".x", "it starts with `.`"), ("a b", "contains ' '"), ("a\nb", "'\\n'")] {
        says(&here.fails(1, &["sem", "create", name]), &["not a valid semaphore name", why]);
        says(&here.fails(1, &["sem", "up", name]), &["not a valid semaphore name", why]);
    }
}

#[test]
fn a_name_that_is_no_text_is_wrong_usage() {
    use std::os::unix::ffi::OsStrExt;
    let here = Place::new();
    let mut c = here.command(&["sem", "create"]);
    let ran = Place::spawn(c.arg(std::ffi::OsStr::from_bytes(b"a\xff"))).end();
    assert_eq!(ran.status, Some(2));
    says(&ran.err, &["UTF-8"]);
}

#[test]
fn values_must_be_possible() {
    let here = Place::new();
    for n in ["2147483648", "4294967296", "99999999999"] {
        let what = format!("a semaphore cannot have the value {n}: between 0 and 2147483647 are possible");
        says(&here.fails(1, &["sem", "create", "s", "--value", n]), &[&what]);
    }
    for n in ["-1", "some", "99999999999999999999"] {
        says(&here.fails(2, &["sem", "create", "s", "--value", n]), &[n]);
    }
    here.ok(&["sem", "create", "s", "--value", "2147483646"]);
    let why = here.fails(1, &["sem", "up", "s", "-n", "2"]);
    says(&why, &["semaphore `s` has the value 2147483646: 2 more would exceed 2147483647; nothing was changed"]);
    says(&here.fails(1, &["sem", "up", "s", "-n", "4294967295"]), &["nothing was changed"]);
    assert_eq!(value(&here, "s"), 2_147_483_646);
    here.ok(&["sem", "up", "s"]);
    says(&here.fails(1, &["sem", "up", "s"]), &["nothing was changed"]);
    assert_eq!(value(&here, "s"), 2_147_483_647);
    for n in ["0", "4294967296", "-1"] {
        says(&here.fails(2, &["sem", "up", "s", "-n", n]), &[n]);
    }
    says(&here.fails(2, &["sem", "down", "s", "--timeout", "soon"]), &["`soon` is not a duration"]);
    says(&here.fails(2, &["sem", "down", "s", "--timeout=1s", "--nonblock"]), &["cannot be used with"]);
    assert_eq!(value(&here, "s"), 2_147_483_647);
}

#[test]
fn removed_while_somebody_waits() {
    let here = Place::new();
    here.ok(&["sem", "create", "s"]);
    let waiter = down(&here, &["s"]);
    here.wait_for_waiters("s", 1);
    let first = format!("first pid {} `chappe sem down s`", waiter.pid());
    for args in [&["sem", "rm", "s"][..], &["rm", "s"]] {
        says(&here.fails(1, args), &["semaphore `s` is in use: 1 waiting", &first, "--force"]);
    }
    here.ok(&["sem", "rm", "s", "--force"]);
    let ran = waiter.end();
    assert_eq!(ran.status, Some(1));
    says(&ran.err, &["semaphore `s` is dead: it was removed"]);
    says(&here.fails(1, &["sem", "value", "s"]), &["no semaphore `s`"]);
    here.ok(&["sem", "create", "s", "-v", "1"]);
    here.ok(&["sem", "down", "s"]);
}

#[test]
fn a_bounded_buffer_loses_nothing() {
    let here = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shell/bounded-buffer.sh");
    let ran = Place::spawn(&mut here.program("sh", &[example])).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("24 items went through 3 places"), "{ran:?}");
}
