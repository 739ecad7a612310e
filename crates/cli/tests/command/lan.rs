//! A network for tests: engines and hosts, each in a network namespace of its own with a cable to one switch. Every cable can be pulled.
//!
//! ```text
//!   e1 .. e3: etcd, and before it a relay that delays and loses      h1 ..: hosts      c: the observer; its cable is never pulled
//!        \________________________ switch ________________________________/
//! ```
//!
//! Names begin with `chN`, N the test program's process: what a killed one left is removed by the next.

use crate::place::{Place, kill, until};
use crate::remote::nodes::{not_tested, program};
use relay::{Relay, Rule};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[allow(dead_code, reason = "the benchmarks use the rest")]
#[path = "../../../bench/src/relay.rs"]
pub mod relay;

/// What clients and peers are told to come to, and where the engine itself listens.
const RELAYED: [u16; 2] = [12379, 12380];
const OWN: [u16; 2] = [2379, 2380];

/// The network. It ends, with its engines, when it is dropped.
pub struct Lan {
    tag: String,
    engines: usize,
    /// What obeys for the switch.
    switch: Mutex<(Child, ChildStdin)>,
    etcd: Mutex<Vec<Option<Child>>>,
    /// How often each was begun anew: its name and its data's.
    lives: Mutex<Vec<u32>>,
    /// They end with it.
    _relays: Vec<Relay>,
    directory: PathBuf,
    /// Whether the engines ask for a user.
    users: Mutex<bool>,
    /// There is one at a time in a program: storms have times in them.
    _only: MutexGuard<'static, ()>,
}

/// Where something is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Engine(usize),
    Host(usize),
    Onlooker,
}

