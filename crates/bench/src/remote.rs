//! Pools and tubes of many machines beside their peers, on three nodes on this machine that sync each write: `cargo xtask bench remote`.
//!
//! | row | aim |
//! |---|---|
//! | a permit taken and given back | 1.15 of a bare transaction and a deletion, by the same client |
//! | the same of a choice of 8 pools, all free | 1.25 of a pair |
//! | from a release to the next holder | 0.8 of Go's `concurrency.Mutex` whose waiter came long before, 0.15 of one whose waiter came just before |
//! | the whole command | 0.5 of `etcdctl lock x true` |
//! | chappe and its job killed, to the next job | 100 ms, 99 of 100 |
//! | a host cut off, to the next holder; its job's death before that | TTL + 1 s; 0.3 s |
//! | records of 64 B | 30,000 a second |
//! | from send to receive | 1.1 of JetStream's, of three nodes, each write synced |
//! | an idle waiter | nothing but renewals |
//!
//! Rows of one table take turns, round by round; a round's figure is the median of what it did.

use crate::relay::{Relay, Rule};
use crate::table::{Aim, Table, Unit, nanoseconds, times as ratio};
use chappe::remote::engine::{Compare, Engine, Keys, Op, Test, Txn};
use chappe::remote::etcd::Etcd;
use chappe::remote::life;
use chappe::remote::place::Place;
use chappe::remote::{Patience, Permit, Pool, Remote, acquire_any};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The programs that are measured.
pub struct Programs<'a> {
    /// The command.
    pub chappe: &'a Path,
    /// A directory with `etcd`, `etcdctl` and `peers`.
    pub engines: &'a Path,
}

