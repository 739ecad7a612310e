//! Broadcast tubes: each subscriber gets each message that it wants, between processes or between the threads of one.
//!
//! One sends at a `chappe_publisher`, see chappe_publisher(3), and receives at a `chappe_subscription`, see chappe_subscription(3). A message
//! is copied once, however many get it; it becomes visible to all at one instant, or, if its publisher is killed before that, to
//! nobody. All subscriptions see all messages in one order. A subscription sees every message whose `send` begins after
//! `chappe_broadcast_subscribe` has returned; what is sent while nobody subscribes is nobody's.
//!
//! A tube with a schema (<chappe/schema.h>) takes filters, such as "price > $limit && sym == 'X'": a subset of CEL, see "Queries over
//! records" in the guide. A filter travels to the publishers: for a message that it does not want nothing is copied, and its subscriber is not
//! woken. What is wrong with one, and in which column, chappe_last_error() says.
//!
//! Each subscription says what becomes of messages that it is too slow for: publishers wait, or it loses the oldest, or the
//! newest. What it loses is counted. When all publishers have gone, or died, subscribers get what is there and then -EPIPE (before that,
//! once, -ECONNRESET if one of them did not end well). Before the first one has come, one waits.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input;
use crate::look::{listed, text};
use crate::publisher::{Publishing, chappe_publisher};
use crate::subscription::{Hearing, chappe_param, chappe_subscription, params};
use chappe::raw::Had;
use chappe::tube::broadcast::{Broadcast, BroadcastOptions, BroadcastSubscriber, Slow, Subscribe};
use std::ffi::{CStr, c_char, c_int};

/// A handle of a broadcast tube.
pub struct chappe_broadcast(());

/// Publishers wait for a subscription that is too slow.
pub const CHAPPE_SLOW_BLOCK: c_int = 0;
/// A subscription that is too slow loses the oldest messages that it has not received.
pub const CHAPPE_SLOW_DROP_OLDEST: c_int = 1;
/// A subscription keeps at most `most` messages that it has not received, and loses later ones.
pub const CHAPPE_SLOW_DROP_NEWEST: c_int = 2;

/// What a broadcast tube is made as. Set it to zeros first: 0 stands for what is usual.
#[repr(C)]
pub struct chappe_broadcast_options {
    /// How many messages it has room for (64; at most 65536), rounded up to a power of two.
    pub slots: u32,
    /// The most bytes of a message (256). With a schema it is the schema's.
    pub size: u32,
    /// Where a message begins in memory: a multiple of this (8; a power of two, at most 64).
    pub align: u32,
    /// How many may subscribe at a time (16; at most 256).
    pub subscribers: u32,
    /// Which fields the messages have, see <chappe/schema.h>. NULL: none, and no filters.
    pub schema: *const c_char,
    /// 0.
    pub reserved: [u64; 3],
}

/// What a subscription is to be. Set it to zeros first: then it gets all messages, and publishers wait for it.
#[repr(C)]
pub struct chappe_subscribe_options {
    /// Only messages for which this expression over the schema holds. NULL: all.
    pub filter: *const c_char,
    /// The values of the filter's parameters, which chappe_subscription_set can change later.
    pub params: *const chappe_param,
    /// How many those are.
    pub param_count: usize,
    /// CHAPPE_SLOW_BLOCK, CHAPPE_SLOW_DROP_OLDEST or CHAPPE_SLOW_DROP_NEWEST.
    pub slow: c_int,
    /// Of CHAPPE_SLOW_DROP_NEWEST: how many messages it keeps, 1 at least. All subscriptions of this kind together may keep half of the
    /// tube's slots.
    pub most: u32,
    /// 0.
    pub reserved: [u64; 3],
}

/// How a broadcast tube stands, put together from single looks while others go on.
#[repr(C)]
pub struct chappe_broadcast_info {
    /// How many messages it has room for.
    pub slots: u32,
    /// The most bytes of a message.
    pub size: u32,
    /// How many may subscribe.
    pub capacity: u32,
    /// How many publishers there are.
    pub publishers: u32,
    /// How many publishers have died, or broken off, since it was made, modulo 2^19.
    pub publishers_died: u32,
    /// How many subscribe.
    pub subscribers: u32,
    /// How many wait: for a message, or for room.
    pub waiting: u32,
    /// 0.
    pub reserved: u32,
    /// How many messages a subscriber wanted, since it was made.
    pub sent: u64,
    /// Bytes of the arena's data that it takes.
    pub bytes: u64,
}

/// A subscription, as it stands.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chappe_subscriber {
    /// Its process.
    pub pid: i32,
    /// CHAPPE_SLOW_BLOCK ...
    pub slow: c_int,
    /// Of CHAPPE_SLOW_DROP_NEWEST: how many messages it keeps.
    pub most: u32,
    /// How many messages are there for it.
    pub messages: u32,
    /// How many it has received.
    pub received: u64,
    /// How many it has lost because it was too slow.
    pub lost: u64,
    /// What its process calls itself, ended by a 0.
    pub label: [c_char; 64],
    /// Its filter with its parameters, as much as has room, ended by a 0; empty for all.
    pub filter: [c_char; 256],
}

