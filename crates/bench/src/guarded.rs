//! Every lock of the tables behind one trait: ours, the C library's, and those of Rust programs.
//!
//! What is guarded is one number. A lock that has its data inside (Rust's) has it there; beside one of the C library
//! it lies in the same cache line, where a careful program would put it; a semaphore's lies in a line of its own.

use crate::peers::{InPage, Lock, PthreadMutex, Semaphore};
use crate::process::shared;

/// A number that one changes at a time.
pub trait Guarded: Sync {
    /// Changes it.
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R;
}

#[inline(always)]
fn section<R, T>(lock: &impl Lock, beside: &InPage<T>, work: impl FnOnce(&mut u64) -> R) -> R {
    lock.lock();
    // SAFETY: the number is touched only by the holder of the lock, of which there is one.
    let answer = work(unsafe { &mut *beside.number() });
    lock.unlock();
    answer
}

impl Guarded for PthreadMutex {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        section(self, self.place(), work)
    }
}

/// As a lock: its value is 1.
impl Guarded for Semaphore {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        section(self, self.place(), work)
    }
}

/// A lock that all zeroes make, with its number beside it, in memory that forked children share.
pub struct InPlace<L: 'static>(&'static InPage<L>);

impl<L: Lock> InPlace<L> {
    /// Makes one.
    ///
    /// # Safety
    /// All zeroes are a valid, unlocked L.
    pub unsafe fn zeroed() -> InPlace<L> {
        InPlace(shared::<InPage<L>>())
    }
}

impl<L: Lock> Lock for InPlace<L> {
    #[inline(always)]
    fn lock(&self) {
        // SAFETY: `zeroed` made it, and it is used through shared references only.
        unsafe { &*self.0.object() }.lock();
    }
    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: as above.
        unsafe { &*self.0.object() }.unlock();
    }
}

impl<L: Lock> Guarded for InPlace<L> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        section(self, self.0, work)
    }
}

/// Something of value 1 that is a lock, and has its number elsewhere.
pub struct Apart<L> {
    lock: L,
    number: &'static InPage<()>,
}

impl<L> Apart<L> {
    /// Around this lock.
    pub fn new(lock: L) -> Apart<L> {
        Apart { lock, number: shared::<InPage<()>>() }
    }
}

impl<L: Lock> Guarded for Apart<L> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        section(&self.lock, self.number, work)
    }
}

impl Guarded for parking_lot::Mutex<u64> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        work(&mut self.lock())
    }
}

impl Guarded for std::sync::Mutex<u64> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        work(&mut self.lock().expect("nobody panics here"))
    }
}

impl Guarded for chappe::Mutex<u64> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        work(&mut self.lock().expect("no holder dies here"))
    }
}

impl Lock for chappe::Semaphore {
    #[inline(always)]
    fn lock(&self) {
        self.down().expect("it is not removed");
    }
    #[inline(always)]
    fn unlock(&self) {
        self.up().expect("nobody raises it past its most");
    }
}

impl Lock for chappe::plan9::Lock {
    #[inline(always)]
    fn lock(&self) {
        self.lock();
    }
    #[inline(always)]
    fn unlock(&self) {
        self.unlock();
    }
}

impl Lock for chappe::plan9::Usem {
    #[inline(always)]
    fn lock(&self) {
        self.acquire().expect("it is a semaphore");
    }
    #[inline(always)]
    fn unlock(&self) {
        self.release().expect("nobody raises it past its most");
    }
}
