//! Senders: where records go into a tube.
//!
//! A sender of a named tube is used by one thread at a time; `chappe_sender_another` gives each its own. When the last one of a
//! process is closed, or the process dies, the process has left; one that has not closed it has not ended well, and receivers are told
//! so (-ECONNRESET). A sender that dies before its record is sent has sent nothing. In a forked child it is the child's own from its
//! first use there, and so is no other end; one that there may be only one of stays the parent's (-EPERM).

use crate::dispatch::Asked;
use crate::failure::{Answer, Failure, Why, answer, done, later};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::kept::Kept;
use crate::lending::{Lendable, Lent};
use crate::parting::{self, Lends};
use crate::thread::here;
use chappe::raw::{Armed, arena_of_sender, incarnation, is_same_arena};
use chappe::task::Sending;
use chappe::task::choice::Seated;
use chappe::tube::named::{NotSent, Sender, Slot};
use chappe::{Arena, SelectedOperation, SendingEnd as _, tube};
use std::ffi::{CStr, c_int, c_void};
use std::future::{Future, poll_fn};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::Poll;

/// A handle of a sender.
pub struct chappe_sender(());

/// How many bytes go without asking for memory.
const FEW: usize = 56;

/// A record of a tube of this process.
pub enum Record {
    Few(u8, [u8; FEW]),
    Many(Box<[u8]>),
}

impl Record {
    fn of(bytes: &[u8]) -> Answer<Record> {
        if bytes.len() > FEW {
            let mut many = input::memory_for(bytes.len())?;
            many.extend_from_slice(bytes);
            return Ok(Record::Many(many.into_boxed_slice()));
        }
        let mut few = [0; FEW];
        few[..bytes.len()].copy_from_slice(bytes);
        Ok(Record::Few(bytes.len() as u8, few))
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Record::Few(len, bytes) => &bytes[..*len as usize],
            Record::Many(bytes) => bytes,
        }
    }
}

/// A slot that was reserved, and whose it is.
struct Reserved {
    slot: Slot<'static, [u8]>,
    thread: usize,
    incarnation: u64,
}

/// The end of a named tube.
pub struct NamedEnd {
    /// First: it goes before the end, to which it refers.
    reserved: Kept<Reserved>,
    /// Its own memory, since a slot refers to it. While there is a slot it is used by that alone.
    sender: Lendable<Sender<[u8]>>,
    /// The tube's.
    arena: Arena,
    typed: bool,
}

impl Drop for NamedEnd {
    fn drop(&mut self) {
        drop(self.reserved.take());
    }
}

enum End {
    Named(NamedEnd),
    Private(tube::Sender<Record>),
}

/// A sender, and how long its records may be.
pub struct SendingEnd {
    end: End,
    size: usize,
}

impl Object for SendingEnd {
    type Name = chappe_sender;
    const KIND: u32 = 8;
    const REFUSAL: &'static CStr = c"this is no open handle of a sender: NULL, closed already, or of something else";
}

fn unsupported<T>() -> Answer<T> {
    Err(Failure::new(libc::EOPNOTSUPP, c"records of a private tube are copied, not written in place"))
}

impl NamedEnd {
    /// In a forked child: what the parent has reserved is not the child's, and in nobody's way.
    #[cold]
    fn forget_the_parents(&self) -> bool {
        let none = |reserved: &mut Option<Reserved>| {
            if reserved.as_ref().is_some_and(|it| it.incarnation != incarnation()) {
                *reserved = None;
            }
            reserved.is_none()
        };
        self.reserved.with(none) == Some(true)
    }

    fn sender(&self) -> Answer<&Sender<[u8]>> {
        if self.reserved.is_none() || self.forget_the_parents() {
            // SAFETY: it lives as long as the end; no slot and no wait has it.
            return Ok(unsafe { &*self.sender.at()? });
        }
        Err(busy())
    }

    /// The sender, for a wait.
    fn lend(&'static self) -> Answer<Lent<Sender<[u8]>>> {
        self.sender()?;
        // SAFETY: no slot refers to it.
        unsafe { self.sender.lend() }
    }

