//! The ring of records, explored: every order of a few sends and receives, every process killed and stopped at every step, recoverers as well.
//! What must hold: an operation happened entirely or not at all; what was sent comes once, in its sender's order, and once more, marked, if its
//! receiver died; a stopped process delays no other; the dead leave all slots to the others.

use crate::records::{LAST, Stage, Way, explored, fill, look, receive, record, ring};
use chappe_arena::Visit;
use chappe_crashsim::{Fate, Search, World, reached};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_structures::record::Shape;
use std::cell::{Cell, RefCell};

/// A first lap that lets the lap end soon, or half of it, or that of a 32-bit cursor.
const EDGES: [u64; 4] = [0, (1 << 45) - 1, (1 << 44) - 1, (1 << 32) - 1];

fn many(slots: u32) -> Shape {
    Shape::many(slots, 16, 8)
}

/// Two senders and a receiver, by copies.
fn copies(world: &World, slots: u32, lap: u64) {
    let stage = Stage::new(world, many(slots), lap);
    stage.does(world, "one", 1, |s| (0..2).for_each(|i| _ = s.send(1, 100 + i)));
    stage.does(world, "other", 2, |s| _ = s.send(2, 200));
    stage.does(world, "receiver", 3, |s| (0..2).for_each(|_| _ = s.receive(3)));
    stage.recoverers(world, &[1, 2], false);
    stage.finally(world);
}

#[test]
fn a_record_comes_once_and_whole() {
    let way = Way { kills: 2, schedules: 20_000 };
    for (slots, lap) in [1, 2, 3, 2].into_iter().zip(EDGES) {
        let outcomes = ["empty", "past a stopped one", "past a dead one"];
        explored(&format!("record_copies_{slots}_{}", lap % 10), &way, |w| copies(w, slots, lap), &outcomes);
    }
}

/// Two senders, one of which writes in place, and two receivers.
fn places(world: &World, slots: u32) {
    let stage = Stage::new(world, many(slots), 0);
    stage.does(world, "in place", 1, |s| {
        _ = s.send_in_place(1, 100);
        _ = s.send_in_place(1, 101);
    });
    stage.does(world, "other", 2, |s| {
        _ = s.send(2, 200);
        if let Some(slot) = s.ring.reserve(2) {
            s.ring.abandon(slot);
        }
        _ = s.send(2, 201);
    });
    stage.does(world, "receiver", 3, |s| _ = (s.receive(3), s.receive(3)));
    stage.recoverers(world, &[1, 2], false);
    stage.finally(world);
}

#[test]
fn a_passed_over_record_is_sent_in_another_slot() {
    let way = Way { kills: 2, schedules: 20_000 };
    for slots in 1..=3 {
        explored(&format!("record_places_{slots}"), &way, |w| places(w, slots), &["past a stopped one"]);
    }
}

/// Two receivers read what is there in place; the recoverers may die as well.
fn loans(world: &World, shape: Shape) {
    let stage = Stage::new(world, shape, EDGES[1]);
    stage.prefill(2);
    stage.does(world, "one", 1, |s| _ = s.borrow_and_release(1));
    stage.does(world, "other", 2, |s| _ = (s.borrow_and_release(2), s.borrow_and_release(2)));
    stage.recoverers(world, &[1, 2], true);
    stage.finally(world);
}

/// The first receiver's death is made up for before the second one comes.
fn loans_in_turn(world: &World, shape: Shape) {
    let stage = Stage::new(world, shape, EDGES[1]);
    stage.prefill(1);
    stage.does(world, "one", 1, |s| _ = s.borrow_and_release(1));
    stage.recoverers(world, &[1, 2], false);
    stage.does(world, "other", 2, |s| _ = s.borrow_and_release(2));
    stage.finally(world);
}

#[test]
fn a_dead_receivers_record_comes_once_more() {
    let way = Way { kills: 3, schedules: 30_000 };
    for slots in 2..=3 {
        explored(&format!("record_loans_{slots}"), &way, |w| loans(w, many(slots)), &["again"]);
        let twice = Search::sweep(&format!("record_loans_in_turn_{slots}")).kills(2);
        twice.run(|w| loans_in_turn(w, many(slots))).assert_clean().assert_reached(&["again", "dropped"]);
    }
}

