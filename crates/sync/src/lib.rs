//! Pools, choice, and the wait queue they share: the protocols.
//!
//! [`wait`] says who waits and who is granted, [`drain`] brings free permits and waiters together, [`permit`] takes
//! and gives back, [`recover`] does what a dead member no longer can. What users call is in [`Pool`] and [`Select`].

mod cell;
mod drain;
mod permit;
mod recover;
mod wait;

pub use recover::recover;
pub use wait::{Parties, Party};

/// Wakes all who wait on a dead object.
pub fn bury(map: &'static chappe_arena::Map, object: u32) {
    wait::bury(map, object);
}

#[cfg(feature = "sim")]
pub mod model;

#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod fork;
#[cfg(not(feature = "sim"))]
mod home;
#[cfg(not(feature = "sim"))]
mod inspect;
#[cfg(not(feature = "sim"))]
mod lease;
#[cfg(not(feature = "sim"))]
mod pool;
#[cfg(not(feature = "sim"))]
mod select;

#[cfg(not(feature = "sim"))]
pub use self::{
    error::{AcquireError, LeaseError, PoolError},
    home::{Arena, ArenaOptions, Capacity, directory, reaped, set_label},
    inspect::{Holder, PoolInfo, Waiter},
    lease::{Lease, VARIABLE as LEASE_VARIABLE, forget as forget_leases},
    pool::{OwnedPermit, Permit, Pool, Role, set_role},
    select::{Select, acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any},
};
