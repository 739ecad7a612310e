//! Known mistakes that the explorer must find, and correct code that it must not complain of.

use chappe_crashsim::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst, pause};
use chappe_crashsim::futex::{self, Scope};
use chappe_crashsim::robust::{self, Claim};
use chappe_crashsim::{Fate, Fault, Report, Search, World};
use std::cell::Cell;

/// Vyukov's bounded ring: a position is claimed first, the slot is stamped afterwards.
struct Ring {
    stamps: [AtomicU64; 4],
    slots: [Cell<u64>; 4],
    tail: AtomicU64,
    head: AtomicU64,
}

impl Ring {
    fn new(world: &World) -> chappe_crashsim::Shared<Ring> {
        let ring = world.share(Ring {
            stamps: std::array::from_fn(|i| AtomicU64::new(i as u64)),
            slots: Default::default(),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
        });
        world.name(&ring.tail, "tail");
        world.name(&ring.head, "head");
        for (i, s) in ring.stamps.iter().enumerate() {
            world.name(s, format!("stamp {i}"));
        }
        ring
    }

    fn push(&self, value: u64) -> bool {
        loop {
            let t = self.tail.load(SeqCst);
            let i = (t % 4) as usize;
            let stamp = self.stamps[i].load(SeqCst);
            if stamp == t {
                if self.tail.compare_exchange(t, t + 1, SeqCst, SeqCst).is_ok() {
                    self.slots[i].set(value);
                    self.stamps[i].store(t + 1, SeqCst);
                    return true;
                }
            } else if stamp < t {
                return false;
            }
        }
    }

    fn pop(&self) -> Option<u64> {
        loop {
            let h = self.head.load(SeqCst);
            let i = (h % 4) as usize;
            let stamp = self.stamps[i].load(SeqCst);
            if stamp == h + 1 {
                if self.head.compare_exchange(h, h + 1, SeqCst, SeqCst).is_ok() {
                    let value = self.slots[i].get();
                    self.stamps[i].store(h + 4, SeqCst);
                    return Some(value);
                }
            } else if stamp < h + 1 {
                return None;
            }
        }
    }
}

/// Two senders, one of which may be killed, and a receiver that needs what the other sends.
fn vyukov(world: &World) {
    let ring = Ring::new(world);
    world.steps_at_most(2_000);
    world.process("victim", move || {
        ring.push(1);
    });
    world
        .process("sender", move || {
            ring.push(2);
        })
        .immortal();
    world
        .process("receiver", move || {
            loop {
                match ring.pop() {
                    Some(2) => break,
                    Some(_) => {}
                    None => pause(),
                }
            }
        })
        .immortal();
}

#[test]
fn vyukovs_ring_wedges_when_a_sender_dies_between_claim_and_stamp() {
    for search in [
        Search::sweep("vyukov_sweep").kills(1),
        Search::depth("vyukov_depth", 1).kills(1),
        Search::priorities("vyukov_priorities", 3).kills(1),
        Search::uniform("vyukov_uniform").kills(1),
        Search::sweep("vyukov_stopped").stops(1),
    ] {
        let report = search.run(vyukov);
        report.assert_caught();
        if let Some(found) = report.found() {
            assert_eq!(found.fault, Fault::NoProgress);
            let end = if found.story.contains("is killed") { "victim is killed" } else { "victim is stopped" };
            assert!(found.story.contains(end), "{}", found.story);
        }
    }
    Search::depth("vyukov_unharmed", 2).run(vyukov).assert_clean();
}

/// A robust mutex around two words that should be equal.
fn torn(world: &World) {
    let lock = world.share(AtomicU32::new(0));
    let words = world.share((AtomicU32::new(0), AtomicU32::new(0)));
    world.name(&*lock, "lock");
    for name in ["p1", "p2"] {
        world.process(name, move || {
            robust::claim(&lock);
            assert_eq!(words.0.load(SeqCst), words.1.load(SeqCst), "torn");
            words.0.fetch_add(1, SeqCst);
            words.1.fetch_add(1, SeqCst);
            robust::release(&lock);
        });
    }
}

