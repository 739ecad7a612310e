//! Mutexes, condition variables and semaphores between processes: what a kill and a fork leave behind.

use crate::house::{House, LONG, ROLE, eventually, listen, say};
use chappe::tube::named::{Tube, TubeOptions};
use chappe::{Arena, Condvar, LockError, Mutex, MutexGuard, ObjectError, Role, Semaphore, set_role};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// Two fields that are the same whenever no thread is between them: `[number, number]`.
type Pair = [u64; 2];

/// What a child does with a buffer of four places: `[first, items, places...]`.
type Buffer = [u64; 6];

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (what, n) = role.split_once(' ').unwrap();
    let n: u64 = n.parse().unwrap();
    match what {
        "count" => {
            let mutex = Mutex::<u64>::open("m").unwrap();
            say("ready");
            listen();
            for _ in 0..n {
                let mut guard = mutex.lock().unwrap();
                let before = *guard;
                *std::hint::black_box(&mut *guard) = before + 1;
            }
            say("done");
        }
        "tear" => {
            let mutex = Mutex::<Pair>::open("m").unwrap();
            let mut guard = match mutex.lock() {
                Ok(guard) | Err(LockError::OwnerDied(guard)) => guard,
                Err(e) => panic!("{e}"),
            };
            guard[0] += n;
            say("between");
            listen();
            guard[1] += n;
        }
        "tear_as_task" => {
            let mutex = Mutex::<Pair>::open("m").unwrap();
            let locked = pin!(mutex.lock_async()).poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Ok(mut guard)) = locked else { panic!("it is free") };
            guard[0] += n;
            say("between");
            listen();
        }
        "take" => {
            let buffer = Mutex::<Buffer>::open("b").unwrap();
            let (room, some) = (Condvar::open("room").unwrap(), Condvar::open("some").unwrap());
            say("ready");
            let mut sum = 0;
            for _ in 0..n {
                let mut b = buffer.lock().unwrap();
                while b[1] == 0 {
                    b = some.wait(b).unwrap();
                }
                sum += b[2 + b[0] as usize % 4];
                b[0] += 1;
                b[1] -= 1;
                drop(b);
                room.notify_one();
            }
            say(&sum.to_string());
        }
        "hear" => {
            let (mutex, changed) = (Mutex::<u64>::open("m").unwrap(), Condvar::open("c").unwrap());
            let guard = mutex.lock().unwrap();
            drop(changed.wait(guard).unwrap());
            say("heard");
            listen();
        }
        "pong" => {
            set_role(Role::Sleeper);
            let (ping, pong) = (Semaphore::open("ping").unwrap(), Semaphore::open("pong").unwrap());
            say("ready");
            for _ in 0..n {
                ping.down().unwrap();
                pong.up().unwrap();
            }
        }
        "move" => {
            let all: Vec<_> = (0..3).map(|i| Semaphore::open(&format!("s{i}")).unwrap()).collect();
            say("ready");
            listen();
            for round in 0..n as usize {
                let from = &all[round * 7 % 3];
                if from.down_timeout(std::time::Duration::from_micros(50)).is_ok() {
                    all[round * 11 % 3].up().unwrap();
                }
            }
        }
        "lock" => {
            drop(Mutex::<u64>::open("m").unwrap().lock().unwrap());
            say("locked");
            listen();
        }
        "down" => {
            say("waiting");
            say(if Semaphore::open("s").unwrap().down().is_ok() { "down" } else { "dead" });
            listen();
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
#[ignore = "storm: processes that race"]
fn four_processes_count_without_loss() {
    let house = House::new("processes-count");
    let mutex = Mutex::create("m", 0u64).unwrap();
    let mut actors: Vec<_> = (0..4).map(|_| house.actor("count 10000")).collect();
    actors.iter_mut().for_each(|a| assert_eq!(a.hear(), "ready"));
    actors.iter_mut().for_each(|a| a.tell("go"));
    actors.iter_mut().for_each(|a| assert_eq!(a.hear(), "done"));
    assert_eq!(*mutex.lock().unwrap(), 40_000);
}

#[test]
fn a_survivor_of_a_half_done_update_sees_and_mends_it() {
    let house = House::new("torn");
    let mutex = Mutex::create("m", [0u64, 0]).unwrap();
    let mut sum = 0;
    for round in 1..=5u64 {
        let mut victim = house.actor(&format!("tear {round}"));
        assert_eq!(victim.hear(), "between");
        assert!(matches!(mutex.try_lock(), Err(LockError::WouldBlock)));
        std::thread::scope(|s| {
            // One waits, or only tries.
            let survivor = s.spawn(|| match mutex.lock_timeout(LONG) {
                Err(LockError::OwnerDied(mut guard)) => {
                    let seen = *guard;
                    // Not mended in the first round: the next is told, too.
                    if round > 1 {
                        guard[1] = guard[0];
                        MutexGuard::make_consistent(&mut guard);
                    }
                    seen
                }
                Ok(_) => panic!("nobody told of the death"),
                Err(e) => panic!("{e}"),
            });
            eventually("it waits", || Arena::open("default").unwrap().objects()[0].waiting == 1);
            victim.kill();
            assert_eq!(survivor.join().unwrap(), [sum + round, sum]);
        });
        if round == 1 {
            let Err(LockError::OwnerDied(mut guard)) = mutex.lock() else { panic!("told once only") };
            guard[1] = guard[0];
            MutexGuard::make_consistent(&mut guard);
        }
        sum += round;
        assert_eq!(*mutex.lock().unwrap(), [sum, sum]);
    }
    // A thread that only tries.
    let mut victim = house.actor("tear 1");
    assert_eq!(victim.hear(), "between");
    victim.kill();
    eventually("the lock is there, and says so", || matches!(mutex.try_lock(), Err(LockError::OwnerDied(_))));
}

#[test]
fn the_death_of_a_tasks_process_leaves_the_mutex_torn() {
    let house = House::new("task-torn");
    let mutex = Mutex::create("m", [0u64, 0]).unwrap();
    let mut victim = house.actor("tear_as_task 3");
    assert_eq!(victim.hear(), "between");
    assert!(matches!(mutex.try_lock(), Err(LockError::WouldBlock)));
    let (tell, woken) = channel();
    let waker = Waker::from(Arc::new(Tells(tell)));
    let mut lock = pin!(mutex.lock_async());
    assert!(lock.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    victim.kill();
    woken.recv_timeout(LONG).expect("the death is noticed");
    let locked = lock.as_mut().poll(&mut Context::from_waker(&waker));
    let Poll::Ready(Err(LockError::OwnerDied(guard))) = locked else { panic!("not told") };
    assert_eq!(*guard, [3, 0]);
}

/// A waker.
struct Tells(Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_guard_is_void_after_a_fork() {
    let _house = House::new("guard-fork");
    for mutex in [Mutex::private(1u64).unwrap(), Mutex::create("m", 1u64).unwrap()] {
        let guard = mutex.lock().unwrap();
        // SAFETY: the child only uses its copy of the guard, and ends without cleaning up.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| *guard));
            let said = used.err().and_then(|e| e.downcast::<String>().ok());
            let clear = said.is_some_and(|text| text.contains("is used after fork"));
            // Does not unlock what the parent has.
            drop(guard);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(if clear { 0 } else { 3 }) };
        }
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0);
        std::thread::scope(|s| {
            s.spawn(|| assert!(matches!(mutex.try_lock(), Err(LockError::WouldBlock))));
        });
        drop(guard);
        assert_eq!(*mutex.try_lock().unwrap(), 1);
    }
}

