//! Making, opening and removing maps; look-ups and changes.

use super::atlas::{self, Atlas, Types};
use super::datum::{self, Datum, called};
use super::error::MapError;
use super::heap::Heap;
use crate::handle::Handle;
use crate::named::{Named, NamedKind};
use crate::registry::ArenaOptions;
use chappe_arena::layout::USUAL_MEMBERS;
use chappe_arena::layout::{BLOCK, Kind, MAX_BLOCKS};
use chappe_arena::{Admin, ArenaError, Map as Arena, Place, Who};
use chappe_plat::{ROBUST, clock};
use chappe_structures::table::{Change, Decide, Full, MOST_BYTES, MOST_ENTRIES, Shape, Table, Walk};
use chappe_wait::attachment::{Within, enter, party_at_hand};
use chappe_wait::body::blocks_wanted;
use chappe_wait::waiters::{bytes, waiters};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

/// The number of spare cells of a private map: for so many threads at once.
const PRIVATE_SPARE: u32 = 256;
/// The member number that all threads use in a private map, where deaths do not matter.
const ANYBODY: u16 = 0;

/// The dimensions of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOptions {
    /// How many entries it has room for: 1 to 1,048,576 (1,024). With that many, the map is full; concurrent inserts may
    /// exceed it, by at most one for each member.
    pub entries: u32,
    /// The most bytes of a key, if keys are bytes: 1 to 1 MiB (64). Plain data has its own size.
    pub key: u32,
    /// The most bytes of a value, if values are bytes: up to 1 MiB (256).
    pub value: u32,
    /// Iteration in the order of the keys (false): by their bytes from the first on, as with `memcmp`; for numbers use [`InOrder`](super::InOrder).
    /// Then all entries are one list: a look-up passes all smaller keys.
    pub ordered: bool,
}

impl Default for MapOptions {
    fn default() -> MapOptions {
        MapOptions { entries: 1024, key: 64, value: 256, ordered: false }
    }
}

/// The state of a map: see [`Map::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapInfo {
    /// How many entries it has.
    pub used: u32,
    /// The most it can have.
    pub entries: u32,
    /// The most bytes of a key.
    pub key: u32,
    /// The most bytes of a value.
    pub value: u32,
    /// The threads that have changed it, and may do so again.
    pub users: Vec<Who>,
    /// How many threads wait for it to change.
    pub waiting: u32,
    /// How many bytes of the arena's data it takes; of the heap, if private.
    pub bytes: u64,
}

pub(crate) fn info(map: &'static Arena, place: Place) -> Option<MapInfo> {
    let atlas = Atlas::of(map, place)?;
    let Shape { entries, key, value, .. } = atlas.table.shape();
    let users = atlas.body.users().filter(|m| map.dead(*m).is_none()).map(|m| map.who(m)).collect();
    let waiting = waiters(map, place).len() as u32;
    let bytes = bytes(map, place);
    Some(MapInfo { used: atlas.table.entries(), entries, key, value, users, waiting, bytes })
}

/// A dictionary shared by threads (private) or processes (named). It outlives each of them: an operation of a process that is killed in
/// the middle has happened, or not.
///
/// No operation waits for another thread, dead, stopped or slow: all are lock-free (see the bounds in the guide), except a thread's
/// first change of a named map, which registers it. A look-up writes nothing, and makes no system call; nor does a change
/// that no thread waits for. Keys and values are plain data ([`bytemuck::Pod`]) or, as `[u8]`, bytes of any number up to a limit; both are
/// copied in and out. Its room is reserved when it is made: a full map is an error, and nothing is lost.
///
/// Signals: a handler may call everything except a thread's first change of a named map, and functions that call the user's function. In
/// a forked child, a private map is a copy; a named one stays shared.
///
/// Sizes: each entry takes 32 bytes and its key, and 16 and its value (each rounded up to 8), and 4 to 8 bytes of the index.
///
/// Paper: synthesis, 5.2.3 (lists traversed while others delete); nonblocking-real-time, 2.1. In C `chappe_map`, in the shell
/// `chappe map`.
///
/// ```
/// use chappe_sync::map::{Map, MapOptions};
/// let shards = Map::<u64, u64>::private(&MapOptions { entries: 100, ..MapOptions::default() })?;
/// assert_eq!(shards.insert(&7, &1)?, None);
/// assert_eq!(shards.get_or_insert(&7, &2)?, (1, false));
/// shards.update(&7, |old| Some(old.unwrap_or(0) + 1))?;
/// assert_eq!(shards.get(&7)?, Some(2));
/// assert_eq!(shards.remove(&7)?, Some(2));
/// # Ok::<(), chappe_sync::map::MapError>(())
/// ```
pub struct Map<K: Datum + ?Sized, V: Datum + ?Sized> {
    pub(super) handle: Handle,
    pub(super) table: Table<'static>,
    /// `None`: private.
    atlas: Option<Atlas<'static>>,
    _heap: Option<Arc<Heap>>,
    of: PhantomData<fn(&K, &V)>,
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> Clone for Map<K, V> {
    fn clone(&self) -> Map<K, V> {
        Map { handle: self.handle.clone(), _heap: self._heap.clone(), ..*self }
    }
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> std::fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Map({:?})", self.name())
    }
}

