//! The public interface of semaphores.

use crate::error::{DownError, ObjectError, UpError};
use crate::handle::{Handle, shown};
use crate::named::{Named, NamedKind};
use crate::registry::{Arena, ArenaOptions};
use crate::semaphore_word::{self, Units, Unwanted};
use chappe_arena::layout::{Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::{process, tls};
use chappe_wait::attachment::party;
use chappe_wait::attachment::{
    GUESSED, ThreadAttachment, WORD, attachment, is_attached, leave, process_attachment, watched,
};
use chappe_wait::claim::wait_for;
use chappe_wait::mark::Mark;
use chappe_wait::object_id;
use chappe_wait::object_id::ObjectId;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Outlook, Refused, Site, Taken, TryFast, WaitSpec};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait;
use chappe_wait::wait::{Discipline, Grant, Parties, Party, in_line};
use chappe_wait::waiters::{Waiter, waiters};

/// Dijkstra's counter of saved wake-ups.
///
/// `up` saves a wake-up, or hands it to the waiter that came first (strong, FIFO semantics; a semaphore made by [`Semaphore::create_by`] can
/// serve by [`Priority`](crate::Priority) instead). `down` consumes a wake-up, or waits for one. Any thread may call `up`: a unit has no owner, so
/// nothing returns when a thread dies. If a waiter that was handed a wake-up dies before it has returned from `down`, the wake-up goes to the
/// next waiter. For permits that return at a death there is [`Pool`](crate::Pool).
///
/// A semaphore made as *barging* lets newcomers overtake waiters that are just waking up: more throughput where units pass back and
/// forth between busy threads, and no promise about order.
///
/// `up` never waits, and a signal handler may call it: on a private semaphore always, unless tasks wait there (see
/// [`Semaphore::down_async`]); on a named one in
/// threads that have used its arena before, and in all threads once [`Semaphore::prepare_handlers`] was called. In a forked child,
/// only once the child has used an object of the same arena outside of a handler.
///
/// Cost: one compare-and-swap for each `down` that finds a unit and each `up` without waiters; no system call,
/// no allocation. A semaphore has 128 bytes. In a forked child, a private semaphore is a copy. A handle is cheap to clone.
///
/// Paper: nix-semaphores-tubes, sections 2.1 to 2.3.
///
/// ```
/// let ready = chappe_sync::Semaphore::private(0)?;
/// std::thread::scope(|s| {
///     s.spawn(|| ready.up());
///     ready.down()
/// })?;
/// assert!(ready.try_down().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Semaphore(Handle);

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Semaphore({:?}, {})", self.name(), self.value())
    }
}

impl Arm for Semaphore {
    fn site(&self) -> Site {
        semaphore_word::arm::site(self.0.map, self.0.place, self.0.object)
    }
    fn outlook(&self) -> Outlook {
        Outlook { may_be: !semaphore_word::arm::is_bare(self.0.object, self.0.place), map: self.0.map }
    }
    fn glance(&self, cautious: bool) -> TryFast {
        let may = !cautious || self.0.map.directory().is_none();
        if may && self.take_one() { TryFast::Taken(Taken::UNIT) } else { TryFast::Ask }
    }
    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        if self.take_one() {
            return Ok(Taken::UNIT);
        }
        semaphore_word::take(self.0.map, self.0.place).map(|()| Taken::UNIT)
    }
    fn look(&self, _me: &Party, how: Looking) -> Result<Mark, Refused> {
        semaphore_word::arm::look_at(self.0.map, self.0.place, how)
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, _number: u32, aim: Mode) -> Collected {
        semaphore_word::arm::collect(me, self.0.place, grant, aim)
    }
}

/// The word that a thread left in the semaphore that it used last. A wrong value is harmless: it is only the expected value of a swap.
struct Guess;

impl Guess {
    /// The calling thread's guess. A handler in the middle of `of` or `keep` may leave a mixed value: harmless, too.
    #[inline(always)]
    fn of(object: &Object) -> Option<Units> {
        let there = tls::get::<GUESSED>() == std::ptr::from_ref(object) as usize;
        there.then(|| Units(tls::get::<WORD>() as u64))
    }
    #[inline(always)]
    fn keep(object: &Object, word: Units) {
        tls::set::<GUESSED>(std::ptr::from_ref(object) as usize);
        tls::set::<WORD>(word.0 as usize);
    }
}

fn code(discipline: Discipline, barging: bool) -> u32 {
    discipline.code() | if barging { wait::BARGING } else { semaphore_word::STRONG }
}

