//! Locks that return when their holder's process dies, and tell the next holder so.
//!
//! A lock is a pool of one permit: it is granted in the order of arrival, and returns when the kernel reports the
//! holder's death. A permit cannot say that the dead holder's critical section was cut short; words beside the pool do.
//!
//! | word | |
//! |---|---|
//! | 0 | the incarnation of the process that is in the section; 0: no process is |
//! | 3 | how many holders have died |
//!
//! The handle keeps what only its process needs: the permit that it holds (`bits`, 0: none), the incarnation of the
//! process that took it, and for a recursive lock the holding thread and its count.
//!
//! - I1: only the holder of the permit writes the words. It sets word 0 after it has taken the permit, and clears it
//!   before it gives the permit back. So a new holder that finds word 0 set follows a holder that died in its section.
//! - I2: the releaser clears `bits` before it gives the permit back: by a swap, or by a load and a store where the GIL
//!   excludes other threads. So if two threads release at once, one of them does.
//! - I3: a thread that reads its own number in `thread`, with `bits` set and the process's incarnation, holds the lock:
//!   it wrote the number itself, and no other thread writes it before the lock is given back.
//!
//! Ordering: the words and the handle's fields are accessed by plain stores and loads. The permit's swaps order them:
//! the accesses of a section come after the swap that took the permit and before the swap that gave it back (both
//! SeqCst).
//!
//! Death: if the holder dies before it sets word 0, its section had not begun; after it has cleared word 0, the section
//! was finished. In between, the next holder gets `OwnerDied`.

use crate::failure::{log, number, own, warn};
use crate::had::Had;
use crate::place::{Pickled, Place};
use crate::pool::{pool_of, take};
use crate::state::State;
use crate::task::Task;
use crate::wait::{Limit, detached, wait};
use chappe::raw::{Hold, Time, incarnation};
use chappe::{AcquireError, Pool};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const OWNER: usize = 0;
const DEATHS: usize = 3;

/// A number of this thread that no other of this process has.
pub fn thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! { static MINE: Cell<u64> = const { Cell::new(0) } }
    if MINE.get() == 0 {
        // Relaxed: only to be another one each time.
        MINE.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    MINE.get()
}

/// What is done when the holder before died in its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDeath {
    Warn,
    Raise,
    Ignore,
}

impl OnDeath {
    fn of(text: &str) -> PyResult<OnDeath> {
        match text {
            "warn" => Ok(OnDeath::Warn),
            "raise" => Ok(OnDeath::Raise),
            "ignore" => Ok(OnDeath::Ignore),
            other => {
                Err(PyValueError::new_err(format!("on_death is \"warn\", \"raise\" or \"ignore\", not {other:?}")))
            }
        }
    }
    fn text(self) -> &'static str {
        match self {
            OnDeath::Warn => "warn",
            OnDeath::Raise => "raise",
            OnDeath::Ignore => "ignore",
        }
    }
}

/// A pool of so many permits, and the words beside it.
fn made(
    py: Python<'_>,
    name: Option<&Bound<'_, PyAny>>,
    create: Option<bool>,
    permits: u32,
) -> PyResult<((Pool, State), Place)> {
    Place::made(py, name, 0, &["pool", "mutex+words"], |place| {
        let pool = pool_of(py, place.name(), Had::of(create), permits)?;
        let state = State::beside(py, place.name(), &pool, || {})?;
        Ok((pool, state))
    })
}

/// What both kinds of lock are.
pub struct Core {
    pub(crate) pool: Pool,
    state: State,
    bits: AtomicU64,
    incarnation: AtomicU64,
    thread: AtomicU64,
    count: AtomicU64,
    place: Place,
    on_death: OnDeath,
}

impl Core {
    fn new(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        on_death: &str,
        create: Option<bool>,
    ) -> PyResult<Arc<Core>> {
        let on_death = OnDeath::of(on_death)?;
        let ((pool, state), place) = made(py, name, create, 1)?;
        let [bits, incarnation, thread, count] = [const { AtomicU64::new(0) }; 4];
        Ok(Arc::new(Core { pool, state, bits, incarnation, thread, count, place, on_death }))
    }