fn types_of<K: Datum + ?Sized, V: Datum + ?Sized>() -> Types {
    Types { keys: datum::hash_of::<K>(), values: datum::hash_of::<V>() }
}

fn told(shape: Shape) -> String {
    let order = if shape.ordered { ", in order" } else { "" };
    format!("{} entries, keys of {} and values of {} bytes at most{order}", shape.entries, shape.key, shape.value)
}

fn shape_of<K: Datum + ?Sized, V: Datum + ?Sized>(options: &MapOptions, spare: u32) -> Result<Shape, MapError> {
    let fits = |what, count: u64, least: u32, most: u32| match u32::try_from(count) {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(MapError::Capacity { what, count, least: least.into(), most: most.into() }),
    };
    let size = |plain: Option<usize>, most: u32| plain.map_or(u64::from(most), |size| size as u64);
    let entries = fits("entries", options.entries.into(), 1, MOST_ENTRIES)?;
    let key = fits("bytes in a key", size(K::__plain(), options.key), 1, MOST_BYTES)?;
    let value = fits("bytes in a value", size(V::__plain(), options.value), 0, MOST_BYTES)?;
    let shape = Shape { ordered: options.ordered, ..Shape::new(entries, key, value, spare) };
    let most = u64::from(MAX_BLOCKS) * BLOCK as u64;
    if blocks_wanted(shape.bytes(), USUAL_MEMBERS) > MAX_BLOCKS {
        return Err(MapError::Capacity { what: "bytes in all", count: shape.bytes() as u64, least: 1, most });
    }
    Ok(shape)
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> NamedKind for Map<K, V> {
    const KIND: Kind = Kind::Map;
    type Error = MapError;
    type Plan<'a> = Shape;

    fn room(shape: &Shape) -> Result<ArenaOptions, MapError> {
        Ok(ArenaOptions::with_room(u64::from(blocks_wanted(shape.bytes(), USUAL_MEMBERS)) * BLOCK as u64))
    }

    fn lay_out(shape: &Shape, map: &'static Arena, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        let all = Shape::new(shape.entries, shape.key, shape.value, map.geometry().members);
        let shape = Shape { ordered: shape.ordered, ..all };
        atlas::make(map, admin, name, Some((shape, types_of::<K, V>())))
    }

    fn attach(handle: Handle, wanted: Option<&Shape>) -> Result<Map<K, V>, MapError> {
        let map = Map::at(handle)?;
        let Some(atlas) = &map.atlas else { return Err(Self::gone(&map.handle)) };
        let (has, types) = (map.table.shape(), types_of::<K, V>());
        if atlas.types != types {
            let other = |not: bool, what: &str, size| {
                format!("{what} of {}{size} bytes", if not { "another type, of " } else { "" })
            };
            let keys = other(atlas.types.keys != types.keys, "keys", has.key);
            let has = format!("{keys} and {}", other(atlas.types.values != types.values, "values", has.value));
            let wanted = format!("keys {} and values {}", called::<K>(), called::<V>());
            return Err(MapError::OtherType { name: map.name(), has, wanted });
        }
        let is_other = |wanted: &&Shape| {
            (wanted.entries, wanted.key, wanted.value, wanted.ordered) != (has.entries, has.key, has.value, has.ordered)
        };
        if let Some(wanted) = wanted.filter(is_other) {
            return Err(MapError::OtherShape { name: map.name(), has: told(has), wanted: told(*wanted) });
        }
        Ok(map)
    }

    fn in_use(handle: &Handle) -> Option<String> {
        let info = info(handle.map, handle.place)?;
        let other = info.users.iter().find(|who| !who.is_of_this_process());
        if info.used == 0 && info.waiting == 0 && other.is_none() {
            return None;
        }
        let by = other.map_or_else(String::new, |who| format!("; pid {} `{}` changes it", who.pid, who.label));
        Some(format!("{} entries in it; {} waiting for a change{by}", info.used, info.waiting))
    }
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> Map<K, V> {
    /// Makes a map for the threads of this process.
    ///
    /// # Errors
    /// `Capacity`; `Object` if the private arena is full, or there is no memory for it.
    pub fn private(options: &MapOptions) -> Result<Map<K, V>, MapError> {
        let shape = shape_of::<K, V>(options, PRIVATE_SPARE)?;
        let Some(heap) = Heap::new(shape) else {
            let count = shape.bytes() as u64;
            return Err(MapError::Capacity { what: "bytes in all on this machine now", count, least: 1, most: count });
        };
        let handle = Handle::private(&mut |map, admin, name| atlas::make(map, admin, name, None))?;
        // SAFETY: the heap is freed with the last handle.
        let table = unsafe { heap.table(shape) };
        table.seed_with(clock::now() ^ std::ptr::from_ref(&heap).addr() as u64);
        Ok(Map { handle, table, atlas: None, _heap: Some(Arc::new(heap)), of: PhantomData })
    }

    /// Attaches a map by name.
    ///
    /// # Errors
    /// `OtherType` if its keys and values are not of types `K` and `V`; `Object` if it does not exist, or is of another kind.
    pub fn open(name: &str) -> Result<Map<K, V>, MapError> {
        Named::open(name)
    }

    /// Makes a map by name; also makes its arena, with room for it, if there is none.
    ///
    /// # Errors
    /// `Capacity`; `Object` if it exists already, or the arena has no room.
    pub fn create(name: &str, options: &MapOptions) -> Result<Map<K, V>, MapError> {
        Named::make(name, &shape_of::<K, V>(options, 1)?, false)
    }

    /// Attaches a map by name, or makes it.
    ///
    /// # Errors
    /// `OtherShape` if it exists and was made with other options; otherwise as [`Map::open`] and [`Map::create`].
    pub fn open_or_create(name: &str, options: &MapOptions) -> Result<Map<K, V>, MapError> {
        Named::make(name, &shape_of::<K, V>(options, 1)?, true)
    }

    #[cold]
    fn gone(handle: &Handle) -> MapError {
        MapError::Dead { name: handle.name() }
    }

    fn at(handle: Handle) -> Result<Map<K, V>, MapError> {
        let Some(atlas) = Atlas::of(handle.map, handle.place) else { return Err(Self::gone(&handle)) };
        Ok(Map { handle, table: atlas.table, atlas: Some(atlas), _heap: None, of: PhantomData })
    }

    /// Its name; empty for a private one.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    fn shown(&self) -> String {
        self.handle.shown()
    }

    /// The options it was made with.
    pub fn options(&self) -> MapOptions {
        let Shape { entries, key, value, ordered, .. } = self.table.shape();
        MapOptions { entries, key, value, ordered }
    }

    /// Its state, composed of single looks while other threads continue.
    ///
    /// # Errors
    /// `Dead` if it was removed.
    pub fn info(&self) -> Result<MapInfo, MapError> {
        if self.atlas.is_some() {
            let info = info(self.handle.map, self.handle.place).ok_or_else(|| Self::gone(&self.handle))?;
            return self.seen(info);
        }
        let shape = self.table.shape();
        let Shape { entries, key, value, .. } = shape;
        let waiting = waiters(self.handle.map, self.handle.place).len() as u32;
        let (used, users, bytes) = (self.table.entries(), Vec::new(), shape.bytes() as u64);
        Ok(MapInfo { used, entries, key, value, users, waiting, bytes })
    }

    /// I2 of the body: whether what was seen belongs to this map.
    #[inline(always)]
    pub(super) fn seen<T>(&self, what: T) -> Result<T, MapError> {
        if self.atlas.as_ref().is_none_or(|atlas| atlas.body.is_live()) {
            Ok(what)
        } else {
            Err(Self::gone(&self.handle))
        }
    }

    #[inline(always)]
    fn key<'k>(&self, key: &'k K) -> Result<&'k [u8], MapError> {
        let (bytes, most) = (key.__bytes(), self.table.shape().key);
        if K::__plain().is_none() && !(1..=most as usize).contains(&bytes.len()) {
            return Err(MapError::Key { name: self.shown(), len: bytes.len(), most });
        }
        Ok(bytes)
    }

    fn too_long(&self, len: usize) -> MapError {
        MapError::Value { name: self.shown(), len, most: self.table.shape().value }
    }

    #[inline(always)]
    fn checked_value<'v>(&self, value: &'v V) -> Result<&'v [u8], MapError> {
        let bytes = value.__bytes();
        let fits = V::__plain().is_some() || bytes.len() <= self.table.shape().value as usize;
        if fits { Ok(bytes) } else { Err(self.too_long(bytes.len())) }
    }

    /// The value of a key, if it is there. Never waits, and writes nothing.
    ///
    /// # Errors
    /// `Key` if it is empty or too long; `Dead`.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<V::Owned>, MapError> {
        let key = self.key(key)?;
        let read = |to: &mut [u8]| Ok::<_, Infallible>(self.table.get(key, to));
        let Ok(value) = V::__read(self.table.shape().value as usize, read);
        self.seen(value)
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn contains(&self, key: &K) -> Result<bool, MapError> {
        let key = self.key(key)?;
        self.seen(self.table.get(key, &mut []).is_some())
    }

    fn full(&self, full: Full) -> MapError {
        let Shape { entries, spare, .. } = self.table.shape();
        match full {
            Full::Entries => MapError::Full { name: self.shown(), entries },
            Full::Values => MapError::Busy { name: self.shown(), most: spare },
        }
    }

    /// The calling thread as a changer; registers it the first time.
    #[inline(always)]
    fn me(&self) -> Result<u16, MapError> {
        let Some(atlas) = self.atlas.as_ref().filter(|_| ROBUST) else { return Ok(ANYBODY) };
        match party_at_hand(self.handle.map) {
            Some((me, _)) if atlas.body.may_change(me.member) => Ok(me.member as u16),
            _ => self.enter(atlas),
        }
    }

    #[cold]
    fn enter(&self, atlas: &Atlas<'static>) -> Result<u16, MapError> {
        let (member, _) = enter(&atlas.body)?.ok_or_else(|| Self::gone(&self.handle))?;
        Ok(member as u16)
    }

    /// Changes an entry; returns its old value, and whether anything was done.
    #[inline(always)]
    fn change(&self, key: &K, decide: &mut impl Decide) -> Result<(Option<V::Owned>, bool), MapError> {
        let key = self.key(key)?;
        let me = self.me()?;
        let mut done = false;
        let mut once = || {
            let change = |old: &mut [u8]| {
                self.table.change(me, key, old, decide).map(|changed| {
                    done = changed.done;
                    changed.old
                })
            };
            V::__read(self.table.shape().value as usize, change)
        };
        let ended = match once() {
            // Dead members may hold some of the room.
            Err(_) if self.atlas.is_some() && self.handle.map.recover_dead() > 0 => once(),
            ended => ended,
        };
        let old = ended.map_err(|full| self.full(full))?;
        if done {
            self.tell();
        }
        Ok((old, done))
    }

    /// Notifies the threads that wait for a change.
    #[inline(always)]
    fn tell(&self) {
        let (map, place) = (self.handle.map, self.handle.place);
        if map.waits_on(place.index, self.handle.object) {
            crate::condvar::notify_all(map, place);
        }
    }

    /// Gives a key this value, whether it was there or not. Returns its old value.
    ///
    /// # Errors
    /// `Full`, `Busy`: there is no room, and nothing was changed; `Key`, `Value`, `Dead`; `Object` if the arena cannot take another
    /// member.
    #[inline]
    pub fn insert(&self, key: &K, value: &V) -> Result<Option<V::Owned>, MapError> {
        let value = self.checked_value(value)?;
        Ok(self.change(key, &mut Put(value))?.0)
    }

    /// The value of a key; if the key is not there, inserts it with this value. Also returns whether it was inserted.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn get_or_insert(&self, key: &K, value: &V) -> Result<(V::Owned, bool), MapError>
    where
        V::Owned: Clone,
    {
        let bytes = self.checked_value(value)?;
        let (old, done) = self.change(key, &mut PutNew(bytes))?;
        let copied = || {
            let copy = |to: &mut [u8]| {
                to[..bytes.len()].copy_from_slice(bytes);
                Ok::<_, Infallible>(Some(bytes.len()))
            };
            let Ok(value) = V::__read(bytes.len(), copy);
            value
        };
        match old.or_else(copied) {
            Some(value) => Ok((value, done)),
            None => Err(Self::gone(&self.handle)),
        }
    }

    /// Removes a key. Returns its old value.
    ///
    /// # Errors
    /// `Key`, `Dead`; `Object` if the arena cannot take another member.
    #[inline]
    pub fn remove(&self, key: &K) -> Result<Option<V::Owned>, MapError> {
        Ok(self.change(key, &mut Removal)?.0)
    }

    /// Compares and updates in one step: if the key has the expected value (`None`: is not there), it gets the new one (`None`: is removed).
    /// Otherwise nothing is changed, and its value is returned. Values are compared by their bytes.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn compare_exchange(
        &self,
        key: &K,
        expected: Option<&V>,
        new: Option<&V>,
    ) -> Result<Result<(), Option<V::Owned>>, MapError> {
        let expected = expected.map(Datum::__bytes);
        let new = new.map(|value| self.checked_value(value)).transpose()?;
        let mut swap = Swap { expected, new, fits: false };
        let (old, _) = self.change(key, &mut swap)?;
        Ok(if swap.fits { Ok(()) } else { Err(old) })
    }

    /// Changes a key's value by a function of it; `None` means that the key is not there. The function is called again each time that another
    /// thread has changed the value first; it must not wait for any thread. Returns the key's value afterwards.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn update(
        &self,
        key: &K,
        function: impl FnMut(Option<V::Owned>) -> Option<V::Owned>,
    ) -> Result<Option<V::Owned>, MapError> {
        let most = self.table.shape().value as usize;
        let mut update = Update::<V, _> { function, made: None, most, too_long: None };
        let _within = self.atlas.as_ref().map(|_| Within::begin());
        self.change(key, &mut update)?;
        match update.too_long {
            Some(len) => Err(self.too_long(len)),
            None => Ok(update.made),
        }
    }

    /// Iterates over all entries. Every key that is there throughout comes, none comes twice, and each was there with its value when it
    /// came. In no order, unless the map was made ordered. Holds nothing: a thread that stops in the middle blocks nobody.
    ///
    /// # Errors
    /// `Dead` if the map was removed; if that happens in the middle, the iteration ends with this error.
    pub fn iter(&self) -> Result<Iter<'_, K, V>, MapError> {
        self.seen(Iter { map: self, walk: Table::start(), ended: false })
    }

    /// As [`Map::iter`], from the first key after this one, whether it is there or not.
    ///
    /// # Errors
    /// `Unordered` if the map was not made ordered; `Dead`.
    pub fn iter_after(&self, key: &K) -> Result<Iter<'_, K, V>, MapError> {
        if !self.table.shape().ordered {
            return Err(MapError::Unordered { name: self.shown() });
        }
        self.seen(Iter { map: self, walk: Table::start_after(key.__bytes()), ended: false })
    }

    /// The first entry: in an ordered map the one with the smallest key.
    ///
    /// # Errors
    /// `Dead`.
    #[allow(clippy::type_complexity, reason = "as the items of `iter`")]
    pub fn first(&self) -> Result<Option<(K::Owned, V::Owned)>, MapError> {
        self.iter()?.next().transpose()
    }

    /// How many entries there are; while others change the map, how many there were at about that time. Looks at all slots.
    pub fn len(&self) -> usize {
        self.table.entries() as usize
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        self.handle.is_dead()
    }
}

