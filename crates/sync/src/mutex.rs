//! Mutexes, the public API: robust locks around data.

use crate::bias::{self, Bias};
use crate::contend::{contend, look};
use crate::error::{LockError, ObjectError};
use crate::guarded::Data;
use crate::handle::Handle;
use crate::lock::{self, Try};
use crate::named::{Named, NamedKind};
use crate::registry::ArenaOptions;
use bytemuck::Pod;
use chappe_arena::layout::Kind;
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::{ROBUST, process};
#[cfg(not(any(feature = "sim", feature = "loom")))]
use chappe_wait::attachment::here;
use chappe_wait::attachment::{ThreadAttachment, attachment, last_attachment, party, party_at_hand, watched};
use chappe_wait::cell::NOBODY;
use chappe_wait::operation::Site;
use chappe_wait::owner;
use chappe_wait::owner::{INCARNATION, kept};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::{Parties, Party, in_line};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A lock around data, between threads (private) or processes (named), that survives the death of its holders.
///
/// After a holder has died, locking returns [`LockError::OwnerDied`] with the guard, and the data as that holder left it. This
/// holds for every later holder, until one of them calls [`MutexGuard::make_consistent`], or [`MutexGuard::condemn`], after which
/// the mutex cannot be locked any more. A holder that panics counts as dead. A thread that ends and has leaked its guard
/// ([`std::mem::forget`]) leaves the mutex condemned: borrows of the data may still be in use.
///
/// Fairness: eventual. Arriving threads may overtake a waiter for half a millisecond; then the lock is handed to the waiter.
/// Not recursive: locking it again in the same thread is [`LockError::Deadlock`].
///
/// Cost: while nobody waits, one compare-and-swap to lock and one to unlock; no system call, no allocation (after the thread's first
/// use of the arena). A named mutex takes 128 bytes and its data, in steps of 64.
///
/// In a forked child a guard of the parent is void: dropping it does nothing, using it panics.
///
/// Paper: nonblocking-real-time, section 3; the death words in the members' records are those of evidence.
///
/// ```
/// let count = chappe_sync::Mutex::private(0)?;
/// *count.lock().unwrap() += 1;
/// assert_eq!(*count.lock().unwrap(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T> {
    pub(crate) handle: Handle,
    pub(crate) data: NonNull<T>,
    /// Whether the data is on this process's heap.
    own: bool,
    /// Its free word.
    free: u64,
    /// Whether it may be biased.
    is_biasable: bool,
}

// SAFETY: the data is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> std::fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mutex({:?})", self.name())
    }
}

impl<T> Drop for Mutex<T> {
    fn drop(&mut self) {
        if self.own {
            // SAFETY: leaked by `private`, and dropped once. A guard's borrows do not outlive the mutex.
            drop(unsafe { Box::from_raw(self.data.as_ptr()) });
        }
    }
}

impl<T> NamedKind for Mutex<T> {
    const KIND: Kind = Kind::Mutex;
    type Error = ObjectError;
    type Plan<'a> = Data<'a>;
    fn room(data: &Data<'_>) -> Result<ArenaOptions, ObjectError> {
        data.room()
    }
    fn lay_out(data: &Data<'_>, map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        // SAFETY: the place has room for so many bytes, and is not published yet.
        lock::make(map, admin, name, data.size, data.hash, |place| unsafe { data.write(place) })
    }
    fn attach(handle: Handle, wanted: Option<&Data<'_>>) -> Result<Mutex<T>, ObjectError> {
        let data = wanted.unwrap_or(&Data::of::<T>(None)).found(&handle)?.cast();
        let free = lock::free_word(handle.place);
        Ok(Mutex { handle, data, own: false, free, is_biasable: false })
    }
    fn unmake(handle: &Handle, admin: &Admin, force: bool) -> Result<(), ObjectError> {
        let word = attachment(handle.map, mine)?;
        if !force && !lock::take_idle(handle.map, handle.place, word) {
            let waiting = in_line(handle.map, handle.place).len();
            let holder = lock::holder(handle.map, handle.object).map(|(member, _)| handle.map.who(member));
            let who = holder.map_or_else(|| "nobody".into(), |w| format!("pid {} `{}`", w.pid, w.label));
            return Err(handle.in_use(format!("locked by {who}, {waiting} waiting")));
        }
        handle.map.unmake(admin, handle.place);
        if !force {
            // Taken above, so that no thread could lock it meanwhile.
            lock::give(handle.map, handle.place, handle.object, lock::free_word(handle.place), word);
        }
        Ok(())
    }
}

