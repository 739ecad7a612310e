//! Broadcast tubes, explored: kill and stop at every operation of publishing, receiving, waiting, coming and going. What must hold:
//! each subscriber gets each message, in one order for all, and no message twice; of a killed publisher's message all get it or none does;
//! what is lost is counted; no thread sleeps while there is something for it or all publishers have gone; the dead block nobody.

use crate::crash::{Stage, searched_in, stopped_in};
use chappe_arena::Map;
use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_plat::clock;
use chappe_sync::model::{Actor, Came, CastAt, HeardAt, MutexAt, Picked, SemaphoreAt, When, cast_in_words};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// What one process has done.
#[derive(Default)]
struct Journal {
    /// The message that it is just sending: perhaps it is sent.
    begun: Vec<u64>,
    /// What was sent for sure.
    sent: Vec<u64>,
    got: Vec<u64>,
    /// Its subscription, and how it is to lag.
    listens: Option<(u32, When)>,
    is_subscriber: bool,
    /// It has heard all messages there are: its publishers have gone.
    heard_all: bool,
    /// It is just receiving: a message may be gone with it.
    hearing: bool,
    /// It is just ceasing to publish, or has ceased; it has ceased.
    hushing: bool,
    hushed: bool,
    /// It subscribed at any time: what was sent before was not for it.
    late: bool,
    /// How many publishers had died when it subscribed, and when it had heard all.
    deaths: (u32, u32),
}

type Kept = (Process, Shared<RefCell<Journal>>);

#[derive(Clone, Copy)]
struct Scene {
    stage: Stage,
    tube: CastAt,
    journals: Shared<RefCell<Vec<Kept>>>,
}

#[derive(Clone, Copy)]
enum Act {
    /// Sends this, however long it takes.
    Say(u64),
    /// Sends, or gives up soon.
    Hasty(u64),
    /// Receives one.
    Hear,
    /// Receives until all publishers have gone.
    HearAll,
    /// Unsubscribes.
    Deaf,
    /// Publishes no more.
    Hush,
    /// Subscribes.
    Come,
}

use Act::*;

/// The part of a process at the tube.
#[derive(Clone, Copy)]
enum Part {
    Publishes,
    Listens(When),
    /// Nothing yet.
    Comes,
}

use Part::*;

const BLOCK: Part = Listens(When::Block);
const OLDEST: Part = Listens(When::Oldest);
const NEWEST: Part = Listens(When::Newest(1));

type Processes<'a> = &'a [(&'static str, Part, &'a [Act])];

impl Scene {
    fn new(world: &World, members: u32, slots: u32) -> Scene {
        let (stage, _) = Stage::with_blocks(world, members, &[], 3, 24);
        let tube = CastAt::make(stage.map, "t", slots, 4).expect("a tube");
        for slot in 0..slots {
            world.name_with(tube.word(slot), format!("slot {slot}"), cast_in_words);
        }
        world.name(&stage.map.object(tube.object()).waiting[0], "waiting".to_owned());
        Scene { stage, tube, journals: world.share(RefCell::default()) }
    }

    fn act(&self, me: &Actor, at: usize, journal: &RefCell<Journal>, act: Act) {
        let (tube, soon) = (self.tube, || Some(clock::now() + 1000));
        let who = || journal.borrow().listens.expect("it listens").0;
        match act {
            Say(message) | Hasty(message) => {
                journal.borrow_mut().begun.push(message);
                let deadline = if let Hasty(_) = act { soon() } else { None };
                let how = me.says(tube, message, deadline);
                let mut journal = journal.borrow_mut();
                journal.begun.retain(|m| *m != message);
                match how {
                    Came::Sent => journal.sent.push(message),
                    Came::Nothing => reached("gave up"),
                    other => panic!("{other:?}"),
                }
            }
            Hear => _ = self.hear(me, who(), journal),
            HearAll => {
                while self.hear(me, who(), journal) {}
                let died = self.tube.died();
                let mut journal = journal.borrow_mut();
                (journal.heard_all, journal.deaths.1) = (true, died);
            }
            Deaf => me.unsubscribes(tube, who()),
            Hush => {
                journal.borrow_mut().hushing = true;
                me.publishes_no_more(tube, at);
                journal.borrow_mut().hushed = true;
            }
            Come => {
                let died = tube.died();
                let who = me.subscribes(tube, When::Block).expect("room");
                let mut journal = journal.borrow_mut();
                (journal.listens, journal.late, journal.deaths.0) = (Some((who, When::Block)), true, died);
            }
        }
    }