impl Map<[u8], [u8]> {
    /// Attaches a map whatever the types of its keys and values, as bytes.
    ///
    /// # Errors
    /// As [`Map::open`], except `OtherType`.
    pub fn open_as_bytes(name: &str) -> Result<Map<[u8], [u8]>, MapError> {
        Map::at(Handle::open(Kind::Map, name)?)
    }

    /// Whether its keys and values are bytes, not plain data of some type.
    pub fn is_of_bytes(&self) -> bool {
        self.atlas.as_ref().is_none_or(|atlas| atlas.types == types_of::<[u8], [u8]>())
    }

    /// Removes a map by name, whatever its types. Refused if it has entries, if another process has changed it and may do so again, or if
    /// threads wait for it, unless `force`: then its users get `Dead`.
    ///
    /// # Errors
    /// `Object`: it does not exist, is in use, or is of another kind.
    pub fn unmake(name: &str, force: bool) -> Result<(), MapError> {
        Named::<Map<[u8], [u8]>>::remove(name, force)
    }
}

/// An iterator over the entries of a map: see [`Map::iter`].
pub struct Iter<'a, K: Datum + ?Sized, V: Datum + ?Sized> {
    map: &'a Map<K, V>,
    walk: Walk,
    ended: bool,
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> Iterator for Iter<'_, K, V> {
    type Item = Result<(K::Owned, V::Owned), MapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let (table, walk) = (&self.map.table, &mut self.walk);
        let mut key = Vec::new();
        let step = |to: &mut [u8]| {
            Ok::<_, Infallible>(table.step(walk, to).map(|(k, len)| {
                key = k;
                len
            }))
        };
        let Ok(value) = V::__read(table.shape().value as usize, step);
        if let Err(dead) = self.map.seen(()) {
            self.ended = true;
            return Some(Err(dead));
        }
        let value = value?;
        let copy = |to: &mut [u8]| {
            let len = key.len().min(to.len());
            to[..len].copy_from_slice(&key[..len]);
            Ok::<_, Infallible>(Some(len))
        };
        let Ok(key) = K::__read(key.len(), copy);
        key.map(|key| Ok((key, value)))
    }
}

