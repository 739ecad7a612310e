//! Uncontended operations make no system call, and those that do not wait make none even when others do.
//!
//! A control shows that the filter bites.

use chappe::thread::Runtime;
use chappe::tube::{bounded, mpsc, spmc, spsc, unbounded};
use chappe::{
    Barrier, Condvar, DownError, LockError, Mutex, Pool, Role, Select, SelectError, Semaphore, acquire_any, select,
    select_biased,
};
use chappe_counts::house::House;
use chappe_counts::ring::Polled;
use chappe_counts::silence::{counted, system_call, system_call_after, system_call_within};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

fn pools(kind: &str) -> Vec<(String, Pool)> {
    let pool = |n: u32| if kind == "private" { Pool::private(n) } else { Pool::create(&format!("{kind}{n}"), n) };
    [1, 4, 64].map(|n| (format!("{kind}, N = {n}"), pool(n).unwrap())).into()
}

#[test]
fn the_filter_bites() {
    let _house = House::new("calls-filter");
    let asks = || {
        // SAFETY: takes nothing, cannot fail.
        unsafe { libc::getppid() };
    };
    assert_eq!(system_call(asks), Some(libc::SYS_getppid as u32));
    assert_eq!(system_call(|| ()), None);
    // A permit that is not free, and a sleep for it.
    let pool = Pool::private(1).unwrap();
    let wait = || {
        let _held = pool.acquire().unwrap();
        assert!(pool.acquire_timeout(Duration::from_millis(1)).is_err());
    };
    assert!(system_call(wait).is_some());
}

fn ring() -> Option<Polled> {
    let told = |e| {
        // Past the harness, which shows only what failed. `cargo xtask test` repeats it at its end.
        let _ = writeln!(
            std::io::stderr(),
            "not tested: a ring that a kernel core polls: the kernel permits none (io_uring): {e}"
        );
    };
    Polled::new().map_err(told).ok()
}

/// The kernel core role of the Nix paper: so many requests a run, of a thousand runs.
fn polled(requests: u32) {
    let Some(mut polled) = ring() else { return };
    assert_eq!(system_call(|| (0..requests).for_each(|_| polled.nothing())), None);
}

/// The same from a light thread, which gives way to another one of its kernel thread between two requests.
fn polled_lightly(requests: u32) {
    let Some(mut polled) = ring() else { return };
    let lightly = |all: &mut (dyn FnMut() + Send)| Runtime::new(1).unwrap().run(all);
    let beside = || {
        chappe::thread::spawn(|| {
            loop {
                chappe::thread::yield_now();
            }
        })
    };
    let request = |_: &mut _| {
        for _ in 0..requests {
            polled.nothing();
            chappe::thread::yield_now();
        }
    };
    assert_eq!(system_call_within(lightly, beside, request), None);
}

// One after the other: each ring has a kernel thread that takes a processor.
#[test]
fn a_ring_that_a_kernel_core_polls_needs_none() {
    polled(1);
    polled_lightly(1);
}

#[test]
#[ignore = "storm: a million requests to another processor"]
fn a_ring_that_a_kernel_core_polls_needs_none_for_a_million() {
    polled(1000);
}

#[test]
#[ignore = "storm: a million requests to another processor"]
fn a_ring_that_a_kernel_core_polls_needs_none_for_a_million_from_a_light_thread() {
    polled_lightly(1000);
}

#[test]
fn an_uncontended_pair_makes_none() {
    let _house = House::new("calls");
    for (name, pool) in pools("private").iter().chain(&pools("named")) {
        assert_eq!(system_call(|| pool.acquire().unwrap().release()), None, "{name}");
        assert_eq!(system_call(|| pool.try_acquire().unwrap().release()), None, "try_acquire, {name}");
    }
}

#[test]
fn an_arrival_that_turns_a_round_makes_none_while_no_waiter_sleeps() {
    let _house = House::new("calls-barrier");
    for (name, barrier) in [("private", Barrier::private(1)), ("named", Barrier::create("alone", 1))] {
        let barrier = barrier.unwrap();
        assert_eq!(system_call(|| _ = barrier.wait().unwrap()), None, "{name}");
        assert_eq!(system_call(|| _ = barrier.wait_timeout(Duration::from_secs(1)).unwrap()), None, "{name}, timed");
    }
}

