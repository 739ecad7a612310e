//! Many processes that wait in one arena: what they cost while nothing happens, how soon a death is found, and how they fare on
//! one semaphore.
//!
//! `chappe-bench waiters N...`, for each N:
//!
//! - *idle*: N processes wait for a permit that is not given back. The kernel says how long each of their threads has run
//!   (`/proc/PID/task/TID/schedstat`), and which descriptors they have.
//! - *death*: beside them one process has a permit, and one waits for it. The holder is killed; the waiter notes the time when it has
//!   the permit. Then the same, and the process that watches for all is killed just before.
//! - *semaphore*: N processes each take and raise one semaphore some times; beside it the C library's.

use crate::house::House;
use crate::peers::{Lock, Semaphore as Posix};
use crate::process::{Child, now, shared};
use crate::raw::Scope;
use chappe::{Arena, ArenaOptions, Pool, Semaphore};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long idle processes are measured.
const IDLE: Duration = Duration::from_secs(10);
/// How many deaths.
const DEATHS: u64 = 200;
/// How many deaths with the watcher's.
const WATCHERS: u64 = 20;
/// How often each takes the semaphore.
const ROUNDS: u32 = 10;

fn until(what: impl Fn() -> bool, why: &str) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(600), "{why}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// How long the process's threads have run, in nanoseconds.
fn run_time(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).ok();
    tasks.filter_map(of).filter_map(|all| all.split(' ').next()?.parse::<u64>().ok()).sum()
}

fn count(pid: u32, what: &str) -> usize {
    fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count)
}

/// The process that watches for all in the arena.
fn watcher(arena: &Arena) -> Option<u32> {
    // The number of its thread.
    let thread = arena.map().header().watch.word().load(SeqCst) & 0x3fff_ffff;
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

fn quantile(samples: &mut [u64], at: f64) -> f64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get((last as f64 * at).round() as usize).copied().unwrap_or(0) as f64 / 1e6
}

/// Waits for what is taken from others, as often as it is told, and notes when it had it: order, begun, time.
fn heir(board: &[AtomicU64; 4], prey: &Pool) {
    for turn in 1.. {
        while board[0].load(SeqCst) < turn {
            std::thread::sleep(Duration::from_micros(200));
        }
        board[1].store(turn, SeqCst);
        let permit = prey.acquire().expect("a permit");
        board[2].store(now(), SeqCst);
        permit.release();
    }
}

