//! Looking at objects: the holders and since when they hold, the waiters and their order.
//!
//! Each answer is put together from single loads while other threads go on: every line of it was true at some moment
//! during the call, but not necessarily all of them at the same moment.

use crate::cell::{Tag, Word};
use crate::drain::{cells, permits};
use crate::examine::unreadable;
use crate::handle::what_is;
use crate::kinds;
use crate::lease::{Jobs, Unseen};
use crate::map::MapInfo;
use crate::named::SharedInfo;
use crate::owned;
use crate::tube::broadcast::BroadcastInfo;
use crate::tube::named::TubeInfo;
use crate::wait::{Discipline, waits_on};
use chappe_arena::layout::{BLOCK, Extent, Head, Kind};
use chappe_arena::{LifeState, Map, Place, Who};
use chappe_plat::atomic::Ordering;
use chappe_plat::clock;
use std::time::Duration;

/// The holder of one permit of a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Which permit, counted from 0.
    pub index: u32,
    /// The holder. For an orphan: one of its job's processes, or pid 0 if none can be seen.
    pub who: Who,
    /// For how long, to a clock tick (1 to 10 ms).
    pub held: Duration,
    /// Whether `held` is exact. A thread that takes a permit without waiting does not read the clock, which would cost as
    /// much as the take: then `held` counts from the first waiter, or the first look, or the lease.
    pub exact: bool,
    /// A job has a lease on it.
    pub leased: bool,
    /// Its holder is gone, and its job goes on.
    pub orphan: bool,
    /// For an orphan whose job cannot be seen from here: whose job it is, and why it cannot be told here whether it runs.
    pub unseen: Option<Unseen>,
    /// No member has it yet: it is set aside for the first waiter, which waits for several or is just waking up.
    pub set_aside: bool,
}

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The member that waits.
    pub who: Who,
    /// For how long, to a clock tick.
    pub waiting: Duration,
    /// It is a light thread, asleep at its proc's bell.
    pub light: bool,
    /// Its priority, which counts where waiters are served by priority.
    pub priority: u8,
}

/// The modulus of [`PoolInfo::turnover`].
const TURNOVER: u32 = 1 << 24;

/// A pool at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolInfo {
    /// Its name within its arena.
    pub name: String,
    /// How many permits it has.
    pub permits: u32,
    /// In which order waiters are served.
    pub discipline: Discipline,
    /// How many are held, leased or granted.
    pub held: u32,
    /// How many are free.
    pub free: u32,
    /// How many members wait.
    pub waiting: u32,
    /// How often a permit has become free, modulo 2^24: the difference of two looks is the turnover between them.
    pub turnover: u32,
}

impl PoolInfo {
    /// How often a permit has become free since an earlier look at the same pool: exact if it was less than 2^24 times.
    pub fn turnover_since(&self, earlier: &PoolInfo) -> u32 {
        self.turnover.wrapping_sub(earlier.turnover) % TURNOVER
    }
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
    /// A stack, counter, words, server, helping lock or monitor.
    Shared(SharedInfo),
    /// An object whose words make no sense: they were overwritten.
    Damaged {
        /// What makes no sense.
        what: String,
    },
}

pub(crate) fn objects(map: &'static Map) -> Vec<ObjectInfo> {
    // There may be a hundred thousand objects, listed twice a second: short names are sorted, not all that is known; most names differ in
    // their first bytes.
    let named = |place: Place| {
        let name = map.name_of(map.object(place.index));
        let mut first = [0; 8];
        let len = name.len().min(8);
        first[..len].copy_from_slice(&name.as_bytes()[..len]);
        (u64::from_be_bytes(first), name, place)
    };
    let mut all: Vec<(u64, String, Place)> = map.objects().into_iter().map(named).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    all.into_iter().filter_map(|(_, name, place)| looked(map, place, name)).collect()
}

pub(crate) fn look(map: &'static Map, place: Place) -> Option<ObjectInfo> {
    looked(map, place, map.name_of(map.object(place.index)))
}

/// If the object is still in its slot at the end, the name was read while it was there.
fn looked(map: &'static Map, place: Place, name: String) -> Option<ObjectInfo> {
    let o = map.object(place.index);
    let kind = place.head.kind();
    let state = match (unreadable(map, place), kind) {
        (Some(what), _) => ObjectState::Damaged { what: what.to_owned() },
        (None, kind) => kinds::of(kind?).look(map, place, &name)?,
    };
    let waiting = match &state {
        ObjectState::Tube(tube) => (tube.senders_waiting.len() + tube.receivers_waiting.len()) as u32,
        ObjectState::Pool(pool) => pool.waiting,
        _ => waiters(map, place).len() as u32,
    };
    // Acquire: the second look, after the name was read: the slot was not used again meanwhile.
    let same = Head(o.head.load(Ordering::Acquire)) == place.head;
    same.then_some(ObjectInfo { name, kind: kind.map_or("object", |_| what_is(map, place)), state, waiting })
}

