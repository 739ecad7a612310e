//! Tubes between processes: the protocol ([`pipe`]), its second object ([`senders`]), and the waits at both ends ([`arms`]).

pub mod arms;
pub mod pipe;
pub mod senders;
