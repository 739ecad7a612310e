//! Every operation that waits until a time: what is there it takes, however late it is; what is not there it waits for until
//! then, no shorter; and a time in the past is no wait.

use crate::house::{House, LONG};
use chappe::{
    AcquireError, Condvar, DownError, LockError, LockResult, Mutex, Pool, Select, SelectError, Semaphore,
    acquire_any_deadline, acquire_any_timeout,
};
use std::time::{Duration, Instant};

/// Whether it got what it waited for until then.
type Wait<'a> = (&'static str, Box<dyn Fn(Instant) -> bool + Sync + 'a>);

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn acquired<T>(got: Result<T, AcquireError>) -> bool {
    match got {
        Ok(_) => true,
        Err(AcquireError::Timeout) => false,
        Err(e) => panic!("{e}"),
    }
}

fn downed(got: Result<(), DownError>) -> bool {
    match got {
        Ok(()) => true,
        Err(DownError::Timeout) => false,
        Err(e) => panic!("{e}"),
    }
}

fn locked(got: LockResult<'_, u32>) -> bool {
    match got {
        Ok(_) => true,
        Err(LockError::Timeout) => false,
        Err(e) => panic!("{e}"),
    }
}

fn chosen<T>(got: Result<T, SelectError>) -> bool {
    match got {
        Ok(_) => true,
        Err(SelectError::Timeout) => false,
        Err(e) => panic!("{e}"),
    }
}

fn waits_for_permits(pool: &Pool) -> [Wait<'_>; 8] {
    [
        ("acquire_deadline", Box::new(|at| acquired(pool.acquire_deadline(at)))),
        ("acquire_timeout", Box::new(|at| acquired(pool.acquire_timeout(left(at))))),
        ("acquire_owned_timeout", Box::new(|at| acquired(pool.acquire_owned_timeout(left(at))))),
        ("acquire_many_deadline", Box::new(|at| acquired(pool.acquire_many_deadline(2, at)))),
        ("acquire_many_timeout", Box::new(|at| acquired(pool.acquire_many_timeout(2, left(at))))),
        ("acquire_any_deadline", Box::new(|at| acquired(acquire_any_deadline(&[pool, pool], at)))),
        ("acquire_any_timeout", Box::new(|at| acquired(acquire_any_timeout(&[pool, pool], left(at))))),
        (
            "Select::wait_deadline, acquire",
            Box::new(|at| {
                let mut choice = Select::new();
                choice.acquire(pool);
                chosen(choice.wait_deadline(at))
            }),
        ),
    ]
}

fn waits_for_a_unit(semaphore: &Semaphore) -> [Wait<'_>; 4] {
    let choice = move || {
        let mut choice = Select::new();
        choice.down(semaphore);
        choice
    };
    [
        ("down_deadline", Box::new(|at| downed(semaphore.down_deadline(at)))),
        ("down_timeout", Box::new(|at| downed(semaphore.down_timeout(left(at))))),
        ("Select::wait_deadline", Box::new(move |at| chosen(choice().wait_deadline(at)))),
        ("Select::wait_timeout", Box::new(move |at| chosen(choice().wait_timeout(left(at))))),
    ]
}

/// Each in vain, then each in time.
fn all_of(waits: &[Wait<'_>], take_away: &dyn Fn(), give: &dyn Fn()) {
    take_away();
    for (what, wait) in waits {
        for late in [Duration::from_secs(1), Duration::ZERO] {
            let past = Instant::now().checked_sub(late).expect("the machine runs for longer");
            assert!(!wait(past), "{what}: got something that is not there");
        }
        let until = Instant::now() + Duration::from_millis(5);
        assert!(!wait(until), "{what}: got something that is not there");
        assert!(Instant::now() >= until, "{what}: gave up early");
    }
    give();
    for (what, wait) in waits {
        assert!(wait(Instant::now() + LONG), "{what}: in vain");
        give();
        // What is there needs no time.
        assert!(wait(Instant::now()), "{what}: in vain, with no time");
        give();
    }
}

#[test]
fn a_deadline_holds_for_permits() {
    let _house = House::new("deadlines-pool");
    for pool in [Pool::private(2).unwrap(), Pool::create("p", 2).unwrap()] {
        let held = std::cell::RefCell::new(Vec::new());
        let take = || held.borrow_mut().push(pool.acquire_many(2).unwrap());
        all_of(&waits_for_permits(&pool), &take, &|| held.borrow_mut().clear());
        assert_eq!(pool.available(), 2);
    }
}

#[test]
fn a_deadline_holds_for_units() {
    let _house = House::new("deadlines-semaphore");
    for semaphore in [Semaphore::private(0), Semaphore::private_barging(0), Semaphore::create("s", 0)] {
        let semaphore = semaphore.unwrap();
        let give = || {
            if semaphore.value() == 0 {
                semaphore.up().unwrap();
            }
        };
        all_of(&waits_for_a_unit(&semaphore), &|| (), &give);
        assert_eq!(semaphore.value(), 1);
    }
}

#[test]
fn a_deadline_holds_for_locks() {
    let _house = House::new("deadlines-mutex");
    for mutex in [Mutex::private(0u32).unwrap(), Mutex::create("m", 0u32).unwrap()] {
        let waits: [Wait<'_>; 2] = [
            ("lock_deadline", Box::new(|at| locked(mutex.lock_deadline(at)))),
            ("lock_timeout", Box::new(|at| locked(mutex.lock_timeout(left(at))))),
        ];
        std::thread::scope(|s| {
            let (taken, told) = std::sync::mpsc::channel();
            let (free, freed) = std::sync::mpsc::channel::<()>();
            let mutex = &mutex;
            s.spawn(move || {
                let guard = mutex.lock().unwrap();
                taken.send(()).unwrap();
                freed.recv().unwrap();
                drop(guard);
            });
            all_of(&waits, &|| told.recv().unwrap(), &|| _ = free.send(()));
        });
    }
}

#[test]
fn a_deadline_holds_for_conditions() {
    let _house = House::new("deadlines-condvar");
    for (mutex, condition) in [
        (Mutex::private(0u32).unwrap(), Condvar::private().unwrap()),
        (Mutex::create("m", 0u32).unwrap(), Condvar::create("c").unwrap()),
    ] {
        for by_deadline in [false, true] {
            let wait = |guard, until| match by_deadline {
                true => condition.wait_deadline(guard, until),
                false => condition.wait_timeout(guard, left(until)),
            };
            let until = Instant::now() + Duration::from_millis(5);
            let (guard, late) = wait(mutex.lock().unwrap(), until);
            assert!(late && Instant::now() >= until);
            let (guard, late) = wait(guard.unwrap(), Instant::now());
            assert!(late, "nobody has notified");
            let mut guard = guard.unwrap();
            *guard = 0;
            std::thread::scope(|s| {
                s.spawn(|| {
                    // It waits as soon as the lock can be had.
                    *mutex.lock().unwrap() = 1;
                    condition.notify_one();
                });
                let (guard, late) = wait(guard, Instant::now() + LONG);
                assert!(!late && *guard.unwrap() == 1);
            });
        }
    }
}
