//! Locks with helping, and monitors, between threads.

use chappe::{HelpError, HelpLock, Monitor, MonitorError, Semaphore, lock_all};
use std::time::Duration;

#[test]
fn sections_of_both_forms_exclude_each_other() {
    const EACH: u64 = 3_000;
    for lock in [HelpLock::steps("steps", [0u64; 3]).unwrap(), HelpLock::inherited("any", [0u64; 3]).unwrap()] {
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..EACH {
                        lock.with(|d| {
                            assert!(d[0] == d[1] && d[1] == d[2], "torn: {d:?}");
                            d.iter_mut().for_each(|v| *v += 1);
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(lock.with(|d| *d).unwrap(), [3 * EACH; 3], "{lock:?}");
    }
}

#[test]
fn data_smaller_than_a_word_keeps_its_bytes() {
    let lock = HelpLock::steps("small", [1u8, 2, 3]).unwrap();
    lock.with(|d| d[1] = 9).unwrap();
    assert_eq!(lock.with(|d| *d).unwrap(), [1, 9, 3]);
    let lock = HelpLock::steps("odd", [7u32; 5]).unwrap();
    lock.with(|d| d[4] = 8).unwrap();
    assert_eq!(lock.with(|d| *d).unwrap(), [7, 7, 7, 7, 8]);
}

#[test]
fn a_holder_that_panics_or_ends_is_told_until_the_data_is_whole() {
    for ends in [false, true] {
        let lock = HelpLock::inherited("log", 1).unwrap();
        std::thread::scope(|s| {
            let died = s.spawn(|| {
                let mut guard = lock.lock().unwrap();
                *guard = 2;
                if ends {
                    std::mem::forget(guard);
                } else {
                    panic!("on purpose");
                }
            });
            assert_eq!(died.join().is_ok(), ends);
        });
        assert!(matches!(lock.with(|d| *d), Err(HelpError::OwnerDied { .. })));
        let Err(HelpError::OwnerDied { guard, .. }) = lock.lock() else { panic!("it died") };
        assert_eq!(*guard, 2);
        guard.make_consistent();
        drop(guard);
        assert_eq!(lock.with(|d| *d).unwrap(), 2);
        lock.lock().unwrap().condemn();
        assert!(matches!(lock.lock(), Err(HelpError::Condemned { .. })));
    }
}

#[test]
fn several_are_locked_whatever_the_order() {
    let locks: Vec<_> = (0..3).map(|i| HelpLock::inherited(&format!("lock {i}"), 0).unwrap()).collect();
    std::thread::scope(|s| {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let locks = &locks;
            s.spawn(move || {
                for _ in 0..500 {
                    for mut guard in lock_all(&order.map(|i| &locks[i])).unwrap() {
                        *guard += 1;
                    }
                }
            });
        }
    });
    assert!(locks.iter().all(|l| *l.lock().unwrap() == 1_500));
    assert!(matches!(lock_all(&[&locks[0], &locks[1], &locks[0]]), Err(HelpError::Deadlock { .. })));
    assert!(locks.iter().all(|l| l.try_lock().is_ok()), "one stayed locked");
}

#[test]
fn a_recursive_lock_and_a_guard_of_steps_are_refused() {
    let lock = HelpLock::inherited("once", 0).unwrap();
    let held = lock.lock().unwrap();
    let again = lock.lock().unwrap_err().to_string();
    assert!(again.contains("`once`"), "{again}");
    drop(held);
    let steps = HelpLock::steps("steps", 0u64).unwrap();
    assert!(matches!(steps.lock(), Err(HelpError::Steps { .. })));
}

#[test]
#[cfg(debug_assertions)]
fn a_section_that_waits_is_told_where_it_began() {
    let lock = HelpLock::inherited("busy", 0).unwrap();
    let nothing = Semaphore::private(0).unwrap();
    let told = std::thread::scope(|s| {
        let waits = s.spawn(|| {
            let _guard = lock.lock().unwrap();
            let _ = nothing.down_timeout(Duration::from_millis(1));
        });
        *waits.join().unwrap_err().downcast::<String>().unwrap()
    });
    assert!(told.contains("`busy`") && told.contains("helplock.rs:"), "{told}");
}

#[test]
fn a_monitor_hands_all_over_in_order() {
    const COUNT: u32 = 1_000;
    let slots = Monitor::private("slots", Vec::new(), &["not empty", "not full"]).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0..COUNT {
                let mut inside = slots.enter().unwrap();
                while inside.len() == 4 {
                    inside = inside.wait("not full").unwrap();
                }
                inside.push(i);
                inside.signal("not empty").unwrap();
            }
        });
        for i in 0..COUNT {
            let mut inside = slots.enter().unwrap();
            while inside.is_empty() {
                inside = inside.wait("not empty").unwrap();
            }
            assert_eq!(inside.remove(0), i);
            inside.signal("not full").unwrap();
        }
    });
}