    /// Takes it if that needs neither a wait nor a system call, and there is no death to tell of.
    #[inline(always)]
    pub(crate) fn take_clean(&self) -> bool {
        let Some(bits) = chappe::raw::take_owned_now(&self.pool) else { return false };
        if self.state.read(OWNER) != 0 {
            // As it was left by the dead: it is the next one's to tell.
            // SAFETY: the pool has a name; the permit was just taken, and is given back once.
            unsafe { chappe::raw::give_owned_now(&self.pool, bits) };
            return false;
        }
        self.has(bits, incarnation());
        true
    }

    /// I1: the permit was taken. Answers whether the previous holder died in its section.
    #[inline(always)]
    pub(crate) fn entered(&self, hold: Hold) -> bool {
        let died = self.state.read(OWNER) != 0;
        if died {
            self.state.write(DEATHS, self.state.read(DEATHS) + 1);
        }
        self.has(hold.bits(), incarnation());
        died
    }

    /// This process has the permit of these bits, and is in the section.
    #[inline(always)]
    fn has(&self, bits: u64, here: u64) {
        // Relaxed, both: see "Ordering".
        self.incarnation.store(here, Ordering::Relaxed);
        self.bits.store(bits, Ordering::Relaxed);
        self.state.write(OWNER, here);
    }

    /// I2: the bits of the permit that this process has; it has it no more.
    #[inline(always)]
    fn bits_taken(&self) -> Option<u64> {
        // Relaxed, all: see "Ordering".
        if self.incarnation.load(Ordering::Relaxed) != incarnation() {
            return None;
        }
        if cfg!(Py_GIL_DISABLED) {
            return Some(self.bits.swap(0, Ordering::Relaxed)).filter(|bits| *bits != 0); // Relaxed: see "Ordering".
        }
        // Nothing is stored where there was none: a thread that waited without the GIL may store its own between the two.
        let bits = Some(self.bits.load(Ordering::Relaxed)).filter(|bits| *bits != 0)?; // Relaxed: see "Ordering".
        self.bits.store(0, Ordering::Relaxed); // Relaxed: see "Ordering".
        Some(bits)
    }

    /// Gives the permit back. `None`: this process does not have it.
    #[inline(always)]
    pub(crate) fn left(&self, finished: bool) -> Option<()> {
        let bits = self.bits_taken()?;
        if finished && self.state.is_current() {
            self.state.write(OWNER, 0);
        }
        // SAFETY: the pool has a name, and nothing here makes leases; the permit is of this process, as was seen, and is given back once:
        // its bits were taken out of their place.
        unsafe { chappe::raw::give_owned_now(&self.pool, bits) };
        Some(())
    }

    /// Takes it for a task. Answers whether the previous holder died in its section.
    pub(crate) async fn take_async(&self) -> Result<bool, AcquireError> {
        // Nothing comes in between: the permit has no owner that would give it back.
        self.pool.acquire_async().await.map(|permit| self.entered(Hold::of_owned(permit)))
    }

    fn take(&self, time: Time) -> Result<bool, AcquireError> {
        take(&self.pool, time).map(|hold| self.entered(hold))
    }

    /// I3.
    #[inline(always)]
    pub(crate) fn is_mine(&self) -> bool {
        // Relaxed: I3.
        self.thread.load(Ordering::Relaxed) == thread() && self.is_ours()
    }

