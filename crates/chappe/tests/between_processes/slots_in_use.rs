//! Slots of removed objects: used again as soon as no thread has anything of them, and not before. What a guard or a leaked
//! reference may still see belongs to no other object.

use crate::house::{House, ROLE, eventually, listen, say};
use chappe::owned::RobustSemaphore;
use chappe::{
    Arena, ArenaOptions, Condvar, Counter, Discipline, HelpError, HelpLock, LockError, Map, MapError, MapOptions,
    Monitor, MonitorError, Mutex, MutexGuard, Pool, RwLock, Semaphore, SharedError,
};
use chappe_arena::layout::Member;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::sync::mpsc::channel;

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (pool, mutex) = (Pool::open("small/p").unwrap(), Mutex::<[u64; 8]>::open("small/m").unwrap());
    std::thread::scope(|s| {
        if role == "locks" {
            s.spawn(|| {
                std::mem::forget(mutex.lock().unwrap());
                say("has it");
                listen();
            });
        } else {
            s.spawn(|| drop(pool.acquire_many(8)));
        }
    });
}

#[test]
fn in_a_named_arena_the_slot_of_a_removed_object_is_used_again_last() {
    let _house = House::new("slots-rotation");
    let _arena = small();
    let names = ["small/a", "small/b", "small/c", "small/d"];
    let slot = |name: &str| Semaphore::create(name, 0).unwrap().object_id().object;
    let first = names.map(slot);
    names.iter().for_each(|name| Semaphore::remove(name, false).unwrap());
    let again = [0, 1, 2, 3, 4, 5, 6, 7].map(|_| {
        let its = slot("small/e");
        Semaphore::remove("small/e", false).unwrap();
        its
    });
    assert_eq!((first, again), ([0, 1, 2, 3], [0, 1, 2, 3, 0, 1, 2, 3]));
}

/// Each slot of the arena is another kind's when the handles are asked.
#[test]
fn a_handle_of_a_removed_object_tells_nothing_of_the_next_one_in_its_slot() {
    let _house = House::new("slots-observed");
    // A readers-writer lock takes three slots, an owned semaphore two.
    let options = ArenaOptions { objects: Some(9), members: Some(16), ..Default::default() };
    let arena = Arena::create("small", &options).unwrap();
    let semaphore = Semaphore::create("small/semaphore", 3).unwrap();
    let barging = Semaphore::create_barging("small/barging", 3).unwrap();
    let pool = Pool::create("small/pool", 2).unwrap();
    let mutex = Mutex::create("small/mutex", 0u64).unwrap();
    let lock = RwLock::create("small/lock", 0u64).unwrap();
    let owned = RobustSemaphore::create_in(&arena, Some("owned")).unwrap();
    let all = || {
        let names = [semaphore.name(), barging.name(), pool.name(), mutex.name(), lock.name(), owned.name()];
        let numbers = [semaphore.value(), barging.value(), pool.permits(), pool.available(), owned.value()];
        let marks = [mutex.is_condemned(), lock.is_condemned(), mutex.is_biased(), pool.is_biased(), owned.is_owned()];
        (names, numbers, marks, owned.holder().is_some(), pool.discipline(), semaphore.discipline())
    };
    let before = all();
    assert_eq!((before.1, before.2[4]), ([3, 3, 2, 2, 1], true));
    for object in arena.objects() {
        arena.remove_object(&object.name, true).unwrap();
    }
    let gone = all();
    assert_eq!(gone, (before.0, [0, 0, 2, 0, 0], [false; 5], false, Discipline::Fifo, Discipline::Fifo));
    // Every slot is a condemned mutex's, then a biggest semaphore's.
    let slots = arena.capacity().objects;
    for i in 0..slots {
        let name = format!("small/m{i}");
        MutexGuard::condemn(Mutex::create(&name, 0u64).unwrap().lock().unwrap());
    }
    let nameless = ["small/?"; 6].map(str::to_owned);
    assert_eq!(all(), (nameless.clone(), [0; 5], gone.2, false, gone.4, gone.5));
    for i in 0..slots {
        Mutex::remove(&format!("small/m{i}"), true).unwrap();
        Semaphore::create(&format!("small/s{i}"), Semaphore::MAX).unwrap();
    }
    assert_eq!(all(), (nameless, [0; 5], gone.2, false, gone.4, gone.5));
    let error = semaphore.try_down().unwrap_err().to_string();
    assert!(error.contains("was removed") && !error.contains("small/s"), "{error}");
}

