//! Barriers, between the threads of a process and between processes: rounds, indices, time-outs, choice, and what a death leaves.

use crate::house::{House, LONG, ROLE, eventually, listen, say};
use chappe::{
    Arena, Barrier, BarrierError, Broke, HelpLock, Interrupt, ObjectError, Select, Semaphore, interruptible, select,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let barrier = Barrier::open("b").unwrap();
    match role.as_str() {
        "wait" => {
            say("ready");
            listen();
            say(&match barrier.wait_once() {
                Ok(_) => "turned".into(),
                Err(e) => e.to_string(),
            });
        }
        // The last: it does not wait for its turn.
        "once" => {
            std::mem::forget(barrier.arrive_once().unwrap());
            say("arrived");
            listen();
        }
        // Joins, and then does as it is told.
        "join" => {
            barrier.join().unwrap();
            say("joined");
            loop {
                match listen().as_str() {
                    "wait" => say(if barrier.wait().is_ok() { "turned" } else { "failed" }),
                    // Without leaving.
                    // SAFETY: it ends the process.
                    "exit" => unsafe { libc::_exit(0) },
                    _ => break,
                }
            }
            barrier.leave().unwrap();
        }
        other => panic!("no such role: {other}"),
    }
}

fn arrived(barrier: &Barrier, count: u32) {
    eventually(&format!("{count} have arrived"), || barrier.info().unwrap().arrived == count);
}

fn asleep(name: &str, count: u32) {
    let arena = Arena::open("default").unwrap();
    eventually(&format!("{count} wait"), || arena.object(name).unwrap().waiting == count);
}

#[test]
fn each_round_turns_once_all_have_arrived_and_one_party_has_index_0() {
    let _house = House::new("barrier-rounds");
    const ROUNDS: u64 = 200;
    for (barrier, parties) in
        [(Barrier::private(1).unwrap(), 1u32), (Barrier::private(4).unwrap(), 4), (Barrier::create("b", 3).unwrap(), 3)]
    {
        let (begun, sums) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..parties {
                s.spawn(|| {
                    for round in 0..ROUNDS {
                        // Relaxed, both: what comes before a turn is seen behind it by the barrier's own edge.
                        begun.fetch_add(1, Ordering::Relaxed);
                        let turn = barrier.wait().unwrap();
                        assert_eq!(turn.round, round);
                        assert!(begun.load(Ordering::Relaxed) >= (round + 1) * u64::from(parties), "it turned early");
                        // Different indices: one bit for each. Relaxed: as above.
                        sums.fetch_add(1 << (turn.index * 16), Ordering::Relaxed);
                    }
                });
            }
        });
        let each = (0..parties).map(|index| ROUNDS << (index * 16)).sum::<u64>();
        // Relaxed: behind the join.
        assert_eq!(sums.load(Ordering::Relaxed), each, "an index was given twice");
        let info = barrier.info().unwrap();
        assert_eq!((info.rounds, info.arrived, info.dead), (ROUNDS, 0, 0));
    }
}

#[test]
fn an_arrival_that_times_out_is_taken_back_and_the_others_wait_on() {
    let _house = House::new("barrier-time");
    for barrier in [Barrier::private(2).unwrap(), Barrier::create("b", 2).unwrap()] {
        let late = barrier.wait_timeout(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(late, BarrierError::Timeout), "{late}");
        assert!(matches!(barrier.wait_deadline(Instant::now()), Err(BarrierError::Timeout)));
        assert_eq!(barrier.info().unwrap().arrived, 0);
        std::thread::scope(|s| {
            let other = s.spawn(|| barrier.wait().unwrap().index);
            arrived(&barrier, 1);
            assert_eq!(barrier.wait_timeout(LONG).unwrap().index + other.join().unwrap(), 1);
        });
    }
}

