//! Tubes of threads, explored: waiters at an end are told. What must hold: no thread sleeps while there is something for it, each message is received
//! once, in its sender's order, a choice does one thing, and a thread that stops in the middle delays no thread that need not wait for just this.

use crate::crash::Stage;
use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_plat::clock;
use chappe_sync::model::{Actor, Arms, Dropped, End, Got, SemaphoreAt, TubeAt};
use std::cell::{Cell, RefCell};

/// How many tubes a world has.
const SLOTS: usize = 2;

#[derive(Clone, Copy)]
pub struct Scene {
    stage: Stage,
    tubes: [Shared<TubeAt>; 2],
    /// What was sent for sure, and which thread received what.
    sent: Shared<RefCell<Vec<u64>>>,
    received: Shared<RefCell<Vec<(u32, u64)>>>,
}

/// What a thread does.
#[derive(Clone, Copy)]
pub enum Act {
    /// Sends this, however long it takes. To the first tube, or the second.
    Send(usize, u64),
    /// Receives, however long it takes.
    Recv(usize),
    /// Sends, or gives up soon.
    Hasty(usize, u64),
    /// Receives, or gives up soon.
    HastyRecv(usize),
    /// Receives from either.
    Either,
    /// Sends this to the first, or receives from the second.
    Both(u64),
    /// Sends this to the second, or receives from the first.
    Cross(u64),
    /// Sends this to the first, or receives from it.
    Turn(u64),
    /// Waits until the first has something, and does not take it.
    Look(usize),
    /// Sends this, and waits by the descriptor.
    PollSend(usize, u64),
    /// Receives, and waits by the descriptor.
    PollRecv(usize),
    /// Arms the receivers' descriptor, and does not come again.
    Arm(usize),
    /// Sends this as a task, or receives as one.
    TaskSend(usize, u64),
    TaskRecv(usize),
    /// The same by a task that is dropped after its first poll. If it was served by then, another undoes that, for the others' sake.
    DroppedSend(usize, u64),
    DroppedRecv(usize),
    /// The last one to send has gone.
    NoSender(usize),
    /// The last one to receive has gone.
    NoReceiver(usize),
}

use Act::*;

impl Act {
    fn is_of_task(&self) -> bool {
        matches!(self, TaskSend(..) | TaskRecv(_) | DroppedSend(..) | DroppedRecv(_))
    }
}

impl Scene {
    pub fn new(world: &World, members: u32, make: [&dyn Fn(&Stage) -> TubeAt; 2]) -> Scene {
        let (stage, _) = Stage::new(world, members, &[], 6);
        let tubes = make.map(|make| world.share(make(&stage)));
        for (tube, name) in tubes.iter().zip(["one", "two"]) {
            for (object, end) in tube.objects().into_iter().zip(["senders", "receivers"]) {
                world.name(&stage.map.object(object).waiting[0], format!("{end} waiting at {name}"));
            }
        }
        Scene { stage, tubes, sent: world.share(RefCell::default()), received: world.share(RefCell::default()) }
    }

    fn sent(&self, message: u64, how: Got) {
        match how {
            Got::Sent => self.sent.borrow_mut().push(message),
            Got::Nothing => reached("gave up"),
            Got::Gone => reached("nobody receives"),
            other => panic!("{other:?}"),
        }
    }

    fn received(&self, tube: &TubeAt, how: Got) {
        match how {
            Got::Message(message) => self.received.borrow_mut().push((chappe_plat::process::pid(), message)),
            Got::Nothing => reached("gave up"),
            Got::Gone => {
                reached("nobody sends");
                assert_eq!(tube.try_recv(), Got::Gone, "there was a message");
            }
            other => panic!("{other:?}"),
        }
    }

