//! Pools between processes: what a kill, an exec, a fork leave behind. Each test has an arena directory of its own and
//! children that are this same program, told by the environment what to do.

use crate::house::{House, LONG, ROLE, eventually, exec, listen, say, this_as_actor};
use chappe::{AcquireError, Arena, ArenaOptions, LifeState, Pool, PoolError, acquire_any};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (what, names) = role.split_once(' ').unwrap();
    let pools: Vec<Pool> = names.split(' ').map(|n| Pool::open(n).unwrap()).collect();
    let pool = &pools[0];
    match what {
        "hold" => {
            let permit = pool.acquire().unwrap();
            say(&format!("held {}", permit.index()));
            listen();
            permit.release();
        }
        "hold-and-lock" => {
            let permit = pool.acquire().unwrap();
            lock_robustly(ROBUST_LIST_LIMIT + 50);
            say(&format!("held {}", permit.index()));
            listen();
        }
        "own" => {
            let permit = std::thread::scope(|s| s.spawn(|| pool.acquire_owned().unwrap()).join().unwrap());
            say("held");
            listen();
            drop(permit);
        }
        "own-exec" => {
            std::mem::forget(std::thread::scope(|s| s.spawn(|| pool.acquire_owned().unwrap()).join().unwrap()));
            say("held");
            listen();
            let mut again = this_as_actor(&format!("stay {names}"));
            panic!("exec: {}", std::os::unix::process::CommandExt::exec(&mut again));
        }
        "stay" => {
            say("another program");
            listen();
        }
        "choose" => {
            say("choosing");
            let (which, permit) = acquire_any(&pools.iter().collect::<Vec<_>>()).unwrap();
            say(&format!("chose {which}"));
            listen();
            drop(permit);
        }
        "dead" => {
            say("waiting");
            say(match pool.acquire() {
                Err(AcquireError::Dead { .. }) => "dead",
                _ => "no",
            });
        }
        "exec" => {
            // Not the leading thread: it changes its id before the kernel walks its words.
            std::thread::scope(|s| {
                s.spawn(|| {
                    std::mem::forget(pool.acquire().unwrap());
                    say("held");
                    listen();
                    let e = exec(&["sleep", "1000"]);
                    panic!("exec: {e}");
                });
            });
        }
        "exec-all" => {
            std::thread::scope(|s| {
                s.spawn(|| {
                    pools.iter().for_each(|pool| std::mem::forget(pool.acquire().unwrap()));
                    say("held");
                    listen();
                    let e = exec(&["sleep", "1000"]);
                    panic!("exec: {e}");
                });
            });
        }
        "fork" => {
            let permit = pool.acquire().unwrap();
            // SAFETY: the child only looks at its copy, takes and gives back, prints, and exits.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                say(if permit.is_valid() { "valid" } else { "void" });
                drop(permit);
                say(if pool.try_acquire().is_err() { "taken" } else { "free" });
                // Outlives its parent until it is told.
                let private = Pool::private(1).unwrap();
                drop(private.acquire().unwrap());
                listen();
                let mine = pool.acquire_timeout(Duration::from_secs(20));
                say(if mine.is_ok() { "mine" } else { "lost" });
                std::process::exit(0);
            }
            std::thread::sleep(Duration::from_secs(1000));
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn a_killed_holder_gives_back_to_a_sleeping_waiter() {
    let house = House::new("kill");
    let pool = Pool::create("gpu0", 1).unwrap();
    for _ in 0..10 {
        let mut holder = house.actor("hold gpu0");
        assert_eq!(holder.hear(), "held 0");
        assert_eq!(pool.holders()[0].who.pid, holder.child.id());
        std::thread::scope(|s| {
            let waiter = s.spawn(|| drop(pool.acquire_timeout(LONG).unwrap()));
            eventually("the waiter waits", || pool.waiters().len() == 1);
            holder.kill();
            waiter.join().unwrap();
        });
    }
    assert_eq!(chappe::recoveries().backstops, 0);
    assert_eq!(pool.available(), 1);
}

/// So many locks of a thread, the last ones first, the kernel looks at when it dies.
const ROBUST_LIST_LIMIT: usize = 2048;

/// Locks robust mutexes of the thread's own, for good.
fn lock_robustly(count: usize) {
    let mutexes: Vec<libc::pthread_mutex_t> = (0..count).map(|_| libc::PTHREAD_MUTEX_INITIALIZER).collect();
    for mutex in mutexes.leak() {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: they are initialised before they are used, and lie where they are for good.
        let locked = unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(mutex, attributes.as_ptr());
            libc::pthread_mutex_lock(mutex)
        };
        assert_eq!(locked, 0);
    }
}

