//! Monitors: data that one thread at a time may use, and named conditions that it waits for there.
//!
//! nonblocking-real-time, figure 2: a helping lock, and a semaphore that begins at 0 for each condition; to wait is to unlock, to go down, and to lock again. Signals are
//! Mesa's: who was woken looks at its condition again. Who enters next is the one of the highest priority, by the lock.
//!
//! Deviation: the paper's semaphore keeps a signal that nobody waits for. Here waiters are counted under the lock, and such a signal does nothing, as a
//! condition variable's.
//!
//! - I1: `waiting` is how many have announced a wait and were not yet signalled. It changes under the lock only: so a signal between a waiter's announcement and its sleep
//!   is kept by the semaphore.
//! - I2: who gives up takes itself off the count, or, if a signal was meant for it by then, takes the signal: none is left over.
//!
//! Blocking. Deaths: as the lock's. The semaphores are explored in `tests/crash_semaphore.rs`; the lock is the C library's and the kernel's.

use crate::error::{DownError, ObjectError};
use crate::helplock::{HelpError, Inherited};
use crate::inside;
use crate::semaphore::Semaphore;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Why a monitor was not made, entered or waited in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The lock: [`HelpError::OwnerDied`] if a thread died or panicked inside: see [`Monitor::enter_torn`].
    #[error(transparent)]
    Lock(#[from] HelpError),
    /// No such condition.
    #[error("monitor `{monitor}` has no condition `{condition}`; it has {there}")]
    Condition {
        /// Which monitor.
        monitor: Arc<str>,
        /// What was asked for.
        condition: String,
        /// Those that it has.
        there: String,
    },
    /// The thread is inside of another section, which would stay locked.
    #[error("a wait in monitor `{inner}` would keep `{outer}` locked, in which this thread is: leave that first")]
    Nested {
        /// Where it waits.
        inner: Arc<str>,
        /// What stays locked.
        outer: Arc<str>,
    },
    /// The private arena has no room for its conditions.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The wait failed. The thread is out of the monitor.
    #[error(transparent)]
    Wait(#[from] DownError),
}

struct Condition {
    name: Box<str>,
    /// I1. Only under the lock.
    waiting: Cell<u32>,
    semaphore: Semaphore,
}

/// Data that one thread of this process at a time may use, with named conditions to wait for there.
///
/// Entering blocks while another is inside; that one runs at the highest priority of those who wait, and the highest is next. Waiters for a
/// condition are signalled in the order of arrival. A signalled waiter looks at its condition again (Mesa). A wait inside of another
/// monitor is refused, with both names; one inside of a section of a [`HelpLock`](crate::HelpLock) is by builds with debug assertions.
///
/// A thread that panics or ends inside: who comes next gets `OwnerDied`, until [`Monitor::enter_torn`] and [`Inside::make_consistent`].
/// Signals: a handler must not enter. In a forked child it is a copy.
///
/// Paper: nonblocking-real-time, 3.3, figures 1 and 2.
///
/// ```
/// use chappe_sync::Monitor;
/// let jobs = Monitor::private("jobs", Vec::new(), &["not empty"])?;
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         let mut inside = jobs.enter().unwrap();
///         inside.push(7);
///         inside.signal("not empty").unwrap();
///     });
///     let mut inside = jobs.enter().unwrap();
///     while inside.is_empty() {
///         inside = inside.wait("not empty").unwrap();
///     }
///     assert_eq!(inside.pop(), Some(7));
/// });
/// # Ok::<(), chappe_sync::MonitorError>(())
/// ```
pub struct Monitor<T> {
    name: Arc<str>,
    of: Box<Inherited<T>>,
    conditions: Box<[Condition]>,
}

// SAFETY: the data and the counts are reached by who is inside alone.
unsafe impl<T: Send> Sync for Monitor<T> {}

impl<T> std::fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Monitor({:?})", self.name)
    }
}

