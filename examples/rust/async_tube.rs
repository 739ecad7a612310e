//! Tubes in a runtime: tasks send and receive, and a thread at the other ends blocks as threads do. Any runtime will do: this is tokio.
//!
//! ```sh
//! cargo run --example async_tube
//! ```

use chappe::tube::bounded;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let ((to_thread, questions), (answers, from_thread)) = (bounded::<u64>(8), bounded::<u64>(8));
    std::thread::spawn(move || questions.iter().try_for_each(|n| answers.send((1..=n).sum())));
    let asking = tokio::spawn(async move {
        for n in 0..1000 {
            to_thread.send_async(n).await.expect("the thread is there");
        }
    });
    let (mut count, mut last) = (0, 0);
    while let Ok(answer) = from_thread.recv_async().await {
        (count, last) = (count + 1, answer);
    }
    asking.await.expect("it has asked all");
    println!("{count} answers, the last is {last}");
    assert_eq!((count, last), (1000, 999 * 1000 / 2));
}

#[test]
fn all_answers_come() {
    main();
}
