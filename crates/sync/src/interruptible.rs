//! The function inside of which waits can be ended: see [`Interrupt`].

use crate::Interrupt;
use chappe_wait::interrupt::ended_by;

/// Runs a function in which each wait of this thread, light or not, can be ended by a handled signal, or by a thread that interrupts `by`.
///
/// A wait that ends so answers `Interrupted`: of semaphores ([`DownError`](crate::DownError)), of pools, for one permit or several
/// ([`AcquireError`](crate::AcquireError)), of mutexes ([`LockError`](crate::LockError)), of named tubes
/// ([`NotSent`](crate::tube::named::NotSent), [`NotReceived`](crate::tube::named::NotReceived)) and of choices
/// ([`SelectError`](crate::SelectError), by [`Select::wait`](crate::Select::wait) and its like). A condition variable's wait
/// returns as if it had been notified. Of waits at one end of a private tube,
/// [`Sender::send_interruptible`](crate::tube::Sender::send_interruptible) and
/// [`Receiver::recv_interruptible`](crate::tube::Receiver::recv_interruptible) end so. Their other waits go on, and so do those of `select!` and
/// [`Select::select`](crate::Select::select) and its like, since their errors are crossbeam's and have no such case.
///
/// ```
/// use chappe_sync::{AcquireError, Interrupt, Pool, interruptible};
/// let (pool, stop) = (Pool::private(1)?, Interrupt::new());
/// let taken = pool.acquire()?;
/// std::thread::scope(|s| {
///     let waiter = s.spawn(|| interruptible(&stop, || pool.acquire().map(drop)));
///     stop.interrupt();
///     assert!(matches!(waiter.join().unwrap(), Err(AcquireError::Interrupted)));
/// });
/// # drop(taken);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interruptible<R>(by: &Interrupt, act: impl FnOnce() -> R) -> R {
    ended_by(by, act)
}
