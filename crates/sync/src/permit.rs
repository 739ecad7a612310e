//! Pools as protocols: taking a permit, waiting for one of several pools, giving a permit back, resizing, removing.
//!
//! Without waiters, one compare-and-swap takes a free permit and one gives it back, each with a load of the wait bits; no
//! system call, no allocation. N permits are N cells, so that each death returns exactly its own.
//!
//! - I1: the member that the cell names holds the permit; its guard remembers the exact word. Giving back swaps that
//!   word: a permit that was taken away by force, or recovered, is not given back twice.
//! - I2: "none is free" is answered only if two looks at all cells saw the same words, none of them free, and the same number of permits:
//!   at the moment between the looks none was. (A pool of one cell needs one look.)
//! - I3: no thread takes a permit of a shrunk pool at a position beyond its number: resize stores the number, and then drains; the taker
//!   swaps, and then looks at the number again, and gives back. One sees the other. A holder of such a permit keeps it; it ends when it is
//!   given back, and nobody is granted it again.
//! - I4: the taker loads the cell, then looks at the head, then swaps: so what it swaps was free while its pool was
//!   there. The remover of a pool that must not be in use first takes all its permits, which makes such swaps fail: a taker that
//!   comes meanwhile finds none, waits, and is told. The remover then looks under `admin` whether the pool is still there: another thread
//!   may have removed it since it was found, and the slot may be another object's. The words go on when the slot is used again. (Removal by
//!   force may overlap with a take: the taker then holds a permit of a dead pool, like all its holders.)
//! - A death while a permit is free or held: nothing or the whole operation was done. Killed after giving back, before looking at the
//!   wait bits: recovery drains.
//!
//! FIFO: a take is refused while a living member waits; what is free then belongs to the waiters (wait queue, I5).

