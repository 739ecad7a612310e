//! Pools: permits that return when their holder is killed.

use crate::failure::{failure, late, number};
use crate::had::Had;
use crate::place::{Pickled, Place};
use crate::task::Task;
use crate::wait::{Limit, wait};
use chappe::raw::{Hold, Time};
use chappe::{AcquireError, Pool as Permits};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::sync::{Mutex, PoisonError};

/// Takes a permit for the process.
///
/// # Errors
/// As the pool's.
#[inline]
pub fn take(pool: &Permits, time: Time) -> Result<Hold, AcquireError> {
    let permit = match time {
        Time::Now => pool.try_acquire_owned(),
        Time::Forever => pool.acquire_owned(),
        Time::Within(d) => pool.acquire_owned_timeout(d),
    };
    permit.map(Hold::of_owned)
}

/// The pool of a name.
///
/// # Errors
/// As the pool's.
pub fn pool_of(py: Python<'_>, name: &str, had: Had, permits: u32) -> PyResult<Permits> {
    let pool = match had {
        Had::Opened => Permits::open(name),
        Had::Created => Permits::create(name, permits),
        Had::Either => Permits::open_or_create(name, permits),
    };
    pool.map_err(|e| failure(py, e))
}

/// N permits, each of which belongs to the process that has it and comes back when that one ends, in whatever way.
///
/// `Pool("gpu", ["cuda:0", "cuda:1"])` has a permit for each value; `Pool("licences", 4)` has four that are numbers.
/// Without a name it is shared by the processes that this one forks, or is pickled to. Waiters are served in the order
/// in which they came.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Pool {
    pub(crate) pool: Permits,
    place: Place,
    values: Option<Py<PyTuple>>,
}

impl Pool {
    fn late(&self) -> String {
        format!("no permit of pool `{}` was free in time", self.place.shown())
    }

