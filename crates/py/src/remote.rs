//! Objects on an engine that many machines share. `remote.py` gives them Python's habits.

use crate::failure::{Failure, Kind, failure};
use crate::wait::{Limit, detached};
use chappe::raw::Time;
use chappe::remote::{self, Interrupt, LockError, Loss, Patience, RemoteError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

impl Failure for RemoteError {
    fn is_late(&self) -> bool {
        matches!(self, RemoteError::WouldBlock { .. } | RemoteError::Timeout { .. })
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, RemoteError::Interrupted { .. })
    }
    fn kind(&self) -> Kind {
        match self {
            RemoteError::WouldBlock { .. } | RemoteError::Timeout { .. } | RemoteError::Interrupted { .. } => {
                Kind::Late
            }
            RemoteError::Unknown { .. } => Kind::NotFound,
            RemoteError::Exists { .. } => Kind::Exists,
            RemoteError::Other { .. } => Kind::Mismatch,
            RemoteError::Removed { .. } => Kind::Removed,
            RemoteError::InUse { .. } => Kind::InUse,
            RemoteError::Sealed { .. } => Kind::Disconnected,
            RemoteError::SenderDied { .. } => Kind::SenderDied,
            RemoteError::Unreachable { .. } | RemoteError::Silent { .. } => Kind::Unreachable,
            RemoteError::Unsure { .. } => Kind::Unsure,
            RemoteError::Lost { .. } => Kind::Lost,
            RemoteError::Inherited { .. } => Kind::Inherited,
            RemoteError::Invalid(_) | RemoteError::TooMany { .. } | RemoteError::Overflow { .. } => Kind::Value,
            _ => Kind::System,
        }
    }
}

struct Lost(Loss);

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it is lost: {}", self.0)
    }
}

impl Failure for Lost {
    fn kind(&self) -> Kind {
        if self.0 == Loss::Inherited { Kind::Inherited } else { Kind::Lost }
    }
}

fn patience(timeout: Option<f64>) -> PyResult<Patience> {
    Ok(match Limit::of(timeout)?.time() {
        Time::Forever => Patience::Forever,
        Time::Now => Patience::Now,
        Time::Within(time) => Patience::For(time),
    })
}

/// Waits without the GIL, until a signal's handler raises.
fn waits<T, E: Failure>(py: Python<'_>, act: impl FnOnce(Interrupt<'_>) -> Result<T, E>) -> PyResult<T> {
    let raised = Cell::new(None);
    let ends = || {
        let is_raised = |e| raised.set(Some(e));
        Python::attach(|py| py.check_signals()).map_err(is_raised).is_err()
    };
    let done = detached(py, || act(Some(&ends)));
    match raised.take() {
        // What came all the same is dropped, and so given back: not a unit, which has no owner.
        Some(e) => Err(e),
        None => done.map_err(|e| failure(py, e)),
    }
}

fn calls<T>(py: Python<'_>, act: impl FnOnce() -> Result<T, RemoteError>) -> PyResult<T> {
    detached(py, act).map_err(|e| failure(py, e))
}

/// A namespace of an engine.
#[pyclass(frozen, subclass, module = "chappe._chappe", name = "Remote")]
pub struct Remote(remote::Remote);

#[pymethods]
impl Remote {
    #[new]
    #[pyo3(signature = (place, label=None))]
    fn new(py: Python<'_>, place: &str, label: Option<&str>) -> PyResult<Remote> {
        let connect = || match label {
            Some(label) => {
                remote::Remote::connect(&remote::place::Place::of(place).map_err(RemoteError::Invalid)?, label)
            }
            None => remote::Remote::open(place),
        };
        calls(py, connect).map(Remote)
    }

    #[pyo3(signature = (name, permits=1))]
    fn create_pool(&self, py: Python<'_>, name: &str, permits: u32) -> PyResult<()> {
        calls(py, || self.0.create_pool(name, permits).map(drop))
    }

