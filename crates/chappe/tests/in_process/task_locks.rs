//! Tasks lock mutexes and wait to be notified, in one line with threads. No runtime: the tests poll by hand.

use crate::tasks::{LONG, bell, block_on, in_a_house, poll};
use chappe::{Condvar, LockError, Map, MapError, MapOptions, Mutex, MutexGuard, RwLock, RwLockError, WriteGuard};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A private mutex, and one of an arena that the test removes at its end.
fn mutexes(name: &str, test: impl Fn(&Mutex<u32>)) {
    test(&Mutex::private(0).unwrap());
    in_a_house(name, || test(&Mutex::create("m", 0).unwrap()));
}

fn condvars(name: &str, test: impl Fn(&Mutex<u32>, &Condvar)) {
    test(&Mutex::private(0).unwrap(), &Condvar::private().unwrap());
    in_a_house(name, || test(&Mutex::create("m", 0).unwrap(), &Condvar::create("c").unwrap()));
}

#[test]
fn a_lock_of_a_task_is_its_processs() {
    mutexes("task_lock", |m| {
        let (waker, ..) = bell();
        let Poll::Ready(Ok(mut guard)) = poll(&mut pin!(m.lock_async()), &waker) else { panic!("it is free") };
        *guard += 1;
        assert!(matches!(m.try_lock(), Err(LockError::WouldBlock)));
        assert!(poll(&mut pin!(m.lock_async()), &waker).is_pending());
        std::thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
        assert_eq!(*m.lock().unwrap(), 1);
    });
}

#[test]
fn a_task_waits_for_a_threads_lock() {
    mutexes("task_waits", |m| {
        // A private one is biased to the thread by then.
        (0..1_000).for_each(|_| *m.lock().unwrap() += 1);
        let (waker, _, woken) = bell();
        let guard = m.lock().unwrap();
        let mut lock = pin!(m.lock_async());
        assert!(poll(&mut lock, &waker).is_pending());
        assert!(poll(&mut lock, &waker).is_pending(), "a poll for no reason changes nothing");
        drop(guard);
        woken.recv_timeout(LONG).unwrap();
        let Poll::Ready(Ok(guard)) = poll(&mut lock, &waker) else { panic!("it is free") };
        assert_eq!(*guard, 1_000);
    });
}

#[test]
fn a_dropped_task_passes_a_mutex_on() {
    mutexes("task_passes", |m| {
        let ((first, ..), (second, _, woken)) = (bell(), bell());
        let guard = m.lock().unwrap();
        let mut next = pin!(m.lock_async());
        {
            let mut lock = pin!(m.lock_async());
            assert!(poll(&mut lock, &first).is_pending());
            assert!(poll(&mut next, &second).is_pending());
            drop(guard);
            // It was told. No thread unlocks after it is dropped.
        }
        woken.recv_timeout(LONG).expect("the next is told");
        assert!(matches!(poll(&mut next, &second), Poll::Ready(Ok(_))));
        // No sign is left behind that a waiter was told.
        let guard = m.lock().unwrap();
        {
            let mut lock = pin!(m.lock_async());
            assert!(poll(&mut lock, &first).is_pending());
            drop(guard);
        }
        let guard = m.lock().unwrap();
        let mut lock = pin!(m.lock_async());
        assert!(poll(&mut lock, &second).is_pending());
        drop(guard);
        woken.recv_timeout(LONG).expect("the first unlock tells it");
    });
}

/// Waits until a task that waits since then is overdue.
fn pass_half_a_millisecond() {
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1) {
        std::thread::yield_now();
    }
}

#[test]
fn an_overdue_task_is_handed_the_mutex() {
    for dropped in [false, true] {
        mutexes("task_overdue", |m| {
            let (waker, _, woken) = bell();
            let guard = m.lock().unwrap();
            let mut lock = Box::pin(m.lock_async());
            assert!(poll(&mut lock.as_mut(), &waker).is_pending());
            drop(guard);
            woken.recv_timeout(LONG).unwrap();
            let guard = m.try_lock().expect("a thread may overtake it for a while");
            pass_half_a_millisecond();
            assert!(poll(&mut lock.as_mut(), &waker).is_pending());
            drop(guard);
            assert!(matches!(m.try_lock(), Err(LockError::WouldBlock)), "it is the task's by now");
            if dropped {
                drop(lock);
                assert!(m.try_lock().is_ok(), "it was given back");
            } else {
                assert!(matches!(poll(&mut lock.as_mut(), &waker), Poll::Ready(Ok(_))));
            }
        });
    }
}

