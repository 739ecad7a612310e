//! Channels: private tubes of messages whose size is said at run time.
//!
//! A message of up to eight bytes, or of up to 32, goes through a tube of that; a larger one is a box. So the usual channels (of numbers, of
//! pointers, of small structs) ask for no memory when something is sent.
//!
//! A channel is the caller's memory (`chaninit`) or ours (`chancreate`), and knows its tube. It is freed by its last waiter, if that
//! was asked for meanwhile: waiters are counted in `users`, two for each, and bit 0 says that it was freed.
//!
//! Each operation begins with [`enters`] and, when it did not wait, ends with [`leaves`]: see `task`, T3 and T4, and the manual's list of calls that
//! relinquish the processor.

use super::task::{Task, enters, leaves};
use super::{fatal, text};
use chappe::tube::{Ended, Receiver, Sender, TryRecvError, TrySendError, bounded};
use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of a channel that can be used.
const MAGIC: c_uint = 0x6368_616e;

/// A channel, as the header has it.
#[repr(C)]
pub struct Channel {
    /// How many messages it has room for.
    s: c_int,
    /// The size of one.
    e: c_int,
    magic: c_uint,
    /// 1: nothing is sent any more.
    closed: c_int,
    name: *mut c_char,
    pub tube: *mut Tube,
    pub users: AtomicUsize,
    /// 1: the memory is ours.
    ours: c_int,
}

/// Both ends of a tube.
pub struct Ends<M> {
    pub tx: Sender<M>,
    pub rx: Receiver<M>,
}

/// By the size of its messages.
pub enum Tube {
    Word(Ends<[u64; 1]>),
    Few(Ends<[u64; 4]>),
    Many(Ends<Box<[u8]>>),
}

/// Does the same with a tube of whatever messages.
macro_rules! whichever_ {
    ($tube:expr, $ends:ident => $what:expr) => {
        match $tube {
            $crate::libthread::channel::Tube::Word($ends) => $what,
            $crate::libthread::channel::Tube::Few($ends) => $what,
            $crate::libthread::channel::Tube::Many($ends) => $what,
        }
    };
}

pub(super) use whichever_ as whichever;

/// What a tube carries.
pub trait Message: Sized {
    /// A copy of what lies there; zeros, if nothing does.
    ///
    /// # Safety
    /// NULL, or so many bytes, for which there is room.
    unsafe fn of(from: *const u8, len: usize) -> Self;
    /// Copies it there, if anywhere.
    ///
    /// # Safety
    /// NULL, or room for so many bytes.
    unsafe fn put(&self, to: *mut u8, len: usize);
}

impl<const N: usize> Message for [u64; N] {
    #[inline(always)]
    unsafe fn of(from: *const u8, len: usize) -> Self {
        let mut all = [0; N];
        if len == 8 && !from.is_null() {
            // SAFETY: the caller's promise.
            all[0] = unsafe { from.cast::<u64>().read_unaligned() };
        } else if !from.is_null() {
            // SAFETY: the caller's promise.
            unsafe { from.copy_to_nonoverlapping(all.as_mut_ptr().cast(), len) };
        }
        all
    }

    #[inline(always)]
    unsafe fn put(&self, to: *mut u8, len: usize) {
        if len == 8 && !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<u64>().write_unaligned(self[0]) };
        } else if !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { to.copy_from_nonoverlapping(self.as_ptr().cast(), len) };
        }
    }
}

impl Message for Box<[u8]> {
    unsafe fn of(from: *const u8, len: usize) -> Self {
        if from.is_null() {
            return vec![0; len].into();
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(from, len) }.into()
    }

    unsafe fn put(&self, to: *mut u8, len: usize) {
        if !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { to.copy_from_nonoverlapping(self.as_ptr(), len) };
        }
    }
}