#[test]
fn a_timeout_that_breaks_breaks_for_all_until_it_is_reset() {
    let _house = House::new("barrier-breaks");
    for barrier in [Barrier::private(3).unwrap(), Barrier::create("b", 3).unwrap()] {
        let how = |e: BarrierError| match e {
            BarrierError::Broken { how, .. } => how,
            other => panic!("{other}"),
        };
        std::thread::scope(|s| {
            let other = s.spawn(|| barrier.wait().unwrap_err());
            arrived(&barrier, 1);
            assert_eq!(how(barrier.wait_timeout_or_break(Duration::from_millis(1)).unwrap_err()), Broke::TimedOut);
            assert_eq!(how(other.join().unwrap()), Broke::TimedOut);
        });
        assert_eq!(how(barrier.wait().unwrap_err()), Broke::TimedOut);
        barrier.reset().unwrap();
        std::thread::scope(|s| {
            let other = s.spawn(|| barrier.wait().unwrap_err());
            arrived(&barrier, 1);
            barrier.reset().unwrap();
            assert_eq!(how(other.join().unwrap()), Broke::Reset);
            let others: Vec<_> = (0..2).map(|_| s.spawn(|| barrier.wait().unwrap())).collect();
            assert_eq!(barrier.wait().unwrap().round, 0);
            others.into_iter().for_each(|other| assert_eq!(other.join().unwrap().round, 0));
        });
        barrier.abort().unwrap();
        barrier.abort().unwrap();
        assert_eq!(how(barrier.wait().unwrap_err()), Broke::Aborted);
        assert_eq!(barrier.info().unwrap().broken, Some("aborted"));
    }
}

#[test]
fn a_party_too_many_is_refused_and_so_is_a_second_arrival() {
    let _house = House::new("barrier-full");
    let barrier = Barrier::create("b", 2).unwrap();
    barrier.join().unwrap();
    assert!(matches!(barrier.join(), Err(BarrierError::Twice { .. })));
    let mine = barrier.arrive().unwrap();
    assert!(matches!(barrier.arrive(), Err(BarrierError::Twice { .. })));
    assert!(mine.take_back());
    let (has_joined, ends) = (Semaphore::private(0).unwrap(), Semaphore::private(0).unwrap());
    std::thread::scope(|s| {
        s.spawn(|| {
            barrier.join().unwrap();
            has_joined.up().unwrap();
            ends.down().unwrap();
        });
        has_joined.down().unwrap();
        s.spawn(|| {
            let full = barrier.wait().unwrap_err();
            assert!(matches!(full, BarrierError::Full { parties: 2, .. }), "{full}");
            assert!(full.to_string().contains("one too many"));
            assert!(matches!(barrier.join(), Err(BarrierError::Full { .. })));
        })
        .join()
        .unwrap();
        // It only looks at what it has.
        assert!(barrier.leave().is_ok() && barrier.info().unwrap().joined == 1);
        s.spawn(|| barrier.join().unwrap()).join().unwrap();
        ends.up().unwrap();
    });
    eventually("threads that end leave", || barrier.info().unwrap().joined == 0);
    // An arena of its own has room for the parties; another has not.
    let small = chappe::ArenaOptions { members: Some(8), ..Default::default() };
    Arena::create("small", &small).unwrap();
    let many = Barrier::create("small/many", 9).unwrap_err().to_string();
    assert!(many.contains("a barrier of 9 parties in arena `small`, which has room for 8 members"), "{many}");
    assert!(matches!(Barrier::create("c", 0), Err(BarrierError::Parties { parties: 0, .. })));
    assert!(matches!(Barrier::private(65_536), Err(BarrierError::Parties { .. })));
    let other = Barrier::open_or_create("b", 3).unwrap_err();
    assert!(other.to_string().contains("is there with 2 parties, not 3 parties"), "{other}");
    assert!(matches!(Barrier::open_or_create_breaking("b", 2), Err(BarrierError::OtherShape { .. })));
    assert!(matches!(Barrier::create("b", 2), Err(BarrierError::Object(ObjectError::Exists { .. }))));
    assert!(matches!(Barrier::open("x"), Err(BarrierError::Object(ObjectError::Unknown { .. }))));
}