impl NamedKind for Semaphore {
    const KIND: Kind = Kind::Semaphore;
    type Error = ObjectError;
    /// Its value, and how it serves.
    type Plan<'a> = (u32, u32);
    fn room(&(value, _): &(u32, u32)) -> Result<ArenaOptions, ObjectError> {
        let most = Semaphore::MAX;
        if value > most { Err(ObjectError::Value { value: value.into(), most }) } else { Ok(ArenaOptions::default()) }
    }
    fn lay_out(&(value, how): &(u32, u32), map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        semaphore_word::make(map, admin, name, value, how)
    }
    fn attach(handle: Handle, _wanted: Option<&(u32, u32)>) -> Result<Semaphore, ObjectError> {
        Ok(Semaphore(handle))
    }
    fn in_use(handle: &Handle) -> Option<String> {
        let waiting = in_line(handle.map, handle.place);
        let who = handle.map.who(*waiting.first()?);
        Some(format!("{} waiting, first pid {} `{}`", waiting.len(), who.pid, who.label))
    }
}

impl Semaphore {
    /// The greatest value.
    pub const MAX: u32 = semaphore_word::MAX;

    /// Makes a semaphore for the threads of this process, with `value` saved wake-ups.
    ///
    /// # Errors
    /// `Value`, or `Arena` when the private arena is full, or there is no address space for it.
    pub fn private(value: u32) -> Result<Semaphore, ObjectError> {
        Named::private(&(value, semaphore_word::STRONG))
    }

    /// As [`Semaphore::private`]; waiters may be overtaken.
    ///
    /// # Errors
    /// As [`Semaphore::private`].
    pub fn private_barging(value: u32) -> Result<Semaphore, ObjectError> {
        Named::private(&(value, wait::BARGING))
    }

    /// As [`Semaphore::private`]; waiters are served as `discipline` says.
    ///
    /// # Errors
    /// As [`Semaphore::private`].
    pub fn private_by(value: u32, discipline: Discipline) -> Result<Semaphore, ObjectError> {
        Named::private(&(value, discipline.code()))
    }

    /// Attaches a semaphore by name: `ready`, or `lab/ready` for one in arena `lab`.
    ///
    /// # Errors
    /// `Unknown`, which names the semaphores that are there; `OtherKind`; `Arena`.
    pub fn open(name: &str) -> Result<Semaphore, ObjectError> {
        Named::open(name)
    }

    /// Makes a semaphore by name, and its arena if need be.
    ///
    /// # Errors
    /// `Exists`, `OtherKind`, `Value`, `Arena`.
    pub fn create(name: &str, value: u32) -> Result<Semaphore, ObjectError> {
        Named::make(name, &(value, semaphore_word::STRONG), false)
    }

    /// As [`Semaphore::create`]; waiters are served as `discipline` says.
    ///
    /// # Errors
    /// As [`Semaphore::create`].
    pub fn create_by(name: &str, value: u32, discipline: Discipline) -> Result<Semaphore, ObjectError> {
        Named::make(name, &(value, discipline.code()), false)
    }

    /// As [`Semaphore::open_or_create`]; a semaphore that it makes serves its waiters as `discipline` says.
    ///
    /// # Errors
    /// As [`Semaphore::open_or_create`].
    pub fn open_or_create_by(name: &str, value: u32, discipline: Discipline) -> Result<Semaphore, ObjectError> {
        Named::make(name, &(value, discipline.code()), true)
    }

    /// As [`Semaphore::create`]; waiters may be overtaken.
    ///
    /// # Errors
    /// As [`Semaphore::create`].
    pub fn create_barging(name: &str, value: u32) -> Result<Semaphore, ObjectError> {
        Named::make(name, &(value, wait::BARGING), false)
    }

    /// Attaches a semaphore by name, or makes it with this value.
    ///
    /// # Errors
    /// `OtherKind`, `Value`, `Arena`.
    pub fn open_or_create(name: &str, value: u32) -> Result<Semaphore, ObjectError> {
        Named::make(name, &(value, semaphore_word::STRONG), true)
    }

    /// Makes a semaphore without a chosen name, for a caller that keeps its [`ObjectId`]. It stays until it is removed, in this process's own arena
    /// as well.
    ///
    /// # Errors
    /// `Value`, `Arena`.
    #[doc(hidden)]
    pub fn unnamed(arena: &Arena, value: u32) -> Result<Semaphore, ObjectError> {
        Semaphore::unnamed_by(arena, value, Discipline::Fifo, false)
    }

