//! Signals to chappe, without a terminal.

use crate::place::{Place, runs, until};

/// A job that notes what it gets, and a child of it.
fn trapping(signals: &str) -> String {
    format!(
        "for s in {signals}; do trap \"echo $s >> got\" $s; done; echo $$ > up; \
         d=$PWD; while [ -d \"$d\" ] && [ ! -e \"$d/go\" ]; do sleep 0.02; done; exit 9"
    )
}

#[test]
fn signals_are_passed_on_to_the_job() {
    let here = Place::new();
    let chappe = here.job(&["--create", "p", "--grace", "never"], &trapping("TERM INT HUP QUIT USR1 USR2"));
    here.read("up");
    for (name, number) in [
        ("TERM", libc::SIGTERM),
        ("INT", libc::SIGINT),
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
    ] {
        chappe.kill(number);
        until(name, || here.read_now("got").lines().any(|l| l == name).then_some(()));
    }
    std::fs::write(here.file("go"), "").unwrap();
    let ran = chappe.end();
    assert_eq!(ran.status, Some(9), "the job decides what becomes of it: {ran:?}");
    assert_eq!(here.free("p"), 1);
}

#[test]
fn a_job_that_a_signal_ends_ends_chappe_likewise_with_all_its_group() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
        let here = Place::new();
        let chappe =
            here.job(&["--create", "p"], "sh -c 'echo $$ > child; while [ -e child ]; do sleep 0.02; done'; true");
        let child: u32 = here.read("child").parse().unwrap();
        chappe.kill(signal);
        let ran = chappe.end();
        assert_eq!((ran.status, ran.signal), (None, Some(signal)));
        until("the child's end", || (!runs(child)).then_some(()));
        until("p free", || (here.free("p") == 1).then_some(()));
    }
}

#[test]
fn a_job_that_will_not_end_is_killed_when_the_grace_is_over() {
    let here = Place::new();
    let script = "trap '' TERM; (echo up > child; while [ -e up ]; do sleep 0.02; done) & echo $! > up; \
                  while [ -e up ]; do sleep 0.02; done";
    let chappe = here.job(&["--create", "p", "--grace", "50ms"], script);
    let child: u32 = here.read("up").parse().unwrap();
    here.read("child");
    chappe.kill(libc::SIGTERM);
    let ran = chappe.end();
    assert_eq!(ran.signal, Some(libc::SIGKILL));
    assert!(ran.err.contains("the job has not ended within 50ms (--grace) of the signal: it is killed"), "{ran:?}");
    until("the child's end", || (!runs(child)).then_some(()));
    until("p free", || (here.free("p") == 1).then_some(()));
}

#[test]
fn a_stopped_job_is_continued_to_take_note_of_its_end() {
    let here = Place::new();
    let (chappe, job) = here.holder("a", &["--create", "p"]);
    crate::place::kill(job, libc::SIGSTOP);
    until("stopped", || (crate::place::state(job) == Some('T')).then_some(()));
    chappe.kill(libc::SIGTERM);
    assert_eq!(chappe.end().signal, Some(libc::SIGTERM));
    assert!(!runs(job));
}

#[test]
fn a_signal_ends_the_wait() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1] {
        let here = Place::new();
        let (_a, _) = here.holder("a", &["--create", "p"]);
        let waiter = here.job(&["p"], "echo never > never");
        here.wait_for_waiters("p", 1);
        waiter.kill(signal);
        assert_eq!(waiter.end().signal, Some(signal));
        here.wait_for_waiters("p", 0);
        assert!(!here.file("never").exists());
    }
}

#[test]
fn a_signal_that_nohup_ignored_stays_ignored() {
    let here = Place::new();
    let script = format!("trap '' HUP; exec $CHAPPE acquire --create p --grace 1ms -- sh -c '{}'", trapping("USR1"));
    let mut c = here.program("sh", &["-c", &script]);
    let chappe = Place::spawn(&mut c);
    here.read("up");
    chappe.kill(libc::SIGHUP);
    chappe.kill(libc::SIGUSR1);
    until("USR1", || here.read_now("got").contains("USR1").then_some(()));
    std::fs::write(here.file("go"), "").unwrap();
    assert_eq!(chappe.end().status, Some(9));
}