#[test]
fn a_turn_is_an_arm_of_a_choice_and_another_arm_leaves_the_arrival_there() {
    let _house = House::new("barrier-choice");
    for barrier in [Barrier::private(2).unwrap(), Barrier::create("b", 2).unwrap()] {
        let stop = Semaphore::private(1).unwrap();
        let arrival = barrier.arrive().unwrap();
        let stopped = select! {
            turn(arrival) -> turn => panic!("{turn:?}"),
            down(stop) -> r => r.is_ok(),
        };
        assert!(stopped && !arrival.is_over());
        std::thread::scope(|s| {
            let other = s.spawn(|| barrier.wait().unwrap());
            let turn = select! {
                down(stop) -> _ => panic!("nobody stops it"),
                turn(arrival) -> turn => turn.unwrap(),
            };
            assert_eq!((turn.round, turn.index + other.join().unwrap().index), (0, 1));
        });
        // Its outcome is told once; dropped, it takes no other arrival of the thread back.
        assert!(arrival.is_over());
        let next = barrier.arrive().unwrap();
        assert!(matches!(arrival.wait(), Err(BarrierError::Twice { .. })));
        assert_eq!(barrier.info().unwrap().arrived, 1);
        let mut choice = Select::new();
        let arm = choice.turn(&next);
        assert!(choice.try_select().is_err());
        assert!(choice.select_timeout(Duration::from_millis(1)).is_err());
        std::thread::scope(|s| {
            s.spawn(|| barrier.wait().unwrap());
            assert_eq!(choice.ready(), arm);
            assert_eq!(choice.select().turn(&next).unwrap().round, 1);
        });
    }
}

/// A choice of another thread would wait as another member, and read what this one writes.
#[test]
fn a_choice_with_a_turn_is_made_by_the_thread_that_arrived() {
    let _house = House::new("barrier-bound");
    let barrier = Barrier::private(2).unwrap();
    let arrival = barrier.arrive().unwrap();
    let mut choice = Select::new();
    choice.turn(&arrival);
    let choice = &choice;
    let elsewhere = std::thread::scope(|s| s.spawn(|| choice.try_wait().is_err()).join()).unwrap_err();
    let why = elsewhere.downcast_ref::<&str>().expect("a message");
    assert!(why.contains("or a turn is made by the thread that added it"), "{why}");
    assert!(choice.try_wait().is_err(), "its round has not turned");
}

/// Which of the system's threads the calling light one is in.
#[inline(never)]
fn system_thread() -> std::thread::ThreadId {
    std::thread::current().id()
}

