//! Choice: exactly one of several operations, whichever can be done first.
//!
//! An arm consumes a wake-up, takes a permit, locks a readers-writer lock, sends a record, receives one, receives a message that a subscription
//! wants, waits for a barrier's turn, or waits until a descriptor can be read or written.
//! Exactly one arm happens; the others are as if they had not been there. In each object the choice waits in the order of arrival; of
//! several arms that are ready each is as likely, unless CHAPPE_BIASED. The same object may occur more than once, both ends of a tube
//! too; private and named objects may be mixed, those of two different arenas may not. The index that is answered is that of the
//! caller's array.
//!
//! A choice of up to 16 arms asks for no memory. An array of arms may be used again and again: only `result` and `again` are written,
//! and `data` of an arm that borrows.

use crate::barrier::{Arriving, chappe_arrival, chappe_turn, chosen as turned};
use crate::failure::{Answer, Failure, answer};
use crate::few::gathered;
use crate::handle;
use crate::input::{self, Limit};
use crate::permit::{Place, chappe_permit};
use crate::pool::chappe_pool;
use crate::receiver::{ReceivingEnd, chappe_receiver};
use crate::rwlock::{Shared, chappe_rwlock, locked};
use crate::semaphore::chappe_semaphore;
use crate::sender::{SendingEnd, chappe_sender};
use crate::subscription::{Hearing, chappe_subscription};
use chappe::raw::{self, Armed};
use chappe::{Pool, SelectError, SelectedOperation, Semaphore};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// An arm that never happens: what is all zeros is one.
pub const CHAPPE_ARM_NOTHING: c_int = 0;
/// Consumes a wake-up of a `chappe_semaphore`.
pub const CHAPPE_ARM_DOWN: c_int = 1;
/// Takes a permit of a `chappe_pool`.
pub const CHAPPE_ARM_ACQUIRE: c_int = 2;
/// Sends a record at a `chappe_sender`.
pub const CHAPPE_ARM_SEND: c_int = 3;
/// Receives a record at a `chappe_receiver`.
pub const CHAPPE_ARM_RECV: c_int = 4;
/// Waits until a descriptor can be read without waiting, or has an error or an end to tell. Nothing is read.
pub const CHAPPE_ARM_READABLE: c_int = 5;
/// Waits until a descriptor can be written without waiting, or has an error to tell.
pub const CHAPPE_ARM_WRITABLE: c_int = 6;
/// Borrows a record at a `chappe_receiver`, to look at it in place: see `chappe_receiver_borrow`.
pub const CHAPPE_ARM_BORROW: c_int = 7;
/// Locks a `chappe_rwlock` to read.
pub const CHAPPE_ARM_READ: c_int = 8;
/// Locks a `chappe_rwlock` to write.
pub const CHAPPE_ARM_WRITE: c_int = 9;
/// Receives a message at a `chappe_subscription`: one that its filter wants.
pub const CHAPPE_ARM_SUBSCRIPTION: c_int = 10;
/// Waits for the turn of a `chappe_arrival`'s round.
pub const CHAPPE_ARM_TURN: c_int = 11;

/// A flag: of several arms that are ready the first in the array happens.
pub const CHAPPE_BIASED: u32 = 1;
/// A flag: nothing happens; the answer is an arm that is ready. A faster thread may take it first.
pub const CHAPPE_LOOK: u32 = 2;

/// One of the things that a choice chooses among. `chappe_arm_down` and its like fill it in.
#[repr(C)]
pub struct chappe_arm {
    /// CHAPPE_ARM_DOWN, CHAPPE_ARM_ACQUIRE ...
    pub kind: c_int,
    /// Of CHAPPE_ARM_READABLE and CHAPPE_ARM_WRITABLE: the descriptor.
    pub descriptor: c_int,
    /// The handle of the semaphore, pool, lock, sender, receiver, subscription or arrival.
    pub object: *mut c_void,
    /// The record to be sent, or where one that is received goes, or the turn, unless that is NULL. Written if the arm was chosen and has borrowed, or locked: where the record is, or
    /// the data.
    pub data: *mut c_void,
    /// How long the record is, or how much room there is.
    pub size: usize,
    /// Where the permit goes.
    pub permit: *mut chappe_permit,
    /// Written if the arm was chosen: how it ended. Of one that received or borrowed, the record's length; of one that locked, 0 or
    /// CHAPPE_OWNER_DIED; of a turn, 0 or CHAPPE_PARTY_DIED; else 0; or an error: -EPIPE, -EIDRM ...
    pub result: isize,
    /// Written if the arm received or borrowed: whether a receiver has died that had the record before.
    pub again: bool,
    /// 0.
    pub reserved: [u64; 2],
}

