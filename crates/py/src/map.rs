//! Maps of bytes: dictionaries that stay whole when any process is killed.

use crate::failure::{failure, number};
use crate::had::Had;
use crate::place::Place;
use crate::task::Task;
use crate::tube::Data;
use crate::wait::{Limit, detached, wait_on};
use chappe::map::{Map as Entries, MapError, MapOptions};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

type Bytes = Entries<[u8], [u8]>;

/// A dictionary of bytes that processes share. Look-ups and changes wait for no other process. A process that is killed
/// in the middle of a change has made it, or has not. The dictionary's room is set aside when it is made.
#[pyclass(frozen, subclass, module = "chappe._chappe")]
pub struct Map {
    entries: Bytes,
    place: Place,
}

#[pymethods]
impl Map {
    #[new]
    #[pyo3(signature = (name = None, entries = None, *, key = 64, value = 256, create = None))]
    fn new(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        entries: Option<i64>,
        key: i64,
        value: i64,
        create: Option<bool>,
    ) -> PyResult<Map> {
        let entries = entries.map(|n| number("`entries`", "a map", n)).transpose()?;
        let (key, value) = (number("`key`", "a map", key)?, number("`value`", "a map", value)?);
        let options = MapOptions { entries: entries.unwrap_or(1024), key, value, ordered: false };
        // Each has room for a value more for each thread that may change it.
        let (key_bytes, value_bytes) = (u64::from(key) + 64, u64::from(value) + 64);
        let count = u64::from(options.entries);
        let bytes = count * (key_bytes + value_bytes) + 1100 * value_bytes;
        let (entries, place) = Place::made(py, name, bytes, &["map"], |place| {
            let name = place.name();
            let had = match (Had::of(create), entries) {
                (Had::Either, None) => match Bytes::open(name) {
                    Err(MapError::Object(chappe::ObjectError::Unknown { .. })) => Bytes::open_or_create(name, &options),
                    other => other,
                },
                (Had::Either, Some(_)) => Bytes::open_or_create(name, &options),
                (Had::Created, _) => Bytes::create(name, &options),
                (Had::Opened, _) => Bytes::open(name),
            };
            had.map_err(|e| failure(py, e))
        })?;
        Ok(Map { entries, place })
    }

    /// The value of a key, or `None`.
    fn _get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let had = self.entries.get(Data::of(key)?.bytes()).map_err(|e| failure(py, e))?;
        Ok(had.map(|value| PyBytes::new(py, &value)))
    }

    /// Writes a value; answers the one before.
    fn _put<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (key, value) = (Data::of(key)?, Data::of(value)?);
        let old = self.entries.insert(key.bytes(), value.bytes()).map_err(|e| failure(py, e))?;
        Ok(old.map(|value| PyBytes::new(py, &value)))
    }

    /// Writes a value if there is none; answers the one that is there then, and whether it is this one.
    fn _put_new<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyBytes>, bool)> {
        let (key, value) = (Data::of(key)?, Data::of(value)?);
        let (there, put) = self.entries.get_or_insert(key.bytes(), value.bytes()).map_err(|e| failure(py, e))?;
        Ok((PyBytes::new(py, &there), put))
    }

    /// Removes a key; answers the value that it had.
    fn _remove<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let old = self.entries.remove(Data::of(key)?.bytes()).map_err(|e| failure(py, e))?;
        Ok(old.map(|value| PyBytes::new(py, &value)))
    }

    /// Writes `new` (`None`: removes the key) if the value is `expected` (`None`: it is not there); answers whether it did.
    fn _swap<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        expected: Option<&Bound<'py, PyAny>>,
        new: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let key = Data::of(key)?;
        let (expected, new) = (expected.map(Data::of).transpose()?, new.map(Data::of).transpose()?);
        let (expected, new) = (expected.as_ref().map(Data::bytes), new.as_ref().map(Data::bytes));
        Ok(self.entries.compare_exchange(key.bytes(), expected, new).map_err(|e| failure(py, e))?.is_ok())
    }

    /// All entries.
    fn _items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let all = detached(py, || self.entries.iter()?.collect::<Result<Vec<_>, _>>());
        let all = all.map_err(|e| failure(py, e))?;
        Ok(all.into_iter().map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value))).collect())
    }

    /// Waits until the map, or one key, is not as it was at this call; false: the time was up.
    #[pyo3(signature = (key = None, timeout = None))]
    fn _changed(&self, py: Python<'_>, key: Option<&Bound<'_, PyAny>>, timeout: Option<f64>) -> PyResult<bool> {
        let key = key.map(Data::of).transpose()?;
        let mut watch = self.entries.watch(key.as_ref().map(Data::bytes));
        detached(py, || watch.changes()).map_err(|e| failure(py, e))?;
        let limit = Limit::of(timeout)?;
        let seen = wait_on(py, limit, |time| match time {
            chappe::raw::Time::Now => watch.changes(),
            chappe::raw::Time::Forever => watch.next(None),
            chappe::raw::Time::Within(d) => watch.next(Some(d)),
        });
        Ok(seen?.is_some_and(|events| !events.is_empty()))
    }

    /// A task's wait until the map, or one key, is not as it was at this call.
    #[pyo3(signature = (key = None))]
    fn _task(slf: &Bound<'_, Self>, key: Option<&Bound<'_, PyAny>>) -> PyResult<Task> {
        let key = key.map(Data::of).transpose()?.map(|key| key.bytes().to_vec());
        let (kept, late) = (slf.clone().unbind(), format!("map `{}` was not changed in time", slf.get().place.shown()));
        let wait = async move {
            let mut watch = kept.get().entries.watch(key.as_deref());
            watch.changes()?;
            watch.next_async().await
        };
        Ok(Task::new(late, wait, |py, _| true.into_py_any(py)))
    }

    fn __len__(&self) -> usize {
        self.entries.len()
    }

    /// The most entries, and the most bytes of a key and of a value.
    #[getter]
    fn room(&self) -> (u32, u32, u32) {
        let MapOptions { entries, key, value, .. } = self.entries.options();
        (entries, key, value)
    }

    #[getter]
    fn name(&self) -> &str {
        self.place.name()
    }

    fn __repr__(&self) -> String {
        let (used, all) = (self.entries.len(), self.entries.options().entries);
        format!("<chappe.Map {} {used} of {all} entries>", self.place.shown())
    }

    /// Its name for another process.
    fn _sent(&self) -> String {
        self.place.sent()
    }
}
