//! An arena for the tests of this crate: no member ever dies there, so nothing of it is recovered.

use chappe_arena::layout::Geometry;
use chappe_arena::{Hooks, Kinds, Map};

const HOOKS: Hooks = Hooks {
    recover: |_, _, _, _| {},
    wake_after_death: |_| {},
    clear: |_, _, _| {},
    notify_dead: |_, _, _| {},
    used: |_, _| false,
    leases: |_| {},
    kinds: &Kinds::NONE,
};

pub(crate) fn arena() -> &'static Map {
    Map::private(Geometry { members: 1, objects: 4, cells: 1, blocks: 1 << 10 }, HOOKS).expect("memory")
}
