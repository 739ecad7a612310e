//! Taking a permit and running a command under it.

use crate::place::{Place, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::os::unix::process::CommandExt;

#[test]
fn the_command_runs_under_a_permit_and_knows_which() {
    let here = Place::new();
    let script =
        "echo $CHAPPE_PERMIT $CHAPPE_INDEX $CHAPPE_PERMIT_INDEX ${CHAPPE_LEASE:+leased} $0 $1; $CHAPPE show gpu0";
    let ran = here.run(&["acquire", "--create", "-I", "{}", "gpu0", "--", "sh", "-c", script, "<{}>", "<{#}>"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some("gpu0 0 0 leased <gpu0> <{#}>"));
    assert_eq!(lines.next(), Some("gpu0: 1 permit, 0 free, 0 waiting"));
    let holder = lines.next().unwrap_or_default();
    assert!(holder.contains("gpu0  held by pid") && holder.contains("`sh -c echo"), "{holder}");
    assert_eq!(here.free("gpu0"), 1);
}

#[test]
fn stdin_and_stdout_are_the_commands() {
    let here = Place::new();
    std::fs::write(here.file("in"), "through\n").unwrap();
    let mut c = here.command(&["acquire", "--create", "p", "--", "cat"]);
    c.stdin(std::fs::File::open(here.file("in")).unwrap());
    assert_eq!(Place::spawn(&mut c).end().out, "through\n");
}

#[test]
fn the_first_pool_with_a_permit_gives_it() {
    let here = Place::new();
    let (_a, _) = here.holder("a", &["--create", "gpu0"]);
    let (_c, _) = here.holder("c", &["--create", "gpu2"]);
    let ran = here.run(&[
        "acquire",
        "--create",
        "gpu0",
        "gpu1",
        "gpu2",
        "--",
        "sh",
        "-c",
        "echo $CHAPPE_PERMIT $CHAPPE_INDEX",
    ]);
    assert_eq!(ran.out, "gpu1 1\n", "{ran:?}");
}

#[test]
fn a_choice_in_two_arenas_is_refused_and_makes_nothing() {
    let here = Place::new();
    let ran = here.run(&["acquire", "--create", "other/p", "gpu", "--", "true"]);
    assert!(ran.err.contains("one choice cannot wait in two arenas, `other` and `default`"), "{ran:?}");
    assert!(!here.arenas().join("other").exists() && !here.arenas().join("default").exists());
}

#[test]
fn a_choice_gets_the_first_that_comes_free() {
    let here = Place::new();
    let (a, _) = here.holder("a", &["--create", "gpu0"]);
    let (_b, _) = here.holder("b", &["--create", "gpu1"]);
    let chooser = here.job(&["gpu1", "gpu0"], "echo $CHAPPE_PERMIT $CHAPPE_INDEX");
    here.wait_for_waiters("gpu0", 1);
    here.wait_for_waiters("gpu1", 1);
    here.go("a");
    assert_eq!(a.end().status, Some(0));
    assert_eq!(chooser.end().out, "gpu0 1\n");
    assert_eq!(here.free("gpu0"), 1);
    here.wait_for_waiters("gpu1", 0);
}

#[test]
fn permits_of_one_pool_have_names_of_their_own() {
    let here = Place::new();
    let mut names = HashSet::new();
    let mut all = Vec::new();
    for i in 0..4 {
        let script = format!("echo $CHAPPE_PERMIT > n{i}; {}", crate::place::wait_for_go("x"));
        all.push(here.job(&["--create=4", "slots"], &script));
        names.insert(here.read(&format!("n{i}")));
    }
    assert_eq!(names, (0..4).map(|i| format!("slots:{i}")).collect());
    assert_eq!(here.fails(124, &["acquire", "--nonblock", "slots", "--", "true"]).matches("held by pid").count(), 1);
    here.go("x");
    for a in all {
        assert_eq!(a.end().status, Some(0));
    }
    assert_eq!(here.free("slots"), 4);
}

#[test]
fn create_without_a_number_takes_a_pool_as_it_is() {
    let here = Place::new();
    here.ok(&["pool", "create", "slots", "--permits", "3"]);
    here.ok(&["acquire", "--create", "slots", "--", "true"]);
    here.ok(&["acquire", "--create=3", "slots", "--", "true"]);
    assert_eq!(here.free("slots"), 3);
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let here = Place::new();
    let (first, _) = here.holder("a", &["--create", "p"]);
    let mut waiting = Vec::new();
    for i in 0..4 {
        waiting.push(here.job(&["p"], &format!("echo {i} >> order")));
        here.wait_for_waiters("p", i + 1);
    }
    let shown = here.json(&["show", "p"]);
    let pids: Vec<u64> = shown["waiters"].as_array().unwrap().iter().map(|w| w["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids, waiting.iter().map(|w| u64::from(w.pid())).collect::<Vec<_>>());
    here.go("a");
    assert_eq!(first.end().status, Some(0));
    for w in waiting {
        assert_eq!(w.end().status, Some(0));
    }
    assert_eq!(std::fs::read_to_string(here.file("order")).unwrap(), "0\n1\n2\n3\n");
}

#[test]
fn the_status_is_the_commands_or_says_what_failed() {
    let here = Place::new();
    std::fs::write(here.file("no-program"), "x").unwrap();
    let script = ["acquire", "--create", "p", "--", "sh", "-c"];
    for n in ["0", "1", "7", "124", "255"] {
        let mut args = script.to_vec();
        let exit = format!("exit {n}");
        args.push(&exit);
        assert_eq!(here.run(&args).status, n.parse().ok(), "exit {n}");
    }
    let killed = here.run(&[&script[..], &["kill -9 $$"]].concat());
    assert_eq!((killed.status, killed.signal), (None, Some(libc::SIGKILL)));
    let killed = here.run(&[&script[..], &["kill -TERM $$"]].concat());
    assert_eq!((killed.status, killed.signal), (None, Some(libc::SIGTERM)));
    assert!(here.fails(127, &["acquire", "p", "--", "./no-such-command"]).contains("No such file"));
    let mut c = here.command(&["acquire", "p", "--", "no-such-command-anywhere"]);
    assert_eq!(Place::spawn(c.env("PATH", "/usr/bin:/bin")).end().status, Some(127));
    assert!(here.fails(126, &["acquire", "p", "--", "./no-program"]).contains("Permission denied"));
    assert!(here.fails(126, &["acquire", "p", "--", "/"]).contains("Permission denied"));
    here.fails(125, &["acquire", "unknown", "--", "true"]);
    here.fails(125, &["acquire", "p"]);
    here.fails(125, &["acquire", "--nonsense", "p", "--", "true"]);
    here.fails(125, &["--json", "acquire", "p", "--timeout", "soon", "--", "true"]);
    here.fails(2, &["pool", "create"]);
    assert_eq!(here.free("p"), 1, "whatever failed gave the permit back");
}

#[test]
fn a_failed_acquire_names_the_holder() {
    let here = Place::new();
    let (a, _) = here.holder("a", &["--create", "p"]);
    for args in [["acquire", "p", "--nonblock"], ["acquire", "p", "--timeout=0"], ["acquire", "p", "--timeout=20ms"]] {
        let err = here.fails(124, &[&args[..], &["--", "true"]].concat());
        assert!(err.contains(&format!("held by pid {} `sh -c", a.pid())), "{err}");
    }
    let err = here.fails(124, &["acquire", "p", "--timeout", "50ms", "--", "true"]);
    assert!(err.starts_with("chappe: timed out after 50ms waiting for p; held by pid"), "{err}");
    here.wait_for_waiters("p", 0);
    here.go("a");
    assert_eq!(a.end().status, Some(0));
}

#[test]
fn a_timeout_that_is_long_enough_does_not_matter() {
    let here = Place::new();
    let (a, _) = here.holder("a", &["--create", "p"]);
    let next = here.job(&["p", "--timeout", "1h"], "exit 3");
    here.wait_for_waiters("p", 1);
    here.go("a");
    a.end();
    assert_eq!(next.end().status, Some(3));
}

#[test]
fn an_acquire_within_a_job_keeps_both_permits() {
    let here = Place::new();
    let script = "exec $CHAPPE acquire --create inner -- sh -c '$CHAPPE --json ls; echo $CHAPPE_LEASE'";
    let ran = here.run(&["acquire", "--create", "outer", "--", "sh", "-c", script]);
    let mut lines = ran.out.lines();
    let rows: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|r| r["held"] == 1), "{rows}");
    assert_eq!(lines.next().unwrap().split(',').count(), 2, "both marks");
    assert_eq!((here.free("outer"), here.free("inner")), (1, 1));
}

#[test]
fn json_tells_what_happened() {
    let here = Place::new();
    let ran = here.run(&["acquire", "--json", "--create=2", "a", "b", "--", "sh", "-c", "exit 5"]);
    let events: Vec<Value> = ran.err.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(events.len(), 2, "{ran:?}");
    assert_eq!(events[0]["event"], "acquired");
    let (pool, permit) = (events[0]["pool"].as_str().unwrap(), events[0]["permit"].as_str().unwrap());
    assert_eq!(permit, format!("{pool}:{}", events[0]["permit_index"]));
    assert_eq!(events[0]["index"], u64::from(pool == "b"));
    assert_eq!(events[0]["permits"], json!([permit]));
    assert!(events[0]["waited_ms"].is_u64());
    assert_eq!(events[1]["event"], "ended");
    assert_eq!((&events[1]["status"], &events[1]["signal"]), (&5.into(), &Value::Null));
    assert_eq!((&events[1]["left_running"], &events[1]["taken_away"]), (&0.into(), &false.into()));
    assert_eq!((&events[1]["permits"], &events[1]["lost"]), (&json!([permit]), &json!([])));
    let error: Value = serde_json::from_str(&here.fails(125, &["--json", "acquire", "c", "--", "true"])).unwrap();
    assert_eq!(error["status"], 125);
    assert!(error["error"].as_str().unwrap().contains("chappe pool create c"));
}

#[test]
fn the_job_starts_with_signals_as_chappe_got_them() {
    let here = Place::new();
    let mut c =
        here.command(&["acquire", "--create", "p", "--", "sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"]);
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        c.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGUSR2, libc::SIG_IGN);
            Ok(())
        });
    }
    let ran = Place::spawn(&mut c).end();
    let mask = |status: &str, name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{ran:?}"));
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    assert_eq!(mask(&ran.out, "SigBlk"), 0);
    // What the tests run with is inherited, but for the classic signals, all of which `Place` resets.
    let ours = mask(&std::fs::read_to_string("/proc/self/status").unwrap(), "SigIgn") & !(u64::MAX >> (64 - 31));
    assert_eq!(mask(&ran.out, "SigIgn"), ours | 1 << (libc::SIGHUP - 1) | 1 << (libc::SIGUSR2 - 1));
}

