//! Tubes between processes, explored: kill and stop at every operation of sending, receiving, in place and not, waiting, coming and going. What
//! must hold: no thread sleeps while there is something for it or the other end has gone; what was sent for sure is received, once, or once more
//! and marked; what a dead or stopped process had delays no other.

use crate::crash::{Stage, stopped_in};
use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_plat::clock;
use chappe_structures::record::in_words;
use chappe_sync::model::{Actor, Came, Dropped, NamedAt, SemaphoreAt, Unattached};
use std::cell::RefCell;

/// What one process has done.
#[derive(Default)]
struct Journal {
    /// What may have been sent, and what was for sure.
    begun: Vec<u64>,
    sent: Vec<u64>,
    /// What came, and whether it was marked as delivered before.
    got: Vec<(u64, bool)>,
    /// What was received for sure.
    done: Vec<u64>,
    /// It is just receiving: a message may be gone with it.
    receiving: bool,
    /// It has begun to leave, and uses that end no more.
    leaving: bool,
}

/// The journal of a process.
type Kept = (Process, Shared<RefCell<Journal>>);

#[derive(Clone, Copy)]
struct Scene {
    stage: Stage,
    tube: NamedAt,
    journals: Shared<RefCell<Vec<Kept>>>,
}

#[derive(Clone, Copy)]
pub enum Act {
    /// Sends this, however long it takes.
    Put(u64),
    /// The same in place.
    Write(u64),
    /// Reserves a slot for this and gives it up.
    GiveUp(u64),
    /// Sends, or gives up soon.
    Hasty(u64),
    /// Receives, however long it takes.
    Get,
    /// The same in place.
    Borrow,
    /// Receives another one while it looks at one in place.
    Nested,
    /// Receives, or gives up soon.
    HastyGet,
    /// Receives until all senders have gone.
    All,
    /// The same in place.
    BorrowAll,
    /// Sends this as a task, or receives as one.
    TaskPut(u64),
    TaskGet,
    /// Receives as a task that is dropped after its first poll. What it has received by then it sends again, for the others' sake.
    DroppedGet,
    /// No sender comes any more.
    Seal,
    /// Leaves the senders' end, or the receivers'.
    Leave(bool),
}

use Act::*;

impl Act {
    fn is_of_task(&self) -> bool {
        matches!(self, TaskPut(_) | TaskGet | DroppedGet)
    }
}

/// What a world is made of.
#[derive(Clone, Copy)]
pub struct Shape {
    slots: u32,
    one: [bool; 2],
    drops: bool,
}

const FEW: Shape = Shape { slots: 2, one: [false, false], drops: false };
pub const ONE: Shape = Shape { slots: 1, ..FEW };

impl Scene {
    fn new(world: &World, members: u32, shape: Shape) -> Scene {
        let (stage, _) = Stage::with_blocks(world, members, &[], 6, 32);
        let tube = NamedAt::make(stage.map, "t", shape.slots, shape.one, shape.drops).expect("a tube");
        for slot in 0..shape.slots {
            world.name_with(tube.word(slot), format!("slot {slot}"), in_words);
        }
        for (object, end) in tube.objects().into_iter().zip(["senders", "receivers"]) {
            world.name(&stage.map.object(object).waiting[0], format!("{end} waiting"));
        }
        Scene { stage, tube, journals: world.share(RefCell::default()) }
    }

