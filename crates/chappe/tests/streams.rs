//! The ends of tubes as streams and sinks of the `futures` crates: what a waiting one gives, keeps, and how it ends.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Subscribe};
use chappe::tube::named::{NotReceived, NotSent, Tube, TubeOptions};
use chappe::tube::{SendError, bounded};
use futures_core::Stream;
use futures_sink::Sink;
use house::{House, LONG};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

struct Says(Sender<()>);

impl Wake for Says {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

fn bell() -> (Waker, Receiver<()>) {
    let (said, calls) = channel();
    (Waker::from(Arc::new(Says(said))), calls)
}

fn next<S: Stream + Unpin>(stream: &mut S, waker: &Waker) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}

fn ready<M, S: Sink<M> + Unpin>(sink: &mut S, waker: &Waker) -> Poll<Result<(), S::Error>> {
    Pin::new(sink).poll_ready(&mut Context::from_waker(waker))
}

fn start<M, S: Sink<M> + Unpin>(sink: &mut S, message: M) -> Result<(), S::Error> {
    Pin::new(sink).start_send(message)
}

#[test]
fn a_stream_gives_each_message_and_ends_with_the_senders() {
    let (tx, rx) = bounded(4);
    let ((waker, calls), mut stream) = (bell(), rx.stream());
    assert!(next(&mut stream, &waker).is_pending());
    for message in 0..3 {
        tx.send(message).unwrap();
    }
    calls.recv_timeout(LONG).expect("it waits");
    for message in 0..3 {
        assert_eq!(next(&mut stream, &waker), Poll::Ready(Some(message)));
    }
    assert!(next(&mut stream, &waker).is_pending());
    drop(tx);
    calls.recv_timeout(LONG).expect("it waits again");
    assert_eq!([next(&mut stream, &waker), next(&mut stream, &waker)], [Poll::Ready(None); 2]);
}

#[test]
fn a_stream_that_is_dropped_passes_on_what_it_was_told_of() {
    let (tx, rx) = bounded(4);
    let ((waker, _calls), (later, calls)) = (bell(), bell());
    let (mut first, mut second) = (rx.stream(), rx.stream());
    assert!(next(&mut first, &waker).is_pending());
    assert!(next(&mut second, &later).is_pending());
    tx.send(7).unwrap();
    drop(first);
    calls.recv_timeout(LONG).expect("the next is told");
    assert_eq!(next(&mut second, &later), Poll::Ready(Some(7)));
}

#[test]
fn a_sink_keeps_one_message_until_there_is_room() {
    let (tx, rx) = bounded(1);
    let ((waker, calls), mut sink) = (bell(), tx.sink());
    for message in [1, 2] {
        assert_eq!(ready(&mut sink, &waker), Poll::Ready(Ok(())));
        start(&mut sink, message).unwrap();
    }
    assert!(ready(&mut sink, &waker).is_pending());
    assert_eq!(rx.recv(), Ok(1));
    calls.recv_timeout(LONG).expect("there is room");
    assert_eq!(ready(&mut sink, &waker), Poll::Ready(Ok(())));
    assert_eq!(rx.recv(), Ok(2));
    drop(rx);
    start(&mut sink, 3).unwrap();
    assert_eq!(ready(&mut sink, &waker), Poll::Ready(Err(SendError(3))));
}

#[test]
fn a_dropped_sink_drops_the_message_that_it_keeps() {
    let (tx, rx) = bounded(1);
    let message = Arc::new(());
    {
        let (waker, mut sink) = (bell().0, tx.sink());
        for _ in 0..2 {
            assert!(matches!(ready(&mut sink, &waker), Poll::Ready(Ok(()))));
            start(&mut sink, message.clone()).unwrap();
        }
        assert!(ready(&mut sink, &waker).is_pending());
    }
    assert_eq!(Arc::strong_count(&message), 2, "one is in the tube");
    drop(rx.recv().unwrap());
    assert!(rx.try_recv().is_err());
}

#[test]
fn a_shared_tube_is_a_stream_and_a_sink() {
    let _house = House::new("streams-shared");
    let tube = Tube::<[u8]>::create("t", &TubeOptions { slots: 1, size: 8, ..TubeOptions::default() }).unwrap();
    let (mut sender, mut receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let ((waker, calls), (there, comes)) = (bell(), bell());
    {
        let (mut sink, mut stream) = (sender.sink(), receiver.stream());
        assert!(next(&mut stream, &there).is_pending());
        let long = start(&mut sink, vec![0; 9]);
        assert!(matches!(long, Err(NotSent::TooLong { len: 9, most: 8, message, .. }) if message.len() == 9));
        for record in [b"one".to_vec(), b"two".to_vec()] {
            assert!(matches!(ready(&mut sink, &waker), Poll::Ready(Ok(()))));
            start(&mut sink, record).unwrap();
        }
        let full = ready(&mut sink, &waker).is_pending();
        comes.recv_timeout(LONG).expect("a record is there");
        assert!(matches!(next(&mut stream, &there), Poll::Ready(Some(Ok(record))) if record == b"one"));
        if full {
            calls.recv_timeout(LONG).expect("there is room");
        }
        assert!(matches!(ready(&mut sink, &waker), Poll::Ready(Ok(()))));
        assert!(matches!(next(&mut stream, &there), Poll::Ready(Some(Ok(record))) if record == b"two"));
        assert!(next(&mut stream, &there).is_pending());
    }
    drop(sender);
    let mut stream = receiver.stream();
    assert!((0..2).all(|_| matches!(next(&mut stream, &there), Poll::Ready(None))));
    drop(stream);
    drop(tube);
    Tube::<[u8]>::remove("t", true).unwrap();
    let mut stream = receiver.stream();
    assert!(matches!(next(&mut stream, &there), Poll::Ready(Some(Err(NotReceived::Dead { .. })))));
    assert!(matches!(next(&mut stream, &there), Poll::Ready(None)), "an error is the last");
}

#[test]
fn a_broadcast_is_a_stream_for_each_subscription() {
    let _house = House::new("streams-broadcast");
    let cast = Broadcast::<u64>::create("b", &BroadcastOptions::default()).unwrap();
    let publisher = cast.publisher().unwrap();
    let (mut one, mut two) =
        (cast.subscribe(Subscribe::to_all()).unwrap(), cast.subscribe(Subscribe::to_all()).unwrap());
    let ((waker, calls), (other, others)) = (bell(), bell());
    let (mut first, mut second) = (one.stream(), two.stream());
    assert!(next(&mut first, &waker).is_pending() && next(&mut second, &other).is_pending());
    publisher.send(6).unwrap();
    calls.recv_timeout(LONG).expect("both are called");
    others.recv_timeout(LONG).expect("both are called");
    assert!(matches!(next(&mut first, &waker), Poll::Ready(Some(Ok(6)))));
    assert!(matches!(next(&mut second, &other), Poll::Ready(Some(Ok(6)))));
    assert!(next(&mut first, &waker).is_pending());
    drop(publisher);
    calls.recv_timeout(LONG).expect("it is told of the end");
    assert!((0..2).all(|_| matches!(next(&mut first, &waker), Poll::Ready(None))));
}
