//! The sharded semaphore under threads that are moved, preempted and interrupted: no permit is lost, none is invented, and nobody
//! sleeps beside one.
//!
//! `RAS_SECONDS` is how long each goes on, 1 unless told. With the feature `inject` each point of the sections takes its time in turn.

#![cfg(not(feature = "sim"))]

mod alone;

use alone::Stall;
use chappe_plat::topology;
use chappe_ras::gate;
use chappe_ras::sharded::{Central, Shape, Sharded, ShardedSemaphore};
use chappe_sync::DownError;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn seconds() -> Duration {
    Duration::from_secs(std::env::var("RAS_SECONDS").map_or(1, |s| s.parse().expect("RAS_SECONDS is a number")))
}

fn has_sequences(test: &str) -> bool {
    let has = gate::sequences();
    if !has {
        println!("not tested: {test}: there are no sequences here");
    }
    has
}

/// Caches of two, that come back soon.
fn eager(permits: u32) -> ShardedSemaphore {
    ShardedSemaphore::builder(permits).shape(2, 8).build().expect("there is room for a semaphore")
}

/// What besets the threads.
#[derive(Clone, Copy, Default)]
struct Plagues {
    moves: bool,
    one_cpu: bool,
    signals: bool,
    dawdles: bool,
    tries: bool,
}

extern "C" fn nothing(_: libc::c_int) {}

fn signal_threads() {
    let me = chappe_plat::process::tid();
    for entry in std::fs::read_dir("/proc/self/task").expect("/proc").flatten() {
        let tid: libc::pid_t = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        if tid != 0 && tid as u32 != me {
            // SAFETY: only sends a signal, whose handler does nothing; to a thread that has ended, nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
        }
    }
}

#[cfg(feature = "inject")]
fn delay(turn: usize) {
    for (point, turns) in chappe_ras::delays::TURNS.iter().enumerate() {
        turns.store(if turn % 8 == point { 20_000 } else { 0 }, chappe_plat::atomic::Ordering::SeqCst);
    }
}

#[cfg(not(feature = "inject"))]
fn delay(_: usize) {}

/// One way to take: down, with a time-out, or only if there is one.
fn taken(semaphore: &ShardedSemaphore, how: u64) -> bool {
    let got = match how % 3 {
        0 => semaphore.down(),
        1 => semaphore.down_timeout(Duration::from_micros(200)),
        _ => semaphore.try_down(),
    };
    match got {
        Ok(()) => true,
        Err(DownError::Timeout | DownError::WouldBlock) => false,
        Err(e) => panic!("{e}"),
    }
}

/// As [`go_on`], by nobody else; in the end all are there.
fn beset(semaphore: &ShardedSemaphore, permits: u32, threads: usize, plagues: Plagues) -> (u64, u64) {
    let seen = go_on(semaphore, permits, threads, plagues, |_| true);
    assert_eq!(semaphore.available(), permits, "permits were lost, or invented");
    // All can be had, by one thread, from wherever they lie.
    for n in 0..permits {
        semaphore.try_down().unwrap_or_else(|e| panic!("{n} of {permits}: {e}"));
    }
    assert!(semaphore.try_down().is_err());
    semaphore.up_many(permits).expect("there is room");
    seen
}

