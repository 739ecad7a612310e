//! The memory of named tubes used again: a recoverer or a member that comes late changes nothing of the next object there, tube or not.

use crate::crash::Stage;
use chappe_arena::layout::{BLOCK, Kind};
use chappe_arena::{Map, Sort};
use chappe_crashsim::{Search, World, process, reached};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst, pause};
use chappe_plat::futex::{self, Scope};
use chappe_sync::model::{Actor, Came, NamedAt};
use std::cell::Cell;

/// What the next object has in the memory that a tube had, word by word: by the word's number and a member's slot and generation.
type Words = fn(u64, u64, u64) -> u64;

/// Each word looks like that of a slot to which the member writes.
const WRITTEN: Words = |at, member, _| at << 19 | member << 3 | 1;
/// Each word looks like the member's name at an end that may have one handle only.
const ALONE: Words = |_, member, generation| generation << 32 | (member + 1);

/// Makes an object with so many blocks of these words. Answers them.
fn of_words(map: &'static Map, blocks: u32, word: impl Fn(u64) -> u64) -> &'static [AtomicU64] {
    let words = Cell::new(None);
    let made = map.make(&map.admin(), "words", Kind::Condvar, |index, generation| {
        let at = map.blocks(map.claim_blocks(index, generation, Sort::Words, blocks)?, blocks).cast::<AtomicU64>();
        // SAFETY: the blocks are this object's; the world keeps its memory.
        let all = unsafe { std::slice::from_raw_parts(at, blocks as usize * BLOCK / 8) };
        // SeqCst: no other order is of interest.
        (0..).zip(all).for_each(|(at, of)| of.store(word(at), SeqCst));
        words.set(Some(all));
        let o = map.object(index);
        // SeqCst: no other order is of interest.
        [&o.permits, &o.more, &o.hint].iter().for_each(|word| word.store(0, SeqCst));
        Ok(())
    });
    made.expect("the tube's memory");
    words.get().expect("just made")
}

/// A member has died that never used the tube, and a recoverer is late; a receiver, which waits there, leaves when the tube is removed. Then another
/// object has the tube's memory.
fn recovered_beside(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 12);
    let map = stage.map;
    let tube = NamedAt::make(map, "t", 2, [false; 2], false).expect("a tube");
    let d = world.prepare("dead");
    let dead = stage.member(d, "dead");
    d.run(|| ());
    let w = world.prepare("waiter").immortal();
    let waiter = stage.member(w, "waiter");
    w.before(|| waiter.attach(tube, false).expect("room"));
    stage.lasting(w, move || {
        assert_eq!(waiter.get(tube, None), Came::Dead);
        waiter.detach(tube, false);
    });
    let r = world.prepare("recoverer");
    stage.member(r, "recoverer");
    stage.lasting(r, move || _ = map.recover_dead());
    taken_over(world, &stage, tube, WRITTEN, &dead);
}

/// The only sender of a removed tube leaves it, and is late. Then another object has the tube's memory.
fn left_late(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 12);
    let tube = NamedAt::make(stage.map, "t", 2, [true, false], false).expect("a tube");
    let s = world.prepare("sender");
    let sender = stage.member(s, "sender");
    s.before(|| sender.attach(tube, true).expect("nobody is there"));
    stage.lasting(s, move || sender.detach(tube, true));
    taken_over(world, &stage, tube, ALONE, &sender);
}

