//! The public interface of readers-writer locks: data that many threads read, or one changes.

use super::error::RwLockError;
use super::row;
use super::word::{self, Entry, Reading, Slots, Writing};
use crate::armed::Armed;
use crate::error::ObjectError;
use crate::guarded::Data;
use crate::handle::Handle;
use crate::lease::locks;
use crate::mutex::ByThread;
use crate::named::{Named, NamedKind};
use crate::registry::{Arena, ArenaOptions};
use crate::select::{Select, SelectedOperation};
use crate::took::Took;
use bytemuck::Pod;
use chappe_arena::layout::Kind;
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::{ROBUST, process};
use chappe_wait::attachment::party;
use chappe_wait::attachment::{ThreadAttachment, attachment, party_at_hand, watched};
use chappe_wait::claim::wait_for;
use chappe_wait::operation::{Arm, Refused, Taken, WaitSpec};
use chappe_wait::owner::{held_by, member_of};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::Parties;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A readers-writer lock around data, between threads (private) or processes (named), that survives the death of its holders.
///
/// Any number of threads read, or one writes. A reader that dies gives its share back at once. After a writer's process has died, the next locker
/// gets [`RwLockError::OwnerDied`] with the guard, and the data as that writer left it. So does every later locker, until one of them calls
/// [`WriteGuard::make_consistent`], or [`WriteGuard::condemn`], after which no thread gets the lock any more. A writer that panics counts as dead.
/// A thread that ends and has leaked a guard of either sort leaves the lock condemned: what it borrowed of the data may still be in use.
///
/// Fairness: first come, first served, readers and writers alike. A reader that comes after a waiting writer waits behind it; readers that
/// stand next to each other in line enter together. Not recursive: a thread that reads or writes and locks it again gets
/// [`RwLockError::Upgrade`] or [`RwLockError::Deadlock`].
///
/// Cost without waiters: a reader makes two locked operations, a writer two, no system call and no allocation (after the thread's first use of
/// the arena). A named lock has 384 bytes, three of the arena's objects, and its data, in steps of 64.
///
/// In a forked child a guard of the parent is void: dropping it does nothing, using it panics.
///
/// Paper: plan9-semaphores, 3 (`RWLock`); nonblocking-real-time, section 3. In C: `chappe_rwlock`.
///
/// ```
/// let table = chappe_sync::RwLock::private(vec![1, 2])?;
/// assert_eq!(table.read().unwrap().len(), 2);
/// let mut writing = table.write().unwrap();
/// writing.push(3);
/// let reading = chappe_sync::WriteGuard::downgrade(writing);
/// assert_eq!(reading.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RwLock<T> {
    handle: Handle,
    reading: Reading,
    writing: Writing,
    pub(crate) data: NonNull<T>,
    /// Whether the data is on this process's heap, and the lock goes with the handle.
    own: bool,
}

// SAFETY: the data is reached only through guards: one that writes, or any number that read.
unsafe impl<T: Send> Send for RwLock<T> {}
// SAFETY: as above; readers in several threads share the data.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

impl<T> std::fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RwLock({:?})", self.name())
    }
}

impl<T> Drop for RwLock<T> {
    fn drop(&mut self) {
        if self.own {
            // In a forked child, this makes the copy of the private arena usable first.
            Arena::private();
            self.slots().unmake(&self.handle.map.admin());
            // SAFETY: leaked by `private`, and dropped once. What a guard has borrowed does not outlive the lock.
            drop(unsafe { Box::from_raw(self.data.as_ptr()) });
        }
    }
}

