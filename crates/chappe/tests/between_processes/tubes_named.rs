//! Tubes between processes: order, deaths, closing, and what is refused.

use crate::house::{Dice, House, LONG, ROLE, eventually, listen, say};
use chappe::raw::{self, Called, Had};
use chappe::tube::named::{Kind, NotReceived, NotSent, Receiver, Sender, Tube, TubeError, TubeOptions};
use chappe::tube::{bounded, never};
use chappe::{Arena, ArenaOptions, Mutex, ObjectState, Pool, Semaphore, select};
use std::time::Duration;

/// The sender, its number, and both once more.
type Job = [u64; 4];

fn job(who: u64, number: u64) -> Job {
    [who, number, !who, !number]
}

fn whole(job: Job) -> (u64, u64) {
    assert_eq!([job[0], job[1]], [!job[2], !job[3]], "torn");
    (job[0], job[1])
}

fn options(slots: u32, kind: Kind) -> TubeOptions {
    TubeOptions { slots, kind, ..TubeOptions::default() }
}

fn jobs() -> Tube<Job> {
    Tube::open("jobs").unwrap()
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let (what, n) = (words.next().unwrap(), words.next().unwrap().parse::<u64>().unwrap());
    match what {
        "send" => {
            let sender = jobs().sender().unwrap();
            let who = words.next().unwrap().parse().unwrap();
            say("ready");
            listen();
            (0..n).for_each(|i| sender.send(job(who, i)).unwrap());
            drop(sender);
            say("done");
            listen();
        }
        "receive" => {
            let receiver = jobs().receiver().unwrap();
            say("ready");
            let (mut last, mut count) = ([0; 8], 0);
            while let Ok(job) = receiver.recv() {
                let (who, number) = whole(job);
                assert!(number + 1 > last[who as usize], "{number} after {}", last[who as usize]);
                last[who as usize] = number + 1;
                count += 1;
            }
            say(&count.to_string());
        }
        "hold" => {
            let receiver = jobs().receiver().unwrap();
            let loan = receiver.borrow().unwrap();
            say(&format!("{} {}", whole(*loan).1, loan.again()));
            listen();
        }
        "steal" => {
            let receiver = jobs().receiver().unwrap();
            let loan = receiver.borrow().unwrap();
            let (who, number) = whole(*loan);
            say(&format!("{who} {number} {}", u64::from(loan.again())));
            listen();
        }
        "reserve" => {
            let mut sender = jobs().sender().unwrap();
            let mut slot = sender.reserve().unwrap();
            *slot = job(n, 0);
            say("reserved");
            listen();
        }
        "attach" => {
            let sender = jobs().sender();
            say(&sender.as_ref().map_or_else(ToString::to_string, |_| "attached".into()));
            listen();
        }
        "wait" => {
            let receiver = jobs().receiver().unwrap();
            say("waiting");
            say(&match receiver.recv() {
                Ok(job) => whole(job).1.to_string(),
                Err(e) => e.to_string(),
            });
            listen();
        }
        // Sends on and on, both ways; killed at any moment.
        "pour" => {
            let mut sender = jobs().sender().unwrap();
            let mut dice = Dice(n);
            sender.send(job(n, 0)).unwrap();
            say("ready");
            for number in 1.. {
                if dice.roll(2) == 0 {
                    sender.send(job(n, number)).unwrap();
                } else {
                    let mut slot = sender.reserve().unwrap();
                    *slot = job(n, number);
                    slot.commit().unwrap();
                }
            }
        }
        // Receives on and on, in each way.
        "drink" => {
            let receiver = jobs().receiver().unwrap();
            let mut dice = Dice(n);
            say("ready");
            loop {
                if dice.roll(2) == 0 {
                    whole(receiver.recv().unwrap());
                } else {
                    let loan = receiver.borrow().unwrap();
                    whole(*loan);
                    loan.release().unwrap();
                }
            }
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
#[ignore = "storm: processes that race"]
fn each_senders_messages_come_once_and_in_order() {
    let house = House::new("named-order");
    for (kind, senders) in [(Kind::Mpmc, 3), (Kind::Mpsc, 3), (Kind::Spmc, 1), (Kind::Spsc, 1)] {
        let tube = Tube::<Job>::create("jobs", &options(8, kind)).unwrap();
        let mut receivers: Vec<_> = (0..if matches!(kind, Kind::Mpmc | Kind::Spmc) { 2 } else { 1 })
            .map(|_| house.actor("receive 0"))
            .collect();
        receivers.iter_mut().for_each(|a| assert_eq!(a.hear(), "ready"));
        let mut actors: Vec<_> = (0..senders).map(|who| house.actor(&format!("send 5000 {who}"))).collect();
        actors.iter_mut().for_each(|a| assert_eq!(a.hear(), "ready"));
        actors.iter_mut().for_each(|a| a.tell("go"));
        actors.iter_mut().for_each(|a| assert_eq!(a.hear(), "done"));
        // They live on, but have gone from the tube.
        let count: u64 = receivers.iter_mut().map(|a| a.hear().parse::<u64>().unwrap()).sum();
        assert_eq!(count, 5000 * senders);
        drop((actors, receivers));
        eventually("it can be removed", || Tube::remove("jobs", false).is_ok());
        assert!(tube.is_dead());
    }
}

#[test]
fn a_dead_receivers_message_comes_again_and_then_is_dropped() {
    let house = House::new("named-again");
    let tube = Tube::<Job>::create("jobs", &options(4, Kind::Mpmc)).unwrap();
    let sender = tube.sender().unwrap();
    sender.send(job(0, 7)).unwrap();
    let mut first = house.actor("hold 0");
    assert_eq!(first.hear(), "7 false");
    let receiver = tube.receiver().unwrap();
    assert!(matches!(receiver.try_recv(), Err(NotReceived::Empty)));
    std::thread::scope(|s| {
        let again = s.spawn(|| {
            let receiver = tube.receiver().unwrap();
            let loan = receiver.borrow_timeout(LONG).unwrap();
            let seen = (whole(*loan).1, loan.again());
            // As if it had died.
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _loan = loan;
                std::panic::resume_unwind(Box::new(()));
            }));
            assert!(panicked.is_err());
            seen
        });
        eventually("it waits", || tube.info().unwrap().receivers_waiting.len() == 1);
        first.kill();
        assert_eq!(again.join().unwrap(), (7, true));
    });
    let info = tube.info().unwrap();
    assert_eq!((info.messages, info.redelivered, info.dropped), (0, 1, 1));
    // A panic is a death, the first one's too.
    sender.send(job(0, 8)).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _loan = receiver.borrow().unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_eq!(receiver.recv_redelivered().map(|(job, again)| (whole(job).1, again)).unwrap(), (8, true));
}

