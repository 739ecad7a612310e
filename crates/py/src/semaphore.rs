//! Semaphores: counters of wake-ups that belong to nobody.

use crate::failure::{failure, late, number};
use crate::had::Had;
use crate::place::{Pickled, Place};
use crate::task::Task;
use crate::wait::{Limit, detached, wait};
use chappe::raw::Time;
use chappe::{DownError, Semaphore as Units};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Consumes a wake-up.
///
/// # Errors
/// As the semaphore's.
pub fn down(units: &Units, time: Time) -> Result<(), DownError> {
    match time {
        Time::Now => units.try_down(),
        Time::Forever => units.down(),
        Time::Within(d) => units.down_timeout(d),
    }
}

/// A counter: `up` adds wake-ups, `down` consumes one, or waits for it in the order of arrival.
///
/// A process that dies takes along what it had consumed; what is to come back belongs into a `Pool`. `acquire` and `release` are
/// there under the standard names, too.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Semaphore {
    pub(crate) units: Units,
    place: Place,
}

impl Semaphore {
    fn late(&self) -> String {
        format!("no wake-up of semaphore `{}` came in time", self.place.shown())
    }
}

#[pymethods]
impl Semaphore {
    #[new]
    #[pyo3(signature = (name = None, value = 1, *, create = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, value: i64, create: Option<bool>) -> PyResult<Semaphore> {
        // In the standard module's words, which programs look for.
        let value = if value < 0 {
            return Err(PyValueError::new_err("semaphore initial value must be >= 0"));
        } else {
            number("the initial value", "a semaphore", value)?
        };
        let (units, place) = Place::made(py, name, 0, &["semaphore"], |place| {
            let units = match Had::of(create) {
                Had::Opened => Units::open(place.name()),
                Had::Created => Units::create(place.name(), value),
                Had::Either => Units::open_or_create(place.name(), value),
            };
            units.map_err(|e| failure(py, e))
        })?;
        Ok(Semaphore { units, place })
    }

    /// Consumes a wake-up, waiting for it at most `timeout` seconds; `TimeoutError` if none came.
    #[pyo3(signature = (timeout = None))]
    fn down(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        match wait(py, Limit::of(timeout)?, |time| down(&self.units, time))? {
            Some(()) => Ok(()),
            None => Err(late(self.late())),
        }
    }

    /// A task's wait for a wake-up.
    fn _task(&self) -> Task {
        let units = self.units.clone();
        Task::new(self.late(), async move { units.down_async().await }, |py, ()| true.into_py_any(py))
    }

    /// Adds wake-ups, and hands them to waiters.
    #[pyo3(signature = (n = 1))]
    fn up(&self, py: Python<'_>, n: i64) -> PyResult<()> {
        let n = number("the wake-ups", self.place.shown(), n)?;
        self.units.up_many(n).map_err(|e| failure(py, e))
    }

    /// As `down`, with the standard arguments and answer.
    #[pyo3(signature = (blocking = true, timeout = None))]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        Ok(wait(py, Limit::of_lock(blocking, timeout)?, |time| down(&self.units, time))?.is_some())
    }

    /// As `up`.
    #[pyo3(signature = (n = 1))]
    fn release(&self, py: Python<'_>, n: i64) -> PyResult<()> {
        self.up(py, n)
    }

    /// How many wake-ups are saved.
    #[getter]
    fn value(&self) -> u32 {
        self.units.value()
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    /// How many wait.
    #[getter]
    fn waiting(&self, py: Python<'_>) -> usize {
        detached(py, || self.units.waiters().len())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        self.down(py, None).map(|()| true)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.up(py, 1)
    }

    fn __repr__(&self) -> String {
        format!("<chappe.Semaphore {} value={}>", self.place.shown(), self.units.value())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, (String, u32)> {
        Ok((slf.get_type().into_any(), (slf.get().place.sent(), 0)))
    }
}