    fn hear(&self, me: &Actor, who: u32, journal: &RefCell<Journal>) -> bool {
        journal.borrow_mut().hearing = true;
        let how = me.hears(self.tube, who, None);
        let mut journal = journal.borrow_mut();
        journal.hearing = false;
        match how {
            Came::Message(message, _) => {
                journal.got.push(message);
                true
            }
            Came::Gone => {
                reached("nobody publishes");
                false
            }
            other => panic!("{other:?}"),
        }
    }

    /// A process that does these things, with its reaper. It does not end with them.
    fn process(&self, world: &World, name: &'static str, part: Part, acts: &[Act]) {
        let p = world.prepare(name);
        let me = self.stage.member(p, name);
        let journal: Shared<RefCell<Journal>> = world.share(RefCell::default());
        let mut at = 0;
        journal.borrow_mut().is_subscriber = !matches!(part, Publishes);
        p.before(|| match part {
            Publishes => at = me.publishes(self.tube).expect("room"),
            Listens(when) => {
                let who = me.subscribes(self.tube, when).expect("room");
                journal.borrow_mut().listens = Some((who, when));
            }
            Comes => {}
        });
        self.journals.borrow_mut().push((p, journal));
        let (scene, acts) = (*self, acts.to_vec());
        self.stage.reaper(self.stage.lasting(p, move || {
            acts.iter().for_each(|act| scene.act(&me, at, &journal, *act));
            reached(name);
        }));
    }

    /// A subscriber that has heard all knows how many publishers died; those that were killed while they left are
    /// counted or not.
    fn deaths_are_known(&self) {
        let journals = self.journals.borrow();
        let killed = journals.iter().filter(|(p, j)| !j.borrow().is_subscriber && p.fate() == Fate::Killed);
        let sure = killed.clone().filter(|(_, j)| !j.borrow().hushing).count() as u32;
        let may = killed.filter(|(_, j)| !j.borrow().hushed).count() as u32;
        for (_, journal) in journals.iter().filter(|(_, j)| j.borrow().heard_all) {
            let journal = journal.borrow();
            let (before, after) = journal.deaths;
            let sure = if journal.late { 0 } else { sure };
            assert!((sure..=may).contains(&(after.wrapping_sub(before))), "{before}, {after} died, of {sure} to {may}");
        }
        let died = self.tube.died();
        self.stage.map.recover_dead();
        // Recovery counts none anew; a publisher that is there still may be killed meanwhile.
        let now = self.tube.died();
        let publishers = journals.iter().map(|(_, j)| j.borrow()).filter(|j| !j.is_subscriber);
        let most = publishers.filter(|j| !j.hushed).count() as u32;
        assert!(died <= now && now <= most, "{died}, then {now} have died, of at most {most}");
        if now > 0 {
            reached("publisher died");
        }
    }

