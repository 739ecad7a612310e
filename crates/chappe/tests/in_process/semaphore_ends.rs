//! How semaphores end: removed by a thread that they have just woken, removed under their waiters, broken by a wild write.

use crate::house::{House, LONG, eventually};
use chappe::{
    AcquireError, Arena, Condvar, DownError, Mutex, ObjectError, Pool, Select, SelectError, Semaphore, UpError,
};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// A handle that does not keep a private semaphore alive: that of a thread that was told to raise it, once.
struct Weak(ManuallyDrop<Semaphore>);

impl Weak {
    fn of(semaphore: &Semaphore) -> Weak {
        // SAFETY: the copy is never dropped, and of what the original owns only `up` is used, which does not look at the owner of the
        // semaphore.
        Weak(ManuallyDrop::new(unsafe { std::ptr::read(semaphore) }))
    }
}

/// What comes into the slot next, and must not notice what was there before.
fn reuse(round: usize, kept: &mut Vec<Box<dyn FnOnce()>>) {
    match round % 5 {
        0 => {
            let pool = Pool::private(1).unwrap();
            let permit = pool.try_acquire().unwrap();
            assert!(matches!(pool.try_acquire(), Err(AcquireError::WouldBlock)));
            drop(permit);
            kept.push(Box::new(move || assert_eq!(pool.available(), 1)));
        }
        1 => {
            let mutex = Mutex::private(7).unwrap();
            assert_eq!(*mutex.try_lock().unwrap(), 7);
            kept.push(Box::new(move || assert_eq!(*mutex.try_lock().unwrap(), 7)));
        }
        2 => {
            let semaphore = Semaphore::private(3).unwrap();
            kept.push(Box::new(move || assert_eq!(semaphore.value(), 3)));
        }
        3 => {
            let semaphore = Semaphore::private_barging(0).unwrap();
            assert!(semaphore.down_timeout(Duration::from_micros(30)).is_err());
            kept.push(Box::new(move || assert!(semaphore.try_down().is_err())));
        }
        _ => {
            let changed = Condvar::private().unwrap();
            let mutex = Mutex::private(()).unwrap();
            // It may wake without a cause.
            assert!(changed.wait_timeout(mutex.lock().unwrap(), Duration::from_micros(30)).0.is_ok());
        }
    }
}

