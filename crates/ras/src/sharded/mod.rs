//! A sharded semaphore: most of its permits lie in caches of the processors.
//!
//! The protocol is in the head of `caches.rs`.

/// There are no forks in the explorer.
#[cfg(feature = "sim")]
mod latch {
    pub(super) fn prepare() {}
    pub(super) fn begin() -> Option<()> {
        Some(())
    }
}
mod cache;
mod caches;
#[cfg(not(feature = "sim"))]
mod latch;
#[cfg_attr(feature = "sim", path = "explored.rs")]
#[cfg_attr(all(not(feature = "sim"), target_arch = "x86_64"), path = "x86_64.rs")]
#[cfg_attr(all(not(feature = "sim"), target_arch = "aarch64"), path = "aarch64.rs")]
#[cfg_attr(all(not(feature = "sim"), not(any(target_arch = "x86_64", target_arch = "aarch64"))), path = "absent.rs")]
mod section;
#[cfg(not(feature = "sim"))]
mod semaphore;

#[cfg(not(feature = "sim"))]
pub use semaphore::{Builder, ShardedSemaphore};

pub use caches::{Central, Shape, Sharded};
