//! Maps: dictionaries of bytes that threads and processes share, and that outlive any of them.
//!
//! Each change is one atomic step: a process that is killed in the middle has made it, or has not. No operation waits
//! for another thread, dead, stopped or slow. The only exception: a thread's first change of a named map waits for a
//! thread that is making or removing an object. A lookup writes nothing. Keys and values are copied in and out. A
//! struct is stored as its bytes: the padding between its fields must be zero.
//!
//! A handle may be used by any number of threads at once, until it is closed.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use chappe::map::Iter;
use chappe::{Map, MapOptions};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub type Bytes = Map<[u8], [u8]>;

/// A handle of a map.
pub struct chappe_map(());

/// An iteration over a map.
pub struct chappe_map_walk(());

/// An answer: the key is not there, or has not the value that was expected; or there is no entry more.
pub const CHAPPE_MAP_NO: c_int = 0;
/// An answer: it is so, or was done.
pub const CHAPPE_MAP_YES: c_int = 1;

/// What a map is made for.
#[repr(C)]
pub struct chappe_map_options {
    /// The most entries, 1048576 at most; 0 stands for 1024.
    pub entries: u32,
    /// The most bytes of a key, 1048576 at most; 0 stands for 64.
    pub key_size: u32,
    /// The most bytes of a value, 1048576 at most; 0 stands for 256.
    pub value_size: u32,
    /// 0.
    pub reserved: u32,
    /// 0.
    pub reserved_too: [u64; 2],
}

/// Bytes to be written, and how many they are: of a key, or a value.
#[repr(C)]
pub struct chappe_map_bytes {
    /// Where; NULL for none.
    pub data: *mut c_void,
    /// Before: how many have room. After: how many there are; what has no room is left out.
    pub size: usize,
}

/// A map, where a slot of the table of handles has room for it.
pub struct Held(pub Box<Bytes>);

impl Object for Held {
    type Name = chappe_map;
    const KIND: u32 = 11;
    const REFUSAL: &'static CStr = c"this is no open handle of a map: NULL, closed already, or of something else";
}

/// What an iteration stands on: a map of its own, so that the handle may be closed.
struct Walk(Box<Standing>);

struct Standing {
    // Before the map, on which it stands.
    iter: Mutex<Iter<'static, [u8], [u8]>>,
    _map: Box<Bytes>,
}

impl Object for Walk {
    type Name = chappe_map_walk;
    const KIND: u32 = 12;
    const REFUSAL: &'static CStr = c"this is no iteration of a map: NULL, closed already, or something else";
}

fn options(given: *const chappe_map_options) -> Answer<MapOptions> {
    let Some(given) = input::given_if(given)? else { return Ok(MapOptions::default()) };
    input::unused(&[given.reserved.into(), given.reserved_too[0], given.reserved_too[1]])?;
    let usual = MapOptions::default();
    let or = |n: u32, usual: u32| if n == 0 { usual } else { n };
    Ok(MapOptions {
        entries: or(given.entries, usual.entries),
        key: or(given.key_size, usual.key),
        value: or(given.value_size, usual.value),
        ordered: false,
    })
}

fn opened(map: *mut *mut chappe_map, make: impl FnOnce() -> Answer<Bytes>) -> c_int {
    done(|| {
        let place = input::place(map)?;
        place.write(handle::open_as(|| make().map(|map| Held(Box::new(map))))?);
        Ok(())
    })
}

/// Makes a map for the threads of this process. It goes when the handle is closed. `options` may be NULL.
///
/// Errors: -EINVAL if there cannot be such a map; -EFAULT; -EMFILE; -ENOSPC if there are 65536 private objects; -ENOMEM if there is no
/// address space for what is private.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_private(given: *const chappe_map_options, map: *mut *mut chappe_map) -> c_int {
    opened(map, || Ok(Bytes::private(&options(given)?)?))
}

