//! The memory of a private map.

use chappe_structures::table::{Shape, Table};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// A table's memory on the heap.
pub(super) struct Heap {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is accessed through the table alone, which is atomic words.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// Zeroed memory for a table; `None` if there is not enough.
    pub fn new(shape: Shape) -> Option<Heap> {
        let layout = Layout::from_size_align(shape.bytes(), 64).ok()?;
        // SAFETY: the size is not 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Heap { at, layout })
    }

    /// The table there.
    ///
    /// # Safety
    /// The table is not used after this is dropped.
    pub unsafe fn table(&self, shape: Shape) -> Table<'static> {
        // SAFETY: at least so many bytes, zeroed at first, from a multiple of 64; the rest is the caller's promise.
        unsafe { Table::new(self.at, shape) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed`, with this layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}