    fn act(&self, me: &Actor, journal: &RefCell<Journal>, act: Act) {
        let (tube, soon) = (self.tube, || Some(clock::now() + 1000));
        match act {
            Put(message) => {
                journal.borrow_mut().begun.push(message);
                sent(journal, message, me.put(tube, message, None));
            }
            Hasty(message) => {
                journal.borrow_mut().begun.push(message);
                sent(journal, message, me.put(tube, message, soon()));
            }
            Write(message) => {
                journal.borrow_mut().begun.push(message);
                let how = match me.reserve(tube, message) {
                    Ok(slot) => me.commit(tube, slot),
                    Err(why) => why,
                };
                sent(journal, message, how);
            }
            GiveUp(message) => {
                if let Ok(slot) = me.reserve(tube, message) {
                    chappe_plat::step!("reserved");
                    me.give_up(tube, slot);
                }
            }
            Get => _ = self.get(me, journal, None),
            HastyGet => _ = self.get(me, journal, soon()),
            Borrow => _ = self.borrow(me, journal, false),
            Nested => _ = self.borrow(me, journal, true),
            All => while self.get(me, journal, None) {},
            BorrowAll => while self.borrow(me, journal, false) {},
            TaskPut(message) => {
                journal.borrow_mut().begun.push(message);
                sent(journal, message, me.put_as_task(tube, message, Dropped::Never));
            }
            TaskGet => {
                journal.borrow_mut().receiving = true;
                received(journal, me.get_as_task(tube, Dropped::Never));
            }
            DroppedGet => match me.get_as_task(tube, Dropped::AfterPoll) {
                Came::Message(message, _) => assert_eq!(me.put_as_task(tube, message, Dropped::Never), Came::Sent),
                how => _ = received(journal, how),
            },
            Seal => tube.seal(),
            Leave(senders) => {
                journal.borrow_mut().leaving = true;
                me.detach(tube, senders);
            }
        }
    }

    fn get(&self, me: &Actor, journal: &RefCell<Journal>, deadline: Option<u64>) -> bool {
        journal.borrow_mut().receiving = true;
        let how = me.get(self.tube, deadline);
        received(journal, how)
    }

    fn borrow(&self, me: &Actor, journal: &RefCell<Journal>, nested: bool) -> bool {
        match me.borrow(self.tube) {
            Ok((lent, message, again)) => {
                journal.borrow_mut().got.push((message, again));
                chappe_plat::step!("looks at it");
                if nested {
                    self.get(me, journal, None);
                }
                journal.borrow_mut().receiving = true;
                assert!(me.give_back(self.tube, lent), "it was ours");
                let mut journal = journal.borrow_mut();
                journal.receiving = false;
                journal.done.push(message);
                note(again);
                true
            }
            Err(why) => received(journal, why),
        }
    }

    /// A process at these ends that does these things, with its reaper. It does not end with them.
    fn process(&self, world: &World, name: &'static str, ends: &[bool], acts: &[Act]) -> Process {
        let p = world.prepare(name);
        let me = self.stage.member(p, name);
        let me = if acts.iter().any(Act::is_of_task) { me.at_bell_of(&self.stage.member(p, "bell")) } else { me };
        for senders in ends {
            p.before(|| me.attach(self.tube, *senders).expect("nobody is there"));
        }
        let (scene, acts, journal) = (*self, acts.to_vec(), world.share(RefCell::default()));
        self.journals.borrow_mut().push((p, journal));
        self.stage.reaper(self.stage.lasting(p, move || {
            acts.iter().for_each(|act| scene.act(&me, &journal, *act));
            reached(name);
        }))
    }

    /// When all is over.
    fn settled(&self) {
        self.stage.map.recover_dead();
        let mut rest = Vec::new();
        while let Came::Message(message, again) = self.tube.drained() {
            rest.push((message, again));
        }
        for object in self.tube.objects() {
            assert!(!self.stage.map.anybody_waits(object), "somebody's wait bit still stands");
        }
        let journals = self.journals.borrow();
        let all: Vec<_> = journals.iter().map(|(p, journal)| (p.fate(), journal.borrow())).collect();
        let killed = all.iter().filter(|(fate, _)| *fate == Fate::Killed).count();
        let sent: Vec<u64> = all.iter().flat_map(|(_, j)| j.sent.iter().copied()).collect();
        let begun: Vec<u64> = all.iter().flat_map(|(_, j)| j.begun.iter().copied()).collect();
        let got: Vec<(u64, bool)> = all.iter().flat_map(|(_, j)| j.got.iter().copied()).chain(rest.clone()).collect();
        let times = |what: (u64, bool)| got.iter().filter(|g| **g == what).count();
        for (message, again) in &got {
            assert!(sent.contains(message) || begun.contains(message), "{message} was never sent");
            assert_eq!(times((*message, *again)), 1, "{message} came twice, unmarked: {got:?}");
            assert!(!again || killed > 0, "{message} came again, and nobody had died");
            if *again && let Some((fate, _)) = all.iter().find(|(_, j)| j.got.contains(&(*message, false))) {
                assert_eq!(*fate, Fate::Killed, "{message} came again, and its receiver lives");
            }
        }
        for (_, journal) in &all {
            for (i, (message, again)) in journal.got.iter().enumerate() {
                let late = |(other, _): &(u64, bool)| other / 10 == message / 10 && other > message;
                assert!(*again || !journal.got[..i].iter().any(late), "{message} came too late: {:?}", journal.got);
            }
        }
        let doubtful = all.iter().filter(|(fate, j)| *fate == Fate::Killed && j.receiving).count();
        let done = |m: &u64| rest.iter().any(|r| r.0 == *m) || all.iter().any(|(_, j)| j.done.contains(m));
        let missing: Vec<_> = sent.iter().filter(|m| !done(m)).collect();
        let dropped = self.tube.dropped() as usize;
        assert!(missing.len() <= doubtful + dropped, "{missing:?} are lost");
        assert!(dropped == 0 || killed > 0);
        // Every slot can be used.
        let last = Actor::join(self.stage.map, "last").expect("a slot");
        // Unless the only one was killed just now.
        if self.tube.attached(true) + self.tube.attached(false) == 0 && last.attach(self.tube, false).is_ok() {
            for i in 0..u64::from(self.tube.slots()) {
                assert_eq!(last.put(self.tube, 900 + i, Some(clock::now())), Came::Sent, "slot {i} is out of use");
            }
            for i in 0..u64::from(self.tube.slots()) {
                assert_eq!(self.tube.drained(), Came::Message(900 + i, false));
            }
        }
    }

