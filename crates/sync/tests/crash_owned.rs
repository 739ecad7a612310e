//! Owned semaphores, explored: kill and stop at every operation of wait, post, demotion, making, removal.
//!
//! What must hold. After each step (`Owned::new`): a unit that another process's post added is there only once the semaphore is demoted, which it
//! stays; only then is a permit retired; if a process died after the demotion, what it held is never free again. At the end (`Owned::settled`),
//! everything of the dead recovered, the units that are there:
//!
//! | | adds | |
//! |---|---|---|
//! | made | 1 | |
//! | a post that returned | 1 | |
//! | a post whose process was killed in it | 0 or 1 | 0 if the process still had the permit |
//! | a wait that returned | -1 | |
//! | a wait whose process was killed in it | -1 if the process has the permit, 0 if it had not been granted; else 0 or -1 | |
//! | the death of a process that has the permit, not demoted then | 0 or 1 | 1 if it never is demoted |
//! | the same, demoted, or said to end in good order | 0 | |
//!
//! No more than these, and no fewer; no thread sleeps while one is there; of a lock, one process is inside at a time.

#[path = "owned/unseen.rs"]
mod unseen;

use crate::crash::{Stage, searched, searched_in, stopped_in};
use crate::owned::{Actors, Doing, Owned, more};
use chappe_crashsim::{Fate, Search, World, process, reached};
use chappe_plat::atomic::{AtomicU32, Ordering::SeqCst};
use chappe_plat::futex::{self, Scope};
use chappe_sync::model::{self, Actor, EndAt, OwnedAt, Refusal};
use std::cell::Cell;

/// Two processes use it as a lock.
fn lockers(world: &World) {
    let (stage, s) = Owned::new(world, 10);
    s.locker(world, &stage, "one", "one done");
    s.locker(world, &stage, "other", "other done");
    s.last(world);
}

#[test]
fn a_lock_survives_kills_of_its_holders() {
    searched("lockers", lockers, &["one done", "other done", "settled, owned"]);
    stopped_in(2_000, "lockers", lockers);
}

/// A holder, and two waiters behind it: each may die at any moment.
fn line(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    s.giver(world, &stage, "holder");
    s.locker(world, &stage, "first", "first done");
    s.locker(world, &stage, "second", "second done");
    s.last(world);
}

#[test]
fn a_line_survives_kills() {
    searched_in(6_000, "owned_line", line, &["given back", "first done", "second done", "settled, owned"]);
}

/// A process without a permit posts, two want one each, and the books balance.
fn posted_for_two(world: &World, stage: &Stage, s: Owned) {
    s.foreigner(world, stage, "foreigner");
    s.taker(world, stage, "a", "a served");
    s.taker(world, stage, "b", "b served");
    s.may_wait_for_nothing(world);
    s.last(world);
}

/// One process has the permit, and lives or dies; another, which has not, posts; two want one each.
fn foreign(world: &World) {
    let (stage, s) = Owned::new(world, 14);
    let p = world.prepare("holder");
    s.holder(world, p, "holder");
    stage.lasting(p, || {});
    posted_for_two(world, &stage, s);
}

#[test]
fn a_foreign_post_against_the_holders_death() {
    searched_in(6_000, "foreign", foreign, &["posted", "a served", "b served"]);
    stopped_in(2_000, "foreign", foreign);
}

/// A process ends in good order, and so demotes what it has first; another posts for it.
fn demoted(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let p = world.prepare("producer");
    let a = s.holder(world, p, "producer");
    p.run(move || {
        assert!(a.owned.it.demote());
        s.gone();
        reached("ended");
    });
    posted_for_two(world, &stage, s);
}

#[test]
fn the_end_of_who_demotes_first_returns_nothing() {
    searched_in(6_000, "owned_demoted", demoted, &["ended", "posted", "a served", "b served"]);
}

/// A process declares that it ends in good order, and does, with what it has; another posts for it, perhaps.
fn ended(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let p = world.prepare("producer");
    let a = s.holder(world, p, "producer");
    p.run(move || {
        assert!(a.owned.it.keep(&a.process));
        s.gone();
        reached("ended");
    });
    posted_for_two(world, &stage, s);
}