fn tube(elsize: usize, nel: usize) -> Tube {
    fn ends<M>(nel: usize) -> Ends<M> {
        let (tx, rx) = bounded(nel);
        Ends { tx, rx }
    }
    match elsize {
        0..=8 => Tube::Word(ends(nel)),
        9..=32 => Tube::Few(ends(nel)),
        _ => Tube::Many(ends(nel)),
    }
}

/// The channel that the caller means.
#[inline(always)]
pub fn at<'a>(c: *mut Channel, what: &str) -> &'a Channel {
    // SAFETY: the caller's promise: NULL, or a channel's memory.
    match unsafe { c.as_ref() } {
        Some(channel) if channel.magic == MAGIC => channel,
        _ => no_channel(c, what),
    }
}

#[cold]
fn no_channel(c: *mut Channel, what: &str) -> ! {
    if c.is_null() {
        fatal(format_args!("{what}: the channel is nil: it is made with chancreate"));
    }
    fatal(format_args!("{what}: {c:p} is no channel: it was freed, or never made with chancreate or chaninit"))
}

impl Channel {
    #[inline(always)]
    pub fn tube(&self) -> &Tube {
        // SAFETY: made with it, and there until it is freed.
        unsafe { &*self.tube }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.e as usize
    }

    /// What follows may wait there: it is freed afterwards at the earliest.
    fn while_used<R>(this: *mut Channel, wait: impl FnOnce() -> R) -> R {
        // SAFETY: the caller's channel, which nobody gives back while we are counted.
        let users = unsafe { &raw const (*this).users };
        // SAFETY: as above. Relaxed: the channel is the caller's to use.
        unsafe { (*users).fetch_add(2, Ordering::Relaxed) };
        let made = wait();
        // SAFETY: as above. AcqRel: what was done with it comes before its end.
        if unsafe { (*users).fetch_sub(2, Ordering::AcqRel) } == 2 | 1 {
            free(this);
        }
        made
    }
}

pub fn free(c: *mut Channel) {
    // SAFETY: nobody uses it any more: it is whole, and ours to take apart.
    unsafe {
        (*c).magic = 0;
        drop(Box::from_raw((*c).tube));
        if !(*c).name.is_null() {
            drop(CString::from_raw((*c).name));
        }
        if (*c).ours != 0 {
            drop(Box::from_raw(c));
        }
    }
}

fn checked(elsize: c_int, nel: c_int, what: &str) -> (usize, usize) {
    match (usize::try_from(elsize), usize::try_from(nel)) {
        (Ok(size @ 1..), Ok(room)) => (size, room),
        _ => fatal(format_args!(
            "{what}: elements of {elsize} bytes, {nel} of them: an element has 1 byte or more, a buffer 0 elements or more"
        )),
    }
}

fn channel(elsize: c_int, nel: c_int, ours: c_int, what: &str) -> Channel {
    let (size, room) = checked(elsize, nel, what);
    let tube = Box::into_raw(Box::new(tube(size, room)));
    Channel { s: nel, e: elsize, magic: MAGIC, closed: 0, name: null_mut(), tube, users: AtomicUsize::new(0), ours }
}

/// `chancreate`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chancreate(elsize: c_int, nel: c_int) -> *mut Channel {
    Box::into_raw(Box::new(channel(elsize, nel, 1, "chancreate")))
}

/// `chaninit`: 1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chaninit(c: *mut Channel, elsize: c_int, nel: c_int) -> c_int {
    if c.is_null() {
        fatal("chaninit: the channel is nil: it needs memory for one, or chancreate");
    }
    // SAFETY: the caller's promise: memory for a channel.
    unsafe { c.write(channel(elsize, nel, 0, "chaninit")) };
    1
}

/// `chanfree`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chanfree(c: *mut Channel) {
    if c.is_null() {
        return;
    }
    // AcqRel: what was done with it comes before its end.
    match at(c, "chanfree").users.fetch_or(1, Ordering::AcqRel) {
        0 => free(c),
        users if users & 1 != 0 => fatal(format_args!("chanfree: the channel {c:p} was freed before")),
        _ => {}
    }
}

