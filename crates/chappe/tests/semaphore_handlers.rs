//! `up` in signal handlers: in the middle of down, up, up_many, choices, and of another up; private and named, strong and
//! barging. What the handlers add is exactly what is there afterwards.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::{Arena, Role, Select, Semaphore, set_role};
use house::House;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// What handlers raise, and what they have seen.
#[derive(Default)]
struct Targets {
    all: Vec<Semaphore>,
    runs: AtomicU32,
    added: AtomicU32,
    refused: AtomicU32,
    depth: AtomicU32,
    deepest: AtomicU32,
    errno_lost: AtomicU32,
}

const ROUNDS: u32 = 1500;

static TARGETS: AtomicPtr<Targets> = AtomicPtr::new(std::ptr::null_mut());

fn errno() -> *mut i32 {
    // SAFETY: always the calling thread's own.
    unsafe { libc::__errno_location() }
}

extern "C" fn raise(_signal: i32) {
    // SAFETY: null, or leaked.
    let Some(targets) = (unsafe { TARGETS.load(Ordering::SeqCst).as_ref() }) else { return };
    // SAFETY: the calling thread's own.
    let before = unsafe { errno().replace(77) };
    let depth = targets.depth.fetch_add(1, Ordering::SeqCst) + 1;
    targets.deepest.fetch_max(depth, Ordering::SeqCst);
    let run = targets.runs.fetch_add(1, Ordering::SeqCst);
    let by = 1 + run % 3 / 2;
    match targets.all[run as usize % targets.all.len()].up_many(by) {
        Ok(()) => targets.added.fetch_add(by, Ordering::SeqCst),
        Err(_) => targets.refused.fetch_add(1, Ordering::SeqCst),
    };
    targets.depth.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as above.
    let after = unsafe { errno().replace(before) };
    targets.errno_lost.fetch_add(u32::from(after != 77), Ordering::SeqCst);
}

/// From now on handlers raise these. Two signals, so that one handler may interrupt another.
fn aim(all: Vec<Semaphore>) -> &'static Targets {
    let targets: &Targets = Box::leak(Box::new(Targets { all, ..Default::default() }));
    TARGETS.store(std::ptr::from_ref(targets).cast_mut(), Ordering::SeqCst);
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler does only what may be done in one; zero is a valid empty mask.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = raise as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
    targets
}

/// Sends signals to the thread until told to stop: now both at once, now one by one, at all sorts of moments.
fn hammer(thread: libc::pthread_t, targets: &Targets, done: impl Fn() -> bool) {
    let mut round = 0u32;
    while !done() {
        let before = targets.runs.load(Ordering::SeqCst);
        for signal in [libc::SIGUSR1, libc::SIGUSR2] {
            if round % 4 != 1 || signal == libc::SIGUSR1 {
                // SAFETY: the thread was not joined yet.
                assert_eq!(unsafe { libc::pthread_kill(thread, signal) }, 0);
            }
        }
        while targets.runs.load(Ordering::SeqCst) == before && !done() {
            std::thread::yield_now();
        }
        for _ in 0..round % 97 * 4 {
            std::hint::spin_loop();
        }
        round += 1;
    }
}

fn taken(select: &Select<'_>, limit: Duration) -> u32 {
    u32::from(select.wait_timeout(limit).is_ok())
}

fn raised_while_everything_goes_on(all: Vec<Semaphore>, rounds: u32) {
    let targets = aim(all);
    let (stop, given, consumed) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|s| {
        // Somebody who waits for what the handlers and the worker add.
        s.spawn(|| {
            let mut any = Select::new();
            targets.all.iter().for_each(|one| _ = any.down(one));
            while !stop.load(Ordering::SeqCst) {
                consumed.fetch_add(taken(&any, Duration::from_millis(1)), Ordering::SeqCst);
            }
        });
        let (given, consumed, stop) = (&given, &consumed, &stop);
        let worker = std::thread::spawn({
            let all = targets.all.clone();
            move || {
                let (mut given, mut consumed) = (0, 0);
                let mut any = Select::new();
                all.iter().for_each(|one| _ = any.down(one));
                for round in 0..rounds {
                    set_role([Role::TimeSharing, Role::Sleeper][round as usize / 64 % 2]);
                    let one = &all[round as usize % all.len()];
                    match round % 7 {
                        0 => {
                            // The handlers go on: one of them will raise it.
                            one.down().unwrap();
                            consumed += 1;
                        }
                        1 => {
                            one.up().unwrap();
                            given += 1;
                        }
                        2 => {
                            one.up_many(2).unwrap();
                            given += 2;
                        }
                        3 => consumed += u32::from(one.down_timeout(Duration::from_micros(50)).is_ok()),
                        4 => consumed += u32::from(one.try_down().is_ok()),
                        5 => {
                            let _ = any.wait().unwrap();
                            consumed += 1;
                        }
                        _ => consumed += taken(&any, Duration::from_micros(20)),
                    }
                }
                (given, consumed)
            }
        });
        hammer(worker.as_pthread_t(), targets, || worker.is_finished());
        let (more, less) = worker.join().unwrap();
        stop.store(true, Ordering::SeqCst);
        given.fetch_add(more, Ordering::SeqCst);
        consumed.fetch_add(less, Ordering::SeqCst);
    });
    let there: u32 = targets.all.iter().map(Semaphore::value).sum();
    let of = |count: &AtomicU32| count.load(Ordering::SeqCst);
    assert_eq!(there + of(&consumed), of(&given) + of(&targets.added));
    assert_eq!((of(&targets.refused), of(&targets.errno_lost), of(&targets.depth)), (0, 0, 0));
    assert!(of(&targets.runs) > rounds / 100);
    assert!(targets.all.iter().all(|one| one.waiters().is_empty()));
}

