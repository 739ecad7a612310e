//! Owned semaphores: `pair` is the protocol, `flags` what its permit says of it, `semaphore` the public interface.

mod flags;
pub(crate) mod pair;
#[cfg(not(feature = "sim"))]
mod semaphore;

pub(crate) use flags::takes_along;
#[cfg(not(feature = "sim"))]
pub(crate) use flags::{is_part, is_plain, name_of};
#[cfg(not(feature = "sim"))]
pub(crate) use pair::{Pair, sweep};
#[cfg(not(feature = "sim"))]
pub use semaphore::{NotPosted, RobustSemaphore, ending};