/// Nothing of the two may lie in one place.
fn apart(one: &u64, other: &u64) {
    assert!(!std::ptr::eq(one, other), "two have the same data");
}

fn small() -> Arena {
    let options = ArenaOptions { objects: Some(8), members: Some(16), ..Default::default() };
    Arena::create("small", &options).unwrap()
}

#[test]
fn leaving_the_arena_with_a_guard_condemns_its_mutex() {
    let _house = House::new("slots-leave");
    let mutex = Mutex::create("m", 1u64).unwrap();
    let guard = mutex.lock().unwrap();
    Arena::open("default").unwrap().leave();
    assert!(matches!(mutex.lock(), Err(LockError::Condemned { .. })));
    assert_eq!(*guard, 1);
}

#[test]
fn removed_under_a_guard_its_data_is_its_own() {
    let _house = House::new("slots-guard");
    let mutex = Mutex::create("m", 1u64).unwrap();
    let mut guard = mutex.lock().unwrap();
    Mutex::<()>::remove("m", true).unwrap();
    let next = Mutex::create("m", 2u64).unwrap();
    let mut other = next.lock().unwrap();
    apart(&guard, &other);
    (*guard, *other) = (3, 4);
    assert_eq!((*guard, *other), (3, 4));
    drop(guard);
    assert!(matches!(mutex.lock(), Err(LockError::Dead { .. })));
}

#[test]
fn removed_under_a_guard_that_outlives_the_membership() {
    let _house = House::new("slots-gone");
    let mutex = Mutex::create("m", 1u64).unwrap();
    let guard = mutex.lock().unwrap();
    Mutex::<()>::remove("m", true).unwrap();
    Arena::open("default").unwrap().leave();
    let next = Mutex::create("n", 2u64).unwrap();
    apart(&guard, &next.lock().unwrap());
}

#[test]
fn a_leaked_guards_data_is_never_reused() {
    let _house = House::new("slots-leaked");
    for force in [true, false] {
        let leaked: &'static u64 = std::thread::spawn(move || {
            let mutex: &'static Mutex<u64> = Box::leak(Box::new(Mutex::create("m", 5u64).unwrap()));
            let guard: &'static MutexGuard<'static, u64> = Box::leak(Box::new(mutex.lock().unwrap()));
            if force {
                Mutex::<()>::remove("m", true).unwrap();
            }
            &**guard
        })
        .join()
        .unwrap();
        if !force {
            Mutex::<()>::remove("m", false).unwrap();
        }
        let all: Vec<_> = (0..4).map(|i| Mutex::create(&format!("n{i}"), 0u64).unwrap()).collect();
        for one in &all {
            let mut guard = one.lock().unwrap();
            apart(leaked, &guard);
            *guard = 7;
        }
        assert_eq!(*leaked, 5);
        (0..4).for_each(|i| Mutex::<()>::remove(&format!("n{i}"), false).unwrap());
    }
}

