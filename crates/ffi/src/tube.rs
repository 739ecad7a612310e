//! Tubes: bounded channels of records, between processes or between the threads of one.
//!
//! One sends at a `chappe_sender`, see chappe_sender(3), and receives at a `chappe_receiver`, see chappe_receiver(3). A
//! named tube outlives its users: whatever was sent is there until it is received, or the tube is removed, and any of
//! them may be killed at any instruction. When every sender has gone, or died, receivers get what is there and then
//! -EPIPE (before that, once, -ECONNRESET if one died, or exited without closing it); when every receiver has, senders
//! get -EPIPE. Both may be attached again, unless the tube is sealed: then no sender comes any more. Before the first
//! one has come, one waits.
//!
//! Records have as many bytes as were sent, up to the tube's size. A tube that was made with a type name carries records of exactly
//! its size: those of the tubes of plain data of Rust programs.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input;
use crate::receiver::{ReceivingEnd, chappe_receiver};
use crate::sender::{Record, SendingEnd, chappe_sender};
use chappe::Arena;
use chappe::raw::{Called, Had, tube_of};
use chappe::tube::named::{Kind, Tube, TubeOptions};
use chappe::tube::{bounded, unbounded};
use std::ffi::{CStr, c_char, c_int};

/// A handle of a named tube.
pub struct chappe_tube(());

/// Many senders, many receivers.
pub const CHAPPE_MPMC: c_int = 0;
/// Many senders, one receiver at a time.
pub const CHAPPE_MPSC: c_int = 1;
/// One sender at a time, many receivers.
pub const CHAPPE_SPMC: c_int = 2;
/// One sender, one receiver at a time.
pub const CHAPPE_SPSC: c_int = 3;

/// A flag: a record whose receiver dies before it has released it is dropped, and counted, instead of being delivered once more.
pub const CHAPPE_DROPS: u32 = 1;

/// As the slots of a private tube: any number.
pub const CHAPPE_UNBOUNDED: i64 = -1;

/// What a tube is made as. Set it to zeros first: 0 stands for what is usual.
#[repr(C)]
pub struct chappe_tube_options {
    /// How many records it has room for (64; at most 524288).
    pub slots: u32,
    /// The most bytes of a record (256).
    pub size: u32,
    /// Where a record begins in memory: a multiple of this (8; a power of two, at most 64).
    pub align: u32,
    /// How many it has at each end at a time: CHAPPE_MPMC, CHAPPE_MPSC, CHAPPE_SPMC, CHAPPE_SPSC. With only one, that end is faster.
    pub kind: c_int,
    /// 0 or CHAPPE_DROPS.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// The type of the records, in a word: then each has exactly `size` bytes, and all programs that open the tube must
    /// say the same type, size and alignment. What a Rust program made as a tube of a type has the type's name without
    /// modules. NULL: bytes of any number.
    pub type_name: *const c_char,
    /// Which fields the records have, see <chappe/schema.h>: each has exactly as many bytes as the schema says, the tube keeps it, and all
    /// programs that open the tube with a schema must say the same. Not together with type_name. NULL: none.
    pub schema: *const c_char,
    /// 0.
    pub reserved_too: [u64; 3],
}

/// How a tube stands, put together from single looks while others go on.
#[repr(C)]
pub struct chappe_tube_info {
    /// How many it has at each end at a time: CHAPPE_MPMC ...
    pub kind: c_int,
    /// How many records it has room for.
    pub slots: u32,
    /// The most bytes of a record.
    pub size: u32,
    /// 1: what a dead receiver had is dropped at once.
    pub drops: c_int,
    /// 1: no sender may come any more.
    pub sealed: c_int,
    /// How many processes have a sender.
    pub senders: u32,
    /// How many processes have a receiver.
    pub receivers: u32,
    /// How many wait for room.
    pub senders_waiting: u32,
    /// How many wait for a record.
    pub receivers_waiting: u32,
    /// 0.
    pub reserved: u32,
    /// How many records are there.
    pub messages: u64,
    /// How many were sent since it was made; what was reserved and given up counts, too.
    pub sent: u64,
    /// How many of those have left it: received, released, or dropped.
    pub received: u64,
    /// How many were to be delivered once more, because their receiver had died.
    pub redelivered: u64,
    /// How many were dropped because their receivers had died.
    pub dropped: u64,
    /// Bytes of the arena's data that it takes.
    pub bytes: u64,
}

/// A named tube, and whether its records have a type.
pub struct Named {
    tube: Tube<[u8]>,
    typed: bool,
}

impl Object for Named {
    type Name = chappe_tube;
    const KIND: u32 = 7;
    const REFUSAL: &'static CStr = c"this is no open handle of a tube: NULL, closed already, or of something else";
}