impl<T> NamedKind for RwLock<T> {
    const KIND: Kind = Kind::RwLock;
    type Error = ObjectError;
    type Plan<'a> = Data<'a>;
    fn room(data: &Data<'_>) -> Result<ArenaOptions, ObjectError> {
        data.room()
    }
    fn lay_out(data: &Data<'_>, map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        // SAFETY: the place has room for so many bytes, and is not published yet.
        row::make(map, admin, name, (data.size, data.hash), |place| unsafe { data.write(place) })
    }
    fn attach(handle: Handle, wanted: Option<&Data<'_>>) -> Result<RwLock<T>, ObjectError> {
        let data = wanted.unwrap_or(&Data::of::<T>(None)).found(&handle)?.cast();
        RwLock::at(handle, data, false)
    }
    fn unmake(handle: &Handle, admin: &Admin, force: bool) -> Result<(), ObjectError> {
        let Some(slots) = Slots::of(handle.map, handle.place) else {
            // Its words make no sense: it goes, and its parts, which name no lock then, are swept.
            handle.map.unmake(admin, handle.place);
            row::sweep(handle.map, admin);
            return Ok(());
        };
        let joined = attachment(handle.map, |attachment| attachment.joined)?;
        let (member, mine) = (joined.index, held_by(joined.index, joined.generation));
        if !force && !slots.take_idle(member, mine) {
            return Err(handle.in_use(slots.in_use()));
        }
        if !force && let Some(how) = kept_by(handle) {
            slots.leave_alone(mine);
            return Err(handle.in_use(how));
        }
        slots.unmake(admin);
        if !force {
            // Taken above, so that no thread could lock it meanwhile.
            slots.leave_alone(mine);
        }
        Ok(())
    }
}

/// The result of locking to read.
pub type ReadResult<'a, T> = Result<ReadGuard<'a, T>, RwLockError<ReadGuard<'a, T>>>;

/// The result of locking to write.
pub type WriteResult<'a, T> = Result<WriteGuard<'a, T>, RwLockError<WriteGuard<'a, T>>>;

impl<T> RwLock<T> {
    /// Makes a lock for the threads of this process.
    ///
    /// # Errors
    /// `Arena` when the private arena is full, or there is no address space for it.
    pub fn private(value: T) -> Result<RwLock<T>, ObjectError> {
        let map = Arena::try_private()?.map();
        let place = row::make(map, &map.admin(), "", (0, 0), |_| ())?;
        // The data has an allocation of its own: references to it must outlive moves of the lock.
        RwLock::at(Handle::at(map, place), NonNull::from(Box::leak(Box::new(value))), true)
    }

    fn at(handle: Handle, data: NonNull<T>, own: bool) -> Result<RwLock<T>, ObjectError> {
        let slots = Slots::of(handle.map, handle.place).ok_or_else(|| handle.vanished())?;
        Ok(RwLock { handle, reading: Reading(slots), writing: Writing(slots), data, own })
    }

    fn slots(&self) -> &Slots {
        &self.writing.0
    }

    pub(super) fn place(&self) -> (&'static Map, Place) {
        (self.handle.map, self.handle.place)
    }

    /// The lock's name; empty for a private one.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    /// Whether it was condemned. Not if it was removed.
    pub fn is_condemned(&self) -> bool {
        self.handle.seen(self.slots().is_condemned()).unwrap_or(false)
    }

