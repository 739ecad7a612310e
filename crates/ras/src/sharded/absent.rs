//! The sections of [`super`] on processors for which none are written: there is nothing in a cache.

use super::cache::Cache;
use chappe_plat::atomic::AtomicU32;

/// Takes nothing.
#[inline(always)]
pub(super) fn take(_mode: &AtomicU32, _caches: &[Cache]) -> bool {
    false
}

/// Gives nothing.
#[inline(always)]
pub(super) fn give(_mode: &AtomicU32, _caches: &[Cache], _room: u32) -> bool {
    false
}
