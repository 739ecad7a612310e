//! The public ends of a named tube: senders and receivers.

use super::attach::{Attachment, Own};
use super::descriptor::Watched;
use super::error::{NotReceived, NotSent, TubeError};
use super::fault::{Fault, fits, name_of, not_received, not_sent};
use super::place::{Loan, Slot};
use bytemuck::Pod;
use chappe_arena::{Map, Place};
use chappe_structures::record::Received;
use chappe_tube::block::{alone, deadline, is_late, rest};
use chappe_tube::named::arms::{
    In, Not, Out, borrow_attached, borrowed, recv_attached, reserve_attached, reserved, send_attached,
};
use chappe_tube::named::arms::{try_recv, try_send, try_send_ahead};
use chappe_tube::named::pipe::Side;
use chappe_wait::attachment::party;
use chappe_wait::attachment::{ThreadAttachment, at_hand, attachment, watched};
use chappe_wait::operation::Arm;
use chappe_wait::patience::{Until, patience};
use chappe_wait::spin::spin;
use chappe_wait::wait::{Parties, Party, Patience};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::time::Duration;

pub(crate) fn number(me: &Party) -> u16 {
    me.member as u16
}

/// In one of so many looks, a spinning thread checks too whether the other end is empty.
const THOROUGH: u32 = 32;

/// Does what can be done at once; else, unless `until` is now, looks for a while, then sleeps.
#[inline(always)]
fn done<R>(
    at: &Attachment,
    until: Until,
    is_there: impl Fn() -> bool,
    mut now: impl FnMut(&Party) -> Result<R, Not>,
    sleep: impl FnOnce(&Parties, Option<u64>, &Patience<'_>) -> Result<R, Not>,
) -> Result<R, Fault> {
    at.here()?;
    let map = at.pipe.map;
    match at_hand(map, |me, _| Some(now(me))) {
        Some(Err(Not::Now)) | None => {}
        Some(first) => return Ok(first?),
    }
    let revive = || at.pipe.revive();
    attachment(map, |attachment| waited(attachment, until, is_there, revive, now, sleep)).map_err(Fault::Arena)?
}

/// As [`done`], at an end of any tube in a named arena, by a thread with an attachment.
#[inline(never)]
pub(in crate::tube) fn waited<R>(
    attachment: &ThreadAttachment,
    until: Until,
    is_there: impl Fn() -> bool,
    revive: impl Fn() -> bool,
    mut now: impl FnMut(&Party) -> Result<R, Not>,
    sleep: impl FnOnce(&Parties, Option<u64>, &Patience<'_>) -> Result<R, Not>,
) -> Result<R, Fault> {
    let looked = |how| match how {
        Err(Not::Now) => None,
        other => Some(other),
    };
    let me = &party(attachment);
    if let Some(first) = looked(now(me)) {
        return Ok(first?);
    }
    if let Until::Now = until {
        // What the dead had may be all there is.
        let found = if revive() { looked(now(me)) } else { None };
        return Ok(found.unwrap_or(Err(Not::Now))?);
    }
    let (end, patience) = (deadline(until), patience(attachment));
    if patience.forever {
        // A thread that never sleeps must start the thread that recovers the dead beforehand.
        watched(attachment).map_err(Fault::System)?;
    }
    let mut turn = 0u32;
    let look = || {
        turn = turn.wrapping_add(1);
        let is_worth_it = is_there() || turn.is_multiple_of(THOROUGH);
        if is_worth_it { looked(now(me)) } else { None }
    };
    if let Some(found) = spin(&attachment.looks, &patience, || is_late(end), look) {
        return Ok(found?);
    }
    watched(attachment).map_err(Fault::System)?;
    Ok(sleep(&alone(attachment), end, &rest(attachment, true))?)
}

/// The end where messages go in. It is used by one thread at a time. Another handle: [`another`](Sender::another), or
/// the tube's [`sender`](super::Tube::sender).
///
/// When a process drops its last sender, or dies, it has left the end. When the last process has left, receivers get
/// what is there, and then [`NotReceived::Disconnected`], or [`NotReceived::SenderDied`] if one of the senders has not
/// ended well: its process died with it, or its thread dropped it in a panic, or it [broke off](Sender::break_off).
///
/// In a forked child it is the child's own from its first use there; the only sender of a tube stays the parent's.
pub struct Sender<T: ?Sized> {
    /// Declared first: dropped before the end.
    pub(super) watched: Watched,
    pub(crate) out: Own<Out>,
    one: PhantomData<Cell<()>>,
    of: PhantomData<fn(&T)>,
}

/// The end where messages come out. It is used by one thread at a time. Another handle: [`another`](Receiver::another),
/// or the tube's [`receiver`](super::Tube::receiver).
///
/// Several receivers share the messages: each goes to one. When a process drops its last receiver, or dies, it has left
/// the end. When the last process has left, senders get [`NotSent::Disconnected`].
///
/// In a forked child it is the child's own from its first use there; the only receiver of a tube stays the parent's.
pub struct Receiver<T: ?Sized> {
    /// Declared first: dropped before the end.
    pub(super) watched: Watched,
    pub(crate) into: Own<In>,
    one: PhantomData<Cell<()>>,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender({:?})", name_of(&self.out.0))
    }
}

impl<T: ?Sized> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver({:?})", name_of(&self.into.0))
    }
}

