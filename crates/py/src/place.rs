//! Named objects, and objects without a name.
//!
//! A named object stays until it is removed. One without a name gets one, in the arena that this process has in common with those
//! that it forks (`Arena::family`; another one when that is full), and goes with the last handle of the last process:
//!
//! | | count |
//! |---|---|
//! | made, or unpickled | + 1 |
//! | a handle goes | - 1; at 0 its objects are removed |
//! | before a fork, for each handle of the process | + 1: the child's |
//! | pickled | + 1, for good: how often it will be unpickled, and when, is not known |
//!
//! What is large has an arena of its own, which goes with it.
//!
//! A process that is killed leaves its counts behind: then the object stays until the arena goes, which is when no process has it mapped
//! any more.

use crate::failure::{Kind, failure, raised};
use crate::had::Had;
use crate::state::{State, part};
use chappe::map::Map;
use chappe::tube::broadcast::Broadcast;
use chappe::tube::named::Tube;
use chappe::{Arena, ArenaOptions, Barrier, Condvar, Mutex, Pool, Semaphore};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError, Weak};

/// What pickle is told: what to call, and with what.
pub type Pickled<'py, A> = PyResult<(Bound<'py, PyAny>, A)>;

/// What begins the name of an object that nobody has named, once it is pickled.
const ANONYMOUS: &str = "family-";

/// An object that nobody has named, of so many bytes, gets an arena of its own.
const LARGE: u64 = 256 << 10;

static LAST: AtomicU64 = AtomicU64::new(0);