#[test]
fn the_end_of_who_ends_in_good_order_returns_nothing() {
    searched_in(6_000, "owned_ended", ended, &["ended", "posted", "a served", "b served"]);
    stopped_in(2_000, "owned_ended", ended);
}

/// A process ends in good order, no other posts for it, and two recover it: the one that looks later finds the
/// semaphore demoted.
fn recovered(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let p = world.prepare("producer");
    let a = s.holder(world, p, "producer");
    p.run(move || {
        assert!(s.it.keep(&a.process));
        s.gone();
    });
    for name in ["one", "other"] {
        let r = world.prepare(name);
        stage.member(r, name);
        stage.lasting(r, move || {
            s.map.recover_dead();
            if s.it.is_retired() {
                reached(name);
            }
        });
    }
    world.prepare("last").last().run(move || {
        s.map.recover_dead();
        let gave_in = s.books.returns.get() > 0;
        assert_eq!((s.it.is_retired(), s.it.is_plain()), (!gave_in, !gave_in));
        s.settled();
    });
}

#[test]
fn recovery_of_who_ended_in_good_order_survives_kills() {
    searched_in(6_000, "owned_recovered", recovered, &["one", "other"]);
}

/// One thread declares that its process ends, while another gives back what it holds; two use it as a lock.
fn in_time(world: &World) {
    let (stage, s) = Owned::new(world, 14);
    let it = s.it;
    let p = world.prepare("holder");
    let a = s.holder(world, p, "holder");
    let took_along = world.share(Cell::new(false));
    p.on_death(move || took_along.set(it.is_kept() && it.is_held_by(&a.process)));
    p.thread("ends", move || reached(if it.keep(&a.process) { "said in time" } else { "said too late" }));
    stage.lasting(p, move || {
        assert!(a.post());
        reached("given back");
    });
    s.locker(world, &stage, "one", "one done");
    s.locker(world, &stage, "other", "other done");
    s.may_wait_for_nothing(world);
    world.prepare("last").last().run(move || {
        s.settled();
        assert!(!it.is_plain() || took_along.get(), "a lock was demoted");
    });
}

#[test]
fn a_release_before_the_process_ends_keeps_the_semaphore_a_lock() {
    let outcomes = ["said in time", "said too late", "given back", "one done", "other done", "settled, owned"];
    searched_in(6_000, "owned_in_time", in_time, &outcomes);
}

/// The holder gives back, and another process adds one, for two waiters.
fn granted(world: &World) {
    let (stage, s) = Owned::new(world, 14);
    s.giver(world, &stage, "holder");
    posted_for_two(world, &stage, s);
}

#[test]
fn demotion_against_a_grant() {
    searched_in(6_000, "owned_granted", granted, &["given back", "posted", "a served", "b served"]);
    stopped_in(2_000, "owned_granted", granted);
}

/// The time may be up at any moment, also while either is being granted.
fn time_out(world: &World) {
    let (stage, s) = Owned::new(world, 14);
    let p = world.prepare("holder");
    let a = s.holder(world, p, "holder");
    stage.lasting(p, move || assert!(a.post()));
    s.foreigner(world, &stage, "foreigner");
    let h = world.prepare("hasty");
    let hasty = s.actors(world, h, "hasty");
    stage.reaper(stage.lasting(h, move || {
        for _ in 0..2 {
            match hasty.wait(Some(chappe_plat::clock::now() + 1000)) {
                Ok(()) => {
                    reached("in time");
                    assert!(hasty.post());
                }
                Err(Refusal::TimedOut) => reached("too late"),
                Err(e) => panic!("{e:?}"),
            }
        }
    }));
    s.taker(world, &stage, "patient", "patient served");
    s.may_wait_for_nothing(world);
    s.last(world);
}

#[test]
fn time_outs_survive_kills() {
    searched_in(6_000, "owned_time_out", time_out, &["in time", "too late", "posted", "patient served"]);
}

