//! Servers: data that is changed by requests. No thread is dedicated to serving; the callers carry the requests out.
//!
//! Synthesis, 5.1.4: a server thread serializes what is too complex for a CAS; "if there is no interference" the caller does it itself.
//! nonblocking-real-time, 4.4, shows that this is equivalent to a lock with helping. Here only callers serve.

pub(crate) mod form;
#[cfg(not(feature = "sim"))]
mod made;

#[cfg(not(feature = "sim"))]
pub use made::{Serve, Server, Service, remove_service};
