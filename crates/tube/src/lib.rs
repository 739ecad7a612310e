//! The protocols of tubes: what a send, a receive and a death do to the words of a tube, and how a thread waits at its ends.
//!
//! | tube | protocol | waits at its ends |
//! |---|---|---|
//! | private, of this process's threads | [`body`], `rendezvous`, [`left`] | [`block`], [`wait`], [`direct`] |
//! | named, between processes | [`named::pipe`] | [`named::arms`] |
//! | broadcast | [`broadcast::cast`] | [`broadcast::room`] |
//!
//! The names, the handles, the descriptors and the filters of tubes stand above, in `chappe-sync`. Its
//! table of kinds names what [`kinds`] has: so a process recovers tubes whether or not it uses any, and
//! nothing has to be registered.
//!
//! The terms that the heads of modules share are in the glossary: `book/src/glossary.md`.
//!
//! A file imports files of its own room and of those below it: the lint `rooms` reads this table.
//!
//! | room | files |
//! |---|---|
//! | kinds | `kinds` |
//! | waits | `block`, `broadcast`, `direct`, `named`, `wait` |
//! | tubes | `body`, `left/leave`, `letter`, `notice`, `refused`, `rendezvous` |
//! | words | `error`, `left.rs` |

#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod body;
#[doc(hidden)]
pub mod broadcast;
#[doc(hidden)]
pub mod direct;
#[cfg(not(feature = "sim"))]
pub mod error;
#[doc(hidden)]
pub mod kinds;
#[doc(hidden)]
pub mod left;
#[doc(hidden)]
pub mod letter;
#[doc(hidden)]
pub mod named;
mod notice;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod refused;
mod rendezvous;
#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
mod testing;
#[doc(hidden)]
pub mod wait;
