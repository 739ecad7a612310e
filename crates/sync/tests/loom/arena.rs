//! A private arena, and three threads that have joined it.

use chappe_arena::Map;
use chappe_arena::layout::Geometry;
use chappe_sync::model::{Actor, private};

/// A small arena and its members; the first two or all three of them act.
pub fn arena() -> (&'static Map, [Actor; 3]) {
    let map = private(Geometry { members: 3, objects: 2, cells: 2, blocks: 2 }).expect("memory");
    (map, [0, 1, 2].map(|_| Actor::join(map, "model").expect("room for all")))
}