    fn settled(&self) {
        self.deaths_are_known();
        assert!(!self.stage.map.anybody_waits(self.tube.object()), "somebody's wait bit still stands");
        let journals = self.journals.borrow();
        let all: Vec<_> = journals.iter().map(|(p, journal)| (p.fate(), journal.borrow())).collect();
        let sent: Vec<u64> = all.iter().flat_map(|(_, j)| j.sent.iter().copied()).collect();
        let begun: Vec<u64> = all.iter().flat_map(|(_, j)| j.begun.iter().copied()).collect();
        let listeners: Vec<_> = all.iter().filter(|(_, j)| j.listens.is_some()).collect();
        for (_, journal) in &listeners {
            for (i, message) in journal.got.iter().enumerate() {
                assert!(sent.contains(message) || begun.contains(message), "{message} was never sent");
                assert!(!journal.got[..i].contains(message), "{message} came twice: {:?}", journal.got);
                let late = |other: &u64| other / 10 == message / 10 && other > message;
                assert!(!journal.got[..i].iter().any(late), "{message} came too late: {:?}", journal.got);
            }
            // In the order of each other.
            for (_, other) in &listeners {
                let common: Vec<u64> = journal.got.iter().copied().filter(|m| other.got.contains(m)).collect();
                let theirs: Vec<u64> = other.got.iter().copied().filter(|m| journal.got.contains(m)).collect();
                assert_eq!(common, theirs, "two orders: {:?}, {:?}", journal.got, other.got);
            }
        }
        let whole: Vec<_> =
            listeners.iter().filter(|(fate, j)| *fate != Fate::Killed && j.heard_all && !j.late).collect();
        for (_, journal) in &whole {
            let (who, when) = journal.listens.expect("it listens");
            let (lost, dropped) = self.tube.lost(who);
            let had = journal.got.len() as u64 + u64::from(lost) + dropped;
            let (least, most) = (sent.len() as u64, (sent.len() + begun.len()) as u64);
            assert!(
                (least..=most).contains(&had),
                "{:?}, {lost} lost, {dropped} dropped, of {sent:?} {begun:?}",
                journal.got
            );
            match when {
                When::Block => assert_eq!((lost, dropped), (0, 0)),
                When::Oldest => assert_eq!(dropped, 0),
                When::Newest(_) => assert_eq!(lost, 0),
            }
            if lost > 0 {
                reached("lost");
            }
            if dropped > 0 {
                reached("dropped");
            }
        }
        // All of those that block, or none, have what a killed publisher was sending.
        let blocking = |j: &Journal| matches!(j.listens, Some((_, When::Block)));
        for message in &begun {
            let has: Vec<bool> =
                whole.iter().filter(|(_, j)| blocking(j)).map(|(_, j)| j.got.contains(message)).collect();
            assert!(has.iter().all(|h| *h == has.first().copied().unwrap_or(false)), "{message} came to some only");
        }
        self.last();
    }

    /// Every slot can be used, whatever the dead had.
    fn last(&self) {
        let last = Actor::join(self.stage.map, "last").expect("a slot");
        // A process that lives may have its subscription still.
        if self.tube.subscribers() > 0 {
            return;
        }
        let who = last.subscribes(self.tube, When::Block).expect("room");
        for i in 0..u64::from(self.tube.slots()) {
            assert_eq!(last.says(self.tube, 900 + i, Some(clock::now())), Came::Sent, "a slot is out of use");
        }
        for i in 0..u64::from(self.tube.slots()) {
            assert_eq!(last.hears(self.tube, who, Some(clock::now())), Came::Message(900 + i, false));
        }
        reached("all slots used");
    }
}

fn world(slots: u32, processes: Processes<'_>) -> impl Fn(&World) + Sync {
    move |world: &World| {
        let scene = Scene::new(world, 2 * processes.len() as u32 + 2, slots);
        for (name, part, acts) in processes {
            scene.process(world, name, *part, acts);
        }
        world.prepare("last").last().run(move || scene.settled());
    }
}

fn explored(name: &str, slots: u32, processes: Processes<'_>, also: &[&str]) {
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
    .map(|search| search.run(world(slots, processes)));
    for report in &all {
        report.assert_clean();
    }
    let missed: Vec<_> = outcomes.iter().filter(|o| !all.iter().any(|r| r.outcomes().contains_key(**o))).collect();
    assert!(missed.is_empty() || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to {missed:?}");
    stopped_in(600, name, world(slots, processes));
}

#[test]
fn each_subscriber_gets_each_message() {
    let two: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Hush]),
        ("one", BLOCK, &[HearAll, Deaf]),
        ("other", BLOCK, &[HearAll, Deaf]),
    ];
    explored("each", 2, two, &["nobody publishes", "all slots used", "publisher died"]);
}

#[test]
fn publishers_wait_for_who_blocks_and_not_for_the_dead() {
    let more: Processes<'_> =
        &[("publisher", Publishes, &[Say(10), Say(11), Say(12), Hush]), ("one", BLOCK, &[HearAll, Deaf])];
    explored("blocks", 2, more, &["nobody publishes", "all slots used"]);
}