/// Answers in how many of the looks there were caches, and in how many there were none. Goes on for half a minute longer, if need be,
/// until that is enough.
fn go_on(
    semaphore: &ShardedSemaphore,
    permits: u32,
    threads: usize,
    plagues: Plagues,
    enough: impl Fn((u64, u64)) -> bool,
) -> (u64, u64) {
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let cpus = topology::allowed().expect("the kernel says");
    let (stop, out, progress) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU64::new(0));
    let mut seen = (0, 0);
    std::thread::scope(|s| {
        let (stop, out, progress, cpus) = (&stop, &out, &progress, &cpus);
        let go = |n: usize| topology::allow(&cpus[n % cpus.len()..][..1]).expect("it was allowed");
        let workers: Vec<_> = (0..threads)
            .map(|me| {
                s.spawn(move || {
                    if plagues.one_cpu {
                        go(0);
                    }
                    let mut n = me as u64;
                    while !stop.load(SeqCst) {
                        if !taken(semaphore, if plagues.tries { n } else { 0 }) {
                            n += 1;
                            continue;
                        }
                        let now = out.fetch_add(1, SeqCst) + 1;
                        assert!(now <= permits, "{now} of {permits} permits are out");
                        if plagues.moves && n.is_multiple_of(50) {
                            go(n as usize / 50);
                        }
                        if plagues.dawdles && n.is_multiple_of(300) {
                            std::thread::sleep(Duration::from_micros(100));
                        }
                        out.fetch_sub(1, SeqCst);
                        semaphore.up().expect("there is room");
                        n += 1;
                        progress.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        let end = Instant::now() + seconds();
        let late = end + Duration::from_secs(30);
        let (mut stall, mut turn) = (Stall::new(), 0);
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_micros(if plagues.signals { 200 } else { 1_000 }));
            if Instant::now() >= end && (enough(seen) || Instant::now() >= late) {
                delay(7);
                stop.store(true, SeqCst);
            } else {
                delay(turn / 16);
            }
            if plagues.signals {
                signal_threads();
            }
            *(if semaphore.is_sharded() { &mut seen.0 } else { &mut seen.1 }) += 1;
            turn += 1;
            if workers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                stall = Stall::new();
            }
            stall.look(progress.load(SeqCst));
        }
    });
    seen
}

#[test]
#[ignore = "storm: threads that race for a second"]
fn permits_that_are_plenty_stay_in_caches_and_none_is_lost() {
    let plenty = ShardedSemaphore::private(100_000).expect("there is room for a semaphore");
    let (with, without) = beset(&plenty, 100_000, 4, Plagues { moves: true, signals: true, ..Plagues::default() });
    if has_sequences("permits_that_are_plenty_stay_in_caches_and_none_is_lost") {
        assert_eq!(without, 0);
        assert!(with > 0);
    }
}

#[test]
#[ignore = "storm: threads that race for seconds"]
fn permits_that_become_scarce_are_found_wherever_they_lie() {
    // More than make it worth while to have caches, and so few that threads have to wait now and then.
    let many = 2 * 4 * topology::allowed().expect("the kernel says").len() as u32 + 16;
    for threads in [2, 4, 8] {
        let scarce = eager(many);
        // Somebody takes most of them for a while, again and again.
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    let had = (0..many).filter(|_| scarce.try_down().is_ok()).count();
                    std::thread::sleep(Duration::from_micros(300));
                    (0..had).for_each(|_| scarce.up().expect("there is room"));
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            let plagues = Plagues { moves: true, tries: true, dawdles: true, ..Plagues::default() };
            // The thread that takes most of them may be kept from it, or with them in hand, all the while.
            let enough = |seen: (u64, u64)| !gate::sequences() || (seen.0 > 0 && seen.1 > 0);
            let seen = go_on(&scarce, many, threads, plagues, enough);
            stop.store(true, SeqCst);
            if has_sequences("permits_that_become_scarce_are_found_wherever_they_lie") {
                assert!(seen.0 > 0 && seen.1 > 0, "with caches {}, without {}", seen.0, seen.1);
            }
        });
        assert_eq!(scarce.available(), many, "permits were lost, or invented");
    }
}

#[test]
#[ignore = "storm: threads that race for a second"]
fn a_single_permit_is_never_with_two() {
    let single = eager(1);
    beset(&single, 1, 3, Plagues { moves: true, tries: true, dawdles: true, ..Plagues::default() });
    assert!(!single.is_sharded());
}

#[test]
#[ignore = "storm: threads that preempt one another for a second"]
fn threads_of_one_processor_that_preempt_one_another_lose_nothing() {
    let many = 2 * 4 * topology::allowed().expect("the kernel says").len() as u32;
    let s = eager(many + 2);
    beset(&s, many + 2, 4, Plagues { one_cpu: true, signals: true, dawdles: true, ..Plagues::default() });
}