/// How many threads of this process are asleep in a futex call: what waits at a barrier, and what watches for deaths.
fn in_futex_calls() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let call = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
    tasks.map(call).filter(|call| call.starts_with(&format!("{} ", libc::SYS_futex))).count()
}

#[test]
fn the_last_arrival_makes_one_call_for_each_party_that_sleeps_and_no_other() {
    let _house = House::new("calls-sleepers");
    for kind in KINDS {
        for sleepers in [0, 1, 3] {
            let parties = sleepers + 1;
            let make = || {
                if kind == "private" {
                    Barrier::private(parties)
                } else {
                    Barrier::create(&format!("b{parties}"), parties)
                }
            };
            let prepare = || {
                let barrier = make().unwrap();
                for _ in 0..sleepers {
                    let barrier = barrier.clone();
                    std::thread::spawn(move || while barrier.wait().is_ok() {});
                }
                // All do what a first use does; then the others sleep in the next round.
                barrier.wait().unwrap();
                while barrier.info().unwrap().arrived < sleepers || in_futex_calls() < sleepers as usize {
                    std::thread::yield_now();
                }
                barrier
            };
            let last = |barrier: &mut Barrier| assert_eq!(barrier.wait().unwrap().round, 1);
            assert_eq!(counted(1, prepare, last), (sleepers, 0), "{kind}, {sleepers} asleep");
        }
    }
}

#[test]
fn a_choice_with_one_ready_makes_none() {
    let _house = House::new("calls-choice");
    for kind in ["private", "named"] {
        let make = |n| if kind == "private" { Pool::private(1) } else { Pool::create(&format!("arm{n}"), 1) };
        let pools: Vec<Pool> = (0..4).map(|n| make(n).unwrap()).collect();
        let choose = || {
            let arms = [&pools[0], &pools[1], &pools[2], &pools[3]];
            let held = [arms[0].acquire().unwrap(), arms[1].acquire().unwrap(), arms[3].acquire().unwrap()];
            let (which, permit) = acquire_any(&arms).unwrap();
            assert_eq!(which, 2);
            drop((permit, held));
        };
        assert_eq!(system_call(choose), None, "{kind}");
    }
}

const KINDS: [&str; 2] = ["private", "named"];

fn semaphore(kind: &str, name: &str, value: u32, barging: bool) -> Semaphore {
    let made = match (kind, barging) {
        ("private", false) => Semaphore::private(value),
        ("private", true) => Semaphore::private_barging(value),
        (_, false) => Semaphore::create(name, value),
        (_, true) => Semaphore::create_barging(name, value),
    };
    made.unwrap()
}

fn mutex(kind: &str, name: &str) -> Mutex<u64> {
    if kind == "private" { Mutex::private(0) } else { Mutex::create(name, 0) }.unwrap()
}

fn pool(kind: &str, name: &str, permits: u32) -> Pool {
    if kind == "private" { Pool::private(permits) } else { Pool::create(name, permits) }.unwrap()
}

#[test]
fn an_uncontended_down_and_up_makes_none() {
    let _house = House::new("calls-semaphore");
    for kind in KINDS {
        for barging in [false, true] {
            let what = format!("{kind}, barging {barging}");
            let s = semaphore(kind, &format!("s-{barging}"), 1, barging);
            let pair = || {
                s.down().unwrap();
                s.up().unwrap();
            };
            assert_eq!(system_call(pair), None, "{what}");
            let by_trying = || {
                s.try_down().unwrap();
                assert!(matches!(s.try_down(), Err(DownError::WouldBlock)));
                s.up().unwrap();
            };
            assert_eq!(system_call(by_trying), None, "try_down, {what}");
            let many = || {
                s.up_many(3).unwrap();
                (0..3).for_each(|_| s.down_timeout(Duration::from_secs(1)).unwrap());
            };
            assert_eq!(system_call(many), None, "up_many, {what}");
        }
    }
}