/// The result of locking.
pub type LockResult<'a, T> = Result<MutexGuard<'a, T>, LockError<MutexGuard<'a, T>>>;

impl<T> Mutex<T> {
    /// Makes a mutex for the threads of this process. If one thread uses it alone for a while, the mutex becomes biased to that thread,
    /// which then locks and unlocks it with plain stores, until another thread comes.
    ///
    /// # Errors
    /// `Arena` when the private arena is full, or there is no address space for it.
    pub fn private(value: T) -> Result<Mutex<T>, ObjectError> {
        Mutex::private_with(value, Bias::Auto)
    }

    /// As [`Mutex::private`], and tells whether it may be biased. (With `CHAPPE_BIAS=off` in the environment, none may.)
    ///
    /// # Errors
    /// As [`Mutex::private`].
    pub fn private_with(value: T, bias: Bias) -> Result<Mutex<T>, ObjectError> {
        let handle = Handle::private(&mut |map, admin, name| lock::make(map, admin, name, 0, 0, |_| ()))?;
        let biased = bias::allow(handle.map, handle.object, bias);
        let free = lock::free_word(handle.place);
        // On the heap: borrows of the data must outlive moves of the mutex.
        let data = NonNull::from(Box::leak(Box::new(value)));
        Ok(Mutex { handle, data, own: true, free, is_biasable: ROBUST && biased })
    }

