//! The public interface of choices: [`Select`](crate::Select), and its result.

mod ends;

pub use ends::{ReceivingEnd, SendingEnd};

use crate::armed::{Armed, operations};
use crate::barrier::{Arrival, BarrierError, Turn};
use crate::choice::{How, choose, glance, rest};
#[cfg(not(feature = "sim"))]
use crate::choice::{Straight, straight};
use crate::error::{AcquireError, DownError, SelectError};
use crate::guard::Permit;
use crate::pool::Pool;
use crate::semaphore::Semaphore;
use crate::took::{Took, descriptor_of, down_of, permit_of};
use crate::tube::named::{self, Record};
use crate::tube::{ReadyTimeoutError, RecvError, SelectTimeoutError, SendError, TryReadyError, TrySelectError};
use chappe_plat::light;
use chappe_wait::interrupt::uninterrupted;
use chappe_wait::operation::{Mode, Taken};
use chappe_wait::order::Order;
use chappe_wait::patience::Until;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::thread::ThreadId;

/// A choice that is made many times: the arms are listed once, and making the choice allocates nothing.
///
/// An arm sends to a tube or receives from one, consumes a wake-up of a semaphore, takes a permit of a pool, or waits until a
/// descriptor can be read or written. Exactly one arm happens; the others have no effect. At each object the choice waits in the
/// order of arrival. The same object may occur more than once, both ends of a tube too (no thread meets itself). Private and named
/// objects may be mixed; objects of two different named arenas may not. An end of a tube whose other end has gone is ready: its
/// operation returns that error.
///
/// Each arm that is ready has an equal chance, whatever its kind, also an arm of a clock or of an object that occurs twice, unless the
/// choice is made with [`new_biased`](Select::new_biased). A choice answers "none is ready" or "none was in time" only if there was a moment at
/// which none was, however fast other threads move a thing from one arm to another. This holds for objects of all kinds, private and named. Of
/// descriptors the kernel tells only that each was not ready at a moment at which nothing else was. At a tube without slots, a thread that
/// is just coming to wait may not be there yet, nor a thread that has been told to look whether it can meet another; a choice does not wait
/// for such threads.
///
/// The `select` methods ([`select`](Select::select) and its variants) take hold of what they chose; [`SelectedOperation`] completes it, with the
/// very same end of the tube. The `ready` methods only answer which arm is ready: another thread may take it first.
///
/// [`select!`](crate::select!) is shorter where a choice is made once.
///
/// Paper: nix-semaphores-tubes, 2.2.3 and 2.3.3 (`altsems`), 3 (`talt`).
///
/// ```
/// use chappe_sync::{Pool, Select, Semaphore, tube};
/// let (stop, slots, (tx, rx)) = (Semaphore::private(0)?, Pool::private(1)?, tube::bounded(4));
/// let mut select = Select::new_biased();
/// let s = select.down(&stop);
/// let r = select.recv(&rx);
/// let p = select.acquire(&slots);
/// let chosen = select.select();
/// assert_eq!(chosen.index(), p);
/// let permit = chosen.permit(&slots)?;
/// tx.send("data").unwrap();
/// let chosen = select.select();
/// assert_eq!(chosen.index(), r);
/// assert_eq!(chosen.recv(&rx), Ok("data"));
/// stop.up()?;
/// assert_eq!(select.select().index(), s);
/// # drop(permit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Select<'a> {
    arms: Vec<Armed<'a>>,
    numbers: Vec<usize>,
    next: usize,
    biased: bool,
    /// The only thread that may try the choice, if an arm is bound to one.
    only: Option<Only>,
}

/// A thread: a light one may go on in another of the system's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    System(ThreadId),
    Light(*const light::Record),
}

impl Only {
    fn here() -> Only {
        light::current().map_or_else(|| Only::System(std::thread::current().id()), |me| Only::Light(me))
    }
}

// SAFETY: another thread may make the choice, but completes it only with an end that it may use; what only one thread may
// try says so (`only`).
unsafe impl Send for Select<'_> {}
// SAFETY: as above.
unsafe impl Sync for Select<'_> {}
impl UnwindSafe for Select<'_> {}
impl RefUnwindSafe for Select<'_> {}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Select { .. }")
    }
}

