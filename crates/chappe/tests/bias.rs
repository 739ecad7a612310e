//! The bias of private mutexes and pools: that it comes by itself, goes when another comes, and changes none of their promises.

use chappe::{Bias, Condvar, LockError, Mutex, Pool, acquire_any, try_acquire_any};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// More than it takes at first, and more than are looked at.
const MANY: u32 = 2_000;

fn biased(value: u64) -> Mutex<u64> {
    let m = Mutex::private(value).unwrap();
    uses(&m);
    m
}

/// How long what goes by dice goes on.
fn time() -> Duration {
    let soak = std::env::var("RAS_SECONDS").ok().and_then(|s| s.parse().ok());
    soak.map_or(Duration::from_millis(700), Duration::from_secs)
}

fn uses(m: &Mutex<u64>) {
    for _ in 0..MANY {
        *m.lock().unwrap() += 1;
    }
    assert!(m.is_biased());
}

/// By hundreds in a row, as long as it takes: after revocations that come soon it takes longer.
fn gets_it(m: &Mutex<u64>) {
    // From another, perhaps.
    drop(m.lock().unwrap());
    while !m.is_biased() {
        *m.lock().unwrap() += 1;
    }
}

#[test]
fn a_lone_user_gets_the_bias_and_another_user_revokes_it() {
    let m = biased(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            let guard = m.lock().unwrap();
            assert_eq!(*guard, u64::from(MANY));
            assert!(!m.is_biased());
        });
    });
    assert!(!m.is_biased());
    gets_it(&m);
    let pool = Pool::private(1).unwrap();
    (0..MANY).for_each(|_| drop(pool.acquire().unwrap()));
    assert!(pool.is_biased());
    std::thread::scope(|s| {
        s.spawn(|| assert!(pool.try_acquire().unwrap().is_valid()));
    });
    assert!(!pool.is_biased());
}

#[test]
fn an_object_made_without_bias_gets_none() {
    let off = Mutex::private_with(0u64, Bias::Off).unwrap();
    let (one, two) = (Pool::private_with(1, Bias::Off).unwrap(), Pool::private(2).unwrap());
    for _ in 0..MANY {
        *off.lock().unwrap() += 1;
        drop((one.acquire().unwrap(), two.acquire().unwrap()));
    }
    assert!(!off.is_biased() && !one.is_biased() && !two.is_biased());
}

/// Set for the child of `a_named_object_is_not_biased`, which has a directory of its own.
const NAMED: &str = "CHAPPE_TEST_NAMED";