#[test]
fn a_subscriber_that_drops_the_oldest_counts_what_it_loses() {
    let oldest: Processes<'_> =
        &[("publisher", Publishes, &[Say(10), Say(11), Say(12), Say(13), Hush]), ("one", OLDEST, &[HearAll, Deaf])];
    explored("oldest", 2, oldest, &["lost", "nobody publishes", "all slots used"]);
}

#[test]
fn a_subscriber_that_drops_the_newest_counts_what_it_loses() {
    let newest: Processes<'_> =
        &[("publisher", Publishes, &[Say(10), Say(11), Say(12), Hush]), ("one", NEWEST, &[HearAll, Deaf])];
    explored("newest", 2, newest, &["dropped", "nobody publishes", "all slots used"]);
}

#[test]
fn several_publishers_are_heard_in_one_order() {
    let several: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Hush]),
        ("another", Publishes, &[Say(20), Hush]),
        ("one", BLOCK, &[HearAll, Deaf]),
        ("other", BLOCK, &[HearAll, Deaf]),
    ];
    explored("several", 2, several, &["all slots used"]);
}

#[test]
fn a_subscription_beside_leaving_publishers_reports_exactly_the_deaths() {
    let late: Processes<'_> = &[("publisher", Publishes, &[Hush]), ("one", Comes, &[Come, HearAll, Deaf])];
    for search in [
        Search::depth("late_schedules", 2).schedules(1_000),
        Search::sweep("late_sweep").kills(1),
        Search::depth("late_depth", 3).kills(1).schedules(3_000),
        Search::priorities("late_pct", 4).kills(1).schedules(1_000),
    ] {
        search.run(world(2, late)).assert_clean();
    }
}

#[test]
fn each_message_wakes_its_subscriber_though_nobody_leaves() {
    // A leaver tells all, and would make up for what was missed.
    let lone: Processes<'_> = &[("publisher", Publishes, &[Say(10)]), ("one", BLOCK, &[Hear])];
    explored("lone", 2, lone, &[]);
    let room: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Say(12)]),
        ("one", BLOCK, &[Hear, Hear, Hear]),
        ("other", BLOCK, &[Hear, Hear, Hear]),
    ];
    for search in [
        Search::depth("room_schedules", 3).schedules(1_000),
        Search::sweep("room_stop").stops(1).resume(),
        Search::priorities("room_pct", 4).stops(1).resume().schedules(1_000),
    ] {
        search.run(world(2, room)).assert_clean();
    }
}

/// The first block of an object.
fn memory(map: &'static Map, object: u32) -> NonNull<u64> {
    let first = map.object(object).more.load(SeqCst) - 1; // SeqCst: an onlooker.
    NonNull::new(map.blocks(first, 1).cast()).expect("memory")
}

/// A subscriber leaves a tube that is removed meanwhile. Another object has the tube's memory by then; what it has there stays.
fn removed(world: &World) {
    const DATA: [u64; 8] = [0x5a5a_5a5a_5a5a_5a5a; 8];
    let (stage, _) = Stage::with_blocks(world, 6, &[], 2, 24);
    let (map, tube) = (stage.map, CastAt::make(stage.map, "t", 2, 2).expect("a tube"));
    let at = memory(map, tube.object());
    let p = world.prepare("subscriber");
    let me = stage.member(p, "subscriber");
    let who = p.before(|| me.subscribes(tube, When::Block).expect("room"));
    stage.reaper(stage.lasting(p, move || {
        me.unsubscribes(tube, who);
        reached("subscriber");
    }));
    let taken = world.share(Cell::new(false));
    let p = world.prepare("remover").immortal();
    stage.member(p, "remover");
    stage.lasting(p, move || {
        tube.remove();
        // Its data are all blocks. There is none while a thread is in the way.
        let mutex = MutexAt::of_words(map, "m", map.geometry().blocks as usize * DATA.len(), |_| 0);
        if mutex.is_ok_and(|(mutex, _)| memory(map, mutex.place.index) == at) {
            // SAFETY: the mutex's block, of which no other process knows.
            unsafe { at.cast().write(DATA) };
            taken.set(true);
            reached("in its memory");
        }
    });
    world.prepare("recovers").immortal().run(move || _ = map.recover_dead());
    world.prepare("last").last().run(move || {
        map.recover_dead();
        // SAFETY: a block of the arena; all other processes have come to rest.
        let there: [u64; 8] = unsafe { at.cast().read() };
        assert!(!taken.get() || there == DATA, "another object's data was changed: {there:x?}");
    });
}