#[test]
fn a_light_thread_that_moves_makes_its_choice_with_a_turn() {
    let _house = House::new("barrier-light");
    let barrier = Barrier::private(1).unwrap();
    let (wakes, asks) = (Semaphore::private(0).unwrap(), Semaphore::private(0).unwrap());
    let (woken, asked) = (wakes.clone(), asks.clone());
    let moved = chappe::thread::Runtime::new(2).unwrap().spawn(move || {
        let arrival = barrier.arrive().unwrap();
        let mut choice = Select::new();
        choice.turn(&arrival);
        let began = system_thread();
        while system_thread() == began {
            // The proc is busy when this thread is woken from outside: it goes on in the other one.
            let goes_on = Arc::new(AtomicBool::new(false));
            let (ends, asked) = (goes_on.clone(), asked.clone());
            let busy = chappe::thread::spawn(move || {
                asked.up().unwrap();
                // Relaxed: it only ends a loop, as the store below says.
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            woken.down().unwrap();
            // Relaxed: it ends a loop, and nothing is read behind it.
            goes_on.store(true, Ordering::Relaxed);
            busy.join().unwrap();
        }
        choice.select().turn(&arrival).unwrap().round
    });
    let (is_over, ends) = (AtomicBool::new(false), asks.clone());
    std::thread::scope(|s| {
        s.spawn(|| {
            // Relaxed: the unit that comes behind the store orders it.
            while asks.down().is_ok() && !is_over.load(Ordering::Relaxed) {
                wakes.up().unwrap();
            }
        });
        let round = moved.join();
        // Relaxed: as above.
        is_over.store(true, Ordering::Relaxed);
        ends.up().unwrap();
        assert_eq!(round.unwrap(), 0);
    });
}

/// Else it would take the thread's next arrival for its own: collect its turn, or take it back.
#[test]
fn a_thread_does_not_leave_while_its_arrival_lives() {
    let _house = House::new("barrier-leave");
    for barrier in [Barrier::private(2).unwrap(), Barrier::create("b", 2).unwrap()] {
        let arrival = barrier.arrive().unwrap();
        assert!(matches!(barrier.leave(), Err(BarrierError::Twice { .. })));
        assert_eq!(barrier.info().unwrap().arrived, 1);
        // Nor when it has turned, until that was told.
        std::thread::scope(|s| s.spawn(|| barrier.wait().unwrap()).join()).unwrap();
        assert!(matches!(barrier.leave(), Err(BarrierError::Twice { .. })));
        assert_eq!(arrival.wait().unwrap().round, 0);
        barrier.leave().unwrap();
        let next = barrier.arrive().unwrap();
        assert!(next.take_back());
        barrier.leave().unwrap();
    }
}

#[test]
fn an_inherited_arrival_is_void_at_once_in_the_child_also_as_an_arm() {
    let _house = House::new("barrier-fork");
    for barrier in [Barrier::private(2).unwrap(), Barrier::create("b", 2).unwrap()] {
        let arrival = barrier.arrive().unwrap();
        // SAFETY: the child uses what chappe promises to work after a fork, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_over = arrival.is_over();
            let chosen = select! { turn(arrival) -> turn => turn };
            let is_void = is_over && matches!(chosen, Err(BarrierError::Inherited { .. }));
            // SAFETY: it ends the process.
            unsafe { libc::_exit(i32::from(!is_void)) };
        }
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(!arrival.is_over() && barrier.info().unwrap().arrived == 1);
    }
}

static STOP: Interrupt = Interrupt::new();

#[test]
fn an_arrival_that_is_dropped_or_interrupted_is_taken_back() {
    let _house = House::new("barrier-drop");
    let barrier = Barrier::create("b", 2).unwrap();
    drop(barrier.arrive().unwrap());
    assert_eq!(barrier.info().unwrap().arrived, 0);
    std::thread::scope(|s| {
        let waiter = s.spawn(|| interruptible(&STOP, || barrier.wait()));
        asleep("b", 1);
        STOP.interrupt();
        assert!(matches!(waiter.join().unwrap(), Err(BarrierError::Interrupted)));
        assert_eq!(barrier.info().unwrap().arrived, 0);
        // A thread that ends leaves, also if it has leaked what says so.
        s.spawn(|| std::mem::forget(barrier.arrive().unwrap())).join().unwrap();
        // Nor does it stay a party when it leaves the arena.
        s.spawn(|| {
            barrier.join().unwrap();
            assert_eq!(barrier.info().unwrap().joined, 2);
            Arena::open("default").unwrap().leave();
            assert_eq!(barrier.info().unwrap().joined, 1);
        })
        .join()
        .unwrap();
        barrier.leave().unwrap();
    });
    eventually("it has left", || {
        let info = barrier.info().unwrap();
        (info.arrived, info.joined, info.dead) == (0, 0, 0)
    });
    let used = barrier.arrive().unwrap();
    let refused = Barrier::remove("b", false).unwrap_err().to_string();
    assert!(refused.contains("1 of 2 parties have arrived, 1 have joined"), "{refused}");
    Barrier::remove("b", true).unwrap();
    assert!(matches!(used.wait(), Err(BarrierError::Dead { .. })));
    assert!(matches!(barrier.wait(), Err(BarrierError::Dead { .. })));
}

#[test]
fn an_arrival_that_a_thread_leaks_at_a_private_barrier_goes_with_the_thread() {
    let barrier = Barrier::private(2).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(barrier.arrive().unwrap())).join().unwrap();
        eventually("it is taken back", || barrier.info().unwrap().arrived == 0);
        let other = s.spawn(|| barrier.wait().unwrap());
        arrived(&barrier, 1);
        let mine = barrier.wait().unwrap();
        assert_eq!((mine.round, mine.index + other.join().unwrap().index), (0, 1));
    });
    let info = barrier.info().unwrap();
    assert_eq!((info.rounds, info.arrived, info.joined, info.dead), (1, 0, 0, 0));
}