    fn finally(self, world: &World) {
        world.prepare("last").last().run(move || self.settled());
    }
}

fn note(again: bool) {
    if again {
        reached("again");
    }
}

fn sent(journal: &RefCell<Journal>, message: u64, how: Came) {
    let mut journal = journal.borrow_mut();
    journal.begun.retain(|m| *m != message);
    match how {
        Came::Sent => journal.sent.push(message),
        Came::Nothing => reached("gave up"),
        Came::Gone => reached("nobody receives"),
        other => panic!("{other:?}"),
    }
}

fn received(journal: &RefCell<Journal>, how: Came) -> bool {
    let mut journal = journal.borrow_mut();
    journal.receiving = false;
    match how {
        Came::Message(message, again) => {
            note(again);
            journal.got.push((message, again));
            journal.done.push(message);
            return true;
        }
        Came::Nothing => reached("gave up"),
        Came::Gone => reached("nobody sends"),
        other => panic!("{other:?}"),
    }
    false
}

pub type Processes<'a> = &'a [(&'static str, &'a [bool], &'a [Act])];

pub const SENDS: &[bool] = &[true];
pub const RECEIVES: &[bool] = &[false];

pub fn world(shape: Shape, processes: Processes<'_>) -> impl Fn(&World) + Sync {
    move |world: &World| {
        let bells = processes.iter().filter(|(.., acts)| acts.iter().any(Act::is_of_task)).count() as u32;
        // One more for each reaper, and the last.
        let scene = Scene::new(world, 2 * processes.len() as u32 + bells + 2, shape);
        for (name, ends, acts) in processes {
            scene.process(world, name, ends, acts);
        }
        scene.finally(world);
    }
}

/// Kills and stops, and whatever schedule.
pub fn explored(name: &str, shape: Shape, processes: Processes<'_>, also: &[&str]) {
    let outcomes: Vec<&str> = processes.iter().map(|(name, ..)| *name).chain(also.iter().copied()).collect();
    let all = [
        Search::depth(&format!("{name}_schedules"), 2).schedules(1_000),
        Search::sweep(&format!("{name}_sweep")).kills(1),
        crate::crash::doubles(name, 1_000),
        crate::crash::buffers(name, 500),
        Search::depth(&format!("{name}_depth"), 2).kills(1).schedules(1_000),
        Search::priorities(&format!("{name}_pct"), 4).kills(1).schedules(1_000),
        Search::uniform(&format!("{name}_dice")).kills(2).schedules(1_000),
    ]
    .map(|search| search.run(world(shape, processes)));
    for report in &all {
        report.assert_clean();
    }
    let missed: Vec<_> = outcomes.iter().filter(|o| !all.iter().any(|r| r.outcomes().contains_key(**o))).collect();
    assert!(missed.is_empty() || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to {missed:?}");
    stopped_in(600, name, world(shape, processes));
}

#[test]
fn a_single_message_comes_or_its_senders_death_does() {
    let copied: Processes<'_> = &[("sender", SENDS, &[Put(10), Leave(true)]), ("receiver", RECEIVES, &[All])];
    explored("single", FEW, copied, &["nobody sends"]);
    explored("single_line", Shape { one: [true, true], ..FEW }, copied, &["nobody sends"]);
    let placed: Processes<'_> = &[("sender", SENDS, &[Write(10), Leave(true)]), ("receiver", RECEIVES, &[BorrowAll])];
    explored("single_placed", FEW, placed, &["nobody sends"]);
    explored("single_placed_line", Shape { one: [true, true], ..FEW }, placed, &["nobody sends"]);
}

#[test]
fn a_dead_receivers_message_comes_to_another_receiver() {
    let two: Processes<'_> = &[
        ("sender", SENDS, &[Put(10), Put(11), Leave(true)]),
        ("receiver", RECEIVES, &[BorrowAll, Leave(false)]),
        ("other", RECEIVES, &[BorrowAll, Leave(false)]),
    ];
    explored("again", FEW, two, &["again", "nobody sends"]);
    explored("again_one", ONE, two, &["again"]);
    explored("again_single_sender", Shape { one: [true, false], ..FEW }, two, &["again"]);
    explored("drops", Shape { drops: true, ..FEW }, two, &["nobody sends"]);
}

#[test]
fn a_hole_wakes_who_waits_or_the_receivers_death_does() {
    let more: Processes<'_> =
        &[("sender", SENDS, &[Put(10), Put(11), Put(12), Leave(true)]), ("receiver", RECEIVES, &[All, Leave(false)])];
    explored("holes", ONE, more, &["nobody receives", "nobody sends"]);
    explored("holes_line", Shape { one: [true, true], ..ONE }, more, &["nobody receives"]);
    explored("holes_one_receiver", Shape { one: [false, true], ..ONE }, more, &["nobody receives"]);
    let placed: Processes<'_> = &[
        ("sender", SENDS, &[Write(10), Write(11), Write(12), Leave(true)]),
        ("receiver", RECEIVES, &[BorrowAll, Leave(false)]),
    ];
    explored("holes_placed", ONE, placed, &["nobody receives"]);
    explored("holes_placed_few", FEW, placed, &[]);
}

#[test]
fn each_message_wakes_one_though_nobody_leaves() {
    // A leaver tells all, and would make up for what was missed.
    let lone: Processes<'_> = &[("sender", SENDS, &[Put(10)]), ("receiver", RECEIVES, &[Get])];
    explored("lone", ONE, lone, &[]);
    explored("lone_line", Shape { one: [true, true], ..ONE }, lone, &[]);
    let pairs: Processes<'_> = &[
        ("sender", SENDS, &[Put(10), Write(11)]),
        ("another", SENDS, &[Put(20)]),
        ("receiver", RECEIVES, &[Borrow, Get]),
        ("other", RECEIVES, &[Get]),
    ];
    for (name, shape) in [("pairs_one", ONE), ("pairs", FEW)] {
        // If one dies, another waits for what it would have sent or received: only stops, and whatever schedule.
        for search in [
            Search::depth(&format!("{name}_schedules"), 3).schedules(10_000),
            Search::sweep(&format!("{name}_stop")).stops(1).resume(),
            Search::priorities(&format!("{name}_pct"), 4).stops(1).resume().schedules(10_000),
        ] {
            search.run(world(shape, pairs)).assert_clean();
        }
    }
}

