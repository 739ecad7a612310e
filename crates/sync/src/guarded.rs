//! The data that a named lock guards: its type, its first value, and where it lies.

use crate::called::{Called, hash, hash_of};
use crate::error::ObjectError;
use crate::handle::Handle;
use crate::registry::ArenaOptions;
use chappe_arena::layout::BLOCK;
use chappe_plat::atomic::Ordering;
use std::ptr::NonNull;

/// What a lock is to guard.
pub(crate) struct Data<'a> {
    /// The type, as messages call it.
    name: &'a str,
    pub size: usize,
    align: usize,
    /// See [`hash`].
    pub hash: u32,
    /// The first value; zeros if there is none.
    initial: Option<&'a [u8]>,
}

impl<'a> Data<'a> {
    /// Data whose type is known only by name.
    ///
    /// # Panics
    /// If `initial` has another size than it says.
    pub fn called(of: Called<'a>, initial: Option<&'a [u8]>) -> Data<'a> {
        assert!(initial.is_none_or(|bytes| bytes.len() == of.size), "the data has {} bytes", of.size);
        Data { name: of.name, size: of.size, align: of.align, hash: hash(of), initial }
    }

    /// Data of a Rust type.
    pub fn of<T>(initial: Option<&'a [u8]>) -> Data<'a> {
        let (name, size, align) = (std::any::type_name::<T>(), size_of::<T>(), align_of::<T>());
        Data { name, size, align, hash: hash_of::<T>(), initial }
    }

    /// Refuses data for which no place is aligned enough.
    pub fn room(&self) -> Result<ArenaOptions, ObjectError> {
        let (has, most) = (self.align, BLOCK);
        if has > most { Err(ObjectError::Alignment { has, most }) } else { Ok(ArenaOptions::default()) }
    }

    /// Writes the first value.
    ///
    /// # Safety
    /// There is room for so many bytes, which no other thread knows.
    pub unsafe fn write(&self, place: *mut u8) {
        match self.initial {
            // SAFETY: the caller's promise.
            Some(bytes) => unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) },
            // SAFETY: as above.
            None => unsafe { std::ptr::write_bytes(place, 0, self.size) },
        }
    }

    /// Where the data of a lock is, if it is of this type.
    pub fn found(&self, handle: &Handle) -> Result<NonNull<u8>, ObjectError> {
        self.room()?;
        let o = handle.object;
        // Acquire, all: written before the object was put in service.
        let (bytes, more) = (o.permits.load(Ordering::Acquire) as usize, o.more.load(Ordering::Acquire));
        let its = o.hint.load(Ordering::Acquire); // Acquire: as above.
        // First: what was seen of a removed one may be another's.
        if handle.is_dead() || (bytes > 0 && more == 0) {
            return Err(handle.vanished());
        }
        if bytes != self.size || its != self.hash {
            let wanted = format!("{} ({} bytes)", self.name, self.size);
            return Err(ObjectError::OtherType { kind: handle.kind(), name: handle.name(), bytes, wanted });
        }
        // Data of no bytes: nowhere, but aligned for any type.
        let nowhere = NonNull::<[u128; 4]>::dangling().cast();
        Ok(match bytes {
            0 => nowhere,
            _ => NonNull::new(handle.map.blocks(more - 1, bytes.div_ceil(BLOCK) as u32)).unwrap_or(nowhere),
        })
    }
}
