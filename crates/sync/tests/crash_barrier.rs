//! Barriers, explored: kill and stop at every operation of arriving, waiting (with and without a deadline), joining, leaving, aborting, resetting and
//! removing. What must hold: a round turns when all that are expected have arrived, and not before; exactly one party has index 0, and no index
//! is given twice; a party that died blocks nobody, and each other is told of it once; a round turns for all, or breaks for all. One that came for
//! once is no party after that.

use crate::crash::{Stage, searched_in, stopped_in};
use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_plat::{clock, step};
use chappe_sync::model::{Actor, BarrierAt, Looked, Passed};
use std::cell::{Cell, RefCell};

/// For each search.
const SCHEDULES: u64 = 800;

/// What a process has seen of a turn: the round, its index, how many died.
type Seen = (u64, u32, u32);

/// What all have seen, and how many processes were killed.
#[derive(Default)]
struct Book {
    seen: RefCell<Vec<Seen>>,
    broken: Cell<u32>,
    killed: Cell<u32>,
    /// For each process, in how many rounds it has begun to arrive.
    begun: [Cell<u64>; 4],
    dead: [Cell<bool>; 4],
}

impl Book {
    fn note(&self, passed: Passed) -> Passed {
        match passed {
            Passed::Turned(round, index, died) => self.seen.borrow_mut().push((round, index, died)),
            Passed::Broken => self.broken.set(self.broken.get() + 1),
            _ => {}
        }
        passed
    }

    /// Of each round: no index was given twice, and so many as were expected, less those that died, have seen it turn.
    fn check(&self, parties: u32) {
        let seen = self.seen.borrow();
        for (round, _, died) in seen.iter() {
            let mut all: Vec<u32> = seen.iter().filter(|s| s.0 == *round).map(|s| s.1).collect();
            all.sort_unstable();
            let expected = parties - died.min(&parties);
            assert!(all.windows(2).all(|w| w[0] != w[1]), "an index was given twice: {seen:?}");
            assert!(all.iter().all(|index| *index < parties), "an index is too great: {seen:?}");
            assert!(all.len() as u32 <= parties, "more have turned than arrived: {seen:?}");
            assert!(all.len() as u32 + self.killed.get() >= expected, "it turned early: {seen:?}");
            if self.killed.get() == 0 {
                assert!(all == (0..parties).collect::<Vec<u32>>(), "{seen:?}");
            }
        }
    }
}

fn barrier(world: &World, stage: &Stage, parties: u32, breaks: bool) -> BarrierAt {
    let b = BarrierAt::make(stage.map, "b", parties, breaks).expect("a barrier");
    b.each_word(|word, name| world.name(word, name));
    let o = stage.map.object(b.place.index);
    world.name(&o.waiting[0], "waiters of b");
    world.name(&o.head, "head of b");
    b
}

fn member(stage: &Stage, p: Process, name: &'static str, at: usize, b: BarrierAt, book: Shared<Book>) -> Actor {
    let me = stage.member(p, name);
    p.on_death(move || {
        book.killed.set(book.killed.get() + 1);
        book.dead[at].set(true);
    });
    p.before(|| me.enters_barrier(b));
    me
}

/// At the end: no arrival is current, no bit stands, and the barrier can be used as before.
fn settled(stage: &Stage, b: BarrierAt, book: Shared<Book>, joined: Option<u32>) {
    stage.map.recover_dead();
    assert!(!b.map.anybody_waits(b.place.index), "somebody's wait bit still stands");
    let me = Actor::join(stage.map, "last").expect("a slot for the last");
    me.enters_barrier(b);
    stage.map.recover_dead();
    let Looked(arrived, has_joined, _, rounds, _) = b.look();
    assert_eq!(arrived, 0, "an arrival was counted twice, or stands for nobody");
    // A killed process may not have gone yet.
    assert!(book.killed.get() > 0 || joined.is_none_or(|joined| has_joined == joined), "{has_joined} have joined");
    b.reset();
    let Looked(arrived, joined, dead, turned, _) = b.look();
    assert_eq!((arrived, turned), (0, rounds));
    // The system may take a killed process away as late as this: its death then comes before the reset, or after.
    assert!(joined + dead <= has_joined);
    me.leave();
}

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Three that have joined go through two rounds.
fn joined(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 3, false), world.share(Book::default()));
    for (at, name) in NAMES.into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        p.before(|| assert!(me.joins_barrier(b)));
        stage.reaper(stage.lasting(p, move || {
            let mut told = 0;
            for round in 0..2 {
                book.begun[at].set(round + 1);
                let Passed::Turned(turned, _, died) = book.note(me.passes(b, None, false)) else { panic!("no turn") };
                assert_eq!(turned, round);
                told += died;
                let missing = (0..3).filter(|i| book.begun[*i].get() <= round).count() as u32;
                assert!(missing <= told, "it turned early");
                assert!((0..3).all(|i| book.begun[i].get() > round || book.dead[i].get()), "it turned early");
            }
            assert!(told <= book.killed.get(), "told of a death twice");
            reached(if told > 0 { "told of a death" } else { "through" });
            me.leaves_barrier(b);
        }));
    }
    world.check(move || book.check(3));
    world.prepare("last").last().run(move || settled(&stage, b, book, Some(0)));
}