macro_rules! both {
    ($end:ident $arm:ident) => {
        /// Whether there is no message in the tube; a removed tube has none.
        pub fn is_empty(&self) -> bool {
            self.$arm.here().is_none_or(|pipe| pipe.ring.is_empty())
        }

        /// Whether there is no room. A removed tube is not full.
        pub fn is_full(&self) -> bool {
            self.$arm.here().is_some_and(|pipe| !pipe.ring.has_hole())
        }

        /// How many messages there are in the tube, without those that a receiver reads in place. Looks at all slots.
        pub fn len(&self) -> usize {
            self.$arm.here().map_or(0, |pipe| pipe.ring.len())
        }

        /// How many messages there is room for.
        pub fn capacity(&self) -> usize {
            self.$arm.0.ring.slots() as usize
        }

        /// Another handle of this end.
        ///
        /// # Errors
        /// `Single` if there may be only one; `Sealed`, `Dead`, `Object`.
        pub fn another(&self) -> Result<$end<T>, TubeError> {
            Ok($end::with(self.$arm.at.another()?))
        }
    };
}

impl<T: ?Sized> Sender<T> {
    pub(super) fn new(map: &'static Map, place: Place) -> Result<Sender<T>, TubeError> {
        Ok(Sender::with(Attachment::new(map, place, Side::Senders)?))
    }

    fn with(at: Attachment) -> Sender<T> {
        Sender { watched: Watched::default(), out: Own { arm: Out(at.pipe), at }, one: PhantomData, of: PhantomData }
    }

    both!(Sender out);

    /// Leaves without having ended well: when all senders have gone, receivers get [`NotReceived::SenderDied`], as if
    /// this process had died. Never blocks.
    pub fn break_off(self) {
        self.out.at.break_off();
    }

    pub(super) fn put<M>(&self, record: &[u8], until: Until, message: impl FnOnce() -> M) -> Result<(), NotSent<M>> {
        self.put_by(record, until).map_err(|fault| not_sent(&self.out.0, fault, until, message()))
    }

    #[inline(always)]
    fn put_by(&self, record: &[u8], until: Until) -> Result<(), Fault> {
        let pipe = &self.out.0;
        done(
            &self.out.at,
            until,
            || pipe.ring.has_hole(),
            |me| try_send(pipe, number(me), record),
            |who, end, patience| send_attached(&self.out, record, who, end, patience),
        )
    }

    /// Sends if it can be done now.
    pub(crate) fn put_now(&self, record: &[u8]) -> Result<(), Fault> {
        self.put_by(record, Until::Now)
    }