#[test]
fn a_loan_opens_the_holes_behind_it() {
    // The second slot is given up, and is a hole when the first is borrowed.
    let behind: Processes<'_> = &[
        ("sender", SENDS, &[Put(10), GiveUp(11), Leave(true)]),
        ("another", SENDS, &[Put(20), Leave(true)]),
        ("receiver", RECEIVES, &[Nested, All, Leave(false)]),
    ];
    explored("behind", FEW, behind, &[]);
}

#[test]
fn several_of_both_are_each_served() {
    let crowd: Processes<'_> = &[
        ("sender", SENDS, &[Put(10), Put(11), Leave(true)]),
        ("another", SENDS, &[Write(20), Leave(true)]),
        ("receiver", RECEIVES, &[All, Leave(false)]),
        ("one more", RECEIVES, &[Borrow, Get, Leave(false)]),
    ];
    explored("crowd_one", ONE, crowd, &[]);
    explored("crowd", FEW, crowd, &[]);
    explored("crowd_one_receiver_less", Shape { one: [true, false], ..ONE }, &[crowd[0], crowd[2], crowd[3]], &[]);
}

#[test]
fn a_timed_out_send_or_receive_loses_no_message() {
    let hasty: Processes<'_> = &[
        ("sender", SENDS, &[Hasty(10), GiveUp(11), Hasty(12), Leave(true)]),
        ("other", SENDS, &[Put(20), Leave(true)]),
        ("receiver", RECEIVES, &[HastyGet, All, Leave(false)]),
    ];
    explored("hasty", ONE, hasty, &["gave up"]);
    explored("hasty_few", FEW, hasty, &["gave up"]);
}

