//! Values that are made when they are first asked for, without a lock.
//!
//! Every thread that finds none makes one, and the first to store its own wins; the others drop theirs. No thread ever waits for another.
//! So a child that was forked in the midst of it makes its own, and a signal handler may ask, too. (A `OnceLock` that was being filled at a
//! fork stays so in the child for ever.) These words are no part of a protocol: the explorer does not see them.

use crate::backend::pages;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is made when it is first asked for.
pub struct Made<T>(AtomicPtr<T>);

// SAFETY: threads share the value, and any of them may be the one that drops it.
unsafe impl<T: Send + Sync> Sync for Made<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Made<T> {}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Made::new()
    }
}

impl<T> Made<T> {
    /// Nothing is made yet.
    pub const fn new() -> Made<T> {
        Made(AtomicPtr::new(null_mut()))
    }

    /// The value, if there is one.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        // Acquire: the value as it was made.
        let at = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a box that nobody drops before `self`.
        unsafe { at.as_ref() }
    }

    /// The value, made by the caller if there is none. Where several threads make one, all get the same.
    ///
    /// # Errors
    /// Those of `make`.
    #[inline(always)]
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.make(make),
        }
    }

    /// The same, where nothing fails.
    #[inline(always)]
    pub fn get_or(&self, make: impl FnOnce() -> T) -> &T {
        match self.get_or_try(|| Ok::<T, std::convert::Infallible>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    #[cold]
    fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let mine = Box::into_raw(Box::new(make()?));
        // AcqRel: publishes the value. Acquire: another thread's, as it was made.
        match self.0.compare_exchange(null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: ours, in a box that nobody drops before `self`.
            Ok(_) => Ok(unsafe { &*mine }),
            Err(theirs) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(mine) });
                // SAFETY: not null, and as in `get`.
                Ok(unsafe { &*theirs })
            }
        }
    }
}

impl<T> Drop for Made<T> {
    fn drop(&mut self) {
        // Acquire: the value as it was made.
        let at = self.0.load(Ordering::Acquire);
        if !at.is_null() {
            // SAFETY: a box of ours, and nobody else has `self`.
            drop(unsafe { Box::from_raw(at) });
        }
    }
}

/// A row of so many values, made when it is first asked for.
pub struct Row<T> {
    first: AtomicPtr<T>,
    len: usize,
}

// SAFETY: as of `Made`.
unsafe impl<T: Send + Sync> Sync for Row<T> {}
// SAFETY: as of `Made`.
unsafe impl<T: Send> Send for Row<T> {}

impl<T> Row<T> {
    /// Nothing is made yet.
    pub const fn new(len: usize) -> Row<T> {
        Row { first: AtomicPtr::new(null_mut()), len }
    }

    /// The values, laid by the caller where they are to be if there are none. Where several threads lay some, all get the same.
    ///
    /// # Safety
    /// `lay` leaves each of its places with a value.
    #[inline(always)]
    pub unsafe fn get_or(&self, lay: impl FnOnce(&mut [MaybeUninit<T>])) -> &[T] {
        // Acquire: the values as they were laid.
        let mut first = self.first.load(Ordering::Acquire);
        if first.is_null() {
            first = self.make(lay);
        }
        // SAFETY: so many values, which nobody drops before `self`.
        unsafe { std::slice::from_raw_parts(first, self.len) }
    }

    #[cold]
    fn make(&self, lay: impl FnOnce(&mut [MaybeUninit<T>])) -> *mut T {
        let mut row = Box::<[T]>::new_uninit_slice(self.len);
        lay(&mut row);
        let mine = Box::into_raw(row).cast::<T>();
        // AcqRel: publishes the values. Acquire: another thread's, as they were laid.
        match self.first.compare_exchange(null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => mine,
            Err(theirs) => {
                // SAFETY: nobody else has seen it, and each place has a value.
                drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(mine, self.len)) });
                theirs
            }
        }
    }
}