    fn act(&self, me: &Actor, act: Act) {
        let [one, two] = &self.tubes;
        let soon = || Some(clock::now() + 1000);
        let choose = |arms: Vec<End<'_>>, message: u64| {
            let which = arms.clone();
            let (at, how) = me.talt(&Arms(arms), None);
            match which[at] {
                End::Recv(tube) => self.received(tube, how),
                _ => self.sent(message, how),
            }
        };
        match act {
            Send(tube, message) => self.sent(message, me.send(&self.tubes[tube], message, None)),
            Recv(tube) => self.received(&self.tubes[tube], me.recv(&self.tubes[tube], None)),
            Hasty(tube, message) => self.sent(message, me.send(&self.tubes[tube], message, soon())),
            HastyRecv(tube) => self.received(&self.tubes[tube], me.recv(&self.tubes[tube], soon())),
            Either => choose(vec![End::Recv(one), End::Recv(two)], 0),
            Both(message) => choose(vec![End::Send(one, message), End::Recv(two)], message),
            Cross(message) => choose(vec![End::Recv(one), End::Send(two, message)], message),
            Turn(message) => choose(vec![End::Send(one, message), End::Recv(one)], message),
            Look(tube) => assert_eq!(me.ready(&Arms(vec![End::Recv(&self.tubes[tube])]), None), Got::Ready(0)),
            PollSend(tube, message) => loop {
                match self.tubes[tube].try_send_or_leave(message) {
                    Got::Nothing if self.tubes[tube].rearm(true) => self.tubes[tube].poll(true),
                    Got::Nothing => {}
                    how => break self.sent(message, how),
                }
            },
            PollRecv(tube) => loop {
                match self.tubes[tube].try_recv() {
                    Got::Nothing if self.tubes[tube].rearm(false) => self.tubes[tube].poll(false),
                    Got::Nothing => {}
                    how => break self.received(&self.tubes[tube], how),
                }
            },
            TaskSend(tube, message) => {
                self.sent(message, me.send_as_task(&self.tubes[tube], message, Dropped::Never));
            }
            TaskRecv(tube) => self.received(&self.tubes[tube], me.recv_as_task(&self.tubes[tube], Dropped::Never)),
            DroppedSend(tube, message) => {
                let how = me.send_as_task(&self.tubes[tube], message, Dropped::AfterPoll);
                self.sent(message, how);
                if how == Got::Sent {
                    self.received(&self.tubes[tube], me.recv_as_task(&self.tubes[tube], Dropped::Never));
                }
            }
            DroppedRecv(tube) => match me.recv_as_task(&self.tubes[tube], Dropped::AfterPoll) {
                Got::Message(message) => {
                    assert_eq!(me.send_as_task(&self.tubes[tube], message, Dropped::Never), Got::Sent);
                }
                how => self.received(&self.tubes[tube], how),
            },
            Arm(tube) => _ = self.tubes[tube].rearm(false),
            NoSender(tube) => self.tubes[tube].no_sender(),
            NoReceiver(tube) => self.tubes[tube].no_receiver(),
        }
    }

    /// A thread that does these things.
    pub fn thread(&self, world: &World, name: &'static str, acts: &[Act]) -> Process {
        let p = world.prepare(name);
        let me = self.stage.member(p, name);
        let me = if acts.iter().any(Act::is_of_task) { me.at_bell_of(&self.stage.member(p, "bell")) } else { me };
        let (scene, acts) = (*self, acts.to_vec());
        self.stage.lasting(p, move || {
            acts.iter().for_each(|act| scene.act(&me, *act));
            reached(name);
        })
    }

    /// What a thread alone can see of F1.
    pub fn leaves_one_for_each_arming(&self) {
        let tube = &self.tubes[0];
        assert_eq!(tube.try_send_or_leave(10), Got::Nothing, "nobody has armed anything");
        for message in [10, 11] {
            assert!(tube.rearm(false), "there is nothing");
            assert_eq!(tube.try_send_or_leave(message), Got::Sent);
            assert_eq!(tube.try_send_or_leave(12), Got::Nothing, "one was left already");
            assert_eq!(tube.try_recv(), Got::Message(message));
            assert_eq!(tube.try_send_or_leave(12), Got::Nothing, "nobody has armed it again");
        }
    }

    /// At the end: no message lies in the tube.
    pub fn holds_nothing(&self, tube: usize) {
        assert_eq!(self.tubes[tube].count(), 0);
    }

    /// At the end: everything that was sent has come, once, in order; and nobody's bit stands.
    fn settled(&self) {
        for tube in &self.tubes {
            while let got @ Got::Message(_) = tube.try_recv() {
                self.received(tube, got);
            }
            for object in tube.objects() {
                assert!(!self.stage.map.anybody_waits(object), "somebody's wait bit still stands");
            }
        }
        let (sent, received) = (self.sent.borrow(), self.received.borrow());
        let mut all: Vec<u64> = received.iter().map(|(_, message)| *message).collect();
        for (i, (who, message)) in received.iter().enumerate() {
            let overtaken = |(by, other): &(u32, u64)| by == who && other / 10 == message / 10 && other > message;
            assert!(!received[..i].iter().any(overtaken), "{message} came too late: {received:?}");
        }
        let mut sent = sent.clone();
        all.sort_unstable();
        sent.sort_unstable();
        assert_eq!(all, sent, "received, and sent");
    }
}

