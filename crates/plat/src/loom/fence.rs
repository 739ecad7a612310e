//! The asymmetric fence, as two full ones: what it promises, and no more.

use super::atomic::{Ordering, fence};

/// Nothing to find out.
pub fn prepare() {}

/// The frequent side.
pub fn light() {
    // SeqCst: what the other side is promised.
    fence(Ordering::SeqCst);
}

/// The rare side.
pub fn heavy() {
    // SeqCst: as above.
    fence(Ordering::SeqCst);
}
