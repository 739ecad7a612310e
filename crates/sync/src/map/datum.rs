//! The types that keys and values can have.

use crate::called::plain_name;
use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
    impl<T: bytemuck::Pod> Sealed for T {}
    impl Sealed for [u8] {}
}

/// A key or a value of a [`Map`](super::Map): plain data ([`Pod`]), or bytes, of any number up to the map's limit.
pub trait Datum: sealed::Sealed {
    /// A copy of it: plain data itself, or a vector of bytes.
    type Owned;
    /// Its number of bytes, if it is plain data.
    #[doc(hidden)]
    fn __plain() -> Option<usize>;
    #[doc(hidden)]
    fn __bytes(&self) -> &[u8];
    #[doc(hidden)]
    fn __of(owned: &Self::Owned) -> &Self;
    /// Reads one by `fill`, which gets a buffer of at most so many bytes and returns how many it wrote.
    #[doc(hidden)]
    fn __read<E>(
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<Option<Self::Owned>, E>;
}

impl<T: Pod> Datum for T {
    type Owned = T;
    fn __plain() -> Option<usize> {
        Some(size_of::<T>())
    }
    #[inline(always)]
    fn __bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }
    fn __of(owned: &T) -> &T {
        owned
    }
    #[inline(always)]
    fn __read<E>(_most: usize, fill: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>) -> Result<Option<T>, E> {
        let mut datum = T::zeroed();
        Ok(fill(bytemuck::bytes_of_mut(&mut datum))?.map(|_| datum))
    }
}

impl Datum for [u8] {
    type Owned = Vec<u8>;
    fn __plain() -> Option<usize> {
        None
    }
    fn __bytes(&self) -> &[u8] {
        self
    }
    fn __of(owned: &Vec<u8>) -> &[u8] {
        owned
    }
    fn __read<E>(most: usize, fill: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>) -> Result<Option<Vec<u8>>, E> {
        let mut bytes = vec![0; most];
        Ok(fill(&mut bytes)?.map(|len| {
            bytes.truncate(len);
            bytes
        }))
    }
}

/// What the map records of the type, to compare when it is attached: the type's name without its modules.
pub(super) fn called<T: Datum + ?Sized>() -> String {
    let name = plain_name::<T>();
    T::__plain().map_or_else(|| format!("{name} of any length"), |size| format!("{name} ({size} bytes)"))
}

pub(super) fn hash_of<T: Datum + ?Sized>() -> u64 {
    chappe_arena::hash(&called::<T>())
}