#[test]
fn the_first_that_goes_on_may_remove_the_barrier_and_the_others_still_have_turned() {
    let _house = House::new("barrier-remover");
    for _ in 0..50 {
        let barrier = Barrier::create("b", 2).unwrap();
        std::thread::scope(|s| {
            let other = s.spawn(|| barrier.wait().unwrap());
            let turn = barrier.wait().unwrap();
            Barrier::remove("b", true).unwrap();
            assert_eq!(other.join().unwrap().index + turn.index, 1);
        });
    }
}

#[test]
fn a_successor_joins_at_once_though_nobody_has_seen_the_death() {
    let house = House::new("barrier-successor");
    let barrier = Barrier::create("b", 1).unwrap();
    let mut party = house.actor("join");
    assert_eq!(party.hear(), "joined");
    party.kill();
    barrier.join().unwrap();
    assert_eq!(barrier.info().unwrap().joined, 1);
}

/// Three wait, one of them is killed: the others go on, and each is told of it, once.
#[test]
fn a_party_that_is_killed_while_it_waits_does_not_block_the_others() {
    let house = House::new("barrier-killed");
    let barrier = Barrier::create("b", 3).unwrap();
    for round in 0..2 {
        let (mut victim, mut other) = (house.actor("wait"), house.actor("wait"));
        let pid = victim.child.id();
        for actor in [&mut victim, &mut other] {
            assert_eq!(actor.hear(), "ready");
            actor.tell("go");
        }
        asleep("b", 2);
        victim.kill();
        arrived(&barrier, 1);
        let mine = barrier.wait_once();
        let Err(BarrierError::PartyDied { turn, died: 1, pid: dead, .. }) = mine else { panic!("{mine:?}") };
        assert_eq!((turn.round, dead), (round, pid));
        let heard = other.hear();
        assert!(heard.contains(&format!("without 1 of its parties, which died, the last with pid {pid}")), "{heard}");
        other.ended();
        // It was a party of that round only.
        assert_eq!(barrier.info().unwrap().dead, 0);
    }
}

/// A thread that is woken late, or never runs again, has no place in the next round, and is not missed there.
#[test]
fn one_that_waits_once_is_a_party_until_the_turn_however_late_it_goes_on() {
    let house = House::new("barrier-once");
    let barrier = Barrier::create("b", 2).unwrap();
    let late = barrier.arrive_once().unwrap();
    let mut victim = house.actor("once");
    assert_eq!(victim.hear(), "arrived");
    let info = barrier.info().unwrap();
    assert_eq!((info.rounds, info.joined, info.arrived), (1, 0, 0));
    // Two others come before these two have gone on; and one of these dies.
    victim.kill();
    Arena::open("default").unwrap().map().recover_dead();
    std::thread::scope(|s| {
        let others: Vec<_> = (0..2).map(|_| s.spawn(|| barrier.wait_once().unwrap().round)).collect();
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), 1));
    });
    assert_eq!(late.wait().unwrap().round, 0);
    let info = barrier.info().unwrap();
    assert_eq!((info.rounds, info.joined, info.dead), (2, 0, 0));
}