#[test]
fn a_dead_receivers_record_is_dropped_in_a_ring_that_drops() {
    let way = Way { kills: 3, schedules: 20_000 };
    explored("record_drops", &way, |w| loans(w, Shape { drops: true, ..many(2) }), &["dropped"]);
}

/// A process has borrowed a record beforehand, and is killed, or stopped, or gives it back late; others go round the
/// ring.
fn round(world: &World, slots: u32) {
    let stage = Stage::new(world, many(slots), EDGES[1]);
    stage.prefill(u64::from(slots));
    let p = stage.member(world, "slow", 1);
    let borrowed = p.before(|| stage.borrow(1)).expect("a record");
    p.run(move || stage.release(1, borrowed));
    stage.does(world, "sender", 2, |s| (0..2).for_each(|i| _ = s.send(2, 200 + i)));
    stage.does(world, "receiver", 3, move |s| (0..slots).for_each(|_| _ = s.receive(3)));
    stage.recoverers(world, &[1], true);
    stage.finally(world);
}

#[test]
fn a_held_slot_holds_up_no_other_end() {
    let way = Way { kills: 2, schedules: 20_000 };
    for slots in 2..=3 {
        explored(&format!("record_round_{slots}"), &way, |w| round(w, slots), &["again", "full", "past a stopped one"]);
    }
}

/// Ends that may have one handle only.
fn ends(world: &World, one_sender: bool, one_receiver: bool) {
    let stage = Stage::new(world, Shape { one_sender, one_receiver, ..many(2) }, EDGES[1]);
    stage.prefill(1);
    stage.does(world, "sender", 1, |s| (0..2).for_each(|i| _ = s.send_in_place(1, 100 + i)));
    if !one_sender {
        stage.does(world, "second", 2, |s| _ = s.send(2, 200));
    }
    stage.does(world, "receiver", 3, |s| _ = (s.borrow_and_release(3), s.receive(3)));
    if !one_receiver {
        stage.does(world, "another", 4, |s| _ = s.borrow_and_release(4));
    }
    stage.recoverers(world, &[1, 2, 3, 4], false);
    stage.finally(world);
}

#[test]
fn an_end_that_only_one_has_promises_the_same() {
    let way = Way { kills: 2, schedules: 15_000 };
    for (name, one_sender, one_receiver) in [("spmc", true, false), ("mpsc", false, true), ("spsc", true, true)] {
        explored(&format!("record_{name}"), &way, |w| ends(w, one_sender, one_receiver), &["past a dead one"]);
    }
}

/// A member has died with a record borrowed, and the ring has room besides. That record comes again, though the
/// receiver is not told of it, and recoverers die. Meanwhile it keeps no sender from sending. Where all is quiet no
/// process sends.
fn orphan(world: &World, quiet: bool) {
    let ring = ring(world, many(3), EDGES[1]);
    let send = move |message| {
        let (bytes, len) = record(message);
        assert!(ring.try_send(LAST, &bytes[..len]), "no hole for {message}");
    };
    (900..903).for_each(send);
    assert_eq!(receive(&ring), Some((900, false)));
    let _dead = ring.borrow(1).expect("a record");
    assert_eq!(receive(&ring), Some((902, false)));
    world.process("recoverer", move || ring.recover(&Visit::of_own_memory(), 1, || true, |_| ())).immortal();
    if !quiet {
        world.process("another", move || ring.recover(&Visit::of_own_memory(), 1, || true, |_| ()));
        world.process("sender", move || (100..102).for_each(send)).immortal();
    }
    let got = world.share(Cell::new(None));
    world.process("receiver", move || got.set(receive(&ring))).immortal();
    world.prepare("last").last().run(move || {
        let mut all: Vec<_> = got.get().into_iter().chain(std::iter::from_fn(|| receive(&ring))).collect();
        if got.get() == Some((901, true)) {
            reached("soon");
        }
        all.sort_unstable();
        let sent: &[_] = if quiet { &[] } else { &[(100, false), (101, false)] };
        assert_eq!(all, [sent, &[(901, true)]].concat());
    });
}

