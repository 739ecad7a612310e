//! The mutex protocol: one holder, named in the lock's word, and data that a death leaves as it was.
//!
//! nonblocking-real-time, section 3: a lock whose critical section others can survive. The choice between spinning and
//! hand-off is that of nix-semaphores-tubes, 2.3, reversed: here an arriving thread may take a free lock ahead of sleeping waiters,
//! since a lock that is handed off is idle while its new holder wakes up. The overtaking is bounded: eventual fairness.
//!
//! The word is an owner word: see the table in `owner`. The terms are in `book/src/glossary.md`.
//!
//! ```text
//!              lock                        unlock
//!     FREE ---------------> HELD m,g ---------------> FREE      then, if WAITERS: the oldest is told to try again,
//!       |                     |   |                             or, if it has waited long, RESERVED for it
//!       | overdue             |   +--- dies, panics: FREE TORN
//!       v                     |
//!     RESERVED m,n -- take ---+------- condemn: HELD by nobody
//! ```
//!
//! - I1: only the holder that the word names touches the data. A holder that dies leaves TORN. Every later holder is
//!   told so, until one of them declares the data whole. Condemned is for ever.
//! - I2: a waiter sets WAITERS after it has set its bit. Only the holder clears WAITERS; it looks at the bits again afterwards, and
//!   sets WAITERS again if it finds one. So no unlocking thread misses a bit that is set.
//! - I3: a waiter that was told and finds the lock held waits again, in its old place. Once it has
//!   waited for half a millisecond it is *overdue* (`contend`): its record says so, and the lock is
//!   reserved for it (I6). While a living waiter has been told and has not tried yet, no other is
//!   told (except by I6).
//! - I4: a waiter that was told and no longer wants the lock drains: the next is told.
//! - I5: the drainer sets TOLD after it has told a waiter. It looks again, and clears TOLD if that waiter has tried meanwhile. The
//!   waiter itself clears TOLD before it tries. Recovery clears it and drains. So TOLD with no waiter about to try is
//!   left only by a thread that was stopped, and then I6 gets past it.
//! - I6: a reserved lock is idle until its waiter comes. So it is reserved for an overdue waiter at
//!   most every half a millisecond ([`HANDS_ON_NS`]). As often, an unlocking thread looks in spite
//!   of TOLD, and passes a waiter that was told, which may be stopped for ever: it tells the next,
//!   or reserves the lock for the next if that one is overdue.
//! - I7: nobody else gets the data while a guard, or a borrow through it, may be used in its
//!   process. A thread that exits normally and has leaked its guard leaves the mutex condemned and
//!   *abandoned*, and its slot is never reused. A mutex that is condemned and not abandoned has no
//!   holder, and does not keep its slot. A mutex removed by force keeps its slot and its data until
//!   the holder unlocks it or dies: while the word says HELD by a member, the slot is not reused. A
//!   waiter for which the lock was reserved before the removal takes it and holds it in the same
//!   way; the word says so before the waiter's bit is cleared. A thread that takes a free lock and
//!   then finds that the mutex was removed gives it back, and gets `Dead`.
//! - I8: a word has the number of its mutex. So a late operation on an earlier mutex of the slot
//!   fails, and changes nothing of this one, not even for a moment. Otherwise a process killed at
//!   that moment would leave this one torn. A free word has all of the number. A word that names a
//!   holder has its low bits: while it stands, the slot is no other mutex's (I7; `owner` has the
//!   rest).
//! - A death at each step. Before the swap of `unlock`: the word is the holder's, so TORN. After it: recovery drains. Told and not yet
//!   tried: the same. Reserved: the reservation is void once recovery has set the member's word to IDLE.
//!
//! A private lock may be biased to a thread: see `bias`. Then its word is FREE in its tag only. An
//! operation that would change a word whose tag is FREE revokes the bias first (*settles* the
//! word). Plain loads are enough where only a word that is HELD, RESERVED or has a flag is changed,
//! since a biased word is none of these; and where a mutex is removed by name, since such a mutex
//! is not private.
//!
//! Free and without waiters: one compare-and-swap to lock and one to unlock, with what the handle
//! knows; no system call, no allocation. Locking blocks for as long as the holder holds; telling
//! and reserving are lock-free. A waiter that was told, and is stopped before it tries, holds up
//! those behind it until an unlock after half a millisecond (I6). An overdue waiter may be given
//! the lock while it sleeps, and then holds it.
//!
//! Explored: `tests/crash_mutex.rs`.