    /// Locks it to read; blocks until no thread writes, and threads that came before have had their turn. A handled signal does not end the wait.
    ///
    /// # Errors
    /// `OwnerDied`, with the guard; `Condemned`, `Dead`, `Deadlock`, `Upgrade`; `Arena` if the thread cannot become a member; `System`.
    pub fn read(&self) -> ReadResult<'_, T> {
        self.get_to_read(Until::Forever)
    }

    /// Locks it to read if no thread writes or waits. Never waits.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`RwLock::read`].
    pub fn try_read(&self) -> ReadResult<'_, T> {
        self.get_to_read(Until::Now)
    }

    crate::timed::timed! {
        /// Locks it to read, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`RwLock::read`].
        pub fn read_timeout, read_deadline(&self) -> ReadResult<'_, T> { |until| self.get_to_read(until()) }
    }

    /// Locks it to write; blocks until no thread has it, and threads that came before have had their turn. A handled signal does not end the wait.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    pub fn write(&self) -> WriteResult<'_, T> {
        self.get_to_write(Until::Forever)
    }

    /// Locks it to write if no thread has it or waits. Never waits.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`RwLock::read`].
    pub fn try_write(&self) -> WriteResult<'_, T> {
        self.get_to_write(Until::Now)
    }

    crate::timed::timed! {
        /// Locks it to write, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`RwLock::read`].
        pub fn write_timeout, write_deadline(&self) -> WriteResult<'_, T> { |until| self.get_to_write(until()) }
    }

    fn get_to_read(&self, until: Until) -> ReadResult<'_, T> {
        let attempt = |member, _| self.reading.try_enter(member);
        let (entry, member, _, incarnation) = self.get(&self.reading, until, attempt)?;
        self.answer(entry, until, || ReadGuard { lock: self, member, incarnation, _by: ByThread::HERE })
    }

    fn get_to_write(&self, until: Until) -> WriteResult<'_, T> {
        let attempt = |member, generation| self.writing.try_enter(member, held_by(member, generation));
        let (entry, member, generation, incarnation) = self.get(&self.writing, until, attempt)?;
        self.answer(entry, until, || WriteGuard::new(self, held_by(member, generation), incarnation, ByThread::HERE))
    }

    fn answer<G>(&self, entry: Entry, until: Until, guard: impl FnOnce() -> G) -> Result<G, RwLockError<G>> {
        let lock = || self.handle.shown();
        match entry {
            Entry::Whole => Ok(guard()),
            Entry::Torn => Err(RwLockError::OwnerDied(guard())),
            Entry::Condemned => Err(RwLockError::Condemned { lock: lock() }),
            Entry::Dead => Err(RwLockError::Dead { lock: lock() }),
            Entry::Own => Err(RwLockError::Upgrade { lock: lock() }),
            Entry::Busy if matches!(until, Until::Now) => Err(RwLockError::WouldBlock),
            Entry::Busy => Err(RwLockError::Timeout),
        }
    }

    /// The guard or error for the outcome, for this member, generation and process.
    fn get<G>(
        &self,
        arm: &dyn Arm,
        until: Until,
        attempt: impl Fn(u32, u32) -> Entry,
    ) -> Result<(Entry, u32, u32, u32), RwLockError<G>> {
        let map = self.handle.map;
        if ROBUST && let Some((me, incarnation)) = party_at_hand(map) {
            let entry = attempt(me.member, me.generation);
            if matches!(entry, Entry::Whole | Entry::Torn) {
                return Ok((entry, me.member, me.generation, incarnation));
            }
        }
        attachment(map, |attachment| {
            let (member, generation) = (attachment.joined.index, attachment.joined.generation);
            let entry = self.wait(arm, attachment, until, || attempt(member, generation))?;
            Ok((entry, member, generation, attachment.incarnation as u32))
        })
        .map_err(RwLockError::Arena)?
    }

    fn wait<G>(
        &self,
        arm: &dyn Arm,
        attachment: &ThreadAttachment,
        until: Until,
        attempt: impl Fn() -> Entry,
    ) -> Result<Entry, RwLockError<G>> {
        let (entry, member) = (attempt(), attachment.joined.index);
        if entry == Entry::Own && !self.slots().reads(member) {
            return Err(RwLockError::Deadlock { lock: self.handle.shown() });
        }
        if entry != Entry::Busy {
            return Ok(entry);
        }
        let deadline = match until {
            Until::Now => {
                word::revive(self.slots());
                return Ok(attempt());
            }
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        watched(attachment).map_err(RwLockError::System)?;
        let who = Parties { main: party(attachment), private: None };
        let patience = patience(attachment);
        match wait_for(&who, &[arm], WaitSpec::to_take(deadline, &patience)) {
            Ok((_, taken)) => Ok(entry_of(taken)),
            Err(Refused::Interrupted) => Err(RwLockError::Interrupted),
            Err(Refused::Dead(_)) if self.is_condemned() => Ok(Entry::Condemned),
            Err(Refused::Dead(_)) => Ok(Entry::Dead),
            Err(_) => Ok(Entry::Busy),
        }
    }

    /// A `read` arm of a choice.
    #[doc(hidden)]
    pub fn __read_arm(&self) -> Armed<'_> {
        Armed::new(&self.reading)
    }

    /// A `write` arm of a choice.
    #[doc(hidden)]
    pub fn __write_arm(&self) -> Armed<'_> {
        Armed::new(&self.writing)
    }

    fn chosen(&self, taken: Option<Taken>) -> (Entry, u64) {
        match taken {
            Some(taken) => (entry_of(taken), taken.word.0),
            None if self.is_condemned() => (Entry::Condemned, 0),
            None => (Entry::Dead, 0),
        }
    }

    /// Completes a choice that came to a `read` arm.
    #[doc(hidden)]
    #[track_caller]
    pub fn __finish_read(&self, took: Took) -> ReadResult<'_, T> {
        self.came_to_read(took.0, ByThread::HERE)
    }

    /// Completes a choice that came to a `write` arm.
    #[doc(hidden)]
    #[track_caller]
    pub fn __finish_write(&self, took: Took) -> WriteResult<'_, T> {
        self.came_to_write(took.0, ByThread::HERE)
    }

    /// The guard for what was taken by the member that is `by`'s, or the error if nothing was.
    pub(crate) fn came_to_read<By>(
        &self,
        taken: Option<Taken>,
        by: By,
    ) -> Result<ReadGuard<'_, T, By>, RwLockError<ReadGuard<'_, T, By>>> {
        let (entry, word) = self.chosen(taken);
        let (member, incarnation) = (member_of(word), process::incarnation() as u32);
        self.answer(entry, Until::Forever, || ReadGuard { lock: self, member, incarnation, _by: by })
    }

    /// The same to write.
    pub(crate) fn came_to_write<By>(
        &self,
        taken: Option<Taken>,
        by: By,
    ) -> Result<WriteGuard<'_, T, By>, RwLockError<WriteGuard<'_, T, By>>> {
        let (entry, mine) = self.chosen(taken);
        self.answer(entry, Until::Forever, || WriteGuard::new(self, mine, process::incarnation() as u32, by))
    }

    /// As its readers, or its writers, wait for it.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    pub(crate) fn arm(&self, writes: bool) -> &dyn Arm {
        if writes { &self.writing } else { &self.reading }
    }

    /// The error of a task's wait for a lock that is not in service any more.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    pub(crate) fn gone<G>(&self) -> RwLockError<G> {
        let lock = self.handle.shown();
        if self.is_condemned() { RwLockError::Condemned { lock } } else { RwLockError::Dead { lock } }
    }

    /// The error of a task's wait that a forked child inherited.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    pub(crate) fn inherited<G>(&self) -> RwLockError<G> {
        RwLockError::Inherited { lock: self.handle.shown() }
    }
}

