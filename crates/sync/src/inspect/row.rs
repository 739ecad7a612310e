//! What observers ask an object, whatever its kind: what is listed of it, what its members have of it, what is wrong with it; and how it is removed.
//!
//! - I1: a generation of a member slot is over once the slot has another generation, or was swept of it. What is then found in its name,
//!   in a word that was read before, belongs to nobody.

use crate::bodied::SharedInfo;
use crate::holders::PoolInfo;
use crate::lease::locks::LockJob;
use crate::map::MapInfo;
use crate::tube::broadcast::BroadcastInfo;
use crate::tube::named::TubeInfo;
use chappe_arena::{Map, Place, Who};
use chappe_wait::wait::Discipline;
use chappe_wait::waiters::{Waiter, waiters};

/// Why a removal failed.
#[cfg(not(feature = "loom"))]
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What observers ask a kind of object. Methods get an object with this kind's head; unless stated otherwise, it is in service.
pub(crate) trait Inspected: Sync {
    /// Its state. None: it is shown with another, or has gone meanwhile.
    fn look(&self, map: &'static Map, place: Place, name: &str) -> Option<ObjectState>;

    /// Its waiters, in the order in which they will be served.
    fn line(&self, map: &'static Map, place: Place) -> Vec<Waiter> {
        waiters(map, place)
    }

    /// Whether it is a part of another object, and has no name.
    fn is_part(&self, _map: &Map, _place: Place) -> bool {
        false
    }

    /// For a part: the object that it is a part of, and what its waiters wait for here.
    fn whole(&self, _map: &Map, _place: Place) -> Option<(u32, &'static str)> {
        None
    }

    /// Why its state cannot be told.
    fn unreadable(&self, _map: &'static Map, _place: Place) -> Option<&'static str> {
        None
    }

    /// What is inconsistent in it, though its state can be told.
    fn nonsense(&self, _map: &'static Map, _place: Place) -> Option<String> {
        None
    }

    /// What a member has of an object, in service or removed.
    fn had(&self, _map: &Map, _place: Place, _member: u32, _generation: u32) -> Vec<Had> {
        Vec::new()
    }

    /// Gives back what is in the name of no existing member, in an object in service or removed; returns what that was.
    fn free(&self, _map: &'static Map, _place: Place) -> Vec<Had> {
        Vec::new()
    }

    /// The members that still have a removed object. None: that cannot be told.
    fn users(&self, _map: &Map, _place: Place) -> Option<Vec<u32>> {
        Some(Vec::new())
    }

    /// Removes it, by its full name.
    #[cfg(not(feature = "loom"))]
    fn remove(&self, map: &'static Map, place: Place, name: &str, force: bool) -> Result<(), Failure>;
}

/// I1: whether this generation of a member is over.
pub(crate) fn is_over(map: &Map, member: u32, generation: u32) -> bool {
    map.occupant(member) != Some(generation)
}

/// Any object in an arena, at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectInfo {
    /// Its name within its arena.
    pub name: String,
    /// Its kind: `pool`, `semaphore`, `owned semaphore`, `mutex`, `readers-writer lock`, `condition variable`, `tube`, `broadcast tube`, `map`,
    /// `stack`, `counter`, `words`, `server`, `helping lock`, `monitor`; `object` if that cannot be told.
    pub kind: &'static str,
    /// Its state.
    pub state: ObjectState,
    /// How many members wait.
    pub waiting: u32,
}

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectState {
    /// A pool.
    Pool(PoolInfo),
    /// A semaphore: saved wake-ups, and whether waiters may be overtaken.
    Semaphore {
        /// Its value.
        value: u32,
        /// Whether waiters may be overtaken.
        barging: bool,
        /// In which order they are served if not.
        discipline: Discipline,
    },
    /// A semaphore whose unit returns when the process that holds it dies: see [`crate::owned`].
    Owned {
        /// Its value.
        value: u32,
        /// The process that holds it; once it was demoted, the process that took its first unit and has not given it back.
        holder: Option<Who>,
        /// It has proved to be no lock: no death returns anything.
        demoted: bool,
    },
    /// A mutex.
    Mutex {
        /// The holder.
        holder: Option<Who>,
        /// A holder died, and no holder has said since that the data is whole.
        torn: bool,
        /// It was condemned: no thread gets it any more.
        condemned: bool,
        /// Bytes of data.
        bytes: u32,
    },
    /// A readers-writer lock.
    RwLock {
        /// The writer.
        writer: Option<Who>,
        /// The readers.
        readers: Vec<Who>,
        /// The jobs of `chappe lock` that keep it though their holders are gone.
        jobs: Vec<LockJob>,
        /// Those that have come to the lock's front and wait for the end of such jobs: the first waiters, and neither writer nor readers yet.
        waits_for_jobs: Vec<Waiter>,
        /// A writer died, and no writer has said since that the data is whole.
        torn: bool,
        /// It was condemned: no thread gets it any more.
        condemned: bool,
        /// Bytes of data.
        bytes: u32,
    },
    /// A condition variable.
    Condvar,
    /// A tube.
    Tube(TubeInfo),
    /// A broadcast tube.
    Broadcast(BroadcastInfo),
    /// A map.
    Map(MapInfo),
    /// An object of a kind that has no state of its own here: what the kind says of it, in that order.
    Facts(Vec<Fact>),
    /// A stack, counter, words, server, helping lock or monitor.
    Shared(SharedInfo),
    /// An object whose words make no sense: they were overwritten.
    Damaged {
        /// What makes no sense.
        what: String,
    },
}

/// What a kind says of an object, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// What is told: one or two words, in small letters.
    pub name: &'static str,
    /// Its value; of a flag 0 or 1.
    pub value: u64,
    /// Whether it is a number, and of which sort.
    pub sort: FactSort,
}

/// What sort of value a fact has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactSort {
    /// A number of the present.
    Number,
    /// A number that only grows.
    Total,
    /// Whether something is so.
    Flag,
}

/// What a member can have of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Had {
    /// Permits of a pool, by their numbers.
    Permits(Vec<u32>),
    /// Permits that jobs have leases on.
    Leased(Vec<u32>),
    /// An owned semaphore, or, if it is demoted, its first unit.
    Owned {
        /// It does not come back.
        demoted: bool,
    },
    /// A mutex, locked.
    Lock,
    /// A readers-writer lock, locked to read.
    Reads,
    /// The same, to write.
    Writes,
    /// Messages of a tube that it was just writing: so many.
    Writing(u32),
    /// Messages that it was just looking at, or was given to take.
    Looking(u32),
    /// The senders' end of a tube.
    Sends,
    /// The receivers' end.
    Receives,
    /// A place in the line.
    Waits,
}
