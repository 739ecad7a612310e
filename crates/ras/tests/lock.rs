//! Locks under threads that are moved, preempted and interrupted: nobody is lost, nobody sleeps for ever.
//!
//! What is counted under the lock is a plain number, of which each thread knows its share: a section that stores when it must not
//! loses some. `RAS_SECONDS` is how long each goes on, 1 unless told. With the feature `inject` each point of the section takes its time
//! in turn.

#![cfg(not(feature = "sim"))]

mod alone;

use alone::Stall;
use chappe_plat::{rseq, topology};
use chappe_ras::gate;
use chappe_ras::lock::{CpuLock, PlainLock, RawCpuLock, RawLock};
#[cfg(target_arch = "x86_64")]
use chappe_ras::sharded::ShardedSemaphore;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn seconds() -> Duration {
    Duration::from_secs(std::env::var("RAS_SECONDS").map_or(1, |s| s.parse().expect("RAS_SECONDS is a number")))
}

/// A lock that takes to a processor after few times.
fn eager() -> CpuLock<u64, RawCpuLock> {
    CpuLock::with_raw(RawCpuLock::after(true, 4), 0)
}

fn has_sequences(test: &str) -> bool {
    let has = gate::sequences();
    if !has {
        println!("not tested: {test}: there are no sequences here");
    }
    has
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn each_section_of_locks_has_a_symbol_that_debuggers_and_profilers_show() {
    assert!(eager().try_lock().is_some());
    let Ok(symbols) = std::process::Command::new("nm").arg(std::env::current_exe().expect("it is known")).output()
    else {
        println!(
            "not tested: each_section_of_locks_has_a_symbol_that_debuggers_and_profilers_show: there is no nm here"
        );
        return;
    };
    assert!(String::from_utf8_lossy(&symbols.stdout).contains(" chappe_ras_lock_1\n"));
}

/// What lies at this distance from the thread pointer.
#[cfg(target_arch = "x86_64")]
fn word_at(distance: isize) -> u64 {
    let at = rseq::thread_pointer().wrapping_add_signed(distance) as *const u64;
    // SAFETY: within the thread's control block, or its area.
    unsafe { at.read_volatile() }
}

/// A section that did not know where the area is would arm itself at the C library's own words.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_section_arms_itself_while_the_switches_are_off() {
    let test = "no_section_arms_itself_while_the_switches_are_off";
    if !alone::is(test) {
        for switch in ["CHAPPE_SEQUENCES", "CHAPPE_BIAS"] {
            for first in ["lock", "permits"] {
                alone::run(test, &[(switch, "off"), ("CHAPPE_TEST_FIRST", first)]);
            }
        }
        return;
    }
    fn use_lock(bias: bool) {
        let lock = CpuLock::builder(0).bias(bias).build();
        (0..10_000).for_each(|_| *lock.lock() += 1);
        assert!(lock.try_lock().is_some());
    }
    fn use_raw(biased: bool) {
        let lock = CpuLock::with_raw(RawCpuLock::after(biased, 4), 0);
        (0..100).for_each(|_| *lock.lock() += 1);
    }
    fn use_permits(bias: bool) {
        let permits = ShardedSemaphore::builder(100_000).bias(bias).build().expect("there is room for a semaphore");
        for _ in 0..1_000 {
            permits.down().expect("nobody removes it");
            permits.up().expect("there is room");
            permits.try_down().expect("there is one");
            permits.up_many(1).expect("there is room");
        }
    }
    // A lock that is asked for by itself may have sequences where only the bias of others is switched off.
    let all_off = std::env::var_os("CHAPPE_SEQUENCES").is_some();
    let permits_first = std::env::var("CHAPPE_TEST_FIRST").is_ok_and(|f| f == "permits");
    let body = move || {
        let before = word_at(8);
        for bias in [false, true] {
            let all: [fn(bool); 2] = if permits_first { [use_permits, use_lock] } else { [use_lock, use_permits] };
            all.iter().for_each(|act| act(bias));
            use_raw(bias && all_off);
            assert_eq!(word_at(8), before, "the word at fs:8 is the C library's");
        }
        rseq::prepare();
        assert_eq!(word_at(rseq::offset() + rseq::DESCRIPTOR as isize), 0, "no section has begun");
    };
    body();
    std::thread::spawn(body).join().expect("it is as in the first");
}

