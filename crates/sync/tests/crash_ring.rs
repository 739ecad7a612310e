//! The ring, explored: every order of a few sends and receives, and everybody stopped at every step. What must hold: what was
//! sent is received once, in its sender's order; who is stopped holds up nobody and keeps one slot at most.

use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_sync::ring::Ring;
use std::cell::{Cell, RefCell};

/// What has been sent and received: tens are the sender's, ones the message's number.
#[derive(Default)]
struct Books {
    /// What was sent for sure.
    sent: RefCell<Vec<u64>>,
    /// What may be under way.
    begun: RefCell<Vec<u64>>,
    received: RefCell<Vec<u64>>,
}

#[derive(Clone, Copy)]
struct Scene {
    ring: Shared<Ring<u64>>,
    books: Shared<Books>,
    capacity: usize,
}

impl Scene {
    fn new(world: &World, capacity: usize) -> Scene {
        Scene { ring: world.share(Ring::new(capacity)), books: world.share(Books::default()), capacity }
    }

    fn send(&self, message: u64) -> bool {
        self.books.begun.borrow_mut().push(message);
        let sent = self.ring.push(message).is_ok();
        self.books.begun.borrow_mut().retain(|m| *m != message);
        if sent {
            self.books.sent.borrow_mut().push(message);
        } else {
            reached("full");
        }
        sent
    }

    fn receive(&self) -> Option<u64> {
        let got = self.ring.take();
        match got {
            Some(message) => self.books.received.borrow_mut().push(message),
            None => reached("empty"),
        }
        got
    }

    /// A process that tries to send so many.
    fn sender(&self, world: &World, name: &'static str, number: u64, messages: u64) -> Process {
        let scene = *self;
        world.process(name, move || (0..messages).for_each(|i| _ = scene.send(number * 10 + i)))
    }

    /// A process that tries to receive so often.
    fn receiver(&self, world: &World, name: &'static str, times: usize) -> Process {
        let scene = *self;
        world.process(name, move || (0..times).for_each(|_| _ = scene.receive()))
    }

    /// At the end: what is there comes, but for one in the hands of each receiver that is stopped; and the ring is as it was,
    /// but for a slot of each sender that is.
    fn settled(&self, senders: usize, receivers: usize) {
        while self.receive().is_some() {}
        let Books { sent, begun, received } = &*self.books;
        let (sent, received) = (sent.borrow(), received.borrow());
        let missing = sent.iter().filter(|message| !received.contains(message)).count();
        assert!(missing <= receivers, "{missing} of {sent:?} are lost: {received:?}");
        for (i, message) in received.iter().enumerate() {
            assert!(sent.contains(message) || begun.borrow().contains(message), "{message} was never sent");
            let earlier = &received[..i];
            let overtaken = earlier.iter().any(|other| other / 10 == message / 10 && other >= message);
            assert!(!overtaken, "message {message} came too late, or twice: {received:?}");
        }
        let room = (self.capacity - senders.min(self.capacity)) as u64;
        for round in 0..2 {
            for i in 0..room {
                assert!(self.ring.push(1000 + i).is_ok(), "round {round}: no room for message {i} of {room}");
            }
            for i in 0..room {
                assert_eq!(self.ring.take(), Some(1000 + i), "round {round}");
            }
            assert_eq!(self.ring.take(), None, "round {round}");
        }
    }
}

fn is_stopped(p: &Process) -> bool {
    p.fate() == Fate::Stopped
}

fn last(world: &World, scene: Scene, senders: &[Process], receivers: &[Process]) {
    let (senders, receivers) = (senders.to_vec(), receivers.to_vec());
    world.prepare("last").last().run(move || {
        let stopped = |all: &[Process]| all.iter().filter(|p| is_stopped(p)).count();
        let (senders, receivers) = (stopped(&senders), stopped(&receivers));
        if senders + receivers > 0 {
            reached("past a stopped one");
        }
        scene.settled(senders, receivers);
    });
}

/// Two senders and a receiver.
fn few(world: &World, capacity: usize) {
    let scene = Scene::new(world, capacity);
    let senders = [scene.sender(world, "one", 1, 2), scene.sender(world, "other", 2, 2)];
    let receiver = scene.receiver(world, "receiver", 2);
    last(world, scene, &senders, &[receiver]);
}

/// A sender and two receivers.
fn fan_out(world: &World) {
    let scene = Scene::new(world, 2);
    let took = world.share(Cell::new(0));
    let scene_of = |name| {
        world.process(name, move || {
            for _ in 0..2 {
                // What two receive at once may be noted in either order: each counts for itself.
                if scene.ring.take().is_some() {
                    took.set(took.get() + 1);
                }
            }
        })
    };
    let all = [scene_of("one"), scene_of("other")];
    let sent = world.share(Cell::new(0));
    let sender = world.process("sender", move || {
        for i in 0..4 {
            if scene.ring.push(i).is_ok() {
                sent.set(sent.get() + 1);
            }
        }
    });
    world.prepare("last").last().run(move || {
        let mut rest = 0;
        while scene.ring.take().is_some() {
            rest += 1;
        }
        let sure = !all.iter().any(is_stopped) && !is_stopped(&sender);
        assert!(!sure || took.get() + rest == sent.get(), "{} and {rest} of {}", took.get(), sent.get());
    });
}

fn explored(name: &str, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let all = [
        Search::depth(&format!("{name}_depth"), 3).schedules(60_000),
        Search::sweep(&format!("{name}_stop")).stops(1),
        Search::depth(&format!("{name}_stop_depth"), 2).stops(1).schedules(60_000),
        Search::priorities(&format!("{name}_stop_pct"), 4).stops(2).schedules(30_000),
    ]
    .map(|search| search.run(&world));
    for report in &all {
        report.assert_clean();
    }
    for outcome in outcomes {
        assert!(all.iter().any(|r| r.outcomes().contains_key(*outcome)), "{name} never came to `{outcome}`");
    }
}

#[test]
fn what_is_sent_is_received_once_and_in_order() {
    explored("ring_one", |world| few(world, 1), &["full", "empty", "past a stopped one"]);
    explored("ring_two", |world| few(world, 2), &["full", "empty", "past a stopped one"]);
    explored("ring_three", |world| few(world, 3), &["empty", "past a stopped one"]);
}

#[test]
fn two_receivers_get_no_message_twice() {
    explored("ring_out", fan_out, &[]);
}
