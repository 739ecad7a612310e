//! The keeper of a permit on an engine: chappe, the keeper and the job are killed, stopped and cut off, at any moment.

use crate::place::{Place, kill, runs, until, wait_for_go};
use crate::remote::{Lab, nodes};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The keeper that belongs to this chappe.
fn keeper(chappe: u32) -> u32 {
    until("the keeper", || {
        let text = std::fs::read_to_string(format!("/proc/{chappe}/task/{chappe}/children")).ok()?;
        text.split_whitespace().find_map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            line.starts_with(b"chappe\0keep\0").then(|| pid.parse().unwrap())
        })
    })
}

#[test]
#[ignore = "storm: it kills chappe"]
fn when_chappe_is_killed_its_job_keeps_the_permit_until_it_ends() {
    let Some(lab) = Lab::new("killed") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "4s"]);
    chappe.kill(libc::SIGKILL);
    assert_eq!(chappe.status().signal(), Some(libc::SIGKILL));
    // Longer than the lease: somebody renews it.
    let until_then = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until_then {
        assert!(runs(job) && lab.held("@/gpu") == 1);
    }
    let next = lab.spawn(&["acquire", "@/gpu", "--", "true"]);
    lab.waiting("@/gpu", 1);
    lab.here.go("job");
    assert_eq!(next.end().status, Some(0));
    lab.holders("@/gpu", 0);
}

#[test]
#[ignore = "storm: it kills chappe"]
fn a_kill_of_chappe_and_its_job_frees_the_permit_before_the_lease_ends() {
    let Some(lab) = Lab::new("both") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    for round in 0..5 {
        let name = format!("job{round}");
        let (chappe, job) = lab.job(&name, &["--ttl", "1h"]);
        let next = lab.spawn(&["acquire", "@/gpu", "--", "true"]);
        lab.waiting("@/gpu", 1);
        chappe.kill(libc::SIGKILL);
        kill(job, libc::SIGKILL);
        assert_eq!(next.end().status, Some(0));
    }
}

#[test]
#[ignore = "storm: it kills chappe"]
fn a_keeper_that_is_killed_has_a_successor_and_so_has_that_of_a_killed_chappe() {
    let Some(lab) = Lab::new("keepers") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "4s"]);
    let first = keeper(chappe.pid());
    kill(first, libc::SIGKILL);
    let second = until("another keeper", || Some(keeper(chappe.pid())).filter(|pid| *pid != first));
    chappe.kill(libc::SIGKILL);
    // It has one of its own now, which takes over in turn.
    let third = keeper(second);
    kill(second, libc::SIGKILL);
    let fourth = keeper(third);
    assert!(runs(job) && lab.held("@/gpu") == 1);
    lab.here.go("job");
    lab.holders("@/gpu", 0);
    until("the keepers' ends", || (!runs(third) && !runs(fourth)).then_some(()));
}

#[test]
#[ignore = "storm: it stops chappe"]
fn a_stopped_chappe_loses_its_permit_and_its_job_is_ended_before_another_begins() {
    let Some(lab) = Lab::new("halted") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "2s"]);
    chappe.kill(libc::SIGSTOP);
    let script = unless_it_runs(job);
    let next = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(next.status, Some(0), "the job goes on beside the next: {next:?}");
    chappe.kill(libc::SIGCONT);
    let ran = chappe.end();
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(ran.err.contains("permit @/gpu was lost while the command ran"), "{ran:?}");
}

/// A script that fails if that process goes on. One that has not been waited for has ended.
fn unless_it_runs(job: u32) -> String {
    format!("kill -0 {job} 2>/dev/null && ! grep -q '^State:.Z' /proc/{job}/status && exit 3; exit 0")
}

/// Hands on bytes to an engine, until it is cut.
struct Cable {
    port: u16,
    cut: Arc<AtomicBool>,
}

/// What a cable does the first time that this text is in what it is to hand on.
type At = (&'static str, fn(&AtomicBool, &TcpStream));

impl Cable {
    fn to(endpoint: &str) -> Cable {
        Cable::with(endpoint, ("", |_, _| {}))
    }

    fn with(endpoint: &str, (text, then): At) -> Cable {
        let (listener, to, cut) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), endpoint.to_owned(), Arc::new(AtomicBool::new(false)));
        let (port, is_cut) = (listener.local_addr().unwrap().port(), Arc::clone(&cut));
        let came = Arc::new(AtomicBool::new(text.is_empty()));
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&to) else { continue };
                for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                    let (is_cut, came) = (Arc::clone(&is_cut), Arc::clone(&came));
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16384];
                        while let Ok(some @ 1..) = from.read(&mut bytes) {
                            let has =
                                |text: &str| bytes[..some].windows(text.len()).any(|part| part == text.as_bytes());
                            // Relaxed: whichever thread is the first.
                            if !came.load(Ordering::Relaxed) && has(text) && !came.swap(true, Ordering::Relaxed) {
                                then(&is_cut, &from);
                                continue;
                            }
                            // Relaxed: what is on its way may still come. What is cut swallows, and says nothing.
                            if !is_cut.load(Ordering::Relaxed) && to.write_all(&bytes[..some]).is_err() {
                                return;
                            }
                        }
                    });
                }
            }
        });
        Cable { port, cut }
    }
}

