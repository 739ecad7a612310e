//! Receivers: where records come out of a tube.
//!
//! A receiver of a named tube is used by one thread at a time; `chappe_receiver_another` gives each its own. Several share the
//! records: each goes to one. When the last one of a process is closed, or the process dies, the process has left. A receiver that
//! dies while it copies a record out has it, or another receives it. One that dies while it looks at it in place leaves it to be
//! delivered once more, marked, before all that was sent later; after a second death it is dropped, and counted. A thread that ends, or
//! leaves the arena, gives it back. In a forked child a receiver is the child's own from
//! its first use there; one that there may be only one of stays the parent's (-EPERM).

use crate::failure::{Answer, Failure, Why, answer, done, later};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::kept::Kept;
use crate::lending::{Lendable, Lent};
use crate::parting::{self, Lends};
use crate::sender::Record;
use crate::thread::here;
use chappe::raw::{Armed, arena_of_receiver, incarnation, is_same_arena};
use chappe::task::choice::Seated;
use chappe::tube::named::{Loan, NotReceived, Receiver};
use chappe::{Arena, ReceivingEnd as _, SelectedOperation, tube};
use std::ffi::{CStr, c_int, c_void};
use std::future::Future;
use std::os::fd::AsRawFd;

/// A handle of a receiver.
pub struct chappe_receiver(());

/// A record that is read in place, and the thread that reads it.
struct Borrowed {
    loan: Loan<'static, [u8]>,
    thread: usize,
    incarnation: u64,
}

/// The end of a named tube.
pub struct NamedEnd {
    /// First: it goes before the end, to which it refers.
    borrowed: Kept<Borrowed>,
    /// Its own memory, since a loan refers to it.
    receiver: Lendable<Receiver<[u8]>>,
}

impl Drop for NamedEnd {
    fn drop(&mut self) {
        if let Some(borrowed) = self.borrowed.take() {
            // Nobody has said that it was received.
            borrowed.loan.put_back();
        }
    }
}

enum End {
    Named(NamedEnd),
    Private(tube::Receiver<Record>),
}

/// A receiver, and how long its records may be.
pub struct ReceivingEnd {
    end: End,
    size: usize,
}

impl Object for ReceivingEnd {
    type Name = chappe_receiver;
    const KIND: u32 = 9;
    const REFUSAL: &'static CStr = c"this is no open handle of a receiver: NULL, closed already, or of something else";
}