#[test]
fn a_dead_waiter_and_a_dead_holder_delay_nobody() {
    let here = Place::new();
    let (a, job) = here.holder("a", &["--create", "p"]);
    let dead = here.job(&["p"], "echo never > never");
    here.wait_for_waiters("p", 1);
    let next = here.job(&["p"], "echo $CHAPPE_PERMIT");
    here.wait_for_waiters("p", 2);
    dead.kill(libc::SIGKILL);
    here.wait_for_waiters("p", 1);
    a.kill(libc::SIGKILL);
    crate::place::kill(job, libc::SIGKILL);
    assert_eq!(next.end().out, "p\n");
    assert!(!here.file("never").exists());
    until("p free", || (here.free("p") == 1).then_some(()));
}

#[test]
fn a_stderr_that_nobody_reads_does_not_change_the_status() {
    let here = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut c = here.command(&["--json", "acquire", "--create", "p", "--", "sh", "-c", "exit 5"]);
    assert_eq!(Place::spawn(c.stderr(writer)).end().status, Some(5));
    assert_eq!(here.free("p"), 1);
}

#[test]
fn the_commands_arguments_are_handed_on_as_they_stand() {
    let here = Place::new();
    std::fs::write(here.file("found"), "").unwrap();
    let ran = here.run(&["acquire", "--create", "p", "--", "find", "found", "-exec", "echo", "del", "{}", ";"]);
    assert_eq!(ran.out, "del found\n", "{ran:?}");
    let ran = here.run(&["acquire", "p", "--", "bash", "-c", "set -- a b; echo ${#} $#", "{\"a\": {}}"]);
    assert_eq!(ran.out, "2 2\n", "{ran:?}");
    let ran = here.run(&["acquire", "p", "--", "echo", "{\"a\": {}}"]);
    assert_eq!(ran.out, "{\"a\": {}}\n", "{ran:?}");
    assert!(
        here.fails(125, &["acquire", "-I", "", "p", "--", "true"])
            .contains("a value is required for '--replace <STR>'")
    );
}

