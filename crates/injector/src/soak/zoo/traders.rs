//! Animals that put things into a store and take them out: data under a mutex, whose halves agree whenever no animal is in the middle, and
//! two condition variables.
//!
//! A producer waits while there is no room, a consumer while there is nothing, without a time limit. Each notifies one of the others while
//! it still has the mutex. So a notification that got lost would leave all of them asleep, with the store full or empty. An animal that
//! dies in its section leaves the mutex to one that is told: that one makes the data whole, and notifies all, since the dead one may not
//! have. An animal that was notified and dies before it has the mutex is followed by another in its place, which looks for itself.
//!
//! An animal in a section writes its life beside the mutex, and takes it away before it unlocks. So one that is not told of a death, and
//! finds a life there, should have been told.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use chappe::{LockError, LockResult, MutexGuard};

use super::board::{Board, Count, Deed, Found};
use super::limb::{Broken, Limb, Mistake};
use super::places::{ARENAS, Place};

/// Two halves that agree, how many things were put in and taken, and the things.
pub type Goods = [u64; 8];
/// An empty store.
pub const EMPTY: Goods = [0; 8];
const FIRST_HALF: usize = 0;
const SECOND_HALF: usize = 1;
const PUT: usize = 2;
const TAKEN: usize = 3;
const THINGS: usize = 4;
/// How many things it has room for.
const ROOM: u64 = 2;

/// How many things are in it.
fn filled(goods: &Goods) -> u64 {
    goods[PUT] - goods[TAKEN]
}

/// Whether no limb is in the middle.
pub fn is_whole(goods: &Goods) -> bool {
    let fits = goods[PUT].checked_sub(goods[TAKEN]).is_some_and(|n| n <= ROOM);
    fits && goods[FIRST_HALF] == goods[SECOND_HALF] && goods[FIRST_HALF] == goods[PUT] + goods[TAKEN]
}

/// Whatever a dead one has left, it is whole afterwards.
fn mend(goods: &mut Goods) {
    goods[TAKEN] = goods[TAKEN].clamp(goods[PUT].saturating_sub(ROOM), goods[PUT]);
    goods[FIRST_HALF] = goods[PUT] + goods[TAKEN];
    goods[SECOND_HALF] = goods[FIRST_HALF];
}

/// In the middle of a store's section.
pub struct Section<'p> {
    guard: Option<MutexGuard<'p, Goods>>,
    place: &'p Place,
    word: &'static AtomicU32,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.word.store(0, SeqCst);
        // The guard goes after that.
    }
}

impl Section<'_> {
    fn goods(&mut self) -> &mut Goods {
        self.guard.as_mut().expect("it is there between waits")
    }
}

fn check(limb: &Limb, board: &Board, arena: usize, told: bool) {
    let before = board.lockers[arena].swap(limb.number, SeqCst);
    if before == 0 {
        return;
    }
    let text = |what: &str| format!("life {} locked {}/store, {what} {before}", limb.number, ARENAS[arena]);
    if !board.is_gone(before) {
        limb.zoo.found(Found::Doubled, &text("beside"));
    } else if !told {
        limb.zoo.found(Found::Untold, &text("and was not told of the death of"));
    }
}

/// The mutex is locked, or should be: looks at everything, and makes whole what was left by a dead one.
///
/// # Errors
/// Why it is not locked.
pub fn enter<'p>(
    limb: &mut Limb,
    place: &'p Place,
    arena: usize,
    got: LockResult<'p, Goods>,
) -> Result<Section<'p>, Broken> {
    let board = limb.board();
    let word = &board.lockers[arena];
    board.count(Count::Sections, 1);
    match got {
        Ok(guard) => {
            check(limb, board, arena, false);
            if !is_whole(&guard) {
                limb.zoo.found(Found::Torn, &format!("the data of {}/store is {:?}", ARENAS[arena], *guard));
            }
            Ok(Section { guard: Some(guard), place, word })
        }
        Err(LockError::OwnerDied(mut guard)) => {
            check(limb, board, arena, true);
            board.count(Count::Told, 1);
            mend(&mut guard);
            limb.dawdle();
            MutexGuard::make_consistent(&mut guard);
            place.room.notify_all();
            place.some.notify_all();
            Ok(Section { guard: Some(guard), place, word })
        }
        Err(e) => Err(e.to_string().into()),
    }
}

/// All turns of a producer, or of a consumer.
///
/// # Errors
/// What should not have failed.
pub fn live(limb: &mut Limb, places: &[Place], arena: usize, produces: bool) -> Result<(), Broken> {
    let place = &places[arena];
    limb.at(Deed::Store, arena);
    while !limb.board().is_over() {
        trade(limb, place, arena, produces)?;
        limb.turn();
    }
    Ok(())
}

fn trade(limb: &mut Limb, place: &Place, arena: usize, produces: bool) -> Result<(), Broken> {
    let got = place.store.lock();
    let mut section = enter(limb, place, arena, got)?;
    let waits = |goods: &Goods| filled(goods) == if produces { ROOM } else { 0 };
    while waits(section.goods()) {
        if limb.board().is_over() {
            return Ok(());
        }
        section.word.store(0, SeqCst);
        let guard = section.guard.take().expect("it is there between waits");
        let what = if produces { &place.room } else { &place.some };
        let got = what.wait(guard);
        // The old section has no holder: what it says is said above.
        std::mem::forget(section);
        section = enter(limb, place, arena, got)?;
    }
    change(limb, &mut section, produces);
    Ok(())
}

fn change(limb: &mut Limb, section: &mut Section<'_>, produces: bool) {
    let goods = section.goods();
    goods[FIRST_HALF] += 1;
    limb.dawdle();
    if produces {
        goods[THINGS + (goods[PUT] % ROOM) as usize] = u64::from(limb.number);
        goods[PUT] += 1;
    } else {
        goods[TAKEN] += 1;
    }
    limb.dawdle();
    if limb.errs(Mistake::Untidy, 8) {
        return;
    }
    goods[SECOND_HALF] += 1;
    if produces { section.place.some.notify_one() } else { section.place.room.notify_one() }
}

/// Only looks in, and goes.
///
/// # Errors
/// What should not have failed.
pub fn peek(limb: &mut Limb, places: &[Place]) -> Result<(), Broken> {
    let arena = limb.arena();
    let place = &places[arena];
    limb.at(Deed::Store, arena);
    let time = limb.moment(3_000);
    let got = if limb.roll(2) == 0 { place.store.lock() } else { place.store.lock_timeout(time) };
    if let Err(LockError::Timeout) = got {
        return Ok(());
    }
    drop(enter(limb, place, arena, got)?);
    Ok(())
}

/// At the end of a round: makes all waiters look.
///
/// # Errors
/// What should not have failed.
pub fn rouse(limb: &mut Limb, places: &[Place]) -> Result<(), Broken> {
    for (arena, place) in places.iter().enumerate() {
        let got = place.store.lock();
        let section = enter(limb, place, arena, got)?;
        place.room.notify_all();
        place.some.notify_all();
        drop(section);
    }
    Ok(())
}