#[test]
fn a_late_subscriber_writes_to_no_other_object() {
    searched_in(800, "removed", removed, &["subscriber", "in its memory"]);
}

/// The only publisher and subscriber has died. A thread that has seen that it is gone, before the recovery, sees nothing else during it.
fn gone(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 6, &[], 2, 24);
    let (map, tube) = (stage.map, CastAt::make(stage.map, "t", 2, 2).expect("a tube"));
    let p = world.prepare("gone");
    let me = stage.member(p, "gone");
    p.before(|| (me.publishes(tube).expect("room"), me.subscribes(tube, When::Block).expect("room")));
    p.run(|| ());
    let look = move || (tube.publishers(), tube.subscribers(), tube.died());
    world.prepare("looks").run(move || {
        if look() == (0, 0, 1) {
            reached("gone");
            assert_eq!(look(), (0, 0, 1), "no other has come, and its death is counted");
        }
    });
    world.prepare("recovers").run(move || _ = map.recover_dead());
}

#[test]
fn a_member_that_has_gone_does_not_come_back_while_it_is_recovered() {
    Search::sweep("gone_stop").stops(1).resume().run(gone).assert_clean().assert_reached(&["gone"]);
}

/// The filters that a subscriber of this world writes, one after the other: each has more than a word, so it can be
/// torn.
const FILTERS: [&[u8]; 3] = [b"price > 100", b"qty == 7 || n>8", b"sym == 'B'"];

/// A subscriber, killed anywhere while it comes and changes its filter, and a publisher that looks meanwhile, as its router does.
fn world_of_filters(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 6, &[], 3, 24);
    let tube = CastAt::make(stage.map, "t", 2, 2).expect("a tube");
    // What a router remembers: of this owner, this version was this text.
    type Seen = Vec<((u32, u32, u32), Vec<u8>)>;
    let seen: Shared<RefCell<Seen>> = world.share(RefCell::default());
    let look = move || {
        for (who, member, text) in tube.filters() {
            let Some((version, text)) = text else {
                reached("just being written");
                continue;
            };
            assert!(
                FILTERS.contains(&&text[..]) || text.is_empty(),
                "half a filter: {}",
                String::from_utf8_lossy(&text)
            );
            let mut seen = seen.borrow_mut();
            match seen.iter().find(|(is, _)| *is == (who, member, version)) {
                Some((_, before)) => assert_eq!(*before, text, "one version, two filters"),
                None => seen.push(((who, member, version), text)),
            }
        }
    };
    let p = world.prepare("subscriber");
    let me = stage.member(p, "subscriber");
    stage.reaper(stage.lasting(p, move || {
        let who = me.subscribes_with(tube, When::Block, FILTERS[0]).expect("room");
        me.refilters(tube, who, FILTERS[1]);
        me.refilters(tube, who, FILTERS[2]);
        me.unsubscribes(tube, who);
        reached("subscriber");
    }));
    let p = world.prepare("publisher");
    let _member = stage.member(p, "publisher");
    stage.reaper(stage.lasting(p, move || {
        (0..3).for_each(|_| look());
        reached("publisher");
    }));
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        // An owner that lives may be in the middle of it still.
        if tube.subscribers() > 0 {
            return;
        }
        let last = Actor::join(stage.map, "last").expect("a slot");
        // Both numbers can be taken again, and what the dead had written there is not taken for the next one's.
        let all: Vec<u32> = FILTERS[1..]
            .iter()
            .map(|filter| last.subscribes_with(tube, When::Block, filter).expect("the dead keep their numbers"))
            .collect();
        look();
        let has: Vec<Vec<u8>> = tube.filters().into_iter().map(|(_, _, text)| text.expect("whole").1).collect();
        assert_eq!((all.len(), has), (2, FILTERS[1..].iter().map(|f| f.to_vec()).collect()));
        reached("numbers free");
    });
}

