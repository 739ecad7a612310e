//! What doctor finds in an arena, and puts right: what killed makers leave behind, and words that were written over.

use crate::house::{House, ROLE, eventually, listen, say};
use chappe::doctor::{Finding, examine};
use chappe::tube::named::{Kind, Tube, TubeOptions};
use chappe::{Arena, ArenaOptions, Mutex, ObjectState, Pool, PoolError, Semaphore};
use chappe_arena::Map;
use chappe_arena::layout::{Head, Kind as ObjectKind, Member};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "hold" => {
            let mutex = Mutex::<u64>::open("m").unwrap();
            let tube = Tube::<u64>::open("t").unwrap();
            let held = (mutex.lock().unwrap(), tube.sender().unwrap());
            say(&std::process::id().to_string());
            listen();
            drop(held);
        }
        "end" => {}
        other => panic!("no such role: {other}"),
    }
}

fn arena() -> Arena {
    let options = ArenaOptions { members: Some(16), objects: Some(16), cells: Some(16), data: Some(16384) };
    Arena::open_or_create("default", &options).unwrap()
}

fn map() -> &'static Map {
    arena().map()
}

/// Makes as many member slots as if so many members had joined.
fn count_in(members: u32) {
    for i in map().members_used()..members {
        let m = map().member(i);
        m.life.make();
        m.tgid_word.make();
    }
    // SeqCst: no other order is of interest.
    map().header().members_high.store(members, Ordering::SeqCst);
}

fn found(kind: &str) -> Vec<Finding> {
    let health = examine("default");
    assert!(health.error.is_none());
    health.findings.into_iter().filter(|f| f.kind == kind).collect()
}

/// The only one of its kind, which is not there a second time.
#[track_caller]
fn found_once(kind: &str) -> Finding {
    let mut first = found(kind);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(found(kind), [], "it was put right");
    first.remove(0)
}

/// Writes a word into the arena's file.
fn write(at: usize, word: u64) {
    let file = std::fs::File::options().write(true).open(arena().path().unwrap()).unwrap();
    file.write_all_at(&word.to_le_bytes(), at as u64).unwrap();
}

/// The word that says that something is an object's.
fn owner(name: &str) -> u64 {
    let place = map().find(name).unwrap();
    u64::from(place.head.generation()) << 32 | u64::from(place.index + 1)
}

fn held(member: u64, generation: u64) -> u64 {
    1 | member << 28 | generation << 44
}

fn word(name: &str, word: u64) {
    map().object(map().find(name).unwrap().index).slot.word.store(word, Ordering::SeqCst);
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let _house = House::new("doctor-well");
    arena();
    let _all = (Pool::create("p", 3).unwrap(), Semaphore::create("s", 1).unwrap(), Mutex::create("m", 1u64).unwrap());
    let tube = Tube::<u64>::create("t", &TubeOptions { kind: Kind::Spsc, ..TubeOptions::default() }).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(1).unwrap();
    let loan = receiver.borrow().unwrap();
    assert_eq!(examine("default").findings, []);
    loan.release().unwrap();
}

#[test]
fn cells_that_a_killed_resizer_had_claimed_are_free_again() {
    let _house = House::new("doctor-cells");
    arena();
    let pool = Pool::create("p", 3).unwrap();
    let g = map().geometry();
    // As a maker that is killed between the claim and the link: marked, and in no chain.
    for i in 2..g.cells as usize {
        write(g.cells_at() + i * 32 + 16, owner("p"));
    }
    assert!(matches!(Pool::create("q", 4), Err(PoolError::Arena(_))), "they count as p's");
    assert!(found_once("leaked-cells").what.starts_with("14 cell(s)"));
    Pool::create("q", 4).unwrap();
    assert_eq!(pool.holders().len(), 0);
    assert_eq!(pool.available(), 3);
}

#[test]
fn data_that_a_killed_maker_had_claimed_is_free_again() {
    let _house = House::new("doctor-data");
    arena();
    let mutex = Mutex::create("m", [7u64; 16]).unwrap();
    let g = map().geometry();
    // As a maker that is killed before the head is stored: what it had claimed is marked with the generation that the next has.
    let used = 2;
    for i in 0..g.blocks as usize - used {
        write(g.owners_at() + i * 8, owner("m"));
    }
    map().header().data_high.store(g.blocks, Ordering::SeqCst);
    assert!(Mutex::create("n", 1u64).is_err());
    assert!(found_once("leaked-data").what.starts_with(&format!("{} block(s)", g.blocks as usize - used)));
    Mutex::create("n", 1u64).unwrap();
    assert_eq!(*mutex.lock().unwrap(), [7; 16]);
}

