//! Whatever has become of an arena's file, a process that looks at it gets an answer or an error: it does not panic, look outside of the
//! mapping, run for ever, or wait.
//!
//! A process of its own looks at one damaged copy after the other, as `chappe ls`, `show` and `doctor` do, and says which it
//! is at: when it ends, or is silent for long, that one was too much. The same through the command itself, and what else can
//! lie in the directory: `crates/cli/tests/command/broken.rs`.

mod cast;
mod damage;

use cast::{ARENA, Cast, OBJECTS, PART};
use chappe::{Arena, ObjectState, Pool};
use damage::Whole;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long one look may take before it counts as one for ever.
const WATCHDOG: Duration = Duration::from_secs(120);
/// How many damages one process looks at.
const BATCH: u64 = 400;
/// After so many failures the rest is no news.
const ENOUGH: usize = 20;

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(part) = std::env::var(PART) else { return };
    match part.split(' ').collect::<Vec<_>>()[..] {
        ["look", image, seed, every, from, to] => {
            let number = |text: &str| text.parse().unwrap();
            look_at(Path::new(image), number(seed), number(every), number(from)..number(to));
        }
        _ => cast::act(&part),
    }
}

/// Where an arena's parts begin, beside its image.
fn image(path: &Path, seed: u64) -> Whole {
    let parts = std::fs::read_to_string(path.with_extension("parts")).unwrap();
    let parts: Vec<usize> = parts.split(' ').map(|at| at.parse().unwrap()).collect();
    Whole::new(std::fs::read(path).unwrap(), &parts, seed)
}

/// Looks at one damaged copy after the other.
fn look_at(path: &Path, seed: u64, every: u64, all: std::ops::Range<u64>) {
    let whole = image(path, seed);
    let here = chappe::directory().unwrap();
    for n in all {
        println!(">{n}");
        let name = format!("d{n}");
        std::fs::write(here.join(&name), whole.damaged(n * every).bytes).unwrap();
        look(&name);
        std::fs::remove_file(here.join(&name)).unwrap();
    }
}

/// All that `ls`, `show` and `doctor` ask of an arena.
fn look(name: &str) {
    let Ok(arena) = Arena::open(name) else { return };
    see(arena);
    arena.map().recover_dead();
    see(arena);
    let health = chappe::doctor::examine(name);
    assert!(health.error.is_none() && health.capacity.is_some());
    see(arena);
}

fn see(arena: Arena) {
    let _ = (arena.members(), arena.capacity());
    for name in OBJECTS {
        let _ = arena.object(name).is_ok();
    }
    for object in arena.objects() {
        let _ = (arena.object(&object.name).is_ok(), arena.waiters(&object.name).is_ok());
        if let ObjectState::Pool(_) = object.state
            && let Ok(pool) = Pool::in_arena(arena, &object.name)
        {
            let _ = (pool.reclaim(), pool.holders(), pool.waiters());
        }
    }
}

/// Has a process look at some. Answers at which it failed, and how.
fn watched(house: &Path, part: &str, from: u64) -> Option<(u64, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "actor", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env("RUST_BACKTRACE", "0")
        .env("CHAPPE_DIR", house)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (tell, told) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if let Some(n) = line.split_once('>').and_then(|(_, n)| n.parse::<u64>().ok()) {
                let _ = tell.send(n);
            }
        }
    });
    let mut last = from;
    let silent = loop {
        match told.recv_timeout(WATCHDOG) {
            Ok(n) => last = n,
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    if silent {
        child.kill().unwrap();
    }
    let ended = child.wait_with_output().unwrap();
    if silent {
        return Some((last, "it takes for ever".into()));
    }
    let why = String::from_utf8_lossy(&ended.stderr);
    (!ended.status.success()).then(|| (last, format!("{}: {}", ended.status, why.trim())))
}

/// Every so many of the damages, with `CHAPPE_TEST_ALL` (`cargo xtask test --all`); else a tenth of those. Every single one if
/// `CHAPPE_TEST_DAMAGES` is set.
fn each(share: u64) -> u64 {
    match (std::env::var_os("CHAPPE_TEST_DAMAGES"), std::env::var_os("CHAPPE_TEST_ALL")) {
        (Some(_), _) => 1,
        (None, Some(_)) => share,
        (None, None) => 10 * share,
    }
}

/// Looks at every so many of the damages of the arena as it is; fails if one was too much.
fn endure(house: &Path, name: &str, parts: &[usize], every: u64) {
    let seed = std::env::var("CHAPPE_TEST_SEED").map_or(1, |s| s.parse().unwrap());
    let path = house.join(format!(".{name}"));
    std::fs::copy(house.join(ARENA), &path).unwrap();
    let text: Vec<String> = parts.iter().map(usize::to_string).collect();
    std::fs::write(path.with_extension("parts"), text.join(" ")).unwrap();
    let whole = image(&path, seed);
    let count = whole.count() / every;
    let (next, failed) = (Mutex::new(0), Mutex::new(Vec::new()));
    let began = Instant::now();
    let work = || {
        loop {
            let mut from = {
                let mut next = next.lock().unwrap();
                *next += BATCH;
                *next - BATCH
            };
            let to = (from + BATCH).min(count);
            while from < to && failed.lock().unwrap().len() < ENOUGH {
                let part = format!("look {} {seed} {every} {from} {to}", path.display());
                let Some((at, why)) = watched(house, &part, from) else { break };
                failed.lock().unwrap().push(format!("{at}, {}: {why}", whole.damaged(at * every).how));
                from = at + 1;
            }
            if to == count || from >= count {
                return;
            }
        }
    };
    std::thread::scope(|s| {
        s.spawn(work);
        s.spawn(work);
    });
    println!("{name}: {count} damages, seed {seed}, {:.1} s", began.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "CHAPPE_TEST_SEED={seed}, {name}:\n{}", failed.join("\n"));
}

struct House(PathBuf);

impl House {
    fn new(name: &str) -> House {
        let path = PathBuf::from(format!("/dev/shm/chappe-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        House(path)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_damaged_arena_is_looked_at_without_harm() {
    let house = House::new("broken");
    let mut cast = Cast::start("actor", &house.0, "victim");
    endure(&house.0, "some-dead", &cast.parts, each(5));
    cast.kill_all();
    endure(&house.0, "all-dead", &cast.parts, each(17));
}

#[test]
fn a_damaged_arena_with_orphans_is_looked_at_without_harm() {
    let house = House::new("orphans");
    let cast = Cast::start("actor", &house.0, "victim-with-job");
    endure(&house.0, "orphans", &cast.parts, each(53));
}
