//! Arenas: regions of memory that hold chappe's objects, shared by threads or by processes.
//!
//! Layout, names, members and their liveness, recovery. What the objects do is the business of the crate
//! above, which is called through [`Hooks`] when a member died or an object goes.
//!
//! The terms that the heads of modules share are in the glossary: `book/src/glossary.md`.

mod admin;
mod batches;
mod blocks;
mod error;
mod far;
mod gate;
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

pub use admin::Admin;
pub use batches::Batch;
pub use blocks::Sort;
pub use error::{ArenaError, io_at};
pub use layout::MemberKind;
pub use map::{Dead, Hooks, Kinds, Map, Place, Protocol, Standing, Visitor};
pub use member::{Joined, LifeState, Who, next_generation};
pub use object::{check_name, hash};
pub use reaper::{Watch, watch};
#[cfg(not(feature = "sim"))]
pub use repair::{Reclaimed, Vacant};
pub use visit::Visit;
