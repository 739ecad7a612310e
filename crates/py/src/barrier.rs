//! Barriers, as `threading.Barrier`: those of the crate that a death breaks, with an action.
//!
//! The last to come runs the action, and arrives then. So with an action the comers are let in one after the other: each has the one permit
//! of a pool beside the barrier (`gate`) while it looks whether it is the last, and until it has arrived. The last one keeps the permit while its
//! action runs; those of the next round wait for it.
//!
//! Words beside it:
//!
//! | word | value |
//! |---|---|
//! | ACTS | 1: a process has an action for it. Only then is the gate used |
//! | RUNS | 0, or the round after the one that an action runs for (high half), and a number that no other run has |
//! | RUN | that number, as it was given out last |
//!
//! Gate and words go with the barrier (`State::beside`): one that was removed and made anew has others.
//!
//! A process that dies in its action has not arrived, so the barrier does not notice. Its permit comes back: the waiter that finds RUNS at the round
//! under way, and the gate free, breaks the barrier. Each waiter looks ten times a second, and the next comer finds it at the gate. Without an
//! action no waiter looks: the crate finds the deaths.
//!
//! A task arrives for the process, and each part of what a thread does here follows in a poll, with the GIL: so the action runs in the loop.
//!
//! One that comes while an action runs comes to the next round. If its time is up before the action is over, it has not arrived, and breaks nothing:
//! the round of the action is the others'.

use crate::failure::{Failure, Kind, failure, own, raised};
use crate::had::Had;
use crate::place::{self, Pickled, Place};
use crate::pool::{pool_of, take};
use crate::state::{State, part};
use crate::task::{Stop, Task};
use crate::wait::{Limit, detached, wait};
use chappe::raw::{Hold, KeptArrival, Time, choose_ready, turn};
use chappe::task::OwnedArrival;
use chappe::task::choice::choose;
use chappe::tube::{after, never};
use chappe::{Barrier as Rounds, BarrierError, BarrierInfo, Interrupt, Pool, SelectError, interruptible};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::mem::ManuallyDrop;
use std::time::Duration;

/// How often a waiter looks whether the one that runs the action is alive.
const LOOK: Duration = Duration::from_millis(100);

const ACTS: usize = 0;
const RUNS: usize = 1;
const RUN: usize = 2;

impl Failure for BarrierError {
    fn is_late(&self) -> bool {
        matches!(self, BarrierError::Timeout)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, BarrierError::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            BarrierError::Object(e) => e.kind(),
            BarrierError::Parties { .. } => Kind::Value,
            BarrierError::OtherShape { .. } => Kind::Mismatch,
            BarrierError::Twice { .. } | BarrierError::Full { .. } => Kind::InUse,
            BarrierError::Dead { .. } => Kind::Removed,
            BarrierError::PartyDied { .. } => Kind::PartyDied,
            BarrierError::Inherited { .. } => Kind::Inherited,
            _ => Kind::System,
        }
    }
}

/// A barrier, as `threading.Barrier`. One that dies while it waits, or runs the action, breaks it: the others get `BrokenBarrierError`.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Barrier {
    rounds: Rounds,
    state: State,
    gate: Pool,
    action: Option<Py<PyAny>>,
    timeout: Option<f64>,
    place: Place,
}

/// What a barrier is made of.
type Arguments = (u32, Option<Py<PyAny>>, Option<f64>, String);

/// The gate's permit, which is given back in whatever way its scope is left.
struct Inside(Hold);

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: a permit of the process, given back once.
        unsafe { self.0.release() };
    }
}

/// A task's wait at the gate, which may be dropped.
struct AtTheGate<'a>(Option<&'a Barrier>);

impl Drop for AtTheGate<'_> {
    fn drop(&mut self) {
        if let Some(barrier) = self.0.take() {
            barrier.late_at_the_gate();
        }
    }
}

/// A task's arrival. Dropped, it breaks the barrier, unless all have come: then the next round is others'.
struct Comes(Option<OwnedArrival>);

impl Drop for Comes {
    fn drop(&mut self) {
        let _ = self.0.take().map(OwnedArrival::turn_or_break);
    }
}

impl Barrier {
    fn broken_error(&self, py: Python<'_>) -> PyErr {
        own(py, "BrokenBarrierError", (format!("barrier `{}` is broken", self.place.shown()),))
    }

    fn told(&self, py: Python<'_>, e: BarrierError) -> PyErr {
        if let BarrierError::Broken { .. } = e { self.broken_error(py) } else { failure(py, e) }
    }