#[test]
fn ends_of_tubes_that_a_killed_maker_left_are_removed() {
    let _house = House::new("doctor-ends");
    Tube::<u64>::create("default/t", &TubeOptions::default()).unwrap();
    let tube = map().find("t").unwrap();
    // As a maker that is killed between the two: the tube's object is gone, that of its senders is not.
    map().object(tube.index).head.store(Head::free(tube.head.generation()).0, Ordering::SeqCst);
    let ends = || map().objects().iter().filter(|o| o.head.kind() == Some(ObjectKind::End)).count();
    assert_eq!(ends(), 1);
    found_once("leaked-object");
    assert_eq!(ends(), 0);
}

#[test]
fn an_object_that_cannot_be_found_by_its_name_is_entered_again() {
    let _house = House::new("doctor-names");
    arena();
    let _all = (Pool::create("p", 3).unwrap(), Semaphore::create("s", 1).unwrap());
    for at in 0..map().geometry().names() {
        map().name_place(at).store(0, Ordering::SeqCst);
    }
    assert!(Pool::open("p").is_err());
    let finding = found_once("lost-name");
    assert!(finding.what.contains("p, s could not be found"), "{finding:?}");
    assert_eq!(Pool::open("p").unwrap().permits(), 3);
    Semaphore::open("s").unwrap().try_down().unwrap();
}

#[test]
fn an_object_held_by_a_member_that_never_was_is_free() {
    let _house = House::new("doctor-nobody");
    arena();
    let pool = Pool::create("p", 1).unwrap();
    let mutex = Mutex::create("m", 1u64).unwrap();
    let tube = Tube::<u64>::create("t", &TubeOptions { slots: 2, ..TubeOptions::default() }).unwrap();
    let sender = tube.sender().unwrap();
    // A member slot that was never used.
    word("p", held(9, 3));
    word("m", 6 | 9 << 24 | 3 << 40);
    sender.send(1).unwrap();
    let g = map().geometry();
    let place = map().find("t").unwrap();
    // SeqCst: no other order is of interest.
    let first = map().object(place.index).more.load(Ordering::SeqCst) as usize - 1;
    // SeqCst: as above.
    let blocks = map().object(place.index).permits.load(Ordering::SeqCst) as usize;
    let slots = (g.blocks_at() + first * 64..g.blocks_at() + (first + blocks) * 64).step_by(8);
    let bytes = std::fs::read(arena().path().unwrap()).unwrap();
    // The only word that is FULL in lap 0: it names a reader that does not exist.
    let full = slots.into_iter().rfind(|at| bytes[*at..at + 8] == 2u64.to_le_bytes()).unwrap();
    write(full, 9 << 3 | 3);
    let all = found("nobodys");
    let whats: Vec<&str> = all.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(whats.len(), 3, "{whats:?}");
    assert!(whats[0].contains("permit 0 of pool `p`") && whats[1].contains("mutex `m`"), "{whats:?}");
    assert!(whats[2].contains("1 unreleased message(s) of tube `t`"), "{whats:?}");
    assert_eq!(found("nobodys"), []);
    drop(pool.try_acquire().unwrap());
    assert!(mutex.try_lock().is_err_and(|e| e.to_string().contains("died")));
    assert_eq!(tube.receiver().unwrap().recv_redelivered().unwrap(), (1, true));
}

#[test]
fn a_member_that_the_kernel_did_not_mark_is_made_up_for() {
    let house = House::new("doctor-lost");
    let pool = Pool::create("default/p", 1).unwrap();
    let gone = house.actor("end");
    let tid = u64::from(gone.child.id());
    gone.ended();
    let here = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/self/ns/pid").unwrap());
    let at = map().geometry().members_at() + 9 * size_of::<Member>();
    for (field, value) in [
        (std::mem::offset_of!(Member, ident), 1 << 32 | tid),
        (std::mem::offset_of!(Member, pid), tid),
        (std::mem::offset_of!(Member, namespace), here),
    ] {
        write(at + field, value);
    }
    count_in(10);
    map().member(9).life.word().store(tid as u32, Ordering::SeqCst);
    word("p", held(9, 1));
    assert!(pool.try_acquire().is_err());
    // The process of the command that looks may have made up for it before the look: reapers and joiners ask the system, too.
    let all = found("lost-member");
    assert!(all.iter().all(|finding| finding.what.starts_with(&format!("pid {tid} `"))) && all.len() <= 1, "{all:?}");
    drop(pool.try_acquire().unwrap());
    assert!(arena().members().iter().all(|w| w.member != 9));
}

