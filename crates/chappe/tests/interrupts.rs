//! Every wait inside of `interruptible` ends when it is asked to, and what it waited for is as it was.

use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Slow, Subscribe};
use chappe::tube::named::{NotReceived, NotSent, Tube, TubeOptions};
use chappe::{
    AcquireError, Arena, ArenaOptions, Condvar, DownError, Interrupt, LockError, Map, MapError, MapOptions, Mutex,
    Pool, Role, Select, SelectError, Semaphore, acquire_any, interruptible,
};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

/// Does something that would wait, inside of `interruptible`, when the interruption was asked for before.
fn asked<R>(act: impl FnOnce() -> R) -> R {
    let by = Interrupt::new();
    by.interrupt();
    interruptible(&by, act)
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_wait_for_one_permit_is_interrupted() {
    let pool = Pool::private(1).unwrap();
    let held = pool.acquire().unwrap();
    assert!(matches!(asked(|| pool.acquire().map(drop)), Err(AcquireError::Interrupted)));
    assert!(matches!(asked(|| pool.acquire_timeout(LONG).map(drop)), Err(AcquireError::Interrupted)));
    assert!(matches!(asked(|| pool.acquire_owned().map(drop)), Err(AcquireError::Interrupted)));
    assert!(matches!(asked(|| acquire_any(&[&pool]).map(drop)), Err(AcquireError::Interrupted)));
    assert!(pool.waiters().is_empty());
    drop(held);
    assert!(asked(|| pool.acquire().map(drop)).is_ok(), "what need not wait is not interrupted");
}

#[test]
fn a_wait_for_several_permits_is_interrupted_and_keeps_none() {
    let pool = Pool::private(3).unwrap();
    let held = pool.acquire().unwrap();
    assert!(matches!(asked(|| pool.acquire_many(3).map(drop)), Err(AcquireError::Interrupted)));
    assert!(matches!(asked(|| pool.acquire_many_timeout(3, LONG).map(drop)), Err(AcquireError::Interrupted)));
    assert_eq!((pool.available(), pool.waiters().len()), (2, 0));
    drop(held);
    assert_eq!(asked(|| pool.acquire_many(3).map(|all| all.len())).unwrap(), 3);
}

#[test]
fn a_wait_for_a_unit_or_a_choice_is_interrupted() {
    let (semaphore, pool) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap());
    let _held = pool.acquire().unwrap();
    assert!(matches!(asked(|| semaphore.down()), Err(DownError::Interrupted)));
    let mut choice = Select::new();
    choice.down(&semaphore);
    choice.acquire(&pool);
    assert!(matches!(asked(|| choice.wait().map(drop)), Err(SelectError::Interrupted)));
    assert!(matches!(asked(|| choice.wait_timeout(LONG).map(drop)), Err(SelectError::Interrupted)));
    // Its errors are crossbeam's: it waits on.
    assert!(asked(|| choice.select_timeout(Duration::from_millis(1)).map(drop)).is_err());
}

#[test]
fn a_wait_for_a_mutex_is_interrupted() {
    let mutex = Mutex::private(1).unwrap();
    let guard = mutex.lock().unwrap();
    std::thread::scope(|s| {
        let waits = || asked(|| matches!(mutex.lock(), Err(LockError::Interrupted)));
        let waits_long = || asked(|| matches!(mutex.lock_timeout(LONG), Err(LockError::Interrupted)));
        assert!(s.spawn(waits).join().unwrap());
        assert!(s.spawn(waits_long).join().unwrap());
    });
    drop(guard);
    assert_eq!(*mutex.lock().unwrap(), 1);
}