    /// How many have arrived, and for which round.
    fn now(&self, py: Python<'_>) -> PyResult<(u32, u64)> {
        let info = self.rounds.info().map_err(|e| failure(py, e))?;
        if info.broken.is_some() { Err(self.broken_error(py)) } else { Ok((info.arrived, info.rounds)) }
    }

    fn acts(&self) -> bool {
        self.state.get(ACTS) != 0
    }

    fn break_it(&self, py: Python<'_>) -> PyResult<()> {
        self.rounds.abort().map_err(|e| failure(py, e))
    }

    fn runs_no_more(&self, py: Python<'_>) -> PyResult<()> {
        self.state.change(py, self.place.shown(), || self.state.set(RUNS, 0))
    }

    /// Whether RUNS says that an action runs for the round under way.
    fn runs_now(&self, runs: u64) -> bool {
        let is_its = |info: BarrierInfo| info.broken.is_none() && runs >> 32 == (info.rounds + 1) & 0xffff_ffff;
        runs >> 32 != 0 && self.rounds.info().is_ok_and(is_its)
    }

    /// Breaks the barrier if one died in the action of the round under way. At the gate: the caller has its permit.
    fn misses(&self, py: Python<'_>, at_the_gate: bool) -> PyResult<()> {
        let runs = self.state.get(RUNS);
        if runs >> 32 == 0 || !(at_the_gate || self.gate.available() == 1) || self.state.get(RUNS) != runs {
            return Ok(());
        }
        if self.runs_now(runs) { self.break_it(py) } else { Ok(()) }
    }

    /// The time of one that waits at the gate is up.
    fn late_at_the_gate(&self) {
        if !self.runs_now(self.state.get(RUNS)) {
            // Of one that was removed the next call says so.
            let _ = self.rounds.abort();
        }
    }

    /// Arrives, as the last one after its action.
    fn come(&self, py: Python<'_>, limit: Limit) -> PyResult<KeptArrival> {
        let arrives = || KeptArrival::new(&self.rounds, false).map_err(|e| self.told(py, e));
        if !self.acts() {
            return arrives();
        }
        let Some(hold) = wait(py, limit, |time| take(&self.gate, time))? else {
            self.late_at_the_gate();
            return Err(self.broken_error(py));
        };
        let _inside = Inside(hold);
        self.come_inside(py, arrives, |kept| kept.arrival().is_over())
    }

    /// Arrives with the gate's permit.
    fn come_inside<A>(
        &self,
        py: Python<'_>,
        arrives: impl Fn() -> PyResult<A>,
        is_over: impl Fn(&A) -> bool,
    ) -> PyResult<A> {
        self.misses(py, true)?;
        let (there, round) = self.now(py)?;
        if there + 1 < self.rounds.parties() {
            return arrives();
        }
        if let Some(action) = &self.action {
            // One run at a time: those that would be the second wait at the gate.
            let run = self.state.get(RUN).wrapping_add(1) & 0xffff_ffff;
            self.state.change(py, self.place.shown(), || {
                self.state.set(RUN, run);
                self.state.set(RUNS, round.wrapping_add(1) << 32 | run);
            })?;
            let acted = action.call0(py);
            if let Err(raised) = acted {
                let _ = self.runs_no_more(py);
                self.break_it(py)?;
                return Err(raised);
            }
        }
        let arrived = arrives();
        if self.action.is_some() {
            self.runs_no_more(py)?;
        }
        let arrival = arrived?;
        // Else it was reset meanwhile: the round of the action is no more, and the arrival goes back.
        if is_over(&arrival) { Ok(arrival) } else { Err(self.broken_error(py)) }
    }

    /// The same as a task.
    async fn come_as_task(&self, stop: &Stop) -> PyResult<OwnedArrival> {
        let arrives = || self.rounds.arrive_owned().map_err(|e| Python::attach(|py| self.told(py, e)));
        if !self.acts() {
            return arrives();
        }
        let mut comes = AtTheGate(Some(self));
        let Some(permit) = stop.or(self.gate.acquire_async()).await else {
            drop(comes);
            return Err(Python::attach(|py| self.broken_error(py)));
        };
        comes.0 = None;
        let _inside = permit.map_err(|e| Python::attach(|py| failure(py, e)))?;
        Python::attach(|py| self.come_inside(py, arrives, OwnedArrival::is_over))
    }

