//! The user-level semaphore: two words, and no system call unless a thread must block or be woken.
//!
//! plan9-semaphores, section 3, figure 1, with two changes: overflow is refused, and there is a non-blocking form,
//! which the paper lacks.
//!
//! | word | value | means |
//! |---|---|---|
//! | `u` | n, 0 or more | n may be taken |
//! | | -n | n threads wait, or are about to, on `k` |
//! | `k` | n, 0 or more | n of the waiters may go on |
//!
//! ```text
//!   acquire: u - 1 --was 1 or more--> taken          release: u + 1 --was 0 or more--> done
//!              |was 0 or less                                   |was below 0
//!              v                                                v
//!         semacquire(k) <. . . . . . . . . . . . . . . . . semrelease(k, 1)
//! ```
//!
//! Invariants:
//! - I1: each release that finds `u` below 0 owes `k` one; each acquire that takes `u` below 0 takes one of `k`. So
//!   `k`, and what is owed to it, is exactly what the acquirers on their way to it will take.
//! - I2: `try_acquire` takes by compare-and-swap from a positive value, or leaves no trace. Were it to subtract,
//!   look, and add again, a release between would find `u` below 0 and owe `k` one that no acquirer comes for, and the
//!   addition would give it out a second time.
//!
//! Ordering edges: E1 (release/acquire) from a release to the acquire that takes it, on `u`, whose every change is a
//! read-modify-write, or on `k`, E1 of the words.
//!
//! Progress: `release` never waits, may be called by a signal handler, and makes one system call if a thread waits,
//! else none. `try_acquire` is lock-free.
//!
//! Death returns nothing:
//!
//! | killed in | where | what is left |
//! |---|---|---|
//! | `acquire` | below 0, before it has taken of `k` | `u` is 1 too low for good: only waiters find one permit, on `k`; a pair may enter the kernel |
//! | | when it has taken | one permit less |
//! | `release` | between `u` and `k` | that permit is lost, and a waiter sleeps until a release finds `u` below 0 again; then another waiter may in its place |
//!
//! Explored: `tests/crash_plan9.rs`; left out: what the words' own head names.

use super::word::{Plan9Error, semacquire_uninterrupted, semrelease};
use chappe_plat::atomic::{AtomicI32, Ordering};
use chappe_plat::step;

/// A semaphore in two plain words, that enters the kernel only to wait and to wake: Plan 9's `Usem`.
///
/// It may lie in any memory that its users share. All bytes zero is a semaphore of value 0. A death returns nothing.
///
/// ```
/// # #[cfg(not(feature = "sim"))] {
/// use chappe_sync::plan9::Usem;
///
/// let ready = Usem::new(0);
/// std::thread::scope(|s| {
///     s.spawn(|| ready.release());
///     ready.acquire()
/// })?;
/// assert!(!ready.try_acquire());
/// # }
/// # Ok::<(), chappe_sync::plan9::Plan9Error>(())
/// ```
#[derive(Debug, Default)]
#[repr(C)]
pub struct Usem {
    u: AtomicI32,
    k: AtomicI32,
}

const _: () = assert!(size_of::<Usem>() == 8 && align_of::<Usem>() == 4);

impl Usem {
    /// A semaphore that can be acquired `value` times.
    ///
    /// # Panics
    /// When the value is negative.
    pub const fn new(value: i32) -> Usem {
        assert!(value >= 0, "a semaphore cannot begin below 0");
        Usem { u: AtomicI32::new(value), k: AtomicI32::new(0) }
    }

    /// Takes 1, waiting until it is there; no signal ends the wait.
    ///
    /// *Blocks* while nothing is there. *Fairness*: that of [`semacquire`](super::semacquire); [`Usem::try_acquire`]
    /// overtakes no waiter.
    ///
    /// # Errors
    /// [`Plan9Error::Negative`]: what lies here is no `Usem`, or was overwritten.
    #[doc(alias = "usemacquire")]
    pub fn acquire(&self) -> Result<(), Plan9Error> {
        usemacquire(&self.u, &self.k)
    }

    /// Takes 1 if it is there and not due to a waiter. Never enters the kernel.
    pub fn try_acquire(&self) -> bool {
        usemtry(&self.u)
    }

    /// Gives 1, and wakes a waiter for it. Never waits; a signal handler may call it.
    ///
    /// # Errors
    /// [`Plan9Error::Overflow`] beyond `i32::MAX`: nothing was given then. [`Plan9Error::Negative`]: what lies here
    /// is no `Usem`, or was overwritten.
    #[doc(alias = "usemrelease")]
    pub fn release(&self) -> Result<(), Plan9Error> {
        usemrelease(&self.u, &self.k)
    }
}

/// [`Usem::acquire`].
///
/// # Errors
/// As there.
pub fn usemacquire(u: &AtomicI32, k: &AtomicI32) -> Result<(), Plan9Error> {
    // Acquire: E1.
    if u.fetch_sub(1, Ordering::Acquire) > 0 {
        return Ok(());
    }
    semacquire_uninterrupted(k)
}

/// [`Usem::try_acquire`].
pub fn usemtry(u: &AtomicI32) -> bool {
    // Relaxed: a guess; the swap confirms it.
    let mut now = u.load(Ordering::Relaxed);
    while now > 0 {
        // Acquire: E1, I2. Relaxed on failure: another guess.
        match u.compare_exchange_weak(now, now - 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(seen) => now = seen,
        }
    }
    false
}

/// [`Usem::release`].
///
/// # Errors
/// As there.
pub fn usemrelease(u: &AtomicI32, k: &AtomicI32) -> Result<(), Plan9Error> {
    // Relaxed: a guess; the swap confirms it.
    let mut now = u.load(Ordering::Relaxed);
    loop {
        let Some(next) = now.checked_add(1) else {
            return Err(Plan9Error::Overflow { address: u.as_ptr() as usize, value: now, count: 1 });
        };
        // Release: E1. Relaxed on failure: another guess.
        match u.compare_exchange_weak(now, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(seen) => now = seen,
        }
    }
    if now < 0 {
        step!("given, and owed to a waiter");
        // I1.
        semrelease(k, 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_and_takes() {
        let s = Usem::new(2);
        s.acquire().unwrap();
        assert!(s.try_acquire());
        assert!(!s.try_acquire());
        s.release().unwrap();
        s.acquire().unwrap();
        assert_eq!((s.u.into_inner(), s.k.into_inner()), (0, 0));
    }

    #[test]
    fn zeroes_are_a_semaphore_of_nothing() {
        let s = Usem::default();
        assert!(!s.try_acquire());
        s.release().unwrap();
        assert!(s.try_acquire());
    }

    #[test]
    fn more_than_fits_is_refused() {
        let s = Usem::new(i32::MAX);
        let e = s.release().unwrap_err();
        assert!(matches!(e, Plan9Error::Overflow { value: i32::MAX, count: 1, .. }), "{e:?}");
        s.acquire().unwrap();
        s.release().unwrap();
        assert_eq!((s.u.into_inner(), s.k.into_inner()), (i32::MAX, 0));
    }

    #[test]
    fn a_word_that_is_no_semaphore_is_refused() {
        let s = Usem { u: AtomicI32::new(-1), k: AtomicI32::new(-7) };
        assert!(matches!(s.release(), Err(Plan9Error::Negative { value: -7, .. })));
        assert!(matches!(s.acquire(), Err(Plan9Error::Negative { value: -7, .. })));
        assert!(std::panic::catch_unwind(|| Usem::new(-1)).is_err());
    }
}
