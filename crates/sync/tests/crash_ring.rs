//! The ring, explored: every order of a few sends and receives, and every thread stopped at every step. What must hold: what was sent is received
//! once, in its sender's order; a stopped thread delays no other and keeps one slot at most.

use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_structures::ring::{Claim, Fixed, Ring, Segmented, Slots};
use std::cell::RefCell;

/// What has been sent and received: tens are the sender's, ones the message's number.
#[derive(Default)]
struct Books {
    /// What was sent for sure.
    sent: RefCell<Vec<u64>>,
    /// What may be under way.
    begun: RefCell<Vec<u64>>,
    /// The receiver, and the message. What two receive at once may be noted in either order.
    received: RefCell<Vec<(&'static str, u64)>>,
}

/// How a process sends, and how it receives.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// By the operations for many.
    Any,
    /// By the operations for a single sender or receiver.
    Alone,
    /// A message is claimed first.
    Later,
    /// A place is claimed first, and given up.
    GivesUp,
}

struct Scene<K: Slots<u64> + 'static> {
    ring: Shared<Ring<u64, K>>,
    books: Shared<Books>,
    capacity: usize,
    send: How,
    receive: How,
}

impl<K: Slots<u64>> Clone for Scene<K> {
    fn clone(&self) -> Scene<K> {
        *self
    }
}

impl<K: Slots<u64>> Copy for Scene<K> {}

impl<K: Slots<u64>> Scene<K> {
    fn new(world: &World, ring: Ring<u64, K>, capacity: usize) -> Scene<K> {
        let (ring, books) = (world.share(ring), world.share(Books::default()));
        Scene { ring, books, capacity, send: How::Any, receive: How::Any }
    }

    fn send(&self, message: u64) -> bool {
        if self.send == How::GivesUp
            && let Some(claim) = self.ring.claim()
        {
            self.ring.give_up(claim);
        }
        self.books.begun.borrow_mut().push(message);
        let sent = match self.send {
            How::Alone => self.ring.push_alone(message),
            _ => self.ring.push(message),
        };
        let sent = sent.is_ok();
        self.books.begun.borrow_mut().retain(|m| *m != message);
        if sent {
            self.books.sent.borrow_mut().push(message);
        } else {
            reached("full");
        }
        sent
    }