#[test]
fn a_party_that_dies_blocks_none_of_those_that_have_joined() {
    searched_in(SCHEDULES, "joined", joined, &["told of a death", "through"]);
    stopped_in(SCHEDULES / 2, "joined", joined);
}

/// Three that only arrive; one takes its arrival back when its time is up, and comes again. `seated`: another member of each waits for it, as a task has it.
fn guests(world: &World, seated: bool) {
    let (stage, _) = Stage::with_blocks(world, 12, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 3, false), world.share(Book::default()));
    let all = NAMES.map(|name| world.prepare(name));
    for (at, (name, p)) in NAMES.into_iter().zip(all).enumerate() {
        let me = member(&stage, p, name, at, b, book);
        let waiter = if seated { stage.member(p, "waiter") } else { me };
        stage.reaper(stage.lasting(p, move || {
            let mut deadline = (at == 0).then(|| clock::now() + 100);
            loop {
                match book.note(me.passes_seated(b, &waiter, deadline)) {
                    Passed::TimedOut => reached("taken back"),
                    Passed::Turned(_, 0, died) if died > 0 => return reached("first after a death"),
                    Passed::Turned(..) => return reached("turned"),
                    other => panic!("{other:?}"),
                }
                deadline = None;
            }
        }));
    }
    // It died before it had arrived: the others wait for another.
    world.may_wait(move || all.iter().any(|p| p.fate() == Fate::Killed) && book.seen.borrow().is_empty());
    world.check(move || book.check(3));
    world.prepare("last").last().run(move || settled(&stage, b, book, Some(0)));
}

#[test]
fn an_arrival_that_is_taken_back_is_not_counted() {
    let world = |world: &World| guests(world, false);
    searched_in(SCHEDULES, "guests", world, &["taken back", "turned", "first after a death"]);
    stopped_in(SCHEDULES / 2, "guests", world);
}

#[test]
fn a_member_that_waits_for_the_arrival_of_another_misses_no_turn() {
    let world = |world: &World| guests(world, true);
    searched_in(SCHEDULES / 2, "guests_seated", world, &["taken back", "turned", "first after a death"]);
    stopped_in(SCHEDULES / 4, "guests_seated", world);
}

/// One's time is up, and breaks the barrier; a death breaks it, too.
fn breaking(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 3, true), world.share(Book::default()));
    for (at, name) in NAMES.into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        p.before(|| assert!(me.joins_barrier(b)));
        stage.reaper(stage.lasting(p, move || {
            let deadline = (at == 0).then(|| clock::now() + 100);
            match book.note(me.passes(b, deadline, true)) {
                Passed::Turned(_, _, 0) => reached("turned"),
                Passed::Broken => reached("broken"),
                other => panic!("{other:?}"),
            }
        }));
    }
    // It died before it had arrived.
    world.may_wait(move || book.killed.get() > 0 && book.seen.borrow().is_empty());
    world.check(move || {
        book.check(3);
        assert!(book.seen.borrow().is_empty() || book.broken.get() == 0, "it turned for one, and broke for another");
    });
    world.prepare("last").last().run(move || settled(&stage, b, book, Some(0)));
}

#[test]
fn a_round_turns_for_all_or_breaks_for_all() {
    searched_in(SCHEDULES, "breaking", breaking, &["turned", "broken"]);
    stopped_in(SCHEDULES / 2, "breaking", breaking);
}

/// Two parties, one of them for once each time; one other aborts and resets, while a fourth joins and leaves. At the end nobody is a party: also not
/// one that joined for once, and was refused before it had arrived.
fn reset(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 2, false), world.share(Book::default()));
    for (at, name) in ["one", "two"].into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        stage.reaper(stage.lasting(p, move || {
            for _ in 0..2 {
                let deadline = Some(clock::now() + 500);
                let passed = if at == 0 { me.passes_once(b, deadline) } else { me.passes(b, deadline, false) };
                match book.note(passed) {
                    Passed::Turned(..) => reached("turned"),
                    Passed::Broken => reached("broken"),
                    Passed::TimedOut => reached("taken back"),
                    Passed::Refused => reached("full"),
                    Passed::Dead => panic!("dead"),
                }
            }
            if at == 1 {
                me.leaves_barrier(b);
            }
        }));
    }
    let p = world.prepare("joiner");
    let me = member(&stage, p, "joiner", 2, b, book);
    stage.reaper(stage.lasting(p, move || {
        if me.joins_barrier(b) {
            step!("joined");
            me.leaves_barrier(b);
            reached("joined");
        }
    }));
    let p = world.prepare("resetter");
    let _me = member(&stage, p, "resetter", 3, b, book);
    stage.reaper(stage.lasting(p, move || {
        b.abort();
        b.reset();
    }));
    world.check(move || book.check(2));
    world.prepare("last").last().run(move || settled(&stage, b, book, Some(0)));
}

