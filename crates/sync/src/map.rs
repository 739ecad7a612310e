//! Maps, the public API: dictionaries that threads or processes share.

pub mod atlas;
#[cfg(not(feature = "sim"))]
mod datum;
#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod heap;
#[cfg(not(feature = "sim"))]
mod list;
#[cfg(not(feature = "sim"))]
mod made;
#[cfg(not(feature = "sim"))]
mod watch;

#[cfg(not(feature = "sim"))]
pub(crate) use made::info;
#[cfg(not(feature = "sim"))]
pub use {
    datum::Datum,
    error::MapError,
    list::{InOrder, List, Ranked, Values},
    made::{Iter, Map, MapInfo, MapOptions},
    watch::{Event, Watch},
};