#[test]
fn an_uncontended_lock_and_unlock_makes_none() {
    let _house = House::new("calls-mutex");
    for kind in KINDS {
        let m = mutex(kind, "m");
        assert_eq!(system_call(|| *m.lock().unwrap() += 1), None, "{kind}");
        assert_eq!(system_call(|| *m.try_lock().unwrap() += 1), None, "try_lock, {kind}");
        let c = if kind == "private" { Condvar::private() } else { Condvar::create("c") }.unwrap();
        let notify = || {
            c.notify_one();
            c.notify_all();
        };
        assert_eq!(system_call(notify), None, "notifying nobody, {kind}");
    }
}

#[test]
fn several_free_permits_at_once_make_none() {
    let _house = House::new("calls-many");
    for kind in KINDS {
        let p = pool(kind, "p", 64);
        for n in [1, 4, 8, 64] {
            assert_eq!(system_call(|| p.acquire_many(n).unwrap().release()), None, "{n}, {kind}");
            assert_eq!(system_call(|| p.try_acquire_many(n).unwrap().release()), None, "try, {n}, {kind}");
        }
    }
}

#[test]
fn a_choice_over_semaphores_and_pools_with_one_ready_makes_none() {
    let _house = House::new("calls-select");
    for kind in KINDS {
        let (s, never, p) = (semaphore(kind, "s", 0, false), semaphore(kind, "never", 0, false), pool(kind, "p", 1));
        let mut choice = Select::new();
        let (_, down, acquire) = (choice.down(&never), choice.down(&s), choice.acquire(&p));
        let choose = || {
            let permit = choice.wait().unwrap();
            assert_eq!(permit.index(), acquire);
            let permit = permit.permit(&p).unwrap();
            assert!(matches!(choice.try_wait(), Err(SelectError::WouldBlock)));
            s.up().unwrap();
            assert_eq!(choice.wait().unwrap().index(), down);
            drop(permit);
        };
        assert_eq!(system_call(choose), None, "Select, {kind}");
        let by_macro = || {
            s.up().unwrap();
            select_biased! {
                down(s) -> r => r.unwrap(),
                acquire(p) -> permit => panic!("{permit:?} was second"),
            }
            select! {
                down(s) -> r => panic!("{r:?} of nothing"),
                down(never) -> r => panic!("{r:?} of nothing"),
                default => (),
            }
        };
        assert_eq!(system_call(by_macro), None, "select!, {kind}");
    }
}

#[test]
fn tubes_make_none_while_nobody_waits() {
    macro_rules! pairs {
        ($($name:literal $make:expr),*) => {$(
            let (tx, rx) = $make;
            let pair = || {
                tx.send(1u64).unwrap();
                assert_eq!(rx.recv(), Ok(1));
                assert!(rx.try_recv().is_err());
            };
            assert_eq!(system_call(pair), None, $name);
        )*};
    }
    pairs!("bounded" bounded(4), "unbounded" unbounded(), "spsc" spsc(4), "mpsc" mpsc(4), "spmc" spmc(4));
    let ((tx, rx), (none, nothing)) = (bounded(1), bounded::<u8>(0));
    let ((_idle, idle), semaphore) = (bounded::<u8>(1), Semaphore::private(0).unwrap());
    let mut both = Select::new();
    both.recv(&idle);
    both.recv(&rx);
    both.down(&semaphore);
    let choose = || {
        tx.send(1u8).unwrap();
        assert!(tx.try_send(2).is_err() && none.try_send(3).is_err() && nothing.try_recv().is_err());
        assert_eq!(both.select().recv(&rx), Ok(1));
        assert!(both.try_select().is_err() && both.try_ready().is_err());
        select! { send(tx, 4) -> sent => sent.unwrap(), recv(idle) -> _ => unreachable!() }
        select! { recv(rx) -> m => assert_eq!(m, Ok(4)), default => unreachable!() }
        select! { recv(rx) -> _ => unreachable!(), recv(nothing) -> _ => unreachable!(), default => () }
        // Whose time is up already does not wait either.
        assert!(rx.recv_timeout(Duration::ZERO).is_err() && nothing.recv_timeout(Duration::ZERO).is_err());
        assert!(none.send_timeout(5, Duration::ZERO).is_err());
        select! { recv(rx) -> _ => unreachable!(), recv(idle) -> _ => unreachable!(), default(Duration::ZERO) => () }
    };
    assert_eq!(system_call(choose), None, "choice");
}

