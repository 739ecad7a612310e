//! The table of kinds: what each kind of object does, for the wait queue, recovery and observers, which do not depend on the kind.
//!
//! A kind of object is one [`Protocol`] and one row of [`of`]. Its number, its name and what it has besides its slot are in the other half of
//! the table, `layout::Kind`. All code that visits objects of all kinds goes through this table.
//!
//! | a protocol's methods | for |
//! |---|---|
//! | `drain`, `before`, `announce`, `left`, `untold` | the wait queue: the object's word against its waiters |
//! | `take_back`, `recover`, `clear`, `notify_dead` | recovery: a grant, a hold, a trace of a dead member; a removed object |
//! | `is_used`, `is_held`, `abandon` | the arena and an ending thread: whether a slot, or an attachment, may be reused |
//! | `look`, `line`, `is_part`, `whole`, `figures`, `unreadable`, `nonsense`, `had`, `free`, `users` | listings and `chappe doctor` |
//! | `remove` | `chappe rm` |

mod bodies;
mod locks;
mod pools;
mod semaphores;
mod tubes;

use crate::bias;
#[cfg(not(feature = "sim"))]
use crate::body::Body;
#[cfg(not(feature = "sim"))]
use crate::examine::Had;
#[cfg(not(feature = "sim"))]
use crate::inspect::ObjectState;
use crate::rwlock::row::{LockParts, RwLocks};
use crate::tube::{end, named};
use crate::wait::{State, queue};
use bodies::{Bodied, Counters, HelpLocks, Maps, Monitors, Servers, Stacks, WordSets};
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Map, Place, Visitor};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;

/// Why a removal failed.
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A use of a member slot that is over, or is about to be.
#[derive(Clone, Copy)]
pub(crate) struct Dead {
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

/// One kind of object. Methods get an object with this kind's head; unless stated otherwise, it is in service.
pub(crate) trait Protocol: Sync {
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

    /// A dead member's word says that it was granted something of this object. Gives that back, or to the next, before the word is lost.
    fn take_back(&self, _map: &Map, _object: u32, _member: u32, _state: State, _whose: Option<u32>) {}

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
    #[cfg(not(feature = "sim"))]
    fn is_held(&self, _map: &Map, _object: u32, _head: Head, _member: u32, _generation: u32) -> bool {
        false
    }

    /// A thread ends, or leaves, normally, and has leaked guards, and so perhaps references to the data: no other thread may have it.
    #[cfg(not(feature = "sim"))]
    fn abandon(&self, _map: &Map, _at: Place, _leaver: Dead, _me: &mut Visitor<'_>) {}

    /// Whether it is a part of another object, and has no name.
    #[cfg(not(feature = "sim"))]
    fn is_part(&self, _map: &Map, _place: Place) -> bool {
        false
    }

    /// For a part: the object that it is a part of, and what its waiters wait for here.
    #[cfg(not(feature = "sim"))]
    fn whole(&self, _map: &Map, _place: Place) -> Option<(u32, &'static str)> {
        None
    }

    /// Its waiters, in the order in which they will be served: at which object, which member.
    #[cfg(not(feature = "sim"))]
    fn line(&self, map: &'static Map, place: Place) -> Vec<(u32, u32)> {
        arrived(map, place.index).into_iter().map(|member| (place.index, member)).collect()
    }

    /// Its state. None: it is shown with another, or has gone meanwhile.
    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, name: &str) -> Option<ObjectState>;

    /// For an object that is a body of the arena and nothing else: its value or count, its capacity, and the bytes of each element. None:
    /// its shape is impossible.
    #[cfg(not(feature = "sim"))]
    fn figures(&self, _body: &Body<'static>) -> Option<(i64, u32, u32)> {
        None
    }

    /// Why its state cannot be told.
    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, _map: &'static Map, _place: Place) -> Option<&'static str> {
        None
    }

    /// What is inconsistent in it, though its state can be told.
    #[cfg(not(feature = "sim"))]
    fn nonsense(&self, _map: &'static Map, _place: Place) -> Option<String> {
        None
    }

    /// What a member has of an object, in service or removed.
    #[cfg(not(feature = "sim"))]
    fn had(&self, _map: &Map, _place: Place, _member: u32, _generation: u32) -> Vec<Had> {
        Vec::new()
    }

    /// Gives back what is in the name of no existing member, in an object in service or removed; returns what that was.
    #[cfg(not(feature = "sim"))]
    fn free(&self, _map: &'static Map, _place: Place) -> Vec<Had> {
        Vec::new()
    }

    /// The members that still have a removed object. None: that cannot be told.
    #[cfg(not(feature = "sim"))]
    fn users(&self, _map: &Map, _place: Place) -> Option<Vec<u32>> {
        Some(Vec::new())
    }

    /// Removes it, by its full name.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, map: &'static Map, place: Place, name: &str, force: bool) -> Result<(), Failure>;
}

/// The table.
pub(crate) fn of(kind: Kind) -> &'static dyn Protocol {
    match kind {
        Kind::Pool => &pools::Pools,
        Kind::Semaphore => &semaphores::Semaphores,
        Kind::Mutex => &locks::Mutexes,
        Kind::Condvar => &locks::Condvars,
        Kind::End => &tubes::Ends,
        Kind::Tube => &tubes::Tubes,
        Kind::Broadcast => &tubes::Broadcasts,
        Kind::Map => &Maps,
        Kind::Stack => &Bodied(Stacks),
        Kind::Counter => &Bodied(Counters),
        Kind::Words => &Bodied(WordSets),
        Kind::Server => &Bodied(Servers),
        Kind::HelpLock => &Bodied(HelpLocks),
        Kind::Monitor => &Bodied(Monitors),
        Kind::RwLock => &RwLocks,
        Kind::Line => &LockParts { is_line: true },
        Kind::Inside => &LockParts { is_line: false },
    }
}

