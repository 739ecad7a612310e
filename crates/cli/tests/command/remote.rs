//! Pools on an engine, as their users meet them: the command, its keeper and its job are killed, stopped and cut off.

use crate::book;
use crate::jobserver::event;
use crate::place::{Place, Running, kill, runs, until, wait_for_go};
use nodes::Nodes;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[path = "../../../remote/tests/engine/nodes.rs"]
mod nodes;

/// A place whose `@/` is a namespace of its own on three nodes.
struct Lab {
    here: Place,
    nodes: Arc<Nodes>,
    url: String,
}

impl Lab {
    fn new(namespace: &str) -> Option<Lab> {
        let nodes = Nodes::three()?;
        let url = nodes.url(namespace);
        let lab = Lab { here: Place::new(), nodes, url };
        // They may have just been started.
        let begun = Instant::now();
        while lab.command(&["ls", "@"]).output().unwrap().status.code() != Some(0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the engine does not begin");
        }
        Some(lab)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.here.command(args);
        command.env("CHAPPE_ON", &self.url);
        command
    }

    fn spawn(&self, args: &[&str]) -> Running {
        Place::spawn(&mut self.command(args))
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let ran = self.spawn(args).end();
        assert_eq!(ran.status, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[&["--json"], args].concat())).unwrap()
    }

    fn held(&self, pool: &str) -> u64 {
        self.json(&["show", pool])["held"].as_u64().unwrap()
    }

    /// A job that notes its process, and goes on until `go-NAME` is there.
    fn job(&self, name: &str, more: &[&str]) -> (Running, u32) {
        let script = format!("echo $$ > {name}.new; mv {name}.new {name}; {}", wait_for_go(name));
        let args = [&["acquire"], more, &["@/gpu", "--", "sh", "-c", &script]].concat();
        let chappe = self.spawn(&args);
        let pid = self.here.read(name).trim().parse().unwrap();
        (chappe, pid)
    }
}

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
#[ignore = "storm: it starts engines"]
fn a_job_has_its_permits_name_and_token_and_its_status_is_chappes() {
    let Some(lab) = Lab::new("job") else { return };
    lab.ok(&["pool", "create", "@/gpu", "--permits", "2"]);
    let print = "echo $CHAPPE_PERMIT $CHAPPE_COUNT $CHAPPE_PERMIT_INDEX $CHAPPE_TOKEN; exit 7";
    let ran = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", print]).end();
    assert_eq!(ran.status, Some(7), "{ran:?}");
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert_eq!((words[0], words[1]), (format!("@/gpu:{}", words[2]).as_str(), "1"), "{words:?}");
    let first: u64 = words[3].parse().unwrap();
    let both = lab.ok(&["acquire", "-n", "2", "@/gpu", "--", "sh", "-c", "echo $CHAPPE_PERMITS; echo $CHAPPE_TOKEN"]);
    let (permits, token) = both.trim().split_once('\n').unwrap();
    assert_eq!(permits, "@/gpu:0 @/gpu:1");
    assert!(token.parse::<u64>().unwrap() > first);
    assert_eq!(lab.held("@/gpu"), 0);
    // By URL, names are plain.
    let plain = ["--on", &lab.url, "acquire", "--create", "own", "--", "sh", "-c", "echo $CHAPPE_PERMIT"];
    assert_eq!(lab.ok(&plain), "own\n");
    let all = lab.ok(&["ls", "@"]);
    assert!(all.contains("@/gpu") && all.contains("@/own"), "{all}");
    assert_eq!(lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", "kill -9 $$"]).end().signal, Some(libc::SIGKILL));
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_pool_that_is_taken_says_by_whom_and_times_out() {
    let Some(lab) = Lab::new("busy") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, _) = lab.job("job", &[]);
    let at_once = lab.spawn(&["acquire", "--nonblock", "@/gpu", "--", "true"]).end();
    assert_eq!(at_once.status, Some(124), "{at_once:?}");
    let holder = format!("pid {} `sh -c ", chappe.pid());
    assert!(at_once.err.contains("no permit of @/gpu is free") && at_once.err.contains(&holder), "{at_once:?}");
    let later = lab.spawn(&["acquire", "--timeout", "100ms", "@/gpu", "--", "true"]).end();
    assert_eq!(later.status, Some(124), "{later:?}");
    assert!(later.err.contains("timed out after 100ms"), "{later:?}");
    assert!(lab.json(&["show", "@/gpu"])["waiters"].as_array().unwrap().is_empty());
    let in_use = lab.spawn(&["pool", "rm", "@/gpu"]).end();
    assert!(in_use.status == Some(1) && in_use.err.contains("is in use"), "{in_use:?}");
    let refused = lab.spawn(&["release", "@/gpu"]).end();
    assert!(refused.status == Some(1) && refused.err.contains("--force"), "{refused:?}");
    // Who waits is served by whoever ends.
    let next = lab.spawn(&["acquire", "@/gpu", "--", "true"]);
    until("the waiter", || (lab.json(&["show", "@/gpu"])["waiting"] == 1).then_some(()));
    lab.here.go("job");
    assert_eq!((chappe.end().status, next.end().status), (Some(0), Some(0)));
    assert_eq!(lab.held("@/gpu"), 0);
    lab.ok(&["pool", "rm", "@/gpu"]);
    let gone = lab.spawn(&["acquire", "@/gpu", "--", "true"]).end();
    assert!(gone.status == Some(125) && gone.err.contains("chappe pool create @/gpu"), "{gone:?}");
}

#[test]
#[ignore = "storm: it kills chappe"]
fn when_chappe_is_killed_its_job_keeps_the_permit_until_it_ends() {
    let Some(lab) = Lab::new("killed") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "2s"]);
    chappe.kill(libc::SIGKILL);
    assert_eq!(chappe.status().signal(), Some(libc::SIGKILL));
    // Longer than the lease: somebody renews it.
    let until_then = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until_then {
        assert!(runs(job) && lab.held("@/gpu") == 1);
    }
    let next = lab.spawn(&["acquire", "@/gpu", "--", "true"]);
    until("the waiter", || (lab.json(&["show", "@/gpu"])["waiting"] == 1).then_some(()));
    lab.here.go("job");
    assert_eq!(next.end().status, Some(0));
    until("the permit", || (lab.held("@/gpu") == 0).then_some(()));
}

