//! The errors of maps.

use crate::error::{ObjectError, inside};
use chappe_arena::ArenaError;
use std::io;

/// Why a map was not opened, made, read, or changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The name is unknown, or taken; or it is an object of another kind, or in use; or the arena cannot take another member.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Its keys or values are of another type.
    #[error("map `{name}` has {has}, not {wanted}; open it as what it was made as, or take another name")]
    OtherType {
        /// The map.
        name: String,
        /// Its types.
        has: String,
        /// The types asked for.
        wanted: String,
    },
    /// It exists, and was made with other numbers.
    #[error("map `{name}` is there with {has}, not {wanted}; open it as it is, or remove it first")]
    OtherShape {
        /// The map.
        name: String,
        /// The numbers it was made with.
        has: String,
        /// The numbers asked for.
        wanted: String,
    },
    /// No such map is possible.
    #[error("a map cannot have {count} {what}: between {least} and {most} are possible")]
    Capacity {
        /// Which number.
        what: &'static str,
        /// The number asked for.
        count: u64,
        /// The least possible.
        least: u64,
        /// The most possible.
        most: u64,
    },
    /// There is no room for another key. Existing ones can still be changed.
    #[error("map `{name}` is full: it was made for {entries} entries; remove some, or make a larger one")]
    Full {
        /// The map.
        name: String,
        /// How many it has room for.
        entries: u32,
    },
    /// More threads are in the middle of a change than the map has spare cells: try again.
    #[error("map `{name}` is full, and more than {most} threads are changing it at this moment; try again")]
    Busy {
        /// The map.
        name: String,
        /// The number of spare cells.
        most: u32,
    },
    /// The key is empty, or too long.
    #[error("a key of {len} byte(s): map `{name}` takes keys of 1 to {most}")]
    Key {
        /// The map.
        name: String,
        /// Its length.
        len: usize,
        /// The greatest length.
        most: u32,
    },
    /// The value is too long.
    #[error("a value of {len} bytes: map `{name}` takes values of at most {most}")]
    Value {
        /// The map.
        name: String,
        /// Its length.
        len: usize,
        /// The greatest length.
        most: u32,
    },
    /// The map has no order.
    #[error("map `{name}` has no order: make one with `ordered`")]
    Unordered {
        /// The map.
        name: String,
    },
    /// The map was removed.
    #[error("map `{name}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// The map.
        name: String,
    },
    /// A task's wait that a forked child inherited: its place among the waiters is the parent's.
    #[error("the wait for map `{name}` to change began before this process was forked, and is the parent's; wait anew")]
    Inherited {
        /// The map.
        name: String,
    },
    /// The wait for a change was interrupted.
    #[error("the wait for the map to change was interrupted")]
    Interrupted,
    /// The system refused the thread that watches for deaths; without it no thread may sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}

impl From<ArenaError> for MapError {
    fn from(e: ArenaError) -> MapError {
        MapError::Object(e.into())
    }
}
