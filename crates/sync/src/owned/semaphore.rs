//! The owned semaphores that the shim for POSIX programs uses.

use super::flags::KIND;
use super::pair::{Ending, Pair, make, sweep};
use crate::error::{DownError, ObjectError, UpError};
use crate::handle::{Handle, called, full_name, seen, shown, what_is};
use crate::holders::holder;
use crate::registry::Arena;
use crate::semaphore_word::{self, Unwanted};
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{ArenaError, Map, Place, Standing, Who, check_name};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::process;
use chappe_wait::attachment::party;
use chappe_wait::attachment::{attachment, is_attached, leave, process_attachment, process_member, watched};
use chappe_wait::claim::wait_for;
use chappe_wait::mark::Mark;
use chappe_wait::object_id::{ObjectId, all_met, met};
use chappe_wait::operation::{Arm, Looking, Refused, WaitSpec};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::{Parties, Party, in_line};
use chappe_wait::waiters::{Waiter, waiters};

/// A semaphore that starts at 1 and gets its unit back when the process that holds it dies, until it proves to be no lock.
///
/// It belongs to the process whose thread has taken it: any thread of that process may post. The first post by a process that does
/// not hold it *demotes* it: from then on it is an ordinary semaphore, and a death returns nothing. [`RobustSemaphore::demote`] does the
/// same; so does the end of a process that has called [`ending`], for every one that it still holds. A forked child holds nothing of its
/// parent's.
///
/// Waiters are served by [`Priority`](crate::Priority), and in the order of arrival among equals. Only in named arenas. It takes the room of
/// two objects: 256 bytes. A handle is plain data.
#[derive(Clone, Copy)]
pub struct RobustSemaphore(Pair);

impl std::fmt::Debug for RobustSemaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let owned = if self.is_owned() { "" } else { ", demoted" };
        write!(f, "RobustSemaphore({:?}, {}{owned})", self.name(), self.value())
    }
}

/// Why [`RobustSemaphore::post_in_handler`] did not post. Plain data.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPosted {
    /// Its value is [`RobustSemaphore::MAX`] already: `EOVERFLOW`.
    Overflow,
    /// It was removed: `EINVAL`.
    Dead,
    /// Neither the thread nor the process is a member of its arena yet: post outside a handler first, or call
    /// [`RobustSemaphore::prepare`]. `EAGAIN`.
    Unmet,
}

/// Whether this process is exiting.
static ENDING: Ending = Ending(AtomicU64::new(0));

/// Announces that the process exits normally: what it then holds of owned semaphores is not returned, and demotes them; the same holds
/// for what its other threads still take. What it gives back before it ends is given back as usual. To be called at exit; a signal
/// handler may call it. Covers the first 1024 arenas that the process uses.
///
/// Does nothing in a child of vfork, which ends in the memory of its parent, and in a process that has never used chappe.
pub fn ending() {
    let Some(here) = process::incarnation_if_any().filter(|here| (here >> 32) as u32 == process::pid()) else { return };
    ENDING.say(here, || {
        for map in all_met() {
            let Some(process) = process_member(map) else { continue };
            for index in 0..map.objects_used() {
                // Acquire: the object as its maker left it.
                let head = Head(map.object(index).head.load(Ordering::Acquire));
                if let Some(pair) = Pair::of(map, Place { index, head }) {
                    pair.keep(&process);
                }
            }
        }
    });
}

/// The member that stands for this process; made if there is none.
fn process_of(map: &'static Map) -> Result<Party, ArenaError> {
    let here = process::incarnation();
    if let Some(process) = process_member(map).filter(|_| map.is_covered(here)) {
        return Ok(process);
    }
    process_attachment(map)?;
    // Handlers post in any thread.
    map.cover(here);
    process_member(map).ok_or_else(|| ArenaError::Removed { name: map.name().into() })
}

/// The one of this name, if it exists.
fn found(map: &'static Map, name: &str) -> Result<Option<Pair>, ObjectError> {
    let Some(place) = map.find(name) else { return Ok(None) };
    let other = || ObjectError::OtherKind { name: full_name(map.name(), name), is: what_is(map, place), wanted: KIND };
    Pair::of(map, place).map(Some).ok_or_else(other)
}

impl RobustSemaphore {
    /// The greatest value.
    pub const MAX: u32 = semaphore_word::MAX;

