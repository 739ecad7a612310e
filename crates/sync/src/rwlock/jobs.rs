//! Readers-writer locks that jobs keep: what `chappe lock` needs. See `lease::locks`.

use super::made::RwLock;
use crate::error::LeaseError;
use crate::handle::Handle;
use crate::lease::locks::{self, LockJob, LockLease};
use chappe_arena::layout::Kind;
use std::time::Instant;

/// The jobs that keep a lock, whatever the type of its data. Blocks for a tenth of a second at most: for processes that are just ending.
///
/// # Errors
/// That there is no such lock; that the file of leases cannot be read.
#[doc(hidden)]
pub fn lock_jobs(name: &str) -> Result<Vec<LockJob>, Box<dyn std::error::Error + Send + Sync>> {
    let handle = Handle::open(Kind::RwLock, name)?;
    Ok(locks::all(handle.map, handle.place)?)
}

/// For holders that heed jobs: each call is for a thread that has the lock, to write or to read.
#[doc(hidden)]
impl RwLock<()> {
    /// Waits until no job of an earlier holder is in the way. False: the time was up.
    ///
    /// # Errors
    /// That the file of leases cannot be used, or the system refused a thread.
    pub fn outlive_jobs(&self, writes: bool, until: Option<Instant>) -> Result<bool, LeaseError> {
        let (map, place) = self.place();
        locks::outlive(map, place, writes, until)
    }

    /// The jobs that are in the way.
    ///
    /// # Errors
    /// That the file of leases cannot be used.
    pub fn jobs_in_the_way(&self, writes: bool) -> Result<Vec<LockJob>, LeaseError> {
        let (map, place) = self.place();
        locks::others(map, place, writes)
    }

    /// A lease for a job; it is to be dropped before the guard is. `None`: look again what is in the way.
    ///
    /// # Errors
    /// `Private`; that the file of leases cannot be used.
    pub fn lease(&self, writes: bool) -> Result<Option<LockLease>, LeaseError> {
        let (map, place) = self.place();
        locks::begin(map, place, writes)
    }

    /// Whether the calling process is part of a job that keeps this lock.
    pub fn is_leased_around(&self) -> bool {
        let (map, place) = self.place();
        locks::around(map, place)
    }

    /// Whether it was removed.
    pub fn is_removed(&self) -> bool {
        let (map, place) = self.place();
        !map.is_there(place)
    }
}