#[test]
#[ignore = "storm: processes that race"]
fn a_bounded_buffer_between_processes() {
    const EACH: u64 = 1500;
    let house = House::new("buffer");
    let buffer = Mutex::<Buffer>::create("b", [0; 6]).unwrap();
    let (room, some) = (Condvar::create("room").unwrap(), Condvar::create("some").unwrap());
    let mut takers: Vec<_> = (0..3).map(|_| house.actor(&format!("take {EACH}"))).collect();
    takers.iter_mut().for_each(|a| assert_eq!(a.hear(), "ready"));
    for i in 1..=3 * EACH {
        let mut b = buffer.lock().unwrap();
        while b[1] == 4 {
            b = room.wait(b).unwrap();
        }
        let at = 2 + (b[0] + b[1]) as usize % 4;
        b[at] = i;
        b[1] += 1;
        drop(b);
        some.notify_one();
    }
    let sum: u64 = takers.iter_mut().map(|a| a.hear().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 3 * EACH * (3 * EACH + 1) / 2);
}

#[test]
fn a_notification_to_somebody_who_is_killed_goes_to_the_next() {
    let house = House::new("notify-killed");
    let mutex = Mutex::create("m", 0u64).unwrap();
    let changed = Condvar::create("c").unwrap();
    let arena = Arena::open("default").unwrap();
    let waiting = || arena.objects().iter().find(|o| o.name == "c").unwrap().waiting;
    for round in 0..20 {
        let first = house.actor("hear 0");
        eventually("the first waits", || waiting() == 1);
        let mut second = house.actor("hear 0");
        eventually("the second waits", || waiting() == 2);
        // Stopped, so that it has not heard when it dies.
        first.stop();
        if round % 2 == 0 {
            drop(mutex.lock().unwrap());
        }
        changed.notify_one();
        first.kill();
        assert_eq!(second.hear(), "heard");
        second.kill();
    }
}

