//! What a broadcast tube answers when its memory is another object's.

use super::*;
use crate::testing::arena;

/// What the next object's maker writes may lie where the length was.
#[test]
fn a_schema_in_reused_memory_is_not_read_beyond_its_end() {
    let shape = Shape { slots: 2, size: 8, align: 8, subscriptions: 2 };
    let map = arena();
    let cast = Cast::of(map, make(map, &map.admin(), "", shape, 1, (2, "a u64")).unwrap()).unwrap();
    assert_eq!(cast.schema().as_deref(), Some("a u64"));
    cast.head.schema_len.store(u32::MAX, Ordering::Relaxed); // Relaxed: one thread.
    assert_eq!(cast.schema(), None);
}