#[test]
fn a_barrier_is_as_new_after_a_reset() {
    searched_in(SCHEDULES, "reset", reset, &["turned", "broken", "full", "joined", "taken back"]);
    stopped_in(SCHEDULES / 2, "reset", reset);
}

/// A party dies between the rounds, and another joins in its place.
fn replaced(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 2, false), world.share(Book::default()));
    for (at, name) in NAMES.into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        let is_first = at < 2;
        if is_first {
            p.before(|| assert!(me.joins_barrier(b)));
        }
        stage.reaper(stage.lasting(p, move || {
            if !is_first && !me.joins_barrier(b) {
                // As a thread does that finds no place: nobody may have seen the death.
                stage.map.recover_dead();
                if !me.joins_barrier(b) {
                    return;
                }
            }
            match book.note(me.passes(b, None, false)) {
                Passed::Turned(..) if is_first => reached("turned"),
                Passed::Turned(..) => reached("in the place of a dead one"),
                other => panic!("{other:?}"),
            }
        }));
    }
    // It has joined after the others' round, and they do not come again; or both died, and it is alone at a barrier that is as new.
    world.may_wait(move || !book.seen.borrow().is_empty() || (0..2).all(|at| book.dead[at].get()));
    world.check(move || book.check(2));
    world.prepare("last").last().run(move || settled(&stage, b, book, None));
}

#[test]
fn another_joins_in_the_place_of_a_party_that_died() {
    searched_in(SCHEDULES, "replaced", replaced, &["turned", "in the place of a dead one"]);
    stopped_in(SCHEDULES / 2, "replaced", replaced);
}

/// One has joined; one has arrived for once, and dies; its successor comes to the same round, unless it has turned.
fn again(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 2, false), world.share(Book::default()));
    let p = world.prepare("victim");
    let victim = member(&stage, p, "victim", 0, b, book);
    p.before(|| {
        assert!(victim.arrives_at(b, true));
        book.killed.set(1);
    });
    // It exits at once: a death.
    p.run(|| {});
    let p = world.prepare("joined");
    let me = member(&stage, p, "joined", 1, b, book);
    p.before(|| assert!(me.joins_barrier(b)));
    stage.reaper(stage.lasting(p, move || match book.note(me.passes(b, None, false)) {
        Passed::Turned(..) => reached("turned"),
        other => panic!("{other:?}"),
    }));
    let p = world.prepare("successor");
    let me = member(&stage, p, "successor", 2, b, book);
    stage.reaper(stage.lasting(p, move || {
        me.recovers_at(b, &victim);
        match book.note(me.passes_once(b, None)) {
            Passed::Turned(_, _, 1..) => reached("in the place of a dead one"),
            Passed::Turned(..) => panic!("it was not told"),
            other => panic!("{other:?}"),
        }
    }));
    // It has come after the other's round: that one does not come again.
    world.may_wait(move || book.killed.get() > 1 || !book.seen.borrow().is_empty());
    world.check(move || book.check(2));
    world.prepare("last").last().run(move || settled(&stage, b, book, None));
}

#[test]
fn a_party_that_died_in_the_round_is_replaced_in_it() {
    searched_in(SCHEDULES / 2, "again", again, &["turned", "in the place of a dead one"]);
    stopped_in(SCHEDULES / 4, "again", again);
}

/// Three that come once to a barrier of two: the turn frees the places of the two that were faster, also while their threads have not gone on.
fn once(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 2, false), world.share(Book::default()));
    for (at, name) in NAMES.into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        stage.reaper(stage.lasting(p, move || {
            let Looked(_, _, _, turned, _) = b.look();
            match book.note(me.passes_once(b, Some(clock::now() + 500))) {
                Passed::Turned(..) => reached("turned"),
                Passed::TimedOut => reached(if turned > 0 { "a place from the turn on" } else { "too late" }),
                Passed::Refused => {
                    assert_eq!(turned, 0, "a round that has turned kept a place");
                    reached("full");
                }
                other => panic!("{other:?}"),
            }
        }));
    }
    world.check(move || book.check(2));
    world.prepare("last").last().run(move || settled(&stage, b, book, Some(0)));
}

#[test]
fn one_that_came_for_once_has_no_place_after_the_turn() {
    searched_in(SCHEDULES, "once", once, &["turned", "a place from the turn on", "too late", "full"]);
    stopped_in(SCHEDULES / 2, "once", once);
}