    /// Comes, and waits for the turn, as a task.
    async fn pass_as_task(&self, stop: Stop) -> PyResult<u32> {
        let told = |turned: Result<chappe::Turn, BarrierError>| {
            turned.map(|turn| turn.index).map_err(|e| Python::attach(|py| self.told(py, e)))
        };
        let mut comes = Comes(Some(self.come_as_task(&stop).await?));
        loop {
            let look = if self.acts() { after(LOOK) } else { never() };
            let arrival = comes.0.as_mut().expect("it has come");
            let over = stop.or(choose((arrival.__task_turn(), (look.__task_recv(), ())), true, None)).await;
            let over = over.map(|over| over.map(|chosen| chosen.at));
            match over {
                // Its time is up.
                None => return told(comes.0.take().expect("it has come").turn_or_break()),
                Some(Ok(at)) if at > 0 => Python::attach(|py| self.misses(py, false))?,
                Some(Ok(_)) => return told(arrival.conclude()),
                // It could not wait, and breaks the barrier; if the round has turned meanwhile, the others have gone on with it.
                Some(Err(e)) => {
                    let turned = comes.0.take().expect("it has come").turn_or_break();
                    return if turned.is_ok() { told(turned) } else { Err(Python::attach(|py| failure(py, e))) };
                }
            }
        }
    }

    /// Waits for the turn of an arrival.
    fn pass(&self, py: Python<'_>, arrival: &KeptArrival, limit: Limit) -> PyResult<u32> {
        let conclude = |breaks| arrival.wait(Time::Now, breaks).map(|turn| turn.index).map_err(|e| self.told(py, e));
        let interrupt = Interrupt::new();
        loop {
            let (time, is_last) = match limit.time() {
                Time::Within(d) if !self.acts() || d <= LOOK => (Time::Within(d), true),
                Time::Now => (Time::Now, true),
                Time::Forever if !self.acts() => (Time::Forever, true),
                _ => (Time::Within(LOOK), false),
            };
            // The arrival stands, however it ends.
            match detached(py, || interruptible(&interrupt, || choose_ready(&[turn(arrival.arrival())], false, time))) {
                Ok(_) => return conclude(false),
                Err(SelectError::Interrupted) => {
                    if let Err(raised) = py.check_signals() {
                        // If its round has turned, or is broken, meanwhile, that is over, and the next one is others'.
                        let _ = conclude(true);
                        return Err(raised);
                    }
                }
                Err(SelectError::WouldBlock | SelectError::Timeout) if is_last => return conclude(true),
                Err(SelectError::WouldBlock | SelectError::Timeout) => self.misses(py, false)?,
                Err(e) => return Err(failure(py, e)),
            }
        }
    }
}

#[pymethods]
impl Barrier {
    #[new]
    #[pyo3(signature = (parties, action = None, timeout = None, name = None, *, create = None))]
    fn new(
        py: Python<'_>,
        parties: i64,
        action: Option<Py<PyAny>>,
        timeout: Option<f64>,
        name: Option<&Bound<'_, PyAny>>,
        create: Option<bool>,
    ) -> PyResult<Barrier> {
        let most = Rounds::MOST_PARTIES;
        let Some(parties) = u32::try_from(parties).ok().filter(|n| (1..=most).contains(n)) else {
            return Err(PyValueError::new_err(format!("a barrier has between 1 and {most} parties, not {parties}")));
        };
        let parts = ["barrier", "mutex+words", "pool+gate"];
        let ((rounds, state, gate), place) = Place::made(py, name, 0, &parts, |place| {
            let name = place.name();
            let rounds = match Had::of(create) {
                Had::Opened => Rounds::open(name),
                Had::Created => Rounds::create_breaking(name, parties),
                Had::Either => Rounds::open_or_create_breaking(name, parties),
            };
            let rounds = rounds.map_err(|e| failure(py, e))?;
            let there = rounds.parties();
            if there != parties {
                let text = format!("barrier `{}` is there with {there} parties, not {parties}", place.shown());
                return Err(raised(py, Kind::Mismatch, text));
            }
            // Whoever finds the barrier may come before its maker has made these.
            let state = State::beside(py, name, &rounds, || place::without(name, "gate"))?;
            Ok((rounds, state, pool_of(py, &part(name, "gate"), Had::Either, 1)?))
        })?;
        if action.is_some() {
            state.change(py, place.shown(), || state.set(ACTS, 1))?;
        }
        Ok(Barrier { rounds, state, gate, action, timeout, place })
    }