impl<'a> Select<'a> {
    /// A choice without arms yet; among arms that are ready, each will be equally likely.
    pub fn new() -> Select<'a> {
        Select::default()
    }

    /// A choice without arms yet; among arms that are ready, the arm that was added first will be taken.
    pub fn new_biased() -> Select<'a> {
        Select { biased: true, ..Select::default() }
    }

    pub(crate) fn add(&mut self, arm: Armed<'a>) -> usize {
        self.arms.push(arm);
        self.numbers.push(self.next);
        self.next += 1;
        self.next - 1
    }

    /// Binds the choice to this thread if only one thread may try the arm.
    #[track_caller]
    fn add_single(&mut self, single: bool) {
        if single {
            self.check_thread();
            self.only = Some(Only::here());
        }
    }

    /// Adds an arm that sends to a tube; answers its number. As [`Select::send_on`].
    pub fn send<S: SendingEnd>(&mut self, sender: &'a S) -> usize {
        self.send_on(sender)
    }

    /// Adds an arm that receives from a tube; answers its number. As [`Select::recv_on`].
    pub fn recv<R: ReceivingEnd>(&mut self, receiver: &'a R) -> usize {
        self.recv_on(receiver)
    }

    /// As [`Select::send`], by an end of any kind. A [`SingleSender`](crate::tube::SingleSender) binds the choice to this thread.
    pub fn send_on<S: SendingEnd>(&mut self, sender: &'a S) -> usize {
        self.add_single(sender.__is_single());
        self.add(sender.__arm())
    }

    /// As [`Select::recv`], by an end of any kind. A [`SingleReceiver`](crate::tube::SingleReceiver) binds the choice to this thread.
    pub fn recv_on<R: ReceivingEnd>(&mut self, receiver: &'a R) -> usize {
        self.add_single(receiver.__is_single());
        self.add(receiver.__arm())
    }

    /// Adds an arm that takes a permit; answers its number.
    pub fn acquire(&mut self, pool: &'a Pool) -> usize {
        self.add(Armed(pool))
    }

    /// Adds an arm that consumes a wake-up; answers its number.
    pub fn down(&mut self, semaphore: &'a Semaphore) -> usize {
        self.add(Armed(semaphore))
    }

    /// Adds an arm that is ready when an arrival's round has turned, or is broken; answers its number. It binds the choice to this thread.
    pub fn turn(&mut self, arrival: &'a Arrival<'_>) -> usize {
        self.add_single(true);
        self.add(Armed(arrival.arm()))
    }

    /// Adds an arm that is ready when the descriptor can be read without waiting, or has an error or an end to tell; answers its
    /// number. Nothing is read.
    pub fn readable<F: AsFd>(&mut self, descriptor: &'a F) -> usize {
        self.add(Armed::readable(descriptor))
    }

    /// Adds an arm that is ready when the descriptor can be written without waiting, or has an error to tell; answers its number.
    pub fn writable<F: AsFd>(&mut self, descriptor: &'a F) -> usize {
        self.add(Armed::writable(descriptor))
    }

    /// Takes an arm out. The other arms keep their numbers.
    ///
    /// # Panics
    /// If no arm has the number: it was never added, or is out already.
    #[track_caller]
    pub fn remove(&mut self, index: usize) {
        assert!(index < self.next, "index out of bounds; {index} >= {}", self.next);
        let at = self.numbers.binary_search(&index).unwrap_or_else(|_| panic!("no operation with this index"));
        self.arms.remove(at);
        self.numbers.remove(at);
    }

    /// Waits until an arm is ready, and takes hold of it.
    ///
    /// # Panics
    /// If there is no arm, or the choice cannot be made at all: arms in two named arenas, no room in an arena.
    /// [`Select::wait`] gives errors instead.
    #[track_caller]
    #[inline]
    pub fn select(&mut self) -> SelectedOperation<'a> {
        self.check_thread();
        match glance(operations(&self.arms), self.biased, false) {
            Ok((at, taken)) => SelectedOperation::new(self.numbers[at], self.arms[at], Some(taken)),
            Err(order) => {
                assert!(!self.arms.is_empty(), "no operations have been added to `Select`");
                self.chosen(Until::Forever, order).expect("it waits")
            }
        }
    }

    /// Takes hold of an arm that is ready.
    ///
    /// # Errors
    /// If none is.
    ///
    /// # Panics
    /// As [`Select::select`], but for the first.
    #[track_caller]
    #[inline]
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        self.glanced(Until::Now).ok_or(TrySelectError)
    }

    crate::timed::timed! {
        /// As [`Select::select`], waiting at most for `timeout`.
        ///
        /// # Errors
        /// If none was ready.
        ///
        /// # Panics
        /// As [`Select::try_select`].
        ; #[track_caller]
        pub fn select_timeout, select_deadline(&mut self) -> Result<SelectedOperation<'a>, SelectTimeoutError> { |until|
            self.glanced(until()).ok_or(SelectTimeoutError)
        }
    }

    /// Waits until an arm is ready; answers its number. Nothing is taken: another thread may take it first.
    ///
    /// # Panics
    /// As [`Select::select`].
    #[track_caller]
    pub fn ready(&mut self) -> usize {
        assert!(!self.arms.is_empty(), "no operations have been added to `Select`");
        self.looked(Until::Forever).expect("it waits")
    }

    /// The number of an arm that is ready.
    ///
    /// # Errors
    /// If none is.
    ///
    /// # Panics
    /// As [`Select::try_select`].
    #[track_caller]
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        self.looked(Until::Now).ok_or(TryReadyError)
    }

    crate::timed::timed! {
        /// As [`Select::ready`], waiting at most for `timeout`.
        ///
        /// # Errors
        /// If none was ready.
        ///
        /// # Panics
        /// As [`Select::try_select`].
        ; #[track_caller]
        pub fn ready_timeout, ready_deadline(&mut self) -> Result<usize, ReadyTimeoutError> { |until|
            self.looked(until()).ok_or(ReadyTimeoutError)
        }
    }

    /// As [`Select::select`]; failures are errors instead of panics.
    ///
    /// # Errors
    /// `Dead` if an arm's object is or gets removed; `Interrupted` inside of [`interruptible`](crate::interruptible); `TwoArenas`,
    /// `Nothing`, `Arena`, `System`.
    pub fn wait(&self) -> Result<SelectedOperation<'a>, SelectError> {
        self.take(Until::Forever)
    }

    /// As [`Select::try_select`]; failures are errors instead of panics.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`Select::wait`].
    pub fn try_wait(&self) -> Result<SelectedOperation<'a>, SelectError> {
        self.take(Until::Now)
    }

    crate::timed::timed! {
        /// As [`Select::select_timeout`]; failures are errors instead of panics.
        ///
        /// # Errors
        /// `Timeout`; else as [`Select::wait`].
        pub fn wait_timeout, wait_deadline(&self) -> Result<SelectedOperation<'a>, SelectError> { |until|
            self.take(until())
        }
    }

    #[inline]
    fn check_thread(&self) {
        if let Some(thread) = self.only {
            assert!(
                Only::here() == thread,
                "a choice with a SingleSender, a SingleReceiver or a turn is made by the thread that added it"
            );
        }
    }

    fn take(&self, until: Until) -> Result<SelectedOperation<'a>, SelectError> {
        self.check_thread();
        match choose(operations(&self.arms), How { until, biased: self.biased, aim: Mode::Take }) {
            Ok((at, taken)) => Ok(SelectedOperation::new(self.numbers[at], self.arms[at], Some(taken))),
            Err(SelectError::Dead { arm, name }) => Err(SelectError::Dead { arm: self.numbers[arm], name }),
            Err(e) => Err(e),
        }
    }

    #[track_caller]
    #[inline]
    fn glanced(&self, until: Until) -> Option<SelectedOperation<'a>> {
        self.check_thread();
        match glance(operations(&self.arms), self.biased, false) {
            Ok((at, taken)) => Some(SelectedOperation::new(self.numbers[at], self.arms[at], Some(taken))),
            Err(order) => self.chosen(until, order),
        }
    }

    #[track_caller]
    #[inline(never)]
    fn chosen(&self, until: Until, order: Order) -> Option<SelectedOperation<'a>> {
        let (at, taken) = chosen(&self.arms, How { until, biased: self.biased, aim: Mode::Take }, order)?;
        Some(SelectedOperation::new(self.numbers[at], self.arms[at], taken))
    }

    #[track_caller]
    fn looked(&self, until: Until) -> Option<usize> {
        self.check_thread();
        let how = How { until, biased: self.biased, aim: Mode::Look };
        match uninterrupted(|| choose(operations(&self.arms), how)) {
            Ok((at, _)) => Some(self.numbers[at]),
            // An arm whose object is dead is ready: its operation returns the error.
            Err(SelectError::Dead { arm, .. }) => Some(self.numbers[arm]),
            Err(SelectError::WouldBlock | SelectError::Timeout) => None,
            Err(SelectError::Interrupted) => ended(),
            Err(e) => panic!("select: {e}"),
        }
    }
}