    /// Reserves a slot; answers where it is.
    fn reserve(&self, limit: Limit) -> Answer<*mut u8> {
        self.sender()?;
        // SAFETY: `sender` has just seen that no slot and no wait has it, and a handle is used by one thread at a time.
        let sender: &'static mut Sender<[u8]> = unsafe { &mut *self.sender.at()? };
        let mut slot = match limit {
            Limit::Forever => sender.reserve()?,
            Limit::Now => sender.try_reserve()?,
            Limit::Within(duration) => sender.reserve_timeout(duration)?,
        };
        let at = slot.as_mut_ptr();
        let mut new = Some(Reserved { slot, thread: here(), incarnation: incarnation() });
        self.reserved.with(|reserved| *reserved = new.take());
        // Dropped, it is given up.
        if new.is_some() {
            return Err(busy());
        }
        parting::has::<SendingEnd>(self);
        Ok(at)
    }

    fn take(&self) -> Answer<Slot<'static, [u8]>> {
        let take = |reserved: &mut Option<Reserved>| match reserved.take() {
            None => Err(Failure::new(libc::EINVAL, c"no slot is reserved at this sender")),
            // Nobody's here, from now on.
            Some(it) if it.incarnation != incarnation() => {
                Err(Failure::new(libc::EPERM, c"the slot is the parent process's: reserve another in the child"))
            }
            Some(it) if it.thread != here() => {
                *reserved = Some(it);
                Err(Failure::new(libc::EPERM, c"the slot was reserved by another thread: let that one commit it"))
            }
            Some(it) => {
                parting::has_not(self);
                Ok(it.slot)
            }
        };
        self.reserved.with(take).unwrap_or_else(|| Err(busy()))
    }

    /// See `parting`.
    fn let_go(&self, of: Option<&Arena>) -> bool {
        let mine = |it: &Reserved| it.thread == here() && it.incarnation == incarnation();
        if of.is_some_and(|arena| !is_same_arena(arena, &self.arena)) {
            return false;
        }
        drop(self.reserved.with(|reserved| reserved.take_if(|it| mine(it))));
        true
    }
}

/// Why a wait sent nothing.
pub enum Unsent {
    Named(NotSent),
    Private(tube::SendError<Record>),
}

impl From<Unsent> for Failure {
    fn from(why: Unsent) -> Failure {
        match why {
            Unsent::Named(e) => e.into(),
            Unsent::Private(e) => e.into(),
        }
    }
}

#[cold]
fn busy() -> Failure {
    Failure::new(libc::EBUSY, c"a slot is reserved at this sender: commit it, or give it up, first")
}

impl Lends for SendingEnd {
    fn let_go(&self, of: Option<&Arena>) -> bool {
        self.named().map_or(true, |named| named.let_go(of))
    }
}

impl SendingEnd {
    pub fn of(sender: Sender<[u8]>, size: usize, typed: bool) -> SendingEnd {
        let arena = arena_of_sender(&sender);
        let sender = Lendable::new(sender);
        SendingEnd { end: End::Named(NamedEnd { reserved: Kept::new(), sender, arena, typed }), size }
    }

    pub fn private(sender: tube::Sender<Record>, size: usize) -> SendingEnd {
        SendingEnd { end: End::Private(sender), size }
    }

    fn named(&self) -> Answer<&NamedEnd> {
        match &self.end {
            End::Named(named) => Ok(named),
            End::Private(_) => unsupported(),
        }
    }

    /// Refuses what no record of this tube can be.
    pub fn check(&self, len: usize) -> Answer<()> {
        let exact = matches!(&self.end, End::Named(named) if named.typed);
        if len > self.size || (exact && len != self.size) {
            let most = if exact { "exactly" } else { "at most" };
            let text = format_args!("a record of {len} bytes cannot be sent: this tube's have {most} {}", self.size);
            return Err(Failure::told(libc::EMSGSIZE, text));
        }
        Ok(())
    }

