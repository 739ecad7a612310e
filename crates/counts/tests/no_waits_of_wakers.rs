//! Waking a light thread never blocks the waker: not a kernel thread of a real-time policy, nor a signal handler.
//!
//! The waker is a thread of a forked process. The kernel makes its futex wakes and the calls of the test itself, and refuses any other:
//! the first such ends the process with a note of which it was.

use chappe::thread::{Runtime, Thread, park};
use chappe_counts::process::{Child, shared};
use chappe_counts::silence::catch_all_but_wakes_and;
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const ROUNDS: u32 = 100;
const DONE: u32 = 1;
const NO_FIFO: u32 = 2;
const CAUGHT: u32 = 1000;

/// How the waker does it.
#[derive(Clone, Copy)]
enum By {
    Itself,
    Handler,
    /// It waits for a futex, too: a control.
    AWait,
}

static NOTE: OnceLock<&'static AtomicU32> = OnceLock::new();
static SLEEPER: OnceLock<Thread> = OnceLock::new();
static WOKEN: AtomicU32 = AtomicU32::new(0);

extern "C" fn caught(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; of SIGSYS its second word behind the call's address is the number.
    let number = unsafe { info.cast::<u8>().add(24).cast::<u32>().read() };
    if let Some(note) = NOTE.get() {
        note.store(CAUGHT + number, SeqCst); // SeqCst: the test counts no costs.
    }
    // SAFETY: takes a number, does not return; the filter lets it pass.
    unsafe { libc::_exit(0) };
}

extern "C" fn wake(_signal: i32) {
    if let Some(sleeper) = SLEEPER.get() {
        sleeper.unpark();
    }
}

/// Takes a real-time policy, so it must not be preempted by what it wakes, if the system lets it.
fn fifo() -> bool {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters are valid for the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const least) == 0 }
}

fn waker(by: By) {
    // SAFETY: these take nothing and cannot fail; the handler calls what handlers may.
    let (process, thread) = unsafe {
        libc::signal(libc::SIGUSR2, wake as *const () as usize);
        (libc::getpid(), libc::syscall(libc::SYS_gettid))
    };
    let word = AtomicU32::new(0);
    // The end, ppoll and tgkill are the test's own, and no part of the library's wakes.
    let own = [libc::SYS_exit_group, libc::SYS_ppoll, libc::SYS_tgkill, libc::SYS_rt_sigreturn];
    catch_all_but_wakes_and(&own, caught);
    for round in 1..=ROUNDS {
        match by {
            By::Itself => wake(0),
            // SAFETY: raises a signal that is handled.
            By::Handler => assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR2) }, 0),
            By::AWait => {
                wake(0);
                let a_while = libc::timespec { tv_sec: 0, tv_nsec: 1000 };
                // SAFETY: word and time are valid for the call; the word says 0, so the call would sleep.
                unsafe { libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAIT, 0, &raw const a_while) };
            }
        }
        // Until it ran, and some more, in which its proc goes to sleep.
        let mut more = 3;
        while more > 0 {
            let a_little = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
            // SAFETY: no descriptors; the time is valid for the call.
            unsafe { libc::syscall(libc::SYS_ppoll, null_mut::<u8>(), 0, &raw const a_little, null::<u8>(), 8) };
            more -= u32::from(WOKEN.load(SeqCst) >= round); // SeqCst: as above.
        }
    }
}

/// What the note says of a process in which the waker has woken a light thread so many times.
fn note(by: By) -> u32 {
    let note = shared::<AtomicU32>();
    let status = Child::fork(|| {
        let _ = NOTE.set(note);
        let runtime = Runtime::new(1).expect("a runtime");
        let sleeps = runtime.spawn(|| {
            loop {
                park();
                WOKEN.fetch_add(1, SeqCst); // SeqCst: as above.
            }
        });
        let _ = SLEEPER.set(sleeps.thread());
        let waits = std::thread::spawn(move || {
            let fifo = fifo();
            waker(by);
            note.store(if fifo { DONE } else { NO_FIFO }, SeqCst); // SeqCst: as above.
            // SAFETY: takes a number, does not return.
            unsafe { libc::_exit(0) };
        });
        let _ = waits.join();
    })
    .end();
    let said = note.load(SeqCst); // SeqCst: as above.
    assert_ne!(said, 0, "the process ended in the middle: status {status:#x}");
    said
}

fn wakes_and_does_not_wait(by: By) {
    let said = note(by);
    assert!(said < CAUGHT, "the waker made the system call {}", said - CAUGHT);
    if said == NO_FIFO {
        // Past the harness, which shows only what failed. `cargo xtask test` repeats it at its end.
        let _ =
            writeln!(std::io::stderr(), "not tested: a waker of SCHED_FIFO: not permitted here; one without it was");
    }
}

#[test]
fn a_wait_of_the_waker_is_caught() {
    assert_eq!(note(By::AWait), CAUGHT + libc::SYS_futex as u32);
}

#[test]
fn a_real_time_thread_wakes_a_light_thread_without_a_wait() {
    wakes_and_does_not_wait(By::Itself);
}

#[test]
fn a_signal_handler_wakes_a_light_thread_without_a_wait() {
    wakes_and_does_not_wait(By::Handler);
}
