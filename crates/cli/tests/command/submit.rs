//! Jobs that are handed in: they wait in a pool's line, in terminals of their own.

use crate::place::{Place, until, wait_for_go};
use serde_json::Value;

/// Ends the jobs with the test, also by a panic.
struct Jobs<'a>(&'a Place);

impl Drop for Jobs<'_> {
    fn drop(&mut self) {
        let ran = self.0.run(&["--json", "term", "ls"]);
        let all: Value = serde_json::from_str(&ran.out).unwrap_or_default();
        for job in all.as_array().into_iter().flatten() {
            let name = job["name"].as_str().unwrap_or_default();
            // It may have ended.
            let _ = self.0.run(&["term", "kill", name, "--signal", "KILL"]);
        }
    }
}

fn wait(here: &Place, name: &str) -> Option<i32> {
    here.run(&["term", "wait", "--exit", name, "--timeout", "5m"]).status
}

#[test]
fn jobs_wait_in_the_line_of_their_pool_and_say_where_they_stand() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpus"]);
    let (holder, _) = here.holder("first", &["gpus"]);
    let _jobs = Jobs(&here);
    let script = format!("echo \"$CHAPPE_PERMIT ${{CHAPPE_LEASE:+leased}}\"; {}; exit 3", wait_for_go("job"));
    assert_eq!(here.ok(&["submit", "-p", "gpus", "--", "sh", "-c", &script]), "sh-1\n");
    here.wait_for_waiters("gpus", 1);
    let said = here.json(&["submit", "-p", "gpus", "--name", "last", "--", "echo", "done"]);
    assert_eq!(said["name"], "last");
    here.wait_for_waiters("gpus", 2);
    let listed = here.ok(&["term", "ls"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[1].contains("2nd in line") && lines[1].ends_with("echo done"), "{listed}");
    assert!(lines[2].contains("1st in line") && lines[2].contains("sh -c"), "{listed}");
    let view = here.json(&["term", "show", "last"]);
    assert_eq!((&view["state"], &view["place"]), (&"waiting".into(), &2.into()));
    let waiters = here.json(&["show", "gpus"])["waiters"].clone();
    assert_eq!(waiters[1]["pid"], said["pid"]);

    here.go("first");
    assert_eq!(holder.status().code(), Some(0));
    here.ok(&["term", "wait", "sh-1", "gpus leased", "--timeout", "5m"]);
    let view = here.json(&["term", "show", "sh-1"]);
    assert_eq!((&view["state"], &view["place"]), (&"running".into(), &Value::Null));
    assert_eq!(here.json(&["term", "show", "last"])["place"], 1);
    here.go("job");
    assert_eq!(wait(&here, "sh-1"), Some(3));
    assert_eq!(wait(&here, "last"), Some(0));
    assert_eq!(here.ok(&["term", "show", "last"]), "done\n");
    assert!(here.ok(&["term", "ls"]).contains("exited 3"));
    assert_eq!(here.free("gpus"), 1);
}

#[test]
fn a_job_is_run_again_where_it_was_and_its_first_output_stays() {
    let here = Place::new();
    let _jobs = Jobs(&here);
    let within = here.file("within");
    std::fs::create_dir(&within).expect("a directory");
    let script = "pwd; echo \"$WORD\"; printf '[%s]' \"$@\"; [ -e ok ]";
    let mut first = here.command(&["submit", "--", "sh", "-c", script, "sh", "", "a b"]);
    // As under a permit: the job is to be no part of that one.
    first.current_dir(&within).env("WORD", "a=b").env("CHAPPE_LEASE", "none").env("CHAPPE_PERMITS", "none");
    let first = Place::spawn(&mut first).end();
    assert_eq!((first.status, first.out.as_str()), (Some(0), "sh-1\n"), "{}", first.err);
    assert_eq!(wait(&here, "sh-1"), Some(1));
    let written = format!("{}\na=b\n[][a b]\n", within.display());
    let shown = || here.ok(&["term", "show", "sh-1", "--history", "9"]).replace('\n', "");
    assert_eq!(shown(), written.replace('\n', ""));
    assert_eq!(here.json(&["show", "jobs"])["permits"], 1);
    std::fs::write(within.join("ok"), "").expect("a file");
    assert_eq!(here.ok(&["submit", "--retry", "sh-1"]), "sh-2\n");
    assert_eq!(wait(&here, "sh-2"), Some(0));
    assert_eq!(here.ok(&["term", "show", "sh-2", "--history", "9"]).replace('\n', ""), shown());
    assert_eq!(here.ok(&["submit", "--retry", "sh-2", "--name", "third"]), "third\n");
    assert_eq!(wait(&here, "third"), Some(0));
    std::fs::remove_dir_all(&within).expect("removed");
    assert!(here.fails(125, &["submit", "--retry", "sh-1"]).contains("is not there any more"));
}

