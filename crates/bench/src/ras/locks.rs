//! The locks of these tables, each around one number.

use crate::guarded::Guarded;
use crate::peers::{Flavour, PthreadMutex};
use crate::ras::plain::PlainLock;
use crate::raw::Scope;
use chappe::ras::lock::CpuLock;
use std::cell::UnsafeCell;

/// A lock and what it is called.
pub struct Named<L> {
    /// Its row.
    pub name: &'static str,
    /// It.
    pub lock: L,
}

/// A pool of one permit, and a number that its holder may change.
pub struct OnePermit {
    pool: chappe::Pool,
    number: UnsafeCell<u64>,
}

// SAFETY: the number is touched only by the holder of the permit, of which there is one.
unsafe impl Sync for OnePermit {}

impl Guarded for OnePermit {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        let permit = self.pool.acquire().expect("nobody takes it away");
        // SAFETY: we hold the permit.
        let answer = work(unsafe { &mut *self.number.get() });
        permit.release();
        answer
    }
}

impl Guarded for CpuLock<u64> {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        work(&mut self.lock())
    }
}

/// One of each.
pub struct Locks {
    /// The C library's, of no special kind: the baseline of most tables.
    pub pthread: Named<PthreadMutex>,
    /// Rust's.
    pub std: Named<std::sync::Mutex<u64>>,
    /// parking_lot's.
    pub parking: Named<parking_lot::Mutex<u64>>,
    /// The plain atomic one.
    pub plain: Named<PlainLock>,
    /// Ours, private: thread-biased where it pays.
    pub mutex: Named<chappe::Mutex<u64>>,
    /// A pool of one permit, private.
    pub pool: Named<OnePermit>,
    /// Ours, biased to a processor.
    pub cpu: Named<CpuLock<u64>>,
}

/// The row of the C library's mutex.
pub const PTHREAD: &str = "pthread mutex";
/// Rust's.
pub const STD: &str = "std::sync::Mutex";
/// parking_lot's.
pub const PARKING: &str = "parking_lot::Mutex";
/// The plain atomic lock.
pub const PLAIN: &str = "plain atomic lock";
/// Ours.
pub const MUTEX: &str = "mutex, private";
/// The pool.
pub const POOL: &str = "pool of one, private";
/// The one that is biased to a processor.
pub const CPU: &str = "CpuLock";

impl Locks {
    /// Fresh ones.
    ///
    /// # Panics
    /// When one cannot be made.
    #[expect(clippy::new_without_default, reason = "they take pages that are never given back")]
    pub fn new() -> Locks {
        let pool = chappe::Pool::private(1).expect("a pool");
        Locks {
            pthread: Named { name: PTHREAD, lock: PthreadMutex::new(Flavour::Normal, Scope::Private) },
            std: Named { name: STD, lock: std::sync::Mutex::new(0) },
            parking: Named { name: PARKING, lock: parking_lot::Mutex::new(0) },
            plain: Named { name: PLAIN, lock: PlainLock::default() },
            mutex: Named { name: MUTEX, lock: chappe::Mutex::private(0).expect("a mutex") },
            pool: Named { name: POOL, lock: OnePermit { pool, number: UnsafeCell::new(0) } },
            cpu: Named { name: CPU, lock: CpuLock::new(0) },
        }
    }
}

/// A list of what becomes of some of the locks, each of which is of another type: `of_each!(locks, [std, cpu], |name, lock| ...)`.
macro_rules! of_each {
    ($locks:expr, [$($field:ident),*], |$name:ident, $lock:ident| $make:expr) => {
        vec![$({
            let ($name, $lock) = ($locks.$field.name, &$locks.$field.lock);
            $make
        }),*]
    };
}
pub(crate) use of_each;