impl NamedEnd {
    fn receiver(&self) -> Answer<&'static Receiver<[u8]>> {
        // SAFETY: it lives as long as the end, and what borrows of it for longer goes first; no wait has it.
        Ok(unsafe { &*self.receiver.at()? })
    }

    /// The receiver, for a wait.
    fn lend(&'static self) -> Answer<Lent<Receiver<[u8]>>> {
        self.is_spare()?;
        // SAFETY: no loan refers to it.
        unsafe { self.receiver.lend() }
    }

    /// Refuses to borrow a second record. In a forked child, what the parent has borrowed is nothing to wait for.
    fn is_spare(&self) -> Answer<()> {
        let none = |borrowed: &mut Option<Borrowed>| {
            if borrowed.as_ref().is_some_and(|it| it.incarnation != incarnation()) {
                *borrowed = None;
            }
            borrowed.is_none()
        };
        if self.borrowed.is_none() || self.borrowed.with(none) == Some(true) { Ok(()) } else { Err(busy()) }
    }

    /// Borrows a record: where it is, how long, and whether it comes again.
    fn borrow(&self, limit: Limit) -> Answer<(*const u8, usize, bool)> {
        self.is_spare()?;
        // Nothing of ours is in use while it waits: another thread may fork, and the child would find it so for ever.
        let receiver = self.receiver()?;
        let loan = match limit {
            Limit::Forever => receiver.borrow()?,
            Limit::Now => receiver.try_borrow()?,
            Limit::Within(duration) => receiver.borrow_timeout(duration)?,
        };
        self.keep(loan)
    }

    /// Where the record is that a choice has taken, how long it is, and whether it comes again.
    fn borrow_chosen(&self, chosen: SelectedOperation<'_>) -> Answer<(*const u8, usize, bool)> {
        self.keep(chappe::raw::borrow_chosen(chosen, self.receiver()?)?)
    }

    fn keep(&self, loan: Loan<'static, [u8]>) -> Answer<(*const u8, usize, bool)> {
        let told = (loan.as_ptr(), loan.len(), loan.again());
        let mut new = Some(Borrowed { loan, thread: here(), incarnation: incarnation() });
        self.borrowed.with(|borrowed| *borrowed = new.take());
        match new {
            None => {
                parting::has::<ReceivingEnd>(self);
                Ok(told)
            }
            Some(not_kept) => {
                not_kept.loan.put_back();
                Err(busy())
            }
        }
    }

    fn take(&self) -> Answer<Loan<'static, [u8]>> {
        let take = |borrowed: &mut Option<Borrowed>| match borrowed.take() {
            None => Err(Failure::new(libc::EINVAL, c"no record is borrowed at this receiver")),
            // Nobody's here, from now on.
            Some(it) if it.incarnation != incarnation() => {
                Err(Failure::new(libc::EPERM, c"the record is the parent process's: borrow another in the child"))
            }
            Some(it) if it.thread != here() => {
                *borrowed = Some(it);
                Err(Failure::new(libc::EPERM, c"the record was borrowed by another thread: let that one release it"))
            }
            Some(it) => {
                parting::has_not(self);
                Ok(it.loan)
            }
        };
        self.borrowed.with(take).unwrap_or_else(|| Err(busy()))
    }

    /// See `parting`.
    fn let_go(&self, of: Option<&Arena>) -> bool {
        let mine = |it: &Borrowed| it.thread == here() && it.incarnation == incarnation();
        // What a wait has, has lent nothing.
        if let (Some(arena), Ok(receiver)) = (of, self.receiver())
            && !is_same_arena(arena, &arena_of_receiver(receiver))
        {
            return false;
        }
        if let Some(it) = self.borrowed.with(|borrowed| borrowed.take_if(|it| mine(it))).flatten() {
            it.loan.put_back();
        }
        true
    }
}

/// Why a wait received nothing.
pub enum Unreceived {
    Named(NotReceived),
    Private(tube::RecvError),
}

impl From<Unreceived> for Failure {
    fn from(why: Unreceived) -> Failure {
        match why {
            Unreceived::Named(e) => e.into(),
            Unreceived::Private(e) => e.into(),
        }
    }
}

#[cold]
fn busy() -> Failure {
    Failure::new(libc::EBUSY, c"a record is borrowed at this receiver: release it, or put it back, first")
}

impl Lends for ReceivingEnd {
    fn let_go(&self, of: Option<&Arena>) -> bool {
        self.named().map_or(true, |named| named.let_go(of))
    }
}

impl ReceivingEnd {
    pub fn of(receiver: Receiver<[u8]>, size: usize) -> ReceivingEnd {
        let receiver = Lendable::new(receiver);
        ReceivingEnd { end: End::Named(NamedEnd { borrowed: Kept::new(), receiver }), size }
    }

    pub fn private(receiver: tube::Receiver<Record>, size: usize) -> ReceivingEnd {
        ReceivingEnd { end: End::Private(receiver), size }
    }

    fn named(&self) -> Answer<&NamedEnd> {
        match &self.end {
            End::Named(named) => Ok(named),
            End::Private(_) => {
                Err(Failure::new(libc::EOPNOTSUPP, c"records of a private tube are copied, not looked at in place"))
            }
        }
    }

    /// Refuses a buffer in which the longest record has no room.
    pub fn check(&self, room: usize) -> Answer<()> {
        if room >= self.size {
            return Ok(());
        }
        let text = format_args!("a buffer of {room} bytes is too small: this tube's records have up to {}", self.size);
        Err(Failure::told(libc::EMSGSIZE, text))
    }

    /// How many bytes, and whether they come again.
    fn recv(&self, buffer: &mut [u8], limit: Limit) -> Answer<(usize, bool)> {
        self.check(buffer.len())?;
        match &self.end {
            End::Named(named) => {
                let receiver = named.receiver()?;
                Ok(match limit {
                    Limit::Forever => receiver.recv_into(buffer)?,
                    Limit::Now => receiver.try_recv_into(buffer)?,
                    Limit::Within(duration) => receiver.recv_into_timeout(buffer, duration)?,
                })
            }
            End::Private(receiver) => {
                let record = match limit {
                    Limit::Forever => receiver.recv()?,
                    Limit::Now => receiver.try_recv()?,
                    Limit::Within(duration) => receiver.recv_timeout(duration)?,
                };
                Ok((copied(&record, buffer), false))
            }
        }
    }