/// Opens the map of this name.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or of a map of a Rust type; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_open(name: *const c_char, map: *mut *mut chappe_map) -> c_int {
    opened(map, || Ok(Bytes::open(input::name(name)?)?))
}

/// Makes the map of this name, which must not be there, and its arena if need be. `options` may be NULL.
///
/// Errors: -EEXIST; -EINVAL if there cannot be such a map; -ENOSPC or -EUSERS if the arena is full; else as `chappe_map_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_create(
    name: *const c_char,
    given: *const chappe_map_options,
    map: *mut *mut chappe_map,
) -> c_int {
    opened(map, || Ok(Bytes::create(input::name(name)?, &options(given)?)?))
}

/// Opens the map of this name, or makes it. One that is there must have been made with the same options.
///
/// Errors: -EPROTOTYPE if it has others; else as `chappe_map_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_open_or_create(
    name: *const c_char,
    given: *const chappe_map_options,
    map: *mut *mut chappe_map,
) -> c_int {
    opened(map, || Ok(Bytes::open_or_create(input::name(name)?, &options(given)?)?))
}

/// Closes a handle. A private map goes with it, a named one stays. No other thread may be in a call with this handle, or call with it
/// later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_close(map: *mut chappe_map) -> c_int {
    done(|| handle::close::<Held>(map).map(drop))
}

/// Removes the map of this name. One with entries or a user is refused unless `force`: then its users get -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_map_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Map::unmake(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_name(map: *const chappe_map, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Held>(map)?.0.name()))
}

/// How many entries there are; while others change it, at about that time. Looks at all slots.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_count(map: *const chappe_map) -> i64 {
    answer(|| Ok(handle::get::<Held>(map)?.0.len() as i64))
}

/// Writes what was found, as much as has room, and how many bytes it has.
fn put(to: *mut chappe_map_bytes, found: &[u8]) -> Answer<()> {
    if to.is_null() {
        return Ok(());
    }
    input::given(to.cast_const())?;
    // SAFETY: the caller's, aligned, as was just seen.
    let to = unsafe { &mut *to };
    if !to.data.is_null() {
        let room = input::buffer(to.data, to.size)?;
        let len = room.len().min(found.len());
        room[..len].copy_from_slice(&found[..len]);
    }
    to.size = found.len();
    Ok(())
}

fn told(old: Option<Vec<u8>>, to: *mut chappe_map_bytes) -> Answer<c_int> {
    match old {
        Some(bytes) => put(to, &bytes).map(|()| CHAPPE_MAP_YES),
        None => Ok(CHAPPE_MAP_NO),
    }
}

/// Looks a key up; `value` may be NULL. Answers `CHAPPE_MAP_YES` or `CHAPPE_MAP_NO`.
///
/// Errors: -EMSGSIZE if the key is empty or too long; -EIDRM if the map was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_get(
    map: *const chappe_map,
    key: *const c_void,
    key_size: usize,
    value: *mut chappe_map_bytes,
) -> c_int {
    answer(|| told(handle::get::<Held>(map)?.0.get(input::bytes(key, key_size)?)?, value))
}

/// Gives a key a value. Answers whether it had one, which is in `old` then, unless that is NULL.
///
/// Errors: -ENOSPC if the map is full, and nothing was changed; -EAGAIN if too many threads are changing a full one; -EMSGSIZE if the key
/// is empty, or it or the value is too long; -EIDRM if the map was removed; -EUSERS if the arena cannot take another member; -EBADF,
/// -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_put(
    map: *mut chappe_map,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
    old: *mut chappe_map_bytes,
) -> c_int {
    answer(|| {
        let (map, key) = (&handle::get::<Held>(map)?.0, input::bytes(key, key_size)?);
        told(map.insert(key, input::bytes(value, value_size)?)?, old)
    })
}

/// Removes a key. Answers whether it was there; what it had is in `old` then, unless that is NULL.
///
/// Errors: as `chappe_map_put`, but for -ENOSPC and -EAGAIN.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_delete(
    map: *mut chappe_map,
    key: *const c_void,
    key_size: usize,
    old: *mut chappe_map_bytes,
) -> c_int {
    answer(|| told(handle::get::<Held>(map)?.0.remove(input::bytes(key, key_size)?)?, old))
}

