//! Visits under loom: a visitor and the maker that makes the slot free are never both at the object's memory, and what a visitor wrote the maker sees.

#[allow(dead_code, reason = "two threads are enough here")]
use crate::arena::arena;
use crate::loom::two_reach;
use chappe_arena::layout::Head;
use chappe_arena::{Map, Visitor};
use chappe_plat::atomic::Ordering;
use chappe_plat::explore::{Data, together};
use chappe_sync::model::{Actor, CondvarAt};

#[derive(Clone, Copy)]
struct Scene {
    map: &'static Map,
    who: [Actor; 3],
    object: CondvarAt,
    data: Data,
}

fn scene() -> Scene {
    let (map, who) = arena();
    Scene { map, who, object: CondvarAt::make(map, "").expect("room"), data: Data::new() }
}

/// Writes to the data if the visit begins.
fn visits(s: Scene, mut by: Visitor<'_>) -> bool {
    let visit = by.visit(s.object.place);
    if visit.is_some() {
        s.data.set(s.data.get() + 1);
    }
    visit.is_some()
}

/// Removes the object, and writes to the data if the slot is free then.
fn removes(s: Scene) -> bool {
    s.map.unmake(&s.map.admin(), s.object.place);
    // Relaxed: its own store.
    let free = Head(s.map.object(s.object.place.index).head.load(Ordering::Relaxed)).is_free();
    if free {
        s.data.set(s.data.get() + 10);
    }
    free
}

#[test]
fn a_member_that_visits_and_a_maker_are_there_one_after_the_other() {
    let both = |s: Scene| together(s, [|s: Scene| visits(s, s.map.visitor_in(s.who[0].member())), removes]);
    two_reach(3, scene, both, [[false, true], [true, false], [true, true]]);
}
