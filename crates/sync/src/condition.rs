//! Condition variables as users know them.

use crate::condvar::{self, Heard};
use crate::error::{LockError, ObjectError};
use crate::handle::Handle;
use crate::mutex::{LockResult, MutexGuard};
use crate::named::{Named, NamedKind};
use crate::registry::ArenaOptions;
use chappe_arena::layout::Kind;
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::process;
use chappe_wait::attachment::party;
use chappe_wait::attachment::{at_hand, attachment, watched};
use chappe_wait::interrupt::uninterrupted;
use chappe_wait::operation::Site;
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::{Parties, in_line};

/// Where threads wait for the data under a [`Mutex`](crate::Mutex) to change.
///
/// Works between the threads of a process (private) or between processes (named), with any mutex, of the same arena or
/// not. Waiters are woken in the order of arrival. As everywhere, look at the condition again after waking: a waiter may wake
/// without a cause. If a waiter dies before it has seen its notification, the next waiter gets it; a waiter that dies
/// later, while it waits for the mutex, has been woken.
///
/// ```
/// use chappe_sync::{Condvar, Mutex};
/// let (ready, changed) = (Mutex::private(false)?, Condvar::private()?);
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         *ready.lock().unwrap() = true;
///         changed.notify_one();
///     });
///     let mut seen = ready.lock().unwrap();
///     while !*seen {
///         seen = changed.wait(seen).unwrap();
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Condvar(pub(crate) Handle);

impl std::fmt::Debug for Condvar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Condvar({:?})", self.name())
    }
}

impl NamedKind for Condvar {
    const KIND: Kind = Kind::Condvar;
    type Error = ObjectError;
    type Plan<'a> = ();
    fn room((): &()) -> Result<ArenaOptions, ObjectError> {
        Ok(ArenaOptions::default())
    }
    fn lay_out((): &(), map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        condvar::make(map, admin, name)
    }
    fn attach(handle: Handle, _wanted: Option<&()>) -> Result<Condvar, ObjectError> {
        Ok(Condvar(handle))
    }
    fn in_use(handle: &Handle) -> Option<String> {
        let waiting = in_line(handle.map, handle.place).len();
        (waiting > 0).then(|| format!("{waiting} waiting"))
    }
}

impl Condvar {
    /// Makes a condition variable for the threads of this process.
    ///
    /// # Errors
    /// `Arena` when the private arena is full, or there is no address space for it.
    pub fn private() -> Result<Condvar, ObjectError> {
        Named::private(&())
    }

    /// Attaches a condition variable by name.
    ///
    /// # Errors
    /// `Unknown`, `OtherKind`, `Arena`.
    pub fn open(name: &str) -> Result<Condvar, ObjectError> {
        Named::open(name)
    }

    /// Makes a condition variable by name, and its arena if need be.
    ///
    /// # Errors
    /// `Exists`, `OtherKind`, `Arena`.
    pub fn create(name: &str) -> Result<Condvar, ObjectError> {
        Named::make(name, &(), false)
    }

    /// Attaches a condition variable by name, or makes it.
    ///
    /// # Errors
    /// `OtherKind`, `Arena`.
    pub fn open_or_create(name: &str) -> Result<Condvar, ObjectError> {
        Named::make(name, &(), true)
    }

    /// Removes a condition variable by name. If a thread waits on it, or has not yet woken up, the removal is refused unless `force`: then
    /// waiters get [`LockError::CondvarDead`].
    ///
    /// # Errors
    /// `Unknown`, `InUse`, `Arena`.
    pub fn remove(name: &str, force: bool) -> Result<(), ObjectError> {
        Named::<Condvar>::remove(name, force)
    }

    /// Its name; empty for a private one.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Unlocks the mutex, waits to be notified, and locks the mutex again. The first two steps are one: no notification is missed that comes
    /// from a thread that locks the mutex in between. Inside of [`interruptible`](crate::interruptible) an interrupted wait returns as if it
    /// had been notified; it may have been, so look at the condition.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock); `CondvarDead`, with the guard, if the condition variable is or gets removed.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<'a, T> {
        self.pass(guard, Until::Forever).0
    }

    crate::timed::timed! {
        /// As [`Condvar::wait`], but waits at most for `timeout`. Answers also whether the time was up.
        ///
        /// # Errors
        /// As [`Condvar::wait`].
        pub fn wait_timeout, wait_deadline<'a, T>(&self, guard: MutexGuard<'a, T>) -> (LockResult<'a, T>, bool) { |until|
            self.pass(guard, until())
        }
    }

    fn pass<'a, T>(&self, guard: MutexGuard<'a, T>, until: Until) -> (LockResult<'a, T>, bool) {
        let deadline = if let Until::Time(at) = until { Some(at) } else { None };
        let mutex = guard.mutex();
        let mut guard = Some(guard);
        let waited = attachment(self.0.map, |attachment| {
            watched(attachment).map_err(LockError::System)?;
            let who = Parties { main: party(attachment), private: None };
            let unlock = || drop(guard.take());
            Ok(condvar::wait(&who, &Site::of(self.0.map, self.0.place), deadline, &patience(attachment), unlock))
        });
        let heard = match waited {
            Ok(Ok(heard)) => heard,
            Ok(Err(e)) => return (Err(e), false),
            Err(e) => return (Err(LockError::Arena(e)), false),
        };
        // The mutex is locked when this returns, even if the wait was interrupted.
        let again = match chappe_plat::light::shielded(|| uninterrupted(|| mutex.lock())) {
            Ok(guard) if heard == Heard::Dead => Err(LockError::CondvarDead { condvar: self.name(), guard }),
            other => other,
        };
        (again, heard == Heard::TimedOut)
    }

    /// Wakes the waiter that came first, if there is one. Never waits.
    pub fn notify_one(&self) {
        self.as_member(|| {
            condvar::notify(self.0.map, self.0.place);
        });
    }

    /// Wakes all threads that wait now. Never waits.
    pub fn notify_all(&self) {
        self.as_member(|| condvar::notify_all(self.0.map, self.0.place));
    }

    /// Notifies as a member: only a member's death half-way is noticed. If no slot is left, such a death is not made up for.
    fn as_member(&self, act: impl FnOnce()) {
        if self.0.is_dead() {
            return;
        }
        let covered = self.0.map.is_covered(process::incarnation()) || at_hand(self.0.map, |_, _| Some(())).is_some();
        if !covered {
            let _ = attachment(self.0.map, |_| ());
        }
        act();
    }
}
