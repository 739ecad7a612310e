//! Commands that watch: `chappe top` for people, `chappe metrics` for Prometheus, `chappe watch` for scripts; `chappe threads`.
//!
//! The first three take [`snapshot`]s, and read the figures of one table, [`figures`]. A snapshot maps the arenas and reads single words.
//! It takes no lock, joins no arena as a member, and recovers nothing; listing the waiters of a named object sets its WAITERS flag, as
//! `chappe show` does. Each figure was true at some moment of the snapshot; all of them together need not have been.

pub mod figures;
mod http;
mod light;
pub mod metrics;
mod pipes;
mod snapshot;
mod terminals;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod threads;
pub mod top;
pub mod watch;