#[test]
fn making_and_removing_goes_on_for_ever() {
    let _house = House::new("slots-rounds");
    let arena = small();
    for round in 0..200 {
        let mutex = Mutex::create("small/m", [round; 64]).unwrap();
        drop(mutex.lock().unwrap());
        let semaphore = Semaphore::create("small/s", 0).unwrap();
        Condvar::create("small/c").unwrap();
        // Removed under a waiter, and at once another one made, before that one is out.
        std::thread::scope(|s| {
            s.spawn(|| {
                assert!(semaphore.down().is_err());
                arena.leave();
            });
            while semaphore.waiters().is_empty() {
                std::thread::yield_now();
            }
            Semaphore::remove("small/s", true).unwrap();
            Pool::create("small/p", 1).unwrap();
        });
        // Now by force, now not; now locked, now not.
        let guard = (round % 4 == 0).then(|| mutex.lock().unwrap());
        Mutex::<()>::remove("small/m", round % 2 == 0).unwrap();
        drop(guard);
        Condvar::remove("small/c", false).unwrap();
        Pool::remove("small/p", false).unwrap();
    }
    assert_eq!(arena.capacity().objects_used, 0);
    let all: Vec<_> = (0..8).map(|i| Semaphore::create(&format!("small/s{i}"), 0)).collect();
    assert!(all.iter().all(Result::is_ok), "a slot is lost");
}

#[test]
fn a_handle_of_a_removed_pool_sees_no_holders() {
    let _house = House::new("slots-pool");
    let pool = Pool::create("p", 1).unwrap();
    Pool::remove("p", false).unwrap();
    for make in [
        || drop(Semaphore::create("o", 0).unwrap()),
        || drop(Condvar::create("o").unwrap()),
        || drop(Mutex::create("o", 0u64).unwrap()),
    ] {
        make();
        assert!(pool.holders().is_empty());
        assert!(
            Semaphore::remove("o", false).is_ok()
                || Condvar::remove("o", false).is_ok()
                || Mutex::<()>::remove("o", false).is_ok()
        );
    }
}

/// A process dies after what it waited for, or held, was removed; no thread watches for deaths. A maker that needs all the room there is
/// gets it.
#[test]
fn the_room_of_what_was_removed_under_one_that_died_is_there() {
    let house = House::new("slots-room");
    let options = ArenaOptions { cells: Some(8), data: Some(64), ..Default::default() };
    let arena = Arena::create("small", &options).unwrap();
    for role in ["waits", "locks"] {
        let (pool, mutex) = (Pool::create("small/p", 9).unwrap(), Mutex::create("small/m", [0u64; 8]).unwrap());
        let held = pool.acquire_many(2).unwrap();
        let mut actor = house.actor(role);
        match role {
            "waits" => eventually("it waits", || !pool.waiters().is_empty()),
            _ => assert_eq!(actor.hear(), "has it"),
        }
        let pid = actor.child.id() as i32;
        // SAFETY: a child of ours; its status is not wanted.
        let stopped = unsafe {
            libc::kill(pid, libc::SIGSTOP) == 0 && libc::waitpid(pid, std::ptr::null_mut(), libc::WUNTRACED) == pid
        };
        assert!(stopped);
        Pool::remove("small/p", true).unwrap();
        Mutex::<()>::remove("small/m", true).unwrap();
        drop((held, mutex));
        let again = || match role {
            "waits" => Pool::create("small/all", 9).map(drop).map_err(|e| e.to_string()),
            _ => Mutex::create("small/all", [0u64; 8]).map(drop).map_err(|e| e.to_string()),
        };
        assert!(again().is_err(), "{role}: what a living process may have in use is given to another");
        actor.kill();
        again().unwrap();
        match role {
            "waits" => Pool::remove("small/all", false).unwrap(),
            _ => Mutex::<()>::remove("small/all", false).unwrap(),
        }
    }
    assert_eq!(arena.capacity().objects_used, 0);
}

#[test]
fn making_changing_and_removing_bodies_goes_on_for_ever() {
    let _house = House::new("slots-bodies");
    let _arena = small();
    let options = MapOptions::default();
    let own = |_: &Map<u64, u64>| Map::unmake("small/m", true).unwrap();
    // Another thread removes it; the user finds that out by a change, or by a look.
    let others = |map: &Map<u64, u64>, finds: fn(&Map<u64, u64>) -> bool| {
        std::thread::spawn(|| Map::unmake("small/m", true).unwrap()).join().unwrap();
        assert!(finds(map));
    };
    for round in 0..50 {
        let map = Map::<u64, u64>::create("small/m", &options).unwrap_or_else(|e| panic!("round {round}: {e}"));
        map.insert(&1, &2).unwrap();
        match round % 4 {
            0 => own(&map),
            1 => others(&map, |map| matches!(map.insert(&1, &3), Err(MapError::Dead { .. }))),
            2 => others(&map, |map| matches!(map.get(&1), Err(MapError::Dead { .. }))),
            // It does not find that out.
            _ => others(&map, |_| true),
        }
    }
}

