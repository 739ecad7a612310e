//! Lists in order, as users know them: ordered maps without values.

use super::error::MapError;
use super::made::{Iter, Map, MapOptions};
use bytemuck::{Pod, Zeroable};
use std::marker::PhantomData;

/// What has an order that its bytes can tell: numbers, with and without sign, and arrays of bytes.
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
                // The sign's bit: negative numbers come first.
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

/// A key of an ordered map that comes where its value does: see [`MapOptions::ordered`].
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

// SAFETY: its bytes, and nothing else.
unsafe impl<T: Ranked> Zeroable for InOrder<T> {}
// SAFETY: as above: any bytes, no padding, no pointer.
unsafe impl<T: Ranked> Pod for InOrder<T> {}

/// Values in order, each once, for threads (private) or processes (named).
///
/// Nothing waits for another thread, dead, stopped or slow: all is lock-free, except a thread's first change of a named one. One may go through the list while
/// others put in and take out: each value that is there throughout comes, in order, and none twice. Who stops in the middle, or dies there, keeps nobody from
/// anything. A process that is killed in the middle of an operation has done it, or not.
///
/// It is one linked list: an operation goes past all smaller values, so it is for some hundreds. For look-ups by key without an order take a
/// [`Map`]; for values with data beside them an ordered one, which this is without data.
///
/// Signals, forks: as a map's. In the shell, `chappe map create NAME --ordered`.
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
    /// Makes one for the threads of this process, of at most so many values.
    ///
    /// # Errors
    /// As [`Map::private`].
    pub fn private(capacity: u32) -> Result<List<T>, MapError> {
        Ok(List { map: Map::private(&options(capacity))? })
    }

    /// Attaches one by name.
    ///
    /// # Errors
    /// As [`Map::open`]; `Unordered` if it is a map without order.
    pub fn open(name: &str) -> Result<List<T>, MapError> {
        let map = Map::open(name)?;
        if map.options().ordered { Ok(List { map }) } else { Err(MapError::Unordered { name: map.name() }) }
    }

    /// Makes one by name, of at most so many values, and its arena, with room for it, if need be.
    ///
    /// # Errors
    /// As [`Map::create`].
    pub fn create(name: &str, capacity: u32) -> Result<List<T>, MapError> {
        Ok(List { map: Map::create(name, &options(capacity))? })
    }

    /// Attaches one by name, or makes it.
    ///
    /// # Errors
    /// As [`Map::open_or_create`].
    pub fn open_or_create(name: &str, capacity: u32) -> Result<List<T>, MapError> {
        Ok(List { map: Map::open_or_create(name, &options(capacity))? })
    }

    /// The map that it is: to wait for changes ([`Map::watch`]), and to see how it stands ([`Map::info`]). Removed by [`Map::unmake`].
    pub fn map(&self) -> &Map<InOrder<T>, ()> {
        &self.map
    }

    /// Puts a value in, where it belongs. Answers whether it was not there.
    ///
    /// # Errors
    /// `Full`, `Busy`: nothing was put in; `Dead`, `Object`.
    pub fn insert(&self, value: T) -> Result<bool, MapError> {
        Ok(self.map.get_or_insert(&InOrder::new(value), &())?.1)
    }

    /// Takes a value out. Answers whether it was there.
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

    /// Takes the smallest value out. (One that is put in before it meanwhile stays.) `None`: the list was empty.
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

    /// All values, in order: see the type for what comes while others change the list.
    ///
    /// # Errors
    /// `Dead`.
    pub fn iter(&self) -> Result<Values<'_, T>, MapError> {
        Ok(Values(self.map.iter()?))
    }

    /// All values after this one, whether it is there or not.
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

    /// Whether there is none.
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
