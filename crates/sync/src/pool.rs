//! The public interface of pools.

mod several;
mod taking;

use crate::bias::{self, Bias};
use crate::drain::{cell_of, cells, permits};
use crate::error::{AcquireError, PoolError};
use crate::handle::{Handle, its_slot};
use crate::holders::{self, Holder, PoolInfo};
use crate::lease;
use crate::named::{Named, NamedKind};
use crate::permit::{self, take};
use crate::registry::{Arena, ArenaOptions};
use chappe_arena::layout::{Kind, MAX_PERMITS};
use chappe_arena::{Admin, ArenaError, Map, Place, Standing, Who};
use chappe_plat::ROBUST;
use chappe_wait::attachment::{ThreadAttachment, at_hand, attachment, party, process_member, watched};
use chappe_wait::cell::{Tag, Word};
use chappe_wait::claim::wait_for;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{
    Arm, Collected, Looking, Mode, Outlook, Refused, Site, Taken, TryFast, WaitSpec, look_by_taking,
};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::{Discipline, Grant, Parties, Party, queue};
use chappe_wait::waiters::{Waiter, waiters};

/// N permits. Each belongs to its holder, and returns when the holder dies.
///
/// A pool of one permit is a robust lock. Waiters are served in the order in which they came (strict FIFO: no thread takes a permit past a
/// waiter). A pool made by [`Pool::create_by`] can serve by [`Priority`](crate::Priority) instead, and within one priority in the order in which
/// they came. A pool lives in an arena: this process's private one, or a named one that other processes share. It has 128 bytes, and 32 more
/// for each further permit.
///
/// A handle is cheap to clone. Permits of a pool that is removed end with their guards; waiters get
/// [`AcquireError::Dead`].
///
/// Paper: nonblocking-real-time, section 3 (locks whose critical sections survive their owners); the hand-off
/// is nix-semaphores-tubes, 2.3.
///
/// ```
/// let slots = chappe_sync::Pool::private(2)?;
/// let one = slots.acquire()?;
/// let two = slots.acquire()?;
/// assert!(slots.try_acquire().is_err());
/// drop(one);
/// assert_eq!(slots.acquire()?.index(), 0);
/// # drop(two);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    pub(crate) handle: Handle,
    /// Whether it may be biased.
    biased: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?}, {} of {} free)", self.name(), self.available(), self.permits())
    }
}

impl Arm for Pool {
    fn site(&self) -> Site {
        Site::of(self.handle.map, self.handle.place)
    }
    fn outlook(&self) -> Outlook {
        Outlook { may_be: !permit::is_held(self.handle.object, self.handle.place), map: self.handle.map }
    }
    fn glance(&self, cautious: bool) -> TryFast {
        if cautious {
            return TryFast::Ask;
        }
        at_hand(self.handle.map, |me, _| self.take_first(me)).map_or(TryFast::Ask, TryFast::Taken)
    }
    fn attempt(&self, me: &Party, _told: bool) -> Result<Taken, Refused> {
        self.take_first(me).map_or_else(|| take(self.handle.place, me), Ok)
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        if how == Looking::Dead { Ok(self.revive().into()) } else { look_by_taking(self, me, how) }
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, _aim: Mode) -> Collected {
        grant.map_or(Collected::Void, |grant| permit::collect(me, self.handle.place, grant, number))
    }
    fn give_back(&self, taken: Taken) {
        self.back(taken);
    }
}

