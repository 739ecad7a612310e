//! Who else a job belongs to: the group of chappe's caller (`--foreground`), and what a job leaves running (`--close`).

use crate::jobserver::event;
use crate::place::{Place, Running, kill, runs, until, wait_for_go};
use std::os::unix::process::ExitStatusExt;

/// Kills a whole group, as CI runners do.
fn kill_group(leader: &Running) {
    // SAFETY: a plain system call; the process leads a session of its own.
    assert_eq!(unsafe { libc::kill(-(leader.pid() as i32), libc::SIGKILL) }, 0);
}

/// Shell: notes its process, and goes on until `go-job` is there.
fn job() -> String {
    format!("echo $$ > pid.new; mv pid.new pid; {}", wait_for_go("job"))
}

#[test]
fn only_a_job_in_the_foreground_is_killed_with_its_callers_group() {
    let script = job();
    let commands: [&[&str]; 3] = [
        &["acquire", "--create", "p", "--"],
        &["jobserver", "--pool", "p", "--permits", "1", "--create", "--"],
        &["pipe", "--quiet"],
    ];
    for command in commands {
        for foreground in [true, false] {
            let here = Place::new();
            let mut args: Vec<&str> = command.to_vec();
            if foreground {
                args.insert(1, "--foreground");
            }
            let pipeline = format!("{{ {script}; }} | cat");
            if command[0] == "pipe" {
                args.push(&pipeline)
            } else {
                args.extend(["sh", "-c", &script])
            }
            let chappe = Place::spawn(&mut here.command(&args));
            let pid: u32 = here.read("pid").parse().unwrap();
            kill_group(&chappe);
            assert_eq!(chappe.status().signal(), Some(libc::SIGKILL));
            if foreground {
                until("the job's end", || (!runs(pid)).then_some(()));
            } else {
                assert!(runs(pid), "{args:?}: it has a group of its own");
            }
            if command[0] != "pipe" && foreground {
                // The last of its processes may still be ending.
                until("the job's permit", || (here.free("p") == 1).then_some(()));
            } else if command[0] != "pipe" {
                assert_eq!(here.free("p"), 0, "{args:?}");
            }
            here.go("job");
            until("the job's end", || (!runs(pid)).then_some(()));
        }
    }
}

#[test]
fn signals_reach_a_job_in_the_foreground() {
    let here = Place::new();
    let chappe = here.job(&["--create", "--foreground", "p"], &format!("trap 'exit 9' TERM; {}", job()));
    here.read("pid");
    chappe.kill(libc::SIGTERM);
    assert_eq!(chappe.end().status, Some(9));
}

/// Shell: leaves a daemon, which goes on until `go-daemon` is there.
fn leaves_a_daemon() -> String {
    let wait = wait_for_go("daemon");
    format!(
        "( echo $(exec sh -c 'echo $PPID') > pid.new; mv pid.new pid; {wait} ) >/dev/null 2>&1 & while [ ! -e pid ]; do sleep 0.01; done"
    )
}

#[test]
fn a_closed_permit_comes_back_when_the_command_has_ended_whatever_it_left() {
    let script = format!("echo lease: $CHAPPE_LEASE; {}", leaves_a_daemon());
    for (close, free) in [(true, 2), (false, 1)] {
        for command in
            [&["acquire", "--create=2", "p"][..], &["jobserver", "--pool", "p", "--permits", "2", "--create"]]
        {
            let here = Place::new();
            let close: &[&str] = if close { &["--close"] } else { &[] };
            let ran = here.run(&[command, close, &["--", "sh", "-c", &script]].concat());
            assert_eq!((ran.status, ran.out == "lease:\n"), (Some(0), !close.is_empty()), "{ran:?}");
            let daemon: u32 = here.read("pid").parse().unwrap();
            assert!(runs(daemon));
            until("what comes back", || (here.free("p") == free).then_some(()));
            let builds_on = command[0] == "jobserver" && close.is_empty();
            assert_eq!(ran.err.contains(&format!("left running: pid {daemon} `sh`")), builds_on, "{ran:?}");
            assert_eq!(ran.err.contains("of pool `p`"), builds_on, "{ran:?}");
            here.go("daemon");
            until("all of it", || (here.free("p") == 2).then_some(()));
        }
    }
}

#[test]
fn a_build_names_what_it_has_left_running_to_programs_too() {
    let here = Place::new();
    let script = leaves_a_daemon();
    let args = ["--json", "jobserver", "--pool", "p", "--permits", "2", "--create", "--", "sh", "-c", &script];
    let ran = here.run(&args);
    let daemon: u32 = here.read("pid").parse().unwrap();
    let left = event(&ran, "ended")["left"].clone();
    assert!(left.as_array().unwrap().contains(&daemon.into()), "{ran:?}");
    kill(daemon, libc::SIGKILL);
}