    /// Whether this process has it.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        // Relaxed, both: see "Ordering".
        self.incarnation.load(Ordering::Relaxed) == incarnation() && self.bits.load(Ordering::Relaxed) != 0
    }

    /// The calling thread has it, so many times.
    #[inline(always)]
    fn set_count(&self, count: u64) {
        // Relaxed, both: I3; nobody else reads them to act by them.
        self.thread.store(thread(), Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
    }

    /// How many times the holder has taken a recursive lock.
    fn count(&self) -> u64 {
        // Relaxed: as in `set_count`.
        self.count.load(Ordering::Relaxed)
    }

    /// Tells that the holder before died, as was asked for.
    pub(crate) fn tell(&self, py: Python<'_>, died: bool) -> PyResult<()> {
        if !died {
            return Ok(());
        }
        let lock = self.place.shown();
        let text =
            format!("the process that had lock `{lock}` died in its section: what the lock guards may be half-changed");
        log(py, &text);
        if self.on_death == OnDeath::Ignore {
            return Ok(());
        }
        if self.on_death == OnDeath::Raise {
            // It stays unfinished until a holder says that it is mended.
            self.left(false);
            return Err(own(py, "OwnerDied", (format!("{text}; mend it under `recover()`"),)));
        }
        warn(py, "OwnerDiedWarning", &text).inspect_err(|_| {
            self.left(true);
        })
    }

    fn acquire(&self, py: Python<'_>, limit: Limit) -> PyResult<bool> {
        match wait(py, limit, |time| self.take(time))? {
            Some(died) => self.tell(py, died).map(|()| true),
            None => Ok(false),
        }
    }

    fn recover(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        match wait(py, Limit::of(timeout)?, |time| self.take(time))? {
            Some(_) => Ok(()),
            None => Err(crate::failure::late(late(&self.place))),
        }
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.left(true).ok_or_else(|| self.not_held(py))
    }

    fn not_held(&self, py: Python<'_>) -> PyErr {
        let lock = self.place.shown();
        // Relaxed, both: a child was forked after what it reads here was written.
        let of_parent = self.incarnation.load(Ordering::Relaxed) != incarnation();
        if of_parent && self.bits.load(Ordering::Relaxed) != 0 {
            let text = format!("lock `{lock}` was taken before the fork: it is the parent process's");
            return own(py, "NotHeld", (text,));
        }
        own(py, "NotHeld", (format!("release of lock `{lock}`, which this process does not hold"),))
    }

    /// Gives it up whatever its count, for a wait; answers the count.
    pub(crate) fn suspend(&self) -> u64 {
        let count = self.count();
        self.left(true);
        count
    }

    /// Takes it again, without the GIL and whatever signal comes. Answers whether the holder before died.
    pub(crate) fn resume(&self, count: u64) -> Result<bool, AcquireError> {
        let died = self.take(Time::Forever)?;
        self.set_count(count);
        Ok(died)
    }

    fn locked(&self) -> bool {
        self.pool.available() == 0
    }

    fn shown(&self, kind: &str) -> String {
        let holder = self.pool.holders().into_iter().next();
        let how = holder.map_or_else(|| "free".into(), |h| format!("held by pid {} ({})", h.who.pid, h.who.label));
        format!("<chappe.{kind} {} {how}>", self.place.shown())
    }
}

fn late(place: &Place) -> String {
    format!("lock `{}` was not free in time", place.shown())
}

/// A lock: its class, its name, and what to do after a death.
type Reduced<'py> = Pickled<'py, (Bound<'py, PyAny>, String, &'static str)>;

/// A lock that a process holds, until it releases it or dies.
///
/// It is granted in the order of arrival. Any thread of its process may release it. After a holder that died with it, `acquire` shows an
/// `OwnerDiedWarning` (`on_death="warn"`), raises `OwnerDied` until a holder has mended things under `recover()` (`"raise"`), or says
/// nothing (`"ignore"`). The shell knows it as a pool of one permit: `chappe acquire NAME -- command` has the same lock.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Lock(pub(crate) Arc<Core>);

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (name = None, *, on_death = "warn", create = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, on_death: &str, create: Option<bool>) -> PyResult<Lock> {
        Core::new(py, name, on_death, create).map(Lock)
    }

    /// Takes the lock; waits for it, unless `blocking` is false, at most `timeout` seconds (-1 and `None`: for ever). Answers whether
    /// it was had.
    #[pyo3(signature = (blocking = true, timeout = None))]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.0.acquire(py, Limit::of_lock(blocking, timeout)?)
    }

    /// A task's wait for it.
    fn _task(&self) -> Task {
        let (core, kept) = (self.0.clone(), self.0.clone());
        let told = move |py: Python<'_>, died| core.tell(py, died).and_then(|()| true.into_py_any(py));
        Task::new(late(&self.0.place), async move { kept.take_async().await }, told)
    }

    /// Gives the lock back; `RuntimeError` if this process does not hold it.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.0.release(py)
    }

    /// Takes the lock whatever happened to the holder before, to mend what it guards: `with lock.recover(): ...`.
    #[pyo3(signature = (timeout = None))]
    fn recover(slf: Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Recovery> {
        slf.get().0.recover(slf.py(), timeout)?;
        Ok(Recovery(slf.get().0.clone()))
    }

    /// Whether a thread holds it.
    fn locked(&self) -> bool {
        self.0.locked()
    }

    /// How many holders have died in their sections.
    #[getter]
    fn deaths(&self) -> u64 {
        self.0.state.get(DEATHS)
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.place.name()
    }

    fn _is_owned(&self) -> bool {
        self.0.is_ours()
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.acquire(py, Limit::Forever)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.0.release(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        detached(py, || self.0.shown("Lock"))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.as_any(), &slf.get().0)
    }
}

