//! Monitors, the public API.
//!
//! nonblocking-real-time, figure 2: a helping lock, and for each condition a semaphore that starts at 0; to wait is to unlock, to go down, and to
//! lock again. Signals are Mesa's: a woken thread checks its condition again. The lock admits the waiter of the highest priority next.
//!
//! Deviation: the paper's semaphore keeps a signal for which there is no waiter. Here waiters are counted under the lock, and such a signal does
//! nothing, as with a condition variable.
//!
//! In a private monitor, a condition has a semaphore:
//! - I1: `waiting` is the number of threads that have announced a wait and were not yet signalled. It changes under the lock only. So
//!   the semaphore keeps a signal that comes between a waiter's announcement and its sleep.
//! - I2: a waiter that gives up takes itself off the count, or, if a signal was already meant for it, takes the signal: none is left over.
//!
//! In a named monitor, a waiter has a slot, which says which condition it waits for: see `room`.
//!
//! Blocking. Deaths: as with the lock; in a named one also as `room` says. The semaphores are explored in `tests/crash_semaphore.rs`, the room in
//! `tests/crash_monitor.rs`; the lock is the C library's and the kernel's.

use super::form::{figures, form_of, in_body, shape_of};
use crate::bodied::{Bodied, Plan, SharedError, fits, type_hash, type_name, unmake};
use crate::error::{DownError, ObjectError};
use crate::helplock::{Entry, HelpError, Inherited, this_process};
use crate::semaphore::Semaphore;
use bytemuck::Pod;
use chappe_arena::layout::Kind;
use chappe_plat::{clock, light, process};
use chappe_structures::room::{MOST_BYTES, MOST_CONDITIONS, Member, NAME, Room, Shape};
use chappe_wait::attachment::{attachment, enter_within, leave_within, watched};
use chappe_wait::body::Form;
use chappe_wait::inside;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Why a monitor was not made, entered or waited in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The lock failed: [`HelpError::OwnerDied`] if a thread died or panicked inside: see [`Monitor::enter_torn`].
    #[error(transparent)]
    Lock(#[from] HelpError),
    /// There is no such condition.
    #[error("monitor `{monitor}` has no condition `{condition}`; it has {there}")]
    Condition {
        /// The monitor.
        monitor: Arc<str>,
        /// The condition asked for.
        condition: String,
        /// The conditions that it has.
        there: String,
    },
    /// A condition cannot have this name.
    #[error("a condition of monitor `{monitor}` cannot be called {condition:?}: 1 to 32 bytes, each name once")]
    Name {
        /// The monitor.
        monitor: Arc<str>,
        /// The name.
        condition: String,
    },
    /// The thread is inside another section, which would stay locked.
    #[error("a wait in monitor `{inner}` would keep `{outer}` locked, in which this thread is: leave that first")]
    Nested {
        /// The monitor in which it would wait.
        inner: Arc<str>,
        /// The section that would stay locked.
        outer: Arc<str>,
    },
    /// The private arena has no room for the conditions.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A named monitor was not made or opened, or was removed.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The wait failed. The thread is outside the monitor.
    #[error(transparent)]
    Wait(#[from] DownError),
}

/// A condition of a private monitor.
struct Condition {
    name: Box<str>,
    /// I1. Accessed under the lock only.
    waiting: Cell<u32>,
    semaphore: Semaphore,
}

/// A named monitor.
struct Shared<T> {
    named: Bodied,
    room: Room<'static>,
    entry: NonNull<Entry>,
    data: NonNull<T>,
    conditions: Vec<Box<str>>,
}

enum How<T> {
    Private(Box<Inherited<T>>, Box<[Condition]>),
    Named(Shared<T>),
}

/// Data that one thread at a time may use, in this process (private) or in all that know the name, with named conditions to wait for there.
///
/// Entering blocks while another thread is inside; that thread runs at the highest priority of the waiters, and the waiter of the highest priority is
/// next. Waiters for a condition are signalled in the order of arrival. A signalled waiter checks its condition again (Mesa). A wait inside another
/// monitor is refused, with both names; one inside a section of a [`HelpLock`](crate::HelpLock) is refused in builds with debug assertions.
///
/// If a thread panics, ends or is killed inside, the next thread to enter gets `OwnerDied`, until [`Monitor::enter_torn`] and
/// [`Inside::make_consistent`]. All waiters in a named monitor are woken then, and get it too. A waiter that is killed after it was signalled and
/// before it is inside again passes the signal on to the next.
/// Signals: a handler must not enter. In a forked child a private monitor is a copy; in a named one the parent thread's guards are void in the child.
///
/// Sizes: a named monitor has up to 16 conditions and 1 MiB of plain data, and takes 16 bytes for each member of its arena.
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
    of: How<T>,
}