fn entry_of(taken: Taken) -> Entry {
    if taken.position == 0 { Entry::Whole } else { Entry::Torn }
}

impl<'a> Select<'a> {
    /// Adds an arm that locks a readers-writer lock to read; answers its number.
    pub fn read<T>(&mut self, lock: &'a RwLock<T>) -> usize {
        self.add(lock.__read_arm())
    }

    /// Adds an arm that locks a readers-writer lock to write; answers its number.
    pub fn write<T>(&mut self, lock: &'a RwLock<T>) -> usize {
        self.add(lock.__write_arm())
    }
}

impl<'a> SelectedOperation<'a> {
    /// The lock, to read.
    ///
    /// # Errors
    /// As [`RwLock::read`]: `OwnerDied`, `Condemned`, `Dead`.
    ///
    /// # Panics
    /// If it is another lock than the arm's.
    #[track_caller]
    pub fn read<T>(self, lock: &'a RwLock<T>) -> ReadResult<'a, T> {
        lock.__finish_read(Took(self.complete(lock.__read_arm(), "readers-writer lock")))
    }

    /// The lock, to write.
    ///
    /// # Errors
    /// As [`SelectedOperation::read`].
    ///
    /// # Panics
    /// If it is another lock than the arm's.
    #[track_caller]
    pub fn write<T>(self, lock: &'a RwLock<T>) -> WriteResult<'a, T> {
        lock.__finish_write(Took(self.complete(lock.__write_arm(), "readers-writer lock")))
    }
}

impl<T: Pod> RwLock<T> {
    /// Attaches a named lock.
    ///
    /// # Errors
    /// `Unknown`, `OtherKind`; `OtherType` if its data is not a `T` (size, alignment, name without modules); `Arena`.
    pub fn open(name: &str) -> Result<RwLock<T>, ObjectError> {
        Named::open(name)
    }

    /// Makes a named lock, and its arena if need be.
    ///
    /// # Errors
    /// `Exists`, `OtherKind`, `Arena`.
    pub fn create(name: &str, value: T) -> Result<RwLock<T>, ObjectError> {
        Named::make(name, &Data::of::<T>(Some(bytemuck::bytes_of(&value))), false)
    }

    /// Attaches a named lock, or makes it with this value.
    ///
    /// # Errors
    /// As [`RwLock::open`] and [`RwLock::create`].
    pub fn open_or_create(name: &str, value: T) -> Result<RwLock<T>, ObjectError> {
        Named::make(name, &Data::of::<T>(Some(bytemuck::bytes_of(&value))), true)
    }
}

impl RwLock<()> {
    /// Removes a lock by name, whatever the type of its data. A lock that is held or waited for, or that a job keeps, is refused unless `force`: then the holders' guards
    /// end without effect, and waiters get [`RwLockError::Dead`].
    ///
    /// Without `force` it locks the lock first: if the caller is killed just then, the lock is left torn, as after any death of a holder.
    ///
    /// # Errors
    /// `Unknown`, `InUse`, `Arena`.
    pub fn remove(name: &str, force: bool) -> Result<(), ObjectError> {
        Named::<RwLock<()>>::remove(name, force)
    }
}

/// The job that keeps a lock, as text.
fn kept_by(handle: &Handle) -> Option<String> {
    match locks::all(handle.map, handle.place) {
        Ok(jobs) => jobs.first().map(|job| match &job.who {
            Some(who) => format!("kept for a job: pid {} `{}`", who.pid, who.label),
            None => "kept for a job that cannot be seen".into(),
        }),
        Err(e) => Some(format!("it is not known whether a job keeps it: {e}")),
    }
}

/// What a thread has of a lock.
pub enum Mine<'a> {
    /// It reads.
    Reads(ReadGuard<'a, ()>),
    /// It writes.
    Writes(WriteGuard<'a, ()>),
}

/// The calling thread's share of a lock, as a guard: see [`crate::raw::rwlock_of_mine`].
///
/// # Safety
/// As there.
pub(crate) unsafe fn of_mine(lock: &RwLock<()>) -> Option<Mine<'_>> {
    let incarnation = process::incarnation() as u32;
    let (member, mine) = attachment(lock.handle.map, |attachment| {
        (attachment.joined.index, held_by(attachment.joined.index, attachment.joined.generation))
    })
    .ok()?;
    if lock.slots().writes(mine) {
        return Some(Mine::Writes(WriteGuard::new(lock, mine, incarnation, ByThread::HERE)));
    }
    let reads = !lock.handle.is_dead() && lock.slots().reads(member);
    reads.then_some(Mine::Reads(ReadGuard { lock, member, incarnation, _by: ByThread::HERE }))
}

/// The data of a lock that is locked to read; unlocked when dropped, and when the thread dies. It belongs to the thread that locked it:
///
/// ```compile_fail
/// fn must_be_send<T: Send>(_: T) {}
/// let lock = chappe_sync::RwLock::private(0).unwrap();
/// must_be_send(lock.read().unwrap());
/// ```
#[must_use = "a guard that is not kept unlocks at once"]
pub struct ReadGuard<'a, T, By = ByThread> {
    lock: &'a RwLock<T>,
    member: u32,
    incarnation: u32,
    /// Whose it is. Dropped last: no other is this member before.
    _by: By,
}

/// The data of a lock that is locked to write; unlocked when dropped, and when the thread dies. It belongs to the thread that locked it:
///
/// ```compile_fail
/// fn must_be_send<T: Send>(_: T) {}
/// let lock = chappe_sync::RwLock::private(0).unwrap();
/// must_be_send(lock.write().unwrap());
/// ```
#[must_use = "a guard that is not kept unlocks at once"]
pub struct WriteGuard<'a, T, By = ByThread> {
    lock: &'a RwLock<T>,
    mine: u64,
    incarnation: u32,
    /// It was locked by a destructor that runs because of a panic: that panic does not tear this section's data.
    panicking: bool,
    /// Whose it is. Dropped last: no other is this member before.
    by: By,
}