pub type Threads<'a> = &'a [(&'static str, &'a [Act])];

/// A world of such tubes and threads, all of which come to their end.
pub fn explored_as(name: &str, make: [&(dyn Fn(&Stage) -> TubeAt + Sync); 2], threads: Threads<'_>, also: &[&str]) {
    let world = |world: &World| {
        let bells = threads.iter().filter(|(_, acts)| acts.iter().any(Act::is_of_task)).count();
        let scene = Scene::new(world, (threads.len() + bells) as u32 + 1, make.map(|m| m as &dyn Fn(&Stage) -> TubeAt));
        for (name, acts) in threads {
            scene.thread(world, name, acts);
        }
        world.prepare("last").last().run(move || scene.settled());
    };
    let all = [
        Search::depth(&format!("{name}_depth"), 3).schedules(15_000),
        Search::sweep(&format!("{name}_stop")).stops(1).resume(),
        Search::depth(&format!("{name}_stop_depth"), 2).stops(1).resume().schedules(10_000),
        Search::priorities(&format!("{name}_pct"), 4).stops(1).resume().schedules(10_000),
        Search::uniform(&format!("{name}_buffers")).store_buffers(4).spurious(1).schedules(4_000),
    ]
    .map(|search| search.run(world));
    for report in &all {
        report.assert_clean();
    }
    let outcomes = threads.iter().map(|(name, _)| *name).chain(also.iter().copied());
    let missed: Vec<_> = outcomes.filter(|o| !all.iter().any(|r| r.outcomes().contains_key(*o))).collect();
    assert!(missed.is_empty() || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to {missed:?}");
}

pub fn one(stage: &Stage) -> TubeAt {
    TubeAt::bounded(stage.map, 1)
}

fn few(stage: &Stage) -> TubeAt {
    TubeAt::bounded(stage.map, SLOTS)
}

fn many(stage: &Stage) -> TubeAt {
    TubeAt::unbounded(stage.map)
}

fn line(stage: &Stage) -> TubeAt {
    TubeAt::line(stage.map, 1)
}

pub fn none(stage: &Stage) -> TubeAt {
    TubeAt::bounded(stage.map, 0)
}

#[test]
fn a_single_message_wakes_who_waits() {
    let threads: Threads<'_> = &[("sender", &[Send(0, 10)]), ("receiver", &[Recv(0)])];
    explored_as("single_one", [&one, &one], threads, &[]);
    explored_as("single_many", [&many, &many], threads, &[]);
    explored_as("single_line", [&line, &line], threads, &[]);
    explored_as("single_none", [&none, &none], threads, &[]);
}

#[test]
fn a_hole_wakes_who_waits_and_each_message_one() {
    let more: Threads<'_> = &[("sender", &[Send(0, 10), Send(0, 11), Send(0, 12)]), ("receiver", &[Recv(0); 3])];
    explored_as("holes_one", [&one, &one], more, &[]);
    explored_as("holes_few", [&few, &few], more, &[]);
    explored_as("holes_line", [&line, &line], more, &[]);
    explored_as("holes_none", [&none, &none], more, &[]);
    let crowd: Threads<'_> = &[
        ("sender", &[Send(0, 10), Send(0, 11)]),
        ("another", &[Send(0, 20)]),
        ("receiver", &[Recv(0), Recv(0)]),
        ("one more", &[Recv(0)]),
    ];
    explored_as("crowd_one", [&one, &one], crowd, &[]);
    explored_as("crowd_few", [&few, &few], crowd, &[]);
    explored_as("crowd_many", [&many, &many], crowd, &[]);
    explored_as("crowd_none", [&none, &none], crowd, &[]);
}

/// Two wait to receive, and two come to send: the later sender tells one of the receivers, which meets the other
/// sender, which was about to look itself.
#[test]
fn a_waiter_woken_in_vain_wakes_the_next() {
    let world = |world: &World| {
        let scene = Scene::new(world, 5, [&none, &none]);
        for (name, act) in [("one", Recv(0)), ("other", Recv(0)), ("early", Send(0, 10)), ("late", Send(0, 20))] {
            scene.thread(world, name, &[act]);
        }
        world.prepare("last").last().run(move || scene.settled());
    };
    for changes in [5, 6, 7] {
        Search::priorities(&format!("rematch_{changes}"), changes).schedules(40_000).run(world).assert_clean();
    }
}

