//! Arenas: regions of shared memory that hold objects with names.
//!
//! An object's name says its arena: "lab/gpu0" is the object "gpu0" of the arena "lab", "gpu0" that of the arena "default". Opening
//! or making an object opens or makes its arena, so most programs need nothing of this page. An arena is one file, in
//! /dev/shm/chappe-UID or in the directory that CHAPPE_DIR names. Names have 1 to 47 of A-Z a-z 0-9 . _ @ : + - and do not begin
//! with . or -.

use crate::failure::{Answer, answer, done};
use crate::handle::{self, Object};
use crate::input;
use crate::look::{chappe_member, chappe_name, chappe_waiter, listed};
use crate::parting;
use chappe::{Arena, ArenaOptions, ObjectInfo};
use std::ffi::{CStr, c_char, c_int};

/// A handle of an arena. The mapping itself stays for the rest of the process's life.
pub struct chappe_arena(());

impl Object for Arena {
    type Name = chappe_arena;
    const KIND: u32 = 2;
    const REFUSAL: &'static CStr = c"this is no open handle of an arena: NULL, closed already, or of something else";
}

/// What an arena is made with. Set it to zeros first: 0 stands for what is usual.
#[repr(C)]
pub struct chappe_arena_options {
    /// How many threads and processes can be attached at once (4095; at most 65535).
    pub members: u32,
    /// How many objects it can have (4096; at most 1048576).
    pub objects: u32,
    /// How many permits its pools can have beyond the first of each (16384).
    pub cells: u32,
    /// 0.
    pub reserved: u32,
    /// How many bytes the data of its mutexes and its tubes can take together (256 MiB; at most 4 GiB); memory is taken for what is used.
    pub data: u64,
    /// 0.
    pub reserved_too: [u64; 4],
}

/// How much of an arena is there, and in use.
#[repr(C)]
pub struct chappe_capacity {
    /// Places for threads and processes.
    pub members: u32,
    /// Of these, in use.
    pub members_used: u32,
    /// Places for objects.
    pub objects: u32,
    /// Of these, in use.
    pub objects_used: u32,
    /// Permits of pools beyond the first of each.
    pub cells: u32,
    /// Of these, in use.
    pub cells_used: u32,
    /// Bytes for the data of mutexes and for tubes.
    pub data: u64,
    /// Of these, in use.
    pub data_used: u64,
    /// Bytes of shared memory in all.
    pub bytes: u64,
}

/// Something that cannot be told, since its words make no sense.
pub const CHAPPE_IS_DAMAGED: c_int = 0;
/// A semaphore.
pub const CHAPPE_IS_SEMAPHORE: c_int = 1;
/// A pool.
pub const CHAPPE_IS_POOL: c_int = 2;
/// A mutex.
pub const CHAPPE_IS_MUTEX: c_int = 3;
/// A condition variable.
pub const CHAPPE_IS_CONDVAR: c_int = 4;
/// A tube.
pub const CHAPPE_IS_TUBE: c_int = 5;
/// A readers-writer lock.
pub const CHAPPE_IS_RWLOCK: c_int = 6;
/// A barrier.
pub const CHAPPE_IS_BARRIER: c_int = 7;

/// Something in an arena.
#[repr(C)]
pub struct chappe_object {
    /// Its name within the arena.
    pub name: chappe_name,
    /// CHAPPE_IS_SEMAPHORE, CHAPPE_IS_POOL ...
    pub kind: c_int,
    /// How many wait.
    pub waiting: u32,
}

fn options(given: *const chappe_arena_options) -> Answer<ArenaOptions> {
    let Some(given) = input::given_if(given)? else { return Ok(ArenaOptions::default()) };
    input::unused(&[given.reserved.into()])?;
    input::unused(&given.reserved_too)?;
    let some = |n: u32| (n > 0).then_some(n);
    let (members, objects, cells) = (some(given.members), some(given.objects), some(given.cells));
    Ok(ArenaOptions { members, objects, cells, data: (given.data > 0).then_some(given.data) })
}

/// Opens the arena of this name.
///
/// Errors: -ENOENT; -EUCLEAN if the file is no arena, or damaged; -EPROTONOSUPPORT if another version of chappe, or a program with
/// another C library, made it; -EACCES, -ELOOP if the directory or file is not safe to use; -EINVAL, -ENAMETOOLONG, -EFAULT for what
/// is no name; -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_open(name: *const c_char, arena: *mut *mut chappe_arena) -> c_int {
    done(|| {
        let place = input::place(arena)?;
        place.write(handle::open_as(|| Ok(Arena::open(input::name(name)?)?))?);
        Ok(())
    })
}

/// Makes the arena of this name, which must not be there. `options` may be NULL.
///
/// Errors: -EEXIST; -ENOSPC if there is not so much shared memory; -EINVAL if the options cannot be had; else as
/// `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_create(
    name: *const c_char,
    options: *const chappe_arena_options,
    arena: *mut *mut chappe_arena,
) -> c_int {
    done(|| {
        let place = input::place(arena)?;
        place.write(handle::open_as(|| Ok(Arena::create(input::name(name)?, &self::options(options)?)?))?);
        Ok(())
    })
}