// SAFETY: a shared guard gives out shared references to the data only.
unsafe impl<T: Sync, By> Sync for ReadGuard<'_, T, By> {}
// SAFETY: as above.
unsafe impl<T: Sync, By> Sync for WriteGuard<'_, T, By> {}

#[cold]
fn void<T>(lock: &RwLock<T>) -> ! {
    panic!(
        "a guard of readers-writer lock {} is used after fork: the parent has the lock; lock it again in the child",
        lock.handle.shown()
    )
}

impl<T, By> ReadGuard<'_, T, By> {
    fn is_ours(&self) -> bool {
        process::is_incarnation(self.incarnation)
    }
}

impl<'a, T, By> WriteGuard<'a, T, By> {
    fn new(lock: &'a RwLock<T>, mine: u64, incarnation: u32, by: By) -> Self {
        WriteGuard { lock, mine, incarnation, panicking: std::thread::panicking(), by }
    }

    fn is_ours(&self) -> bool {
        process::is_incarnation(self.incarnation)
    }

    /// Goes on as a reader, with no other writer in between. Readers that stand first in line enter, too.
    pub fn downgrade(this: Self) -> ReadGuard<'a, T, By> {
        let this = ManuallyDrop::new(this);
        let (lock, mine, incarnation) = (this.lock, this.mine, this.incarnation);
        if this.is_ours() {
            lock.slots().downgrade(mine);
        }
        // SAFETY: the writer's guard is not used, nor dropped, after this.
        let by = unsafe { std::ptr::read(&raw const this.by) };
        ReadGuard { lock, member: member_of(mine), incarnation, _by: by }
    }

    /// Marks the data as whole again: later lockers are not told of the death.
    pub fn make_consistent(this: &mut Self) {
        if this.is_ours() {
            this.lock.slots().tear(this.mine, false);
        }
    }

    /// Gives the lock up for ever: all waiters and all later lockers get [`RwLockError::Condemned`].
    pub fn condemn(this: Self) {
        if this.is_ours() && !this.lock.handle.is_dead() {
            this.lock.slots().condemn(this.mine);
        }
    }
}