/// One gives back, another takes what is in the count, a third looks meanwhile.
fn tries(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let it = s.it;
    let p = world.prepare("holder");
    let a = s.holder(world, p, "holder");
    stage.lasting(p, move || assert!(a.post()));
    let f = world.prepare("foreigner");
    let foreigner = s.actors(world, f, "foreigner");
    f.before(|| assert!(foreigner.post()));
    stage.lasting(f, || {});
    let t = world.prepare("taker");
    let taker = s.actors(world, t, "taker");
    stage.lasting(t, move || {
        if taker.try_wait().is_ok() {
            reached("taken");
        }
    });
    // Whether there was a moment with nothing since a process began to look.
    let none = world.share(Cell::new(false));
    world.invariant(move || {
        if !it.is_there() && it.count() == 0 {
            none.set(true);
        }
    });
    let p = world.prepare("prober");
    let prober = s.actors(world, p, "prober");
    stage.lasting(p, move || {
        none.set(false);
        assert!(it.value() > 0 || none.get(), "its value was never 0");
        none.set(false);
        match it.try_again(&prober.process) {
            Ok(()) => reached("tried in time"),
            Err(Refusal::NoneFree) => {
                assert!(none.get(), "there always was one");
                reached("tried in vain");
            }
            Err(e) => panic!("{e:?}"),
        }
    });
}

#[test]
fn none_is_said_only_if_there_was_none_at_one_moment() {
    let all = [
        Search::depth("owned_tries", 3).schedules(60_000).run(tries),
        Search::priorities("owned_tries_pct", 4).schedules(20_000).run(tries),
        Search::sweep("owned_tries_sweep").kills(1).run(tries),
    ];
    for report in &all {
        report.assert_clean();
    }
    all[1].assert_reached(&["taken", "tried in time", "tried in vain"]);
}

/// Two threads of the process that has it post at once: one gives it back, the other adds one.
fn twice(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let p = world.prepare("holder");
    let a = s.holder(world, p, "holder");
    let other = Actors { doing: world.share(Cell::new(Doing::Nothing)), ..a };
    let has_posted = world.share(Cell::new(false));
    p.on_death(move || {
        // Of a thread that has the permit no more by then, `Actors::dies` asks only for the main one.
        if other.doing.get() == Doing::Posts {
            more(&s.books.perhaps_posts);
        }
    });
    p.thread("another", move || {
        assert!(other.post());
        has_posted.set(true);
    });
    stage.lasting(p, move || {
        assert!(a.post());
        reached("posted");
    });
    s.taker(world, &stage, "a", "a served");
    s.taker(world, &stage, "b", "b served");
    s.may_wait_for_nothing(world);
    s.last(world);
}

#[test]
fn two_posts_by_one_process_give_two_units() {
    searched_in(6_000, "owned_twice", twice, &["posted", "a served", "b served"]);
}

/// A process whose process_member is a thread of its own, which dies before or after the one that is inside; its number goes to another.
fn process_member(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let map = stage.map;
    let p = world.prepare("process");
    let joined: std::rc::Rc<Cell<Option<Actor>>> = std::rc::Rc::default();
    let (attachment, hands) = (joined.clone(), joined);
    let began = world.share(AtomicU32::new(0));
    let pid = p.pid();
    p.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    p.daemon("process_member", move || {
        attachment.set(Some(Actor::join_for_process(map, "process").expect("a slot")));
        began.store(1, SeqCst);
        futex::wake(&began, 1, Scope::Private);
        process::linger();
    });
    p.on_death(move || {
        if s.books.inside.get() == pid {
            s.books.inside.set(0);
        }
    });
    p.run(move || {
        while began.load(SeqCst) == 0 {
            futex::wait(&began, 0, None, Scope::Private);
        }
        let process = hands.take().expect("it has joined");
        let me = Actor::join(map, "process").expect("a slot");
        s.it.wait(&me, &process, None).expect("the lock");
        assert_eq!(s.books.inside.replace(pid), 0, "two are inside");
        chappe_plat::step!("is inside");
        assert_eq!(s.books.inside.replace(0), pid);
        assert!(s.it.post(&process));
        reached("done");
    });
    stage.reaper(p);
    let next = world.successor("next", p).immortal();
    next.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    next.run(process::linger);
    s.locker(world, &stage, "locker", "locker done").immortal();
    world.prepare("last").last().run(move || {
        map.recover_dead();
        assert_eq!(s.it.value(), 1);
        assert!(!s.it.is_plain(), "a lock was demoted");
    });
}

