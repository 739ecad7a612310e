//! Store buffers: what x86 lets happen, and what it does not. The litmus tests have their usual names.

use chappe_crashsim::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::SeqCst};
use chappe_crashsim::atomic::{fence, fence_others, low_half, pause};
use chappe_crashsim::futex::{self, Scope};
use chappe_crashsim::{Report, Search, Shared, World, reached};
use std::cell::Cell;

/// A store that goes through the buffer.
// Relaxed: that is what is tried here.
const PLAIN: Ordering = Ordering::Relaxed;

/// How the two sides of the store-buffering test see to their order.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    Nothing,
    Fence,
    LockedStore,
    /// One side fences for both, which the other relies on.
    OneForBoth,
}

/// Each stores to its own word and reads the other's.
fn store_buffering(between: Between) -> impl Fn(&World) {
    move |world| {
        let words = world.share([const { AtomicU32::new(0) }; 2]);
        let seen = world.share([const { Cell::new(9) }; 2]);
        for me in 0..2 {
            world.process(["one", "other"][me], move || {
                let order = if between == Between::LockedStore { SeqCst } else { PLAIN };
                words[me].store(1, order);
                match between {
                    Between::Fence => fence(SeqCst),
                    Between::OneForBoth if me == 0 => fence_others(),
                    _ => {}
                }
                seen[me].set(words[1 - me].load(SeqCst));
            });
        }
        world.check(move || reached(format!("{}{}", seen[0].get(), seen[1].get())));
    }
}

fn both_searches(name: &str, world: impl Fn(&World) + Sync) -> [Report; 2] {
    [
        Search::depth(&format!("{name}_depth"), 2).store_buffers(2).run(&world),
        Search::uniform(&format!("{name}_dice")).store_buffers(2).schedules(4_000).run(&world),
    ]
}

#[test]
fn two_may_each_miss_the_others_store_unless_there_is_a_fence_between() {
    for report in both_searches("sb", store_buffering(Between::Nothing)) {
        report.assert_clean().assert_reached(&["00", "01", "10", "11"]);
        assert!(report.counts().held > 0);
    }
    for (name, between) in
        [("sb_fence", Between::Fence), ("sb_locked", Between::LockedStore), ("sb_asymmetric", Between::OneForBoth)]
    {
        for report in both_searches(name, store_buffering(between)) {
            report.assert_clean().assert_reached(&["01", "10", "11"]);
            assert!(!report.outcomes().contains_key("00"), "{name}: {:?}", report.outcomes());
        }
    }
    let without = Search::depth("sb_without", 2).run(store_buffering(Between::Nothing));
    assert!(!without.assert_clean().outcomes().contains_key("00"), "nobody asked for store buffers");
}

#[test]
fn stores_of_one_thread_arrive_in_their_order() {
    for report in both_searches("mp", |world| {
        let (data, flag) = (world.share(AtomicU64::new(0)), world.share(AtomicU32::new(0)));
        world.process("sender", move || {
            data.store(7, PLAIN);
            flag.store(1, PLAIN);
        });
        world.process("receiver", move || {
            if flag.load(PLAIN) == 1 {
                assert_eq!(data.load(PLAIN), 7);
                reached("received");
            } else {
                reached("too early");
            }
        });
    }) {
        report.assert_clean().assert_reached(&["received", "too early"]);
    }
}

#[test]
fn a_thread_reads_what_it_stored_whole_and_in_part() {
    for report in both_searches("own", |world| {
        let word = world.share(AtomicU64::new(0));
        world.process("only", move || {
            word.store(0x1_0000_0002, PLAIN);
            assert_eq!(word.load(PLAIN), 0x1_0000_0002);
            if word.peek() == 0 {
                reached("not arrived");
            }
            assert_eq!(low_half(&word).load(PLAIN), 2);
            assert_eq!(word.peek(), 0x1_0000_0002, "a part is read when the whole has arrived");
        });
    }) {
        report.assert_clean().assert_reached(&["not arrived"]);
    }
}

/// Says that it sleeps by a plain store, or by a swap, and looks once more.
fn flag_and_look(swap: bool) -> impl Fn(&World) {
    move |world| {
        let (asleep, there) = (world.share(AtomicU32::new(0)), world.share(AtomicU32::new(0)));
        world.process("sleeper", move || {
            if swap {
                asleep.swap(1, SeqCst);
            } else {
                asleep.store(1, PLAIN);
            }
            while there.load(SeqCst) == 0 {
                futex::wait(&there, 0, None, Scope::Shared);
            }
        });
        world.process("waker", move || {
            there.store(1, PLAIN);
            if asleep.load(SeqCst) == 1 {
                futex::wake(&there, 1, Scope::Shared);
            }
        });
    }
}

#[test]
fn a_flag_without_a_fence_loses_a_wake_up_despite_the_system_call() {
    // The waker's store is behind its look.
    for swap in [false, true] {
        Search::depth("flag", 3).store_buffers(2).run(flag_and_look(swap)).assert_caught();
        Search::depth("flag_in_order", 3).run(flag_and_look(swap)).assert_clean();
    }
}

fn arrived(word: Shared<AtomicU32>) -> bool {
    word.peek() == 1
}

#[test]
fn death_and_stop_empty_the_buffer_first() {
    let world = |world: &World| {
        let word = world.share(AtomicU32::new(0));
        let stored = world.share(Cell::new(false));
        let p = world.process("writer", move || {
            word.store(1, PLAIN);
            stored.set(true);
            pause();
            pause();
        });
        world.check(move || {
            assert_eq!(arrived(word), stored.get());
            reached(format!("{:?} {}", p.fate(), arrived(word)));
        });
    };
    let killed = Search::depth("killed_with_stores", 1).kills(1).store_buffers(1).run(world);
    killed.assert_clean().assert_reached(&["Killed true", "Killed false", "Exited true"]);
    let stopped = Search::depth("stopped_with_stores", 1).stops(1).store_buffers(1).run(world);
    stopped.assert_clean().assert_reached(&["Stopped true", "Stopped false", "Exited true"]);
}

#[test]
fn a_held_stores_effect_is_reported_and_replays() {
    let search = Search::depth("told", 3).store_buffers(2);
    let first = search.run(flag_and_look(true));
    let found = first.found().expect("a lost wake-up");
    assert!(found.story.contains("store is held"), "{}", found.story);
    // From memory that lies elsewhere, too.
    let again =
        std::thread::scope(|s| s.spawn(|| search.replay(&found.token, flag_and_look(true))).join().expect("no panic"));
    assert_eq!(again.found().map(|f| &f.story), Some(&found.story));
}