#[test]
fn a_sealed_tube_ends_for_who_waits() {
    let sealed: Processes<'_> =
        &[("sealer", &[], &[Seal]), ("receiver", RECEIVES, &[All]), ("other", RECEIVES, &[BorrowAll])];
    // If the sealer dies before it has sealed the tube, they wait for ever.
    let all = [
        Search::depth("sealed_schedules", 3).schedules(10_000).run(world(FEW, sealed)),
        Search::sweep("sealed_stop").stops(1).resume().run(world(FEW, sealed)),
    ];
    for report in &all {
        report.assert_clean();
        assert!(report.outcomes().contains_key("nobody sends"));
    }
    let also_sent: Processes<'_> =
        &[("sender", SENDS, &[Put(10), Seal, Put(11), Leave(true)]), ("receiver", RECEIVES, &[All])];
    explored("sealed", ONE, also_sent, &["nobody sends"]);
}

/// A unit of a semaphore, or a message: both come, and each wakes one.
fn unit_or_message(world: &World) {
    let scene = Scene::new(world, 8, ONE);
    let semaphore = SemaphoreAt::make(scene.stage.map, "s", 0, false).expect("a semaphore");
    for name in ["one", "other"] {
        let p = world.prepare(name);
        let me = scene.stage.member(p, name);
        let journal = world.share(RefCell::default());
        scene.journals.borrow_mut().push((p, journal));
        p.before(|| me.attach(scene.tube, false).expect("room"));
        scene.stage.lasting(p, move || match me.get_or_down(scene.tube, semaphore) {
            Came::Unit => reached("a unit"),
            how => assert!(received(&journal, how)),
        });
    }
    scene.process(world, "sender", SENDS, &[Put(10)]);
    let p = world.prepare("upper");
    scene.stage.member(p, "upper");
    scene.stage.lasting(p, move || assert!(semaphore.up(1)));
    world.prepare("last").last().run(move || {
        assert_eq!(semaphore.units(), 0);
        scene.settled();
    });
}

#[test]
fn units_and_messages_wake_one_each() {
    for search in [
        Search::depth("unit_depth", 3).schedules(10_000),
        Search::sweep("unit_stop").stops(1).resume(),
        Search::priorities("unit_pct", 4).stops(1).resume().schedules(10_000),
    ] {
        search.run(unit_or_message).assert_clean();
    }
}

/// One process is stopped for good, anywhere: others go on without it.
fn past_a_stopped_one(world: &World) {
    let scene = Scene::new(world, 10, FEW);
    scene.process(world, "sender", SENDS, &[Put(10)]);
    scene.process(world, "slow", RECEIVES, &[Borrow]);
    scene.process(world, "another", SENDS, &[Put(20), Put(21), Put(22)]).immortal();
    scene.process(world, "receiver", RECEIVES, &[Get, Get]).immortal();
}

#[test]
fn a_stopped_process_holds_up_no_other() {
    for search in [
        Search::sweep("past_stop").stops(1),
        Search::depth("past_depth", 2).stops(1).schedules(10_000),
        Search::priorities("past_pct", 4).stops(1).schedules(10_000),
    ] {
        let report = search.run(past_a_stopped_one);
        report.assert_clean();
        assert!(report.outcomes().contains_key("receiver"));
    }
}