impl NamedKind for Pool {
    const KIND: Kind = Kind::Pool;
    type Error = PoolError;
    type Plan<'a> = (u32, Discipline);
    fn room((permits, _): &(u32, Discipline)) -> Result<ArenaOptions, PoolError> {
        check_permits(*permits)?;
        Ok(ArenaOptions::default())
    }
    fn lay_out(plan: &(u32, Discipline), map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        permit::make_pool(map, admin, name, plan.0, plan.1)
    }
    fn attach(handle: Handle, _wanted: Option<&(u32, Discipline)>) -> Result<Pool, PoolError> {
        Ok(Pool { handle, biased: false })
    }
    fn fits(&self, &(wanted, _): &(u32, Discipline)) -> Result<(), PoolError> {
        let has = self.permits();
        if has == wanted { Ok(()) } else { Err(PoolError::OtherSize { name: self.name(), has, wanted }) }
    }
    fn exists(handle: &Handle) -> PoolError {
        PoolError::Exists { name: handle.name(), permits: Pool::at(handle.map, handle.place).permits() }
    }
    fn close(handle: &Handle) -> Result<(), PoolError> {
        let me = attachment(handle.map, party)?;
        let pool = Pool::at(handle.map, handle.place);
        pool.reclaim();
        if permit::take_all(handle.place, &me) {
            return Ok(());
        }
        let (name, holders, waiting) = (pool.name(), pool.holders(), queue(handle.map, handle.place).len());
        let who = holders.first().map(|h| h.who.clone());
        let first = who.map_or_else(|| "nobody".into(), |w| format!("pid {} `{}`", w.pid, w.label));
        Err(PoolError::InUse { name, held: holders.len(), waiting, first })
    }
}

fn check_permits(permits: u32) -> Result<(), PoolError> {
    if (1..=MAX_PERMITS).contains(&permits) {
        return Ok(());
    }
    Err(PoolError::Permits { permits: permits.into(), most: MAX_PERMITS })
}

impl Pool {
    /// Makes a pool for the threads of this process. If it has one permit, a thread that uses it alone for a while gets its
    /// bias: then it takes the permit and gives it back with plain stores, until another comes.
    ///
    /// # Errors
    /// `Permits`, or `Arena` when the private arena is full, or there is no address space for it.
    pub fn private(permits: u32) -> Result<Pool, PoolError> {
        Pool::private_with(permits, Bias::Auto)
    }

    /// As [`Pool::private`]; waiters are served as `discipline` says.
    ///
    /// # Errors
    /// As [`Pool::private`].
    pub fn private_by(permits: u32, discipline: Discipline) -> Result<Pool, PoolError> {
        Pool::private_as(permits, discipline, Bias::Auto)
    }

    /// As [`Pool::private`], choosing whether the pool may be biased. (`CHAPPE_BIAS=off` in the environment: none may.)
    ///
    /// # Errors
    /// As [`Pool::private`].
    pub fn private_with(permits: u32, bias: Bias) -> Result<Pool, PoolError> {
        Pool::private_as(permits, Discipline::Fifo, bias)
    }

    fn private_as(permits: u32, discipline: Discipline, bias: Bias) -> Result<Pool, PoolError> {
        let mut pool: Pool = Named::private(&(permits, discipline))?;
        pool.biased = ROBUST && bias::allow(pool.handle.map, pool.handle.object, bias);
        Ok(pool)
    }

    /// Attaches a pool by name: `gpu0`, or `lab/gpu0` for one in arena `lab`.
    ///
    /// # Errors
    /// `Unknown`, which names the pools that are there; `Arena`.
    pub fn open(name: &str) -> Result<Pool, PoolError> {
        Named::open(name)
    }

    /// Makes a pool by name, and its arena if need be.
    ///
    /// # Errors
    /// `Exists`, `Permits`, `Arena`.
    pub fn create(name: &str, permits: u32) -> Result<Pool, PoolError> {
        Named::make(name, &(permits, Discipline::Fifo), false)
    }

