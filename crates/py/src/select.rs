//! One call that waits for several things, and does exactly one.

use crate::barrier::{Arrival, Barrier};
use crate::broadcast::Subscription;
use crate::clock::{Clock, monotonic};
use crate::failure::failure;
use crate::lock::{Core, Lock};
use crate::pool::Pool;
use crate::semaphore::Semaphore;
use crate::tube::{Data, Tube};
use crate::wait::{Limit, wait};
use chappe::raw::{Hold, Time, hear_chosen};
use chappe::tube::broadcast::Subscription as Ear;
use chappe::tube::named::{NotReceived, Receiver, Sender};
use chappe::{BarrierError, Pool as Permits, Select, SelectError, Semaphore as Units};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

/// One of the things to choose among.
enum Arm<'py> {
    Acquire(Bound<'py, Pool>, Permits),
    Lock(Bound<'py, Lock>, Arc<Core>),
    Down(Units),
    Recv(Bound<'py, Tube>, Box<Receiver<[u8]>>),
    Send(Bound<'py, Tube>, Box<Sender<[u8]>>, Vec<u8>),
    Hear(Bound<'py, Subscription>, Box<Ear<[u8]>>),
    Turn(Bound<'py, Arrival>),
    Strike(Bound<'py, Clock>),
    Ready(BorrowedFd<'py>, bool),
}

impl Drop for Arms<'_> {
    fn drop(&mut self) {
        for arm in self.0.drain(..) {
            match arm {
                Arm::Recv(tube, end) => tube.get().receiver_back(end),
                Arm::Send(tube, end, _) => tube.get().sender_back(end),
                Arm::Hear(subscription, end) => subscription.get().back(end),
                _ => {}
            }
        }
    }
}

struct Arms<'py>(Vec<Arm<'py>>);

/// What was done.
enum Done {
    Permit(Hold),
    Locked(bool),
    Record(Vec<u8>, bool),
    Turned(Result<u32, BarrierError>),
    Moment(Instant),
    Plain,
    Ended,
    /// A subscription got nothing.
    Unheard(NotReceived),
    Failed(std::io::Error),
}

fn descriptor<'py>(arm: &Bound<'py, PyAny>, writes: bool) -> PyResult<Arm<'py>> {
    let fd: RawFd = match arm.extract() {
        Ok(fd) => fd,
        Err(_) => arm.call_method0("fileno").and_then(|fd| fd.extract()).map_err(|_| unknown(arm))?,
    };
    if fd < 0 {
        return Err(PyTypeError::new_err("a descriptor is not negative: the file is closed"));
    }
    // SAFETY: the file object that owns the descriptor keeps it open during the call; the system reports a closed one.
    Ok(Arm::Ready(unsafe { BorrowedFd::borrow_raw(fd) }, writes))
}

fn unknown(arm: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "an arm is pool.acquire, lock.acquire, semaphore.down, tube.recv, tube.get, subscription.recv, barrier.arrive().wait, (tube.send, data), clock.recv, a file, or (file, \"w\"), not {arm}"
    ))
}

fn arm<'py>(given: &Bound<'py, PyAny>) -> PyResult<Arm<'py>> {
    let py = given.py();
    let (method, more) = match given.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, Some(pair.get_item(1)?)),
        Ok(_) => return Err(unknown(given)),
        Err(_) => (given.clone(), None),
    };
    let Ok(of) = method.getattr("__self__") else {
        let writes = more.as_ref().is_some_and(|m| m.extract::<String>().is_ok_and(|m| m == "w"));
        return descriptor(&method, writes);
    };
    let name: String = method.getattr("__name__")?.extract()?;
    if let Ok(pool) = of.cast::<Pool>()
        && name == "acquire"
    {
        return Ok(Arm::Acquire(pool.clone(), pool.get().pool.clone()));
    }
    if let Ok(lock) = of.cast::<Lock>()
        && name == "acquire"
    {
        return Ok(Arm::Lock(lock.clone(), lock.get().0.clone()));
    }
    if let Ok(semaphore) = of.cast::<Semaphore>()
        && ["down", "acquire"].contains(&name.as_str())
    {
        return Ok(Arm::Down(semaphore.get().units.clone()));
    }
    if let Ok(arrival) = of.cast::<Arrival>()
        && name == "wait"
    {
        arrival.get().mine()?;
        return Ok(Arm::Turn(arrival.clone()));
    }
    if of.cast::<Barrier>().is_ok() && name == "wait" {
        let text = "barrier.wait is no arm: it arrives, and that would stay done if another arm is chosen. Arrive first, \
                    `arrival = barrier.arrive()`, then choose with `arrival.wait`";
        return Err(PyTypeError::new_err(text));
    }
    if let Ok(clock) = of.cast::<Clock>()
        && name == "recv"
    {
        return Ok(Arm::Strike(clock.clone()));
    }
    if let Ok(subscription) = of.cast::<Subscription>()
        && name == "recv"
    {
        return Ok(Arm::Hear(subscription.clone(), subscription.get().lend()?));
    }
    if let Ok(tube) = of.cast::<Tube>() {
        match (name.as_str(), more) {
            ("recv" | "get", None) => {
                let end = tube.get().receiver().map_err(|e| failure(py, e))?;
                return Ok(Arm::Recv(tube.clone(), end));
            }
            ("send" | "put", Some(data)) => {
                let data = Data::of_tube(&data, tube.get())?.bytes().to_vec();
                let end = tube.get().sender().map_err(|e| failure(py, e))?;
                return Ok(Arm::Send(tube.clone(), end, data));
            }
            _ => {}
        }
    }
    Err(unknown(given))
}