    fn slot(&mut self, until: Until) -> Result<Slot<'_, T>, NotSent> {
        let pipe = &self.out.0;
        let slot = done(
            &self.out.at,
            until,
            || pipe.ring.has_hole(),
            |me| reserved(self.out.attempt(me, false)?, number(me)),
            |who, end, patience| reserve_attached(&self.out, who, end, patience),
        );
        slot.map(|slot| Slot::new(pipe, slot)).map_err(|fault| not_sent(pipe, fault, until, ()))
    }

    /// Reserves a slot, to write the message in place; blocks while there is none. Sleeping threads are told in the
    /// order of arrival; a thread that comes just then may be faster.
    ///
    /// # Errors
    /// `Disconnected`, `Dead`, `Inherited`, `Arena`, `System`.
    pub fn reserve(&mut self) -> Result<Slot<'_, T>, NotSent> {
        self.slot(Until::Forever)
    }

    /// Reserves a slot if there is one now. Never blocks.
    ///
    /// # Errors
    /// `Full`; else as [`Sender::reserve`].
    pub fn try_reserve(&mut self) -> Result<Slot<'_, T>, NotSent> {
        self.slot(Until::Now)
    }

    crate::timed::timed! {
        /// As [`Sender::reserve`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`Sender::reserve`].
        pub fn reserve_timeout, reserve_deadline(&mut self) -> Result<Slot<'_, T>, NotSent> { |until|
            self.slot(until())
        }
    }
}

/// The same bytes as memory to be written; the caller keeps them initialized.
pub(crate) fn as_unwritten(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the caller writes only initialized bytes.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

impl<T: Pod> Sender<T> {
    /// Sends a message; blocks while there is no room for it. A handled signal does not end the wait.
    ///
    /// With room and without a waiter: three swaps, none with an only sender; no system call, no allocation (after the
    /// thread's first use of the arena). The messages of one sender are received in their order, as long as one
    /// receiver receives them. Waiting senders are told of room in the order of arrival; a sender that comes just then
    /// may be faster. A sender that dies in the middle has sent nothing.
    ///
    /// # Errors
    /// `Disconnected` if all receivers have gone, `Dead` if the tube was removed; `Inherited`, `Arena`, `System`: each with the
    /// message.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), NotSent<T>> {
        self.put(bytemuck::bytes_of(&message), Until::Forever, || message)
    }

    /// Sends a message if there is room for it now. Never blocks.
    ///
    /// # Errors
    /// `Full`; else as [`Sender::send`].
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), NotSent<T>> {
        self.put(bytemuck::bytes_of(&message), Until::Now, || message)
    }

    crate::timed::timed! {
        /// As [`Sender::send`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`Sender::send`].
        pub fn send_timeout, send_deadline(&self, message: T) -> Result<(), NotSent<T>> { |until|
            self.put(bytemuck::bytes_of(&message), until(), || message)
        }
    }
}

impl Sender<[u8]> {
    fn bytes(&self, record: &[u8], until: Until) -> Result<(), NotSent> {
        fits(&self.out.0, record.len())?;
        self.put(record, until, || ())
    }

    /// Sends these bytes as one record: like the `send` of a tube of plain data.
    ///
    /// # Errors
    /// `TooLong` if the tube was made for shorter records; `TooShort` if it has a schema, by which each record is longer; `Disconnected`,
    /// `Dead`, `Inherited`, `Arena`, `System`.
    #[inline]
    pub fn send(&self, record: &[u8]) -> Result<(), NotSent> {
        self.bytes(record, Until::Forever)
    }

    /// Sends these bytes if there is room now. Never blocks.
    ///
    /// # Errors
    /// `Full`; else as `send`.
    #[inline]
    pub fn try_send(&self, record: &[u8]) -> Result<(), NotSent> {
        self.bytes(record, Until::Now)
    }

    /// Sends these bytes if there is room now, also if all receivers have gone: the next one that comes finds them. Never blocks.
    ///
    /// # Errors
    /// `Full`, `TooLong`, `TooShort`, `Dead`, `Inherited`, `Arena`, `System`.
    pub fn try_send_ahead(&self, record: &[u8]) -> Result<(), NotSent> {
        let pipe = &self.out.0;
        fits(pipe, record.len())?;
        let now = |me: &Party| try_send_ahead(pipe, number(me), record);
        // A look that does not wait: it never sleeps.
        let sent = done(&self.out.at, Until::Now, || pipe.ring.has_hole(), now, |_, _, _| Err(Not::Now));
        sent.map_err(|fault| not_sent(pipe, fault, Until::Now, ()))
    }