    fn resize_pool(&self, py: Python<'_>, name: &str, permits: u32) -> PyResult<()> {
        calls(py, || self.0.pool(name)?.resize(permits))
    }

    fn look_at_pool(&self, py: Python<'_>, name: &str) -> PyResult<(u32, u32, u32)> {
        calls(py, || self.0.pool(name)?.info().map(|now| (now.permits, now.held, now.waiting)))
    }

    fn create_mutex(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        calls(py, || self.0.create_mutex(name).map(drop))
    }

    #[pyo3(signature = (name, units=0))]
    fn create_semaphore(&self, py: Python<'_>, name: &str, units: u32) -> PyResult<()> {
        calls(py, || self.0.create_semaphore(name, units).map(drop))
    }

    #[pyo3(signature = (name, pages=16, size=65536))]
    fn create_tube(&self, py: Python<'_>, name: &str, pages: u64, size: u64) -> PyResult<()> {
        calls(py, || self.0.create_tube(name, pages, size).map(drop))
    }

    #[pyo3(signature = (name, force=false))]
    fn remove(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<()> {
        calls(py, || self.0.remove(name, force))
    }

    #[pyo3(signature = (*pools, permits=1, timeout=None))]
    fn acquire(&self, py: Python<'_>, pools: Vec<String>, permits: u32, timeout: Option<f64>) -> PyResult<Permit> {
        let patience = patience(timeout)?;
        if permits != 1 && pools.len() > 1 {
            let text = format!("{permits} permits come from one pool, and {} are named", pools.len());
            return Err(PyValueError::new_err(text));
        }
        let (which, permit) = waits(py, |interrupt| {
            let all = pools.iter().map(|name| self.0.pool(name)).collect::<Result<Vec<_>, _>>()?;
            match all.as_slice() {
                [pool] => Ok((0, remote::acquire_many_until(pool, permits, patience, interrupt)?)),
                some => remote::acquire_any_until(&some.iter().collect::<Vec<_>>(), patience, interrupt),
            }
        })?;
        Ok(Permit { which, held: Mutex::new(Some(Held::Permit(permit))) })
    }

    #[pyo3(signature = (name, timeout=None))]
    fn _lock(&self, py: Python<'_>, name: &str, timeout: Option<f64>) -> PyResult<Permit> {
        let patience = patience(timeout)?;
        let guard =
            waits(py, |interrupt| self.0.mutex(name)?.lock_until(patience, interrupt).or_else(LockError::into_guard))?;
        Ok(Permit { which: 0, held: Mutex::new(Some(Held::Guard(guard))) })
    }

    #[pyo3(signature = (name, units=1))]
    fn up(&self, py: Python<'_>, name: &str, units: u32) -> PyResult<u32> {
        calls(py, || self.0.semaphore(name)?.up(units))
    }

    #[pyo3(signature = (name, timeout=None))]
    fn down(&self, py: Python<'_>, name: &str, timeout: Option<f64>) -> PyResult<()> {
        let (patience, had) = (patience(timeout)?, Cell::new(false));
        let waited = waits(py, |interrupt| {
            let came = self.0.semaphore(name)?.down_until(patience, interrupt);
            had.set(came.is_ok());
            came
        });
        if waited.is_err() && had.get() {
            // It came while a signal's handler raised: nobody else would have it.
            let _ = detached(py, || self.0.semaphore(name).and_then(|sem| sem.up(1)));
        }
        waited
    }

    fn value(&self, py: Python<'_>, name: &str) -> PyResult<u32> {
        calls(py, || self.0.semaphore(name)?.value())
    }

    fn sender(&self, py: Python<'_>, tube: &str) -> PyResult<Sender> {
        calls(py, || self.0.tube(tube)?.sender()).map(|sender| Sender(Mutex::new(Some(sender))))
    }

    #[pyo3(signature = (tube, follows=false))]
    fn receiver(&self, py: Python<'_>, tube: &str, follows: bool) -> PyResult<Receiver> {
        let make = || {
            let tube = self.0.tube(tube)?;
            if follows { tube.follower() } else { tube.receiver() }
        };
        calls(py, make).map(|receiver| Receiver(Mutex::new(Some(receiver))))
    }

    fn seal(&self, py: Python<'_>, tube: &str) -> PyResult<()> {
        calls(py, || self.0.tube(tube)?.seal())
    }
}

enum Held {
    Permit(remote::Permit),
    Guard(remote::Guard),
}

/// Permits of a pool, or a mutex.
#[pyclass(frozen, module = "chappe._chappe", name = "RemotePermit")]
pub struct Permit {
    which: usize,
    /// None: it was given back.
    held: Mutex<Option<Held>>,
}

impl Permit {
    fn with<T>(&self, look: impl FnOnce(&Held) -> T) -> PyResult<T> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(look).ok_or_else(|| PyRuntimeError::new_err("it was given back"))
    }

