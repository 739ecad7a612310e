//! The senders' object of a tube: a second object of the arena, on which senders wait. It is made before its tube and goes after it (the
//! tube's I6). If a maker or remover is killed in the middle, this module finds and removes what it left.

use super::pipe::{Pipe, Side};
use crate::wait::{is_still, notify_dead};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;

/// The hint of a senders' object whose tube is just being made.
pub(super) const MAKING: u32 = u32::MAX;

/// I6: removes senders' objects whose tubes do not live. Returns how many of them were in service.
pub(crate) fn sweep(map: &'static Map, admin: &Admin) -> u32 {
    let mut swept = 0;
    for index in 0..map.objects_used() {
        // Relaxed: under `admin`.
        let head = Head(map.object(index).head.load(Ordering::Relaxed));
        if head.kind() == Some(Kind::End) && !head.is_free() && is_lost(map, index) {
            map.unmake(admin, Place { index, head: Head::live(head.generation(), Kind::End) });
            swept += u32::from(head.in_service());
        }
    }
    swept
}

/// The tube of a senders' object, if that tube lives.
fn tube_of(map: &Map, index: u32) -> Option<Place> {
    let o = map.object(index);
    // Acquire, both: of a living tube, written before it was in service.
    let (hint, generation) = (o.hint.load(Ordering::Acquire), o.permits.load(Ordering::Acquire));
    let tube = hint.checked_sub(1).filter(|tube| *tube < map.geometry().objects)?;
    let head = Head::live(generation, Kind::Tube);
    is_still(map, tube, head).then_some(Place { index: tube, head })
}

/// Whether the tube of a senders' object is not yet in service (if its maker lives).
fn is_being_made(map: &Map, index: u32) -> bool {
    let o = map.object(index);
    // Acquire, both: as in `tube_of`.
    let (hint, generation) = (o.hint.load(Ordering::Acquire), o.permits.load(Ordering::Acquire));
    let slot = hint.checked_sub(1).filter(|tube| *tube < map.geometry().objects);
    // Acquire: after the two.
    let head = |tube: u32| Head(map.object(tube).head.load(Ordering::Acquire));
    hint == MAKING || slot.map(head).is_some_and(|now| now.is_free() && now.generation().wrapping_add(1) == generation)
}

fn is_lost(map: &Map, index: u32) -> bool {
    is_named(map.object(index)) && tube_of(map, index).is_none()
}

/// Whether an end belongs to a named tube.
pub(crate) fn is_named(o: &Object) -> bool {
    // Acquire: written before the object was in service.
    o.hint.load(Ordering::Acquire) != 0
}

/// Tells senders of holes. The object is an end in service: a named tube's, or none of ours.
pub(crate) fn drain_end(map: &Map, object: u32, head: Head) {
    if !map.anybody_waits(object) || !is_named(map.object(object)) {
        return;
    }
    // I6. Its maker is at it: no sender waits here yet, except one that came late to the slot's last object. This look comes before the look for the
    // tube, which finds a tube that was made between the two.
    if is_being_made(map, object) {
        return;
    }
    step!("seen that the tube of a senders' object is not being made");
    match tube_of(map, object).and_then(|place| Pipe::of(map, place)) {
        Some(pipe) if pipe.end.index == object => pipe.bring(Side::Senders),
        _ => {
            // I6. SeqCst: before the look at the bits. A failure: another thread did it.
            let _ = map.object(object).head.compare_exchange(head.0, head.dead().0, Ordering::SeqCst, Ordering::SeqCst);
            notify_dead(map, object, head.dead(), &mut map.visitor());
        }
    }
}
