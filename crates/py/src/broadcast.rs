//! Broadcast tubes: each subscriber gets each message that it wants.
//!
//! A publisher and a subscription are one thread's at a time. A handle has as many publishers as threads have ever sent by it at once, and
//! lends them out; a subscription is refused to a second thread while a first one receives by it.

use crate::failure::{Kind, failure, late, number, raised};
use crate::filter::{params_of, without_filter};
use crate::had::Had;
use crate::place::Place;
use crate::tube::Data;
use crate::wait::{Limit, detached, wait};
use chappe::raw::{Time, incarnation};
use chappe::synth::Value;
use chappe::tube::broadcast::{Broadcast as Cast, BroadcastOptions, Publisher, Slow, Subscribe, Subscription as Ear};
use chappe::tube::named::TubeError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ops::{Deref, DerefMut};
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// A bounded tube that gives each message to every subscription that wants it, of any process.
///
/// A message is visible to all at one instant, or, if its publisher is killed before that, to none. When all publishers have gone,
/// subscribers get what is there and then `Disconnected`, or first, once, `SenderDied` if one of them has not ended well.
#[pyclass(frozen, subclass, module = "chappe._chappe")]
pub struct Broadcast {
    tube: Cast<[u8]>,
    /// Publishers that nobody uses at the moment, each with the process that it belongs to.
    idle: Mutex<Vec<(u64, Publisher<[u8]>)>>,
    place: Place,
    size: u32,
    slots: u32,
}

impl Broadcast {
    fn publisher(&self) -> Result<Publisher<[u8]>, TubeError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of the process that forked this one are its own.
        while let Some((of, end)) = idle.pop() {
            if of == incarnation() {
                return Ok(end);
            }
        }
        drop(idle);
        self.tube.publisher()
    }

    fn back(&self, end: Publisher<[u8]>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((incarnation(), end));
    }

    fn put(&self, py: Python<'_>, data: &Bound<'_, PyAny>, limit: Limit) -> PyResult<bool> {
        let data = Data::of(data)?;
        let bytes = data.bytes();
        let end = self.publisher().map_err(|e| failure(py, e))?;
        let sent = wait(py, limit, |time| match time {
            Time::Now => end.try_send(bytes),
            Time::Forever => end.send(bytes),
            Time::Within(d) => end.send_timeout(bytes, d),
        });
        self.back(end);
        Ok(sent?.is_some())
    }
}

/// What becomes of messages for which a subscription is too slow, from its text.
fn slow_of(text: &str) -> PyResult<Slow> {
    let newest = text.strip_prefix("drop-newest:").and_then(|n| n.parse().ok());
    match (text, newest) {
        ("block", _) => Ok(Slow::Block),
        ("drop-oldest", _) => Ok(Slow::DropOldest),
        (_, Some(most)) if most > 0 => Ok(Slow::DropNewest(most)),
        _ => Err(PyValueError::new_err(format!(
            "`slow` is \"block\", \"drop-oldest\", or \"drop-newest:N\" with N of at least 1, not {text:?}"
        ))),
    }
}

#[pymethods]
impl Broadcast {
    #[new]
    #[pyo3(signature = (name = None, slots = None, size = None, *, subscribers = 16, align = 8, schema = None, create = None))]
    #[expect(clippy::too_many_arguments, reason = "each has its name in Python")]
    fn new(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        slots: Option<i64>,
        size: Option<i64>,
        subscribers: i64,
        align: u32,
        schema: Option<String>,
        create: Option<bool>,
    ) -> PyResult<Broadcast> {
        let of = "a broadcast tube";
        let slots = slots.map(|n| number("`slots`", of, n)).transpose()?;
        let size = size.map(|n| number("`size`", of, n)).transpose()?;
        let subscribers = number("`subscribers`", of, subscribers)?;
        let open = name.is_some() && slots.is_none();
        let (many, long) = (slots.unwrap_or(64), size.unwrap_or(256));
        let options = BroadcastOptions { slots: many, size: long, align, subscribers, schema };
        let (each, lists) = (u64::from(options.size).next_multiple_of(64) + 128, u64::from(subscribers));
        let bytes = u64::from(options.slots) * each + lists * (1200 + u64::from(options.slots) / 4);
        let tell = |e| failure(py, e);
        let (tube, place) = Place::made(py, name, bytes, &["broadcast"], |place| {
            match Had::of(create) {
                Had::Opened => Cast::open(place.name()),
                Had::Created => Cast::create(place.name(), &options),
                Had::Either if open => match Cast::open(place.name()) {
                    Err(TubeError::Object(chappe::ObjectError::Unknown { .. })) => {
                        Cast::open_or_create(place.name(), &options)
                    }
                    opened => opened,
                },
                Had::Either => Cast::open_or_create(place.name(), &options),
            }
            .map_err(tell)
        })?;
        let info = tube.info().map_err(tell)?;
        if let Some(size) = size.filter(|size| *size != info.size) {
            let (has, name) = (info.size, place.shown());
            let text = format!("broadcast tube `{name}` has messages of {has} bytes, not {size}");
            return Err(raised(py, Kind::Mismatch, text));
        }
        // One that was only opened may have other fields than those that were asked for.
        let wanted = options.schema.as_deref().map(crate::tube::canonical).transpose()?;
        if let Some(wanted) = wanted.filter(|wanted| info.schema.as_ref() != Some(wanted)) {
            let has = info.schema.map_or_else(|| "no schema".to_owned(), |text| format!("`{text}`"));
            let text = format!("broadcast tube `{}` has {has}, not `{wanted}`", place.shown());
            return Err(raised(py, Kind::Mismatch, text));
        }
        Ok(Broadcast { tube, idle: Mutex::default(), place, size: info.size, slots: info.slots })
    }