    /// The permit that was taken.
    pub(crate) fn permit(slf: &Bound<'_, Self>, hold: Hold) -> PyResult<Py<Permit>> {
        let hold = Mutex::new(Some(hold));
        Py::new(slf.py(), Permit { pool: slf.clone().unbind(), hold })
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (name = None, permits = None, *, create = None))]
    fn new(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        permits: Option<&Bound<'_, PyAny>>,
        create: Option<bool>,
    ) -> PyResult<Pool> {
        let values = match permits {
            Some(p) if p.is_instance_of::<PyString>() => {
                return Err(PyTypeError::new_err("permits are a number, or a list of values, not a string"));
            }
            Some(p) => match p.extract::<i64>() {
                Ok(_) => None,
                Err(_) if p.hasattr("__iter__")? => Some(p.try_iter()?.collect::<PyResult<Vec<_>>>()?),
                Err(_) => {
                    let text = format!("permits are a number, or a list of values, not {}", p.get_type());
                    return Err(PyTypeError::new_err(text));
                }
            },
            None => None,
        };
        let count = match (&values, permits) {
            (Some(v), _) => v.len() as u32,
            (None, Some(p)) => number("permits", "a pool", p.extract()?)?,
            (None, None) => 1,
        };
        let (pool, place) = Place::made(py, name, 0, &["pool"], |place| {
            if permits.is_none() && name.is_some() && create != Some(true) {
                match Permits::open(place.name()) {
                    Err(chappe::PoolError::Unknown { .. }) if create.is_none() => {
                        pool_of(py, place.name(), Had::Either, 1)
                    }
                    other => other.map_err(|e| failure(py, e)),
                }
            } else {
                pool_of(py, place.name(), Had::of(create), count)
            }
        })?;
        let values = values.map(|v| PyTuple::new(py, v).map(Bound::unbind)).transpose()?;
        Ok(Pool { pool, place, values })
    }

    /// Takes a permit, waiting for it at most `timeout` seconds; `TimeoutError` if there was none in time.
    ///
    /// The permit is a context manager that answers its value, or its number. It comes back when it is released, when the last
    /// reference to it goes, and when the process dies.
    #[pyo3(signature = (timeout = None))]
    fn acquire(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Py<Permit>> {
        let this = slf.get();
        match wait(slf.py(), Limit::of(timeout)?, |time| take(&this.pool, time))? {
            Some(hold) => Pool::permit(slf, hold),
            None => Err(late(this.late())),
        }
    }

    /// Takes a permit if one is free now; else `None`.
    fn try_acquire(slf: &Bound<'_, Self>) -> PyResult<Option<Py<Permit>>> {
        let this = slf.get();
        match wait(slf.py(), Limit::Now, |time| take(&this.pool, time))? {
            Some(hold) => Pool::permit(slf, hold).map(Some),
            None => Ok(None),
        }
    }

    /// A task's wait for a permit.
    fn _task(slf: &Bound<'_, Self>) -> Task {
        let (this, pool) = (slf.clone().unbind(), slf.get().pool.clone());
        let wait = async move { pool.acquire_async().await.map(Hold::of_owned) };
        Task::new(slf.get().late(), wait, move |py, hold| Pool::permit(this.bind(py), hold).map(Py::into_any))
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    /// How many permits it has.
    #[getter]
    fn permits(&self) -> u32 {
        self.pool.permits()
    }

    /// How many are free.
    #[getter]
    fn available(&self) -> u32 {
        self.pool.available()
    }

    /// What the permits stand for.
    #[getter]
    fn values(&self, py: Python<'_>) -> Option<Py<PyTuple>> {
        self.values.as_ref().map(|v| v.clone_ref(py))
    }

    /// The permits' holders: a list of `(permit, pid, label, seconds)`.
    fn holders(&self, py: Python<'_>) -> Vec<(u32, u32, String, f64)> {
        let all = crate::wait::detached(py, || self.pool.holders());
        all.into_iter().map(|h| (h.index, h.who.pid, h.who.label, h.held.as_secs_f64())).collect()
    }

    /// Gives the pool more permits, or fewer.
    fn resize(&self, py: Python<'_>, permits: i64) -> PyResult<()> {
        let permits = number("permits", self.place.shown(), permits)?;
        if self.values.is_some() {
            return Err(PyValueError::new_err(format!("pool `{}` has a permit for each value", self.place.shown())));
        }
        crate::wait::detached(py, || self.pool.resize(permits)).map_err(|e| failure(py, e))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let holders: Vec<String> = self.holders(py).into_iter().map(|h| h.1.to_string()).collect();
        let held = if holders.is_empty() { String::new() } else { format!(", held by pid {}", holders.join(", ")) };
        let (free, all) = (self.pool.available(), self.pool.permits());
        format!("<chappe.Pool {} {free} of {all} free{held}>", self.place.shown())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let permits = match &this.values {
            Some(values) => values.bind(py).clone().into_any(),
            None => py.None().into_bound(py),
        };
        let arguments = PyTuple::new(py, [this.place.sent().into_pyobject(py)?.into_any(), permits])?;
        Ok((slf.get_type().into_any(), arguments))
    }
}

/// A permit of a pool: a context manager.
#[pyclass(frozen, module = "chappe")]
pub struct Permit {
    pool: Py<Pool>,
    hold: Mutex<Option<Hold>>,
}

impl Permit {
    fn give(&self) -> bool {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(hold) = hold else { return false };
        // SAFETY: a permit of the process, given back once: it was taken out of its place.
        unsafe { hold.release() };
        true
    }

    fn number(&self) -> Option<u32> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Hold::index)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give();
    }
}

#[pymethods]
impl Permit {
    /// Its number in the pool, from 0; `None` once it was released.
    #[getter]
    fn index(&self) -> Option<u32> {
        self.number()
    }

    /// What it stands for: the pool's value of this number, or the number; `None` once it was released.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Some(index) = self.number() else { return Ok(py.None()) };
        match &self.pool.get().values {
            Some(values) => Ok(values.bind(py).get_item(index as usize)?.unbind()),
            None => Ok(index.into_pyobject(py)?.into_any().unbind()),
        }
    }

    /// Whether it is still this process's: false once released or taken away by force, and in a forked child.
    #[getter]
    fn valid(&self) -> bool {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a permit of the process may be looked at by any thread.
        hold.as_ref().is_some_and(|hold| unsafe { hold.is_valid() })
    }

    /// Gives it back. A second time does nothing.
    fn release(&self) {
        self.give();
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.number().is_none() {
            let pool = self.pool.get().place.shown();
            return Err(PyRuntimeError::new_err(format!("this permit of pool `{pool}` was given back already")));
        }
        self.value(py)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.give();
    }

    fn __repr__(&self) -> String {
        let (pool, number) = (self.pool.get().place.shown(), self.number());
        let which = number.map_or_else(|| "given back".into(), |n| format!("{n}"));
        format!("<chappe.Permit {which} of {pool}>")
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a permit belongs to its process and cannot be pickled; pickle its pool"))
    }
}
