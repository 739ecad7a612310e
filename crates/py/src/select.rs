//! One call that waits for several things, and does exactly one.

use crate::barrier::{Arrival, Barrier};
use crate::broadcast::{Lent as LentEar, Subscription};
use crate::clock::{Clock, monotonic};
use crate::failure::failure;
use crate::lock::{Core, Lock};
use crate::pool::Pool;
use crate::semaphore::Semaphore;
use crate::task::Task;
use crate::tube::{Data, Lent, Tube};
use crate::wait::{Limit, wait};
use chappe::raw::{self, Armed, Hold, Time, hear_chosen};
use chappe::task::choice::{self, Chosen, End, Seated};
use chappe::task::ends::{Acquire, Down, Ready};
use chappe::tube::named::{NotReceived, Receiver, Sender};
use chappe::{AcquireError, BarrierError, Pool as Permits, ReceivingEnd, SelectError, Semaphore as Units, SendingEnd};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

/// One of the things to choose among.
enum Arm {
    Acquire(Py<Pool>, Permits),
    Lock(Py<Lock>, Arc<Core>),
    Down(Units),
    Recv(Lent<Receiver<[u8]>>),
    Send(Lent<Sender<[u8]>>, Vec<u8>),
    Hear(LentEar),
    Turn(Py<Arrival>),
    Strike(Py<Clock>),
    Ready(File, bool),
}

/// A descriptor, and what keeps it open.
struct File {
    fd: RawFd,
    _kept: Py<PyAny>,
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the file object is there, and keeps it open unless it is closed by hand: the system reports that.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

// SAFETY: what it has makes the same arm each time.
unsafe impl End for Arm {
    fn armed(&self) -> Armed<'_> {
        match self {
            Arm::Acquire(_, pool) => raw::acquire(pool),
            Arm::Lock(_, core) => raw::acquire(&core.pool),
            Arm::Down(units) => raw::down(units),
            Arm::Recv(end) => (**end).__arm(),
            Arm::Send(end, _) => (**end).__arm(),
            Arm::Hear(ear) => (**ear).__arm(),
            Arm::Turn(arrival) => raw::turn(arrival.get().of_this_thread()),
            Arm::Strike(clock) => clock.get().moments.__arm(),
            Arm::Ready(file, false) => Armed::readable(file),
            Arm::Ready(file, true) => Armed::writable(file),
        }
    }
}

/// What was done.
enum Done {
    Permit(Hold),
    Locked(bool),
    Record(Vec<u8>),
    Turned(Result<u32, BarrierError>),
    Moment(Instant),
    Plain,
    Ended,
    /// A subscription got nothing.
    Unheard(NotReceived),
    Failed(std::io::Error),
}

fn descriptor(arm: &Bound<'_, PyAny>, writes: bool) -> PyResult<Arm> {
    let fd: RawFd = match arm.extract() {
        Ok(fd) => fd,
        Err(_) => arm.call_method0("fileno").and_then(|fd| fd.extract()).map_err(|_| unknown(arm))?,
    };
    if fd < 0 {
        return Err(PyTypeError::new_err("a descriptor is not negative: the file is closed"));
    }
    Ok(Arm::Ready(File { fd, _kept: arm.clone().unbind() }, writes))
}

fn unknown(arm: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "an arm is pool.acquire, lock.acquire, semaphore.down, tube.recv, tube.get, subscription.recv, barrier.arrive().wait, (tube.send, data), clock.recv, a file, or (file, \"w\"), not {arm}"
    ))
}

fn arm(given: &Bound<'_, PyAny>) -> PyResult<Arm> {
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
        return Ok(Arm::Acquire(pool.clone().unbind(), pool.get().pool.clone()));
    }
    if let Ok(lock) = of.cast::<Lock>()
        && name == "acquire"
    {
        return Ok(Arm::Lock(lock.clone().unbind(), lock.get().0.clone()));
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
        return Ok(Arm::Turn(arrival.clone().unbind()));
    }
    if of.cast::<Barrier>().is_ok() && name == "wait" {
        let text = "barrier.wait is no arm: it arrives, and that would stay done if another arm is chosen. Arrive first, \
                    `arrival = barrier.arrive()`, then choose with `arrival.wait`";
        return Err(PyTypeError::new_err(text));
    }
    if let Ok(clock) = of.cast::<Clock>()
        && name == "recv"
    {
        return Ok(Arm::Strike(clock.clone().unbind()));
    }
    if let Ok(subscription) = of.cast::<Subscription>()
        && name == "recv"
    {
        return Ok(Arm::Hear(LentEar::of(subscription)?));
    }
    if let Ok(tube) = of.cast::<Tube>() {
        match (name.as_str(), more) {
            ("recv" | "get", None) => {
                return Ok(Arm::Recv(tube.get().lent_receiver().map_err(|e| failure(py, e))?));
            }
            ("send" | "put", Some(data)) => {
                let data = Data::of_tube(&data, tube.get())?.bytes().to_vec();
                return Ok(Arm::Send(tube.get().lent_sender().map_err(|e| failure(py, e))?, data));
            }
            _ => {}
        }
    }
    Err(unknown(given))
}

