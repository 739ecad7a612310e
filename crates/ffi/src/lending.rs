//! An end of a named tube in memory of its own, which a handle lends to a wait of a loop of events: until the wait is over, the handle refuses other uses.

use crate::failure::{Answer, Failure};
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The end, or NULL while a wait has it.
pub struct Lendable<E>(AtomicPtr<E>);

impl<E> Lendable<E> {
    pub fn new(end: E) -> Lendable<E> {
        Lendable(AtomicPtr::new(Box::into_raw(Box::new(end))))
    }

    /// Where it is: it stays there as long as this, but while a wait has it. Refused if one does.
    pub fn at(&self) -> Answer<*mut E> {
        // Acquire: the end as the wait left it; pairs with `Lent`.
        let end = self.0.load(Ordering::Acquire);
        if end.is_null() { Err(awaits()) } else { Ok(end) }
    }

    /// It, for a wait.
    ///
    /// # Safety
    /// Nothing refers to it.
    pub unsafe fn lend(&'static self) -> Answer<Lent<E>> {
        // Acquire: as in `at`.
        let end = self.0.swap(null_mut(), Ordering::Acquire);
        if end.is_null() {
            return Err(awaits());
        }
        // SAFETY: from `Box::into_raw`; nobody has it now, by the swap and the caller's promise.
        Ok(Lent { end: Some(unsafe { Box::from_raw(end) }), of: &self.0 })
    }
}

impl<E> Drop for Lendable<E> {
    fn drop(&mut self) {
        let end = *self.0.get_mut();
        if !end.is_null() {
            // SAFETY: from `Box::into_raw`, and dropped once; what referred to it has gone.
            drop(unsafe { Box::from_raw(end) });
        }
    }
}

/// An end that a wait has. It goes back to its handle, which is open until then.
pub struct Lent<E: 'static> {
    end: Option<Box<E>>,
    of: &'static AtomicPtr<E>,
}

impl<E> Deref for Lent<E> {
    type Target = E;
    fn deref(&self) -> &E {
        self.end.as_deref().expect("it is there until it goes back")
    }
}

impl<E> DerefMut for Lent<E> {
    fn deref_mut(&mut self) -> &mut E {
        self.end.as_deref_mut().expect("it is there until it goes back")
    }
}

impl<E> Drop for Lent<E> {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            // Release: the end, for the next call.
            self.of.store(Box::into_raw(end), Ordering::Release);
        }
    }
}

#[cold]
fn awaits() -> Failure {
    let text = c"a wait of a loop of events has this end: cancel it, or let it be over, first (each wait needs an end of its own)";
    Failure::new(libc::EBUSY, text)
}