#[test]
fn a_redelivered_record_is_found_and_keeps_no_sender_from_sending() {
    let way = Way { kills: 1, schedules: 40_000 };
    explored("record_orphan", &way, |w| orphan(w, false), &["soon"]);
    // There the recoverer must come to its end: no process may be killed.
    let quiet = Search::depth("record_orphan_quiet", 3).schedules(40_000).run(|w| orphan(w, true));
    quiet.assert_clean().assert_reached(&["soon"]);
}

/// One receiver after the other. The first has died with two records, of different laps, while its sender goes on. The
/// second comes when it has recovered that death. Another recoverer is at it as well, and may be killed or stopped.
fn successor(world: &World, shape: Shape) {
    let ring = ring(world, shape, EDGES[1]);
    let send = move |message| {
        let (bytes, len) = record(message);
        ring.try_send(LAST, &bytes[..len])
    };
    assert!((900..903).all(send));
    assert_eq!(receive(&ring), Some((900, false)));
    let _one = ring.borrow(1).expect("901");
    assert_eq!(receive(&ring), Some((902, false)));
    assert!(send(903));
    let _other = ring.borrow(1).expect("903");
    let sent = world.share(RefCell::new(Vec::new()));
    let sender = move || {
        for message in 100..102 {
            if send(message) {
                sent.borrow_mut().push(message);
            }
        }
    };
    world.process("sender", sender).immortal();
    world.process("recoverer", move || ring.recover(&Visit::of_own_memory(), 1, || true, |_| ()));
    let got = world.share(RefCell::new(Vec::new()));
    let receiver = move || {
        ring.recover(&Visit::of_own_memory(), 1, || true, |_| ());
        while let Some((message, again)) = receive(&ring) {
            assert_eq!(again, message > 900);
            got.borrow_mut().push(message);
        }
    };
    world.process("successor", receiver).immortal();
    world.prepare("last").last().run(move || {
        if got.borrow().contains(&100) {
            reached("behind");
        }
        let mut all = got.borrow().clone();
        all.extend(std::iter::from_fn(|| receive(&ring)).map(|it| it.0));
        assert_eq!(all, [&[901, 903], &sent.borrow()[..]].concat(), "not in the sender's order");
    });
}

#[test]
fn a_redelivered_record_comes_before_all_later_ones() {
    let many = many(3);
    for (name, one_sender, one_receiver) in
        [("mpmc", false, false), ("mpsc", false, true), ("spmc", true, false), ("spsc", true, true)]
    {
        let world = move |w: &World| successor(w, Shape { one_sender, one_receiver, ..many });
        for search in [
            Search::depth(&format!("record_successor_{name}_depth"), 3).schedules(20_000),
            Search::sweep(&format!("record_successor_{name}_kill")).kills(1),
            Search::depth(&format!("record_successor_{name}_kill_depth"), 2).kills(1).schedules(20_000),
            Search::sweep(&format!("record_successor_{name}_stop")).stops(1),
            Search::priorities(&format!("record_successor_{name}_pct"), 5).stops(1).resume().schedules(10_000),
        ] {
            search.run(world).assert_clean().assert_reached(&["behind"]);
        }
    }
}

/// A record has come again, and its receiver puts it back; another receives, and both may die.
fn put_back(world: &World) {
    let ring = ring(world, many(2), EDGES[1]);
    let (bytes, len) = record(900);
    assert!(ring.try_send(LAST, &bytes[..len]));
    let _dead = ring.borrow(1).expect("what was sent");
    ring.recover(&Visit::of_own_memory(), 1, || true, |_| ());
    let doubtful = world.share(Cell::new(0));
    let fickle = world.prepare("fickle");
    fickle.run(move || {
        if let Some(borrowed) = ring.borrow(2) {
            assert_eq!((look(&ring, &borrowed), borrowed.again()), (900, true));
            ring.put_back(&borrowed, false, |_| ());
            reached("put back");
        }
    });
    let got = world.share(Cell::new(0));
    let receiver = world.prepare("receiver");
    receiver.run(move || {
        doubtful.set(1);
        got.set(usize::from(receive(&ring).is_some_and(|it| it == (900, true))));
        doubtful.set(0);
    });
    world.prepare("last").last().run(move || {
        for (me, p) in [(2, fickle), (3, receiver)] {
            if p.fate() == Fate::Killed {
                ring.recover(&Visit::of_own_memory(), me, || true, |_| ());
            }
        }
        let rest = std::iter::from_fn(|| receive(&ring)).count();
        let all = got.get() + rest + ring.dropped() as usize;
        assert!(all == 1 || (all == 0 && doubtful.get() == 1), "{all} of one");
        assert!(ring.dropped() == 0 || fickle.fate() == Fate::Killed, "dropped, and nobody has died");
    });
}

