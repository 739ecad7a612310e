//! A store in a buffer.

use std::panic::Location;

/// A store that only its own thread sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub place: usize,
    pub bytes: usize,
    pub value: u64,
    /// The number of its thread when it was made, for the state's number.
    pub number: u64,
    /// How many heads its thread had come through, for the guard; and where it was made.
    pub since: usize,
    pub from: &'static Location<'static>,
}

impl Stored {
    pub fn overlaps(&self, place: usize, bytes: usize) -> bool {
        self.place < place + bytes && place < self.place + self.bytes
    }

    /// # Safety
    /// The word lives, and nothing else of the system touches it.
    pub unsafe fn put(&self) {
        if self.bytes == 4 {
            // SAFETY: the caller's promise; the word has four bytes.
            unsafe { (self.place as *mut u32).write_volatile(self.value as u32) };
        } else {
            // SAFETY: the caller's promise; the word has eight bytes.
            unsafe { (self.place as *mut u64).write_volatile(self.value) };
        }
    }
}