#[test]
fn a_job_that_waits_is_killed_and_leaves_the_line() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpus"]);
    let (_holder, _) = here.holder("first", &["gpus"]);
    let _jobs = Jobs(&here);
    here.ok(&["submit", "-p", "gpus", "--name", "job", "--", "echo", "done"]);
    here.wait_for_waiters("gpus", 1);
    let why = here.fails(125, &["submit", "--retry", "job"]);
    assert!(why.contains("has not ended"), "{why}");
    here.ok(&["term", "kill", "job"]);
    assert_eq!(wait(&here, "job"), Some(129));
    here.wait_for_waiters("gpus", 0);
    until("it can be removed", || here.run(&["term", "rm", "job"]).status.filter(|status| *status == 0));
}

/// A job that hands in the next one of its pool, and a command that hands in one under a permit and a lock of its own.
#[test]
fn a_job_that_hands_in_another_does_not_keep_its_permit_for_it() {
    let here = Place::new();
    let _jobs = Jobs(&here);
    here.ok(&[
        "submit",
        "--name",
        "one",
        "--",
        "sh",
        "-c",
        "$CHAPPE submit --name two -- sh -c 'env; echo done'; echo $?",
    ]);
    assert_eq!((wait(&here, "one"), wait(&here, "two")), (Some(0), Some(0)));
    let (pool, lock) = ("gpu", "lk");
    here.ok(&["pool", "create", pool]);
    let inner = ["submit", "-p", pool, "--name", "three", "--", "sh", "-c", "env; sleep 1000"];
    let mut outer = vec!["lock", lock, "--", crate::place::CHAPPE, "acquire", pool, "--", crate::place::CHAPPE];
    outer.extend(inner);
    assert_eq!(here.ok(&outer), "three\n");
    here.ok(&["term", "wait", "three", "CHAPPE_PERMIT=gpu", "--timeout", "5m"]);
    assert!(!here.ok(&["term", "show", "three", "--history", "999"]).contains("CHAPPE_LOCK"));
    // Nothing that the job has keeps the lock.
    here.ok(&["lock", "--nonblock", lock, "--", "true"]);
}

#[test]
fn a_signal_comes_once_to_a_job() {
    let here = Place::new();
    let _jobs = Jobs(&here);
    let script = "trap 'echo got >> got' USR1; echo ready; while :; do read -r x; done";
    here.ok(&["submit", "--name", "job", "--", "sh", "-c", script]);
    here.ok(&["term", "wait", "job", "ready", "--timeout", "5m"]);
    for round in 1..=5 {
        here.ok(&["term", "kill", "job", "--signal", "USR1"]);
        until("the signal", || (here.read_now("got").lines().count() >= round).then_some(()));
    }
    here.ok(&["term", "kill", "job", "--signal", "KILL"]);
    assert_eq!(wait(&here, "job"), Some(137));
    assert_eq!(here.read_now("got").lines().count(), 5);
}