fn reduced<'py>(slf: &Bound<'py, PyAny>, core: &Core) -> Reduced<'py> {
    let made = slf.py().import("chappe.errors")?.getattr("_lock")?;
    Ok((made, (slf.get_type().into_any(), core.place.sent(), core.on_death.text())))
}

/// A lock that is held to be mended: a context manager.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Recovery(Arc<Core>);

#[pymethods]
impl Recovery {
    fn __enter__(&self) {}

    #[pyo3(signature = (raised = None, *_rest))]
    fn __exit__(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>, _rest: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.0.left(raised.is_none()).ok_or_else(|| self.0.not_held(py))
    }
}

/// As `Lock`, and the thread that has it may take it again; it must release it as often.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct RLock(pub(crate) Arc<Core>);

impl RLock {
    /// Takes it if that needs neither a wait nor a system call, and there is no death to tell of.
    #[inline(always)]
    pub(crate) fn take_clean(&self) -> bool {
        let core = &self.0;
        if core.is_mine() {
            core.set_count(core.count() + 1);
            return true;
        }
        if !core.take_clean() {
            return false;
        }
        core.set_count(1);
        true
    }

    fn again(&self, py: Python<'_>, limit: Limit) -> PyResult<bool> {
        let core = &self.0;
        if core.is_mine() {
            core.set_count(core.count() + 1);
            return Ok(true);
        }
        // At once: a warning of the death before may run Python, which may take it again.
        match wait(py, limit, |time| core.take(time).inspect(|_| core.set_count(1)))? {
            Some(died) => core.tell(py, died).map(|()| true),
            None => Ok(false),
        }
    }

    /// Gives back one `acquire`. `None`: this thread does not have it.
    #[inline(always)]
    pub(crate) fn left(&self) -> Option<()> {
        let core = &self.0;
        if !core.is_mine() {
            return None;
        }
        match core.count() {
            0 | 1 => core.left(true),
            more => {
                core.set_count(more - 1);
                Some(())
            }
        }
    }
}

#[pymethods]
impl RLock {
    #[new]
    #[pyo3(signature = (name = None, *, on_death = "warn", create = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, on_death: &str, create: Option<bool>) -> PyResult<RLock> {
        Core::new(py, name, on_death, create).map(RLock)
    }

    /// As `Lock.acquire`.
    #[pyo3(signature = (blocking = true, timeout = None))]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.again(py, Limit::of_lock(blocking, timeout)?)
    }

    /// Takes back one `acquire`; the last one gives the lock back. `RuntimeError` if this thread does not hold it.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.left().ok_or_else(|| self.0.not_held(py))
    }

    /// Whether a thread holds it.
    fn locked(&self) -> bool {
        self.0.locked()
    }

    /// How many holders have died in their sections.
    #[getter]
    fn deaths(&self) -> u64 {
        self.0.state.get(DEATHS)
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.place.name()
    }

    fn _is_owned(&self) -> bool {
        self.0.is_mine()
    }

    /// How many times this thread has it.
    #[getter]
    fn depth(&self) -> u64 {
        if self.0.is_mine() { self.0.count() } else { 0 }
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        self.again(py, Limit::Forever)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        detached(py, || self.0.shown("RLock"))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.as_any(), &slf.get().0)
    }
}

/// Many readers or one writer; each comes back when its process dies. Both are served in the order of arrival.
///
/// `with lock.read(timeout=None): ...`, `with lock.write(timeout=None): ...`. At most `readers` read at a time.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct RwLock {
    pool: Pool,
    state: Arc<State>,
    place: Place,
}