/// What besets the threads.
#[derive(Clone, Copy, Default)]
struct Plagues {
    /// Each goes to another processor after so many pairs.
    moves_after: Option<u64>,
    /// All are kept to one processor.
    one_cpu: bool,
    /// Each gets signals.
    signals: bool,
    /// Each sleeps while it holds, now and then.
    dawdles: bool,
    /// Every so-manieth attempt only tries.
    tries: Option<u64>,
}

extern "C" fn nothing(_: libc::c_int) {}

fn on_signal() {
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Ends the program if the others do not get on.
fn guarded<R>(progress: &AtomicU64, body: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut stall = Stall::new();
            while !over.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
                stall.look(progress.load(SeqCst));
            }
        });
        let r = body();
        over.store(true, SeqCst);
        r
    })
}

fn beset<R: RawLock + Sync>(lock: &CpuLock<u64, R>, threads: usize, plagues: Plagues) -> u64 {
    beset_until(|| true, lock, threads, plagues)
}

/// As [`beset`], until it was biased so many times at least: on a machine that stands still in between it takes longer.
fn beset_biased(times: u32, lock: &CpuLock<u64, RawCpuLock>, threads: usize, plagues: Plagues) -> u64 {
    beset_until(|| !gate::sequences() || lock.raw().biases() >= times, lock, threads, plagues)
}

/// Half a minute longer at most, until it is enough.
fn beset_until<R: RawLock + Sync>(
    enough: impl Fn() -> bool,
    lock: &CpuLock<u64, R>,
    threads: usize,
    plagues: Plagues,
) -> u64 {
    on_signal();
    let start = *lock.lock();
    let cpus = topology::allowed().expect("the kernel says");
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = guarded(&progress, || {
        std::thread::scope(|s| {
            let (stop, progress, cpus) = (&stop, &progress, &cpus);
            let workers: Vec<_> = (0..threads)
                .map(|me| {
                    s.spawn(move || {
                        let go = |n: usize| topology::allow(&cpus[n % cpus.len()..][..1]).expect("it was allowed");
                        if plagues.one_cpu {
                            go(0);
                        }
                        let (mut pairs, mut at) = (0u64, me);
                        while !stop.load(SeqCst) {
                            for _ in 0..64 {
                                let mut sum = if plagues.tries.is_some_and(|t: u64| pairs.is_multiple_of(t)) {
                                    match lock.try_lock() {
                                        Some(sum) => sum,
                                        None => lock.lock(),
                                    }
                                } else {
                                    lock.lock()
                                };
                                let seen = *sum;
                                if plagues.dawdles && pairs.is_multiple_of(512) {
                                    std::thread::sleep(Duration::from_micros(50));
                                }
                                if plagues.moves_after.is_some_and(|n| pairs % (n * 7) == 3) {
                                    // The holder, too.
                                    go(at + 1);
                                }
                                *sum = std::hint::black_box(seen) + 1;
                                drop(sum);
                                pairs += 1;
                                if plagues.moves_after.is_some_and(|n: u64| pairs.is_multiple_of(n)) {
                                    at += 1;
                                    go(at);
                                }
                            }
                            progress.fetch_add(1, SeqCst);
                        }
                        pairs
                    })
                })
                .collect();
            let end = Instant::now() + seconds();
            let late = end + Duration::from_secs(30);
            let mut turn = 0;
            while Instant::now() < end || (Instant::now() < late && !enough()) {
                std::thread::sleep(Duration::from_micros(if plagues.signals { 100 } else { 5_000 }));
                delay(turn / 16);
                if plagues.signals {
                    signal_threads();
                }
                turn += 1;
            }
            delay_nothing();
            stop.store(true, SeqCst);
            workers.into_iter().map(|w| w.join().expect("no worker panics")).sum::<u64>()
        })
    });
    assert_eq!(*lock.lock() - start, count, "updates were lost");
    count
}