/// Two come for once to a barrier of two at which another has arrived for once. Each resets it first, one of them also breaks it. The first is no
/// party from then on, however late it goes on: it keeps no place, and no round misses it.
fn once_reset(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 2, false), world.share(Book::default()));
    let all = NAMES.map(|name| world.prepare(name));
    for (at, (name, p)) in NAMES.into_iter().zip(all).enumerate() {
        let me = member(&stage, p, name, at, b, book);
        if at == 0 {
            p.before(|| assert!(me.arrives_at(b, true)));
            stage.reaper(stage.lasting(p, move || {
                if me.waits_once(b, 0, None) == Passed::Broken {
                    reached("broken");
                }
            }));
            continue;
        }
        stage.reaper(stage.lasting(p, move || {
            if at == 2 {
                b.abort();
            }
            let mut resets = true;
            loop {
                if resets {
                    b.reset();
                }
                match book.note(me.passes_once(b, None)) {
                    Passed::Turned(_, _, died) => {
                        assert!(died == 0 || book.dead[3 - at].get(), "it was told of one that was in no round of it");
                        return reached(if died == 0 { "turned" } else { "told of a death" });
                    }
                    Passed::Broken => {
                        reached("again");
                        // Else the other's reset was it.
                        resets = b.look().4;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }));
    }
    // It died before it had arrived: the other waits for another.
    world.may_wait(move || all[1..].iter().any(|p| p.fate() == Fate::Killed) && book.seen.borrow().is_empty());
    world.check(move || book.check(2));
    world.prepare("last").last().run(move || settled(&stage, b, book, Some(0)));
}

#[test]
fn one_that_came_for_once_is_no_party_after_a_reset() {
    let seen = ["broken", "turned", "told of a death", "again"];
    searched_in(SCHEDULES, "once_reset", once_reset, &seen);
    stopped_in(SCHEDULES / 2, "once_reset", once_reset);
}

/// The barrier is removed, and another made in its slot, while two arrive.
fn removed(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 16);
    let (b, book) = (barrier(world, &stage, 2, false), world.share(Book::default()));
    for (at, name) in ["one", "two"].into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        stage.reaper(p.run(move || match book.note(me.passes(b, None, false)) {
            Passed::Turned(..) => reached("turned"),
            Passed::Dead => {
                // It may have turned for the other.
                book.killed.set(book.killed.get() + 1);
                reached("dead");
            }
            other => panic!("{other:?}"),
        }));
    }
    let p = world.prepare("remover");
    stage.member(p, "remover");
    stage.reaper(stage.lasting(p, move || {
        b.remove();
        if BarrierAt::make(stage.map, "next", 2, false).is_ok() {
            reached("another in the slot");
        }
    }));
    world.may_wait(move || book.killed.get() > 0);
    world.check(move || book.check(2));
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        if let Some(place) = stage.map.find("next") {
            let next = BarrierAt { map: stage.map, place };
            assert_eq!(next.look(), Looked(0, 0, 0, 0, false), "a late thread wrote into the next barrier");
        }
    });
}

#[test]
fn a_late_thread_writes_into_no_other_barrier() {
    searched_in(SCHEDULES, "removed", removed, &["turned", "dead"]);
    stopped_in(SCHEDULES / 2, "removed", removed);
}

/// One party of three has arrived and dies; the two others, which have not arrived, find that at once.
fn found_twice(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 1, 8);
    let (b, book) = (barrier(world, &stage, 3, false), world.share(Book::default()));
    let mut victim = None;
    for (at, name) in NAMES.into_iter().enumerate() {
        let p = world.prepare(name);
        let me = member(&stage, p, name, at, b, book);
        p.before(|| assert!(me.joins_barrier(b)));
        if at == 0 {
            p.before(|| assert!(me.arrives_at(b, false)));
            // It exits at once: a death.
            p.run(|| {});
            victim = Some(me);
        } else {
            let victim = victim.expect("the first");
            stage.lasting(p, move || {
                me.recovers_at(b, &victim);
                reached(["", "found", "found, too"][at]);
            });
        }
    }
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        let Looked(arrived, joined, dead, rounds, _) = b.look();
        assert_eq!((arrived, rounds), (0, 0), "it turned early");
        assert!(book.killed.get() > 0 || (joined, dead) == (2, 1), "{joined} have joined, {dead} are dead");
    });
}

#[test]
fn a_death_that_two_recover_at_once_is_one_death() {
    let report = Search::depth("found_twice_often", 2).schedules(30_000).run(found_twice);
    report.assert_clean();
    searched_in(SCHEDULES, "found_twice", found_twice, &["found", "found, too"]);
    stopped_in(SCHEDULES, "found_twice", found_twice);
}