    /// As [`Semaphore::unnamed`]; waiters are served as `discipline` says, and `barging` lets newcomers overtake them.
    ///
    /// # Errors
    /// As [`Semaphore::unnamed`].
    #[doc(hidden)]
    pub fn unnamed_by(
        arena: &Arena,
        value: u32,
        discipline: Discipline,
        barging: bool,
    ) -> Result<Semaphore, ObjectError> {
        Named::unnamed(arena, &(value, code(discipline, barging)))
    }

    /// As [`Semaphore::create`], in an arena that the caller has.
    ///
    /// # Errors
    /// `Exists`, `OtherKind`, `Value`, `Arena`.
    #[doc(hidden)]
    pub fn create_in(arena: &Arena, name: &str, value: u32) -> Result<Semaphore, ObjectError> {
        Semaphore::create_in_by(arena, name, value, Discipline::Fifo, false)
    }

    /// As [`Semaphore::create_by`], in an arena that the caller has; `barging` lets newcomers overtake the waiters.
    ///
    /// # Errors
    /// As [`Semaphore::create_in`].
    #[doc(hidden)]
    pub fn create_in_by(
        arena: &Arena,
        name: &str,
        value: u32,
        discipline: Discipline,
        barging: bool,
    ) -> Result<Semaphore, ObjectError> {
        Named::create_in(arena, name, &(value, code(discipline, barging)))
    }

    /// The semaphore at a spot. If it is no longer there, operations fail.
    ///
    /// A signal handler may call it, if the arena was met in this process before.
    ///
    /// # Errors
    /// `Unknown` if there is no such slot; `Arena` if there is no such arena any more.
    #[doc(hidden)]
    #[inline(always)]
    pub fn at(spot: ObjectId) -> Result<Semaphore, ObjectError> {
        Ok(Semaphore(Handle::at_spot(Kind::Semaphore, spot)?))
    }

    /// Makes this thread a member of the semaphore's arena: from then on, it may `up` in a signal handler.
    ///
    /// # Errors
    /// The arena's, when it is full.
    #[doc(hidden)]
    pub fn join(&self) -> Result<(), ArenaError> {
        if self.0.map.directory().is_none() {
            // In a forked child, this makes the copy usable.
            Arena::private();
        } else if !is_attached(self.0.map) {
            attachment(self.0.map, |_| ())?;
        }
        Ok(())
    }

    /// The semaphore's location.
    #[doc(hidden)]
    pub fn object_id(&self) -> ObjectId {
        self.0.object_id()
    }

    /// Whether it is in service: false once it was removed, or its arena was.
    #[doc(hidden)]
    pub fn is_there(&self) -> bool {
        !self.0.is_dead() && self.0.map.mark() != chappe_arena::Standing::Removed && !self.0.map.is_unlinked()
    }

    /// Removes the semaphore at a spot, even if there are waiters: these get [`DownError::Dead`], but a waiter that was granted a unit keeps it.
    /// False: it is not there any more.
    ///
    /// # Errors
    /// `Arena`.
    #[doc(hidden)]
    pub fn remove_at(spot: ObjectId) -> Result<bool, ObjectError> {
        Handle::remove_at(Kind::Semaphore, spot)
    }

    /// Removes a semaphore by name. A semaphore with waiters, or with granted waiters that have not woken up yet, is refused unless `force`: then
    /// waiters get [`DownError::Dead`], but a waiter that was granted a unit keeps it.
    ///
    /// # Errors
    /// `Unknown`, `InUse`, `Arena`.
    pub fn remove(name: &str, force: bool) -> Result<(), ObjectError> {
        Named::<Semaphore>::remove(name, force)
    }

    /// The semaphore's name; empty for a private one.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// In which order waiters are served; of a barging semaphore, the order in which they are told to try. The usual one if it was removed.
    pub fn discipline(&self) -> Discipline {
        self.0.seen(Discipline::of(self.0.object)).unwrap_or_default()
    }

    /// How many wake-ups are saved at this moment; the number may change at once. 0 if it was removed.
    pub fn value(&self) -> u32 {
        self.0.seen(semaphore_word::value(self.0.object)).unwrap_or(0)
    }

    /// Consumes a saved wake-up; blocks until there is one, in the order of arrival. A handled signal does not end the wait
    /// (except inside of [`interruptible`](crate::interruptible)).
    ///
    /// # Errors
    /// `Dead` if it is or gets removed; `Arena` if the thread cannot become a member; `System`.
    #[inline(always)]
    pub fn down(&self) -> Result<(), DownError> {
        if self.take_one() { Ok(()) } else { self.down_slow(Until::Forever) }
    }