use crate::bias::{self, Holds};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::{clock, step};
#[cfg(not(feature = "sim"))]
use chappe_wait::cell::NOBODY;
use chappe_wait::owner;
#[cfg(not(feature = "sim"))]
use chappe_wait::owner::ABANDONED;
use chappe_wait::owner::{
    CONDEMNED, FREE, HELD, KEPT, RESERVED, TOLD, TORN, WAITERS, aux_of, free, freed, held_by, is_condemned, lay_data,
    load, member_of, number, pass, reserved_for, resolve, store_words, swap, update,
};
use chappe_wait::wait::{RETRY, State, grant, notify_dead, tell, tried_and_next, wake_granted, word_of};

/// The least time between two reservations of a lock.
const HANDS_ON_NS: u64 = 500_000;
/// A stored time this far ahead of our clock was written by another clock.
const OTHER_CLOCK_NS: u64 = 1_000_000_000;
/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// The caller holds the lock; the data is whole.
    Locked,
    /// The caller holds the lock; an earlier holder left the data unfinished.
    Torn,
    /// Another has the lock.
    Busy,
    /// Condemned.
    Condemned,
    /// The mutex was removed.
    Dead,
}

/// Takes the lock if it is free, whole, and has no waiters: the commonest case. `free`: [`free_word`]. False means only that this failed.
#[inline(always)]
pub(crate) fn take_one(map: &Map, o: &Object, place: Place, free: u64, mine: u64) -> bool {
    o.through(place.head);
    // Acquire: after the swap. The mutex may have been removed: then nobody gets it.
    swap(o, free, mine | free & KEPT) && (o.head.load(Ordering::Acquire) == place.head.0 || mistaken(map, place, mine))
}

#[cold]
fn mistaken(map: &Map, place: Place, mine: u64) -> bool {
    give(map, place, map.object(place.index), free_word(place), mine);
    false
}

/// The word of this mutex when it is free.
pub(crate) fn free_word(place: Place) -> u64 {
    owner::free_word(place.head)
}

/// Takes the lock if it is biased to the calling thread, which is `member`.
///
/// # Safety
/// The holds are the calling thread's, in this arena.
#[cfg(any(feature = "sim", feature = "loom"))]
#[inline(always)]
pub(crate) unsafe fn enter(o: &Object, place: Place, member: u32, holds: Holds) -> bool {
    o.through(place.head);
    // SAFETY: the caller's promise.
    unsafe { bias::enter(o, place.index, bias::mutex(number(place.head), member), holds) }
}

/// The calling thread has just taken the lock: considers giving it the bias.
///
/// # Safety
/// The holds are the calling thread's, in this arena.
#[cold]
pub(crate) unsafe fn consider(map: &Map, o: &Object, place: Place, mine: u64, holds: Holds) {
    // SAFETY: the caller's promise.
    unsafe { bias::consider(map, o, place.index, mine | number(place.head), holds) }
}

/// Takes the lock if it is free, overtaking any waiters.
pub(crate) fn take(map: &Map, place: Place, mine: u64) -> Try {
    map.through(place);
    let o = map.object(place.index);
    if bias::was_inside(map, o) == Some(true) {
        return Try::Busy;
    }
    loop {
        let seen = bias::settled(map, o);
        // Acquire: as in `take_one`.
        if o.head.load(Ordering::Acquire) != place.head.0 {
            return Try::Dead;
        }
        if is_condemned(seen) {
            return Try::Condemned;
        }
        if seen & 7 != FREE {
            return Try::Busy;
        }
        if swap(o, seen, mine | seen & KEPT) {
            // Acquire: again. It may have been removed meanwhile, and its slot be about to be another's: the word comes last.
            if o.head.load(Ordering::Acquire) != place.head.0 {
                give(map, place, o, free_word(place), mine);
                return Try::Dead;
            }
            settle_waiters(map, place.index, o, mine);
            return if seen & TORN != 0 { Try::Torn } else { Try::Locked };
        }
    }
}