/// A broadcast tube of bytes.
pub struct Casting {
    tube: Broadcast<[u8]>,
}

impl Object for Casting {
    type Name = chappe_broadcast;
    const KIND: u32 = 16;
    const REFUSAL: &'static CStr =
        c"this is no open handle of a broadcast tube: NULL, closed already, or of something else";
}

impl From<&BroadcastSubscriber> for chappe_subscriber {
    fn from(of: &BroadcastSubscriber) -> chappe_subscriber {
        let (slow, most) = match of.slow {
            Slow::Block => (CHAPPE_SLOW_BLOCK, 0),
            Slow::DropOldest => (CHAPPE_SLOW_DROP_OLDEST, 0),
            Slow::DropNewest(most) => (CHAPPE_SLOW_DROP_NEWEST, most),
        };
        chappe_subscriber {
            pid: of.who.pid as i32,
            slow,
            most,
            messages: of.messages,
            received: of.received,
            lost: of.lost,
            label: text(&of.who.label),
            filter: text(&of.filter),
        }
    }
}

fn options(given: *const chappe_broadcast_options) -> Answer<BroadcastOptions> {
    let usual = BroadcastOptions::default();
    let Some(given) = input::given_if(given)? else { return Ok(usual) };
    input::unused(&given.reserved)?;
    let or = |n: u32, usual: u32| if n == 0 { usual } else { n };
    Ok(BroadcastOptions {
        slots: or(given.slots, usual.slots),
        size: or(given.size, usual.size),
        align: or(given.align, usual.align),
        subscribers: or(given.subscribers, usual.subscribers),
        schema: input::schema_if(given.schema)?.map(str::to_owned),
    })
}

fn opened(
    name: *const c_char,
    given: *const chappe_broadcast_options,
    had: Had,
    broadcast: *mut *mut chappe_broadcast,
) -> c_int {
    done(|| {
        let (place, name, options) = (input::place(broadcast)?, input::name(name)?, options(given)?);
        let made = || {
            let tube = match (had, &options.schema) {
                (Had::Created, _) => Broadcast::create(name, &options)?,
                (Had::Either, _) => Broadcast::open_or_create(name, &options)?,
                (Had::Opened, Some(schema)) => Broadcast::open_of(name, schema)?,
                (Had::Opened, None) => Broadcast::open(name)?,
            };
            Ok(Casting { tube })
        };
        place.write(handle::open_as(made)?);
        Ok(())
    })
}

/// Opens the broadcast tube of this name: "ticks", or "lab/ticks" for one in the arena "lab". Of the options, which may be NULL, only the
/// schema is looked at.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, the messages are of a type, or have other fields; -EINVAL for
/// options that make no sense; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_open(
    name: *const c_char,
    options: *const chappe_broadcast_options,
    broadcast: *mut *mut chappe_broadcast,
) -> c_int {
    opened(name, options, Had::Opened, broadcast)
}

/// Makes the broadcast tube of this name, which must not be there, and its arena, with room for it, if need be. `options` may be NULL.
///
/// Errors: -EEXIST; -EINVAL if there can be no such tube; -ENOSPC or -EUSERS if the arena is full; else as `chappe_broadcast_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_create(
    name: *const c_char,
    options: *const chappe_broadcast_options,
    broadcast: *mut *mut chappe_broadcast,
) -> c_int {
    opened(name, options, Had::Created, broadcast)
}

/// Opens the broadcast tube of this name, or makes it. `options` may be NULL.
///
/// Errors: -EPROTOTYPE also if it is there and was made with other options; else as `chappe_broadcast_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_open_or_create(
    name: *const c_char,
    options: *const chappe_broadcast_options,
    broadcast: *mut *mut chappe_broadcast,
) -> c_int {
    opened(name, options, Had::Either, broadcast)
}

/// Makes a broadcast tube for the threads of this process, which goes with its last handle and end. `options` may be NULL. In a forked
/// child it is a copy.
///
/// Errors: -EINVAL if there can be no such tube; -ENOSPC if the process's own arena (64 MiB) has no room; -ENOMEM, -EFAULT, -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_private(
    options: *const chappe_broadcast_options,
    broadcast: *mut *mut chappe_broadcast,
) -> c_int {
    done(|| {
        let (place, options) = (input::place(broadcast)?, self::options(options)?);
        place.write(handle::open_as(|| Ok(Casting { tube: Broadcast::private(&options)? }))?);
        Ok(())
    })
}

