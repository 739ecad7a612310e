//! Tubes, as programs have them.

use crate::fake::{Fake, space};
use chappe_remote::drive::GRACE;
use chappe_remote::{Loss, Patience, Receiver, Record, RemoteError, Sender, Tube};
use std::time::Duration;

fn text(got: Result<Option<Record>, RemoteError>) -> String {
    String::from_utf8(got.unwrap().expect("a record").bytes).unwrap()
}

fn ends(receiver: &mut Receiver) {
    assert_eq!(receiver.recv().unwrap(), None);
}

#[test]
fn records_come_in_order_and_the_stream_ends_when_no_sender_is_left() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let tube = lab.create_tube("t", 4, 100).unwrap();
    let (mut sender, mut receiver) = (tube.sender().unwrap(), other.tube("t").unwrap().receiver().unwrap());
    assert!(matches!(receiver.try_recv(), Err(RemoteError::WouldBlock { .. })));
    let said = receiver.recv_timeout(Duration::from_millis(1)).unwrap_err();
    assert!(matches!(said, RemoteError::Timeout { .. }) && said.to_string().contains("@lab/t"), "{said}");
    let waiter = std::thread::spawn(move || {
        let first = receiver.recv().unwrap().unwrap();
        (first, receiver)
    });
    sender.send(b"a").unwrap();
    let (first, mut receiver) = waiter.join().unwrap();
    assert_eq!((first.bytes.as_slice(), first.again), (b"a".as_slice(), false));
    let calls = fake.calls();
    sender.send_all(&["b", "c"], Patience::Forever).unwrap();
    assert_eq!(fake.calls() - calls, 1, "in one page");
    assert_eq!([text(receiver.recv()), text(receiver.recv())], ["b", "c"]);
    drop(sender);
    ends(&mut receiver);
    ends(&mut receiver);
    drop(receiver);
    let left: Vec<String> =
        fake.keys().into_iter().filter(|key| key.contains("page/") || key.contains("claim/")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_full_tube_holds_its_senders_up_and_what_did_not_fit_is_told() {
    let fake = Fake::new();
    let lab = fake.program();
    let tube = lab.create_tube("t", 1, 40_000).unwrap();
    let (mut sender, mut receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let (large, small) = (vec![1; 40_000], vec![2]);
    let said = sender.send_all(&[&large, &large, &small], Patience::For(Duration::from_millis(1))).unwrap_err();
    assert_eq!((said.sent, said.unsure, said.wanted), (1, 0, 3), "{said}");
    assert!(matches!(said.why, RemoteError::Timeout { .. }), "{said}");
    let said = sender.send_all(&[&small], Patience::Now).unwrap_err();
    assert!(said.sent == 0 && matches!(said.why, RemoteError::WouldBlock { .. }), "{said}");
    let blocked = std::thread::spawn(move || sender.send(&[3]).map(|()| sender));
    assert_eq!(receiver.recv().unwrap().unwrap().bytes, large);
    // It has finished with that when it asks for more.
    assert_eq!(receiver.recv().unwrap().unwrap().bytes, [3], "what was told as not sent was not");
    let mut sender = blocked.join().unwrap().unwrap();
    let said = sender.send(&[0; 40_001]).unwrap_err();
    assert!(said.to_string().contains("40001 bytes") && said.sent == 0, "{said}");
    tube.seal().unwrap();
    let said = sender.send(&[4]).unwrap_err();
    assert!(matches!(said.why, RemoteError::Sealed { .. }), "{said}");
    drop(sender);
    ends(&mut receiver);
}

#[test]
fn records_that_a_receiver_has_not_finished_with_come_to_another_and_say_so() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let tube = lab.create_tube("t", 8, 100).unwrap();
    let mut sender = tube.sender().unwrap();
    sender.send_all(&["a", "b", "c"], Patience::Forever).unwrap();
    sender.send_all(&["d"], Patience::Forever).unwrap();
    let theirs = other.tube("t").unwrap();
    let mut leaves = theirs.receiver().unwrap();
    let first = leaves.recv().unwrap().unwrap();
    drop(leaves);
    let panics = std::thread::spawn({
        let theirs = theirs.clone();
        move || {
            let mut receiver = theirs.receiver().unwrap();
            assert_eq!(text(receiver.recv()), "b");
            std::panic::resume_unwind(Box::new(()));
        }
    });
    assert!(panics.join().is_err());
    let mut receiver = theirs.receiver().unwrap();
    let second = receiver.recv().unwrap().unwrap();
    assert_eq!((second.bytes.as_slice(), second.again), (b"b".as_slice(), true), "a panic has not finished with it");
    assert!(first.token < second.token);
    assert_eq!([text(receiver.recv()), text(receiver.recv())], ["c", "d"]);
    drop(sender);
    ends(&mut receiver);
}

#[test]
fn a_dead_sender_is_told_before_the_end_and_a_lost_lease_ends_a_receiver() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let tube = lab.create_tube("t", 8, 100).unwrap();
    let mut sender = tube.sender().unwrap();
    sender.send(b"a").unwrap();
    fake.ends_leases(true);
    let said = sender.send(b"b").unwrap_err();
    assert!(matches!(said.why, RemoteError::Lost { .. }), "{said}");
    let mut receiver = other.tube("t").unwrap().receiver().unwrap();
    let record = receiver.recv().unwrap().unwrap();
    assert!(record.token.get() > 0 && receiver.check().is_ok());
    fake.ends_leases(true);
    assert_eq!(receiver.check(), Err(Loss::Revoked));
    assert!(matches!(receiver.recv(), Err(RemoteError::Lost { why: Loss::Revoked, .. })));
    let mut receiver = other.tube("t").unwrap().receiver().unwrap();
    let again = receiver.recv().unwrap().unwrap();
    assert!(again.again && again.bytes == b"a" && again.token > record.token);
    let said = receiver.recv().unwrap_err().to_string();
    assert_eq!(said, "a sender of `@lab/t` died before it was done: what came may be a part");
    ends(&mut receiver);
}

