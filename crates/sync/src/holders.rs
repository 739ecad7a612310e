//! Pools, as an observer sees them: the holders and since when they hold, and how many permits are free.
//!
//! Put together from single loads while other threads go on: each line was true at some moment during the call.

use crate::drain::{cells, permits};
use crate::lease::{Jobs, Unseen};
use crate::owned;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Map, Place, Who};
use chappe_plat::atomic::Ordering;
use chappe_wait::cell::{Tag, Word};
use chappe_wait::wait::Discipline;
use chappe_wait::waiters::waiters;
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
