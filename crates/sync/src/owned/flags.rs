//! The flags of an owned semaphore's permit: see the table in the head of `pair`, whose invariants and edges these are.

#[cfg(not(feature = "sim"))]
use chappe_arena::layout::Kind;
use chappe_arena::layout::Object;
use chappe_arena::{Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::cell::Word;
use chappe_wait::wait::is_still;

pub(super) const LINK: u32 = (1 << 21) - 1;
pub(super) const PLAIN: u32 = 1 << 31;
/// The name of this kind in messages and listings.
#[cfg(not(feature = "sim"))]
pub(super) const KIND: &str = "owned semaphore";

/// Whether an object, a pool or a semaphore, is a part of an owned semaphore.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_part(map: &Map, o: &Object) -> bool {
    // Acquire: written before the object was put in service.
    !map.is_private() && o.run.load(Ordering::Acquire) != 0
}

/// I3: whether the first permit of this pool is lost with a dead holder.
pub(crate) fn is_plain(map: &Map, o: &Object) -> bool {
    // SeqCst: E1, after the cell.
    !map.is_private() && o.run.load(Ordering::SeqCst) & PLAIN != 0
}

/// I3: whether a dead holder's first permit, whose word is `seen`, is lost with it.
pub(crate) fn takes_along(map: &Map, place: Place, seen: Word) -> bool {
    let o = map.object(place.index);
    // Acquire: as its maker left it.
    if seen.is_kept() && !map.is_private() && o.run.load(Ordering::Acquire) & LINK != 0 {
        demote(map, place);
        step!("demoted for a dead holder, not yet retired");
    }
    is_plain(map, o)
}

/// Demotes: the semaphore is no lock. False: it was removed.
pub(super) fn demote(map: &Map, permit: Place) -> bool {
    let flags = &map.object(permit.index).run;
    loop {
        // SeqCst: I9, before the head.
        let seen = flags.load(Ordering::SeqCst);
        if !is_still(map, permit.index, permit.head) {
            return false;
        }
        // SeqCst: E1, before the unit is added or the permit retired.
        let set = || flags.compare_exchange(seen, seen | PLAIN, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if seen & PLAIN != 0 || set() {
            return true;
        }
    }
}

/// The kind's name of an object in service, if it is a part of an owned semaphore.
#[cfg(not(feature = "sim"))]
pub(crate) fn name_of(map: &Map, place: Place) -> Option<&'static str> {
    let may_be = matches!(place.head.kind(), Some(Kind::Pool | Kind::Semaphore));
    (may_be && is_part(map, map.object(place.index))).then_some(KIND)
}
