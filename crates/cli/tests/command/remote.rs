//! Pools on an engine, as their users meet them: the command, its keeper and its job are killed, stopped and cut off.

use crate::book;
use crate::jobserver::event;
use crate::place::{Place, Running, kill, runs, until, wait_for_go};
use nodes::Nodes;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[path = "../../../remote/tests/engine/nodes.rs"]
pub mod nodes;

/// A place whose `@/` is a namespace of its own on three nodes.
pub struct Lab {
    pub here: Place,
    pub nodes: Arc<Nodes>,
    pub url: String,
}

impl Lab {
    pub fn new(namespace: &str) -> Option<Lab> {
        Some(Lab::on(Nodes::three()?, namespace))
    }

    pub fn on(nodes: Arc<Nodes>, namespace: &str) -> Lab {
        let url = nodes.url(namespace);
        let lab = Lab { here: Place::new(), nodes, url };
        // They may have just been started.
        let begun = Instant::now();
        while lab.command(&["ls", "@"]).output().unwrap().status.code() != Some(0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the engine does not begin");
        }
        lab
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.here.command(args);
        command.env("CHAPPE_ON", &self.url);
        command
    }

    pub fn spawn(&self, args: &[&str]) -> Running {
        Place::spawn(&mut self.command(args))
    }

    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.spawn(args).end();
        assert_eq!(ran.status, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[&["--json"], args].concat())).unwrap()
    }

    pub fn held(&self, pool: &str) -> u64 {
        self.json(&["show", pool])["held"].as_u64().unwrap()
    }

    /// Until so many are in line.
    pub fn waiting(&self, pool: &str, many: u64) {
        until("the waiters", || (self.json(&["show", pool])["waiting"] == many).then_some(()));
    }

    /// Until so many are held.
    pub fn holders(&self, pool: &str, many: u64) {
        until("the holders", || (self.held(pool) == many).then_some(()));
    }

    /// A job that notes its process, and goes on until `go-NAME` is there.
    pub fn job(&self, name: &str, more: &[&str]) -> (Running, u32) {
        let script = format!("echo $$ > {name}.new; mv {name}.new {name}; {}", wait_for_go(name));
        let args = [&["acquire"], more, &["@/gpu", "--", "sh", "-c", &script]].concat();
        let chappe = self.spawn(&args);
        let pid = self.here.read(name).trim().parse().unwrap();
        (chappe, pid)
    }
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
    // A command that is longer than what an engine takes.
    let word = "x".repeat(120 << 10);
    lab.ok(&[&["acquire", "@/gpu", "--", "true"], [word.as_str(); 14].as_slice()].concat());
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_command_for_a_free_permit_waits_for_a_lease_a_take_and_a_release_alone() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let lab = Lab::on(Arc::new(nodes), "counted");
    // What the engine has begun of each kind of request.
    let begun = |method: &str| {
        let mut stream = TcpStream::connect(&lab.nodes.endpoints[0]).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let part = format!("grpc_method=\"{method}\"");
        let of = |line: &&str| line.starts_with("grpc_server_started_total{") && line.contains(&part);
        let line = text.lines().find(of).unwrap_or_else(|| panic!("no {method} in {text}"));
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64
    };
    let all = || ["Txn", "Range", "LeaseGrant"].map(&begun);
    lab.ok(&["pool", "create", "@/gpu"]);
    let (before, revoked) = (all(), begun("LeaseRevoke"));
    lab.ok(&["acquire", "@/gpu", "--", "true"]);
    // The look takes no time of its own: it is made while the lease is. The lease is ended by the keeper.
    assert_eq!(all(), [before[0] + 3, before[1], before[2] + 1]);
    until("the end of its lease", || (begun("LeaseRevoke") == revoked + 1).then_some(()));
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
    // A job that ends serves the waiter.
    let next = lab.spawn(&["acquire", "@/gpu", "--", "true"]);
    lab.waiting("@/gpu", 1);
    lab.here.go("job");
    assert_eq!((chappe.end().status, next.end().status), (Some(0), Some(0)));
    assert_eq!(lab.held("@/gpu"), 0);
    lab.ok(&["pool", "rm", "@/gpu"]);
    let gone = lab.spawn(&["acquire", "@/gpu", "--", "true"]).end();
    assert!(gone.status == Some(125) && gone.err.contains("chappe pool create @/gpu"), "{gone:?}");
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
    // One that has started another, which does not listen.
    let script = "setsid sh -c 'trap \"\" TERM; echo $$ > deaf.new; mv deaf.new deaf; exec sleep 1000' >/dev/null 2>&1 & exec sleep 1000";
    let chappe = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", script]);
    let deaf: u32 = lab.here.read("deaf").trim().parse().unwrap();
    lab.ok(&["release", "@/gpu", "--force"]);
    assert_eq!(chappe.end().status, Some(125));
    assert!(!runs(deaf));
    // One whose lease is ended.
    let Some(etcdctl) = nodes::program("etcdctl") else { return };
    let script = "echo ${CHAPPE_HOLD%-*} > lease.new; mv lease.new lease; exec sleep 1000";
    let chappe = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", script]);
    let lease = lab.here.read("lease");
    let end = ["--endpoints", &lab.nodes.endpoints[0], "lease", "revoke", lease.trim()];
    assert!(Command::new(etcdctl).args(end).output().unwrap().status.success());
    let ran = chappe.end();
    assert!(ran.status == Some(125) && ran.err.contains("its lease was ended"), "{ran:?}");
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
    // Deeper, and by another name.
    lab.ok(&["pool", "create", "@/other"]);
    let deep = "exec $CHAPPE acquire @/other -- sh -c 'exec $CHAPPE --on $CHAPPE_ON acquire gpu -- true'";
    let deep = lab.spawn(&["acquire", "@/gpu", "--", "sh", "-c", deep]).end();
    assert!(deep.status == Some(125) && deep.err.contains("--nested"), "{deep:?}");
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
        ("[lab]\nurl = \"etcd://h\"\npassword = \"x\"", "`password-file` names"),
        ("[lab]\nurl = \"etcds://h\"", "needs `ca`"),
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
fn an_engine_says_what_it_has_and_how_it_is() {
    let Some(nodes) = Nodes::own(3, &[]) else { return };
    let lab = Lab::on(Arc::new(nodes), "health");
    lab.ok(&["pool", "create", "@/gpu", "--permits", "2"]);
    let (chappe, _) = lab.job("job", &[]);
    lab.ok(&["sem", "create", "@/ready", "--value", "3"]);
    lab.ok(&["tube", "create", "@/jobs"]);
    let told = lab.ok(&["metrics", "@"]);
    for line in [
        "chappe_semaphore_value{arena=\"@\",name=\"ready\"} 3",
        "chappe_tube_pages{arena=\"@\",name=\"jobs\"} 0",
        "chappe_arena_up{arena=\"@\"} 1",
        "chappe_pool_permits{arena=\"@\",name=\"gpu\"} 2",
        "chappe_pool_held{arena=\"@\",name=\"gpu\"} 1",
        "chappe_pool_waiting{arena=\"@\",name=\"gpu\"} 0",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    let waiter = lab.spawn(&["acquire", "-n", "2", "@/gpu", "--", "true"]);
    lab.waiting("@/gpu", 1);
    let text = lab.ok(&["top", "--once", "--interval", "100ms", "@"]);
    let row = text.lines().find(|line| line.starts_with("@/gpu ")).unwrap();
    assert!(row.split_whitespace().take(3).eq(["@/gpu", "pool", "1"]), "{text}");
    assert!(row.ends_with("1 of 2 permits held"), "{text}");
    assert!(text.contains(" 1 waiting, longest ") && text.ends_with("for @/gpu\n"), "{text}");
    let seen = lab.json(&["top", "--interval", "100ms", "@"]);
    assert!(seen["objects"][0]["longest_wait_seconds"].as_f64().unwrap() >= 0.1, "{seen}");
    assert_eq!((&seen["objects"][2]["value"], &seen["processes"][0]["wants"]), (&3.into(), &"@/gpu".into()), "{seen}");
    drop(waiter);
    let well = lab.json(&["doctor", "@"]);
    assert_eq!(
        (well["members"].as_array().unwrap().len(), well["findings"].as_array().unwrap().len()),
        (3, 0),
        "{well}"
    );
    assert!(
        well["read_ms"].is_u64() && well["lease_ms"].is_u64() && well["members"][0]["version"].is_string(),
        "{well}"
    );
    assert!(lab.ok(&["doctor", "@"]).ends_with("  nothing is wrong\n"));
    kill(lab.nodes.pids[0] as u32, libc::SIGKILL);
    let hurt = until("the others' leader", || {
        let hurt = lab.spawn(&["--json", "doctor", "@"]).end();
        (hurt.status == Some(0)).then(|| serde_json::from_str::<Value>(&hurt.out).unwrap())
    });
    assert_eq!(hurt["findings"][0]["kind"], "unreachable", "{hurt}");
    kill(lab.nodes.pids[1] as u32, libc::SIGKILL);
    let dead = lab.spawn(&["doctor", "@"]).end();
    assert!(dead.status == Some(1) && dead.out.contains("it cannot be read"), "{dead:?}");
    let told = lab.ok(&["metrics", "@"]);
    assert!(told.contains("chappe_arena_up{arena=\"@\"} 0") && !told.contains("gpu"), "{told}");
    // Its job goes on until the lease's deadline: nobody can do anything for it.
    drop(chappe);
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_pool_that_cannot_serve_says_so_at_once_or_as_soon_as_it_is_so() {
    let Some(lab) = Lab::new("cannot") else { return };
    let refused = |ran: &crate::place::Ran, part: &str| {
        assert!(ran.status == Some(125) && ran.err.contains(part), "{part}: {ran:?}");
    };
    lab.ok(&["pool", "create", "@/two", "--permits", "2"]);
    let three = lab.spawn(&["acquire", "-n", "3", "@/two", "--", "true"]).end();
    refused(&three, "pool `@/two` has 2 permits: it never has 3 at once");
    let other = lab.spawn(&["acquire", "--create=3", "@/two", "--", "true"]).end();
    refused(&other, "pool `@/two` has 2 permits, not 3");
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, _) = lab.job("job", &[]);
    let both = lab.spawn(&["acquire", "-n", "2", "@/two", "--", "sh", "-c", &wait_for_go("both")]);
    lab.holders("@/two", 2);
    let (shrunk, removed) =
        (lab.spawn(&["acquire", "-n", "2", "@/two", "--", "true"]), lab.spawn(&["acquire", "@/gpu", "--", "true"]));
    lab.waiting("@/two", 1);
    lab.waiting("@/gpu", 1);
    lab.ok(&["pool", "resize", "@/two", "1"]);
    refused(&shrunk.end(), "pool `@/two` has 1 permit: it never has 2 at once");
    lab.ok(&["pool", "rm", "--force", "@/gpu"]);
    refused(&removed.end(), "pool `@/gpu` was removed while it was waited for");
    refused(&chappe.end(), "permit @/gpu was lost while the command ran: it was taken away");
    lab.here.go("both");
    assert_eq!(both.end().status, Some(0));
    for (permits, part) in [("0", "1 to"), ("99999999", "not 99999999")] {
        let ran = lab.spawn(&["pool", "create", "@/many", "--permits", permits]).end();
        assert!(ran.status == Some(1) && ran.err.contains(part), "{ran:?}");
    }
    // What a newer chappe has written is left alone.
    let etcdctl = nodes::program("etcdctl").expect("it is built with etcd");
    let put = ["--endpoints", &lab.nodes.endpoints[0], "put", "chappe/1/cannot/format", r#"{"format":9}"#];
    assert!(Command::new(etcdctl).args(put).output().unwrap().status.success());
    let newer = lab.spawn(&["acquire", "@/two", "--", "true"]).end();
    refused(&newer, "has format 9, and this chappe knows 2: it is older than what wrote there");
    let shown = lab.spawn(&["show", "@/two"]).end();
    assert!(shown.status == Some(1) && shown.err.contains("has format 9"), "{shown:?}");
}

#[test]
#[ignore = "storm: it kills engines"]
fn without_a_quorum_no_permit_is_given_and_a_job_ends_before_its_lease_does() {
    let Some(nodes) = Nodes::own(3, &[]) else { return };
    let lab = Lab::on(Arc::new(nodes), "quorum");
    lab.ok(&["pool", "create", "@/gpu"]);
    let (chappe, job) = lab.job("job", &["--ttl", "4s"]);
    let waits = lab.spawn(&["acquire", "--ttl", "3s", "--timeout", "9s", "@/gpu", "--", "true"]);
    lab.waiting("@/gpu", 1);
    for pid in &lab.nodes.pids[..2] {
        kill(*pid as u32, libc::SIGKILL);
    }
    let ran = chappe.end();
    assert!(ran.status == Some(125) && ran.err.contains("was not renewed in time"), "{ran:?}");
    assert!(!runs(job));
    let waited = waits.end();
    assert!(waited.status == Some(124) && waited.err.contains("engine"), "{waited:?}");
    let before = lab.spawn(&["acquire", "--connect-timeout", "1s", "@/gpu", "--", "true"]).end();
    assert!(before.status == Some(125) && before.err.contains("quorum"), "{before:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn units_of_a_semaphore_wake_those_that_wait_and_are_saved_for_those_that_come() {
    let Some(lab) = Lab::new("sem") else { return };
    lab.ok(&["sem", "create", "@/batch", "--value", "1"]);
    assert_eq!(lab.ok(&["sem", "value", "@/batch"]), "1\n");
    assert_eq!(lab.json(&["sem", "down", "@/batch"])["value"], 0);
    let none = lab.spawn(&["sem", "down", "--nonblock", "@/batch"]).end();
    assert_eq!(none.status, Some(124), "{none:?}");
    assert!(none.err.contains("semaphore @/batch has nothing to take; its value is 0"), "{none:?}");
    let late = lab.spawn(&["sem", "down", "--timeout", "100ms", "@/batch"]).end();
    assert_eq!(late.status, Some(124), "{late:?}");
    let (killed, waits) = (lab.spawn(&["sem", "down", "@/batch"]), lab.spawn(&["sem", "down", "@/batch"]));
    lab.waiting("@/batch", 2);
    kill(killed.pid(), libc::SIGKILL);
    // Its keeper ends its lease, and with it its place in line.
    lab.waiting("@/batch", 1);
    assert_eq!(lab.json(&["sem", "up", "@/batch", "-n", "3"])["value"], 2);
    assert_eq!(waits.end().status, Some(0));
    let all = lab.ok(&["ls", "@"]);
    assert!(all.contains("semaphore") && all.contains("value 2"), "{all}");
    let other = lab.spawn(&["acquire", "@/batch", "--", "true"]).end();
    assert!(other.status == Some(125) && other.err.contains("is a semaphore"), "{other:?}");
    assert_eq!(lab.json(&["sem", "rm", "@/batch"])["kind"], "semaphore");
    let gone = lab.spawn(&["sem", "up", "@/batch"]).end();
    assert!(gone.status == Some(1) && gone.err.contains("chappe sem create @/batch"), "{gone:?}");
    let gone = lab.spawn(&["sem", "down", "@/batch"]).end();
    assert!(gone.status == Some(1) && gone.err.contains("chappe sem create @/batch"), "{gone:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_waiter_that_is_stopped_beyond_its_lease_learns_whether_it_was_given_a_unit() {
    let (Some(lab), Some(etcdctl)) = (Lab::new("stopped"), nodes::program("etcdctl")) else { return };
    let config = lab.here.file("config");
    std::fs::create_dir_all(config.join("chappe")).unwrap();
    let text = format!("[lab]\nurl = \"{}\"\nttl = \"2s\"\n", lab.url);
    std::fs::write(config.join("chappe/remotes.toml"), text).unwrap();
    lab.ok(&["sem", "create", "@/batch"]);
    let down = || {
        let mut command = lab.here.command(&["sem", "down", "@lab/batch"]);
        Place::spawn(command.env("XDG_CONFIG_HOME", &config))
    };
    let given = down();
    lab.waiting("@/batch", 1);
    let later = down();
    lab.waiting("@/batch", 2);
    given.kill(libc::SIGSTOP);
    later.kill(libc::SIGSTOP);
    assert_eq!(lab.json(&["sem", "up", "@/batch"])["value"], 0);
    // Their leases end: the second one's place, and what the first one got.
    let under = ["--endpoints", &lab.nodes.endpoints[0], "get", "--prefix", "--keys-only", "chappe/1/stopped/pool/"];
    let keys = || String::from_utf8(Command::new(&etcdctl).args(under).output().unwrap().stdout).unwrap();
    until("the ends of the leases", || (keys().split_whitespace().count() == 1).then_some(()));
    given.kill(libc::SIGCONT);
    later.kill(libc::SIGCONT);
    assert_eq!(given.end().status, Some(0));
    lab.waiting("@/batch", 1);
    assert_eq!(lab.json(&["sem", "up", "@/batch"])["value"], 0);
    assert_eq!(later.end().status, Some(0));
}

#[test]
#[ignore = "storm: it starts engines"]
fn the_next_job_under_a_mutex_is_told_that_the_last_one_died() {
    let Some(lab) = Lab::new("mutex") else { return };
    lab.ok(&["pool", "create", "--mutex", "@/db"]);
    let died = |script: &str| lab.spawn(&["acquire", "@/db", "--", "sh", "-c", script]).end();
    let told = "echo died=$CHAPPE_OWNER_DIED";
    assert_eq!(died(told).out, "died=\n");
    assert_eq!(died("exit 3").status, Some(3));
    assert_eq!(died(told).out, "died=\n", "that one had ended by itself");
    assert_eq!(died("kill -9 $$").signal, Some(libc::SIGKILL));
    assert!(lab.ok(&["show", "@/db"]).contains("its last holder died"));
    assert_eq!(died("echo died=$CHAPPE_OWNER_DIED; exit 1").out, "died=1\n");
    let last = died(told);
    assert!(last.out == "died=1\n" && last.err.contains("may have left it half done"), "{last:?}");
    assert_eq!(died(told).out, "died=\n", "that one has mended it");
}

#[test]
#[ignore = "storm: it starts engines"]
fn records_come_once_in_order_and_those_of_a_dead_receiver_again() {
    let Some(lab) = Lab::new("tube") else { return };
    lab.ok(&["tube", "create", "@/jobs", "-m", "2"]);
    let all: String = (0..5000).map(|at| format!("{at}\n")).collect();
    std::fs::write(lab.here.file("in"), &all).unwrap();
    let send = || {
        let mut command = lab.command(&["send", "--lines", "@/jobs"]);
        command.stdin(std::fs::File::open(lab.here.file("in")).unwrap());
        Place::spawn(&mut command)
    };
    let full = send();
    until("it is full", || (lab.json(&["show", "@/jobs"])["pages"] == 2).then_some(()));
    assert_eq!(lab.json(&["show", "@/jobs"])["senders"], 1);
    assert_eq!(lab.ok(&["recv", "--lines", "@/jobs"]), all, "three pages more than it has room for");
    assert_eq!(full.end().status, Some(0));
    // A receiver that cannot write what it has is killed.
    let some = &all[..all.find("200\n").unwrap()];
    std::fs::write(lab.here.file("in"), some).unwrap();
    assert_eq!(send().end().status, Some(0));
    let mut stuck = lab.command(&["recv", "--lines", "@/jobs"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let filled = "x".repeat(1 << 16);
    writer.try_clone().unwrap().write_all(filled.as_bytes()).unwrap();
    let mut stuck = stuck.stdout(writer).spawn().unwrap();
    until("it has them", || (lab.json(&["show", "@/jobs"])["claims"] == 1).then_some(()));
    stuck.kill().unwrap();
    stuck.wait().unwrap();
    drop(reader);
    let other = lab.spawn(&["recv", "--lines", "@/jobs"]).end();
    assert_eq!((other.status, other.out.as_str()), (Some(0), some), "{other:?}");
    assert!(other.err.contains("may have come before"), "{other:?}");
    assert_eq!(lab.json(&["tube", "seal", "@/jobs"])["sealed"], "@/jobs");
    let sealed = send().end();
    assert!(sealed.status == Some(1) && sealed.err.contains("is sealed"), "{sealed:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_sender_that_dies_is_told_at_the_end() {
    let Some(lab) = Lab::new("died") else { return };
    lab.ok(&["tube", "create", "@/t"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut sender = lab.command(&["send", "--lines", "@/t"]).stdin(reader).spawn().unwrap();
    writer.write_all(b"a\n").unwrap();
    let receiver = lab.spawn(&["recv", "--lines", "@/t"]);
    until("it was received", || (lab.json(&["show", "@/t"])["sent_pages"] == 1).then_some(()));
    sender.kill().unwrap();
    sender.wait().unwrap();
    let ended = receiver.end();
    assert_eq!((ended.status, ended.out.as_str()), (Some(3), "a\n"), "{ended:?}");
    assert!(ended.err.contains("died before it was done"), "{ended:?}");
}

#[test]
#[ignore = "storm: it starts engines"]
fn the_guide_to_many_machines_is_true() {
    let Some(lab) = Lab::new("guide") else { return };
    let config = lab.here.file("config");
    std::fs::create_dir_all(config.join("chappe")).unwrap();
    std::fs::write(config.join("chappe/remotes.toml"), format!("[lab]\nurl = \"{}\"\n", lab.url)).unwrap();
    book::with_an_engine("machines.md", &config);
}

#[test]
fn a_request_that_no_engine_could_grant_is_refused_locally() {
    let here = Place::new();
    let many: Vec<String> = (0..33).map(|i| format!("@/p{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let choice = [&["acquire"], many.as_slice(), &["--", "true"]].concat();
    let cases: [(&[&str], &str); 9] = [
        (&["acquire", "@gpu", "--", "true"], "`@gpu` is an engine, and no object there: write @gpu/NAME"),
        (&["acquire", "@/a/b", "--", "true"], "it contains '/'"),
        (&["acquire", "@/", "--", "true"], "it is empty"),
        (&["acquire", "@/a", "@/a", "--", "true"], "pool `@/a` is named twice"),
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
        ran.status == Some(125)
            && ran.err.contains(
                "no endpoint of etcd://127.0.0.1:1/n answers: 127.0.0.1:1: tcp connect error: Connection refused"
            ),
        "{ran:?}"
    );
    // One that is there and says nothing: first contact takes no longer than the wait may, and so not the 1.5 s that an answer usually has.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("etcd://{}/n", silent.local_addr().unwrap());
    let ran = here.command(&["acquire", "--timeout", "100ms", "@/a", "--", "true"]).env("CHAPPE_ON", &url).output();
    let said = String::from_utf8(ran.unwrap().stderr).unwrap();
    assert!(said.contains("no answer within ") && !said.contains("1500 ms"), "{said}");
    for (url, part) in
        [("etcd://", "`etcd://` lacks a host: write etcd://"), ("etcd://h:x/n", "`h:x` is no HOST[:PORT]")]
    {
        let ran = Place::spawn(here.command(&["ls", "@"]).env("CHAPPE_ON", url)).end();
        assert!(ran.status == Some(1) && ran.err.contains(part), "{ran:?}");
    }
}
