//! Conditions, events and barriers: each is a condition variable with words, and their mutex, beside it (`words`).
//!
//! - Condition: the waiter takes the words' mutex, releases the user's lock, and waits on the condition variable, which
//!   releases the mutex. The notifier takes the mutex. So a notifier that notifies after the user's lock was released
//!   finds the waiter.
//! - Event: word 0 is the flag. The setter notifies the waiters first and stores the flag second, all under the mutex.
//!   A notified waiter reads the flag under the mutex, so after the store. If the setter dies before the store, the
//!   waiters wait on, and nothing was set.
//! - Barrier: word 0 is the generation (high half) and the number of arrived waiters; word 1 says that it is broken;
//!   word 2 is one more than the generation that was reset. Each waiter holds a permit of a pool beside the barrier, so
//!   the others notice when one has died: the barrier then breaks, at the latest after a tenth of a second.

use crate::failure::{Failure, Kind, failure, own, raised};
use crate::had::Had;
use crate::lock::{Core, Lock, RLock};
use crate::place::{Pickled, Place};
use crate::pool::{pool_of, take};
use crate::state::{part, whole};
use crate::wait::{Limit, detached, ended_by, wait, wait_on};
use crate::words::Watched;
use chappe::raw::{Hold, Time};
use chappe::{Interrupt, LockError, MutexGuard, Pool, interruptible};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiter at a barrier looks whether all are alive.
const LOOK: Duration = Duration::from_millis(100);

/// Why a wait did not end in what was waited for.
enum Not {
    Late,
    Interrupted,
    Broken,
    Other(String, Kind),
}

impl std::fmt::Display for Not {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Not::Other(text, _) => f.write_str(text),
            _ => f.write_str("the wait has ended"),
        }
    }
}

impl Failure for Not {
    fn is_late(&self) -> bool {
        matches!(self, Not::Late)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, Not::Interrupted)
    }
    fn kind(&self) -> Kind {
        if let Not::Other(_, kind) = self { *kind } else { Kind::System }
    }
}

fn other<E: Failure>(e: E) -> Not {
    Not::Other(e.to_string(), e.kind())
}

type Guard<'a> = MutexGuard<'a, ()>;

fn had<'a>(guard: Result<Guard<'a>, LockError<Guard<'a>>>) -> Result<Guard<'a>, Not> {
    whole(guard).map_err(other)
}

/// Waits for a notification: the guard, and whether the time was up.
fn hear<'a>(of: &'a Watched, guard: Guard<'a>, time: Time) -> Result<(Guard<'a>, bool), Not> {
    match time {
        Time::Forever => had(of.condvar.wait(guard)).map(|g| (g, false)),
        Time::Now => Ok((guard, true)),
        Time::Within(d) => {
            let (guard, late) = of.condvar.wait_timeout(guard, d);
            had(guard).map(|g| (g, late))
        }
    }
}

fn watched(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, create: Option<bool>) -> PyResult<(Watched, Place)> {
    let parts = ["condvar", "mutex+words"];
    Place::made(py, name, 0, &parts, |place| Watched::had(place, Had::of(create)).map_err(|e| failure(py, e)))
}

/// A condition of a `Lock` or an `RLock` (one of its own, if none is given), as `threading.Condition`.
///
/// If a notified waiter dies before it wakes up, the next waiter gets its notification.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Condition {
    lock: Py<PyAny>,
    core: Arc<Core>,
    of: Watched,
    place: Place,
}

impl Condition {
    fn owned(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        if self.core.is_ours() {
            return Ok(());
        }
        let text = format!("cannot {what} condition `{}`: its lock is not held", self.place.shown());
        Err(own(py, "NotHeld", (text,)))
    }

    fn told(&self, py: Python<'_>, tell: impl Fn()) -> PyResult<()> {
        self.owned(py, "notify")?;
        self.of.state.locked(py, tell)
    }

    /// Waits once. The lock is had again in any case.
    fn once(&self, py: Python<'_>, limit: Limit) -> PyResult<bool> {
        self.owned(py, "wait on")?;
        let interrupt = Interrupt::new();
        let (heard, died) = detached(py, || {
            let heard = had(self.of.state.lock()).map(|guard| {
                let count = self.core.suspend();
                let time = limit.time();
                let heard = interruptible(&interrupt, || hear(&self.of, guard, time)).map(|(_guard, late)| !late);
                (heard, count)
            });
            match heard {
                Ok((heard, count)) => (heard, self.core.resume(count).map_err(other)),
                Err(e) => (Err(e), Ok(false)),
            }
        });
        let died = died.map_err(|e| failure(py, e))?;
        self.core.tell(py, died)?;
        py.check_signals()?;
        heard.map_err(|e| failure(py, e))
    }
}