#[test]
fn a_tube_that_drops_does_not_deliver_again() {
    let house = House::new("named-drops");
    let drops = TubeOptions { drops: true, ..options(4, Kind::Mpmc) };
    let tube = Tube::<Job>::create("jobs", &drops).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(job(0, 1)).unwrap();
    let mut holder = house.actor("hold 0");
    assert_eq!(holder.hear(), "1 false");
    holder.kill();
    eventually("it is dropped", || {
        Arena::open("default").unwrap().map().recover_dead();
        tube.info().unwrap().dropped == 1
    });
    assert!(matches!(receiver.try_recv(), Err(NotReceived::Empty)));
}

#[test]
fn a_dead_senders_slot_comes_back_and_sends_nothing() {
    let house = House::new("named-slot");
    let tube = Tube::<Job>::create("jobs", &options(1, Kind::Mpmc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let mut victim = house.actor("reserve 3");
    assert_eq!(victim.hear(), "reserved");
    assert!(matches!(sender.try_send(job(0, 1)), Err(NotSent::Full(back)) if whole(back) == (0, 1)));
    std::thread::scope(|s| {
        s.spawn(|| tube.sender().unwrap().send_timeout(job(0, 2), LONG).unwrap());
        eventually("it waits", || tube.info().unwrap().senders_waiting.len() == 1);
        victim.kill();
    });
    assert_eq!(whole(receiver.recv().unwrap()), (0, 2));
    assert!(matches!(receiver.try_recv(), Err(NotReceived::Empty)));
}

#[test]
fn the_death_of_the_last_sender_ends_the_wait_of_receivers_and_the_other_way_round() {
    let house = House::new("named-close");
    let tube = Tube::<Job>::create("jobs", &options(1, Kind::Mpmc)).unwrap();
    let receiver = tube.receiver().unwrap();
    // Nobody has come yet: one waits.
    assert!(matches!(receiver.recv_timeout(Duration::from_millis(20)), Err(NotReceived::Timeout)));
    let mut victim = house.actor("attach 0");
    assert_eq!(victim.hear(), "attached");
    std::thread::scope(|s| {
        let ended = s.spawn(|| tube.receiver().unwrap().recv_timeout(LONG));
        eventually("it waits", || tube.info().unwrap().receivers_waiting.len() == 1);
        assert_eq!(tube.info().unwrap().senders.len(), 1);
        victim.kill();
        assert!(matches!(ended.join().unwrap(), Err(NotReceived::SenderDied { .. })));
    });
    assert_eq!(tube.info().unwrap().senders_died, 1);
    // This one was there, too; it is told once.
    assert!(matches!(receiver.recv(), Err(NotReceived::SenderDied { .. })));
    assert!(matches!(receiver.recv(), Err(NotReceived::Disconnected { .. })));
    // A receiver that comes now finds nothing of the dead one.
    assert!(matches!(tube.receiver().unwrap().recv(), Err(NotReceived::Disconnected { .. })));
    // It may be attached again.
    let sender = tube.sender().unwrap();
    sender.send(job(0, 1)).unwrap();
    assert_eq!(whole(receiver.recv().unwrap()).1, 1);
    drop(receiver);
    assert!(matches!(sender.try_send(job(0, 2)), Err(NotSent::Disconnected { message, .. }) if whole(message).1 == 2));
    let mut victim = house.actor("hold 0");
    eventually("it has come", || sender.try_send(job(0, 3)).is_ok());
    assert_eq!(victim.hear(), "3 false");
    sender.send_timeout(job(0, 4), Duration::from_millis(1)).unwrap_err();
    std::thread::scope(|s| {
        let ended = s.spawn(|| tube.sender().unwrap().send_timeout(job(0, 5), LONG));
        eventually("it waits", || tube.info().unwrap().senders_waiting.len() == 1);
        victim.kill();
        assert!(matches!(ended.join().unwrap(), Err(NotSent::Disconnected { .. })));
    });
    let receiver = tube.receiver().unwrap();
    assert_eq!(receiver.recv_redelivered().map(|(job, again)| (whole(job).1, again)).unwrap(), (3, true));
}

#[test]
fn a_sealed_tube_gives_what_is_in_it_and_ends() {
    let house = House::new("named-seal");
    let tube = Tube::<Job>::create("jobs", &options(4, Kind::Mpmc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(job(0, 1)).unwrap();
    tube.seal().unwrap();
    assert!(tube.info().unwrap().sealed);
    assert!(matches!(tube.sender(), Err(TubeError::Sealed { .. })));
    assert!(house.actor("attach 0").hear().contains("is sealed"));
    sender.send(job(0, 2)).unwrap();
    drop(sender);
    assert!(matches!(tube.sender(), Err(TubeError::Sealed { .. })));
    assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()].map(|job| whole(job).1), [1, 2]);
    assert!(matches!(receiver.recv(), Err(NotReceived::Disconnected { .. })));
    // One that never had a sender.
    let empty = Tube::<Job>::create("empty", &TubeOptions::default()).unwrap();
    std::thread::scope(|s| {
        let waits = s.spawn(|| empty.receiver().unwrap().recv_timeout(LONG));
        eventually("it waits", || empty.info().unwrap().receivers_waiting.len() == 1);
        empty.seal().unwrap();
        assert!(matches!(waits.join().unwrap(), Err(NotReceived::Disconnected { .. })));
    });
}

#[test]
fn a_second_handle_of_a_single_end_is_refused_and_told_who_has_it() {
    let house = House::new("named-single");
    let tube = Tube::<Job>::create("jobs", &options(4, Kind::Spmc)).unwrap();
    let mut victim = house.actor("attach 0");
    assert_eq!(victim.hear(), "attached");
    let Err(TubeError::Single { end: "sender", pid, .. }) = tube.sender() else { panic!("not refused") };
    assert_eq!(pid, victim.child.id());
    // With its death it is free.
    victim.kill();
    let sender = tube.sender().unwrap();
    assert!(matches!(tube.sender(), Err(TubeError::Single { pid, .. }) if pid == std::process::id()));
    assert!(matches!(sender.another(), Err(TubeError::Single { .. })));
    let all: Vec<_> = (0..3).map(|_| tube.receiver().unwrap()).collect();
    sender.send(job(0, 1)).unwrap();
    assert_eq!(whole(all[1].try_recv().unwrap()).1, 1);
    drop(sender);
    tube.sender().unwrap();
}

#[test]
fn a_tube_of_another_type_or_shape_is_refused() {
    let _house = House::new("named-refused");
    let _other = (Mutex::create("m", 0u64).unwrap(), Pool::create("p", 1).unwrap());
    let tube = Tube::<Job>::create("jobs", &options(4, Kind::Mpmc)).unwrap();
    for text in [
        Tube::<u64>::open("jobs").unwrap_err().to_string(),
        Tube::<[u8]>::open("jobs").unwrap_err().to_string(),
        Tube::<[i64; 4]>::open("jobs").unwrap_err().to_string(),
    ] {
        assert!(text.contains("another type"), "{text}");
    }
    for text in [
        Tube::<Job>::open("m").unwrap_err().to_string(),
        Tube::<Job>::create("p", &TubeOptions::default()).unwrap_err().to_string(),
    ] {
        assert!(text.contains("not a tube"), "{text}");
    }
    assert!(Tube::<Job>::open("nothing").unwrap_err().to_string().contains("there is only `jobs`"));
    assert!(Tube::<Job>::create("jobs", &TubeOptions::default()).unwrap_err().to_string().contains("already there"));
    Tube::<Job>::open_or_create("jobs", &options(4, Kind::Mpmc)).unwrap();
    let other = Tube::<Job>::open_or_create("jobs", &options(5, Kind::Spsc)).unwrap_err();
    assert!(other.to_string().contains("mpmc, 4 slots of 32 bytes"), "{other}");
    let bytes = |slots, size, align| TubeOptions { slots, size, align, ..TubeOptions::default() };
    for (options, what) in [
        (bytes(0, 8, 8), "0 slots"),
        (bytes(1 << 20, 8, 8), "1048576 slots"),
        (bytes(4, 8, 3), "aligned to 3"),
        (bytes(4, 8, 128), "aligned to 128"),
        (bytes(1 << 19, u32::MAX, 8), "bytes"),
        (bytes(1 << 10, 1 << 20, 8), "no room"),
    ] {
        let text = Tube::<[u8]>::create("bytes", &options).unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    }
    // Nothing of all that is left.
    let objects = Arena::open("default").unwrap().capacity().objects_used;
    assert_eq!(objects, 4);
    let texts = Tube::<[u8]>::create("bytes", &bytes(2, 10, 1)).unwrap();
    let (mut sender, receiver) = (texts.sender().unwrap(), texts.receiver().unwrap());
    assert!(matches!(sender.send(&[0; 11]), Err(NotSent::TooLong { len: 11, most: 10, .. })));
    assert!(matches!(receiver.recv_into(&mut [0; 9]), Err(NotReceived::Buffer { has: 9, wanted: 10, .. })));
    assert!(matches!(sender.reserve().unwrap().commit(11), Err(NotSent::TooLong { .. })));
    sender.send(b"").unwrap();
    sender.send(b"ten bytes.").unwrap();
    assert!(sender.is_full() && sender.capacity() == 2);
    let mut buffer = [0; 16];
    assert_eq!(receiver.recv_into(&mut buffer).unwrap(), (0, false));
    assert_eq!(receiver.recv_into(&mut buffer).unwrap(), (10, false));
    assert_eq!(&buffer[..10], b"ten bytes.");
    let mut slot = sender.reserve().unwrap();
    slot[..3].copy_from_slice(b"abc");
    slot.commit(3).unwrap();
    assert_eq!(receiver.recv().unwrap(), b"abc");
    sender.send(b"xyz").unwrap();
    let loan = receiver.borrow().unwrap();
    assert_eq!(&*loan, b"xyz");
    drop(loan);
    assert!(receiver.is_empty());
    drop((tube, sender, receiver));
    Tube::remove("jobs", false).unwrap();
    Tube::remove("bytes", false).unwrap();
    assert_eq!(Arena::open("default").unwrap().capacity().objects_used, 2);
}

#[test]
fn a_forced_removal_of_a_tube_ends_all_waits_and_keeps_memory_in_use() {
    let house = House::new("named-removed");
    let tube = Tube::<Job>::create("jobs", &options(1, Kind::Mpmc)).unwrap();
    let sender = tube.sender().unwrap();
    sender.send(job(0, 1)).unwrap();
    let mut holder = house.actor("hold 0");
    assert_eq!(holder.hear(), "1 false");
    let mut waiter = house.actor("wait 0");
    assert_eq!(waiter.hear(), "waiting");
    eventually("it waits", || tube.info().unwrap().receivers_waiting.len() == 1);
    let refused = Tube::remove("jobs", false).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    std::thread::scope(|s| {
        let waits = s.spawn(|| tube.sender().unwrap().reserve_timeout(LONG).map(|_| ()));
        eventually("it waits", || tube.info().unwrap().senders_waiting.len() == 1);
        let used = Arena::open("default").unwrap().capacity();
        Tube::remove("jobs", true).unwrap();
        assert!(matches!(waits.join().unwrap(), Err(NotSent::Dead { .. })));
        assert!(used.data_used > 0 && Arena::open("default").unwrap().capacity().data_used == 0);
    });
    assert!(waiter.hear().contains("was removed"));
    assert!(matches!(sender.try_send(job(0, 2)), Err(NotSent::Dead { .. })));
    assert!(matches!(tube.receiver(), Err(TubeError::Dead { .. })));
    // Another one of its name has other memory.
    let next = Tube::<Job>::create("jobs", &options(1, Kind::Mpmc)).unwrap();
    next.sender().unwrap().send(job(0, 3)).unwrap();
    assert!(matches!(sender.try_send(job(0, 4)), Err(NotSent::Dead { .. })));
    assert_eq!(whole(next.receiver().unwrap().recv().unwrap()), (0, 3));
}

#[test]
fn both_ends_join_choices_with_whatever_else() {
    let _house = House::new("named-choice");
    let tube = Tube::<Job>::create("jobs", &options(1, Kind::Mpmc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let (stop, pool) = (Semaphore::create("stop", 0).unwrap(), Pool::create("p", 1).unwrap());
    let (tx, rx) = bounded::<u64>(1);
    let taken = pool.acquire().unwrap();
    let choose = |receiver: &Receiver<Job>| {
        select! {
            recv(receiver) -> job => whole(job.unwrap()).1,
            recv(rx) -> number => number.unwrap(),
            down(stop) -> r => { r.unwrap(); 1000 }
            acquire(pool) -> p => { drop(p.unwrap()); 2000 }
            default(LONG) => panic!("nothing came"),
        }
    };
    std::thread::scope(|s| {
        for round in 0..200u64 {
            let chooser = s.spawn(|| choose(&tube.receiver().unwrap()));
            match round % 3 {
                0 => sender.send(job(0, round)).unwrap(),
                1 => tx.send(round).unwrap(),
                _ => stop.up().unwrap(),
            }
            assert_eq!(chooser.join().unwrap(), if round % 3 == 2 { 1000 } else { round });
        }
    });
    drop(taken);
    assert_eq!(choose(&receiver), 2000);
    let put = |sender: &Sender<Job>, n: u64| {
        select! {
            send(sender, job(0, n)) -> sent => { sent.unwrap(); true }
            recv(never::<u8>()) -> _ => false,
            default => false,
        }
    };
    assert!(put(&sender, 1) && !put(&sender, 2));
    std::thread::scope(|s| {
        s.spawn(|| {
            let sender = tube.sender().unwrap();
            select! { send(sender, job(0, 2)) -> sent => sent.unwrap(), default(LONG) => panic!("no room came") }
        });
        eventually("it waits", || tube.info().unwrap().senders_waiting.len() == 1);
        assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()].map(|job| whole(job).1), [1, 2]);
    });
    drop(sender);
    select! { recv(receiver) -> job => assert!(job.is_err()), default => panic!("the end is told") }
}

#[test]
fn it_is_listed_with_who_is_at_its_ends() {
    let _house = House::new("named-listed");
    let tube = Tube::<Job>::create("lab/jobs", &options(8, Kind::Mpsc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(job(0, 1)).unwrap();
    let arena = Arena::open("lab").unwrap();
    let all = arena.objects();
    let [info] = &all[..] else { panic!("{all:?}") };
    assert_eq!((info.name.as_str(), info.kind), ("jobs", "tube"));
    let ObjectState::Tube(tube) = &info.state else { panic!("{info:?}") };
    assert_eq!((tube.messages, tube.slots, tube.size, tube.kind), (1, 8, 32, Kind::Mpsc));
    let me = std::process::id();
    assert_eq!((tube.senders[0].pid, tube.receivers[0].pid), (me, me));
    assert_eq!(arena.capacity().cells_used, 0);
    assert_eq!(arena.capacity().data_used, tube.bytes);
    drop(receiver);
}

#[test]
fn an_arena_is_made_large_enough() {
    let _house = House::new("named-room");
    let large = TubeOptions { slots: 64, size: 100_000, ..TubeOptions::default() };
    let tube = Tube::<[u8]>::create("large/t", &large).unwrap();
    let sender = tube.sender().unwrap();
    (0..64u8).for_each(|i| sender.try_send(&[i; 100_000]).unwrap());
    let receiver = tube.receiver().unwrap();
    assert!((0..64u8).all(|i| receiver.recv().unwrap() == [i; 100_000]));
    // One that is there is as it is.
    Arena::create("small", &ArenaOptions { data: Some(64), ..ArenaOptions::default() }).unwrap();
    assert!(Tube::<[u8]>::create("small/t", &large).is_err());
}

#[test]
fn handles_go_from_thread_to_thread() {
    fn must_be_send<T: Send>() {}
    must_be_send::<(Sender<Job>, Receiver<[u8]>, Tube<Job>)>();
}

#[test]
fn memory_that_was_used_is_an_empty_tube_again() {
    let _house = House::new("named-reused");
    for round in 0..20 {
        let tube = Tube::<Job>::create("jobs", &options(3 + round % 2, Kind::Mpmc)).unwrap();
        let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
        assert!(matches!(receiver.try_recv(), Err(NotReceived::Empty)));
        let sent = (0..).take_while(|i| sender.try_send(job(0, *i)).is_ok()).count();
        assert_eq!(sent, 3 + round as usize % 2);
        drop((sender, receiver));
        Tube::remove("jobs", true).unwrap();
    }
}

#[test]
#[ignore = "storm: kills at random"]
fn nothing_is_lost_or_doubled_when_processes_are_killed_on_and_on() {
    let house = House::new("named-kills");
    for kind in [Kind::Mpmc, Kind::Mpsc, Kind::Spmc, Kind::Spsc] {
        let tube = Tube::<Job>::create("jobs", &options(4, kind)).unwrap();
        let mut dice = Dice(kind as u64 + 1);
        // The senders and numbers of those that a thief got and that another receiver had died with: they are dropped, and counted.
        let mut twice: Vec<(u64, u64)> = Vec::new();
        std::thread::scope(|s| {
            let receiver = tube.receiver().unwrap();
            let (over, is_over) = std::sync::mpsc::channel();
            let reader = s.spawn(move || {
                // What comes, by its sender: each number once, unless it is marked, and none left out.
                let mut seen = std::collections::HashMap::<u64, Vec<(u64, bool)>>::new();
                loop {
                    let over = is_over.try_recv().is_ok();
                    match receiver.borrow_timeout(Duration::from_millis(5)) {
                        Ok(loan) => {
                            let (who, number) = whole(*loan);
                            seen.entry(who).or_default().push((number, loan.again()));
                        }
                        Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) if over => return seen,
                        Err(
                            NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. } | NotReceived::Timeout,
                        ) => assert!(!over),
                        Err(e) => panic!("{e}"),
                    }
                }
            });
            for round in 0..12u64 {
                let mut sender = house.actor(&format!("pour {round}"));
                assert_eq!(sender.hear(), "ready");
                let mut thief = matches!(kind, Kind::Mpmc | Kind::Spmc).then(|| house.actor(&format!("steal {round}")));
                std::thread::sleep(Duration::from_millis(2 + dice.roll(12) as u64));
                if let Some(thief) = &mut thief {
                    let said: Vec<u64> = thief.hear().split(' ').map(|n| n.parse().unwrap()).collect();
                    twice.extend((said[2] == 1).then_some((said[0], said[1])));
                }
                drop(thief);
                sender.kill();
            }
            // What a dead receiver had comes again once it has been made up for.
            let arena = chappe::Arena::open("default").unwrap();
            let here = std::process::id();
            eventually("the dead have been made up for", || arena.members().iter().all(|who| who.pid == here));
            eventually("all is received", || tube.info().unwrap().messages == 0);
            over.send(()).unwrap();
            let mut seen = reader.join().unwrap();
            // A sender's last, or only, message may be one of these.
            twice.iter().for_each(|(who, _)| _ = seen.entry(*who).or_default());
            let mut missing = Vec::new();
            for (who, numbers) in &seen {
                let mut plain: Vec<u64> = numbers.iter().filter(|(_, again)| !again).map(|(n, _)| *n).collect();
                let sorted = plain.windows(2).all(|w| w[0] < w[1]);
                assert!(sorted, "{kind:?}: those of {who} came out of order");
                plain.extend(numbers.iter().filter(|(_, again)| *again).map(|(n, _)| *n));
                plain.sort_unstable();
                plain.dedup();
                let dropped = twice.iter().filter(|(of, _)| of == who).map(|(_, n)| n);
                let end = plain.iter().chain(dropped).max().map_or(0, |last| last + 1);
                missing.extend((0..end).filter(|n| plain.binary_search(n).is_err()).map(|n| (*who, n)));
            }
            missing.sort_unstable();
            twice.sort_unstable();
            assert_eq!(missing, twice, "{kind:?}: what is missing, and what two have died with");
            assert_eq!(seen.len(), 12, "{kind:?}");
        });
        let info = tube.info().unwrap();
        assert_eq!((info.messages, info.dropped, info.senders.len()), (0, twice.len() as u64, 0));
        drop(tube);
        eventually("all have gone", || Tube::remove("jobs", false).is_ok());
    }
}

#[test]
#[ignore = "storm: kills at random"]
fn a_pool_of_killed_receivers_holds_up_nobody() {
    let house = House::new("named-drinkers");
    let tube = Tube::<Job>::create("jobs", &options(4, Kind::Mpmc)).unwrap();
    let (sender, _receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let mut dice = Dice(9);
    let mut number = 0;
    for round in 0..15 {
        let mut drinker = house.actor(&format!("drink {round}"));
        assert_eq!(drinker.hear(), "ready");
        for _ in 0..200 + dice.roll(500) {
            sender.send_timeout(job(0, number), LONG).unwrap();
            number += 1;
        }
        drinker.kill();
    }
    // What is left is at most a tube full.
    let receiver = tube.receiver().unwrap();
    let rest = std::iter::from_fn(|| receiver.try_recv().ok()).count();
    assert!(rest <= 4, "{rest}");
}

/// Runs `body` in a forked child, which ends at once after it: true if it answered so.
fn forked(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child uses what chappe promises to work after a fork, and exits without cleaning up.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if good { 0 } else { 3 }) };
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    assert!(pid > 0 && unsafe { libc::waitpid(pid, &mut status, 0) } == pid);
    status == 0
}

#[test]
fn a_forked_child_is_a_process_of_its_own_at_the_ends() {
    let _house = House::new("named-fork");
    let tube = Tube::<Job>::create("jobs", &options(4, Kind::Mpmc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(job(0, 1)).unwrap();
    let loan = receiver.borrow().unwrap();
    let child = || {
        // What the parent has borrowed is void here.
        let voided = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (*loan)[0])).is_err();
        sender.send(job(1, 2)).unwrap();
        let info = tube.info().unwrap();
        voided && info.senders.len() == 2 && whole(receiver.recv().unwrap()) == (1, 2)
    };
    assert!(forked(child));
    assert_eq!(whole(*loan), (0, 1));
    drop(loan);
    eventually("it has gone", || {
        Arena::open("default").unwrap().map().recover_dead();
        tube.info().unwrap().senders.len() == 1
    });
    drop((sender, receiver));
    // An end that may have one handle stays the parent's.
    let single = Tube::<Job>::create("single", &options(4, Kind::Spsc)).unwrap();
    let (sender, receiver) = (single.sender().unwrap(), single.receiver().unwrap());
    assert!(forked(|| {
        let sent = matches!(sender.try_send(job(1, 1)), Err(NotSent::Inherited { .. }));
        let got = matches!(receiver.try_recv(), Err(NotReceived::Inherited { .. }));
        sent && got && matches!(single.sender(), Err(TubeError::Single { .. }))
    }));
    sender.send(job(0, 1)).unwrap();
    assert_eq!(whole(receiver.recv().unwrap()), (0, 1));
    // The child goes on when the parent's have gone.
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let mut sender = Some(sender);
    assert!(forked(|| {
        sender.as_ref().unwrap().send(job(2, 1)).unwrap();
        sender.take();
        let others = tube.info().unwrap().senders.len();
        whole(receiver.recv().unwrap()) == (2, 1) && others == 1
    }));
    drop(sender.take());
}

#[test]
fn slots_that_are_leaked_by_a_thread_that_ends_are_nobodys() {
    let _house = House::new("named-leaked");
    let tube = Tube::<Job>::create("jobs", &options(3, Kind::Mpmc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(job(0, 1)).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            let receiver = tube.receiver().unwrap();
            std::mem::forget(receiver.borrow().unwrap());
            std::mem::forget(tube.sender().unwrap().reserve().unwrap());
        });
    });
    // Two of the three are out of use for ever, and no receiver gets what was borrowed.
    for i in 0..10 {
        sender.try_send(job(0, i)).unwrap();
        assert!(matches!(sender.try_send(job(0, 99)), Err(NotSent::Full(_))));
        assert_eq!(receiver.recv_redelivered().map(|(job, again)| (whole(job).1, again)).unwrap(), (i, false));
    }
}

#[test]
fn a_tube_that_is_opened_by_its_records_size_may_have_any_number_of_slots() {
    let _house = House::new("by_size");
    let called = |size| Some(Called { name: "Frame", size, align: 8 });
    let tube = |had, size, slots| raw::tube_of("media/frames", had, called(size), &options(slots, Kind::Spsc));
    tube(Had::Created, 100 << 20, 2).unwrap();
    // 64 of these would fit no arena.
    assert_eq!(tube(Had::Opened, 100 << 20, 64).unwrap().info().unwrap().slots, 2);
    assert!(matches!(tube(Had::Opened, 8, 2), Err(TubeError::OtherType { .. })));
}
