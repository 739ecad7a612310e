//! Stacks: the element that was pushed last is popped first.

pub(crate) mod form;
#[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod linked;
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod made;
pub mod pile;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use made::{PushError, Stack};
