//! Plan 9's words between threads, between processes, and in signal handlers.

use chappe::plan9::{Lock, Plan9Error, Usem, rescues, semacquire, semacquire_at, semrelease, semrelease_at};
use std::cell::UnsafeCell;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Zeroed memory that this process shares with the children it forks, for the rest of its life.
///
/// # Safety
/// Zeroes are a `T`, and it may be shared between processes: it is made of atomics, or looked after by the caller.
unsafe fn shared<T>() -> &'static T {
    // SAFETY: the caller's promise; a fresh page is zeroed, and aligned for anything here.
    unsafe { &*page().cast::<T>() }
}

fn page() -> *mut libc::c_void {
    // SAFETY: the kernel chooses the place; nothing of ours is replaced.
    let page = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

fn words() -> &'static [AtomicI32; 4] {
    // SAFETY: zeroes are atomics.
    unsafe { shared() }
}

/// A forked copy of this process that does `work` and ends.
struct Child(libc::pid_t);

impl Child {
    fn fork(work: impl FnOnce()) -> Child {
        // SAFETY: the child touches no lock that another thread may have held but the allocator's, which the C library
        // looks after, and ends without cleaning up.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_ok();
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(if done { 0 } else { 101 }) };
        }
        Child(pid)
    }

    fn send(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(self.0, signal) }, 0);
    }

    fn wait(&self, options: i32) -> i32 {
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, options) }, self.0);
        status
    }

    fn end(&self) {
        self.send(libc::SIGKILL);
        self.wait(0);
    }

    fn succeeds(self) {
        assert_eq!(self.wait(0), 0, "the child failed; its message is above");
    }

    /// Waits until its only thread sleeps, in the only place where it can.
    fn asleep(&self) {
        let stat = format!("/proc/{}/stat", self.0);
        while !std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" S") {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn acquire(word: &AtomicI32) {
    loop {
        match semacquire(word, true) {
            Ok(taken) => return assert!(taken),
            Err(e) => assert_eq!(e, Plan9Error::Interrupted),
        }
    }
}

#[test]
#[ignore = "storm: processes that race"]
fn a_word_in_shared_memory_joins_processes() {
    let [ping, pong, ..] = words();
    let child = Child::fork(|| {
        for _ in 0..20_000 {
            acquire(ping);
            semrelease(pong, 1).unwrap();
        }
        assert_eq!(rescues(), 0);
    });
    for _ in 0..20_000 {
        semrelease(ping, 1).unwrap();
        acquire(pong);
    }
    child.succeeds();
    assert_eq!((ping.load(Ordering::SeqCst), pong.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(rescues(), 0);
}

#[test]
#[ignore = "storm: threads that race"]
fn nothing_is_lost_and_nothing_made() {
    let (word, inside) = (AtomicI32::new(2), AtomicI32::new(0));
    let enter = |most: i32| {
        assert!(inside.fetch_add(1, Ordering::SeqCst) < most);
        inside.fetch_sub(1, Ordering::SeqCst);
    };
    std::thread::scope(|s| {
        for t in 0..4 {
            let (word, enter) = (&word, &enter);
            s.spawn(move || {
                for round in 0..30_000 {
                    if (round + t) % 3 != 0 {
                        acquire(word);
                    } else if !semacquire(word, false).unwrap() {
                        continue;
                    }
                    enter(2);
                    semrelease(word, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(word.into_inner(), 2);
    assert_eq!(rescues(), 0);
}

#[test]
#[ignore = "storm: threads that race"]
fn one_release_wakes_as_many_as_it_gives() {
    let (word, back) = (AtomicI32::new(0), AtomicI32::new(0));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..5_000 {
                    acquire(&word);
                    semrelease(&back, 1).unwrap();
                }
            });
        }
        for _ in 0..5_000 {
            semrelease(&word, 4).unwrap();
            (0..4).for_each(|_| acquire(&back));
        }
    });
    assert_eq!((word.into_inner(), back.into_inner()), (0, 0));
    assert_eq!(rescues(), 0);
}

#[test]
#[ignore = "storm: threads that race"]
fn the_greatest_values_are_kept_under_contention() {
    let word = AtomicI32::new(i32::MAX - 2);
    let refused = AtomicU32::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for round in 0..20_000 {
                    match semrelease(&word, 1 + round % 2) {
                        Ok(now) => {
                            assert!(now > 0);
                            (0..1 + round % 2).for_each(|_| acquire(&word));
                        }
                        Err(Plan9Error::Overflow { .. }) => {
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(e) => panic!("{e}"),
                    }
                }
            });
        }
    });
    assert_eq!(word.load(Ordering::SeqCst), i32::MAX - 2);
    semrelease(&word, 2).unwrap();
    assert!(matches!(semrelease(&word, 1), Err(Plan9Error::Overflow { value: i32::MAX, count: 1, .. })));
}

/// The plainest use from C or with foreign memory: an address, and what is wrong with it.
#[test]
fn bad_words_are_refused_by_name() {
    let base = page().cast::<i32>();
    let odd = base.cast::<u8>().wrapping_add(2).cast::<i32>();
    // SAFETY: the page is ours and stays; null and misaligned addresses are refused.
    unsafe {
        assert_eq!(semrelease_at(base, 1), Ok(1));
        assert_eq!(semacquire_at(base, true), Ok(true));
        assert_eq!(semacquire_at(base, false), Ok(false));
        assert_eq!(semacquire_at(odd, true), Err(Plan9Error::Misaligned { address: odd as usize }));
        assert_eq!(semrelease_at(odd, 1), Err(Plan9Error::Misaligned { address: odd as usize }));
        assert_eq!(semacquire_at(std::ptr::null_mut(), true), Err(Plan9Error::Null));
        assert_eq!(semrelease_at(std::ptr::null_mut(), 1), Err(Plan9Error::Null));
        assert_eq!(semrelease_at(base, -1), Err(Plan9Error::NegativeCount { count: -1 }));
        *base = -3;
        let refused = Plan9Error::Negative { address: base as usize, value: -3 };
        assert_eq!(semacquire_at(base, true), Err(refused));
        assert_eq!(semrelease_at(base, 1), Err(refused));
        assert_eq!(*base, -3);
    }
}

#[test]
#[ignore = "storm: threads that race"]
fn an_acquirer_may_unmap_the_word_at_once() {
    for _ in 0..300 {
        let page = page();
        let address = page as usize;
        // SAFETY: the word is there until the release has raised it.
        let releaser = std::thread::spawn(move || unsafe { semrelease_at(address as *mut i32, 1) });
        // SAFETY: the word is there until this process unmaps it, which no other does.
        while unsafe { semacquire_at(page.cast(), true) } != Ok(true) {}
        // SAFETY: the releaser uses no more than the address.
        assert_eq!(unsafe { libc::munmap(page, 4096) }, 0);
        assert_eq!(releaser.join().unwrap(), Ok(1));
    }
}

#[test]
fn a_wake_up_that_died_is_made_good() {
    let [word, ..] = words();
    let child = Child::fork(|| {
        acquire(word);
        assert_eq!(rescues(), 1);
    });
    child.asleep();
    // What a semrelease leaves that is killed before its wake-up.
    word.fetch_add(1, Ordering::SeqCst);
    child.succeeds();
}

/// Two permits among three processes that sleep for them: a killed one may have had one, and no more.
#[test]
#[ignore = "storm: kills at random"]
fn a_killed_process_takes_along_one_permit_at_most() {
    let [word, rounds, ..] = words();
    let more = |by: i32| {
        let seen = rounds.load(Ordering::SeqCst);
        while rounds.load(Ordering::SeqCst) < seen + by {
            std::thread::yield_now();
        }
    };
    let work = || loop {
        acquire(word);
        rounds.fetch_add(1, Ordering::SeqCst);
        semrelease(word, 1).unwrap();
    };
    for kill in 0..10 {
        word.store(2, Ordering::SeqCst);
        let children = [Child::fork(work), Child::fork(work), Child::fork(work)];
        more(50 + kill * 7);
        children[0].end();
        // The others go on, whatever the dead one had.
        more(50);
        children[1..].iter().for_each(Child::end);
        let left = word.load(Ordering::SeqCst);
        assert!((0..=2).contains(&left), "{left} are left of 2");
    }
}

/// Has `handler` called for a signal.
fn on(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: a handler that touches atomics and the words only; the action is valid for the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn send<T>(thread: &JoinHandle<T>, signal: i32) {
    // SAFETY: the thread has not been joined. Should it have ended, nothing happens.
    unsafe { libc::pthread_kill(thread.as_pthread_t(), signal) };
}

extern "C" fn nothing(_signal: i32) {}

#[test]
fn any_handled_signal_interrupts() {
    for flags in [0, libc::SA_RESTART] {
        on(libc::SIGUSR1, nothing, flags);
        let [word, ..] = words();
        let waiter = std::thread::spawn(|| semacquire(word, true));
        // Until one meets it asleep. Should none end the sleep, the word does, and the answer is another.
        for _ in 0..60_000 {
            if waiter.is_finished() {
                break;
            }
            send(&waiter, libc::SIGUSR1);
            std::thread::sleep(Duration::from_millis(1));
        }
        semrelease(word, 1).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Plan9Error::Interrupted), "flags {flags:#x}");
        assert_eq!(word.load(Ordering::SeqCst), 1, "nothing was taken");
    }
}

