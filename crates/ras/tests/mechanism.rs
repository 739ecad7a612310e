//! The mechanism chosen at start-up: each one excludes, each is forced or refused as the environment says, and each waits asleep.

#![cfg(not(feature = "sim"))]

mod alone;

use chappe_ras::gate;
use chappe_ras::mechanism::tas::{self, Sequences};
use chappe_ras::mechanism::{self, Flag, Mechanism, MechanismError};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// As its holder.
fn release(flag: &Flag) {
    // SAFETY: each test that calls it has it, or is the one of a mechanism that can tell.
    unsafe { flag.release() };
}

struct Plain(UnsafeCell<u64>);
// SAFETY: that is what is tried; each access is volatile.
unsafe impl Sync for Plain {}

fn add(counter: &Plain) {
    // SAFETY: under a flag.
    unsafe { counter.0.get().write_volatile(counter.0.get().read_volatile() + 1) };
}

fn seconds() -> Duration {
    let soak = std::env::var("RAS_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs_f64(soak.unwrap_or(0.5))
}

/// Four threads add under it for a while, once at least, and this one takes the processor from them. Answers how many additions
/// were lost of how many.
fn count(step: impl Fn(&Plain) + Sync) -> (u64, u64) {
    let (counter, over, all) = (Plain(UnsafeCell::new(0)), AtomicBool::new(false), AtomicU64::new(0));
    let counter = &counter;
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let mut mine = 0;
                loop {
                    step(counter);
                    mine += 1;
                    // Relaxed, both: looked at once all have ended.
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
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
    // Relaxed: all have ended.
    let all = all.load(Ordering::Relaxed);
    // SAFETY: as above.
    (all - unsafe { counter.0.get().read_volatile() }, all)
}

/// Runs it in a thread, which is kept to one processor if the mechanism is for one.
fn under(mechanism: Mechanism, act: impl FnOnce() + Send + 'static) {
    let kept = move || {
        if mechanism == Mechanism::Sequence {
            alone::one_processor();
        }
        act();
    };
    std::thread::spawn(kept).join().unwrap();
}

/// Whether it is there; else a line says why not.
fn there(test: &str, mechanism: Mechanism) -> bool {
    let why = mechanism::is_there(mechanism).err();
    if let Some(why) = &why {
        println!("not tested: {test}: {why}");
    }
    why.is_none()
}

#[test]
#[ignore = "storm: threads that race for seconds"]
fn each_mechanism_excludes() {
    for mechanism in Mechanism::ALL {
        alone::run("the_forced_mechanism_excludes", &[("CHAPPE_RAS", mechanism.name())]);
    }
}

/// In a process of its own.
#[test]
fn the_forced_mechanism_excludes() {
    let test = "the_forced_mechanism_excludes";
    if !alone::is(test) {
        return;
    }
    let wanted: Mechanism = std::env::var("CHAPPE_RAS").unwrap().parse().unwrap();
    under(wanted, move || {
        if !there(test, wanted) {
            assert!(matches!(mechanism::try_chosen(), Err(MechanismError::Unavailable { .. })));
            assert!(std::panic::catch_unwind(Flag::new).is_err(), "no other takes its place");
            return;
        }
        let chosen = mechanism::chosen();
        assert_eq!((chosen.mechanism, chosen.why), (wanted, format!("forced by CHAPPE_RAS={wanted}")));
        let flag = Flag::new();
        assert_eq!(flag.mechanism(), wanted);
        let (lost, all) = count(|counter| {
            flag.acquire();
            add(counter);
            release(&flag);
        });
        println!("  {wanted}: {lost} of {all} lost");
        assert!(lost == 0 && all > 0);
        let (lost, all) = count(|counter| {
            while !flag.try_acquire() {
                std::thread::yield_now();
            }
            add(counter);
            release(&flag);
        });
        println!("  {wanted}, trying: {lost} of {all} lost");
        assert!(lost == 0 && all > 0);
    });
}

#[test]
fn a_waiter_is_asleep_until_the_release() {
    let _watch = alone::watch("a_waiter_is_asleep_until_the_release");
    for mechanism in Mechanism::ALL {
        under(mechanism, move || {
            if !there("a_waiter_is_asleep_until_the_release", mechanism) {
                return;
            }
            let flag = Arc::new(Flag::of(mechanism).unwrap());
            for _ in 0..20 {
                flag.acquire();
                let (its, had) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
                let waiter = std::thread::spawn({
                    let (flag, its, had) = (flag.clone(), its.clone(), had.clone());
                    move || {
                        assert!(!flag.try_acquire(), "it is held");
                        its.store(chappe_plat::process::tid(), Ordering::SeqCst);
                        flag.acquire();
                        had.store(true, Ordering::SeqCst);
                        release(&flag);
                    }
                });
                let sleeps = || {
                    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", its.load(Ordering::SeqCst)));
                    stat.is_ok_and(|s| s.rsplit(')').next().unwrap().trim_start().starts_with('S'))
                };
                while !sleeps() {
                    std::thread::yield_now();
                }
                assert!(!had.load(Ordering::SeqCst), "{mechanism}");
                release(&flag);
                waiter.join().unwrap();
                assert!(had.load(Ordering::SeqCst));
            }
        });
    }
}

#[test]
fn a_name_that_is_none_says_which_there_are() {
    if !alone::is("a_name_that_is_none_says_which_there_are") {
        alone::run("a_name_that_is_none_says_which_there_are", &[("CHAPPE_RAS", "semaphore")]);
        return;
    }
    let error = mechanism::try_chosen().unwrap_err();
    assert_eq!(error, MechanismError::Unknown("semaphore".to_owned()));
    let text = error.to_string();
    for part in ["CHAPPE_RAS", "`semaphore`", "sequence", "biased", "interlocked", "system-call"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(std::panic::catch_unwind(Flag::new).is_err() && std::panic::catch_unwind(mechanism::chosen).is_err());
    assert_eq!(mechanism::try_chosen(), Err(error), "it stays so");
}

#[test]
fn a_sequence_is_refused_to_who_may_run_on_several_processors() {
    let test = "a_sequence_is_refused_to_who_may_run_on_several_processors";
    if !alone::is(test) {
        alone::run(test, &[("CHAPPE_RAS", "sequence")]);
        return;
    }
    if chappe_plat::topology::allowed().unwrap().len() < 2 || !gate::sequences() {
        println!("not tested: {test}: there is one processor, or there are no sequences");
        return;
    }
    let text = mechanism::try_chosen().unwrap_err().to_string();
    assert!(text.contains("`sequence` is not there") && text.contains("taskset"), "{text}");
    assert!(Flag::of(Mechanism::Sequence).is_err());
}

#[test]
fn it_is_chosen_once() {
    let test = "it_is_chosen_once";
    if !alone::is(test) {
        alone::run(test, &[]);
        return;
    }
    let before = Flag::of(Mechanism::SystemCall).map(drop);
    mechanism::force(Mechanism::Interlocked).unwrap();
    mechanism::force(Mechanism::Interlocked).unwrap();
    assert_eq!(mechanism::chosen().mechanism, Mechanism::Interlocked);
    if before.is_ok() {
        assert_eq!(mechanism::force(Mechanism::SystemCall), Err(MechanismError::Late(Mechanism::Interlocked)));
    }
    assert_eq!(Flag::new().mechanism(), Mechanism::Interlocked);
}

/// A fork in the midst of another thread's first choice: which takes a while, since the self-test is part of it.
#[test]
#[ignore = "storm: forks that race a thread"]
fn a_child_forked_during_the_first_choice_chooses_for_itself() {
    let test = "a_child_forked_during_the_first_choice_chooses_for_itself";
    if !alone::is(test) {
        for _ in 0..20 {
            alone::run(test, &[]);
        }
        return;
    }
    let begun = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            begun.store(true, Ordering::SeqCst);
            mechanism::chosen();
        });
        while !begun.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        for _ in 0..5 {
            // SAFETY: the child chooses, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends this process if it waits for ever.
                unsafe { libc::alarm(30) };
                let chosen = mechanism::try_chosen().is_ok() && Flag::new().try_acquire();
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!chosen)) };
            }
            let mut status = 0;
            // SAFETY: our own child. It would wait for ever for a choice that nobody makes.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    });
}