    fn take(&self) -> Option<Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Permit {
    /// One that nobody gave back was dropped by an exception that ends its function, or the program: the next holder of a mutex is told.
    fn drop(&mut self) {
        if let Some(held) = self.take() {
            Python::attach(|py| abandoned(py, held));
        }
    }
}

fn abandoned(py: Python<'_>, held: Held) {
    match held {
        Held::Guard(guard) => detached(py, || guard.abandon()),
        Held::Permit(permit) => detached(py, || drop(permit)),
    }
}

#[pymethods]
impl Permit {
    /// Which of the pools that were named it is of.
    #[getter]
    fn which(&self) -> usize {
        self.which
    }

    /// Its pool, or the mutex.
    #[getter]
    fn name(&self) -> PyResult<String> {
        self.with(|held| match held {
            Held::Permit(permit) => permit.pool().to_owned(),
            Held::Guard(guard) => guard.name().to_owned(),
        })
    }

    /// Which permits of the pool these are.
    #[getter]
    fn indices(&self) -> PyResult<Vec<u32>> {
        self.with(|held| match held {
            Held::Permit(permit) => permit.indices().to_vec(),
            Held::Guard(_) => vec![0],
        })
    }

    /// Of a mutex: its last holder died.
    #[getter]
    fn owner_died(&self) -> PyResult<bool> {
        self.with(|held| matches!(held, Held::Guard(guard) if guard.owner_died()))
    }

    /// The token, if it is certainly still held; raises Lost. No call to the engine.
    fn check(&self, py: Python<'_>) -> PyResult<u64> {
        let token = self.with(|held| match held {
            Held::Permit(permit) => permit.check(),
            Held::Guard(guard) => guard.check(),
        })?;
        token.map(remote::Token::get).map_err(|why| failure(py, Lost(why)))
    }

    /// A descriptor that is readable from the loss on: so it is an arm of `select`.
    fn fileno(&self) -> PyResult<i32> {
        self.with(|held| match held {
            Held::Permit(permit) => permit.lost().as_raw_fd(),
            Held::Guard(guard) => guard.lost().as_raw_fd(),
        })
    }

    /// For how many seconds it is certain if no renewal is answered from now on.
    fn left(&self) -> PyResult<f64> {
        self.with(|held| match held {
            Held::Permit(permit) => permit.left().as_secs_f64(),
            Held::Guard(guard) => guard.left().as_secs_f64(),
        })
    }

    /// What the mutex guards is whole again.
    fn consistent(&self) -> PyResult<()> {
        self.with(|held| match held {
            Held::Permit(_) => Err(PyValueError::new_err("a permit of a pool guards nothing that could be consistent")),
            Held::Guard(guard) => {
                guard.make_consistent();
                Ok(())
            }
        })?
    }

