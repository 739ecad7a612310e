//! Processes that put things into a store and take them out: data under a mutex, whose halves agree whenever no process is in the middle, and
//! two condition variables.
//!
//! A producer waits while there is no room, a consumer while there is nothing, without a time limit. Each notifies one of the others while
//! it still has the mutex. So a notification that got lost would leave all of them asleep, with the store full or empty. A process that
//! dies in its section leaves the mutex to one that is told: that one makes the data whole, and notifies all, since the dead one may not
//! have. A process that was notified and dies before it has the mutex is followed by another in its place, which looks for itself.
//!
//! A process in a section writes its life beside the mutex, and takes it away before it unlocks. So one that is not told of a death, and
//! finds a life there, should have been told.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use chappe::{LockError, LockResult, MutexGuard};

use super::board::{Board, Count, Deed, Found};
use super::places::{ARENAS, Goods, Place};
use super::worker::{Broken, Mistake, Worker};

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

/// Whether no worker is in the middle.
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

fn check(worker: &Worker, board: &Board, arena: usize, told: bool) {
    let before = board.lockers[arena].swap(worker.number, SeqCst);
    if before == 0 {
        return;
    }
    let text = |what: &str| format!("life {} locked {}/store, {what} {before}", worker.number, ARENAS[arena]);
    if !board.is_gone(before) {
        worker.chaos.found(Found::Doubled, &text("beside"));
    } else if !told {
        worker.chaos.found(Found::Untold, &text("and was not told of the death of"));
    }
}

/// The mutex is locked, or should be: looks at everything, and makes whole what was left by a dead one.
///
/// # Errors
/// Why it is not locked.
pub fn enter<'p>(
    worker: &mut Worker,
    place: &'p Place,
    arena: usize,
    got: LockResult<'p, Goods>,
) -> Result<Section<'p>, Broken> {
    let board = worker.board();
    let word = &board.lockers[arena];
    board.count(Count::Sections, 1);
    match got {
        Ok(guard) => {
            check(worker, board, arena, false);
            if !is_whole(&guard) {
                worker.chaos.found(Found::Torn, &format!("the data of {}/store is {:?}", ARENAS[arena], *guard));
            }
            Ok(Section { guard: Some(guard), place, word })
        }
        Err(LockError::OwnerDied(mut guard)) => {
            check(worker, board, arena, true);
            board.count(Count::Told, 1);
            mend(&mut guard);
            worker.dawdle();
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
pub fn live(worker: &mut Worker, places: &[Place], arena: usize, produces: bool) -> Result<(), Broken> {
    let place = &places[arena];
    worker.at(Deed::Store, arena);
    while !worker.board().is_over() {
        use_store(worker, place, arena, produces)?;
        worker.turn();
    }
    Ok(())
}

fn use_store(worker: &mut Worker, place: &Place, arena: usize, produces: bool) -> Result<(), Broken> {
    let got = place.store.lock();
    let mut section = enter(worker, place, arena, got)?;
    let waits = |goods: &Goods| filled(goods) == if produces { ROOM } else { 0 };
    while waits(section.goods()) {
        if worker.board().is_over() {
            return Ok(());
        }
        section.word.store(0, SeqCst);
        let guard = section.guard.take().expect("it is there between waits");
        let what = if produces { &place.room } else { &place.some };
        let got = what.wait(guard);
        // The old section has no holder: what it says is said above.
        std::mem::forget(section);
        section = enter(worker, place, arena, got)?;
    }
    change(worker, &mut section, produces);
    Ok(())
}

fn change(worker: &mut Worker, section: &mut Section<'_>, produces: bool) {
    let goods = section.goods();
    goods[FIRST_HALF] += 1;
    worker.dawdle();
    if produces {
        goods[THINGS + (goods[PUT] % ROOM) as usize] = u64::from(worker.number);
        goods[PUT] += 1;
    } else {
        goods[TAKEN] += 1;
    }
    worker.dawdle();
    if worker.errs(Mistake::Untidy, 8) {
        return;
    }
    goods[SECOND_HALF] += 1;
    if produces { section.place.some.notify_one() } else { section.place.room.notify_one() }
}

/// Only looks in, and goes.
///
/// # Errors
/// What should not have failed.
pub fn peek(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    let arena = worker.arena();
    let place = &places[arena];
    worker.at(Deed::Store, arena);
    let time = worker.moment(3_000);
    let got = if worker.roll(2) == 0 { place.store.lock() } else { place.store.lock_timeout(time) };
    if let Err(LockError::Timeout) = got {
        return Ok(());
    }
    drop(enter(worker, place, arena, got)?);
    Ok(())
}

/// At the end of a round: makes all waiters look.
///
/// # Errors
/// What should not have failed.
pub fn rouse(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    for (arena, place) in places.iter().enumerate() {
        let got = place.store.lock();
        let section = enter(worker, place, arena, got)?;
        place.room.notify_all();
        place.some.notify_all();
        drop(section);
    }
    Ok(())
}
