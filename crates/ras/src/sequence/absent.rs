//! Where there are no sections (another architecture, or what is explored): each is aborted at once. See the pseudo-code in `mod.rs`.

use super::operand::{Outcome, Pair};
use chappe_plat::atomic::{AtomicU32, AtomicU64};

/// No slots.
pub(crate) fn slots() -> usize {
    0
}

/// No thread gets an area.
pub(crate) fn enter() -> bool {
    false
}

/// Nothing is known.
pub(crate) fn fence(_cpu: Option<u32>) -> bool {
    false
}

/// None.
pub(crate) fn has_concurrency_ids() -> bool {
    false
}

pub(super) fn offset() -> usize {
    0
}

pub(super) fn area(_offset: usize) -> usize {
    0
}

pub(super) fn number(_area: usize, _field: usize) -> u32 {
    u32::MAX
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::compare_store`.
pub(super) unsafe fn compare_store(
    _area: usize,
    _field: usize,
    _owner: &AtomicU32,
    _word: &AtomicU64,
    _expect: u64,
    _new: u64,
) -> Outcome<()> {
    Outcome::Aborted
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::add`.
pub(super) unsafe fn add(_area: usize, _field: usize, _owner: &AtomicU32, _word: &AtomicU64, _n: u64) -> Outcome<()> {
    Outcome::Aborted
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::add_two`.
pub(super) unsafe fn add_two(
    _area: usize,
    _field: usize,
    _owner: &AtomicU32,
    _pair: &Pair,
    _a: u64,
    _b: u64,
) -> Outcome<()> {
    Outcome::Aborted
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::push`.
pub(super) unsafe fn push(
    _area: usize,
    _field: usize,
    _owner: &AtomicU32,
    _head: &AtomicU64,
    _first: u64,
    _last: u64,
) -> Outcome<()> {
    Outcome::Aborted
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::pop`.
pub(super) unsafe fn pop(_area: usize, _field: usize, _owner: &AtomicU32, _head: &AtomicU64) -> Outcome<u64> {
    Outcome::Aborted
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::copy`.
pub(super) unsafe fn copy(
    _area: usize,
    _field: usize,
    _owner: &AtomicU32,
    _length: &AtomicU64,
    _buffer: &[AtomicU64],
    _words: &[u64],
) -> Outcome<()> {
    Outcome::Aborted
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::fetch`.
pub(super) unsafe fn fetch(
    _area: usize,
    _field: usize,
    _owner: &AtomicU32,
    _word: &AtomicU64,
    _new: u64,
) -> Outcome<u64> {
    Outcome::Aborted
}
