//! Waiting at an end of a tube: look for a while, then sleep in the wait queue.

use crate::body::arms::{In, Out};
use crate::body::{Body, Not, Tube};
use crate::direct;
use crate::error::{RecvError, SendError};
use crate::refused::send_error;
use crate::wait::{Waiter, recv_attached, send_attached};
use chappe_plat::light::Record;
use chappe_plat::{clock, light};
use chappe_wait::attachment::party;
use chappe_wait::attachment::{ThreadAttachment, attachment};
use chappe_wait::handoff::Handoff;
use chappe_wait::lights::Side;
use chappe_wait::lights::waits::MET_BY;
use chappe_wait::operation::Taken;
use chappe_wait::patience::{Until, patience};
use chappe_wait::spin::spin;
use chappe_wait::wait::{Parties, Patience};
use std::cell::RefCell;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// How often a thread that cannot have a place in the wait queue looks.
const POLL: Duration = Duration::from_millis(1);

/// The deadline that [`Until`] names, if it names a time.
pub fn deadline(until: Until) -> Option<u64> {
    if let Until::Time(at) = until { Some(at) } else { None }
}

pub fn is_late(deadline: Option<u64>) -> bool {
    deadline.is_some_and(|end| clock::now() >= end)
}

pub fn alone(attachment: &ThreadAttachment) -> Parties {
    Parties { main: party(attachment), private: None }
}

/// The patience of a waiter that has looked before, or, at a tube without slots, has not.
pub fn rest(attachment: &ThreadAttachment, has_looked: bool) -> Patience<'_> {
    #[cfg(not(any(feature = "loom", feature = "sim")))]
    chappe_wait::inside::may_sleep();
    let patience = patience(attachment);
    Patience { none: patience.none || (has_looked && !patience.forever), ..patience }
}

/// The same where an interrupt could not be reported: the errors of private tubes are crossbeam's, a slot is to be
/// committed.
pub fn deaf_rest(attachment: &ThreadAttachment, has_looked: bool) -> Patience<'_> {
    Patience { interrupt: None, ..rest(attachment, has_looked) }
}

/// Sends a message through a tube without slots.
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn send_meeting<T, P: Deref<Target = Tube<T>>>(out: &Out<P>, message: T) -> Result<(), SendError<T>> {
    match light::current() {
        Some(me) => meet_to_send(out, me, message, None),
        None => send_any(out, message),
    }
    .map_err(send_error)
}

/// Receives a message from a tube without slots.
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn recv_meeting<T, P: Deref<Target = Tube<T>>>(into: &In<P>) -> Result<T, RecvError> {
    match light::current() {
        Some(me) => meet_to_recv(into, me, None),
        None => recv_any(into),
    }
    .map_err(|_| RecvError)
}

/// Sends a message for which there was no room.
#[inline(never)]
pub fn send_later<T, P: Deref<Target = Tube<T>>>(out: &Out<P>, message: T) -> Result<(), SendError<T>> {
    send(out, message, Until::Forever).map_err(send_error)
}

/// Receives a message where a ring had none, or there is no ring.
#[inline(never)]
pub fn recv_beside<T, P: Deref<Target = Tube<T>>>(into: &In<P>) -> Result<T, RecvError> {
    if let Body::Segmented(ring) = &into.0.body
        && let Some(message) = ring.take()
    {
        return Ok(message);
    }
    recv_any(into).map_err(|_| RecvError)
}

/// Sends a message through a tube of any kind.
#[inline(never)]
pub fn send_any<T, P: Deref<Target = Tube<T>>>(out: &Out<P>, message: T) -> Result<(), (Not, T)> {
    match out.0.try_send(message) {
        Err((Not::Now, message)) => send(out, message, Until::Forever),
        sent => sent,
    }
}

/// Receives a message from a tube of any kind.
#[inline(never)]
pub(crate) fn recv_any<T, P: Deref<Target = Tube<T>>>(into: &In<P>) -> Result<T, Not> {
    match into.0.try_recv() {
        Err(Not::Now) => recv(into, Until::Forever),
        received => received,
    }
}

