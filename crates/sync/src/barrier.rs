//! Barriers: threads and processes wait for each other. The protocol is in `round`, what a death does in `kind`; a thread waits by `arm`.

pub(crate) mod arm;
pub(crate) mod kind;
pub(crate) mod round;
mod word;

#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod made;

#[cfg(not(feature = "sim"))]
pub use error::{BarrierError, Broke, Turn};
#[cfg(not(feature = "sim"))]
pub(crate) use made::info;
#[cfg(not(feature = "sim"))]
pub use made::{Arrival, Barrier, BarrierInfo};
