//! Clocks: something to receive from, or an arm of `select`, at whose other end is the time.
//!
//! A clock is its process's: it is no named object, and nothing is left of it. A child that is forked has one of its own, which goes on
//! from there.

use crate::wait::{Limit, wait};
use chappe::raw::Time;
use chappe::tube::Receiver;
use chappe::{Select, SelectError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// A moment on the scale of Python's `time.monotonic()`.
///
/// # Errors
/// As that function's.
pub fn monotonic(py: Python<'_>, moment: Instant) -> PyResult<f64> {
    let now: f64 = py.import("time")?.call_method0("monotonic")?.extract()?;
    Ok(now - moment.elapsed().as_secs_f64())
}

/// What `chappe.tick` and `chappe.after` make: `recv` waits for the next moment and answers it, on the scale of `time.monotonic()`.
///
/// It can be iterated, and `clock.recv` is an arm of `select`. Threads share its moments: each goes to one of them.
#[pyclass(frozen, module = "chappe")]
pub struct Clock {
    pub(crate) moments: Receiver<Instant>,
    shown: String,
}

fn length(seconds: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{what} is a number of seconds, 0 or more, not {seconds}")))
}

/// A clock that strikes every so many seconds. A tick that is received late comes once, and the next a period after that.
#[pyfunction]
pub fn tick(seconds: f64) -> PyResult<Clock> {
    let period = length(seconds, "a period")?;
    if period.is_zero() {
        return Err(PyValueError::new_err("a period is more than 0 seconds"));
    }
    Ok(Clock { moments: chappe::tube::tick(period), shown: format!("every {seconds} s") })
}

/// A clock that strikes once, in so many seconds.
#[pyfunction]
pub fn after(seconds: f64) -> PyResult<Clock> {
    Ok(Clock { moments: chappe::tube::after(length(seconds, "a delay")?), shown: format!("once, after {seconds} s") })
}

impl Clock {
    fn next(&self, py: Python<'_>, limit: Limit) -> PyResult<Option<f64>> {
        let moment = wait(py, limit, |time| {
            let mut select = Select::new();
            select.recv(&self.moments);
            let chosen = match time {
                Time::Now => select.try_wait()?,
                Time::Forever => select.wait()?,
                Time::Within(d) => select.wait_timeout(d)?,
            };
            // A clock never disconnects, so this never fails.
            chosen.recv(&self.moments).map_err(|_| SelectError::WouldBlock)
        })?;
        moment.map(|moment| monotonic(py, moment)).transpose()
    }
}

#[pymethods]
impl Clock {
    /// Waits for the next moment, at most `timeout` seconds; `TimeoutError` then.
    #[pyo3(signature = (timeout = None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<f64> {
        self.next(py, Limit::of(timeout)?)?
            .ok_or_else(|| crate::failure::late(format!("the clock ({}) has not struck in time", self.shown)))
    }

    /// The moment, if it has come; else `None`.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.next(py, Limit::Now)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<f64> {
        self.recv(py, None)
    }

    fn __repr__(&self) -> String {
        format!("<chappe.Clock {}>", self.shown)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a clock belongs to its process and cannot be pickled: each process makes its own"))
    }
}