#[test]
fn left_alone_it_takes_what_is_right_here() {
    let test = "left_alone_it_takes_what_is_right_here";
    if !alone::is(test) {
        for without in ["", "area", "fence"] {
            alone::run(test, &[("CHAPPE_TEST_WITHOUT", without), ("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]);
        }
        return;
    }
    let without = std::env::var("CHAPPE_TEST_WITHOUT").unwrap();
    let refused = match without.as_str() {
        "area" => alone::refuse(libc::SYS_rseq, &[]),
        "fence" => alone::refuse(libc::SYS_membarrier, &[]),
        _ => true,
    };
    if !refused {
        println!("not tested: {test}: the kernel takes no filter");
        return;
    }
    assert!(without.is_empty() || !gate::sequences());
    let right = if !gate::sequences() {
        Mechanism::Interlocked
    } else if chappe_plat::topology::possible() == 1 {
        Mechanism::Sequence
    } else if mechanism::is_there(Mechanism::Biased).is_ok() {
        Mechanism::Biased
    } else {
        Mechanism::Interlocked
    };
    let chosen = mechanism::chosen();
    println!("  without `{without}`: {} ({})", chosen.mechanism, chosen.why);
    assert_eq!(chosen.mechanism, right);
    if !gate::sequences() {
        assert!(chosen.why.contains("no restartable sequences"));
        for mechanism in [Mechanism::Sequence, Mechanism::Biased] {
            assert!(matches!(mechanism::is_there(mechanism), Err(MechanismError::Unavailable { .. })));
        }
        assert!(Sequences::there().is_none());
    }
    let flag = Flag::new();
    flag.acquire();
    assert!(!flag.try_acquire());
    release(&flag);
}

#[test]
fn without_the_kernels_lock_there_is_no_system_call() {
    let test = "without_the_kernels_lock_there_is_no_system_call";
    if !alone::is(test) {
        alone::run(test, &[("CHAPPE_RAS", "system-call")]);
        return;
    }
    const PRIVATE: u32 = 128;
    if !alone::refuse(libc::SYS_futex, &[6 | PRIVATE, 7 | PRIVATE, 8 | PRIVATE]) {
        println!("not tested: {test}: the kernel takes no filter");
        return;
    }
    let text = mechanism::try_chosen().unwrap_err().to_string();
    assert!(text.contains("`system-call` is not there") && text.contains("38"), "{text}");
}

/// Where the mechanism can tell.
#[test]
fn the_kernels_lock_tells_who_does_what_it_may_not() {
    if !there("the_kernels_lock_tells_who_does_what_it_may_not", Mechanism::SystemCall) {
        return;
    }
    let refuses = |act: fn(&Flag)| {
        let flag = Flag::of(Mechanism::SystemCall).unwrap();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&flag))).is_err()
    };
    assert!(refuses(|flag| {
        flag.acquire();
        flag.acquire();
    }));
    assert!(refuses(release));
}