#[test]
fn a_holder_with_more_robust_locks_than_the_kernel_looks_at_gives_back() {
    let house = House::new("limit");
    let pool = Pool::create("p", 1).unwrap();
    let mut holder = house.actor("hold-and-lock p");
    assert_eq!(holder.hear(), "held 0");
    assert!(pool.try_acquire().is_err());
    holder.kill();
    // Its word has no mark, and a thread that asks the system finds that out.
    let life = Arena::open("default").unwrap().members().iter().map(|who| who.life).collect::<Vec<_>>();
    assert!(life.contains(&LifeState::Alive), "{life:?}: the kernel has marked it, and this test tests nothing");
    let permit = pool.acquire_timeout(LONG).expect("it has come back");
    assert_eq!(permit.index(), 0);
}

#[test]
fn a_killed_holder_gives_back_to_who_only_tries() {
    let house = House::new("try");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut holder = house.actor("hold gpu0");
    holder.hear();
    assert!(pool.try_acquire().is_err());
    holder.kill();
    eventually("the permit comes back", || pool.try_acquire().is_ok());
}

#[test]
fn a_killed_waiter_holds_up_nobody() {
    let house = House::new("waiter");
    let pool = Pool::create("gpu0", 1).unwrap();
    let held = pool.acquire().unwrap();
    let mut first = house.actor("choose gpu0");
    first.hear();
    eventually("it waits", || pool.waiters().len() == 1);
    first.kill();
    std::thread::scope(|s| {
        let second = s.spawn(|| drop(pool.acquire_timeout(LONG).unwrap()));
        eventually("the second waits", || pool.waiters().len() == 1);
        held.release();
        second.join().unwrap();
    });
    assert_eq!(pool.available(), 1);
}

#[test]
fn a_choice_between_processes() {
    let house = House::new("choice");
    let pools: Vec<_> = (0..3).map(|i| Pool::create(&format!("gpu{i}"), 1).unwrap()).collect();
    let mut holders: Vec<_> = (0..3).map(|i| house.actor(&format!("hold gpu{i}"))).collect();
    for h in &mut holders {
        h.hear();
    }
    let mut chooser = house.actor("choose gpu0 gpu1 gpu2");
    chooser.hear();
    eventually("it waits on all", || pools.iter().all(|p| p.waiters().len() == 1));
    holders.remove(1).kill();
    assert_eq!(chooser.hear(), "chose 1");
    assert!(pools.iter().all(|p| p.waiters().is_empty()));
    chooser.ended();
    for h in holders {
        h.ended();
    }
    assert!(pools.iter().all(|p| p.available() == 1));
}

#[test]
fn private_and_named_mix() {
    let house = House::new("mixed");
    let named = Pool::create("gpu0", 1).unwrap();
    let private = Pool::private(1).unwrap();
    let mut holder = house.actor("hold gpu0");
    holder.hear();
    let held = private.acquire().unwrap();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| acquire_any(&[&private, &named]).unwrap().0);
        eventually("it waits", || named.waiters().len() == 1 && private.waiters().len() == 1);
        holder.kill();
        assert_eq!(waiter.join().unwrap(), 1);
        let again = named.acquire().unwrap();
        let waiter = s.spawn(|| acquire_any(&[&private, &named]).unwrap().0);
        eventually("it waits", || named.waiters().len() == 1 && private.waiters().len() == 1);
        held.release();
        assert_eq!(waiter.join().unwrap(), 0);
        drop(again);
    });
    assert_eq!((named.available(), private.available()), (1, 1));
}

#[test]
fn two_arenas_in_one_choice_are_refused() {
    let _house = House::new("two");
    let (a, b) = (Pool::create("x/p", 1).unwrap(), Pool::create("y/p", 1).unwrap());
    let e = acquire_any(&[&a, &b]).unwrap_err();
    assert!(e.to_string().contains("two arenas, `x` and `y`"), "{e}");
    assert_eq!((a.available(), b.available()), (1, 1));
}

#[test]
fn an_owned_permit_outlives_its_thread_and_not_its_process() {
    let house = House::new("owned");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut holder = house.actor("own gpu0");
    holder.hear();
    assert!(pool.try_acquire().is_err());
    assert!(pool.holders()[0].who.process);
    holder.kill();
    drop(pool.acquire_timeout(LONG).unwrap());
}