fn arm(kind: c_int) -> chappe_arm {
    chappe_arm {
        kind,
        descriptor: -1,
        object: null_mut(),
        data: null_mut(),
        size: 0,
        permit: null_mut(),
        result: 0,
        again: false,
        reserved: [0; 2],
    }
}

/// An arm that consumes a wake-up.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_down(semaphore: *mut chappe_semaphore) -> chappe_arm {
    chappe_arm { object: semaphore.cast(), ..arm(CHAPPE_ARM_DOWN) }
}

/// An arm that takes a permit, and writes it to `permit`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_acquire(pool: *mut chappe_pool, permit: *mut chappe_permit) -> chappe_arm {
    chappe_arm { object: pool.cast(), permit, ..arm(CHAPPE_ARM_ACQUIRE) }
}

/// An arm that sends `len` bytes as one record.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_send(sender: *mut chappe_sender, record: *const c_void, len: usize) -> chappe_arm {
    chappe_arm { object: sender.cast(), data: record.cast_mut(), size: len, ..arm(CHAPPE_ARM_SEND) }
}

/// An arm that receives a record into `to`, which must have room for the longest.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_recv(receiver: *mut chappe_receiver, to: *mut c_void, room: usize) -> chappe_arm {
    chappe_arm { object: receiver.cast(), data: to, size: room, ..arm(CHAPPE_ARM_RECV) }
}

/// An arm that receives a message that a subscription wants into `to`, which must have room for the longest. It is ready when such a
/// message is there, and when all publishers have gone: then `result` is -EPIPE, or -ECONNRESET, once, if one of them did not end well.
/// What the filter does not want is dropped on the way. With CHAPPE_LOOK a message may be set aside, for the next receive.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_subscription(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
) -> chappe_arm {
    chappe_arm { object: subscription.cast(), data: to, size: room, ..arm(CHAPPE_ARM_SUBSCRIPTION) }
}

/// An arm that borrows a record, to look at it in place: `data` says where it is, `result` how long it is, and
/// `chappe_receiver_release` that it is received. Named tubes only.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_borrow(receiver: *mut chappe_receiver) -> chappe_arm {
    chappe_arm { object: receiver.cast(), ..arm(CHAPPE_ARM_BORROW) }
}

/// An arm that locks a readers-writer lock to read; `data` says where its data is, and `result` is 0 or CHAPPE_OWNER_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_read(lock: *mut chappe_rwlock) -> chappe_arm {
    chappe_arm { object: lock.cast(), ..arm(CHAPPE_ARM_READ) }
}

/// An arm that locks a readers-writer lock to write; as `chappe_arm_read`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_write(lock: *mut chappe_rwlock) -> chappe_arm {
    chappe_arm { object: lock.cast(), ..arm(CHAPPE_ARM_WRITE) }
}

/// An arm that waits for the turn of the calling thread's arrival, and writes it to `turn`, unless that is NULL. `result` is 0 or
/// CHAPPE_PARTY_DIED, or an error as of `chappe_arrival_wait`: a barrier that is broken is ready to say so. If another arm is chosen, the
/// arrival stands.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_turn(arrival: *mut chappe_arrival, turn: *mut chappe_turn) -> chappe_arm {
    chappe_arm { object: arrival.cast(), data: turn.cast(), ..arm(CHAPPE_ARM_TURN) }
}

/// An arm that waits until a descriptor can be read.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_readable(descriptor: c_int) -> chappe_arm {
    chappe_arm { descriptor, ..arm(CHAPPE_ARM_READABLE) }
}

/// An arm that waits until a descriptor can be written.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arm_writable(descriptor: c_int) -> chappe_arm {
    chappe_arm { descriptor, ..arm(CHAPPE_ARM_WRITABLE) }
}

/// An arm of the caller's as one of ours, and its index there.
#[derive(Clone, Copy)]
struct One<'a> {
    armed: Armed<'a>,
    index: usize,
}