#[test]
fn a_record_that_a_living_receiver_puts_back_is_not_lost() {
    for search in [
        Search::depth("record_put_back_depth", 3).schedules(20_000),
        Search::sweep("record_put_back_kill").kills(1),
        Search::depth("record_put_back_kill_depth", 2).kills(1).schedules(20_000),
    ] {
        search.run(put_back).assert_clean().assert_reached(&["put back"]);
    }
}

/// One record comes again, one is sent, one is taken. The sender sees whether both are there: then something is at
/// every moment.
fn never_empty(world: &World) {
    let ring = ring(world, many(3), EDGES[1]);
    let send = move |message| {
        let (bytes, len) = record(message);
        assert!(ring.try_send(LAST, &bytes[..len]), "no hole for {message}");
    };
    send(900);
    let _dead = ring.borrow(1).expect("a record");
    ring.recover(&Visit::of_own_memory(), 1, || true, |_| ());
    let (both, nothing) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    let sender = move || {
        send(100);
        both.set(ring.len() == 2);
    };
    world.process("sender", sender).immortal();
    world.process("taker", move || _ = receive(&ring)).immortal();
    world.process("receiver", move || nothing.set(receive(&ring).is_none())).immortal();
    world.prepare("last").last().run(move || {
        for (is_it, how) in [(both.get(), "both"), (nothing.get(), "nothing")] {
            if is_it {
                reached(how);
            }
        }
        assert!(!(both.get() && nothing.get()), "nothing, it said, and there was something all the time");
    });
}

#[test]
fn an_empty_answer_was_right_at_some_moment() {
    Search::depth("record_never_empty", 3)
        .schedules(40_000)
        .run(never_empty)
        .assert_clean()
        .assert_reached(&["both", "nothing"]);
}

/// One record is in line, and another comes again. The taker of the first has looked for the second before that came.
/// So something is at every moment, and only a receiver that looks at the count once more sees it.
fn comes_again_late(world: &World) {
    let ring = ring(world, many(3), EDGES[1]);
    let send = move |message| {
        let (bytes, len) = record(message);
        assert!(ring.try_send(LAST, &bytes[..len]), "no hole for {message}");
    };
    send(800);
    send(900);
    let _others = (ring.borrow(3).expect("a record"), ring.borrow(1).expect("a record"));
    // From here on receivers look for redelivered records.
    ring.recover(&Visit::of_own_memory(), 3, || true, |_| ());
    assert_eq!(receive(&ring), Some((800, true)));
    send(100);
    let (both, nothing) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    let recoverer = move || {
        ring.recover(&Visit::of_own_memory(), 1, || true, |_| ());
        both.set(ring.len() == 2);
    };
    world.process("recoverer", recoverer).immortal();
    world.process("taker", move || _ = receive(&ring)).immortal();
    world.process("receiver", move || nothing.set(receive(&ring).is_none())).immortal();
    world.prepare("last").last().run(move || {
        for (is_it, how) in [(both.get(), "both"), (nothing.get(), "nothing")] {
            if is_it {
                reached(how);
            }
        }
        assert!(!(both.get() && nothing.get()), "nothing, it said, and there was something all the time");
    });
}

/// Small enough to be searched whole.
#[test]
fn an_empty_answer_follows_another_look_for_a_redelivered_record() {
    let report = Search::depth("record_late_again", 2).whole().run(comes_again_late);
    report.assert_clean().assert_reached(&["both", "nothing"]);
    assert!(report.complete(), "{} schedules, and not all", report.schedules());
}

