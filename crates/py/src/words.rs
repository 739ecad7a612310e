//! A state with the waiters for its changes, and the words that the package's own parts share.

use crate::failure::failure;
use crate::had::Had;
use crate::place::{Pickled, Place};
use crate::state::{State, WORDS};
use chappe::Condvar;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;

/// A state, and the waiters for its changes.
pub struct Watched {
    /// The state.
    pub state: State,
    /// The waiters.
    pub condvar: Condvar,
}

impl Watched {
    /// That of this object.
    ///
    /// # Errors
    /// As those of the condition variable and of the mutex, as exceptions.
    pub fn had(py: Python<'_>, place: &Place, had: Had) -> PyResult<Watched> {
        let name = place.name();
        let condvar = match had {
            Had::Opened => Condvar::open(name),
            Had::Created => Condvar::create(name),
            Had::Either => Condvar::open_or_create(name),
        };
        let condvar = condvar.map_err(|e| failure(py, e))?;
        // A process that finds the variable that another has made may come before that one has made the words.
        let state = State::beside(py, name, &condvar, || {})?;
        Ok(Watched { state, condvar })
    }
}

/// Eight words of 64 bits that processes share, each changed as a whole. For the package's own parts.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Words {
    place: Place,
    state: State,
}

#[pymethods]
impl Words {
    #[new]
    #[pyo3(signature = (name = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>) -> PyResult<Words> {
        let had = |place: &Place| State::had(place.name(), Had::Either).map_err(|e| failure(py, e));
        let (state, place) = Place::made(py, name, 0, &["mutex"], had)?;
        Ok(Words { place, state })
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __getitem__(&self, at: usize) -> PyResult<u64> {
        checked(at)?;
        Ok(self.state.get(at))
    }

    fn __setitem__(&self, at: usize, value: u64) -> PyResult<()> {
        checked(at)?;
        self.state.set(at, value);
        Ok(())
    }

    /// Adds to a word; answers what it was.
    fn add(&self, at: usize, by: i64) -> PyResult<u64> {
        checked(at)?;
        // SeqCst: as in `State::get`.
        Ok(self.state.word(at).fetch_add(by as u64, Ordering::SeqCst))
    }

    /// Writes a word if it is what is expected; answers whether it was.
    fn swap(&self, at: usize, expected: u64, new: u64) -> PyResult<bool> {
        checked(at)?;
        // SeqCst, both: as in `State::get`.
        Ok(self.state.word(at).compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, (String,)> {
        Ok((slf.get_type().into_any(), (slf.get().place.sent(),)))
    }
}

fn checked(at: usize) -> PyResult<()> {
    if at < WORDS { Ok(()) } else { Err(PyIndexError::new_err(format!("there are {WORDS} words"))) }
}