/// Takes the lock that was reserved for wait `number` of the caller, while the lock's word still says so.
pub(crate) fn collect(map: &Map, place: Place, member: u32, mine: u64, number: u32) -> Try {
    map.through(place);
    let o = map.object(place.index);
    let Some(seen) = pass(o, reserved_for(member, number), mine) else { return Try::Busy };
    settle_waiters(map, place.index, o, mine);
    if seen & TORN != 0 { Try::Torn } else { Try::Locked }
}

/// I2: the holder clears WAITERS if no bit is set any more.
fn settle_waiters(map: &Map, object: u32, o: &Object, mine: u64) {
    let next = |seen: u64, on: bool| if on { seen | WAITERS } else { seen & !WAITERS };
    let flag = |on| update(o, || load(o), |seen| (seen & !KEPT == mine).then_some(next(seen, on)));
    if load(o) & WAITERS != 0 && !map.waits_on(object, o) {
        flag(false);
        if map.waits_on(object, o) {
            flag(true);
        }
    }
}

/// I2: sets WAITERS, after the caller has set its bit.
pub(crate) fn mark(map: &Map, object: u32) {
    let o = map.object(object);
    // The exact word, so that a slot now used by another kind is not touched.
    update(o, || bias::settled(map, o), |seen| (seen & 7 >= FREE).then_some(seen | WAITERS));
}

/// Unlocks. `free`: [`free_word`]. False: the caller no longer held the lock.
#[inline(always)]
pub(crate) fn give(map: &Map, place: Place, o: &Object, free: u64, mine: u64) -> bool {
    o.through(place.head);
    bias::leave(map, o, place.index, bias::mutex(free & KEPT, member_of(mine)))
        || give_unbiased(map, place, o, free, mine)
}

/// As [`give`], of a lock that the caller does not hold by a bias.
#[inline(always)]
pub(crate) fn give_unbiased(map: &Map, place: Place, o: &Object, free: u64, mine: u64) -> bool {
    o.through(place.head);
    let its = free & KEPT;
    swap(o, mine | its, free) || give_slow(map, place.index, o, mine | its)
}

#[cold]
fn give_slow(map: &Map, object: u32, o: &Object, mine: u64) -> bool {
    // If it is biased, the caller does not hold it: `bias::leave` has checked that, and only a holder grants a bias.
    let Some(seen) = free(o, mine) else { return false };
    let since = || o.slot.since.load(Ordering::Relaxed); // Relaxed: a hint; I6.
    if seen & WAITERS != 0 && (seen & TOLD == 0 || is_long_ago(since(), clock::common_coarse())) {
        step!("unlocked, not yet handed on");
        chappe_wait::kinds::drain(map, object);
    }
    true
}

/// Declares the data whole (`false`) or torn (`true`). The caller holds the lock.
pub(crate) fn tear(map: &Map, o: &Object, mine: u64, torn: bool) {
    owner::tear(o, || bias::settled(map, o), mine, torn);
}

/// Condemns the mutex: it can never be locked again. The caller holds it.
pub(crate) fn condemn(map: &Map, object: u32, o: &Object, mine: u64) {
    condemn_as(map, object, o, mine, CONDEMNED);
}

fn condemn_as(map: &Map, object: u32, o: &Object, mine: u64, condemned: u64) {
    // TORN is in the new word.
    let next = |seen: u64| (seen & !KEPT == mine).then_some(condemned | seen & KEPT);
    if update(o, || bias::settled(map, o), next).is_some() {
        step!("condemned, waiters not yet told");
        chappe_wait::kinds::drain(map, object);
    }
}

