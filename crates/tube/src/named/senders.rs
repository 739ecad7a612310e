//! The senders' object of a tube: a second object of the arena, on which senders wait. It is made before its tube and goes after it (the
//! tube's I6). If a maker or remover is killed in the middle, this module finds and removes what it left.

use super::pipe::{Pipe, Side};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::part::{is_being_made, whole_in_service};
use chappe_wait::wait::notify_dead;

/// I6: removes senders' objects whose tubes do not live. Returns how many of them were in service.
pub fn sweep(map: &'static Map, admin: &Admin) -> u32 {
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
    whole_in_service(map, index, Kind::Tube)
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