#[test]
fn a_timed_out_send_or_receive_loses_no_message() {
    let threads: Threads<'_> =
        &[("sender", &[Send(0, 10), Hasty(0, 11)]), ("hasty", &[HastyRecv(0)]), ("receiver", &[HastyRecv(0)])];
    let threads_one: Threads<'_> =
        &[("sender", &[Hasty(0, 10), Hasty(0, 11)]), ("hasty", &[HastyRecv(0)]), ("receiver", &[HastyRecv(0)])];
    explored_as("hasty_few", [&few, &few], threads, &["gave up"]);
    explored_as("hasty_none", [&none, &none], threads_one, &["gave up"]);
}

#[test]
fn a_choice_does_one_thing() {
    let either: Threads<'_> =
        &[("sender", &[Send(0, 10)]), ("another", &[Send(1, 20)]), ("chooser", &[Either]), ("one more", &[Either])];
    explored_as("either_one", [&one, &one], either, &[]);
    explored_as("either_mixed", [&none, &one], either, &[]);
    explored_as("either_none", [&none, &none], either, &[]);
}

#[test]
fn choices_meet_choices_in_both_directions() {
    let cross: Threads<'_> = &[("one", &[Both(10)]), ("other", &[Cross(20)])];
    explored_as("cross_none", [&none, &none], cross, &[]);
    explored_as("cross_mixed", [&none, &one], cross, &[]);
    explored_as("cross_one", [&one, &one], cross, &[]);
    let three: Threads<'_> = &[("one", &[Both(10), Cross(11)]), ("other", &[Cross(20), Both(21)])];
    explored_as("cross_twice", [&none, &none], three, &[]);
    // Both ends of one tube: no thread meets itself.
    let turn: Threads<'_> = &[("one", &[Turn(10)]), ("other", &[Turn(20)])];
    explored_as("turn_none", [&none, &none], turn, &[]);
    let turns: Threads<'_> =
        &[("one", &[Turn(10)]), ("other", &[Turn(20)]), ("third", &[Turn(30)]), ("fourth", &[Turn(40)])];
    explored_as("turns_none", [&none, &none], turns, &[]);
}

#[test]
fn a_look_consumes_no_message_and_holds_none_back() {
    let threads: Threads<'_> = &[
        ("sender", &[Send(0, 10)]),
        ("looker", &[Look(0), Recv(0)]),
        ("receiver", &[HastyRecv(0)]),
        ("late", &[Send(0, 20)]),
    ];
    explored_as("look_few", [&few, &few], threads, &[]);
    let threads: Threads<'_> = &[("sender", &[Send(0, 10)]), ("looker", &[Look(0), Recv(0)])];
    explored_as("look_none", [&none, &none], threads, &[]);
    // The message may have gone before it was seen; then another is.
    let again: Threads<'_> =
        &[("sender", &[Send(0, 10), Send(0, 11)]), ("looker", &[Look(0), Recv(0)]), ("receiver", &[Recv(0)])];
    explored_as("look_on", [&one, &one], again, &[]);
}

#[test]
fn an_end_that_goes_is_told_to_all_who_wait() {
    let closing: Threads<'_> =
        &[("sender", &[Send(0, 10), NoSender(0)]), ("receiver", &[Recv(0), Recv(0)]), ("one more", &[Recv(0)])];
    explored_as("gone_few", [&few, &few], closing, &["nobody sends"]);
    explored_as("gone_none", [&none, &none], closing, &["nobody sends"]);
    explored_as("gone_many", [&many, &many], closing, &["nobody sends"]);
    let chosen: Threads<'_> =
        &[("sender", &[Send(0, 10), NoSender(0)]), ("chooser", &[Either]), ("one more", &[Either])];
    explored_as("gone_chosen", [&few, &few], chosen, &["nobody sends"]);
    let left: Threads<'_> = &[("receiver", &[Recv(0), NoReceiver(0)]), ("sender", &[Send(0, 10), Send(0, 11)])];
    explored_as("left_none", [&none, &none], left, &["nobody receives"]);
}

