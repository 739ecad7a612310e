//! Members beyond the first 256: a line of their bits is read only where a pair of words says that a bit may stand, and no waiter is missed for it.

use crate::crash::directory;
use chappe_arena::Map;
use chappe_arena::layout::Geometry;
use chappe_crashsim::{Search, World, reached};
use chappe_plat::atomic::{AtomicU64, Ordering::SeqCst, pause};
use chappe_sync::model::{self, PoolAt};

/// Members of two lines, and what is free, or was given to which of them.
const NEAR: u32 = 299;
const ALSO: u32 = 300;
const OTHER: u32 = 800;

struct Counter {
    free: AtomicU64,
    told: AtomicU64,
}

/// An arena that has had so many members, and an object.
fn made(members: u32) -> (&'static Map, u32) {
    let geometry = Geometry { members, objects: 2, cells: 1, blocks: 2 };
    let map = model::create(&directory(), "default", geometry).expect("an arena");
    let object = PoolAt::make(map, "p", 1).expect("a pool").place.index;
    map.header().members_high.store(members, SeqCst);
    (map, object)
}

fn leave(map: &Map, object: u32, member: u32) {
    map.waiting(object, member as usize / 64).fetch_and(!(1 << (member % 64)), SeqCst);
}

/// The bits as a scan finds them.
fn all(map: &Map, object: u32) -> Vec<u32> {
    map.enlisted(object)
        .flat_map(|(first, bits)| (0..64).filter(move |b| bits >> b & 1 != 0).map(move |b| first + b))
        .collect()
}

/// One member has gone and looks whether another waits, or two do, and a last one comes while something is made free.
fn world(world: &World, gone: &'static [u32], dies: bool) {
    let (map, object) = made(900);
    gone.iter().for_each(|member| _ = map.enlist(object, *member));
    let counter = world.share(Counter { free: AtomicU64::new(0), told: AtomicU64::new(0) });
    for member in gone {
        let p = world.prepare("leaver");
        let p = if dies { p } else { p.immortal() };
        p.run(move || {
            leave(map, object, *member);
            if map.anybody_waits(object) {
                reached("another waits");
            }
        });
    }
    world.prepare("giver").immortal().run(move || {
        counter.free.store(1, SeqCst);
        if all(map, object).contains(&NEAR) {
            counter.told.store(1, SeqCst);
            reached("told");
        }
    });
    let waiter = world.prepare("waiter");
    let waiter = if dies { waiter } else { waiter.immortal() };
    waiter.run(move || {
        assert!(!map.enlist(object, NEAR));
        if counter.free.load(SeqCst) == 1 {
            reached("seen");
        } else {
            while counter.told.load(SeqCst) == 0 {
                pause();
            }
        }
        assert!(all(map, object).contains(&NEAR), "it stands, and is found");
    });
}

fn explored(name: &str, gone: &'static [u32], dies: bool) {
    let kills = u32::from(dies);
    let deep = Search::depth(name, 2).kills(kills).schedules(8_000).run(|w| world(w, gone, dies));
    let dice =
        Search::priorities(&format!("{name}_pct"), 4).kills(kills).schedules(2_000).run(|w| world(w, gone, dies));
    deep.assert_clean().assert_reached(&["another waits", "told", "seen"]);
    dice.assert_clean();
}

#[test]
fn a_member_that_leaves_a_line_of_bits_hides_no_newcomer() {
    explored("far_leaver", &[ALSO], false);
}

#[test]
fn two_who_leave_two_lines_hide_no_one_either() {
    explored("far_two", &[ALSO, OTHER], true);
}

/// A scan reads the lines of those that wait, and not of all that ever did.
#[test]
fn a_line_without_waiters_is_read_once() {
    let read = |world: &World| {
        let (map, object) = made(60_000);
        for member in (256..60_000).step_by(100) {
            map.enlist(object, member);
            leave(map, object, member);
        }
        assert!(all(map, object).is_empty());
        map.enlist(object, 59_999);
        world.steps_at_most(60);
        world.prepare("who gives").immortal().run(move || {
            assert!(map.anybody_waits(object));
            assert_eq!(all(map, object), [59_999]);
        });
    };
    Search::depth("far_read", 0).run(read).assert_clean();
}

/// A thread that found the bit in its line may be about to grant something there, whether its member has said where it stands or not.
#[test]
fn a_slot_whose_bit_stands_unsaid_is_not_used_again() {
    let unsaid = |world: &World| {
        let (map, object) = made(900);
        map.waiting(object, NEAR as usize / 64).fetch_or(1 << (NEAR % 64), SeqCst);
        assert!(!map.anybody_waits(object) && map.has_a_bit(object));
        PoolAt::make(map, "p", 1).expect("it is there").remove();
        let next = PoolAt::make(map, "q", 1).expect("another slot");
        assert_ne!(next.place.index, object);
        leave(map, object, NEAR);
        assert_eq!(PoolAt::make(map, "r", 1).expect("this slot").place.index, object);
        world.prepare("nobody").immortal().run(|| ());
    };
    Search::depth("far_unsaid", 0).run(unsaid).assert_clean();
}

/// The last member of arenas of any size, with one bit for each panel or for two.
#[test]
fn the_last_member_is_found_however_many_there_are() {
    let found = |world: &World| {
        for members in [257, 768, 769, 33_024, 33_025, 65_535] {
            let geometry = Geometry { members, objects: 1, cells: 1, blocks: 2 };
            let map = model::private(geometry).expect("an arena");
            map.header().members_high.store(members, SeqCst);
            for member in [256, members / 2 + 128, members - 1] {
                assert!(!map.enlist(0, member) && map.anybody_waits(0));
                assert_eq!(all(map, 0), [member], "of {members}");
                leave(map, 0, member);
                assert!(!map.anybody_waits(0) && !map.has_a_bit(0), "of {members}");
                map.begin_joining(member);
                assert!(map.joining().any(|m| m == member));
                map.end_joining(member);
                assert_eq!(map.joining().count(), 256);
            }
        }
        world.prepare("nobody").immortal().run(|| ());
    };
    Search::depth("far_last", 0).run(found).assert_clean();
}