/// Closes a handle. The tube stays, and so do its publishers and subscriptions.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_close(broadcast: *mut chappe_broadcast) -> c_int {
    done(|| handle::close::<Casting>(broadcast).map(drop))
}

/// Removes the broadcast tube of this name. One with a publisher or a subscriber is refused unless `force`: then its users get
/// -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_broadcast_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Broadcast::<[u8]>::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length. That of a private one is empty.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_name(broadcast: *const chappe_broadcast, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Casting>(broadcast)?.tube.name()))
}

/// Writes its schema in canonical form, as much as has room, with a 0 behind it; answers its length, 0 if it has none.
///
/// Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_schema(broadcast: *const chappe_broadcast, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Casting>(broadcast)?.tube.schema()?.unwrap_or_default()))
}

/// Says how the tube stands.
///
/// Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_look(broadcast: *const chappe_broadcast, info: *mut chappe_broadcast_info) -> c_int {
    done(|| {
        let (place, all) = (input::place(info)?, handle::get::<Casting>(broadcast)?.tube.info()?);
        place.write(chappe_broadcast_info {
            slots: all.slots,
            size: all.size,
            capacity: all.capacity,
            publishers: all.publishers.len() as u32,
            publishers_died: all.publishers_died,
            subscribers: all.subscribers.len() as u32,
            waiting: all.waiting.len() as u32,
            reserved: 0,
            sent: all.sent,
            bytes: all.bytes,
        });
        Ok(())
    })
}

/// Lists its subscriptions: writes as many as there is room for, answers how many there are.
///
/// Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_subscribers(
    broadcast: *const chappe_broadcast,
    to: *mut chappe_subscriber,
    room: usize,
) -> isize {
    answer(|| {
        let all = handle::get::<Casting>(broadcast)?.tube.info()?.subscribers;
        listed(&all, to, room, |one| chappe_subscriber::from(one))
    })
}

/// Attaches a publisher. The first of a process starts a thread that stands for it, once for each arena.
///
/// Errors: -EINVAL if 128 publish already; -EIDRM; -EUSERS if the arena cannot take another member; -EMFILE, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_publisher(
    broadcast: *mut chappe_broadcast,
    publisher: *mut *mut chappe_publisher,
) -> c_int {
    done(|| {
        let (casting, place) = (handle::get::<Casting>(broadcast)?, input::place(publisher)?);
        let size = casting.tube.info()?.size as usize;
        place.write(handle::open_as(|| Ok(Publishing::of(casting.tube.publisher()?, size)))?);
        Ok(())
    })
}

fn wanted(given: *const chappe_subscribe_options) -> Answer<Subscribe> {
    let Some(given) = input::given_if(given)? else { return Ok(Subscribe::to_all()) };
    input::unused(&given.reserved)?;
    let slow = match given.slow {
        CHAPPE_SLOW_BLOCK => Slow::Block,
        CHAPPE_SLOW_DROP_OLDEST => Slow::DropOldest,
        CHAPPE_SLOW_DROP_NEWEST if given.most > 0 => Slow::DropNewest(given.most),
        CHAPPE_SLOW_DROP_NEWEST => {
            return Err(Failure::new(
                libc::EINVAL,
                c"a subscription that drops the newest keeps some messages: set `most` to 1 or more",
            ));
        }
        _ => return Err(Failure::new(libc::EINVAL, c"`slow` is no CHAPPE_SLOW_BLOCK, _DROP_OLDEST or _DROP_NEWEST")),
    };
    let mut how = Subscribe::to_all().slow(slow);
    let params = params(given.params, given.param_count)?;
    match input::filter_if(given.filter)? {
        Some(filter) => how = how.filter(filter),
        None if params.is_empty() => {}
        None => return Err(Failure::new(libc::EINVAL, c"parameters are those of a filter: set `filter`, too")),
    }
    Ok(params.into_iter().fold(how, |how, (name, value)| how.param(name, value)))
}

/// Subscribes, from now on: what is sent from here on is there for it until its handle is closed or its process dies. `options` may be
/// NULL: all messages, and publishers wait. Waits for nobody but a living process that is just coming or going.
///
/// Errors: -EINVAL: the filter makes no sense for this tube (the text says where), has more than 1,024 bytes with its parameters, as many
/// subscribe as may, or the slots that may be kept for those that drop the newest are taken; -EIDRM; -EUSERS if the arena cannot take
/// another member; -EMFILE, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_broadcast_subscribe(
    broadcast: *mut chappe_broadcast,
    options: *const chappe_subscribe_options,
    subscription: *mut *mut chappe_subscription,
) -> c_int {
    done(|| {
        let (casting, place) = (handle::get::<Casting>(broadcast)?, input::place(subscription)?);
        let (size, how) = (casting.tube.info()?.size as usize, wanted(options)?);
        place.write(handle::open_as(|| Ok(Hearing::of(casting.tube.subscribe(how)?, size)))?);
        Ok(())
    })
}