    crate::timed::timed! {
        /// As `send`, blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as `send`.
        pub fn send_timeout, send_deadline(&self, record: &[u8]) -> Result<(), NotSent> { |until|
            self.bytes(record, until())
        }
    }
}

impl<T: ?Sized> Receiver<T> {
    pub(super) fn new(map: &'static Map, place: Place) -> Result<Receiver<T>, TubeError> {
        Ok(Receiver::with(Attachment::new(map, place, Side::Receivers)?))
    }

    fn with(at: Attachment) -> Receiver<T> {
        Receiver { watched: Watched::default(), into: Own { arm: In(at.pipe), at }, one: PhantomData, of: PhantomData }
    }

    both!(Receiver into);

    fn get(&self, buffer: &mut [MaybeUninit<u8>], until: Until) -> Result<(usize, bool), NotReceived> {
        let received = self.get_by(buffer, until);
        received.map(|r| (r.len as usize, r.again)).map_err(|fault| not_received(&self.into.at, fault, until))
    }

    #[inline(always)]
    fn get_by(&self, buffer: &mut [MaybeUninit<u8>], until: Until) -> Result<Received, Fault> {
        let pipe = &self.into.0;
        let buffer = RefCell::new(buffer);
        done(
            &self.into.at,
            until,
            || pipe.ring.has_message(),
            |_| try_recv(pipe, &mut buffer.borrow_mut()),
            |who, end, patience| recv_attached(&self.into, &mut buffer.borrow_mut(), who, end, patience),
        )
    }

    /// Receives if there is a message now.
    pub(crate) fn get_now(&self, buffer: &mut [MaybeUninit<u8>]) -> Result<Received, Fault> {
        self.get_by(buffer, Until::Now)
    }

    fn loan(&self, until: Until) -> Result<Loan<'_, T>, NotReceived> {
        let pipe = &self.into.0;
        let loan = done(
            &self.into.at,
            until,
            || pipe.ring.has_message(),
            |me| borrowed(pipe, self.into.attempt(me, false)?),
            |who, end, patience| borrow_attached(&self.into, who, end, patience),
        );
        loan.map(|loan| Loan::new(pipe, loan)).map_err(|fault| not_received(&self.into.at, fault, until))
    }

    /// Borrows the next message, to read it in place; blocks while there is none. If the borrower dies before it has
    /// released the message, it is delivered once more, marked. If the next borrower dies too, it is dropped, and
    /// counted. (A tube that was made to drop drops it after the first death.)
    ///
    /// # Errors
    /// As `recv`.
    pub fn borrow(&self) -> Result<Loan<'_, T>, NotReceived> {
        self.loan(Until::Forever)
    }

    /// Borrows the next message if there is one now. Never blocks.
    ///
    /// # Errors
    /// `Empty`; else as `recv`.
    pub fn try_borrow(&self) -> Result<Loan<'_, T>, NotReceived> {
        self.loan(Until::Now)
    }

    crate::timed::timed! {
        /// As [`Receiver::borrow`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as `recv`.
        pub fn borrow_timeout, borrow_deadline(&self) -> Result<Loan<'_, T>, NotReceived> { |until|
            self.loan(until())
        }
    }
}

impl<T: Pod> Receiver<T> {
    /// The message alone: returned together with the mark it would lie at an odd place, and be copied once more (64
    /// bytes: 8 ns of 44).
    fn message(&self, until: Until) -> Result<T, NotReceived> {
        let mut message = T::zeroed();
        self.get(as_unwritten(bytemuck::bytes_of_mut(&mut message)), until)?;
        Ok(message)
    }

    /// Receives the next message; blocks while there is none. A handled signal does not end the wait.
    ///
    /// If a message is there: no system call, no allocation (after the thread's first use of the arena). Waiting
    /// receivers are told in the order of arrival; a receiver that comes just then may be faster. If a receiver dies in
    /// the middle, either it has the message, or another receives it. The message may have been delivered before:
    /// [`recv_redelivered`](Receiver::recv_redelivered) says so.
    ///
    /// # Errors
    /// `Disconnected` if there is none and all senders have gone, `SenderDied` if one of them died or broke off, `Dead`
    /// if the tube was removed; `Inherited`, `Arena`, `System`.
    #[inline]
    pub fn recv(&self) -> Result<T, NotReceived> {
        self.message(Until::Forever)
    }