    /// As [`Pool::create`]; waiters are served as `discipline` says.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_by(name: &str, permits: u32, discipline: Discipline) -> Result<Pool, PoolError> {
        Named::make(name, &(permits, discipline), false)
    }

    /// As [`Pool::open_or_create`]; a pool that it makes serves its waiters as `discipline` says.
    ///
    /// # Errors
    /// As [`Pool::open_or_create`].
    pub fn open_or_create_by(name: &str, permits: u32, discipline: Discipline) -> Result<Pool, PoolError> {
        Named::make(name, &(permits, discipline), true)
    }

    /// Attaches a pool by name, or makes it.
    ///
    /// # Errors
    /// `OtherSize` if it is there with another number of permits; `Permits`, `Arena`.
    pub fn open_or_create(name: &str, permits: u32) -> Result<Pool, PoolError> {
        Named::make(name, &(permits, Discipline::Fifo), true)
    }

    #[inline]
    pub(crate) fn at(map: &'static Map, place: Place) -> Pool {
        Pool { handle: Handle::at(map, place), biased: false }
    }

    /// Attaches a pool of an arena by its name there.
    ///
    /// # Errors
    /// `Unknown`, which names the pools that are there.
    pub fn in_arena(arena: Arena, name: &str) -> Result<Pool, PoolError> {
        Named::open_in(&arena, name)
    }

    /// Makes a pool in an arena.
    ///
    /// # Errors
    /// `Exists`, `Permits`, `Arena`.
    pub fn create_in(arena: Arena, name: &str, permits: u32) -> Result<Pool, PoolError> {
        Named::create_in(&arena, name, &(permits, Discipline::Fifo))
    }

    /// Removes a pool by name. A pool with holders or waiters is refused unless `force`: then holders' guards end
    /// without effect, and waiters get [`AcquireError::Dead`].
    ///
    /// # Errors
    /// `Unknown`, `InUse`, `Arena`.
    pub fn remove(name: &str, force: bool) -> Result<(), PoolError> {
        Named::<Pool>::remove(name, force)
    }

    /// The pools of an arena, by name.
    pub fn list(arena: Arena) -> Vec<PoolInfo> {
        holders::list(arena.map())
    }

    /// The pool's name: `gpu0`, or `lab/gpu0` in another arena than `default`; empty for a private pool.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    /// In which order waiters are served; the usual one if it was removed.
    pub fn discipline(&self) -> Discipline {
        self.seen(Discipline::of(self.handle.object))
    }

    /// How many permits it has; of a removed pool how many it had, until nobody waits there any more, and then none.
    pub fn permits(&self) -> u32 {
        let Handle { map, place, object, .. } = self.handle;
        let permits = permits(map, place.index);
        if its_slot(object, place).is_some_and(|head| !head.is_free()) { permits } else { 0 }
    }

    /// Whether it was removed: its permits protect nothing any more.
    #[doc(hidden)]
    pub fn is_removed(&self) -> bool {
        self.handle.is_dead()
    }

    /// What was read of it, unless it was removed.
    fn seen<T: Default>(&self, what: T) -> T {
        self.handle.seen(what).unwrap_or_default()
    }

    /// Whether a thread has its bias just now. (Only a private pool of one permit can be biased.)
    pub fn is_biased(&self) -> bool {
        self.seen(bias::owner_of(self.handle.map, self.handle.object).is_some())
    }

    /// How many of them were free a moment ago; none if it was removed.
    pub fn available(&self) -> u32 {
        let count = self.permits() as usize;
        if let Some(inside) = bias::was_inside(self.handle.map, self.handle.object).filter(|_| count == 1) {
            return self.seen(u32::from(!inside));
        }
        self.seen(
            cells(self.handle.map, self.handle.place.index).take(count).filter(|(_, c)| c.load().is_free()).count()
                as u32,
        )
    }

    /// As [`Pool::get_owned_now`], of a pool that is not private: the bits of the permit.
    #[inline(always)]
    pub(crate) fn take_owned_now(&self) -> Option<u64> {
        let me = process_member(self.handle.map)?;
        Some(self.take_one(&me)?.word.0)
    }

    /// Gives the first permit of a pool that is not private back.
    #[inline(always)]
    pub(crate) fn give_first(&self, bits: u64) {
        permit::give_unbiased(
            self.handle.map,
            self.handle.place,
            self.handle.object,
            Taken { position: 0, word: Word(bits) },
        );
    }

    #[inline(always)]
    pub(crate) fn take_one(&self, me: &Party) -> Option<Taken> {
        permit::take_one(self.handle.object, self.handle.place, me)
    }

    /// The first permit, for an arm of the calling thread: by the bias if it is this thread's, or as [`Pool::take_one`].
    #[inline]
    fn take_first(&self, me: &Party) -> Option<Taken> {
        // SAFETY: the party is the calling thread.
        let entered = || unsafe { permit::enter(self.handle.object, self.handle.place, me) };
        let own = if self.biased && !me.holds.is_none() { entered() } else { None };
        own.or_else(|| self.take_one(me))
    }

    /// Takes the permit of a private pool of one, by the bias if it is this thread's.
    #[inline(always)]
    fn take_biased<const LOOKS: bool>(&self, me: &Party, attachment: &ThreadAttachment) -> Option<Taken> {
        // SAFETY: the attachment is the calling thread's.
        if let Some(taken) = unsafe { permit::enter(self.handle.object, self.handle.place, me) } {
            return Some(taken);
        }
        if !LOOKS && attachment.is_due() {
            return None;
        }
        let taken = self.take_one(me)?;
        if attachment.is_sample() && LOOKS {
            // SAFETY: as above.
            unsafe {
                permit::consider(self.handle.map, self.handle.object, self.handle.place, taken, attachment.holds)
            };
        }
        Some(taken)
    }

    #[inline(never)]
    fn get_slow(&self, until: Until) -> Result<Taken, AcquireError> {
        let last = if self.biased {
            None
        } else {
            at_hand(self.handle.map, |me, _| permit::take_last(self.handle.object, self.handle.place, me))
        };
        match last {
            Some(taken) => Ok(taken),
            None => attachment(self.handle.map, |attachment| self.get_attached(attachment, until))?,
        }
    }

    fn get_attached(&self, attachment: &ThreadAttachment, until: Until) -> Result<Taken, AcquireError> {
        let me = &party(attachment);
        match self.attempt(me, false) {
            Ok(taken) => return Ok(taken),
            Err(Refused::Dead(_)) => return Err(self.dead()),
            Err(_) => {}
        }
        let deadline = match until {
            Until::Now => {
                if self.revive()
                    && let Ok(taken) = take(self.handle.place, me)
                {
                    return Ok(taken);
                }
                return Err(AcquireError::WouldBlock);
            }
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        watched(attachment).map_err(AcquireError::System)?;
        let who = Parties { main: *me, private: None };
        match wait_for(&who, &[self], WaitSpec::to_take(deadline, &patience(attachment))) {
            Ok((_, taken)) => Ok(taken),
            Err(Refused::Dead(_)) => Err(self.dead()),
            Err(Refused::Interrupted) => Err(AcquireError::Interrupted),
            Err(_) => Err(AcquireError::Timeout),
        }
    }

    pub(crate) fn still(&self, taken: Taken) -> bool {
        // SAFETY: the caller has the permit, or has had it; what is biased is its thread's.
        let inside = || unsafe { permit::is_inside(self.handle.map, self.handle.object, self.handle.place, taken) };
        let has =
            || cell_of(self.handle.map, self.handle.place, taken.position).is_some_and(|c| c.load() == taken.word);
        !self.handle.is_dead() && (inside() || has())
    }

    #[inline]
    pub(crate) fn back(&self, taken: Taken) {
        if taken.word.tag() == Tag::Leased {
            lease::end(self.handle.map, self.handle.place, taken.position, taken.word);
        } else {
            permit::give(self.handle.map, self.handle.place, self.handle.object, taken);
        }
    }

    pub(crate) fn dead(&self) -> AcquireError {
        AcquireError::Dead { pool: self.handle.shown() }
    }

    /// Gives back what dead members hold, and what orphans' jobs no longer need. True if that may have freed something.
    pub(crate) fn revive(&self) -> bool {
        let gone = cells(self.handle.map, self.handle.place.index).any(|(_, cell)| {
            let word = cell.load();
            // A generation that is not the slot's present one was recovered, or is being recovered.
            let slot = word.member();
            !word.is_free() && slot < self.handle.map.geometry().members && self.handle.map.dead(slot).is_some()
        });
        if gone {
            // Whichever thread recovers: what the dead members held is back when this returns.
            self.handle.map.recover_dead();
        }
        self.reclaim() > 0 || gone
    }

    /// Gives back permits that were kept by jobs which have ended since; answers how many. Waiters' processes do so by
    /// themselves.
    pub fn reclaim(&self) -> usize {
        let some = cells(self.handle.map, self.handle.place.index).any(|(_, c)| c.load().is_orphan());
        // As a member: a death between freeing a permit and handing it on must be recovered. A thread cannot become a member without
        // waiting while the arena may be being removed.
        if !some || self.handle.map.mark() != Standing::Serving || attachment(self.handle.map, |_| ()).is_err() {
            return 0;
        }
        lease::settle_all(self.handle.map, self.handle.place)
    }

    /// Gives the pool another number of permits. If it is smaller, permits in use beyond the number end when they are given back.
    ///
    /// # Errors
    /// `Permits`, `Dead`, `Arena`.
    pub fn resize(&self, permits: u32) -> Result<(), PoolError> {
        check_permits(permits)?;
        self.handle.map.allow("resize")?;
        attachment(self.handle.map, |_| ())?;
        let admin: Admin = self.handle.map.admin();
        if permit::resize(self.handle.map, &admin, self.handle.place, permits)? {
            return Ok(());
        }
        Err(PoolError::Dead { name: self.name() })
    }

    /// Takes permit `index` from its holder, and hands it on. The holder's guard becomes void; what it does
    /// under the permit goes on, and so does a job with a lease. For holders that are stuck.
    ///
    /// # Errors
    /// `NotHeld`, `Dead`.
    pub fn force_release(&self, index: u32) -> Result<Who, PoolError> {
        // A removed pool's cells must not be looked at.
        if !self.handle.map.is_there(self.handle.place) {
            return Err(PoolError::Dead { name: self.name() });
        }
        self.handle.map.allow("take by force")?;
        let not_held = || PoolError::NotHeld { name: self.name(), index, permits: self.permits() };
        // As a member: a death between freeing a permit and handing it on must be recovered.
        attachment(self.handle.map, |_| ())?;
        // Read the holder before it is gone.
        let before = self.holders().into_iter().find(|h| h.index == index).ok_or_else(not_held)?;
        let word = permit::force(self.handle.map, self.handle.place, index).ok_or_else(not_held)?;
        Ok(if word.is_orphan() || word.tag() == Tag::Free { before.who } else { self.handle.map.who(word.member()) })
    }

    /// The permits of this pool that the calling process runs under: those whose leases its environment names
    /// ([`LEASE_VARIABLE`](crate::LEASE_VARIABLE)). A process that waits for a permit of such a pool may wait for its own end.
    pub fn leased_around(&self) -> Vec<Holder> {
        let around = lease::around(self.handle.map, self.handle.place);
        if around.is_empty() {
            return Vec::new();
        }
        self.holders().into_iter().filter(|held| around.contains(&held.index)).collect()
    }

    /// The holder of each permit that is not free, and since when.
    pub fn holders(&self) -> Vec<Holder> {
        holders::holders(self.handle.map, self.handle.place)
    }

    /// The waiters, in the order in which they will be served.
    pub fn waiters(&self) -> Vec<Waiter> {
        waiters(self.handle.map, self.handle.place)
    }
}