impl<T, By> Deref for ReadGuard<'_, T, By> {
    type Target = T;
    fn deref(&self) -> &T {
        if !self.is_ours() {
            void(self.lock);
        }
        // SAFETY: I1 of the lock: until the guard is dropped no thread writes. The data was written when the lock was made, and is a T (private), or
        // plain (named).
        unsafe { self.lock.data.as_ref() }
    }
}

impl<T, By> Deref for WriteGuard<'_, T, By> {
    type Target = T;
    fn deref(&self) -> &T {
        if !self.is_ours() {
            void(self.lock);
        }
        // SAFETY: I1 of the lock: the word names this thread until the guard is dropped, so no other thread has a reference. The data as above.
        unsafe { self.lock.data.as_ref() }
    }
}

impl<T, By> DerefMut for WriteGuard<'_, T, By> {
    fn deref_mut(&mut self) -> &mut T {
        if !self.is_ours() {
            void(self.lock);
        }
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { &mut *self.lock.data.as_ptr() }
    }
}

impl<T: std::fmt::Debug, By> std::fmt::Debug for ReadGuard<'_, T, By> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

impl<T: std::fmt::Debug, By> std::fmt::Debug for WriteGuard<'_, T, By> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

impl<T, By> Drop for ReadGuard<'_, T, By> {
    fn drop(&mut self) {
        if self.is_ours() {
            self.lock.slots().leave(self.member);
        }
    }
}

impl<T, By> Drop for WriteGuard<'_, T, By> {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        if std::thread::panicking() && !self.panicking {
            self.lock.slots().tear(self.mine, true);
        }
        self.lock.slots().leave_alone(self.mine);
    }
}