fn kind_of(number: c_int) -> Answer<Kind> {
    Ok(match number {
        CHAPPE_MPMC => Kind::Mpmc,
        CHAPPE_MPSC => Kind::Mpsc,
        CHAPPE_SPMC => Kind::Spmc,
        CHAPPE_SPSC => Kind::Spsc,
        _ => return Err(Failure::new(libc::EINVAL, c"there is no such kind of tube")),
    })
}

fn number_of(kind: Kind) -> c_int {
    match kind {
        Kind::Mpmc => CHAPPE_MPMC,
        Kind::Mpsc => CHAPPE_MPSC,
        Kind::Spmc => CHAPPE_SPMC,
        Kind::Spsc => CHAPPE_SPSC,
    }
}

/// What is said of the records.
#[derive(Clone, Copy)]
enum Records<'a> {
    Bytes,
    Called(&'a str),
    Of(&'a str),
}

fn options(given: &chappe_tube_options) -> Answer<(TubeOptions, Records<'_>)> {
    input::unused(&[given.reserved.into()])?;
    input::unused(&given.reserved_too)?;
    input::flags(given.flags, CHAPPE_DROPS)?;
    let usual = TubeOptions::default();
    let or = |n: u32, usual: u32| if n == 0 { usual } else { n };
    let options = TubeOptions {
        slots: or(given.slots, usual.slots),
        size: or(given.size, usual.size),
        align: or(given.align, usual.align),
        kind: kind_of(given.kind)?,
        drops: given.flags & CHAPPE_DROPS != 0,
    };
    let records = match (input::text_if(given.type_name)?, input::schema_if(given.schema)?) {
        (None, None) => Records::Bytes,
        (Some(name), None) => Records::Called(name),
        (None, Some(schema)) => Records::Of(schema),
        (Some(_), Some(_)) => {
            return Err(Failure::new(libc::EINVAL, c"a tube has a type's name or a schema, not both"));
        }
    };
    Ok((options, records))
}

fn described(name: &str, had: Had, schema: &str, options: &TubeOptions) -> Answer<Tube<[u8]>> {
    Ok(match had {
        Had::Created => Tube::create_of(name, options, schema)?,
        Had::Either => Tube::open_or_create_of(name, options, schema)?,
        Had::Opened => Tube::open_of(name, schema)?,
    })
}

fn opened(name: *const c_char, given: *const chappe_tube_options, had: Had, tube: *mut *mut chappe_tube) -> c_int {
    done(|| {
        let (place, name) = (input::place(tube)?, input::name(name)?);
        let (options, records) = match input::given_if(given)? {
            Some(given) => options(given)?,
            None => (TubeOptions::default(), Records::Bytes),
        };
        let (size, align) = (options.size as usize, options.align as usize);
        let made = || {
            let (tube, typed) = match records {
                Records::Bytes => {
                    let tube = tube_of(name, had, None, &options)?;
                    let has_schema = tube.info()?.schema_hash.is_some();
                    (tube, has_schema)
                }
                Records::Called(called) => {
                    (tube_of(name, had, Some(Called { name: called, size, align }), &options)?, true)
                }
                Records::Of(schema) => (described(name, had, schema, &options)?, true),
            };
            Ok(Named { tube, typed })
        };
        place.write(handle::open_as(made)?);
        Ok(())
    })
}

/// Opens the tube of this name: "jobs", or "lab/jobs" for one in the arena "lab". Of the options, which may be NULL, only the type,
/// and with it the size and alignment, or the schema, are looked at.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or the records are of another type; -EINVAL for options that
/// make no sense; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_open(
    name: *const c_char,
    options: *const chappe_tube_options,
    tube: *mut *mut chappe_tube,
) -> c_int {
    opened(name, options, Had::Opened, tube)
}

/// Makes the tube of this name, which must not be there, and its arena, with room for it, if need be. `options` may be NULL.
///
/// Errors: -EEXIST; -EINVAL if there can be no such tube; -ENOSPC or -EUSERS if the arena is full; else as `chappe_tube_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_create(
    name: *const c_char,
    options: *const chappe_tube_options,
    tube: *mut *mut chappe_tube,
) -> c_int {
    opened(name, options, Had::Created, tube)
}

/// Opens the tube of this name, or makes it. `options` may be NULL.
///
/// Errors: -EPROTOTYPE also if it is there and was made with other options; else as `chappe_tube_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_open_or_create(
    name: *const c_char,
    options: *const chappe_tube_options,
    tube: *mut *mut chappe_tube,
) -> c_int {
    opened(name, options, Had::Either, tube)
}

/// Closes a handle. The tube stays, and so do its senders and receivers.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_close(tube: *mut chappe_tube) -> c_int {
    done(|| handle::close::<Named>(tube).map(drop))
}

/// Removes the tube of this name, whatever it carries. One with records or an attached end is refused unless
/// `force`: then the records are lost, and its users get -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_tube_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Tube::<[u8]>::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_name(tube: *const chappe_tube, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Named>(tube)?.tube.name()))
}

