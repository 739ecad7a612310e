//! Ordered lists, the public API: ordered maps without values.

use super::error::MapError;
use super::made::{Iter, Map, MapOptions};
use bytemuck::{Pod, Zeroable};
use std::marker::PhantomData;

/// A type whose order its bytes can express: integers, signed and unsigned, and arrays of bytes.
pub trait Ranked: Copy + 'static {
    /// Bytes that compare, from the first on, as the values do.
    type Bytes: Pod + std::fmt::Debug;
    /// The bytes of a value.
    fn to_rank(self) -> Self::Bytes;
    /// The value of the bytes.
    fn from_rank(bytes: Self::Bytes) -> Self;
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            type Bytes = [u8; size_of::<$t>()];
            #[inline]
            fn to_rank(self) -> Self::Bytes {
                self.to_be_bytes()
            }
            #[inline]
            fn from_rank(bytes: Self::Bytes) -> $t {
                <$t>::from_be_bytes(bytes)
            }
        }
    )*};
}

macro_rules! signed {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            type Bytes = [u8; size_of::<$t>()];
            #[inline]
            fn to_rank(self) -> Self::Bytes {
                // Flips the sign bit: negative numbers come first.
                (self ^ <$t>::MIN).to_be_bytes()
            }
            #[inline]
            fn from_rank(bytes: Self::Bytes) -> $t {
                <$t>::from_be_bytes(bytes) ^ <$t>::MIN
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, u128, usize);
signed!(i8, i16, i32, i64, i128, isize);

impl<const N: usize> Ranked for [u8; N]
where
    [u8; N]: Pod,
{
    type Bytes = [u8; N];
    fn to_rank(self) -> [u8; N] {
        self
    }
    fn from_rank(bytes: [u8; N]) -> [u8; N] {
        bytes
    }
}

/// A key of an ordered map that sorts as its value does: see [`MapOptions::ordered`].
///
/// ```
/// use chappe_sync::map::{InOrder, Map, MapOptions};
/// let deadlines = Map::<InOrder<i64>, u32>::private(&MapOptions { ordered: true, ..MapOptions::default() })?;
/// deadlines.insert(&InOrder::new(30), &3)?;
/// deadlines.insert(&InOrder::new(-1), &1)?;
/// let first = deadlines.first()?.map(|(at, job)| (at.get(), job));
/// assert_eq!(first, Some((-1, 1)));
/// # Ok::<(), chappe_sync::map::MapError>(())
/// ```
#[repr(transparent)]
pub struct InOrder<T: Ranked>(T::Bytes, PhantomData<fn() -> T>);

impl<T: Ranked> InOrder<T> {
    /// The key of a value.
    pub fn new(value: T) -> InOrder<T> {
        InOrder(value.to_rank(), PhantomData)
    }

    /// The value.
    pub fn get(self) -> T {
        T::from_rank(self.0)
    }
}

impl<T: Ranked> Clone for InOrder<T> {
    fn clone(&self) -> InOrder<T> {
        *self
    }
}

impl<T: Ranked> Copy for InOrder<T> {}

impl<T: Ranked> std::fmt::Debug for InOrder<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InOrder({:?})", self.0)
    }
}

// SAFETY: it consists of its bytes alone.
unsafe impl<T: Ranked> Zeroable for InOrder<T> {}
// SAFETY: as above: any bytes, no padding, no pointer.
unsafe impl<T: Ranked> Pod for InOrder<T> {}

/// Ordered values, each at most once, for threads (private) or processes (named).
///
/// No operation waits for another thread, dead, stopped or slow: all are lock-free, except a thread's first change of a named list. A
/// thread may iterate while others insert and remove: each value that is there throughout comes, in order, and none twice. A thread that stops or dies in
/// the middle blocks nobody. An operation of a killed process has happened, or not.
///
/// It is one linked list: an operation passes all smaller values, so it suits some hundreds of values. For look-ups by key without an order use a
/// [`Map`]; for ordered values with data, an ordered map, which this is without data.
///
/// Signals, forks: as with a map. In the shell, `chappe map create NAME --ordered`.
///
/// Paper: synthesis, 5.2.3 and figure 5.7 (traversal while others delete).
///
/// ```
/// use chappe_sync::map::List;
/// let due = List::private(100)?;
/// for at in [30, 10, 20] {
///     assert!(due.insert(at)?);
/// }
/// assert!(!due.insert(10)?);
/// assert_eq!(due.pop_first()?, Some(10));
/// assert_eq!(due.iter()?.collect::<Result<Vec<i64>, _>>()?, [20, 30]);
/// # Ok::<(), chappe_sync::map::MapError>(())
/// ```
#[derive(Clone)]
pub struct List<T: Ranked> {
    map: Map<InOrder<T>, ()>,
}