    fn send(&self, record: &[u8], limit: Limit) -> Answer<()> {
        self.check(record.len())?;
        match &self.end {
            End::Named(named) => {
                let sender = named.sender()?;
                match limit {
                    Limit::Forever => sender.send(record)?,
                    Limit::Now => sender.try_send(record)?,
                    Limit::Within(duration) => sender.send_timeout(record, duration)?,
                }
            }
            End::Private(sender) => {
                let record = Record::of(record)?;
                match limit {
                    Limit::Forever => sender.send(record)?,
                    Limit::Now => sender.try_send(record)?,
                    Limit::Within(duration) => sender.send_timeout(record, duration)?,
                }
            }
        }
        Ok(())
    }

    pub fn is_private(&self) -> bool {
        matches!(self.end, End::Private(_))
    }

    /// For a wait: sends these bytes. At a private tube it may be met between two polls, and ends when it is asked to.
    pub fn send_as_task(
        &'static self,
        record: &[u8],
        asked: Asked,
    ) -> Answer<impl Future<Output = Result<(), Unsent>> + Send + use<>> {
        self.check(record.len())?;
        let record = Record::of(record)?;
        let (lent, private) = match &self.end {
            End::Named(named) => (Some(named.lend()?), None),
            End::Private(sender) => (None, Some(sender.clone())),
        };
        Ok(async move {
            if let Some(mut sender) = lent {
                return sender.send_async(record.bytes()).await.map_err(Unsent::Named);
            }
            let private = private.expect("the one or the other");
            let mut sending = Some(private.send_async(record));
            let sent = poll_fn(|cx| match &mut sending {
                Some(_) if asked.is() => match sending.take().and_then(Sending::cancel) {
                    None => Poll::Ready(Ok(())),
                    // It is not polled again.
                    Some(_record) => Poll::Pending,
                },
                Some(sending) => Pin::new(sending).poll(cx),
                None => Poll::Pending,
            });
            sent.await.map_err(Unsent::Private)
        })
    }

    /// As an arm of a wait: sends these bytes.
    pub fn sends(&'static self, record: &[u8]) -> Answer<Sends> {
        self.check(record.len())?;
        match &self.end {
            End::Named(named) => Ok(Sends::Named(named.lend()?, record.to_vec())),
            End::Private(sender) if sender.capacity() == Some(0) => {
                let text = c"a wait of a loop of events chooses no send to a tube without slots: give it one, or use chappe_send_async";
                Err(Failure::new(libc::EOPNOTSUPP, text))
            }
            End::Private(sender) => Ok(Sends::Private(sender.clone(), Record::of(record)?)),
        }
    }

    /// As an arm of a choice that sends so many bytes.
    pub fn arm(&self, len: usize) -> Answer<Armed<'_>> {
        match &self.end {
            End::Named(named) => Ok(named.sender()?.__arm()),
            End::Private(sender) => {
                // Asked for now, while nothing is chosen: what is chosen has to be sent.
                if len > FEW {
                    input::memory_for(len)?;
                }
                Ok(sender.__arm())
            }
        }
    }

    /// Sends the record for which a choice has taken something.
    pub fn finish(&self, chosen: SelectedOperation<'_>, record: &[u8]) -> Answer<()> {
        match &self.end {
            End::Named(named) => Ok(chappe::raw::send_chosen(chosen, named.sender()?, record)?),
            End::Private(sender) => Ok(chosen.send(sender, Record::of(record)?)?),
        }
    }
}

/// An arm of a wait of a loop of events.
pub enum Sends {
    Named(Lent<Sender<[u8]>>, Vec<u8>),
    Private(tube::Sender<Record>, Record),
}

impl Sends {
    pub fn armed(&self) -> Armed<'_> {
        match self {
            Sends::Named(sender, _) => (**sender).__arm(),
            Sends::Private(sender, _) => sender.__arm(),
        }
    }

    /// Sends into the slot that was taken.
    pub async fn finish(self, took: Seated) -> Result<(), Why> {
        match self {
            Sends::Named(mut sender, record) => sender.__task_send().place(took).finish(record).await.map_err(later),
            Sends::Private(sender, record) => sender.__task_send().place(took).finish(record).await.map_err(later),
        }
    }
}