    /// Makes one in a named arena, with value 1. Without a name it gets none that a user could look up: for callers that keep its [`ObjectId`].
    ///
    /// # Errors
    /// `Exists`, `OtherKind`; `Private` in this process's own arena, where no process could get what a death returns; `Arena`.
    pub fn create_in(arena: &Arena, name: Option<&str>) -> Result<RobustSemaphore, ObjectError> {
        let map = arena.map();
        if map.is_private() {
            return Err(ObjectError::Private { kind: KIND });
        }
        let mut made = None;
        let mut one = |map, admin: &_, name: &str| {
            let pair = make(map, admin, name)?;
            made = Some(pair);
            Ok(pair.permit)
        };
        if let Some(name) = name {
            check_name(name, KIND)?;
            // As a member, so that the arena is not removed in the meantime.
            attachment(map, |_| ())?;
            let admin = map.admin();
            if let Some(there) = found(map, name)? {
                return Err(ObjectError::Exists { kind: KIND, name: called(map, there.permit) });
            }
            one(map, &admin, name)?;
        } else {
            Handle::unnamed(arena, Kind::Semaphore, &mut one)?;
        }
        let unmade = || ArenaError::Removed { name: map.name().into() };
        Ok(RobustSemaphore(made.ok_or_else(unmade)?))
    }

    /// Finds the one of this name in an arena.
    ///
    /// # Errors
    /// `Unknown`, which lists those that exist; `OtherKind`.
    pub fn in_arena(arena: &Arena, name: &str) -> Result<RobustSemaphore, ObjectError> {
        check_name(name, KIND)?;
        let map = arena.map();
        if let Some(pair) = found(map, name)? {
            return Ok(RobustSemaphore(pair));
        }
        let its = |p: &Place| Pair::of(map, *p).is_some();
        let mut existing: Vec<String> = map.objects().into_iter().filter(its).map(|p| called(map, p)).collect();
        existing.sort();
        Err(ObjectError::Unknown { kind: KIND, name: full_name(map.name(), name), arena: arena.name(), existing })
    }

    /// The one at a spot. A signal handler may call it if this process has met the arena before.
    ///
    /// # Errors
    /// `Unknown` if there is none (any more); `Arena` if the arena does not exist any more.
    #[inline(always)]
    pub fn at(spot: ObjectId) -> Result<RobustSemaphore, ObjectError> {
        let place = Place { index: spot.object, head: Head::live(spot.generation, Kind::Pool) };
        match met(spot.arena).and_then(|map| Pair::of(map, place)) {
            Some(pair) => Ok(RobustSemaphore(pair)),
            None => RobustSemaphore::at_slow(spot),
        }
    }

    #[cold]
    fn at_slow(spot: ObjectId) -> Result<RobustSemaphore, ObjectError> {
        let h = Handle::at_spot(Kind::Pool, spot)?;
        Pair::of(h.map, h.place).map(RobustSemaphore).ok_or_else(|| gone(h.map, spot))
    }

    /// Its spot.
    pub fn object_id(&self) -> ObjectId {
        Handle::at(self.0.map, self.0.permit).object_id()
    }

    /// Its name.
    pub fn name(&self) -> String {
        called(self.0.map, self.0.permit)
    }

    /// Prepares this process, so that signal handlers in any of its threads may call [`RobustSemaphore::post`]. Once for each process and
    /// arena; again in a forked child. Waiting does it implicitly.
    ///
    /// It starts a thread, which sleeps, and takes one member slot of the arena.
    ///
    /// # Errors
    /// `Arena`.
    pub fn prepare(arena: &Arena) -> Result<(), ArenaError> {
        process_of(arena.map())?;
        Ok(())
    }

    /// Prepares the calling thread to wait. [`RobustSemaphore::wait`] does it once, with locks and allocations. Afterwards it needs
    /// neither.
    ///
    /// # Errors
    /// `Arena`, `System`.
    pub fn prepare_to_wait(&self) -> Result<(), DownError> {
        process_of(self.0.map)?;
        attachment(self.0.map, |attachment| watched(attachment).map_err(DownError::System))?
    }

    /// Ends the calling thread's membership of its arena and a wait that it has left half-way: what it was granted goes to the next.
    pub fn leave(&self) {
        leave(self.0.map, |_| true);
    }

    /// Whether [`RobustSemaphore::post`] can skip making the calling thread a member, which takes locks and allocations.
    pub fn is_met(&self) -> bool {
        self.0.map.is_covered(process::incarnation()) || is_attached(self.0.map)
    }

    /// As [`RobustSemaphore::post`], by a thread that cannot become a member: see [`Semaphore::up_unseen`](crate::Semaphore).
    ///
    /// # Errors
    /// `Overflow`, `Dead`.
    pub fn post_unseen(&self) -> Result<(), UpError> {
        self.0.pay_in().map_err(|e| self.refused(e))
    }