/// A unit of a semaphore, or a message: both come, and each wakes one.
fn unit_or_message(world: &World) {
    let scene = Scene::new(world, 6, [&one, &one]);
    let semaphore = SemaphoreAt::make(scene.stage.map, "s", 0, false).expect("a semaphore");
    for name in ["one", "other"] {
        let p = world.prepare(name);
        let me = scene.stage.member(p, name);
        scene.stage.lasting(p, move || {
            let (_, how) = me.talt(&Arms(vec![End::Down(&semaphore), End::Recv(&scene.tubes[0])]), None);
            match how {
                Got::Down => reached("a unit"),
                how => scene.received(&scene.tubes[0], how),
            }
        });
    }
    scene.thread(world, "sender", &[Send(0, 10)]);
    let p = world.prepare("upper");
    scene.stage.member(p, "upper");
    scene.stage.lasting(p, move || assert!(semaphore.up(1)));
    world.prepare("last").last().run(move || {
        scene.settled();
        assert_eq!((semaphore.units(), scene.received.borrow().len()), (0, 1), "a unit and a message for two");
    });
}

#[test]
fn units_and_messages_wake_one_each() {
    for search in [
        Search::depth("unit_depth", 3).schedules(30_000),
        Search::sweep("unit_stop").stops(1).resume(),
        Search::priorities("unit_pct", 4).stops(1).resume().schedules(20_000),
    ] {
        search.run(unit_or_message).assert_clean();
    }
}

/// One of two senders is stopped for good, anywhere: the other one's message comes all the same.
fn past_a_stopped_teller(world: &World) {
    let scene = Scene::new(world, 4, [&few, &few]);
    scene.thread(world, "sender", &[Send(0, 10)]);
    for (name, act) in [("another", Send(0, 20)), ("receiver", Recv(0))] {
        scene.thread(world, name, &[act]).immortal();
    }
}

#[test]
fn a_stopped_waker_holds_up_no_waiter_that_another_would_wake() {
    for search in [
        Search::sweep("teller_stop").stops(1),
        Search::depth("teller_depth", 2).stops(1).schedules(30_000),
        Search::priorities("teller_pct", 4).stops(1).schedules(20_000),
    ] {
        let report = search.run(past_a_stopped_teller);
        report.assert_clean();
        assert!(report.outcomes().contains_key("receiver"));
    }
}

/// A chooser waits for either of two messages, or for a message or a unit; the giver of the other thing is stopped for
/// good, anywhere.
fn chosen_past_a_stopped_teller(world: &World, unit: bool) {
    let scene = Scene::new(world, 5, [&few, &few]);
    let semaphore = SemaphoreAt::make(scene.stage.map, "s", 0, false).expect("a semaphore");
    let p = world.prepare("chooser").immortal();
    let me = scene.stage.member(p, "chooser");
    scene.stage.lasting(p, move || {
        let other = if unit { End::Down(&semaphore) } else { End::Recv(&scene.tubes[1]) };
        assert_ne!(me.talt(&Arms(vec![End::Recv(&scene.tubes[0]), other]), None).1, Got::Nothing);
        reached("chose");
    });
    scene.thread(world, "sender", &[Send(0, 10)]).immortal();
    if unit {
        let p = world.prepare("upper");
        scene.stage.member(p, "upper");
        scene.stage.lasting(p, move || assert!(semaphore.up(1)));
    } else {
        scene.thread(world, "other", &[Send(1, 20)]);
    }
}

#[test]
fn a_stopped_waker_keeps_no_chooser_from_a_message() {
    for (name, unit) in [("chosen_tube", false), ("chosen_unit", true)] {
        for search in [
            Search::sweep(&format!("{name}_stop")).stops(1),
            Search::depth(&format!("{name}_depth"), 2).stops(1).schedules(20_000),
            Search::priorities(&format!("{name}_pct"), 4).stops(1).schedules(5_000),
        ] {
            let report = search.run(|world: &World| chosen_past_a_stopped_teller(world, unit));
            report.assert_clean();
            assert!(report.outcomes().contains_key("chose"));
        }
    }
}

