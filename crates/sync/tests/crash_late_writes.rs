//! Threads that are late to write: one looks an object up, checks it, is stopped, and acts. By then the object was removed, and its slot and its blocks
//! are another object's, where a member with the number of the dead is in the middle of an operation, or whose users' data is zeros or small numbers.
//! What must hold: the late process changes nothing there.
//!
//! One world for each place of the protocols that had this fault. What is compared is the whole memory, but for heads and wait bits.

use crate::crash::{Stage, sleep};
use chappe_arena::layout::{BLOCK, Object};
use chappe_arena::{Map, Place};
use chappe_crashsim::{Search, World, reached};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_sync::model::{Actor, Came, CastAt, CondvarAt, MapAt, MonitorAt, MutexAt, NamedAt, RwLockAt, StackAt, When};
use std::cell::{Cell, RefCell};

const BLOCKS: u32 = 20;
const REUSED: &str = "in its memory";
const LATE: &str = "begun before the next was made, and ended after that";

/// What lies in the slots and blocks of an arena.
fn image(map: &'static Map) -> Vec<(String, u64)> {
    let words = |of: &'static str, at: *const u64, i: u32, words: std::ops::Range<usize>| {
        // SAFETY: within the slot, or the block; no other thread runs between two steps of this one.
        words.map(move |w| (format!("word {w} of {of} {i}"), unsafe { at.add(w).read_volatile() }))
    };
    let (head, bits) = (std::mem::offset_of!(Object, head) / 8, std::mem::offset_of!(Object, waiting) / 8);
    let slots = (0..map.geometry().objects).flat_map(|i| {
        let at = std::ptr::from_ref(map.object(i)).cast::<u64>();
        let parts = [0..head, head + 1..bits, bits + 4..size_of::<Object>() / 8];
        parts.into_iter().flat_map(move |part| words("slot", at, i, part))
    });
    let blocks = (0..map.geometry().blocks)
        .flat_map(|i| words("block", map.blocks(i, 1).cast::<u64>().cast_const(), i, 0..BLOCK / 8));
    slots.chain(blocks).collect()
}

/// An object that is removed: how it was made and where it is, what the late process does, and how it goes.
struct Old {
    place: Place,
    late: Box<dyn FnOnce()>,
    remove: Box<dyn FnOnce()>,
}

