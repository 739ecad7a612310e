//! Which process is in which post, and what its workers do.
//!
//! | post | process | workers |
//! |---|---|---|
//! | 0, 1 | pool users | three take permits, two take units |
//! | 2, 3 | store users | a producer or consumer of each arena, one takes units, the refiller |
//! | 4 to 6 | tube users | five parts each |
//! | 7, 8 | churners | two |
//! | 9 | a forking process | one forks and execs, one does anything meanwhile |
//! | 10 | short of memory, or of descriptors | one |
//! | 11 | short of room, where there is a small file system; else as 10 | one |

use super::board::CLOSER;
use super::places::{self, ARENAS, Place};
use super::starved::{self, Want};
use super::tube_users::{self, PARTS};
use super::worker::{Broken, Chaos, Worker};
use super::{churners, forkers, pool_users, semaphore_users, store_users};
use crate::soak::dice::Dice;
use crate::step;

/// What one worker does all its life.
#[derive(Clone, Copy, Debug)]
enum Task {
    UsePool,
    UseSemaphore,
    Refill,
    /// Produces or consumes in an arena.
    UseStore(usize, bool),
    UseTube(tube_users::Part),
    Churn,
    Fork,
    UseAny,
    Want(Want),
}

/// What the next one in a post will be short of, if anything; `roll` is 0 or 1.
pub fn want(chaos: &Chaos, post: usize, roll: u64) -> Option<Want> {
    match (post, &chaos.small) {
        (11, Some(_)) => Some(Want::Room),
        (10 | 11, _) => Some(if roll == 0 { Want::Memory } else { Want::Descriptors }),
        _ => None,
    }
}

fn tasks(post: usize, want: Option<Want>) -> Vec<Task> {
    if let Some(want) = want {
        return vec![Task::Want(want)];
    }
    match post {
        0 | 1 => vec![Task::UsePool, Task::UsePool, Task::UsePool, Task::UseSemaphore, Task::UseSemaphore],
        2 | 3 => {
            let use_store = |arena: usize| Task::UseStore(arena, arena % 2 == post % 2);
            vec![use_store(0), use_store(1), use_store(2), Task::UseSemaphore, Task::Refill]
        }
        4..7 => PARTS.iter().skip(post - 4).step_by(3).map(|part| Task::UseTube(*part)).collect(),
        7 | 8 => vec![Task::Churn; 2],
        _ => vec![Task::UseAny, Task::Fork],
    }
}

/// How many workers it has.
pub fn workers(post: usize, want: Option<Want>) -> usize {
    tasks(post, want).len()
}

fn work(worker: &mut Worker, places: &[Place], task: Task) -> Result<(), Broken> {
    match task {
        Task::UsePool => pool_users::live(worker, places),
        Task::UseSemaphore => semaphore_users::live(worker, places),
        Task::Refill => semaphore_users::refill(worker, places),
        Task::UseStore(arena, produces) => store_users::live(worker, places, arena, produces),
        Task::UseTube(part) => tube_users::live(worker, places, part),
        Task::Churn => churners::live(worker),
        Task::Fork => forkers::live(worker, places),
        Task::UseAny => forkers::use_any(worker, places),
        Task::Want(want) => starved::live(worker, places, want),
    }
}

/// A whole life.
///
/// # Errors
/// What should not have failed.
pub fn live(chaos: &Chaos, post: usize, seed: u64, want: Option<Want>) -> Result<(), Broken> {
    let mut dice = Dice::new(seed);
    if let (Some(Want::Room), Some(small)) = (want, &chaos.small) {
        return starved::crowd(&mut Worker::new(chaos, post, 0, dice.seed()), small);
    }
    let places = &places::open()?;
    let tasks = tasks(post, want);
    let first = (0, tasks[0], dice.seed());
    let live = move |(worker, task, seed): (usize, Task, u64)| {
        let mut worker = Worker::new(chaos, post, worker, seed);
        let lived = work(&mut worker, places, task);
        worker.ends();
        // While another thread calls exec the system starts none: that is no mistake, and this one ends by that.
        while lived.is_err() && worker.leaves() {
            std::thread::park();
        }
        if let Err(e) = lived {
            chaos.tell(&format!("in post {post}, at {task:?}: {e}"));
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(1) };
        }
    };
    std::thread::scope(|s| -> std::io::Result<()> {
        for (at, task) in tasks.iter().enumerate().skip(1) {
            let mine = (at, *task, dice.seed());
            std::thread::Builder::new().spawn_scoped(s, move || live(mine))?;
        }
        live(first);
        Ok(())
    })?;
    Ok(())
}

/// Helps the sleepers at the end of a round, as long as a process is left.
///
/// # Errors
/// What should not have failed.
pub fn closer(chaos: &Chaos, seed: u64) -> Result<(), Broken> {
    use std::sync::atomic::Ordering::SeqCst;
    let mut worker = Worker::new(chaos, CLOSER, 0, seed);
    let places = places::open()?;
    while chaos.board.over.load(SeqCst) < 2 {
        semaphore_users::tend(&mut worker, &places)?;
        store_users::rouse(&mut worker, &places)?;
        pool_users::gather(&mut worker, &places)?;
        worker.turn();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    worker.ends();
    Ok(())
}

/// Tells how everything stands.
pub fn examine(chaos: &Chaos) {
    for name in ARENAS {
        let Ok(arena) = chappe::Arena::open(name) else { continue };
        for object in arena.objects() {
            let waiters: Vec<_> = arena.waiters(&object.name).map_or(Vec::new(), |all| {
                all.iter().map(|w| (w.who.member, w.who.pid, w.who.tid, w.who.life)).collect()
            });
            chaos.tell(&format!("{name}: {object:?}, waiters {waiters:?}"));
            if let Ok(pool) = chappe::Pool::in_arena(arena, &object.name) {
                let holders = pool.holders();
                let all = holders.iter().map(|h| (h.index, h.who.member, h.who.pid, h.who.tid, h.set_aside));
                chaos.tell(&format!("{name}: {} is held by {:?}", object.name, all.collect::<Vec<_>>()));
            }
        }
        for who in arena.members() {
            let state = step::state(who.pid as i32).map_or('-', char::from);
            chaos.tell(&format!("{name}: {who:?}, state {state}"));
        }
    }
}
