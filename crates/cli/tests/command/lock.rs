//! `chappe lock`: one command alone, or several that share, in order, whatever is killed.

use crate::place::{Place, Running, kill, runs, until, wait_for_go};
use chappe::RwLock;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

fn lock(here: &Place, args: &[&str], script: &str) -> Running {
    here.job_of("lock", args, script)
}

fn holder(here: &Place, name: &str, args: &[&str]) -> (Running, u32) {
    here.holder_of("lock", name, args)
}

/// The processes of the jobs that keep the lock `l`, and whether they share it.
fn jobs(here: &Place) -> Vec<(u64, bool)> {
    let shown = here.json(&["show", "l"]);
    let one = |job: &Value| (job["pid"].as_u64().unwrap(), job["shared"].as_bool().unwrap());
    shown["jobs"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn commands_that_share_run_together_and_one_that_does_not_runs_alone_in_its_turn() {
    let here = Place::new();
    let (a, _) = holder(&here, "a", &["--shared", "l"]);
    let (b, _) = holder(&here, "b", &["-s", "l"]);
    assert_eq!(here.json(&["show", "l"])["readers"].as_array().unwrap().len(), 2);
    let alone = lock(&here, &["l"], "echo alone >> order");
    here.wait_for_waiters("l", 1);
    // It comes after one that waits to be alone.
    let later = lock(&here, &["--shared", "l"], "echo later >> order");
    here.wait_for_waiters("l", 2);
    assert!(here.fails(124, &["lock", "-n", "--shared", "l", "--", "true"]).contains("lock l is not free; read by 2"));
    here.go("a");
    assert_eq!(a.end().status, Some(0));
    assert!(!here.file("order").exists());
    here.go("b");
    assert_eq!(b.end().status, Some(0));
    assert_eq!((alone.end().status, later.end().status), (Some(0), Some(0)));
    assert_eq!(here.read("order"), "alone\nlater");
    assert_eq!(here.ok(&["show", "l"]), "l: readers-writer lock, free, 0 waiting\n");
}

#[test]
fn when_chappe_is_killed_its_job_keeps_the_lock_and_the_next_comes_after_it() {
    let here = Place::new();
    for (kept, next) in [(&["l"][..], &["l"][..]), (&["l"], &["--shared", "l"]), (&["--shared", "l"], &["l"])] {
        let (killed, job) = holder(&here, "a", kept);
        killed.kill(libc::SIGKILL);
        assert_eq!(killed.status().signal(), Some(libc::SIGKILL));
        assert!(runs(job), "the job goes on");
        until("its job alone", || (jobs(&here) == [(job.into(), kept.len() == 2)]).then_some(()));
        assert!(here.ok(&["show", "l"]).contains(&format!("  kept for a job, pid {job} `sh`, ")));
        let refused = here.fails(124, &[&["lock", "--nonblock"], next, &["--", "true"]].concat());
        assert!(refused.contains(&format!("kept for a job, pid {job}")), "{refused}");
        let refused = here.fails(124, &[&["lock", "--timeout", "20ms"], next, &["--", "true"]].concat());
        assert!(refused.contains("timed out after 20ms waiting for lock l; "), "{refused}");
        let refused = here.fails(1, &["rm", "l"]);
        assert!(refused.contains(&format!("in use: kept for a job: pid {job}")), "{refused}");
        let refused = here.fails(1, &["arena", "rm", "default"]);
        assert!(
            refused.contains(&format!("in use by jobs that go on: lock l is kept for a job, pid {job}")),
            "{refused}"
        );
        let kept = |here: &Place| {
            let found = here.json(&["doctor"])["arenas"][0]["findings"].clone();
            let kept = found.as_array().unwrap().iter().filter(|f| f["kind"] == "kept-lock");
            kept.map(|f| f["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert!(matches!(kept(&here).as_slice(), [one] if one.contains(&format!("pid {job} "))), "{:?}", kept(&here));
        // Inside, and it waits; when it is killed there the next comes.
        let waits = lock(&here, next, "echo never >> order");
        let first_in_line = |waits: &Running| {
            let shown = here.json(&["show", "l"]);
            let (first, nobody) = (&shown["waiters"][0]["pid"], (json!(null), json!([])));
            (*first == waits.pid() && (&shown["writer"], &shown["readers"]) == (&nobody.0, &nobody.1)).then_some(())
        };
        until("the first in line", || first_in_line(&waits));
        only_its_job_has_it(&here, job, &waits);
        let after = lock(&here, next, "echo after >> order");
        waits.kill(libc::SIGKILL);
        until("the first in line, too", || first_in_line(&after));
        assert!(runs(job) && !here.file("order").exists());
        here.go("a");
        assert_eq!(after.end().status, Some(0));
        assert!(!runs(job), "the next came only after the job's end");
        assert_eq!(here.read("order"), "after");
        assert_eq!(jobs(&here), []);
        std::fs::remove_file(here.file("order")).unwrap();
        for left in ["go-a", "pid-a"] {
            std::fs::remove_file(here.file(left)).unwrap();
        }
    }
    // Of those that share, one that shares does not wait for another's job.
    let (killed, job) = holder(&here, "a", &["--shared", "l"]);
    killed.kill(libc::SIGKILL);
    killed.status();
    here.ok(&["lock", "--shared", "l", "--", "true"]);
    assert!(runs(job));
    here.go("a");
    until("free", || jobs(&here).is_empty().then_some(()));
    assert_eq!(here.json(&["rm", "l"])["removed"], "l");
}

/// Whatever shows the lock says that the job has it, and that the process waits.
fn only_its_job_has_it(here: &Place, job: u32, waits: &Running) {
    let listed = here.json(&["ls"])[0].clone();
    assert_eq!((&listed["kept_for"][0]["pid"], &listed["waiting"]), (&json!(job), &json!(1)), "{listed}");
    let text = here.ok(&["ls"]);
    assert!(text.contains(&format!("  1  kept for a job, pid {job} `sh`, ")), "{text}");
    let text = here.ok(&["show", "l"]);
    assert!(text.starts_with("l: readers-writer lock, kept, 1 waiting\n"), "{text}");
    assert!(text.contains(&format!("  1. in line: pid {} ", waits.pid())), "{text}");
    let seen = here.json(&["top", "--once", "--interval", "10ms"])["objects"][0].clone();
    assert_eq!((&seen["locked"], &seen["waiting"]), (&json!(1), &json!(1)), "{seen}");
    let text = here.ok(&["metrics"]);
    let is_locked = |line: &str| line.starts_with("chappe_readers_writer_lock_locked{") && line.ends_with(" 1");
    assert!(text.lines().any(is_locked), "{text}");
    let watch = ["watch", "--once", "--interval", "10ms", "--timeout", "50ms", "l.locked == 0", "--", "true"];
    here.fails(124, &watch);
    // Nor does one that does not wait name itself.
    let refused = here.fails(124, &["lock", "-n", "l", "--", "true"]);
    assert!(!refused.contains("written by"), "{refused}");
}

#[test]
fn one_that_does_not_wait_for_a_job_names_the_job_and_not_itself() {
    let here = Place::new();
    let (killed, job) = holder(&here, "a", &["l"]);
    killed.kill(libc::SIGKILL);
    killed.status();
    until("its job alone", || (jobs(&here) == [(job.into(), false)]).then_some(()));
    for args in [&["-n", "l"][..], &["-n", "-s", "l"], &["-w", "20ms", "l"]] {
        let refused = here.fails(124, &[&["lock"], args, &["--", "true"]].concat());
        assert!(refused.contains(&format!("; kept for a job, pid {job} `sh`, alone")), "{refused}");
    }
    let listed = here.json(&["ls"])[0].clone();
    assert_eq!((&listed["kept_for"][0]["pid"], &listed["writer"]), (&json!(job), &json!(null)), "{listed}");
    here.go("a");
    until("free", || jobs(&here).is_empty().then_some(()));
    let listed = here.json(&["ls"])[0].clone();
    assert_eq!(listed["kept_for"], json!([]), "{listed}");
}

#[test]
fn a_process_that_a_job_left_running_keeps_the_lock() {
    let here = Place::new();
    for close in ["", "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-"] {
        let script = format!("({}) {close} >/dev/null 2>&1 & echo $! > left; exit 6", wait_for_go("left"));
        let ran = lock(&here, &["l"], &format!("exec sh -c '{script}'")).end();
        assert_eq!(ran.status, Some(6), "chappe does not wait for it: {ran:?}");
        let left: u32 = here.read("left").parse().unwrap();
        assert_eq!(jobs(&here), [(left.into(), false)]);
        here.fails(124, &["lock", "--nonblock", "l", "--", "true"]);
        here.go("left");
        assert_eq!(lock(&here, &["l"], "echo next").end().out, "next\n");
        assert!(!runs(left));
        std::fs::remove_file(here.file("go-left")).unwrap();
        std::fs::remove_file(here.file("left")).unwrap();
    }
    // With --close it keeps nothing.
    let script = format!("({}) >/dev/null 2>&1 & echo $! > left", wait_for_go("left"));
    assert_eq!(lock(&here, &["--close", "l"], &script).end().status, Some(0));
    here.ok(&["lock", "-n", "l", "--", "true"]);
    assert!(runs(here.read("left").parse().unwrap()));
    here.go("left");
}

#[test]
fn statuses_and_signals_are_those_of_acquire() {
    let here = Place::new();
    assert_eq!(lock(&here, &["l"], "exit 7").end().status, Some(7));
    here.fails(127, &["lock", "l", "--", "no-such-command"]);
    here.fails(126, &["lock", "l", "--", "/"]);
    here.fails(125, &["lock", "l"]);
    let (chappe, job) = holder(&here, "a", &["l"]);
    kill(job, libc::SIGKILL);
    assert_eq!(chappe.end().signal, Some(libc::SIGKILL));
    here.ok(&["lock", "--nonblock", "l", "--", "true"]);
    // What is sent to chappe is the job's.
    let (chappe, _) = holder(&here, "b", &["l"]);
    chappe.kill(libc::SIGTERM);
    assert_eq!(chappe.end().signal, Some(libc::SIGTERM));
    here.ok(&["lock", "--nonblock", "l", "--", "true"]);
    assert_eq!(lock(&here, &["l"], "echo $CHAPPE_LOCK").end().out, "l\n");
}

#[test]
fn json_events_say_what_was_locked_and_how_it_ended() {
    let here = Place::new();
    let ran = here.run(&["--json", "lock", "--shared", "l", "--", "sh", "-c", "exit 3"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(3), ""));
    let events: Vec<Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [acquired, ended] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&acquired["event"], &acquired["lock"]), (&json!("acquired"), &json!("l")));
    assert!(acquired["waited_ms"].is_u64() && ended["held_ms"].is_u64());
    assert_eq!((&ended["event"], &ended["status"], &ended["signal"]), (&json!("ended"), &json!(3), &json!(null)));
    assert_eq!((&ended["shared"], &ended["left_running"], &ended["removed"]), (&json!(true), &json!(0), &json!(false)));
    // A lock that is removed by force is no lock any more, and that is said.
    let (chappe, _) = holder(&here, "a", &["l"]);
    here.ok(&["rm", "--force", "l"]);
    here.ok(&["lock", "--nonblock", "l", "--", "true"]);
    here.go("a");
    assert!(chappe.end().err.contains("lock l was removed while the command ran"));
}

#[test]
fn an_object_that_cannot_be_locked_is_refused_with_the_reason() {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    assert!(here.fails(125, &["lock", "p", "--", "true"]).contains("`p` is a pool, not a readers-writer lock"));
    assert!(here.fails(125, &["lock", "5", "--", "true"]).contains("did you mean `--timeout 5`?"));
    let me = std::env::current_exe().unwrap();
    let mut program = here.program(me.to_str().unwrap(), &["--exact", "lock::with_data", "--test-threads=1"]);
    assert_eq!(Place::spawn(program.env("CHAPPE_TEST_LOCK", "1").stdout(Stdio::null())).end().status, Some(0));
    assert!(here.fails(125, &["lock", "data", "--", "true"]).contains("`data` guards 8 bytes of a program's data"));
    // Its own end alone would give it back.
    let inner = lock(&here, &["l"], &format!("{} lock l -- true", crate::place::CHAPPE)).end();
    assert_eq!(inner.status, Some(125));
    assert!(inner.err.contains("this command runs under lock `l` already"), "{inner:?}");
    let inner = format!("{} lock --nested -n l -- true", crate::place::CHAPPE);
    assert_eq!(lock(&here, &["l"], &inner).end().status, Some(124));
    let other = format!("{} lock other -- true", crate::place::CHAPPE);
    assert_eq!(lock(&here, &["l"], &other).end().status, Some(0));
}

/// A program with a lock around data; nothing when it is run as a test.
#[test]
fn with_data() {
    if std::env::var_os("CHAPPE_TEST_LOCK").is_some() {
        RwLock::create("data", 0u64).unwrap();
    }
}