#[test]
fn a_process_has_it_and_not_its_threads() {
    searched_in(6_000, "owned_custodian", process_member, &["done", "locker done"]);
}

/// The semaphore is removed under a waiter and a poster, and made anew in the same two slots.
fn removal(world: &World) {
    let (stage, s) = Owned::new(world, 14);
    let (map, it) = (stage.map, s.it);
    let p = world.prepare("holder");
    let a = s.holder(world, p, "holder");
    stage.lasting(p, move || reached(if it.post(&a.process) { "given back in time" } else { "given back too late" }));
    let f = world.prepare("foreigner");
    let foreigner = s.actors(world, f, "foreigner");
    stage.lasting(f, move || reached(if it.post(&foreigner.process) { "posted in time" } else { "posted too late" }));
    let w = world.prepare("waiter");
    let waiter = s.actors(world, w, "waiter");
    stage.reaper(stage.lasting(w, move || match it.wait(&waiter.me, &waiter.process, None) {
        Ok(()) => reached("served before"),
        Err(Refusal::Dead(_)) => reached("told"),
        Err(e) => panic!("{e:?}"),
    }));
    let r = world.prepare("remover");
    stage.member(r, "remover");
    stage.lasting(r, move || {
        it.remove();
        reached("removed");
        // In the same slots, as soon as no bit stands on them.
        if OwnedAt::make(map, "next").is_ok() {
            reached("made anew");
        }
    });
    world.prepare("last").last().run(move || {
        map.recover_dead();
        if let Some(there) = OwnedAt::find(map, "s") {
            there.remove();
        }
        let next = OwnedAt::make(map, "next").expect("the room of the one before");
        assert_eq!((next.value(), next.is_plain()), (1, false), "the next one is not as new");
        let process = Actor::join_for_process(map, "last").expect("a slot");
        assert_eq!(next.try_wait(&process), Ok(()));
        assert!(next.post(&process) && !next.is_plain());
        assert_eq!(model::sweep_parts(map), 0);
    });
}

#[test]
fn removal_survives_kills() {
    let outcomes = [
        "given back in time",
        "given back too late",
        "posted in time",
        "posted too late",
        "served before",
        "told",
        "removed",
        "made anew",
    ];
    searched_in(6_000, "owned_removal", removal, &outcomes);
}

/// Two make it, of one name, in an arena with room for one.
fn making(world: &World) {
    let (stage, s) = Owned::new(world, 8);
    let map = stage.map;
    s.it.remove();
    for name in ["one", "other"] {
        let p = world.prepare(name);
        stage.member(p, name);
        stage.lasting(p, move || {
            let it = OwnedAt::make(map, "s").expect("room for one");
            assert_eq!(it.value(), 1);
            reached(name);
        });
    }
    world.prepare("last").last().run(move || {
        map.recover_dead();
        let it = OwnedAt::make(map, "s").expect("what a killed maker left is not in the way");
        assert_eq!((it.value(), it.is_plain()), (1, false));
        assert_eq!(model::sweep_parts(map), 0);
    });
}

#[test]
fn making_survives_kills() {
    searched_in(6_000, "owned_making", making, &["one", "other"]);
}

