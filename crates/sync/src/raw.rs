//! An interface without types, lifetimes or destructors, for the C library: pools, mutexes, tubes and choice.
//!
//! The operations are the same as elsewhere. What a guard or a type guarantees there, the caller guarantees here; what is checked at
//! run time is the same. Only the C library should use it, and it may change at any time.
//!
//! | | instead of |
//! |---|---|
//! | [`Hold`] | `Permit`, `OwnedPermit`, `Permits`: no pool is borrowed, and nothing is given back by itself |
//! | [`mutex_of_bytes`] | `Mutex<T>`: the data's size and type name are given at run time |
//! | [`tube_of`] | `Tube<T>`, in the same way |
//! | [`choose`], [`choose_ready`], [`glance`] | `select!` with arms in a slice, and its errors |

use crate::attachment::process_attachment;
use crate::cell::{Tag, Word};
use crate::choice::{How, choose as chosen, glance as glanced, rest};
use crate::claim::{Mode, Taken};
use crate::descriptor::descriptor;
use crate::drain::cell_of;
use crate::error::{AcquireError, LeaseError, ObjectError, SelectError};
use crate::guard::{OwnedPermit, Permit, Permits};
use crate::lease::{self, Lease};
use crate::mutex::{Mutex, MutexGuard, named_bytes};
use crate::order::Order;
use crate::patience::Until;
use crate::permit::give;
use crate::pool::Pool;
use crate::registry::Arena;
use crate::rwlock::{self, RwLock};
use crate::select::{SelectedOperation, operations};
use crate::semaphore::Semaphore;
use crate::tube::broadcast::Subscription;
use crate::tube::named::{Loan, NotReceived, NotSent, Receiver, Sender, Tube, TubeError, TubeOptions};
use chappe_arena::{ArenaError, Map, Place};
use chappe_plat::process;
use std::os::fd::RawFd;
use std::ptr::NonNull;

pub use crate::macros::{Time, acquire, down};
pub use crate::select::Armed;

/// What distinguishes this process from its ancestors and descendants; never 0.
#[inline]
pub fn incarnation() -> u64 {
    process::incarnation()
}

/// Whether other processes see what is written at an address: see `chappe_plat`.
///
/// # Errors
/// `EFAULT` if there is no memory; the system's.
pub fn is_shared(address: usize) -> std::io::Result<bool> {
    chappe_plat::memory::is_shared(address)
}

/// A permit, as a value: copied it is the same permit, dropped it is still held.
#[derive(Clone, Copy)]
pub struct Hold {
    map: &'static Map,
    place: Place,
    taken: Taken,
    incarnation: u32,
}

impl Hold {
    #[inline(always)]
    pub(crate) fn new(pool: &Pool, taken: Taken, incarnation: u32) -> Hold {
        Hold { map: pool.map, place: pool.place, taken, incarnation }
    }

    pub(crate) fn parts(&self) -> (Taken, u32) {
        (self.taken, self.incarnation)
    }

    fn pool(&self) -> Pool {
        Pool::at(self.map, self.place)
    }

    /// What distinguishes this permit from all that its pool's first permit has been, and will be; never 0.
    #[inline(always)]
    pub fn bits(&self) -> u64 {
        self.taken.word.0
    }

    /// The permit of a pool of one that had these bits in this process.
    #[inline(always)]
    pub fn of_bits(pool: &Pool, bits: u64, incarnation: u64) -> Hold {
        Hold::new(pool, Taken { position: 0, word: Word(bits) }, incarnation as u32)
    }

    /// Of a thread.
    #[inline(always)]
    pub fn of(permit: Permit<'_>) -> Hold {
        permit.into_hold()
    }

    /// Of the process.
    pub fn of_owned(permit: OwnedPermit) -> Hold {
        permit.into_hold()
    }

    /// Several of a thread, in ascending order.
    pub fn of_many(permits: Permits<'_>, each: impl FnMut(Hold)) {
        permits.into_holds().for_each(each);
    }

