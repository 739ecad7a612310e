//! Pools of permits that many machines share, on an engine that they share: etcd.
//!
//! ```text
//!   acquire   release           the protocol: state machines without I/O, which say what to do next
//!        \     /
//!        grant                  the transactions that both send
//!        /     \
//!     view     life             what is known of a pool; until when a lease is certain
//!        \     /
//!   keys     engine             what stands where; what an engine can do
//! ```
//!
//! A machine is asked for its next [`Step`](acquire::Step), its caller has the engine do it, and tells the machine what came of it. So a test can
//! stop, kill or mislead each client between any two steps, and what is tested is what ships.
//!
//! What holds, and what it stands on, is in [`acquire`]. Tokens are in [`grant`], deadlines in [`life`].

pub mod acquire;
pub mod engine;
pub mod grant;
pub mod keys;
pub mod life;
pub mod release;
pub mod view;
