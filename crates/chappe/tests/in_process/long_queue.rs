//! A long queue: an arena has room for thousands of members, each of which takes memory when it first comes.

use crate::house::{House, eventually};
use chappe::{Arena, ArenaOptions, Pool, Semaphore};
use std::os::unix::fs::MetadataExt;
use std::sync::{Barrier, Mutex};
use std::thread::{Builder, Scope};

fn small<'s>(s: &'s Scope<'s, '_>, body: impl FnOnce() + Send + 's) {
    Builder::new().stack_size(64 << 10).spawn_scoped(s, body).expect("a thread");
}

#[test]
fn more_than_a_thousand_wait_in_an_arena_as_it_is_made_and_are_served_in_order() {
    const WAITERS: usize = 1_100;
    let _house = House::new("long-queue");
    let pool = Pool::create("p", 1).unwrap();
    let held = pool.acquire().unwrap();
    let served = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..WAITERS {
            small(s, || {
                let _permit = pool.acquire().unwrap();
                // SAFETY: takes nothing.
                served.lock().unwrap().push(unsafe { libc::gettid() } as u32);
            });
        }
        let line = || pool.waiters().iter().map(|w| w.who.tid).collect::<Vec<_>>();
        eventually("all wait", || line().len() == WAITERS);
        let line = line();
        drop(held);
        eventually("all were served", || served.lock().unwrap().len() == WAITERS);
        assert_eq!(*served.lock().unwrap(), line);
    });
}

/// How many bytes of memory the arena has.
fn taken(arena: &str) -> u64 {
    std::fs::metadata(chappe::directory().unwrap().join(arena)).unwrap().blocks() * 512
}

#[test]
fn members_and_their_wait_bits_take_memory_when_they_first_come_whether_objects_came_before_them_or_not() {
    const MEMBERS: usize = 300;
    let _house = House::new("long-queue-memory");
    let members = |arena: &str| {
        let pool = Pool::create(&format!("{arena}/p"), MEMBERS as u32).unwrap();
        let there = Barrier::new(MEMBERS);
        std::thread::scope(|s| {
            for _ in 0..MEMBERS {
                small(s, || {
                    let _permit = pool.acquire().unwrap();
                    there.wait();
                });
            }
        });
    };
    let objects = |arena: &str| {
        for n in 0..1_100 {
            Semaphore::create(&format!("{arena}/s{n}"), 0).unwrap();
        }
    };
    let grown = ["first", "second"].map(|arena| {
        let made = Arena::create(arena, &ArenaOptions::default()).unwrap();
        assert_eq!(made.capacity().members, 4095);
        let before = taken(arena);
        if arena == "first" {
            members(arena);
            objects(arena);
        } else {
            objects(arena);
            members(arena);
        }
        taken(arena) - before
    });
    // 256 members, 1,024 objects, and a line of wait bits for each of 2,048 objects; and the ends of pages.
    let wanted = (256 * 256 + 1_024 * 128 + 2_048 * 64) as u64;
    assert!((wanted..wanted + 5 * 4096).contains(&grown[0]), "{grown:?}");
    assert_eq!(grown[0], grown[1]);
}
