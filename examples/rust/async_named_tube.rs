//! Tubes between processes in a runtime: one process, whose tasks wait, asks; another, which blocks as programs do, answers. Any runtime will do:
//! this is tokio.
//!
//! ```sh
//! cargo run --example async_named_tube
//! ```

use chappe::Arena;
use chappe::tube::named::{NotReceived, Receiver, Sender, Tube, TubeOptions};
use std::error::Error;
use std::io;
use std::process::Command;

/// What goes through, both ways: plain data of any kind.
type Message = u64;

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
async fn ask(mut to: Sender<Message>, mut from: Receiver<Message>) -> (usize, Message) {
    let asking = async move {
        for n in 0..1000 {
            to.send_async(n).await.expect("somebody answers");
        }
    };
    let hearing = async {
        let (mut count, mut last) = (0, 0);
        while let Ok(answer) = from.recv_async().await {
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
    let (to, from) = (questions.sender()?, answers.receiver()?);
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
