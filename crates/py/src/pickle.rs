//! Pickles that stay in memory, where the number of a descriptor would be another file's.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A field of each connection of `multiprocessing`: no pickle of one is without it.
const FIELD: &[u8; 9] = b"_readable";

/// Whether `FIELD` is in it.
fn has_field(pickle: &[u8]) -> bool {
    const AT_ONCE: usize = 64;
    pickle.chunks(AT_ONCE).enumerate().any(|(at, chunk)| {
        // Without a branch for each byte, so that the compiler compares many at a time.
        let may_begin = chunk.iter().fold(false, |any, byte| any | (*byte == FIELD[0]));
        may_begin && (0..chunk.len()).any(|offset| pickle[at * AT_ONCE + offset..].starts_with(FIELD))
    })
}

/// Two parts as one. `PyBytes::new_with` would write zeros first: a tenth of what it takes to send 30 kB.
fn joined<'py>(py: Python<'py>, head: &[u8], data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // No slice is longer than `isize`, and no two are in memory that are so together.
    let size = (head.len() + data.len()) as ffi::Py_ssize_t;
    // SAFETY: the interpreter is attached, as `py` says. A new object that nobody else has, with room for `size` bytes, or null and an exception.
    unsafe {
        let made = Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))?;
        let into = ffi::PyBytes_AsString(made.as_ptr()).cast::<u8>();
        into.copy_from_nonoverlapping(head.as_ptr(), head.len());
        into.add(head.len()).copy_from_nonoverlapping(data.as_ptr(), data.len());
        Ok(made.cast_into_unchecked())
    }
}

/// A head and the pickle of an object as one. None if the pickle may hold a connection: then the object is to be looked at closely.
///
/// In one call, as it costs no more than to join the two: `put` is not slower for it.
#[pyfunction]
pub fn unconnected<'py>(
    obj: &Bound<'py, PyAny>,
    head: &[u8],
    pickle: &Bound<'py, PyBytes>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let data = pickle.as_bytes();
    let is_plain = obj.is_exact_instance_of::<PyBytes>() || obj.is_exact_instance_of::<PyString>();
    if !is_plain && has_field(data) {
        return Ok(None);
    }
    if head.is_empty() {
        return Ok(Some(pickle.clone()));
    }
    joined(obj.py(), head, data).map(Some)
}
