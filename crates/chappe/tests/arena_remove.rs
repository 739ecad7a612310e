//! Removing an arena that no other process uses.

use chappe::{Arena, ArenaError, Mutex, Pool, Semaphore};
use std::sync::mpsc::channel;

#[test]
fn an_arena_is_removed_unless_the_caller_holds_something_there() {
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
    removed_arenas_keep_little();
    std::fs::remove_dir_all(&dir).expect("our own");
}

/// Shared memory that this process has in its mappings, in KiB.
fn shared_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own");
    let line = status.lines().find_map(|l| l.strip_prefix("RssShmem:")).expect("Linux 4.5");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

/// Which removed files this process has open.
fn removed_files() -> Vec<std::path::PathBuf> {
    let open = std::fs::read_dir("/proc/self/fd").expect("our own");
    let links = open.filter_map(|fd| std::fs::read_link(fd.expect("our own").path()).ok());
    links.filter(|link| link.to_string_lossy().ends_with(" (deleted)")).collect()
}

/// A process that makes and removes arenas all its life keeps their addresses, and neither their memory nor their files.
fn removed_arenas_keep_little() {
    const ARENAS: u64 = 20;
    let before = shared_kib();
    for i in 0..ARENAS {
        let (pool, mutex) = (format!("passing{i}/p"), format!("passing{i}/m"));
        let pool = Pool::create(&pool, 500).expect("made");
        let mutex = Mutex::<[u64; 1024]>::open_or_create(&mutex, [7; 1024]).expect("made");
        drop(pool.acquire().expect("free"));
        // In the name of the process, whose presence is a lock in the file.
        drop(pool.acquire_owned().expect("free"));
        assert_eq!(mutex.lock().expect("free")[1023], 7);
        Arena::remove(&format!("passing{i}"), false).expect("nobody uses it");
        assert!(pool.acquire().is_err() && mutex.lock().is_err(), "who has them still learns that they are gone");
    }
    let each = shared_kib().saturating_sub(before) / ARENAS;
    assert!(each <= 128, "each removed arena keeps {each} KiB");
    let open = removed_files();
    assert!(open.is_empty(), "these files stay open: {open:?}");
}