    /// Its name; empty for a private one.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    /// Locks it; waits until it is free. A handled signal does not end the wait (except inside
    /// [`interruptible`](crate::interruptible)).
    ///
    /// # Errors
    /// `OwnerDied`, with the guard; `Condemned`, `Dead`, `Deadlock`, `Interrupted`; `Arena` if the thread cannot become a member;
    /// `System`.
    #[inline(always)]
    pub fn lock(&self) -> LockResult<'_, T> {
        self.get(Until::Forever)
    }

    /// Locks it if it is free. Never waits.
    ///
    /// # Errors
    /// `WouldBlock`; otherwise as [`Mutex::lock`].
    #[inline(always)]
    pub fn try_lock(&self) -> LockResult<'_, T> {
        self.get(Until::Now)
    }

    crate::timed::timed! {
        /// Locks it, waiting for at most `timeout`.
        ///
        /// # Errors
        /// `Timeout`; otherwise as [`Mutex::lock`].
        pub fn lock_timeout, lock_deadline(&self) -> LockResult<'_, T> { |until| self.get(until()) }
    }

    /// Whether it is biased to a thread at this moment. Not if it was removed.
    pub fn is_biased(&self) -> bool {
        self.handle.seen(bias::owner_of(self.handle.map, self.handle.object).is_some()).unwrap_or(false)
    }

    /// Whether it was condemned. Not if it was removed.
    pub fn is_condemned(&self) -> bool {
        self.handle.seen(lock::condemned(self.handle.object)).unwrap_or(false)
    }

    #[inline(always)]
    fn get(&self, until: Until) -> LockResult<'_, T> {
        match self.get_now::<true>() {
            Some(guard) => Ok(guard),
            None => self.get_slow(until),
        }
    }

    /// Locks it if it is free, whole, and without waiters, for a thread with an attachment at hand. `LOOKS`: as for a pool's.
    #[inline(always)]
    pub(crate) fn get_now<const LOOKS: bool>(&self) -> Option<MutexGuard<'_, T>> {
        let h = &self.handle;
        let kept = if self.is_biasable {
            // SAFETY: nothing in this block leaves an arena, or looks for an attachment.
            let attachment = unsafe { last_attachment() }?;
            if self.enter(attachment) {
                Kept::now(attachment.kept)
            } else if std::ptr::eq(attachment.map, h.map) && (LOOKS || !attachment.is_due()) {
                Kept::of(self.take_and_look::<LOOKS>(&party(attachment), attachment)?, attachment.incarnation as u32)
            } else {
                return None;
            }
        } else {
            let (me, incarnation) = party_at_hand(h.map)?;
            Kept::of(self.take_one(&me)?, incarnation)
        };
        Some(MutexGuard::new(self, kept))
    }

    #[inline(always)]
    fn take_one(&self, me: &Party) -> Option<u64> {
        let h = &self.handle;
        let mine = owner::held_by(me.member, me.generation);
        lock::take_one(h.map, h.object, h.place, self.free, mine).then_some(mine)
    }

    /// Locks one that may be biased, by the bias if it is this thread's.
    #[inline(always)]
    fn enter(&self, attachment: &ThreadAttachment) -> bool {
        let h = &self.handle;
        // SAFETY: the attachment is the calling thread's. An attachment of another arena adds nothing, and a free word is never a biased one.
        attachment.addition != 0
            && unsafe { bias::enter(h.object, h.place.index, self.free + attachment.addition, attachment.holds) }
    }

    /// Locks one that may be biased without the bias, and now and then considers biasing it.
    #[inline(always)]
    fn take_and_look<const LOOKS: bool>(&self, me: &Party, attachment: &ThreadAttachment) -> Option<u64> {
        let h = &self.handle;
        let mine = self.take_one(me)?;
        if attachment.is_sample() && LOOKS {
            // SAFETY: the attachment is the calling thread's.
            unsafe { lock::consider(h.map, h.object, h.place, mine, attachment.holds) };
        }
        Some(mine)
    }

    #[inline(never)]
    fn get_slow(&self, until: Until) -> LockResult<'_, T> {
        let (how, mine, incarnation) = attachment(self.handle.map, |attachment| {
            let how = self.take(attachment, until)?;
            Ok((how, mine(attachment), attachment.incarnation as u32))
        })
        .map_err(LockError::Arena)??;
        self.answer(how, until, || MutexGuard::new(self, Kept::of(mine, incarnation)))
    }

    fn answer<G>(&self, how: Try, until: Until, guard: impl FnOnce() -> G) -> Result<G, LockError<G>> {
        match how {
            Try::Locked => Ok(guard()),
            Try::Torn => Err(LockError::OwnerDied(guard())),
            Try::Condemned => Err(LockError::Condemned { mutex: self.handle.shown() }),
            Try::Dead => Err(LockError::Dead { mutex: self.handle.shown() }),
            Try::Busy if matches!(until, Until::Now) => Err(LockError::WouldBlock),
            Try::Busy => Err(LockError::Timeout),
        }
    }

    /// What a task's wait for it came to. `mine`: its word when the process holds it.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    pub(crate) fn awaited(&self, how: Try, mine: u64) -> OwnedLockResult<'_, T> {
        self.answer(how, Until::Forever, || MutexGuard::new(self, Kept::of(mine, here())))
    }

    fn take<G>(&self, attachment: &ThreadAttachment, until: Until) -> Result<Try, LockError<G>> {
        let (map, place) = (self.handle.map, self.handle.place);
        let mine = mine(attachment);
        // The thread may have used another arena since.
        if self.is_biasable && self.enter(attachment) {
            return Ok(Try::Locked);
        }
        let attempt = || lock::take(map, place, mine);
        let seen = attempt();
        if seen != Try::Busy {
            return Ok(seen);
        }
        let patience = patience(attachment);
        if !matches!(until, Until::Now) {
            // Before the preparations that only a long wait needs.
            let seen = look(&patience, attempt);
            if seen != Try::Busy {
                return Ok(seen);
            }
        }
        if lock::holder(map, self.handle.object) == Some((attachment.joined.index, attachment.joined.generation)) {
            return Err(LockError::Deadlock { mutex: self.handle.shown() });
        }
        let deadline = match until {
            Until::Now => {
                if lock::turn(map, self.handle.object).is_some_and(|member| map.dead(member).is_some()) {
                    map.recover_dead();
                }
                // Passes on a reservation whose waiter has given up, or was not told.
                chappe_wait::kinds::drain(map, place.index);
                return Ok(attempt());
            }
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        watched(attachment).map_err(LockError::System)?;
        let who = Parties { main: party(attachment), private: None };
        match contend(&who, &Site::of(self.handle.map, self.handle.place), mine, deadline, &patience) {
            Try::Busy if patience.is_interrupted() => Err(LockError::Interrupted),
            seen => Ok(seen),
        }
    }
}