#[test]
fn slots_that_are_out_of_use_for_good_are_counted() {
    let _house = House::new("doctor-kept");
    arena();
    let tube = Tube::<u64>::create("t", &TubeOptions::default()).unwrap();
    let leak = || {
        let (mut sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
        sender.send(1).unwrap();
        std::mem::forget((sender.reserve().unwrap(), receiver.borrow().unwrap()));
    };
    std::thread::scope(|s| s.spawn(leak).join()).unwrap();
    let all = found("kept-slots");
    assert!(all.len() == 1 && all[0].what.starts_with("2 slot(s) of tube `t`"), "{all:?}");
}

#[test]
fn a_removed_object_that_is_still_in_use_is_reported() {
    let house = House::new("doctor-removed");
    arena();
    Mutex::create("m", 1u64).unwrap();
    Tube::<u64>::create("t", &TubeOptions::default()).unwrap();
    let mut holder = house.actor("hold");
    let pid = holder.hear();
    Mutex::<()>::remove("m", true).unwrap();
    Tube::<[u8]>::remove("t", true).unwrap();
    let all = found("removed-in-use");
    let by = format!("is still in use by pid {pid} `");
    assert!(all.len() == 2 && all.iter().all(|f| f.what.contains(&by)), "{all:?}");
    holder.ended();
    eventually("nobody uses it", || found("removed-in-use").is_empty());
}

#[test]
fn member_slots_that_are_written_over_are_one_finding() {
    let _house = House::new("doctor-slots");
    let pool = Pool::create_in(arena(), "p", 1).unwrap();
    let (g, size) = (map().geometry(), size_of::<chappe_arena::layout::Member>());
    // A slot that no member has had has no words yet that could be damaged.
    count_in(g.members);
    for slot in 3..g.members as usize {
        (0..size / 8).for_each(|at| write(g.members_at() + slot * size + at * 8, 0x5555_5555_5555_5555));
    }
    let all = found("damaged");
    assert_eq!(all.len(), 1, "{all:?}");
    let (lost, left) = (g.members - 3, "the arena goes on with the other 3");
    assert!(all[0].what.contains(&format!("{lost} of {} member slots, 3 the first of them", g.members)), "{all:?}");
    assert!(all[0].advice.as_ref().is_some_and(|a| a.contains(left)), "{all:?}");
    drop(pool.try_acquire().unwrap());
}

#[test]
fn an_object_whose_words_make_no_sense_is_listed_as_such() {
    let _house = House::new("doctor-damaged");
    arena();
    let _all = (Pool::create("p", 2).unwrap(), Semaphore::create("s", 1).unwrap(), Mutex::create("m", 1u64).unwrap());
    Tube::<u64>::create("t", &TubeOptions::default()).unwrap();
    Semaphore::create("good", 1).unwrap();
    for name in ["p", "s", "m"] {
        word(name, if name == "p" { 6 } else { 0 });
    }
    let g = map().geometry();
    let first = map().object(map().find("t").unwrap().index).more.load(Ordering::SeqCst) as usize - 1;
    write(g.blocks_at() + first * 64, 0);
    let listed = arena().objects();
    let all = found("damaged");
    for (name, what) in [
        ("pool `p`", "1 of its permits have words that are none"),
        ("semaphore `s`", "its word is none of a semaphore"),
        ("mutex `m`", "its word is none of a mutex"),
        ("tube `t`", "its shape cannot be"),
    ] {
        assert!(all.iter().any(|f| f.what.contains(name) && f.what.contains(what)), "{name}: {all:?}");
    }
    assert_eq!(all.len(), 4);
    assert!(arena().object("s").is_err(), "whoever came by has made it a dead one");
    let damaged = |name: &str| {
        let is_damaged = |state: &ObjectState| matches!(state, ObjectState::Damaged { .. });
        listed.iter().any(|o| o.name == name && is_damaged(&o.state))
    };
    assert!(damaged("s") && damaged("m") && damaged("t") && !damaged("p") && !damaged("good"));
}