#[test]
fn a_robust_mutex_leaves_torn_state_behind_a_death() {
    for search in [Search::sweep("torn_sweep").kills(1), Search::depth("torn_depth", 0).kills(1)] {
        let report = search.run(torn);
        report.assert_caught();
        if let Some(found) = report.found() {
            assert!(found.text.contains("torn"), "{}", found.text);
            assert!(found.story.contains("the kernel marks lock of dead p1"), "{}", found.story);
        }
    }
    Search::depth("torn_unharmed", 2).run(torn).assert_clean();
}

#[test]
fn a_robust_mutex_that_repairs_passes_kills_and_stops_that_are_resumed() {
    let repaired = |world: &World| {
        let lock = world.share(AtomicU32::new(0));
        let words = world.share((AtomicU32::new(0), AtomicU32::new(0)));
        let inside = world.share(Cell::new(0));
        for name in ["p1", "p2", "p3"] {
            let p = world.prepare(name);
            let held = world.share(Cell::new(false));
            p.on_death(move || inside.set(inside.get() - u32::from(held.get())));
            p.run(move || {
                if robust::claim(&lock) == Claim::AfterDeath {
                    words.1.store(words.0.load(SeqCst), SeqCst);
                }
                held.set(true);
                inside.set(inside.get() + 1);
                assert_eq!(inside.get(), 1);
                assert_eq!(words.0.load(SeqCst), words.1.load(SeqCst));
                words.0.fetch_add(1, SeqCst);
                words.1.fetch_add(1, SeqCst);
                held.set(false);
                inside.set(0);
                robust::release(&lock);
            });
        }
    };
    Search::depth("repaired_depth", 1).kills(1).schedules(20_000).run(repaired).assert_clean();
    Search::sweep("repaired_sweep").kills(2).run(repaired).assert_clean();
    Search::priorities("repaired_priorities", 3)
        .kills(2)
        .stops(1)
        .resume()
        .schedules(4_000)
        .run(repaired)
        .assert_clean();
    let report = Search::sweep("repaired_stopped").stops(1).run(repaired);
    assert_eq!(report.assert_caught().found().map(|f| f.fault), Some(Fault::Wedged));
}

/// Looks, then sleeps: `atomically` hands the value that was seen to the futex.
fn sleeper(atomically: bool) -> impl Fn(&World) {
    move |world| {
        let ready = world.share(AtomicU32::new(0));
        world.name(&*ready, "ready");
        world.process("sleeper", move || {
            while ready.load(SeqCst) == 0 {
                let expected = if atomically { 0 } else { ready.peek() };
                futex::wait(&ready, expected, None, Scope::Shared);
            }
        });
        world.process("waker", move || {
            ready.store(1, SeqCst);
            futex::wake(&ready, 1, Scope::Shared);
        });
    }
}

#[test]
fn a_lost_wake_up_is_found() {
    // The value is read again just before the sleep: a change in between is slept over.
    let careless = |world: &World| {
        let ready = world.share(AtomicU32::new(0));
        let bell = world.share(AtomicU32::new(0));
        world.name(&*ready, "ready");
        world.name(&*bell, "bell");
        world.process("sleeper", move || {
            while ready.load(SeqCst) == 0 {
                futex::wait(&bell, 0, None, Scope::Shared);
            }
        });
        world.process("waker", move || {
            ready.store(1, SeqCst);
            futex::wake(&bell, 1, Scope::Shared);
        });
    };
    for search in [Search::depth("lost_wake_depth", 1), Search::priorities("lost_wake_priorities", 2)] {
        let report = search.run(careless);
        assert_eq!(report.assert_caught().found().map(|f| f.fault), Some(Fault::Wedged));
    }
    assert!(Search::depth("lost_wake_none", 0).run(careless).assert_clean().complete());
    assert!(Search::depth("kept_wake", 3).run(sleeper(true)).assert_clean().complete());
}

