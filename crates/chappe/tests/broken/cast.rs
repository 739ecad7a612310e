//! An arena with one of everything in it, in the middle of things: held, waited for, half-sent, and left by the dead.
//!
//! Four processes are at it, all of them this same program: a maker, which stays; a victim, which is killed and not made up for,
//! since the others are stopped before; a holder; and one whose threads wait for everything. The command's tests use this,
//! too: nothing here is of the test itself.

use chappe::tube::named::{Kind, Tube, TubeOptions};
use chappe::{Arena, ArenaOptions, Condvar, Mutex, MutexGuard, Pool, Semaphore};
use std::io::{BufRead, BufReader, Write};
use std::mem::forget;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What it is called.
pub const ARENA: &str = "whole";
/// What tells a process its part.
pub const PART: &str = "CHAPPE_TEST_PART";

/// What is in it, and what was removed from it by force.
pub const OBJECTS: [&str; 21] = [
    "one",
    "many",
    "owned",
    "free",
    "none",
    "some",
    "barging",
    "held",
    "left",
    "torn",
    "condemned",
    "waited",
    "condition",
    "tube",
    "full",
    "empty",
    "single",
    "dropping",
    "bytes",
    "gone",
    "removed",
];
/// How many wait, each for something of its own.
const WAITERS: usize = 9;

fn named(object: &str) -> String {
    format!("{ARENA}/{object}")
}

fn pool(object: &str) -> Pool {
    Pool::open(&named(object)).unwrap()
}

fn mutex(object: &str) -> Mutex<[u64; 4]> {
    Mutex::open(&named(object)).unwrap()
}

fn tube(object: &str) -> Tube<[u64; 2]> {
    Tube::open(&named(object)).unwrap()
}

fn options(slots: u32, kind: Kind, drops: bool) -> TubeOptions {
    TubeOptions { slots, kind, drops, ..TubeOptions::default() }
}

fn say(text: &str) {
    println!(">{text}");
}

fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// What a process of it does.
pub fn act(part: &str) {
    match part {
        "maker" => make(),
        "victim" => die(false),
        "victim-with-job" => die(true),
        "holder" => hold(),
        "waiters" => wait(),
        other => panic!("no such part: {other}"),
    }
}

fn make() {
    // Small, so that each of its words can be spoilt.
    let small = ArenaOptions { members: Some(40), objects: Some(48), cells: Some(24), data: Some(16384) };
    let arena = Arena::create(ARENA, &small).unwrap();
    for (name, permits) in [("one", 1), ("many", 6), ("owned", 3), ("free", 2)] {
        Pool::create(&named(name), permits).unwrap();
    }
    for (name, value) in [("none", 0), ("some", 5)] {
        Semaphore::create(&named(name), value).unwrap();
    }
    Semaphore::create_barging(&named("barging"), 0).unwrap();
    for name in ["held", "left", "torn", "condemned", "gone", "waited"] {
        Mutex::create(&named(name), [7u64; 4]).unwrap();
    }
    Condvar::create(&named("condition")).unwrap();
    for (name, slots, kind, drops) in [
        ("tube", 8, Kind::Mpmc, false),
        ("full", 2, Kind::Mpmc, false),
        ("empty", 2, Kind::Mpsc, false),
        ("single", 4, Kind::Spsc, false),
        ("dropping", 4, Kind::Spmc, true),
        ("removed", 2, Kind::Mpmc, false),
    ] {
        Tube::<[u64; 2]>::create(&named(name), &options(slots, kind, drops)).unwrap();
    }
    Tube::<[u8]>::create(&named("bytes"), &TubeOptions { slots: 4, size: 100, ..TubeOptions::default() }).unwrap();
    MutexGuard::condemn(mutex("condemned").lock().unwrap());
    let g = arena.map().geometry();
    let parts =
        [g.members_at(), g.objects_at(), g.waiting_at(), g.cells_at(), g.names_at(), g.owners_at(), g.blocks_at()];
    say(&parts.map(|at| at.to_string()).join(" "));
    loop {
        listen();
        say(&arena.objects().iter().map(|o| o.waiting as usize).sum::<usize>().to_string());
    }
}