/// The second slot was given up, and is a hole when the first is received: then there are two.
fn two_holes(world: &World) {
    let scene = Scene::new(world, 9, FEW);
    let p = world.prepare("first");
    let me = scene.stage.member(p, "first");
    let journal = world.share(RefCell::default());
    scene.journals.borrow_mut().push((p, journal));
    p.before(|| me.attach(scene.tube, true).expect("room"));
    scene.process(world, "receiver", RECEIVES, &[Get]);
    p.before(|| [Put(10), GiveUp(11)].map(|act| scene.act(&me, &journal, act)));
    p.run(|| ());
    scene.process(world, "another", SENDS, &[Put(20)]);
    scene.process(world, "third", SENDS, &[Put(30)]);
    scene.finally(world);
}

#[test]
fn two_holes_that_open_at_once_wake_two() {
    for search in [
        Search::depth("two_holes_schedules", 3).schedules(30_000),
        Search::sweep("two_holes_stop").stops(1).resume(),
        Search::priorities("two_holes_pct", 4).stops(1).resume().schedules(10_000),
    ] {
        search.run(two_holes).assert_clean();
    }
}

/// A sender has written its message to a slot that was passed over, and the tube is full since. When the other messages
/// are read in place, no other sender can use its slot, and it can: it is told so.
fn committed_behind_loans(world: &World) {
    let scene = Scene::new(world, 9, Shape { slots: 3, ..FEW });
    let (tube, stage) = (scene.tube, scene.stage);
    let [slow, fast, reader] = ["slow", "fast", "reader"].map(|name| world.prepare(name));
    let [late, quick, eyes] =
        [(slow, "slow"), (fast, "fast"), (reader, "reader")].map(|(p, name)| stage.member(p, name));
    let put = |message| fast.before(|| assert_eq!(quick.put(tube, message, None), Came::Sent));
    let get = |message| reader.before(|| assert_eq!(eyes.get(tube, None), Came::Message(message, false)));
    reader.before(|| eyes.attach(tube, false).expect("room"));
    slow.before(|| late.attach(tube, true).expect("room"));
    put(20);
    let slot = slow.before(|| late.reserve(tube, 10).map_err(|_| ()).expect("a hole"));
    put(21);
    get(20);
    put(22);
    get(21);
    put(23);
    fast.run(|| ());
    stage.reaper(stage.lasting(slow, move || {
        assert_eq!(late.commit(tube, slot), Came::Sent);
        reached("committed");
    }));
    stage
        .reaper(stage.lasting(reader, move || {
            let mut loans = Vec::new();
            for message in [22, 23] {
                let Ok((loan, it, false)) = eyes.borrow(tube) else { panic!("it is there") };
                assert_eq!(it, message);
                loans.push(loan);
            }
            let last = eyes.get(tube, None);
            assert!(matches!(last, Came::Message(10, false) | Came::Gone), "{last:?}");
            loans.into_iter().for_each(|loan| assert!(eyes.give_back(tube, loan)));
        }))
        .immortal();
}

#[test]
fn a_passed_over_record_is_committed_beside_loans_of_all_others() {
    for search in [
        Search::depth("behind_loans_schedules", 3).schedules(10_000),
        Search::sweep("behind_loans_stop").stops(1).resume(),
        Search::sweep("behind_loans_kill").kills(1),
    ] {
        let report = search.run(committed_behind_loans);
        report.assert_clean();
        assert!(report.outcomes().contains_key("committed"));
    }
}

/// A maker, or a remover, dies anywhere; then another makes a tube of the same name, and nothing is left of the first.
fn made_and_removed(world: &World) {
    // Room for one tube: its object, and that of its senders.
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 20);
    for name in ["maker", "another"] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.lasting(p, move || {
            let Ok(tube) = NamedAt::make(stage.map, "t", 1, [false, false], false) else { return };
            if me.attach(tube, true) == Ok(()) {
                // A process that has come may use the tube, though it is removed meanwhile.
                assert!(matches!(me.put(tube, 1, Some(clock::now())), Came::Sent | Came::Nothing | Came::Dead));
                me.detach(tube, true);
            }
            tube.remove();
            reached(name);
        });
    }
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        let me = Actor::join(stage.map, "last").expect("a slot");
        for _ in 0..3 {
            let tube = NamedAt::make(stage.map, "t", 1, [true, false], false).expect("room for it");
            tube.remove();
            let tube = NamedAt::make(stage.map, "t", 1, [true, false], false).expect("room for it");
            assert_eq!((tube.attached(true), tube.attached(false)), (0, 0));
            assert_eq!(tube.drained(), Came::Nothing, "the memory of another");
            me.attach(tube, true).expect("nobody is there");
            tube.seal();
            assert_eq!(me.attach(tube, true), Err(Unattached::Sealed));
            me.detach(tube, true);
            tube.remove();
        }
    });
}