/// All slots but that of a sender that was passed over are in use, by members that do nothing. Its own will do.
fn own_slot(world: &World, slots: u32) {
    let ring = ring(world, many(slots), EDGES[1]);
    let slot = ring.reserve(1).expect("a hole");
    let len = fill(&ring, &slot, 100);
    for i in 1..u64::from(slots) {
        let (bytes, len) = record(900 + i);
        assert!(ring.try_send(LAST, &bytes[..len]));
        let _idle = ring.borrow(2).expect("what was just sent");
    }
    world.process("passed over", move || ring.commit(slot, len).expect("its own slot")).immortal();
    let got = world.share(Cell::new(None));
    world.process("receiver", move || got.set(receive(&ring))).immortal();
    world.prepare("last").last().run(move || assert_eq!(got.get().or_else(|| receive(&ring)), Some((100, false))));
}

#[test]
fn a_passed_over_sender_may_use_its_own_slot() {
    for slots in 2..=3 {
        Search::depth(&format!("record_own_{slots}"), 4).run(|world: &World| own_slot(world, slots)).assert_clean();
    }
}

/// A member has died with a record borrowed. One process recovers it, and may come late, or die. Another one does so,
/// and gives the number to a new member, which borrows what comes next into the same slot, and recovers a second dead
/// member meanwhile.
fn renumbered(world: &World, drops: bool) {
    let ring = ring(world, Shape { drops, ..many(2) }, EDGES[1]);
    let send = move |message| {
        let (bytes, len) = record(message);
        assert!(ring.try_send(LAST, &bytes[..len]), "no hole for {message}");
    };
    send(900);
    send(901);
    let _dead = (ring.borrow(1).expect("a record"), ring.borrow(2).expect("a record"));
    let generation = world.share(AtomicU32::new(1));
    world.process("late", move || {
        ring.recover(&Visit::of_own_memory(), 1, || generation.load(Ordering::SeqCst) == 1, |_| ())
    });
    let other = world.prepare("other").immortal();
    other.run(move || {
        ring.recover(&Visit::of_own_memory(), 1, || generation.load(Ordering::SeqCst) == 1, |_| ());
        generation.store(2, Ordering::SeqCst);
        if !drops {
            assert_eq!(receive(&ring), Some((900, true)));
        }
        send(902);
        let borrowed = ring.borrow(1).expect("what was just sent");
        ring.recover(&Visit::of_own_memory(), 2, || true, |_| ());
        let again = if drops { None } else { Some((901, true)) };
        assert_eq!(receive(&ring), again);
        assert_eq!(look(&ring, &borrowed), 902);
        assert!(ring.release(borrowed), "it was taken away from its new owner");
    });
    world.prepare("last").last().run(move || {
        assert_eq!(receive(&ring), None);
        assert_eq!(ring.dropped(), if drops { 2 } else { 0 });
        reached("renumbered");
    });
}

#[test]
fn a_late_recoverer_harms_nobody_who_has_the_number_now() {
    for (name, drops) in [("again", false), ("drops", true)] {
        for search in [
            Search::depth(&format!("record_number_{name}_depth"), 4).schedules(30_000),
            Search::depth(&format!("record_number_{name}_kill"), 3).kills(1).schedules(30_000),
            Search::priorities(&format!("record_number_{name}_stop"), 5).stops(1).resume().schedules(10_000),
        ] {
            search.run(|world: &World| renumbered(world, drops)).assert_clean().assert_reached(&["renumbered"]);
        }
    }
}

/// Hints that are far behind, stored by a process that was stopped before its store.
fn far_behind(world: &World, filled: u64) {
    let stage = Stage::new(world, many(3), 1 << 40);
    stage.prefill(filled);
    let (tail, head) = stage.ring.hints();
    tail.store(1, Ordering::SeqCst);
    head.store(2, Ordering::SeqCst);
    world.steps_at_most(1_000);
    stage.does(world, "sender", 1, |s| _ = s.send(1, 100));
    stage.does(world, "receiver", 2, |s| _ = s.receive(2));
    stage.finally(world);
}

#[test]
fn a_hint_that_is_far_behind_is_no_long_way() {
    let way = Way { kills: 1, schedules: 5_000 };
    for filled in 0..=3 {
        explored(&format!("record_hints_{filled}"), &way, |w| far_behind(w, filled), &[]);
    }
}