/// The result of a choice that is made once, after a glance: which arm, and what was taken; for a dead arm `None`.
#[track_caller]
#[inline(always)]
pub(crate) fn chosen(arms: &[Armed<'_>], how: How, order: Order) -> Option<(usize, Option<Taken>)> {
    #[cfg(not(feature = "sim"))]
    if matches!((how.until, how.aim), (Until::Forever, Mode::Take))
        && order.peek().is_none()
        && light::current().is_some()
    {
        return match straight(operations(arms), how.biased) {
            Straight::Found(at, taken) => Some((at, Some(taken))),
            Straight::Goes { front } => chosen_at_length(arms, how, Order::new(arms.len(), how.biased), front),
        };
    }
    chosen_at_length(arms, how, order, false)
}

#[track_caller]
#[inline(never)]
fn chosen_at_length(arms: &[Armed<'_>], how: How, order: Order, front: bool) -> Option<(usize, Option<Taken>)> {
    match uninterrupted(|| rest(operations(arms), how, order, front)) {
        Ok((at, taken)) => Some((at, Some(taken))),
        Err(SelectError::Dead { arm, .. }) => Some((arm, None)),
        Err(SelectError::WouldBlock | SelectError::Timeout) => None,
        Err(SelectError::Interrupted) => ended(),
        Err(e) => panic!("select: {e}"),
    }
}

/// The choice was interrupted though it is uninterruptible: the calling light thread is to end.
#[cold]
fn ended<T>() -> Option<T> {
    chappe_plat::light::come_by();
    unreachable!("a choice was interrupted, and not because its thread is to end")
}

/// The result of a choice: an operation that is yet to be completed.
///
/// An operation on a tube must be completed, with the same end that was added. A permit that is not asked for is given back. A wake-up is
/// consumed already.
///
/// # Panics
/// If it is dropped without having completed an operation on a tube.
#[must_use = "what was chosen is taken: it is to be completed"]
pub struct SelectedOperation<'a> {
    index: usize,
    arm: Armed<'a>,
    /// `None` within: the arm's object is dead.
    taken: Option<Option<Taken>>,
    here: PhantomData<*const ()>,
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SelectedOperation { .. }")
    }
}