use crate::bias::{self, Holds};
use crate::drain::{CellRef, cell_at, cell_of, cells, permits, resolve};
use chappe_arena::layout::{Kind, MAX_PERMITS, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::cell::{Tag, Word};
use chappe_wait::kinds::drain;
use chappe_wait::operation::{Collected, Refused, Taken};
use chappe_wait::wait::{Discipline, Grant, Party, next};

/// Takes the first permit, if it is the permit given back last and free, and no member waits: the whole of the commonest
/// case, small enough to stay in registers. `None` means nothing: take the slow path.
#[inline(always)]
pub(crate) fn take_one(o: &'static Object, place: Place, me: &Party) -> Option<Taken> {
    o.through(place.head);
    let cell = CellRef::first(me.map, o);
    // Before all else, I4 and FIFO: if the swap succeeds, the permit was free while the pool was there and no member waited.
    let seen = cell.plain();
    // Acquire: the object as its maker left it; a slot used again has another head.
    // Relaxed: a hint; and no resize takes away the first permit.
    let plain = o.head.load(Ordering::Acquire) == place.head.0 && o.hint.load(Ordering::Relaxed) == 0;
    if !plain || me.map.waits_on(place.index, o) {
        return None;
    }
    let mine = seen.held(me.member, me.generation);
    if !seen.is_free() || !cell.swap(seen, mine) {
        return None;
    }
    Some(Taken { position: 0, word: mine })
}

/// Takes the first permit of a private pool, if it is biased to the calling thread.
///
/// # Safety
/// The party is the calling thread, in the arena where the pool is; and that is private.
#[inline(always)]
pub(crate) unsafe fn enter(o: &Object, place: Place, me: &Party) -> Option<Taken> {
    o.through(place.head);
    let mine = CellRef::first(me.map, o).last().held(me.member, me.generation);
    // SAFETY: the caller's promise.
    let inside = unsafe { bias::enter(o, place.index, bias::cell(mine, me.member), me.holds) };
    inside.then_some(Taken { position: 0, word: mine })
}

/// Whether the calling thread holds the taken permit by a bias.
///
/// # Safety
/// It is the calling thread that has taken it.
#[cfg(not(feature = "sim"))]
pub(crate) unsafe fn is_inside(map: &Map, o: &Object, place: Place, taken: Taken) -> bool {
    let word = taken.word;
    // SAFETY: the caller's promise.
    taken.position == 0 && unsafe { bias::is_inside(map, o, place.index, bias::cell(word, word.member())) }
}

/// The calling thread has just taken the first permit: if it is the only permit, the pool may become biased to the thread.
///
/// # Safety
/// As for [`enter`].
#[cold]
pub(crate) unsafe fn consider(map: &Map, o: &Object, place: Place, taken: Taken, holds: Holds) {
    if permits(map, place.index) == 1 && map.extents(place.index).next().is_none() {
        // SAFETY: the caller's promise.
        unsafe { bias::consider(map, o, place.index, taken.word.0, holds) };
    }
}

/// Whether it is in service, has one permit, and some member has that: then nothing could be taken at that moment. (A permit that is held by a
/// bias counts as one that may be free.)
#[cfg(not(feature = "sim"))]
#[inline]
pub(crate) fn is_held(o: &Object, place: Place) -> bool {
    let cell = CellRef::further(&o.slot).load();
    // Acquire, both: after the cell. A pool that has got further cells keeps them.
    matches!(cell.tag(), Tag::Held | Tag::Leased)
        && o.more.load(Ordering::Acquire) == 0
        && o.head.load(Ordering::Acquire) == place.head.0
}

/// In the hint: which permit was given back last, unless it was the first (0). Parts of other objects have a number of a slot there, which never has this bit.
const GIVEN: u32 = 1 << 31;

/// The permit that was given back last.
#[inline(always)]
fn last_given(o: &Object) -> u32 {
    // Relaxed: a hint.
    o.hint.load(Ordering::Relaxed) & !GIVEN
}

/// Takes the permit that was given back last, if it is free and no member waits. `None` means nothing: take the slow path.
#[inline]
pub(crate) fn take_last(o: &'static Object, place: Place, me: &Party) -> Option<Taken> {
    o.through(place.head);
    // Acquire: as in `take_one`.
    if o.head.load(Ordering::Acquire) != place.head.0 || me.map.waits_on(place.index, o) {
        return None;
    }
    let hint = last_given(o);
    seize(place, me, hint, cell_at(me.map, place.index, hint)?)
}

/// Takes a free permit if there is one and no member waits for it.
pub(crate) fn take(place: Place, me: &Party) -> Result<Taken, Refused> {
    me.map.through(place);
    let o = me.map.object(place.index);
    // Acquire: the object as its maker left it; a slot used again has another head.
    if o.head.load(Ordering::Acquire) != place.head.0 {
        return Err(Refused::Dead(0));
    }
    if me.map.anybody_waits(place.index) {
        return take_behind(place, me);
    }
    if bias::was_inside(me.map, o) == Some(true) && permits(me.map, place.index) == 1 {
        return Err(Refused::NoneFree);
    }
    take_any(place, me)
}

/// A waiter's bit stands: what is free belongs to the waiters, unless all of them are dead or done.
#[cold]
fn take_behind(place: Place, me: &Party) -> Result<Taken, Refused> {
    drain(me.map, place.index);
    if next(me.map, place).is_some() { Err(Refused::NoneFree) } else { take_any(place, me) }
}

fn take_any(place: Place, me: &Party) -> Result<Taken, Refused> {
    let o = me.map.object(place.index);
    loop {
        let count = permits(me.map, place.index);
        let hint = last_given(o);
        if hint > 0
            && hint < count
            && let Some(cell) = cell_at(me.map, place.index, hint)
            && let Some(taken) = seize(place, me, hint, cell)
        {
            return Ok(taken);
        }
        let mut before = 0u64;
        for (position, cell) in cells(me.map, place.index).take(count as usize) {
            if let Some(taken) = seize(place, me, position, cell) {
                return Ok(taken);
            }
            let seen = cell.load();
            // A thread that was stopped while granting or withdrawing it holds up no other.
            if seen.tag() == Tag::Reserved
                && !resolve(me.map, place.index, place.head, position, cell, seen)
                && let Some(taken) = seize(place, me, position, cell)
            {
                return Ok(taken);
            }
            before = mix(before, cell.load());
        }
        // I2. A single cell needs no second look.
        if count == 1 && permits(me.map, place.index) == 1 {
            return Err(Refused::NoneFree);
        }
        let mut after = 0u64;
        let mut free = false;
        for (_, cell) in cells(me.map, place.index).take(count as usize) {
            let word = cell.load();
            free |= word.is_free();
            after = mix(after, word);
        }
        if !free && before == after && permits(me.map, place.index) == count {
            return Err(Refused::NoneFree);
        }
    }
}

fn mix(sum: u64, word: Word) -> u64 {
    (sum.rotate_left(5) ^ word.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline]
fn seize(place: Place, me: &Party, position: u32, cell: CellRef<'_>) -> Option<Taken> {
    let seen = cell.load();
    // Acquire: I4, between the load and the swap.
    if !seen.is_free() || me.map.object(place.index).head.load(Ordering::Acquire) != place.head.0 {
        return None;
    }
    let mine = seen.held(me.member, me.generation);
    if !cell.swap(seen, mine) {
        return None;
    }
    if position > 0 && position >= permits(me.map, place.index) {
        // I3.
        cell.swap(mine, mine.freed());
        drain(me.map, place.index);
        return None;
    }
    Some(Taken { position, word: mine })
}

/// Gives a permit back, if its word still is what the guard remembers. False: the permit was taken away.
#[inline]
pub(crate) fn give(map: &Map, place: Place, o: &Object, taken: Taken) -> bool {
    o.through(place.head);
    let object = place.index;
    if taken.position == 0 && bias::leave(map, o, object, bias::cell(taken.word, taken.word.member())) {
        return true;
    }
    give_unbiased(map, place, o, taken)
}

/// As [`give`], for a permit that is not held by a bias.
#[inline(always)]
pub(crate) fn give_unbiased(map: &Map, place: Place, o: &Object, taken: Taken) -> bool {
    let object = place.index;
    let cell = if taken.position == 0 { Some(CellRef::first(map, o)) } else { cell_of(map, place, taken.position) };
    if !cell.is_some_and(|c| c.free(taken.word)) {
        return false;
    }
    // Acquire: a hint, written only where it changes; and read before the head, since the slot may be another kind's by now.
    let hint = o.hint.load(Ordering::Acquire);
    let given = if taken.position == 0 { 0 } else { GIVEN | taken.position };
    // Acquire: what was read is this pool's. By a swap: if the slot is another kind's by now, the hint has another value and the swap fails.
    if hint != given && o.head.load(Ordering::Acquire) == place.head.0 {
        let _ = o.hint.compare_exchange(hint, given, Ordering::Relaxed, Ordering::Relaxed); // Relaxed: as above.
    }
    if map.waits_on(object, o) {
        hand_on(map, object);
    }
    true
}

#[cold]
fn hand_on(map: &Map, object: u32) {
    drain(map, object);
}

/// Takes the permit that was granted, while the wait word still says so.
pub(crate) fn collect(me: &Party, place: Place, grant: Grant, number: u32) -> Collected {
    collect_for(me, me, place, grant, number)
}

/// As [`collect`], for another member to hold: in one swap, so that at each moment exactly one of the two has it.
pub(crate) fn collect_for(me: &Party, holder: &Party, place: Place, grant: Grant, number: u32) -> Collected {
    me.map.through(place);
    let (map, o) = (me.map, me.map.object(place.index));
    let Some(taken) = seize_reserved(me, holder, place.index, grant.permit, number) else { return Collected::Void };
    // I3, for a pool that shrank while the grant was under way.
    if taken.position >= permits(map, place.index).max(1) {
        give(map, place, o, taken);
        return Collected::Void;
    }
    Collected::Taken(taken)
}

/// Takes the cell that is reserved for wait `number` of ours, for `holder`.
pub(crate) fn seize_reserved(me: &Party, holder: &Party, object: u32, position: u32, number: u32) -> Option<Taken> {
    let cell = cell_at(me.map, object, position)?;
    let seen = cell.load();
    let ours = seen.is_reserved(me.member, number);
    let mine = seen.held(holder.member, holder.generation);
    if !ours || !cell.swap(seen, mine) {
        return None;
    }
    cell.note(mine, true);
    Some(Taken { position, word: mine })
}

/// Makes a pool. The caller holds `admin` and has seen that the name is free.
pub(crate) fn make_pool(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    count: u32,
    discipline: Discipline,
) -> Result<Place, ArenaError> {
    if count > MAX_PERMITS {
        return Err(ArenaError::CellsFull { name: map.name().into(), wanted: count, capacity: MAX_PERMITS });
    }
    map.make(admin, name, Kind::Pool, |index, generation| prepare(map, index, generation, count, discipline, 0))
}

/// Makes a slot ready to be a pool. `flags`: see [`Object::run`].
pub(crate) fn prepare(
    map: &'static Map,
    index: u32,
    generation: u32,
    count: u32,
    discipline: Discipline,
    flags: u32,
) -> Result<(), ArenaError> {
    let o = map.object(index);
    let more = if count > 1 { map.claim_cells(index, generation, count - 1)? + 1 } else { 0 };
    o.more.store(more, Ordering::Relaxed); // Relaxed: published by the head.
    o.permits.store(count | discipline.code(), Ordering::Relaxed); // Relaxed: published by the head.
    o.hint.store(0, Ordering::Relaxed); // Relaxed: published by the head.
    o.run.store(flags, Ordering::Relaxed); // Relaxed: published by the head.
    for (_, cell) in cells(map, index) {
        // The version goes on, so that no guard of an earlier pool fits.
        let last = cell.last();
        cell.publish(if last.is_ours() { last.freed() } else { Word::first(generation) });
    }
    // Not what a condition variable may have had there: see `CellRef::note`. Release: after the word, as `owner::store_words`.
    o.slot.since.store(0, Ordering::Release);
    Ok(())
}

/// Gives the pool another number of permits. If it is smaller: permits held beyond the number end when they are given back. The
/// caller holds `admin`. False: the pool is gone.
pub(crate) fn resize(map: &'static Map, _admin: &Admin, place: Place, count: u32) -> Result<bool, ArenaError> {
    map.through(place);
    // Under admin the slot can only be this pool's or a dead object's.
    if !map.is_there(place) {
        return Ok(false);
    }
    if count > MAX_PERMITS {
        return Err(ArenaError::CellsFull { name: map.name().into(), wanted: count, capacity: MAX_PERMITS });
    }
    let o = map.object(place.index);
    let there = cells(map, place.index).count() as u32;
    if count > there {
        let first = map.claim_cells(place.index, place.head.generation(), count - there)?;
        for i in first..first + (count - there) {
            let cell = CellRef::further(&map.cell(i).slot);
            cell.publish(cell.last().freed());
        }
        step!("cells claimed, not yet linked");
        let mut last = None;
        for extent in map.extents(place.index) {
            last = Some(extent.0);
        }
        match last {
            // Release: publishes the cells.
            None => o.more.store(first + 1, Ordering::Release),
            Some(extent) => {
                let word = &map.cell(extent).extent;
                // Relaxed: under admin.
                let len = word.load(Ordering::Relaxed) & !0xffff_ffff;
                // Release: publishes the cells.
                word.store(len | u64::from(first + 1), Ordering::Release);
            }
        }
        step!("cells linked, not yet counted");
    }
    o.hint.store(0, Ordering::Relaxed); // Relaxed: a hint.
    let discipline = Discipline::of(o).code();
    // SeqCst: I3, before any taker's second look.
    o.permits.store(count | discipline, Ordering::SeqCst);
    drain(map, place.index);
    Ok(true)
}

/// Takes every permit of a pool for `me`, if no permit is held and no member waits; none otherwise. The caller holds `admin`.
/// The permits end with the pool, or with `me`. A pool that is gone by then, and whose slot may be another object's, has none: true.
pub(crate) fn take_all(place: Place, me: &Party) -> bool {
    me.map.through(place);
    if !me.map.is_there(place) {
        return true;
    }
    let mut taken = Vec::new();
    let mut all = true;
    for (_, cell) in cells(me.map, place.index) {
        let seen = cell.load();
        let mine = seen.held(me.member, me.generation);
        if !seen.is_free() || !cell.swap(seen, mine) {
            all = false;
            break;
        }
        taken.push((cell, mine));
    }
    if all && next(me.map, place).is_none() {
        return true;
    }
    for (cell, mine) in taken {
        cell.swap(mine, mine.freed());
    }
    drain(me.map, place.index);
    false
}

/// Takes permit `position` from its holder. Answers the word it had.
pub(crate) fn force(map: &Map, place: Place, position: u32) -> Option<Word> {
    map.through(place);
    let cell = cell_at(map, place.index, position)?;
    loop {
        let seen = cell.load();
        // I4: what was read is this pool's.
        if seen.is_free() || !map.is_there(place) {
            return None;
        }
        if cell.swap(seen, seen.freed()) {
            if map.anybody_waits(place.index) {
                drain(map, place.index);
            }
            return Some(seen);
        }
    }
}
