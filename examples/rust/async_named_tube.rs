//! Tubes between processes in a runtime (this is tokio; any will do): one process asks in tasks; its child, which blocks as programs do, answers.

use chappe::tube::named::Tube;
use std::process::Command;

#[cfg_attr(test, tokio::test)]
#[cfg_attr(not(test), tokio::main(flavor = "current_thread"))]
async fn main() {
    let inherited = std::env::var("CONVERSATION");
    let arena = inherited.clone().unwrap_or_else(|_| format!("async-{}", std::process::id()));
    let tube =
        |name| Tube::<u64>::open_or_create(&format!("{arena}/{name}"), &Default::default()).expect("room for it");
    let (questions, answers) = (tube("questions"), tube("answers"));
    if inherited.is_ok() {
        let (from, to) = (questions.receiver().expect("room"), answers.sender().expect("room"));
        return while let Ok(n) = from.recv() {
            to.send((1..=n).sum()).expect("it hears");
        };
    }
    let (mut to, mut from) = (questions.sender().expect("room"), answers.receiver().expect("room"));
    let program = std::env::current_exe().expect("it runs");
    // The argument is for the test, which is one of a program.
    let mut child =
        Command::new(program).arg("async_named_tube").env("CONVERSATION", &arena).spawn().expect("it starts");
    let asking = async move {
        for n in 0..1000 {
            to.send_async(n).await.expect("somebody answers");
        }
    };
    let hearing = async {
        let mut all = Vec::new();
        while let Ok(answer) = from.recv_async().await {
            all.push(answer);
        }
        all
    };
    println!("1000 answers, the last is {}", tokio::join!(asking, hearing).1[999]);
    assert!(child.wait().is_ok_and(|status| status.success()));
    chappe::Arena::remove(&arena, true).expect("nobody uses it any more");
}
