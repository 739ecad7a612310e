//! Memory of a private map.

use crate::table::{Shape, Table};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// A table's memory on the heap.
pub(super) struct Heap {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is touched through the table alone, which is atomic words.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// Zeroed; none if there is not so much.
    pub fn new(shape: Shape) -> Option<Heap> {
        let layout = Layout::from_size_align(shape.bytes(), 64).ok()?;
        // SAFETY: a table has some bytes.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Heap { at, layout })
    }

    /// The table there.
    ///
    /// # Safety
    /// It is not used when this has gone.
    pub unsafe fn table(&self, shape: Shape) -> Table<'static> {
        // SAFETY: so many bytes, zeroed at first, from a multiple of 64; as the caller promises.
        unsafe { Table::new(self.at, shape) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed`, with this layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}