#[pymethods]
impl Condition {
    #[new]
    #[pyo3(signature = (lock = None, name = None, *, create = None))]
    fn new(
        py: Python<'_>,
        lock: Option<Bound<'_, PyAny>>,
        name: Option<&Bound<'_, PyAny>>,
        create: Option<bool>,
    ) -> PyResult<Condition> {
        let lock = match lock {
            Some(lock) => lock,
            None => py.import("chappe")?.getattr("RLock")?.call0()?,
        };
        let core = if let Ok(lock) = lock.cast::<RLock>() {
            lock.get().0.clone()
        } else if let Ok(lock) = lock.cast::<Lock>() {
            lock.get().0.clone()
        } else {
            return Err(PyTypeError::new_err("the lock of a condition is a chappe.Lock or a chappe.RLock"));
        };
        let (of, place) = watched(py, name, create)?;
        Ok(Condition { lock: lock.unbind(), core, of, place })
    }

    /// Gives up the lock, waits for a notification, and takes the lock again. False: the time was up.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.once(py, Limit::of(timeout)?)
    }

    /// Waits until `predicate()` is true; answers what it said at last.
    #[pyo3(signature = (predicate, timeout = None))]
    fn wait_for<'py>(
        &self,
        py: Python<'py>,
        predicate: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = Limit::of(timeout)?;
        loop {
            let said = predicate.call0()?;
            if said.is_truthy()? || limit == Limit::Now {
                return Ok(said);
            }
            if !self.once(py, limit)? {
                return predicate.call0();
            }
        }
    }

    /// Wakes up the `n` that have waited longest.
    #[pyo3(signature = (n = 1))]
    fn notify(&self, py: Python<'_>, n: u32) -> PyResult<()> {
        self.told(py, || (0..n).for_each(|_| self.of.condvar.notify_one()))
    }

    /// Wakes up all.
    fn notify_all(&self, py: Python<'_>) -> PyResult<()> {
        self.told(py, || self.of.condvar.notify_all())
    }

    /// The lock's.
    #[pyo3(signature = (*arguments, **named))]
    fn acquire<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, pyo3::types::PyTuple>,
        named: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.lock.bind(py).call_method("acquire", arguments, named)
    }

    /// The lock's.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.lock.bind(py).call_method0("release").map(drop)
    }

    /// Its lock. For the package's own parts.
    #[getter]
    fn _lock(&self, py: Python<'_>) -> Py<PyAny> {
        self.lock.clone_ref(py)
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.lock.bind(py).call_method0("__enter__")
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.lock.bind(py).call_method0("release").map(drop)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<chappe.Condition {} of {}>", self.place.shown(), self.lock.bind(py).repr()?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, (Py<PyAny>, String)> {
        Ok((slf.get_type().into_any(), (slf.get().lock.clone_ref(slf.py()), slf.get().place.sent())))
    }
}

/// A flag that processes wait for, as `threading.Event`.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Event {
    of: Watched,
    place: Place,
}

const FLAG: usize = 0;

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (name = None, *, create = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, create: Option<bool>) -> PyResult<Event> {
        let (of, place) = watched(py, name, create)?;
        Ok(Event { of, place })
    }

    /// Whether it is set.
    fn is_set(&self) -> bool {
        self.of.state.get(FLAG) != 0
    }

    /// Sets it, and wakes all waiters.
    fn set(&self, py: Python<'_>) -> PyResult<()> {
        self.of.state.locked(py, || {
            self.of.condvar.notify_all();
            self.of.state.set(FLAG, 1);
        })
    }

    /// Takes it back.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.of.state.locked(py, || self.of.state.set(FLAG, 0))
    }

    /// Waits until it is set, at most `timeout` seconds; answers whether it is.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = Limit::of(timeout)?;
        if self.is_set() || limit == Limit::Now {
            return Ok(self.is_set());
        }
        let set = |time| {
            let (guard, late) = {
                let guard = had(self.of.state.lock())?;
                if self.is_set() { (guard, false) } else { hear(&self.of, guard, time)? }
            };
            drop(guard);
            match (self.is_set(), late) {
                (true, _) => Ok(()),
                (false, true) => Err(Not::Late),
                (false, false) => Err(Not::Interrupted),
            }
        };
        Ok(wait_on(py, limit, set)?.is_some())
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self) -> String {
        let set = if self.is_set() { "set" } else { "unset" };
        format!("<chappe.Event {} {set}>", self.place.shown())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, (String,)> {
        Ok((slf.get_type().into_any(), (slf.get().place.sent(),)))
    }
}