    /// Makes a thread's permit of a named pool the process's: any thread may give it back, and it returns when the process dies, not when the
    /// thread does. Inner error: the thread's permit, which could not be converted.
    ///
    /// # Errors
    /// `Arena` if the process cannot become a member; `WouldBlock` if it was taken by force just then.
    ///
    /// # Safety
    /// It is the calling thread's, and no biased one.
    pub unsafe fn into_process(self) -> Result<Hold, Box<(Hold, AcquireError)>> {
        let process = process_attachment(self.map).map_err(|e| Box::new((self, AcquireError::Arena(e))))?;
        let word = self.taken.word.held(process.index, process.generation);
        match cell_of(self.map, self.place, self.taken.position) {
            Some(cell) if cell.swap(self.taken.word, word) => Ok(Hold { taken: Taken { word, ..self.taken }, ..self }),
            _ => Err(Box::new((self, AcquireError::WouldBlock))),
        }
    }

    /// Which of the pool's permits it is, counted from 0.
    pub fn index(&self) -> u32 {
        self.taken.position
    }

    /// Whether this is the process that took it.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        process::is_incarnation(self.incarnation)
    }

    /// As [`Permit::is_valid`].
    ///
    /// # Safety
    /// A thread's permit is looked at by that thread.
    pub unsafe fn is_valid(&self) -> bool {
        self.is_here() && self.pool().still(self.taken)
    }

    /// Gives it back, as dropping a permit does.
    ///
    /// # Safety
    /// A thread's permit is given back by that thread, and only once.
    // By reference, and word by word: words that were just written cannot be read in larger pieces without a stall.
    #[inline(always)]
    pub unsafe fn release(&self) {
        if self.is_here() {
            // SAFETY: the caller's promise, and just seen.
            unsafe { self.release_here() };
        }
    }

    /// As [`Hold::release`], for a caller that has just checked that this is the process that took it.
    ///
    /// # Safety
    /// As for [`Hold::release`].
    #[inline(always)]
    pub unsafe fn release_here(&self) {
        if self.is_leased() {
            lease::end(self.map, self.place, self.taken.position, self.taken.word);
        } else {
            give(self.map, self.place, self.map.object(self.place.index), self.taken);
        }
    }

    /// Whether it is a lease.
    pub fn is_leased(&self) -> bool {
        self.taken.word.tag() == Tag::Leased
    }

    /// Gives leases of one pool back, as [`Hold::release`] does each, with one look for the jobs of all of them.
    ///
    /// # Safety
    /// As for [`Hold::release`], of each; and they are of one pool.
    pub unsafe fn release_leases(holds: &[Hold]) {
        if let Some(first) = holds.first().filter(|first| first.is_here()) {
            let all: Vec<Taken> = holds.iter().map(|hold| hold.taken).collect();
            lease::end_each(first.map, first.place, &all);
        }
    }

    /// Whether both are one permit, had once.
    pub fn is(&self, other: &Hold) -> bool {
        self.is_of_pool_of(other) && (self.index(), self.taken.word) == (other.index(), other.taken.word)
    }

    /// Whether both are, or were, of one pool.
    pub fn is_of_pool_of(&self, other: &Hold) -> bool {
        std::ptr::eq(self.map, other.map) && self.place == other.place
    }

    /// As [`Permits::lease`]: one lease for all of them.
    ///
    /// # Errors
    /// As [`Permits::lease`]; some may have become leases by then, as [`Hold::take_back_lease`] undoes it.
    ///
    /// # Safety
    /// As for [`Hold::release`], of each; and they are of one pool.
    pub unsafe fn lease_many(holds: &mut [Hold]) -> Result<Lease, LeaseError> {
        let Some(&Hold { map, place, .. }) = holds.first() else { return Err(LeaseError::Lost) };
        if !holds.iter().all(Hold::is_here) {
            return Err(LeaseError::Lost);
        }
        lease::begin(map, place, holds.iter_mut().map(|hold| &mut hold.taken))
    }

    /// Takes a lease back that [`Hold::lease_many`] has just made of `before`, and whose mark no job was told. A permit that was a lease before
    /// stays one: its job may bear the mark.
    ///
    /// # Safety
    /// As for [`Hold::release`].
    pub unsafe fn take_back_lease(&mut self, before: Hold) {
        // The exact word: a permit that was taken away by force meanwhile is left alone.
        if cell_of(self.map, self.place, self.taken.position)
            .is_some_and(|cell| cell.swap(self.taken.word, before.taken.word))
        {
            self.taken = before.taken;
        }
    }
}

// The fast paths of operations, for a caller that no panic may cross: they read words of the object and of the thread's attachment, whose places
// were computed before, swap or store some, and never index by a value that another process could have written. The rest they leave undone.

