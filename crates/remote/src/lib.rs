//! Pools of permits, mutexes, semaphores and tubes that many machines share, on an engine that they share: etcd.
//!
//! A program has [`Remote`], and of it [`Pool`], [`Mutex`], [`Semaphore`] and [`Tube`]; [`acquire_any`] chooses among pools. What follows is below
//! these: for a driver of one's own.
//!
//! ```text
//!       remote, mutex, semaphore, tube       what a program has
//!            permit, session, leased         what it holds; how it waits; its lease, and what is done where an answer was lost
//!       site, connection, place, pulse       objects by their names; the engine's own thread; where it is; whether the lease is certain
//!
//!            drive                      has an engine do what a machine says
//!         /    |    \
//!   acquire    |    receive             the protocol: state machines without I/O, which say what to do next
//!      |  release, add  |
//!      |    /          send
//!      |   /            |
//!     grant       tube_end, page        the transactions of the first three; what both ends of a tube have in common
//!     /    \
//!   view    life                        what is known of an object; until when a lease is certain
//!     \     /
//!   keys, engine                        what stands where; what an engine can do
//! ```
//!
//! A machine is asked for its next [`Step`](acquire::Step), a driver has the engine do it, and tells the machine what came of it. So a test can
//! stop, kill or mislead each client between any two steps, and what is tested is what ships.
//!
//! With the feature `etcd` there is `etcd`, an [`Engine`](engine::Engine) by gRPC. Without it a [`Connection`](connection::Connection) is its user's.
//!
//! What holds, and what it stands on, is in [`acquire`]. Tokens are in [`grant`], deadlines in [`life`].

pub mod acquire;
pub mod add;
pub mod connection;
pub mod drive;
pub mod engine;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod grant;
pub mod here;
pub mod keys;
mod leased;
pub mod life;
mod mutex;
pub mod page;
mod permit;
#[cfg(feature = "etcd")]
pub mod place;
pub mod pulse;
pub mod receive;
pub mod release;
mod remote;
pub mod room;
mod semaphore;
pub mod send;
mod session;
pub mod site;
#[cfg(feature = "etcd")]
mod toml;
mod tube;
pub mod tube_end;
pub mod view;

pub use error::RemoteError;
pub use mutex::{Guard, LockError, Mutex};
pub use permit::{Permit, Token};
pub use pulse::Loss;
pub use remote::{Pool, PoolInfo, Remote, acquire_any, acquire_any_until, acquire_many_until};
pub use semaphore::Semaphore;
pub use session::{Interrupt, Patience};
pub use tube::{Receiver, Record, SendError, Sender, Tube};
