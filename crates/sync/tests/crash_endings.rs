//! Ends at named tubes, explored. What senders report when they leave: receivers know how many have not ended well. What receivers leave when
//! they give a message back that is dropped then: a hole, of which a sender is told.

use crate::crash::Stage;
use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_sync::model::{Came, NamedAt};
use std::cell::Cell;

/// A sender has not begun to leave, is at it, or has left.
const STAYS: u8 = 0;
const LEAVES: u8 = 1;
const LEFT: u8 = 2;

/// Some senders leave, and may be killed; when none is there any more, a receiver asks how many have not ended well.
fn endings(world: &World, names: &[&'static str]) {
    let (stage, _) = Stage::with_blocks(world, 10, &[], 6, 32);
    let tube = NamedAt::make(stage.map, "t", 2, [false, false], false).expect("a tube");
    let come = |name: &&'static str| {
        let name = *name;
        let p = world.prepare(name);
        let me = stage.member(p, name);
        p.before(|| me.attach(tube, true).expect("there may be many"));
        let leaving = world.share(Cell::new(STAYS));
        stage.reaper(stage.lasting(p, move || {
            leaving.set(LEAVES);
            me.detach(tube, true);
            leaving.set(LEFT);
        }));
        (p, leaving)
    };
    let senders: Vec<_> = names.iter().map(come).collect();
    let q = world.prepare("receiver").immortal();
    let me = stage.member(q, "receiver");
    q.before(|| me.attach(tube, false).expect("nobody is there"));
    stage.reaper(stage.lasting(q, move || {
        assert_eq!(me.get(tube, None), Came::Gone);
        let died = tube.died();
        let killed = senders.iter().filter(|(p, _)| p.fate() == Fate::Killed);
        let sure = killed.clone().filter(|(_, leaving)| leaving.get() == STAYS).count() as u32;
        let most = killed.filter(|(_, leaving)| leaving.get() != LEFT).count() as u32;
        assert!((sure..=most).contains(&died), "{died} have not ended well, of {sure} to {most}");
        reached(if died == 0 { "all well" } else { "one died" });
    }));
}