fn head(map: &Map, object: u32) -> Head {
    // Acquire: the object as its maker left it.
    Head(map.object(object).head.load(Ordering::Acquire))
}

/// Looks an object up, to act on it.
fn looked_up(map: &Map, object: u32) -> Head {
    let head = head(map, object);
    map.through(Place { index: object, head });
    head
}

/// The protocol of an object in service.
fn live(map: &Map, object: u32) -> Option<&'static dyn Protocol> {
    Some(looked_up(map, object)).filter(|h| h.in_service())?.kind().map(of)
}

/// The place and protocol of an object in service, or removed and not yet closed.
fn there(map: &Map, index: u32) -> Option<(Place, &'static dyn Protocol)> {
    let head = looked_up(map, index);
    Some((Place { index, head }, of(head.kind().filter(|_| head.stands())?)))
}

/// Matches what an object has with its waiters.
pub(crate) fn drain(map: &Map, object: u32) {
    let head = looked_up(map, object);
    if let Some(kind) = head.kind().filter(|_| head.in_service()) {
        of(kind).drain(map, object, head);
    }
}

/// Called before a member publishes a wait on the object.
pub(crate) fn before(map: &Map, object: u32) {
    if let Some(its) = live(map, object) {
        its.before(map, object);
    }
}

/// A member's bit was set: its setter looks afterwards.
pub(crate) fn enlisted(map: &Map, object: u32) {
    announce(map, object);
    drain(map, object);
}

fn announce(map: &Map, object: u32) {
    if let Some(its) = live(map, object) {
        its.announce(map, object);
    }
}

/// All waiters of the object, by arrival. Listing the waiters first sets WAITERS (or revokes the bias), so the observer cannot overtake a
/// waiter it has listed, though that waiter has set its bit and has not announced it yet.
pub(crate) fn arrived(map: &Map, object: u32) -> Vec<u32> {
    let all = queue(map, Place { index: object, head: head(map, object) });
    if !all.is_empty() {
        step!("sees who waits, not yet announced");
        announce(map, object);
    }
    all
}

/// A member's wait is over; its bit is still set, and its word says how the wait ended.
pub(crate) fn left(map: &Map, object: u32, member: u32) {
    if let Some(its) = live(map, object) {
        its.left(map, object, member);
    }
}

/// A waiter that was told to try again will not do so.
pub(crate) fn untold(map: &Map, object: u32) {
    if let Some(its) = live(map, object) {
        its.untold(map, object);
    }
}

/// A dead member's word is `state`. Gives what would be lost with the word back, or to the next. Idempotent. `whose`: the member's generation,
/// unless the member itself calls: nothing is taken from a later generation.
pub(crate) fn take_back(map: &Map, member: u32, state: State, whose: Option<u32>) {
    let Some(grant) = state.grant().filter(|g| !g.dead && !g.is_retry()) else { return };
    if !grant.of(map, grant.object) || grant.object >= map.geometry().objects {
        return;
    }
    if let Some(its) = live(map, grant.object) {
        its.take_back(map, grant.object, member, state, whose);
    }
}

/// Whether an object with one holder is biased to another member: then only that one can hold it.
fn biased_to_another(map: &Map, object: u32, member: u32) -> bool {
    let o = map.object(object);
    bias::owner_of(map, o).is_some_and(|owner| owner != member)
}

/// Recovers an object from a member's death.
pub(crate) fn recover(map: &Map, object: u32, dead: Dead, me: &mut Visitor<'_>) -> bool {
    there(map, object).is_some_and(|(at, its)| its.recover(map, at, dead, me))
}

/// Called before the waiters of a removed object are told. False: this kind has no waiters.
pub(crate) fn notify_dead(map: &Map, object: u32, head: Head, me: &mut Visitor<'_>) -> bool {
    let Some(its) = head.kind().map(of) else { return true };
    its.notify_dead(map, Place { index: object, head }, me);
    its.is_queue()
}

/// Whether a member's generation holds the object, or a part of it.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_held(map: &Map, object: u32, member: u32, generation: u32) -> bool {
    there(map, object).is_some_and(|(at, its)| its.is_held(map, object, at.head, member, generation))
}

/// A member died, and may have been about to tell the waiters at the ends of tubes.
pub(crate) fn wake_after_death(map: &Map) {
    for object in 0..map.objects_used() {
        let head = looked_up(map, object);
        if head.is_live(Kind::End) && !named::is_named(map.object(object)) {
            end::wake_after_death(map, object, head);
        }
    }
}

/// Whether the contents of a removed object's slot are still in use.
pub(crate) fn used(map: &Map, object: u32) -> bool {
    let head = head(map, object);
    head.kind().is_some_and(|kind| of(kind).is_used(map, object, head))
}

/// Removes a dead member from the ends of tubes and from the changers of bodies. The caller owns the member's life word.
pub(crate) fn clear(map: &Map, member: u32, me: &mut Visitor<'_>) {
    for object in 0..map.objects_used() {
        if let Some((at, its)) = there(map, object) {
            its.clear(map, at, member, me);
        }
    }
}

/// A thread ends, or leaves, normally, without unlocking what it holds: its guards were leaked, and so perhaps
/// references to the data: no other thread may have it.
#[cfg(not(feature = "sim"))]
pub(crate) fn abandon(map: &Map, leaver: Dead, me: &mut Visitor<'_>) {
    for object in 0..map.objects_used() {
        if let Some((at, its)) = there(map, object) {
            its.abandon(map, at, leaver, me);
        }
    }
}