/// What goes with the last handle.
struct Counted {
    name: String,
    count: State,
    parts: OnceLock<Vec<(&'static str, String)>>,
}

static COUNTED: StdMutex<Vec<Weak<Counted>>> = StdMutex::new(Vec::new());

impl Drop for Counted {
    fn drop(&mut self) {
        // SeqCst: the one that comes to 0 is the last.
        if self.count.word(0).fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        for (kind, name) in self.parts.get().into_iter().flatten() {
            let _ = remove_one(kind, name);
        }
        let _ = remove_one("mutex", &part(&self.name, "count"));
        if let Some((arena, "alone")) = self.name.split_once('/') {
            let _ = Arena::remove(arena, true);
        }
    }
}

/// The name of an object, and what goes with it.
#[derive(Clone)]
pub struct Place {
    name: String,
    counted: Option<Arc<Counted>>,
}

impl Place {
    /// What `make` makes at the place of what the user has given: a string, something like a path, or `None`. `parts` is what goes with the last
    /// handle of an object that nobody has named: `pool`, or `pool+part`. Such an object is made where there is room: in an arena of
    /// its own, if it has many bytes; in an arena of the family that is not full; or in a new one.
    ///
    /// # Errors
    /// What `make` gives; `TypeError`; as [`Arena::family`].
    pub fn made<T>(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        bytes: u64,
        parts: &[&'static str],
        make: impl Fn(&Place) -> PyResult<T>,
    ) -> PyResult<(T, Place)> {
        let at = |place: Place| {
            place.owns(parts);
            make(&place).map(|made| (made, place))
        };
        if let Some(given) = name {
            return at(Place::of(py, given)?);
        }
        if bytes >= LARGE {
            let data = Some((bytes + LARGE).min(u64::from(u32::MAX)));
            let options = ArenaOptions { members: Some(1024), objects: Some(64), cells: Some(64), data };
            let arena = Arena::apart(&options).map_err(|e| failure(py, e))?;
            return at(Place::counted(py, format!("{}/alone", arena.name()))?);
        }
        let mut full = Vec::new();
        loop {
            let (arena, is_new) = Arena::family_but(&full).map_err(|e| failure(py, e))?;
            // Relaxed: only to be another one each time.
            let (pid, next) = (std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
            match Place::counted(py, format!("{}/py{pid}.{next}", arena.name())).and_then(&at) {
                Err(e) if !is_new && is_no_space(py, &e) => full.push(arena),
                made => return made,
            }
        }
    }

    fn of(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Place> {
        let no_name = || PyTypeError::new_err(format!("a name is a string or a path, not {}", given.get_type()));
        // What a path raises itself goes its way.
        let text = match given.cast::<PyString>() {
            Ok(text) => text.clone(),
            Err(_) if given.hasattr("__fspath__")? => {
                given.call_method0("__fspath__")?.cast_into().map_err(|_| no_name())?
            }
            Err(_) => return Err(no_name()),
        };
        let name: String = text.extract().map_err(|e| {
            PyValueError::new_err(format!(
                "{} is not a valid name: {e}",
                text.repr().map_or_else(|_| "it".into(), |r| r.to_string())
            ))
        })?;
        if name.starts_with(ANONYMOUS) && name.contains('/') {
            Place::counted(py, name)
        } else {
            Ok(Place { name, counted: None })
        }
    }

    fn counted(py: Python<'_>, name: String) -> PyResult<Place> {
        let count = State::had(&part(&name, "count"), Had::Either).map_err(|e| failure(py, e))?;
        count.word(0).fetch_add(1, Ordering::SeqCst); // SeqCst: as in `drop`.
        let counted = Arc::new(Counted { name: name.clone(), count, parts: OnceLock::new() });
        let mut all = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|c| c.strong_count() > 0);
        all.push(Arc::downgrade(&counted));
        Ok(Place { name, counted: Some(counted) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name in messages; `(unnamed)` for an object without a name, since its generated name means nothing to the
    /// user.
    pub fn shown(&self) -> &str {
        if self.counted.is_some() { "(unnamed)" } else { &self.name }
    }

    /// Its name for another process.
    pub fn sent(&self) -> String {
        if let Some(counted) = &self.counted {
            counted.count.word(0).fetch_add(1, Ordering::SeqCst); // SeqCst: as in `drop`.
        }
        self.name.clone()
    }

    /// What is removed with it, if nobody has named it.
    fn owns(&self, parts: &[&'static str]) {
        if let Some(counted) = &self.counted {
            let named = parts.iter().map(|kind| match kind.split_once('+') {
                Some((kind, of)) => (kind, part(&self.name, of)),
                None => (*kind, self.name.clone()),
            });
            let _ = counted.parts.set(named.collect());
        }
    }
}

fn is_no_space(py: Python<'_>, e: &PyErr) -> bool {
    e.is_instance_of::<PyOSError>(py) && e.get_type(py).name().is_ok_and(|name| name == "NoSpace")
}

fn remove_one(kind: &str, name: &str) -> Result<(), (Kind, String)> {
    use crate::failure::Failure;
    fn told<E: Failure>(e: E) -> (Kind, String) {
        (e.kind(), e.to_string())
    }
    match kind {
        "pool" => Pool::remove(name, true).map_err(told),
        "semaphore" => Semaphore::remove(name, true).map_err(told),
        "condvar" => Condvar::remove(name, true).map_err(told),
        "tube" => Tube::remove(name, true).map_err(told),
        "broadcast" => Broadcast::remove(name, true).map_err(told),
        "map" => Map::unmake(name, true).map_err(told),
        "barrier" => Barrier::remove(name, true).map_err(told),
        _ => Mutex::remove(name, true).map_err(told),
    }
}

/// Removes a pool that is part of an object.
pub fn without(name: &str, of: &str) {
    let _ = remove_one("pool", &part(name, of));
}

/// Counts the handles of this process once more, for the child that is about to be forked.
#[pyfunction]
#[pyo3(name = "_before_fork")]
pub fn before_fork() {
    let all = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    for counted in all.iter().filter_map(Weak::upgrade) {
        counted.count.word(0).fetch_add(1, Ordering::SeqCst); // SeqCst: as in `drop`.
    }
}

/// Removes a named object, with all that belongs to it. One in use is refused with `InUse`, unless `force`: then its
/// users get `Removed`.
#[pyfunction]
#[pyo3(signature = (name, *, force = false))]
pub fn remove(py: Python<'_>, name: &Bound<'_, PyAny>, force: bool) -> PyResult<()> {
    let place = Place::of(py, name)?;
    let name = place.name().to_owned();
    crate::wait::detached(py, || {
        let (arena, object) = name.split_once('/').unwrap_or(("default", &name));
        let tell = |e: &dyn std::fmt::Display, kind| (kind, e.to_string());
        use crate::failure::Failure;
        let arena = Arena::open(arena).map_err(|e| tell(&e, e.kind()))?;
        let info = arena.object(object).map_err(|e| tell(&e, e.kind()))?;
        match info.kind {
            "pool" => Pool::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
            "semaphore" => Semaphore::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
            "condition variable" => Condvar::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
            "tube" => Tube::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
            "broadcast tube" => Broadcast::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
            "map" => Map::unmake(&name, force).map_err(|e| tell(&e, e.kind()))?,
            "barrier" => Barrier::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
            _ => Mutex::remove(&name, force).map_err(|e| tell(&e, e.kind()))?,
        }
        for (kind, of) in [("mutex", "words"), ("pool", "gate")] {
            if arena.has(&part(object, of)) {
                let _ = remove_one(kind, &part(&name, of));
            }
        }
        Ok(())
    })
    .map_err(|(kind, text)| raised(py, kind, text.replace("with --force", "with `force=True`")))
}

/// The objects of an arena: a list of `(name, kind, how many wait)`.
#[pyfunction]
#[pyo3(name = "_show", signature = (arena = "default"))]
pub fn show(py: Python<'_>, arena: &str) -> PyResult<Vec<(String, &'static str, u32, String)>> {
    let arena = Arena::open(arena).map_err(|e| failure(py, e))?;
    let told = |o: chappe::ObjectInfo| (o.name, o.kind, o.waiting, format!("{:?}", o.state));
    Ok(arena.objects().into_iter().map(told).collect())
}

/// Says what this process calls itself in listings.
#[pyfunction]
#[pyo3(name = "set_label")]
pub fn label(text: &str) {
    chappe::set_label(text);
}
