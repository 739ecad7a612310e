//! Tubes between processes in a runtime: `recv` and `send` as futures of tokio, over the descriptors of the tube's ends.
//!
//! One process, in a runtime, asks; another, which blocks as programs do, answers. Only the process that wants futures
//! asks for a descriptor. The descriptor is the handle's own: it becomes readable once when there is something to
//! receive (room to send). A caller that has found nothing calls `rearm`, and waits for the descriptor.
//!
//! ```sh
//! cargo run --example async_named_tube
//! ```

use chappe::Arena;
use chappe::tube::named::{NotReceived, NotSent, Receiver, Sender, Tube, TubeOptions};
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What goes through, both ways: plain data of any kind.
type Message = u64;

/// A receiver whose `recv` is a future. Cancelling it loses nothing: a message is taken at once or not at all.
struct AsyncReceiver {
    receiver: Receiver<Message>,
    ready: AsyncFd<OwnedFd>,
}

impl AsyncReceiver {
    fn new(receiver: Receiver<Message>) -> io::Result<AsyncReceiver> {
        let ready = receiver.descriptor()?.try_clone_to_owned()?;
        // SAFETY: an owned descriptor is open for as long as it is there.
        let ready = unsafe { AsyncFd::register_with_interest(ready, Interest::READABLE)? };
        Ok(AsyncReceiver { receiver, ready })
    }

    async fn recv(&self) -> Result<Message, NotReceived> {
        loop {
            match self.receiver.try_recv() {
                Err(NotReceived::Empty) => {}
                other => return other,
            }
            if self.receiver.rearm() {
                self.ready.readable().await.expect("the runtime watches it").clear_ready();
            }
        }
    }
}

/// A sender whose `send` is a future. Cancelled, it has not sent, and the message is dropped with it.
struct AsyncSender {
    sender: Sender<Message>,
    ready: AsyncFd<OwnedFd>,
}

impl AsyncSender {
    fn new(sender: Sender<Message>) -> io::Result<AsyncSender> {
        let ready = sender.descriptor()?.try_clone_to_owned()?;
        // SAFETY: an owned descriptor is open for as long as it is there.
        let ready = unsafe { AsyncFd::register_with_interest(ready, Interest::READABLE)? };
        Ok(AsyncSender { sender, ready })
    }

    async fn send(&self, message: Message) -> Result<(), NotSent<Message>> {
        loop {
            match self.sender.try_send(message) {
                Err(NotSent::Full(_)) => {}
                other => return other,
            }
            if self.sender.rearm() {
                self.ready.readable().await.expect("the runtime watches it").clear_ready();
            }
        }
    }
}

/// The other process: answers until nobody asks any more.
fn answer(arena: &str) -> Result<(), Box<dyn Error>> {
    let questions = Tube::<Message>::open(&format!("{arena}/questions"))?.receiver()?;
    let answers = Tube::<Message>::open(&format!("{arena}/answers"))?.sender()?;
    loop {
        match questions.recv() {
            Ok(n) => answers.send((1..=n).sum())?,
            Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// How many answers came, and the last one.
async fn ask(to: AsyncSender, from: AsyncReceiver) -> (usize, Message) {
    let asking = async {
        for n in 0..1000 {
            to.send(n).await.expect("somebody answers");
        }
        drop(to);
    };
    let hearing = async {
        let (mut count, mut last) = (0, 0);
        while let Ok(answer) = from.recv().await {
            (count, last) = (count + 1, answer);
        }
        (count, last)
    };
    tokio::join!(asking, hearing).1
}

async fn converse(arena: &str, start: impl FnOnce() -> io::Result<()>) -> Result<(), Box<dyn Error>> {
    let options = TubeOptions { slots: 8, ..TubeOptions::default() };
    let questions = Tube::<Message>::create(&format!("{arena}/questions"), &options)?;
    let answers = Tube::<Message>::create(&format!("{arena}/answers"), &options)?;
    let (to, from) = (AsyncSender::new(questions.sender()?)?, AsyncReceiver::new(answers.receiver()?)?);
    start()?;
    let (count, last) = ask(to, from).await;
    println!("{count} answers, the last is {last}");
    assert_eq!((count, last), (1000, 999 * 1000 / 2));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(arena) = std::env::args().nth(1) {
        return answer(&arena);
    }
    let arena = format!("async-{}", std::process::id());
    let mut other = None;
    let program = std::env::current_exe()?;
    let conversed = converse(&arena, || {
        other = Some(Command::new(program).arg(&arena).spawn()?);
        Ok(())
    });
    let conversed = conversed.await;
    if let Some(mut other) = other {
        other.wait()?;
    }
    Arena::remove(&arena, true)?;
    conversed
}

/// A thread stands for the other process: this program is the tests' here.
#[tokio::test]
async fn all_answers_come() -> Result<(), Box<dyn Error>> {
    let arena = format!("async-test-{}", std::process::id());
    let its = arena.clone();
    let conversed = converse(&arena, || {
        std::thread::spawn(move || answer(&its).expect("it answers"));
        Ok(())
    });
    let conversed = conversed.await;
    Arena::remove(&arena, true)?;
    conversed
}