    /// As [`RobustSemaphore::try_wait`], by a thread that cannot become a member, since the arena has no slot left or no thread can be
    /// started. Taking the first unit demotes the semaphore, since its death could not return it. Never waits.
    ///
    /// # Errors
    /// `WouldBlock`, `Dead`.
    pub fn try_wait_unseen(&self) -> Result<(), DownError> {
        match self.0.take_unseen() {
            Ok(()) => Ok(()),
            Err(Refused::Dead(_)) => Err(self.dead()),
            Err(_) => Err(DownError::WouldBlock),
        }
    }

    /// Whether it is in service: false once it, or its arena, was removed.
    pub fn is_there(&self) -> bool {
        let map = self.0.map;
        !self.0.is_dead() && map.mark() != Standing::Removed && !map.is_unlinked()
    }

    /// Takes a unit; waits for one if there is none. A handled signal does not end the wait (except inside
    /// [`interruptible`](crate::interruptible)).
    ///
    /// # Errors
    /// `Dead` if it is removed, before or meanwhile; `Arena` if the process or the thread cannot become a member; `System`.
    #[inline(always)]
    pub fn wait(&self) -> Result<(), DownError> {
        self.get(Until::Forever)
    }

    /// Takes a unit if there is one and nobody waits for it. What dead processes held is returned first.
    ///
    /// # Errors
    /// `WouldBlock`; otherwise as [`RobustSemaphore::wait`].
    #[inline(always)]
    pub fn try_wait(&self) -> Result<(), DownError> {
        self.get(Until::Now)
    }

    crate::timed::timed! {
        /// Takes a unit, waiting for at most `timeout`. An available unit is taken even if the time is up.
        ///
        /// # Errors
        /// `Timeout`; otherwise as [`RobustSemaphore::wait`].
        pub fn wait_timeout, wait_deadline(&self) -> Result<(), DownError> { |until| self.get(until()) }
    }

    // The common case stays in registers: the rare one gets a copy.
    #[inline(always)]
    fn get(&self, until: Until) -> Result<(), DownError> {
        let it = *self;
        if !it.0.take_one(process_member(it.0.map).as_ref()) {
            it.get_slow(until)?;
        }
        it.0.taken(&ENDING, || process_member(it.0.map));
        Ok(())
    }

    #[inline(never)]
    fn get_slow(self, until: Until) -> Result<(), DownError> {
        let process = process_of(self.0.map)?;
        let take = || match self.0.take(&process) {
            Ok(()) => Ok(true),
            Err(Refused::Dead(_)) => Err(self.dead()),
            Err(_) => Ok(false),
        };
        if take()? {
            return Ok(());
        }
        let arms = self.0.arms(&process);
        let deadline = match until {
            Until::Now => {
                // Each of them, not only the first that returns something.
                let revived = arms
                    .iter()
                    .filter(|arm| arm.look(&process, Looking::Dead).is_ok_and(|mark| mark == Mark::Something))
                    .count()
                    > 0;
                return if revived && take()? { Ok(()) } else { Err(DownError::WouldBlock) };
            }
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        attachment(self.0.map, |attachment| {
            watched(attachment).map_err(DownError::System)?;
            let who = Parties { main: party(attachment), private: None };
            match wait_for(&who, &arms.each_ref(), WaitSpec::to_take(deadline, &patience(attachment))) {
                Ok(_) => Ok(()),
                Err(Refused::Dead(_)) => Err(self.dead()),
                Err(Refused::Interrupted) => Err(DownError::Interrupted),
                Err(_) => Err(DownError::Timeout),
            }
        })?
    }

    /// Gives back the permit if this process holds it, or hands it to a waiter. If it does not hold it, demotes the semaphore and adds a
    /// unit. Never waits.
    ///
    /// A signal handler may call it, once this process has waited for something in its arena, or has called
    /// [`RobustSemaphore::prepare`].
    ///
    /// # Errors
    /// `Overflow` if its value is [`RobustSemaphore::MAX`] already: nothing is changed. `Dead`; `Arena` if this is the thread's first use
    /// of a full arena.
    #[inline(always)]
    pub fn post(&self) -> Result<(), UpError> {
        let it = *self;
        if let Some(process) = process_member(it.0.map) {
            match it.0.give_back(&process) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(e) => return Err(it.refused(e)),
            }
        }
        it.post_foreign()
    }

