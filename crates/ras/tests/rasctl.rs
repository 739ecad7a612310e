//! The paper's interface, as its text and NetBSD have it: errors, sixteen at most, fork and exec, restarts.

#![cfg(not(feature = "sim"))]

mod alone;

use chappe_ras::gate;
use chappe_ras::mechanism::tas;
use chappe_ras::rasctl::{self, MOST, RAS_INSTALL, RAS_PURGE, RAS_PURGE_ALL, RasError};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

// Sequences for tests. `add`: reads the counter whose address is the second argument, waits for as many rounds of an empty loop as
// the third says, and adds one. `blocks`: twenty of 16 bytes that do nothing.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_test,\"ax\",@progbits",
    ".balign 16",
    "chappe_test_add:",
    "mov rax, qword ptr [rsi]",
    "mov rcx, rdx",
    "2: dec rcx",
    "jnz 2b",
    "inc rax",
    "mov qword ptr [rsi], rax",
    "chappe_test_add_end:",
    "ret",
    ".balign 16",
    "chappe_test_blocks:",
    ".fill 320, 1, 0x90",
    "ret",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_test,\"ax\",%progbits",
    ".balign 16",
    "chappe_test_add:",
    "ldr x3, [x1]",
    "mov x4, x2",
    "2: subs x4, x4, #1",
    "b.ne 2b",
    "add x3, x3, #1",
    "str x3, [x1]",
    "chappe_test_add_end:",
    "ret",
    ".balign 16",
    "chappe_test_blocks:",
    ".rept 80",
    "nop",
    ".endr",
    "ret",
    ".popsection",
);

// SAFETY: only where they lie is used.
unsafe extern "C" {
    static chappe_test_add: u8;
    static chappe_test_add_end: u8;
    static chappe_test_blocks: u8;
}

const BLOCK: usize = 16;
const BLOCKS: usize = 20;

type Add = extern "C" fn(usize, *mut u64, u64);

fn add_range() -> (*const u8, usize) {
    let (from, to) = (&raw const chappe_test_add, &raw const chappe_test_add_end);
    (from, to as usize - from as usize)
}

fn install_add() -> Add {
    let (addr, len) = add_range();
    // SAFETY: made for it: one store, last; what it takes stays as it was.
    let entry = unsafe { rasctl::install(addr, len) }.expect("there are sequences");
    // SAFETY: takes these three, gives nothing.
    unsafe { std::mem::transmute::<*const (), Add>(entry) }
}

fn block(n: usize) -> *const u8 {
    assert!(n < BLOCKS);
    (&raw const chappe_test_blocks).wrapping_add(n * BLOCK)
}

fn install(addr: *const u8, len: usize) -> Result<(), RasError> {
    // SAFETY: instructions that do nothing, or no code at all, which is found out.
    unsafe { rasctl::rasctl(addr, len, RAS_INSTALL) }
}

fn purge(addr: *const u8, len: usize) -> Result<(), RasError> {
    // SAFETY: nobody else uses it.
    unsafe { rasctl::rasctl(addr, len, RAS_PURGE) }
}

/// What is installed is the process's: one test at a time, with nothing installed. None: there are no sequences, and a line says
/// so.
fn begin(test: &str) -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: nobody else uses any.
    unsafe { rasctl::rasctl(std::ptr::null(), 0, RAS_PURGE_ALL) }.expect("it always succeeds");
    if !gate::sequences() {
        println!("not tested: {test}: there are no sequences here");
        return None;
    }
    Some(guard)
}

