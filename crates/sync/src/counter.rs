//! Counters: numbers that threads or processes add to.
//!
//! nonblocking-real-time, 2.1 and 3.2: a counter is global state that a compare-and-swap alone maintains. A named counter is a word of an arena's blocks.
//!
//! Progress: adding and looking are wait-free: one instruction, after two looks at whether the object is in service. An operation that depends on the
//! value (`add_within`, `update`) is lock-free: it begins again if another thread has changed the value. Deaths: an addition happened, or not;
//! nothing has to be recovered.
//!
//! Memory order: every change is SeqCst, a look acquires: a thread that has seen the sum sees what was written before the addition.

use chappe_plat::atomic::AtomicU64;
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;
use chappe_wait::body::Body;
use std::mem::{align_of, size_of};

/// The number in a body.
pub(crate) fn in_body<'m>(body: &Body<'m>) -> Option<&'m AtomicU64> {
    let fits = body.room >= size_of::<AtomicU64>() && body.at.addr().get().is_multiple_of(align_of::<AtomicU64>());
    // SAFETY: within the body, and aligned; it is touched as an atomic word only.
    fits.then(|| unsafe { body.at.cast::<AtomicU64>().as_ref() })
}

/// Of which size it is, and what is in it: see [`Figures`](crate::bodied::Figures).
#[cfg(not(feature = "sim"))]
pub(crate) fn figures(body: &Body<'static>) -> Option<(i64, u32, u32)> {
    Some((in_body(body)?.load(Ordering::Relaxed) as i64, 0, 8)) // Relaxed: for show.
}

#[cfg(not(feature = "sim"))]
pub use made::Counter;

#[cfg(not(feature = "sim"))]
mod made {
    use super::in_body;
    use crate::bodied::{Bodied, Plan, SharedError, unmake};
    use chappe_arena::layout::Kind;
    use chappe_plat::atomic::{AtomicU64, Ordering};
    use chappe_structures::tries::{self, Loop};
    use chappe_wait::attachment::Within;
    use chappe_wait::body::Form;
    use std::ops::RangeInclusive;
    use std::sync::Arc;

    #[derive(Clone)]
    enum Of {
        Private(Arc<AtomicU64>),
        Named(Bodied, &'static AtomicU64),
    }

    /// A number that threads (private) or processes (named) add to. It outlives all of them: a death takes nothing back.
    ///
    /// Adding and looking never wait, and are wait-free; [`Counter::update`] and [`Counter::add_within`] are lock-free. No system calls, except at a
    /// thread's first change of a named counter, which registers the thread. 64 bits with a sign; an overflow wraps.
    ///
    /// Signals: a handler may call everything but a thread's first change of a named counter. In a forked child, a private counter is a copy; a
    /// named counter stays shared.
    ///
    /// Paper: nonblocking-real-time, 3.2. For threads that count often on many processors, [`ras`](https://docs.rs/chappe) has counters per processor.
    ///
    /// ```
    /// use chappe_sync::Counter;
    /// let jobs = Counter::private(0);
    /// assert_eq!(jobs.add(2)?, 0);
    /// assert_eq!(jobs.add_within(1, 0..=2)?, None); // 3 would be too many
    /// assert_eq!(jobs.get()?, 2);
    /// # Ok::<(), chappe_sync::SharedError>(())
    /// ```
    #[derive(Clone)]
    pub struct Counter {
        of: Of,
    }