    /// As [`RobustSemaphore::post`], in a signal handler: it neither locks nor allocates, even if it fails.
    ///
    /// # Errors
    /// `Overflow`, `Dead`; `Unmet` if [`RobustSemaphore::is_met`] is false: nothing is changed.
    #[doc(hidden)]
    pub fn post_in_handler(&self) -> Result<(), NotPosted> {
        let refused = |why| match why {
            Unwanted::Overflow(_) => NotPosted::Overflow,
            Unwanted::Dead => NotPosted::Dead,
        };
        let given =
            process_member(self.0.map).map_or(Ok(false), |process| self.0.give_back(&process)).map_err(refused)?;
        match given {
            true => Ok(()),
            // The poster hands on: its death half-way must be noticed.
            false if !self.is_met() => Err(NotPosted::Unmet),
            false => self.0.pay_in().map_err(refused),
        }
    }

    #[inline(never)]
    fn post_foreign(self) -> Result<(), UpError> {
        let map = self.0.map;
        // The poster hands on: its death half-way must be noticed, as a member's or through one.
        if !map.is_covered(process::incarnation()) && !is_attached(map) {
            attachment(map, |_| ())?;
        }
        self.0.pay_in().map_err(|e| self.refused(e))
    }

    /// Demotes it: from now on no death returns anything. For good.
    ///
    /// # Errors
    /// `Dead`.
    pub fn demote(&self) -> Result<(), UpError> {
        if self.0.demote() { Ok(()) } else { Err(self.refused(Unwanted::Dead)) }
    }

    /// Whether a death of its holder still returns its unit. Not if it was removed.
    pub fn is_owned(&self) -> bool {
        self.seen(!self.0.is_plain()).unwrap_or(false)
    }

    /// How many units there are at this moment. A snapshot: it may change at once. 0 if it was removed.
    pub fn value(&self) -> u32 {
        self.seen(self.0.value()).unwrap_or(0)
    }

    /// Its holder or, if it was demoted, the process that took its first unit. None if it was removed.
    pub fn holder(&self) -> Option<Who> {
        self.seen(holder(self.0.map, self.0.word())).flatten()
    }

    /// What was read of it, unless it was removed.
    fn seen<T>(&self, what: T) -> Option<T> {
        seen(self.0.map.object(self.0.permit.index), self.0.permit, what)
    }

    /// The waiters, in the order in which they will be served.
    pub fn waiters(&self) -> Vec<Waiter> {
        waiters(self.0.map, self.0.permit)
    }

    /// Removes it. Refused if it has waiters, or waiters that have not woken up yet, unless `force`: then they get
    /// [`DownError::Dead`]. Removing it again does nothing.
    ///
    /// # Errors
    /// `InUse`, `Arena`.
    pub fn remove(&self, force: bool) -> Result<(), ObjectError> {
        self.0.map.allow("remove")?;
        self.take_away(force)
    }

    /// The same, for users that the file of a semaphore admits: see `chappe run`.
    fn take_away(&self, force: bool) -> Result<(), ObjectError> {
        let Pair { map, permit, count } = self.0;
        // As a member, so that the arena is not removed meanwhile.
        attachment(map, |_| ())?;
        map.recover_dead();
        let admin = map.admin();
        if self.0.is_dead() {
            return Ok(());
        }
        // Each waiter stands in both lines.
        let line = [permit, count].map(|part| in_line(map, part));
        if !force && let Some(first) = line.iter().flatten().next() {
            let who = map.who(*first);
            let waiting = line[0].len().max(line[1].len());
            let how = format!("{waiting} waiting, first pid {} `{}`", who.pid, who.label);
            return Err(ObjectError::InUse { kind: KIND, name: called(map, permit), how });
        }
        self.0.unmake(&admin);
        // Counts left by processes that were killed in here.
        sweep(map, &admin);
        Ok(())
    }

    /// Removes the one at a spot, in spite of waiters. False: it does not exist any more.
    ///
    /// # Errors
    /// `Arena`.
    pub fn remove_at(spot: ObjectId) -> Result<bool, ObjectError> {
        match RobustSemaphore::at(spot) {
            Ok(it) => it.take_away(true).map(|()| true),
            Err(ObjectError::Unknown { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn dead(&self) -> DownError {
        DownError::Dead { semaphore: shown(self.0.map, self.0.permit) }
    }

    #[cold]
    fn refused(self, why: Unwanted) -> UpError {
        let semaphore = shown(self.0.map, self.0.permit);
        match why {
            Unwanted::Overflow(value) => UpError::Overflow { semaphore, value, by: 1, most: RobustSemaphore::MAX },
            Unwanted::Dead => UpError::Dead { semaphore },
        }
    }
}

#[cold]
fn gone(map: &Map, spot: ObjectId) -> ObjectError {
    let name = format!("number {}", spot.object);
    ObjectError::Unknown { kind: KIND, name, arena: map.name().into(), existing: Vec::new() }
}
