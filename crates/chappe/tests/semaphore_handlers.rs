//! `up` in signal handlers: in the middle of down, up, up_many, choices, and of another up; private and named, strong and
//! barging. What the handlers add is exactly what is there afterwards.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::{Arena, Role, Select, Semaphore, set_role};
use house::House;
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

const ROUNDS: u32 = 16_000;

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

/// Timers that send both signals to the calling thread, at all sorts of moments, until dropped.
struct Storm([libc::timer_t; 2]);

impl Storm {
    fn new() -> Storm {
        let timer = |signal: i32, every: i64| {
            // SAFETY: both structures are plain data, for which zero is valid; the calls read them, and fill in the timer.
            unsafe {
                let mut event: libc::sigevent = std::mem::zeroed();
                event.sigev_notify = libc::SIGEV_THREAD_ID;
                event.sigev_notify_thread_id = libc::gettid();
                event.sigev_signo = signal;
                let mut timer: libc::timer_t = std::ptr::null_mut();
                assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
                let interval = libc::timespec { tv_sec: 0, tv_nsec: every };
                let times = libc::itimerspec { it_interval: interval, it_value: interval };
                assert_eq!(libc::timer_settime(timer, 0, &times, std::ptr::null_mut()), 0);
                timer
            }
        };
        Storm([timer(libc::SIGUSR1, 29_000), timer(libc::SIGUSR2, 43_000)])
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        for timer in self.0 {
            // SAFETY: a timer of ours, deleted once.
            assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
        }
    }
}

fn taken(select: &Select<'_>, limit: Duration) -> u32 {
    u32::from(select.wait_timeout(limit).is_ok())
}

fn raised_while_everything_goes_on(all: Vec<Semaphore>, rounds: u32) {
    let targets = aim(all);
    let before: u32 = targets.all.iter().map(Semaphore::value).sum();
    let (stop, given, consumed) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|s| {
        // A thread that waits for what the handlers and the worker add.
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
                let _storm = Storm::new();
                let (mut given, mut consumed) = (0, 0);
                let mut any = Select::new();
                all.iter().for_each(|one| _ = any.down(one));
                let mut round = 0u32;
                while round < rounds || targets.runs.load(Ordering::SeqCst) < rounds / 4 {
                    round += 1;
                    set_role([Role::TimeSharing, Role::Sleeper][round as usize / 64 % 2]);
                    let one = &all[round as usize % all.len()];
                    let brief = Duration::from_micros(20);
                    // Few of them sleep: a signal that comes between two instructions is what is wanted.
                    match round % 40 {
                        // The handlers go on: one of them will raise it.
                        0 => consumed += u32::from(one.down().is_ok()),
                        1 => consumed += u32::from(any.wait().is_ok()),
                        2 => consumed += u32::from(one.down_timeout(brief).is_ok()),
                        3 => consumed += taken(&any, brief),
                        n if n % 4 == 0 => {
                            one.up().unwrap();
                            given += 1;
                        }
                        n if n % 4 == 1 => {
                            one.up_many(2).unwrap();
                            given += 2;
                        }
                        n if n % 4 == 2 => consumed += u32::from(one.try_down().is_ok()),
                        _ => consumed += u32::from(any.try_wait().is_ok()),
                    }
                }
                (given, consumed)
            }
        });
        let (more, less) = worker.join().unwrap();
        stop.store(true, Ordering::SeqCst);
        given.fetch_add(more, Ordering::SeqCst);
        consumed.fetch_add(less, Ordering::SeqCst);
    });
    let there: u32 = targets.all.iter().map(Semaphore::value).sum();
    let of = |count: &AtomicU32| count.load(Ordering::SeqCst);
    assert_eq!(there + of(&consumed), before + of(&given) + of(&targets.added));
    assert_eq!((of(&targets.refused), of(&targets.errno_lost), of(&targets.depth)), (0, 0, 0));
    assert!(targets.all.iter().all(|one| one.waiters().is_empty()));
}

#[test]
#[ignore = "storm: signals that race everything"]
fn handlers_raise_private_semaphores_in_the_middle_of_everything() {
    let _turn = House::new("handlers-private");
    raised_while_everything_goes_on(vec![Semaphore::private(0).unwrap()], ROUNDS);
    let two = [Semaphore::private(0), Semaphore::private_barging(0)];
    raised_while_everything_goes_on(two.map(Result::unwrap).into(), ROUNDS);
}

#[test]
#[ignore = "storm: signals that race everything"]
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
        let _storm = Storm::new();
        let mut given = 0;
        while targets.deepest.load(Ordering::SeqCst) < 2 || targets.runs.load(Ordering::SeqCst) < 4_000 {
            targets.all[given as usize % 2].up().unwrap();
            given += 1;
        }
        given
    });
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
        let members = || Arena::open("default").unwrap().members().len();
        let before = members();
        let stranger = std::thread::spawn(move || {
            let storm = Storm::new();
            while targets.runs.load(Ordering::SeqCst) < 4_000 {
                std::hint::spin_loop();
            }
            drop(storm);
            members()
        });
        assert_eq!(stranger.join().unwrap(), before, "the stranger has joined");
        stop.store(true, Ordering::SeqCst);
        consumed = consumer.join().unwrap();
    });
    let of = |count: &AtomicU32| count.load(Ordering::SeqCst);
    assert_eq!((of(&targets.refused), of(&targets.errno_lost)), (0, 0));
    assert_eq!(consumed + semaphore.value(), of(&targets.added));
}

/// A forked child's handlers raise what it has used itself: its parent's named semaphore, and its own copy of a private one.
#[test]
fn a_handler_may_raise_in_a_forked_child() {
    const TIMES: i32 = 100;
    let _house = House::new("handlers-forked");
    let (named, private) = (Semaphore::create("s", 0).unwrap(), Semaphore::private(0).unwrap());
    named.prepare_handlers().unwrap();
    let targets = aim(vec![named.clone(), private.clone()]);
    // SAFETY: the child uses what chappe promises to work after a fork, and exits without cleaning up.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let used = named.try_down().is_err() && private.try_down().is_err() && named.prepare_handlers().is_ok();
        for _ in 0..TIMES {
            // SAFETY: the handler is installed.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        let of = |count: &AtomicU32| count.load(Ordering::SeqCst);
        let good = used && of(&targets.refused) == 0 && named.value() + private.value() == of(&targets.added);
        // SAFETY: nothing of the parent's is cleaned up.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a valid place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child missed some");
    // Each second run raises by two, now the one, now the other.
    assert!((1..TIMES as u32).contains(&named.value()), "{}", named.value());
    assert_eq!(private.value(), 0);
}