/// `chansetname`, with the name as it is to be.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chansetname(c: *mut Channel, name: *const c_char) {
    at(c, "chansetname");
    let name = CString::new(text(name).into_owned()).unwrap_or_default();
    // SAFETY: the caller's channel; the caller promises that no other thread sets its name at the same time.
    let old = unsafe { std::mem::replace(&mut (*c).name, name.into_raw()) };
    if !old.is_null() {
        // SAFETY: it was made here.
        drop(unsafe { CString::from_raw(old) });
    }
}

/// `chanclose`: 0; -1: it is closed already.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chanclose(c: *mut Channel) -> c_int {
    let channel = at(c, "chanclose");
    // SAFETY: an int of the channel's, which is only touched so.
    let closed = unsafe { std::sync::atomic::AtomicI32::from_ptr((&raw const channel.closed).cast_mut()) };
    // AcqRel: one closes it.
    if closed.swap(1, Ordering::AcqRel) != 0 {
        return -1;
    }
    whichever!(channel.tube(), ends => ends.tx.close());
    0
}

/// `chanclosing`: how many elements are left; -1: it is not closed.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chanclosing(c: *mut Channel) -> c_int {
    let channel = at(c, "chanclosing");
    if is_closed(channel) { left(channel) as c_int } else { -1 }
}

pub fn is_closed(channel: &Channel) -> bool {
    // SAFETY: as in `chanclose`. Acquire: what was done before it was closed.
    unsafe { std::sync::atomic::AtomicI32::from_ptr((&raw const channel.closed).cast_mut()) }.load(Ordering::Acquire)
        != 0
}

pub fn left(channel: &Channel) -> usize {
    whichever!(channel.tube(), ends => ends.rx.len())
}

/// After a wait of the calling thread: it may be to die. Whether it was interrupted.
fn ended(me: Option<&Task>, why: Ended) -> c_int {
    if why == Ended::Interrupted {
        me.inspect(|me| me.dies_if_killed());
    }
    -1
}

#[inline(always)]
fn send_on<M: Message>(c: *mut Channel, ends: &Ends<M>, from: *const u8, len: usize, waits: bool) -> c_int {
    let me = enters();
    me.inspect(|me| me.calls(1));
    // SAFETY: the caller's promise: an element lies there.
    let message = unsafe { M::of(from, len) };
    let sent = if waits { ends.tx.send_at_once(message) } else { return send_now(me, ends, message) };
    let Err(message) = sent else {
        leaves(me);
        return 1;
    };
    me.inspect(|me| me.waits());
    match Channel::while_used(c, || ends.tx.send_interruptible(message).map_err(|(why, _)| why)) {
        Ok(()) => 1,
        Err(why) => ended(me, why),
    }
}

fn send_now<M>(me: Option<&'static Task>, ends: &Ends<M>, message: M) -> c_int {
    match ends.tx.try_send(message) {
        Ok(()) => {
            leaves(me);
            1
        }
        Err(TrySendError::Full(_)) => 0,
        Err(TrySendError::Disconnected(_)) => -1,
    }
}

#[inline(always)]
fn recv_on<M: Message>(c: *mut Channel, ends: &Ends<M>, to: *mut u8, len: usize, waits: bool) -> c_int {
    let me = enters();
    me.inspect(|me| me.calls(1));
    let now = if waits { ends.rx.recv_at_once().ok_or(TryRecvError::Empty) } else { ends.rx.try_recv() };
    let (received, waited) = match now {
        Ok(message) => (message, false),
        Err(TryRecvError::Disconnected) => return -1,
        Err(TryRecvError::Empty) if !waits => return 0,
        Err(TryRecvError::Empty) => {
            me.inspect(|me| me.waits());
            match Channel::while_used(c, || ends.rx.recv_interruptible()) {
                Ok(message) => (message, true),
                Err(why) => return ended(me, why),
            }
        }
    };
    // SAFETY: the caller's promise: there is room for an element.
    unsafe { received.put(to, len) };
    // Before the thread may go: it owns nothing then.
    drop(received);
    if !waited {
        leaves(me);
    }
    1
}

