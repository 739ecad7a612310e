//! Conditions and events: each is a condition variable with words, and their mutex, beside it (`words`).
//!
//! - Condition: the waiter takes the words' mutex, releases the user's lock, and waits on the condition variable, which
//!   releases the mutex. The notifier takes the mutex. So a notifier that notifies after the user's lock was released
//!   finds the waiter.
//! - Event: word 0 is the flag. The setter notifies the waiters first and stores the flag second, all under the mutex.
//!   A notified waiter reads the flag under the mutex, so after the store. If the setter dies before the store, the
//!   waiters wait on, and nothing was set.

use crate::failure::{Failure, Kind, failure, own};
use crate::had::Had;
use crate::lock::{Core, Lock, RLock};
use crate::place::{Pickled, Place};
use crate::state::{told, whole};
use crate::task::{Stop, Task};
use crate::wait::{Limit, detached, wait_on};
use crate::words::Watched;
use chappe::raw::Time;
use chappe::{Interrupt, LockError, MutexGuard, OwnedMutexGuard, interruptible};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Why a wait did not end in what was waited for.
enum Not {
    Late,
    Interrupted,
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

/// Waits for a notification, as a task. The mutex is unlocked, and stays so.
async fn hear_async(of: &Watched, guard: OwnedMutexGuard<'_, ()>) -> Result<(), Not> {
    of.condvar.hear_async(guard).await.map_err(|e| other(told(e)))
}

fn watched(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, create: Option<bool>) -> PyResult<(Watched, Place)> {
    let parts = ["condvar", "mutex+words"];
    Place::made(py, name, 0, &parts, |place| Watched::had(py, place, Had::of(create)))
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

    /// A task's wait, once: answers whether it was notified, or was told to end. The lock is had again in any case.
    fn _task(slf: &Bound<'_, Self>) -> PyResult<Task> {
        let (this, kept) = (slf.get(), slf.clone().unbind());
        this.owned(slf.py(), "wait on")?;
        let core = this.core.clone();
        let wait = |stop: Stop| async move {
            let Condition { core, of, .. } = kept.get();
            let Some(guard) = stop.or(of.state.lock_async()).await else { return Ok((false, false)) };
            let guard = guard.map_err(other)?;
            core.left(true);
            let heard = stop.or(hear_async(of, guard)).await;
            let died = core.take_async().await.map_err(other)?;
            heard.transpose().map(|heard| (heard.is_some(), died))
        };
        let late = format!("condition `{}` was not notified in time", this.place.shown());
        Ok(Task::stopped(late, wait, move |py, (heard, died)| core.tell(py, died).and_then(|()| heard.into_py_any(py))))
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
        self.of.state.get(FLAG) != 0 && self.of.state.is_current()
    }

    /// Sets it, and wakes all waiters.
    fn set(&self, py: Python<'_>) -> PyResult<()> {
        self.of.state.change(py, self.place.shown(), || {
            self.of.condvar.notify_all();
            self.of.state.set(FLAG, 1);
        })
    }

    /// Takes it back.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.of.state.change(py, self.place.shown(), || self.of.state.set(FLAG, 0))
    }

    /// A task's wait until it is set.
    fn _task(slf: &Bound<'_, Self>) -> Task {
        let kept = slf.clone().unbind();
        let wait = async move {
            let event = kept.get();
            while !event.is_set() {
                let guard = event.of.state.lock_async().await.map_err(other)?;
                if !event.is_set() {
                    hear_async(&event.of, guard).await?;
                    // The setter notifies first and stores second, under the mutex.
                    drop(event.of.state.lock_async().await.map_err(other)?);
                }
            }
            Ok::<(), Not>(())
        };
        let late = format!("event `{}` was not set in time", slf.get().place.shown());
        Task::new(late, wait, |py, ()| true.into_py_any(py))
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
