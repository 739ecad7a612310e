//! A choice with a default, or a deadline, explored: it reports that nothing was there only if at some moment nothing was. One thing is carried
//! between objects of every kind meanwhile: before it is taken from one there is one in another.

use crate::crash::Stage;
use chappe_crashsim::{Process, Search, Shared, World, process, reached};
use chappe_plat::clock;
use chappe_sync::model::{
    Actor, AnyAt, Arms, CastAt, End, HeardAt, NamedAt, PoolAt, SemaphoreAt, Share, TubeAt, Way, When,
};
use std::cell::Cell;

/// How often the one thing changes hands.
const MOVES: usize = 4;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unit,
    /// Of a semaphore whose waiters may be overtaken.
    Barged,
    Permit,
    Message,
    Unbounded,
    Hole,
    Record,
    /// That all publishers of a broadcast tube have gone.
    Ended,
}

use Kind::*;

#[derive(Clone, Copy)]
enum Thing {
    Units(SemaphoreAt),
    Pool(PoolAt),
    Messages(Shared<TubeAt>),
    Holes(Shared<TubeAt>),
    Records(NamedAt),
    Ends(Shared<HeardAt>),
}

impl Thing {
    /// A subscription is of that one.
    fn new(world: &World, stage: &Stage, pools: &mut Vec<PoolAt>, kind: Kind, name: &str, me: &Actor) -> Thing {
        match kind {
            Unit | Barged => Thing::Units(SemaphoreAt::make(stage.map, name, 0, kind == Barged).expect("a semaphore")),
            Permit => Thing::Pool(pools.pop().expect("a pool for each")),
            Message => Thing::Messages(world.share(TubeAt::bounded(stage.map, 2))),
            Unbounded => Thing::Messages(world.share(TubeAt::unbounded(stage.map))),
            Hole => Thing::Holes(world.share(TubeAt::bounded(stage.map, 1))),
            Ended => {
                let tube = CastAt::make(stage.map, name, 2, 1).expect("a tube");
                let who = me.subscribes(tube, When::Block).expect("room");
                Thing::Ends(world.share(HeardAt::of(tube, who)))
            }
            Record => Thing::Records(NamedAt::make(stage.map, name, 2, [false; 2], false).expect("a tube")),
        }
    }

    fn way(&self) -> Way<'_> {
        match self {
            Thing::Units(semaphore) => Way::Down(*semaphore),
            Thing::Pool(pool) => Way::Acquire(*pool),
            Thing::Messages(tube) => Way::Recv(tube),
            Thing::Holes(tube) => Way::Send(tube),
            Thing::Records(tube) => Way::Get(*tube),
            Thing::Ends(heard) => Way::Gone(heard),
        }
    }

    /// Whether there is one before any process has given one.
    fn begins_with_one(&self) -> bool {
        matches!(self, Thing::Pool(_) | Thing::Holes(_))
    }
}

/// Two things, the first of which has one; and the process and member of the carrier.
fn laid(world: &World, kinds: [Kind; 2], members: u32) -> (Stage, [Thing; 2], Process, Actor, Shared<Share>) {
    let permits: Vec<u32> = kinds.iter().filter(|kind| **kind == Permit).map(|_| 1).collect();
    let (stage, mut pools) = Stage::with_blocks(world, members, &permits, 10, 32);
    let carrier = world.prepare("carrier");
    let me = stage.member(carrier, "carrier");
    let things = [("one", kinds[0]), ("two", kinds[1])]
        .map(|(name, kind)| carrier.before(|| Thing::new(world, &stage, &mut pools, kind, name, &me)));
    let share = world.share(Share::default());
    carrier.before(|| {
        for thing in &things {
            if let Thing::Records(tube) = thing {
                tube.both_ends(stage.map, &me);
            }
        }
        if !things[0].begins_with_one() {
            me.give_share(&things[0].way(), &share);
        }
        if things[1].begins_with_one() {
            assert!(me.take_share(&things[1].way(), &share));
        }
    });
    (stage, things, carrier, me, share)
}