#[pymethods]
impl RwLock {
    #[new]
    #[pyo3(signature = (name = None, *, readers = 64, create = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, readers: i64, create: Option<bool>) -> PyResult<RwLock> {
        let readers = number("`readers`", "a lock", readers)?;
        let ((pool, state), place) = made(py, name, create, readers)?;
        Ok(RwLock { pool, state: Arc::new(state), place })
    }

    /// Takes it for reading; `TimeoutError` if the time was up. A context manager.
    #[pyo3(signature = (timeout = None))]
    fn read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Section> {
        self.had(py, Limit::of(timeout)?, 1)
    }

    /// Takes it for writing; `TimeoutError` if the time was up. A context manager.
    #[pyo3(signature = (timeout = None))]
    fn write(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Section> {
        self.had(py, Limit::of(timeout)?, self.pool.permits())
    }

    /// A task's wait for it, to write or to read.
    fn _task(slf: &Bound<'_, Self>, writes: bool) -> Task {
        let (this, lock) = (slf.clone().unbind(), slf.get());
        let (pool, n) = (lock.pool.clone(), if writes { lock.pool.permits() } else { 1 });
        let wait = async move {
            let mut holds = Vec::with_capacity(n as usize);
            Hold::of_owned_many(pool.acquire_many_async(n).await?, |hold| holds.push(hold));
            Ok::<_, AcquireError>(holds)
        };
        Task::new(late(&lock.place), wait, move |py, holds| {
            Ok(Py::new(py, this.get().section(py, holds, writes)?)?.into_any())
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (held, all) = detached(py, || (self.pool.permits() - self.pool.available(), self.pool.permits()));
        let how = match held {
            0 => "free".to_owned(),
            n if n == all => "being written".to_owned(),
            n => format!("{n} reading"),
        };
        format!("<chappe.RwLock {} {how}>", self.place.shown())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, (Bound<'py, PyAny>, String, u32)> {
        let made = slf.py().import("chappe.errors")?.getattr("_rw_lock")?;
        Ok((made, (slf.get_type().into_any(), slf.get().place.sent(), slf.get().pool.permits())))
    }
}

impl RwLock {
    fn had(&self, py: Python<'_>, limit: Limit, n: u32) -> PyResult<Section> {
        let many = |time| {
            let permits = match time {
                Time::Now => self.pool.try_acquire_many(n),
                Time::Forever => self.pool.acquire_many(n),
                Time::Within(d) => self.pool.acquire_many_timeout(n, d),
            };
            let mut holds = Vec::with_capacity(n as usize);
            Hold::of_many(permits?, |hold| holds.push(hold));
            // SAFETY: the calling thread's, of a pool with a name.
            Ok(holds.into_iter().filter_map(|hold| unsafe { hold.into_process() }.ok()).collect::<Vec<_>>())
        };
        let Some(holds) = wait::<_, AcquireError>(py, limit, many)? else {
            return Err(crate::failure::late(late(&self.place)));
        };
        // A reader that comes after a writer that died says so to itself alone; the words are the writers'.
        self.section(py, holds, n == self.pool.permits())
    }

    /// What these permits let its holder do.
    fn section(&self, py: Python<'_>, holds: Vec<Hold>, writes: bool) -> PyResult<Section> {
        let died = self.state.get(OWNER) != 0;
        if writes {
            self.state.set(OWNER, incarnation());
        }
        let section = Section { holds: Mutex::new(holds), state: self.state.clone(), writes };
        if died {
            let text = format!("a process died while it wrote under lock `{}`", self.place.shown());
            log(py, &text);
            warn(py, "OwnerDiedWarning", &text)?;
        }
        Ok(section)
    }
}

/// What a reader or a writer has: a context manager.
#[pyclass(frozen, module = "chappe")]
pub struct Section {
    holds: Mutex<Vec<Hold>>,
    state: Arc<State>,
    writes: bool,
}

impl Section {
    fn give(&self) {
        let holds = std::mem::take(&mut *self.holds.lock().unwrap_or_else(PoisonError::into_inner));
        if self.writes && holds.first().is_some_and(Hold::is_here) && self.state.is_current() {
            self.state.set(OWNER, 0);
        }
        for hold in holds {
            // SAFETY: a permit of the process, given back once: it was taken out of its place.
            unsafe { hold.release() };
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        self.give();
    }
}

#[pymethods]
impl Section {
    /// Gives it back. A second time does nothing.
    fn release(&self) {
        self.give();
    }

    fn __enter__(&self) -> PyResult<()> {
        let held = !self.holds.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if held { Ok(()) } else { Err(PyRuntimeError::new_err("this section was left already")) }
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.give();
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a held lock belongs to its process and cannot be pickled; pickle the lock"))
    }
}
