//! Two commands never run under one permit, whatever becomes of chappe.

use crate::place::{Place, kill, runs, state, until, wait_for_go};
use std::os::unix::process::ExitStatusExt;

#[test]
fn a_killed_supervisors_job_keeps_the_permit_until_it_ends() {
    let here = Place::new();
    let (supervisor, job) = here.holder("a", &["--create", "p"]);
    let next = here.job(&["p"], "echo next > next");
    here.wait_for_waiters("p", 1);
    supervisor.kill(libc::SIGKILL);
    assert_eq!(supervisor.status().signal(), Some(libc::SIGKILL));
    let orphan = until("an orphan", || {
        let shown = here.json(&["show", "p"]);
        let holder = shown["holders"][0].clone();
        (holder["orphan"] == true).then_some(holder)
    });
    assert!(runs(job), "the job goes on");
    assert_eq!(orphan["leased"], true);
    assert!(here.ok(&["show", "p"]).contains("a job whose holder is gone"));
    assert!(here.fails(124, &["acquire", "--nonblock", "p", "--", "true"]).contains("a job whose holder is gone"));
    assert!(here.ok(&["doctor"]).contains("is kept by a job whose holder is gone"));
    // No member lives in this one.
    let (alone, left) = here.holder("left", &["--create", "lab/p"]);
    alone.kill(libc::SIGKILL);
    alone.status();
    let refused = here.fails(1, &["arena", "rm", "lab"]);
    assert!(
        refused.contains(&format!(
            "in use by jobs that go on: permit lab/p is held by a job whose holder is gone, pid {left}"
        )),
        "{refused}"
    );
    here.ok(&["arena", "rm", "lab", "--force"]);
    here.go("left");
    assert!(!here.file("next").exists());
    here.wait_for_waiters("p", 1);
    here.go("a");
    assert_eq!(next.end().status, Some(0));
    assert!(!runs(job), "the next came only after the job's end");
    assert!(here.file("next").exists());
}

#[test]
fn an_orphan_goes_to_the_next_of_its_own_pool() {
    let here = Place::new();
    // Its first block has the number of the pool's first cell.
    here.ok(&["tube", "create", "t", "--size", "16", "--slots", "4"]);
    here.ok(&["pool", "create", "p", "--permits", "2"]);
    let _first = here.holder("a", &["p"]);
    let (supervisor, job) = here.holder("b", &["p"]);
    let next = here.job(&["p"], "echo next > next");
    here.wait_for_waiters("p", 1);
    supervisor.kill(libc::SIGKILL);
    until("an orphan", || here.ok(&["show", "p"]).contains("a job whose holder is gone").then_some(()));
    here.wait_for_waiters("p", 1);
    here.go("b");
    assert_eq!(next.end().status, Some(0));
    assert!(!runs(job) && here.file("next").exists());
}

#[test]
fn a_process_that_a_job_left_running_keeps_the_permit() {
    let here = Place::new();
    let script = format!("({}) >/dev/null 2>&1 & echo $! > left; exit 6", wait_for_go("left"));
    let ran = here.job(&["--create", "p"], &script).end();
    assert_eq!(ran.status, Some(6), "chappe does not wait for it");
    let left: u32 = here.read("left").parse().unwrap();
    assert!(runs(left));
    assert_eq!(here.free("p"), 0);
    let next = here.job(&["p"], "echo next");
    here.wait_for_waiters("p", 1);
    here.go("left");
    assert_eq!(next.end().out, "next\n");
    assert!(!runs(left));
}

#[test]
fn a_process_that_closed_the_lease_keeps_it_by_its_mark() {
    let here = Place::new();
    let script =
        format!("({}) 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- >/dev/null 2>&1 & echo $! > left", wait_for_go("left"));
    assert_eq!(here.job(&["--create", "p"], &format!("exec sh -c '{script}'")).end().status, Some(0));
    let left: u32 = here.read("left").parse().unwrap();
    assert_eq!((runs(left), here.free("p")), (true, 0));
    here.go("left");
    until("p free", || (here.free("p") == 1).then_some(()));
}

#[test]
fn a_process_that_closed_the_lease_and_cleared_its_environment_is_kept_track_of() {
    let here = Place::new();
    let close = "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
    std::fs::write(here.file("daemon"), format!("echo $$ > left.new; mv left.new left; {}", wait_for_go("left")))
        .unwrap();
    let script =
        format!("env -i setsid sh ./daemon {close} >/dev/null 2>&1 & while [ ! -e left ]; do sleep 0.01; done");
    let ran = Place::spawn(&mut here.command(&["--json", "acquire", "--create", "p", "--", "sh", "-c", &script])).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("\"left_running\":") && !ran.err.contains("\"left_running\":0"), "{ran:?}");
    let left: u32 = here.read("left").parse().unwrap();
    assert_eq!(std::fs::read(format!("/proc/{left}/environ")).unwrap(), b"", "no mark");
    let files = std::fs::read_dir(format!("/proc/{left}/fd")).unwrap();
    let leases = files.filter(|f| {
        let to = std::fs::read_link(f.as_ref().unwrap().path()).unwrap_or_default();
        to.to_string_lossy().contains("lease")
    });
    assert_eq!(leases.count(), 0, "no file");
    assert!(runs(left));
    assert_eq!(here.free("p"), 0, "and yet");
    let next = here.job(&["p"], "echo next");
    here.wait_for_waiters("p", 1);
    kill(left, libc::SIGTERM);
    assert_eq!(next.end().out, "next\n");
    assert!(!runs(left));
}