#[test]
fn a_signal_that_nobody_waits_for_is_not_kept() {
    let monitor = Monitor::private("m", (), &["c"]).unwrap();
    monitor.enter().unwrap().signal("c").unwrap();
    let (_inside, came) = monitor.enter().unwrap().wait_timeout("c", Duration::from_millis(5)).unwrap();
    assert!(!came);
}

#[test]
fn a_timed_out_wait_consumes_no_later_signal() {
    let monitor = Monitor::private("m", 0, &["c"]).unwrap();
    for _ in 0..3 {
        let (inside, came) = monitor.enter().unwrap().wait_timeout("c", Duration::from_millis(1)).unwrap();
        assert!(!came);
        // Nobody waits: were the count kept, this would be.
        inside.signal("c").unwrap();
    }
    let (_inside, came) = monitor.enter().unwrap().wait_timeout("c", Duration::from_millis(5)).unwrap();
    assert!(!came);
}

#[test]
fn a_wait_that_keeps_another_monitor_locked_is_refused_with_both_names() {
    let (outer, inner) =
        (Monitor::private("outer", (), &["a"]).unwrap(), Monitor::private("inner", (), &["b"]).unwrap());
    let held = outer.enter().unwrap();
    let refused = inner.enter().unwrap().wait("b").unwrap_err();
    assert!(matches!(&refused, MonitorError::Nested { inner, outer } if &**inner == "inner" && &**outer == "outer"));
    drop(held);
    let unknown = inner.enter().unwrap().wait("c").unwrap_err().to_string();
    assert!(unknown.contains("`inner`") && unknown.contains("`c`") && unknown.contains("`b`"), "{unknown}");
}

#[test]
fn all_who_wait_are_woken_by_a_broadcast() {
    let monitor = Monitor::private("m", (0, false), &["arrived", "go"]).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let mut inside = monitor.enter().unwrap();
                inside.0 += 1;
                inside.signal("arrived").unwrap();
                while !inside.1 {
                    inside = inside.wait("go").unwrap();
                }
            });
        }
        let mut inside = monitor.enter().unwrap();
        while inside.0 < 4 {
            inside = inside.wait("arrived").unwrap();
        }
        inside.1 = true;
        inside.broadcast("go").unwrap();
    });
}

#[test]
fn a_monitor_in_which_somebody_died_is_made_whole() {
    let monitor = Monitor::private("m", 1, &[]).unwrap();
    let died = std::thread::scope(|s| {
        s.spawn(|| {
            let mut inside = monitor.enter().unwrap();
            *inside = 2;
            panic!("on purpose");
        })
        .join()
    });
    assert!(died.is_err());
    assert!(matches!(monitor.enter(), Err(MonitorError::Lock(HelpError::OwnerDied { .. }))));
    let inside = monitor.enter_torn().unwrap();
    assert_eq!(*inside, 2);
    inside.make_consistent();
    drop(inside);
    assert_eq!(*monitor.enter().unwrap(), 2);
}

/// Runs `then` in a destructor, while the thread unwinds.
fn while_unwinding(then: impl FnMut()) {
    struct Last<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Last<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _last = Last(then);
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
}

#[test]
fn a_section_begun_and_ended_by_a_destructor_is_whole_although_the_thread_unwinds() {
    let (lock, monitor) = (HelpLock::inherited("log", 1).unwrap(), Monitor::private("m", 1, &["c"]).unwrap());
    while_unwinding(|| {
        *lock.lock().unwrap() = 2;
        let inside = monitor.enter().unwrap();
        let (mut inside, signalled) = inside.wait_timeout("c", std::time::Duration::ZERO).unwrap();
        assert!(!signalled);
        *inside = 2;
    });
    assert_eq!(*lock.lock().unwrap(), 2);
    assert_eq!(*monitor.enter().unwrap(), 2);
}

#[test]
fn data_that_is_condemned_while_its_holder_unwinds_stays_condemned() {
    let lock = HelpLock::inherited("log", 1).unwrap();
    let mut guard = Some(lock.lock().unwrap());
    while_unwinding(|| guard.take().unwrap().condemn());
    assert!(matches!(lock.lock(), Err(HelpError::Condemned { .. })));
}