/// A process removes the tube, and makes the next object when no thread uses the tube any more.
fn taken_over(world: &World, stage: &Stage, tube: NamedAt, word: Words, of: &Actor) {
    let (map, member) = (stage.map, of.member());
    // SeqCst: no other order is of interest.
    let generation = map.member(member).ident.load(SeqCst) >> 32;
    let its = move |at| word(at, member.into(), generation);
    let words = world.share(Cell::new(None));
    let m = world.prepare("maker").immortal();
    stage.member(m, "maker");
    stage.lasting(m, move || {
        let [_, object] = tube.objects();
        tube.remove();
        let is_used = || map.anybody_waits(object) || tube.is_attached();
        // If a user is stopped just then, no other object gets the memory.
        (0..100).take_while(|_| is_used()).for_each(|_| pause());
        if !is_used() {
            words.set(Some(of_words(map, map.geometry().blocks, its)));
            reached("another object in its memory");
        }
    });
    world.prepare("last").last().run(move || {
        for (at, word) in (0..).zip(words.get().into_iter().flatten()) {
            // SeqCst: no other order is of interest.
            assert_eq!(word.load(SeqCst), its(at), "word {at} of the next object was written over");
        }
    });
}

#[test]
fn a_late_recoverer_of_a_tube_changes_nothing_of_the_next_object() {
    let search = Search::sweep("recovered_beside").stops(1).resume();
    search.run(recovered_beside).assert_clean().assert_reached(&["another object in its memory"]);
}

/// A thread leaves the arena, and looks whether it has leaked slots of a tube, which it has never used. Then another object has the tube's memory.
fn left_beside(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 12);
    let tube = NamedAt::make(stage.map, "t", 2, [false; 2], false).expect("a tube");
    let l = world.prepare("leaver");
    let leaver = stage.member(l, "leaver");
    stage.lasting(l, move || tube.keep_from_all(leaver.member()));
    taken_over(world, &stage, tube, WRITTEN, &leaver);
}

#[test]
fn a_thread_that_leaves_the_arena_changes_nothing_in_a_removed_tubes_memory() {
    let search = Search::sweep("left_beside").stops(1).resume();
    search.run(left_beside).assert_clean().assert_reached(&["another object in its memory"]);
}

#[test]
fn a_handle_that_leaves_a_removed_tube_late_changes_nothing_of_the_next_object() {
    Search::sweep("left_late")
        .stops(1)
        .resume()
        .run(left_late)
        .assert_clean()
        .assert_reached(&["another object in its memory"]);
}

/// A sender has died with a slot reserved, and one that recovers it is late: by then the tube was removed, the next tube has its memory, and the
/// next member has its number, and has reserved a slot there.
fn recovered_late_at_a_tube(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 6, &[], 2, 24);
    let map = stage.map;
    let make = move |name| NamedAt::make(map, name, 2, [false; 2], false);
    let tube = make("t").expect("a tube");
    let dead = world.prepare("dead");
    let dead_one = stage.member(dead, "dead");
    dead.before(|| {
        assert!(dead_one.attach(tube, true).is_ok());
        assert!(dead_one.reserve(tube, 7).is_ok());
    });
    dead.run(|| ());
    let over = world.share(AtomicU32::new(0));
    world.prepare("late").run(move || {
        map.recover_dead();
        over.store(1, SeqCst); // SeqCst: no other order is of interest.
        futex::wake(&over, 1, Scope::Shared);
    });
    let first = tube.word(0);
    world.prepare("next").immortal().run(move || {
        map.recover_dead();
        tube.remove();
        // Unless the dead one still has its memory.
        let Ok(tube) = make("n") else { return };
        let me = Actor::join(map, "next").expect("a slot");
        assert!(me.attach(tube, true).is_ok());
        let Ok(slot) = me.reserve(tube, 8) else { panic!("no slot") };
        if me.member() == dead_one.member() && std::ptr::eq(first, tube.word(0)) {
            reached("the same number in the same memory");
        }
        // SeqCst: as above.
        while over.load(SeqCst) == 0 {
            futex::wait(&over, 0, None, Scope::Shared);
        }
        assert_eq!(me.commit(tube, slot), Came::Sent, "its slot was taken away");
        process::linger();
    });
}

#[test]
fn one_that_recovers_late_takes_no_slot_of_the_next_tube() {
    let search = Search::sweep("recovered_late_at_a_tube").stops(1).resume();
    search.run(recovered_late_at_a_tube).assert_clean().assert_reached(&["the same number in the same memory"]);
}