/// A reset, or a break, ends the round of those that came for once, too: they keep no place, and no round misses them.
#[test]
fn one_that_waits_once_is_no_party_after_a_reset_however_late_it_goes_on() {
    let house = House::new("barrier-once-reset");
    let barrier = Barrier::create("b", 2).unwrap();
    for breaks in [false, true] {
        let late = barrier.arrive_once().unwrap();
        if breaks {
            barrier.abort().unwrap();
            assert_eq!(barrier.info().unwrap().joined, 0);
        }
        barrier.reset().unwrap();
        let mut victim = house.actor("once");
        assert_eq!(victim.hear(), "arrived");
        assert_eq!(barrier.info().unwrap().joined, 1);
        barrier.reset().unwrap();
        victim.kill();
        Arena::open("default").unwrap().map().recover_dead();
        let info = barrier.info().unwrap();
        assert_eq!((info.joined, info.arrived, info.dead), (0, 0, 0));
        // There are two places, and both are waited for.
        std::thread::scope(|s| {
            let others: Vec<_> = (0..2).map(|_| s.spawn(|| barrier.wait_once().unwrap().round)).collect();
            others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), u64::from(breaks)));
        });
        assert!(matches!(late.wait(), Err(BarrierError::Broken { .. })));
        assert_eq!(barrier.info().unwrap().joined, 0);
    }
}

/// All that live only ask whether their round has turned.
#[test]
fn a_death_is_found_though_all_others_only_ask() {
    let house = House::new("barrier-asked");
    let barrier = Barrier::create("b", 2).unwrap();
    let mut party = house.actor("join");
    assert_eq!(party.hear(), "joined");
    let mine = barrier.arrive().unwrap();
    assert!(!mine.is_over());
    party.kill();
    eventually("its death is found", || mine.is_over());
    assert!(matches!(mine.wait(), Err(BarrierError::PartyDied { died: 1, .. })));
}

/// What never waits may be asked inside of a section, at a named barrier, too, where it looks for deaths.
#[test]
fn to_ask_or_to_look_once_for_a_turn_is_no_wait() {
    let house = House::new("barrier-section");
    let barrier = Barrier::create("b", 2).unwrap();
    let lock = HelpLock::inherited("section", 0u64).unwrap();
    let mut party = house.actor("join");
    assert_eq!(party.hear(), "joined");
    let (mut asked, at_once) = (Some(barrier.arrive().unwrap()), Duration::ZERO);
    assert!(!lock.with(|_| asked.as_ref().unwrap().is_over()).unwrap());
    let looked = lock.with(|_| asked.take().unwrap().wait_timeout(at_once)).unwrap();
    assert!(matches!(looked, Err(BarrierError::Timeout)));
    // It finds a death at once.
    let mine = barrier.arrive().unwrap();
    party.kill();
    assert!(matches!(mine.wait_timeout(at_once), Err(BarrierError::PartyDied { died: 1, .. })));
}

/// A barrier that was reset is whole: to reset it again would break the round of those that came since.
#[test]
fn one_that_is_told_of_a_reset_is_told_to_come_again() {
    let barrier = Barrier::private(2).unwrap();
    let arrival = barrier.arrive().unwrap();
    barrier.reset().unwrap();
    let told = arrival.wait().unwrap_err().to_string();
    assert!(told.contains("was reset") && told.contains("come again") && !told.contains("makes it whole"), "{told}");
    barrier.abort().unwrap();
    let told = barrier.wait().unwrap_err().to_string();
    assert!(told.contains("is broken: it was aborted") && told.contains("a reset makes it whole"), "{told}");
}