fn choose(arms: &[Arm<'_>], time: Time) -> Result<(usize, Done), SelectError> {
    let mut select = Select::new();
    for arm in arms {
        match arm {
            Arm::Acquire(_, pool) => select.acquire(pool),
            Arm::Lock(_, core) => select.acquire(&core.pool),
            Arm::Down(units) => select.down(units),
            Arm::Recv(_, end) => select.recv_on(&**end),
            Arm::Send(_, end, _) => select.send_on(&**end),
            Arm::Hear(_, end) => select.recv_on(&**end),
            Arm::Turn(arrival) => select.turn(arrival.get().of_this_thread()),
            Arm::Strike(clock) => select.recv(&clock.get().moments),
            Arm::Ready(fd, false) => select.readable(fd),
            Arm::Ready(fd, true) => select.writable(fd),
        };
    }
    let chosen = match time {
        Time::Now => select.try_wait()?,
        Time::Forever => select.wait()?,
        Time::Within(d) => select.wait_timeout(d)?,
    };
    let at = chosen.index();
    // SAFETY: the calling thread's, of a pool with a name.
    let ours = |hold: Hold| unsafe { hold.into_process() }.map_err(|_| SelectError::Interrupted);
    let gone = |e: chappe::AcquireError| SelectError::Dead { arm: at, name: e.to_string() };
    let done = match &arms[at] {
        Arm::Acquire(_, pool) => Done::Permit(ours(Hold::of(chosen.permit(pool).map_err(gone)?))?),
        Arm::Lock(_, core) => {
            let hold = ours(Hold::of(chosen.permit(&core.pool).map_err(gone)?))?;
            Done::Locked(core.entered(hold))
        }
        Arm::Down(units) => chosen.down(units).map_or(Done::Ended, |()| Done::Plain),
        Arm::Recv(_, end) => {
            chosen.recv_redelivered(end).map_or(Done::Ended, |(record, again)| Done::Record(record, again))
        }
        Arm::Send(_, end, data) => chosen.send_on(&**end, data.clone()).map_or(Done::Ended, |()| Done::Plain),
        Arm::Hear(_, end) => {
            let mut message = vec![0; end.size()];
            match hear_chosen(chosen, end, &mut message) {
                Ok(len) => {
                    message.truncate(len);
                    Done::Record(message, false)
                }
                Err(e) => Done::Unheard(e),
            }
        }
        Arm::Turn(arrival) => Done::Turned(chosen.turn(arrival.get().of_this_thread()).map(|turn| turn.index)),
        Arm::Strike(clock) => chosen.recv(&clock.get().moments).map_or(Done::Ended, Done::Moment),
        Arm::Ready(..) => chosen.descriptor().map_or_else(Done::Failed, |()| Done::Plain),
    };
    Ok((at, done))
}

/// Waits until one of several things can be done, and does that one alone: its number, and what came of it.
///
/// `None`: the time was up. For the package's own parts.
#[pyfunction]
#[pyo3(name = "_select", signature = (arms, timeout = None))]
pub fn select<'py>(
    py: Python<'py>,
    arms: Vec<Bound<'py, PyAny>>,
    timeout: Option<f64>,
) -> PyResult<Option<(usize, &'static str, Bound<'py, PyAny>)>> {
    // What the first arms have lent goes back also where a later one is refused.
    let mut lent = Arms(Vec::with_capacity(arms.len()));
    for given in &arms {
        lent.0.push(arm(given)?);
    }
    let arms = lent;
    let Some((at, done)) = wait(py, Limit::of(timeout)?, |time| choose(&arms.0, time))? else { return Ok(None) };
    let none = py.None().into_bound(py);
    let (how, value) = match (done, &arms.0[at]) {
        (Done::Permit(hold), Arm::Acquire(pool, _)) => ("permit", Pool::permit(pool, hold)?.into_bound(py).into_any()),
        (Done::Locked(died), Arm::Lock(lock, core)) => {
            core.tell(py, died)?;
            ("lock", lock.clone().into_any())
        }
        (Done::Record(record, again), _) => {
            (if again { "again" } else { "record" }, PyBytes::new(py, &record).into_any())
        }
        (Done::Turned(turned), Arm::Turn(arrival)) => {
            ("done", arrival.get().chosen(py, turned)?.into_pyobject(py)?.into_any())
        }
        (Done::Moment(moment), _) => ("done", monotonic(py, moment)?.into_pyobject(py)?.into_any()),
        (Done::Failed(e), Arm::Ready(fd, _)) => {
            let text = format!("arm {at} of the choice, descriptor {}: {e}", fd.as_raw_fd());
            return Err(PyOSError::new_err((e.raw_os_error(), text)));
        }
        (Done::Ended, _) => ("ended", none),
        (Done::Unheard(e), _) => return Err(failure(py, e)),
        _ => ("done", none),
    };
    Ok(Some((at, how, value)))
}