const TURN: usize = 0;
const BROKEN: usize = 1;
const RESET: usize = 2;

/// A barrier, as `threading.Barrier`. One that dies while it waits breaks it: the others get `BrokenBarrierError`.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Barrier {
    of: Watched,
    here: Pool,
    parties: u32,
    action: Option<Py<PyAny>>,
    timeout: Option<f64>,
    place: Place,
}

fn turn(word: u64) -> (u64, u64) {
    (word >> 32, word & u64::from(u32::MAX))
}

impl Barrier {
    fn turn(&self) -> (u64, u64) {
        turn(self.of.state.get(TURN))
    }

    fn break_it(&self) {
        self.of.condvar.notify_all();
        self.of.state.set(BROKEN, 1);
    }

    /// Whether fewer are there than have arrived: one died.
    fn misses(&self) -> bool {
        u64::from(self.here.permits() - self.here.available()) < self.turn().1
    }

    /// Arrives: the generation, and the number in it.
    fn arrive(&self, time: Time) -> Result<(u64, u64), Not> {
        let mut guard = had(self.of.state.lock())?;
        let end = if let Time::Within(d) = time { Some(Instant::now() + d) } else { None };
        loop {
            if self.of.state.get(BROKEN) != 0 {
                return Err(Not::Broken);
            }
            let (generation, count) = self.turn();
            if count < u64::from(self.parties) {
                self.of.state.set(TURN, generation << 32 | (count + 1));
                return Ok((generation, count));
            }
            // All of the last turn are there, and its action runs.
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
            if left.is_zero() {
                return Err(Not::Late);
            }
            guard = hear(&self.of, guard, Time::Within(left))?.0;
        }
    }

    /// Waits until the turn is over.
    fn pass(&self, generation: u64, time: Time) -> Result<(), Not> {
        let guard = had(self.of.state.lock())?;
        let left = if let Time::Within(d) = time { d } else { LOOK };
        if self.over(generation)? {
            return Ok(());
        }
        if self.misses() {
            self.break_it();
            return Err(Not::Broken);
        }
        if left.is_zero() || matches!(time, Time::Now) {
            self.break_it();
            return Err(Not::Late);
        }
        drop(hear(&self.of, guard, Time::Within(left.min(LOOK)))?.0);
        if self.over(generation)? { Ok(()) } else { Err(Not::Interrupted) }
    }

    fn over(&self, generation: u64) -> Result<bool, Not> {
        let state = &self.of.state;
        if state.get(RESET) == generation + 1 {
            return Err(Not::Broken);
        }
        if self.turn().0 != generation {
            return Ok(true);
        }
        if state.get(BROKEN) != 0 { Err(Not::Broken) } else { Ok(false) }
    }

    /// The last one lets all go.
    fn open(&self, generation: u64) -> Result<(), Not> {
        let _guard = had(self.of.state.lock())?;
        self.over(generation)?;
        self.of.condvar.notify_all();
        self.of.state.set(TURN, (generation + 1) << 32);
        Ok(())
    }

    fn broken_error(&self, py: Python<'_>) -> PyErr {
        own(py, "BrokenBarrierError", (format!("barrier `{}` is broken", self.place.shown()),))
    }

    fn told(&self, py: Python<'_>, e: Not) -> PyErr {
        if let Not::Broken | Not::Late = e { self.broken_error(py) } else { failure(py, e) }
    }

