//! Monitors: data that one thread at a time may use, and named conditions to wait for there. `made` is the public API; `room` is where processes wait.

pub(crate) mod form;
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod made;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use made::{Inside, Monitor, MonitorError};
