//! Waiting in Python's manner: without the GIL, and until a signal's handler raises.
//!
//! ```text
//!   try, with the GIL -- nothing there: give up the GIL -- wait -- take the GIL
//!                                          ^                        | a signal was handled: run its handler in Python
//!                                          +--- it raised nothing --+--- it raised: the wait ends with that
//! ```
//!
//! A wait that goes on after a handler does so with what is left of its time, as PEP 475 has it; it begins anew at the end of the line.
//! Left open: a signal that comes in the few instructions between the last look and the sleep is seen when the sleep ends, as in the
//! interpreter's own locks.

use crate::failure::{Failure, failure};
use chappe::raw::Time;
use chappe::{Interrupt, interruptible};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    Forever,
    Now,
    Until(Instant),
}

/// A time that no clock here reaches counts as none.
const AGES: f64 = 1e9;

impl Limit {
    /// From `timeout=`: `None` is for ever, 0 or less is now.
    pub fn of(timeout: Option<f64>) -> PyResult<Limit> {
        match timeout {
            None => Ok(Limit::Forever),
            Some(t) if t.is_nan() => Err(PyValueError::new_err("a timeout cannot be NaN")),
            Some(t) if t <= 0.0 => Ok(Limit::Now),
            Some(t) if t >= AGES => Ok(Limit::Forever),
            Some(t) => Ok(Limit::Until(Instant::now() + Duration::from_secs_f64(t))),
        }
    }

    /// From `acquire(blocking, timeout)` as the standard locks have it: -1 is for ever.
    pub fn of_lock(blocking: bool, timeout: Option<f64>) -> PyResult<Limit> {
        match timeout {
            _ if !blocking => Ok(Limit::Now),
            Some(-1.0) => Ok(Limit::Forever),
            _ => Limit::of(timeout),
        }
    }

    /// What is left of it.
    pub fn time(self) -> Time {
        match self {
            Limit::Forever => Time::Forever,
            Limit::Now => Time::Now,
            Limit::Until(at) => Time::Within(at.saturating_duration_since(Instant::now())),
        }
    }
}

/// What is done by the very thread that asks for it, although it passes through a closure that says it may go elsewhere.
struct Here<T>(T);

// SAFETY: `Python::detach` calls its closure in the thread that called it, and returns what it answers there.
unsafe impl<T> Send for Here<T> {}

/// Does something without the GIL. It must touch nothing of Python's.
pub fn detached<R>(py: Python<'_>, act: impl FnOnce() -> R) -> R {
    let act = Here(act);
    py.detach(move || {
        let act = act;
        Here((act.0)())
    })
    .0
}

/// Does what can be done at once; else waits. `None`: the time is up.
///
/// # Errors
/// What the operation failed with, or what a signal's handler raised.
pub fn wait<T, E: Failure>(
    py: Python<'_>,
    limit: Limit,
    mut act: impl FnMut(Time) -> Result<T, E>,
) -> PyResult<Option<T>> {
    match act(Time::Now) {
        Ok(done) => return Ok(Some(done)),
        Err(e) if !e.is_late() => return Err(failure(py, e)),
        Err(_) if limit == Limit::Now => return Ok(None),
        Err(_) => {}
    }
    wait_on(py, limit, act)
}

/// The same without the first try.
pub fn wait_on<T, E: Failure>(
    py: Python<'_>,
    limit: Limit,
    mut act: impl FnMut(Time) -> Result<T, E>,
) -> PyResult<Option<T>> {
    let interrupt = Interrupt::new();
    loop {
        let time = limit.time();
        match detached(py, || interruptible(&interrupt, || act(time))) {
            Ok(done) => return Ok(Some(done)),
            Err(e) if e.is_interrupted() => py.check_signals()?,
            Err(e) if e.is_late() => return Ok(None),
            Err(e) => return Err(failure(py, e)),
        }
    }
}
