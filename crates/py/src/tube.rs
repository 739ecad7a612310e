//! Tubes: bounded channels of records between processes.
//!
//! An end of a tube is one thread's at a time. So a handle here has as many ends as threads have ever used it at once, and lends them out:
//! the process is attached from its first use of a side until the handle is closed or goes.

use crate::failure::{failure, late, number};
use crate::filter::{Filter, Filters};
use crate::had::Had;
use crate::lock::thread;
use crate::place::Place;
use crate::task::{Task, turn};
use crate::wait::{Limit, detached, wait};
use chappe::raw::{self, Called, Time, incarnation};
use chappe::tube::named::{self, Kind, NotReceived, NotSent, Receiver, Sender, TubeError, TubeOptions};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyDict};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Ends that nobody uses at the moment.
type Idle<E> = Arc<Mutex<Vec<Box<E>>>>;

fn lend<E>(idle: &Idle<E>, new: impl FnOnce() -> Result<E, TubeError>) -> Result<Box<E>, TubeError> {
    let had = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    had.map_or_else(|| new().map(Box::new), Ok)
}

fn back<E>(idle: &Idle<E>, end: Box<E>) {
    idle.lock().unwrap_or_else(PoisonError::into_inner).push(end);
}

/// Records of tubes up to this size are received by way of the stack, which is cleared before; larger ones from where they lie.
const SMALL: usize = 256;

/// A record, out of a tube.
enum Record {
    Small(Box<[u8]>, bool),
    Large(named::Loan<'static, [u8]>),
}

/// After so many records that were not wanted, others have their turn: threads and handlers of signals, or the loop's other tasks.
const TURN: u32 = 256;

/// Bytes to be sent: those of a `bytes` stay where they are; all else is copied first, since it may change without the GIL.
pub enum Data<'py> {
    Bytes(Bound<'py, PyBytes>),
    Copied(Vec<u8>),
}

impl<'py> Data<'py> {
    /// Of anything that has the buffer protocol.
    ///
    /// # Errors
    /// `TypeError` if it has not.
    pub fn of(data: &Bound<'py, PyAny>) -> PyResult<Data<'py>> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return Ok(Data::Bytes(bytes.clone()));
        }
        if let Ok(bytes) = data.cast::<PyByteArray>() {
            return Ok(Data::Copied(bytes.to_vec()));
        }
        let view = data.py().import("builtins")?.getattr("memoryview")?.call1((data,)).map_err(|_| {
            PyTypeError::new_err(format!(
                "what is sent or kept is bytes, or has the buffer protocol, not {}",
                data.get_type()
            ))
        })?;
        Ok(Data::Bytes(view.call_method0("tobytes")?.cast_into::<PyBytes>()?))
    }

    /// The same for a tube.
    ///
    /// # Errors
    /// The same, with its name.
    pub fn of_tube(data: &Bound<'py, PyAny>, tube: &Tube) -> PyResult<Data<'py>> {
        Data::of(data).map_err(|e| {
            if !e.is_instance_of::<PyTypeError>(data.py()) {
                return e;
            }
            let (of, given) = (tube.place.shown(), data.get_type());
            PyTypeError::new_err(format!("a record of tube `{of}` is bytes, or has the buffer protocol, not {given}"))
        })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Data::Bytes(bytes) => bytes.as_bytes(),
            Data::Copied(bytes) => bytes,
        }
    }
}

/// What a task sends.
enum Sent {
    Bytes(PyBackedBytes),
    Copied(Vec<u8>),
}

impl Sent {
    fn bytes(&self) -> &[u8] {
        match self {
            Sent::Bytes(bytes) => bytes,
            Sent::Copied(bytes) => bytes,
        }
    }
}

/// A filter that a task receives by. It goes back to its tube.
struct Lending {
    filter: Option<Filter>,
    tube: Py<Tube>,
}

impl Drop for Lending {
    fn drop(&mut self) {
        self.tube.get().filters.back(self.filter.take());
    }
}