/// Interrupts every thread of this process but the caller's.
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

fn delay_nothing() {
    delay(7);
}

#[test]
#[ignore = "storm: threads that are moved, for seconds"]
fn nothing_is_lost_when_holders_and_others_change_processors() {
    for threads in [2, 4, 8] {
        let lock = eager();
        let plagues = Plagues { moves_after: Some(100), tries: Some(3), ..Plagues::default() };
        let pairs = beset_biased(11, &lock, threads, plagues);
        if has_sequences("nothing_is_lost_when_holders_and_others_change_processors") {
            assert!(lock.raw().biases() > 10, "it was biased {} times in {pairs}", lock.raw().biases());
        }
    }
}

#[test]
#[ignore = "storm: threads that preempt one another, for seconds"]
fn nothing_is_lost_when_threads_of_one_processor_preempt_one_another() {
    let lock = eager();
    let pairs = beset_biased(1, &lock, 4, Plagues { one_cpu: true, dawdles: true, ..Plagues::default() });
    if has_sequences("nothing_is_lost_when_threads_of_one_processor_preempt_one_another") {
        assert!(lock.raw().biases() > 0 && pairs > 0);
    }
}

#[test]
#[ignore = "storm: threads that are interrupted, for seconds"]
fn nothing_is_lost_when_signals_come() {
    let lock = eager();
    beset_biased(1, &lock, 3, Plagues { signals: true, moves_after: Some(1_000), ..Plagues::default() });
    if has_sequences("nothing_is_lost_when_signals_come") {
        assert!(lock.raw().biases() > 0);
    }
}

#[test]
#[ignore = "storm: threads that race for seconds"]
fn no_thread_sleeps_for_ever_beside_a_free_lock() {
    let lock = eager();
    beset(&lock, 4, Plagues { dawdles: true, ..Plagues::default() });
    // Far apart: each sleep ends by a wake-up, or not at all.
    let lock = eager();
    let progress = AtomicU64::new(0);
    let end = Instant::now() + seconds();
    guarded(&progress, || {
        std::thread::scope(|s| {
            for hold in [0, 30, 70] {
                let (lock, progress) = (&lock, &progress);
                s.spawn(move || {
                    while Instant::now() < end {
                        let mut sum = lock.lock();
                        *sum += 1;
                        if hold > 0 {
                            std::thread::sleep(Duration::from_micros(hold));
                        }
                        drop(sum);
                        progress.fetch_add(1, SeqCst);
                    }
                });
            }
        });
    });
    assert_eq!(*lock.lock(), progress.load(SeqCst));
}

#[test]
#[ignore = "storm: threads that race for seconds"]
fn the_plain_lock_and_one_without_a_bias_lose_nothing() {
    let plagues = Plagues { moves_after: Some(1_000), dawdles: true, tries: Some(5), ..Plagues::default() };
    beset(&PlainLock::plain(0), 3, plagues);
    let off = CpuLock::builder(0).bias(false).build();
    beset(&off, 3, plagues);
    assert_eq!(off.raw().biases(), 0);
}

