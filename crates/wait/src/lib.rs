//! How threads wait, in one process or several: the wait queue, what can be waited for, and the calling thread's membership of an arena.
//!
//! No kind of object is known here. A kind's protocol is registered with the arena, and [`kinds`]
//! calls it: so a process recovers all kinds, whatever it uses itself. Each kind, its names and its
//! handles stand above, in `chappe-sync`. The cut is here, and not above the kinds' own protocols,
//! because a process may have to recover any kind: a crate above `chappe-sync` would have to be
//! registered before the first arena is mapped, and a program that does not link it could recover
//! nothing of its kind. Below the kinds nothing is registered, and no call is indirect that was not.
//!
//! The terms that the heads of modules share are in the glossary: `book/src/glossary.md`.
//!
//! A file imports files of its own room and of those below it: the lint `rooms` reads this table.
//!
//! | room | files |
//! |---|---|
//! | tasks | `tasks` |
//! | threads | `attachment`, `object_id`, `patience` |
//! | waiting | `bell`, `body`, `claim`, `end`, `kinds`, `lent.rs`, `lights`, `lull`, `operation`, `owner` |
//! | waiting | `part`, `private`, `recover`, `spin`, `wait`, `waiters` |
//! | words | `cell`, `clock`, `handoff`, `holds`, `inside`, `interrupt`, `known`, `label` |
//! | words | `lent/holders`, `mark`, `order`, `role` |

#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod attachment;
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[doc(hidden)]
pub mod bell;
#[doc(hidden)]
pub mod body;
#[doc(hidden)]
pub mod cell;
#[doc(hidden)]
pub mod claim;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod end;
#[doc(hidden)]
pub mod handoff;
#[doc(hidden)]
pub mod holds;
#[cfg(not(any(feature = "loom", feature = "sim")))]
#[doc(hidden)]
pub mod inside;
pub mod interrupt;
#[doc(hidden)]
pub mod kinds;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod known;
#[cfg(not(feature = "sim"))]
pub mod label;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod lent;
#[doc(hidden)]
pub mod lights;
#[doc(hidden)]
pub mod lull;
#[doc(hidden)]
pub mod mark;
#[cfg(not(feature = "sim"))]
pub mod object_id;
#[doc(hidden)]
pub mod operation;
#[doc(hidden)]
pub mod order;
#[doc(hidden)]
pub mod owner;
#[doc(hidden)]
pub mod part;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod patience;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod private;
#[doc(hidden)]
pub mod recover;
#[cfg(not(feature = "sim"))]
pub mod role;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod spin;
#[doc(hidden)]
pub mod tasks;
#[doc(hidden)]
pub mod wait;
#[cfg(not(feature = "sim"))]
pub mod waiters;
