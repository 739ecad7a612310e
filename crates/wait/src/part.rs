//! Parts: objects without a name that are made before another object, their whole, and go after it. A part names its whole by its slot (`hint`, one more
//! than the index) and generation (`permits`). Until its maker knows them, it says [`MAKING`].

use crate::wait::is_still;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Map, Place};
use chappe_plat::atomic::Ordering;

/// The hint of a part whose whole is just being made.
pub const MAKING: u32 = u32::MAX;

#[inline]
pub fn head_of(map: &Map, object: u32) -> Head {
    // Acquire: the object as its maker left it.
    Head(map.object(object).head.load(Ordering::Acquire))
}

/// The slot and generation of the whole that a part names, if it is one.
#[inline]
pub fn whole(map: &Map, part: u32) -> Option<(u32, u32)> {
    let o = map.object(part);
    // Acquire, both: written before the whole was in service.
    let (hint, generation) = (o.hint.load(Ordering::Acquire), o.permits.load(Ordering::Acquire));
    hint.checked_sub(1).filter(|index| *index < map.geometry().objects).map(|index| (index, generation))
}

/// The whole of a part, if that is in service, and of this kind.
#[inline]
pub fn whole_in_service(map: &Map, part: u32, kind: Kind) -> Option<Place> {
    let (index, generation) = whole(map, part)?;
    let head = Head::live(generation, kind);
    is_still(map, index, head).then_some(Place { index, head })
}

/// Whether the whole of a part is not yet in service (if its maker lives).
#[inline]
pub fn is_being_made(map: &Map, part: u32) -> bool {
    let its = |(index, generation): (u32, u32)| {
        let now = head_of(map, index);
        now.is_free() && now.generation().wrapping_add(1) == generation
    };
    // Acquire: as in `whole`.
    map.object(part).hint.load(Ordering::Acquire) == MAKING || whole(map, part).is_some_and(its)
}
