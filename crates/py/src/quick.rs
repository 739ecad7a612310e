//! Methods whose first try the interpreter reaches without a tuple, a dictionary or an argument parser.
//!
//! The limited API of Python 3.9 knows no fast calls, so each call of a generated method costs more than a free lock does: 1,670
//! instructions for a pair that has 80 of its own. The flag and the calling convention are the same in 3.9 as in all later versions,
//! where they are part of the stable interface; so the methods that matter get a second entry here:
//!
//! ```text
//!   lock.acquire() --> the entry here: no arguments, and there is nothing to wait for --> True
//!                        | arguments, a wait, an error, a death to tell of
//!                        +--> the generated method, with what was given
//! ```
//!
//! The entry keeps the generated method, and shows its name, its signature and its documentation as its own.

use crate::lock::{Lock, RLock};
use crate::semaphore::Semaphore;
use chappe::raw;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// What an entry does at once. False: the generated method is needed, and nothing was done.
trait Quick: pyo3::PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync {
    fn acquire(&self) -> bool;
    fn release(&self) -> bool;
}

impl Quick for Lock {
    // A death is told by the generated method, so that one gets the lock as the dead left it.
    #[inline(always)]
    fn acquire(&self) -> bool {
        self.0.take_clean()
    }
    #[inline(always)]
    fn release(&self) -> bool {
        self.0.left(true).is_some()
    }
}

impl Quick for RLock {
    #[inline(always)]
    fn acquire(&self) -> bool {
        self.take_clean()
    }
    #[inline(always)]
    fn release(&self) -> bool {
        self.left().is_some()
    }
}

impl Quick for Semaphore {
    #[inline(always)]
    fn acquire(&self) -> bool {
        raw::down_now(&self.units)
    }
    #[inline(always)]
    fn release(&self) -> bool {
        raw::up_now(&self.units)
    }
}

/// The calling convention: `METH_FASTCALL | METH_KEYWORDS`, which the limited API of 3.9 does not name.
const FAST: std::ffi::c_int = 0x80 | 0x02;
type Fast = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// What an entry answers.
#[derive(Clone, Copy)]
enum Answer {
    True,
    None,
}

/// The object of a call.
///
/// # Safety
/// It is of this class: the interpreter has looked, as for any method of a type.
#[inline(always)]
unsafe fn of<'a, T: Quick>(slf: *mut ffi::PyObject) -> &'a T {
    // SAFETY: the interpreter calls with its lock held, and keeps the object until the call returns.
    let (py, slf) = unsafe { (Python::assume_attached(), &slf) };
    // SAFETY: an object, as above, of this class by the caller's promise.
    let bound = unsafe { Bound::ref_from_ptr(py, slf).cast_unchecked::<T>() };
    let it: *const T = bound.get();
    // SAFETY: in the object, which the caller keeps.
    unsafe { &*it }
}

/// Whether `True` and `None` count no references: from 3.12 on.
static IMMORTAL: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn answer(how: Answer) -> *mut ffi::PyObject {
    // SAFETY: called with the interpreter's lock; both live as long as it does.
    let it = unsafe {
        match how {
            Answer::True => ffi::Py_True(),
            Answer::None => ffi::Py_None(),
        }
    };
    // Relaxed: written once, when the module is made.
    if !IMMORTAL.load(Ordering::Relaxed) {
        // SAFETY: the count is the first word of an object of 3.9 to 3.11, where the stable interface's own macro counts just so.
        unsafe { *it.cast::<ffi::Py_ssize_t>() += 1 };
    }
    it
}

/// Calls the generated method. No panic crosses the border.
#[cold]
#[inline(never)]
fn slow(
    original: &'static PyOnceLock<Py<PyAny>>,
    slf: *mut ffi::PyObject,
    args: &[*mut ffi::PyObject],
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> PyResult<Py<PyAny>> {
            // SAFETY: what the interpreter hands over are objects, or no names at all.
            let names = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) };
            let names: Vec<Bound<'_, PyAny>> = names.map_or(Ok(Vec::new()), |n| n.try_iter()?.collect())?;
            // SAFETY: as above.
            let object = |at: &*mut ffi::PyObject| unsafe { Bound::from_borrowed_ptr(py, *at) };
            let count = args.len() - names.len();
            let given = std::iter::once(object(&slf)).chain(args[..count].iter().map(object));
            let given = PyTuple::new(py, given.collect::<Vec<_>>())?;
            let named = PyDict::new(py);
            for (name, value) in names.iter().zip(&args[count..]) {
                named.set_item(name, object(value))?;
            }
            let original = original.get(py).ok_or_else(|| PyRuntimeError::new_err("the module is not initialised"))?;
            original.bind(py).call(given, Some(&named)).map(Bound::unbind)
        }));
        let done =
            called.unwrap_or_else(|_| Err(PyRuntimeError::new_err("a method of chappe panicked: this is a bug")));
        match done {
            Ok(made) => made.into_ptr(),
            Err(raised) => {
                raised.restore(py);
                std::ptr::null_mut()
            }
        }
    })
}

/// The same in all its forms: called last, with what the entry was called with, so that the entry keeps none of it meanwhile.
///
/// # Safety
/// The interpreter calls the entry, which passes on what it was given: an object, `count` arguments and as many more as `names` says.
#[cold]
#[inline(never)]
unsafe extern "C" fn whole(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
    original: &'static PyOnceLock<Py<PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: a tuple, if it is there.
    let named = if names.is_null() { 0 } else { unsafe { ffi::PyTuple_Size(names) } };
    let all = (count + named) as usize;
    // SAFETY: by place and then by name, so many, as the calling convention has it; none may be a null pointer.
    let args = if all == 0 { &[] } else { unsafe { std::slice::from_raw_parts(args, all) } };
    slow(original, slf, args, names)
}