    fn receive(&self, who: &'static str) -> Option<u64> {
        let got = match self.receive {
            How::Any | How::Alone | How::GivesUp => self.ring.take(),
            How::Later => self.ring.claim_message().map(Claim::read),
        };
        match got {
            Some(message) => self.books.received.borrow_mut().push((who, message)),
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
        world.process(name, move || (0..times).for_each(|_| _ = scene.receive(name)))
    }

    /// At the end: what is there comes, except for one message in the hands of each stopped receiver; and the ring is
    /// as it was, except for a slot of each stopped sender, and of each stopped receiver that had claimed a message.
    fn settled(&self, senders: usize, receivers: usize) {
        while self.receive("last").is_some() {}
        let Books { sent, begun, received } = &*self.books;
        let (sent, received) = (sent.borrow(), received.borrow());
        let missing = sent.iter().filter(|sent| received.iter().all(|(_, got)| got != *sent)).count();
        assert!(missing <= receivers, "{missing} of {sent:?} are lost: {received:?}");
        for (i, (who, message)) in received.iter().enumerate() {
            assert!(sent.contains(message) || begun.borrow().contains(message), "{message} was never sent");
            let before = |by: &str| *who == "last" || by == *who;
            let overtaken = |by: &str, other: u64| other / 10 == message / 10 && other > *message && before(by);
            let wrong = received[..i].iter().any(|(by, other)| other == message || overtaken(by, *other));
            assert!(!wrong, "message {message} came too late, or twice: {received:?}");
        }
        let kept = senders + if self.receive == How::Later { receivers } else { 0 };
        let room = self.capacity.saturating_sub(kept) as u64;
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

fn last<K: Slots<u64>>(world: &World, scene: Scene<K>, senders: &[Process], receivers: &[Process]) {
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
fn few<K: Slots<u64>>(world: &World, scene: Scene<K>) {
    let senders = [scene.sender(world, "one", 1, 2), scene.sender(world, "other", 2, 2)];
    let receiver = scene.receiver(world, "receiver", 2);
    last(world, scene, &senders, &[receiver]);
}

/// One sender and one receiver.
fn two<K: Slots<u64>>(world: &World, scene: Scene<K>) {
    let sender = scene.sender(world, "sender", 1, 4);
    let receiver = scene.receiver(world, "receiver", 4);
    last(world, scene, &[sender], &[receiver]);
}

/// A sender and two receivers, as many as there are slots and one more.
fn some<K: Slots<u64>>(world: &World, scene: Scene<K>) {
    let sender = scene.sender(world, "sender", 1, 4);
    let receivers = [scene.receiver(world, "one", 2), scene.receiver(world, "other", 2)];
    last(world, scene, &[sender], &receivers);
}

/// Two threads send and receive in turn: a run is used again while one is in the middle of something in it.
fn turns<K: Slots<u64>>(world: &World, scene: Scene<K>) {
    let turn = |name: &'static str, number: u64, times: u64| {
        world.process(name, move || {
            for i in 0..times {
                scene.send(number * 10 + i);
                _ = scene.receive(name);
            }
        })
    };
    let all = [turn("one", 1, 2), turn("other", 2, 9)];
    last(world, scene, &all, &all);
}

fn bounded(world: &World, capacity: usize) -> Scene<Fixed<u64>> {
    Scene::new(world, Ring::new(capacity), capacity)
}

/// Runs of two slots: at the end there are five messages in it.
fn unbounded(world: &World) -> Scene<Segmented<u64>> {
    Scene::new(world, Ring::unbounded(), 5)
}

fn explored(name: &str, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let all = [
        Search::depth(&format!("{name}_depth"), 3).schedules(60_000),
        Search::sweep(&format!("{name}_stop")).stops(1),
        Search::depth(&format!("{name}_stop_depth"), 2).stops(1).schedules(60_000),
        Search::priorities(&format!("{name}_stop_pct"), 4).stops(2).schedules(30_000),
        Search::uniform(&format!("{name}_buffers")).store_buffers(4).schedules(10_000),
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
fn each_message_is_received_once_and_in_order() {
    explored("ring_one", |world| few(world, bounded(world, 1)), &["full", "empty", "past a stopped one"]);
    explored("ring_two", |world| few(world, bounded(world, 2)), &["full", "empty", "past a stopped one"]);
    explored("ring_three", |world| few(world, bounded(world, 3)), &["empty", "past a stopped one"]);
}

#[test]
fn two_receivers_get_no_message_twice() {
    explored("ring_out", |world| some(world, bounded(world, 2)), &["full", "empty", "past a stopped one"]);
}

#[test]
fn an_only_sender_needs_no_claim() {
    let alone = |world: &World, capacity| Scene { send: How::Alone, ..bounded(world, capacity) };
    explored("ring_alone_one", |world| two(world, alone(world, 1)), &["full", "empty", "past a stopped one"]);
    explored("ring_alone_two", |world| some(world, alone(world, 2)), &["full", "empty", "past a stopped one"]);
}

#[test]
fn a_message_that_is_read_later_holds_up_nobody() {
    let later = |world: &World, capacity| Scene { receive: How::Later, ..bounded(world, capacity) };
    explored("ring_later_two", |world| some(world, later(world, 2)), &["full", "empty", "past a stopped one"]);
    explored("ring_later_many", |world| few(world, later(world, 2)), &["full", "empty", "past a stopped one"]);
    let alone = |world: &World| some(world, Scene { send: How::Alone, ..later(world, 2) });
    explored("ring_later_alone", alone, &["full", "empty", "past a stopped one"]);
}

#[test]
fn a_claim_that_is_given_up_leaves_its_slot() {
    let gives_up = |scene: Scene<Fixed<u64>>| Scene { send: How::GivesUp, ..scene };
    explored("ring_up_one", |world| few(world, gives_up(bounded(world, 1))), &["full", "past a stopped one"]);
    explored("ring_up_two", |world| few(world, gives_up(bounded(world, 2))), &["full", "past a stopped one"]);
    let chain = |world: &World| few(world, Scene { send: How::GivesUp, ..unbounded(world) });
    explored("chain_up", chain, &["empty", "past a stopped one"]);
}

#[test]
fn a_ring_without_a_bound_grows_and_its_runs_come_back() {
    explored("chain_few", |world| few(world, unbounded(world)), &["empty", "past a stopped one"]);
    explored("chain_some", |world| some(world, unbounded(world)), &["empty", "past a stopped one"]);
    explored("chain_turns", |world| turns(world, unbounded(world)), &["past a stopped one"]);
    let later = |world: &World| some(world, Scene { receive: How::Later, ..unbounded(world) });
    explored("chain_later", later, &["empty", "past a stopped one"]);
}