#[test]
fn a_filter_is_whole_whoever_is_killed_while_it_is_written() {
    let all = [
        Search::sweep("filters_sweep").kills(1),
        Search::depth("filters_depth", 2).kills(1).schedules(1_000),
        Search::priorities("filters_pct", 3).kills(1).schedules(1_000),
        crate::crash::buffers("filters", 300),
    ]
    .map(|search| search.run(world_of_filters));
    for report in &all {
        report.assert_clean();
    }
    for outcome in ["subscriber", "publisher", "just being written", "numbers free"] {
        let came = all.iter().any(|report| report.outcomes().contains_key(outcome));
        assert!(came || std::env::var_os("CRASHSIM_REPLAY").is_some(), "never came to `{outcome}`");
    }
}

/// What a subscriber does that chooses between its messages and a semaphore's units.
#[derive(Clone, Copy)]
enum Choice {
    /// Only looks whether there is one of them.
    Look,
    /// Has one of them.
    Pick,
    /// Wants messages whose last digit is so much at least, from now on.
    Want(u64),
}

use Choice::*;

#[derive(Default)]
struct Chosen {
    begun: Vec<u64>,
    sent: Vec<u64>,
    got: Vec<u64>,
    units: (u32, u32),
    taken: u32,
    least: u64,
    heard_all: bool,
}

/// A subscriber with an arm that has its own test, which its publisher does not know: it does these things, and then has all there is.
fn world_of_arms(messages: &'static [u64], acts: &'static [Choice]) -> impl Fn(&World) + Sync {
    move |world: &World| {
        let (stage, _) = Stage::with_blocks(world, 8, &[], 4, 24);
        let tube = CastAt::make(stage.map, "t", 2, 2).expect("a tube");
        let units = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
        let chosen: Shared<RefCell<Chosen>> = world.share(RefCell::default());
        let p = world.prepare("publisher");
        let me = stage.member(p, "publisher");
        let at = p.before(|| me.publishes(tube).expect("room"));
        stage.reaper(stage.lasting(p, move || {
            for message in messages {
                chosen.borrow_mut().begun.push(*message);
                assert_eq!(me.says(tube, *message, None), Came::Sent);
                chosen.borrow_mut().sent.push(*message);
            }
            me.publishes_no_more(tube, at);
            reached("publisher");
        }));
        let p = world.prepare("giver");
        let _giver = stage.member(p, "giver");
        stage.reaper(stage.lasting(p, move || {
            chosen.borrow_mut().units.0 += 1;
            assert!(units.up(1));
            chosen.borrow_mut().units.1 += 1;
        }));
        let subscriber = world.prepare("subscriber");
        let me = stage.member(subscriber, "subscriber");
        let who = subscriber.before(|| me.subscribes(tube, When::Block).expect("room"));
        stage.reaper(stage.lasting(subscriber, move || {
            let heard = HeardAt::of(tube, who);
            let pick = || match me.picks(&heard, units, false) {
                Picked::Heard(Came::Message(message, _)) => {
                    let mut chosen = chosen.borrow_mut();
                    assert!(message % 10 >= chosen.least, "{message} is not wanted, but {} and more", chosen.least);
                    chosen.got.push(message);
                    true
                }
                Picked::Heard(Came::Gone) => false,
                Picked::Unit => {
                    chosen.borrow_mut().taken += 1;
                    reached("unit");
                    true
                }
                other => panic!("{other:?}"),
            };
            for act in acts {
                match act {
                    Look => assert_eq!(me.picks(&heard, units, true), Picked::Ready),
                    Pick => _ = pick(),
                    Want(least) => {
                        chosen.borrow_mut().least = *least;
                        heard.wants(*least);
                    }
                }
            }
            while pick() {}
            chosen.borrow_mut().heard_all = true;
            reached("subscriber");
        }));
        world.prepare("last").last().run(move || {
            stage.map.recover_dead();
            let chosen = chosen.borrow();
            assert!(chosen.got.is_sorted(), "not in order: {:?}", chosen.got);
            assert!(chosen.got.windows(2).all(|two| two[0] < two[1]), "one came twice: {:?}", chosen.got);
            assert!(chosen.got.iter().all(|m| chosen.begun.contains(m)), "{:?} was never sent", chosen.got);
            if subscriber.fate() == Fate::Killed {
                return;
            }
            let missed: Vec<_> =
                chosen.sent.iter().filter(|m| **m % 10 >= chosen.least && !chosen.got.contains(m)).collect();
            assert!(!chosen.heard_all || missed.is_empty(), "{missed:?} never came: {:?}", chosen.got);
            let (least, most) = (chosen.units.1, chosen.units.0);
            let there = chosen.taken + units.value();
            assert!((least..=most).contains(&there), "{there} units, of {least} to {most}");
            assert!(!stage.map.anybody_waits(tube.object()), "somebody's wait bit still stands");
        });
    }
}

