//! A processor's cache of permits, as sections see it.

use chappe_plat::atomic::AtomicU32;

/// The bits at which sections look.
pub(crate) const TAKE: u32 = 1;
pub(crate) const GIVE: u32 = 2;

/// A processor's cache, on lines of its own (the processor fetches two at a time).
#[repr(align(128))]
pub(crate) struct Cache(pub(crate) AtomicU32);

/// How far one cache lies from the next, as a power of two.
#[cfg_attr(feature = "sim", allow(dead_code, reason = "the explored section has an index"))]
pub(crate) const STRIDE: u32 = 7;
const _: () = assert!(size_of::<Cache>() == 1 << STRIDE);