/// A thread is late at an object that `old` makes, where a member has died. `next` makes the next one, as that number's next member; false: it did not
/// get the memory.
fn late(
    world: &World,
    objects: u32,
    old: impl FnOnce(&'static Map, &Actor) -> Old,
    next: impl FnOnce(&'static Map, &Actor) -> bool + 'static,
) {
    let (stage, _) = Stage::with_blocks(world, 6, &[], objects, BLOCKS);
    let map = stage.map;
    let d = world.prepare("dead");
    let victim = stage.member(d, "dead");
    let Old { place, late, remove } = d.before(|| old(map, &victim));
    d.run(|| ());
    let was = world.share(RefCell::new(None::<Vec<(String, u64)>>));
    // Some kinds begin their numbers by the clock: it has gone on when the next one is made. The late process begins before that.
    world.prepare("late").run(move || {
        sleep(1_000_000);
        let early = was.borrow().is_none();
        late();
        if early && was.borrow().is_some() {
            reached(LATE);
        }
    });
    stage.lasting(world.prepare("maker").immortal(), move || {
        sleep(1_000_000);
        map.recover_dead();
        remove();
        // As long as the late process has the dead one's life word, the number, and the memory where its bit stands, stay out of use.
        let me = Actor::join(map, "next").expect("a slot");
        if me.member() == victim.member() && next(map, &me) && map.object(place.index).head.load(SeqCst) != place.head.0
        {
            was.replace(Some(image(map)));
            reached(REUSED);
        }
    });
    world.prepare("last").last().run(move || {
        for (was, now) in was.take().into_iter().flatten().zip(image(map)) {
            assert_eq!(now, was, "the late process has changed it");
        }
    });
    world.may_wait(|| true);
}

/// The late process, or another, is stopped at each step.
fn nothing_changes(name: &str, world: impl Fn(&World) + Sync) {
    Search::sweep(name).stops(1).resume().run(world).assert_clean().assert_reached(&[REUSED, LATE]);
}

/// The arena has seen as many waits as a busy one sees in some hours: more than the numbers that a lock of readers has in the same word.
fn much_waited(map: &Map) {
    map.header().ticket.store(3 << 33, SeqCst);
}

/// Makes the third of three objects: a lock of readers that is made next has its parts in the slots of the first two, and itself in the third.
fn third<T>(map: &'static Map, make: impl FnOnce() -> T) -> T {
    let two = ["a", "b"].map(|name| CondvarAt::make(map, name).expect("room"));
    let third = make();
    two.into_iter().for_each(CondvarAt::remove);
    third
}

fn makes_a_lock(map: &'static Map) -> bool {
    RwLockAt::make(map, "next").is_ok_and(|lock| lock.places().0.index == 2)
}

#[test]
fn a_late_notifier_of_all_changes_nothing_of_the_next_object() {
    nothing_changes("late_notifier", |world: &World| {
        let old = |map: &'static Map, _: &Actor| {
            much_waited(map);
            let c = third(map, || CondvarAt::make(map, "c").expect("room"));
            let late = move || {
                // As the public function looks.
                if map.is_there(c.place) {
                    c.notify_all();
                }
            };
            Old { place: c.place, late: Box::new(late), remove: Box::new(move || c.remove()) }
        };
        late(world, 3, old, |map, _| makes_a_lock(map));
    });
}

/// The same while the next object, a lock of readers, is being made: the notifier's swap comes between two stores of the maker.
#[test]
fn a_late_notifier_of_all_changes_nothing_of_an_object_that_is_being_made() {
    let world = |world: &World| {
        let (stage, _) = Stage::with_blocks(world, 4, &[], 3, 1);
        let map = stage.map;
        much_waited(map);
        let c = third(map, || CondvarAt::make(map, "c").expect("room"));
        world.prepare("late").run(move || c.notify_all());
        let lock = world.share(Cell::new(None));
        stage.lasting(world.prepare("maker"), move || {
            c.remove();
            lock.set(RwLockAt::make(map, "next").ok());
        });
        world.prepare("last").last().run(move || {
            let lock = lock.get().expect("room");
            assert_eq!(lock.places().0.index, c.place.index, "not in its memory");
            let me = Actor::join(map, "last").expect("a slot");
            let turn = lock.enter(&me, true, None).expect("nobody else has ever had it");
            assert!(lock.leave(turn));
            reached(REUSED);
        });
    };
    let report = Search::depth("late_notifier_beside_a_maker", 2).run(world);
    assert!(report.assert_clean().assert_reached(&[REUSED]).complete());
}

/// A map's changes are told to those that wait for one; a recoverer of a changer tells them too.
#[test]
fn a_late_recoverer_of_a_map_changes_nothing_of_the_next_object() {
    nothing_changes("late_at_a_map", |world: &World| {
        let old = |map: &'static Map, dead: &Actor| {
            much_waited(map);
            let m = third(map, || MapAt::make(map, "m").expect("room"));
            assert!(dead.enters(map, m.place));
            Old { place: m.place, late: Box::new(move || _ = map.recover_dead()), remove: Box::new(move || m.remove()) }
        };
        late(world, 3, old, |map, me| {
            let made = makes_a_lock(map);
            // A thread is about to wait for the next one.
            map.waiting(2, 0).fetch_or(1 << me.member(), SeqCst);
            made
        });
    });
}

/// A mutex whose data take all blocks: its users have zeros there, or small numbers.
fn makes_data(map: &'static Map, small: bool) -> bool {
    let word = |i: usize| if small { i as u64 % 4 } else { 0 };
    MutexAt::of_words(map, "next", BLOCKS as usize * BLOCK / 8, word).is_ok()
}

/// A late recoverer of an object that `old` makes, whose memory becomes a mutex's data.
fn recovered_late_into_data(
    name: &str,
    objects: u32,
    old: impl Fn(&'static Map, &Actor) -> (Place, Box<dyn FnOnce()>) + Copy + Sync,
) {
    for small in [false, true] {
        nothing_changes(&format!("{name}_{small}"), |world: &World| {
            let old = |map: &'static Map, dead: &Actor| {
                let (place, remove) = old(map, dead);
                Old { place, late: Box::new(move || _ = map.recover_dead()), remove }
            };
            late(world, objects, old, move |map, _| makes_data(map, small));
        });
    }
}