/// Runs `ip` with these commands, in the switch's namespace or in ours.
fn ip(namespace: Option<&str>, lines: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(namespace.iter().flat_map(|name| ["-n", name])).args(["-batch", "-"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.is_ok_and(|mut child| {
        let told = child.stdin.take().expect("a pipe").write_all(lines.as_bytes());
        told.is_ok() && child.wait().is_ok_and(|status| status.success())
    })
}

fn enter(namespace: &File) -> std::io::Result<()> {
    // SAFETY: a plain system call, of the calling thread alone.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Moves a command to a time namespace in which CLOCK_BOOTTIME is so far ahead.
pub fn ahead(command: &mut Command, seconds: u32) -> &mut Command {
    let text = format!("boottime {seconds} 0\n");
    // SAFETY: system calls alone between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::unshare(libc::CLONE_NEWTIME) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            let file = libc::open(c"/proc/self/timens_offsets".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            match libc::write(file, text.as_ptr().cast(), text.len()) {
                n if n as usize == text.len() => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

impl Lan {
    /// A network of so many engines and hosts; `None`, with a line: this machine has none, or no engine.
    pub fn new(engines: usize, hosts: usize, rule: Rule) -> Option<Lan> {
        static ONLY: Mutex<()> = Mutex::new(());
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let etcd = program("etcd")?;
        sweep();
        let tag = format!("ch{}", std::process::id());
        if !ip(None, &format!("netns add {tag}s\n")) {
            not_tested("a network of hosts and engines: `ip netns add` is refused, it needs root");
            return None;
        }
        let switch = format!("{tag}s");
        let all = (0..engines).map(At::Engine).chain((0..hosts).map(At::Host)).chain([At::Onlooker]);
        let plugs: Vec<(String, u32)> = all.map(|at| plug(at, engines)).collect();
        let (mut spaces, mut cables) = (String::new(), "link add sw type bridge\nlink set sw up\n".to_owned());
        for (name, number) in &plugs {
            spaces += &format!("netns add {tag}{name}\n");
            cables += &format!("link add v{number} type veth peer name eth0 netns {tag}{name}\n");
            cables += &format!("link set v{number} master sw up\n");
        }
        assert!(ip(None, &spaces) && ip(Some(&switch), &cables), "the switch");
        for (name, number) in &plugs {
            let lines = format!("addr add 10.77.0.{number}/24 dev eth0\nlink set eth0 up\nlink set lo up\n");
            assert!(ip(Some(&format!("{tag}{name}")), &lines), "{name}");
        }
        let mut obeys = Command::new("ip")
            .args(["-n", &switch, "-force", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let orders = obeys.stdin.take().expect("a pipe");
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lan-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let mut lan = Lan {
            tag,
            engines,
            switch: Mutex::new((obeys, orders)),
            etcd: Mutex::new((0..engines).map(|_| None).collect()),
            lives: Mutex::new(vec![0; engines]),
            _relays: Vec::new(),
            directory,
            users: Mutex::new(false),
            _only: only,
        };
        for at in 0..engines {
            let address = lan.address(At::Engine(at));
            let relay = |port: usize| {
                let to = SocketAddr::from((address, OWN[port]));
                let rule = Rule { seed: rule.seed + (2 * at + port) as u64, ..rule };
                lan.within(At::Engine(at), move || Relay::tcp((address, RELAYED[port]), to, rule).unwrap())
            };
            let both = [relay(0), relay(1)];
            lan._relays.extend(both);
        }
        for at in 0..engines {
            lan.start(&etcd, at, "new");
        }
        until("the engines", || lan.etcdctl(&["endpoint", "health"]).then_some(()));
        Some(lan)
    }

    fn namespace(&self, at: At) -> File {
        File::open(format!("/run/netns/{}{}", self.tag, plug(at, self.engines).0)).unwrap()
    }

    pub fn address(&self, at: At) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, plug(at, self.engines).1 as u8)
    }

    /// Does something there, on a thread of its own.
    pub fn within<T: Send + 'static>(&self, at: At, what: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = self.namespace(at);
        std::thread::spawn(move || {
            enter(&namespace).unwrap();
            what()
        })
        .join()
        .unwrap()
    }

    /// A command that is run there.
    pub fn at<'c>(&self, at: At, command: &'c mut Command) -> &'c mut Command {
        let namespace = self.namespace(at);
        // SAFETY: a system call alone between fork and exec.
        unsafe { command.pre_exec(move || enter(&namespace)) }
    }

    /// The engines' endpoints, as clients have them.
    pub fn endpoints(&self) -> String {
        let one = |at| format!("{}:{}", self.address(At::Engine(at)), RELAYED[0]);
        (0..self.engines).map(one).collect::<Vec<_>>().join(",")
    }

    /// Pulls a cable, or plugs it in again.
    pub fn cable(&self, at: At, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        let mut switch = self.switch.lock().unwrap();
        writeln!(switch.1, "link set v{} {state}", plug(at, self.engines).1).unwrap();
    }

    /// Starts an engine. Call it where the thread lives as long as the engine is to: the kernel ends it with the thread.
    fn start(&self, etcd: &Path, at: usize, cluster: &str) {
        let lives = self.lives.lock().unwrap();
        let peer = |of: usize| format!("http://{}:{}", self.address(At::Engine(of)), RELAYED[1]);
        let name = |of: usize| format!("e{of}-{}", lives[of]);
        let all = (0..self.engines).map(|of| format!("{}={}", name(of), peer(of))).collect::<Vec<_>>().join(",");
        let address = self.address(At::Engine(at));
        let log = File::options().create(true).append(true).open(self.directory.join(format!("e{at}.log"))).unwrap();
        let mut command = Command::new(etcd);
        command.args(["--name", &name(at), "--data-dir"]).arg(self.directory.join(name(at)));
        for (option, value) in [
            ("--listen-client-urls", format!("http://{address}:{}", OWN[0])),
            ("--advertise-client-urls", format!("http://{address}:{}", RELAYED[0])),
            ("--listen-peer-urls", format!("http://{address}:{}", OWN[1])),
            ("--initial-advertise-peer-urls", peer(at)),
            ("--initial-cluster", all),
            ("--initial-cluster-state", cluster.to_owned()),
        ] {
            command.args([option, &value]);
        }
        // What is killed here is the process, not the machine: the kernel keeps what was written. Tokens of users end after 5 s.
        command.args("--unsafe-no-fsync --log-level error --bcrypt-cost 4 --auth-token-ttl 5".split(' '));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // SAFETY: a system call alone between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = self.at(At::Engine(at), &mut command).spawn().unwrap();
        self.etcd.lock().unwrap()[at] = Some(child);
    }

    pub fn signal(&self, at: usize, signal: i32) {
        kill(self.etcd.lock().unwrap()[at].as_ref().expect("it was started").id(), signal);
    }

    fn end(&self, at: usize) {
        if let Some(mut child) = self.etcd.lock().unwrap()[at].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills an engine, and starts it again with what it has on its disk.
    pub fn restart(&self, at: usize, down: Duration) {
        self.end(at);
        std::thread::sleep(down);
        self.start(&program("etcd").expect("it is there"), at, "existing");
    }

    /// Puts another in the place of an engine, which has nothing and learns all from the others.
    pub fn replace(&self, at: usize) {
        let Some(text) = self.told(&["member", "list"]) else { return };
        let line = text.lines().find(|line| line.contains(&format!(" e{at}-"))).map(str::to_owned);
        let Some(id) = line.and_then(|line| Some(line.split_once(',')?.0.to_owned())) else { return };
        let is_member = |of: &str| self.told(&["member", "list"]).is_some_and(|text| text.contains(of));
        // What had no answer may have been done.
        if !self.etcdctl(&["member", "remove", &id]) && is_member(&id) {
            return;
        }
        self.end(at);
        let name = {
            let mut lives = self.lives.lock().unwrap();
            let _ = std::fs::remove_dir_all(self.directory.join(format!("e{at}-{}", lives[at])));
            lives[at] += 1;
            format!("e{at}-{}", lives[at])
        };
        let url = format!("http://{}:{}", self.address(At::Engine(at)), RELAYED[1]);
        let add = ["member", "add", &name, &format!("--peer-urls={url}")];
        until("a place for the new engine", || (self.etcdctl(&add) || is_member(&url)).then_some(()));
        self.start(&program("etcd").expect("it is there"), at, "existing");
        until("the new engine", || self.etcdctl(&["endpoint", "health"]).then_some(()));
    }

    /// What etcd's own command prints; `None`: it has failed.
    pub fn told(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new(program("etcdctl")?);
        command.args(["--command-timeout", "5s", "--endpoints", &self.endpoints()]);
        if *self.users.lock().unwrap() {
            command.args(["--user", "root:secret"]);
        }
        command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
        let out = self.at(At::Onlooker, &mut command).output().unwrap();
        out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
    }

    pub fn etcdctl(&self, args: &[&str]) -> bool {
        self.told(args).is_some()
    }

    /// Lets the engines ask for users: `ann` with `pass` has this namespace.
    pub fn asks_for_users(&self, namespace: &str) {
        let role = format!("role grant-permission lab --prefix=true readwrite chappe/1/{namespace}/");
        for line in [
            "user add root:secret",
            "user grant-role root root",
            "role add lab",
            &role,
            "user add ann:pass",
            "user grant-role ann lab",
            "auth enable",
        ] {
            assert!(self.etcdctl(&line.split(' ').collect::<Vec<_>>()), "{line}");
        }
        *self.users.lock().unwrap() = true;
    }

    /// Raises the alarm of a full disk at an engine, which its own command cannot.
    pub fn alarm(&self, at: usize) -> bool {
        let address = self.address(At::Engine(at));
        self.within(At::Onlooker, move || {
            let token = post(address, "auth/authenticate", "", r#"{"name":"root","password":"secret"}"#);
            let token = token.as_deref().and_then(|text| Some(text.split("\"token\":\"").nth(1)?.split('"').next()?));
            let body = r#"{"action":"ACTIVATE","memberID":"0","alarm":"NOSPACE"}"#;
            post(address, "maintenance/alarm", token.unwrap_or(""), body).is_some_and(|text| text.contains("NOSPACE"))
        })
    }

    /// All names below the namespace.
    pub fn keys(&self, namespace: &str) -> Option<Vec<String>> {
        let all = self.told(&["get", "--prefix", "--keys-only", &format!("chappe/1/{namespace}/")])?;
        Some(all.split_whitespace().map(str::to_owned).collect())
    }

    /// A place whose `@lab` is this network's.
    pub fn config(&self, here: &Place, namespace: &str, ttl: &str) -> PathBuf {
        let config = here.file("config");
        std::fs::create_dir_all(config.join("chappe")).unwrap();
        let (secret, url) = (here.file("secret"), format!("etcd://{}/{namespace}", self.endpoints()));
        let mut text = format!("[lab]\nurl = \"{url}\"\nttl = \"{ttl}\"\n");
        if *self.users.lock().unwrap() {
            std::fs::write(&secret, "pass\n").unwrap();
            text += &format!("user = \"ann\"\npassword-file = \"{}\"\n", secret.display());
        }
        std::fs::write(config.join("chappe/remotes.toml"), text).unwrap();
        config
    }
}

/// Its namespace's name behind the tag, and its number.
fn plug(at: At, engines: usize) -> (String, u32) {
    match at {
        At::Engine(n) => (format!("e{n}"), 1 + n as u32),
        At::Host(n) => (format!("h{n}"), 101 + n as u32),
        At::Onlooker => ("c".to_owned(), 51 + engines as u32),
    }
}

/// Asks an engine by its gateway; `None`: no answer, or a refusal.
fn post(address: Ipv4Addr, path: &str, token: &str, body: &str) -> Option<String> {
    let at = SocketAddr::from((address, OWN[0]));
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let length = body.len();
    let text = format!(
        "POST /v3/{path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: {token}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().next()?.contains(" 200 ").then_some(answer)
}

/// Removes the networks, and the engines' data, of test programs that were killed.
fn sweep() {
    let gone = |rest: &str| rest.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let digits = name.strip_prefix("ch").map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or(""));
        if digits.is_some_and(gone) {
            ip(None, &format!("netns del {name}\n"));
        }
    }
    for entry in std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(|name| name.strip_prefix("lan-")).is_some_and(gone) {
            // Another program may do so at the same time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for at in 0..self.engines {
            self.end(at);
        }
        let mut switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = switch.0.kill();
        let _ = switch.0.wait();
        if std::thread::panicking() {
            for at in 0..self.engines {
                let log = std::fs::read_to_string(self.directory.join(format!("e{at}.log"))).unwrap_or_default();
                eprintln!("engine {at} said: {}", log.get(log.len().saturating_sub(2000)..).unwrap_or(&log));
            }
        }
        let _ = std::fs::remove_dir_all(&self.directory);
        for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let rest = name.strip_prefix(&self.tag);
            if rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())) {
                ip(None, &format!("netns del {name}\n"));
            }
        }
    }
}