#[test]
fn light_threads_that_end_leave_no_slot_in_use() {
    let _house = House::new("slots-light");
    let _arena = small();
    for round in 0..20 {
        let changes = || {
            let count = Counter::open_or_create("small/c", 0).unwrap_or_else(|e| panic!("{e}"));
            count.add(1).unwrap();
        };
        chappe::thread::spawn(changes).join().unwrap_or_else(|_| panic!("round {round}"));
        Counter::unmake("small/c", true).unwrap();
    }
}

/// Removes a lock and finds that out, inside of it.
fn removed_inside(lock: &HelpLock<u64>) {
    HelpLock::unmake("m", true).unwrap();
    assert!(matches!(lock.try_lock(), Err(HelpError::Shared(SharedError::Dead { .. }))));
}

#[test]
fn removed_under_a_guard_of_a_helping_lock_its_data_is_its_own() {
    let _house = House::new("slots-helping");
    let lock = HelpLock::inherited_create("m", 1u64).unwrap();
    let mut guard = lock.lock().unwrap();
    removed_inside(&lock);
    let next = HelpLock::inherited_create("m", 2u64).unwrap();
    let mut other = next.lock().unwrap();
    apart(&guard, &other);
    (*guard, *other) = (3, 4);
    assert_eq!((*guard, *other), (3, 4));
}

#[test]
fn removed_under_a_thread_inside_a_monitor_its_data_is_its_own() {
    let _house = House::new("slots-monitor");
    let monitor = Monitor::create("m", 1u64, &["some"]).unwrap();
    let inside = monitor.enter().unwrap();
    Monitor::unmake("m", true).unwrap();
    assert!(matches!(monitor.enter(), Err(MonitorError::Shared(SharedError::Dead { .. }))));
    let next = Monitor::create("m", 2u64, &["some"]).unwrap();
    apart(&inside, &next.enter().unwrap());
    drop(inside);
}

#[test]
fn a_helping_lock_that_a_thread_ended_with_is_told() {
    let _house = House::new("slots-helping-leaked");
    let lock = HelpLock::inherited_create("m", 1u64).unwrap();
    std::thread::scope(|s| _ = s.spawn(|| std::mem::forget(lock.lock().unwrap())).join());
    assert!(matches!(lock.lock(), Err(HelpError::OwnerDied { .. })));
    HelpLock::unmake("m", true).unwrap();
    let arena = Arena::open("default").unwrap();
    eventually("its slot is free", || {
        arena.put_right(std::time::Duration::from_secs(1)).is_ok() && arena.members().len() == 1
    });
}

#[test]
fn inside_of_a_helping_lock_no_thread_leaves_its_arena() {
    let _house = House::new("slots-helping-gone");
    let lock = HelpLock::inherited_create("m", 1u64).unwrap();
    let guard = lock.lock().unwrap();
    Arena::open("default").unwrap().leave();
    HelpLock::unmake("m", true).unwrap();
    let next = HelpLock::inherited_create("n", 2u64).unwrap();
    apart(&guard, &next.lock().unwrap());
}

/// What a change works in is not another object's, although the function that it calls finds out that the object was removed.
#[test]
fn removed_in_the_middle_of_a_change_its_words_are_its_own() {
    let _house = House::new("slots-change");
    let options = MapOptions { ordered: true, ..MapOptions::default() };
    let map = Map::<u64, u64>::create("m", &options).unwrap();
    map.insert(&1, &1).unwrap();
    map.remove(&1).unwrap();
    let mut next = None;
    let removes = |_| {
        Map::unmake("m", true).unwrap();
        assert!(map.insert(&1, &2).is_err());
        next = Some(Map::<u64, u64>::create("m", &options).unwrap());
        Some(7)
    };
    map.update(&2, removes).unwrap();
    assert!(next.unwrap().is_empty(), "what was put into a removed map is in the next");
}