#[test]
fn a_task_that_panics_leaves_the_data_torn() {
    mutexes("task_panics", |m| {
        let guard = block_on(m.lock_async()).unwrap();
        std::thread::scope(|s| {
            let panics = s.spawn(move || {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("by intent"));
            });
            assert!(panics.join().is_err());
        });
        let Err(LockError::OwnerDied(mut guard)) = block_on(m.lock_async()) else { panic!("not told") };
        MutexGuard::make_consistent(&mut guard);
        drop(guard);
        assert!(m.try_lock().is_ok());
    });
}

#[test]
fn a_condemned_or_removed_mutexs_tasks_are_told() {
    mutexes("task_condemned", |m| {
        let (waker, _, woken) = bell();
        let guard = block_on(m.lock_async()).unwrap();
        let mut lock = pin!(m.lock_async());
        assert!(poll(&mut lock, &waker).is_pending());
        MutexGuard::condemn(guard);
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut lock, &waker), Poll::Ready(Err(LockError::Condemned { .. }))));
        assert!(matches!(block_on(m.lock_async()), Err(LockError::Condemned { .. })));
    });
    in_a_house("task_removed", || {
        let m = Mutex::create("m", 0u32).unwrap();
        let (waker, _, woken) = bell();
        let guard = m.lock().unwrap();
        let mut lock = pin!(m.lock_async());
        assert!(poll(&mut lock, &waker).is_pending());
        Mutex::remove("m", true).unwrap();
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut lock, &waker), Poll::Ready(Err(LockError::Dead { .. }))));
        drop(guard);
    });
}

#[test]
fn tasks_and_threads_count_without_loss() {
    mutexes("task_count", |m| {
        const EACH: u32 = 200;
        std::thread::scope(|scope| {
            for tasks in [true, true, false] {
                scope.spawn(move || {
                    for _ in 0..EACH {
                        if tasks {
                            *block_on(m.lock_async()).unwrap() += 1;
                        } else {
                            *m.lock().unwrap() += 1;
                        }
                    }
                });
            }
        });
        assert_eq!(*m.lock().unwrap(), 3 * EACH);
    });
}

#[test]
fn a_task_hears_a_notification_that_follows_its_unlock() {
    condvars("task_hears", |m, c| {
        let (waker, _, woken) = bell();
        let guard = block_on(m.lock_async()).unwrap();
        let mut wait = pin!(c.wait_async(guard));
        assert!(matches!(m.try_lock(), Err(LockError::WouldBlock)), "until the first poll");
        assert!(poll(&mut wait, &waker).is_pending());
        let mut guard = m.try_lock().expect("the task has unlocked it");
        c.notify_one();
        woken.recv_timeout(LONG).unwrap();
        assert!(poll(&mut wait, &waker).is_pending(), "it waits for the mutex");
        *guard = 1;
        drop(guard);
        woken.recv_timeout(LONG).unwrap();
        let Poll::Ready(Ok(guard)) = poll(&mut wait, &waker) else { panic!("it was notified") };
        assert_eq!(*guard, 1);
    });
}

/// Notifies when it is woken.
struct Notifies(Condvar);

impl Wake for Notifies {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[test]
fn a_task_hears_who_notifies_as_soon_as_the_mutex_is_free() {
    condvars("task_hears_soon", |m, c| {
        let (waker, _, woken) = bell();
        let guard = block_on(m.lock_async()).unwrap();
        let mut next = pin!(m.lock_async());
        assert!(poll(&mut next, &Waker::from(Arc::new(Notifies(c.clone())))).is_pending());
        // Unlocks, which wakes the next one of the mutex, which notifies.
        let mut wait = pin!(c.wait_async(guard));
        assert!(poll(&mut wait, &waker).is_pending());
        woken.recv_timeout(LONG).expect("the task waited before it unlocked");
    });
}

#[test]
fn a_dropped_tasks_notification_goes_to_the_next() {
    condvars("task_notified", |m, c| {
        let ((first, ..), (second, _, woken)) = (bell(), bell());
        let mut next = Box::pin(c.wait_async(block_on(m.lock_async()).unwrap()));
        let mut third = Box::pin(c.wait_async(block_on_after(&mut next, &first, m)));
        assert!(poll(&mut third.as_mut(), &second).is_pending());
        c.notify_one();
        drop(next);
        woken.recv_timeout(LONG).expect("it goes to the next");
        assert!(matches!(poll(&mut third.as_mut(), &second), Poll::Ready(Ok(_))));
        // One that is dropped before it was polled has the mutex until then.
        let guard = block_on(m.lock_async()).unwrap();
        drop(c.wait_async(guard));
        assert!(m.try_lock().is_ok());
    });
}

/// Polls a wait, which unlocks the mutex, and locks that.
fn block_on_after<'a, F: Future>(
    wait: &mut std::pin::Pin<Box<F>>,
    waker: &std::task::Waker,
    m: &'a Mutex<u32>,
) -> chappe::OwnedMutexGuard<'a, u32> {
    assert!(poll(&mut wait.as_mut(), waker).is_pending());
    block_on(m.lock_async()).unwrap()
}