#[test]
fn an_interrupted_wait_for_a_condition_comes_back_with_the_lock() {
    let (mutex, condvar) = (Mutex::private(1).unwrap(), Condvar::private().unwrap());
    let guard = asked(|| condvar.wait(mutex.lock().unwrap())).unwrap();
    assert_eq!(*guard, 1);
    let (guard, timed_out) = asked(|| condvar.wait_timeout(guard, LONG));
    assert!(!timed_out);
    drop(guard.unwrap());
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_wait_at_a_named_tube_is_interrupted_and_the_message_comes_back() {
    let arena = format!("interrupts-{}", std::process::id());
    Arena::create(&arena, &ArenaOptions::default()).unwrap();
    let options = TubeOptions { slots: 1, ..TubeOptions::default() };
    let tube = Tube::<u64>::create(&format!("{arena}/t"), &options).unwrap();
    let (mut sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    assert!(matches!(asked(|| receiver.recv()), Err(NotReceived::Interrupted)));
    assert!(matches!(asked(|| receiver.recv_timeout(LONG)), Err(NotReceived::Interrupted)));
    assert!(matches!(asked(|| receiver.borrow().map(drop)), Err(NotReceived::Interrupted)));
    sender.send(7).unwrap();
    let again = asked(|| sender.send(8)).unwrap_err();
    assert!(matches!(again, NotSent::Interrupted(8)));
    assert_eq!(again.into_message(), 8);
    assert!(matches!(asked(|| sender.reserve().map(drop)), Err(NotSent::Interrupted(()))));
    assert_eq!(asked(|| receiver.recv()).unwrap(), 7);
    drop((sender, receiver));
    Arena::remove(&arena, true).unwrap();
}

#[test]
fn a_wait_at_a_broadcast_tube_is_interrupted() {
    let arena = format!("interrupts-broadcast-{}", std::process::id());
    Arena::create(&arena, &ArenaOptions::default()).unwrap();
    let options = BroadcastOptions { slots: 1, ..BroadcastOptions::default() };
    let tube = Broadcast::<u64>::create(&format!("{arena}/t"), &options).unwrap();
    let publisher = tube.publisher().unwrap();
    let subscription = tube.subscribe(Subscribe::to_all().slow(Slow::Block)).unwrap();
    assert!(matches!(asked(|| subscription.recv()), Err(NotReceived::Interrupted)));
    assert!(matches!(asked(|| subscription.recv_timeout(LONG)), Err(NotReceived::Interrupted)));
    let mut sent = 0;
    while publisher.try_send(sent).is_ok() {
        sent += 1;
    }
    assert!(matches!(asked(|| publisher.send(7)), Err(NotSent::Interrupted(()))));
    assert!(matches!(asked(|| publisher.send_timeout(7, LONG)), Err(NotSent::Interrupted(()))));
    assert_eq!(asked(|| subscription.recv()).unwrap(), 0, "what need not wait is not interrupted");
    drop((publisher, subscription));
    Arena::remove(&arena, true).unwrap();
}

#[test]
fn a_wait_for_a_map_to_change_is_interrupted() {
    let arena = format!("interrupts-map-{}", std::process::id());
    Arena::create(&arena, &ArenaOptions::default()).unwrap();
    let options = MapOptions { entries: 2, key: 8, value: 8, ordered: false };
    let map = Map::<u64, u64>::create(&format!("{arena}/m"), &options).unwrap();
    let mut watch = map.watch(None);
    assert!(matches!(asked(|| watch.next(None)), Err(MapError::Interrupted)));
    assert!(matches!(asked(|| watch.next(Some(LONG))), Err(MapError::Interrupted)));
    map.insert(&1, &2).unwrap();
    assert_eq!(asked(|| watch.next(None)).unwrap().len(), 1);
    drop(watch);
    drop(map);
    Arena::remove(&arena, true).unwrap();
}

#[test]
fn a_wait_at_a_private_tube_is_interrupted_where_it_is_asked_for() {
    let (sender, receiver) = chappe::tube::bounded::<u32>(1);
    assert!(asked(|| receiver.recv_interruptible()).is_err());
    sender.send(1).unwrap();
    assert!(asked(|| sender.send_interruptible(2)).is_err());
    assert_eq!(asked(|| receiver.recv_interruptible()).ok(), Some(1));
}

/// At tubes of each kind, and in a choice.
fn interrupted_while_it_spins() {
    let arena = format!("interrupts-spinning-{}", std::process::id());
    Arena::create(&arena, &ArenaOptions::default()).unwrap();
    let tube = Tube::<u64>::create(&format!("{arena}/t"), &TubeOptions::default()).unwrap();
    let broadcast = Broadcast::<u64>::create(&format!("{arena}/b"), &BroadcastOptions::default()).unwrap();
    let (named, heard) = (tube.receiver().unwrap(), broadcast.subscribe(Subscribe::to_all()).unwrap());
    let (_sender, private) = chappe::tube::bounded::<u32>(1);
    let mut choice = Select::new();
    choice.recv(&private);
    choice.recv_on(&named);
    Role::Spin.during(|| {
        assert!(matches!(asked(|| named.recv()), Err(NotReceived::Interrupted)));
        assert!(matches!(asked(|| named.borrow().map(drop)), Err(NotReceived::Interrupted)));
        assert!(matches!(asked(|| heard.recv()), Err(NotReceived::Interrupted)));
        assert!(asked(|| private.recv_interruptible()).is_err());
        assert!(matches!(asked(|| choice.wait().map(drop)), Err(SelectError::Interrupted)));
    });
    drop((named, heard));
    Arena::remove(&arena, true).unwrap();
}

#[test]
fn a_thread_that_never_sleeps_is_interrupted_at_tubes_too() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        interrupted_while_it_spins();
        tell.send(()).unwrap();
    });
    // A watchdog: a thread that is not interrupted looks for ever.
    assert_eq!(told.recv_timeout(Duration::from_secs(280)), Ok(()), "it looks for a message all the same");
}

/// The semaphore that the handler raises.
static RAISED: AtomicPtr<Semaphore> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn raise(_signal: i32) {
    // SeqCst: pairs with the store before the handler was set. SAFETY: it is leaked, so it lives as long as the process.
    unsafe { &*RAISED.load(SeqCst) }.up().unwrap();
}

/// A handler that ran in a wait which ended with a unit all the same is nothing to the next one.
#[test]
fn a_handler_ends_no_later_wait() {
    let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::private(0).unwrap()));
    // SeqCst: pairs with the handler's load.
    RAISED.store(std::ptr::from_ref(semaphore).cast_mut(), SeqCst);
    // SAFETY: the handler raises a semaphore, which a handler may; the action is valid for the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = raise as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
    let (tell, told) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        // SAFETY: takes nothing.
        tell.send(unsafe { libc::gettid() }).unwrap();
        let by = Interrupt::new();
        let first = interruptible(&by, || semaphore.down());
        (first, interruptible(&by, || semaphore.down_timeout(Duration::from_millis(20))))
    });
    let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
    let sleeps = || std::fs::read_to_string(&stat).unwrap().rsplit(") ").next().unwrap().starts_with('S');
    while semaphore.waiters().is_empty() || !sleeps() {
        std::thread::yield_now();
    }
    // SAFETY: the thread has not been joined.
    unsafe { libc::pthread_kill(waiter.as_pthread_t() as libc::pthread_t, libc::SIGUSR2) };
    let (first, second) = waiter.join().unwrap();
    assert!(first.is_ok() && matches!(second, Err(DownError::Timeout)), "{first:?}, then {second:?}");
}
