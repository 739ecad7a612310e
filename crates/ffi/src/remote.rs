//! Pools, mutexes, semaphores and tubes on an engine, etcd, that many machines share.
//!
//! Only in a library that was built with the feature `remote`: cargo build --profile dist -p chappe-ffi --features remote. See "Many machines" in the guide. This
//! header is not a part of <chappe.h>.
//!
//! What is held goes with a lease, which a thread of the library renews. It is lost when this process is stopped or cut off for longer than the lease's time to
//! live, when the engine ends the lease, and when somebody takes the permit away: then another may hold it, and no library can stop the caller. So the token is had by
//! `chappe_remote_check` alone, which says whether the permit is certainly held: hand it on with each write, to a store that refuses a smaller one than it has
//! seen. `chappe_remote_lost` is a descriptor that is readable from the loss on: an arm of a choice by `chappe_arm_readable`, or of poll(2).
//!
//! A permit or a connection may be used by any number of threads at once, until it is closed; an end of a tube by one at a time (-EBUSY for others). In a
//! forked child all of them are the parent's: -EPERM, and closing them there does nothing to the parent's. A process that ends without closing them gives
//! all back when its lease ends. Each call takes a round trip to the engine, some milliseconds, but for those that say otherwise. `ns`: how many nanoseconds to wait,
//! 0 for not at all, CHAPPE_FOREVER for as long as it takes.
//!
//! Errors of all: -EHOSTUNREACH: no endpoint answers; -EHOSTDOWN: the engine did not answer in time, and what it may have granted is given back when it does;
//! -EREMOTEIO: an answer was lost, and it is not known whether it was done: look before it is done again; -EPROTO: the engine refuses;
//! -EPROTONOSUPPORT: it is of a version that ends living leases, or what stands there is newer than this library; -ENOENT: there is no such object; -EPROTOTYPE:
//! the name is another kind of object's; -EIDRM: it was removed while it was waited for; -EINVAL: a name or a number that cannot be; -EPERM, -EBADF, -EFAULT, -EMFILE.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use chappe::remote::{Guard, LockError, Patience, Permit, Pool, Receiver, Record, Remote, RemoteError, Sender};
use chappe::remote::{acquire_any, place::Place};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A handle of a connection to a namespace of an engine.
pub struct chappe_remote(());

/// A handle of what is held there: permits of a pool, or a mutex.
pub struct chappe_remote_permit(());

/// A handle of a sender of a tube there.
pub struct chappe_remote_sender(());

/// A handle of a receiver of a tube there.
pub struct chappe_remote_receiver(());

/// A pool as it was at one moment.
#[repr(C)]
pub struct chappe_remote_pool_info {
    /// How many permits it has.
    pub permits: u32,
    /// How many of them are held.
    pub held: u32,
    /// How many wait.
    pub waiting: u32,
    /// 0.
    pub reserved: u32,
}

/// What is known of a record.
#[repr(C)]
pub struct chappe_remote_record {
    /// Its fencing token: larger each time that the record is given to a receiver.
    pub token: u64,
    /// Whether it was given to a receiver before, which did not finish with it.
    pub again: bool,
}

struct Connected(Box<Remote>);

impl Object for Connected {
    type Name = chappe_remote;
    const KIND: u32 = 34;
    const REFUSAL: &'static CStr = c"this is no open connection to an engine: NULL, closed already, or something else";
}

/// Permits, or a mutex.
enum Had {
    Permit(Permit),
    Guard(Guard),
}

struct Held(Box<Had>);

impl Object for Held {
    type Name = chappe_remote_permit;
    const KIND: u32 = 35;
    const REFUSAL: &'static CStr = c"this is no permit of an engine: NULL, given back already, or something else";
}

/// With whether the next call is to be told that records may be there behind those that it was told of.
struct Sends(Box<Mutex<(Sender, bool)>>);

impl Object for Sends {
    type Name = chappe_remote_sender;
    const KIND: u32 = 36;
    const REFUSAL: &'static CStr = c"this is no sender of a tube on an engine: NULL, closed already, or something else";
}