/// A slot with its end, and a loan with its own.
type Writing = (named::Slot<'static, [u8]>, Lent<Sender<[u8]>>);
type Reading = (named::Loan<'static, [u8]>, Lent<Receiver<[u8]>>);

/// A bounded channel of records, of up to `size` bytes each, between any number of processes.
///
/// What is sent is received at least once; twice only if a receiver died with it, and then it says so. When all senders have gone or died,
/// receivers get what is there, and then `Disconnected`, or first, once, `SenderDied` if one of them has not ended well; when all receivers
/// have, senders get `Disconnected`.
#[pyclass(frozen, subclass, module = "chappe")]
pub struct Tube {
    tube: named::Tube<[u8]>,
    senders: Idle<Sender<[u8]>>,
    receivers: Idle<Receiver<[u8]>>,
    filters: Filters,
    place: Place,
    size: u32,
    slots: u32,
}

impl Tube {
    fn sender(&self) -> Result<Box<Sender<[u8]>>, TubeError> {
        lend(&self.senders, || self.tube.sender())
    }
    fn receiver(&self) -> Result<Box<Receiver<[u8]>>, TubeError> {
        lend(&self.receivers, || self.tube.receiver())
    }
    fn sender_back(&self, end: Box<Sender<[u8]>>) {
        back(&self.senders, end);
    }
    fn receiver_back(&self, end: Box<Receiver<[u8]>>) {
        back(&self.receivers, end);
    }

    /// An end to send by, until it is dropped.
    ///
    /// # Errors
    /// As the tube's.
    pub fn lent_sender(&self) -> Result<Lent<Sender<[u8]>>, TubeError> {
        Ok(Lent::new(self.sender()?, &self.senders))
    }
    /// The same to receive by.
    ///
    /// # Errors
    /// As the tube's.
    pub fn lent_receiver(&self) -> Result<Lent<Receiver<[u8]>>, TubeError> {
        Ok(Lent::new(self.receiver()?, &self.receivers))
    }

    fn put(&self, py: Python<'_>, data: &Bound<'_, PyAny>, limit: Limit) -> PyResult<bool> {
        let data = Data::of_tube(data, self)?;
        let bytes = data.bytes();
        let end = self.sender().map_err(|e| failure(py, e))?;
        let sent = wait(py, limit, |time| match time {
            Time::Now => end.try_send(bytes),
            Time::Forever => end.send(bytes),
            Time::Within(d) => end.send_timeout(bytes, d),
        });
        self.sender_back(end);
        Ok(sent?.is_some())
    }

    fn take<'py>(&self, py: Python<'py>, limit: Limit) -> PyResult<Option<(Bound<'py, PyBytes>, bool)>> {
        let end = self.receiver().map_err(|e| failure(py, e))?;
        let small = self.size as usize <= SMALL;
        let got = wait(py, limit, |time| if small { copied(&end, time) } else { lent(&end, time).map(Record::Large) });
        let bytes = got.map(|got| {
            got.map(|record| match record {
                Record::Small(bytes, again) => (PyBytes::new(py, &bytes), again),
                Record::Large(loan) => {
                    let bytes = (PyBytes::new(py, &loan), loan.again());
                    let _ = loan.release();
                    bytes
                }
            })
        });
        self.receiver_back(end);
        bytes
    }

    /// The next record that a filter wants. What it does not want is received all the same, and dropped.
    fn take_wanted<'py>(
        &self,
        py: Python<'py>,
        limit: Limit,
        expression: Option<&str>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, bool)>> {
        let filter = self.filters.lend(expression, params, self.place.shown(), || self.schema(py))?;
        let Some(mut filter) = filter else { return self.take(py, limit) };
        let found = self.take_by(py, limit, &mut filter);
        self.filters.back(Some(filter));
        found
    }

    fn take_by<'py>(
        &self,
        py: Python<'py>,
        limit: Limit,
        filter: &mut Filter,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, bool)>> {
        let mut dropped = 0u32;
        loop {
            match self.take(py, limit)? {
                Some((record, _)) if !filter.passes(record.as_bytes()) => {
                    dropped = dropped.wrapping_add(1);
                    if dropped.is_multiple_of(TURN) {
                        detached(py, || ());
                        py.check_signals()?;
                    }
                }
                found => return Ok(found),
            }
        }
    }

    fn nothing_text(&self, what: &str) -> String {
        format!("no {what} in tube `{}` in time", self.place.shown())
    }

    fn nothing(&self, what: &str) -> PyErr {
        late(self.nothing_text(what))
    }
}

