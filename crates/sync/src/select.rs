//! A choice as users make it: [`Select`](crate::Select), and what it came to.

mod ends;

pub use ends::{ReceivingEnd, SendingEnd};

use crate::choice::{How, choose, glance, rest};
#[cfg(not(feature = "sim"))]
use crate::choice::{Straight, straight};
use crate::claim::{Aim, Operation, Taken};
use crate::descriptor::descriptor;
use crate::error::{AcquireError, DownError, SelectError};
use crate::guard::Permit;
use crate::interrupt::uninterrupted;
use crate::macros::{Took, descriptor_of, down_of, permit_of};
use crate::order::Order;
use crate::patience::Until;
use crate::pool::Pool;
use crate::semaphore::Semaphore;
use crate::tube::named::{self, Record};
use crate::tube::{
    ReadyTimeoutError, Receiver, RecvError, SelectTimeoutError, SendError, Sender, TryReadyError, TrySelectError,
};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// One of the things a choice chooses among.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Armed<'a>(&'a dyn Operation);

#[inline(always)]
pub(crate) fn operations<'s, 'a>(arms: &'s [Armed<'a>]) -> &'s [&'a dyn Operation] {
    // SAFETY: an arm is nothing but its operation.
    unsafe { &*(std::ptr::from_ref(arms) as *const [&'a dyn Operation]) }
}

impl<'a> Armed<'a> {
    pub(crate) fn new(operation: &'a dyn Operation) -> Armed<'a> {
        Armed(operation)
    }
    pub(crate) fn readable<F: AsFd>(fd: &'a F) -> Armed<'a> {
        Armed(descriptor(fd.as_fd().as_raw_fd(), false))
    }

    pub(crate) fn writable<F: AsFd>(fd: &'a F) -> Armed<'a> {
        Armed(descriptor(fd.as_fd().as_raw_fd(), true))
    }

    fn address(self) -> *const () {
        std::ptr::from_ref(self.0).cast()
    }
}

/// A choice that is made many times: the arms are listed once, and making it allocates nothing.
///
/// An arm sends to a tube or receives from one, consumes a wake-up of a semaphore, takes a permit of a pool, or waits until a
/// descriptor can be read or written. Exactly one arm
/// happens; the others are as if they had not been there. In each object the choice waits in the order of arrival. Of several
/// arms that are ready each is as likely, unless it is made [`new_biased`](Select::new_biased). The same object may occur more
/// than once, both ends of a tube too (no thread meets itself), private and named ones may be mixed; objects of two different
/// named arenas may not. An end of a tube whose other end has gone is ready: its operation comes to that error.
///
/// Each arm that is ready has an equal chance, whatever its kind, also one of a clock or of an object that is there twice. That none
/// is ready, or was in time, a choice says only if there was a moment at which none was, however fast others hand a thing from
/// one arm to another: so it is for objects of all kinds, private and named. Of descriptors the kernel tells no more than that
/// each was not ready at a moment at which nothing else was. At a tube without slots somebody who is just coming to wait may not be
/// there yet, nor somebody who has been told to look whether it can meet one; of them a choice waits for nobody.
///
/// The choice, by [`select`](Select::select) and its kind, takes hold of what it chose; [`SelectedOperation`] completes it, with the
/// very same end of the tube. The `ready` kind only says which arm is ready: another thread may be faster.
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
    /// Whose it is, if an arm may be tried by one thread only.
    only: Option<ThreadId>,
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
    /// A choice of nothing yet; of several arms that are ready each will be as likely.
    pub fn new() -> Select<'a> {
        Select::default()
    }

    /// A choice of nothing yet; of several arms that are ready the one that was added first will be taken.
    pub fn new_biased() -> Select<'a> {
        Select { biased: true, ..Select::default() }
    }

    pub(crate) fn add(&mut self, arm: Armed<'a>) -> usize {
        self.arms.push(arm);
        self.numbers.push(self.next);
        self.next += 1;
        self.next - 1
    }

    /// What only one thread may try binds the choice to that.
    #[track_caller]
    fn add_single(&mut self, single: bool) {
        if single {
            self.check_thread();
            self.only = Some(std::thread::current().id());
        }
    }

    /// Adds an arm that sends to a tube; answers its number.
    pub fn send<T>(&mut self, sender: &'a Sender<T>) -> usize {
        self.send_on(sender)
    }

    /// Adds an arm that receives from a tube; answers its number.
    pub fn recv<T>(&mut self, receiver: &'a Receiver<T>) -> usize {
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
        match glance(operations(&self.arms), self.biased) {
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

    /// As [`Select::select`], waiting at most for `timeout`.
    ///
    /// # Errors
    /// If none was ready.
    ///
    /// # Panics
    /// As [`Select::try_select`].
    #[track_caller]
    pub fn select_timeout(&mut self, timeout: Duration) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.glanced(Until::after(timeout)).ok_or(SelectTimeoutError)
    }

    /// As [`Select::select`], waiting at most until `deadline`.
    ///
    /// # Errors
    /// If none was ready.
    ///
    /// # Panics
    /// As [`Select::try_select`].
    #[track_caller]
    pub fn select_deadline(&mut self, deadline: Instant) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.glanced(Until::at(deadline)).ok_or(SelectTimeoutError)
    }

    /// Waits until an arm is ready: its number. Nothing is taken, and who is faster may take it.
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

    /// As [`Select::ready`], waiting at most for `timeout`.
    ///
    /// # Errors
    /// If none was ready.
    ///
    /// # Panics
    /// As [`Select::try_select`].
    #[track_caller]
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.looked(Until::after(timeout)).ok_or(ReadyTimeoutError)
    }

    /// As [`Select::ready`], waiting at most until `deadline`.
    ///
    /// # Errors
    /// If none was ready.
    ///
    /// # Panics
    /// As [`Select::try_select`].
    #[track_caller]
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        self.looked(Until::at(deadline)).ok_or(ReadyTimeoutError)
    }

    /// As [`Select::select`]; what stands in the way is an error.
    ///
    /// # Errors
    /// `Dead` if an arm's object is or gets removed; `Interrupted` inside of [`interruptible`](crate::interruptible); `TwoArenas`,
    /// `Nothing`, `Arena`, `System`.
    pub fn wait(&self) -> Result<SelectedOperation<'a>, SelectError> {
        self.take(Until::Forever)
    }

    /// As [`Select::try_select`]; what stands in the way is an error.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`Select::wait`].
    pub fn try_wait(&self) -> Result<SelectedOperation<'a>, SelectError> {
        self.take(Until::Now)
    }

    /// As [`Select::select_timeout`]; what stands in the way is an error.
    ///
    /// # Errors
    /// `Timeout`; else as [`Select::wait`].
    pub fn wait_timeout(&self, duration: Duration) -> Result<SelectedOperation<'a>, SelectError> {
        self.take(Until::after(duration))
    }

    /// As [`Select::select_deadline`]; what stands in the way is an error.
    ///
    /// # Errors
    /// `Timeout`; else as [`Select::wait`].
    pub fn wait_deadline(&self, deadline: Instant) -> Result<SelectedOperation<'a>, SelectError> {
        self.take(Until::at(deadline))
    }

    #[inline]
    fn check_thread(&self) {
        if let Some(thread) = self.only {
            let here = std::thread::current().id();
            assert!(
                here == thread,
                "a choice with a SingleSender or SingleReceiver is made by the thread that added it"
            );
        }
    }

    fn take(&self, until: Until) -> Result<SelectedOperation<'a>, SelectError> {
        self.check_thread();
        match choose(operations(&self.arms), How { until, biased: self.biased, aim: Aim::Take }) {
            Ok((at, taken)) => Ok(SelectedOperation::new(self.numbers[at], self.arms[at], Some(taken))),
            Err(SelectError::Dead { arm, name }) => Err(SelectError::Dead { arm: self.numbers[arm], name }),
            Err(e) => Err(e),
        }
    }

    #[track_caller]
    #[inline]
    fn glanced(&self, until: Until) -> Option<SelectedOperation<'a>> {
        self.check_thread();
        match glance(operations(&self.arms), self.biased) {
            Ok((at, taken)) => Some(SelectedOperation::new(self.numbers[at], self.arms[at], Some(taken))),
            Err(order) => self.chosen(until, order),
        }
    }

    #[track_caller]
    #[inline(never)]
    fn chosen(&self, until: Until, order: Order) -> Option<SelectedOperation<'a>> {
        let (at, taken) = chosen(&self.arms, How { until, biased: self.biased, aim: Aim::Take }, order)?;
        Some(SelectedOperation::new(self.numbers[at], self.arms[at], taken))
    }

    #[track_caller]
    fn looked(&self, until: Until) -> Option<usize> {
        self.check_thread();
        let how = How { until, biased: self.biased, aim: Aim::Look };
        match uninterrupted(|| choose(operations(&self.arms), how)) {
            Ok((at, _)) => Some(self.numbers[at]),
            // What is dead is ready to say so.
            Err(SelectError::Dead { arm, .. }) => Some(self.numbers[arm]),
            Err(SelectError::WouldBlock | SelectError::Timeout) => None,
            Err(SelectError::Interrupted) => ended(),
            Err(e) => panic!("select: {e}"),
        }
    }
}

