//! The asymmetric fence, as two full ones: what it promises, and no more. [`unaided`]: where the rare side does not ask the kernel, and so the
//! frequent side has none.

use super::atomic::{Ordering, fence};
use std::cell::Cell;

thread_local! {
    /// loom runs all threads of a model in one of the system's.
    static UNAIDED: Cell<bool> = const { Cell::new(false) };
}

/// From now on the frequent side of this thread's models has no fence.
pub fn unaided(is_so: bool) {
    UNAIDED.set(is_so);
}

/// Nothing to find out.
pub fn prepare() {}

/// It is taken for one.
pub fn is_asymmetric() -> bool {
    true
}

/// The frequent side.
pub fn light() {
    if !UNAIDED.get() {
        // SeqCst: what the other side is promised.
        fence(Ordering::SeqCst);
    }
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
pub mod process_shared {
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
