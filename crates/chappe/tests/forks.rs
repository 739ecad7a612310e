//! Forks of a busy process: other threads are in the middle of everything, the child must get on all the same.

use chappe::{Arena, ArenaOptions, Pool, set_label};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
#[ignore = "storm: forks that race threads"]
fn a_child_of_a_busy_process_finds_no_lock_held() {
    let dir = std::path::PathBuf::from(format!("/dev/shm/chappe-test-{}-forks", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    // SAFETY: this program has one test, and no other thread yet.
    unsafe { std::env::set_var("CHAPPE_DIR", &dir) };
    let small = ArenaOptions { members: Some(64), objects: Some(8), cells: Some(8), data: Some(64) };
    Arena::create("busy", &small).unwrap();
    let pool = Pool::create("busy/p", 1).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        // Everything that takes a process-local lock, over and over.
        s.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                drop(Pool::open("busy/p").unwrap());
                set_label("busy");
            }
        });
        s.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let _ = Pool::create("busy/q", 1);
                let _ = Pool::remove("busy/q", true);
                let _ = Arena::create("other", &small);
                let _ = Arena::remove("other", true);
            }
        });
        // The standard library has a lock of its own for each thread that begins or ends.
        for _ in 0..4 {
            s.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let some: Vec<_> = (0..8).map(|_| std::thread::spawn(|| ())).collect();
                    some.into_iter().for_each(|t| t.join().unwrap());
                }
            });
        }
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    // Blocks now and then: the reaper runs.
                    drop(pool.acquire().unwrap());
                    drop(Pool::private(1).unwrap().acquire().unwrap());
                }
            });
        }
        for round in 0..200 {
            // SAFETY: the child uses what chappe promises to work after a fork, and exits without cleaning up.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                set_label("child");
                let mine = Pool::private(1).unwrap();
                drop(mine.acquire().unwrap());
                let arena = Arena::open("busy").unwrap();
                let pool = Pool::in_arena(arena, "p").unwrap();
                // Its process's own member begins, and its reaper, each a thread.
                let got = pool.acquire_owned_timeout(Duration::from_secs(20)).is_ok();
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(if got { 0 } else { 3 }) };
            }
            assert!(pid > 0);
            let start = Instant::now();
            let mut status = 0;
            // SAFETY: a child of ours, and a place for its status.
            while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
                if start.elapsed() > Duration::from_secs(30) {
                    stop.store(true, Ordering::SeqCst);
                    // SAFETY: a child of ours.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    panic!("the child of round {round} hangs");
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            if status != 0 {
                stop.store(true, Ordering::SeqCst);
                panic!("the child of round {round} ended with {status:#x}");
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    std::fs::remove_dir_all(&dir).unwrap();
}