/// Closes a handle; a slot that is reserved is given up. No other thread may be in a call with this handle, or call with it later.
///
/// Errors: -EBUSY if a wait has it (`chappe_send_async`); -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_close(sender: *mut chappe_sender) -> c_int {
    done(|| {
        if let End::Named(named) = &handle::get::<SendingEnd>(sender)?.end {
            named.sender.at()?;
        }
        let end = handle::close::<SendingEnd>(sender)?;
        parting::forget(sender as usize);
        drop(end);
        Ok(())
    })
}

/// Attaches another sender to the same tube, for another thread.
///
/// Errors: -EBUSY if there may be only one; -ESHUTDOWN, -EIDRM, -EUSERS, -EMFILE, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_another(sender: *mut chappe_sender, another: *mut *mut chappe_sender) -> c_int {
    done(|| {
        let (end, place) = (handle::get::<SendingEnd>(sender)?, input::place(another)?);
        let next = match &end.end {
            End::Named(named) => SendingEnd::of(named.sender()?.another()?, end.size, named.typed),
            End::Private(sender) => SendingEnd::private(sender.clone(), end.size),
        };
        place.write(handle::open(next)?);
        Ok(())
    })
}

fn sent(sender: *mut chappe_sender, record: *const c_void, len: usize, limit: impl FnOnce() -> Answer<Limit>) -> c_int {
    done(|| handle::get::<SendingEnd>(sender)?.send(input::bytes(record, len)?, limit()?))
}

/// Sends `len` bytes as one record; waits while there is no room. A handled signal does not end the wait. The records
/// of one sender stay in order. Senders that wait for room are woken in the order of arrival, and a newcomer may be
/// faster. With room and without a waiter it makes no system call.
///
/// Errors: -EPIPE if all receivers have gone, or died; -EMSGSIZE if a record of this tube cannot have so many bytes (with a schema: has not as many as that says); -EIDRM if the tube was
/// removed; -EBUSY if a slot is reserved at this sender; -EPERM if it is the parent process's; -EUSERS if the thread cannot become a
/// member of the arena; -ENOMEM if the tube is private, and there is no memory for the record (but one with CHAPPE_UNBOUNDED slots ends the
/// program when there is none for more slots); -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_send(sender: *mut chappe_sender, record: *const c_void, len: usize) -> c_int {
    sent(sender, record, len, || Ok(Limit::Forever))
}

/// Sends a record if there is room now. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_try_send(sender: *mut chappe_sender, record: *const c_void, len: usize) -> c_int {
    sent(sender, record, len, || Ok(Limit::Now))
}

/// As `chappe_send`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_send_timeout(sender: *mut chappe_sender, record: *const c_void, len: usize, ns: i64) -> c_int {
    sent(sender, record, len, || input::within(ns))
}

/// As `chappe_send`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_send_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_send_deadline(
    sender: *mut chappe_sender,
    record: *const c_void,
    len: usize,
    at: i64,
) -> c_int {
    sent(sender, record, len, || input::until(at))
}

fn reserve(sender: *mut chappe_sender, data: *mut *mut c_void, limit: Answer<Limit>) -> c_int {
    done(|| {
        let (end, place) = (handle::get::<SendingEnd>(sender)?, input::place(data)?);
        place.write(end.named()?.reserve(limit?)?.cast());
        Ok(())
    })
}

/// Reserves a slot, and writes where it is: a record is written there in place, with as many bytes as the tube's records can have, and
/// sent by `chappe_sender_commit`. Waits while there is none. One slot at a time at each sender; it belongs to the thread. What it
/// holds at first is a record of before, or zeros. If the thread dies, nothing was sent.
///
/// Errors: -EBUSY if one is reserved already; -EOPNOTSUPP if the tube is private; else as `chappe_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_reserve(sender: *mut chappe_sender, data: *mut *mut c_void) -> c_int {
    reserve(sender, data, Ok(Limit::Forever))
}

/// Reserves a slot if there is one now. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_sender_reserve`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_try_reserve(sender: *mut chappe_sender, data: *mut *mut c_void) -> c_int {
    reserve(sender, data, Ok(Limit::Now))
}

