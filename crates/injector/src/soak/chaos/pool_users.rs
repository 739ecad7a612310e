//! Processes that take permits: one, several at once, whichever comes first, in a choice, for a thread or for the process; with and without a
//! time limit. Half of them sleep without one: only their own process's reaper can wake them when the holder that they wait for is killed.
//!
//! No pool user waits for anything while it holds something. So a waiter makes progress, as long as permits come back.

use std::time::Duration;

use chappe::{AcquireError, Pool, acquire_any, acquire_any_timeout, select};

use super::board::Deed;
use super::ledger::{Unit, number};
use super::places::{POOLS, Place};
use super::semaphore_users;
use super::worker::{Broken, Held, Mistake, Worker};

/// All its turns.
///
/// # Errors
/// What should not have failed.
pub fn live(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    while !worker.board().is_over() {
        use_pool(worker, places)?;
        worker.turn();
    }
    Ok(())
}

/// Nothing, if only the time was up.
fn in_time<T>(got: Result<T, AcquireError>) -> Result<Option<T>, AcquireError> {
    match got {
        Ok(it) => Ok(Some(it)),
        Err(AcquireError::Timeout | AcquireError::WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

/// One turn.
///
/// # Errors
/// What should not have failed.
pub fn use_pool(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    let arena = worker.arena();
    let pools = &places[arena].pools;
    let which = worker.roll(pools.len() as u64) as usize;
    let (pool, most) = (&pools[which], POOLS[which].1);
    let several = 1 + worker.roll(u64::from(most)) as u32;
    let time = worker.moment(3_000);
    let all: Vec<&Pool> = pools.iter().collect();
    worker.at(Deed::Pools, arena);
    match worker.roll(12) {
        0 | 1 => hold(worker, arena, which, Some(pool.acquire()?)),
        2 => hold(worker, arena, which, in_time(pool.acquire_timeout(time))?),
        3 => hold(worker, arena, which, in_time(pool.try_acquire())?),
        4 => hold(worker, arena, which, Some(pool.acquire_many(several)?)),
        5 => hold(worker, arena, which, Some(pool.acquire_many(most)?)),
        6 => hold(worker, arena, which, in_time(pool.acquire_many_timeout(several, time))?),
        7 => {
            let (which, permit) = acquire_any(&all)?;
            hold(worker, arena, which, Some(permit));
        }
        8 => {
            if let Some((which, permit)) = in_time(acquire_any_timeout(&all, time))? {
                hold(worker, arena, which, Some(permit));
            }
        }
        // Rust begins no thread for certain in a child that was forked from a process with others: its own lock may be locked.
        9 | 10 if worker.is_forked() => hold(worker, arena, which, Some(pool.acquire()?)),
        9 => hand_over(worker, arena, which, pool)?,
        10 => end_with_it(worker, arena, which, pool)?,
        _ => choose(worker, arena, &places[arena])?,
    }
    Ok(())
}

/// Has it for a while, alone.
pub fn hold<H: Held>(worker: &mut Worker, arena: usize, pool: usize, permit: Option<H>) {
    let Some(permit) = permit else { return };
    let claim = worker.claim(arena, pool, permit.indices(), false);
    worker.dawdle();
    if worker.errs(Mistake::Greedy, 4) {
        std::mem::forget((permit, claim));
        return;
    }
    if worker.errs(Mistake::Careless, 4) {
        drop(permit);
        std::thread::sleep(Duration::from_millis(1));
        return;
    }
    drop(claim);
    drop(permit);
}

/// A permit of the process, which another of its threads gives back.
fn hand_over(worker: &mut Worker, arena: usize, which: usize, pool: &Pool) -> Result<(), Broken> {
    let time = worker.moment(3_000);
    let permit =
        if worker.roll(2) == 0 { Some(pool.acquire_owned()?) } else { in_time(pool.acquire_owned_timeout(time))? };
    let Some(permit) = permit else { return Ok(()) };
    let claim = worker.claim(arena, which, permit.indices(), true);
    worker.dawdle();
    std::thread::scope(|s| {
        let other = std::thread::Builder::new().spawn_scoped(s, move || {
            drop(claim);
            drop(permit);
        });
        other.map(drop)
    })?;
    Ok(())
}

/// A thread that ends with a permit in hand, while its process goes on.
fn end_with_it(worker: &mut Worker, arena: usize, which: usize, pool: &Pool) -> Result<(), Broken> {
    let board = worker.board();
    let life = board.life(worker.process());
    let chaos = worker.chaos;
    std::thread::scope(|s| -> Result<(), Broken> {
        let thread = std::thread::Builder::new().spawn_scoped(s, move || {
            let permit = pool.acquire().map_err(|e| e.to_string())?;
            let claim = super::worker::Claim::of(chaos, life, (arena, which), permit.indices());
            board.condemn(life);
            std::mem::forget((claim, permit));
            Ok::<(), String>(())
        })?;
        thread.join().map_err(|_| "the thread that was to end has panicked")??;
        Ok(())
    })
}

/// A choice among a pool of one, one of more, and both semaphores.
fn choose(worker: &mut Worker, arena: usize, place: &Place) -> Result<(), Broken> {
    let (gate, stalls) = (&place.pools[0], &place.pools[1]);
    let (hay, oats) = (&place.semaphores[0], &place.semaphores[1]);
    let time = worker.moment(3_000);
    worker.at(Deed::Choice, arena);
    worker.unit(Unit::TakingAny(arena));
    select! {
        acquire(gate) -> permit => {
            worker.unit(Unit::Idle);
            hold(worker, arena, 0, Some(permit?));
        }
        acquire(stalls) -> permit => {
            worker.unit(Unit::Idle);
            hold(worker, arena, 1, Some(permit?));
        }
        down(hay) -> r => {
            r?;
            semaphore_users::give_back(worker, number(arena, 0), hay)?;
        }
        down(oats) -> r => {
            r?;
            semaphore_users::give_back(worker, number(arena, 1), oats)?;
        }
        default(time) => worker.unit(Unit::Idle),
    }
    Ok(())
}

/// At the end of a round: has every permit once, so that each that comes back is seen to.
///
/// # Errors
/// What should not have failed.
pub fn gather(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    for (arena, place) in places.iter().enumerate() {
        worker.at(Deed::Pools, arena);
        for (which, pool) in place.pools.iter().enumerate() {
            let all = in_time(pool.acquire_many_timeout(POOLS[which].1, Duration::from_millis(1)))?;
            let claim = all.as_ref().map(|permits| worker.claim(arena, which, Held::indices(permits), false));
            drop(claim);
        }
    }
    Ok(())
}
