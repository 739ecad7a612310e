//! Processes that take units of semaphores and put them back; and the refiller, which makes sure that there is one to be had.
//!
//! The refiller never waits: it tries, and it puts in. So it must make progress whichever process is stopped.

use std::time::Duration;

use chappe::{DownError, LockError, Select, Semaphore};

use super::board::{Count, Deed};
use super::ledger::{Unit, number};
use super::places::{ARENAS, Place, SEMAPHORES, UNITS};
use super::store_users;
use super::worker::{Broken, Mistake, Worker};

/// All its turns.
///
/// # Errors
/// What should not have failed.
pub fn live(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    while !worker.board().is_over() {
        use_semaphore(worker, places)?;
        worker.turn();
    }
    Ok(())
}

/// One turn: a unit is taken and put back.
///
/// # Errors
/// What should not have failed.
pub fn use_semaphore(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    let arena = worker.arena();
    let all = &places[arena].semaphores;
    let which = worker.roll(all.len() as u64) as usize;
    let (s, semaphore) = (number(arena, which), &all[which]);
    let time = worker.moment(3_000);
    worker.at(Deed::Units, arena);
    let got = match worker.roll(5) {
        0 | 1 => {
            worker.unit(Unit::Taking(s));
            semaphore.down()
        }
        2 => {
            worker.unit(Unit::Taking(s));
            semaphore.down_timeout(time)
        }
        3 => {
            worker.unit(Unit::Taking(s));
            semaphore.try_down()
        }
        _ => return either(worker, arena, all),
    };
    match got {
        Ok(()) => give_back(worker, s, semaphore),
        Err(DownError::Timeout | DownError::WouldBlock) => {
            worker.unit(Unit::Idle);
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

/// Whichever semaphore of an arena has one first.
fn either(worker: &mut Worker, arena: usize, all: &[Semaphore]) -> Result<(), Broken> {
    let mut select = Select::new();
    all.iter().for_each(|semaphore| {
        select.down(semaphore);
    });
    worker.unit(Unit::TakingAny(arena));
    let chosen = select.wait()?;
    let which = chosen.index();
    chosen.down(&all[which])?;
    give_back(worker, number(arena, which), &all[which])
}

/// It has one, and puts it back after a while.
///
/// # Errors
/// What should not have failed.
pub fn give_back(worker: &mut Worker, s: usize, semaphore: &Semaphore) -> Result<(), Broken> {
    worker.unit(Unit::Has(s));
    worker.board().count(Count::Units, 1);
    worker.dawdle();
    worker.unit(Unit::Giving(s));
    if worker.errs(Mistake::Generous, 40) {
        semaphore.up_many(2)?
    } else {
        semaphore.up()?
    }
    worker.unit(Unit::Idle);
    Ok(())
}

/// The refiller's turns.
///
/// # Errors
/// What should not have failed.
pub fn refill(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    while !worker.board().is_over() {
        tend(worker, places)?;
        worker.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Puts in a unit where it is possible that none is left, and looks after stores that a dead one has left.
///
/// # Errors
/// What should not have failed.
pub fn tend(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    for (arena, place) in places.iter().enumerate().take(ARENAS.len()) {
        worker.at(Deed::Refill, arena);
        for (which, semaphore) in place.semaphores.iter().enumerate().take(SEMAPHORES.len()) {
            let s = number(arena, which);
            if worker.board().units[s].bounds(UNITS).0 < 1 {
                worker.unit(Unit::Adding(s));
                semaphore.up()?;
                worker.board().added(s);
                worker.unit(Unit::Idle);
            }
        }
        match place.store.try_lock() {
            Err(LockError::WouldBlock) => {}
            got => drop(store_users::enter(worker, place, arena, got)?),
        }
    }
    Ok(())
}