/// One that waited for once is killed; started again, it comes to the same round.
#[test]
fn a_successor_takes_the_place_of_a_party_that_died_in_this_round() {
    let house = House::new("barrier-again");
    let barrier = Barrier::create("b", 3).unwrap();
    let (mut first, mut second, mut victim) = (house.actor("join"), house.actor("join"), house.actor("wait"));
    assert_eq!((first.hear(), second.hear(), victim.hear()), ("joined".into(), "joined".into(), "ready".into()));
    first.tell("wait");
    victim.tell("go");
    asleep("b", 2);
    victim.kill();
    arrived(&barrier, 1);
    let mine = barrier.arrive_once().unwrap();
    assert_eq!(barrier.info().unwrap().arrived, 2, "the round turned without one that lives");
    second.tell("wait");
    assert!(matches!(mine.wait(), Err(BarrierError::PartyDied { died: 1, .. })));
    assert_eq!((first.hear(), second.hear()), ("failed".into(), "failed".into()));
    let info = barrier.info().unwrap();
    assert_eq!((info.rounds, info.joined, info.dead), (1, 2, 0));
}

/// A party that has joined is killed, or exits, between the rounds; another takes its place.
#[test]
fn no_round_waits_for_a_joined_party_that_died_until_another_joins() {
    let house = House::new("barrier-joined");
    let barrier = Barrier::create("b", 3).unwrap();
    barrier.join().unwrap();
    let (mut first, mut second) = (house.actor("join"), house.actor("join"));
    for actor in [&mut first, &mut second] {
        assert_eq!(actor.hear(), "joined");
        actor.tell("wait");
    }
    assert_eq!(barrier.wait().unwrap().round, 0);
    assert_eq!((first.hear(), second.hear()), ("turned".into(), "turned".into()));
    first.kill();
    second.tell("wait");
    eventually("its death is found", || {
        Arena::open("default").unwrap().map().recover_dead() > 0 || barrier.info().unwrap().dead == 1
    });
    assert!(matches!(barrier.wait(), Err(BarrierError::PartyDied { died: 1, .. })));
    assert_eq!(second.hear(), "failed");
    // Told once.
    second.tell("wait");
    assert_eq!(barrier.wait().unwrap().round, 2);
    assert_eq!(second.hear(), "turned");
    second.tell("exit");
    second.ended();
    assert!(matches!(barrier.wait(), Err(BarrierError::PartyDied { died: 1, .. })));
    assert!(barrier.wait().is_ok(), "all others have died");
    let info = barrier.info().unwrap();
    assert_eq!((info.joined, info.dead), (1, 2));
    // A successor is expected again.
    let mut third = house.actor("join");
    assert_eq!(third.hear(), "joined");
    assert!(matches!(barrier.wait_timeout(Duration::from_millis(1)), Err(BarrierError::Timeout)));
    third.tell("wait");
    assert!(barrier.wait().is_ok());
    assert_eq!(third.hear(), "turned");
    third.tell("leave");
    third.ended();
    barrier.reset().unwrap();
    assert_eq!(barrier.info().unwrap().dead, 0);
}

#[test]
fn a_barrier_that_was_made_to_break_breaks_when_a_party_dies() {
    let house = House::new("barrier-breaking");
    let barrier = Barrier::create_breaking("b", 3).unwrap();
    let mut party = house.actor("wait");
    assert_eq!(party.hear(), "ready");
    party.tell("go");
    arrived(&barrier, 1);
    let pid = party.child.id();
    std::thread::scope(|s| {
        let waits = s.spawn(|| barrier.wait().unwrap_err());
        asleep("b", 2);
        party.kill();
        let broken = waits.join().unwrap();
        assert!(matches!(broken, BarrierError::Broken { how: Broke::Died { pid: p }, .. } if p == pid), "{broken}");
    });
    let broken = barrier.wait().unwrap_err().to_string();
    assert!(broken.contains(&format!("its party with pid {pid} died")), "{broken}");
    barrier.reset().unwrap();
    assert!(matches!(barrier.wait_timeout(Duration::from_millis(1)), Err(BarrierError::Timeout)));
}