fn seconds() -> Duration {
    let soak = std::env::var("RAS_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs_f64(soak.unwrap_or(1.5))
}

#[test]
fn errors_are_those_of_netbsd() {
    let Some(_one) = begin("errors_are_those_of_netbsd") else { return };
    let errno = |result: Result<(), RasError>| result.map_err(|e| e.errno());
    let data = Box::new([0u8; 64]);
    // SAFETY: no such operation.
    assert_eq!(unsafe { rasctl::rasctl(block(0), BLOCK, 3) }, Err(RasError::Operation(3)));
    // SAFETY: as above.
    assert_eq!(errno(unsafe { rasctl::rasctl(block(0), BLOCK, -1) }), Err(libc::EINVAL));
    assert_eq!(install(block(0), 0), Err(RasError::Length));
    for (addr, len) in [
        (data.as_ptr(), 16),
        (std::ptr::null(), 16),
        (block(0), usize::MAX),
        (block(0), 1 << 46),
        (usize::MAX as *const u8, 1),
        ((&raw const A_WORD).cast(), 4),
    ] {
        assert_eq!(install(addr, len), Err(RasError::Address), "{addr:?}, {len}");
    }
    assert_eq!(errno(install(data.as_ptr(), 16)), Err(libc::EINVAL));
    assert_eq!(purge(block(0), BLOCK), Err(RasError::NotInstalled));
    assert_eq!(errno(purge(block(0), BLOCK)), Err(libc::ESRCH));
    assert_eq!(rasctl::restarts(block(0), BLOCK), Err(RasError::NotInstalled));
    assert_eq!(rasctl::entry(block(0)), None);

    assert_eq!(install(block(2), 2 * BLOCK), Ok(()));
    for (addr, len) in
        [(block(2), 2 * BLOCK), (block(1), BLOCK + 1), (block(3), BLOCK), (block(2), 1), (block(1), 4 * BLOCK)]
    {
        assert_eq!(install(addr, len), Err(RasError::Overlap), "{addr:?}, {len}");
        assert_eq!(errno(install(addr, len)), Err(libc::EEXIST));
    }
    assert_eq!((install(block(1), BLOCK), install(block(4), BLOCK)), (Ok(()), Ok(())), "next to it is not over it");
    for (addr, len) in [(block(2), BLOCK), (block(3), BLOCK), (block(2), 3 * BLOCK)] {
        assert_eq!(errno(purge(addr, len)), Err(libc::ESRCH), "{addr:?}, {len}");
    }
    assert_eq!(purge(block(2), 2 * BLOCK), Ok(()));
    assert_eq!(errno(purge(block(2), 2 * BLOCK)), Err(libc::ESRCH));
}

/// Not a constant: where the linker puts those beside code, they are in executable pages.
static A_WORD: AtomicU32 = AtomicU32::new(0);

#[test]
fn there_are_sixteen_at_most() {
    let Some(_one) = begin("there_are_sixteen_at_most") else { return };
    for n in 0..MOST {
        assert_eq!(install(block(n), BLOCK), Ok(()), "{n}");
    }
    assert_eq!(install(block(MOST), BLOCK), Err(RasError::Full));
    assert_eq!(install(block(MOST), BLOCK).map_err(|e| e.errno()), Err(libc::EINVAL));
    assert_eq!(install(block(0), BLOCK), Err(RasError::Overlap), "that comes first");
    let all = rasctl::installed();
    let ranges: Vec<_> = all.iter().map(|s| (s.addr, s.len)).collect();
    assert_eq!(ranges, (0..MOST).map(|n| (block(n), BLOCK)).collect::<Vec<_>>());
    for s in &all {
        assert_eq!(rasctl::entry(s.addr), Some(s.entry));
        // SAFETY: it takes nothing, does nothing, and returns.
        unsafe { std::mem::transmute::<*const (), extern "C" fn()>(s.entry)() };
    }
    assert_eq!(purge(block(5), BLOCK), Ok(()));
    assert_eq!(install(block(MOST), BLOCK), Ok(()), "there is room for one");
    assert_eq!(install(block(5), BLOCK), Err(RasError::Full));
    // SAFETY: nobody else uses any.
    unsafe { rasctl::purge_all() };
    assert_eq!(rasctl::installed(), []);
}

#[test]
fn the_same_again_is_where_it_was_and_counts_anew() {
    let Some(_one) = begin("the_same_again_is_where_it_was_and_counts_anew") else { return };
    let (addr, len) = add_range();
    let add = install_add();
    restart_by_signals(add, 3);
    assert!(rasctl::restarts(addr, len).unwrap() >= 3);
    let entry = rasctl::entry(addr);
    purge(addr, len).unwrap();
    assert_eq!(rasctl::entry(addr), None);
    install_add();
    assert_eq!((rasctl::entry(addr), rasctl::restarts(addr, len)), (entry, Ok(0)));
    purge(addr, len).unwrap();
    // Other bytes have other pages: shorter ones here.
    install(addr, len - 1).unwrap();
    assert_ne!(rasctl::entry(addr), entry);
}

#[test]
fn no_page_is_writable_and_executable() {
    let Some(_one) = begin("no_page_is_writable_and_executable") else { return };
    for n in 0..MOST {
        install(block(n), BLOCK).unwrap();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let mut ours = 0;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        let rights = rest.split(' ').next().unwrap();
        assert!(!(rights.contains('w') && rights.contains('x')), "{line}");
        let (from, to) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        let within = (number(from)..number(to)).len();
        let has =
            rasctl::installed().iter().filter(|s| (number(from)..number(to)).contains(&(s.entry as usize))).count();
        if has > 0 {
            assert!(rights.starts_with("r-x") && within > 0, "{line}");
            ours += has;
        }
    }
    assert_eq!(ours, MOST);
}

// What is counted by several: plain, so that only what excludes them keeps it whole.
struct Plain(UnsafeCell<u64>);
// SAFETY: that is what is tried; each access is a machine instruction of the sequence's, or volatile.
unsafe impl Sync for Plain {}

/// Four threads of one processor count for a while, and a fifth that wakes up all the time takes it from them. Answers how
/// many counts were lost of how many.
fn count(add: Add, how_long: Duration) -> (u64, u64) {
    alone::one_processor();
    let (counter, over, all) = (Plain(UnsafeCell::new(0)), AtomicBool::new(false), AtomicU64::new(0));
    let counter = &counter;
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let mut mine = 0;
                // Relaxed, both: looked at once all have ended.
                while !over.load(Ordering::Relaxed) {
                    add(0, counter.0.get(), 1 + mine % 200);
                    mine += 1;
                }
                // Relaxed: as above.
                all.fetch_add(mine, Ordering::Relaxed);
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < how_long {
            std::thread::sleep(Duration::from_micros(20));
        }
        // Relaxed: as above.
        over.store(true, Ordering::Relaxed);
    });
    // Relaxed: all have ended.
    let all = all.load(Ordering::Relaxed);
    // SAFETY: as above.
    (all - unsafe { counter.0.get().read_volatile() }, all)
}

