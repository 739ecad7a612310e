//! Broadcast tubes: the protocol ([`cast`]), and a publisher's wait for room ([`room`]).

pub mod cast;
pub mod room;
