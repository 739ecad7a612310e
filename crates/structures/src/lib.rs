//! Lock-free structures over memory that is given to them: rings, tables, stacks, words that change together.
//!
//! They know neither names nor waits. A caller says where the memory is and which member it is.
//! Rooms above (`chappe-sync`) find both, let a thread wait, and call what recovers a structure
//! from a member's death. So all that is here is explored over plain memory. The terms that the
//! heads of modules share are in the glossary: `book/src/glossary.md`.
//!
//! | module | structure | used by |
//! |---|---|---|
//! | [`ring`] | queues of one or many at each end, for the threads of one process | private tubes |
//! | [`record`] | a queue of bytes, among processes | named tubes |
//! | [`broadcast`] | a ring that several read, each all of it | broadcast tubes |
//! | [`table`] | entries by key, in lists | maps, lists, servers |
//! | [`mcas`] | up to eight words that change at once | words |
//! | [`linked`], [`pile`] | stacks: of one process, among processes | stacks |
//! | [`combine`], [`desk`] | data that requests change: in one process, among processes | servers, services |
//! | [`room`] | the places of those that wait inside of a monitor | monitors |
//! | [`stamp`], [`slot`], [`turns`] | numbers against ABA; words of slots; which member has a piece of memory | those above |
//! | [`tries`] | how often each loop began again | `chappe lateness` |

#[doc(hidden)]
pub mod broadcast;
#[doc(hidden)]
pub mod combine;
#[doc(hidden)]
pub mod desk;
#[doc(hidden)]
pub mod linked;
#[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub mod mcas;
#[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub mod pile;
#[doc(hidden)]
pub mod record;
#[doc(hidden)]
pub mod ring;
#[doc(hidden)]
pub mod room;
#[doc(hidden)]
pub mod slot;
#[doc(hidden)]
pub mod stamp;
#[doc(hidden)]
pub mod table;
pub mod tries;
#[doc(hidden)]
pub mod turns;