/// After each look at an empty place the thing is carried there, up to so many times, so that the chooser always looks
/// in vain.
fn led(world: &World, kinds: [Kind; 2], moves: usize) {
    let (stage, things, carrier, other, share) = laid(world, kinds, 6);
    carrier.run(chappe_crashsim::process::linger);
    for (thing, name) in things.iter().zip(["told once", "told too"]) {
        // A waiter that was told of a unit and has not come for it: no other is told of the next unit.
        if let Thing::Units(semaphore) = thing
            && semaphore.may_be_overtaken()
        {
            let p = world.prepare(name);
            let me = stage.member(p, name);
            p.before(|| me.get_in_line(*semaphore));
            p.run(chappe_crashsim::process::linger);
        }
    }
    let chooser = world.prepare("chooser");
    let me = stage.member(chooser, "chooser");
    stage.lasting(chooser, move || {
        let (at, left) = (Cell::new(0), Cell::new(moves));
        let seen = |arm: usize| {
            // The arms are in the opposite order.
            let there = 1 - arm;
            if there != at.get() && left.get() > 0 {
                left.set(left.get() - 1);
                other.give_share(&things[there].way(), &share);
                if other.take_share(&things[at.get()].way(), &share) {
                    at.set(there);
                }
            }
        };
        let got = me.one_of(&[things[1].way(), things[0].way()], None, &seen);
        assert!(got.is_some(), "{kinds:?}: at each moment there was one");
        reached("found");
    });
}

#[test]
fn however_often_it_is_carried_past_who_looks() {
    let kinds = [Unit, Barged, Permit, Message, Unbounded, Hole, Record, Ended];
    for one in kinds {
        for two in kinds {
            for moves in 1..12 {
                let name = format!("led_{one:?}_{two:?}_{moves}").to_lowercase();
                let world = move |world: &World| led(world, [one, two], moves);
                let report = Search::depth(&name, 0).schedules(1).run(world);
                report.assert_clean();
                assert!(report.outcomes().contains_key("found"), "{one:?} {two:?} {moves}");
            }
        }
    }
}

/// A chooser looks for a thing in two places, or for so long; a carrier brings it from the first to the second and
/// back.
fn carried(world: &World, kinds: [Kind; 2], waits: bool) {
    let (stage, things, carrier, me, share) = laid(world, kinds, 4);
    stage.lasting(carrier, move || {
        let mut at = 0;
        for _ in 0..MOVES {
            me.give_share(&things[1 - at].way(), &share);
            if !me.take_share(&things[at].way(), &share) {
                // The other has it.
                return;
            }
            at = 1 - at;
        }
    });
    let chooser = world.prepare("chooser");
    let me: Actor = stage.member(chooser, "chooser");
    stage.lasting(chooser, move || {
        // The empty one first.
        let ways = [things[1].way(), things[0].way()];
        let got = me.one_of(&ways, waits.then(|| clock::now() + 1000), &|_| ());
        assert!(got.is_some(), "{kinds:?}: at each moment there was one");
        reached("found");
    });
}

fn explored(kinds: [Kind; 2]) {
    for waits in [false, true] {
        let world = move |world: &World| carried(world, kinds, waits);
        let name = format!("{:?}_{:?}_{waits}", kinds[0], kinds[1]).to_lowercase();
        for search in [
            Search::depth(&format!("{name}_depth"), 3).schedules(800),
            Search::priorities(&format!("{name}_pct"), 6).schedules(800),
            Search::uniform(&format!("{name}_uniform")).schedules(400),
        ] {
            let report = search.run(world);
            report.assert_clean();
            assert!(report.outcomes().contains_key("found"));
        }
    }
}

#[test]
fn a_spinning_chooser_finds_each_kind_that_has_a_mark() {
    for kinds in [
        [Message, Message],
        [Unbounded, Message],
        [Message, Hole],
        [Hole, Hole],
        [Record, Record],
        [Record, Message],
        [Ended, Ended],
        [Message, Ended],
    ] {
        explored(kinds);
    }
}

#[test]
fn one_that_has_none() {
    for kinds in [[Unit, Message], [Message, Unit], [Record, Permit], [Barged, Hole], [Unit, Ended]] {
        explored(kinds);
    }
}

#[test]
fn two_that_have_none() {
    for kinds in [[Unit, Unit], [Permit, Permit], [Unit, Permit], [Barged, Barged], [Barged, Unit], [Barged, Permit]] {
        explored(kinds);
    }
}