#[inline(always)]
fn mine(attachment: &ThreadAttachment) -> u64 {
    owner::held_by(attachment.joined.index, attachment.joined.generation)
}

impl<T: Pod> Mutex<T> {
    /// Attaches a named mutex.
    ///
    /// # Errors
    /// `Unknown`, `OtherKind`; `OtherType` if its data is not a `T` (size, alignment, name without modules); `Arena`.
    pub fn open(name: &str) -> Result<Mutex<T>, ObjectError> {
        Named::open(name)
    }

    /// Makes a named mutex; also makes its arena if there is none.
    ///
    /// # Errors
    /// `Exists`, `OtherKind`, `Arena`; `Alignment` if the data needs an alignment above 64.
    pub fn create(name: &str, value: T) -> Result<Mutex<T>, ObjectError> {
        Named::make(name, &Data::of::<T>(Some(bytemuck::bytes_of(&value))), false)
    }

    /// Attaches a named mutex, or makes it with this value.
    ///
    /// # Errors
    /// As [`Mutex::open`] and [`Mutex::create`].
    pub fn open_or_create(name: &str, value: T) -> Result<Mutex<T>, ObjectError> {
        Named::make(name, &Data::of::<T>(Some(bytemuck::bytes_of(&value))), true)
    }
}

impl Mutex<()> {
    /// Removes a mutex by name, whatever its data. Refused if it is locked, or has waiters, or waiters that have not woken up yet,
    /// unless `force`: then its holder's guard ends without effect, and waiters get [`LockError::Dead`].
    ///
    /// Without `force` it locks the mutex first: a process killed at that point leaves it torn, as any holder that dies does.
    ///
    /// # Errors
    /// `Unknown`, `InUse`, `Arena`.
    pub fn remove(name: &str, force: bool) -> Result<(), ObjectError> {
        Named::<Mutex<()>>::remove(name, force)
    }
}

/// Access to the data of a locked mutex; unlocks when dropped, and when the thread dies. If a thread ends, or leaves the arena, with
/// a leaked (or still existing) guard, the mutex is condemned: borrows of the data may be in use. The
/// process's first thread ends with the process, which leaves the mutex torn, as any death does.
///
/// It belongs to the thread that locked it:
///
/// ```compile_fail
/// fn must_be_send<T: Send>(_: T) {}
/// let m = chappe_sync::Mutex::private(0).unwrap();
/// must_be_send(m.lock().unwrap());
/// ```
#[must_use = "a guard that is not kept unlocks at once"]
pub struct MutexGuard<'a, T, By = ByThread> {
    // Two words, no more: it is passed by value in registers, where three would go through memory, which costs as much as a swap.
    mutex: &'a Mutex<T>,
    kept: Kept,
    by: PhantomData<By>,
}

/// Access to the data of a mutex that a task has locked ([`Mutex::lock_async`]); unlocks when dropped. It is the process's, and may go from thread to
/// thread. When the process dies, the next holder is told ([`LockError::OwnerDied`]). One that is leaked keeps the mutex locked until then.
///
/// It gives out the data to several threads only if the data may be shared:
///
/// ```compile_fail
/// fn must_be_sync<T: Sync>(_: T) {}
/// fn owned(guard: chappe_sync::OwnedMutexGuard<'_, std::cell::Cell<u32>>) {
///     must_be_sync(guard);
/// }
/// ```
pub type OwnedMutexGuard<'a, T> = MutexGuard<'a, T, ByProcess>;

/// The result of [`Mutex::lock_async`].
pub type OwnedLockResult<'a, T> = Result<OwnedMutexGuard<'a, T>, LockError<OwnedMutexGuard<'a, T>>>;

/// Of a guard: the lock is a thread's. The guard stays there.
pub struct ByThread(PhantomData<*const ()>);

impl ByThread {
    pub(crate) const HERE: ByThread = ByThread(PhantomData);
}

/// Of a guard: the lock is the process's. The guard may go from thread to thread, and is shared among them as its data may be.
pub struct ByProcess(PhantomData<Cell<()>>);