    /// For a wait: the next record, and whether it comes again.
    pub fn recv_as_task(
        &'static self,
    ) -> Answer<impl Future<Output = Result<(Vec<u8>, bool), Unreceived>> + Send + use<>> {
        let (lent, private) = match &self.end {
            End::Named(named) => (Some(named.lend()?), None),
            End::Private(receiver) => (None, Some(receiver.clone())),
        };
        Ok(async move {
            if let Some(mut receiver) = lent {
                return receiver.recv_redelivered_async().await.map_err(Unreceived::Named);
            }
            let private = private.expect("the one or the other");
            let record = private.recv_async().await.map_err(Unreceived::Private)?;
            Ok((record.bytes().to_vec(), false))
        })
    }

    /// As an arm of a wait.
    pub fn receives(&'static self) -> Answer<Receives> {
        Ok(match &self.end {
            End::Named(named) => Receives::Named(named.lend()?),
            End::Private(receiver) => Receives::Private(receiver.clone()),
        })
    }

    /// As an arm of a choice.
    pub fn arm(&self) -> Answer<Armed<'_>> {
        Ok(match &self.end {
            End::Named(named) => named.receiver()?.__arm(),
            End::Private(receiver) => receiver.__arm(),
        })
    }

    /// The same, of one that borrows the record.
    pub fn arm_to_borrow(&self) -> Answer<Armed<'_>> {
        let named = self.named()?;
        named.is_spare()?;
        Ok(named.receiver()?.__arm())
    }

    /// Borrows the record that a choice has taken: where it is, how long, and whether it comes again.
    pub fn finish_borrowing(&self, chosen: SelectedOperation<'_>) -> Answer<(*const u8, usize, bool)> {
        self.named()?.borrow_chosen(chosen)
    }

    /// Receives the record that a choice has taken.
    pub fn finish(&self, chosen: SelectedOperation<'_>, buffer: &mut [u8]) -> Answer<(usize, bool)> {
        match &self.end {
            End::Named(named) => Ok(chappe::raw::recv_chosen(chosen, named.receiver()?, buffer)?),
            End::Private(receiver) => Ok((copied(&chosen.recv(receiver)?, buffer), false)),
        }
    }
}

/// An arm of a wait of a loop of events.
pub enum Receives {
    Named(Lent<Receiver<[u8]>>),
    Private(tube::Receiver<Record>),
}

impl Receives {
    pub fn armed(&self) -> Armed<'_> {
        match self {
            Receives::Named(receiver) => (**receiver).__arm(),
            Receives::Private(receiver) => receiver.__arm(),
        }
    }

    /// The record that was taken, and whether it comes again.
    pub fn finish(self, took: Seated) -> Result<(Vec<u8>, bool), Why> {
        match self {
            Receives::Named(mut receiver) => receiver.__task_recv().finish_told(took).map_err(later),
            Receives::Private(receiver) => {
                let record = receiver.__task_recv().finish(took).map_err(later)?;
                Ok((record.bytes().to_vec(), false))
            }
        }
    }
}

fn copied(record: &Record, buffer: &mut [u8]) -> usize {
    let bytes = record.bytes();
    buffer[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

/// Closes a handle; a record that is borrowed is put back. No other thread may be in a call with this handle, or call with it later.
///
/// Errors: -EBUSY if a wait has it (`chappe_recv_async`); -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_close(receiver: *mut chappe_receiver) -> c_int {
    done(|| {
        if let End::Named(named) = &handle::get::<ReceivingEnd>(receiver)?.end {
            named.receiver()?;
        }
        let end = handle::close::<ReceivingEnd>(receiver)?;
        parting::forget(receiver as usize);
        drop(end);
        Ok(())
    })
}

/// Attaches another receiver to the same tube, for another thread.
///
/// Errors: -EBUSY if there may be only one; -EIDRM, -EUSERS, -EMFILE, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_another(receiver: *mut chappe_receiver, another: *mut *mut chappe_receiver) -> c_int {
    done(|| {
        let (end, place) = (handle::get::<ReceivingEnd>(receiver)?, input::place(another)?);
        let next = match &end.end {
            End::Named(named) => ReceivingEnd::of(named.receiver()?.another()?, end.size),
            End::Private(receiver) => ReceivingEnd::private(receiver.clone(), end.size),
        };
        place.write(handle::open(next)?);
        Ok(())
    })
}