    /// Waits until all have come; answers a number from 0 that no other of them gets. If the time is up first, the barrier is
    /// broken, for all.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u32> {
        let limit = Limit::of(timeout.or(self.timeout))?;
        let arrival = self.come(py, limit)?;
        self.pass(py, &arrival, limit)
    }

    /// A task's wait, and for how long without a `timeout` of its own. At its end the barrier breaks, if its round has not turned.
    fn _task(slf: &Bound<'_, Self>) -> (Task, Option<f64>) {
        let (this, barrier) = (slf.clone().unbind(), slf.get());
        let wait = move |stop| async move { Ok::<_, BarrierError>(this.get().pass_as_task(stop).await) };
        let answer = |py: Python<'_>, passed: PyResult<u32>| passed?.into_py_any(py);
        (Task::stopped(String::new(), wait, answer), barrier.timeout)
    }

    /// Arrives, and goes on; never waits. `arrival.wait()` waits for the turn, and `arrival.wait` is an arm of `select`. Not of a barrier with an action.
    fn arrive(slf: &Bound<'_, Self>) -> PyResult<Arrival> {
        let (py, this) = (slf.py(), slf.get());
        if this.acts() {
            let text = format!(
                "barrier `{}` has an action, which the last one to come runs in `wait`: nobody arrives there apart from that",
                this.place.shown()
            );
            return Err(PyValueError::new_err(text));
        }
        let kept = KeptArrival::new(&this.rounds, false).map_err(|e| this.told(py, e))?;
        Ok(Arrival { barrier: slf.clone().unbind(), kept: ManuallyDrop::new(kept) })
    }

    /// Begins anew; present waiters get `BrokenBarrierError`.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.rounds.reset().map_err(|e| failure(py, e))
    }

    /// Breaks it.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.break_it(py)
    }

    #[getter]
    fn parties(&self) -> u32 {
        self.rounds.parties()
    }

    /// How many wait.
    #[getter]
    fn n_waiting(&self) -> u32 {
        self.rounds.info().map_or(0, |info| info.arrived)
    }

    /// Whether it is broken.
    #[getter]
    fn broken(&self) -> bool {
        self.rounds.info().is_ok_and(|info| info.broken.is_some())
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self) -> String {
        let how = match self.rounds.info() {
            Ok(info) if info.broken.is_none() => format!("{} of {}", info.arrived, info.parties),
            Ok(_) => "broken".into(),
            Err(_) => "removed".into(),
        };
        format!("<chappe.Barrier {} {how}>", self.place.shown())
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, Arguments> {
        let this = slf.get();
        let action = this.action.as_ref().map(|a| a.clone_ref(slf.py()));
        Ok((slf.get_type().into_any(), (this.parties(), action, this.timeout, this.place.sent())))
    }
}

/// An arrival of one thread at a barrier: `barrier.arrive()`. Only that thread waits for its turn, by `wait` or in a `select` with the arm
/// `arrival.wait`; another arm that is chosen leaves it there. It is taken back, if its round has not turned, by `take_back`, at the end of a `with`, and when the
/// thread lets go of it, or ends.
#[pyclass(frozen, module = "chappe")]
pub struct Arrival {
    barrier: Py<Barrier>,
    kept: ManuallyDrop<KeptArrival>,
}

// SAFETY: what other threads than the one that has arrived use of it may be used by any: see `mine` and `drop`.
unsafe impl Send for Arrival {}
// SAFETY: as above.
unsafe impl Sync for Arrival {}

impl Drop for Arrival {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let kept = unsafe { ManuallyDrop::take(&mut self.kept) };
        if kept.is_mine() { drop(kept) } else { kept.let_go() }
    }
}

impl Arrival {
    /// It, for the thread that has arrived.
    pub fn mine(&self) -> PyResult<&KeptArrival> {
        if self.kept.is_mine() {
            return Ok(&self.kept);
        }
        let text = "this arrival is another thread's, or the parent process's: each arrives, and waits, itself";
        Err(PyRuntimeError::new_err(text))
    }

    /// An arm, after `mine`.
    pub fn of_this_thread(&self) -> &chappe::Arrival<'_> {
        self.kept.arrival()
    }

    /// The end of a choice.
    pub fn chosen(&self, py: Python<'_>, turned: Result<u32, BarrierError>) -> PyResult<u32> {
        turned.map_err(|e| self.barrier.get().told(py, e))
    }
}

#[pymethods]
impl Arrival {
    /// Waits for the turn; answers a number from 0 that no other party of the round gets. If the time is up first, the barrier is broken, for all.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u32> {
        let (kept, barrier) = (self.mine()?, self.barrier.get());
        barrier.pass(py, kept, Limit::of(timeout.or(barrier.timeout))?)
    }

    /// Whether its round has turned, or is broken: then to wait does not block.
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.mine()?.arrival().is_over())
    }

    /// Takes it back: the round goes on without it. False: it has turned, or is broken.
    fn take_back(&self) -> PyResult<bool> {
        Ok(self.mine()?.take_back())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        // Also one that is over is done with: the thread may arrive again.
        let _ = self.mine()?.wait(Time::Now, false);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<chappe.Arrival at {}>", self.barrier.get().place.shown())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("an arrival is a thread's and cannot be pickled; pickle the barrier"))
    }
}