/// A light thread sends through a tube without slots.
#[inline(always)]
fn meet_to_send<T, P: Deref<Target = Tube<T>>>(
    out: &Out<P>,
    me: &'static Record,
    message: T,
    deadline: Option<u64>,
) -> Result<(), (Not, T)> {
    match direct::send(&out.0, me, message, deadline) {
        Ok(()) => Ok(()),
        Err((Some(not), message)) => Err((not, message)),
        Err((None, message)) => meet_attached_to_send(out, me, message, deadline),
    }
}

#[cold]
fn meet_attached_to_send<T, P: Deref<Target = Tube<T>>>(
    out: &Out<P>,
    me: &'static Record,
    message: T,
    deadline: Option<u64>,
) -> Result<(), (Not, T)> {
    let sent = match out.0.try_send(message) {
        Err((Not::Now, message)) => send_attached(out, message, Waiter::Light(me), deadline),
        sent => sent,
    };
    if sent.is_ok() {
        // A kernel thread may have told us to act, for another waiter's sake.
        out.0.pass_on_hole();
    }
    sent
}

/// A light thread receives from a tube without slots.
#[inline(always)]
fn meet_to_recv<T, P: Deref<Target = Tube<T>>>(
    into: &In<P>,
    me: &'static Record,
    deadline: Option<u64>,
) -> Result<T, Not> {
    match direct::recv(&into.0, me, deadline) {
        Ok(message) => Ok(message),
        Err(Some(not)) => Err(not),
        Err(None) => meet_attached_to_recv(into, me, deadline),
    }
}

#[cold]
fn meet_attached_to_recv<T, P: Deref<Target = Tube<T>>>(
    into: &In<P>,
    me: &'static Record,
    deadline: Option<u64>,
) -> Result<T, Not> {
    let received = match into.0.try_recv() {
        Err(Not::Now) => recv_attached(into, Waiter::Light(me), deadline),
        received => received,
    };
    if received.is_ok() {
        // As above.
        into.0.pass_on_message();
    }
    received
}

/// Sends a message; the caller has seen that it cannot now. [`Not::Now`]: the time was up.
#[inline(never)]
pub fn send<T, P: Deref<Target = Tube<T>>>(out: &Out<P>, message: T, until: Until) -> Result<(), (Not, T)> {
    let (tube, end) = (&*out.0, deadline(until));
    if is_late(end) {
        return Err((Not::Now, message));
    }
    if let Some(me) = light::current() {
        return if tube.has_meetings() {
            meet_to_send(out, me, message, end)
        } else {
            send_attached(out, message, Waiter::Light(me), end)
        };
    }
    let mut message = Some(message);
    let now = |message: &mut Option<T>| match tube.try_send(message.take().expect("it comes back")) {
        Ok(()) => Some(Ok(())),
        Err((Not::Ever, back)) => Some(Err((Not::Ever, back))),
        Err((Not::Now, back)) => {
            *message = Some(back);
            None
        }
    };
    let looks = !tube.has_meetings();
    let sent = attachment(tube.senders.map(), |attachment| {
        if looks
            && let Some(sent) = spin(&attachment.looks, &patience(attachment), || is_late(end), || now(&mut message))
        {
            return Ok(sent);
        }
        tube.senders.prepare()?;
        Ok(send_attached(
            out,
            message.take().expect("as above"),
            Waiter::Attached(&alone(attachment), &deaf_rest(attachment, looks)),
            end,
        ))
    });
    match sent.and_then(|sent| sent) {
        Ok(sent) => sent,
        // The thread is about to end, or there are more waiters than the private arena has room for.
        Err(_) => loop {
            if let Some(sent) = now(&mut message) {
                return sent;
            }
            if is_late(end) {
                return Err((Not::Now, message.expect("as above")));
            }
            chappe_wait::patience::pass(POLL);
        },
    }
}