/// If the key has the value `expected` (NULL: is not there), gives it the value `new_value` (NULL: removes it), in one step. Answers
/// whether that was done.
///
/// Errors: as `chappe_map_put`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_swap(
    map: *mut chappe_map,
    key: *const c_void,
    key_size: usize,
    expected: *const c_void,
    expected_size: usize,
    new_value: *const c_void,
    new_size: usize,
) -> c_int {
    answer(|| {
        let (map, key) = (&handle::get::<Held>(map)?.0, input::bytes(key, key_size)?);
        let given = |at: *const c_void, size| if at.is_null() { Ok(None) } else { input::bytes(at, size).map(Some) };
        let swapped = map.compare_exchange(key, given(expected, expected_size)?, given(new_value, new_size)?)?;
        Ok(if swapped.is_ok() { CHAPPE_MAP_YES } else { CHAPPE_MAP_NO })
    })
}

/// Begins an iteration: every key that is there throughout comes, none twice, in no order. It holds nothing but its own memory.
///
/// Errors: -EIDRM if the map was removed; -EMFILE, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_walk_begin(map: *const chappe_map, walk: *mut *mut chappe_map_walk) -> c_int {
    done(|| {
        let place = input::place(walk)?;
        let map = Box::new((*handle::get::<Held>(map)?.0).clone());
        // SAFETY: it lies in the box, which goes after the iteration does.
        let stays: &'static Bytes = unsafe { &*std::ptr::from_ref(&*map) };
        let walk = Walk(Box::new(Standing { iter: Mutex::new(stays.iter()?), _map: map }));
        place.write(handle::open(walk)?);
        Ok(())
    })
}

/// The next entry; `key` and `value` may be NULL. Answers `CHAPPE_MAP_NO` when there is none more.
///
/// Errors: -EIDRM if the map was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_walk_next(
    walk: *mut chappe_map_walk,
    key: *mut chappe_map_bytes,
    value: *mut chappe_map_bytes,
) -> c_int {
    answer(|| {
        let walk = handle::get::<Walk>(walk)?;
        let next = walk.0.iter.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(entry) = next else { return Ok(CHAPPE_MAP_NO) };
        let (k, v) = entry?;
        put(key, &k)?;
        put(value, &v)?;
        Ok(CHAPPE_MAP_YES)
    })
}

/// Ends an iteration, at any time.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_walk_end(walk: *mut chappe_map_walk) -> c_int {
    done(|| handle::close::<Walk>(walk).map(drop))
}

/// Waits until the value of a key is another than `seen` (NULL: is there), at most until `at` (see `chappe_now`). Answers
/// `CHAPPE_MAP_YES`; what it has then is to be looked up.
///
/// Errors: -ETIMEDOUT; -EINTR; -EINVAL; else as `chappe_map_get`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_wait(
    map: *const chappe_map,
    key: *const c_void,
    key_size: usize,
    seen: *const c_void,
    seen_size: usize,
    at: i64,
) -> c_int {
    answer(|| {
        let (map, key) = (&handle::get::<Held>(map)?.0, input::bytes(key, key_size)?);
        let seen = if seen.is_null() { None } else { Some(input::bytes(seen, seen_size)?) };
        let mut watch = map.watch(Some(key));
        loop {
            watch.changes()?;
            if map.get(key)?.as_deref() != seen {
                return Ok(CHAPPE_MAP_YES);
            }
            let patience = match input::until(at)? {
                Limit::Within(left) => Some(left),
                Limit::Now => Some(Duration::ZERO),
                Limit::Forever => None,
            };
            if watch.next(patience)?.is_empty() {
                return Err(Failure::new(libc::ETIMEDOUT, c"timed out waiting for the entry to change"));
            }
        }
    })
}