/// The fence that takes a bias away does not reach another process.
#[test]
fn a_named_object_is_not_biased() {
    let dir = std::env::temp_dir().join(format!("chappe-bias-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["named_alone", "--exact"]).env("CHAPPE_DIR", &dir).env(NAMED, "1");
    let said = child.output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

/// What the child does; nothing when it is run as a test.
#[test]
fn named_alone() {
    if std::env::var_os(NAMED).is_none() {
        return;
    }
    let (m, pool) = (Mutex::create("m", 0u64).unwrap(), Pool::create("p", 1).unwrap());
    for _ in 0..MANY {
        *m.lock().unwrap() += 1;
        drop(pool.acquire().unwrap());
    }
    assert!(!m.is_biased() && !pool.is_biased());
}

/// In turns of many lengths, so that biases come and go at any moment: nothing is lost.
#[test]
#[ignore = "storm: threads that race for seconds"]
fn mutual_exclusion_holds_while_biases_come_and_go() {
    for threads in [2, 3, 8] {
        let (m, pool, plain) = (Mutex::private(0u64).unwrap(), Pool::private(1).unwrap(), AtomicU64::new(0));
        let (inside, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        let all: Vec<u64> = std::thread::scope(|s| {
            let work = |n: u64| {
                let (m, pool, plain, inside, stop) = (&m, &pool, &plain, &inside, &stop);
                move || {
                    let (mut sum, mut dice) = (0, n * 0x9e37_79b9 + 1);
                    // Relaxed, all here: the locks are what is tried.
                    while !stop.load(Ordering::Relaxed) {
                        dice ^= dice << 13;
                        dice ^= dice >> 7;
                        dice ^= dice << 17;
                        // Others wait meanwhile, or come in between.
                        for _ in 0..1 << (dice % 12) {
                            *m.lock().unwrap() += 1;
                            let permit = pool.acquire().unwrap();
                            // Relaxed, these: as above.
                            assert_eq!(inside.swap(1, Ordering::Relaxed), 0, "two have the permit");
                            plain.store(plain.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            inside.store(0, Ordering::Relaxed);
                            drop(permit);
                            sum += 1;
                        }
                        if dice.is_multiple_of(16) {
                            std::thread::sleep(Duration::from_micros(dice % 300));
                        }
                    }
                    sum
                }
            };
            let all: Vec<_> = (0..threads).map(|n| s.spawn(work(n))).collect();
            std::thread::sleep(time());
            stop.store(true, Ordering::Relaxed); // Relaxed: as above.
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let sum: u64 = all.iter().sum();
        assert_eq!(*m.lock().unwrap(), sum, "{threads} threads");
        assert_eq!(plain.load(Ordering::Relaxed), sum, "{threads} threads"); // Relaxed: as above.
    }
}

#[test]
fn its_owner_is_told_of_a_deadlock() {
    let m = biased(0);
    let guard = m.lock().unwrap();
    assert!(m.is_biased());
    assert!(matches!(m.lock(), Err(LockError::Deadlock { .. })));
    assert!(matches!(m.try_lock(), Err(LockError::Deadlock { .. } | LockError::WouldBlock)));
    drop(guard);
    drop(m.lock().unwrap());
}

#[test]
fn a_panic_inside_is_told() {
    let m = biased(0);
    std::thread::scope(|s| {
        let torn = s.spawn(|| {
            uses(&m);
            let _guard = m.lock().unwrap();
            assert!(m.is_biased());
            panic!("on purpose");
        });
        assert!(torn.join().is_err());
    });
    let Err(LockError::OwnerDied(mut guard)) = m.lock() else { panic!("nobody was told") };
    chappe::MutexGuard::make_consistent(&mut guard);
    drop(guard);
    gets_it(&m);
}

#[test]
fn a_thread_that_ends_with_it_leaves_what_it_must() {
    let (held, idle) = (biased(0), biased(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            gets_it(&idle);
            gets_it(&held);
            std::mem::forget(held.lock().unwrap());
            assert!(held.is_biased());
        });
    });
    assert!(matches!(held.lock(), Err(LockError::Condemned { .. })));
    assert!(idle.lock().is_ok());
    let pool = Pool::private(1).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            while !pool.is_biased() {
                drop(pool.acquire().unwrap());
            }
            std::mem::forget(pool.acquire().unwrap());
            assert!(pool.is_biased());
        });
    });
    // Its end may come a little after the scope's.
    assert!(pool.acquire_timeout(Duration::from_secs(20)).is_ok(), "the dead do not keep it");
}

#[test]
fn a_permit_had_by_the_bias_is_a_permit() {
    let pool = Pool::private(1).unwrap();
    let take = || {
        while !pool.is_biased() {
            drop(pool.acquire().unwrap());
        }
        let permit = pool.acquire().unwrap();
        assert!(pool.is_biased());
        permit
    };
    assert!(take().is_valid());
    let permit = take();
    assert_eq!((pool.available(), pool.holders().len()), (0, 1));
    drop(permit);
    let permit = take();
    assert!(pool.try_acquire().is_err());
    drop(permit);
    let permit = take();
    let who = pool.force_release(0).unwrap();
    assert_eq!(who.pid, std::process::id());
    assert!(!permit.is_valid());
    let other = pool.acquire().unwrap();
    drop(permit);
    assert!(other.is_valid(), "what was taken away is not given back twice");
    drop(other);
    drop(take());
    let owned = pool.acquire_owned().unwrap();
    assert!(owned.is_valid());
    drop(owned);
    let permit = take();
    pool.resize(3).unwrap();
    let more = pool.acquire_many(2).unwrap();
    assert!(pool.try_acquire().is_err());
    drop((permit, more));
    let all = pool.acquire_many(3).unwrap();
    drop(all);
    pool.resize(1).unwrap();
    assert_eq!(pool.available(), 1);
    drop(pool.acquire().unwrap());
    assert!(!pool.is_biased(), "it has had more");
}

#[test]
fn a_choice_uses_the_bias_too() {
    let pools = [Pool::private(1).unwrap(), Pool::private(1).unwrap()];
    for pool in &pools {
        (0..MANY).for_each(|_| drop(pool.acquire().unwrap()));
    }
    let (first, one) = acquire_any(&[&pools[0], &pools[1]]).unwrap();
    assert!(pools[first].is_biased(), "it was taken by the bias");
    let (second, other) = acquire_any(&[&pools[0], &pools[1]]).unwrap();
    assert_ne!(first, second);
    drop((one, other));
}

/// Strictly in the order of arrival, the owner of the bias included.
#[test]
#[ignore = "storm: threads that race for seconds"]
fn a_waiter_is_not_overtaken_by_the_owner() {
    let pool = Pool::private(1).unwrap();
    for _ in 0..200 {
        while !pool.is_biased() {
            drop(pool.acquire().unwrap());
        }
        let (mine, served) = (pool.acquire().unwrap(), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                let permit = pool.acquire().unwrap();
                served.store(true, Ordering::SeqCst);
                drop(permit);
            });
            while pool.waiters().is_empty() {
                std::thread::yield_now();
            }
            drop(mine);
            let again = pool.acquire().unwrap();
            assert!(served.load(Ordering::SeqCst), "the owner overtook who waited");
            drop(again);
        });
    }
}