/// With the record for which there was too little room.
struct Receives(Box<Mutex<(Receiver, Option<Record>)>>);

impl Object for Receives {
    type Name = chappe_remote_receiver;
    const KIND: u32 = 37;
    const REFUSAL: &'static CStr =
        c"this is no receiver of a tube on an engine: NULL, closed already, or something else";
}

fn connected<'a>(remote: *const chappe_remote) -> Answer<&'a Remote> {
    handle::get::<Connected>(remote).map(|connected| &*connected.0)
}

fn patience(ns: i64) -> Answer<Patience> {
    Ok(match input::within(ns)? {
        Limit::Forever => Patience::Forever,
        Limit::Within(time) if time.is_zero() => Patience::Now,
        Limit::Within(time) => Patience::For(time),
        Limit::Now => Patience::Now,
    })
}

/// The end of a tube, for this thread.
fn alone<T>(end: &Mutex<T>) -> Answer<MutexGuard<'_, T>> {
    end.try_lock().map_err(|_| Failure::new(libc::EBUSY, c"another thread is in a call with this end of a tube"))
}

/// The end of a tube, which nobody else has any more.
fn inside<T>(end: Mutex<T>) -> T {
    end.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Connects. `place`: "@lab" for the engine lab of remotes.toml, "@" for that of CHAPPE_ON, or a URL, etcd://HOST[:PORT],.../NAMESPACE, with etcds:// for TLS;
/// certificates and users are in remotes.toml, or in CHAPPE_CA, CHAPPE_CERT, CHAPPE_KEY, CHAPPE_USER, CHAPPE_PASSWORD_FILE. `label`: what others see of this
/// process; NULL for its name. Blocks until one endpoint has answered, for 5 s at most.
///
/// Errors: -EHOSTUNREACH, -EPROTONOSUPPORT, -EPROTO; -EINVAL: the place cannot be, or a file that it names cannot be read; -EFAULT, -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_open(
    place: *const c_char,
    label: *const c_char,
    remote: *mut *mut chappe_remote,
) -> c_int {
    done(|| {
        let to = input::place(remote)?;
        let (place, label) = (input::long_text(place)?, input::text_if(label)?);
        let connect = || match label {
            Some(label) => Remote::connect(&Place::of(place).map_err(RemoteError::Invalid)?, label),
            None => Remote::open(place),
        };
        to.write(handle::open_as(|| Ok(Connected(Box::new(connect()?))))?);
        Ok(())
    })
}

/// Closes a connection. What is held by it stays held, until that is given back.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_close(remote: *mut chappe_remote) -> c_int {
    done(|| handle::close::<Connected>(remote).map(drop))
}

/// Makes a pool of so many permits, 1 to 100,000.
///
/// Errors: -EEXIST; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_create_pool(remote: *mut chappe_remote, name: *const c_char, permits: u32) -> c_int {
    done(|| Ok(connected(remote)?.create_pool(input::text(name)?, permits).map(drop)?))
}

/// Gives a pool another size. Permits beyond a smaller one stay with their holders, and are not granted again.
///
/// Errors: those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_resize_pool(remote: *mut chappe_remote, name: *const c_char, permits: u32) -> c_int {
    done(|| Ok(connected(remote)?.pool(input::text(name)?)?.resize(permits)?))
}

/// What a pool is now.
///
/// Errors: those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_look_at_pool(
    remote: *mut chappe_remote,
    name: *const c_char,
    info: *mut chappe_remote_pool_info,
) -> c_int {
    done(|| {
        let to = input::place(info)?;
        let now = connected(remote)?.pool(input::text(name)?)?.info()?;
        let (permits, held, waiting) = (now.permits, now.held, now.waiting);
        to.write(chappe_remote_pool_info { permits, held, waiting, reserved: 0 });
        Ok(())
    })
}