#[test]
fn a_removed_condvars_tasks_are_told_with_the_mutex_locked() {
    in_a_house("task_condvar", || {
        let (m, c) = (Mutex::create("m", 0u32).unwrap(), Condvar::create("c").unwrap());
        let (waker, _, woken) = bell();
        let mut wait = pin!(c.wait_async(block_on(m.lock_async()).unwrap()));
        assert!(poll(&mut wait, &waker).is_pending());
        Condvar::remove("c", true).unwrap();
        woken.recv_timeout(LONG).unwrap();
        let Poll::Ready(Err(LockError::CondvarDead { guard, .. })) = poll(&mut wait, &waker) else {
            panic!("not told")
        };
        assert!(matches!(m.try_lock(), Err(LockError::WouldBlock)));
        drop(guard);
        let again = block_on(c.wait_async(block_on(m.lock_async()).unwrap()));
        let Err(LockError::CondvarDead { guard, .. }) = again else { panic!("not told") };
        drop(guard);
        assert!(m.try_lock().is_ok());
    });
}

#[test]
fn locks_of_tasks_may_go_from_thread_to_thread() {
    fn is_send<T: Send>(_: &T) {}
    let (m, c) = (Mutex::private(0).unwrap(), Condvar::private().unwrap());
    is_send(&m.lock_async());
    let guard = block_on(m.lock_async()).unwrap();
    is_send(&guard);
    is_send(&c.wait_async(guard));
    let lock = RwLock::private(0).unwrap();
    is_send(&lock.read_async());
    is_send(&block_on(lock.read_async()).unwrap());
    is_send(&lock.write_async());
    is_send(&block_on(lock.write_async()).unwrap());
}

fn locks(name: &str, test: impl Fn(&RwLock<u32>)) {
    test(&RwLock::private(0).unwrap());
    in_a_house(name, || test(&RwLock::create("l", 0).unwrap()));
}

#[test]
fn tasks_read_together_and_write_alone() {
    locks("task_reads", |l| {
        let ((waker, ..), (other, _, woken)) = (bell(), bell());
        let readers = [(); 3].map(|()| block_on(l.read_async()).unwrap());
        let mut write = pin!(l.write_async());
        assert!(poll(&mut write, &waker).is_pending());
        let mut behind = pin!(l.read_async());
        assert!(poll(&mut behind, &other).is_pending(), "a writer came before it");
        assert!(matches!(l.try_read(), Err(RwLockError::WouldBlock)));
        std::thread::scope(|s| s.spawn(move || drop(readers)).join().unwrap());
        let Poll::Ready(Ok(mut guard)) = poll(&mut write, &waker) else { panic!("nobody reads any more") };
        *guard = 1;
        let reading = WriteGuard::downgrade(guard);
        woken.recv_timeout(LONG).expect("it may read beside the writer that was");
        let Poll::Ready(Ok(guard)) = poll(&mut behind, &other) else { panic!("nobody writes any more") };
        assert_eq!((*guard, *reading), (1, 1));
        drop((guard, reading));
        assert!(l.try_write().is_ok());
    });
}

