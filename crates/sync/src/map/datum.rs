//! What keys and values can be.

use crate::mutex::plain_name;
use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
    impl<T: bytemuck::Pod> Sealed for T {}
    impl Sealed for [u8] {}
}

/// What a key or a value of a [`Map`](super::Map) can be: plain data ([`Pod`]), or bytes of any number up to what the map was made for.
pub trait Datum: sealed::Sealed {
    /// One of them, copied out: plain data itself, or a vector of bytes.
    type Owned;
    /// How many bytes it has, if it is plain data.
    #[doc(hidden)]
    fn __plain() -> Option<usize>;
    #[doc(hidden)]
    fn __bytes(&self) -> &[u8];
    #[doc(hidden)]
    fn __of(owned: &Self::Owned) -> &Self;
    /// One that is written by `fill` to so many bytes at most; that answers how many it wrote.
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

/// What it is, for those that attach it: its name without the modules it is in.
pub(super) fn called<T: Datum + ?Sized>() -> String {
    let name = plain_name::<T>();
    T::__plain().map_or_else(|| format!("{name} of any length"), |size| format!("{name} ({size} bytes)"))
}

pub(super) fn hash_of<T: Datum + ?Sized>() -> u64 {
    chappe_arena::hash(&called::<T>())
}