#[test]
fn a_replaced_program_gives_back_what_it_owned() {
    let house = House::new("own-exec");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut owner = house.actor("own-exec gpu0");
    assert_eq!(owner.hear(), "held");
    owner.tell("go");
    assert_eq!(owner.hear(), "another program");
    drop(pool.try_acquire().unwrap());
    owner.ended();
}

#[test]
fn exec_by_a_thread_gives_back() {
    let house = House::new("exec");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut holder = house.actor("exec gpu0");
    assert_eq!(holder.hear(), "held");
    std::thread::scope(|s| {
        let waiter = s.spawn(|| drop(pool.acquire_timeout(LONG).unwrap()));
        eventually("the waiter waits", || pool.waiters().len() == 1);
        holder.tell("go");
        waiter.join().unwrap();
    });
    // The process goes on as something else.
    assert!(holder.child.try_wait().unwrap().is_none());
    assert_eq!(chappe::recoveries().backstops, 0);
}

/// The kernel walks the thread's words one after the other: a thread that recovers the first must not lead it astray.
#[test]
#[ignore = "storm: an exec that races recovery"]
fn exec_by_a_thread_gives_back_in_each_arena_however_fast_others_are() {
    let house = House::new("exec-all");
    let small = ArenaOptions { members: Some(16), objects: Some(2), cells: Some(1), data: Some(64) };
    let names: Vec<String> = (0..12).map(|i| format!("a{i}")).collect();
    let pools: Vec<Pool> =
        names.iter().map(|name| Pool::create_in(Arena::create(name, &small).unwrap(), "p", 1).unwrap()).collect();
    let all: Vec<String> = names.iter().map(|name| format!("{name}/p")).collect();
    for round in 0..40 {
        let mut holder = house.actor(&format!("exec-all {}", all.join(" ")));
        assert_eq!(holder.hear(), "held");
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            // One looks all the time; for each permit one sleeps.
            let map = Arena::open("a11").unwrap().map();
            s.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    map.recover_dead();
                }
            });
            let waiters: Vec<_> = pools.iter().map(|pool| s.spawn(|| pool.acquire_timeout(LONG).is_ok())).collect();
            eventually("all wait", || pools.iter().all(|pool| pool.waiters().len() == 1));
            holder.tell("go");
            let got: Vec<bool> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
            over.store(true, Ordering::SeqCst);
            assert_eq!(got, [true; 12], "in round {round} permits did not come back");
        });
        assert!(holder.child.try_wait().unwrap().is_none());
    }
}

#[test]
fn a_forked_child_owns_nothing_of_its_parents() {
    let house = House::new("fork");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut parent = house.actor("fork gpu0");
    assert_eq!(parent.hear(), "void");
    assert_eq!(parent.hear(), "taken");
    assert_eq!(pool.available(), 0);
    // The child lives on; the permit comes back all the same.
    parent.child.kill().unwrap();
    parent.child.wait().unwrap();
    drop(pool.acquire_timeout(LONG).unwrap());
    parent.tell("go");
    assert_eq!(parent.hear(), "mine");
}

#[test]
fn removal_of_a_pool_in_use() {
    let house = House::new("removal");
    let pool = Pool::create("gpu0", 1).unwrap();
    let held = pool.acquire().unwrap();
    let mut waiter = house.actor("dead gpu0");
    waiter.hear();
    eventually("it waits", || pool.waiters().len() == 1);
    let e = Pool::remove("gpu0", false).unwrap_err();
    assert!(matches!(&e, PoolError::InUse { held: 1, waiting: 1, .. }), "{e}");
    assert!(e.to_string().contains(&format!("pid {}", std::process::id())), "{e}");
    Pool::remove("gpu0", true).unwrap();
    assert_eq!(waiter.hear(), "dead");
    assert!(matches!(pool.acquire(), Err(AcquireError::Dead { .. })));
    drop(held);
    assert!(matches!(Pool::open("gpu0"), Err(PoolError::Unknown { .. })));
    // The same name again is another pool.
    let again = Pool::create("gpu0", 1).unwrap();
    assert_eq!(again.available(), 1);
    assert!(matches!(pool.try_acquire(), Err(AcquireError::Dead { .. })));
}