pub fn armed<'a>(arm: &chappe_arm) -> Answer<Armed<'a>> {
    input::unused(&arm.reserved)?;
    Ok(match arm.kind {
        CHAPPE_ARM_DOWN => raw::down(handle::get::<Semaphore>(arm.object.cast())?),
        CHAPPE_ARM_ACQUIRE => {
            Place::new(arm.permit)?;
            raw::acquire(handle::get::<Pool>(arm.object.cast())?)
        }
        CHAPPE_ARM_SEND => {
            let end = handle::get::<SendingEnd>(arm.object.cast())?;
            end.check(input::bytes(arm.data, arm.size)?.len())?;
            end.arm(arm.size)?
        }
        CHAPPE_ARM_RECV => {
            let end = handle::get::<ReceivingEnd>(arm.object.cast())?;
            end.check(input::buffer(arm.data, arm.size)?.len())?;
            end.arm()?
        }
        CHAPPE_ARM_BORROW => handle::get::<ReceivingEnd>(arm.object.cast())?.arm_to_borrow()?,
        CHAPPE_ARM_SUBSCRIPTION => {
            let end = handle::get::<Hearing>(arm.object.cast())?;
            end.check(input::buffer(arm.data, arm.size)?.len())?;
            end.arm()?
        }
        CHAPPE_ARM_READ => handle::get::<Shared>(arm.object.cast())?.lock.__read_arm(),
        CHAPPE_ARM_WRITE => handle::get::<Shared>(arm.object.cast())?.lock.__write_arm(),
        CHAPPE_ARM_TURN => {
            input::place_if(arm.data.cast::<chappe_turn>())?;
            handle::get::<Arriving>(arm.object.cast())?.mine().map(|kept| raw::turn(kept.arrival()))?
        }
        CHAPPE_ARM_READABLE | CHAPPE_ARM_WRITABLE if arm.descriptor < 0 => {
            return Err(Failure::new(libc::EBADF, c"an arm waits for a descriptor that is negative"));
        }
        CHAPPE_ARM_READABLE => raw::ready(arm.descriptor, false)?,
        CHAPPE_ARM_WRITABLE => raw::ready(arm.descriptor, true)?,
        _ => return Err(Failure::new(libc::EINVAL, c"there is no such kind of arm")),
    })
}

/// What goes into an arm that was chosen.
#[derive(Default)]
pub struct Ended {
    pub result: isize,
    pub again: bool,
    /// Of one that borrows, or locks: where the record is, or the data.
    pub borrowed: Option<*const u8>,
}

/// Writes how the arm of this number ended.
pub fn write(arms: *mut chappe_arm, index: usize, ended: Answer<Ended>) {
    let failed = |failure: Failure| Ended { result: -(failure.errno() as isize), ..Ended::default() };
    let Ended { result, again, borrowed } = ended.unwrap_or_else(failed);
    // SAFETY: one of the caller's, as many as it said there are; nobody has a reference any more.
    unsafe {
        (*arms.add(index)).result = result;
        (*arms.add(index)).again = again;
        if let Some(at) = borrowed {
            (*arms.add(index)).data = at.cast_mut().cast();
        }
    }
}

/// Completes what was chosen.
fn finished(arm: &chappe_arm, chosen: SelectedOperation<'_>) -> Answer<Ended> {
    match arm.kind {
        CHAPPE_ARM_DOWN => chosen.down(handle::get::<Semaphore>(arm.object.cast())?)?,
        CHAPPE_ARM_ACQUIRE => {
            let pool = handle::get::<Pool>(arm.object.cast())?;
            let hold =
                raw::permit_chosen(chosen, pool).ok_or_else(|| chappe::AcquireError::Dead { pool: pool.name() })?;
            Place::new(arm.permit)?.of_thread(hold);
        }
        CHAPPE_ARM_SEND => {
            handle::get::<SendingEnd>(arm.object.cast())?.finish(chosen, input::bytes(arm.data, arm.size)?)?;
        }
        CHAPPE_ARM_RECV => {
            let end = handle::get::<ReceivingEnd>(arm.object.cast())?;
            let (len, again) = end.finish(chosen, input::buffer(arm.data, arm.size)?)?;
            return Ok(Ended { result: len as isize, again, borrowed: None });
        }
        CHAPPE_ARM_SUBSCRIPTION => {
            let end = handle::get::<Hearing>(arm.object.cast())?;
            let len = end.finish(chosen, input::buffer(arm.data, arm.size)?)?;
            return Ok(Ended { result: len as isize, ..Ended::default() });
        }
        CHAPPE_ARM_BORROW => {
            let (at, len, again) = handle::get::<ReceivingEnd>(arm.object.cast())?.finish_borrowing(chosen)?;
            return Ok(Ended { result: len as isize, again, borrowed: Some(at) });
        }
        CHAPPE_ARM_READ | CHAPPE_ARM_WRITE => {
            let shared = handle::get::<Shared>(arm.object.cast())?;
            let result = match arm.kind {
                CHAPPE_ARM_READ => locked(chosen.read(&shared.lock))?,
                _ => locked(chosen.write(&shared.lock))?,
            };
            return Ok(Ended { result: result as isize, again: false, borrowed: Some(shared.data.as_ptr()) });
        }
        CHAPPE_ARM_TURN => {
            let kept = handle::get::<Arriving>(arm.object.cast())?.mine()?;
            return Ok(Ended { result: turned(kept, chosen, arm.data.cast())?, ..Ended::default() });
        }
        _ => chosen.descriptor()?,
    }
    Ok(Ended::default())
}