/// An entry: what it does at once, and what it answers then. `any`: whatever it is given, as `__exit__`, which takes nothing by name.
macro_rules! entry {
    ($name:ident, $class:ty, $act:ident, $answer:expr, any) => {
        entry!($name, $class, $act, $answer, |_, _| true);
    };
    ($name:ident, $class:ty, $act:ident, $answer:expr) => {
        entry!($name, $class, $act, $answer, |count: ffi::Py_ssize_t, names: *mut ffi::PyObject| count == 0
            && names.is_null());
    };
    ($name:ident, $class:ty, $act:ident, $answer:expr, $plain:expr) => {
        mod $name {
            use super::*;
            pub static ORIGINAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            // SAFETY: called by the interpreter alone, as METH_FASTCALL | METH_KEYWORDS says.
            pub unsafe extern "C" fn call(
                slf: *mut ffi::PyObject,
                args: *const *mut ffi::PyObject,
                count: ffi::Py_ssize_t,
                names: *mut ffi::PyObject,
            ) -> *mut ffi::PyObject {
                let plain: fn(ffi::Py_ssize_t, *mut ffi::PyObject) -> bool = $plain;
                // SAFETY: a method of this class.
                if plain(count, names) && unsafe { of::<$class>(slf) }.$act() {
                    return answer($answer);
                }
                // SAFETY: as this was called.
                unsafe { whole(slf, args, count, names, &ORIGINAL) }
            }
        }
    };
}

entry!(lock_acquire, Lock, acquire, Answer::True);
entry!(lock_release, Lock, release, Answer::None);
entry!(lock_enter, Lock, acquire, Answer::True);
entry!(lock_exit, Lock, release, Answer::None, any);
entry!(rlock_acquire, RLock, acquire, Answer::True);
entry!(rlock_release, RLock, release, Answer::None);
entry!(rlock_enter, RLock, acquire, Answer::True);
entry!(rlock_exit, RLock, release, Answer::None, any);
entry!(semaphore_acquire, Semaphore, acquire, Answer::True);
entry!(semaphore_release, Semaphore, release, Answer::None);
entry!(semaphore_down, Semaphore, acquire, Answer::None);
entry!(semaphore_up, Semaphore, release, Answer::None);
entry!(semaphore_enter, Semaphore, acquire, Answer::True);
entry!(semaphore_exit, Semaphore, release, Answer::None, any);

/// Puts the entry in the place of a generated method.
fn put(class: &Bound<'_, PyType>, name: &str, original: &'static PyOnceLock<Py<PyAny>>, call: Fast) -> PyResult<()> {
    let py = class.py();
    let generated = class.getattr(name)?;
    let text = |of: &str| generated.getattr(of).and_then(|t| t.extract::<String>()).unwrap_or_default();
    // As the interpreter keeps both in one text: `acquire($self, ...)\n--\n\ndocumentation`.
    let doc = format!("{name}{}\n--\n\n{}", text("__text_signature__"), text("__doc__"));
    if original.set(py, generated.unbind()).is_err() {
        return Ok(());
    }
    // SAFETY: a pointer to a function, which the interpreter calls by the convention that the flags say.
    let function = unsafe { std::mem::transmute::<Fast, ffi::PyCFunction>(call) };
    // The interpreter keeps pointers to all of it as long as it lives.
    let def = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: CString::new(name)?.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
        ml_flags: FAST,
        ml_doc: CString::new(doc)?.into_raw(),
    }));
    // SAFETY: a type, and a definition that is never given up.
    let method = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), def)) }?;
    class.setattr(name, method)
}

/// Puts all of them in their places. Once, when the module is made.
pub fn install(py: Python<'_>) -> PyResult<()> {
    IMMORTAL.store(py.version_info() >= (3, 12), Ordering::Relaxed); // Relaxed: as in `answer`.
    let lock = py.get_type::<Lock>();
    put(&lock, "acquire", &lock_acquire::ORIGINAL, lock_acquire::call)?;
    put(&lock, "release", &lock_release::ORIGINAL, lock_release::call)?;
    put(&lock, "__enter__", &lock_enter::ORIGINAL, lock_enter::call)?;
    put(&lock, "__exit__", &lock_exit::ORIGINAL, lock_exit::call)?;
    let lock = py.get_type::<RLock>();
    put(&lock, "acquire", &rlock_acquire::ORIGINAL, rlock_acquire::call)?;
    put(&lock, "release", &rlock_release::ORIGINAL, rlock_release::call)?;
    put(&lock, "__enter__", &rlock_enter::ORIGINAL, rlock_enter::call)?;
    put(&lock, "__exit__", &rlock_exit::ORIGINAL, rlock_exit::call)?;
    let semaphore = py.get_type::<Semaphore>();
    put(&semaphore, "acquire", &semaphore_acquire::ORIGINAL, semaphore_acquire::call)?;
    put(&semaphore, "release", &semaphore_release::ORIGINAL, semaphore_release::call)?;
    put(&semaphore, "down", &semaphore_down::ORIGINAL, semaphore_down::call)?;
    put(&semaphore, "up", &semaphore_up::ORIGINAL, semaphore_up::call)?;
    put(&semaphore, "__enter__", &semaphore_enter::ORIGINAL, semaphore_enter::call)?;
    put(&semaphore, "__exit__", &semaphore_exit::ORIGINAL, semaphore_exit::call)
}