#[test]
#[ignore = "storm: threads that preempt one another for seconds"]
fn threads_of_one_processor_lose_nothing_and_without_the_sequence_they_do() {
    let test = "threads_of_one_processor_lose_nothing_and_without_the_sequence_they_do";
    let Some(_one) = begin(test) else { return };
    std::thread::spawn(counting).join().unwrap();
}

fn counting() {
    let (addr, len) = add_range();
    let add = install_add();
    let (lost, all) = count(add, seconds());
    let restarts = rasctl::restarts(addr, len).unwrap();
    println!("  installed: {lost} of {all} lost, {restarts} restarts");
    assert_eq!(lost, 0, "of {all}");
    assert!(restarts > 0);
    // The control: the same code through the same pointer, purged.
    purge(addr, len).unwrap();
    let lost = (0..20).any(|_| {
        let (lost, all) = count(add, Duration::from_millis(200));
        println!("  purged: {lost} of {all} lost");
        lost > 0
    });
    assert!(lost, "who is not protected loses");
    // And installed again it is protected again.
    install_add();
    assert_eq!(count(add, Duration::from_millis(200)).0, 0);
}

#[test]
#[ignore = "storm: threads that preempt one another for seconds"]
fn the_test_and_set_excludes_threads_of_one_processor() {
    let Some(_one) = begin("the_test_and_set_excludes_threads_of_one_processor") else { return };
    let excluding = || {
        alone::one_processor();
        let flag = tas::synthesised().unwrap();
        let (word, counter) = (AtomicU32::new(0), Plain(UnsafeCell::new(0)));
        let counter = &counter;
        let (over, all) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let mut mine = 0;
                    // Relaxed, both: looked at once all have ended.
                    while !over.load(Ordering::Relaxed) {
                        if flag.test_and_set(&word) {
                            std::thread::yield_now();
                            continue;
                        }
                        // SAFETY: under the flag.
                        unsafe { counter.0.get().write_volatile(counter.0.get().read_volatile() + 1) };
                        tas::release(&word);
                        mine += 1;
                    }
                    // Relaxed: as above.
                    all.fetch_add(mine, Ordering::Relaxed);
                });
            }
            let begun = Instant::now();
            while begun.elapsed() < seconds() {
                std::thread::sleep(Duration::from_micros(20));
            }
            // Relaxed: as above.
            over.store(true, Ordering::Relaxed);
        });
        let (addr, len) = tas::Synthesised::range();
        // Relaxed: all have ended.
        let all = all.load(Ordering::Relaxed);
        println!("  {all} times, {} restarts", rasctl::restarts(addr, len).unwrap());
        // SAFETY: all have ended.
        assert_eq!(unsafe { counter.0.get().read_volatile() }, all);
        assert_eq!(tas::synthesised().map(drop), Ok(()), "whoever asks again gets the same");
    };
    std::thread::spawn(excluding).join().unwrap();
}