    /// Consumes a saved wake-up if there is one and no thread waits for it. Never blocks. Makes no system call, except to finish the hand-off of
    /// a thread that stopped, or the recovery of a waiter that died: both may wake a waiter.
    ///
    /// # Errors
    /// `WouldBlock`, `Dead`.
    #[inline(always)]
    pub fn try_down(&self) -> Result<(), DownError> {
        if self.take_one() { Ok(()) } else { self.down_slow(Until::Now) }
    }

    crate::timed::timed! {
        /// Consumes a saved wake-up, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`Semaphore::down`].
        pub fn down_timeout, down_deadline(&self) -> Result<(), DownError> { |until|
            if self.take_one() {
                return Ok(());
            }
            self.down_slow(until())
        }
    }

    /// The first try guesses the word: what this thread left the last time. A right guess saves a load that the swap
    /// would have waited for (a pair is a tenth faster); a wrong guess changes nothing.
    #[inline(always)]
    pub(crate) fn take_one(&self) -> bool {
        let (o, place) = (self.0.object, self.0.place);
        let guessed = Guess::of(o).and_then(|word| semaphore_word::take_from(o, place, word));
        let left = guessed.or_else(|| semaphore_word::take_one(o, place));
        if let Some(left) = left {
            Guess::keep(o, left);
        }
        left.is_some()
    }

    /// As [`Semaphore::try_down`], for a task that else waits in its line: where threads take nothing past a waiter, it need not look for one first.
    #[cfg(not(feature = "loom"))]
    #[inline(always)]
    pub(crate) fn down_or_wait(&self) -> Result<(), DownError> {
        if self.take_one() {
            return Ok(());
        }
        if self.is_ours() && !wait::is_barging(self.0.object) {
            return Err(DownError::WouldBlock);
        }
        self.down_slow(Until::Now)
    }

    /// Whether the arena's waiters are this process's, or of a named one.
    fn is_ours(&self) -> bool {
        self.0.map.directory().is_some() || self.0.map.is_covered(process::incarnation())
    }