    /// Sends a message to every subscription that wants it; waits while one that blocks has no room, at most `timeout` seconds;
    /// `TimeoutError` then. One that nobody wants is not even copied.
    #[pyo3(signature = (data, timeout = None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let in_time = self.put(py, data, Limit::of(timeout)?)?;
        let text = || late(format!("no room in broadcast tube `{}` in time", self.place.shown()));
        if in_time { Ok(()) } else { Err(text()) }
    }

    /// Sends a message if no subscription that blocks is in the way; answers whether.
    fn try_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.put(py, data, Limit::Now)
    }

    /// A subscription: to what is sent from now on, if `where` holds for it. For the package's own parts.
    #[pyo3(signature = (filter, params, slow))]
    fn _subscribe(
        &self,
        py: Python<'_>,
        filter: Option<String>,
        params: Option<&Bound<'_, PyDict>>,
        slow: &str,
    ) -> PyResult<Subscription> {
        let mut how = Subscribe::to_all().slow(slow_of(slow)?);
        let params = params_of(params)?;
        if filter.is_none() && !params.is_empty() {
            return Err(without_filter());
        }
        if let Some(filter) = filter {
            how = how.filter(filter);
        }
        for (name, value) in params {
            how = how.param(name, value);
        }
        let ear = detached(py, || self.tube.subscribe(how)).map_err(|e| failure(py, e))?;
        Ok(Subscription { ear: Mutex::new(Held::Here(Box::new(ear))), tube: self.place.shown().to_string() })
    }

    /// Attaches this process as a publisher before its first message, so that subscribers wait for it.
    fn attach(&self, py: Python<'_>) -> PyResult<()> {
        self.back(self.publisher().map_err(|e| failure(py, e))?);
        Ok(())
    }

    /// Gives up this handle's publishers. The handle attaches itself again when it sends again.
    fn close(&self, py: Python<'_>) {
        detached(py, || self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear());
    }

    /// The process ends: gives up this handle's publishers, and, if it has failed, says so to subscribers.
    fn _leave(&self, py: Python<'_>, failed: bool) {
        let had = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some((_, end)) = had.filter(|(of, _)| failed && *of == incarnation()) {
            end.break_off();
        }
        self.close(py);
    }

    /// The fields of its messages as text, or `None`.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Option<String>> {
        detached(py, || self.tube.schema()).map_err(|e| failure(py, e))
    }

    /// How many subscribe now.
    #[getter]
    fn subscribers(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || self.tube.info()).map(|info| info.subscribers.len()).map_err(|e| failure(py, e))
    }

    /// How many messages it has room for.
    #[getter]
    fn slots(&self) -> u32 {
        self.slots
    }

    /// The most bytes of a message.
    #[getter]
    fn size(&self) -> u32 {
        self.size
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let how = detached(py, || self.tube.info()).map_or_else(
            |_| "removed".into(),
            |i| format!("{} slots, {} publish, {} subscribe", i.slots, i.publishers.len(), i.subscribers.len()),
        );
        format!("<chappe.Broadcast {} {how}>", self.place.shown())
    }

    /// Its name for another process.
    fn _sent(&self) -> String {
        self.place.sent()
    }
}

