//! Animals that take units of semaphores and put them back; and the groom, which makes sure that there is one to be had.
//!
//! The groom never waits: it tries, and it puts in. So it must make progress whichever process is stopped.

use std::time::Duration;

use chappe::{DownError, LockError, Select, Semaphore};

use super::board::{Count, Deed};
use super::ledger::{UNITS, Unit, number};
use super::limb::{Broken, Limb, Mistake};
use super::places::{ARENAS, Place, SEMAPHORES};
use super::traders;

/// All its turns.
///
/// # Errors
/// What should not have failed.
pub fn live(limb: &mut Limb, places: &[Place]) -> Result<(), Broken> {
    while !limb.board().is_over() {
        sip(limb, places)?;
        limb.turn();
    }
    Ok(())
}

/// One turn: a unit is taken and put back.
///
/// # Errors
/// What should not have failed.
pub fn sip(limb: &mut Limb, places: &[Place]) -> Result<(), Broken> {
    let arena = limb.arena();
    let all = &places[arena].semaphores;
    let which = limb.roll(all.len() as u64) as usize;
    let (s, semaphore) = (number(arena, which), &all[which]);
    let time = limb.moment(3_000);
    limb.at(Deed::Units, arena);
    let got = match limb.roll(5) {
        0 | 1 => {
            limb.unit(Unit::Taking(s));
            semaphore.down()
        }
        2 => {
            limb.unit(Unit::Taking(s));
            semaphore.down_timeout(time)
        }
        3 => {
            limb.unit(Unit::Taking(s));
            semaphore.try_down()
        }
        _ => return either(limb, arena, all),
    };
    match got {
        Ok(()) => give_back(limb, s, semaphore),
        Err(DownError::Timeout | DownError::WouldBlock) => {
            limb.unit(Unit::Idle);
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

/// Whichever semaphore of an arena has one first.
fn either(limb: &mut Limb, arena: usize, all: &[Semaphore]) -> Result<(), Broken> {
    let mut select = Select::new();
    all.iter().for_each(|semaphore| {
        select.down(semaphore);
    });
    limb.unit(Unit::TakingAny(arena));
    let chosen = select.wait()?;
    let which = chosen.index();
    chosen.down(&all[which])?;
    give_back(limb, number(arena, which), &all[which])
}

/// It has one, and puts it back after a while.
///
/// # Errors
/// What should not have failed.
pub fn give_back(limb: &mut Limb, s: usize, semaphore: &Semaphore) -> Result<(), Broken> {
    limb.unit(Unit::Has(s));
    limb.board().count(Count::Units, 1);
    limb.dawdle();
    limb.unit(Unit::Giving(s));
    if limb.errs(Mistake::Generous, 40) {
        semaphore.up_many(2)?
    } else {
        semaphore.up()?
    }
    limb.unit(Unit::Idle);
    Ok(())
}

/// The groom's turns.
///
/// # Errors
/// What should not have failed.
pub fn groom(limb: &mut Limb, places: &[Place]) -> Result<(), Broken> {
    while !limb.board().is_over() {
        tend(limb, places)?;
        limb.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Puts in a unit where it is possible that none is left, and looks after stores that a dead one has left.
///
/// # Errors
/// What should not have failed.
pub fn tend(limb: &mut Limb, places: &[Place]) -> Result<(), Broken> {
    for (arena, place) in places.iter().enumerate().take(ARENAS.len()) {
        limb.at(Deed::Groom, arena);
        for (which, semaphore) in place.semaphores.iter().enumerate().take(SEMAPHORES.len()) {
            let s = number(arena, which);
            if limb.board().units[s].bounds(UNITS).0 < 1 {
                limb.unit(Unit::Adding(s));
                semaphore.up()?;
                limb.board().added(s);
                limb.unit(Unit::Idle);
            }
        }
        match place.store.try_lock() {
            Err(LockError::WouldBlock) => {}
            got => drop(traders::enter(limb, place, arena, got)?),
        }
    }
    Ok(())
}