fn makes_a_cast(map: &'static Map, name: &str) -> Option<(CastAt, Place)> {
    Some((CastAt::make(map, name, 2, 2).ok()?, map.find(name)?))
}

#[test]
fn a_late_recoverer_of_a_publisher_changes_no_data() {
    recovered_late_into_data("late_at_a_publisher", 1, |map, dead| {
        let (tube, place) = makes_a_cast(map, "t").expect("room");
        dead.publishes(tube).expect("room");
        dead.half_says(tube, 7);
        (place, Box::new(move || tube.remove()))
    });
}

#[test]
fn a_late_recoverer_of_a_subscriber_changes_no_data() {
    recovered_late_into_data("late_at_a_subscriber", 1, |map, dead| {
        let (tube, place) = makes_a_cast(map, "t").expect("room");
        dead.subscribes(tube, When::Oldest).expect("room");
        (place, Box::new(move || tube.remove()))
    });
}

/// The next tube's publisher is in the middle of its first message: as the dead one was.
#[test]
fn a_late_recoverer_takes_nothing_of_the_next_publisher() {
    nothing_changes("late_at_the_next_publisher", |world: &World| {
        let half = |map: &'static Map, me: &Actor, name: &str| {
            let (tube, place) = makes_a_cast(map, name)?;
            me.publishes(tube).expect("room");
            me.subscribes(tube, When::Oldest).expect("room");
            me.half_says(tube, 7);
            Some((tube, place))
        };
        let old = move |map: &'static Map, dead: &Actor| {
            let (tube, place) = half(map, dead, "t").expect("room");
            Old { place, late: Box::new(move || _ = map.recover_dead()), remove: Box::new(move || tube.remove()) }
        };
        late(world, 1, old, move |map, me| half(map, me, "next").is_some());
    });
}

/// A receiver died with a message borrowed, of a tube that delivers it again, or drops it.
#[test]
fn a_late_recoverer_of_a_receiver_counts_nothing_in_data() {
    for drops in [false, true] {
        recovered_late_into_data(&format!("late_at_a_receiver_{drops}"), 2, move |map, dead| {
            let tube = NamedAt::make(map, "t", 2, [false; 2], drops).expect("a tube");
            assert!(dead.attach(tube, true).is_ok() && dead.attach(tube, false).is_ok());
            assert_eq!(dead.put(tube, 7, None), Came::Sent);
            assert!(dead.borrow(tube).is_ok());
            (map.find("t").expect("just made"), Box::new(move || tube.remove()))
        });
    }
}

/// The next stack's member has taken the cell that the dead one had.
#[test]
fn a_late_recoverer_of_a_stack_frees_no_cell_of_the_next() {
    nothing_changes("late_at_a_stack", |world: &World| {
        let takes = |map: &'static Map, me: &Actor, name: &str| {
            let stack = StackAt::make(map, name, 3, 3).ok()?;
            (me.enters(map, stack.place) && me.takes_cell(stack)).then_some(stack)
        };
        let old = move |map: &'static Map, dead: &Actor| {
            let stack = takes(map, dead, "s").expect("room");
            let late = Box::new(move || _ = map.recover_dead());
            Old { place: stack.place, late, remove: Box::new(move || stack.remove()) }
        };
        late(world, 1, old, move |map, me| takes(map, me, "next").is_some());
    });
}

/// The next monitor's member waits, for the first time, as the dead one did.
#[test]
fn a_late_recoverer_of_a_monitor_ends_no_wait_in_the_next() {
    nothing_changes("late_at_a_monitor", |world: &World| {
        let waits = |map: &'static Map, me: &Actor, name: &str| {
            let monitor = MonitorAt::make(map, name, 1).ok()?;
            (me.enters(map, monitor.place) && me.announces(monitor, 0).is_some()).then_some(monitor)
        };
        let old = move |map: &'static Map, dead: &Actor| {
            let monitor = waits(map, dead, "w").expect("room");
            let late = Box::new(move || _ = map.recover_dead());
            Old { place: monitor.place, late, remove: Box::new(move || monitor.remove()) }
        };
        late(world, 1, old, move |map, me| waits(map, me, "next").is_some());
    });
}