impl<'a> SelectedOperation<'a> {
    #[inline(always)]
    pub(crate) fn new(index: usize, arm: Armed<'a>, taken: Option<Taken>) -> SelectedOperation<'a> {
        SelectedOperation { index, arm, taken: Some(taken), here: PhantomData }
    }

    /// The number of the arm.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// What was taken, which is completed now; `None`: its object is dead.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn complete(mut self, arm: Armed<'_>, what: &str) -> Option<Taken> {
        assert!(arm.address() == self.arm.address(), "passed a {what} that wasn't selected");
        self.taken.take().flatten()
    }

    /// Sends the message.
    ///
    /// # Errors
    /// The message, if there is no receiver any more.
    ///
    /// # Panics
    /// If it is another sender than the arm's.
    #[track_caller]
    #[inline]
    pub fn send<S: SendingEnd>(self, sender: &S, message: S::Message) -> Result<(), SendError<S::Message>> {
        self.send_on(sender, message)
    }

    /// Receives the message.
    ///
    /// # Errors
    /// If there is none, and no sender any more.
    ///
    /// # Panics
    /// If it is another receiver than the arm's.
    #[track_caller]
    #[inline]
    pub fn recv<R: ReceivingEnd>(self, receiver: &R) -> Result<R::Message, RecvError> {
        self.recv_on(receiver)
    }