fn arms_explored(name: &str, messages: &'static [u64], acts: &'static [Choice]) {
    let world = world_of_arms(messages, acts);
    let all = [
        Search::sweep(&format!("{name}_sweep")).kills(1),
        Search::depth(&format!("{name}_depth"), 2).kills(1).schedules(1_000),
        Search::priorities(&format!("{name}_pct"), 4).kills(1).schedules(1_000),
        Search::uniform(&format!("{name}_dice")).schedules(500),
        crate::crash::buffers(name, 300),
    ]
    .map(|search| search.run(&world));
    for report in &all {
        report.assert_clean();
    }
    for outcome in ["publisher", "subscriber", "unit"] {
        let came = all.iter().any(|report| report.outcomes().contains_key(outcome));
        assert!(came || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to `{outcome}`");
    }
}

#[test]
fn a_message_that_an_arm_holds_is_received_exactly_once() {
    // What is looked at stays, and is older than all that is in the tube.
    arms_explored("held", &[11, 25, 32], &[Look, Look, Pick, Look]);
}

#[test]
fn a_message_that_an_arm_holds_is_tested_by_the_present_filter() {
    arms_explored("filtered", &[11, 25, 32, 47], &[Want(1), Look, Want(5), Pick]);
}

#[test]
#[ignore = "storm: a minute of further worlds"]
fn the_same_holds_in_further_worlds() {
    let leaves: Processes<'_> =
        &[("publisher", Publishes, &[Say(10), Say(11), Say(12), Hush]), ("one", BLOCK, &[Hear, Deaf])];
    explored("leaves", 2, leaves, &["all slots used"]);
    let hasty: Processes<'_> =
        &[("publisher", Publishes, &[Say(10), Say(11), Hasty(12), Hush]), ("one", BLOCK, &[HearAll, Deaf])];
    explored("hasty", 2, hasty, &["gave up"]);
    let oldest: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Say(12), Hush]),
        ("one", OLDEST, &[HearAll, Deaf]),
        ("other", BLOCK, &[HearAll, Deaf]),
    ];
    explored("oldest_and_block", 2, oldest, &["lost", "all slots used"]);
    let newest: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Say(12), Hush]),
        ("one", NEWEST, &[HearAll, Deaf]),
        ("other", BLOCK, &[HearAll, Deaf]),
    ];
    explored("newest_and_block", 4, newest, &["dropped", "all slots used"]);
    let mixed: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Hush]),
        ("another", Publishes, &[Say(20), Say(21), Hush]),
        ("one", OLDEST, &[HearAll, Deaf]),
    ];
    explored("several_oldest", 2, mixed, &["all slots used"]);
    let several: Processes<'_> = &[
        ("publisher", Publishes, &[Say(10), Say(11), Hush]),
        ("another", Publishes, &[Say(20), Hush]),
        ("one", BLOCK, &[HearAll, Deaf]),
        ("other", BLOCK, &[HearAll, Deaf]),
    ];
    explored("several_room", 4, several, &["all slots used"]);
}