fn copied(end: &Receiver<[u8]>, time: Time) -> Result<Record, NotReceived> {
    let mut buffer = [0; SMALL];
    let (len, again) = match time {
        Time::Now => end.try_recv_into(&mut buffer)?,
        Time::Forever => end.recv_into(&mut buffer)?,
        Time::Within(d) => end.recv_into_timeout(&mut buffer, d)?,
    };
    Ok(Record::Small(buffer[..len].into(), again))
}

fn lent(end: &Receiver<[u8]>, time: Time) -> Result<named::Loan<'static, [u8]>, NotReceived> {
    let loan = match time {
        Time::Now => end.try_borrow(),
        Time::Forever => end.borrow(),
        Time::Within(d) => end.borrow_timeout(d),
    }?;
    // SAFETY: the end is in a box, and each caller keeps that until the loan has ended.
    Ok(unsafe { std::mem::transmute::<named::Loan<'_, [u8]>, named::Loan<'static, [u8]>>(loan) })
}

fn reserved(end: &mut Sender<[u8]>, time: Time) -> Result<named::Slot<'static, [u8]>, NotSent> {
    let slot = match time {
        Time::Now => end.try_reserve(),
        Time::Forever => end.reserve(),
        Time::Within(d) => end.reserve_timeout(d),
    }?;
    // SAFETY: as in `lent`.
    Ok(unsafe { std::mem::transmute::<named::Slot<'_, [u8]>, named::Slot<'static, [u8]>>(slot) })
}