/// The part of [`Semaphore::down`] that never waits, makes no call and cannot fail. False: the whole operation is needed.
#[inline(always)]
pub fn down_now(semaphore: &Semaphore) -> bool {
    semaphore.take_one()
}

/// As [`down_now`], of [`Semaphore::up`].
#[inline(always)]
pub fn up_now(semaphore: &Semaphore) -> bool {
    semaphore.give_now(1)
}

/// As [`down_now`], of [`Pool::acquire`].
#[inline(always)]
pub fn acquire_now(pool: &Pool) -> Option<Hold> {
    pool.get_now::<false>().map(Hold::of)
}

/// As [`down_now`], of [`Pool::acquire_owned`].
#[inline(always)]
pub fn acquire_owned_now(pool: &Pool) -> Option<Hold> {
    pool.get_owned_now()
}

/// The bits ([`Hold::bits`]) of the permit of a named pool of one, taken for the process as [`acquire_owned_now`] does.
#[inline(always)]
pub fn take_owned_now(pool: &Pool) -> Option<u64> {
    pool.take_owned_now()
}

/// Gives a permit from [`take_owned_now`] back.
///
/// # Safety
/// The permit is this process's, of this pool, which has a name; it has become no lease; and it is given back once.
#[inline(always)]
pub unsafe fn give_owned_now(pool: &Pool, bits: u64) {
    pool.give_first(bits);
}

/// As [`down_now`], of [`Mutex::lock`].
#[inline(always)]
pub fn lock_now<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.get_now::<false>()
}

/// The type of data or messages by name, as their users agree on it: the name of the Rust type without modules, or anything else.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The name.
    pub name: &'a str,
    /// The size.
    pub size: usize,
    /// Where it begins in memory: a power of two.
    pub align: usize,
}

/// How a named object is to be obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Had {
    /// It is there.
    Opened,
    /// It is not there, and is made.
    Created,
    /// Either.
    Either,
}

/// A named mutex whose data is so many bytes, and where they lie. If it is made, they begin as `initial`, or as zeros.
///
/// # Errors
/// As [`Mutex::open`], [`Mutex::create`] and [`Mutex::open_or_create`].
///
/// # Panics
/// If `initial` has another size than it says.
pub fn mutex_of_bytes(
    name: &str,
    had: Had,
    of: Called<'_>,
    initial: Option<&[u8]>,
) -> Result<(Mutex<()>, NonNull<u8>), ObjectError> {
    assert!(initial.is_none_or(|bytes| bytes.len() == of.size), "the data has {} bytes", of.size);
    named_bytes(name, had, of, initial)
}

/// A named readers-writer lock whose data is so many bytes, and where they lie; as [`mutex_of_bytes`].
///
/// # Errors
/// As [`RwLock::open`], [`RwLock::create`] and [`RwLock::open_or_create`].
///
/// # Panics
/// If `initial` has another size than it says.
pub fn rwlock_of_bytes(
    name: &str,
    had: Had,
    of: Called<'_>,
    initial: Option<&[u8]>,
) -> Result<(RwLock<()>, NonNull<u8>), ObjectError> {
    assert!(initial.is_none_or(|bytes| bytes.len() == of.size), "the data has {} bytes", of.size);
    rwlock::named_bytes(name, had, of, initial)
}

pub use crate::rwlock::Mine;

/// The calling thread's share of a readers-writer lock, as a guard.
///
/// # Safety
/// The guard that the thread got for it was forgotten; one is made of it.
pub unsafe fn rwlock_of_mine(lock: &RwLock<()>) -> Option<Mine<'_>> {
    // SAFETY: the caller's promise.
    unsafe { rwlock::of_mine(lock) }
}

/// A named tube of records of a type that is known only by name: all have its size. `None`: of any number of bytes.
///
/// # Errors
/// As [`Tube::open`], [`Tube::create`] and [`Tube::open_or_create`].
pub fn tube_of(name: &str, had: Had, of: Option<Called<'_>>, options: &TubeOptions) -> Result<Tube<[u8]>, TubeError> {
    let Some(of) = of else {
        return match had {
            Had::Opened => Tube::open(name),
            Had::Created => Tube::create(name, options),
            Had::Either => Tube::open_or_create(name, options),
        };
    };
    Tube::called(name, had, of, options)
}

