//! Words of the shared memory that were written over: a thread that meets one gets an answer or an error; it does not panic, and does not
//! look outside of the arena. (Nothing is promised of what the word was about.)

use crate::house::{House, eventually};
use chappe::{Arena, Mutex, Pool, Semaphore};
use chappe_arena::Map;
use chappe_arena::layout::{Object, REMOVING, SERVING};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn map() -> &'static Map {
    Arena::open("default").unwrap().map()
}

fn object(name: &str) -> &'static Object {
    map().object(map().find(name).unwrap().index)
}

/// Words that name members, generations and waits that there are not, in every kind's tags.
fn wild() -> impl Iterator<Item = u64> {
    // Where a cell has the member and what goes with it, and where a lock's word has them.
    let at = [(28, 44), (24, 40)];
    let of = move |tag: u64| {
        at.map(|(m, aux)| [tag | 2000 << m | 7 << aux, tag | 0xfffe << m | 1 << aux, tag | 0xffff << m])
    };
    (0..8u64).flat_map(move |tag| of(tag).into_iter().flatten().chain([tag | !0 << 3]))
}

#[test]
fn a_mutex_that_names_nobody_there_is() {
    let _house = House::new("damaged-mutex");
    for word in wild() {
        let mutex = Mutex::create("m", 1u64).unwrap();
        object("m").slot.word.store(word, Ordering::SeqCst);
        let _ = mutex.try_lock().map(drop).map_err(drop);
        let _ = mutex.lock_timeout(Duration::from_millis(1)).map(drop).map_err(drop);
        let _ = mutex.is_condemned();
        let _ = Arena::open("default").unwrap().objects();
        object("m").slot.word.store(5, Ordering::SeqCst);
        Mutex::<()>::remove("m", true).unwrap();
    }
}

#[test]
fn a_pool_whose_permits_are_nobodys() {
    let _house = House::new("damaged-pool");
    for word in wild() {
        let pool = Pool::create("p", 2).unwrap();
        object("p").slot.word.store(word, Ordering::SeqCst);
        let _ = pool.holders();
        let _ = pool.try_acquire().map(drop);
        let _ = pool.try_acquire_many(2).map(drop);
        let _ = pool.acquire_timeout(Duration::from_millis(1)).map(drop);
        let _ = pool.force_release(0);
        Pool::remove("p", true).unwrap();
    }
}

#[test]
fn a_waiter_that_was_granted_what_is_not_there() {
    let _house = House::new("damaged-wait");
    let pool = Pool::create("p", 1).unwrap();
    let semaphore = Semaphore::create("s", 0).unwrap();
    for high in [0xf_ffffu64, 3, 0] {
        let held = pool.acquire().unwrap();
        // Until it was damaged in its sleep: one that gives up before that is followed by another.
        while !std::thread::scope(|s| {
            let waiter = s.spawn(|| pool.acquire_timeout(Duration::from_millis(300)).map(drop).is_ok());
            let mut damaged = false;
            while !damaged && !waiter.is_finished() {
                let bit = object("p").waiting[0].load(Ordering::SeqCst).trailing_zeros();
                if bit < u64::BITS {
                    let word = &map().member(bit).state;
                    let seen = word.load(Ordering::SeqCst);
                    let wild = seen | 3 | high << 32;
                    damaged =
                        seen & 3 == 2 && word.compare_exchange(seen, wild, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                }
                std::thread::yield_now();
            }
            let _ = waiter.join().expect("no panic");
            damaged
        }) {}
        drop(held);
        // Nobody else has come to harm.
        semaphore.up().unwrap();
        semaphore.down().unwrap();
    }
}

#[test]
fn an_arena_whose_remover_died_undecided_is_in_service_again() {
    let _house = House::new("damaged-state");
    let pool = Pool::create("p", 1).unwrap();
    let held = pool.acquire().unwrap();
    std::thread::scope(|s| {
        // A thread waits, so a reaper watches.
        let waiter = s.spawn(|| pool.acquire().map(drop));
        eventually("it waits", || !pool.waiters().is_empty());
        let state = &map().header().state;
        state.store(REMOVING, Ordering::SeqCst);
        eventually("its reaper has looked", || state.load(Ordering::SeqCst) == SERVING);
        drop(held);
        waiter.join().unwrap().unwrap();
    });
    // Nor does it keep newcomers out.
    map().header().state.store(REMOVING, Ordering::SeqCst);
    Pool::create("q", 1).unwrap();
    std::thread::spawn(|| drop(Pool::open("q").unwrap().acquire().unwrap())).join().unwrap();
    assert_eq!(map().header().state.load(Ordering::SeqCst), SERVING);
}

#[test]
fn a_table_of_names_that_names_no_slots() {
    let _house = House::new("damaged-names");
    Pool::create("p", 1).unwrap();
    let all = map().geometry().names();
    for at in 0..all {
        map().name_place(at).store(u64::MAX << 32 | 0x7fff_ffff, Ordering::SeqCst);
    }
    // Names lead nowhere, and new ones find a place.
    assert!(Pool::open("p").is_err());
    Semaphore::create("s", 1).unwrap().down().unwrap();
    Semaphore::remove("s", false).unwrap();
}