// SAFETY: the data and the counts are reached by the thread inside alone.
unsafe impl<T: Send> Sync for Monitor<T> {}
// SAFETY: as above; memory of an arena is never unmapped.
unsafe impl<T: Send> Send for Monitor<T> {}

impl<T> std::fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Monitor({:?})", self.name)
    }
}

impl<T> Monitor<T> {
    /// Makes a monitor for the threads of this process, with these conditions.
    ///
    /// # Errors
    /// `Lock`: this kernel lacks such locks; `Object`.
    pub fn private(name: &str, value: T, conditions: &[&str]) -> Result<Monitor<T>, MonitorError> {
        let of = Inherited::new(value).map_err(HelpError::System)?;
        let condition = |name: &&str| {
            Ok(Condition { name: (*name).into(), waiting: Cell::new(0), semaphore: Semaphore::private(0)? })
        };
        let conditions = conditions.iter().map(condition).collect::<Result<_, ObjectError>>()?;
        Ok(Monitor { name: name.into(), of: How::Private(of, conditions) })
    }

    fn entry(&self) -> &Entry {
        match &self.of {
            How::Private(of, _) => &of.entry,
            // SAFETY: in the body, which stays for as long as this member's bit is set: see `entered`.
            How::Named(of) => unsafe { of.entry.as_ref() },
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self.entry()).addr()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its conditions.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        let (private, named): (&[Condition], &[Box<str>]) = match &self.of {
            How::Private(_, all) => (all, &[]),
            How::Named(of) => (&[], &of.conditions),
        };
        private.iter().map(|c| &*c.name).chain(named.iter().map(|c| &**c))
    }

    #[track_caller]
    fn entered(&self, torn: bool) -> Result<Inside<'_, T>, MonitorError> {
        let (me, data, process) = match &self.of {
            How::Private(of, _) => (None, of.data(), 0),
            How::Named(of) => {
                let (index, generation) = of.named.me()?;
                (Some(Member { index, generation }), of.data.as_ptr(), this_process())
            }
        };
        let whole = self.entry().lock(&self.name, true)?;
        if let (How::Named(of), Some(me)) = (&self.of, me) {
            of.room.enter(me);
            if let Err(e) = of.named.seen(()) {
                self.give_back();
                return Err(e.into());
            }
        }
        if !whole && !torn {
            self.give_back();
            return Err(HelpError::OwnerDied { name: self.name.clone(), guard: () }.into());
        }
        inside::begin(self.address(), &self.name, Location::caller());
        if process != 0 {
            enter_within();
        }
        Ok(Inside { monitor: self, data, me, process, unwinding: std::thread::panicking(), thread: PhantomData })
    }

    /// Unlocks after nothing was done inside.
    fn give_back(&self) {
        if let How::Named(of) = &self.of {
            of.room.leave();
        }
        self.entry().give_back();
    }

    /// Enters; waits until no other thread is inside.
    ///
    /// # Errors
    /// `Lock`; `Shared` for a named one.
    #[track_caller]
    pub fn enter(&self) -> Result<Inside<'_, T>, MonitorError> {
        self.entered(false)
    }

    /// As [`Monitor::enter`], also after a thread died inside: the data is as that thread left it.
    ///
    /// # Errors
    /// `Lock`, except `OwnerDied`; `Shared` for a named one.
    #[track_caller]
    pub fn enter_torn(&self) -> Result<Inside<'_, T>, MonitorError> {
        self.entered(true)
    }

    fn condition(&self, name: &str) -> Result<usize, MonitorError> {
        self.conditions().position(|c| c == name).ok_or_else(|| {
            let there: Vec<String> = self.conditions().map(|c| format!("`{c}`")).collect();
            MonitorError::Condition { monitor: self.name.clone(), condition: name.into(), there: there.join(", ") }
        })
    }

    /// `unwinding`: as in [`Inside`].
    fn leave(&self, unwinding: bool) {
        inside::end(self.address());
        if let How::Named(of) = &self.of {
            if !unwinding && std::thread::panicking() {
                // The panic tears the data: the waiters must learn of it.
                of.room.call_all();
            }
            of.room.leave();
        }
        self.entry().unlock(unwinding);
    }
}