/// Makes a mutex.
///
/// Errors: -EEXIST; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_create_mutex(remote: *mut chappe_remote, name: *const c_char) -> c_int {
    done(|| Ok(connected(remote)?.create_mutex(input::text(name)?).map(drop)?))
}

/// Makes a semaphore of so many units.
///
/// Errors: -EEXIST; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_create_semaphore(remote: *mut chappe_remote, name: *const c_char, units: u32) -> c_int {
    done(|| Ok(connected(remote)?.create_semaphore(input::text(name)?, units).map(drop)?))
}

/// Makes a tube with room for so many pages, each of up to 64 KiB or one record, and records of `size` bytes at most, up to 1 MiB; together 512 MiB.
///
/// Errors: -EEXIST; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_create_tube(
    remote: *mut chappe_remote,
    name: *const c_char,
    pages: u64,
    size: u64,
) -> c_int {
    done(|| Ok(connected(remote)?.create_tube(input::text(name)?, pages, size).map(drop)?))
}

/// Removes an object of any kind, with all that is in it; with `force` also one that is in use: its holders lose what they hold.
///
/// Errors: -EBUSY: it is in use; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_remove(remote: *mut chappe_remote, name: *const c_char, force: bool) -> c_int {
    done(|| Ok(connected(remote)?.remove(input::text(name)?, force)?))
}

/// Waits for `permits` of one pool, all at once or none; or, where several pools are named, for one permit of whichever has one first: the first in their
/// order of those that have one now. At most 32 pools. Waiters are served in the order of arrival. Answers which pool it is of, from 0; the permit is to be given back
/// by `chappe_remote_release`.
///
/// Errors: -EAGAIN with `ns` 0: nothing is free; -ETIMEDOUT; -ERANGE: the pool never has so many; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_acquire(
    remote: *mut chappe_remote,
    pools: *const *const c_char,
    n: usize,
    permits: u32,
    ns: i64,
    permit: *mut *mut chappe_remote_permit,
) -> c_int {
    answer(|| {
        let (to, remote, patience) = (input::place(permit)?, connected(remote)?, patience(ns)?);
        let mut all: Vec<Pool> = Vec::new();
        for name in input::array(pools, n)? {
            all.push(remote.pool(input::text(*name)?)?);
        }
        let acquire = || match all.as_slice() {
            [pool] => Ok((0, pool.acquire_many(permits, patience)?)),
            _ if permits != 1 => {
                Err(RemoteError::Invalid(format!("{permits} permits come from one pool, and {n} are named")))
            }
            some => acquire_any(&some.iter().collect::<Vec<_>>(), patience),
        };
        let mut which = 0;
        let held = handle::open_as(|| {
            let (at, permit) = acquire()?;
            which = c_int::try_from(at).unwrap_or(c_int::MAX);
            Ok(Held(Box::new(Had::Permit(permit))))
        })?;
        to.write(held);
        Ok(which)
    })
}

/// Waits for a mutex, in the order of arrival. -EOWNERDEAD: it is locked, its last holder died, and what it guards may be half done: see
/// `chappe_remote_consistent`. It is to be unlocked by `chappe_remote_release`.
///
/// Errors: -EAGAIN with `ns` 0: it is locked; -ETIMEDOUT; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_lock(
    remote: *mut chappe_remote,
    name: *const c_char,
    ns: i64,
    permit: *mut *mut chappe_remote_permit,
) -> c_int {
    done(|| {
        let (to, patience) = (input::place(permit)?, patience(ns)?);
        let mutex = connected(remote)?.mutex(input::text(name)?)?;
        let mut died = false;
        let held = handle::open_as(|| {
            let guard = mutex.lock_until(patience, None).or_else(|e| {
                died = matches!(e, LockError::OwnerDied(_));
                e.into_guard()
            })?;
            Ok(Held(Box::new(Had::Guard(guard))))
        })?;
        to.write(held);
        if died {
            let text = c"the mutex is locked; its last holder died, and may have left what it guards half done";
            return Err(Failure::new(libc::EOWNERDEAD, text));
        }
        Ok(())
    })
}