    /// As [`Receiver::recv`]; and whether a receiver that had the message before has died.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    #[inline]
    pub fn recv_redelivered(&self) -> Result<(T, bool), NotReceived> {
        let mut message = T::zeroed();
        let (_, again) = self.get(as_unwritten(bytemuck::bytes_of_mut(&mut message)), Until::Forever)?;
        Ok((message, again))
    }

    /// Receives the next message if there is one now. Never blocks.
    ///
    /// # Errors
    /// `Empty`; else as [`Receiver::recv`].
    #[inline]
    pub fn try_recv(&self) -> Result<T, NotReceived> {
        self.message(Until::Now)
    }

    crate::timed::timed! {
        /// As [`Receiver::recv`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`Receiver::recv`].
        pub fn recv_timeout, recv_deadline(&self) -> Result<T, NotReceived> { |until| self.message(until()) }
    }
}

impl Receiver<[u8]> {
    fn record(&self, until: Until) -> Result<(Vec<u8>, bool), NotReceived> {
        let mut record = vec![0; self.into.0.ring.size() as usize];
        let (len, again) = self.fill(&mut record, until)?;
        record.truncate(len);
        Ok((record, again))
    }

    fn fill(&self, buffer: &mut [u8], until: Until) -> Result<(usize, bool), NotReceived> {
        let (has, wanted) = (buffer.len(), self.into.0.ring.size() as usize);
        if has < wanted {
            return Err(NotReceived::Buffer { tube: name_of(&self.into.0), has, wanted });
        }
        self.get(as_unwritten(buffer), until)
    }

    /// Receives the next record: like the `recv` of a tube of plain data. Allocates; [`recv_into`](Receiver::recv_into)
    /// and [`borrow`](Receiver::borrow) do not.
    /// [`borrow`](Receiver::borrow) do not.
    ///
    /// # Errors
    /// `Disconnected` if there is none and all senders have gone, `SenderDied` if one of them died or broke off, `Dead`
    /// if the tube was removed; `Inherited`, `Arena`, `System`.
    pub fn recv(&self) -> Result<Vec<u8>, NotReceived> {
        Ok(self.record(Until::Forever)?.0)
    }

    /// As `recv`; and whether a receiver that had the record before has died.
    ///
    /// # Errors
    /// As `recv`.
    pub fn recv_redelivered(&self) -> Result<(Vec<u8>, bool), NotReceived> {
        self.record(Until::Forever)
    }

    /// Receives the next record if there is one now. Never blocks.
    ///
    /// # Errors
    /// `Empty`; else as `recv`.
    pub fn try_recv(&self) -> Result<Vec<u8>, NotReceived> {
        Ok(self.record(Until::Now)?.0)
    }

    crate::timed::timed! {
        /// As `recv`, blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as `recv`.
        pub fn recv_timeout, recv_deadline(&self) -> Result<Vec<u8>, NotReceived> { |until|
            Ok(self.record(until())?.0)
        }
    }

    /// Receives the next record into a buffer that has room for the longest: returns how many bytes, and whether a
    /// receiver that had the record before has died. Blocks while there is none.
    ///
    /// # Errors
    /// `Buffer` if the buffer is too small, and then nothing is received; else as `recv`.
    pub fn recv_into(&self, buffer: &mut [u8]) -> Result<(usize, bool), NotReceived> {
        self.fill(buffer, Until::Forever)
    }

    /// As [`Receiver::recv_into`], if there is a record now. Never blocks.
    ///
    /// # Errors
    /// `Empty`; else as [`Receiver::recv_into`].
    pub fn try_recv_into(&self, buffer: &mut [u8]) -> Result<(usize, bool), NotReceived> {
        self.fill(buffer, Until::Now)
    }

    /// As [`Receiver::recv_into`], blocking at most for `timeout`.
    ///
    /// # Errors
    /// `Timeout`; else as [`Receiver::recv_into`].
    pub fn recv_into_timeout(&self, buffer: &mut [u8], timeout: Duration) -> Result<(usize, bool), NotReceived> {
        self.fill(buffer, Until::after(timeout))
    }
}