#[test]
fn a_condition_variable_gives_and_takes_it() {
    let (m, c) = (biased(0), Condvar::private().unwrap());
    let start = *m.lock().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            drop(m.lock().unwrap());
            gets_it(&m);
            let mut guard = m.lock().unwrap();
            *guard += 1;
            while *guard < 1 << 40 {
                guard = c.wait(guard).unwrap();
            }
        });
        while *m.lock().unwrap() == start {
            std::thread::yield_now();
        }
        *m.lock().unwrap() = 1 << 40;
        c.notify_all();
    });
}

/// In a forked child: the bias was a thread's of the parent.
#[test]
fn a_forked_child_has_no_bias() {
    let (held, idle, pool) = (biased(0), biased(0), Pool::private(1).unwrap());
    let guard = held.lock().unwrap();
    assert!(held.is_biased());
    (0..MANY).for_each(|_| drop(pool.acquire().unwrap()));
    let permit = pool.acquire().unwrap();
    // SAFETY: the child uses what may be used after a fork, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let idle = idle.try_lock().is_ok();
        let torn = matches!(held.try_lock(), Err(LockError::OwnerDied(_)));
        let free = pool.try_acquire().is_ok() && !permit.is_valid();
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!(idle && torn && free))) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(permit.is_valid());
    drop((guard, permit));
    gets_it(&held);
}

/// What the child's copy of the private arena has of its parent's threads is returned only when the child first needs a place there: a choice
/// that looks before that looks again.
#[test]
fn a_forked_childs_choice_finds_what_its_parent_held() {
    let pools = [(); 2].map(|()| Pool::private_with(1, Bias::Off).unwrap());
    let held = pools.each_ref().map(|pool| pool.acquire().unwrap());
    // SAFETY: the child uses what may be used after a fork, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Alone: among several, a choice that is not to wait stands in their queues, and would be granted it.
        let one = try_acquire_any(&[&pools[0]]);
        let both = one.is_ok() && acquire_any(&[&pools[0], &pools[1]]).is_ok() && held.iter().all(|p| !p.is_valid());
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!both)) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(held.iter().all(chappe::Permit::is_valid));
}

/// A filter that refuses membarrier from now on: a thread that takes a bias away finds another way.
#[test]
fn a_filter_that_comes_late_changes_nothing() {
    const THERE: &str = "CHAPPE_TEST_REFUSED";
    if std::env::var_os(THERE).is_some() {
        return refused();
    }
    // A process of its own: the filter stays.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["a_filter_that_comes_late_changes_nothing", "--exact"]).env(THERE, "1");
    let said = child.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

fn refused() {
    const REFUSE: u32 = 0x0005_0000 | libc::EPERM as u32;
    let m = biased(0);
    let word = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_membarrier as u32),
        word(libc::BPF_RET | libc::BPF_K, 0, 0, REFUSE),
        word(libc::BPF_RET | libc::BPF_K, 0, 0, 0x7fff_0000),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives across the call, and refuses one call of this process alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const filter), 0);
    }
    let (start, turns) = (Barrier::new(2), 300);
    let before = *m.lock().unwrap();
    std::thread::scope(|s| {
        let work = || {
            start.wait();
            let mut sum = 0;
            for _ in 0..turns {
                for _ in 0..400 {
                    *m.lock().unwrap() += 1;
                    sum += 1;
                }
                std::thread::yield_now();
            }
            sum
        };
        let other = s.spawn(work);
        let sum: u64 = work() + other.join().unwrap();
        assert_eq!(*m.lock().unwrap() - before, sum);
    });
}