/// An arm for a descriptor: to be read, or to be written.
///
/// # Errors
/// As [`Arena::try_private`].
pub fn ready(fd: RawFd, to_be_written: bool) -> Result<Armed<'static>, ArenaError> {
    Arena::try_private()?;
    Ok(Armed::new(descriptor(fd, to_be_written)))
}

fn until(time: Time) -> Until {
    match time {
        Time::Forever => Until::Forever,
        Time::Now => Until::Now,
        Time::Within(duration) => Until::after(duration),
    }
}

/// Makes a choice among arms, without asking for memory.
///
/// # Errors
/// As [`Select::wait`](crate::Select::wait).
pub fn choose<'a>(arms: &[Armed<'a>], biased: bool, time: Time) -> Result<SelectedOperation<'a>, SelectError> {
    let (at, taken) = chosen(operations(arms), How { until: until(time), biased, aim: Mode::Take })?;
    Ok(SelectedOperation::new(at, arms[at], Some(taken)))
}

/// The rest of a choice after a glance.
pub struct Rest(Order);

/// Takes hold of an arm that a glance finds ready, which is cheaper than establishing that none is; else [`choose_rest`] goes on.
///
/// # Errors
/// The rest, if none was seen.
#[inline]
pub fn glance<'a>(arms: &[Armed<'a>]) -> Result<SelectedOperation<'a>, Rest> {
    match glanced(operations(arms), false) {
        Ok((at, taken)) => Ok(SelectedOperation::new(at, arms[at], Some(taken))),
        Err(order) => Err(Rest(order)),
    }
}

/// The rest of a choice, of the same arms.
///
/// # Errors
/// As [`choose`].
pub fn choose_rest<'a>(arms: &[Armed<'a>], time: Time, left: Rest) -> Result<SelectedOperation<'a>, SelectError> {
    let (at, taken) =
        rest(operations(arms), How { until: until(time), biased: false, aim: Mode::Take }, left.0, false)?;
    Ok(SelectedOperation::new(at, arms[at], Some(taken)))
}