/// Matches the lock with its waiters. The object is a mutex in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    let o = map.object(object);
    loop {
        let seen = load(o);
        match seen & 7 {
            HELD if is_condemned(seen) => return notify_dead(map, object, head, &mut map.visitor()),
            // Biased: every waiter has yet to look at the word itself.
            FREE if bias::owner_of(map, o).is_some() => return,
            FREE => {
                let (trying, next) = tried_and_next(map, Place { index: object, head });
                let Some(next) = next else { return };
                let turn = (trying > 0 || next.need > 0) && may_reserve(o, seen);
                if trying > 0 && !turn {
                    return;
                }
                if next.need == 0 || !turn {
                    if tell(map, next.member, next.state, object, RETRY) && note_told(map, object, head, o) {
                        return;
                    }
                    continue;
                }
                let reserved = reserved_for(next.member, next.state.wait()) | seen & KEPT;
                if !swap(o, seen, reserved) {
                    continue;
                }
                step!("reserved, not yet granted");
                if grant(map, next.member, next.state, object, 0, false) {
                    return;
                }
                // SeqCst: I2 of the wait queue, as in `resolve`.
                let now = State(word_of(map, next.member).0.load(Ordering::SeqCst));
                if now.wait() == next.state.wait() && now.grant().is_some_and(|g| g.is(map, object, 0)) {
                    // Another drainer granted this very reservation, and may have died or been stopped before the wake.
                    return wake_granted(map, next.member);
                }
                free(o, reserved);
            }
            RESERVED => {
                if resolve(map, object, o, seen, || true) {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// I5: a waiter was told. False: it has tried meanwhile, and a thread that unlocked in between may not have looked: look again.
fn note_told(map: &Map, object: u32, head: Head, o: &Object) -> bool {
    let seen = load(o);
    // On failure: the thread that changed the word looks itself, or sees that no waiter was told.
    if seen & 7 < FREE || seen & (WAITERS | TOLD) != WAITERS || !swap(o, seen, seen | TOLD) {
        return true;
    }
    step!("said that one was told");
    let still = tried_and_next(map, Place { index: object, head }).0 > 0;
    if !still {
        untell(o);
    }
    still
}

/// I5: clears TOLD; the waiter that was told is about to try.
pub(crate) fn untell(o: &Object) {
    update(o, || load(o), |seen| (seen & 7 >= FREE).then_some(seen & !TOLD));
}

/// I6: whether the lock may be reserved now. The time of the last reservation is beside the word `seen`, and is changed with it: no later object of
/// the slot has that word (I8).
fn may_reserve(o: &Object, seen: u64) -> bool {
    let now = clock::common();
    // Relaxed: the swap decides.
    let last = o.slot.since.load(Ordering::Relaxed);
    // The faster of two drainers reserves.
    is_long_ago(last, now) && set_since(o, seen, last, now)
}

#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
fn set_since(o: &Object, seen: u64, last: u64, now: u64) -> bool {
    // A swap of both is a full fence, as SeqCst.
    o.slot.pair().compare_exchange([seen, last], [seen, now]).is_ok()
}

/// loom has no such swap, and in its searches no slot is used twice.
#[cfg(all(feature = "loom", not(feature = "sim")))]
fn set_since(o: &Object, _seen: u64, last: u64, now: u64) -> bool {
    o.slot.since.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() // Relaxed: a time.
}

fn is_long_ago(since: u64, now: u64) -> bool {
    // A time in the future is another clock's: of a process whose time namespace is not known. The two kinds of clock differ by a tick.
    now.saturating_sub(since) >= HANDS_ON_NS || since.saturating_sub(now) >= OTHER_CLOCK_NS
}

/// Recovers from the death of a holder: the lock becomes free and torn, the data stays as it is.
pub(crate) fn recover(map: &Map, object: u32, member: u32, generation: u32) {
    let o = map.object(object);
    // I5: the dead member may have set TOLD, or may have been the waiter that was told.
    untell(o);
    let its = |seen: u64| seen & !KEPT == held_by(member, generation);
    // I2: it may have died after it had cleared WAITERS and before it looked again.
    let torn = |seen: u64| its(seen).then(|| freed(o, seen) | TORN | WAITERS);
    update(o, || bias::settled_of(map, o, member, generation), torn);
}

/// I7: whether a holder may still use the data.
pub(crate) fn is_had(map: &Map, o: &Object) -> bool {
    owner::is_had(bias::settled(map, o))
}

/// The member whose turn it is: the holder, or the waiter that the lock is reserved for.
#[cfg(not(feature = "sim"))]
pub(crate) fn turn(map: &Map, o: &Object) -> Option<u32> {
    let seen = load(o);
    (seen & 7 >= HELD && member_of(seen) < map.geometry().members).then_some(member_of(seen))
}

/// The holder: member and generation.
pub(crate) fn holder(map: &Map, o: &Object) -> Option<(u32, u32)> {
    let seen = bias::settled(map, o);
    let held = seen & 7 == HELD && member_of(seen) < map.geometry().members;
    held.then_some((member_of(seen), aux_of(seen)))
}

/// The holder that the word names, member and generation, even if no such member can exist.
#[cfg(not(feature = "sim"))]
pub(crate) fn named(o: &Object) -> Option<(u32, u32)> {
    let seen = load(o);
    (seen & 7 == HELD && member_of(seen) != NOBODY).then(|| (member_of(seen), aux_of(seen)))
}

/// Whether the word is a mutex's.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_word(o: &Object) -> bool {
    load(o) & 7 >= FREE
}

/// Whether the data is as a dead or panicked holder left them.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_torn(o: &Object) -> bool {
    let seen = load(o);
    seen & TORN != 0 && !is_condemned(seen)
}

/// Whether the mutex is condemned.
pub(crate) fn condemned(o: &Object) -> bool {
    is_condemned(load(o))
}

/// A thread ends and has leaked its guard: nobody may get the lock, nor the slot.
#[cfg(not(feature = "sim"))]
pub(crate) fn abandon(map: &Map, object: u32, mine: u64) {
    let o = map.object(object);
    if bias::settled_of(map, o, member_of(mine), aux_of(mine)) & !KEPT == mine {
        condemn_as(map, object, o, mine, CONDEMNED | ABANDONED);
    }
}

/// Takes the lock of a mutex that is to be removed, unless it is held or has waiters.
#[cfg(not(feature = "sim"))]
pub(crate) fn take_idle(map: &Map, place: Place, mine: u64) -> bool {
    let o = map.object(place.index);
    let seen = load(o);
    if is_condemned(seen) {
        return chappe_wait::wait::in_line(map, place).is_empty();
    }
    let taken = seen & 7 == FREE && swap(o, seen, mine | seen & KEPT);
    if taken && !chappe_wait::wait::in_line(map, place).is_empty() {
        give(map, place, o, free_word(place), mine);
        return false;
    }
    taken
}

/// Makes a mutex with `bytes` of data. The caller holds `admin` and has checked that the name is free; `fill` writes the data.
pub(crate) fn make(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    bytes: usize,
    hash: u32,
    fill: impl FnOnce(*mut u8),
) -> Result<Place, ArenaError> {
    map.make(admin, name, Kind::Mutex, |index, generation| {
        lay_data(map, (index, generation), bytes, hash, fill)?;
        // Overwrites what a pool may have had there: see `CellRef::note`.
        store_words(map.object(index), owner::free_word(Head::live(generation, Kind::Mutex)), clock::common());
        Ok(())
    })
}

/// Whether the lock is reserved for a member, for observers in tests.
#[cfg(any(feature = "sim", feature = "loom"))]
pub(crate) fn is_reserved(o: &Object, member: u32) -> bool {
    let seen = load(o);
    seen & 7 == RESERVED && member_of(seen) == member
}

/// The held word, without flags and number.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub(crate) fn held_word(kept: u64) -> u64 {
    kept & !(7 | KEPT) | HELD
}
