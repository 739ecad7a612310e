//! What can go wrong with a map.

use crate::error::{ObjectError, inside};
use chappe_arena::ArenaError;
use std::io;

/// Why a map was not opened, made, looked at, or changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// There is none of this name, or one already; or it is something else, or in use; or the arena cannot take another member.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Its keys or values are of another type.
    #[error("map `{name}` has {has}, not {wanted}; open it as what it was made as, or take another name")]
    OtherType {
        /// Which.
        name: String,
        /// What it has.
        has: String,
        /// What was asked for.
        wanted: String,
    },
    /// It is there, and was made for other numbers.
    #[error("map `{name}` is there with {has}, not {wanted}; open it as it is, or remove it first")]
    OtherShape {
        /// Which.
        name: String,
        /// For what it was made.
        has: String,
        /// What was asked for.
        wanted: String,
    },
    /// There cannot be such a map.
    #[error("a map cannot have {count} {what}: between {least} and {most} are possible")]
    Capacity {
        /// What of it.
        what: &'static str,
        /// What was asked for.
        count: u64,
        /// The least that is possible.
        least: u64,
        /// The most that is.
        most: u64,
    },
    /// There is no room for another key. Those that are there can still be changed.
    #[error("map `{name}` is full: it was made for {entries} entries; remove some, or make a larger one")]
    Full {
        /// Which.
        name: String,
        /// How many it has.
        entries: u32,
    },
    /// More threads than it has spare cells are in the middle of a change: try again.
    #[error("map `{name}` is full, and more than {most} threads are changing it at this moment; try again")]
    Busy {
        /// Which.
        name: String,
        /// How many can.
        most: u32,
    },
    /// The key is empty, or too long.
    #[error("a key of {len} byte(s): map `{name}` takes keys of 1 to {most}")]
    Key {
        /// Which.
        name: String,
        /// How long it is.
        len: usize,
        /// The most it can be.
        most: u32,
    },
    /// The value is too long.
    #[error("a value of {len} bytes: map `{name}` takes values of at most {most}")]
    Value {
        /// Which.
        name: String,
        /// How long it is.
        len: usize,
        /// The most it can be.
        most: u32,
    },
    /// It has no order.
    #[error("map `{name}` has no order: make one with `ordered`")]
    Unordered {
        /// Which.
        name: String,
    },
    /// It was removed.
    #[error("map `{name}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        name: String,
    },
    /// The wait for a change was interrupted.
    #[error("the wait for the map to change was interrupted")]
    Interrupted,
    /// The system refused the thread that watches for deaths, without which nobody should sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}

impl From<ArenaError> for MapError {
    fn from(e: ArenaError) -> MapError {
        MapError::Object(e.into())
    }
}
