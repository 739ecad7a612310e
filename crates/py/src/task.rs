//! Waits of Python's tasks: a future of `chappe::task`, which the loop polls.
//!
//! ```text
//!   loop:    task.poll(woken, number) -- None: it sleeps, as does the loop, on the descriptor of `woken`
//!   giver:   (any thread, any process) ... the future's waker: the number is noted, the descriptor becomes readable
//!   loop:    woken.take() -> numbers -- each of these tasks polls again: what it waited for, or None
//!   cancel:  task.end() -- the future is dropped: what it was granted goes to the next waiter
//! ```
//!
//! No thread of Python's waits, and a waker never takes the GIL. A poll is made with the GIL: it waits for nothing.
//!
//! A task is granted what it waits for when the giver gives, and has it when it polls next. A loop that does not run keeps it from the others until then,
//! as a thread that was woken and gets no processor does. A task that is collected, or whose loop was closed, ends its wait.

use crate::failure::{Failure, failure, late};
use chappe::woken::Woken as List;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::future::{Future, poll_fn};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is to be done with the GIL once the wait is over: it makes the answer.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Waiting = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The tasks of a loop that are to be polled. For the package's own parts.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Woken {
    list: List,
    incarnation: u64,
}

#[pymethods]
impl Woken {
    #[new]
    fn new() -> PyResult<Woken> {
        Ok(Woken { list: List::new()?, incarnation: chappe::raw::incarnation() })
    }

    /// Readable while there are some.
    fn fileno(&self) -> RawFd {
        self.list.as_fd().as_raw_fd()
    }

    /// Their numbers; from then on there are none.
    fn take(&self) -> Vec<u64> {
        self.list.take()
    }

    /// Whether this process made it: a forked child shares the descriptor with its parent.
    fn is_here(&self) -> bool {
        self.incarnation == chappe::raw::incarnation()
    }
}

/// Whether a wait is to end that has something to do before.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What a part of the wait answers, or `None` once the wait is to end; then the part is dropped.
    pub async fn or<T>(&self, part: impl Future<Output = T>) -> Option<T> {
        let mut part = pin!(part);
        poll_fn(|cx| {
            // Relaxed: it is set by the task that polls, with the GIL.
            if self.0.load(Ordering::Relaxed) { Poll::Ready(None) } else { part.as_mut().poll(cx).map(Some) }
        })
        .await
    }
}

/// Lets the loop's other tasks have their turn. Its waker is called at once, so the loop polls again.
pub async fn turn() {
    let mut has_been = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_been, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A wait of a task. For the package's own parts.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Task {
    waiting: Mutex<Option<(Waiting, Option<Waker>)>>,
    /// Of a wait that takes its time to end.
    stop: Option<Stop>,
    late: String,
}

impl Task {
    /// A wait, and what is said if it ends without what was waited for. `answer` makes of what was waited for what Python gets; it is not called
    /// if the wait is dropped.
    pub fn new<T: Send + 'static, E: Failure + Send + 'static>(
        late: String,
        wait: impl Future<Output = Result<T, E>> + Send + 'static,
        answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Task {
        let made = async move {
            match wait.await {
                Ok(taken) => Box::new(move |py: Python<'_>| answer(py, taken)) as Answer,
                Err(e) => Box::new(move |py: Python<'_>| Err(failure(py, e))) as Answer,
            }
        };
        Task { waiting: Mutex::new(Some((Box::pin(made), None))), stop: None, late }
    }

    /// What was waited for, if it need not be waited for; else the wait, which has begun. Its next poll notes the waker.
    pub fn begun(mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let waiting = self.waiting.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut at_once = Context::from_waker(Waker::noop());
        if let Some((future, _)) = waiting
            && let Poll::Ready(answer) = future.as_mut().poll(&mut at_once)
        {
            *waiting = None;
            return answer(py);
        }
        self.into_py_any(py)
    }

    /// The same of a wait that decides itself what its end means: it is told to end, and then polled until it has.
    pub fn stopped<
        T: Send + 'static,
        E: Failure + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    >(
        late: String,
        wait: impl FnOnce(Stop) -> W,
        answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Task {
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        Task { stop: Some(stop.clone()), ..Task::new(late, wait(stop), answer) }
    }
}

#[pymethods]
impl Task {
    /// What was waited for, which is the caller's; or `None`: the list will have this number.
    fn poll(&self, py: Python<'_>, woken: &Woken, number: u64) -> PyResult<Option<Py<PyAny>>> {
        let answer = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((future, waker)) = &mut *waiting else {
                return Err(PyRuntimeError::new_err("the wait is over"));
            };
            let waker = waker.get_or_insert_with(|| woken.list.waker(number));
            let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(waker)) else { return Ok(None) };
            *waiting = None;
            answer
        };
        answer(py).map(Some)
    }

    /// Ends the wait. Does nothing if it is over.
    fn end(&self) {
        // Dropped with nothing locked.
        let _waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Tells a wait that has something to do before to end: it is to be polled until it has.
    fn stop(&self) {
        if let Some(Stop(stop)) = &self.stop {
            // Relaxed: as in `Stop::or`.
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// The time is up. A wait that decides itself what that means is to be polled once more.
    fn expire(&self) -> PyResult<()> {
        if self.stop.is_none() {
            return Err(late(self.late.clone()));
        }
        self.stop();
        Ok(())
    }
}