/// Lives as long as its process, with the threads that use it.
fn kept<T>(object: T) -> &'static T {
    Box::leak(Box::new(object))
}

/// Starts a thread that never ends, and waits until it has come where it should.
fn other(work: impl FnOnce() + Send + 'static, there: impl Fn() -> bool) {
    std::thread::spawn(move || {
        work();
        loop {
            std::thread::park();
        }
    });
    while !there() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // So that it sleeps by now; what holds must hold if it does not, too.
    std::thread::sleep(Duration::from_millis(10));
}

/// A thread with a core of its own, as Nix has them.
#[test]
fn waiting_in_the_role_of_an_application_makes_none() {
    let _house = House::new("calls-role");
    let (there, back) = (Semaphore::create("there", 0).unwrap(), Pool::create("back", 1).unwrap());
    let stop = AtomicBool::new(false);
    let served = AtomicU32::new(0);
    let first = std::thread::scope(|s| {
        // In another process than the one that is silenced: gives only to a thread that waits already.
        s.spawn(|| {
            let mut held = Some(back.acquire().unwrap());
            while !stop.load(Ordering::SeqCst) {
                if !there.waiters().is_empty() {
                    there.up().unwrap();
                    served.fetch_add(1, Ordering::SeqCst);
                }
                if !back.waiters().is_empty() {
                    held = None;
                }
                held = held.or_else(|| back.try_acquire().ok());
                std::thread::yield_now();
            }
        });
        let wait = || {
            Role::Spin.during(|| {
                there.down().unwrap();
                back.acquire().unwrap().release();
            });
        };
        let first = system_call(wait);
        stop.store(true, Ordering::SeqCst);
        first
    });
    assert_eq!(first, None);
    assert_eq!(served.into_inner(), 1010);
}

#[test]
fn trying_makes_none_while_others_wait() {
    let _house = House::new("calls-waiters");
    for kind in KINDS {
        for barging in [false, true] {
            let prepare = || {
                let s = kept(semaphore(kind, &format!("s-{barging}"), 0, barging));
                other(|| s.down().unwrap(), || !s.waiters().is_empty());
                s
            };
            let none = system_call_after(prepare, |s| assert!(matches!(s.try_down(), Err(DownError::WouldBlock))));
            assert_eq!(none, None, "semaphore, {kind}, barging {barging}");
        }
        let prepare = || {
            let m = kept(mutex(kind, "m"));
            other(|| std::mem::forget(m.lock().unwrap()), || m.try_lock().is_err());
            other(|| drop(m.lock().unwrap()), || true);
            m
        };
        let none = system_call_after(prepare, |m| assert!(matches!(m.try_lock(), Err(LockError::WouldBlock))));
        assert_eq!(none, None, "mutex, {kind}");
        let prepare = || {
            let p = kept(pool(kind, "p", 2));
            other(|| std::mem::forget(p.acquire().unwrap()), || p.available() == 1);
            other(|| std::mem::forget(p.acquire_many(2).unwrap()), || !p.waiters().is_empty());
            p
        };
        // One is free, but somebody waits for two.
        let none = system_call_after(prepare, |p| {
            assert!(p.try_acquire_many(1).is_err() && p.try_acquire_many(2).is_err() && p.try_acquire().is_err());
        });
        assert_eq!(none, None, "permits, {kind}");
        let prepare = || {
            let (s, p) = (kept(semaphore(kind, "s", 0, false)), kept(pool(kind, "q", 1)));
            other(|| s.down().unwrap(), || !s.waiters().is_empty());
            other(|| std::mem::forget(p.acquire().unwrap()), || p.available() == 0);
            other(|| drop(p.acquire()), || !p.waiters().is_empty());
            let mut choice = Select::new();
            choice.down(s);
            choice.acquire(p);
            (s, p, choice)
        };
        let none = system_call_after(prepare, |(s, p, choice)| {
            assert!(matches!(choice.try_wait(), Err(SelectError::WouldBlock)));
            select! {
                down(s) -> r => panic!("{r:?} of nothing"),
                acquire(p) -> permit => panic!("{permit:?} of nothing"),
                default => (),
            }
        });
        assert_eq!(none, None, "choice, {kind}");
    }
}
