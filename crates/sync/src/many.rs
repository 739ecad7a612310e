//! Several permits of one pool at once: all of them, or none.
//!
//! A waiter that needs n permits waits with `need = n` in its record; the head of `drain` says how they are set aside for it. So
//! the head of the queue gets them all at one moment, and the waiters behind it wait until then (no overtaking, no
//! starvation of large requests, no two half-served requests that block each other).
//!
//! - I1: a waiter that gave up, or was granted too few because some were taken away by force, drains: what was set aside goes on.
//! - Killed while taking what was granted: recovery frees what it has taken; the rest is void.
//!
//! Explored: `tests/crash_many.rs`.

use crate::drain::{CellRef, cells, permits};
use crate::permit::{give, seize_reserved};
use chappe_arena::{Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::cell::Tag;
use chappe_wait::interrupt::Interrupt;
use chappe_wait::kinds::drain;
use chappe_wait::operation::{Refused, Site, Taken};
use chappe_wait::wait::{Ended, Parties, Party, Patience, Terms, arrive, finish, next, wait};

/// How many permits are kept without allocating.
const FEW: usize = 8;

/// Permits that the caller holds. Up to [`FEW`] allocate nothing.
pub(crate) struct Many {
    few: [Taken; FEW],
    len: usize,
    more: Vec<Taken>,
}

impl Many {
    /// None yet.
    pub fn new() -> Many {
        Many { few: [Taken::UNIT; FEW], len: 0, more: Vec::new() }
    }
    fn push(&mut self, one: Taken) {
        if self.len < FEW {
            self.few[self.len] = one;
        } else {
            self.more.push(one);
        }
        self.len += 1;
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Taken> + '_ {
        self.few[..self.len.min(FEW)].iter().chain(&self.more).copied()
    }
    /// All of them, mutably.
    #[cfg(not(feature = "sim"))]
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Taken> {
        self.few[..self.len.min(FEW)].iter_mut().chain(&mut self.more)
    }
    /// All of them, by value.
    #[cfg(not(feature = "sim"))]
    pub fn into_all(self) -> impl Iterator<Item = Taken> {
        self.few.into_iter().take(self.len.min(FEW)).chain(self.more)
    }
    fn clear(&mut self) {
        self.len = 0;
        self.more.clear();
    }
}

/// Takes `need` free permits if so many are free and nobody waits.
///
/// It takes nothing before it has seen that there are enough. If other threads are faster then, it gives back what it took.
pub(crate) fn take_many(place: Place, me: &Party, need: u32, into: &mut Many) -> Result<(), Refused> {
    me.map.through(place);
    let map = me.map;
    let o = map.object(place.index);
    // Acquire: the object as its maker left it; a slot used again has another head.
    if o.head.load(Ordering::Acquire) != place.head.0 {
        return Err(Refused::Dead(0));
    }
    let count = permits(map, place.index);
    if need > count {
        // Acquire: behind the number, which may be that of the next object in the slot.
        let is_its = o.head.load(Ordering::Acquire) == place.head.0;
        return Err(if is_its { Refused::TooMany } else { Refused::Dead(0) });
    }
    // A request for none takes nothing from waiters.
    if need > 0 && map.anybody_waits(place.index) && next(map, place).is_some() {
        return Err(Refused::NoneFree);
    }
    let all = || cells(map, place.index).take(count as usize).map(|(_, c)| c.load());
    let too_few = || all().filter(|w| w.is_free()).count() < need as usize;
    if too_few() {
        if all().any(|w| w.tag() == Tag::Reserved) {
            // Resolves a reservation whose granter or waiter was stopped while granting or withdrawing it.
            drain(map, place.index);
        }
        if too_few() {
            return Err(Refused::NoneFree);
        }
    }
    let mut left = need;
    for (position, cell) in cells(map, place.index).take(count as usize) {
        let seen = cell.load();
        let mine = seen.held(me.member, me.generation);
        // Acquire: as above; between the load and the swap, as in `permit`.
        if left > 0 && seen.is_free() && o.head.load(Ordering::Acquire) == place.head.0 && cell.swap(seen, mine) {
            left -= 1;
            into.push(Taken { position, word: mine });
        }
    }
    if left == 0 && permits(map, place.index) >= count {
        return Ok(());
    }
    give_all(map, place, into);
    Err(Refused::NoneFree)
}

/// Waits for `need` permits. The caller has found too few.
pub(crate) fn wait_many(
    who: &Parties,
    pool: &Site,
    need: u32,
    deadline: Option<u64>,
    patience: &Patience<'_>,
    into: &mut Many,
) -> Result<(), Refused> {
    let Site { map, place, .. } = *pool;
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let terms = Terms { first: 0, arrival: arrive(who, patience), need, packet: 0, deadline, patience };
    loop {
        let (ended, begun) = wait(who, &[pool], terms);
        let Ended::Granted(_, number) = ended else {
            // I1.
            drain(map, place.index);
            return Err(match ended {
                Ended::TooMany => Refused::TooMany,
                Ended::Dead(arm) => Refused::Dead(arm),
                _ if patience.is_interrupted() => Refused::Interrupted,
                _ => Refused::TimedOut,
            });
        };
        step!("granted several, none yet taken");
        let me = who.party(map);
        let done = collect(me, me, place, need, number, into);
        finish(who, &[pool], &begun);
        // I1; and what was set aside beyond the need goes on.
        drain(map, place.index);
        if done {
            return Ok(());
        }
    }
}

/// Takes what is set aside, for `holder`. True: all that is needed. False: too few, and nothing was kept.
pub(crate) fn collect(me: &Party, holder: &Party, place: Place, need: u32, number: u32, into: &mut Many) -> bool {
    let map = me.map;
    let aside = |(_, c): &(u32, CellRef<'_>)| c.load().is_reserved(me.member, number);
    let count = permits(map, place.index);
    if cells(map, place.index).take(count as usize).filter(aside).count() < need as usize {
        return false;
    }
    for (position, _) in cells(map, place.index).take(count as usize).filter(aside) {
        if into.len() < need as usize
            && let Some(taken) = seize_reserved(me, holder, place.index, position, number)
        {
            into.push(taken);
        }
    }
    if into.len() == need as usize {
        return true;
    }
    give_all(map, place, into);
    false
}

/// Gives all of them back.
pub(crate) fn give_all(map: &Map, place: Place, many: &mut Many) {
    for one in many.all() {
        give(map, place, map.object(place.index), one);
    }
    many.clear();
}