/// As `chappe_sender_reserve`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_sender_reserve`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_reserve_timeout(sender: *mut chappe_sender, data: *mut *mut c_void, ns: i64) -> c_int {
    reserve(sender, data, input::within(ns))
}

/// As `chappe_sender_reserve`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_sender_reserve_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_reserve_deadline(sender: *mut chappe_sender, data: *mut *mut c_void, at: i64) -> c_int {
    reserve(sender, data, input::until(at))
}

/// Sends the first `len` bytes of the slot that is reserved. Waits only if others have passed the slot over because this took long,
/// and the tube has been full since.
///
/// Errors: -EINVAL if no slot is reserved, or the thread has left the arena since; -EMSGSIZE, and it stays reserved; -EPERM if it is another
/// thread's, or the parent process's; -EPIPE, -EIDRM, -ESTALE if the thread was taken for dead: it is given up; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_commit(sender: *mut chappe_sender, len: usize) -> c_int {
    done(|| {
        let end = handle::get::<SendingEnd>(sender)?;
        end.check(len)?;
        let sent: Result<(), NotSent> = end.named()?.take()?.commit(len);
        Ok(sent?)
    })
}

/// Gives up the slot that is reserved: nothing is sent.
///
/// Errors: -EINVAL if none is, or the thread has left the arena since; -EPERM if it is another thread's, or the parent process's; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_give_up(sender: *mut chappe_sender) -> c_int {
    done(|| {
        drop(handle::get::<SendingEnd>(sender)?.named()?.take()?);
        Ok(())
    })
}

/// How many bytes a record can have.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_size(sender: *const chappe_sender) -> isize {
    answer(|| Ok(handle::get::<SendingEnd>(sender)?.size as isize))
}

/// How many records there are in the tube, without those that a receiver reads in place. Looks at all slots.
///
/// Errors: -EBADF, -EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_len(sender: *const chappe_sender) -> isize {
    answer(|| {
        Ok(match &handle::get::<SendingEnd>(sender)?.end {
            End::Named(named) => named.sender()?.len(),
            End::Private(sender) => sender.len(),
        } as isize)
    })
}

/// How many records there is room for; CHAPPE_UNBOUNDED: for any number.
///
/// Errors: -EBADF, -EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_capacity(sender: *const chappe_sender) -> isize {
    answer(|| {
        Ok(match &handle::get::<SendingEnd>(sender)?.end {
            End::Named(named) => named.sender()?.capacity() as isize,
            End::Private(sender) => sender.capacity().map_or(-1, |n| n as isize),
        })
    })
}

/// 1 if there is no room, else 0. One that was removed is not full.
///
/// Errors: -EBADF, -EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_is_full(sender: *const chappe_sender) -> c_int {
    answer(|| {
        Ok(match &handle::get::<SendingEnd>(sender)?.end {
            End::Named(named) => named.sender()?.is_full(),
            End::Private(sender) => sender.is_full(),
        }
        .into())
    })
}

/// A descriptor (an eventfd) that becomes readable when there is room to send, no receiver any more, or no tube. It belongs to the
/// handle, and is closed with it. See `chappe_receiver_descriptor`.
///
/// Errors: as `chappe_receiver_descriptor`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_descriptor(sender: *mut chappe_sender) -> c_int {
    answer(|| {
        Ok(match &handle::get::<SendingEnd>(sender)?.end {
            End::Named(named) => named.sender()?.descriptor()?.as_raw_fd(),
            End::Private(sender) => sender.descriptor()?.as_raw_fd(),
        })
    })
}

/// Makes the descriptor unreadable, and ready to become readable again: 1. Or 0: `chappe_try_send` would not answer -EAGAIN now, and
/// it is readable. Waits for no other process.
///
/// Errors: -EBADF, -EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sender_rearm(sender: *mut chappe_sender) -> c_int {
    answer(|| {
        Ok(match &handle::get::<SendingEnd>(sender)?.end {
            End::Named(named) => named.sender()?.rearm(),
            End::Private(sender) => sender.rearm(),
        }
        .into())
    })
}
