//! A semaphore as something that a thread waits for: see `operation`. Invariants: the semaphore's.

#[cfg(not(feature = "sim"))]
use super::{ONE, TAG, WAY, load};
use super::{hand_back, is_there, mark_in_queue};
use chappe_arena::layout::Object;
use chappe_arena::{Map, Place};
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Collected, Looking, Mode, Nature, Refused, Site, Taken};
use chappe_wait::wait::{Grant, Party, is_barging};

/// What a grant gave, while the wait word still says GRANTED. Only looked for: it goes back.
pub(crate) fn collect(me: &Party, place: Place, grant: Option<Grant>, aim: Mode) -> Collected {
    if aim == Mode::Look && hand_back(me.map, place.index, me.member) {
        return Collected::HandedBack;
    }
    if grant.is_some_and(|grant| !grant.is_retry()) { Collected::Taken(Taken::UNIT) } else { Collected::Nudged }
}

/// Where a semaphore is, as an arm.
#[inline]
pub(crate) fn site(map: &'static Map, place: Place, o: &Object) -> Site {
    let nature = if is_barging(o) { Nature::Barging } else { Nature::Granting };
    Site { map, place, nature }
}

/// Whether it is in service without a unit, and none is under way: then nothing could be taken at that moment.
#[cfg(not(feature = "sim"))]
#[inline]
pub(crate) fn is_bare(o: &Object, place: Place) -> bool {
    const COUNT: u64 = (1 << 36) - ONE;
    // Acquire: as in `take_from`, after the word.
    load(o).0 & (7 | COUNT | WAY) == TAG && o.head.load(Ordering::Acquire) == place.head.0
}

/// A look at a semaphore, as an arm.
pub(crate) fn look_at(map: &'static Map, place: Place, how: Looking) -> Result<Mark, Refused> {
    match how {
        Looking::Free => is_there(map, place).map(Mark::from),
        Looking::Queued => Ok(mark_in_queue(map, place).map_or(Mark::Something, Mark::Nothing)),
        #[cfg(not(feature = "sim"))]
        Looking::Dead => Ok(revive(map, place).into()),
        _ => Ok(Mark::Nothing(0)),
    }
}

/// If a waiting member is dead, and may have been granted a unit: gives that back. True: one is.
#[cfg(not(feature = "sim"))]
pub(crate) fn revive(map: &'static Map, at: Place) -> bool {
    let mut haunted = false;
    chappe_wait::wait::each(map, at, |c| haunted |= map.dead(c.member).is_some());
    if haunted {
        map.recover_dead();
    }
    haunted
}