/// Each has a flag, and waits for the other's.
#[test]
fn the_kernel_tells_who_waits_in_a_circle() {
    if !there("the_kernel_tells_who_waits_in_a_circle", Mechanism::SystemCall) {
        return;
    }
    let flags = [0, 1].map(|_| Flag::of(Mechanism::SystemCall).unwrap());
    let both = std::sync::Barrier::new(2);
    let told: Vec<String> = std::thread::scope(|s| {
        let wait = |me: usize| {
            let (flags, both) = (&flags, &both);
            s.spawn(move || {
                flags[me].acquire();
                both.wait();
                let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| flags[1 - me].acquire()));
                if got.is_ok() {
                    release(&flags[1 - me]);
                }
                release(&flags[me]);
                got.err().and_then(|e| e.downcast_ref::<&str>().map(|t| (*t).to_owned()))
            })
        };
        [wait(0), wait(1)].into_iter().filter_map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(told.len(), 1, "the other gets it then");
    assert!(told[0].contains("waits for one that this thread has"), "{told:?}");
}

#[test]
fn each_test_and_set_answers_what_the_word_held() {
    let test = "each_test_and_set_answers_what_the_word_held";
    let once = |name: &str, set: &dyn Fn(&AtomicU32) -> bool, release: &dyn Fn(&AtomicU32)| {
        let word = AtomicU32::new(0);
        for _ in 0..3 {
            assert!(!set(&word), "{name}");
            assert!(word.load(Ordering::SeqCst) != 0 && set(&word) && set(&word), "{name}");
            release(&word);
            assert_eq!(word.load(Ordering::SeqCst), 0, "{name}");
        }
    };
    once("interlocked_inline", &tas::interlocked_inline, &tas::release);
    once("interlocked_called", &tas::interlocked_called, &tas::release);
    if there(test, Mechanism::SystemCall) {
        once("system_call", &tas::system_call, &|word| assert!(tas::system_call_release(word)));
    }
    let Some(s) = Sequences::there() else {
        println!("not tested: {test}: there are no sequences here");
        return;
    };
    once("inline_sequence", &|word| tas::inline_sequence(s, word), &tas::release);
    once("called_sequence", &|word| tas::called_sequence(s, word), &tas::release);
    once("sequence_through_pointer", &|word| tas::sequence_through_pointer(s, word), &tas::release);
    let made = tas::synthesised().unwrap();
    once("synthesised", &|word| made.test_and_set(word), &tas::release);
}