/// Receives a message; the caller has seen that there is none now. [`Not::Now`]: the time was up.
#[inline(never)]
pub fn recv<T, P: Deref<Target = Tube<T>>>(into: &In<P>, until: Until) -> Result<T, Not> {
    let (tube, end) = (&*into.0, deadline(until));
    if is_late(end) {
        return Err(Not::Now);
    }
    if let Some(me) = light::current() {
        return if tube.has_meetings() {
            meet_to_recv(into, me, end)
        } else {
            recv_attached(into, Waiter::Light(me), end)
        };
    }
    let now = || match tube.try_recv() {
        Err(Not::Now) => None,
        other => Some(other),
    };
    // A clock's moment is known: nothing comes before.
    let is_clock = matches!(tube.body, Body::Clock(_) | Body::Never);
    let looks = !tube.has_meetings() && !is_clock;
    let received = attachment(tube.receivers.map(), |attachment| {
        if looks && let Some(received) = spin(&attachment.looks, &patience(attachment), || is_late(end), now) {
            return Ok(received);
        }
        if !is_clock {
            tube.receivers.prepare()?;
        }
        Ok(recv_attached(into, Waiter::Attached(&alone(attachment), &deaf_rest(attachment, looks)), end))
    });
    match received.and_then(|received| received) {
        Ok(received) => received,
        // As in `send`.
        Err(_) => loop {
            if let Some(received) = now() {
                return received;
            }
            if is_late(end) {
                return Err(Not::Now);
            }
            chappe_wait::patience::pass(POLL);
        },
    }
}

/// Sends the message by what a choice has taken.
#[inline]
pub fn send_taken<T>(out: &Out<Arc<Tube<T>>>, taken: Taken, message: T) -> Result<(), SendError<T>> {
    let sent = out.0.send_taken(taken, message);
    done_with(out.0.has_meetings(), taken);
    match sent {
        Ok(()) => Ok(()),
        // Its slot was passed over while the caller was elsewhere, and others have filled all there are.
        Err((Not::Now, message)) => send(out, message, Until::Forever).map_err(send_error),
        Err(e) => Err(send_error(e)),
    }
}

/// Receives the message that a choice has taken.
#[inline]
pub fn recv_taken<T>(into: &In<Arc<Tube<T>>>, taken: Taken) -> Result<T, RecvError> {
    let received = into.0.recv_taken(taken);
    done_with(into.0.has_meetings(), taken);
    match received {
        // The message was taken while the caller was elsewhere: only the one receiver of a line can do that.
        Err(Not::Now) => recv(into, Until::Forever).map_err(|_| RecvError),
        other => other.map_err(|_| RecvError),
    }
}

/// Puts the packet of a choice that was met back among the unused ones.
#[inline]
fn done_with(has_meetings: bool, taken: Taken) {
    if has_meetings && taken.position == MET_BY {
        put_packet(taken.word.0);
    }
}

/// The descriptor of an end, armed when it is made.
pub fn descriptor<T>(tube: &Tube<T>, side: Side) -> io::Result<BorrowedFd<'_>> {
    if matches!(tube.body, Body::Clock(..) | Body::Never) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a clock has no descriptor: wait for it in a choice"));
    }
    let (event, is_new) = tube.end(side).event()?;
    if is_new {
        tube.arm(side, false);
    }
    Ok(event.as_fd())
}

thread_local! {
    /// Unused packets for meetings.
    #[allow(clippy::vec_box, reason = "others know where they are")]
    static PACKETS: RefCell<Vec<Box<Handoff>>> = const { RefCell::new(Vec::new()) };
}

/// A packet for a choice that may meet another thread: its address.
pub fn packet() -> u64 {
    let spare = PACKETS.try_with(|packets| packets.borrow_mut().pop()).ok().flatten();
    let packet = spare.unwrap_or_else(|| Box::new(Handoff::new(std::ptr::null_mut())));
    packet.reopen();
    Box::into_raw(packet) as u64
}

/// Takes a packet back that no meeting uses any more; 0: there was none.
pub fn put_packet(packet: u64) {
    if packet != 0 {
        // SAFETY: it came from `packet`, of this thread.
        let packet = unsafe { Box::from_raw(packet as *mut Handoff) };
        // A thread that is about to end has no list any more.
        let _ = PACKETS.try_with(|packets| packets.borrow_mut().push(packet));
    }
}