/// What a guard must remember: the lock's word, and, in place of that word's tag, flags and number, 23 bits of the process's incarnation (as many
/// successive forks) and whether it was locked by a destructor that runs because of a panic: such a panic does not tear the data.
#[derive(Clone, Copy)]
struct Kept(u64);

impl Kept {
    const PANICKING: u64 = 1;

    #[inline(always)]
    fn of(word: u64, incarnation: u32) -> Kept {
        Kept::now(kept(word, incarnation))
    }
    #[inline(always)]
    fn now(kept: u64) -> Kept {
        Kept(if std::thread::panicking() { kept | Kept::PANICKING } else { kept })
    }
    #[inline(always)]
    fn word(self) -> u64 {
        lock::held_word(self.0)
    }
    #[inline(always)]
    fn is_ours(self) -> bool {
        process::is_incarnation_in((self.0 >> 1) as u32, INCARNATION)
    }
}

// SAFETY: a shared guard gives out shared references to the data only.
unsafe impl<T: Sync, By> Sync for MutexGuard<'_, T, By> {}

impl<'a, T, By> MutexGuard<'a, T, By> {
    #[inline(always)]
    fn new(mutex: &'a Mutex<T>, kept: Kept) -> Self {
        MutexGuard { mutex, kept, by: PhantomData }
    }

    #[inline(always)]
    fn is_ours(&self) -> bool {
        self.kept.is_ours()
    }

    /// Declares the data whole again: later holders are not told of the death.
    pub fn make_consistent(this: &mut Self) {
        if this.is_ours() {
            lock::tear(this.mutex.handle.map, this.mutex.handle.object, this.kept.word(), false);
        }
    }

    /// Condemns the mutex for ever: its waiters, and all later callers, get [`LockError::Condemned`].
    pub fn condemn(this: Self) {
        if this.is_ours() && !this.mutex.handle.is_dead() {
            let h = &this.mutex.handle;
            lock::condemn(h.map, h.place.index, h.object, this.kept.word());
        }
    }

    pub(crate) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }

    #[cold]
    fn void(&self) -> ! {
        panic!(
            "a guard of mutex {} is used after fork: the parent has the lock; lock it again in the child",
            self.mutex.handle.shown()
        )
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// A number that stands for the guard; never 0. The mutex stays locked.
    #[doc(hidden)]
    #[inline(always)]
    pub fn into_number(this: Self) -> u64 {
        let kept = this.kept.0;
        std::mem::forget(this);
        kept
    }

    /// Makes the guard again; `None` in a forked child of the process that locked it.
    ///
    /// # Safety
    /// The number was given by the calling thread, or its parent, for a guard of this mutex; only one guard is made of it.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn of_number(mutex: &'a Mutex<T>, number: u64) -> Option<Self> {
        let kept = Kept(number);
        kept.is_ours().then(|| MutexGuard::new(mutex, kept))
    }
}

impl<T, By> Deref for MutexGuard<'_, T, By> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        if !self.is_ours() {
            self.void();
        }
        // SAFETY: I1 of the lock: the word names this thread, or a task's process, until the guard is dropped, so nobody else has a reference.
        // The data was written when the mutex was made, and is a T (private), or plain (named).
        unsafe { self.mutex.data.as_ref() }
    }
}

impl<T, By> DerefMut for MutexGuard<'_, T, By> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        if !self.is_ours() {
            self.void();
        }
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { &mut *self.mutex.data.as_ptr() }
    }
}

impl<T: std::fmt::Debug, By> std::fmt::Debug for MutexGuard<'_, T, By> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

impl<T, By> Drop for MutexGuard<'_, T, By> {
    #[inline(always)]
    fn drop(&mut self) {
        let h = &self.mutex.handle;
        if !self.is_ours() {
            return;
        }
        if std::thread::panicking() && self.kept.0 & Kept::PANICKING == 0 {
            lock::tear(h.map, h.object, self.kept.word(), true);
        }
        let free = self.mutex.free;
        let by_bias = || {
            // The member, plus one.
            let mine = free + (self.kept.0 & owner::owner(NOBODY, 0)) + owner::owner(1, 0);
            bias::leave_own(h.map, h.object, h.place.index, mine)
        };
        if !self.mutex.is_biasable || !by_bias() {
            lock::give_unbiased(h.map, h.place, h.object, free, self.kept.word());
        }
    }
}