#[test]
fn a_death_in_making_or_removing_a_tube_leaves_nothing() {
    for search in [
        Search::sweep("made_sweep").kills(1),
        crate::crash::doubles("made", 10_000),
        crate::crash::buffers("made", 2_000),
        Search::depth("made_depth", 2).kills(1).schedules(10_000),
        Search::priorities("made_pct", 4).kills(1).schedules(10_000),
    ] {
        let report = search.run(made_and_removed);
        report.assert_clean();
        assert!(report.outcomes().contains_key("another"));
    }
}

/// The only sender dies anywhere; another takes its place once that is recovered.
fn one_after_the_other(world: &World) {
    let scene = Scene::new(world, 8, Shape { one: [true, false], ..FEW });
    scene.process(world, "sender", SENDS, &[Put(10), Put(11), Leave(true)]);
    scene.process(world, "receiver", RECEIVES, &[All, Leave(false)]);
    let p = world.prepare("next").immortal();
    let me = scene.stage.member(p, "next");
    let journal = world.share(RefCell::default());
    scene.journals.borrow_mut().push((p, journal));
    scene.stage.lasting(p, move || {
        // The sender, which joined first, if the kernel has said so.
        let dead = scene.stage.map.dead(0).is_some();
        scene.stage.map.recover_dead();
        match me.attach(scene.tube, true) {
            Ok(()) => {
                // The first gives the end free before it says that it has left.
                let leaving = scene.journals.borrow()[0].1.borrow().leaving;
                assert!(scene.tube.attached(true) == 1 || leaving, "two of one");
                scene.act(&me, &journal, Hasty(20));
                me.detach(scene.tube, true);
                reached("next");
            }
            Err(why) => assert!(!dead && why == Unattached::Taken, "{why:?}"),
        }
    });
    scene.finally(world);
}

#[test]
fn the_only_one_is_followed_by_another() {
    for search in [
        Search::sweep("next_sweep").kills(1),
        Search::depth("next_depth", 2).kills(1).schedules(10_000),
        Search::priorities("next_pct", 4).kills(1).schedules(10_000),
    ] {
        let report = search.run(one_after_the_other);
        report.assert_clean();
        assert!(report.outcomes().contains_key("next"));
    }
}

/// A second sender comes, and then the first one leaves: a sender is there all the time.
fn handed_over(world: &World) {
    let scene = Scene::new(world, 8, FEW);
    let p = world.prepare("senders").immortal();
    let (first, second) = (scene.stage.member(p, "first"), scene.stage.member(p, "second"));
    p.before(|| first.attach(scene.tube, true).expect("nobody is there"));
    scene.stage.reaper(scene.stage.lasting(p, move || {
        second.attach(scene.tube, true).expect("there may be many");
        first.detach(scene.tube, true);
        assert_eq!(second.put(scene.tube, 7, None), Came::Sent);
        reached("senders");
    }));
    let q = world.prepare("receiver").immortal();
    let me = scene.stage.member(q, "receiver");
    q.before(|| me.attach(scene.tube, false).expect("nobody is there"));
    scene.stage.reaper(scene.stage.lasting(q, move || {
        let how = me.get(scene.tube, None);
        assert!(matches!(how, Came::Message(7, false)), "there was a sender all the time: {how:?}");
        reached("receiver");
    }));
}

#[test]
fn an_end_that_is_handed_over_is_never_left() {
    for search in [
        Search::depth("handed_schedules", 3).schedules(10_000),
        Search::priorities("handed_pct", 4).schedules(4_000),
        Search::uniform("handed_dice").schedules(4_000),
    ] {
        search.run(handed_over).assert_clean().assert_reached(&["senders", "receiver"]);
    }
}