    fn through(&self, py: Python<'_>, limit: Limit) -> PyResult<u64> {
        let (generation, number) = detached(py, || self.arrive(limit.time())).map_err(|e| self.told(py, e))?;
        if number + 1 == u64::from(self.parties) {
            if let Some(action) = &self.action
                && let Err(raised) = action.call0(py)
            {
                self.of.state.locked(py, || self.break_it())?;
                return Err(raised);
            }
            detached(py, || self.open(generation)).map_err(|e| self.told(py, e))?;
            return Ok(number);
        }
        ended_by(|interrupt| {
            loop {
                let time = if interrupt.is_asked() { Time::Now } else { limit.time() };
                match detached(py, || interruptible(interrupt, || self.pass(generation, time))) {
                    Ok(()) => return Ok(number),
                    Err(Not::Interrupted) => {
                        if let Err(raised) = py.check_signals() {
                            self.of.state.locked(py, || self.break_it())?;
                            return Err(raised);
                        }
                    }
                    Err(e) => return Err(self.told(py, e)),
                }
            }
        })
    }
}

/// What a barrier is made of.
type Arguments = (u32, Option<Py<PyAny>>, Option<f64>, String);

/// A permit that is given back in whatever way its scope is left.
struct Present(Hold);

impl Drop for Present {
    fn drop(&mut self) {
        // SAFETY: a permit of the process, given back once.
        unsafe { self.0.release() };
    }
}

#[pymethods]
impl Barrier {
    #[new]
    #[pyo3(signature = (parties, action = None, timeout = None, name = None, *, create = None))]
    fn new(
        py: Python<'_>,
        parties: i64,
        action: Option<Py<PyAny>>,
        timeout: Option<f64>,
        name: Option<&Bound<'_, PyAny>>,
        create: Option<bool>,
    ) -> PyResult<Barrier> {
        let most = 32_768;
        let Some(parties) = u32::try_from(parties).ok().filter(|n| (1..=most).contains(n)) else {
            return Err(PyValueError::new_err(format!("a barrier has between 1 and {most} parties, not {parties}")));
        };
        let ((of, here), place) = Place::made(py, name, 0, &["condvar", "mutex+words", "pool+here"], |place| {
            let of = Watched::had(place, Had::of(create)).map_err(|e| failure(py, e))?;
            // Twice as many: those of the turn before may just be leaving.
            let here = pool_of(py, &part(place.name(), "here"), Had::Either, parties * 2).map_err(|e| {
                let there = Pool::open(&part(place.name(), "here")).map_or(0, |pool| pool.permits() / 2);
                if there == 0 || there == parties {
                    return e;
                }
                let text = format!("barrier `{}` is there for {there} parties, not {parties}", place.shown());
                raised(py, Kind::Mismatch, text)
            })?;
            Ok((of, here))
        })?;
        Ok(Barrier { of, here, parties, action, timeout, place })
    }

    /// Waits until all have come; answers a number from 0 that no other of them gets. If the time is up first, the barrier is
    /// broken, for all.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u64> {
        let limit = Limit::of(timeout.or(self.timeout))?;
        let Some(hold) = wait(py, limit, |time| take(&self.here, time))? else {
            self.of.state.locked(py, || self.break_it())?;
            return Err(self.broken_error(py));
        };
        let _present = Present(hold);
        self.through(py, limit)
    }

    /// Begins anew; present waiters get `BrokenBarrierError`.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.of.state.locked(py, || {
            let (generation, count) = self.turn();
            self.of.condvar.notify_all();
            if count > 0 {
                self.of.state.set(RESET, generation + 1);
                self.of.state.set(TURN, (generation + 1) << 32);
            }
            self.of.state.set(BROKEN, 0);
        })
    }

    /// Breaks it.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.of.state.locked(py, || self.break_it())
    }

    #[getter]
    fn parties(&self) -> u32 {
        self.parties
    }

    /// How many wait.
    #[getter]
    fn n_waiting(&self) -> u64 {
        if self.broken() { 0 } else { self.turn().1 % u64::from(self.parties) }
    }

    /// Whether it is broken.
    #[getter]
    fn broken(&self) -> bool {
        self.of.state.get(BROKEN) != 0
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self) -> String {
        let how = if self.broken() { "broken".into() } else { format!("{} of {}", self.turn().1, self.parties) };
        format!("<chappe.Barrier {} {how}>", self.place.shown())
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, Arguments> {
        let this = slf.get();
        let action = this.action.as_ref().map(|a| a.clone_ref(slf.py()));
        Ok((slf.get_type().into_any(), (this.parties, action, this.timeout, this.place.sent())))
    }
}