#[test]
fn the_first_waiter_is_served_first() {
    let s = eager(0);
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let (s, order) = (&s, &order);
            scope.spawn(move || {
                // Far apart, and each is asked for before the next begins: order, not time, is what is looked at.
                s.down().expect("nobody removes it");
                order.lock().expect("nobody panics").push(n);
            });
            while s.waiters().len() <= n as usize {
                std::thread::yield_now();
            }
        }
        for n in 1..=4 {
            s.up().expect("there is room");
            while order.lock().expect("nobody panics").len() < n {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(*order.lock().expect("nobody panics"), [0, 1, 2, 3]);
}

#[test]
#[ignore = "storm: threads that race for a second"]
fn without_sequences_it_is_the_semaphore_in_the_middle() {
    let off = ShardedSemaphore::builder(1_000_000).bias(false).build().expect("there is room for a semaphore");
    assert!(!off.is_sharded());
    beset(&off, 1_000_000, 2, Plagues::default());
    assert!(!off.is_sharded());
    assert!(matches!(eager(0).try_down(), Err(DownError::WouldBlock)));
    assert!(matches!(eager(0).down_timeout(Duration::from_millis(1)), Err(DownError::Timeout)));
    assert_eq!(format!("{off:?}"), "ShardedSemaphore(1000000)");
}

/// A middle that takes its time to take in what was swept.
struct Slow(AtomicU32);

impl Central for Slow {
    type Error = std::convert::Infallible;

    fn try_down(&self) -> bool {
        self.0.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
    }

    fn down(&self, _deadline: Option<u64>) -> Result<bool, Self::Error> {
        Ok(self.try_down())
    }

    fn up(&self, n: u32) -> Result<(), Self::Error> {
        if n > 1 {
            (0..20_000).for_each(|_| std::hint::spin_loop());
        }
        self.0.fetch_add(n, SeqCst);
        Ok(())
    }

    fn value(&self) -> u32 {
        self.0.load(SeqCst)
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn both_sections_have_symbols_that_debuggers_and_profilers_show() {
    let some = eager(1);
    assert!(some.down().is_ok() && some.up().is_ok());
    let Ok(symbols) = std::process::Command::new("nm").arg(std::env::current_exe().expect("it is known")).output()
    else {
        println!("not tested: both_sections_have_symbols_that_debuggers_and_profilers_show: there is no nm here");
        return;
    };
    let symbols = String::from_utf8_lossy(&symbols.stdout);
    for name in ["permit_take", "permit_give"] {
        assert!(symbols.contains(&format!(" chappe_ras_{name}_1\n")), "{name}");
    }
}

/// A middle that is full, and that lets nobody take: others come first.
struct Full;

impl Central for Full {
    type Error = &'static str;

    fn try_down(&self) -> bool {
        false
    }

    fn down(&self, _deadline: Option<u64>) -> Result<bool, Self::Error> {
        Ok(false)
    }

    fn up(&self, _n: u32) -> Result<(), Self::Error> {
        Err("full")
    }

    fn value(&self) -> u32 {
        1
    }
}

#[test]
fn permits_that_the_middle_has_no_room_for_stay_within_reach() {
    let test = "permits_that_the_middle_has_no_room_for_stay_within_reach";
    let cpus = topology::allowed().expect("the kernel says");
    if !has_sequences(test) {
        return;
    }
    let Some(other) = cpus.get(1) else {
        println!("not tested: {test}: there is one processor");
        return;
    };
    let go = |cpu: u32| topology::allow(&[cpu]).expect("it was allowed");
    let full = Sharded::new(Full, Shape { caches: topology::possible(), room: 4, many: 1, calm: 1 });
    std::thread::scope(|s| {
        s.spawn(|| {
            // Into this processor's cache: sections may be aborted.
            go(cpus[0]);
            while full.up().is_err() {}
            go(*other);
            assert_eq!(full.down(Some(0)), Ok(false), "it is in the other's cache, and cannot be swept");
            assert_eq!(full.available(), 2);
            go(cpus[0]);
            assert!((0..1_000).any(|_| full.try_down()), "it can be had where it lies");
            assert_eq!(full.available(), 1);
        });
    });
}

const PERMITS: u32 = 30;

/// Takes all it can get, gives it back one by one, and goes to another processor: caches are swept all the time.
fn sweep_all_the_time(permits: &Sharded<Slow>, held: &AtomicU32, over: &AtomicBool) {
    let cpus = topology::allowed().expect("the kernel says");
    for n in 0.. {
        if over.load(SeqCst) {
            break;
        }
        topology::allow(&cpus[n % cpus.len()..][..1]).expect("it was allowed");
        let mut mine = 0;
        while permits.try_down() {
            held.fetch_add(1, SeqCst);
            mine += 1;
        }
        for _ in 0..mine {
            held.fetch_sub(1, SeqCst);
            permits.up().expect("there is room");
        }
    }
}

/// What the child finds: 0 if it is whole, and all can be had. `unseen`: so many may be on their way at a fork.
fn judged(permits: &Sharded<Slow>, held: u32, unseen: u32) -> i32 {
    let there = permits.available();
    if there + held > PERMITS {
        return 2;
    }
    if there + held + unseen < PERMITS {
        return 3;
    }
    if (0..there).any(|_| !permits.try_down()) {
        return 4;
    }
    if permits.try_down() {
        return 1;
    }
    // What others have here, and will not give back any more: enough to make caches worth while.
    (0..10).for_each(|_| permits.up().expect("there is room"));
    if gate::sequences() && !permits.is_sharded() { 5 } else { 0 }
}

/// `fork` answers 0 in the child.
fn forked_while_another_sweeps(unseen: u32, fork: impl Fn() -> libc::pid_t) {
    let shape = Shape { caches: topology::possible(), room: 8, many: 4, calm: 1 };
    let permits = &Sharded::new(Slow(AtomicU32::new(PERMITS)), shape);
    let (held, over) = (&AtomicU32::new(0), &AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(move || sweep_all_the_time(permits, held, over));
        for n in 0..300 {
            let child = fork();
            if child == 0 {
                // SAFETY: ends this process if it waits for ever.
                unsafe { libc::alarm(30) };
                let answer = judged(permits, held.load(SeqCst), unseen);
                // SAFETY: ends this process.
                unsafe { libc::_exit(answer) };
            }
            let mut status = 0;
            // SAFETY: our own child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if status != 0 {
                over.store(true, SeqCst);
            }
            assert_eq!(
                status,
                0,
                "fork {n}: 1, 2 invented, 3 lost, 4 out of reach, 5 no caches: {}",
                libc::WEXITSTATUS(status)
            );
        }
        over.store(true, SeqCst);
    });
    assert_eq!((permits.available(), held.load(SeqCst)), (PERMITS, 0));
}

#[test]
#[ignore = "storm: forks that race a sweep"]
fn a_child_forked_while_another_thread_sweeps_has_all_and_can_use_it() {
    let test = "a_child_forked_while_another_thread_sweeps_has_all_and_can_use_it";
    if !alone::is(test) {
        alone::run(test, &[]);
        return;
    }
    // One that was taken and is not counted yet, or the other way round.
    // SAFETY: the child uses the semaphore, and ends.
    forked_while_another_sweeps(1, || unsafe { libc::fork() });
}

/// No handler is called around this one.
#[test]
#[ignore = "storm: forks that race a sweep"]
fn a_child_of_a_bare_clone_sweeps_where_another_thread_was_at_it() {
    let test = "a_child_of_a_bare_clone_sweeps_where_another_thread_was_at_it";
    if !alone::is(test) {
        alone::run(test, &[]);
        return;
    }
    // SAFETY: as fork; the child allocates nothing.
    forked_while_another_sweeps(PERMITS, || unsafe {
        libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t
    });
}
