//! Barriers, as scripts have them.

use crate::eyes::object;
use crate::place::{Place, Running, until};
use serde_json::json;

/// `chappe barrier wait` in the background.
fn wait(here: &Place, args: &[&str]) -> Running {
    Place::spawn(&mut here.command(&[&["barrier", "wait"], args].concat()))
}

#[test]
fn scripts_wait_for_each_other_and_the_first_makes_the_barrier() {
    let here = Place::new();
    for round in 0..2 {
        let first = wait(&here, &["b", "-n", "2"]);
        here.wait_for_waiters("b", 1);
        let last = here.json(&["barrier", "wait", "b", "-n", "2"]);
        assert_eq!((&last["name"], &last["round"], &last["died"]), (&json!("b"), &json!(round), &json!(0)));
        assert_eq!(first.end().status, Some(0));
    }
    assert_eq!(here.ok(&["ls"]), "NAME  KIND     WAITING  STATE\nb     barrier        0  2 parties, 2 rounds\n");
    let shown = here.json(&["show", "b"]);
    let facts =
        ["parties", "arrived", "joined", "dead", "rounds", "broken", "breaks_on_death"].map(|name| &shown[name]);
    assert_eq!(facts.map(ToString::to_string), ["2", "0", "0", "0", "2", "false", "false"]);
    let metrics = here.ok(&["metrics"]);
    assert!(metrics.contains("# TYPE chappe_barrier_rounds_total counter\n"), "{metrics}");
    assert!(metrics.contains("chappe_barrier_parties{arena=\"default\",name=\"b\"} 2\n"), "{metrics}");
    assert!(here.fails(1, &["barrier", "wait", "b", "-n", "3"]).contains("is there with 2 parties, not 3 parties"));
    here.ok(&["barrier", "rm", "b"]);
    assert!(here.fails(1, &["barrier", "wait", "b"]).contains("`chappe barrier create b --parties N` makes one"));
}

#[test]
fn the_help_on_json_has_each_field_of_a_barrier() {
    let here = Place::new();
    here.ok(&["barrier", "create", "b", "-n", "2"]);
    let help = here.ok(&["help", "json"]);
    let of_barriers = help.split("{\"name\"").find(|object| object.contains("\"kind\": \"barrier\"")).expect("listed");
    let shown = here.json(&["ls"]);
    let fields = shown[0].as_object().expect("an object").keys().filter(|field| *field != "name");
    fields.for_each(|field| assert!(of_barriers.contains(&format!("\"{field}\":")), "{field} is not in {of_barriers}"));
}

#[test]
fn top_shows_a_barrier_and_who_waits_there() {
    let here = Place::new();
    let first = wait(&here, &["b", "-n", "2"]);
    here.wait_for_waiters("b", 1);
    let seen = here.json(&["top", "--once", "--interval", "100ms"]);
    let b = object(&seen, "b");
    let facts = ["kind", "parties", "arrived", "rounds", "waiting"].map(|name| b[name].to_string());
    assert_eq!(facts, ["\"barrier\"", "2", "1", "0", "1"]);
    assert_eq!(seen["processes"][0]["pid"], first.pid());
    here.ok(&["barrier", "wait", "b"]);
    assert_eq!(first.end().status, Some(0));
}

#[test]
fn a_wait_that_is_killed_does_not_block_the_others_which_exit_with_3() {
    let here = Place::new();
    here.ok(&["barrier", "create", "b", "--parties", "3"]);
    let (victim, other) = (wait(&here, &["b"]), wait(&here, &["b"]));
    here.wait_for_waiters("b", 2);
    let pid = victim.pid();
    victim.kill(libc::SIGKILL);
    victim.end();
    // Its wait ends before its arrival does.
    until("the arrival of the killed one is gone", || (here.json(&["show", "b"])["arrived"] == 1).then_some(()));
    let why = here.fails(3, &["barrier", "wait", "b"]);
    assert!(why.contains(&format!("without 1 of its parties, which died, the last with pid {pid}")), "{why}");
    assert_eq!(other.end().status, Some(3));
}

#[test]
fn a_time_that_is_up_takes_the_arrival_back_or_breaks_the_barrier() {
    let here = Place::new();
    assert_eq!(
        here.json(&["barrier", "create", "b", "-n", "2"]),
        json!({"name": "b", "parties": 2, "breaks_on_death": false})
    );
    let why = here.fails(124, &["barrier", "wait", "b", "--timeout", "10ms"]);
    assert_eq!(why, "chappe: timed out after 10ms waiting at barrier `b`; besides this process 0 of 1 are there\n");
    let why = here.fails(1, &["barrier", "wait", "b", "--timeout", "10ms", "--or-break"]);
    assert!(why.contains("barrier `b` is broken: a party's time was up"), "{why}");
    assert!(here.ok(&["show", "b"]).contains("broken"));
    here.fails(1, &["barrier", "wait", "b"]);
    here.ok(&["barrier", "reset", "b"]);
    let first = wait(&here, &["b"]);
    here.wait_for_waiters("b", 1);
    assert!(here.fails(1, &["barrier", "rm", "b"]).contains("1 of 2 parties have arrived"));
    here.ok(&["barrier", "abort", "b"]);
    assert_eq!(first.end().status, Some(1));
    here.fails(2, &["barrier", "wait", "b", "--or-break"]);
    assert!(here.fails(1, &["barrier", "create", "c", "-n", "0"]).contains("between 1 and 65535 are possible"));
}
