//! Stacks: the element that was pushed last is popped first.

pub(crate) mod form;
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod made;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use made::{PushError, Stack};
