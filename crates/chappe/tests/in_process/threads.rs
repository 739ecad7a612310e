//! Pools between threads of one process.

use chappe::{AcquireError, Pool, Select, acquire_any, try_acquire_any};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

#[test]
fn takes_and_gives_back() {
    let pool = Pool::private(3).unwrap();
    let all: Vec<_> = (0..3).map(|_| pool.acquire().unwrap()).collect();
    let mut indices: Vec<_> = all.iter().map(|p| p.index()).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
    assert_eq!(pool.available(), 0);
    assert!(matches!(pool.try_acquire(), Err(AcquireError::WouldBlock)));
    assert!(matches!(pool.acquire_timeout(Duration::from_millis(1)), Err(AcquireError::Timeout)));
    drop(all);
    assert_eq!(pool.available(), 3);
}

#[test]
#[ignore = "storm: threads that race"]
fn never_more_holders_than_permits() {
    for permits in [1u32, 3] {
        let pool = Pool::private(permits).unwrap();
        let inside = AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..6 {
                s.spawn(|| {
                    for _ in 0..2000 {
                        let permit = pool.acquire().unwrap();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < permits);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(pool.available(), permits);
    }
}

#[test]
fn serves_in_the_order_of_arrival() {
    let pool = Arc::new(Pool::private(1).unwrap());
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = pool.acquire().unwrap();
    let mut threads = Vec::new();
    for i in 0..8 {
        let (p, o) = (pool.clone(), order.clone());
        threads.push(std::thread::spawn(move || {
            let permit = p.acquire().unwrap();
            o.lock().unwrap().push(i);
            drop(permit);
        }));
        while pool.waiters().len() <= i {
            std::thread::yield_now();
        }
    }
    // Free for a moment, and not for newcomers.
    assert!(pool.try_acquire().is_err());
    drop(held);
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_choice_takes_exactly_one() {
    let pools: Vec<_> = (0..5).map(|_| Pool::private(1).unwrap()).collect();
    let arms: Vec<_> = pools.iter().collect();
    let all: Vec<_> = (0..5).map(|_| acquire_any(&arms).unwrap()).collect();
    assert!(matches!(try_acquire_any(&arms), Err(AcquireError::WouldBlock)));
    let mut which: Vec<_> = all.iter().map(|(i, _)| *i).collect();
    which.sort_unstable();
    assert_eq!(which, [0, 1, 2, 3, 4]);
    drop(all);
    assert_eq!(pools.iter().map(Pool::available).sum::<u32>(), 5);
    assert!(matches!(acquire_any(&[]), Err(AcquireError::NoPools)));
}

#[test]
#[ignore = "storm: threads that race"]
fn choices_under_contention_lose_nothing() {
    let pools: Vec<_> = (0..3).map(|i| Pool::private(1 + i % 2).unwrap()).collect();
    let inside: Vec<_> = (0..3).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|s| {
        for t in 0..6 {
            let (pools, inside) = (&pools, &inside);
            s.spawn(move || {
                let arms: Vec<_> = pools.iter().collect();
                for n in 0..1000 {
                    let got = if n % 3 == t % 3 {
                        let p = pools[t % 3].acquire().unwrap();
                        (t % 3, p)
                    } else {
                        acquire_any(&arms).unwrap()
                    };
                    assert!(inside[got.0].fetch_add(1, Ordering::SeqCst) < pools[got.0].permits());
                    inside[got.0].fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    for p in &pools {
        assert_eq!(p.available(), p.permits());
        assert!(p.waiters().is_empty());
    }
}

#[test]
fn select_keeps_its_arms_numbers() {
    let pools: Vec<_> = (0..3).map(|_| Pool::private(1).unwrap()).collect();
    let mut select = Select::new_biased();
    let arms: Vec<_> = pools.iter().map(|p| select.acquire(p)).collect();
    assert_eq!(select.wait().unwrap().index(), arms[0]);
    select.remove(arms[0]);
    let first = select.wait().unwrap();
    assert_eq!(first.index(), arms[1]);
    assert_eq!(select.try_wait().unwrap().index(), arms[2]);
}

#[test]
fn thousands_of_arms() {
    let pools: Vec<_> = (0..3000).map(|_| Pool::private(1).unwrap()).collect();
    let held: Vec<_> = pools.iter().map(|p| p.acquire().unwrap()).collect();
    let ready = Barrier::new(2);
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let arms: Vec<_> = pools.iter().collect();
            ready.wait();
            acquire_any(&arms).unwrap().0
        });
        ready.wait();
        while pools[2999].waiters().is_empty() {
            std::thread::yield_now();
        }
        // Guards belong to this thread: give one back here.
        let mut held = held;
        held.remove(1234).release();
        assert_eq!(waiter.join().unwrap(), 1234);
    });
}

#[test]
fn owned_permits_move() {
    let pool = Pool::private(1).unwrap();
    let permit = pool.acquire_owned().unwrap();
    assert!(pool.try_acquire_owned().is_err());
    std::thread::spawn(move || permit.release()).join().unwrap();
    assert_eq!(pool.available(), 1);
}

#[test]
fn a_thread_that_ends_gives_back() {
    let pool = Pool::private(1).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(pool.acquire().unwrap()));
    });
    // The scope ends when the closure does; the thread's own end may come a moment later.
    drop(pool.acquire().unwrap());
}

#[test]
fn resizing() {
    let pool = Pool::private(1).unwrap();
    let first = pool.acquire().unwrap();
    pool.resize(3).unwrap();
    let more: Vec<_> = (0..2).map(|_| pool.acquire().unwrap()).collect();
    pool.resize(2).unwrap();
    assert!(pool.try_acquire().is_err());
    drop(first);
    drop(more);
    assert_eq!(pool.available(), 2);
    let both = (pool.acquire().unwrap(), pool.acquire().unwrap());
    assert!(pool.try_acquire().is_err());
    drop(both);
    pool.resize(300).unwrap();
    let all: Vec<_> = (0..300).map(|_| pool.acquire().unwrap()).collect();
    assert!(pool.try_acquire().is_err());
    drop(all);
}

#[test]
fn forced_release_voids_the_guard() {
    let pool = Pool::private(1).unwrap();
    let held = pool.acquire().unwrap();
    let who = pool.force_release(0).unwrap();
    assert_eq!(who.pid, std::process::id());
    assert!(!held.is_valid());
    let again = pool.acquire().unwrap();
    drop(held);
    assert!(again.is_valid());
    assert!(pool.force_release(7).unwrap_err().to_string().contains("not held"));
}