fn die(with_job: bool) {
    let (one, many, owned) = (pool("one"), pool("many"), pool("owned"));
    let mut first = many.acquire().unwrap();
    let lease = with_job.then(|| first.lease().unwrap());
    let held = (one.acquire().unwrap(), many.acquire().unwrap(), owned.acquire_owned().unwrap());
    let (left, torn) = (mutex("left"), mutex("torn"));
    let locked = (left.lock().unwrap(), torn.lock().unwrap());
    let (t, single, dropping) = (tube("tube"), tube("single"), tube("dropping"));
    let (mut sender, receiver) = (t.sender().unwrap(), t.receiver().unwrap());
    (0..4).for_each(|n| sender.send([n, n]).unwrap());
    let looking = (receiver.borrow().unwrap(), receiver.borrow().unwrap());
    let writing = sender.reserve().unwrap();
    let (only, drops) = (single.sender().unwrap(), (dropping.sender().unwrap(), dropping.receiver().unwrap()));
    only.send([1, 2]).unwrap();
    drops.0.send([3, 4]).unwrap();
    let dropped = drops.1.borrow().unwrap();
    say("ready");
    listen();
    forget((first, lease, held, locked));
    forget((looking, writing, only, dropped));
    forget(drops.0);
}

fn hold() {
    let pool = pool("many");
    let many = pool.acquire().unwrap();
    let (held, gone) = (mutex("held"), mutex("gone"));
    let locked = (held.lock().unwrap(), gone.lock().unwrap());
    let (full, removed) = (tube("full"), tube("removed"));
    let ends = (full.sender().unwrap(), full.receiver().unwrap(), removed.sender().unwrap());
    (0..2).for_each(|n| ends.0.send([n, n]).unwrap());
    let bytes = Tube::<[u8]>::open(&named("bytes")).unwrap();
    let bytes = (bytes.sender().unwrap(), bytes.receiver().unwrap());
    bytes.0.send(b"as many as there are").unwrap();
    let receiving = (tube("single").receiver().unwrap(), tube("empty").sender().unwrap());
    Mutex::<()>::remove(&named("gone"), true).unwrap();
    Tube::<[u8]>::remove(&named("removed"), true).unwrap();
    say("ready");
    listen();
    drop((many, locked, ends, bytes, receiving));
}

fn wait() {
    std::thread::scope(|s| {
        s.spawn(|| pool("one").acquire().map(drop).is_ok());
        s.spawn(|| pool("many").acquire_many(6).map(drop).is_ok());
        s.spawn(|| Semaphore::open(&named("none")).unwrap().down());
        s.spawn(|| Semaphore::open(&named("barging")).unwrap().down());
        s.spawn(|| mutex("held").lock().map(drop).is_ok());
        s.spawn(|| mutex("left").lock().map(drop).is_ok());
        s.spawn(|| Condvar::open(&named("condition")).unwrap().wait(mutex("waited").lock().unwrap()).map(drop).is_ok());
        s.spawn(|| tube("full").sender().unwrap().send([9, 9]).is_ok());
        s.spawn(|| tube("empty").receiver().unwrap().recv().is_ok());
        say("ready");
    });
}

/// A process of it, killed when the test is over.
pub struct Actor {
    child: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Actor {
    /// `program` is the test of this program that calls [`act`].
    fn start(program: &str, house: &Path, part: &str) -> Actor {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", program, "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env("CHAPPE_DIR", house)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, says) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Actor { child, told, says }
    }

    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "it ended without a word");
            if let Some((_, text)) = line.split_once('>') {
                return text.trim().to_owned();
            }
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn stop(&self) {
        // SAFETY: a plain system call on a child of ours.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, libc::SIGSTOP) }, 0);
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        eventually("it has stopped", || stat().rsplit(')').next().unwrap().starts_with(" T"));
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: still not so after a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// All processes of the scene.
pub struct Cast {
    /// Where the arena's parts begin.
    pub parts: Vec<usize>,
    /// The stopped process that holds things.
    pub holder: Actor,
    /// The stopped process that waits.
    pub waiters: Actor,
    _maker: Actor,
}

impl Cast {
    /// Sets it up. The victim is dead when this answers, and it has not been recovered.
    pub fn start(program: &str, house: &Path, victim: &str) -> Cast {
        let mut maker = Actor::start(program, house, "maker");
        let parts = maker.hear().split(' ').map(|at| at.parse().unwrap()).collect();
        let ready = |part| {
            let mut actor = Actor::start(program, house, part);
            assert_eq!(actor.hear(), "ready");
            actor
        };
        let (holder, mut victim, waiters) = (ready("holder"), ready(victim), ready("waiters"));
        eventually("all wait", || {
            writeln!(maker.told, "how many?").unwrap();
            maker.hear() == WAITERS.to_string()
        });
        holder.stop();
        waiters.stop();
        victim.kill();
        Cast { parts, holder, waiters, _maker: maker }
    }

    /// Everybody but the maker is dead.
    pub fn kill_all(&mut self) {
        self.waiters.kill();
        self.holder.kill();
    }
}