/// What the mutex guards is whole again: the next holder is not warned. Without this one that was locked with -EOWNERDEAD hands the warning on. Makes no
/// call to the engine.
///
/// Errors: -EINVAL: it is of a pool; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_consistent(permit: *mut chappe_remote_permit) -> c_int {
    done(|| match &*handle::get::<Held>(permit)?.0 {
        Had::Guard(guard) => {
            guard.make_consistent();
            Ok(())
        }
        Had::Permit(_) => {
            Err(Failure::new(libc::EINVAL, c"a permit of a pool guards nothing that could be consistent"))
        }
    })
}

/// Whether it is certainly still held, by this machine's clock: the token to hand on, which is larger with each grant. Makes no call, to the system or to the
/// engine, but to read a clock.
///
/// Errors: -ESTALE: it is lost; -EPERM: it is the parent's; -EFAULT: there is no place for the token; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_check(permit: *const chappe_remote_permit, token: *mut u64) -> c_int {
    done(|| {
        let to = input::place(token)?;
        let checked = match &*handle::get::<Held>(permit)?.0 {
            Had::Permit(permit) => permit.check(),
            Had::Guard(guard) => guard.check(),
        };
        to.write(checked?.get());
        Ok(())
    })
}

/// A descriptor that is readable from when it is lost on. It is the permit's: poll it, and neither read nor close it.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_lost(permit: *const chappe_remote_permit) -> c_int {
    answer(|| {
        Ok(match &*handle::get::<Held>(permit)?.0 {
            Had::Permit(permit) => permit.lost().as_raw_fd(),
            Had::Guard(guard) => guard.lost().as_raw_fd(),
        })
    })
}

/// For how many nanoseconds it is certain if no renewal is answered from now on, and nobody takes it away; 0 if it is lost. Makes no call, as
/// `chappe_remote_check`.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_left(permit: *const chappe_remote_permit) -> i64 {
    answer(|| {
        let left = match &*handle::get::<Held>(permit)?.0 {
            Had::Permit(permit) => permit.left(),
            Had::Guard(guard) => guard.left(),
        };
        Ok(i64::try_from(left.as_nanos()).unwrap_or(i64::MAX))
    })
}

/// Writes which permits of the pool these are, in ascending order, as many as have room; answers how many there are. Of a mutex 0.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_indices(permit: *const chappe_remote_permit, to: *mut u32, n: usize) -> isize {
    answer(|| {
        let room = input::array_out(to, n)?;
        let indices = match &*handle::get::<Held>(permit)?.0 {
            Had::Permit(permit) => permit.indices(),
            Had::Guard(_) => &[0],
        };
        room.iter_mut().zip(indices).for_each(|(place, index)| {
            place.write(*index);
        });
        Ok(indices.len() as isize)
    })
}

/// Gives it back, and closes the handle in any case.
///
/// Errors: -ESTALE: it was lost before, and what was done since was done without it; -EHOSTDOWN: it comes back as soon as the engine answers, or with the lease;
/// -EPROTO, -EPERM, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_release(permit: *mut chappe_remote_permit) -> c_int {
    done(|| match *handle::close::<Held>(permit)?.0 {
        Had::Permit(permit) => Ok(permit.release()?),
        Had::Guard(guard) => Ok(guard.unlock()?),
    })
}

/// Gives a mutex back without having finished: its next holder is told, as after a death. A permit of a pool is given back. Closes the handle in any case.
///
/// Errors: -EPERM, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_abandon(permit: *mut chappe_remote_permit) -> c_int {
    done(|| {
        match *handle::close::<Held>(permit)?.0 {
            Had::Permit(permit) => drop(permit),
            Had::Guard(guard) => guard.abandon(),
        }
        Ok(())
    })
}