#[test]
#[ignore = "storm: it kills chappe"]
fn when_chappe_and_its_job_are_killed_the_permit_comes_back_long_before_the_lease_ends() {
    let Some(lab) = Lab::new("both") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    for round in 0..5 {
        let name = format!("job{round}");
        let (chappe, job) = lab.job(&name, &["--ttl", "1h"]);
        let next = lab.spawn(&["acquire", "@/gpu", "--", "true"]);
        until("the waiter", || (lab.json(&["show", "@/gpu"])["waiting"] == 1).then_some(()));
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
    let (chappe, job) = lab.job("job", &["--ttl", "2s"]);
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
    until("the permit", || (lab.held("@/gpu") == 0).then_some(()));
    until("the keepers' ends", || (!runs(third) && !runs(fourth)).then_some(()));
}

#[test]
#[ignore = "storm: it stops chappe"]
fn a_stopped_chappe_loses_its_permit_and_its_job_is_ended_before_another_begins() {
    let Some(lab) = Lab::new("stopped") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "2s"]);
    chappe.kill(libc::SIGSTOP);
    let script = format!("kill -0 {job} 2>/dev/null && ! grep -q '^State:.Z' /proc/{job}/status && exit 3; exit 0");
    let next = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(next.status, Some(0), "the job goes on beside the next: {next:?}");
    chappe.kill(libc::SIGCONT);
    let ran = chappe.end();
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(ran.err.contains("permit @/gpu was lost while the command ran"), "{ran:?}");
}

/// Hands on bytes to an engine, until it is cut.
struct Cable {
    port: u16,
    cut: Arc<AtomicBool>,
}

