//! From SIGKILL to the next holder, between processes.
//!
//! One process holds, another waits asleep. A third takes the time, kills the holder, and the waiter notes the time
//! when it has what it waited for. Beside a named pool the peers that return something at a death. They take turns,
//! one kill each.

use crate::house::House;
use crate::peers::{FileLock, Flavour, Lock, PthreadMutex, SysV};
use crate::process::{Child, now, shared};
use crate::raw::Scope;
use crate::table::{Aim, Table, nanoseconds};
use chappe::Pool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Something that can be held and that a death frees.
type Holding<'a> = Box<dyn Fn(&mut dyn FnMut()) + 'a>;

/// How far this kill has come: what the processes tell each other.
const HOLDER: usize = 0;
const WAITER: usize = 1;
const TIME: usize = 2;
const ORDER: usize = 3;
const STOP: u64 = u64::MAX;

struct Contest {
    name: &'static str,
    board: &'static [AtomicU64; 4],
    waiter: Child,
    samples: Vec<f64>,
}

fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody came");
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Waits as often as it is ordered to.
fn wait(board: &[AtomicU64; 4], hold: &Holding<'_>) {
    for turn in 1.. {
        while board[ORDER].load(Ordering::SeqCst) < turn {
            std::thread::sleep(Duration::from_micros(20));
        }
        if board[ORDER].load(Ordering::SeqCst) == STOP {
            return;
        }
        board[WAITER].store(turn, Ordering::SeqCst);
        hold(&mut || board[TIME].store(now(), Ordering::SeqCst));
    }
}

impl Contest {
    fn new(name: &'static str, hold: &Holding<'_>) -> Contest {
        let board = shared::<[AtomicU64; 4]>();
        let waiter = Child::fork(|| wait(board, hold));
        Contest { name, board, waiter, samples: Vec::new() }
    }

    fn kill_once(&mut self, turn: u64, hold: &Holding<'_>) {
        let board = self.board;
        let holder = Child::fork(|| {
            hold(&mut || {
                board[HOLDER].store(turn, Ordering::SeqCst);
                // Until killed.
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            });
        });
        until(|| board[HOLDER].load(Ordering::SeqCst) == turn);
        board[TIME].store(0, Ordering::SeqCst);
        board[ORDER].store(turn, Ordering::SeqCst);
        until(|| board[WAITER].load(Ordering::SeqCst) == turn && asleep(self.waiter.pid()));
        std::thread::sleep(Duration::from_micros(200));
        let killed = now();
        holder.kill();
        until(|| board[TIME].load(Ordering::SeqCst) != 0);
        self.samples.push((board[TIME].load(Ordering::SeqCst) - killed) as f64);
        holder.end();
    }

    fn end(self) -> (String, Vec<f64>) {
        self.board[ORDER].store(STOP, Ordering::SeqCst);
        self.waiter.end();
        (self.name.to_owned(), self.samples)
    }
}

/// Whether the process's first thread sleeps.
fn asleep(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
}

fn locked(lock: &(impl Lock + 'static)) -> Holding<'_> {
    Box::new(move |then| {
        lock.lock();
        then();
        lock.unlock();
    })
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a process gets stuck.
pub fn measure(house: &House, kills: u32) -> Vec<Aim> {
    let pool = Pool::create("killed", 1).expect("a named pool");
    let mutex = PthreadMutex::new(Flavour::Robust, Scope::Shared);
    let (undo, file) = (SysV::new(1, true), FileLock::new(house.path()));
    let contestants: [(&str, Holding<'_>); 4] = [
        ("robust pthread mutex", locked(&mutex)),
        (
            "pool, named",
            Box::new(|then| {
                let permit = pool.acquire().expect("a permit");
                then();
                permit.release();
            }),
        ),
        ("System V semaphore, SEM_UNDO", locked(&undo)),
        ("flock(2)", locked(&file)),
    ];
    let mut contests: Vec<Contest> = contestants.iter().map(|(name, hold)| Contest::new(name, hold)).collect();
    for turn in 1..=u64::from(kills) {
        for (contest, (_, hold)) in contests.iter_mut().zip(&contestants) {
            contest.kill_once(turn, hold);
        }
    }
    let table = Table::of(
        format!("SIGKILL to next holder, {kills} kills each"),
        contests.into_iter().map(Contest::end).collect(),
    );
    print!("{}", table.report());
    let p99 = table.row("pool, named").quantile(0.99);
    vec![Aim::at_most("SIGKILL to next holder, 99th percentile", 1e6, p99, nanoseconds)]
}