    impl std::fmt::Debug for Counter {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "Counter({:?})", self.name())
        }
    }

    impl Counter {
        /// Makes a counter for the threads of this process.
        pub fn private(value: i64) -> Counter {
            Counter { of: Of::Private(Arc::new(AtomicU64::new(value as u64))) }
        }

        fn at(named: Bodied) -> Result<Counter, SharedError> {
            let word = in_body(&named.body).ok_or_else(|| named.gone())?;
            Ok(Counter { of: Of::Named(named, word) })
        }

        /// Attaches a counter by name.
        ///
        /// # Errors
        /// `Object`: there is none, or it is something else.
        pub fn open(name: &str) -> Result<Counter, SharedError> {
            Counter::at(Bodied::open(Kind::Counter, name)?)
        }

        fn made(name: &str, value: i64, or_open: bool) -> Result<Counter, SharedError> {
            let fill = |at: std::ptr::NonNull<u8>, _| {
                // SAFETY: eight bytes, of which no other thread knows yet.
                unsafe { at.cast::<u64>().write(value as u64) };
            };
            let plan = Plan { kind: Kind::Counter, of: &|_| (64, Form::default()), fill: &fill };
            Counter::at(Bodied::make(&plan, name, or_open)?)
        }

        /// Makes a counter by name that begins with this value, and its arena if need be.
        ///
        /// # Errors
        /// `Object`: there is one already, or the arena has no room.
        pub fn create(name: &str, value: i64) -> Result<Counter, SharedError> {
            Counter::made(name, value, false)
        }

        /// Attaches a counter by name, whatever its value; or makes it.
        ///
        /// # Errors
        /// As [`Counter::open`] and [`Counter::create`].
        pub fn open_or_create(name: &str, value: i64) -> Result<Counter, SharedError> {
            Counter::made(name, value, true)
        }

        /// Removes a counter by name. If another process has changed it, and may again, the removal is refused unless `force`: then its users get `Dead`.
        ///
        /// # Errors
        /// `Object`: there is none, it is in use, or something else.
        pub fn unmake(name: &str, force: bool) -> Result<(), SharedError> {
            unmake(Kind::Counter, name, force, super::figures, |_| None)
        }

        /// Its name; empty for a private one.
        pub fn name(&self) -> String {
            match &self.of {
                Of::Private(_) => String::new(),
                Of::Named(named, _) => named.handle.name(),
            }
        }

        /// The word, which the caller may change.
        #[inline(always)]
        fn to_change(&self) -> Result<&AtomicU64, SharedError> {
            match &self.of {
                Of::Private(word) => Ok(word),
                Of::Named(named, word) => named.me().map(|_| *word),
            }
        }

        /// Its value.
        ///
        /// # Errors
        /// `Dead`.
        #[inline]
        pub fn get(&self) -> Result<i64, SharedError> {
            match &self.of {
                // Acquire, both: what was written before an addition is seen with the sum.
                Of::Private(word) => Ok(word.load(Ordering::Acquire) as i64),
                Of::Named(named, word) => named.seen(word.load(Ordering::Acquire) as i64),
            }
        }

        /// Adds; a negative number subtracts. Answers the value before. Wait-free.
        ///
        /// # Errors
        /// `Dead`, `Object`.
        #[inline]
        pub fn add(&self, n: i64) -> Result<i64, SharedError> {
            // SeqCst: as the head says.
            Ok(self.to_change()?.fetch_add(n as u64, Ordering::SeqCst) as i64)
        }

        /// Adds, if the sum is within these limits. Answers the value before; `None`: nothing was added.
        ///
        /// # Errors
        /// `Dead`, `Object`.
        pub fn add_within(&self, n: i64, limits: RangeInclusive<i64>) -> Result<Option<i64>, SharedError> {
            self.update(|now| now.checked_add(n).filter(|sum| limits.contains(sum)))
        }

        /// Changes the value by a function, which is called again each time that another thread has changed it first; `None`: it stays. Answers the
        /// value before, if it was changed. Lock-free.
        ///
        /// # Errors
        /// `Dead`, `Object`.
        pub fn update(&self, mut function: impl FnMut(i64) -> Option<i64>) -> Result<Option<i64>, SharedError> {
            let word = self.to_change()?;
            let _within = matches!(self.of, Of::Named(..)).then(Within::begin);
            // Acquire: the function may depend on what was written before.
            let mut seen = word.load(Ordering::Acquire);
            let mut tries = 0;
            loop {
                let Some(next) = function(seen as i64) else { return Ok(None) };
                // SeqCst, and Acquire for a failure: as the head says.
                match word.compare_exchange(seen, next as u64, Ordering::SeqCst, Ordering::Acquire) {
                    Ok(_) => return Ok(Some(seen as i64)),
                    Err(now) => seen = now,
                }
                tries += 1;
                tries::retried(Loop::Counter, tries);
            }
        }

        /// Whether it was removed.
        pub fn is_dead(&self) -> bool {
            matches!(&self.of, Of::Named(named, _) if named.handle.is_dead())
        }
    }
}