impl Cable {
    fn to(endpoint: &str) -> Cable {
        let (listener, to, cut) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), endpoint.to_owned(), Arc::new(AtomicBool::new(false)));
        let (port, is_cut) = (listener.local_addr().unwrap().port(), Arc::clone(&cut));
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&to) else { continue };
                for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                    let is_cut = Arc::clone(&is_cut);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16384];
                        while let Ok(some @ 1..) = from.read(&mut bytes) {
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
    let script = format!("kill -0 {job} 2>/dev/null && exit 3; exit 0");
    let next = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(next.status, Some(0), "the job goes on beside the next: {next:?}");
    let ran = chappe.end();
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(ran.err.contains("the engine did not answer in time"), "{ran:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_permit_that_is_taken_away_ends_its_job_and_says_so() {
    let Some(lab) = Lab::new("force") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &[]);
    let said = lab.spawn(&["release", "@/gpu", "--force"]).end();
    assert_eq!(said.status, Some(0), "{said:?}");
    let ran = chappe.end();
    assert!(ran.status == Some(125) && ran.err.contains("it was taken away"), "{ran:?}");
    assert!(!runs(job));
    // One that checks its token itself is left alone, and chappe says so at its end.
    let (chappe, job) = lab.job("other", &["--on-loss", "warn"]);
    lab.ok(&["release", "@/gpu", "--force"]);
    assert!(runs(job));
    lab.here.go("other");
    assert_eq!(chappe.end().status, Some(125));
}

#[test]
#[ignore = "storm: it starts engines"]
fn events_as_json_have_the_token_and_the_reason_of_a_loss() {
    let Some(lab) = Lab::new("json") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, _) = {
        let script = format!("echo $$ > job.new; mv job.new job; {}", wait_for_go("job"));
        let chappe = lab.spawn(&["--json", "acquire", "@/gpu", "--", "sh", "-c", &script]);
        (chappe, lab.here.read("job"))
    };
    lab.ok(&["release", "@/gpu", "--force"]);
    let ran = chappe.end();
    let (acquired, ended) = (event(&ran, "acquired"), event(&ran, "ended"));
    assert!(acquired["token"].as_u64().is_some_and(|token| token > 0), "{acquired}");
    assert_eq!((ended["reason"].as_str(), ended["lost"][0].as_str()), (Some("forced"), Some("@/gpu")), "{ended}");
    assert_eq!(ended["left_running"], 0);
}

#[test]
#[ignore = "storm: it starts engines"]
fn what_a_job_leaves_running_keeps_the_permit() {
    let Some(lab) = Lab::new("left") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    let script = format!("({}) >/dev/null 2>&1 & exit 0", wait_for_go("left"));
    let ran = lab.spawn(&["acquire", "--ttl", "2s", "@/gpu", "--", "sh", "-c", &script]).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(lab.held("@/gpu"), 1);
    lab.here.go("left");
    until("the permit", || (lab.held("@/gpu") == 0).then_some(()));
}