/// The arm of an error, if it is one's.
fn arm_of(e: &SelectError) -> Option<usize> {
    match e {
        SelectError::Dead { arm, .. } | SelectError::Inherited { arm, .. } => Some(*arm),
        _ => None,
    }
}

fn select(arms: *mut chappe_arm, n: usize, flags: u32, limit: Answer<Limit>) -> isize {
    answer(|| {
        let (limit, all) = (limit?, input::array(arms.cast_const(), n)?);
        input::flags(flags, CHAPPE_BIASED | CHAPPE_LOOK)?;
        let (biased, looks) = (flags & CHAPPE_BIASED != 0, flags & CHAPPE_LOOK != 0);
        let mut next = 0;
        let mut some = |_| {
            while all[next].kind == CHAPPE_ARM_NOTHING {
                next += 1;
            }
            next += 1;
            Ok(One { armed: armed(&all[next - 1])?, index: next - 1 })
        };
        let count = all.iter().filter(|arm| arm.kind != CHAPPE_ARM_NOTHING).count();
        let (index, ended) = gathered(count, &mut some, |ones| {
            gathered(
                ones.len(),
                |at| Ok(ones[at].armed),
                |armed| {
                    let ended = if looks {
                        raw::choose_ready(armed, biased, limit.into()).map(|at| (at, Ok(Ended::default())))
                    } else {
                        raw::choose(armed, biased, limit.into()).map(|chosen| {
                            let at = chosen.index();
                            (at, finished(&all[ones[at].index], chosen))
                        })
                    };
                    match ended {
                        Ok((at, ended)) => Ok((ones[at].index, ended)),
                        Err(e) => match arm_of(&e) {
                            Some(at) => Ok((ones[at].index, Err(e.into()))),
                            None => Err(e.into()),
                        },
                    }
                },
            )
        })?;
        write(arms, index, ended);
        Ok(index as isize)
    })
}

/// Waits until one of the `n` arms can happen, and does it. Answers the arm's index; `arms[index].result` says how it ended. An object
/// that was removed, or a tube whose other end has gone, is ready to say so. A handled signal does not end the wait. `flags`: 0, or the
/// sum of CHAPPE_BIASED and CHAPPE_LOOK.
///
/// Errors, and then nothing has happened: -EINVAL if there is no arm (none but CHAPPE_ARM_NOTHING), or an arm or flag
/// is not known; -EXDEV if there are objects of two arenas; -EBADF, -EFAULT, -EMSGSIZE if an arm's object, memory or
/// record cannot be; -EBUSY if an arm's sender has a slot reserved, or a record is borrowed at the receiver of one that
/// borrows; -EPERM if an arm's arrival is another thread's, or the parent process's; -EOPNOTSUPP if that is of a private tube; -ENOMEM if there is no memory for the record of a private tube,
/// or no address space for the waiters for a descriptor; -EUSERS if the thread cannot become a member of an arena, or
/// -EIDRM since that was removed before; the system's, if it refuses a thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_select(arms: *mut chappe_arm, n: usize, flags: u32) -> isize {
    select(arms, n, flags, Ok(Limit::Forever))
}

/// Does one of the arms if one can happen now. That none can is said only if there was a moment at which none could, however fast
/// others hand a thing from one object to another; of several descriptors, each at a moment of its own.
///
/// Errors: -EAGAIN, also if there is no arm; else as `chappe_select`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_try_select(arms: *mut chappe_arm, n: usize, flags: u32) -> isize {
    select(arms, n, flags, Ok(Limit::Now))
}

/// As `chappe_select`, waiting at most for `ns` nanoseconds. That the time is up is said only if there was a moment as for
/// `chappe_try_select`.
///
/// Errors: -ETIMEDOUT, also if there is no arm; -EINVAL if `ns` is negative; else as `chappe_select`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_select_timeout(arms: *mut chappe_arm, n: usize, flags: u32, ns: i64) -> isize {
    select(arms, n, flags, input::within(ns))
}

/// As `chappe_select`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_select_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_select_deadline(arms: *mut chappe_arm, n: usize, flags: u32, at: i64) -> isize {
    select(arms, n, flags, input::until(at))
}