#[test]
fn the_test_and_set_is_not_taken_for_another_range_that_begins_where_it_does() {
    let Some(_one) = begin("the_test_and_set_is_not_taken_for_another_range_that_begins_where_it_does") else { return };
    let (addr, len) = tas::Synthesised::range();
    install(addr, len - 1).unwrap();
    assert_eq!(tas::synthesised().err(), Some(RasError::Overlap));
    purge(addr, len - 1).unwrap();
    assert_eq!(tas::synthesised().map(drop), Ok(()));
}

extern "C" fn on_signal(_: libc::c_int) {}

/// A timer's signals come to this thread while it runs the sequence, until they have started it again so many times.
fn restart_by_signals(add: Add, times: u64) -> u64 {
    let (addr, len) = add_range();
    let tick = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
    let mut timer = std::ptr::null_mut();
    // SAFETY: a handler that does nothing, and a timer that is taken away below.
    unsafe {
        libc::signal(libc::SIGURG, on_signal as *const () as libc::sighandler_t);
        let mut event: libc::sigevent = std::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_THREAD_ID, libc::SIGURG);
        event.sigev_notify_thread_id = libc::gettid();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        let often = libc::itimerspec { it_interval: tick, it_value: tick };
        assert_eq!(libc::timer_settime(timer, 0, &often, std::ptr::null_mut()), 0);
    }
    let (mut counter, mut done) = (0u64, 0u64);
    let begun = rasctl::restarts(addr, len).unwrap();
    while rasctl::restarts(addr, len).unwrap() < begun + times && done < 5_000_000 {
        add(0, &mut counter, 5_000);
        done += 1;
    }
    // SAFETY: made above.
    unsafe { libc::timer_delete(timer) };
    assert_eq!(counter, done, "each was done once");
    rasctl::restarts(addr, len).unwrap() - begun
}

#[test]
fn a_signal_starts_it_again() {
    let Some(_one) = begin("a_signal_starts_it_again") else { return };
    let add = install_add();
    assert!(restart_by_signals(add, 200) >= 200);
    let (addr, len) = add_range();
    purge(addr, len).unwrap();
    assert_eq!(rasctl::restarts(addr, len), Err(RasError::NotInstalled));
}

#[test]
fn fork_inherits_and_counts_apart() {
    alone::run("fork_inherits_and_counts_apart_alone", &[]);
}

#[test]
fn fork_inherits_and_counts_apart_alone() {
    let Some(_one) = begin("fork_inherits_and_counts_apart_alone") else { return };
    if !alone::is("fork_inherits_and_counts_apart_alone") {
        return;
    }
    let (addr, len) = add_range();
    let add = install_add();
    restart_by_signals(add, 5);
    let before = rasctl::restarts(addr, len).unwrap();
    // SAFETY: the child calls this module, which is ready for that, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inherited = rasctl::restarts(addr, len) == Ok(before) && rasctl::installed().len() == 1;
        let restarts = restart_by_signals(add, 20);
        let free = purge(addr, len).is_ok() && install(block(0), BLOCK).is_ok();
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!(inherited && restarts >= 20 && free))) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(rasctl::restarts(addr, len), Ok(before), "the child's are its own");
    assert_eq!(rasctl::installed().len(), 1);
}