impl<T> Drop for Row<T> {
    fn drop(&mut self) {
        // Acquire: the values as they were laid.
        let first = self.first.load(Ordering::Acquire);
        if !first.is_null() {
            // SAFETY: a box of ours, and nobody else has `self`.
            drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(first, self.len)) });
        }
    }
}

/// A row of so many values that begin as zeroes, on pages of their own, made when it is first asked for. Its memory can be given
/// back while its addresses stay: what is there then is zeroes again.
pub struct Pages<T> {
    first: AtomicPtr<T>,
    len: usize,
}

// SAFETY: as of `Made`.
unsafe impl<T: Send + Sync> Sync for Pages<T> {}
// SAFETY: as of `Made`.
unsafe impl<T: Send> Send for Pages<T> {}

impl<T> Pages<T> {
    /// Nothing is made yet.
    ///
    /// # Safety
    /// Zeroes are a `T`, and one need not be dropped.
    pub const unsafe fn new(len: usize) -> Pages<T> {
        assert!(align_of::<T>() <= 4096);
        Pages { first: AtomicPtr::new(null_mut()), len }
    }

    fn bytes(&self) -> usize {
        self.len.saturating_mul(size_of::<T>())
    }

    /// The values.
    #[inline(always)]
    pub fn get(&self) -> &[T] {
        // Acquire: the memory as it was mapped.
        let mut first = self.first.load(Ordering::Acquire);
        if first.is_null() {
            first = self.make();
        }
        // SAFETY: so many values, which nobody unmaps before `self` is dropped.
        unsafe { std::slice::from_raw_parts(first, self.len) }
    }

    #[cold]
    fn make(&self) -> *mut T {
        let Some(mine) = pages::map(self.bytes()) else {
            std::alloc::handle_alloc_error(
                std::alloc::Layout::array::<T>(self.len).unwrap_or(std::alloc::Layout::new::<T>()),
            );
        };
        // AcqRel: publishes the memory. Acquire: another thread's.
        match self.first.compare_exchange(null_mut(), mine.as_ptr().cast(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => mine.as_ptr().cast(),
            Err(theirs) => {
                // SAFETY: nobody else has seen it.
                unsafe { pages::unmap(mine, self.bytes()) };
                theirs
            }
        }
    }

    /// Gives the memory back.
    ///
    /// # Errors
    /// The system's: it stays as it is.
    ///
    /// # Safety
    /// No other thread has any of the values, except those that may find zeroes in them at any time.
    pub unsafe fn wipe(&self) -> io::Result<()> {
        // Acquire: as in `get`.
        let first = NonNull::new(self.first.load(Ordering::Acquire).cast());
        // SAFETY: mapped so, and the caller's promise.
        first.map_or(Ok(()), |first| unsafe { pages::wipe(first, self.bytes()) })
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // Acquire: as in `get`.
        if let Some(first) = NonNull::new(self.first.load(Ordering::Acquire).cast()) {
            // SAFETY: mapped so, and nobody else has `self`.
            unsafe { pages::unmap(first, self.bytes()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32 as Count;

    #[test]
    fn of_several_that_make_a_value_all_get_one() {
        let (made, dropped) = (Made::new(), Count::new(0));
        struct Value<'a>(usize, &'a Count);
        impl Drop for Value<'_> {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        // One makes it while another, in the middle of making its own, finds it done.
        let outer: &Value = made.get_or(|| {
            made.get_or(|| Value(1, &dropped));
            Value(2, &dropped)
        });
        assert_eq!((outer.0, dropped.load(Ordering::SeqCst)), (1, 1));
        assert!(made.get_or_try(|| Err(())).is_ok_and(|value| value.0 == 1));
        drop(made);
        assert_eq!(dropped.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn of_several_that_lay_a_row_all_get_one() {
        let row = Row::new(3);
        let lay = |with: u32| move |places: &mut [MaybeUninit<u32>]| places.iter_mut().for_each(|p| _ = p.write(with));
        // SAFETY: all are laid.
        let outer = unsafe {
            row.get_or(|places| {
                row.get_or(lay(1));
                lay(2)(places);
            })
        };
        assert_eq!(outer, [1, 1, 1]);
    }
}