/// A job whose own chappe is killed goes on, and its end is the command's.
#[test]
fn a_job_whose_chappe_is_killed_goes_on_as_its_command() {
    let here = Place::new();
    let _jobs = Jobs(&here);
    let script = format!("trap '' HUP; echo begun; {}; echo end; exit 4", wait_for_go("job"));
    here.ok(&["submit", "--name", "j", "--", "sh", "-c", &script]);
    here.ok(&["term", "wait", "j", "^begun", "--timeout", "5m"]);
    let chappe = here.json(&["term", "show", "j"])["pid"].as_u64().expect("it runs") as u32;
    crate::place::kill(chappe, libc::SIGKILL);
    let view = until("the command is the program", || {
        let view = here.json(&["term", "show", "j"]);
        (view["pid"].is_u64() && view["pid"] != chappe).then_some(view)
    });
    assert_eq!((&view["state"], &view["status"]), (&"running".into(), &Value::Null));
    let why = here.fails(125, &["submit", "--retry", "j"]);
    assert!(why.contains("has not ended"), "{why}");
    assert_eq!(here.free("jobs"), 0);
    here.go("job");
    assert_eq!(wait(&here, "j"), Some(4));
    assert_eq!(here.ok(&["term", "show", "j"]), "begun\nend\n");
    // While it waits there is no command.
    let (holder, _) = here.holder("first", &["jobs"]);
    here.ok(&["submit", "--name", "k", "--", "true"]);
    here.wait_for_waiters("jobs", 1);
    let chappe = here.json(&["term", "show", "k"])["pid"].as_u64().expect("it waits") as u32;
    crate::place::kill(chappe, libc::SIGKILL);
    assert_eq!(wait(&here, "k"), Some(128 + 9));
    here.go("first");
    assert_eq!(holder.status().code(), Some(0));
}

/// What chappe says while the job waits is not the job's.
#[test]
fn a_waiting_job_has_an_empty_screen_and_is_run_again_with_its_path_and_history() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpus"]);
    let (holder, _) = here.holder("first", &["gpus"]);
    let _jobs = Jobs(&here);
    let own = here.file("own");
    std::fs::create_dir(&own).expect("a directory");
    crate::place::executable(&own.join("tool"), b"#!/bin/sh\necho tool\n");
    let path = format!("{}:/bin:/usr/bin", own.display());
    let mut first = here.command(&["submit", "-p", "gpus", "--history", "1M", "--name", "job", "--", "tool"]);
    assert_eq!(Place::spawn(first.env("PATH", path)).end().status, Some(0));
    here.wait_for_waiters("gpus", 1);
    let why = here.fails(124, &["term", "wait", "job", "first|gpus|waiting", "--timeout", "300ms"]);
    assert!(why.contains("no line"), "{why}");
    assert!(here.ok(&["term", "ls"]).contains("1st in line for gpus"));
    here.go("first");
    assert_eq!(holder.status().code(), Some(0));
    assert_eq!(wait(&here, "job"), Some(0));
    assert_eq!(here.ok(&["submit", "--retry", "job"]), "job-1\n");
    assert_eq!(wait(&here, "job-1"), Some(0));
    assert_eq!(here.ok(&["term", "show", "job-1"]), "tool\n");
    let size = |name: &str| std::fs::metadata(here.arenas().join(format!(".term-{name}"))).expect("a file").len();
    assert!(size("job-1").abs_diff(size("job")) < 4096);
}

#[test]
fn a_job_that_cannot_be_submitted_is_refused_at_once() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpus"]);
    let _jobs = Jobs(&here);
    here.ok(&["term", "run", "t", "--", "true"]);
    for (status, args, part) in [
        (125, &["submit", "-p", "none", "--", "true"][..], "there is no pool `none`"),
        (125, &["submit", "-p", "gpus", "-n", "2", "--", "true"], "has only 1 permit"),
        (125, &["submit", "-p", "gpus", "--name", "t", "--", "true"], "there is a terminal `t` already"),
        (125, &["submit", "-p", "gpus", "--name", "7", "--", "true"], "is a number"),
        (127, &["submit", "-p", "gpus", "--", "no-such-command"], "cannot run `no-such-command`: No such file"),
        (127, &["submit", "--", "no-such-command"], "cannot run `no-such-command`"),
        (126, &["submit", "-p", "gpus", "--", "/dev/null"], "cannot run `/dev/null`: Permission denied"),
        (125, &["submit", "--retry", "none"], "there is no terminal `none`"),
        (125, &["submit", "--retry", "t"], "was not made by `chappe submit`"),
        (125, &["submit", "--retry", "t", "-p", "gpus"], "cannot be used with"),
        (125, &["submit"], "COMMAND"),
    ] {
        let why = here.fails(status, args);
        assert!(why.contains(part), "{args:?}: {why}");
    }
    // Nothing is left of them.
    assert_eq!(here.ok(&["term", "ls"]).lines().count(), 2);
    assert!(!here.ok(&["ls"]).contains("jobs"));
}
