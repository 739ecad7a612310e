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
//! | [`KeptArrival`] | `Arrival`: no barrier is borrowed |
//! | [`choose`], [`choose_ready`], [`glance`] | `select!` with arms in a slice, and its errors |

use crate::armed::operations;
use crate::barrier::{Arrival, Barrier, BarrierError, Turn};
use crate::choice::{How, choose as chosen, glance as glanced, rest};
use crate::condition::Condvar;
use crate::descriptor::descriptor;
use crate::error::{ObjectError, SelectError};
use crate::guarded::Data;
use crate::mutex::{Mutex, MutexGuard};
use crate::named::Named;
use crate::pool::Pool;
use crate::registry::Arena;
use crate::rwlock::{self, RwLock};
use crate::select::SelectedOperation;
use crate::semaphore::Semaphore;
use crate::tube::broadcast::Subscription;
use crate::tube::named::{Loan, NotReceived, NotSent, Receiver, Sender, Tube, TubeError, TubeOptions};
use chappe_arena::ArenaError;
use chappe_plat::process;
use chappe_wait::attachment::{ThreadMark, leave_within};
use chappe_wait::operation::Mode;
use chappe_wait::order::Order;
use chappe_wait::patience::Until;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

pub use crate::armed::Armed;
pub use crate::called::{Called, Had};
pub use crate::hold::Hold;
pub use crate::macros::{Time, acquire, down, turn};

/// What distinguishes this process from its ancestors and descendants; never 0.
#[inline]
pub fn incarnation() -> u64 {
    process::incarnation()
}

/// An object with a name, among all that have had it.
pub trait Identity {
    /// No other object that its arena has had has this number; never 0.
    fn identity(&self) -> u64;
    /// Whether it was removed.
    fn is_removed(&self) -> bool;
}

macro_rules! identity {
    ($($kind:ident $handle:tt),*) => {$(
        impl Identity for $kind {
            fn identity(&self) -> u64 {
                self.$handle.identity()
            }
            fn is_removed(&self) -> bool {
                self.$handle.is_dead()
            }
        }
    )*};
}

identity!(Pool handle, Condvar 0, Barrier handle);

/// Whether other processes see what is written at an address: see `chappe_plat`.
///
/// # Errors
/// `EFAULT` if there is no memory; the system's.
pub fn is_shared(address: usize) -> std::io::Result<bool> {
    chappe_plat::memory::is_shared(address)
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
    let lock = Named::<Mutex<()>>::obtain(name, had, &Data::called(of, initial))?;
    let data = lock.data.cast();
    Ok((lock, data))
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
    let lock = Named::<RwLock<()>>::obtain(name, had, &Data::called(of, initial))?;
    let data = lock.data.cast();
    Ok((lock, data))
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

/// Arrives at a barrier, for once or as a party that stays, and waits; when the time is up, the barrier breaks, or the arrival is taken back.
///
/// # Errors
/// As [`Barrier::wait`] and its like.
pub fn pass(barrier: &Barrier, once: bool, time: Time, breaks: bool) -> Result<Turn, BarrierError> {
    let arrival = if once { barrier.arrive_once() } else { barrier.arrive() }?;
    arrival.finish(until(time), breaks)
}

/// An arrival with its barrier. Only the thread that arrived uses it, and drops it; others may ask whether they are that thread, and if not, let go.
pub struct KeptArrival {
    arrival: Arrival<'static>,
    thread: ThreadMark,
    /// Behind the arrival, which goes first. An `Arc`: what points into a `Box` is void once that moves.
    _barrier: Arc<Barrier>,
}

impl KeptArrival {
    /// Arrives, for once or as a party that stays.
    ///
    /// # Errors
    /// As [`Barrier::arrive`].
    pub fn new(barrier: &Barrier, once: bool) -> Result<KeptArrival, BarrierError> {
        let barrier = Arc::new(barrier.clone());
        // SAFETY: it lies in memory of its own until the arrival, which nobody gets, has gone.
        let kept: &'static Barrier = unsafe { &*Arc::as_ptr(&barrier) };
        let arrival = if once { kept.arrive_once() } else { kept.arrive() }?;
        Ok(KeptArrival { arrival, thread: ThreadMark::here(), _barrier: barrier })
    }

    /// Whether the calling thread has arrived so; a forked child has not. Another thread does not join the arena by asking.
    pub fn is_mine(&self) -> bool {
        self.thread.is_here() && self.arrival.is_mine()
    }

    /// Whether the thread that has arrived has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    /// Lets go of an arrival that is not the calling thread's: in a forked child, or once its thread has ended, which took it back. While that thread lives,
    /// it stands.
    pub fn let_go(self) {
        let KeptArrival { arrival, thread, .. } = self;
        std::mem::forget(arrival);
        // In a child, the thread that forked is inside of what it copied. At no other thread does that count.
        if thread.is_here() {
            leave_within();
        }
    }

    /// As [`Arrival::wait`] and its like.
    ///
    /// # Errors
    /// As these.
    pub fn wait(&self, time: Time, breaks: bool) -> Result<Turn, BarrierError> {
        self.arrival.finish(until(time), breaks)
    }

    /// It; [`turn`] makes an arm of it.
    pub fn arrival(&self) -> &Arrival<'_> {
        &self.arrival
    }

    /// As [`Arrival::take_back`].
    pub fn take_back(&self) -> bool {
        self.arrival.end()
    }
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
    match glanced(operations(arms), false, false) {
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
    pool.handle.map.is_there(pool.handle.place)
}

/// The permit that was chosen.
///
/// # Panics
/// If it is another pool than the arm's.
#[track_caller]
pub fn permit_chosen(chosen: SelectedOperation<'_>, pool: &Pool) -> Option<Hold> {
    let taken = chosen.complete(Armed::new(pool), "pool")?;
    Some(Hold::new(pool, taken, chappe_wait::attachment::here()))
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
    fn a_permit_is_held_until_its_release() {
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
