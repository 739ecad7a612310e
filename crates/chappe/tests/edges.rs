//! The edges of the system: what a program does to itself (exec, re-exec, removal of what it uses), and what was found by attempts to break
//! it.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::{AcquireError, LEASE_VARIABLE, LeaseError, Pool, PoolError};
use house::{House, LONG, ROLE, eventually, exec, listen, say, this_as_actor};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[test]
fn a_relative_directory_is_one_from_the_working_directory() {
    let _house = House::new("edges-relative");
    // SAFETY: tests take turns, and no other thread of this program reads the environment meanwhile.
    unsafe { std::env::set_var("CHAPPE_DIR", "some/where") };
    assert_eq!(chappe::directory().unwrap(), std::env::current_dir().unwrap().join("some/where"));
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (what, name) = role.split_once(' ').unwrap();
    let pool = Pool::open(name).unwrap();
    match what {
        "reexec" => {
            std::mem::forget(pool.acquire_owned().unwrap());
            say("held");
            listen();
            let mut again = this_as_actor(&format!("after {name}"));
            panic!("exec: {}", std::os::unix::process::CommandExt::exec(&mut again));
        }
        "after" => {
            say(if pool.acquire_timeout(LONG).is_ok() { "mine again" } else { "lost" });
            listen();
        }
        "sibling" => {
            std::thread::scope(|s| {
                s.spawn(|| {
                    std::mem::forget(pool.acquire().unwrap());
                    say("held");
                    listen();
                });
            });
        }
        "exec" => {
            std::thread::scope(|s| {
                s.spawn(|| {
                    std::mem::forget(pool.acquire().unwrap());
                    say("held");
                    listen();
                    panic!("exec: {}", exec(&["sleep", "1000"]));
                });
            });
        }
        "supervise" => {
            let mut permit = pool.acquire().unwrap();
            let lease = permit.lease().unwrap();
            // The job inherits the mark, and not the file.
            let mut child = this_as_actor(&format!("job {name}")).env(LEASE_VARIABLE, lease.cookie()).spawn().unwrap();
            say(&format!("{}", child.id()));
            child.wait().unwrap();
        }
        "job" => {
            // Until its supervisor is gone.
            eventually("the permit is an orphan", || pool.holders().iter().any(|h| h.orphan));
            // It uses chappe itself: it must not take itself for ended.
            say(if pool.try_acquire().is_err() { "taken" } else { "freed" });
            listen();
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn a_program_that_becomes_itself_again_gets_its_permit_back() {
    let house = House::new("reexec");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut one = house.actor("reexec gpu0");
    assert_eq!(one.hear(), "held");
    assert!(pool.try_acquire().is_err());
    one.tell("go");
    assert_eq!(one.hear(), "mine again");
}

#[test]
fn exec_is_seen_in_a_slot_whose_last_owner_was_killed() {
    let house = House::new("twin");
    let pool = Pool::create("gpu0", 1).unwrap();
    drop(pool.acquire().unwrap());
    let mut first = house.actor("sibling gpu0");
    assert_eq!(first.hear(), "held");
    first.kill();
    let mut second = house.actor("exec gpu0");
    assert_eq!(second.hear(), "held");
    std::thread::scope(|s| {
        let waiter = s.spawn(|| drop(pool.acquire_timeout(LONG).unwrap()));
        eventually("the waiter waits", || pool.waiters().len() == 1);
        second.tell("go");
        waiter.join().unwrap();
    });
    assert!(second.child.try_wait().unwrap().is_none(), "it goes on as something else");
}

#[test]
fn a_job_that_uses_chappe_itself_keeps_its_permit() {
    let house = House::new("ownjob");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut supervisor = house.actor("supervise gpu0");
    let job: i32 = supervisor.hear().parse().unwrap();
    assert!(pool.try_acquire().is_err());
    supervisor.child.kill().unwrap();
    supervisor.child.wait().unwrap();
    // The job speaks through the pipes that it inherited.
    assert_eq!(supervisor.hear(), "taken");
    assert!(pool.holders().iter().all(|h| h.orphan && h.who.pid == job as u32));
    assert!(pool.try_acquire().is_err());
    supervisor.tell("end");
    drop(pool.acquire_timeout(LONG).unwrap());
}

#[test]
fn a_lease_that_is_refused_costs_nothing() {
    let _house = House::new("leasebusy");
    let pool = Pool::create("gpu0", 1).unwrap();
    let mut permit = pool.acquire().unwrap();
    let lease = permit.lease().unwrap();
    let e = permit.lease().unwrap_err();
    assert!(matches!(e, LeaseError::Leased) && e.to_string().contains("leased already"), "{e}");
    drop(lease);
    drop(permit);
    assert_eq!(pool.available(), 1);
    let e = Pool::private(1).unwrap().acquire().unwrap().lease().unwrap_err();
    assert!(matches!(e, LeaseError::Private) && e.to_string().contains("private"), "{e}");
}

#[test]
fn removing_what_is_not_in_use_never_meets_its_use() {
    let _house = House::new("idle");
    let (inside, stop, removed) = (AtomicU32::new(0), AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                match Pool::remove("p", false) {
                    Ok(()) => {
                        removed.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(PoolError::Unknown { .. } | PoolError::InUse { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
            }
        });
        let users: Vec<_> = (0..2)
            .map(|_| {
                s.spawn(|| {
                    while removed.load(Ordering::SeqCst) < 200 {
                        let pool = Pool::open_or_create("p", 1).unwrap();
                        for _ in 0..50 {
                            match pool.acquire() {
                                Ok(permit) => {
                                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the pool `p`");
                                    inside.fetch_sub(1, Ordering::SeqCst);
                                    drop(permit);
                                }
                                Err(AcquireError::Dead { .. }) => break,
                                Err(e) => panic!("{e}"),
                            }
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = users.into_iter().map(|u| u.join()).collect();
        stop.store(true, Ordering::SeqCst);
        assert!(ended.iter().all(Result::is_ok));
    });
}