/// Adds units to a semaphore: those that the head of the line waits for are its own at once. Answers how many are left, as far as an int has room.
///
/// Errors: -EOVERFLOW: it would have too many; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_up(remote: *mut chappe_remote, name: *const c_char, units: u32) -> c_int {
    answer(|| {
        let left = connected(remote)?.semaphore(input::text(name)?)?.up(units)?;
        Ok(c_int::try_from(left).unwrap_or(c_int::MAX))
    })
}

/// Waits for a unit of a semaphore, in the order of arrival, and takes it. One that was given to a waiter that dies before it returns is spent.
///
/// Errors: -EAGAIN with `ns` 0: there is none; -ETIMEDOUT; -EREMOTEIO: one may have been spent; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_down(remote: *mut chappe_remote, name: *const c_char, ns: i64) -> c_int {
    done(|| {
        let patience = patience(ns)?;
        Ok(connected(remote)?.semaphore(input::text(name)?)?.down_until(patience, None)?)
    })
}

/// How many units a semaphore has, as far as an int has room.
///
/// Errors: those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_value(remote: *mut chappe_remote, name: *const c_char) -> c_int {
    answer(|| {
        let value = connected(remote)?.semaphore(input::text(name)?)?.value()?;
        Ok(c_int::try_from(value).unwrap_or(c_int::MAX))
    })
}

/// A sender of a tube. While it is there, receivers wait for more.
///
/// Errors: -EPIPE: the tube is sealed; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_open_sender(
    remote: *mut chappe_remote,
    tube: *const c_char,
    sender: *mut *mut chappe_remote_sender,
) -> c_int {
    done(|| {
        let to = input::place(sender)?;
        let tube = connected(remote)?.tube(input::text(tube)?)?;
        to.write(handle::open_as(|| Ok(Sends(Box::new(Mutex::new((tube.sender()?, false))))))?);
        Ok(())
    })
}

/// Sends `n` records in their order, many in one transaction: the record at `records[i]` has `lengths[i]` bytes. Waits while the tube is full. They are there,
/// each whole and once, when this returns. Answers how many are certainly there: fewer than `n` where something went wrong behind them, which the next call is
/// told.
///
/// Errors, if none is there: -EAGAIN with `ns` 0, -ETIMEDOUT: the tube is full; -EPIPE: it is sealed; -ENOSPC: four fifths of the engine's room are used;
/// -EREMOTEIO: some may be there; -ESTALE, -EHOSTDOWN: this sender is at its end, open another; -EBUSY: another thread uses it; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_send(
    sender: *mut chappe_remote_sender,
    records: *const *const c_void,
    lengths: *const usize,
    n: usize,
    ns: i64,
) -> isize {
    answer(|| {
        let (patience, mut sender) = (patience(ns)?, alone(&handle::get::<Sends>(sender)?.0)?);
        let pairs = input::array(records, n)?.iter().zip(input::array(lengths, n)?);
        let all = pairs.map(|(record, length)| input::bytes(*record, *length)).collect::<Answer<Vec<&[u8]>>>()?;
        let (sender, unsure) = &mut *sender;
        if std::mem::take(unsure) {
            let text = c"an answer was lost: records behind those that were counted may be there; look before they are sent again";
            return Err(Failure::new(libc::EREMOTEIO, text));
        }
        match sender.send_all(&all, patience) {
            Ok(()) => Ok(n as isize),
            Err(e) if e.sent > 0 => {
                *unsure = e.unsure > 0;
                Ok(e.sent as isize)
            }
            Err(e) if e.unsure > 0 => Err(Failure::told(libc::EREMOTEIO, &e)),
            Err(e) => Err(e.why.into()),
        }
    })
}

/// Closes a sender: it has finished, and receivers are told the end when no other is there.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_close_sender(sender: *mut chappe_remote_sender) -> c_int {
    done(|| handle::close::<Sends>(sender).map(drop))
}

/// Closes a sender that has not finished: receivers are told that a sender died.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_abandon_sender(sender: *mut chappe_remote_sender) -> c_int {
    done(|| handle::close::<Sends>(sender).map(|sends| inside(*sends.0).0.abandon()))
}

