//! The protocols without the conveniences of a process: what the explorer drives.
//!
//! `Pool` and its guards keep attachments in thread-local storage and drop what they hold. A virtual process can do neither, because a kill runs
//! no destructor. Everything below the attachments is the same source.

mod actor;
mod arms;
#[cfg(feature = "sim")]
mod barriers;
mod begun;
mod biased;
#[cfg(feature = "sim")]
mod bodies;
#[cfg(feature = "sim")]
mod broadcast;
mod condvars;
#[cfg(all(feature = "loom", not(feature = "sim")))]
mod lights;
#[cfg(feature = "sim")]
mod named;
mod owned;
mod priorities;
mod rwlocks;
#[cfg(feature = "sim")]
mod stacks;
#[cfg(feature = "sim")]
mod task_tubes;
#[cfg(feature = "sim")]
mod tasks;
mod tubes;
#[cfg(feature = "sim")]
mod ways;
mod words;

#[cfg(feature = "sim")]
pub use actor::private_of_all;
pub use actor::{
    Actor, HOOKS, Held, Locking, MutexAt, Refusal, attach, create, drain_all, granted_word, is_reserved, mark, private,
    remove,
};
pub use arms::{AnyAt, PoolAt, SemaphoreAt};
#[cfg(feature = "sim")]
pub use barriers::{BarrierAt, Looked, Passed};
pub use begun::InLine;
#[cfg(feature = "sim")]
pub use bodies::BareAt;
#[cfg(feature = "sim")]
pub use broadcast::{CastAt, HeardAt, Picked, When, cast_in_words};
pub use condvars::CondvarAt;
#[cfg(all(feature = "loom", not(feature = "sim")))]
pub use lights::{ask, destroy, interrupt, light};
#[cfg(feature = "sim")]
pub use named::{Came, Lent, NamedAt, Refusal as Unattached, Reserved};
pub use owned::{EndAt, OwnedAt, sweep_parts, times_freed};
pub use rwlocks::{RwLockAt, Turn, rwlock_in_words};
#[cfg(feature = "sim")]
pub use stacks::{MapAt, MonitorAt, StackAt};
#[cfg(feature = "sim")]
pub use tasks::{Dropped, TaskEnd};
pub use tubes::{Arms, End, Got, TubeAt};
#[cfg(feature = "sim")]
pub use ways::{Share, Way};
pub use words::{cell_in_words, is_waiting, lock_in_words, state_in_words, units_in_words};