/// Opens the arena of this name, or makes it. `options`, which may be NULL, are for one that is made.
///
/// Errors: as `chappe_arena_open` and `chappe_arena_create`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_open_or_create(
    name: *const c_char,
    options: *const chappe_arena_options,
    arena: *mut *mut chappe_arena,
) -> c_int {
    done(|| {
        let place = input::place(arena)?;
        place.write(handle::open_as(|| Ok(Arena::open_or_create(input::name(name)?, &self::options(options)?)?))?);
        Ok(())
    })
}

/// Closes a handle. The arena stays, and so do all handles of objects in it.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_close(arena: *mut chappe_arena) -> c_int {
    done(|| handle::close::<Arena>(arena).map(|_| ()))
}

/// Removes the arena of this name. This process's handles, and its threads that neither hold nor await anything there,
/// do not count as a use of it. An arena in use is refused unless `force` is set: then every object in it is dead; its
/// waiters get -EIDRM, and permits and locks held there end without effect.
///
/// Errors: -ENOENT; -EBUSY if it is in use; -EPERM if it is another user's; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Arena::remove(input::name(name)?, input::truth(force))?))
}

/// Gives up the calling thread's place in the arena; permits that it still has there come back, slots of tubes that it
/// has reserved are given up, records that it has borrowed are put back, and a mutex that it still has locked is
/// condemned. It takes a place again when it next needs one. (A thread that ends does this by itself.)
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_leave(arena: *mut chappe_arena) -> c_int {
    done(|| {
        let arena = handle::get::<Arena>(arena)?;
        parting::leaves(arena);
        arena.leave();
        Ok(())
    })
}

/// Writes the arena's name, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_name(arena: *const chappe_arena, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Arena>(arena)?.name()))
}

/// Writes the path of the arena's file, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_path(arena: *const chappe_arena, to: *mut c_char, size: usize) -> isize {
    answer(|| {
        let path = handle::get::<Arena>(arena)?.path().unwrap_or_default();
        input::put_text(to, size, &path.to_string_lossy())
    })
}

/// Says how much of the arena is there and in use.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_capacity(arena: *const chappe_arena, capacity: *mut chappe_capacity) -> c_int {
    done(|| {
        let (all, place) = (handle::get::<Arena>(arena)?.capacity(), input::place(capacity)?);
        place.write(chappe_capacity {
            members: all.members,
            members_used: all.members_used,
            objects: all.objects,
            objects_used: all.objects_used,
            cells: all.cells,
            cells_used: all.cells_used,
            data: all.data,
            data_used: all.data_used,
            bytes: all.bytes,
        });
        Ok(())
    })
}

fn object(info: &ObjectInfo) -> chappe_object {
    let kind = match info.kind {
        "semaphore" => CHAPPE_IS_SEMAPHORE,
        "pool" => CHAPPE_IS_POOL,
        "mutex" => CHAPPE_IS_MUTEX,
        "condition variable" => CHAPPE_IS_CONDVAR,
        "tube" => CHAPPE_IS_TUBE,
        "readers-writer lock" => CHAPPE_IS_RWLOCK,
        "barrier" => CHAPPE_IS_BARRIER,
        _ => CHAPPE_IS_DAMAGED,
    };
    chappe_object { name: chappe_name::new(&info.name), kind, waiting: info.waiting }
}

/// Lists what is in the arena: writes as many as have room, answers how many there are. `to` may be NULL if `room` is 0.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_objects(arena: *const chappe_arena, to: *mut chappe_object, room: usize) -> isize {
    answer(|| listed(&handle::get::<Arena>(arena)?.objects(), to, room, object))
}

/// Lists the waiters for the object of this name within the arena, of any kind, in the order in which they will be
/// served; as `chappe_arena_objects`.
///
/// Errors: -ENOENT if there is none; -EINVAL, -ENAMETOOLONG for what is no name; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_waiters(
    arena: *const chappe_arena,
    name: *const c_char,
    to: *mut chappe_waiter,
    room: usize,
) -> isize {
    answer(|| listed(&handle::get::<Arena>(arena)?.waiters(input::name(name)?)?, to, room, |waiter| waiter.into()))
}

/// Lists the members attached to the arena, and the dead ones that have not been recovered yet; as
/// `chappe_arena_objects`.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_members(arena: *const chappe_arena, to: *mut chappe_member, room: usize) -> isize {
    answer(|| listed(&handle::get::<Arena>(arena)?.members(), to, room, |who| who.into()))
}

/// Lists the arenas by name: writes as many names as have room, answers how many there are.
///
/// Errors: -EFAULT; -EACCES, -ELOOP if the directory is not safe to use.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arena_list(to: *mut chappe_name, room: usize) -> isize {
    answer(|| listed(&Arena::list()?, to, room, |name| chappe_name::new(name)))
}

/// Writes the path of the directory where arenas lie, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EFAULT; the system's, if CHAPPE_DIR is relative and there is no working directory any more.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_directory(to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &chappe::directory()?.to_string_lossy()))
}