/// One thread declares that its process ends, while another takes what has just come free: the later of the two marks
/// it (E3).
fn taken_late(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let it = s.it;
    s.giver(world, &stage, "holder");
    let p = world.prepare("producer");
    let a = s.actors(world, p, "producer");
    let end = world.share(EndAt::default());
    let [said, took] = [(); 2].map(|()| world.share(Cell::new(false)));
    let marked = move || {
        if said.get() && took.get() && it.is_held_by(&a.process) {
            assert!(it.is_kept(), "a process has said that it ends, and would return what it has taken");
        }
    };
    p.on_death(marked);
    // It may still mark what its process has for a moment after the other one's death.
    p.thread("ends", move || {
        it.ends(&a.process, &end);
        said.set(true);
        reached("said");
        marked();
    });
    stage.reaper(stage.lasting(p, move || {
        a.wait(None).expect("a unit");
        it.taken(&a.process, &end);
        took.set(true);
        reached(if said.get() { "taken late" } else { "taken in time" });
        marked();
    }));
    s.taker(world, &stage, "a", "a served");
    s.may_wait_for_nothing(world);
    s.last(world);
}

#[test]
fn a_unit_taken_after_the_end_is_declared_goes_with_the_process() {
    let outcomes = ["given back", "taken late", "taken in time", "said", "a served", "settled, owned"];
    searched_in(6_000, "owned_taken_late", taken_late, &outcomes);
}

/// A waiter waits. Another comes when it has been told that the first one does, and a process without a permit posts:
/// the first comes first.
fn listed(world: &World) {
    let (stage, s) = Owned::new(world, 14);
    let h = world.prepare("holder");
    s.holder(world, h, "holder");
    // Its death would give a second unit: both would be served at once.
    stage.lasting(h.immortal(), || {});
    let served = world.share(Cell::new(false));
    let w = world.prepare("first");
    let first = s.actors(world, w, "first");
    stage.reaper(stage.lasting(w, move || {
        first.wait(None).expect("a unit");
        served.set(true);
        assert!(first.post());
        reached("first served");
    }));
    let p = world.prepare("second");
    let second = s.actors(world, p, "second");
    stage.reaper(stage.lasting(p, move || {
        while s.it.waiters().is_empty() && !served.get() && w.fate() == Fate::Alive {
            chappe_plat::atomic::pause();
        }
        second.wait(None).expect("a unit");
        assert!(served.get() || w.fate() != Fate::Alive, "the second overtook who waited");
        reached("second served");
    }));
    s.foreigner(world, &stage, "foreigner");
    s.may_wait_for_nothing(world);
    s.last(world);
}

#[test]
fn a_listed_waiter_is_not_overtaken() {
    searched_in(6_000, "owned_listed", listed, &["posted", "first served", "second served"]);
}

/// One of two posters is stopped for ever, perhaps between its grant and the wake. What the other one gives is the
/// waiter's.
fn beside_a_stopped(world: &World, foreign_first: bool) {
    let (stage, s) = Owned::new(world, 12);
    let (h, f) = (world.prepare("holder"), world.prepare("foreigner"));
    let (holder, foreigner) = (s.holder(world, h, "holder"), s.actors(world, f, "foreigner"));
    let ((first, one), (second, other)) =
        if foreign_first { ((f, foreigner), (h, holder)) } else { ((h, holder), (f, foreigner)) };
    let done = world.share(Cell::new(false));
    stage.lasting(first, move || {
        assert!(one.post());
        done.set(true);
    });
    stage.lasting(second.immortal(), move || {
        while first.fate() == Fate::Alive && !done.get() {
            chappe_plat::atomic::pause();
        }
        if first.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
        assert!(other.post());
    });
    s.taker(world, &stage, "waiter", "got on").immortal();
}

#[test]
fn a_post_beside_a_stopped_poster_serves_the_waiter() {
    for foreign_first in [true, false] {
        let name = if foreign_first { "owned_past_foreigner" } else { "owned_past_holder" };
        let world = |world: &World| beside_a_stopped(world, foreign_first);
        let all = [
            Search::sweep(&format!("{name}_sweep")).stops(1),
            Search::depth(&format!("{name}_depth"), 2).stops(1).schedules(20_000),
            Search::priorities(&format!("{name}_pct"), 6).stops(1).schedules(3_000),
        ]
        .map(|search| search.run(world));
        all.iter().for_each(|report| _ = report.assert_clean());
        for outcome in ["got on", "past a stopped one"] {
            assert!(all.iter().any(|r| r.outcomes().contains_key(outcome)), "{name} never came to `{outcome}`");
        }
    }
}