#[test]
fn a_dropped_tasks_turn_goes_to_the_next() {
    locks("task_turn", |l| {
        for (writes, granted) in [(false, false), (false, true), (true, false), (true, true)] {
            let ((waker, ..), (second, _, woken)) = (bell(), bell());
            let guard = l.write().unwrap();
            let mut next = pin!(l.write_async());
            let (mut read, mut write) = (Box::pin(l.read_async()), Box::pin(l.write_async()));
            let pending = if writes {
                poll(&mut write.as_mut(), &waker).is_pending()
            } else {
                poll(&mut read.as_mut(), &waker).is_pending()
            };
            assert!(pending && poll(&mut next, &second).is_pending());
            if granted {
                drop(guard);
                drop((read, write));
            } else {
                drop((read, write));
                drop(guard);
            }
            woken.recv_timeout(LONG).expect("the next is told");
            assert!(matches!(poll(&mut next, &second), Poll::Ready(Ok(_))));
        }
    });
}

#[test]
fn a_condemned_or_removed_rwlocks_tasks_are_told() {
    locks("task_rwlock_condemned", |l| {
        let (waker, _, woken) = bell();
        let guard = block_on(l.write_async()).unwrap();
        let mut read = pin!(l.read_async());
        assert!(poll(&mut read, &waker).is_pending());
        WriteGuard::condemn(guard);
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut read, &waker), Poll::Ready(Err(RwLockError::Condemned { .. }))));
        assert!(matches!(block_on(l.write_async()), Err(RwLockError::Condemned { .. })));
    });
    in_a_house("task_rwlock_removed", || {
        let l = RwLock::create("l", 0u32).unwrap();
        let (waker, _, woken) = bell();
        let guard = l.read().unwrap();
        let mut write = pin!(l.write_async());
        assert!(poll(&mut write, &waker).is_pending());
        RwLock::remove("l", true).unwrap();
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut write, &waker), Poll::Ready(Err(RwLockError::Dead { .. }))));
        drop(guard);
    });
}

#[test]
fn a_writing_task_that_panics_leaves_the_data_torn() {
    locks("task_rwlock_panics", |l| {
        let guard = block_on(l.write_async()).unwrap();
        std::thread::scope(|s| {
            let panics = s.spawn(move || {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("by intent"));
            });
            assert!(panics.join().is_err());
        });
        let Err(RwLockError::OwnerDied(mut guard)) = block_on(l.write_async()) else { panic!("not told") };
        WriteGuard::make_consistent(&mut guard);
    });
}

fn maps(name: &str, test: impl Fn(&Map<u32, u32>)) {
    let options = MapOptions { entries: 8, ..MapOptions::default() };
    test(&Map::private(&options).unwrap());
    in_a_house(name, || test(&Map::create("t", &options).unwrap()));
}

#[test]
fn a_task_hears_of_a_maps_changes() {
    maps("task_map", |map| {
        let ((waker, _, woken), (other, _, also)) = (bell(), bell());
        map.insert(&1, &1).unwrap();
        let (mut watch, mut only) = (map.watch(None), map.watch(Some(&2)));
        assert_eq!(block_on(watch.next_async()).unwrap().len(), 1, "what is there is the first change");
        {
            let (mut next, mut second) = (pin!(watch.next_async()), pin!(only.next_async()));
            assert!(poll(&mut next, &waker).is_pending() && poll(&mut second, &other).is_pending());
            map.insert(&2, &7).unwrap();
            let _ = [&woken, &also].map(|woken| woken.recv_timeout(LONG).unwrap());
            for (wait, waker) in [(&mut next, &waker), (&mut second, &other)] {
                let Poll::Ready(Ok(events)) = poll(wait, waker) else { panic!("it has changed") };
                assert_eq!((events.len(), &events[0].old), (1, &None));
            }
        }
        {
            let mut next = pin!(watch.next_async());
            assert!(poll(&mut next, &waker).is_pending());
            map.remove(&1).unwrap();
        }
        assert_eq!(block_on(watch.next_async()).unwrap().len(), 1, "the dropped one has looked at nothing");
        assert_eq!(only.changes().unwrap(), []);
    });
}

#[test]
fn a_removed_maps_tasks_are_told() {
    in_a_house("task_map_removed", || {
        let map = Map::<u32, u32>::create("t", &MapOptions::default()).unwrap();
        let (mut watch, (waker, _, woken)) = (map.watch(None), bell());
        let mut next = pin!(watch.next_async());
        assert!(poll(&mut next, &waker).is_pending());
        Map::unmake("t", true).unwrap();
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut next, &waker), Poll::Ready(Err(MapError::Dead { .. }))));
    });
}
