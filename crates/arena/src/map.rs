//! An arena as one process sees it; what the layer above registers with it: the functions that the arena calls, and for each kind of object
//! what it does; and the thread that comes to an object by them. These name each other, so they are here together.
//!
//! A kind of object is one [`Protocol`] and one row in each half of the table of kinds: its number, its name and what it has besides its slot
//! are in `layout::Kind`; its protocol is in [`Kinds`], which each arena has. So the wait queue and recovery reach an object through its arena,
//! and depend on no kind; and each kind depends on them alone.
//!
//! | a protocol's methods | for |
//! |---|---|
//! | `drain`, `before`, `announce`, `left`, `untold`, `line` | the wait queue: the object's word against its waiters |
//! | `take_back`, `recover`, `clear`, `notify_dead` | recovery: a grant, a hold, a trace of a dead member; a removed object |
//! | `is_used`, `is_held`, `abandon` | the arena and an ending thread: whether a slot, or an attachment, may be reused |
//! | `figures` | what a remover says of an object that is not empty |

mod batch;
mod create;
mod late;
mod places;

use crate::batches::Batches;
use crate::gate::Gates;
use crate::layout::{Geometry, Head, Kind};
use chappe_plat::Made;
use chappe_plat::atomic::{AtomicU32, AtomicU64};
use chappe_plat::futex::Scope;
use std::panic::RefUnwindSafe;
use std::path::PathBuf;

/// Whether an arena serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Serving,
    /// It was removed.
    Removed,
    /// A living remover has not decided for long: it is stopped, perhaps.
    Undecided,
}

/// An arena, mapped.
pub struct Map {
    base: *mut u8,
    geometry: Geometry,
    /// Where the objects begin, which each operation asks for.
    objects_at: usize,
    scope: Scope,
    name: String,
    dir: Option<PathBuf>,
    inode: u64,
    /// The inode of its directory.
    folder: u64,
    /// The user whose file it is.
    owner: u32,
    pub(crate) hooks: Hooks,
    /// The incarnation of this process whose every thread may make units without an attachment: see [`Map::cover`].
    cover: AtomicU64,
    /// The member that represents this process: see [`Map::keep_process_member`].
    process_member: AtomicU64,
    /// In which incarnation of the process.
    represented: AtomicU64,
    /// The descriptor by which this process shows its presence: `incarnation:32 | descriptor + 1:32`; 0 for none.
    presence: AtomicU64,
    /// This process's.
    batches: Batches,
    /// Of each sort: where this process looks for free blocks next, and how many it may claim before it looks at all of them. I13 of blocks.rs.
    pub(crate) blocks_next: [[AtomicU32; 2]; 2],
    /// A private arena's: a bit for each slot to which threads may come late.
    late: Box<[AtomicU64]>,
    /// This process's: see [`Map::crowd`].
    crowds: Made<Box<[AtomicU64]>>,
    /// How many slots the explorer's worlds have in a group.
    #[cfg(feature = "sim")]
    group: std::cell::Cell<u32>,
}

// SAFETY: all that lies behind the pointer is atomics and life locks; the rest is never changed.
unsafe impl Sync for Map {}
// SAFETY: as above.
unsafe impl Send for Map {}

impl Map {
    /// What a kind of object does in this arena.
    #[inline]
    pub fn protocol(&self, kind: Kind) -> &'static dyn Protocol {
        self.hooks.kinds.0[kind as usize]
    }
}

/// An object, and the use of its slot that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot.
    pub index: u32,
    /// Its head while this object lives.
    pub head: Head,
}

/// A thread that may visit objects, one at a time: see visit.rs.
pub struct Visitor<'m> {
    pub(crate) map: &'m Map,
    pub(crate) at: At,
    pub(crate) left_out: bool,
}

/// Where a visitor has its word.
pub(crate) enum At {
    /// It has not yet needed one.
    Unknown,
    /// It has none: V4.
    Nowhere,
    /// In a member slot.
    Slot(u32),
    /// In the header.
    Guest(usize, Gates),
    /// It holds `admin`, and needs none: V8.
    Admin,
}