#[test]
fn a_lock_takes_to_the_processor_from_which_it_is_used_and_leaves_it_for_another() {
    if !has_sequences("a_lock_takes_to_the_processor_from_which_it_is_used_and_leaves_it_for_another") {
        return;
    }
    let lock = CpuLock::new(0u64);
    let cpus = topology::allowed().expect("the kernel says");
    let use_from = |cpu: u32, pairs: u32| {
        std::thread::scope(|s| {
            s.spawn(|| {
                topology::allow(&[cpu]).expect("it was allowed");
                (0..pairs).for_each(|_| *lock.lock() += 1);
            });
        });
    };
    use_from(cpus[0], 100);
    assert_eq!(lock.raw().biased_to(), None, "a hundred are no habit");
    // Preemption within a section takes the bias away: once more then.
    while lock.raw().biased_to() != Some(cpus[0]) {
        use_from(cpus[0], 1_000);
    }
    let Some(other) = cpus.get(1) else { return };
    use_from(*other, 1);
    assert_eq!(lock.raw().biased_to(), None, "who comes from elsewhere takes it away");
    while lock.raw().biased_to() != Some(*other) {
        use_from(*other, 20_000);
    }
}

#[test]
fn a_lock_that_is_held_is_not_got_by_trying() {
    let lock = eager();
    for _ in 0..20 {
        let mut held = lock.lock();
        *held += 1;
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
    assert_eq!(format!("{lock:?}"), "CpuLock(20)");
    std::mem::forget(lock.lock());
    assert!(lock.try_lock().is_none() && lock.raw().is_locked());
    assert_eq!(format!("{lock:?}"), "CpuLock(held)");
    assert_eq!(lock.into_inner(), 20);
}

/// The kernel answers EPERM to this thread's calls of that number from now on.
fn forbid(call: libc::c_long) {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the filter outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// A thread that may not fence any more beside others that may, on a lock that is biased again and again.
fn beside_one_that_may_not(forbidden: &[libc::c_long]) {
    let lock = eager();
    let cpus = topology::allowed().expect("the kernel says");
    let (progress, sum, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    guarded(&progress, || {
        std::thread::scope(|s| {
            for me in 0..2 {
                let (lock, cpus, progress, sum, over) = (&lock, &cpus, &progress, &sum, &over);
                s.spawn(move || {
                    topology::allow(&[cpus[me % cpus.len()]]).expect("it was allowed");
                    if me == 1 {
                        forbidden.iter().for_each(|call| forbid(*call));
                        assert!(!rseq::fence(None));
                    }
                    let end = Instant::now() + seconds();
                    let mut pairs = 0;
                    // The thread that may go on does so for as long as the other needs: that one may wait for it until its last time.
                    while Instant::now() < end || pairs == 0 || (me == 0 && !over.load(SeqCst)) {
                        *lock.lock() += 1;
                        pairs += 1;
                        if me == 1 {
                            progress.fetch_add(1, SeqCst);
                        }
                    }
                    if me == 1 {
                        over.store(true, SeqCst);
                    }
                    sum.fetch_add(pairs, SeqCst);
                });
            }
        });
    });
    assert_eq!(*lock.lock(), sum.load(SeqCst), "updates were lost");
    assert!(progress.load(SeqCst) > 0, "who may not fence never got it");
}

#[test]
#[ignore = "storm: threads that race for a second"]
fn a_thread_whose_fence_is_refused_goes_to_the_processor_itself() {
    if has_sequences("a_thread_whose_fence_is_refused_goes_to_the_processor_itself") {
        beside_one_that_may_not(&[libc::SYS_membarrier]);
    }
}

#[test]
#[ignore = "storm: threads that race for a second"]
fn a_thread_that_may_not_go_there_either_waits_for_who_comes_from_there() {
    if has_sequences("a_thread_that_may_not_go_there_either_waits_for_who_comes_from_there") {
        beside_one_that_may_not(&[libc::SYS_membarrier, libc::SYS_sched_setaffinity]);
    }
}

#[test]
fn the_bias_is_switched_off_by_the_environment() {
    let test = "the_bias_is_switched_off_by_the_environment";
    if !alone::is(test) {
        alone::run(test, &[("CHAPPE_BIAS", "off")]);
        return;
    }
    let lock = CpuLock::new(0);
    (0..100_000).for_each(|_| *lock.lock() += 1);
    assert_eq!(lock.raw().biases(), 0);
}