/// A schema's text as the tube stores it.
///
/// # Errors
/// `ValueError` with the place, if it makes no sense.
pub fn canonical(schema: &str) -> PyResult<String> {
    let text = chappe::schemas::resolved(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let parsed = chappe::synth::Schema::parse(&text).map(|schema| schema.to_string());
    parsed.map_err(|e| PyValueError::new_err(format!("the schema makes no sense: {e}")))
}

fn kind_of(text: &str) -> PyResult<Kind> {
    match text {
        "mpmc" => Ok(Kind::Mpmc),
        "mpsc" => Ok(Kind::Mpsc),
        "spmc" => Ok(Kind::Spmc),
        "spsc" => Ok(Kind::Spsc),
        other => Err(PyValueError::new_err(format!("a tube is mpmc, mpsc, spmc or spsc, not {other:?}"))),
    }
}

#[pymethods]
impl Tube {
    #[new]
    #[pyo3(signature = (name = None, slots = None, size = None, *, kind = "mpmc", drops = false, align = 8, called = None, schema = None, create = None))]
    #[expect(clippy::too_many_arguments, reason = "each has its name in Python")]
    fn new(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        slots: Option<i64>,
        size: Option<i64>,
        kind: &str,
        drops: bool,
        align: u32,
        called: Option<&str>,
        schema: Option<&str>,
        create: Option<bool>,
    ) -> PyResult<Tube> {
        let slots = slots.map(|n| number("`slots`", "a tube", n)).transpose()?;
        let size = size.map(|n| number("`size`", "a tube", n)).transpose()?;
        let options =
            TubeOptions { slots: slots.unwrap_or(64), size: size.unwrap_or(256), align, kind: kind_of(kind)?, drops };
        let bytes = u64::from(options.slots) * (u64::from(options.size).next_multiple_of(64) + 128);
        let had = Had::of(create);
        let of = called.map(|name| Called { name, size: options.size as usize, align: align as usize });
        let tell = |e| failure(py, e);
        let typed = of.is_some() || schema.is_some();
        let open = name.is_some() && had == Had::Either && slots.is_none() && (size.is_none() || typed);
        let made = |place: &Place, had| match (schema, had) {
            (None, had) => raw::tube_of(place.name(), had, of, &options),
            (Some(text), raw::Had::Opened) => named::Tube::open_of(place.name(), text),
            (Some(text), raw::Had::Created) => named::Tube::create_of(place.name(), &options, text),
            (Some(text), raw::Had::Either) => named::Tube::open_or_create_of(place.name(), &options, text),
        };
        let (tube, place) =
            Place::made(py, name, bytes, &["tube"], |place| match open.then(|| made(place, raw::Had::Opened)) {
                Some(Err(TubeError::Object(chappe::ObjectError::Unknown { .. }))) | None => {
                    made(place, had.raw()).map_err(tell)
                }
                Some(opened) => opened.map_err(tell),
            })?;
        let info = tube.info().map_err(tell)?;
        let (size, slots) = (info.size, info.slots);
        Ok(Tube {
            tube,
            senders: Arc::default(),
            receivers: Arc::default(),
            filters: Filters::default(),
            place,
            size,
            slots,
        })
    }

    /// Sends a record; waits while there is no room, at most `timeout` seconds; `TimeoutError` then, `Disconnected` if all
    /// receivers have gone.
    #[pyo3(signature = (data, timeout = None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        if self.put(py, data, Limit::of(timeout)?)? { Ok(()) } else { Err(self.nothing("room")) }
    }

    /// Sends a record if there is room now; answers whether.
    fn try_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.put(py, data, Limit::Now)
    }

    /// Receives a record; waits for one at most `timeout` seconds; `TimeoutError` then, `Disconnected` if there is none and all
    /// senders have gone.
    ///
    /// Only one for which the expression `where_` over the tube's schema holds, with these parameters: others are received too, and dropped.
    #[pyo3(signature = (timeout = None, where_ = None, params = None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        where_: Option<&str>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.recv_redelivered(py, timeout, where_, params).map(|(bytes, _)| bytes)
    }

    /// As `recv`, with whether a receiver died that had it before.
    #[pyo3(signature = (timeout = None, where_ = None, params = None))]
    fn recv_redelivered<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        where_: Option<&str>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyBytes>, bool)> {
        self.take_wanted(py, Limit::of(timeout)?, where_, params)?.ok_or_else(|| self.nothing("record"))
    }

    /// A record if there is one now; else `None`.
    #[pyo3(signature = (where_ = None, params = None))]
    fn try_recv<'py>(
        &self,
        py: Python<'py>,
        where_: Option<&str>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.take_wanted(py, Limit::Now, where_, params)?.map(|(bytes, _)| bytes))
    }

    /// Sends for a task: `True`, or its wait. The record stays as it is: what could change meanwhile was copied.
    fn _sends(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let record = match Data::of_tube(data, self)? {
            Data::Bytes(bytes) => Sent::Bytes(bytes.into()),
            Data::Copied(bytes) => Sent::Copied(bytes),
        };
        let mut sender = self.lent_sender().map_err(|e| failure(py, e))?;
        let wait = async move { sender.send_async(record.bytes()).await };
        Task::new(self.nothing_text("room"), wait, |py, ()| true.into_py_any(py)).begun(py)
    }

    /// Receives for a task, as `recv`: the record, or its wait.
    #[pyo3(signature = (where_ = None, params = None))]
    fn _receives(
        slf: &Bound<'_, Self>,
        where_: Option<&str>,
        params: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let filter = this.filters.lend(where_, params, this.place.shown(), || this.schema(py))?;
        let mut filter = Lending { filter, tube: slf.clone().unbind() };
        let mut receiver = this.lent_receiver().map_err(|e| failure(py, e))?;
        let wait = async move {
            for dropped in 1u32.. {
                let record = receiver.recv_async().await?;
                if filter.filter.as_mut().is_none_or(|filter| filter.passes(&record)) {
                    return Ok::<_, NotReceived>(record);
                }
                if dropped.is_multiple_of(TURN) {
                    turn().await;
                }
            }
            unreachable!("no tube has had so many records")
        };
        let task = Task::new(this.nothing_text("record"), wait, |py, record: Vec<u8>| {
            PyBytes::new(py, &record).into_py_any(py)
        });
        task.begun(py)
    }

    /// A slot, to write a record where receivers will read it.
    #[pyo3(signature = (timeout = None))]
    fn _reserve(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Slot> {
        let mut end = self.sender().map_err(|e| failure(py, e))?;
        match wait(py, Limit::of(timeout)?, |time| reserved(&mut end, time)) {
            Ok(Some(slot)) => Ok(Slot(Mine::new((slot, Lent::new(end, &self.senders))))),
            other => {
                self.sender_back(end);
                other.and_then(|_| Err(self.nothing("room")))
            }
        }
    }

    /// A record where it lies.
    #[pyo3(signature = (timeout = None))]
    fn _borrow(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Loan> {
        let end = self.receiver().map_err(|e| failure(py, e))?;
        match wait(py, Limit::of(timeout)?, |time| lent(&end, time)) {
            Ok(Some(loan)) => Ok(Loan(Mine::new((loan, Lent::new(end, &self.receivers))))),
            other => {
                self.receiver_back(end);
                other.and_then(|_| Err(self.nothing("record")))
            }
        }
    }

    /// Says that no sender may come any more: receivers get what is there, and then `Disconnected`.
    fn seal(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.tube.seal()).map_err(|e| failure(py, e))
    }

    /// Gives up this handle's ends. The handle attaches itself again when it is used again.
    #[pyo3(signature = (*, send = true, recv = true))]
    fn close(&self, py: Python<'_>, send: bool, recv: bool) {
        detached(py, || {
            if send {
                self.senders.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            if recv {
                self.receivers.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        });
    }

    /// The process ends: gives up this handle's ends, and, if it has failed, says so to receivers.
    fn _leave(&self, py: Python<'_>, failed: bool) {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(end) = senders.filter(|_| failed) {
            end.break_off();
        }
        self.close(py, true, true);
    }

    /// Attaches this process as a sender or a receiver before its first use: so that the others wait for it.
    #[pyo3(signature = (*, send = false, recv = false))]
    fn attach(&self, py: Python<'_>, send: bool, recv: bool) -> PyResult<()> {
        if send {
            self.sender_back(self.sender().map_err(|e| failure(py, e))?);
        }
        if recv {
            self.receiver_back(self.receiver().map_err(|e| failure(py, e))?);
        }
        Ok(())
    }

    /// How many records are in it.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || self.tube.info()).map(|info| info.messages).map_err(|e| failure(py, e))
    }

    fn __bool__(&self) -> bool {
        true
    }

    /// How many records it has room for.
    #[getter]
    fn slots(&self) -> u32 {
        self.slots
    }

    /// The most bytes of a record.
    #[getter]
    fn size(&self) -> u32 {
        self.size
    }

    /// The fields of its records as text, or `None`.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Option<String>> {
        detached(py, || self.tube.schema()).map_err(|e| failure(py, e))
    }

    /// How many were to be delivered once more because their receivers died, and how many were dropped after a second death.
    #[getter]
    fn deaths(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        detached(py, || self.tube.info()).map(|i| (i.redelivered, i.dropped)).map_err(|e| failure(py, e))
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let how = detached(py, || self.tube.info()).map_or_else(
            |_| "removed".into(),
            |i| {
                let (senders, receivers) = (i.senders.len(), i.receivers.len());
                format!("{} of {} records, {senders} senders, {receivers} receivers", i.messages, i.slots)
            },
        );
        format!("<chappe.Tube {} {how}>", self.place.shown())
    }

    /// Its name for another process.
    fn _sent(&self) -> String {
        self.place.sent()
    }
}

