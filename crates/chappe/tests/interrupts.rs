//! Waits that are ended by a signal, or by somebody who asks for it.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::{DownError, Interrupt, Role, Semaphore, interruptible};
use house::{House, LONG, eventually};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Installs a handler that does nothing.
fn handle(signal: i32, flags: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// Both kinds, and their home.
fn semaphores() -> (House, [Semaphore; 2]) {
    let house = House::new("interrupts");
    let both = [Semaphore::private(0).unwrap(), Semaphore::create("s", 0).unwrap()];
    (house, both)
}

/// A waiter in a thread of its own, and something that is done to it again and again while it waits.
fn ended_by(
    sem: &Semaphore,
    down: impl FnOnce(&Semaphore) -> Result<(), DownError> + Send + 'static,
    act: impl Fn(libc::pthread_t),
) -> Result<(), DownError> {
    let its = sem.clone();
    let waits = std::thread::spawn(move || down(&its));
    eventually("it waits", || sem.waiters().len() == 1);
    while !waits.is_finished() {
        act(waits.as_pthread_t() as libc::pthread_t);
        std::thread::sleep(Duration::from_millis(1));
    }
    waits.join().unwrap()
}

fn signal(thread: libc::pthread_t) {
    // SAFETY: it is not joined yet.
    unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
}

#[test]
fn a_handled_signal_ends_a_wait() {
    let (_house, both) = semaphores();
    for sem in &both {
        handle(libc::SIGUSR1, 0);
        let down = |s: &Semaphore| interruptible(&Interrupt::new(), || s.down());
        assert!(matches!(ended_by(sem, down, signal), Err(DownError::Interrupted)));
        let timed = |s: &Semaphore| interruptible(&Interrupt::new(), || s.down_timeout(LONG));
        assert!(matches!(ended_by(sem, timed, signal), Err(DownError::Interrupted)));
        // The kernel begins an untimed sleep again.
        handle(libc::SIGUSR1, libc::SA_RESTART);
        let signals = AtomicU32::new(0);
        let down = |s: &Semaphore| interruptible(&Interrupt::new(), || s.down());
        let ended = ended_by(sem, down, |thread| {
            // Relaxed: one thread's.
            match signals.fetch_add(1, Ordering::Relaxed) {
                0..50 => signal(thread),
                // Once: it is listed until it has taken what it was granted.
                50 => sem.up().unwrap(),
                _ => {}
            }
        });
        assert!(ended.is_ok() && sem.value() == 0, "{ended:?} {}", sem.value());
        let timed = |s: &Semaphore| interruptible(&Interrupt::new(), || s.down_timeout(LONG));
        assert!(matches!(ended_by(sem, timed, signal), Err(DownError::Interrupted)));
        assert!(sem.waiters().is_empty());
        sem.up().unwrap();
        assert_eq!(sem.value(), 1, "nobody waits any more");
        sem.down().unwrap();
    }
}

static IN_HANDLER: std::sync::Mutex<Option<&'static Semaphore>> = std::sync::Mutex::new(None);

/// A handler that ran in a wait which ended with a unit all the same is nothing to the next one.
#[test]
fn a_handler_ends_no_later_wait() {
    extern "C" fn up(_: i32) {
        // Nobody else has it locked meanwhile.
        IN_HANDLER.lock().unwrap().unwrap().up().unwrap();
    }
    let (_house, both) = semaphores();
    // SAFETY: the handler locks what is not locked when it runs, and ups.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = up as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
    for sem in both {
        let sem: &'static Semaphore = Box::leak(Box::new(sem));
        *IN_HANDLER.lock().unwrap() = Some(sem);
        let (by, calm) = (Interrupt::new(), Duration::from_millis(20));
        let waits = std::thread::spawn(move || {
            let first = interruptible(&by, || sem.down());
            (first, by.is_asked(), interruptible(&by, || sem.down_timeout(calm)))
        });
        eventually("it waits", || sem.waiters().len() == 1);
        // SAFETY: it is not joined yet.
        unsafe { libc::pthread_kill(waits.as_pthread_t() as libc::pthread_t, libc::SIGUSR2) };
        let (first, asked, second) = waits.join().unwrap();
        assert!(first.is_ok() && !asked && matches!(second, Err(DownError::Timeout)), "{first:?} {second:?}");
    }
}

#[test]
fn outside_of_it_signals_end_nothing() {
    let (_house, both) = semaphores();
    handle(libc::SIGUSR1, 0);
    for sem in &both {
        let signals = AtomicU32::new(0);
        let down = |s: &Semaphore| {
            let _ = interruptible(&Interrupt::new(), || s.try_down());
            s.down_timeout(LONG)
        };
        let ended = ended_by(sem, down, |thread| {
            // Relaxed: one thread's.
            match signals.fetch_add(1, Ordering::Relaxed) {
                0..50 => signal(thread),
                50 => sem.up().unwrap(),
                _ => {}
            }
        });
        assert!(ended.is_ok(), "{ended:?}");
    }
}

#[test]
fn who_asks_ends_a_wait_and_every_later_one() {
    let (_house, both) = semaphores();
    for sem in &both {
        for role in [Role::TimeSharing, Role::Application, Role::Sleeper] {
            let by: &'static Interrupt = Box::leak(Box::default());
            let down = move |s: &Semaphore| role.during(|| interruptible(by, || s.down()));
            assert!(matches!(ended_by(sem, down, |_| by.interrupt()), Err(DownError::Interrupted)));
            assert!(by.is_asked());
            assert!(matches!(interruptible(by, || sem.down()), Err(DownError::Interrupted)), "not even a look");
            // What is there is taken all the same.
            sem.up().unwrap();
            interruptible(by, || sem.down()).unwrap();
            by.interrupt();
        }
    }
}

/// Each unit is consumed by somebody who says so, or is still there.
#[test]
fn a_grant_that_was_faster_wins() {
    let (_house, both) = semaphores();
    for sem in &both {
        let (mut taken, mut ended) = (0, 0);
        for round in 0..600u32 {
            let by = Interrupt::new();
            let got = std::thread::scope(|s| {
                let waits = s.spawn(|| interruptible(&by, || sem.down()));
                if round % 2 == 0 {
                    eventually("it waits", || waits.is_finished() || sem.waiters().len() == 1);
                }
                let ups = s.spawn(|| sem.up().unwrap());
                by.interrupt();
                ups.join().unwrap();
                match waits.join().unwrap() {
                    Ok(()) => true,
                    Err(DownError::Interrupted) => false,
                    Err(e) => panic!("{e}"),
                }
            });
            (taken, ended) = (taken + u32::from(got), ended + u32::from(!got));
            assert_eq!(sem.value(), u32::from(!got), "round {round}");
            if !got {
                sem.down().unwrap();
            }
        }
        println!("{taken} granted, {ended} interrupted");
        assert!(taken > 0 && ended > 0);
    }
}