impl<T: Pod> Monitor<T> {
    fn checked(named: Bodied) -> Result<Monitor<T>, MonitorError> {
        let named = named.of_types([type_hash::<T>(), 0], || format!("data {}", type_name::<T>()))?;
        let Some(room) = in_body(&named.body) else { return Err(named.gone().into()) };
        let shape = room.shape();
        if named.body.room < bytes::<T>(shape) {
            return Err(named.gone().into());
        }
        // SAFETY: within the body, as checked above.
        let (names, entry) = unsafe { (named.body.at.add(shape.room()), named.body.at.add(shape.lock_at())) };
        // SAFETY: as above.
        let data = unsafe { entry.add(size_of::<Entry>()) }.cast();
        let name_of = |i: u32| {
            // SAFETY: as above; written before the monitor was in service, and never changed.
            let bytes = unsafe { std::slice::from_raw_parts(names.add(i as usize * NAME).as_ptr(), NAME) };
            let len = bytes.iter().position(|b| *b == 0).unwrap_or(NAME);
            String::from_utf8_lossy(&bytes[..len]).into()
        };
        let conditions = (0..shape.conditions).map(name_of).collect();
        let name = named.handle.name().into();
        named.seen(())?;
        Ok(Monitor { name, of: How::Named(Shared { named, room, entry: entry.cast(), data, conditions }) })
    }

    fn made(name: &str, value: &T, conditions: &[&str], or_open: bool) -> Result<Monitor<T>, MonitorError> {
        let count = fits(Kind::Monitor, "conditions", conditions.len() as u64, 0, MOST_CONDITIONS)?;
        let size = fits(Kind::Monitor, "bytes of data", size_of::<T>() as u64, 0, MOST_BYTES)?;
        let cannot =
            |(i, c): (usize, &&str)| !(1..=NAME).contains(&c.len()) || c.contains('\0') || conditions[..i].contains(c);
        if let Some(at) = conditions.iter().enumerate().position(cannot) {
            return Err(MonitorError::Name { monitor: name.into(), condition: conditions[at].into() });
        }
        let of = |members: u32| {
            let shape = Shape { members, conditions: count, bytes: size };
            (bytes::<T>(shape), form_of(shape, type_hash::<T>()))
        };
        let fill = |at: NonNull<u8>, form: Form| {
            let shape = shape_of(form);
            // SAFETY: so many zeroed bytes from a multiple of 64, not published yet.
            unsafe {
                for (i, name) in conditions.iter().enumerate() {
                    let to = at.add(shape.room() + i * NAME).as_ptr();
                    std::ptr::copy_nonoverlapping(name.as_ptr(), to, name.len());
                }
                let entry = at.add(shape.lock_at());
                let made = Entry::init(entry.cast().as_ptr());
                debug_assert!(made.is_ok(), "the system refuses what it has given to others");
                entry.add(size_of::<Entry>()).cast::<T>().write(*value);
            }
        };
        let made = Monitor::checked(Bodied::make(&Plan { kind: Kind::Monitor, of: &of, fill: &fill }, name, or_open)?)?;
        if made.conditions().eq(conditions.iter().copied()) {
            return Ok(made);
        }
        let said = |all: &[&str]| format!("conditions {all:?}");
        let has = said(&made.conditions().collect::<Vec<_>>());
        let (kind, name) = (Kind::Monitor.name(), made.name().to_owned());
        Err(SharedError::OtherShape { kind, name, has, wanted: said(conditions) }.into())
    }

