//! Forks while another thread is in the middle of the process's first operation: at every system call of it the child gets on.
//!
//! What is made once in a process (fork handlers, the registration for fences, tables) is made in there; a lock or a `Once`
//! that a fork leaves half done would hang the child. The list of all such places is in `docs/robustness.md`.

#[path = "house/forked.rs"]
mod forked;

use chappe::{Arena, ArenaOptions, Pool, Semaphore, ras, tube};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

fn private_pool() {
    let pool = Pool::private(1).unwrap();
    drop(pool.acquire().unwrap());
}

fn private_tube() {
    let (sender, receiver) = tube::bounded(1);
    sender.send(7).unwrap();
    assert_eq!(receiver.recv(), Ok(7));
    assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
}

fn endless_tube() {
    let (sender, receiver) = tube::unbounded();
    (0..100).for_each(|n| sender.send(n).unwrap());
    assert!((0..100).all(|n| receiver.recv() == Ok(n)));
    assert!(tube::after(Duration::from_millis(1)).recv().is_ok());
}

fn restartable() {
    let counter = ras::Counter::new(ras::Index::Cpu);
    counter.add(1);
    assert_eq!(counter.sum(), 1);
}

fn small() -> ArenaOptions {
    ArenaOptions { members: Some(16), objects: Some(8), cells: Some(8), data: Some(64) }
}

fn named_pool() {
    let arena = Arena::open_or_create("first", &small()).unwrap();
    let pool = Pool::in_arena(arena, "p").or_else(|_| Pool::create("first/p", 2)).or_else(|_| Pool::open("first/p"));
    drop(pool.unwrap().acquire_timeout(Duration::from_secs(20)).unwrap());
}

fn owned_permit() {
    let arena = Arena::open_or_create("first", &small()).unwrap();
    let pool = Pool::in_arena(arena, "p").or_else(|_| Pool::create("first/p", 2)).or_else(|_| Pool::open("first/p"));
    drop(pool.unwrap().acquire_owned_timeout(Duration::from_secs(20)).unwrap());
}

/// A task that waits is served, and one that the child inherits would be refused.
fn task_waits_at(semaphore: &Semaphore) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut down = pin!(semaphore.down_async());
    assert!(down.as_mut().poll(&mut cx).is_pending());
    semaphore.up().unwrap();
    assert!(down.as_mut().poll(&mut cx).is_ready());
}

fn private_task() {
    task_waits_at(&Semaphore::private(0).unwrap());
}

fn named_task() {
    Arena::open_or_create("first", &small()).unwrap();
    // Its own: the first thread stands still while it waits in the line.
    let name = format!("first/s{}", std::process::id());
    task_waits_at(&Semaphore::open_or_create(&name, 0).unwrap());
}

/// One test: it forks, and goes by the environment.
#[test]
fn a_child_forked_at_any_place_of_a_first_operation_gets_on() {
    let dir = std::path::PathBuf::from(format!("/dev/shm/chappe-test-{}-first", std::process::id()));
    // SAFETY: this program has one test, and no other thread that reads the environment.
    unsafe { std::env::set_var("CHAPPE_DIR", &dir) };
    let afresh = || {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
    };
    let tried =
        |name: &str, before_each: &dyn Fn(), operation| match forked::at_every_place(name, before_each, operation) {
            Some(places) => assert!(places > 0, "{name} makes no system call"),
            None => eprintln!("not tested: forks at each place of {name}: nobody may be traced here"),
        };
    tried("a private pool", &|| (), private_pool);
    tried("a private tube", &|| (), private_tube);
    tried("a tube without a bound and a clock", &|| (), endless_tube);
    tried("a counter", &|| (), restartable);
    tried("a named pool", &afresh, named_pool);
    tried("an owned permit", &afresh, owned_permit);
    tried("a task of a private semaphore", &|| (), private_task);
    tried("a task of a named semaphore", &afresh, named_task);
    std::fs::remove_dir_all(&dir).unwrap();
}