/// The same, and the receiver comes at any time. It is told of the death of each sender of which it got something, and
/// of no other death than those there are. With messages it may find them, and else an empty tube.
fn late(world: &World, names: &[&'static str], with_messages: bool) {
    let (stage, _) = Stage::with_blocks(world, 10, &[], 6, 32);
    let tube = NamedAt::make(stage.map, "t", 2, [false, false], false).expect("a tube");
    let come = |(which, name): (usize, &&'static str)| {
        let (which, name) = (which as u64, *name);
        let p = world.prepare(name);
        let me = stage.member(p, name);
        p.before(|| me.attach(tube, true).expect("there may be many"));
        let leaving = world.share(Cell::new(STAYS));
        stage.reaper(stage.lasting(p, move || {
            if with_messages {
                assert_eq!(me.put(tube, which, None), Came::Sent);
            }
            leaving.set(LEAVES);
            me.detach(tube, true);
            leaving.set(LEFT);
        }));
        (which, p, leaving)
    };
    let senders: Vec<_> = names.iter().enumerate().map(come).collect();
    let q = world.prepare("receiver").immortal();
    let me = stage.member(q, "receiver");
    stage.reaper(stage.lasting(q, move || {
        me.attach(tube, false).expect("nobody is there");
        let told = tube.known();
        let mut got = Vec::new();
        let end = loop {
            match me.get(tube, None) {
                Came::Message(message, _) => got.push(message),
                end => break end,
            }
        };
        assert_eq!(end, Came::Gone);
        let learned = tube.learns(told).is_some();
        let killed = |(_, p, _): &&(u64, Process, Shared<Cell<u8>>)| p.fate() == Fate::Killed;
        let must = senders.iter().filter(killed).any(|(which, _, how)| how.get() == STAYS && got.contains(which));
        let may = senders.iter().filter(killed).any(|(.., how)| how.get() != LEFT);
        assert!(learned || !must, "got {got:?}, and was not told that one of those senders has died");
        assert!(!learned || may, "was told of a death, and nobody has died");
        reached(if learned { "told" } else { "none died" });
    }));
}

#[test]
fn a_receiver_that_comes_while_senders_leave_is_told_of_the_deaths_that_there_are() {
    let mut outcomes = Vec::new();
    let one = &["one"][..];
    for (which, names, with_messages) in [("one", one, true), ("two", &["one", "other"], true), ("empty", one, false)] {
        for search in [
            Search::depth(&format!("late_{which}_schedules"), 2).schedules(1_500),
            Search::sweep(&format!("late_{which}_sweep")).kills(1),
            Search::depth(&format!("late_{which}_depth"), 2).kills(1).schedules(1_500),
            Search::priorities(&format!("late_{which}_pct"), 4).kills(1).schedules(1_000),
        ] {
            let report = search.run(|world: &World| late(world, names, with_messages));
            report.assert_clean();
            outcomes.extend(report.outcomes().keys().cloned().collect::<Vec<_>>());
        }
    }
    assert!(["told", "none died"].iter().all(|o| outcomes.iter().any(|it| it == o)), "{outcomes:?}");
}

#[test]
fn a_sender_that_left_has_ended_well_and_one_killed_before_has_not() {
    let mut outcomes = Vec::new();
    for (which, names) in [("one", &["one"][..]), ("two", &["one", "other"])] {
        for search in [
            Search::depth(&format!("endings_{which}_schedules"), 2).schedules(10_000),
            Search::sweep(&format!("endings_{which}_sweep")).kills(1),
            Search::depth(&format!("endings_{which}_depth"), 2).kills(1).schedules(5_000),
            Search::priorities(&format!("endings_{which}_pct"), 4).schedules(5_000),
            Search::uniform(&format!("endings_{which}_dice")).kills(2).schedules(2_000),
        ] {
            let report = search.run(|world: &World| endings(world, names));
            report.assert_clean();
            outcomes.extend(report.outcomes().keys().cloned().collect::<Vec<_>>());
        }
    }
    assert!(["all well", "one died"].iter().all(|o| outcomes.iter().any(|it| it == o)), "{outcomes:?}");
}

/// A receiver gives back what it has borrowed: a tube that drops has a hole then, and so has any after a second death.
fn dropped_by_its_reader(world: &World, drops: bool) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 20);
    let tube = NamedAt::make(stage.map, "t", 1, [false; 2], drops).expect("a tube");
    let [s, r] = ["sender", "receiver"].map(|name| world.prepare(name));
    let [sender, receiver] = [(s, "sender"), (r, "receiver")].map(|(p, name)| stage.member(p, name));
    s.before(|| sender.attach(tube, true).expect("room"));
    r.before(|| receiver.attach(tube, false).expect("room"));
    s.before(|| assert_eq!(sender.put(tube, 1, None), Came::Sent));
    stage.lasting(s, move || {
        assert_eq!(sender.put(tube, 2, None), Came::Sent);
        reached("sent");
    });
    stage.lasting(r, move || {
        for again in [false, true].into_iter().take(2 - usize::from(drops)) {
            let (lent, message, was) = receiver.borrow(tube).expect("a message");
            assert_eq!((message, was), (1, again));
            receiver.put_back(tube, &lent, true);
        }
        assert_eq!(receiver.get(tube, None), Came::Message(2, false));
        assert_eq!(tube.dropped(), 1);
    });
}

#[test]
fn a_message_that_its_reader_drops_leaves_a_hole_for_the_waiter() {
    for drops in [false, true] {
        let name = format!("dropped_by_reader_{drops}");
        for search in [
            Search::depth(&format!("{name}_schedules"), 2).schedules(10_000),
            Search::sweep(&format!("{name}_stop")).stops(1).resume(),
        ] {
            search.run(|world| dropped_by_its_reader(world, drops)).assert_clean().assert_reached(&["sent"]);
        }
    }
}