#[test]
#[ignore = "storm: threads that race"]
fn a_woken_waiter_may_drop_a_private_semaphore_at_once() {
    let (tell, told) = sync_channel::<Weak>(1);
    std::thread::scope(|s| {
        s.spawn(move || {
            for weak in told {
                weak.0.up().unwrap();
            }
        });
        let mut kept: Vec<Box<dyn FnOnce()>> = Vec::new();
        for round in 0..12_000 {
            let semaphore = if round % 2 == 0 { Semaphore::private(0) } else { Semaphore::private_barging(0) }.unwrap();
            assert!(tell.send(Weak::of(&semaphore)).is_ok());
            semaphore.down().unwrap();
            drop(semaphore);
            reuse(round, &mut kept);
            if kept.len() > 20 {
                kept.drain(..).for_each(|look| look());
            }
        }
        drop(tell);
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn a_woken_waiter_may_remove_a_named_semaphore_at_once() {
    let _house = House::new("post-then-remove");
    let (tell, told) = sync_channel::<Semaphore>(1);
    std::thread::scope(|s| {
        s.spawn(move || {
            for semaphore in told {
                semaphore.up().unwrap();
            }
        });
        for round in 0..5000 {
            let semaphore = Semaphore::create("s", 0).unwrap();
            tell.send(semaphore.clone()).unwrap();
            semaphore.down().unwrap();
            Semaphore::remove("s", round % 2 == 0).unwrap();
            match round % 4 {
                0 => {
                    let pool = Pool::create("p", 2).unwrap();
                    let both = pool.try_acquire_many(2).unwrap();
                    assert!(pool.try_acquire().is_err());
                    drop(both);
                    assert_eq!(pool.available(), 2);
                    Pool::remove("p", false).unwrap();
                }
                1 => {
                    let mutex = Mutex::create("m", round as u64).unwrap();
                    assert_eq!(*mutex.lock().unwrap(), round as u64);
                    Mutex::<()>::remove("m", false).unwrap();
                }
                2 => {
                    let next = Semaphore::create("t", 1).unwrap();
                    assert_eq!(next.value(), 1);
                    next.down().unwrap();
                    assert!(next.down_timeout(Duration::from_micros(30)).is_err());
                    Semaphore::remove("t", false).unwrap();
                }
                _ => {
                    Condvar::create("c").unwrap();
                    Condvar::remove("c", false).unwrap();
                }
            }
            assert!(matches!(semaphore.try_down(), Err(DownError::Dead { .. })));
            assert!(matches!(semaphore.up(), Err(UpError::Dead { .. })));
        }
        drop(tell);
    });
}

#[test]
fn a_semaphore_removed_by_force_is_dead_to_all() {
    let _house = House::new("removed");
    for barging in [false, true] {
        let make = if barging { Semaphore::create_barging } else { Semaphore::create };
        let (semaphore, private) = (make("s", 0).unwrap(), Semaphore::private(0).unwrap());
        std::thread::scope(|s| {
            let patient: Vec<_> = (0..4).map(|_| s.spawn(|| semaphore.down())).collect();
            let limited: Vec<_> = (0..2).map(|_| s.spawn(|| semaphore.down_timeout(LONG))).collect();
            let choosing = s.spawn(|| {
                let mut select = Select::new();
                let other = select.down(&private);
                let arm = select.down(&semaphore);
                let ended = select.wait().unwrap_err();
                (other, arm, ended)
            });
            eventually("all wait", || semaphore.waiters().len() == 7);
            let e = Semaphore::remove("s", false).unwrap_err();
            assert!(matches!(&e, ObjectError::InUse { .. }), "{e}");
            assert!(e.to_string().contains("`s` is in use: 7 waiting"), "{e}");
            Semaphore::remove("s", true).unwrap();
            for waiter in patient.into_iter().chain(limited) {
                let e = waiter.join().unwrap().unwrap_err();
                assert!(matches!(e, DownError::Dead { .. }) && e.to_string().contains("is dead"), "{e}");
            }
            let (_, arm, ended) = choosing.join().unwrap();
            assert!(matches!(&ended, SelectError::Dead { arm: a, .. } if *a == arm), "{ended}");
        });
        for e in [semaphore.down(), semaphore.try_down(), semaphore.down_timeout(LONG)].map(Result::unwrap_err) {
            assert!(matches!(e, DownError::Dead { .. }), "{e}");
        }
        assert!(matches!(semaphore.up(), Err(UpError::Dead { .. })));
        assert!(matches!(semaphore.up_many(0), Err(UpError::Dead { .. })));
        assert!(matches!(Semaphore::open("s"), Err(ObjectError::Unknown { .. })));
        // The same name again is another semaphore, in the same slot.
        let again = make("s", 2).unwrap();
        assert!(semaphore.try_down().is_err() && semaphore.up().is_err());
        assert_eq!(again.value(), 2);
        Semaphore::remove("s", false).unwrap();
    }
}

/// Writes into the shared memory what no semaphore says.
fn scribble(arena: &str, name: &str, word: u64) {
    let map = Arena::open(arena).unwrap().map();
    let place = map.find(name).unwrap();
    map.object(place.index).slot.word.store(word, Ordering::SeqCst);
}

#[test]
fn a_semaphore_whose_word_was_scribbled_over_is_dead_to_all() {
    let _house = House::new("scribbled");
    let wild: [u64; 6] = [0, u64::MAX, 0xdead_beef_dead_beef, 1 << 63, 5, 4 | 1 << 36 | 0xfffe << 38];
    for (round, word) in wild.into_iter().enumerate() {
        for touch in 0..3 {
            let name = format!("s{round}-{touch}");
            let semaphore = Semaphore::create(&name, 0).unwrap();
            std::thread::scope(|s| {
                let waiters: Vec<_> = (0..3).map(|_| s.spawn(|| semaphore.down())).collect();
                eventually("all wait", || semaphore.waiters().len() == 3);
                scribble("default", &name, word);
                // The next thread that touches it finds out.
                match touch {
                    0 => assert!(matches!(semaphore.up(), Err(UpError::Dead { .. })), "{word:#x}"),
                    1 => assert!(matches!(semaphore.try_down(), Err(DownError::Dead { .. })), "{word:#x}"),
                    _ => assert!(matches!(semaphore.down_timeout(LONG), Err(DownError::Dead { .. })), "{word:#x}"),
                }
                for waiter in waiters {
                    assert!(matches!(waiter.join().unwrap(), Err(DownError::Dead { .. })), "{word:#x}");
                }
            });
            assert!(matches!(semaphore.down(), Err(DownError::Dead { .. })));
            assert!(matches!(semaphore.try_down(), Err(DownError::Dead { .. })));
            assert!(matches!(semaphore.up(), Err(UpError::Dead { .. })));
            assert!(matches!(Semaphore::open(&name), Err(ObjectError::Unknown { .. })));
            assert_eq!(Semaphore::create(&name, 1).unwrap().value(), 1);
        }
    }
}
