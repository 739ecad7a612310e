//! Visits (`arena/src/visit.rs`): a thread that recovers the dead writes into no later object in the same memory, however long it was stopped; and
//! no thread that died keeps a slot from being used again.
//!
//! The objects here are of these worlds' own kind, whose words are changed by plain stores: `word` says which member is in the middle of something
//! there, as a ring's does, without a generation; `since` is what it was at.

use crate::crash::{directory, late};
use chappe_arena::layout::{Geometry, Head, Kind};
use chappe_arena::{Hooks, Kinds, Map, MemberKind, Place, Visitor};
use chappe_crashsim::{Process, Search, World, process, reached};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_plat::step;

const HOOKS: Hooks = Hooks {
    recover,
    clear: |_, _, _| (),
    notify_dead: |_, _, _| (),
    used: |map, index| (1..=8).contains(&map.object(index).slot.word.load(SeqCst)),
    wake_after_death: |_| (),
    leases: |_| (),
    kinds: &Kinds::NONE,
};

/// What the words of the next object in the slot are, from its making on.
const NEXT: [u64; 2] = [0x55, 0x77];

/// Looks whether the dead member is named; if so, makes up for what it was at, by stores, within a visit.
fn recover(map: &'static Map, member: u32, _generation: u32, me: &mut Visitor<'_>) {
    for index in 0..map.objects_used() {
        let o = map.object(index);
        let head = Head(o.head.load(SeqCst));
        map.through(Place { index, head });
        if !head.stands() || o.slot.word.load(SeqCst) != u64::from(member) + 1 {
            continue;
        }
        step!("the dead one is named, not yet visited");
        let Some(visit) = me.visit(Place { index, head }) else { continue };
        step!("visits");
        o.slot.since.store(9, SeqCst);
        step!("made up for half of it");
        // Another recoverer may have been through, and still nobody else has the memory.
        o.slot.since.store(0, SeqCst);
        o.slot.word.store(0, SeqCst);
        drop(visit);
    }
}

/// An arena with one object slot, whose object names the dead member.
#[derive(Clone, Copy)]
struct Scene {
    map: &'static Map,
    old: Place,
}

fn scene(world: &World, members: u32) -> Scene {
    let geometry = Geometry { members, objects: 1, cells: 1, blocks: 1 };
    let map = late::guarded(Map::create(&directory(), "default", geometry, false, HOOKS).expect("an arena"));
    let o = map.object(0);
    world.name(&o.head, "head");
    world.name(&o.slot.word, "member in it");
    world.name(&o.slot.since, "what it is at");
    let old = make(map, "old", [0, 0]).expect("a slot");
    let next = move || {
        let o = map.object(0);
        let (head, words) = (Head(o.head.peek()), [o.slot.word.peek(), o.slot.since.peek()]);
        if head.in_service() && head.generation() != old.head.generation() {
            assert_eq!(words, NEXT, "a late recoverer has written into the next object");
        }
    };
    world.invariant(next);
    Scene { map, old }
}

fn make(map: &'static Map, name: &str, words: [u64; 2]) -> Option<Place> {
    let admin = map.admin();
    let place = map.make(&admin, name, Kind::Condvar, |index, _| {
        let slot = &map.object(index).slot;
        slot.word.store(words[0], SeqCst);
        slot.since.store(words[1], SeqCst);
        Ok(())
    });
    place.ok()
}

impl Scene {
    /// A member that was at something in the object, and is dead.
    fn dead(self, world: &World) {
        let p = self.member(world, "dead");
        p.before(|| {
            let slot = &self.map.object(0).slot;
            let (tid, members) = (process::tid(), 0..self.map.members_used());
            let me = members.rev().find(|i| self.map.member(*i).ident.load(SeqCst) as u32 == tid).expect("its slot");
            slot.since.store(5, SeqCst);
            slot.word.store(u64::from(me) + 1, SeqCst);
        });
        p.run(|| ());
    }

    fn member(self, world: &World, name: &'static str) -> Process {
        let p = world.prepare(name);
        p.before(|| self.map.join(MemberKind::Thread, name).expect("a slot"));
        p
    }

    /// A process that recovers the dead; as a member or not.
    fn recoverer(self, world: &World, name: &'static str, is_member: bool) -> Process {
        let p = if is_member { self.member(world, name) } else { world.prepare(name) };
        p.run(move || {
            self.map.recover_dead();
            process::linger();
        })
    }

    /// A process that removes the object by force, and makes the next one.
    fn maker(self, world: &World, name: &'static str) -> Process {
        let p = self.member(world, name);
        p.run(move || {
            self.replace();
            process::linger();
        })
    }

    fn replace(self) -> bool {
        self.map.recover_dead();
        self.make_next()
    }