/// How many bytes of data a lock guards in the arena, or the object's blocks have; 0 for objects without either.
pub(crate) fn bytes(map: &Map, place: Place) -> u64 {
    // Acquire: written before the object was in service.
    let count = map.object(place.index).permits.load(Ordering::Acquire);
    match place.head.kind().map_or(Extent::Nothing, Kind::extent) {
        Extent::Bytes => count.into(),
        Extent::Blocks => u64::from(count) * BLOCK as u64,
        Extent::Cells | Extent::Nothing => 0,
    }
}

fn since(at: u64) -> Duration {
    Duration::from_nanos(clock::common_coarse().saturating_sub(at))
}

/// The holder that this cell's word names, if there is one.
pub(crate) fn holder(map: &Map, word: Word) -> Option<Who> {
    (word.tag() == Tag::Held && !word.is_retired()).then(|| map.who(word.member()))
}

pub(crate) fn holders(map: &'static Map, place: Place) -> Vec<Holder> {
    let mut all = Vec::new();
    let jobs = Jobs::default();
    for (index, cell) in cells(map, place.index) {
        let word = cell.load();
        if matches!(word.tag(), Tag::Free | Tag::Alien) {
            continue;
        }
        // Acquire: the cell was read before: it is this pool's.
        if Head(map.object(place.index).head.load(Ordering::Acquire)) != place.head {
            return Vec::new();
        }
        let (ms, exact) = cell.held_for(word);
        let (who, unseen) = who(map, &jobs, place, index, word);
        all.push(Holder {
            index,
            who,
            held: Duration::from_millis(ms),
            exact,
            leased: word.tag() == Tag::Leased,
            orphan: goes_on_alone(map, word),
            unseen,
            set_aside: word.tag() == Tag::Reserved,
        });
    }
    all
}

/// Whether only a job keeps it: its holder is gone, recovered or not.
fn goes_on_alone(map: &Map, word: Word) -> bool {
    word.tag() == Tag::Leased && (word.is_orphan() || map.dead(word.member()).is_some())
}

fn who(map: &'static Map, jobs: &Jobs, place: Place, position: u32, word: Word) -> (Who, Option<Unseen>) {
    if goes_on_alone(map, word) {
        let (job, unseen) = jobs.of(map, place.index, position, word);
        return (job.unwrap_or_else(|| Who::job(0, 0, "a job that cannot be seen".into())), unseen);
    }
    (map.who(word.member()), None)
}

pub(crate) fn waiters(map: &'static Map, place: Place) -> Vec<Waiter> {
    let all = place.head.kind().map_or_else(Vec::new, |kind| kinds::of(kind).line(map, place));
    all.into_iter()
        .map(|(at, member)| {
            // Relaxed: for showing only.
            let began = map.member(member).waiting_since.load(Ordering::Relaxed);
            // Relaxed: as above.
            let light = map.member(member).bell_of.load(Ordering::Relaxed) != 0;
            let priority = map.member(member).priority.load(Ordering::Relaxed).min(u8::MAX.into()) as u8; // Relaxed: as above.
            (at, Waiter { who: map.who(member), waiting: since(began), light, priority })
        })
        // The bit of a dead member is cleared before the member is said to be swept.
        .filter(|(at, w)| w.who.life == LifeState::Alive && waits_on(map, *at, w.who.member))
        .map(|(_, waiter)| waiter)
        .collect()
}

pub(crate) fn list(map: &'static Map) -> Vec<PoolInfo> {
    let named = |place: Place| info(map, place, map.name_of(map.object(place.index)));
    let mut all: Vec<PoolInfo> = map.objects().into_iter().filter_map(named).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

pub(crate) fn info(map: &'static Map, place: Place, name: String) -> Option<PoolInfo> {
    if !place.head.is_live(Kind::Pool) || owned::name_of(map, place).is_some() {
        return None;
    }
    let o = map.object(place.index);
    let (count, discipline) = (permits(map, place.index), Discipline::of(o));
    let (mut held, mut free, mut turnover) = (0, 0, 0);
    for (position, cell) in cells(map, place.index) {
        let word = cell.load();
        held += u32::from(!word.is_free());
        free += u32::from(word.is_free() && position < count);
        // Each version counts modulo 2^24; so does their sum.
        turnover = (turnover + word.version() as u32) % TURNOVER;
    }
    let waiting = waiters(map, place).len() as u32;
    // Acquire: the second look, after all was read: the slot was not used again meanwhile.
    let same = Head(o.head.load(Ordering::Acquire)) == place.head;
    same.then_some(PoolInfo { name, permits: count, discipline, held, free, waiting, turnover })
}
