//! The asymmetric fence, as two full ones: what it promises, and no more.

use super::atomic::{Ordering, fence};

/// Nothing to find out.
pub fn prepare() {}

/// It is taken for one.
pub fn is_asymmetric() -> bool {
    true
}

/// The frequent side.
pub fn light() {
    // SeqCst: what the other side is promised.
    fence(Ordering::SeqCst);
}

/// The same.
pub fn light_alone() {
    light();
}

/// The rare side.
pub fn heavy() {
    // SeqCst: as above.
    fence(Ordering::SeqCst);
}

/// As above.
pub fn try_heavy() -> bool {
    heavy();
    true
}

/// Between processes.
pub mod across {
    /// All can go without.
    pub fn register() -> bool {
        true
    }

    /// There is such a fence.
    pub fn is_possible() -> bool {
        true
    }

    /// The frequent side.
    pub fn light(_plain: bool) {
        super::light();
    }

    /// The rare side.
    pub fn try_heavy() -> bool {
        super::try_heavy()
    }
}