    /// Attaches a monitor by name; its conditions are those that it was made with.
    ///
    /// # Errors
    /// `Shared`: it does not exist, its data is of another type (name without modules, size), or it is of another kind.
    pub fn open(name: &str) -> Result<Monitor<T>, MonitorError> {
        Monitor::checked(Bodied::open(Kind::Monitor, name)?)
    }

    /// Makes a monitor by name, with this data and these conditions; also makes its arena, with room for it, if there is none.
    ///
    /// # Errors
    /// `Name`; `Shared`: too many conditions or too much data; it exists already, or the arena has no room.
    pub fn create(name: &str, value: T, conditions: &[&str]) -> Result<Monitor<T>, MonitorError> {
        Monitor::made(name, &value, conditions, false)
    }

    /// Attaches a monitor by name, with the data that it has, or makes it.
    ///
    /// # Errors
    /// `Shared`: it exists with other conditions; otherwise as [`Monitor::open`] and [`Monitor::create`].
    pub fn open_or_create(name: &str, value: T, conditions: &[&str]) -> Result<Monitor<T>, MonitorError> {
        Monitor::made(name, &value, conditions, true)
    }
}

impl Monitor<()> {
    /// Removes a named monitor, whatever its data. Refused if another process has entered it and may do so again, unless `force`: then its users get
    /// [`SharedError::Dead`], the waiters too.
    ///
    /// # Errors
    /// `Shared`: it does not exist, is in use, or is of another kind.
    pub fn unmake(name: &str, force: bool) -> Result<(), MonitorError> {
        Ok(unmake(Kind::Monitor, name, force, figures, |_| None)?)
    }
}

/// The size of a named monitor.
fn bytes<T>(shape: Shape) -> usize {
    const { assert!(align_of::<T>() <= 64, "data that must lie at a multiple of more than 64 bytes") };
    shape.lock_at() + size_of::<Entry>() + size_of::<T>()
}

/// The guard of a thread inside a [`Monitor`]: the thread leaves when it is dropped.
pub struct Inside<'a, T> {
    monitor: &'a Monitor<T>,
    data: *mut T,
    /// In a named monitor: the member that is inside.
    me: Option<Member>,
    /// In a named monitor, the process that it belongs to; else 0.
    process: u32,
    /// The thread was unwinding when it entered: it runs a destructor, whose section the panic does not break off.
    unwinding: bool,
    /// It belongs to its thread.
    thread: PhantomData<*mut T>,
}

impl<T> std::fmt::Debug for Inside<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inside({:?})", self.monitor.name)
    }
}

