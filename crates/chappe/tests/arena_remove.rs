//! Removing an arena that nobody else uses.

use chappe::{Arena, ArenaError, Mutex, Pool, Semaphore};
use std::sync::mpsc::channel;

#[test]
fn an_arena_that_only_the_caller_uses_is_removed_and_one_where_it_holds_something_is_not() {
    let dir = format!("/dev/shm/chappe-test-{}-remove", std::process::id());
    std::fs::create_dir(&dir).expect("nobody has this name");
    // SAFETY: the only test of this program, and its only thread that knows of the environment.
    unsafe { std::env::set_var("CHAPPE_DIR", &dir) };
    let pool = Pool::open_or_create("lab/gpu", 2).expect("made");
    let sem = Semaphore::open_or_create("lab/ready", 1).expect("made");
    let mutex = Mutex::<u64>::open_or_create("lab/count", 0).expect("made");
    // This thread, another one that stays, and the member that stands for the whole process are attached and idle.
    let owned = pool.acquire_owned().expect("free");
    let (tell, told) = channel::<()>();
    let (ready, is_ready) = channel();
    let other = {
        let (pool, sem) = (pool.clone(), sem.clone());
        std::thread::spawn(move || {
            drop(pool.acquire().expect("free"));
            sem.down().expect("saved");
            ready.send(()).expect("heard");
            let _ = told.recv();
        })
    };
    is_ready.recv().expect("it runs");
    let in_use = |name| matches!(Arena::remove(name, false), Err(ArenaError::InUse { .. }));
    assert!(in_use("lab"), "the process holds a permit");
    drop(owned);
    let guard = mutex.lock().expect("free");
    assert!(in_use("lab"), "this thread has locked a mutex");
    drop(guard);
    Arena::remove("lab", false).expect("nobody uses it");
    assert!(matches!(Arena::open("lab"), Err(ArenaError::NotFound { .. })));
    assert!(pool.acquire().is_err(), "who has it still learns that");
    drop(tell);
    other.join().expect("it ends");
    std::fs::remove_dir_all(&dir).expect("our own");
}