    #[inline(never)]
    fn down_slow(&self, until: Until) -> Result<(), DownError> {
        if !self.is_ours() {
            // A forked child's copy: the parent's waiters do not exist here.
            Arena::private();
        }
        let take = || match semaphore_word::take(self.0.map, self.0.place) {
            Ok(()) => Ok(true),
            Err(Refused::Dead(_)) => Err(self.dead()),
            Err(_) => Ok(false),
        };
        if take()? {
            return Ok(());
        }
        let deadline = match until {
            Until::Now if semaphore_word::arm::revive(self.0.map, self.0.place) && take()? => return Ok(()),
            Until::Now => return Err(DownError::WouldBlock),
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        attachment(self.0.map, |attachment| {
            self.watch(attachment)?;
            let who = Parties { main: party(attachment), private: None };
            match wait_for(&who, &[self], WaitSpec::to_take(deadline, &patience(attachment))) {
                Ok(_) => Ok(()),
                Err(Refused::Dead(_)) => Err(self.dead()),
                Err(Refused::Interrupted) => Err(DownError::Interrupted),
                Err(_) => Err(DownError::Timeout),
            }
        })?
    }

    /// Saves a wake-up, or hands it to the waiter that came first. Never waits.
    ///
    /// Once it has taken effect it does not touch the semaphore any more: the woken thread may remove it.
    ///
    /// A signal handler may call it; see above for when.
    ///
    /// # Errors
    /// `Overflow` if its value is [`Semaphore::MAX`] already: nothing is changed. `Dead`; `Arena` if this is the
    /// thread's first use of a full arena.
    #[inline(always)]
    pub fn up(&self) -> Result<(), UpError> {
        self.up_many(1)
    }

    /// As `n` times [`Semaphore::up`], at once.
    ///
    /// # Errors
    /// As [`Semaphore::up`]: all of them, or none.
    #[inline(always)]
    pub fn up_many(&self, n: u32) -> Result<(), UpError> {
        if self.give_now(n) { Ok(()) } else { self.up_slow(n) }
    }

    /// Adds units if no thread waits and it is not full: a guess first, as in `take_one`.
    #[inline(always)]
    pub(crate) fn give_now(&self, n: u32) -> bool {
        let h = &self.0;
        let guessed = Guess::of(h.object).and_then(|word| semaphore_word::give_to(h.object, h.place, word, n));
        let left = guessed.or_else(|| semaphore_word::give_one(h.object, h.place, n));
        if let Some(left) = left {
            Guess::keep(h.object, left);
        }
        left.is_some()
    }

    /// The commonest case of [`Semaphore::up`] alone, on the semaphore at a spot: false, and nothing is done, if a thread waits, or in any
    /// other case. Two loads before the swap.
    #[doc(hidden)]
    #[inline(always)]
    pub fn up_alone(spot: ObjectId) -> bool {
        object_id::slot(Kind::Semaphore, spot).is_some_and(|(o, place)| semaphore_word::give_one(o, place, 1).is_some())
    }

    /// The commonest case of [`Semaphore::try_down`] alone, on the semaphore at a spot: false, and nothing is done, if there is no unit, or
    /// in any other case. Two loads before the swap.
    #[doc(hidden)]
    #[inline(always)]
    pub fn down_alone(spot: ObjectId) -> bool {
        object_id::slot(Kind::Semaphore, spot).is_some_and(|(o, place)| semaphore_word::take_one(o, place).is_some())
    }

    /// As [`Semaphore::up`], for a thread that cannot be a member: the arena is full, or the thread ends. If it is killed between adding the unit
    /// and handing it on, the waiter gets the unit at the next operation on the semaphore, or when the next member dies.
    ///
    /// # Errors
    /// `Overflow`, `Dead`.
    #[doc(hidden)]
    pub fn up_unseen(&self) -> Result<(), UpError> {
        let h = &self.0;
        semaphore_word::give(h.map, h.place, h.object, 1).map_err(|e| self.refused(e, 1))
    }

    /// Gives up the calling thread's membership of the arena, and a wait that it has left half-way: what it was granted goes to the next waiter.
    #[doc(hidden)]
    pub fn leave(&self) {
        leave(self.0.map, |_| true);
    }

    /// Whether [`Semaphore::up`] need not make the calling thread a member first, with locks and allocations.
    #[doc(hidden)]
    pub fn is_met(&self) -> bool {
        self.0.map.is_covered(process::incarnation()) || is_attached(self.0.map)
    }

    /// Prepares the calling thread to wait: what [`Semaphore::down`] does once, with locks and allocations. From then on `down` uses
    /// neither.
    ///
    /// # Errors
    /// `Arena`, `System`.
    #[doc(hidden)]
    pub fn prepare(&self) -> Result<(), DownError> {
        attachment(self.0.map, |attachment| self.watch(attachment))?
    }

    /// Only a named semaphore needs the reaper: a private one's users die together, and a thread that ends leaves the arena itself.
    pub(crate) fn dies(&self) -> bool {
        self.0.map.directory().is_some()
    }

    fn watch(&self, attachment: &ThreadAttachment) -> Result<(), DownError> {
        #[cfg(not(feature = "loom"))]
        chappe_wait::inside::may_sleep();
        if self.dies() { watched(attachment).map_err(DownError::System) } else { Ok(()) }
    }

    #[inline(never)]
    fn up_slow(&self, n: u32) -> Result<(), UpError> {
        // The thread that hands on must be a member, or covered by the process's member, so that its death half-way is recovered.
        let h = &self.0;
        if !h.map.is_covered(process::incarnation()) && !is_attached(h.map) {
            attachment(h.map, |_| ())?;
        }
        semaphore_word::give(h.map, h.place, h.object, n).map_err(|e| self.refused(e, n))
    }

    #[cold]
    fn refused(&self, why: Unwanted, by: u32) -> UpError {
        match why {
            Unwanted::Overflow(value) => UpError::Overflow { semaphore: self.shown(), value, by, most: Semaphore::MAX },
            Unwanted::Dead => UpError::Dead { semaphore: self.shown() },
        }
    }

    /// Allows `up` in signal handlers of any thread of this process, also of threads that have not used the
    /// semaphore's arena before. To be called once per process, and again in a forked child. Private semaphores do not need it.
    ///
    /// It starts a thread that sleeps, and takes one member slot of the arena.
    ///
    /// # Errors
    /// `Arena`.
    pub fn prepare_handlers(&self) -> Result<(), ObjectError> {
        process_attachment(self.0.map)?;
        self.0.map.cover(process::incarnation());
        Ok(())
    }

    /// The waiters, in the order in which they will be served.
    pub fn waiters(&self) -> Vec<Waiter> {
        waiters(self.0.map, self.0.place)
    }

    fn shown(&self) -> String {
        shown(self.0.map, self.0.place)
    }

    pub(crate) fn dead(&self) -> DownError {
        DownError::Dead { semaphore: self.shown() }
    }
}