#[test]
fn a_guard_of_a_removed_pool_is_nothing_to_the_next_one_in_its_slot() {
    let _house = House::new("guards");
    // Its further permits are in the table's first cell, and the next one's, which has two of them, not there.
    let pool = Pool::create("a", 2).unwrap();
    let _beside = Pool::create("p", 2).unwrap();
    let (_first, guard) = (pool.acquire().unwrap(), pool.acquire().unwrap());
    assert!(guard.is_valid() && guard.index() == 1);
    Pool::remove("a", true).unwrap();
    assert!(!guard.is_valid(), "nothing is protected any more");
    let next = Pool::create("a", 3).unwrap();
    let all: Vec<_> = (0..3).map(|_| next.acquire().unwrap()).collect();
    assert!(!guard.is_valid());
    drop(guard);
    assert_eq!(next.available(), 0);
    assert!(all.iter().all(chappe::Permit::is_valid));
}

#[test]
fn removal_of_an_arena_in_use() {
    let house = House::new("arena");
    let pool = Pool::create("lab/gpu0", 1).unwrap();
    let held = pool.acquire().unwrap();
    let mut waiter = house.actor("dead lab/gpu0");
    waiter.hear();
    eventually("it waits", || pool.waiters().len() == 1);
    let e = Arena::remove("lab", false).unwrap_err();
    assert!(e.to_string().contains("in use by 2 member"), "{e}");
    Arena::remove("lab", true).unwrap();
    assert_eq!(waiter.hear(), "dead");
    drop(held);
    assert!(Arena::open("lab").is_err());
    assert_eq!(Pool::create("lab/gpu0", 2).unwrap().available(), 2);
}

#[test]
fn a_full_member_table_recovers_the_dead_first() {
    let house = House::new("members");
    let options = ArenaOptions { members: Some(2), ..Default::default() };
    let arena = Arena::create("small", &options).unwrap();
    let pool = Pool::create_in(arena, "p", 2).unwrap();
    let mut other = house.actor("hold small/p");
    other.hear();
    std::thread::scope(|s| {
        let third = s.spawn(|| pool.acquire().map(drop).unwrap_err().to_string());
        let e = third.join().unwrap();
        assert!(e.contains("all its 2 member slots in use"), "{e}");
    });
    other.kill();
    std::thread::scope(|s| {
        s.spawn(|| drop(pool.acquire_timeout(LONG).unwrap()));
    });
    assert!(arena.members().iter().all(|m| m.life == LifeState::Alive));
}

#[test]
fn names_and_numbers_are_checked() {
    let _house = House::new("names");
    for (name, why) in [
        ("", "it is empty"),
        (".hidden", "it starts with `.`"),
        ("-x", "it starts with `-`"),
        ("a b", "it contains ' '"),
        ("lab/", "it is empty"),
        ("lab/a/b", "it contains '/'"),
        ("gpü", "it contains 'ü'"),
        (&"x".repeat(48), "it has 48 bytes"),
    ] {
        let e = Pool::create(name, 1).unwrap_err().to_string();
        assert!(e.contains("is not a valid pool name") && e.contains(why), "{name}: {e}");
    }
    let e = Pool::create("a b/x", 1).unwrap_err().to_string();
    assert!(e.contains("is not a valid arena name"), "{e}");
    for permits in [0, 1 << 31, u32::MAX, 65_537] {
        let e = Pool::create("p", permits).unwrap_err().to_string();
        assert!(e.contains(&format!("cannot have {permits} permits: between 1 and 65536")), "{e}");
    }
    Pool::create("gpu0", 1).unwrap();
    Pool::create("gpu1", 4).unwrap();
    let e = Pool::open("gpu7").unwrap_err().to_string();
    assert!(e.contains("`gpu0`, `gpu1`") && e.contains("chappe pool create gpu7"), "{e}");
    let e = Pool::open_or_create("gpu1", 2).unwrap_err().to_string();
    assert!(e.contains("has 4 permit(s), not 2"), "{e}");
    let e = Pool::create("gpu1", 4).unwrap_err().to_string();
    assert!(e.contains("already there, with 4"), "{e}");
}

#[test]
fn many_permits_in_many_extents() {
    let _house = House::new("extents");
    let pool = Pool::create("p", 1).unwrap();
    let other = Pool::create("q", 5).unwrap();
    for n in [2, 7, 8, 300, 40] {
        pool.resize(n).unwrap();
        let all: Vec<_> = (0..n).map(|_| pool.try_acquire().unwrap()).collect();
        assert!(pool.try_acquire().is_err(), "{n}");
        drop(all);
        assert_eq!((pool.available(), other.available()), (n, 5));
    }
    let e = pool.resize(60_000).unwrap_err().to_string();
    assert!(e.contains("no room for"), "{e}");
    assert_eq!(pool.available(), 40);
    Pool::remove("p", false).unwrap();
    Pool::create("r", 16_000).unwrap();
}
