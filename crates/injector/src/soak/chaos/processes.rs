//! Which process is in which post, and what its workers do.
//!
//! | post | process | workers |
//! |---|---|---|
//! | 0, 1 | grazers | three take permits, two take units |
//! | 2, 3 | traders | a producer or consumer of each arena, one takes units, the groom |
//! | 4 to 6 | couriers | five parts each |
//! | 7, 8 | churners | two |
//! | 9 | a wanderer | one forks and execs, one does anything meanwhile |
//! | 10 | short of memory, or of descriptors | one |
//! | 11 | short of room, where there is a small file system; else as 10 | one |

use super::board::USHER;
use super::couriers::{self, PARTS};
use super::places::{self, ARENAS, Place};
use super::poor::{self, Want};
use super::worker::{Broken, Chaos, Worker};
use super::{churners, grazers, sippers, traders, wanderers};
use crate::soak::dice::Dice;
use crate::step;

/// What one worker does all its life.
#[derive(Clone, Copy, Debug)]
enum Task {
    Graze,
    Sip,
    Groom,
    /// Produces or consumes in an arena.
    Trade(usize, bool),
    Carry(couriers::Part),
    Churn,
    Wander,
    Roam,
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
        0 | 1 => vec![Task::Graze, Task::Graze, Task::Graze, Task::Sip, Task::Sip],
        2 | 3 => {
            let trade = |arena: usize| Task::Trade(arena, arena % 2 == post % 2);
            vec![trade(0), trade(1), trade(2), Task::Sip, Task::Groom]
        }
        4..7 => PARTS.iter().skip(post - 4).step_by(3).map(|part| Task::Carry(*part)).collect(),
        7 | 8 => vec![Task::Churn; 2],
        _ => vec![Task::Roam, Task::Wander],
    }
}

/// How many workers it has.
pub fn workers(post: usize, want: Option<Want>) -> usize {
    tasks(post, want).len()
}

fn work(worker: &mut Worker, places: &[Place], task: Task) -> Result<(), Broken> {
    match task {
        Task::Graze => grazers::live(worker, places),
        Task::Sip => sippers::live(worker, places),
        Task::Groom => sippers::groom(worker, places),
        Task::Trade(arena, produces) => traders::live(worker, places, arena, produces),
        Task::Carry(part) => couriers::live(worker, places, part),
        Task::Churn => churners::live(worker),
        Task::Wander => wanderers::live(worker, places),
        Task::Roam => wanderers::roam(worker, places),
        Task::Want(want) => poor::live(worker, places, want),
    }
}

/// A whole life.
///
/// # Errors
/// What should not have failed.
pub fn live(chaos: &Chaos, post: usize, seed: u64, want: Option<Want>) -> Result<(), Broken> {
    let mut dice = Dice::new(seed);
    if let (Some(Want::Room), Some(small)) = (want, &chaos.small) {
        return poor::crowd(&mut Worker::new(chaos, post, 0, dice.seed()), small);
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
pub fn usher(chaos: &Chaos, seed: u64) -> Result<(), Broken> {
    use std::sync::atomic::Ordering::SeqCst;
    let mut worker = Worker::new(chaos, USHER, 0, seed);
    let places = places::open()?;
    while chaos.board.over.load(SeqCst) < 2 {
        sippers::tend(&mut worker, &places)?;
        traders::rouse(&mut worker, &places)?;
        grazers::gather(&mut worker, &places)?;
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