struct Put<'b>(&'b [u8]);

impl Decide for Put<'_> {
    #[inline(always)]
    fn decide(&mut self, _old: Option<&[u8]>) -> Change<'_> {
        Change::Put(self.0)
    }
}

struct PutNew<'b>(&'b [u8]);

impl Decide for PutNew<'_> {
    #[inline(always)]
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        if old.is_none() { Change::Put(self.0) } else { Change::Keep }
    }
}

struct Removal;

impl Decide for Removal {
    #[inline(always)]
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        if old.is_some() { Change::Remove } else { Change::Keep }
    }
}

struct Swap<'b> {
    expected: Option<&'b [u8]>,
    new: Option<&'b [u8]>,
    fits: bool,
}

impl Decide for Swap<'_> {
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        self.fits = old == self.expected;
        match (self.fits, self.new, old) {
            (true, Some(new), _) => Change::Put(new),
            (true, None, Some(_)) => Change::Remove,
            _ => Change::Keep,
        }
    }
}

struct Update<V: Datum + ?Sized, F> {
    function: F,
    made: Option<V::Owned>,
    most: usize,
    too_long: Option<usize>,
}

impl<V: Datum + ?Sized, F: FnMut(Option<V::Owned>) -> Option<V::Owned>> Decide for Update<V, F> {
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        let copied = old.and_then(|bytes| {
            let copy = |to: &mut [u8]| {
                to[..bytes.len()].copy_from_slice(bytes);
                Ok::<_, Infallible>(Some(bytes.len()))
            };
            let Ok(value) = V::__read(bytes.len(), copy);
            value
        });
        self.made = (self.function)(copied);
        match (&self.made, old) {
            (Some(made), _) => {
                let bytes = V::__of(made).__bytes();
                self.too_long = (bytes.len() > self.most).then_some(bytes.len());
                if self.too_long.is_some() { Change::Keep } else { Change::Put(bytes) }
            }
            (None, Some(_)) => Change::Remove,
            (None, None) => Change::Keep,
        }
    }
}
