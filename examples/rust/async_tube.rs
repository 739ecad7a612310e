//! Tubes in a runtime: `recv` and `send` as futures of tokio, over the descriptors of the tube's ends.
//!
//! chappe itself knows no runtime. An end's descriptor is readable when there is something to receive (room to send). A
//! caller that has found nothing calls `rearm`, and waits for the descriptor. Threads use the other clones of the ends
//! as ever.
//!
//! ```sh
//! cargo run --example async_tube
//! ```

use chappe::tube::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, bounded};
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A receiver whose `recv` is a future. Cancelling it loses nothing: a message is taken at once or not at all.
struct AsyncReceiver<T> {
    receiver: Receiver<T>,
    ready: AsyncFd<OwnedFd>,
}

impl<T> AsyncReceiver<T> {
    fn new(receiver: Receiver<T>) -> io::Result<AsyncReceiver<T>> {
        let ready = receiver.descriptor()?.try_clone_to_owned()?;
        // SAFETY: an owned descriptor is open for as long as it is there.
        let ready = unsafe { AsyncFd::register_with_interest(ready, Interest::READABLE)? };
        Ok(AsyncReceiver { receiver, ready })
    }

    async fn recv(&self) -> Result<T, RecvError> {
        loop {
            match self.receiver.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => {}
            }
            if self.receiver.rearm() {
                self.ready.readable().await.expect("the runtime watches it").clear_ready();
            }
        }
    }
}

/// A sender whose `send` is a future. Cancelled, it has not sent, and the message is dropped with it.
struct AsyncSender<T> {
    sender: Sender<T>,
    ready: AsyncFd<OwnedFd>,
}

impl<T> AsyncSender<T> {
    fn new(sender: Sender<T>) -> io::Result<AsyncSender<T>> {
        let ready = sender.descriptor()?.try_clone_to_owned()?;
        // SAFETY: an owned descriptor is open for as long as it is there.
        let ready = unsafe { AsyncFd::register_with_interest(ready, Interest::READABLE)? };
        Ok(AsyncSender { sender, ready })
    }

    async fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = message;
        loop {
            match self.sender.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(back)) => return Err(SendError(back)),
                Err(TrySendError::Full(back)) => message = back,
            }
            if self.sender.rearm() {
                self.ready.readable().await.expect("the runtime watches it").clear_ready();
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let ((to_thread, questions), (answers, from_thread)) = (bounded::<u64>(8), bounded::<u64>(8));
    // A thread that computes, and blocks as threads do.
    let worker = std::thread::spawn(move || {
        for n in questions {
            if answers.send((1..=n).sum()).is_err() {
                return;
            }
        }
    });
    let (to_thread, from_thread) = (AsyncSender::new(to_thread)?, AsyncReceiver::new(from_thread)?);
    let asking = async {
        for n in 0..1000 {
            to_thread.send(n).await.expect("the worker is there");
        }
        drop(to_thread);
    };
    let hearing = async {
        let (mut count, mut last) = (0, 0);
        while let Ok(answer) = from_thread.recv().await {
            (count, last) = (count + 1, answer);
        }
        (count, last)
    };
    let ((), (count, last)) = tokio::join!(asking, hearing);
    worker.join().expect("the worker ends");
    println!("{count} answers, the last is {last}");
    assert_eq!((count, last), (1000, 999 * 1000 / 2));
    Ok(())
}

#[test]
fn all_answers_come() -> io::Result<()> {
    main()
}