/// Processes that end with this, and their data.
struct Nodes {
    all: Vec<Child>,
    endpoints: Vec<String>,
    directory: PathBuf,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.all {
            let _ = node.kill();
            let _ = node.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn ports(many: usize) -> Result<Vec<u16>> {
    let all: Vec<TcpListener> =
        (0..many).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<std::io::Result<_>>()?;
    Ok(all.iter().map(|one| one.local_addr().map(|at| at.port())).collect::<std::io::Result<_>>()?)
}

impl Nodes {
    /// Three nodes, whose commands are made of their number, all ports for clients, and all for peers.
    fn three(name: &str, make: impl Fn(usize, &[u16], &[u16], &Path) -> Command) -> Result<Nodes> {
        // Not in memory: what is synced must cost what it costs.
        let directory = std::env::current_dir()?.join(format!("target/bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let (clients, peers) = (ports(3)?, ports(3)?);
        let endpoints = clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut nodes = Nodes { all: Vec::new(), endpoints, directory };
        for at in 0..3 {
            let mut command = make(at, &clients, &peers, &nodes.directory.join(format!("n{at}")));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            nodes.all.push(command.spawn()?);
        }
        Ok(nodes)
    }

    fn etcd(engines: &Path) -> Result<Nodes> {
        Nodes::three("etcd", |at, clients, peers, data| {
            let peer = |of: usize| format!("http://127.0.0.1:{}", peers[of]);
            let all = (0..3).map(|of| format!("n{of}={}", peer(of))).collect::<Vec<_>>().join(",");
            let client = format!("http://127.0.0.1:{}", clients[at]);
            let mut command = Command::new(engines.join("etcd"));
            command.args(["--name", &format!("n{at}"), "--log-level", "error", "--initial-cluster", &all]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer(at), "--initial-advertise-peer-urls", &peer(at)]);
            command.arg("--data-dir").arg(data);
            command
        })
    }

    fn jetstream(engines: &Path) -> Result<Nodes> {
        Nodes::three("jetstream", |at, clients, peers, data| {
            let routes = peers.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
            let mut command = Command::new(engines.join("peers"));
            command.args(["server", &format!("n{at}"), &clients[at].to_string(), &peers[at].to_string(), &routes]);
            command.arg(data);
            command
        })
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The figures that a program prints.
fn figures(command: &mut Command) -> Result<Vec<f64>> {
    let out = command.stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        return Err(format!("{command:?} ended with {}", out.status).into());
    }
    Ok(String::from_utf8(out.stdout)?.lines().filter_map(|line| line.parse().ok()).collect())
}

fn each(times: u32, mut what: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut all = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        what()?;
        all.push(begun.elapsed().as_nanos() as f64);
    }
    Ok(median(all))
}

/// A key put if it is absent, with a lease, and deleted if it is that: what any lock must do.
fn bare(etcd: &Etcd, lease: chappe::remote::engine::LeaseId) -> Result<()> {
    let key = || Keys::One("bench/bare".into());
    let put = Op::Put { key: "bench/bare".into(), value: b"me".to_vec(), lease: Some(lease) };
    let when = vec![Compare { keys: key(), is: Test::Absent }];
    let taken = etcd.txn(&Txn { when, then: vec![put], otherwise: vec![] })?;
    let when = vec![Compare { keys: key(), is: Test::Modified(taken.revision) }];
    let gone = etcd.txn(&Txn { when, then: vec![Op::Delete(key())], otherwise: vec![] })?;
    if taken.held && gone.held { Ok(()) } else { Err("somebody else is there".into()) }
}

/// From a release to the next holder, a waiter that came so long before.
fn hand_off(pools: &[Pool; 2], times: u32, before: Duration) -> Result<f64> {
    let mut held = pools[0].acquire()?;
    let mut all = Vec::new();
    for turn in 0..times as usize {
        let (waiter, (tell, has)) = (&pools[(turn + 1) % 2], channel());
        let (next, took) = std::thread::scope(|scope| -> Result<(Permit, f64)> {
            scope.spawn(move || tell.send(waiter.acquire().map(|permit| (permit, Instant::now()))));
            std::thread::sleep(before);
            let begun = Instant::now();
            held.release()?;
            let (next, at) = has.recv()??;
            Ok((next, at.saturating_duration_since(begun).as_nanos() as f64))
        })?;
        held = next;
        all.push(took);
    }
    held.release()?;
    Ok(median(all))
}

/// Rows that take turns, and what they come to.
struct Turns<'a> {
    rows: Vec<(String, Box<dyn FnMut() -> Result<f64> + 'a>)>,
}

impl<'a> Turns<'a> {
    fn row(mut self, name: &str, run: impl FnMut() -> Result<f64> + 'a) -> Turns<'a> {
        self.rows.push((name.to_owned(), Box::new(run)));
        self
    }

    fn measure(mut self, title: &str, rounds: u32) -> Result<Table> {
        let mut all: Vec<(String, Vec<f64>)> = self.rows.iter().map(|(name, _)| (name.clone(), Vec::new())).collect();
        // The first round warms up.
        for round in 0..=rounds {
            for (at, (_, run)) in self.rows.iter_mut().enumerate() {
                let figure = run()?;
                if round > 0 {
                    all[at].1.push(figure);
                }
            }
        }
        let table = Table::of(title, all);
        print!("{}", table.report());
        Ok(table)
    }
}

/// What a relay does that only cuts, or counts.
const PLAIN: Rule = Rule { delay: (Duration::ZERO, Duration::ZERO), lost: 0, seed: 1 };

const BARE: &str = "a bare transaction and a deletion";
const PAIR: &str = "a permit taken and given back";
const EIGHT: &str = "a permit of one of 8 pools, all free";
const OURS: &str = "a permit handed over";
const SETTLED: &str = "Go's Mutex, whose waiter came 300 ms before";
const JUST: &str = "Go's Mutex, whose waiter came 15 ms before";

/// What all tables are measured with.
struct Bench<'a> {
    programs: &'a Programs<'a>,
    nodes: Nodes,
    url: String,
    place: Place,
    lab: Remote,
    rounds: u32,
    times: u32,
}

/// Measures all, and prints.
///
/// # Errors
/// An engine does not begin, or what a program says.
pub fn measure(programs: &Programs<'_>, quick: bool) -> Result<Vec<Aim>> {
    let (rounds, times) = if quick { (3, 20) } else { (7, 40) };
    let nodes = Nodes::etcd(programs.engines)?;
    let url = format!("etcd://{}/bench", nodes.endpoints.join(","));
    let mut place = Place::url(&url)?;
    place.options.connect_timeout = Duration::from_secs(60);
    let lab = Remote::connect(&place, "bench")?;
    let bench = Bench { programs, nodes, url, place, lab, rounds, times };
    let mut aims = bench.pairs()?;
    aims.extend(bench.hand_offs()?);
    aims.push(bench.commands()?);
    aims.push(bench.deaths(if quick { 20 } else { 100 })?);
    aims.extend(bench.cuts(if quick { 2 } else { 5 })?);
    aims.push(bench.idle(if quick { 10 } else { 20 })?);
    aims.extend(bench.tubes()?);
    Ok(aims)
}

impl Bench<'_> {
    /// The median of what a peer in Go prints.
    fn peer(&self, args: &[&str]) -> Result<f64> {
        Ok(median(figures(Command::new(self.programs.engines.join("peers")).args(args))?))
    }

    fn endpoints(&self) -> String {
        self.nodes.endpoints.join(",")
    }

    fn pairs(&self) -> Result<Vec<Aim>> {
        let etcd = Etcd::connect(&self.place.options)?;
        let (lease, _) = etcd.grant(Duration::from_secs(600))?;
        let pool = self.lab.create_pool("pair", 1)?;
        let eight: std::result::Result<Vec<Pool>, _> =
            (0..8).map(|at| self.lab.create_pool(&format!("of8-{at}"), 1)).collect();
        let eight = eight?;
        let eight: Vec<&Pool> = eight.iter().collect();
        // These rows differ by a tenth, and what syncs a disk beside them by more: many short turns.
        let (rounds, times) = (self.rounds * 5, self.times / 2);
        let (n, endpoints) = (times.to_string(), self.endpoints());
        let table = Turns { rows: vec![] }
            .row(BARE, || each(times, || bare(&etcd, lease)))
            .row(PAIR, || each(times, || Ok(pool.acquire()?.release()?)))
            .row(EIGHT, || each(times, || Ok(acquire_any(&eight, Patience::Forever)?.1.release()?)))
            .row("Go: a bare transaction and a deletion", || self.peer(&["txn", &n, &endpoints]))
            .row("Go: concurrency.Mutex", || self.peer(&["mutex", &n, &endpoints]))
            .measure("taken and given back", rounds)?;
        etcd.revoke(lease)?;
        Ok(vec![
            Aim::at_most("a pair, to a bare transaction and a deletion", 1.15, table.ratio(PAIR), ratio),
            Aim::at_most("a choice of 8 free pools, to a pair", 1.25, table.ratio_to(EIGHT, PAIR), ratio),
        ])
    }

    fn hand_offs(&self) -> Result<Vec<Aim>> {
        let other = Remote::connect(&self.place, "bench")?;
        let pools = [self.lab.create_pool("hand", 1)?, other.pool("hand")?];
        let (times, endpoints) = (self.times / 4, self.endpoints());
        let n = times.to_string();
        let go = |before: &str| self.peer(&["handoff", &n, before, &endpoints]);
        let table = Turns { rows: vec![] }
            .row(OURS, || hand_off(&pools, times, Duration::from_millis(300)))
            .row("the same, whose waiter came 15 ms before", || hand_off(&pools, times, Duration::from_millis(15)))
            .row(SETTLED, || go("300"))
            .row(JUST, || go("15"))
            .measure("from a release to the next holder", self.rounds)?;
        Ok(vec![
            Aim::at_most("a hand-over, to Go's with a settled waiter", 0.8, table.ratio_to(OURS, SETTLED), ratio),
            Aim::at_most(
                "a hand-over, to Go's with one that came just before",
                0.15,
                table.ratio_to(OURS, JUST),
                ratio,
            ),
        ])
    }

    fn commands(&self) -> Result<Aim> {
        self.lab.create_pool("command", 1)?;
        let endpoints = self.endpoints();
        let lock = "etcdctl lock x true";
        let acquire = "chappe acquire x -- true";
        // As above.
        let (rounds, times) = (self.rounds * 5, self.times / 4);
        let table = Turns { rows: vec![] }
            .row(lock, || {
                each(times, || {
                    let mut command = Command::new(self.programs.engines.join("etcdctl"));
                    ran(command.args(["--endpoints", &endpoints, "lock", "x", "true"]).stderr(Stdio::null()))
                })
            })
            .row(acquire, || {
                each(times, || {
                    ran(Command::new(self.programs.chappe)
                        .args(["--on", &self.url, "acquire", "command", "--", "true"]))
                })
            })
            .measure("the whole command", rounds)?;
        Ok(Aim::at_most("the command, to etcdctl's", 0.5, table.ratio(acquire), ratio))
    }

    /// A permit that a job holds: its chappe, and the job that this becomes.
    fn holds(&self, url: &str, pool: &Pool, args: &[&str]) -> Result<(Child, i32)> {
        let chappe = Command::new(self.programs.chappe)
            .args(["--on", url, "acquire"])
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        while pool.info()?.held == 0 {}
        let path = format!("/proc/{0}/task/{0}/children", chappe.id());
        let is =
            |pid: &&str| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"));
        loop {
            let all = std::fs::read_to_string(&path)?;
            if let Some(job) = all.split_whitespace().find(is).and_then(|pid| pid.parse::<i32>().ok()) {
                return Ok((chappe, job));
            }
        }
    }

    /// When one that waits has the permit after what befalls its holder.
    fn after(pool: &Pool, befalls: impl FnOnce() -> Result<()>) -> Result<(Instant, Instant)> {
        let (tell, has) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || tell.send(pool.acquire().map(|permit| (permit, Instant::now()))));
            while pool.info()?.waiting == 0 {}
            let begun = Instant::now();
            befalls()?;
            let (permit, at) = has.recv()??;
            permit.release()?;
            Ok((begun, at))
        })
    }

    /// From the death of chappe and its job to the next job's begin.
    fn deaths(&self, many: u32) -> Result<Aim> {
        let pool = self.lab.create_pool("death", 1)?;
        let mut all = Vec::new();
        for _ in 0..many {
            let (mut chappe, job) = self.holds(&self.url, &pool, &["--ttl", "1h", "death", "--", "sleep", "1000"])?;
            let (begun, at) = Self::after(&pool, || {
                chappe.kill()?;
                // SAFETY: a plain system call; the job is there, as its chappe was until now.
                unsafe { libc::kill(job, libc::SIGKILL) };
                Ok(())
            })?;
            chappe.wait()?;
            all.push(at.saturating_duration_since(begun).as_nanos() as f64);
        }
        let table = Table::of("chappe and its job are killed", vec![("to the next holder".into(), all)]);
        print!("{}", table.report());
        Ok(Aim::at_most(
            "chappe and its job killed, to the next holder, p99",
            1e8,
            table.rows()[0].quantile(0.99),
            nanoseconds,
        ))
    }

    /// From the cut of a host's only line to the next holder, and to the death of its job, which does not listen to TERM.
    fn cuts(&self, many: u32) -> Result<Vec<Aim>> {
        let (pool, to) = (self.lab.create_pool("cut", 1)?, self.nodes.endpoints[0].parse()?);
        let (mut deaths, mut nexts, mut between) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..many {
            let relay = Relay::tcp((Ipv4Addr::LOCALHOST, 0), to, PLAIN)?;
            let url = format!("etcd://127.0.0.1:{}/bench", relay.port);
            let deaf = ["cut", "--", "sh", "-c", "trap '' TERM; exec sleep 1000"];
            let (mut chappe, job) = self.holds(&url, &pool, &deaf)?;
            let end = std::thread::spawn(move || ended(job));
            let (begun, at) = Self::after(&pool, || {
                relay.cut(true);
                Ok(())
            })?;
            let died = end.join().map_err(|_| "the thread has panicked")??;
            if chappe.wait()?.code() != Some(125) {
                return Err("a chappe that was cut off did not lose its permit".into());
            }
            deaths.push(died.saturating_duration_since(begun).as_nanos() as f64);
            nexts.push(at.saturating_duration_since(begun).as_nanos() as f64);
            // Less than nothing is what must not be.
            between.push(nexts[nexts.len() - 1] - deaths[deaths.len() - 1]);
        }
        let (next, gap) = ("to the next holder", "from the job's death to the next holder");
        let rows = vec![("to the job's death".into(), deaths), (next.into(), nexts), (gap.into(), between)];
        let table = Table::of("a host is cut off; time to live 10 s", rows);
        print!("{}", table.report());
        let most = (life::USUAL + Duration::from_secs(1)).as_nanos() as f64;
        Ok(vec![
            Aim::at_most(
                "a host cut off, to the next holder, at worst",
                most,
                table.row(next).quantile(1.0),
                nanoseconds,
            ),
            Aim::at_least("its job's death before that, at least", 0.3e9, table.row(gap).quantile(0.0), nanoseconds),
        ])
    }

    /// What one that waits says meanwhile, by a relay that counts.
    fn idle(&self, seconds: u64) -> Result<Aim> {
        let pool = self.lab.create_pool("idle", 1)?;
        let held = pool.acquire()?;
        let to: SocketAddr = self.nodes.endpoints[0].parse()?;
        let relay = Relay::tcp((Ipv4Addr::LOCALHOST, 0), to, PLAIN)?;
        let mut through = Place::url(&format!("etcd://127.0.0.1:{}/bench", relay.port))?;
        through.options.connect_timeout = Duration::from_secs(60);
        let other = Remote::connect(&through, "bench")?;
        let waited = other.pool("idle")?;
        let figures = std::thread::scope(|scope| -> Result<(u64, u64)> {
            scope.spawn(move || waited.acquire().map(|permit| permit.release()));
            while pool.info()?.waiting == 0 {}
            std::thread::sleep(Duration::from_secs(3));
            let before = relay.carried();
            std::thread::sleep(Duration::from_secs(seconds));
            let after = relay.carried();
            held.release()?;
            Ok((after.0 - before.0, after.1 - before.1))
        })?;
        let (up, down) = (figures.0 as f64 / seconds as f64, figures.1 as f64 / seconds as f64);
        let rows = vec![("to the engine".into(), vec![up]), ("from the engine".into(), vec![down])];
        print!("{}", Table::counted("bytes a second of one that waits", Unit::Bytes, rows).report());
        // A renewal each 2 s is one frame of data of 30 B and its acknowledgement; a ping each 6 s.
        Ok(Aim::at_most("an idle waiter: bytes a second to the engine", 64.0, up, |bytes| format!("{bytes:.0} B")))
    }

    fn tubes(&self) -> Result<Vec<Aim>> {
        let servers = Nodes::jetstream(self.programs.engines)?;
        let nats = servers.endpoints.iter().map(|at| format!("nats://{at}")).collect::<Vec<_>>().join(",");
        let other = Remote::connect(&self.place, "bench")?;
        let one = self.lab.create_tube("one", 64, 64)?;
        let (mut sender, mut receiver) = (one.sender()?, other.tube("one")?.receiver()?);
        let (ours, theirs) = ("chappe, send to receive", "JetStream R3, sync always");
        let n = self.times.to_string();
        let latency = Turns { rows: vec![] }
            .row(ours, || {
                each(self.times, || {
                    std::thread::scope(|scope| {
                        let sends = scope.spawn(|| sender.send(&[0; 64]).map_err(|e| e.to_string()));
                        receiver.recv()?;
                        sends.join().map_err(|_| "the sender has panicked")??;
                        Ok(())
                    })
                })
            })
            .row(theirs, || self.peer(&["send-recv", &n, &nats]))
            .measure("a record of 64 B, from send to receive", self.rounds)?;
        let many = 100_000usize;
        let flow = self.lab.create_tube("flow", 64, 64)?;
        let mut ours_a_second = Vec::new();
        let mut theirs_a_second = Vec::new();
        for round in 0..=self.rounds {
            let (mut sender, mut receiver) = (flow.sender()?, other.tube("flow")?.receiver()?);
            let records = vec![[0u8; 64]; many];
            let begun = Instant::now();
            std::thread::scope(|scope| -> Result<()> {
                let sends =
                    scope.spawn(move || sender.send_all(&records, Patience::Forever).map_err(|e| e.to_string()));
                for _ in 0..many {
                    receiver.recv()?.ok_or("the tube has ended")?;
                }
                sends.join().map_err(|_| "the sender has panicked")??;
                Ok(())
            })?;
            let a_second = many as f64 / begun.elapsed().as_secs_f64();
            let peer = self.peer(&["flow", "5000", &nats])?;
            if round > 0 {
                ours_a_second.push(a_second);
                theirs_a_second.push(peer);
            }
        }
        let rows = vec![
            ("chappe".into(), ours_a_second),
            ("JetStream R3, sync always, 256 in flight".into(), theirs_a_second),
        ];
        let table = Table::counted("records of 64 B a second, received and acknowledged", Unit::Count, rows);
        print!("{}", table.report());
        let rate = table.rows()[0].quantile(0.5);
        Ok(vec![
            Aim::at_most("send to receive, to JetStream", 1.1, latency.ratio_to(ours, theirs), ratio),
            Aim::at_most("a record of 64 B in a stream (30,000 a second)", 1e9 / 30_000.0, 1e9 / rate, nanoseconds),
        ])
    }
}

/// When a process ends that is not our child.
fn ended(pid: i32) -> std::io::Result<Instant> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, on our stack.
    while unsafe { libc::poll(&raw mut one, 1, -1) } != 1 {}
    Ok(Instant::now())
}

/// A command that must do what it is told.
fn ran(command: &mut Command) -> Result<()> {
    match command.stdin(Stdio::null()).stdout(Stdio::null()).status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?} ended with {status}").into()),
    }
}
