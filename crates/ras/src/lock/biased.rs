//! Locks together with the data that they protect, and the guards that unlock them.

use super::cpu::RawCpuLock;
use super::plain::RawPlainLock;
use super::raw::RawLock;
use crate::gate;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A lock for data that threads of one processor use most of the time: free there, 1 ns a pair.
///
/// It biases itself to a processor when it was locked from there a few hundred times in a row, and gives the bias up when it is locked from
/// another one. Otherwise, and where there are no sequences, it is a plain atomic lock. Where all processors use it alike it gains nothing,
/// and costs nothing either. [`Builder::bias`] and the environment variable `CHAPPE_BIAS=off` switch the bias off.
///
/// `lock` blocks while it is held: it spins for a microsecond or two, then sleeps. Not fair: a new locker may get the lock before a waiter
/// that was just woken. Not recursive: a thread that locks twice waits for itself. A handled signal does not end the wait. A panic while it
/// is held unlocks it, and leaves the data as it is: there is no poison.
///
/// A guard that is leaked (`mem::forget`) leaves the lock held for ever: later callers of `lock` wait for ever, and `try_lock` answers
/// none. No thread touches the data any more. The lock is not robust: it is for the threads of one process only, which die together. Never
/// put it in memory that processes share: the fence that takes a bias away reaches the sequences of one process only. In a forked child, a
/// lock that another thread of the parent held stays held. Not for the child of `vfork`.
///
/// Paper: netbsd-restartable-sequences, sections 2 and 5.
///
#[cfg_attr(not(feature = "sim"), doc = "```")]
#[cfg_attr(feature = "sim", doc = "```ignore")]
/// use chappe_ras::lock::CpuLock;
///
/// let sum = CpuLock::new(0);
/// std::thread::scope(|s| {
///     for n in 1..=4 {
///         let sum = &sum;
///         s.spawn(move || *sum.lock() += n);
///     }
/// });
/// assert_eq!(*sum.lock(), 10);
/// ```
pub struct CpuLock<T: ?Sized, R: RawLock = RawCpuLock> {
    raw: R,
    data: UnsafeCell<T>,
}

/// The same without any bias, ever: two locked operations a pair.
pub type PlainLock<T> = CpuLock<T, RawPlainLock>;

// SAFETY: `raw` lets one at a time to the data, which goes from thread to thread.
unsafe impl<T: ?Sized + Send, R: RawLock + Sync> Sync for CpuLock<T, R> {}
// SAFETY: as its parts.
unsafe impl<T: ?Sized + Send, R: RawLock + Send> Send for CpuLock<T, R> {}

/// How a lock is to be.
#[derive(Clone, Debug)]
pub struct Builder<T> {
    value: T,
    bias: bool,
}

impl<T> Builder<T> {
    /// Whether it may be biased; it is unless told, or unless the environment says `CHAPPE_BIAS=off`, which goes before.
    pub fn bias(mut self, bias: bool) -> Builder<T> {
        self.bias = bias;
        self
    }

    /// Makes it.
    pub fn build(self) -> CpuLock<T> {
        CpuLock::with_raw(RawCpuLock::new(self.bias && gate::biases()), self.value)
    }
}

impl<T> CpuLock<T> {
    /// A lock around a value.
    pub fn new(value: T) -> CpuLock<T> {
        CpuLock::builder(value).build()
    }

    /// As [`CpuLock::new`], to be told more.
    pub fn builder(value: T) -> Builder<T> {
        Builder { value, bias: true }
    }
}

impl<T> PlainLock<T> {
    /// A lock around a value that is never biased.
    pub const fn plain(value: T) -> PlainLock<T> {
        CpuLock::with_raw(RawPlainLock::new(), value)
    }
}

impl<T, R: RawLock> CpuLock<T, R> {
    /// Around a value, with a lock that is free.
    pub const fn with_raw(raw: R, value: T) -> CpuLock<T, R> {
        CpuLock { raw, data: UnsafeCell::new(value) }
    }

    /// What was inside.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized, R: RawLock> CpuLock<T, R> {
    /// Locks. Blocks while it is held.
    #[inline(always)]
    pub fn lock(&self) -> CpuLockGuard<'_, T, R> {
        self.raw.lock();
        CpuLockGuard { lock: self, here: PhantomData }
    }

    /// Locks if it is free. Never sleeps; to take a bias away it may make a system call.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<CpuLockGuard<'_, T, R>> {
        self.raw.try_lock().then(|| CpuLockGuard { lock: self, here: PhantomData })
    }

    /// The data, for a caller that has the lock alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    /// What is behind it.
    pub fn raw(&self) -> &R {
        &self.raw
    }
}

impl<T: ?Sized + fmt::Debug, R: RawLock> fmt::Debug for CpuLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(data) => f.debug_tuple("CpuLock").field(&&*data).finish(),
            None => f.write_str("CpuLock(held)"),
        }
    }
}

impl<T: Default> Default for CpuLock<T> {
    fn default() -> CpuLock<T> {
        CpuLock::new(T::default())
    }
}

/// The lock, held: unlocks when it is dropped. It stays in its thread, which may change its processor.
#[must_use = "the lock is held as long as this lives"]
pub struct CpuLockGuard<'a, T: ?Sized, R: RawLock = RawCpuLock> {
    lock: &'a CpuLock<T, R>,
    here: PhantomData<*const ()>,
}

// SAFETY: through a shared guard there is only the data, shared.
unsafe impl<T: ?Sized + Sync, R: RawLock + Sync> Sync for CpuLockGuard<'_, T, R> {}

impl<T: ?Sized, R: RawLock> Deref for CpuLockGuard<'_, T, R> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized, R: RawLock> DerefMut for CpuLockGuard<'_, T, R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, by this guard alone.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized, R: RawLock> Drop for CpuLockGuard<'_, T, R> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it was locked for this guard.
        unsafe { self.lock.raw.unlock() };
    }
}

impl<T: ?Sized + fmt::Debug, R: RawLock> fmt::Debug for CpuLockGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