/// Where a subscription's end is.
enum Held {
    Here(Box<Ear<[u8]>>),
    /// A call receives by it, or a choice.
    Lent,
    Closed,
}

/// The messages of a broadcast tube that one subscriber wants. It goes with `close()`, with its last reference, or with its process.
#[pyclass(frozen, module = "chappe._chappe", name = "_Subscription")]
pub struct Subscription {
    ear: Mutex<Held>,
    tube: String,
}

impl Subscription {
    /// Its end, for one call, which gives it [`back`](Subscription::back).
    ///
    /// # Errors
    /// `RuntimeError` if another thread has it; `ValueError` if it is closed.
    fn lend(&self) -> PyResult<Box<Ear<[u8]>>> {
        let mut held = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *held, Held::Lent) {
            Held::Here(ear) => Ok(ear),
            Held::Lent => Err(PyRuntimeError::new_err(format!(
                "another thread, or another arm of the choice, receives by this subscription of `{}`: each subscribes for itself",
                self.tube
            ))),
            Held::Closed => {
                *held = Held::Closed;
                Err(PyValueError::new_err(format!("this subscription of `{}` has been closed", self.tube)))
            }
        }
    }

    fn back(&self, ear: Box<Ear<[u8]>>) {
        *self.ear.lock().unwrap_or_else(PoisonError::into_inner) = Held::Here(ear);
    }

    fn with<R>(&self, act: impl FnOnce(&Ear<[u8]>) -> R) -> PyResult<R> {
        let ear = self.lend()?;
        let done = act(&ear);
        self.back(ear);
        Ok(done)
    }

    fn take<'py>(&self, py: Python<'py>, limit: Limit) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let got = self.with(|end| {
            wait(py, limit, |time| match time {
                Time::Now => end.try_recv(),
                Time::Forever => end.recv(),
                Time::Within(d) => end.recv_timeout(d),
            })
        })??;
        Ok(got.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

/// A subscription's end, for one call or choice: it goes back when this goes.
pub struct Lent(Option<Box<Ear<[u8]>>>, Py<Subscription>);

impl Lent {
    /// As [`Subscription::lend`].
    ///
    /// # Errors
    /// As there.
    pub fn of(subscription: &Bound<'_, Subscription>) -> PyResult<Lent> {
        Ok(Lent(Some(subscription.get().lend()?), subscription.clone().unbind()))
    }
}

impl Deref for Lent {
    type Target = Ear<[u8]>;
    fn deref(&self) -> &Ear<[u8]> {
        self.0.as_deref().expect("it is lent")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Ear<[u8]> {
        self.0.as_deref_mut().expect("it is lent")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|ear| self.1.get().back(ear));
    }
}

#[pymethods]
impl Subscription {
    /// The next message that it wants; waits for one at most `timeout` seconds; `TimeoutError` then.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let nothing = || late(format!("no message for this subscription of `{}` in time", self.tube));
        self.take(py, Limit::of(timeout)?)?.ok_or_else(nothing)
    }

    /// A message if there is one now; else `None`.
    fn try_recv<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.take(py, Limit::Now)
    }

    /// Gives parameters of its filter other values: for what is sent from here on, and what is there already.
    #[pyo3(signature = (**params))]
    fn set(&self, py: Python<'_>, params: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let params = params_of(params)?;
        let all: Vec<(&str, Value)> = params.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        self.with(|end| end.set(&all))?.map_err(|e| failure(py, e))
    }

    /// A copy of the descriptor that becomes readable when there is something to receive, or when it is closed: the caller's, to close.
    fn _descriptor(&self) -> PyResult<RawFd> {
        Ok(self.with(|ear| ear.descriptor()?.try_clone_to_owned())??.into_raw_fd())
    }

    /// Makes the descriptor unreadable again. False: there is something to do.
    fn _rearm(&self) -> PyResult<bool> {
        self.with(Ear::rearm)
    }

    /// Ends it: nobody waits for it any more.
    fn close(&self) -> PyResult<()> {
        let mut held = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        if let Held::Lent = *held {
            drop(held);
            // It says why not.
            return self.lend().map(|ear| self.back(ear));
        }
        *held = Held::Closed;
        Ok(())
    }

    /// How many messages it has lost because it was too slow.
    #[getter]
    fn lost(&self) -> PyResult<u64> {
        self.with(Ear::lost)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.with(Ear::len)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        format!("<chappe subscription of {}>", self.tube)
    }
}