#[test]
fn a_unit_handed_to_somebody_who_is_killed_goes_to_the_next() {
    let house = House::new("unit-killed");
    let semaphore = Semaphore::create("s", 0).unwrap();
    for _ in 0..10 {
        let first = house.actor("down 0");
        eventually("the first waits", || semaphore.waiters().len() == 1);
        let mut second = house.actor("down 0");
        assert_eq!(second.hear(), "waiting");
        eventually("the second waits", || semaphore.waiters().len() == 2);
        first.stop();
        semaphore.up().unwrap();
        first.kill();
        assert_eq!(second.hear(), "down");
        second.ended();
        assert_eq!(semaphore.value(), 0);
    }
}

#[test]
fn nothing_is_removed_that_somebody_has_been_given_and_has_not_woken_up_on() {
    let house = House::new("remove-asleep");
    let arena = || Arena::open("default").unwrap().objects();
    let awaited = |name: &str| arena().iter().find(|o| o.name == name).unwrap().waiting == 1;
    let in_use = |got: Result<(), ObjectError>| assert!(matches!(got, Err(ObjectError::InUse { .. })), "{got:?}");

    let semaphore = Semaphore::create("s", 0).unwrap();
    let mut actor = house.actor("down 0");
    eventually("it waits", || awaited("s"));
    actor.stop();
    semaphore.up().unwrap();
    in_use(Semaphore::remove("s", false));
    actor.go_on();
    assert_eq!((actor.hear(), actor.hear()), ("waiting".into(), "down".into()));
    actor.ended();
    Semaphore::remove("s", false).unwrap();

    let mutex = Mutex::create("m", 0u64).unwrap();
    let changed = Condvar::create("c").unwrap();
    let mut actor = house.actor("hear 0");
    eventually("it waits", || awaited("c"));
    actor.stop();
    changed.notify_one();
    in_use(Condvar::remove("c", false));
    actor.go_on();
    assert_eq!(actor.hear(), "heard");
    actor.ended();
    Condvar::remove("c", false).unwrap();

    let guard = mutex.lock().unwrap();
    let mut actor = house.actor("lock 0");
    eventually("it waits", || awaited("m"));
    actor.stop();
    drop(guard);
    in_use(Mutex::remove("m", false));
    actor.go_on();
    assert_eq!(actor.hear(), "locked");
    actor.ended();
    Mutex::remove("m", false).unwrap();
}

#[test]
fn an_exit_with_a_lock_and_a_message_counts_as_a_death() {
    let _house = House::new("exit");
    let mutex = Mutex::create("m", 0u64).unwrap();
    let tube = Tube::<u64>::create("t", &TubeOptions { slots: 1, ..TubeOptions::default() }).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send(7).unwrap();
    // SAFETY: the child uses what chappe promises to work after a fork, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (mutex, receiver) = (Mutex::<u64>::open("m").unwrap(), tube.receiver().unwrap());
        let (_guard, loan) = (mutex.lock().unwrap(), receiver.borrow().unwrap());
        std::process::exit(if *loan == 7 { 0 } else { 1 });
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let Err(LockError::OwnerDied(guard)) = mutex.lock() else { panic!("it is torn, and no more") };
    drop(guard);
    let loan = receiver.borrow().unwrap();
    assert!(*loan == 7 && loan.again());
}

#[test]
#[ignore = "storm: processes that race"]
fn hand_offs_between_processes_lose_no_wake_up() {
    const ROUNDS: u64 = 30_000;
    let house = House::new("ping-pong");
    let (ping, pong) = (Semaphore::create("ping", 0).unwrap(), Semaphore::create("pong", 0).unwrap());
    let mut other = house.actor(&format!("pong {ROUNDS}"));
    assert_eq!(other.hear(), "ready");
    Role::Sleeper.during(|| {
        for _ in 0..ROUNDS {
            ping.up().unwrap();
            pong.down().unwrap();
        }
    });
    other.ended();
    assert_eq!((ping.value(), pong.value()), (0, 0));
}

#[test]
#[ignore = "storm: processes that race"]
fn units_are_neither_lost_nor_made_between_processes() {
    let house = House::new("units-processes");
    let all: Vec<_> = (0..3).map(|i| Semaphore::create(&format!("s{i}"), i).unwrap()).collect();
    for processes in [2, 4] {
        let mut actors: Vec<_> = (0..processes).map(|_| house.actor("move 4000")).collect();
        actors.iter_mut().for_each(|a| assert_eq!(a.hear(), "ready"));
        actors.iter_mut().for_each(|a| a.tell("go"));
        actors.into_iter().for_each(crate::house::Actor::ended);
        assert_eq!(all.iter().map(Semaphore::value).sum::<u32>(), 3);
        assert!(all.iter().all(|one| one.waiters().is_empty()));
    }
}