/// Milliseconds from a holder's death to the next, with the watcher's death before it or not.
fn deaths(
    arena: &Arena,
    waiting: &mut Vec<Child>,
    turns: u64,
    board: &[AtomicU64; 4],
    too: bool,
    prey: &Pool,
) -> Vec<u64> {
    let mut all = Vec::new();
    for _ in 0..turns {
        let turn = board[0].load(SeqCst) + 1;
        let holder = Child::fork(|| {
            let _permit = prey.acquire().expect("a permit");
            board[3].store(turn, SeqCst);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        until(|| board[3].load(SeqCst) == turn, "nobody holds");
        board[2].store(0, SeqCst);
        board[0].store(turn, SeqCst);
        until(|| board[1].load(SeqCst) == turn, "nobody waits");
        std::thread::sleep(Duration::from_millis(3));
        let victim = if too { watcher(arena) } else { None };
        let victim = victim.and_then(|pid| waiting.iter().position(|c| c.pid() == pid));
        let killed = now();
        let victim = victim.map(|at| waiting.swap_remove(at)).inspect(Child::kill);
        holder.kill();
        until(|| board[2].load(SeqCst) != 0, "nobody is found dead");
        all.push(board[2].load(SeqCst) - killed);
        holder.end();
        victim.map(Child::end);
    }
    all
}

fn idle_and_deaths(n: usize) {
    let options = ArenaOptions { members: Some(65_535), ..ArenaOptions::default() };
    let name = format!("waiters{n}");
    let arena = Arena::create(&name, &options).expect("an arena");
    let held = Pool::create_in(arena, "held", 1).expect("a pool");
    let prey = Pool::create_in(arena, "prey", 1).expect("a pool");
    let (begun, board) = (shared::<AtomicU64>(), shared::<[AtomicU64; 4]>());
    let holder = Child::fork(|| {
        let _permit = held.acquire().expect("it is free");
        begun.fetch_add(1, SeqCst);
        loop {
            std::thread::sleep(Duration::from_secs(1000));
        }
    });
    until(|| begun.load(SeqCst) == 1, "nobody holds");
    let time = Instant::now();
    let mut waiting: Vec<Child> = (0..n)
        .map(|_| {
            Child::fork(|| {
                begun.fetch_add(1, SeqCst);
                let permit = held.acquire();
                drop(permit);
            })
        })
        .collect();
    until(|| begun.load(SeqCst) == 1 + n as u64, "not all begin");
    // Each has its reaper then.
    until(|| waiting.iter().all(|c| count(c.pid(), "task") > 1), "not all wait");
    let begun_in = time.elapsed();
    std::thread::sleep(Duration::from_secs(3));
    let all = |waiting: &[Child]| waiting.iter().map(|c| run_time(c.pid())).sum::<u64>();
    let (before, time) = (all(&waiting), Instant::now());
    std::thread::sleep(IDLE);
    let processors = (all(&waiting) - before) as f64 / time.elapsed().as_nanos() as f64;
    let most = |what| waiting.iter().map(|c| count(c.pid(), what)).max().unwrap_or(0);
    let (descriptors, own) = (most("fd"), count(std::process::id(), "fd"));
    let threads = most("task");
    let heir = Child::fork(|| heir(board, &prey));
    let mut plain = deaths(&arena, &mut waiting, DEATHS, board, false, &prey);
    let mut with = deaths(&arena, &mut waiting, WATCHERS, board, true, &prey);
    println!(
        "{n:>6} {processors:>10.4} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {descriptors:>6} ({own}) {threads:>7} {:>9.1}",
        quantile(&mut plain, 0.5),
        quantile(&mut plain, 0.99),
        quantile(&mut with, 0.5),
        quantile(&mut with, 1.0),
        begun_in.as_secs_f64(),
    );
    for child in waiting.into_iter().chain([holder, heir]) {
        child.kill();
        child.end();
    }
}

/// Seconds until so many processes have each taken and raised it so often.
fn together(n: usize, once: impl Fn()) -> f64 {
    let time = Instant::now();
    let all: Vec<Child> = (0..n).map(|_| Child::fork(|| (0..ROUNDS).for_each(|_| once()))).collect();
    all.into_iter().for_each(|child| assert_eq!(child.end(), 0));
    time.elapsed().as_secs_f64()
}

fn semaphore(n: usize) {
    let posix = Posix::new(1, Scope::Shared);
    let options = ArenaOptions { members: Some(65_535), ..ArenaOptions::default() };
    let arena = Arena::create(&format!("semaphore{n}"), &options).expect("an arena");
    let ours = Semaphore::create_in(&arena, "one", 1).expect("a semaphore");
    let (mut theirs, mut mine) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        theirs.push(together(n, || {
            posix.lock();
            posix.unlock();
        }));
        mine.push(together(n, || {
            ours.down().expect("a unit");
            ours.up().expect("room");
        }));
    }
    theirs.sort_by(f64::total_cmp);
    mine.sort_by(f64::total_cmp);
    println!("{n:>6} {:>9.2} {:>9.2} {:>9.2}", theirs[1], mine[1], mine[1] / theirs[1]);
}

/// Measures and prints.
///
/// # Panics
/// When a process gets stuck, or the system refuses so many.
pub fn measure(_house: &House, numbers: &[usize]) {
    println!("waiting  processors   death ms            and the watcher's   descriptors           all wait");
    println!("processes      idle    median       p99    median       max   most (own) threads  after, s");
    numbers.iter().for_each(|n| idle_and_deaths(*n));
    println!("\n{ROUNDS} times each on one semaphore, s");
    println!("             sem_t    chappe     ratio");
    numbers.iter().for_each(|n| semaphore(*n));
}