impl<T> Monitor<T> {
    /// Makes one for the threads of this process, with these conditions.
    ///
    /// # Errors
    /// `Lock`: this kernel has no such locks; `Object`.
    pub fn private(name: &str, value: T, conditions: &[&str]) -> Result<Monitor<T>, MonitorError> {
        let of = Inherited::new(value).map_err(HelpError::System)?;
        let condition = |name: &&str| {
            Ok(Condition { name: (*name).into(), waiting: Cell::new(0), semaphore: Semaphore::private(0)? })
        };
        let conditions = conditions.iter().map(condition).collect::<Result<_, ObjectError>>()?;
        Ok(Monitor { name: name.into(), of, conditions })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&*self.of).addr()
    }

    #[track_caller]
    fn entered(&self, torn: bool) -> Result<Inside<'_, T>, MonitorError> {
        let whole = self.of.lock(&self.name, true)?;
        if !whole && !torn {
            self.of.unlock();
            return Err(HelpError::OwnerDied { name: self.name.clone(), guard: () }.into());
        }
        inside::begin(self.address(), &self.name, Location::caller());
        Ok(Inside { monitor: self, thread: PhantomData })
    }

    /// Goes inside; waits until nobody else is.
    ///
    /// # Errors
    /// `Lock`.
    #[track_caller]
    pub fn enter(&self) -> Result<Inside<'_, T>, MonitorError> {
        self.entered(false)
    }

    /// The same, also after somebody died inside: the data is as it was left.
    ///
    /// # Errors
    /// `Lock`, but for `OwnerDied`.
    #[track_caller]
    pub fn enter_torn(&self) -> Result<Inside<'_, T>, MonitorError> {
        self.entered(true)
    }

    fn condition(&self, name: &str) -> Result<&Condition, MonitorError> {
        self.conditions.iter().find(|c| *c.name == *name).ok_or_else(|| {
            let there: Vec<String> = self.conditions.iter().map(|c| format!("`{}`", c.name)).collect();
            MonitorError::Condition { monitor: self.name.clone(), condition: name.into(), there: there.join(", ") }
        })
    }

    fn leave(&self) {
        inside::end(self.address());
        self.of.unlock();
    }
}

/// The right to be inside of a [`Monitor`], until it is dropped.
pub struct Inside<'a, T> {
    monitor: &'a Monitor<T>,
    /// It belongs to its thread.
    thread: PhantomData<*mut T>,
}

impl<T> std::fmt::Debug for Inside<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inside({:?})", self.monitor.name)
    }
}

impl<'a, T> Inside<'a, T> {
    /// Leaves, waits for a signal of the condition, and enters again. Look at what you wait for afterwards: another may have been first.
    ///
    /// # Errors
    /// `Condition`, `Nested`: nothing happened but that the thread has left; `Lock`, `Wait`.
    #[track_caller]
    pub fn wait(self, condition: &str) -> Result<Inside<'a, T>, MonitorError> {
        self.wait_for(condition, None).map(|(inside, _)| inside)
    }

    /// The same, at most for so long. Answers also whether a signal came.
    ///
    /// # Errors
    /// As [`Inside::wait`].
    #[track_caller]
    pub fn wait_timeout(self, condition: &str, limit: Duration) -> Result<(Inside<'a, T>, bool), MonitorError> {
        self.wait_for(condition, Some(limit))
    }

    #[track_caller]
    fn wait_for(self, name: &str, limit: Option<Duration>) -> Result<(Inside<'a, T>, bool), MonitorError> {
        let monitor = self.monitor;
        let condition = monitor.condition(name)?;
        if let Some(outer) = inside::beside(monitor.address()) {
            return Err(MonitorError::Nested { inner: monitor.name.clone(), outer });
        }
        condition.waiting.set(condition.waiting.get() + 1);
        drop(self);
        let went = match limit {
            None => condition.semaphore.down(),
            Some(limit) => condition.semaphore.down_timeout(limit),
        };
        // Torn or not: the count is to be kept.
        let inside = monitor.entered(true)?;
        if let Err(e) = went {
            // I2.
            if condition.semaphore.try_down().is_ok() {
                return Ok((inside.if_whole()?, true));
            }
            condition.waiting.set(condition.waiting.get().saturating_sub(1));
            return match e {
                DownError::Timeout => Ok((inside.if_whole()?, false)),
                e => Err(e.into()),
            };
        }
        Ok((inside.if_whole()?, true))
    }

    fn if_whole(self) -> Result<Inside<'a, T>, MonitorError> {
        if self.monitor.of.is_whole() {
            return Ok(self);
        }
        Err(HelpError::OwnerDied { name: self.monitor.name.clone(), guard: () }.into())
    }

    /// Wakes who has waited for the condition longest, if anybody does. It enters when this thread has left.
    ///
    /// # Errors
    /// `Condition`.
    pub fn signal(&self, condition: &str) -> Result<(), MonitorError> {
        let condition = self.monitor.condition(condition)?;
        if let Some(left) = condition.waiting.get().checked_sub(1) {
            condition.waiting.set(left);
            // It is below its greatest value: no more than wait.
            let _ = condition.semaphore.up();
        }
        Ok(())
    }

    /// Wakes all who wait for the condition.
    ///
    /// # Errors
    /// `Condition`.
    pub fn broadcast(&self, condition: &str) -> Result<(), MonitorError> {
        let waiting = self.monitor.condition(condition)?.waiting.get();
        (0..waiting).try_for_each(|_| self.signal(condition))
    }

    /// The data is whole again, after somebody died inside.
    pub fn make_consistent(&self) {
        self.monitor.of.make_whole();
    }
}

impl<T> std::ops::Deref for Inside<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread is inside.
        unsafe { &*self.monitor.of.data() }
    }
}

impl<T> std::ops::DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread is inside, and there is one such guard.
        unsafe { &mut *self.monitor.of.data() }
    }
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        self.monitor.leave();
    }
}