impl<T: Ranked> std::fmt::Debug for List<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List({:?})", self.map.name())
    }
}

fn options(capacity: u32) -> MapOptions {
    MapOptions { entries: capacity, ordered: true, ..MapOptions::default() }
}

impl<T: Ranked> List<T> {
    /// Makes a list for the threads of this process, of at most so many values.
    ///
    /// # Errors
    /// As [`Map::private`].
    pub fn private(capacity: u32) -> Result<List<T>, MapError> {
        Ok(List { map: Map::private(&options(capacity))? })
    }

    /// Attaches a list by name.
    ///
    /// # Errors
    /// As [`Map::open`]; `Unordered` if it is a map without an order.
    pub fn open(name: &str) -> Result<List<T>, MapError> {
        let map = Map::open(name)?;
        if map.options().ordered { Ok(List { map }) } else { Err(MapError::Unordered { name: map.name() }) }
    }

    /// Makes a list by name, of at most so many values; also makes its arena, with room for it, if there is none.
    ///
    /// # Errors
    /// As [`Map::create`].
    pub fn create(name: &str, capacity: u32) -> Result<List<T>, MapError> {
        Ok(List { map: Map::create(name, &options(capacity))? })
    }

    /// Attaches a list by name, or makes it.
    ///
    /// # Errors
    /// As [`Map::open_or_create`].
    pub fn open_or_create(name: &str, capacity: u32) -> Result<List<T>, MapError> {
        Ok(List { map: Map::open_or_create(name, &options(capacity))? })
    }

    /// The underlying map: to wait for changes ([`Map::watch`]), and to inspect it ([`Map::info`]). [`Map::unmake`] removes it.
    pub fn map(&self) -> &Map<InOrder<T>, ()> {
        &self.map
    }

    /// Inserts a value at its place. Returns whether it was not there before.
    ///
    /// # Errors
    /// `Full`, `Busy`: nothing was inserted; `Dead`, `Object`.
    pub fn insert(&self, value: T) -> Result<bool, MapError> {
        Ok(self.map.get_or_insert(&InOrder::new(value), &())?.1)
    }

    /// Removes a value. Returns whether it was there.
    ///
    /// # Errors
    /// `Dead`, `Object`.
    pub fn remove(&self, value: T) -> Result<bool, MapError> {
        Ok(self.map.remove(&InOrder::new(value))?.is_some())
    }

    /// Whether a value is there.
    ///
    /// # Errors
    /// `Dead`.
    pub fn contains(&self, value: T) -> Result<bool, MapError> {
        self.map.contains(&InOrder::new(value))
    }

    /// The smallest value.
    ///
    /// # Errors
    /// `Dead`.
    pub fn first(&self) -> Result<Option<T>, MapError> {
        Ok(self.map.first()?.map(|(key, ())| key.get()))
    }

    /// Removes the smallest value and returns it. (A smaller one that is inserted meanwhile stays.) `None`: the list was empty.
    ///
    /// # Errors
    /// `Dead`, `Object`.
    pub fn pop_first(&self) -> Result<Option<T>, MapError> {
        while let Some(value) = self.first()? {
            if self.remove(value)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Iterates over all values, in order: see the type for what comes while others change the list.
    ///
    /// # Errors
    /// `Dead`.
    pub fn iter(&self) -> Result<Values<'_, T>, MapError> {
        Ok(Values(self.map.iter()?))
    }

    /// Iterates over all values after this one, whether it is there or not.
    ///
    /// # Errors
    /// `Dead`.
    pub fn iter_after(&self, value: T) -> Result<Values<'_, T>, MapError> {
        Ok(Values(self.map.iter_after(&InOrder::new(value))?))
    }

    /// How many values there are; while others change the list, how many there were at about that time.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// The values of a [`List`].
pub struct Values<'a, T: Ranked>(Iter<'a, InOrder<T>, ()>);

impl<T: Ranked> Iterator for Values<'_, T> {
    type Item = Result<T, MapError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(key, ())| key.get()))
    }
}
