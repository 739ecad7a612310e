//! Making tubes.

use super::ends::{Receiver, Sender};
use super::single::{SingleReceiver, SingleSender};
use crate::registry::Arena;
use chappe_structures::ring::{Ring, Spsc};
use chappe_tube::body::arms::{In, Out};
use chappe_tube::body::{Body, Strokes, Tube};
use chappe_tube::left::Left;
use chappe_wait::clock::Clock;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn make<T>(body: Body<T>) -> Arc<Tube<T>> {
    Arc::new(Tube::new(Arena::private().map(), body))
}

fn both<T>(body: Body<T>) -> (Sender<T>, Receiver<T>) {
    let tube = make(body);
    (Sender { out: Out(Arc::clone(&tube)) }, Receiver { into: In(tube) })
}

/// The slots of a tube with room for so many messages; none for 0.
fn slots<T>(capacity: usize) -> Body<T> {
    if capacity == 0 { Body::Rendezvous(Left::unmade()) } else { Body::Ring(Box::new(Ring::new(capacity))) }
}

/// A tube with room for so many messages. With none, a sender waits for a receiver, and hands the message over to it.
///
/// # Panics
/// If the memory for so many messages is beyond what can be addressed.
///
/// ```
/// let (tx, rx) = chappe_sync::tube::bounded(1);
/// tx.send("first")?;
/// assert!(tx.try_send("second").is_err());
/// assert_eq!(rx.recv(), Ok("first"));
/// # Ok::<(), chappe_sync::tube::SendError<&str>>(())
/// ```
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    both(slots(capacity))
}

/// A tube with room for any number of messages: sending never waits. It allocates when it holds more messages than in
/// the last second or so, and frees what that second did not need.
///
/// When the last receiver is dropped, the messages are dropped too.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    both(Body::Segmented(Box::new(Ring::unbounded())))
}

/// A tube with one sender and one receiver: a message costs neither a locked operation nor a fence.
///
/// # Panics
/// As [`bounded`].
///
/// ```
/// let (tx, rx) = chappe_sync::tube::spsc(256);
/// std::thread::scope(|s| {
///     s.spawn(move || (0..1000).for_each(|i| tx.send(i).unwrap()));
///     assert!((0..1000).all(|i| rx.recv() == Ok(i)));
/// });
/// ```
pub fn spsc<T>(capacity: usize) -> (SingleSender<T>, SingleReceiver<T>) {
    let tube =
        make(if capacity == 0 { Body::Rendezvous(Left::unmade()) } else { Body::Spsc(Box::new(Spsc::new(capacity))) });
    (SingleSender::new(Arc::clone(&tube)), SingleReceiver::new(tube))
}

/// A tube with many senders and one receiver.
///
/// # Panics
/// As [`bounded`].
pub fn mpsc<T>(capacity: usize) -> (Sender<T>, SingleReceiver<T>) {
    let tube = make(slots(capacity));
    (Sender { out: Out(Arc::clone(&tube)) }, SingleReceiver::new(tube))
}

/// A tube with one sender and many receivers: sending costs no locked operation.
///
/// # Panics
/// As [`bounded`].
pub fn spmc<T>(capacity: usize) -> (SingleSender<T>, Receiver<T>) {
    let tube = make(slots(capacity));
    (SingleSender::new(Arc::clone(&tube)), Receiver { into: In(tube) })
}

fn clock(clock: Clock) -> Receiver<Instant> {
    if clock.due().is_none() {
        // Beyond all time.
        return never();
    }
    Receiver { into: In(make(Body::Clock(Box::new(Strokes { clock, tell: |moment| moment })))) }
}

/// A receiver of one message, after so long: the moment when it was due. Clones share the message. Never disconnected.
///
/// ```
/// # use std::time::Duration;
/// use chappe_sync::tube::{after, never};
/// let (data, time_out) = (never::<u8>(), after(Duration::from_millis(5)));
/// chappe_sync::select! {
///     recv(data) -> _ => unreachable!(),
///     recv(time_out) -> _ => {}
/// }
/// ```
pub fn after(duration: Duration) -> Receiver<Instant> {
    clock(Clock::after(duration))
}

/// A receiver of one message, at this moment: the moment. Clones share the message. Never disconnected.
pub fn at(when: Instant) -> Receiver<Instant> {
    clock(Clock::at(when))
}

/// A receiver of a message once a period: the moment when it was due. A late message comes once, and the next a period
/// after it was
/// received. Clones share the messages. Never disconnected.
pub fn tick(period: Duration) -> Receiver<Instant> {
    clock(Clock::tick(period))
}

/// A receiver to which no message ever comes; for an arm of a choice that is off. Never disconnected.
pub fn never<T>() -> Receiver<T> {
    Receiver { into: In(make(Body::Never)) }
}