#[test]
fn a_sender_that_is_dropped_by_a_panic_or_abandoned_has_not_finished() {
    let fake = Fake::new();
    let lab = fake.program();
    let dies = |goes: fn(Sender)| {
        let tube = lab.create_tube("t", 8, 100).unwrap();
        let mut receiver = tube.receiver().unwrap();
        let panics = std::thread::spawn(move || {
            let mut sender = tube.sender().unwrap();
            sender.send(b"a").unwrap();
            goes(sender);
        });
        let _ = panics.join();
        assert_eq!(text(receiver.recv()), "a");
        let died = matches!(receiver.recv(), Err(RemoteError::SenderDied { .. }));
        ends(&mut receiver);
        drop(receiver);
        lab.remove("t", false).unwrap();
        died
    };
    assert!(dies(|_sender| std::panic::resume_unwind(Box::new(()))));
    assert!(dies(Sender::abandon));
    assert!(!dies(drop));
    // One that was made by a destructor then has finished.
    struct Sends(Tube);
    impl Drop for Sends {
        fn drop(&mut self) {
            self.0.sender().unwrap().send(b"last").unwrap();
        }
    }
    let tube = lab.create_tube("t", 8, 100).unwrap();
    let mut receiver = tube.receiver().unwrap();
    let sends = Sends(tube);
    let panics = std::thread::spawn(move || {
        let _sends = sends;
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panics.join().is_err());
    assert_eq!(text(receiver.recv()), "last");
    ends(&mut receiver);
}

#[test]
fn nothing_is_sent_to_an_engine_that_is_nearly_full() {
    let fake = Fake::new();
    let lab = fake.program();
    let tube = lab.create_tube("t", 8, 100).unwrap();
    let mut sender = tube.sender().unwrap();
    fake.has(80, 100);
    let said = sender.send(b"a").unwrap_err();
    assert!(said.sent == 0 && matches!(said.why, RemoteError::NearlyFull(_)), "{said}");
    assert!(said.to_string().contains("80 of 100 bytes"), "{said}");
    assert!(sender.send_all(&[b"a"], Patience::Now).is_err());
    assert!(fake.sized() <= Some(GRACE), "one that does not wait asks no longer than an answer may take");
    fake.has(79, 100);
    sender.send(b"b").unwrap();
    drop(sender);
    let said = lab.remove("t", false).unwrap_err().to_string();
    assert!(said.contains("1 ends and pages"), "a record is there that nobody has had: {said}");
    let mut receiver = tube.receiver().unwrap();
    assert_eq!(text(receiver.recv()), "b");
    ends(&mut receiver);
}

#[test]
fn a_follower_goes_on_until_the_tube_is_sealed() {
    let fake = Fake::new();
    let lab = fake.program();
    let tube = lab.create_tube("t", 8, 100).unwrap();
    let mut follower = tube.follower().unwrap();
    for record in ["a", "b"] {
        tube.sender().unwrap().send(record.as_bytes()).unwrap();
        assert_eq!(text(follower.recv()), record);
    }
    assert!(matches!(follower.try_recv(), Err(RemoteError::WouldBlock { .. })));
    tube.seal().unwrap();
    ends(&mut follower);
}

#[test]
fn ends_that_go_while_the_engine_is_silent_have_gone_when_it_answers_again() {
    let fake = Fake::new();
    let lab = fake.program();
    let tube = lab.create_tube("t", 8, 100).unwrap();
    let (mut sender, mut receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send_all(&["a", "b"], Patience::Forever).unwrap();
    assert_eq!(text(receiver.recv()), "a");
    // It is done, and the answer is lost.
    fake.is_silent_after(1);
    let silent = || fake.silent();
    let said = sender.send_all_until(&["c"], Patience::Forever, Some(&silent)).unwrap_err();
    assert!(matches!(said.why, RemoteError::Silent { .. }) && (said.sent, said.unsure) == (0, 1), "{said}");
    let said = sender.send(b"d").unwrap_err();
    assert!(matches!(said.why, RemoteError::Lost { .. }), "{said}");
    drop((sender, receiver));
    fake.is_silent(false);
    let ends = [space().senders("t"), space().claims("t")];
    fake.until(|model| ends.iter().all(|keys| model.found(keys).count() == 0));
    let mut receiver = tube.receiver().unwrap();
    assert_eq!([text(receiver.recv()), text(receiver.recv())], ["b", "c"]);
    self::ends(&mut receiver);
}