/// The sequence, delayed at each of its steps so that it is come into there; beside it the same by an interlocked
/// instruction, which it falls back to.
#[test]
#[ignore = "storm: threads that preempt one another for seconds"]
#[cfg(feature = "inject")]
fn the_sequence_excludes_when_come_into_at_each_step() {
    let test = "the_sequence_excludes_when_come_into_at_each_step";
    let Some(s) = Sequences::there() else {
        println!("not tested: {test}: there are no sequences here");
        return;
    };
    under(Mechanism::Sequence, move || {
        for (at, turns) in chappe_ras::delays::TURNS.iter().enumerate().take(3) {
            turns.store(3_000, Ordering::SeqCst);
            let (word, turn) = (AtomicU32::new(0), AtomicU32::new(0));
            let (lost, all) = count(|counter| {
                // Relaxed: only to mix them.
                let interlocked = turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(8);
                while if interlocked { tas::interlocked_called(&word) } else { tas::inline_sequence(s, &word) } {
                    std::thread::yield_now();
                }
                // Long enough to be preempted within: a thread that comes in unseen meanwhile loses one of two.
                // SAFETY: the thread that has the flag is alone, or the test finds that it is not.
                let seen = unsafe { counter.0.get().read_volatile() };
                (0..100).for_each(|_| std::hint::spin_loop());
                // SAFETY: as above.
                unsafe { counter.0.get().write_volatile(seen + 1) };
                tas::release(&word);
            });
            turns.store(0, Ordering::SeqCst);
            println!("  step {at}: {lost} of {all} lost");
            assert!(lost == 0 && all > 0, "step {at}");
        }
    });
}

/// A debugger that steps aborts the sequence at each step: it is tried a few times, and then done by other means.
#[test]
fn a_single_stepped_thread_makes_progress() {
    let test = "a_single_stepped_thread_makes_progress";
    let Some(s) = Sequences::there() else {
        println!("not tested: {test}: there are no sequences here");
        return;
    };
    const MOST: u32 = 200_000;
    // SAFETY: the child is traced by this thread, touches its own words, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let word = AtomicU32::new(0);
        // SAFETY: as above.
        let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME) == 0 && libc::raise(libc::SIGSTOP) == 0 };
        let right = (0..5).all(|_| {
            let right = !tas::called_sequence(s, &word) && tas::called_sequence(s, &word);
            tas::release(&word);
            right
        });
        // SAFETY: ends this process.
        unsafe { libc::_exit(if traced { i32::from(!right) } else { 2 }) };
    }
    let (mut status, mut steps) = (0, 0);
    // SAFETY: our own child.
    unsafe {
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        while libc::WIFSTOPPED(status) && steps < MOST {
            libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            steps += 1;
        }
        if libc::WIFSTOPPED(status) {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, &raw mut status, 0);
        }
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 2 {
        println!("not tested: {test}: nobody may trace here");
        return;
    }
    println!("  {steps} steps");
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "after {steps} steps: {status:#x}");
}