/// The functions of the layer above that an arena calls.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Gives back all that a member's dead generation held: `(map, member, generation)`, and the visitor that gives it back. Idempotent.
    pub recover: fn(&'static Map, u32, u32, &mut Visitor<'_>),
    /// Makes the threads look again that the dead member may have been about to notify. Idempotent.
    pub wake_after_death: fn(&'static Map),
    /// Clears what only the owner of a member's life word may clear: `(map, member)`, and that owner. After `recover`.
    pub clear: fn(&Map, u32, &mut Visitor<'_>),
    /// Wakes all waiters of an object that is dead. Idempotent.
    pub notify_dead: fn(&'static Map, u32, &mut Visitor<'_>),
    /// Whether the contents of a removed object's slot are still in use.
    pub used: fn(&Map, u32) -> bool,
    /// Checks permits whose holder is gone and whose job may go on; called by each reaper's round.
    pub leases: fn(&'static Map),
    /// What each kind of object does.
    pub kinds: &'static Kinds,
}

/// A use of a member slot that is over, or is about to be.
#[derive(Clone, Copy)]
pub struct Dead {
    /// Which slot.
    pub member: u32,
    /// Which use of it.
    pub generation: u32,
}

impl Dead {
    /// Whether its death is still to be made up for. Looked at after a word that says whose something is by a slot's number alone: if so, the word
    /// did not mean a later member of that number.
    pub fn is_unswept(self, map: &Map) -> bool {
        map.is_unswept(self.member, self.generation)
    }
}

/// The protocols, by kind.
pub struct Kinds([&'static dyn Protocol; Kind::NUMBERS]);

impl Kinds {
    /// For an arena without objects: no kind does anything.
    pub const NONE: Kinds = Kinds([&Nothing; Kind::NUMBERS]);

    /// With the protocol of one kind.
    #[must_use]
    pub const fn with(mut self, kind: Kind, its: &'static dyn Protocol) -> Kinds {
        self.0[kind as usize] = its;
        self
    }
}

struct Nothing;

impl Protocol for Nothing {}

/// One kind of object. Methods get an object with this kind's head; unless stated otherwise, it is in service.
pub trait Protocol: Sync + RefUnwindSafe {
    /// Matches what the object has with its waiters.
    fn drain(&self, _map: &Map, _object: u32, _head: Head) {}

    /// Called before a member publishes a wait on it.
    fn before(&self, _map: &Map, _object: u32) {}

    /// A bit was set: makes threads that take without a look at the bits aware that there are some, by WAITERS or by revoking the bias.
    fn announce(&self, _map: &Map, _object: u32) {}

    /// A member's wait is over; its bit is still set, and its word says how the wait ended.
    fn left(&self, _map: &Map, _object: u32, _member: u32) {}

    /// A waiter that was told to try again will not do so.
    fn untold(&self, _map: &Map, _object: u32) {}

    /// A dead member's wait word says that it was granted something of this object. Gives that back, or to the next, before the word is lost.
    fn take_back(&self, _map: &Map, _object: u32, _member: u32, _word: u64, _whose: Option<u32>) {}

    /// Recovers an object, in service or removed, from the death of a member. True: a job has a lease on it.
    ///
    /// The caller may be late, as in the methods below that have a visitor: what these change is a word with the dead generation in it, or it is
    /// changed within a visit. Where the dead member is not named, none is made.
    fn recover(&self, _map: &Map, _at: Place, _dead: Dead, _me: &mut Visitor<'_>) -> bool {
        false
    }

    /// Removes all traces of a dead member from an object, in service or removed. The caller owns the member's life word.
    fn clear(&self, _map: &Map, _at: Place, _member: u32, _me: &mut Visitor<'_>) {}

    /// Called before the waiters of a removed object are told.
    fn notify_dead(&self, _map: &Map, _at: Place, _me: &mut Visitor<'_>) {}

    /// Whether a bit that is set is that of a waiter.
    fn is_queue(&self) -> bool {
        true
    }

    /// Whether the contents of a removed object's slot are still in use.
    fn is_used(&self, _map: &Map, _object: u32, _head: Head) -> bool {
        false
    }

    /// Whether a member's generation holds it, or a part of it; also if it was removed.
    fn is_held(&self, _map: &Map, _object: u32, _head: Head, _member: u32, _generation: u32) -> bool {
        false
    }

    /// A thread ends, or leaves, normally, and has leaked guards, and so perhaps references to the data: no other thread may have it.
    fn abandon(&self, _map: &Map, _at: Place, _leaver: Dead, _me: &mut Visitor<'_>) {}

    /// Its waiters, in the order in which they will be served: at which object, which member. None: those at its own slot, as they arrived.
    fn line(&self, _map: &'static Map, _place: Place) -> Option<Vec<(u32, u32)>> {
        None
    }

    /// For an object that is a body of the arena and nothing else: its value or count, its capacity, and the bytes of each element. None:
    /// its shape is impossible.
    fn figures(&self, _map: &'static Map, _place: Place) -> Option<(i64, u32, u32)> {
        None
    }
}
