//! The numbers of light threads.

/// The number of a light thread, from 1. It is another's after the thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(crate) u32);

impl ThreadId {
    /// As a number.
    pub fn as_u32(self) -> u32 {
        self.0
    }
}

impl From<u32> for ThreadId {
    fn from(number: u32) -> ThreadId {
        ThreadId(number)
    }
}
