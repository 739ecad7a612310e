//! The schema of a named tube's records: its text lies behind the ring, from the making on.

use super::{BLOCK, Ordering, Pipe, ring_at};

impl Pipe<'_> {
    /// The hash of its schema; 0: it has none.
    pub fn schema_hash(&self) -> u64 {
        // Relaxed: written before the object was in service.
        self.head.schema.load(Ordering::Relaxed)
    }

    /// The text of its schema.
    pub fn schema(&self) -> Option<String> {
        // Acquire, all: written before the object was in service.
        let (len, more) = (self.head.schema_len.load(Ordering::Acquire), self.object.more.load(Ordering::Acquire));
        let blocks = self.object.permits.load(Ordering::Acquire); // Acquire: as above.
        let from = ring_at(self.map.geometry().members) + chappe_structures::record::bytes_wanted(self.shape())?;
        let len = len as usize;
        if len == 0 || from + len > blocks as usize * BLOCK || !self.has_blocks() {
            return None;
        }
        let at = self.map.blocks(more.checked_sub(1)?, blocks);
        let mut text = vec![0; len];
        // SAFETY: within the tube's blocks, as was just seen. No thread writes there after the tube was made, unless the tube is removed and
        // the memory is another object's: then the copy is discarded.
        unsafe { text.as_mut_ptr().copy_from_nonoverlapping(at.add(from), len) };
        // After the copy: it is of this tube.
        self.has_blocks().then(|| String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::named::pipe::made::make;
    use crate::testing::arena;
    use chappe_structures::record::Shape;

    /// The next object's maker writes zeros first.
    #[test]
    fn the_schema_of_a_tube_whose_memory_is_anothers_can_be_asked_for() {
        let shape = Shape::many(2, 8, 8);
        let map = arena();
        let pipe = Pipe::of(map, make(map, &map.admin(), "", shape, 1, (2, "a u64")).unwrap()).unwrap();
        assert_eq!(pipe.schema().as_deref(), Some("a u64"));
        for word in [&pipe.head.slots, &pipe.head.size, &pipe.head.align] {
            word.store(0, Ordering::Relaxed); // Relaxed: one thread.
        }
        assert_eq!(pipe.schema().as_deref(), Some("a u64"));
        pipe.head.schema_len.store(u32::MAX, Ordering::Relaxed); // Relaxed: one thread.
        assert_eq!((pipe.schema(), pipe.shape()), (None, shape));
    }
}