fn choose(arms: &[Arm], time: Time) -> Result<(usize, Done), SelectError> {
    let all: Vec<Armed<'_>> = arms.iter().map(End::armed).collect();
    let chosen = raw::choose(&all, false, time)?;
    let at = chosen.index();
    // SAFETY: the calling thread's, of a pool with a name.
    let ours = |hold: Hold| unsafe { hold.into_process() }.map_err(|_| SelectError::Interrupted);
    let gone = |e: AcquireError| SelectError::Dead { arm: at, name: e.to_string() };
    let done = match &arms[at] {
        Arm::Acquire(_, pool) => Done::Permit(ours(Hold::of(chosen.permit(pool).map_err(gone)?))?),
        Arm::Lock(_, core) => {
            let hold = ours(Hold::of(chosen.permit(&core.pool).map_err(gone)?))?;
            Done::Locked(core.entered(hold))
        }
        Arm::Down(units) => chosen.down(units).map_or(Done::Ended, |()| Done::Plain),
        Arm::Recv(end) => chosen.recv_on(&**end).map_or(Done::Ended, Done::Record),
        Arm::Send(end, data) => chosen.send_on(&**end, data.clone()).map_or(Done::Ended, |()| Done::Plain),
        Arm::Hear(ear) => {
            let mut message = vec![0; ear.size()];
            match hear_chosen(chosen, ear, &mut message) {
                Ok(len) => {
                    message.truncate(len);
                    Done::Record(message)
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

/// Completes what a task's choice has taken from an arm.
async fn complete(at: usize, arm: &mut Arm, took: Seated) -> Result<Done, SelectError> {
    if let Some(name) = took.dead() {
        return Err(SelectError::Dead { arm: at, name: name.to_owned() });
    }
    let gone = |e: AcquireError| SelectError::Dead { arm: at, name: e.to_string() };
    Ok(match arm {
        Arm::Acquire(_, pool) => Done::Permit(Hold::of_owned(Acquire::of(pool).finish(took).map_err(gone)?)),
        Arm::Lock(_, core) => {
            let hold = Hold::of_owned(Acquire::of(&core.pool).finish(took).map_err(gone)?);
            Done::Locked(core.entered(hold))
        }
        Arm::Down(units) => Down::of(units).finish(took).map_or(Done::Ended, |()| Done::Plain),
        Arm::Recv(end) => end.__task_recv().finish(took).map_or(Done::Ended, Done::Record),
        Arm::Send(end, data) => {
            let sent = end.__task_send().place(took).finish(std::mem::take(data)).await;
            sent.map_or(Done::Ended, |()| Done::Plain)
        }
        Arm::Hear(ear) => ear.__task_recv().finish_told(took).map_or_else(Done::Unheard, Done::Record),
        Arm::Turn(_) => unreachable!("a task's choice has no arrival of a thread"),
        Arm::Strike(clock) => clock.get().moments.__task_recv().finish(took).map_or(Done::Ended, Done::Moment),
        Arm::Ready(file, writes) => Ready::of(file, *writes).finish(took).map_or_else(Done::Failed, |()| Done::Plain),
    })
}

/// Which arm was chosen, what that was, and its value.
type Answer<'py> = (usize, &'static str, Bound<'py, PyAny>);

fn answered<'py>(py: Python<'py>, at: usize, arm: &Arm, done: Done) -> PyResult<Answer<'py>> {
    let (how, value) = match (done, arm) {
        (Done::Permit(hold), Arm::Acquire(pool, _)) => {
            ("permit", Pool::permit(pool.bind(py), hold)?.into_bound(py).into_any())
        }
        (Done::Locked(died), Arm::Lock(lock, core)) => {
            core.tell(py, died)?;
            ("lock", lock.bind(py).clone().into_any())
        }
        (Done::Record(record), _) => ("record", PyBytes::new(py, &record).into_any()),
        (Done::Turned(turned), Arm::Turn(arrival)) => {
            ("done", arrival.get().chosen(py, turned)?.into_pyobject(py)?.into_any())
        }
        (Done::Moment(moment), _) => ("done", monotonic(py, moment)?.into_pyobject(py)?.into_any()),
        (Done::Failed(e), Arm::Ready(file, _)) => {
            let text = format!("arm {at} of the choice, descriptor {}: {e}", file.fd);
            return Err(PyOSError::new_err((e.raw_os_error(), text)));
        }
        (Done::Ended, _) => ("ended", py.None().into_bound(py)),
        (Done::Unheard(e), _) => return Err(failure(py, e)),
        _ => ("done", py.None().into_bound(py)),
    };
    Ok((at, how, value))
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
) -> PyResult<Option<Answer<'py>>> {
    let arms = arms.iter().map(arm).collect::<PyResult<Vec<Arm>>>()?;
    let Some((at, done)) = wait(py, Limit::of(timeout)?, |time| choose(&arms, time))? else { return Ok(None) };
    answered(py, at, &arms[at], done).map(Some)
}

/// The same for a task: what came of it, or its wait.
#[pyfunction]
#[pyo3(name = "_select_task")]
pub fn select_task(py: Python<'_>, arms: Vec<Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
    let arms = arms.iter().map(arm).collect::<PyResult<Vec<Arm>>>()?;
    if arms.iter().any(|arm| matches!(arm, Arm::Turn(_))) {
        let text = "an arrival is a thread's, and tasks share theirs: wait(barrier) in a task of its own";
        return Err(PyTypeError::new_err(text));
    }
    let wait = async move {
        let Chosen { at, mut arms, took } = choice::choose(arms, false, None).await?;
        let mut arm = arms.swap_remove(at);
        drop(arms);
        let done = complete(at, &mut arm, took).await?;
        Ok::<_, SelectError>((at, arm, done))
    };
    let task = Task::new("nothing to choose was ready in time".into(), wait, |py, (at, arm, done)| {
        answered(py, at, &arm, done)?.into_py_any(py)
    });
    task.begun(py)
}