#[test]
fn a_stopped_holder_of_a_spin_lock_is_found() {
    let spin = |world: &World| {
        let lock = world.share(AtomicU32::new(0));
        world.name_with(&*lock, "lock", |v| if v == 0 { "FREE".into() } else { "HELD".into() });
        world.steps_at_most(1_000);
        for name in ["p1", "p2"] {
            world.process(name, move || {
                while lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
                    pause();
                }
                lock.store(0, SeqCst);
            });
        }
    };
    let report = Search::sweep("spin_stopped").stops(1).run(spin);
    report.assert_caught();
    if let Some(found) = report.found() {
        assert_eq!(found.fault, Fault::NoProgress);
        assert!(found.story.contains("lock: compare_exchange FREE -> HELD"), "{}", found.story);
    }
    Search::depth("spin_unharmed", 2).run(spin).assert_clean();
    Search::sweep("spin_resumed").stops(1).resume().run(spin).assert_caught();
}

/// Drepper's mutex: 0 free, 1 held, 2 held and somebody may sleep.
fn lock(word: &AtomicU32) {
    if word.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
        return;
    }
    while word.swap(2, SeqCst) != 0 {
        futex::wait(word, 2, None, Scope::Shared);
    }
}

fn unlock(word: &AtomicU32) {
    if word.swap(0, SeqCst) == 2 {
        futex::wake(word, 1, Scope::Shared);
    }
}

fn mutex(world: &World) {
    let word = world.share(AtomicU32::new(0));
    let inside = world.share(Cell::new(0));
    let passed = world.share(Cell::new(0));
    world.name(&*word, "mutex");
    for name in ["a", "b", "c"] {
        world.process(name, move || {
            for _ in 0..2 {
                lock(&word);
                inside.set(inside.get() + 1);
                assert_eq!(inside.get(), 1, "two inside");
                chappe_crashsim::step_point("inside");
                inside.set(inside.get() - 1);
                passed.set(passed.get() + 1);
                unlock(&word);
            }
        });
    }
    world.check(move || assert_eq!(passed.get(), 6));
}

#[test]
fn a_correct_mutex_passes_every_search() {
    assert!(Search::depth("mutex_depth", 2).run(mutex).assert_clean().complete());
    Search::priorities("mutex_priorities", 4).schedules(8_000).run(mutex).assert_clean();
    Search::uniform("mutex_uniform").spurious(2).schedules(8_000).run(mutex).assert_clean();
}

#[test]
fn a_correct_semaphore_passes() {
    let semaphore = |world: &World| {
        let count = world.share(AtomicU32::new(2));
        let inside = world.share(Cell::new(0u32));
        world.invariant(move || assert!(inside.get() <= 2));
        for name in ["a", "b", "c", "d"] {
            world.process(name, move || {
                loop {
                    let c = count.load(SeqCst);
                    if c == 0 {
                        futex::wait(&count, 0, None, Scope::Shared);
                    } else if count.compare_exchange(c, c - 1, SeqCst, SeqCst).is_ok() {
                        break;
                    }
                }
                inside.set(inside.get() + 1);
                chappe_crashsim::step_point("inside");
                inside.set(inside.get() - 1);
                count.fetch_add(1, SeqCst);
                futex::wake(&count, 1, Scope::Shared);
            });
        }
        world.check(move || assert_eq!(count.peek(), 2));
    };
    Search::depth("semaphore_depth", 1).schedules(10_000).run(semaphore).assert_clean();
    Search::priorities("semaphore_priorities", 3).schedules(8_000).run(semaphore).assert_clean();
}

/// Needs two preemptions: each side must be caught in the middle of the other's.
fn two_switches(world: &World) {
    let words = world.share((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)));
    world.process("a", move || {
        words.0.store(1, SeqCst);
        words.0.store(2, SeqCst);
        words.2.fetch_add(1, SeqCst);
    });
    world.process("b", move || {
        // Saw the middle of a, and a was past it when we looked again, before our own end.
        if words.0.load(SeqCst) == 1 {
            words.1.store(1, SeqCst);
            assert!(words.0.load(SeqCst) != 2, "both in the middle of each other");
        }
    });
}

#[test]
fn a_mistake_that_needs_two_preemptions_is_found_with_two_and_not_with_one() {
    assert!(Search::depth("two_switches_1", 1).run(two_switches).assert_clean().complete());
    let report = Search::depth("two_switches_2", 2).run(two_switches);
    assert!(report.assert_caught().found().is_none_or(|f| f.text.contains("both in the middle")));
    Search::priorities("two_switches_priorities", 3).run(two_switches).assert_caught();
}

