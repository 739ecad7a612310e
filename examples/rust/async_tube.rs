//! Tubes in a runtime: tasks send and receive, and a thread at the other ends blocks as threads do. Any runtime will do: this is tokio.

#[cfg_attr(test, tokio::test)]
#[cfg_attr(not(test), tokio::main(flavor = "current_thread"))]
async fn main() {
    let ((to_thread, questions), (answers, from_thread)) = (chappe::tube::bounded(8), chappe::tube::bounded::<u64>(8));
    std::thread::spawn(move || questions.iter().try_for_each(|n| answers.send((1..=n).sum())));
    let asking = async move {
        for n in 0..1000 {
            to_thread.send_async(n).await.expect("the thread is there");
        }
    };
    let hearing = async {
        let mut all = Vec::new();
        while let Ok(answer) = from_thread.recv_async().await {
            all.push(answer);
        }
        all
    };
    println!("1000 answers, the last is {}", tokio::join!(asking, hearing).1[999]);
}
