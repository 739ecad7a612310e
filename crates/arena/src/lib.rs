//! Arenas: regions of memory that hold chappe's objects, shared by threads or by processes.
//!
//! Layout, names, members and their liveness, recovery. What the objects do is the business of the crate
//! above, which is called through [`Hooks`] when a member died or an object goes.

mod blocks;
mod error;
mod gate;
mod hooks;
mod kept;
pub mod layout;
mod map;
mod member;
mod object;
mod reaper;
#[cfg(not(feature = "sim"))]
mod repair;
mod rotation;
mod tgid_word;
mod visit;

pub use blocks::Sort;
pub use error::ArenaError;
pub use hooks::{Dead, Hooks, Kinds, Protocol};
pub use layout::MemberKind;
pub use map::{Batch, Map, Standing, io_at};
pub use member::{Joined, LifeState, Who, next_generation};
pub use object::{Admin, Place, check_name, hash};
pub use reaper::{Watch, watch};
#[cfg(not(feature = "sim"))]
pub use repair::{Reclaimed, Vacant};
pub use visit::{Visit, Visitor};
