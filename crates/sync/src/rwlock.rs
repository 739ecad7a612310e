//! Readers-writer locks. `word` is the protocol, `row` its row in the table of kinds, `made` is the public interface, `jobs` what keeps a lock for a job.

#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod jobs;
#[cfg(not(feature = "sim"))]
mod made;
pub(crate) mod row;
pub(crate) mod word;

#[cfg(not(feature = "sim"))]
pub use error::RwLockError;
#[cfg(not(feature = "sim"))]
pub use jobs::lock_jobs;
#[cfg(not(feature = "sim"))]
pub use made::Mine;
#[cfg(not(feature = "sim"))]
pub(crate) use made::of_mine;
#[cfg(not(feature = "sim"))]
pub use made::{ReadGuard, ReadResult, RwLock, WriteGuard, WriteResult};