#[inline(always)]
fn received(
    receiver: *mut chappe_receiver,
    to: *mut c_void,
    room: usize,
    again: *mut bool,
    limit: impl FnOnce() -> Answer<Limit>,
) -> isize {
    answer(|| {
        let (end, mark) = (handle::get::<ReceivingEnd>(receiver)?, input::place_if(again)?);
        let (len, comes_again) = end.recv(input::buffer(to, room)?, limit()?)?;
        if let Some(mark) = mark {
            mark.write(comes_again);
        }
        Ok(len as isize)
    })
}

/// Receives the next record, by copying it into `to`, which must have room for the longest (`room` bytes, `chappe_receiver_size` or
/// more); answers its length. Waits while there is none. A handled signal does not end the wait. Writes into `again`, unless it is
/// NULL, whether a receiver has died that had the record before: it may have been done already. With a record there it makes no
/// system call.
///
/// Errors: -EPIPE if there is none and all senders have gone, -ECONNRESET, once, if one of them died or exited without
/// closing it; -EMSGSIZE if there is too little room, and nothing is received; -EIDRM if the tube was removed; -ESTALE
/// if the thread has left the arena meanwhile; -EPERM if it is the parent process's; -EUSERS if the thread cannot
/// become a member of the arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_recv(receiver: *mut chappe_receiver, to: *mut c_void, room: usize, again: *mut bool) -> isize {
    received(receiver, to, room, again, || Ok(Limit::Forever))
}

/// Receives the next record if there is one now. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_try_recv(
    receiver: *mut chappe_receiver,
    to: *mut c_void,
    room: usize,
    again: *mut bool,
) -> isize {
    received(receiver, to, room, again, || Ok(Limit::Now))
}

/// As `chappe_recv`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_recv_timeout(
    receiver: *mut chappe_receiver,
    to: *mut c_void,
    room: usize,
    again: *mut bool,
    ns: i64,
) -> isize {
    received(receiver, to, room, again, || input::within(ns))
}

/// As `chappe_recv`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_recv_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_recv_deadline(
    receiver: *mut chappe_receiver,
    to: *mut c_void,
    room: usize,
    again: *mut bool,
    at: i64,
) -> isize {
    received(receiver, to, room, again, || input::until(at))
}

fn borrow(receiver: *mut chappe_receiver, data: *mut *const c_void, again: *mut bool, limit: Answer<Limit>) -> isize {
    answer(|| {
        let end = handle::get::<ReceivingEnd>(receiver)?;
        let (place, mark) = (input::place(data)?, input::place_if(again)?);
        let (at, len, comes_again) = end.named()?.borrow(limit?)?;
        place.write(at.cast());
        if let Some(mark) = mark {
            mark.write(comes_again);
        }
        Ok(len as isize)
    })
}

/// Borrows the next record, to look at it in place: writes where it is, answers its length. It is received when
/// `chappe_receiver_release` says so. Waits while there is none. One record at a time at each receiver; it belongs to the thread.
///
/// Errors: -EBUSY if one is borrowed already; -EOPNOTSUPP if the tube is private; else as `chappe_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_borrow(
    receiver: *mut chappe_receiver,
    data: *mut *const c_void,
    again: *mut bool,
) -> isize {
    borrow(receiver, data, again, Ok(Limit::Forever))
}

/// Borrows the next record if there is one now. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_receiver_borrow`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_try_borrow(
    receiver: *mut chappe_receiver,
    data: *mut *const c_void,
    again: *mut bool,
) -> isize {
    borrow(receiver, data, again, Ok(Limit::Now))
}

/// As `chappe_receiver_borrow`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_receiver_borrow`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_borrow_timeout(
    receiver: *mut chappe_receiver,
    data: *mut *const c_void,
    again: *mut bool,
    ns: i64,
) -> isize {
    borrow(receiver, data, again, input::within(ns))
}