    fn make_next(self) -> bool {
        {
            let admin = self.map.admin();
            if self.map.is_there(self.old) {
                self.map.unmake(&admin, self.old);
            }
        }
        let made = make(self.map, "next", NEXT).is_some();
        let closed = Head(self.map.object(0).head.load(SeqCst)).is_closed();
        reached(if made {
            "made"
        } else if closed {
            "kept by a visit"
        } else {
            "kept"
        });
        made
    }
}

/// Two members recover at once, and a maker comes in between.
fn two(world: &World) {
    let s = scene(world, 8);
    s.dead(world);
    s.recoverer(world, "recoverer", true);
    s.recoverer(world, "another", true);
    s.maker(world, "maker");
}

#[test]
fn a_late_recoverer_writes_into_no_next_object() {
    for search in [
        Search::sweep("visit_two_stop").stops(1).resume(),
        Search::sweep("visit_two_kill").stops(1).kills(1).resume().schedules(6_000),
        Search::depth("visit_two_depth", 3).schedules(4_000),
    ] {
        search.run(two).assert_clean().assert_reached(&["made"]);
    }
    // A visit begins between a maker's look at the visits and its change of the head.
    Search::depth("visit_one_depth", 2).run(one).assert_clean().assert_reached(&["made"]);
    let kept = Search::sweep("visit_two_kept").stops(1).run(two);
    kept.assert_clean().assert_reached(&["made", "kept by a visit"]);
}

/// A visit alone, and a maker comes in between.
fn one(world: &World) {
    let s = scene(world, 2);
    s.member(world, "visitor").run(move || {
        if let Some(visit) = s.map.visitor().visit(s.old) {
            s.map.object(0).slot.since.store(9, SeqCst);
            drop(visit);
        }
        process::linger();
    });
    s.member(world, "maker").run(move || {
        s.make_next();
        process::linger();
    });
}

/// All schedules in which one store of any thread is held back for as long as it may be, with one switch at any step.
#[test]
fn a_visit_is_seen_by_its_maker_though_stores_are_buffered() {
    let report = Search::depth("visit_buffers", 1).store_buffers(1).run(one);
    assert!(report.assert_clean().assert_reached(&["made"]).complete());
}

/// The same of threads that are no members: they have guests' words.
fn guests(world: &World) {
    let s = scene(world, 8);
    s.dead(world);
    s.recoverer(world, "guest", false);
    s.recoverer(world, "another guest", false);
    s.maker(world, "maker");
}

#[test]
fn a_late_recoverer_that_is_no_member_writes_into_no_next_object() {
    for search in [
        Search::sweep("visit_guests_stop").stops(1).resume(),
        Search::sweep("visit_guests_kill").stops(1).kills(1).resume().schedules(4_000),
    ] {
        search.run(guests).assert_clean().assert_reached(&["made"]);
    }
}

/// All slots are taken but the dead member's: the thread that joins clears up after it, while another recovers it too.
fn joined(world: &World) {
    let s = scene(world, 3);
    s.dead(world);
    // First: the maker comes while it is late.
    world.prepare("joiner").run(move || {
        if s.map.join(MemberKind::Thread, "joiner").is_ok() {
            reached("joined");
        }
        process::linger();
    });
    s.maker(world, "maker");
    s.recoverer(world, "recoverer", true);
}

#[test]
fn a_joiner_that_is_late_with_the_dead_ones_slot_writes_into_no_next_object() {
    for search in [
        Search::sweep("visit_joined_stop").stops(1).resume(),
        Search::sweep("visit_joined_kill").stops(1).kills(1).resume().schedules(6_000),
    ] {
        search.run(joined).assert_clean().assert_reached(&["made", "joined"]);
    }
}

/// A maker dies at each step; another one goes on from there. A recoverer that visits dies, and a thread that joins has its slot from then on.
fn killed(world: &World) {
    let s = scene(world, 4);
    s.dead(world);
    s.recoverer(world, "recoverer", true);
    s.recoverer(world, "guest", false);
    // Before the maker comes.
    world.prepare("joiner").immortal().run(move || {
        (0..2).for_each(|_| _ = s.map.join(MemberKind::Thread, "joiner"));
        process::linger();
    });
    s.maker(world, "maker");
    world.prepare("last").last().run(move || {
        let is_next = || s.map.find("next").is_some();
        assert!(is_next() || s.replace(), "no living thread visits it, and the slot is not free");
    });
}

#[test]
fn neither_a_dead_visitor_nor_a_dead_maker_keeps_a_slot() {
    for search in [
        Search::sweep("visit_killed").kills(1),
        Search::sweep("visit_killed_twice").kills(2).schedules(4_000),
        Search::priorities("visit_killed_pct", 3).kills(1).schedules(3_000),
    ] {
        search.run(killed).assert_clean();
    }
}