    /// Gives it back; raises Lost if it was not held until now. Once.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        match self.take() {
            Some(Held::Permit(permit)) => calls(py, || permit.release()),
            Some(Held::Guard(guard)) => calls(py, || guard.unlock()),
            None => Ok(()),
        }
    }

    /// The same of a section that raised: the next holder of a mutex is told.
    fn abandon(&self, py: Python<'_>) {
        if let Some(held) = self.take() {
            abandoned(py, held);
        }
    }
}

/// A sender of a tube.
#[pyclass(frozen, module = "chappe._chappe", name = "RemoteSender")]
pub struct Sender(Mutex<Option<remote::Sender>>);

/// A receiver of a tube.
#[pyclass(frozen, module = "chappe._chappe", name = "RemoteReceiver")]
pub struct Receiver(Mutex<Option<remote::Receiver>>);

impl Drop for Sender {
    /// One that nobody closed has not finished, as one whose process is killed.
    fn drop(&mut self) {
        if let Some(sender) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Python::attach(|py| detached(py, || sender.abandon()));
        }
    }
}

impl Drop for Receiver {
    /// One that nobody closed has not finished with what came last, as one whose process is killed.
    fn drop(&mut self) {
        if let Some(receiver) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Python::attach(|py| detached(py, || receiver.abandon()));
        }
    }
}

fn alone<T>(end: &Mutex<Option<T>>) -> PyResult<MutexGuard<'_, Option<T>>> {
    end.try_lock().map_err(|_| PyRuntimeError::new_err("another thread is in a call with this end of a tube"))
}

fn closed() -> PyErr {
    PyValueError::new_err("this end of a tube is closed")
}

/// What was not sent, as Python has it.
struct NotSent(remote::SendError);

impl std::fmt::Display for NotSent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Failure for NotSent {
    fn kind(&self) -> Kind {
        if self.0.unsure > 0 { Kind::Unsure } else { self.0.why.kind() }
    }
}

#[pymethods]
impl Sender {
    /// Sends records in their order, many in one transaction.
    #[pyo3(signature = (records, timeout=None))]
    fn send_all(&self, py: Python<'_>, records: Vec<Vec<u8>>, timeout: Option<f64>) -> PyResult<()> {
        let (patience, mut sender) = (patience(timeout)?, alone(&self.0)?);
        let sender = sender.as_mut().ok_or_else(closed)?;
        waits(py, |interrupt| sender.send_all_until(&records, patience, interrupt).map_err(NotSent))
    }

    /// Has finished, or, with `raised`, has not.
    #[pyo3(signature = (raised=false))]
    fn _close(&self, py: Python<'_>, raised: bool) -> PyResult<()> {
        let sender = alone(&self.0)?.take();
        detached(py, || if raised { sender.map(remote::Sender::abandon) } else { sender.map(drop) });
        Ok(())
    }
}

#[pymethods]
impl Receiver {
    /// A record, its token, and whether it came before; None at the end.
    #[pyo3(signature = (timeout=None))]
    fn _recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(Vec<u8>, u64, bool)>> {
        let (patience, mut receiver) = (patience(timeout)?, alone(&self.0)?);
        let receiver = receiver.as_mut().ok_or_else(closed)?;
        let got = waits(py, |interrupt| receiver.recv_until(patience, interrupt))?;
        Ok(got.map(|record| (record.bytes, record.token.get(), record.again)))
    }

    /// Whether what came last certainly comes to no other; raises Lost. No call to the engine.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let checked = alone(&self.0)?.as_ref().ok_or_else(closed)?.check();
        checked.map_err(|why| failure(py, Lost(why)))
    }

    /// Has finished with what came last, or, with `raised`, has not.
    #[pyo3(signature = (raised=false))]
    fn _close(&self, py: Python<'_>, raised: bool) -> PyResult<()> {
        let receiver = alone(&self.0)?.take();
        detached(py, || if raised { receiver.map(remote::Receiver::abandon) } else { receiver.map(drop) });
        Ok(())
    }
}