/// As `chappe_receiver_borrow`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_receiver_borrow_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_borrow_deadline(
    receiver: *mut chappe_receiver,
    data: *mut *const c_void,
    again: *mut bool,
    at: i64,
) -> isize {
    borrow(receiver, data, again, input::until(at))
}

/// Says that the record that is borrowed is received: its slot is free.
///
/// Errors: -EINVAL if none is borrowed, or the thread has left the arena since; -EPERM if it is another thread's, or the parent process's;
/// -ESTALE if the thread was taken for dead, and it may come again; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_release(receiver: *mut chappe_receiver) -> c_int {
    done(|| Ok(handle::get::<ReceivingEnd>(receiver)?.named()?.take()?.release()?))
}

/// Gives the record that is borrowed back, unreceived: it comes once more, marked, before all that was sent later, however often it
/// has come. (Of a tube that was made to drop, it is dropped, and counted.)
///
/// Errors: -EINVAL if none is borrowed, or the thread has left the arena since; -EPERM if it is another thread's, or the parent process's;
/// -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_put_back(receiver: *mut chappe_receiver) -> c_int {
    done(|| {
        handle::get::<ReceivingEnd>(receiver)?.named()?.take()?.put_back();
        Ok(())
    })
}

/// How many bytes the longest record can have.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_size(receiver: *const chappe_receiver) -> isize {
    answer(|| Ok(handle::get::<ReceivingEnd>(receiver)?.size as isize))
}

/// How many records there are in the tube, without those that a receiver reads in place. Looks at all slots.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_len(receiver: *const chappe_receiver) -> isize {
    answer(|| {
        Ok(match &handle::get::<ReceivingEnd>(receiver)?.end {
            End::Named(named) => named.receiver()?.len(),
            End::Private(receiver) => receiver.len(),
        } as isize)
    })
}

/// How many records there is room for; CHAPPE_UNBOUNDED: for any number.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_capacity(receiver: *const chappe_receiver) -> isize {
    answer(|| {
        Ok(match &handle::get::<ReceivingEnd>(receiver)?.end {
            End::Named(named) => named.receiver()?.capacity() as isize,
            End::Private(receiver) => receiver.capacity().map_or(-1, |n| n as isize),
        })
    })
}

/// 1 if there is no record in the tube, else 0.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_is_empty(receiver: *const chappe_receiver) -> c_int {
    answer(|| {
        Ok(match &handle::get::<ReceivingEnd>(receiver)?.end {
            End::Named(named) => named.receiver()?.is_empty(),
            End::Private(receiver) => receiver.is_empty(),
        }
        .into())
    })
}

/// A descriptor (an eventfd) that becomes readable when there is something to receive, no sender any more (gone or dead), or no tube:
/// for poll(2) and epoll(7). This handle's own, made when it is first asked for, and closed with the handle. Only poll it: do not read
/// it. It becomes readable once, and is made ready for the next time by `chappe_receiver_rearm`. Others may be faster: then
/// `chappe_try_recv` finds nothing.
///
/// The first one in an arena starts a thread of this process, which takes a place among the arena's members; the call waits until that
/// thread has started. In a forked child the parent's descriptor means nothing: the child asks again, and gets one of its own.
///
/// Errors: the system's, when it refuses a descriptor or a thread; the arena's, when that thread cannot join it: -EUSERS if there is no
/// place for another member; -EPERM if the end is the parent process's; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_descriptor(receiver: *mut chappe_receiver) -> c_int {
    answer(|| {
        Ok(match &handle::get::<ReceivingEnd>(receiver)?.end {
            End::Named(named) => named.receiver()?.descriptor()?.as_raw_fd(),
            End::Private(receiver) => receiver.descriptor()?.as_raw_fd(),
        })
    })
}

/// Makes the descriptor unreadable, and ready to become readable again: 1. Or 0: `chappe_try_recv` would not answer -EAGAIN now, and
/// it is readable. Waits for no other process.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_receiver_rearm(receiver: *mut chappe_receiver) -> c_int {
    answer(|| {
        Ok(match &handle::get::<ReceivingEnd>(receiver)?.end {
            End::Named(named) => named.receiver()?.rearm(),
            End::Private(receiver) => receiver.rearm(),
        }
        .into())
    })
}
