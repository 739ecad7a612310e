//! Owned semaphores and their two slots: what is left there, what comes there next, and a handler's post.

use crate::house::House;
use chappe::owned::{NotPosted, RobustSemaphore};
use chappe::{Arena, ArenaOptions, ObjectId, Semaphore, UpError};
use chappe_arena::Place;
use chappe_arena::layout::{Head, Kind};
use std::sync::atomic::Ordering;

fn arena() -> Arena {
    let small = ArenaOptions { members: Some(64), objects: Some(16), cells: Some(8), data: Some(64) };
    Arena::open_or_create("a", &small).unwrap()
}

fn made(name: &str) -> RobustSemaphore {
    RobustSemaphore::create_in(&arena(), Some(name)).unwrap()
}

#[test]
fn the_next_removal_takes_what_a_killed_remover_left() {
    let _house = House::new("left");
    let (half, whole) = (made("half"), made("whole"));
    let map = arena().map();
    let ObjectId { object, generation, .. } = half.object_id();
    map.unmake(&map.admin(), Place { index: object, head: Head::live(generation, Kind::Pool) });
    assert_eq!(map.objects().len(), 3, "its count is left");
    whole.remove(false).unwrap();
    assert!(map.objects().is_empty());
}

#[test]
fn a_post_after_removal_finds_nothing_whatever_is_there_now() {
    let _house = House::new("after");
    let it = made("s");
    let map = arena().map();
    let permit = map.object(it.object_id().object);
    // SeqCst: no other thread is there.
    let count = (permit.run.load(Ordering::SeqCst) & 0x1f_ffff) - 1;
    it.remove(false).unwrap();
    // A full one in the slot of its count.
    let next = loop {
        let next = Semaphore::create(&format!("a/{}", map.objects().len()), 0).unwrap();
        if next.object_id().object == count {
            break next;
        }
    };
    next.up_many(RobustSemaphore::MAX).unwrap();
    assert!(matches!(it.post(), Err(UpError::Dead { .. })));
    assert!(matches!(it.post_unseen(), Err(UpError::Dead { .. })));
}

#[test]
fn a_handlers_post_says_why_in_plain_data() {
    let _house = House::new("plain");
    let it = made("s");
    // The maker is a member by its thread; another thread is none.
    let elsewhere = || std::thread::spawn(move || (it.is_met(), it.post_in_handler())).join().unwrap();
    assert_eq!(elsewhere(), (false, Err(NotPosted::Unmet)));
    assert!(it.is_owned() && it.value() == 1);
    assert!(it.wait().is_ok());
    it.post_in_handler().unwrap();
    assert!(it.is_owned() && it.value() == 1);
    RobustSemaphore::prepare(&arena()).unwrap();
    assert_eq!(elsewhere(), (true, Ok(())));
    assert!(!it.is_owned() && it.value() == 2);
    let map = arena().map();
    let permit = map.object(it.object_id().object);
    // SeqCst, both: every other thread has been joined.
    let count = map.object((permit.run.load(Ordering::SeqCst) & 0x1f_ffff) - 1);
    // SeqCst: a test, which counts on no weaker order.
    count.slot.word.fetch_add(u64::from(RobustSemaphore::MAX - 2) << 4, Ordering::SeqCst);
    assert_eq!(elsewhere(), (true, Err(NotPosted::Overflow)));
    it.remove(true).unwrap();
    assert_eq!(elsewhere(), (true, Err(NotPosted::Dead)));
}