#[inline(always)]
fn sends(c: *mut Channel, v: *const c_void, waits: bool, what: &str) -> c_int {
    let channel = at(c, what);
    whichever!(channel.tube(), ends => send_on(c, ends, v.cast(), channel.len(), waits))
}

#[inline(always)]
fn receives(c: *mut Channel, v: *mut c_void, waits: bool, what: &str) -> c_int {
    let channel = at(c, what);
    whichever!(channel.tube(), ends => recv_on(c, ends, v.cast(), channel.len(), waits))
}

/// A channel of elements of that size.
#[inline(always)]
fn sized(c: *mut Channel, size: usize, what: &str, of: &str) {
    let is = at(c, what).len();
    if is != size {
        fatal(format_args!(
            "{what}: the channel {c:p} has elements of {is} bytes, and {of} has {size}: make it with that size"
        ));
    }
}

/// `send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chansend(c: *mut Channel, v: *const c_void) -> c_int {
    sends(c, v, true, "send")
}

/// `nbsend`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_channbsend(c: *mut Channel, v: *const c_void) -> c_int {
    sends(c, v, false, "nbsend")
}

/// `recv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_chanrecv(c: *mut Channel, v: *mut c_void) -> c_int {
    receives(c, v, true, "recv")
}

/// `nbrecv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_channbrecv(c: *mut Channel, v: *mut c_void) -> c_int {
    receives(c, v, false, "nbrecv")
}

/// `sendp`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sendp(c: *mut Channel, v: *mut c_void) -> c_int {
    sized(c, size_of::<*mut c_void>(), "sendp", "a pointer");
    sends(c, (&raw const v).cast(), true, "sendp")
}

/// `nbsendp`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nbsendp(c: *mut Channel, v: *mut c_void) -> c_int {
    sized(c, size_of::<*mut c_void>(), "nbsendp", "a pointer");
    sends(c, (&raw const v).cast(), false, "nbsendp")
}

/// `recvp`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_recvp(c: *mut Channel) -> *mut c_void {
    sized(c, size_of::<*mut c_void>(), "recvp", "a pointer");
    let mut v: *mut c_void = null_mut();
    receives(c, (&raw mut v).cast(), true, "recvp");
    v
}

/// `nbrecvp`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nbrecvp(c: *mut Channel) -> *mut c_void {
    sized(c, size_of::<*mut c_void>(), "nbrecvp", "a pointer");
    let mut v: *mut c_void = null_mut();
    receives(c, (&raw mut v).cast(), false, "nbrecvp");
    v
}

/// `sendul`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sendul(c: *mut Channel, v: c_ulong) -> c_int {
    sized(c, size_of::<c_ulong>(), "sendul", "an unsigned long");
    sends(c, (&raw const v).cast(), true, "sendul")
}

/// `nbsendul`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nbsendul(c: *mut Channel, v: c_ulong) -> c_int {
    sized(c, size_of::<c_ulong>(), "nbsendul", "an unsigned long");
    sends(c, (&raw const v).cast(), false, "nbsendul")
}

/// `recvul`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_recvul(c: *mut Channel) -> c_ulong {
    sized(c, size_of::<c_ulong>(), "recvul", "an unsigned long");
    let mut v = 0;
    receives(c, (&raw mut v).cast(), true, "recvul");
    v
}

/// `nbrecvul`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nbrecvul(c: *mut Channel) -> c_ulong {
    sized(c, size_of::<c_ulong>(), "nbrecvul", "an unsigned long");
    let mut v = 0;
    receives(c, (&raw mut v).cast(), false, "nbrecvul");
    v
}