/// The same, of a counter.
#[test]
fn removed_in_the_middle_of_an_update_its_number_is_its_own() {
    let _house = House::new("slots-update");
    let count = Counter::create("c", 5).unwrap();
    count.add(0).unwrap();
    let mut next = None;
    let removes = |now| {
        Counter::unmake("c", true).unwrap();
        assert!(count.add(1).is_err());
        next = Some(Counter::create("c", 5).unwrap());
        Some(now + 1)
    };
    count.update(removes).unwrap();
    assert_eq!(next.unwrap().get().unwrap(), 5, "what was added to a removed counter is in the next");
}

/// A file system of one megabyte where arenas lie, for the calling thread and those that it starts, until it is dropped.
struct Small(CString);

impl Small {
    /// None: this process may not mount one.
    fn mount() -> Option<Small> {
        let at = CString::new(chappe::directory().unwrap().into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: system calls with C strings. The namespace is this thread's own.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(c"none".as_ptr(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_PRIVATE, null()) == 0
                && libc::mount(c"t".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=1m,mode=700".as_ptr().cast())
                    == 0
        };
        mounted.then_some(Small(at))
    }

    /// Takes all that is left of it.
    fn fill(&self) -> PathBuf {
        let path = Path::new(OsStr::from_bytes(self.0.as_bytes())).join(".filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // SAFETY: a system call with a C string.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Each 256 members take storage when the first of them joins, and none afterwards: not for where they say what they recover.
#[test]
fn a_full_file_system_refuses_the_513th_member_and_stops_none_that_has_joined() {
    let _house = House::new("slots-full");
    let Some(small) = Small::mount() else {
        return println!("not tested: this process may not mount a file system");
    };
    // The visits of each 512 are on a page of their own.
    let options = ArenaOptions { members: Some(2048), objects: Some(8), cells: Some(8), data: Some(4096) };
    Arena::create("full", &options).unwrap();
    let mutex = Mutex::create("full/m", 1u64).unwrap();
    let (said, heard) = channel();
    std::thread::scope(|s| {
        let joins = || {
            let (seat, kept) = channel();
            let (mutex, said) = (&mutex, said.clone());
            let thread = s.spawn(move || {
                said.send(mutex.lock().map(drop).map_err(|e| e.to_string())).unwrap();
                if kept.recv().is_ok() {
                    std::mem::forget(mutex.lock().unwrap());
                }
            });
            (seat, thread, heard.recv().unwrap())
        };
        let mut seats: Vec<_> = (0..300).map(|_| joins()).collect();
        assert!(seats.iter().all(|(.., joined)| joined.is_ok()));
        let filled = small.fill();
        let refused = loop {
            match joins() {
                (.., Err(refused)) => break refused,
                joined => seats.push(joined),
            }
        };
        assert!(refused.contains("no room for arena `full`"), "{refused}");
        assert!((450..=512).contains(&seats.len()), "{} have joined", seats.len());
        // Room for 256 members' slots, and not for a page more.
        let file = File::options().write(true).open(&filled).unwrap();
        file.set_len(file.metadata().unwrap().len() - 256 * size_of::<Member>() as u64).unwrap();
        let (seat, thread, joined) = joins();
        assert_eq!(joined, Ok(()), "there is room again");
        // It ends with the lock, and clears up after itself: it says where.
        seat.send(()).unwrap();
        thread.join().unwrap();
        assert!(matches!(mutex.lock(), Err(LockError::Condemned { .. })));
        assert_eq!(Mutex::<()>::remove("full/m", true).map_err(|e| e.to_string()), Ok(()));
        std::fs::remove_file(filled).unwrap();
    });
}