/// What belongs to the thread that took it.
struct Mine<T> {
    thread: u64,
    incarnation: u64,
    it: Mutex<Option<T>>,
}

// SAFETY: used by the thread that took it alone, but for its end: a slot and a loan are given up by a swap from the exact word that they
// left, which fails where their thread has died and the word has become another's.
unsafe impl<T> Send for Mine<T> {}
// SAFETY: as above; and it is in a mutex.
unsafe impl<T> Sync for Mine<T> {}

impl<T> Mine<T> {
    fn new(it: T) -> Mine<T> {
        Mine { thread: thread(), incarnation: incarnation(), it: Mutex::new(Some(it)) }
    }

    fn checked(&self, what: &str) -> PyResult<std::sync::MutexGuard<'_, Option<T>>> {
        if self.incarnation != incarnation() {
            return Err(PyRuntimeError::new_err(format!("this {what} is the parent process's")));
        }
        if self.thread != thread() {
            return Err(PyRuntimeError::new_err(format!("this {what} belongs to another thread")));
        }
        let it = self.it.lock().unwrap_or_else(PoisonError::into_inner);
        if it.is_some() { Ok(it) } else { Err(PyValueError::new_err(format!("this {what} was given back already"))) }
    }

    fn take(&self, what: &str) -> PyResult<T> {
        let it = self.checked(what)?.take();
        it.ok_or_else(|| PyValueError::new_err(format!("this {what} was given back already")))
    }
}