#[test]
fn an_acquire_under_a_permit_of_the_same_pool_is_refused() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu", "other"]);
    here.ok(&["pool", "create", "cpu", "--permits", "2"]);
    let nested = |outer: &str, inner: &str| {
        let script = format!("$CHAPPE acquire {inner} -- echo inside");
        let mut c = here.command(&["acquire", outer, "--", "sh", "-c", &script]);
        let running = Place::spawn(&mut c);
        let pid = running.pid();
        (running.end(), pid)
    };
    for (inner, permit) in
        [("gpu", "gpu"), ("other gpu", "gpu"), ("--timeout 1h gpu", "gpu"), ("--nonblock gpu", "gpu")]
    {
        let (ran, pid) = nested("gpu", inner);
        assert_eq!((ran.status, ran.out.as_str()), (Some(125), ""), "{inner}: {ran:?}");
        let says =
            format!("this command runs under permit {permit} of pool `gpu` already: pid {pid} `sh -c $CHAPPE acquire");
        assert!(ran.err.contains(&says) && ran.err.contains("--nested"), "{inner}: {ran:?}");
    }
    // Another pool, and one whose second permit is free.
    for (outer, inner) in [("gpu", "other"), ("cpu", "--nested cpu")] {
        let (ran, _) = nested(outer, inner);
        assert_eq!((ran.status, ran.out.as_str()), (Some(0), "inside\n"), "{ran:?}");
    }
    let (ran, _) = nested("gpu", "--nested --nonblock gpu");
    assert_eq!(ran.status, Some(124), "{ran:?}");
    let (ran, _) = nested("gpu", "other -- $CHAPPE acquire gpu");
    assert!(ran.status == Some(125) && ran.err.contains("permit gpu of pool `gpu` already"), "{ran:?}");
}