#[test]
fn a_signal_without_a_handler_does_not_interrupt() {
    let [word, ..] = words();
    let child = Child::fork(|| assert_eq!(semacquire(word, true), Ok(true)));
    child.asleep();
    child.send(libc::SIGSTOP);
    child.wait(libc::WUNTRACED);
    child.send(libc::SIGCONT);
    child.asleep();
    // Ignored by default.
    child.send(libc::SIGWINCH);
    child.asleep();
    semrelease(word, 1).unwrap();
    child.succeeds();
}

static GIVEN_BY_HANDLER: AtomicI32 = AtomicI32::new(0);
static RELEASED: AtomicI32 = AtomicI32::new(0);

extern "C" fn releases(_signal: i32) {
    if semrelease(&GIVEN_BY_HANDLER, 1).is_ok() {
        RELEASED.fetch_add(1, Ordering::SeqCst);
    }
}

/// Repeats `work` while handlers release the word every 50 us, wherever this thread is then, until 3000 have.
fn storm(work: impl Fn()) {
    // SAFETY: the event and the times are valid for the calls; the timer is ours and ends here.
    let timer = unsafe {
        let mut timer: libc::timer_t = std::mem::zeroed();
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGUSR2;
        event.sigev_notify_thread_id = libc::gettid();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        let often = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        let times = libc::itimerspec { it_interval: often, it_value: often };
        assert_eq!(libc::timer_settime(timer, 0, &times, std::ptr::null_mut()), 0);
        timer
    };
    let until = RELEASED.load(Ordering::SeqCst) + 3_000;
    while RELEASED.load(Ordering::SeqCst) < until {
        work();
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
}

#[test]
#[ignore = "storm: signals that race everything"]
fn a_handler_may_release_in_the_middle_of_anything() {
    let (word, taken) = (&GIVEN_BY_HANDLER, AtomicI32::new(0));
    for flags in [0, libc::SA_RESTART] {
        on(libc::SIGUSR2, releases, flags);
        // In the middle of another semrelease, and of a semacquire that finds something.
        storm(|| {
            semrelease(word, 1).unwrap();
            acquire(word);
        });
        assert_eq!(word.load(Ordering::SeqCst) + taken.load(Ordering::SeqCst), RELEASED.load(Ordering::SeqCst));
        // In the middle of a semacquire that sleeps: only the handlers give.
        while semacquire(word, false).unwrap() {
            taken.fetch_add(1, Ordering::SeqCst);
        }
        storm(|| {
            acquire(word);
            taken.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(word.load(Ordering::SeqCst) + taken.load(Ordering::SeqCst), RELEASED.load(Ordering::SeqCst));
    }
}

/// A lock and a number that it guards, both in a page that was zero.
#[repr(C)]
struct Guarded {
    lock: Lock,
    sum: UnsafeCell<u64>,
}

#[test]
#[ignore = "storm: processes that race"]
fn zeroed_memory_is_an_unlocked_lock_between_processes() {
    // SAFETY: zeroes are an unlocked lock and a number, which is touched by its holder only.
    let page = unsafe { shared::<Guarded>() };
    let add = || {
        for round in 0..20_000 {
            if round % 2 == 0 || !page.lock.canlock() {
                page.lock.lock();
            }
            // SAFETY: we hold the lock.
            unsafe { *page.sum.get() += 1 };
            page.lock.unlock();
        }
        assert_eq!(rescues(), 0);
    };
    let children: Vec<Child> = (0..3).map(|_| Child::fork(add)).collect();
    add();
    children.into_iter().for_each(Child::succeeds);
    assert!(page.lock.canlock());
    // SAFETY: we hold the lock.
    assert_eq!(unsafe { *page.sum.get() }, 80_000);
}

#[test]
#[ignore = "storm: processes that race"]
fn a_usem_counts_between_processes() {
    // SAFETY: zeroes are three semaphores of nothing.
    let [there, back, few] = unsafe { shared::<[Usem; 3]>() };
    let inside = &words()[0];
    (0..2).for_each(|_| few.release().unwrap());
    let pass = || {
        for round in 0..10_000 {
            if round % 2 == 0 || !few.try_acquire() {
                few.acquire().unwrap();
            }
            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
            inside.fetch_sub(1, Ordering::SeqCst);
            few.release().unwrap();
        }
        assert_eq!(rescues(), 0);
    };
    let mut children: Vec<Child> = (0..3).map(|_| Child::fork(pass)).collect();
    children.push(Child::fork(|| {
        for _ in 0..10_000 {
            there.acquire().unwrap();
            back.release().unwrap();
        }
    }));
    for _ in 0..10_000 {
        there.release().unwrap();
        back.acquire().unwrap();
    }
    children.into_iter().for_each(Child::succeeds);
    assert!(!there.try_acquire() && !back.try_acquire());
    assert!(few.try_acquire() && few.try_acquire() && !few.try_acquire());
    assert_eq!(rescues(), 0);
}

#[test]
fn an_unlock_of_nobodys_lock_is_told() {
    let e = std::panic::catch_unwind(|| Lock::new().unlock()).unwrap_err();
    assert!(e.downcast_ref::<String>().unwrap().contains("nobody holds"));
}