/// An end that goes back when what uses it has ended.
pub struct Lent<E> {
    end: Option<Box<E>>,
    idle: Idle<E>,
}

impl<E> Lent<E> {
    fn new(end: Box<E>, idle: &Idle<E>) -> Lent<E> {
        Lent { end: Some(end), idle: idle.clone() }
    }
}

impl<E> Deref for Lent<E> {
    type Target = E;
    fn deref(&self) -> &E {
        self.end.as_deref().expect("it is lent")
    }
}

impl<E> DerefMut for Lent<E> {
    fn deref_mut(&mut self) -> &mut E {
        self.end.as_deref_mut().expect("it is lent")
    }
}

impl<E> Drop for Lent<E> {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            back(&self.idle, end);
        }
    }
}

/// A slot of a tube. For the package's own parts.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Slot(Mine<Writing>);

#[pymethods]
impl Slot {
    /// Where it lies, and how many bytes it has.
    fn _at(&self) -> PyResult<(usize, usize)> {
        let it = self.0.checked("slot")?;
        Ok(it.as_ref().map_or((0, 0), |(slot, _)| (slot.as_ptr() as usize, slot.len())))
    }

    /// Sends the first `len` bytes of it.
    fn commit(&self, py: Python<'_>, len: usize) -> PyResult<()> {
        let (slot, _end) = self.0.take("slot")?;
        detached(py, || slot.commit(len)).map_err(|e| failure(py, e))
    }

    /// Gives it up: nothing was sent.
    fn give_up(&self) -> PyResult<()> {
        let (slot, _end) = self.0.take("slot")?;
        drop(slot);
        Ok(())
    }
}

/// A record where it lies. For the package's own parts.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Loan(Mine<Reading>);

#[pymethods]
impl Loan {
    /// Where it lies, and how many bytes it has.
    fn _at(&self) -> PyResult<(usize, usize)> {
        let it = self.0.checked("loan")?;
        Ok(it.as_ref().map_or((0, 0), |(loan, _)| (loan.as_ptr() as usize, loan.len())))
    }

    /// Whether a receiver died that had it before.
    #[getter]
    fn again(&self) -> PyResult<bool> {
        Ok(self.0.checked("loan")?.as_ref().is_some_and(|(loan, _)| loan.again()))
    }

    /// Says that it is received.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let (loan, _end) = self.0.take("loan")?;
        loan.release().map_err(|e| failure(py, e))
    }

    /// Gives it back: it comes once more, marked; a second time it is dropped.
    fn put_back(&self) -> PyResult<()> {
        let (loan, _end) = self.0.take("loan")?;
        loan.put_back();
        Ok(())
    }
}