#[test]
#[ignore = "storm: it starts engines"]
fn remote_permits_are_taken_outside_and_local_ones_inside() {
    let Some(lab) = Lab::new("nested") else { return };
    lab.ok(&["pool", "create", "@/gpu"]);
    lab.ok(&["acquire", "@/gpu", "--", "sh", "-c", "exec $CHAPPE acquire --create local -- true"]);
    let inside = ["acquire", "--create", "local", "--", "sh", "-c", "exec $CHAPPE acquire @/gpu -- true"];
    let ran = lab.spawn(&inside).end();
    assert!(ran.status == Some(125) && ran.err.contains("--local-first"), "{ran:?}");
    let sure = ["acquire", "--create", "local", "--", "sh", "-c", "exec $CHAPPE acquire --local-first @/gpu -- true"];
    lab.ok(&sure);
    let twice = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", "exec $CHAPPE acquire @/gpu -- true"]).end();
    assert!(twice.status == Some(125) && twice.err.contains("--nested"), "{twice:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn an_engine_has_a_name_in_a_file() {
    let Some(lab) = Lab::new("file") else { return };
    let config = lab.here.file("config");
    std::fs::create_dir_all(config.join("chappe")).unwrap();
    let named = |text: &str, args: &[&str]| {
        std::fs::write(config.join("chappe/remotes.toml"), text).unwrap();
        Place::spawn(lab.here.command(args).env("XDG_CONFIG_HOME", &config)).end()
    };
    let right = format!("# ours\n[lab]\nurl = \"{}\"\nttl = \"3s\"\n", lab.url);
    let ran = named(&right, &["acquire", "--create", "@lab/gpu", "--", "sh", "-c", "echo $CHAPPE_PERMIT"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "@lab/gpu\n"), "{ran:?}");
    for (text, part) in [
        ("", "no engine is called `lab`"),
        ("[other]\nurl = \"etcd://h\"", "has other"),
        ("[lab]\n", "[lab] has no `url`"),
        ("[lab]\nurl = \"http://h\"", "is no engine that chappe knows"),
        ("[lab]\nurl = \"etcd://h\"\nca = \"/nowhere\"", "/nowhere"),
        ("[lab]\nurl = \"etcd://h\"\nuser = \"ann\"", "`user` is set, and `password-file` is not"),
        ("[lab]\nurl = \"etcd://h\"\ncolour = \"red\"", "`colour` is no key here"),
        ("[lab]\nurl = etcd", "line 2"),
        ("[lab]\nurl = \"etcd://h\"\nttl = \"1s\"", "a time to live of 1s is not possible"),
    ] {
        let ran = named(text, &["acquire", "@lab/gpu", "--", "true"]);
        assert_eq!(ran.status, Some(125), "{text}: {ran:?}");
        assert!(ran.err.contains(part), "{text}: {}", ran.err);
    }
}

#[test]
#[ignore = "storm: it starts engines"]
fn what_the_guide_says_of_many_machines_is_true() {
    let Some(lab) = Lab::new("guide") else { return };
    let config = lab.here.file("config");
    std::fs::create_dir_all(config.join("chappe")).unwrap();
    std::fs::write(config.join("chappe/remotes.toml"), format!("[lab]\nurl = \"{}\"\n", lab.url)).unwrap();
    book::with_an_engine("machines.md", &config);
}

#[test]
fn what_no_engine_could_do_is_refused_before_one_is_asked() {
    let here = Place::new();
    let many: Vec<String> = (0..33).map(|i| format!("@/p{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let choice = [&["acquire"], many.as_slice(), &["--", "true"]].concat();
    let cases: [(&[&str], &str); 9] = [
        (&["acquire", "@gpu", "--", "true"], "write @REMOTE/NAME"),
        (&["acquire", "@/a/b", "--", "true"], "it contains '/'"),
        (&["acquire", "@/", "--", "true"], "it is empty"),
        (&["acquire", "@/a", "@/a", "--", "true"], "pool `a` is named twice"),
        (&["acquire", "@/a", "@lab/a", "--", "true"], "are two engines"),
        (&["acquire", "-n", "101", "@/a", "--", "true"], "at most 100"),
        (&["acquire", "--ttl", "1s", "@/a", "--", "true"], "a time to live of 1s is not possible, from 2s to 3600s is"),
        (&["acquire", "--ttl", "2h", "@/a", "--", "true"], "a time to live of 7200s"),
        (&choice, "33 pools are named; a choice on an engine has at most 32"),
    ];
    for (args, part) in cases {
        let ran = Place::spawn(here.command(args).env("CHAPPE_ON", "etcd://127.0.0.1:1/n")).end();
        assert_eq!(ran.status, Some(125), "{args:?}: {ran:?}");
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
    let unset = Place::spawn(here.command(&["ls", "@"]).env_remove("CHAPPE_ON")).end();
    assert!(unset.status == Some(1) && unset.err.contains("CHAPPE_ON"), "{unset:?}");
    let nobody = ["acquire", "--connect-timeout", "100ms", "@/a", "--", "true"];
    let ran = Place::spawn(here.command(&nobody).env("CHAPPE_ON", "etcd://127.0.0.1:1/n")).end();
    assert!(
        ran.status == Some(125) && ran.err.contains("no endpoint of etcd://127.0.0.1:1/n answers: 127.0.0.1:1"),
        "{ran:?}"
    );
}
