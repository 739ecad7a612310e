//! What a broadcast tube answers when its memory is another object's.

use super::*;
use crate::handle::Handle;

/// What the next object's maker writes may lie where the length was.
#[test]
fn a_schema_in_reused_memory_is_not_read_beyond_its_end() {
    let shape = Shape { slots: 2, size: 8, align: 8, subscriptions: 2 };
    let handle = Handle::private(&mut |map, admin, name| make(map, admin, name, shape, 1, (2, "a u64"))).unwrap();
    let cast = Cast::of(handle.map, handle.place).unwrap();
    assert_eq!(cast.schema().as_deref(), Some("a u64"));
    cast.head.schema_len.store(u32::MAX, Ordering::Relaxed); // Relaxed: one thread.
    assert_eq!(cast.schema(), None);
}