/// Each process makes many steps, and the mistake lies at their beginning: it needs a preemption there, with `killed` a death besides.
fn crowded(killed: bool) -> impl Fn(&World) + Sync {
    move |world| {
        let words = world.share([const { AtomicU32::new(0) }; 2]);
        let stored = world.share(Cell::new(0));
        let all = ["a", "b", "c"].map(|name| {
            world.process(name, move || {
                let seen = words[0].load(SeqCst);
                words[0].store(seen + 1, SeqCst);
                stored.set(stored.get() + 1);
                (0..12).for_each(|_| _ = words[1].fetch_add(1, SeqCst));
            })
        });
        world.check(move || {
            let died = all.iter().any(|p| p.fate() == Fate::Killed);
            assert!(died != killed || words[0].peek() == stored.get(), "an update is lost");
        });
    }
}

#[test]
fn kills_leave_schedules_for_preemptions_without_and_beside_them() {
    let search = Search::depth("crowded", 2).kills(1).schedules(8_000);
    search.run(crowded(false)).assert_caught();
    search.run(crowded(true)).assert_caught();
}

#[test]
#[should_panic(expected = "played no preemption")]
fn a_search_with_too_few_schedules_for_a_preemption_is_refused() {
    Search::depth("too_few", 1).schedules(1).run(two_switches).assert_clean();
}

/// Needs two stops: each of two processes in the middle of what it does.
fn two_stops(world: &World) {
    let words = world.share([AtomicU32::new(0), AtomicU32::new(0)]);
    for (i, name) in ["a", "b"].into_iter().enumerate() {
        world.process(name, move || {
            words[i].store(1, SeqCst);
            words[i].store(2, SeqCst);
        });
    }
    world.check(move || assert!(words.iter().any(|word| word.peek() != 1), "both in the middle"));
}

#[test]
fn a_mistake_that_needs_two_stops_is_found_by_dice_with_two_and_not_with_one() {
    Search::sampled_sweep("two_stops_1").stops(1).schedules(4_000).run(two_stops).assert_clean();
    Search::sampled_sweep("two_stops_2").stops(2).schedules(4_000).run(two_stops).assert_caught();
}

#[test]
fn a_token_replays_the_same_story() {
    let search = Search::uniform("replayed").kills(1);
    let report = search.run(torn);
    let Some(found) = report.assert_caught().found() else { return };
    let again: Report = search.replay(&found.token, torn);
    let once_more = again.found().expect("fails again");
    assert_eq!(found.story, once_more.story);
    assert_eq!(found.text, once_more.text);
    assert_eq!(found.token, once_more.token);
    // It was made as small as a death and what it takes to see it.
    assert!(found.token.matches(',').count() < 4, "{}", found.token);
    let other = search.replay("another_world:1.2.3k1", torn);
    assert_eq!(other.schedules(), 0);
}

#[test]
fn fates_are_known_to_the_check() {
    let world = |world: &World| {
        let p = world.process("p", || chappe_crashsim::step_point("alive"));
        let q = world.prepare("idle");
        world.check(move || {
            assert!(matches!(p.fate(), Fate::Exited | Fate::Killed));
            assert!(matches!(q.fate(), Fate::Alive | Fate::Killed));
        });
    };
    let report = Search::depth("fates", 0).kills(2).run(world);
    assert!(report.assert_clean().counts().kills > 2);
}

/// All of them may die and none can: what such a search says to be clean, no death was tried on.
fn immortal(world: &World) {
    world.process("immortal", || ()).immortal();
}

#[test]
#[should_panic(expected = "tests nothing")]
fn a_sweep_that_kills_no_process_is_refused() {
    Search::sweep("all_immortal").kills(1).run(immortal).assert_clean();
}

#[test]
#[should_panic(expected = "tests nothing")]
fn a_search_by_dice_that_kills_no_process_is_refused() {
    Search::uniform("all_immortal_dice").kills(1).schedules(20).run(immortal).assert_clean();
}