impl<'a, T> Inside<'a, T> {
    /// Leaves, waits for a signal of the condition, and enters again. Check the condition afterwards: another thread may have been first.
    ///
    /// # Errors
    /// In each case the thread has left. `Condition`, `Nested`: nothing else happened; `Lock`, `Wait`; `Shared` for a named one.
    #[track_caller]
    pub fn wait(self, condition: &str) -> Result<Inside<'a, T>, MonitorError> {
        self.wait_for(condition, None).map(|(inside, _)| inside)
    }

    /// As [`Inside::wait`], for at most `limit`. Also returns whether a signal came.
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
        match &monitor.of {
            How::Private(_, all) => self.wait_privately(&all[condition], limit),
            How::Named(of) => self.wait_in(of, condition as u32, limit),
        }
    }

    #[track_caller]
    fn wait_privately(
        self,
        condition: &'a Condition,
        limit: Option<Duration>,
    ) -> Result<(Inside<'a, T>, bool), MonitorError> {
        let monitor = self.monitor;
        condition.waiting.set(condition.waiting.get() + 1);
        drop(self);
        let went = match limit {
            None => condition.semaphore.down(),
            Some(limit) => condition.semaphore.down_timeout(limit),
        };
        // Torn or not: the count must be kept right.
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

    #[track_caller]
    fn wait_in(
        self,
        of: &'a Shared<T>,
        condition: u32,
        limit: Option<Duration>,
    ) -> Result<(Inside<'a, T>, bool), MonitorError> {
        let (monitor, Some(me)) = (self.monitor, self.me.filter(|_| !self.is_void())) else {
            panic!("a monitor is used after fork as the parent: enter it in the child");
        };
        // All that may fail, before the wait is announced.
        inside::end(monitor.address());
        let seen = attachment(of.named.handle.map, watched);
        inside::begin(monitor.address(), &monitor.name, Location::caller());
        seen.map_err(SharedError::from)?.map_err(|e| MonitorError::Lock(HelpError::System(e)))?;
        let deadline =
            limit.map(|limit| clock::now().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)));
        let wait = of.room.announce(me, condition);
        drop(self);
        // I6 of the room: the wait was announced before this look.
        let is_there = of.named.seen(()).is_ok();
        let rest = || !is_there || of.room.rest(me, wait, deadline);
        let called = if light::current().is_some() { light::from_outside(|| light::blocking(rest)) } else { rest() };
        let inside = monitor.entered(true)?;
        of.room.heard(me);
        Ok((inside.if_whole()?, called))
    }

    fn if_whole(self) -> Result<Inside<'a, T>, MonitorError> {
        if self.monitor.entry().is_whole() {
            return Ok(self);
        }
        Err(HelpError::OwnerDied { name: self.monitor.name.clone(), guard: () }.into())
    }

    /// Wakes the thread that has waited for the condition longest, if there is one. It enters once this thread has left.
    ///
    /// # Errors
    /// `Condition`.
    pub fn signal(&self, condition: &str) -> Result<(), MonitorError> {
        let at = self.monitor.condition(condition)?;
        match &self.monitor.of {
            How::Private(_, all) => signal(&all[at]),
            How::Named(of) if !self.is_void() => _ = of.room.signal(at as u32),
            How::Named(_) => {}
        }
        Ok(())
    }

    /// Wakes all threads that wait for the condition.
    ///
    /// # Errors
    /// `Condition`.
    pub fn broadcast(&self, condition: &str) -> Result<(), MonitorError> {
        let at = self.monitor.condition(condition)?;
        match &self.monitor.of {
            How::Private(_, all) => (0..all[at].waiting.get()).for_each(|_| signal(&all[at])),
            How::Named(of) if !self.is_void() => of.room.broadcast(at as u32),
            How::Named(_) => {}
        }
        Ok(())
    }

    /// Whether this guard is the parent's, in a forked child.
    fn is_void(&self) -> bool {
        self.process != 0 && !process::is_incarnation_in(self.process, u32::MAX >> 1)
    }

    fn checked(&self) -> *mut T {
        assert!(!self.is_void(), "a monitor is used after fork as the parent: enter it in the child");
        self.data
    }

    /// Declares the data whole again, after a thread died inside.
    pub fn make_consistent(&self) {
        if !self.is_void() {
            self.monitor.entry().make_whole();
        }
    }
}

/// I1: signals one waiter, inside.
fn signal(condition: &Condition) {
    if let Some(left) = condition.waiting.get().checked_sub(1) {
        condition.waiting.set(left);
        // This cannot overflow: there are no more units than waiters.
        let _ = condition.semaphore.up();
    }
}

impl<T> std::ops::Deref for Inside<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread is inside.
        unsafe { &*self.checked() }
    }
}

impl<T> std::ops::DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread is inside, and there is one such guard.
        unsafe { &mut *self.checked() }
    }
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        if !self.is_void() {
            self.monitor.leave(self.unwinding);
        }
        if self.process != 0 {
            leave_within();
        }
    }
}
