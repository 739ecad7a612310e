//! What the workers share.

use std::sync::atomic::AtomicU64;

pub const ARENA: &str = "churn";

pub const NAMES: u64 = 10;

pub struct Board {
    pub turns: AtomicU64,
    pub made: AtomicU64,
    pub removed: AtomicU64,
    pub over: AtomicU64,
    pub torn: AtomicU64,
    pub unclear: AtomicU64,
    pub leaks: AtomicU64,
    /// The fewest uses of a slot, as far as it is known.
    pub uses: AtomicU64,
}