/// The number of an arm that is ready. Nothing is taken.
///
/// # Errors
/// As [`choose`].
pub fn choose_ready(arms: &[Armed<'_>], biased: bool, time: Time) -> Result<usize, SelectError> {
    chosen(operations(arms), How { until: until(time), biased, aim: Mode::Look }).map(|(at, _)| at)
}

/// Whether the pool was not removed.
pub fn is_there(pool: &Pool) -> bool {
    pool.map.is_there(pool.place)
}

/// The permit that was chosen.
///
/// # Panics
/// If it is another pool than the arm's.
#[track_caller]
pub fn permit_chosen(chosen: SelectedOperation<'_>, pool: &Pool) -> Option<Hold> {
    let taken = chosen.complete(Armed::new(pool), "pool")?;
    Some(Hold::new(pool, taken, crate::pool::here()))
}

/// Sends a record to the tube that was chosen.
///
/// # Errors
/// As [`Sender::send`].
///
/// # Panics
/// If it is another sender than the arm's.
#[track_caller]
pub fn send_chosen(chosen: SelectedOperation<'_>, sender: &Sender<[u8]>, record: &[u8]) -> Result<(), NotSent> {
    sender.finish_record(chosen.complete(Armed::new(&sender.out), "sender"), record)
}

/// Receives the record that was chosen into a buffer: how many bytes, and whether it is redelivered (a receiver that had it before has died).
///
/// # Errors
/// As [`Receiver::recv_into`].
///
/// # Panics
/// If it is another receiver than the arm's, or the buffer has no room for the longest record.
#[track_caller]
pub fn recv_chosen(
    chosen: SelectedOperation<'_>,
    receiver: &Receiver<[u8]>,
    buffer: &mut [u8],
) -> Result<(usize, bool), NotReceived> {
    receiver.finish_into(chosen.complete(Armed::new(&receiver.into), "receiver"), buffer)
}

/// Receives the message that was chosen at a subscription: how many bytes.
///
/// # Errors
/// As [`Subscription::recv_into`]; `Disconnected` also if a publisher has come since none was there.
///
/// # Panics
/// If it is another subscription than the arm's.
#[track_caller]
pub fn hear_chosen(
    chosen: SelectedOperation<'_>,
    subscription: &Subscription<[u8]>,
    buffer: &mut [u8],
) -> Result<usize, NotReceived> {
    subscription.finish_into(chosen.complete(Armed::new(&subscription.heard), "subscription"), buffer)
}

/// In which of this process's arenas a receiver's tube is.
pub fn arena_of_receiver(receiver: &Receiver<[u8]>) -> Arena {
    Arena::of(receiver.into.0.map)
}

/// In which of this process's arenas a sender's tube is.
pub fn arena_of_sender(sender: &Sender<[u8]>) -> Arena {
    Arena::of(sender.out.0.map)
}

/// Whether these are the same.
pub fn is_same_arena(one: &Arena, other: &Arena) -> bool {
    std::ptr::eq(one.map(), other.map())
}

/// Borrows the record that was chosen.
///
/// # Errors
/// As [`Receiver::borrow`].
///
/// # Panics
/// If it is another receiver than the arm's.
#[track_caller]
pub fn borrow_chosen<'r>(
    chosen: SelectedOperation<'_>,
    receiver: &'r Receiver<[u8]>,
) -> Result<Loan<'r, [u8]>, NotReceived> {
    receiver.finish_loan(chosen.complete(Armed::new(&receiver.into), "receiver"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_held_until_it_is_given_back() {
        let pool = Pool::private(3).unwrap();
        let hold = Hold::of(pool.acquire().unwrap());
        let mut rest = Vec::new();
        Hold::of_many(pool.acquire_many(2).unwrap(), |hold| rest.push(hold));
        assert_eq!((hold.index(), rest[0].index(), rest[1].index(), pool.available()), (0, 1, 2, 0));
        // SAFETY: this thread's.
        let is_valid = |hold: &Hold| unsafe { hold.is_valid() };
        // SAFETY: this thread's, each given back once.
        let give = |hold: Hold| unsafe { hold.release() };
        assert!(is_valid(&hold));
        give(hold);
        assert_eq!(pool.available(), 1);
        assert!(!is_valid(&hold));
        rest.into_iter().for_each(give);
        assert_eq!(pool.available(), 3);
    }

    #[test]
    fn a_permit_of_the_process_is_given_back_by_any_thread() {
        let pool = Pool::private(1).unwrap();
        let hold = Hold::of_owned(pool.acquire_owned().unwrap());
        // SAFETY: the process's, given back once.
        std::thread::scope(|s| s.spawn(move || unsafe { hold.release() }).join().unwrap());
        assert_eq!(pool.available(), 1);
    }

    #[test]
    fn a_threads_permit_becomes_the_processs() {
        let name = format!("raw-{}/p", std::process::id());
        let pool = Pool::create(&name, 1).unwrap();
        let taken = std::thread::scope(|s| {
            // SAFETY: of the thread that calls it.
            let take = || unsafe { Hold::of(pool.acquire().unwrap()).into_process() };
            s.spawn(move || take().ok().unwrap()).join().unwrap()
        });
        // Its thread has ended.
        assert!(pool.try_acquire().is_err());
        // SAFETY: the process's, given back once.
        unsafe { taken.release() };
        assert!(pool.try_acquire().is_ok());
        drop(pool);
        Arena::remove(name.split('/').next().unwrap(), true).unwrap();
    }

    #[test]
    fn a_guard_and_its_number_are_the_same_lock() {
        let mutex = Mutex::private(7).unwrap();
        let number = MutexGuard::into_number(mutex.lock().unwrap());
        assert!(mutex.try_lock().is_err());
        // SAFETY: the number is that of this thread's guard.
        let guard = unsafe { MutexGuard::of_number(&mutex, number) };
        assert_eq!(*guard.unwrap(), 7);
        assert!(mutex.try_lock().is_ok());
    }

    #[test]
    fn a_choice_answers_its_errors() {
        let (ready, pool) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap());
        let arms = [down(&ready), acquire(&pool)];
        assert_eq!(choose_ready(&arms, true, Time::Now).unwrap(), 1);
        let chosen = choose(&arms, true, Time::Forever).unwrap();
        assert_eq!(chosen.index(), 1);
        let hold = permit_chosen(chosen, &pool).unwrap();
        assert!(matches!(choose(&arms, true, Time::Now), Err(SelectError::WouldBlock)));
        assert!(matches!(choose(&[], true, Time::Forever), Err(SelectError::Nothing)));
        // SAFETY: this thread's, given back once.
        unsafe { hold.release() };
    }
}
