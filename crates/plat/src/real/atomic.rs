//! The processor's atomics, as they are.

pub use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

/// The half of a 64-bit word that a futex can watch: its low 32 bits.
#[inline(always)]
pub fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: an AtomicU64 is eight aligned bytes; on a little-endian machine (checked at compile
    // time) the first four are its low half, aligned for an AtomicU32, and live as long.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
}

/// A word with a sign, as a futex sees it: its bits.
#[inline(always)]
pub fn unsigned(word: &AtomicI32) -> &AtomicU32 {
    // SAFETY: both are four aligned bytes of which every pattern is valid, and all access stays atomic and of one size.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
}

/// Tells the processor that this is a spin.
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

/// Lets others run on this processor, if any can.
pub fn give_way() {
    std::thread::yield_now();
}
