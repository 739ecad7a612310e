//! Pools of permits that many machines share, on an engine that they share: etcd.
//!
//! ```text
//!         drive                  has an engine do what a machine says
//!        /     \
//!   acquire   release           the protocol: state machines without I/O, which say what to do next
//!        \     /
//!        grant                  the transactions that both send
//!        /     \
//!     view     life             what is known of a pool; until when a lease is certain
//!        \     /
//!   keys     engine             what stands where; what an engine can do
//! ```
//!
//! A machine is asked for its next [`Step`](acquire::Step), a driver has the engine do it, and tells the machine what came of it. So a test can
//! stop, kill or mislead each client between any two steps, and what is tested is what ships.
//!
//! With the feature `etcd` there is `etcd`, an [`Engine`](engine::Engine) by gRPC. Without it the crate does no input or output.
//!
//! What holds, and what it stands on, is in [`acquire`]. Tokens are in [`grant`], deadlines in [`life`].

pub mod acquire;
pub mod drive;
pub mod engine;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod grant;
pub mod keys;
pub mod life;
pub mod release;
pub mod view;