#[test]
#[ignore = "storm: it cuts chappe off"]
fn a_job_that_is_cut_off_is_dead_before_the_next_has_its_permit() {
    let Some(lab) = Lab::new("cable") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let cable = Cable::to(&lab.nodes.endpoints[0]);
    // It ignores TERM, and what it has started has closed its files.
    let script = "trap '' TERM; echo $$ > job.new; mv job.new job; while :; do sleep 1; done";
    let mut command = lab.command(&["acquire", "--ttl", "3s", "@/gpu", "--", "sh", "-c", script]);
    let chappe = Place::spawn(command.env("CHAPPE_ON", format!("etcd://127.0.0.1:{}/cable", cable.port)));
    let job: u32 = lab.here.read("job").trim().parse().unwrap();
    // Relaxed: nothing else is told by it.
    cable.cut.store(true, Ordering::Relaxed);
    let script = unless_it_runs(job);
    let next = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(next.status, Some(0), "the job goes on beside the next: {next:?}");
    let ran = chappe.end();
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(ran.err.contains("was not renewed in time"), "{ran:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_process_that_a_job_leaves_running_keeps_the_remote_permit() {
    let Some(lab) = Lab::new("left") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let script = format!("({}) >/dev/null 2>&1 & exit 0", wait_for_go("left"));
    let ran = lab.spawn(&["acquire", "--ttl", "4s", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(lab.held("@/gpu"), 1);
    lab.here.go("left");
    lab.holders("@/gpu", 0);
}

/// All that look after the same job as this keeper: they have the same line.
fn keepers_with(keeper: u32) -> impl Fn() -> Vec<PathBuf> {
    // Behind the pipe by which it is told, once it has put both aside.
    let line = until("the keeper's line", || std::fs::read_link(format!("/proc/{keeper}/fd/5")).ok());
    move || {
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let has = |path: &PathBuf| {
            let open = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
            open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| to == line)
        };
        all.filter(has).collect()
    }
}

#[test]
#[ignore = "storm: it kills chappe"]
fn a_killed_chappe_that_is_cut_off_leaves_no_job_and_no_keepers() {
    let Some(lab) = Lab::new("alone") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let cable = Cable::to(&lab.nodes.endpoints[0]);
    let script = "trap '' TERM; echo $$ > job.new; mv job.new job; while :; do sleep 1; done";
    let mut command = lab.command(&["acquire", "--ttl", "3s", "@/gpu", "--", "sh", "-c", script]);
    let chappe = Place::spawn(command.env("CHAPPE_ON", format!("etcd://127.0.0.1:{}/alone", cable.port)));
    let job: u32 = lab.here.read("job").trim().parse().unwrap();
    let left = keepers_with(keeper(chappe.pid()));
    // Relaxed: nothing else is told by it.
    cable.cut.store(true, Ordering::Relaxed);
    chappe.kill(libc::SIGKILL);
    chappe.status();
    let script = unless_it_runs(job);
    let next = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(next.status, Some(0), "the job goes on beside the next: {next:?}");
    until("the end of all keepers", || left().is_empty().then_some(()));
}

#[test]
#[ignore = "storm: it stops keepers"]
fn a_keeper_that_does_not_listen_is_replaced() {
    let Some(lab) = Lab::new("deaf") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &[]);
    let first = keeper(chappe.pid());
    kill(first, libc::SIGSTOP);
    let second = until("another keeper", || Some(keeper(chappe.pid())).filter(|pid| *pid != first));
    assert!(runs(job) && lab.held("@/gpu") == 1);
    chappe.kill(libc::SIGKILL);
    keeper(second);
    assert!(runs(job) && lab.held("@/gpu") == 1);
    lab.here.go("job");
    lab.holders("@/gpu", 0);
}

/// What closes all files, and what writes a byte into each.
const CLOSES: &str =
    "for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 2 ] && eval \"exec $n>&-\"; done; exec >/dev/null 2>&1";
const WRITES: &str = "trap : PIPE; exec >/dev/null 2>&1; for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 2 -a $n -lt 100 ] && echo >&$n; done";
const CLEARED: &str = "env -i PATH=/usr/bin:/bin";

/// A job that leaves a process behind which has done this with its files, and perhaps cleared its environment.
fn hidden(env: &str, with_files: &str) -> String {
    let wait = wait_for_go("hidden");
    format!(
        "setsid {env} bash -c '{with_files}; echo $$ > hidden.new; mv hidden.new hidden; {wait}' & while ! [ -e hidden ]; do sleep 0.01; done"
    )
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_process_with_closed_files_keeps_the_permit_and_ends_with_it() {
    let Some(lab) = Lab::new("hidden") else { return };
    for env in ["env", CLEARED] {
        for is_lost in [false, true] {
            lab.ok(&["acquire", "--create", "@/gpu", "--", "bash", "-c", &hidden(env, CLOSES)]);
            let pid: u32 = lab.here.read("hidden").trim().parse().unwrap();
            assert!(runs(pid) && lab.held("@/gpu") == 1, "{env}");
            if is_lost {
                lab.ok(&["release", "--force", "@/gpu"]);
            } else {
                lab.here.go("hidden");
            }
            until("its end", || (!runs(pid)).then_some(()));
            lab.holders("@/gpu", 0);
            for name in ["hidden", "go-hidden"] {
                let _ = std::fs::remove_file(lab.here.file(name));
            }
        }
    }
}

#[test]
#[ignore = "storm: it kills chappe"]
fn a_process_that_a_killed_chappe_did_not_see_keeps_the_permit() {
    let Some(lab) = Lab::new("unseen") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    for (env, with_files) in [("env", CLOSES), (CLEARED, WRITES)] {
        keeps(&lab, &lab.url, &hidden(env, with_files));
    }
    // The first process itself.
    let wait = wait_for_go("hidden");
    let itself = format!("{CLOSES}; exec {CLEARED} bash -c 'echo $$ > hidden.new; mv hidden.new hidden; {wait}'");
    keeps(&lab, &lab.url, &itself);
    // An attempt that had no answer is followed by one under another name.
    let cable =
        Cable::with(&lab.nodes.endpoints[0], ("this is lost", |_, from| from.shutdown(Shutdown::Both).unwrap()));
    let url = format!("etcd://127.0.0.1:{}/unseen", cable.port);
    keeps(&lab, &url, &format!(": this is lost; {}", hidden("env", CLOSES)));
}

/// That what this job hides keeps the permit when chappe and all else of the job is killed.
fn keeps(lab: &Lab, url: &str, script: &str) {
    let script = format!("{script}; sleep 1000");
    let mut command = lab.command(&["acquire", "@/gpu", "--", "bash", "-c", &script]);
    let chappe = Place::spawn(command.env("CHAPPE_ON", url));
    let (pid, job): (u32, u32) = (lab.here.read("hidden").trim().parse().unwrap(), group_of(chappe.pid()));
    chappe.kill(libc::SIGKILL);
    chappe.status();
    if pid != job {
        // SAFETY: a plain system call.
        unsafe { libc::kill(-(job as i32), libc::SIGKILL) };
        until("the job's end", || (!runs(job)).then_some(()));
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        assert!(runs(pid) && lab.held("@/gpu") == 1, "{script}");
    }
    lab.here.go("hidden");
    lab.holders("@/gpu", 0);
    for name in ["hidden", "go-hidden"] {
        let _ = std::fs::remove_file(lab.here.file(name));
    }
}

#[test]
#[ignore = "storm: it cuts chappe off"]
fn a_grant_to_a_timed_out_waiter_comes_back_when_the_engine_returns() {
    let Some(lab) = Lab::new("late") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (holder, _) = lab.job("job", &[]);
    let cable = Cable::to(&lab.nodes.endpoints[0]);
    let mut command = lab.command(&["acquire", "--ttl", "1h", "--timeout", "5s", "@/gpu", "--", "true"]);
    let waiter = Place::spawn(command.env("CHAPPE_ON", format!("etcd://127.0.0.1:{}/late", cable.port)));
    lab.waiting("@/gpu", 1);
    // Relaxed: nothing else is told by it.
    cable.cut.store(true, Ordering::Relaxed);
    let ran = waiter.end();
    assert_eq!(ran.status, Some(124), "{ran:?}");
    lab.here.go("job");
    assert_eq!(holder.end().status, Some(0));
    // Relaxed: as above.
    cable.cut.store(false, Ordering::Relaxed);
    lab.ok(&["acquire", "@/gpu", "--", "true"]);
}

#[test]
#[ignore = "storm: it cuts chappe off"]
fn a_nonblocking_acquire_does_not_wait_for_a_silent_engine() {
    let Some(lab) = Lab::new("mute") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    // With the lease and the first look; with the take, when the lease may have come.
    for (text, ends) in
        [("chappe/1/mute", &["gives no lease"][..]), ("gpu/held/", &["gives no lease", "does not answer"])]
    {
        // Relaxed: nothing else is told by it.
        let cut: fn(&AtomicBool, &TcpStream) = |cut, _| cut.store(true, Ordering::Relaxed);
        let cable = Cable::with(&lab.nodes.endpoints[0], (text, cut));
        let args = ["acquire", "--nonblock", "--connect-timeout", "1s", "@/gpu", "--", "true"];
        let mut command = lab.command(&args);
        let ran = Place::spawn(command.env("CHAPPE_ON", format!("etcd://127.0.0.1:{}/mute", cable.port))).end();
        let status = if ran.err.contains("gives no lease") { 125 } else { 124 };
        assert!(ran.status == Some(status) && ends.iter().any(|end| ran.err.contains(end)), "{text}: {ran:?}");
    }
}

/// The first process of a chappe's job.
fn group_of(chappe: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{chappe}/task/{chappe}/children")).unwrap();
    let of = keeper(chappe);
    text.split_whitespace().map(|pid| pid.parse().unwrap()).find(|pid: &u32| *pid != of).unwrap()
}

#[test]
#[ignore = "storm: it kills chappe"]
fn killed_at_any_moment_chappe_leaves_nothing_at_the_engine() {
    let Some(lab) = Lab::new("moments") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..60 {
        let name = format!("job{round}");
        // The outside oracle: the lock of a file.
        let script = format!("exec 9>>lock; flock -n 9 || echo {round} >> twice; echo $$ > {name}; exec sleep 1000");
        let run = || lab.spawn(&["acquire", "--ttl", "1h", "@/gpu", "--", "bash", "-c", &script]);
        let all = [run(), run()];
        for chappe in all {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(Duration::from_micros(random % 200_000));
            let signal = if random & 1 << 20 == 0 { libc::SIGKILL } else { libc::SIGINT };
            chappe.kill(signal);
            if signal == libc::SIGINT {
                // A job that has begun gets it, too.
                chappe.status();
            }
        }
        // A job goes on without its chappe: it has to be killed as well.
        let nothing = || {
            let pid = std::fs::read_to_string(lab.here.file(&name)).ok().and_then(|pid| pid.trim().parse().ok());
            if let Some(pid) = pid.filter(|pid| runs(*pid)) {
                // SAFETY: a plain system call; it may have just ended.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
            let seen = lab.json(&["show", "@/gpu"]);
            (seen["held"] == 0 && seen["waiting"] == 0).then_some(())
        };
        until("nothing at the engine", nothing);
    }
    assert!(!lab.here.file("twice").exists());
}

#[test]
#[ignore = "storm: it starts engines"]
fn when_the_engines_disk_is_full_jobs_go_on_and_their_permits_come_back() {
    let Some(etcdctl) = nodes::program("etcdctl") else { return };
    let Some(nodes) = nodes::Nodes::own(1, &["--quota-backend-bytes", "1048576"]) else { return };
    let lab = Lab::on(Arc::new(nodes), "full");
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "4s"]);
    let mut put = Command::new(etcdctl)
        .args(["--endpoints", &lab.nodes.endpoints[0], "put", "much"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all(&vec![b'x'; 1_200_000]).unwrap();
    put.wait().unwrap();
    let refused = lab.spawn(&["acquire", "@/gpu", "--", "true"]).end();
    assert!(refused.status == Some(125) && refused.err.contains("disk quota is used up"), "{refused:?}");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        assert!(runs(job) && lab.held("@/gpu") == 1);
    }
    lab.here.go("job");
    let ran = chappe.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    lab.holders("@/gpu", 0);
}

#[test]
#[ignore = "storm: it starts engines"]
fn without_stdin_stdout_and_stderr_a_job_runs_as_with_them() {
    let Some(lab) = Lab::new("closed") else { return };
    let script = "exec $CHAPPE acquire --create @/gpu -- sh -c 'echo done > done' <&- >&- 2>&-";
    let mut command = lab.here.program("sh", &["-c", script]);
    let ran = Place::spawn(command.env("CHAPPE_ON", &lab.url)).end();
    assert_eq!((ran.status, lab.here.read("done").trim()), (Some(0), "done"), "{ran:?}");
    lab.holders("@/gpu", 0);
}