#[test]
fn handlers_raise_private_semaphores_in_the_middle_of_everything() {
    let _turn = House::new("handlers-private");
    raised_while_everything_goes_on(vec![Semaphore::private(0).unwrap()], ROUNDS);
    let two = [Semaphore::private(0), Semaphore::private_barging(0)];
    raised_while_everything_goes_on(two.map(Result::unwrap).into(), ROUNDS);
}

#[test]
fn handlers_raise_named_semaphores_in_the_middle_of_everything() {
    let _house = House::new("handlers-named");
    let strong = Semaphore::create("s", 0).unwrap();
    strong.prepare_handlers().unwrap();
    raised_while_everything_goes_on(vec![strong.clone()], ROUNDS);
    let barging = Semaphore::create_barging("b", 0).unwrap();
    raised_while_everything_goes_on(vec![barging.clone()], ROUNDS);
    // Of two arenas of which the thread uses now one, now the other.
    let all = vec![strong, barging, Semaphore::private(0).unwrap(), Semaphore::private_barging(0).unwrap()];
    raised_while_everything_goes_on(all, ROUNDS);
}

#[test]
fn a_handler_is_interrupted_by_another() {
    let _turn = House::new("handlers-nested");
    let targets = aim(vec![Semaphore::private(0).unwrap(), Semaphore::private_barging(0).unwrap()]);
    let worker = std::thread::spawn(move || {
        let mut given = 0;
        while targets.deepest.load(Ordering::SeqCst) < 2 || targets.runs.load(Ordering::SeqCst) < 10_000 {
            targets.all[given as usize % 2].up().unwrap();
            given += 1;
        }
        given
    });
    hammer(worker.as_pthread_t(), targets, || worker.is_finished());
    let given: u32 = worker.join().unwrap();
    let there: u32 = targets.all.iter().map(Semaphore::value).sum();
    assert_eq!(there, given + targets.added.load(Ordering::SeqCst));
    assert_eq!(targets.refused.load(Ordering::SeqCst), 0);
}

#[test]
fn a_handler_may_raise_in_a_thread_that_has_never_used_the_arena() {
    let _house = House::new("handlers-stranger");
    let semaphore = Semaphore::create("s", 0).unwrap();
    semaphore.prepare_handlers().unwrap();
    semaphore.prepare_handlers().unwrap();
    let targets = aim(vec![semaphore.clone()]);
    let stop = AtomicBool::new(false);
    let mut consumed = 0u32;
    std::thread::scope(|s| {
        // Waits all the time, so that handlers hand on.
        let consumer = s.spawn(|| {
            let mut consumed = 0;
            while !stop.load(Ordering::SeqCst) {
                consumed += u32::from(semaphore.down_timeout(Duration::from_millis(1)).is_ok());
            }
            consumed
        });
        while semaphore.waiters().is_empty() {
            std::thread::yield_now();
        }
        let members = Arena::open("default").unwrap().members().len();
        let stranger = std::thread::spawn(move || {
            while targets.runs.load(Ordering::SeqCst) < 10_000 {
                std::hint::spin_loop();
            }
        });
        hammer(stranger.as_pthread_t(), targets, || stranger.is_finished());
        assert_eq!(Arena::open("default").unwrap().members().len(), members, "the stranger has not joined");
        stranger.join().unwrap();
        stop.store(true, Ordering::SeqCst);
        consumed = consumer.join().unwrap();
    });
    let of = |count: &AtomicU32| count.load(Ordering::SeqCst);
    assert_eq!((of(&targets.refused), of(&targets.errno_lost)), (0, 0));
    assert_eq!(consumed + semaphore.value(), of(&targets.added));
}