/// Two tubes without slots: the thread that took over from the first sender waits at the second before that one is met.
fn met(world: &World) {
    let (stage, _) = Stage::new(world, 6, &[], 8);
    let tubes = [(); 2].map(|()| world.share(TubeAt::bounded(stage.map, 0)));
    for (at, name) in ["sender", "other"].into_iter().enumerate() {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.lasting(p, move || _ = me.send(&tubes[at], 7, None));
    }
    let carrier = world.prepare("carrier");
    let me = stage.member(carrier, "carrier");
    stage.lasting(carrier, move || {
        me.ready(&Arms(vec![End::Recv(&tubes[1])]), None);
        tubes[0].try_recv();
    });
    let chooser = world.prepare("chooser");
    let me = stage.member(chooser, "chooser");
    stage.lasting(chooser, move || {
        me.ready(&Arms(vec![End::Recv(&tubes[0])]), None);
        let got = me.one_of(&[Way::Recv(&tubes[1]), Way::Recv(&tubes[0])], None, &|_| ());
        assert!(got.is_some(), "at each moment somebody was there");
        reached("found");
    });
    // The thread that is left over waits for ever; and so does the chooser, if the first had gone before it looked for
    // the first time.
    world.may_wait(|| true);
}

#[test]
fn a_spinning_chooser_finds_a_sender_at_tubes_without_slots() {
    for search in [Search::depth("met_depth", 3).schedules(2_000), Search::priorities("met_pct", 6).schedules(2_000)] {
        let report = search.run(met);
        report.assert_clean();
        assert!(report.outcomes().contains_key("found"));
    }
}

/// The chooser is not made to wait: a choice of what is not there comes to its default.
#[test]
fn a_choice_of_what_is_not_there_comes_to_its_default() {
    for waits in [false, true] {
        let world = |world: &World| {
            let (stage, pools) = Stage::with_blocks(world, 3, &[1], 16, 32);
            let mut pools = pools;
            let kinds = [Unit, Barged, Permit, Message, Hole, Ended];
            let chooser = world.prepare("chooser");
            let me = stage.member(chooser, "chooser");
            let things = kinds.map(|kind| {
                let name = format!("{kind:?}").to_lowercase();
                chooser.before(|| Thing::new(world, &stage, &mut pools, kind, &name, &me))
            });
            let share = world.share(Share::default());
            chooser.before(|| {
                for thing in things.iter().filter(|thing| thing.begins_with_one()) {
                    assert!(me.take_share(&thing.way(), &share));
                }
            });
            stage.lasting(chooser, move || {
                let ways = things.each_ref().map(Thing::way);
                assert_eq!(me.one_of(&ways, waits.then(|| clock::now() + 1000), &|_| ()), None);
                reached("default");
            });
        };
        let report = Search::depth(&format!("nothing_{waits}"), 1).schedules(500).run(world);
        report.assert_clean();
        assert!(report.outcomes().contains_key("default"));
    }
}

/// A waiter of a semaphore whose waiters may be overtaken is told of a unit, and is stopped before it takes it. Another waiter's time is up later.
fn told_and_stopped(world: &World, choice: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let [s, empty] = ["s", "empty"].map(|name| SemaphoreAt::make(stage.map, name, 0, true).expect("a semaphore"));
    let told = world.prepare("told");
    let first = stage.member(told, "told");
    told.before(|| _ = first.get_in_line(s));
    told.run(process::linger);
    let given = world.share(Cell::new(false));
    let waiter = world.prepare("waiter");
    let me = stage.member(waiter, "waiter");
    stage.lasting(waiter, move || {
        let limit = Some(clock::now() + 1000);
        let arms = [AnyAt::Semaphore(empty), AnyAt::Semaphore(s)];
        match if choice { me.choose(&arms, limit).map(|_| ()) } else { me.down(s, limit) } {
            Ok(()) => reached("taken"),
            Err(e) => assert!(!given.get(), "{e:?}, and the unit is there"),
        }
    });
    let giver = world.prepare("giver");
    stage.member(giver, "giver");
    stage.lasting(giver, move || {
        assert!(s.up(1));
        given.set(true);
    });
    world.may_wait(|| true);
}

/// Without preemptions the waiter decides, looks and answers in one piece.
#[test]
fn a_unit_that_a_stopped_waiter_was_told_of_is_taken_by_the_next() {
    for choice in [false, true] {
        let name = if choice { "told_and_stopped_choice" } else { "told_and_stopped" };
        let report = Search::depth(name, 0).schedules(20_000).run(|world| told_and_stopped(world, choice));
        report.assert_clean().assert_reached(&["taken"]);
    }
}