/// Lets nothing more be sent into a tube: receivers end when they have had what is there.
///
/// Errors: those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_seal(remote: *mut chappe_remote, tube: *const c_char) -> c_int {
    done(|| Ok(connected(remote)?.tube(input::text(tube)?)?.seal()?))
}

/// A receiver of a tube. Its stream ends when all was received, and of the senders that there were none is left; with `follows` when the tube is sealed.
///
/// Errors: those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_open_receiver(
    remote: *mut chappe_remote,
    tube: *const c_char,
    follows: bool,
    receiver: *mut *mut chappe_remote_receiver,
) -> c_int {
    done(|| {
        let to = input::place(receiver)?;
        let tube = connected(remote)?.tube(input::text(tube)?)?;
        let make = || if follows { tube.follower() } else { tube.receiver() };
        to.write(handle::open_as(|| Ok(Receives(Box::new(Mutex::new((make()?, None))))))?);
        Ok(())
    })
}

/// Waits for a record, and answers its length. It counts as done when the caller asks for what comes after those that came with it, or closes the receiver; if its
/// process dies before, it comes to another, with `again`. `record`: what is known of it, or NULL.
///
/// Errors: -EMSGSIZE: it is longer than `size`, and comes again with the next call; -EPIPE: the stream is at its end; -ECONNRESET, once: a sender died
/// before it was done; -EAGAIN with `ns` 0, -ETIMEDOUT: none came; -EBADMSG: a page cannot be read, and is passed over; -ESTALE: the lease is lost, and what came with it
/// comes to another; -EBUSY: another thread uses it; and those of all.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_recv(
    receiver: *mut chappe_remote_receiver,
    to: *mut c_void,
    size: usize,
    ns: i64,
    record: *mut chappe_remote_record,
) -> isize {
    answer(|| {
        let (room, known, patience) = (input::buffer(to, size)?, input::place_if(record)?, patience(ns)?);
        let mut receives = alone(&handle::get::<Receives>(receiver)?.0)?;
        let (receiver, kept) = &mut *receives;
        if kept.is_some() {
            // It is a parent's, or comes to another by now.
            receiver.check()?;
        }
        let got = match kept.take() {
            Some(record) => record,
            None => receiver
                .recv_until(patience, None)?
                .ok_or_else(|| Failure::new(libc::EPIPE, c"all was received, and nobody sends"))?,
        };
        let length = got.bytes.len();
        if let Some(known) = known {
            known.write(chappe_remote_record { token: got.token.get(), again: got.again });
        }
        let Some(room) = room.get_mut(..length) else {
            *kept = Some(got);
            return Err(Failure::told(
                libc::EMSGSIZE,
                format_args!("the record has {length} bytes, and there is room for {size}"),
            ));
        };
        room.copy_from_slice(&got.bytes);
        Ok(length as isize)
    })
}

/// Whether what it was given last certainly comes to no other receiver, by this machine's clock. Makes no call, to the system or to the engine, but to read a
/// clock.
///
/// Errors: -ESTALE: the lease is lost, and it comes to another; -EPERM: it is the parent's; -EBUSY: another thread uses it; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_check_receiver(receiver: *const chappe_remote_receiver) -> c_int {
    done(|| Ok(alone(&handle::get::<Receives>(receiver)?.0)?.0.check()?))
}

/// Closes a receiver: it has finished with what it was given, and the rest of what came with that goes to another, and so does a record for which there was
/// too little room.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_close_receiver(receiver: *mut chappe_remote_receiver) -> c_int {
    done(|| {
        let (receiver, kept) = inside(*handle::close::<Receives>(receiver)?.0);
        if kept.is_some() {
            receiver.abandon()
        } else {
            drop(receiver)
        }
        Ok(())
    })
}

/// Closes a receiver that has not finished with what it was given last: that comes to another, too.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_remote_abandon_receiver(receiver: *mut chappe_remote_receiver) -> c_int {
    done(|| handle::close::<Receives>(receiver).map(|receives| inside(*receives.0).0.abandon()))
}