/// Says how the tube stands.
///
/// Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_look(tube: *const chappe_tube, info: *mut chappe_tube_info) -> c_int {
    done(|| {
        let (place, all) = (input::place(info)?, handle::get::<Named>(tube)?.tube.info()?);
        place.write(chappe_tube_info {
            kind: number_of(all.kind),
            slots: all.slots,
            size: all.size,
            drops: all.drops.into(),
            sealed: all.sealed.into(),
            senders: all.senders.len() as u32,
            receivers: all.receivers.len() as u32,
            senders_waiting: all.senders_waiting.len() as u32,
            receivers_waiting: all.receivers_waiting.len() as u32,
            reserved: 0,
            messages: all.messages as u64,
            sent: all.sent,
            received: all.received,
            redelivered: all.redelivered,
            dropped: all.dropped,
            bytes: all.bytes,
        });
        Ok(())
    })
}

/// Says that no sender comes any more: those that are there may go on, and what is in it is still received; when they have gone,
/// receivers get -EPIPE, also if there never was one. For ever.
///
/// Errors: -EIDRM, -EUSERS, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_seal(tube: *mut chappe_tube) -> c_int {
    done(|| Ok(handle::get::<Named>(tube)?.tube.seal()?))
}

/// Attaches a sender. The first of a process makes the process one of the tube's senders, and starts a thread for that, once for each
/// arena.
///
/// Errors: -EBUSY if there may be only one, and there is; -ESHUTDOWN if the tube is sealed; -EIDRM; -EUSERS if the arena cannot take
/// another member; -EMFILE, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_sender(tube: *mut chappe_tube, sender: *mut *mut chappe_sender) -> c_int {
    done(|| {
        let (named, place) = (handle::get::<Named>(tube)?, input::place(sender)?);
        let size = named.tube.info()?.size as usize;
        place.write(handle::open_as(|| Ok(SendingEnd::of(named.tube.sender()?, size, named.typed)))?);
        Ok(())
    })
}

/// Attaches a receiver. The first of a process makes the process one of the tube's receivers, and starts a thread for that, once for
/// each arena.
///
/// Errors: -EBUSY if there may be only one, and there is; -EIDRM; -EUSERS if the arena cannot take another member; -EMFILE, -EBADF,
/// -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_receiver(tube: *mut chappe_tube, receiver: *mut *mut chappe_receiver) -> c_int {
    done(|| {
        let (named, place) = (handle::get::<Named>(tube)?, input::place(receiver)?);
        let size = named.tube.info()?.size as usize;
        place.write(handle::open_as(|| Ok(ReceivingEnd::of(named.tube.receiver()?, size)))?);
        Ok(())
    })
}

/// Makes a tube for the threads of this process, and both its ends. It has many senders and receivers, and carries
/// records of up to `size` bytes, which are copied in and out; records of more than 56 bytes allocate memory. `slots`:
/// how many records it has room for; 0: none, a sender waits for a receiver; CHAPPE_UNBOUNDED: any number, and when
/// there is no memory for more, the program ends, as one in Rust does (abort(3)). In a forked child it is a copy.
///
/// Its ends work as those of a named tube, but for `reserve` and `borrow` and what goes with them (-EOPNOTSUPP), and may be used by
/// any number of threads at once.
///
/// Errors: -EINVAL if `slots` is below CHAPPE_UNBOUNDED or above 524288, or `size` above 4294967295; -ENOMEM, -EFAULT, -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_tube_private(
    slots: i64,
    size: usize,
    sender: *mut *mut chappe_sender,
    receiver: *mut *mut chappe_receiver,
) -> c_int {
    const MOST: i64 = 524_288;
    done(|| {
        let (sends, receives) = (input::place(sender)?, input::place(receiver)?);
        if u32::try_from(size).is_err() {
            return Err(Failure::new(libc::EINVAL, c"a record cannot have so many bytes: at most 4294967295"));
        }
        // Makes the private arena, in which the waiters are listed.
        Arena::try_private()?;
        let (tx, rx) = match slots {
            CHAPPE_UNBOUNDED => unbounded(),
            0..=MOST => {
                // A slot is a record and a number, on lines of its own at most. Looked for first: making the tube ends the program if
                // there is none.
                input::memory_for(slots as usize * size_of::<Record>().next_multiple_of(64).saturating_add(64))?;
                bounded(slots as usize)
            }
            _ => {
                let text =
                    format_args!("a tube cannot have {slots} slots: 0 to {MOST} are possible, or CHAPPE_UNBOUNDED");
                return Err(Failure::told(libc::EINVAL, text));
            }
        };
        let tx = handle::open(SendingEnd::private(tx, size))?;
        let rx =
            handle::open(ReceivingEnd::private(rx, size)).inspect_err(|_| drop(handle::close::<SendingEnd>(tx)))?;
        sends.write(tx);
        receives.write(rx);
        Ok(())
    })
}