/// What a choice that is made once comes to after a glance: which arm, and what was taken; of a dead arm `None`.
#[track_caller]
#[inline(always)]
pub(crate) fn chosen(arms: &[Armed<'_>], how: How, order: Order) -> Option<(usize, Option<Taken>)> {
    #[cfg(not(feature = "sim"))]
    if matches!((how.until, how.aim), (Until::Forever, Aim::Take)) && order.peek().is_none() {
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

/// Nobody could interrupt it: the calling light thread is to end.
#[cold]
fn ended<T>() -> Option<T> {
    chappe_plat::light::come_by();
    unreachable!("a choice was interrupted, and not because its thread is to end")
}

/// What a choice came to: an operation that is yet to be completed.
///
/// One on a tube must be, with the same end that was added; a permit that is not asked for is given back; a wake-up is
/// consumed.
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
    pub fn send<T>(self, sender: &Sender<T>, message: T) -> Result<(), SendError<T>> {
        sender.__finish(Took(self.complete(sender.__arm(), "sender")), message)
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
    pub fn recv<T>(self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        receiver.__finish(Took(self.complete(receiver.__arm(), "receiver")))
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

    /// As [`SelectedOperation::recv_on`], from a named tube; and whether a receiver has died that had it before.
    ///
    /// # Errors
    /// As [`SelectedOperation::recv`].
    ///
    /// # Panics
    /// As [`SelectedOperation::recv`].
    #[track_caller]
    pub fn recv_marked<T: Record + ?Sized>(self, from: &named::Receiver<T>) -> Result<(T::Owned, bool), RecvError> {
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

    /// That the descriptor is ready: it can be read, or written, or has an end or an error to tell, which the next call on it will.
    ///
    /// # Errors
    /// The system's, where it could not say.
    pub fn descriptor(self) -> io::Result<()> {
        let arm = self.arm;
        descriptor_of(Took(self.complete(arm, "descriptor")))
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
    assert!(!arm.0.is_tube(), "dropped `SelectedOperation` without completing the operation");
    if let Some(taken) = taken {
        arm.0.forgo(taken);
    }
}
