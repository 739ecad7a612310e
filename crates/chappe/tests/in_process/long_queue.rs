//! A long queue: an arena has room for thousands of members, each of which takes memory when it first comes.

use crate::house::{House, eventually};
use chappe::{Arena, ArenaOptions, Mutex as Lock, Pool, RwLock, Semaphore};
use chappe_arena::{Map, MemberKind};
use std::os::unix::fs::MetadataExt;
use std::sync::{Barrier, Mutex};
use std::thread::{Builder, Scope};

fn small<'s>(s: &'s Scope<'s, '_>, body: impl FnOnce() + Send + 's) {
    Builder::new().stack_size(64 << 10).spawn_scoped(s, body).expect("a thread");
}

fn tid() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() as u32 }
}

/// So many threads wait for a permit, and get it in the order in which they came.
fn all_are_served_in_order(pool: &Pool, waiters: usize) {
    let held = pool.acquire().unwrap();
    let served = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..waiters {
            small(s, || {
                let _permit = pool.acquire().unwrap();
                served.lock().unwrap().push(tid());
            });
        }
        let line = || pool.waiters().iter().map(|w| w.who.tid).collect::<Vec<_>>();
        eventually("all wait", || line().len() == waiters);
        let line = line();
        drop(held);
        eventually("all were served", || served.lock().unwrap().len() == waiters);
        assert_eq!(*served.lock().unwrap(), line);
    });
}

#[test]
fn more_than_a_thousand_wait_in_an_arena_as_it_is_made_and_are_served_in_order() {
    let _house = House::new("long-queue");
    all_are_served_in_order(&Pool::create("p", 1).unwrap(), 1_100);
}

/// An arena for 65,535 members.
fn large(arena: &str) -> &'static Map {
    let made = Arena::create(arena, &ArenaOptions { members: Some(65_535), ..ArenaOptions::default() }).unwrap();
    assert_eq!(made.capacity().members, 65_535);
    made.map()
}

#[test]
#[ignore = "storm: ten thousand threads"]
fn ten_thousand_wait_in_one_queue_and_are_served_in_order() {
    let _house = House::new("long-queue-storm");
    large("large");
    all_are_served_in_order(&Pool::create("large/p", 1).unwrap(), 10_000);
}

/// What has a number beyond 4,096 is named whole by each kind's word: by a holder's, a waiter's, one that ended with what it held, and by a unit on its way.
#[test]
fn members_beyond_the_first_4096_hold_wait_and_end_as_others_do() {
    const TAKEN: u32 = 4_200;
    // More than a scan looks at: the batch of the wait queue names them as well.
    const WAITERS: usize = 24;
    let _house = House::new("long-queue-numbers");
    let map = large("large");
    // As reapers: they need no second word, which one thread could not have of so many slots in short time.
    (0..TAKEN).for_each(|_| _ = map.join(MemberKind::Reaper, "one of many").unwrap());
    let pool = Pool::create("large/p", 1).unwrap();
    let permit = pool.acquire().unwrap();
    let holder = pool.holders().remove(0).who;
    assert!(holder.tid == tid() && holder.member >= TAKEN, "{holder:?}");
    drop(permit);
    all_are_served_in_order(&pool, WAITERS);

    let semaphore = Semaphore::create("large/s", 0).unwrap();
    let served = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..WAITERS {
            small(s, || {
                semaphore.down().unwrap();
                served.lock().unwrap().push(tid());
            });
        }
        let line = || semaphore.waiters().iter().map(|w| w.who.tid).collect::<Vec<_>>();
        eventually("all wait", || line().len() == WAITERS);
        let line = line();
        for n in 1..=WAITERS {
            semaphore.up().unwrap();
            eventually("one more is served", || served.lock().unwrap().len() == n);
        }
        assert_eq!((*served.lock().unwrap()).clone(), line);
    });
    assert_eq!(semaphore.value(), 0);

    let lock = Lock::create("large/m", 0u64).unwrap();
    let shared = RwLock::create("large/r", 0u64).unwrap();
    std::thread::scope(|s| {
        for n in 0..8 {
            let (lock, shared) = (&lock, &shared);
            small(s, move || {
                for _ in 0..200 {
                    *lock.lock().unwrap() += 1;
                    if n % 2 == 0 {
                        *shared.write().unwrap() += 1;
                    } else {
                        assert!(*shared.read().unwrap() <= 800);
                    }
                }
            });
        }
    });
    assert_eq!((*lock.lock().unwrap(), *shared.read().unwrap()), (1_600, 800));

    // A thread ends with what it holds: the permit comes back, and to the first who waits.
    std::thread::scope(|s| small(s, || std::mem::forget(pool.acquire().unwrap())));
    drop(pool.acquire_timeout(std::time::Duration::from_secs(60)).unwrap());
}

/// How many bytes of memory the arena has.
fn taken(arena: &str) -> u64 {
    std::fs::metadata(chappe::directory().unwrap().join(arena)).unwrap().blocks() * 512
}

#[test]
fn members_and_their_wait_bits_take_memory_when_they_first_come() {
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
    // 256 members, 1,024 objects, and a line of wait bits for each of 2,048 objects and what says that it has any; and the ends of pages.
    let wanted = (256 * 256 + 1_024 * 128 + 2_048 * (64 + 16)) as u64;
    assert!((wanted..wanted + 9 * 4096).contains(&grown[0]), "{grown:?}");
    assert_eq!(grown[0], grown[1]);
}