/// The process that keeps the permit for such ones goes on when its starter was killed before it was ready.
#[test]
fn a_keeper_without_a_listener_stays() {
    let here = Place::new();
    let mut kept = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let (nobody, said) = std::io::pipe().unwrap();
    drop(nobody);
    let mut keeper = here.command(&["keep", &kept.id().to_string()]).stdout(said).spawn().unwrap();
    // It closes its stdout when it has a hold of the process, and then has nothing to sleep for but that one's end.
    let ended = until("its sleep, or its end", || {
        let ended = keeper.try_wait().unwrap();
        let closed = !std::fs::exists(format!("/proc/{}/fd/1", keeper.id())).unwrap();
        (ended.is_some() || closed && state(keeper.id()) == Some('S')).then_some(ended)
    });
    kept.kill().unwrap();
    kept.wait().unwrap();
    assert_eq!(ended, None);
    assert_eq!(keeper.wait().unwrap().code(), Some(0));
}

#[test]
fn a_permit_taken_by_force_goes_to_the_next_and_its_holder_is_told() {
    let here = Place::new();
    let (stuck, job) = here.holder("a", &["--create", "p"]);
    let next = here.job(&["p"], "echo next");
    here.wait_for_waiters("p", 1);
    let refusal = here.fails(1, &["release", "p"]);
    assert!(refusal.contains(&format!("permit p is held by pid {}", stuck.pid())), "{refusal}");
    assert!(refusal.contains("chappe release p --force"), "{refusal}");
    let taken = here.json(&["release", "p", "--force"]);
    assert_eq!((&taken["permit"], &taken["taken_from"]["pid"]), (&"p".into(), &stuck.pid().into()));
    assert_eq!(next.end().out, "next\n");
    assert!(runs(job), "the job is left alone");
    here.go("a");
    let ran = stuck.end();
    assert_eq!(ran.status, Some(0));
    assert!(ran.err.contains("permit p was taken away while the command ran"), "{ran:?}");
    assert_eq!(here.free("p"), 1);
    assert!(here.fails(1, &["release", "p", "--force"]).contains("permit 0 of pool `p` is not held"));
}

#[test]
fn one_permit_of_several_is_named_for_release() {
    let here = Place::new();
    let (a, _) = here.holder("a", &["--create=2", "slots"]);
    let err = here.fails(1, &["release", "slots", "--force"]);
    assert!(err.contains("has 2 permits: say which, `chappe release slots:0 --force`"), "{err}");
    assert!(here.fails(1, &["release", "slots:7", "--force"]).contains("pool `slots` has no permit 7"));
    let index = here.json(&["show", "slots"])["holders"][0]["index"].to_string();
    here.ok(&["release", &format!("slots:{index}"), "--force"]);
    assert_eq!(here.free("slots"), 2);
    here.go("a");
    a.end();
    let (b, _) = here.holder("b", &["slots"]);
    let index = here.json(&["show", "slots"])["holders"][0]["index"].to_string();
    here.ok(&["release", "slots", &index, "--force"]);
    assert_eq!(here.free("slots"), 2);
    here.go("b");
    b.end();
}

#[test]
fn a_pool_that_is_removed_while_a_command_runs_under_it_is_said_to_be_gone() {
    let here = Place::new();
    for (nth, (name, remove)) in
        [("p", &["pool", "rm", "--force", "p"][..]), ("lab/p", &["arena", "rm", "--force", "lab"])]
            .into_iter()
            .enumerate()
    {
        for (again, json) in [(false, false), (true, false), (false, true), (true, true)] {
            let (go, create) = (format!("{nth}{again}{json}"), ["--create", name]);
            let options: &[&str] = if json { &["--json", "--create", name] } else { &create };
            let (chappe, _) = here.holder(&go, options);
            here.ok(remove);
            if again {
                here.ok(&["pool", "create", name]);
            }
            here.go(&go);
            let ran = chappe.end();
            assert_eq!(ran.status, Some(0), "{ran:?}");
            if json {
                let ended: serde_json::Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
                let is = ["taken_away", "removed", "lost"].map(|field| ended[field].clone());
                assert_eq!(is, [true.into(), true.into(), serde_json::json!([name])], "{ended}");
            } else {
                assert_eq!(ran.err, format!("chappe: pool {name} was removed while the command ran\n"));
            }
            here.run(&["pool", "rm", name]);
        }
    }
}

#[test]
fn a_lock_that_goes_with_its_arena_is_said_to_be_gone() {
    let here = Place::new();
    let (chappe, _) = here.holder_of("lock", "a", &["lab/l"]);
    here.ok(&["arena", "rm", "--force", "lab"]);
    here.go("a");
    assert!(chappe.end().err.contains("lock lab/l was removed while the command ran"));
}
