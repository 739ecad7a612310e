//! What a named tube can carry.

use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
    impl<T: bytemuck::Pod> Sealed for T {}
    impl Sealed for [u8] {}
}

/// What a named tube can carry: plain data ([`Pod`]), or bytes of any number up to the tube's [`size`](super::TubeOptions::size).
pub trait Record: sealed::Sealed {
    /// A message as a choice sends and receives it: plain data itself, or a vector of bytes.
    type Owned;
    /// Size and alignment, if the type is plain data.
    #[doc(hidden)]
    fn __plain() -> Option<(usize, usize)>;
    #[doc(hidden)]
    fn __bytes(owned: &Self::Owned) -> &[u8];
    /// A message of `size` bytes that `fill` writes; `fill` returns how many bytes it wrote.
    #[doc(hidden)]
    fn __owned(size: usize, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self::Owned>;
    /// `len` bytes at `place`, as this type.
    #[doc(hidden)]
    fn __at(place: *mut u8, len: usize) -> *mut Self;
    /// How many bytes a record has: plain data all of them, whatever `len` is.
    #[doc(hidden)]
    fn __whole(all: usize, len: usize) -> usize;
}

/// A message of these bytes.
pub(crate) fn as_owned<T: Record + ?Sized>(bytes: &[u8]) -> T::Owned {
    let filled = T::__owned(bytes.len(), |room| {
        room.copy_from_slice(&bytes[..room.len()]);
        Some(bytes.len())
    });
    filled.expect("it was filled")
}

impl<T: Pod> Record for T {
    type Owned = T;
    fn __plain() -> Option<(usize, usize)> {
        Some((size_of::<T>(), align_of::<T>()))
    }
    fn __bytes(owned: &T) -> &[u8] {
        bytemuck::bytes_of(owned)
    }
    fn __owned(_size: usize, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<T> {
        let mut message = T::zeroed();
        fill(bytemuck::bytes_of_mut(&mut message))?;
        Some(message)
    }
    fn __at(place: *mut u8, _len: usize) -> *mut T {
        place.cast()
    }
    fn __whole(all: usize, _len: usize) -> usize {
        all
    }
}

impl Record for [u8] {
    type Owned = Vec<u8>;
    fn __plain() -> Option<(usize, usize)> {
        None
    }
    fn __bytes(owned: &Vec<u8>) -> &[u8] {
        owned
    }
    fn __owned(size: usize, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Vec<u8>> {
        let mut record = vec![0; size];
        let len = fill(&mut record)?;
        record.truncate(len);
        Some(record)
    }
    fn __at(place: *mut u8, len: usize) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(place, len)
    }
    fn __whole(_all: usize, len: usize) -> usize {
        len
    }
}