/// A chooser waits for one end of a tube, or for a unit; the giver of the unit is stopped, and another thread does this
/// at the other end.
fn chosen_past_a_stopped_upper(world: &World, make: fn(&Stage) -> TubeAt, looks: bool, sends: bool, act: Act) {
    let scene = Scene::new(world, 6, [&make, &make]);
    let semaphore = SemaphoreAt::make(scene.stage.map, "s", 0, false).expect("a semaphore");
    let over = world.share(Cell::new(false));
    let p = world.prepare("chooser").immortal();
    let me = scene.stage.member(p, "chooser");
    scene.stage.lasting(p, move || {
        let end = if sends { End::Send(&scene.tubes[0], 77) } else { End::Recv(&scene.tubes[0]) };
        let arms = Arms(vec![end, End::Down(&semaphore)]);
        if looks {
            me.ready(&arms, None);
        } else {
            me.talt(&arms, None);
        }
        over.set(true);
        reached("chose");
    });
    scene.thread(world, "other", &[act]).immortal();
    let p = world.prepare("upper");
    scene.stage.member(p, "upper");
    scene.stage.lasting(p, move || assert!(semaphore.up(1)));
    // The other one may have nobody to meet.
    world.may_wait(move || over.get());
}

#[test]
fn a_stopped_waker_keeps_no_chooser_from_an_end_that_comes_or_goes() {
    for (name, make, looks, sends, act) in [
        ("past_gone", few as fn(&Stage) -> TubeAt, false, false, NoSender(0)),
        ("past_gone_line", line, false, false, NoSender(0)),
        ("past_met", none, false, false, Send(0, 10)),
        ("past_met_by_a_receiver", none, false, true, Recv(0)),
        ("past_gone_unmet", none, false, false, NoSender(0)),
        ("past_seen", few, true, false, Send(0, 10)),
        ("past_seen_unmet", none, true, false, Send(0, 10)),
    ] {
        for search in [
            Search::sweep(&format!("{name}_stop")).stops(1),
            Search::depth(&format!("{name}_depth"), 2).stops(1).schedules(20_000),
            Search::priorities(&format!("{name}_pct"), 5).stops(1).schedules(5_000),
        ] {
            let report = search.run(|world: &World| chosen_past_a_stopped_upper(world, make, looks, sends, act));
            report.assert_clean();
            assert!(report.outcomes().contains_key("chose"));
        }
    }
}

/// One thread looks whether it could have a unit of a semaphore whose waiters may be overtaken, and takes none; another
/// waits behind it.
fn looked_at_and_wanted(world: &World) {
    let scene = Scene::new(world, 6, [&few, &few]);
    let s = SemaphoreAt::make(scene.stage.map, "s", 0, true).expect("a semaphore");
    let p = world.prepare("looker");
    let me = scene.stage.member(p, "looker");
    scene.stage.lasting(p, move || _ = me.ready(&Arms(vec![End::Down(&s)]), None));
    let p = world.prepare("taker");
    let me = scene.stage.member(p, "taker");
    let over = world.share(Cell::new(false));
    scene.stage.lasting(p, move || {
        me.down(s, None).expect("a unit");
        over.set(true);
        reached("taken");
    });
    let p = world.prepare("upper");
    scene.stage.member(p, "upper");
    scene.stage.lasting(p, move || assert!(s.up(1)));
    // If the taker was first, the looker waits on.
    world.may_wait(move || over.get());
}

#[test]
fn a_looker_passes_its_wake_up_on() {
    for search in
        [Search::depth("looked_depth", 3).schedules(20_000), Search::priorities("looked_pct", 4).schedules(10_000)]
    {
        let report = search.run(looked_at_and_wanted);
        report.assert_clean();
        assert!(report.outcomes().contains_key("taken"));
    }
}

/// A thread ends without unwinding anywhere in a send; the waiter is woken if the message is there.
fn ends_in_the_middle(world: &World) {
    let scene = Scene::new(world, 8, [&few, &few]);
    let p = world.prepare("sender");
    let me = scene.stage.member(p, "sender");
    let sender = p.run(move || _ = me.send(&scene.tubes[0], 10, None));
    let receiver = world.prepare("receiver");
    let me = scene.stage.member(receiver, "receiver");
    scene.stage.reaper(receiver.run(move || {
        assert_eq!(me.recv(&scene.tubes[0], None), Got::Message(10));
        reached("received");
    }));
    world.may_wait(move || sender.fate() == Fate::Killed && scene.tubes[0].try_recv() == Got::Nothing);
}

#[test]
fn a_receiver_is_woken_though_the_sender_died_before_waking_it() {
    let all = [
        Search::sweep("ends_sweep").kills(1).run(ends_in_the_middle),
        Search::depth("ends_depth", 2).kills(1).schedules(20_000).run(ends_in_the_middle),
    ];
    for report in &all {
        report.assert_clean();
        assert!(report.outcomes().contains_key("received"));
    }
}