    /// As [`SelectedOperation::send`], by an end of any kind.
    ///
    /// # Errors
    /// As [`SelectedOperation::send`].
    ///
    /// # Panics
    /// As [`SelectedOperation::send`].
    #[track_caller]
    #[inline]
    pub fn send_on<S: SendingEnd>(self, sender: &S, message: S::Message) -> Result<(), SendError<S::Message>> {
        sender.__finish(Took(self.complete(sender.__arm(), "sender")), message)
    }

    /// As [`SelectedOperation::recv`], by an end of any kind.
    ///
    /// # Errors
    /// As [`SelectedOperation::recv`].
    ///
    /// # Panics
    /// As [`SelectedOperation::recv`].
    #[track_caller]
    #[inline]
    pub fn recv_on<R: ReceivingEnd>(self, receiver: &R) -> Result<R::Message, RecvError> {
        receiver.__finish(Took(self.complete(receiver.__arm(), "receiver")))
    }

    /// As [`SelectedOperation::recv_on`], from a named tube; also answers whether the message is redelivered: a receiver that had it before has died.
    ///
    /// # Errors
    /// As [`SelectedOperation::recv`].
    ///
    /// # Panics
    /// As [`SelectedOperation::recv`].
    #[track_caller]
    pub fn recv_redelivered<T: Record + ?Sized>(
        self,
        from: &named::Receiver<T>,
    ) -> Result<(T::Owned, bool), RecvError> {
        self.complete(Armed(&from.into), "receiver").and_then(|taken| from.finish(taken)).ok_or(RecvError)
    }

    /// Borrows the message of a named tube, to look at it in place.
    ///
    /// # Errors
    /// As [`SelectedOperation::recv`].
    ///
    /// # Panics
    /// As [`SelectedOperation::recv`].
    #[track_caller]
    pub fn borrow<'r, T: Record + ?Sized>(self, from: &'r named::Receiver<T>) -> Result<named::Loan<'r, T>, RecvError> {
        self.complete(Armed(&from.into), "receiver").and_then(|taken| from.lend(taken)).ok_or(RecvError)
    }

    /// The permit that was taken.
    ///
    /// # Errors
    /// `Dead` if the pool was removed.
    ///
    /// # Panics
    /// If it is another pool than the arm's.
    #[track_caller]
    pub fn permit(self, pool: &'a Pool) -> Result<Permit<'a>, AcquireError> {
        let took = Took(self.complete(Armed(pool), "pool"));
        permit_of(pool, took)
    }

    /// The descriptor is ready: it can be read, or written, or is at its end or has an error, which the next call on it will return.
    ///
    /// # Errors
    /// The system's, where it could not say.
    pub fn descriptor(self) -> io::Result<()> {
        let arm = self.arm;
        descriptor_of(Took(self.complete(arm, "descriptor")))
    }

    /// The turn of the arrival's round.
    ///
    /// # Errors
    /// As [`Barrier::wait`](crate::Barrier::wait).
    ///
    /// # Panics
    /// If it is another arrival than the arm's.
    #[track_caller]
    pub fn turn(self, arrival: &Arrival<'_>) -> Result<Turn, BarrierError> {
        self.complete(Armed(arrival.arm()), "arrival");
        arrival.conclude()
    }

    /// The wake-up that was consumed.
    ///
    /// # Errors
    /// `Dead` if the semaphore was removed.
    ///
    /// # Panics
    /// If it is another semaphore than the arm's.
    #[track_caller]
    pub fn down(self, semaphore: &Semaphore) -> Result<(), DownError> {
        let took = Took(self.complete(Armed(semaphore), "semaphore"));
        down_of(semaphore, took)
    }
}

impl Drop for SelectedOperation<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            forgo(self.arm, taken);
        }
    }
}

#[cold]
fn forgo(arm: Armed<'_>, taken: Option<Taken>) {
    assert!(!arm.0.site().nature.is_tube(), "dropped `SelectedOperation` without completing the operation");
    if let Some(taken) = taken {
        arm.0.give_back(taken);
    }
}