#[test]
#[ignore = "storm: forks that race installations"]
fn a_child_forked_during_installations_can_install() {
    alone::run("a_child_forked_during_installations_can_install_alone", &[]);
}

#[test]
fn a_child_forked_during_installations_can_install_alone() {
    let Some(_one) = begin("a_child_forked_during_installations_can_install_alone") else { return };
    if !alone::is("a_child_forked_during_installations_can_install_alone") {
        return;
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            // Relaxed: only when to end.
            while !over.load(Ordering::Relaxed) {
                install(block(1), BLOCK).unwrap();
                purge(block(1), BLOCK).unwrap();
            }
        });
        s.spawn(|| {
            // Relaxed: as above.
            while !over.load(Ordering::Relaxed) {
                rasctl::entry(block(1));
            }
        });
        for _ in 0..200 {
            // SAFETY: as in the test above.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends this process if it waits for ever.
                unsafe { libc::alarm(30) };
                let whole = rasctl::installed().len() <= 1 && purge(block(2), BLOCK) == Err(RasError::NotInstalled);
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!whole)) };
            }
            let mut status = 0;
            // SAFETY: our own child. It would wait for ever if it found the lock held.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        // Relaxed: as above.
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn exec_drops_what_is_installed() {
    if alone::is("exec_drops_what_is_installed") {
        assert_eq!(rasctl::installed(), []);
        let (addr, len) = add_range();
        assert_eq!(purge(addr, len), Err(RasError::NotInstalled));
        return;
    }
    let Some(_one) = begin("exec_drops_what_is_installed") else { return };
    install_add();
    alone::run("exec_drops_what_is_installed", &[]);
    assert_eq!(rasctl::installed().len(), 1);
}

#[test]
#[ignore = "storm: two storms once more, in other surroundings"]
fn a_thread_that_has_no_area_yet_gets_one() {
    let test = "threads_of_one_processor_lose_nothing_and_without_the_sequence_they_do";
    let own = &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")];
    alone::run(test, own);
    alone::run("the_test_and_set_excludes_threads_of_one_processor", own);
}

#[test]
fn a_system_without_sequences_is_reported() {
    if let Some(_one) = begin("where there are sequences") {
        for without in ["area", "fence"] {
            let environment = [("CHAPPE_TEST_WITHOUT", without), ("GLIBC_TUNABLES", "glibc.pthread.rseq=0")];
            alone::run("there_are_none", &environment[..if without == "area" { 2 } else { 1 }]);
        }
    } else {
        nothing_is_there();
    }
}

#[test]
fn there_are_none() {
    let refused = match std::env::var("CHAPPE_TEST_WITHOUT").as_deref() {
        Ok("area") => alone::refuse(libc::SYS_rseq, &[]),
        Ok("fence") => alone::refuse(libc::SYS_membarrier, &[]),
        _ => return,
    };
    if !refused {
        println!("not tested: there_are_none: the kernel takes no filter");
        return;
    }
    nothing_is_there();
}

fn nothing_is_there() {
    assert!(!gate::sequences());
    let (addr, len) = add_range();
    assert_eq!(install(addr, len), Err(RasError::Unsupported));
    assert_eq!(install(addr, len).map_err(|e| e.errno()), Err(libc::EOPNOTSUPP));
    assert_eq!(install(addr, 0), Err(RasError::Length));
    assert_eq!(install(std::ptr::null(), 4), Err(RasError::Address));
    assert_eq!(purge(addr, len), Err(RasError::NotInstalled));
    // SAFETY: there is nothing.
    assert_eq!(unsafe { rasctl::rasctl(addr, len, RAS_PURGE_ALL) }, Ok(()));
    assert_eq!(rasctl::installed(), []);
    assert!(tas::Sequences::there().is_none());
    assert_eq!(tas::synthesised().err(), Some(RasError::Unsupported));
}
