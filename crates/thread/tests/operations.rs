//! Operations of one light thread on another: each operation in each state of the target, called by a light thread, by
//! the target itself and by a kernel thread. One proc, so that the order is known.

use chappe_sync::{DownError, LockError, Mutex as SharedMutex, Semaphore, select, tube};
use chappe_thread::{
    Builder, Destroyed, JoinHandle, Refusal, Runtime, Thread, block_in_place, current, park, set_signal, sleep, spawn,
    wait, wait_timeout, yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

fn one<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    Runtime::new(1).unwrap().run(body)
}

/// Lets all others come to where they wait.
fn settle() {
    (0..20).for_each(|_| yield_now());
}

/// A thread that counts its turns until it is destroyed.
fn counter() -> (JoinHandle<()>, Arc<AtomicU32>) {
    let turns = Arc::new(AtomicU32::new(0));
    let own = Arc::clone(&turns);
    let thread = spawn(move || {
        loop {
            own.fetch_add(1, SeqCst);
            yield_now();
        }
    });
    (thread, turns)
}

fn is_destroyed<T>(thread: JoinHandle<T>) -> bool {
    thread.join().is_err_and(|why| why.is::<Destroyed>())
}

#[test]
fn each_operation_does_what_the_diagram_says() {
    one(|| {
        let (handle, turns) = counter();
        let thread = handle.thread();
        let goes_on = || {
            let before = turns.load(SeqCst);
            settle();
            turns.load(SeqCst) > before
        };
        let interrupted = || {
            let (tx, rx) = tube::bounded(1);
            let say = move || {
                let _ = tx.send(current());
            };
            thread.interrupt(say).unwrap();
            settle();
            rx.try_recv().ok() == Some(thread)
        };
        assert!(goes_on() && interrupted());
        assert_eq!(
            thread.step(),
            Err(if cfg!(target_arch = "x86_64") { Refusal::NotStopped } else { Refusal::Unsupported })
        );
        thread.suspend().unwrap();
        assert!(thread.is_suspended() && !thread.is_out());
        assert!(!goes_on() && thread.is_out());
        // Suspended: it runs interrupts, and is suspended again.
        assert!(interrupted() && !goes_on() && thread.is_out());
        // Suspended, then stopped: it runs none, but when it is resumed.
        thread.stop().unwrap();
        let late = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&late);
        let late_one = move || {
            count.fetch_add(1, SeqCst);
        };
        thread.interrupt(late_one).unwrap();
        assert!(!goes_on() && late.load(SeqCst) == 0);
        thread.resume().unwrap();
        assert!(goes_on() && late.load(SeqCst) == 1 && !thread.is_suspended());
        // Stopped, then suspended: as stopped.
        thread.stop().unwrap();
        assert!(!goes_on());
        thread.suspend().unwrap();
        assert!(!interrupted());
        thread.resume().unwrap();
        assert!(goes_on());
        thread.destroy().unwrap();
        assert_eq!(thread.suspend(), Err(Refusal::Ended));
        settle();
        assert!(!thread.is_alive() && handle.is_finished());
        for refused in [
            thread.suspend(),
            thread.resume(),
            thread.stop(),
            thread.destroy(),
            thread.signal(1),
            thread.interrupt(|| ()),
        ] {
            assert_eq!(refused, Err(Refusal::Ended));
        }
        assert!(is_destroyed(handle));
        // The next has the same number, and is another.
        let next = spawn(park);
        assert_eq!(next.id(), thread.id());
        assert!(next.thread() != thread && thread.destroy().is_err() && Thread::find(next.id()) == Some(next.thread()));
        next.thread().destroy().unwrap();
        assert!(is_destroyed(next));
    });
}

#[test]
fn a_thread_is_destroyed_whatever_it_waits_for_and_gives_back_what_it_holds() {
    one(|| {
        let (tx, rx) = tube::bounded::<String>(0);
        let (buffer, full) = tube::bounded::<String>(1);
        buffer.send("there".into()).unwrap();
        let (never, other) = (tube::never::<u8>(), tube::bounded::<u8>(0));
        let ready = Arc::new(Semaphore::private(0).unwrap());
        let lock = Arc::new(SharedMutex::private(()).unwrap());
        let joined = spawn(park);
        let waiter = joined.thread();
        let (r, t, down) = (rx.clone(), tx.clone(), Arc::clone(&ready));
        let threads = vec![
            spawn(move || drop(rx.recv())),
            spawn(move || assert!(other.1.recv_timeout(Duration::from_secs(100)).is_ok())),
            spawn(move || drop(buffer.send("no room".into()))),
            spawn(move || select! { recv(never) -> _ => (), recv(r) -> _ => () }),
            spawn(move || select! { recv(tube::never::<u8>()) -> _ => (), down(down) -> _ => () }),
            spawn(|| sleep(Duration::from_secs(100))),
            spawn(park),
            spawn(|| assert_eq!(wait(1), 0)),
            spawn(move || drop(joined.join())),
            spawn(|| block_in_place(|| ())),
        ];
        settle();
        let held = Arc::clone(&lock);
        let holder = spawn(move || {
            let _guard = held.lock().unwrap();
            park();
        });
        settle();
        assert!(lock.try_lock().is_err());
        let sender = {
            let (to, from) = tube::bounded::<Arc<()>>(0);
            let message = Arc::new(());
            let weak = Arc::downgrade(&message);
            let sender = spawn(move || drop(to.send(message)));
            settle();
            (sender, weak, from)
        };
        sender.0.thread().destroy().unwrap();
        settle();
        assert!(sender.0.is_finished() && sender.1.strong_count() == 0, "its message goes with it");
        assert!(is_destroyed(sender.0));
        assert!(sender.2.try_recv().is_err());
        for thread in threads.iter().take(threads.len() - 1).chain([&holder]) {
            assert!(!thread.is_finished());
            thread.thread().destroy().unwrap();
        }
        settle();
        let last = threads.len() - 1;
        for (n, thread) in threads.into_iter().enumerate() {
            assert!(thread.is_finished(), "thread {n} goes on");
            assert_eq!(is_destroyed(thread), n != last, "thread {n}");
        }
        assert!(is_destroyed(holder));
        // It was unwound in the middle of its section, which the next one is told.
        assert!(matches!(lock.try_lock(), Err(LockError::OwnerDied(_))));
        drop(full);
        drop(t);
        waiter.unpark();
        // Nobody is in the lines any more.
        assert!(tx.try_send(String::new()).is_err());
        ready.up().unwrap();
        assert!(ready.try_down().is_ok());
    });
}

#[test]
fn a_destroyed_threads_wait_reports_the_interruption() {
    one(|| {
        let never = Arc::new(Semaphore::private(0).unwrap());
        let (down, (tx, rx)) = (Arc::clone(&never), tube::bounded(1));
        let thread = spawn(move || {
            tx.send(matches!(down.down(), Err(DownError::Interrupted))).unwrap();
            yield_now();
            unreachable!("it is over");
        });
        settle();
        thread.thread().destroy().unwrap();
        settle();
        assert_eq!(rx.try_recv(), Ok(true));
        assert!(is_destroyed(thread));
    });
}

#[test]
fn a_suspended_one_whose_handle_is_dropped_goes_on() {
    one(|| {
        for has_begun in [false, true] {
            let (thread, turns) = counter();
            if has_begun {
                settle();
            }
            thread.suspend();
            settle();
            let before = turns.load(SeqCst);
            settle();
            assert_eq!(turns.load(SeqCst), before, "it runs though it is suspended");
            let it = thread.thread();
            drop(thread);
            settle();
            assert!(turns.load(SeqCst) > before, "nobody can resume it any more");
            it.destroy().unwrap();
            settle();
        }
    });
}

#[test]
fn one_that_has_not_begun_or_is_suspended_is_destroyed_too() {
    one(|| {
        let begun = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&begun);
        let fresh = spawn(move || {
            count.fetch_add(1, SeqCst);
        });
        fresh.thread().destroy().unwrap();
        assert!(is_destroyed(fresh));
        assert_eq!((begun.load(SeqCst), Arc::strong_count(&begun)), (0, 1));
        for stop in [Thread::suspend, Thread::stop] {
            let (thread, _) = counter();
            stop(&thread.thread()).unwrap();
            settle();
            assert!(thread.thread().is_out());
            thread.thread().destroy().unwrap();
            settle();
            assert!(thread.is_finished() && is_destroyed(thread));
        }
    });
}

#[test]
fn an_interrupt_comes_in_a_wait_which_goes_on_after_it_and_must_not_wait_itself() {
    one(|| {
        let (tx, rx) = tube::bounded(0);
        let (log, said) = tube::unbounded();
        let receiver = spawn(move || rx.recv().unwrap());
        settle();
        let first = log.clone();
        receiver.thread().interrupt(move || first.send(1).unwrap()).unwrap();
        // Its panic is its own; it says so on the error output.
        receiver.thread().interrupt(park).unwrap();
        receiver.thread().interrupt(move || log.send(2).unwrap()).unwrap();
        settle();
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [1, 2]);
        assert!(!receiver.is_finished());
        tx.send(7).unwrap();
        assert_eq!(receiver.join().unwrap(), 7);
    });
}

#[test]
fn a_signal_calls_what_the_thread_has_named() {
    one(|| {
        let (log, said) = tube::unbounded();
        let thread = spawn(move || {
            let other = log.clone();
            set_signal(3, move || log.send(3).unwrap());
            set_signal(31, move || other.send(31).unwrap());
            park();
        });
        settle();
        for number in [31, 3, 3, 4] {
            thread.thread().signal(number).unwrap();
        }
        settle();
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [3, 31]);
        thread.thread().unpark();
        thread.join().unwrap();
        assert!(std::panic::catch_unwind(|| current().signal(32)).is_err());
    });
}

#[test]
fn events_are_told_once_and_are_not_lost_to_other_waits() {
    one(|| {
        let (tx, rx) = tube::bounded(0);
        let thread = spawn(move || {
            let both = wait(0b11);
            // Told while it waits for something else: kept.
            let message: u32 = rx.recv().unwrap();
            let kept = wait(0b100);
            let none = wait_timeout(0b100, Duration::from_millis(1));
            // In a call that blocks its kernel thread.
            let away = block_in_place(|| wait(1 << 23));
            (both, message, kept, none, away)
        });
        settle();
        thread.thread().notify(0b1000);
        settle();
        thread.thread().notify(0b1);
        settle();
        thread.thread().notify(0b100);
        settle();
        tx.send(5).unwrap();
        while !chappe_thread::image::Image::of(std::process::id()).is_ok_and(|image| {
            image.is_some_and(|i| i.threads.iter().any(|t| t.state == chappe_thread::image::State::Blocking))
        }) {
            yield_now();
        }
        thread.thread().notify(1 << 23);
        assert_eq!(thread.join().unwrap(), (0b1, 5, 0b100, 0, 1 << 23));
    });
}

#[test]
fn operations_come_from_kernel_threads_and_other_procs_as_well() {
    let runtime = Runtime::new(1).unwrap();
    let other = Runtime::new(1).unwrap();
    let turns = Arc::new(AtomicU32::new(0));
    let own = Arc::clone(&turns);
    let thread = runtime.spawn(move || {
        loop {
            own.fetch_add(1, SeqCst);
            yield_now();
        }
    });
    let target = thread.thread();
    let until_out = move || {
        while !target.is_out() {
            std::thread::yield_now();
        }
    };
    target.stop().unwrap();
    until_out();
    let before = turns.load(SeqCst);
    other.run(move || target.resume().unwrap());
    while turns.load(SeqCst) == before {
        std::thread::yield_now();
    }
    other.run(move || target.suspend().unwrap());
    until_out();
    target.destroy().unwrap();
    assert!(is_destroyed(thread));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_stopped_thread_goes_on_one_instruction_at_a_time_and_comes_to_the_same() {
    let runtime = Runtime::new(1).unwrap();
    let at = Arc::new(AtomicU32::new(0));
    let own = Arc::clone(&at);
    let thread = Builder::new().name("stepped").spawn_on(&runtime, move || {
        let (mut a, mut b) = (1.0f64, 1u64);
        park();
        for n in 0..50 {
            own.store(n, SeqCst);
            a = a * 1.5 + 1.0;
            b = b.wrapping_mul(3) + n as u64;
            if n % 10 == 9 {
                yield_now();
            }
        }
        own.store(100, SeqCst);
        (a, b)
    });
    let thread = thread.unwrap();
    let target = thread.thread();
    let until_out = || {
        while !target.is_out() {
            std::thread::yield_now();
        }
    };
    target.stop().unwrap();
    target.unpark();
    until_out();
    assert_eq!(at.load(SeqCst), 0);
    let mut steps = 0u32;
    // It goes through its work, yields included, and is stopped after each instruction.
    while at.load(SeqCst) < 25 {
        target.step().unwrap();
        until_out();
        steps += 1;
        assert!(steps < 1_000_000, "it does not come on");
    }
    assert!(at.load(SeqCst) == 25 && steps > 100, "{steps} steps to {}", at.load(SeqCst));
    target.resume().unwrap();
    let (mut a, mut b) = (1.0f64, 1u64);
    for n in 0..50u64 {
        a = a * 1.5 + 1.0;
        b = b.wrapping_mul(3) + n;
    }
    assert_eq!(thread.join().unwrap(), (a, b));
}

/// One that has ended, and was not joined yet, is no thread any more: what is asked of its number does not reach the next one with the record.
#[test]
fn nothing_is_asked_of_the_next_by_the_number_of_one_that_has_ended() {
    one(|| {
        let handle = spawn(|| ());
        let number = handle.id();
        settle();
        assert!(handle.is_finished());
        let found = Thread::find(number);
        let asked = found.map(|thread| thread.destroy());
        handle.join().unwrap();
        let next = spawn(|| 7);
        assert_eq!(next.id(), number, "the record of the last");
        assert_eq!(next.join().ok(), Some(7), "it was asked of the last to end: {asked:?}");
        assert!(found.is_none());
    });
}

/// What a thread without a handle leaves is dropped by itself when it has ended for all others.
#[test]
fn an_ended_thread_drops_its_own_result() {
    struct Says(tube::Sender<Thread>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.send(current()).unwrap();
        }
    }
    one(|| {
        let (tx, rx) = tube::bounded(1);
        let handle = spawn(move || Says(tx));
        let thread = handle.thread();
        drop(handle);
        let last = rx.recv().unwrap();
        assert_eq!(last, thread);
        settle();
        let next = spawn(|| 7);
        assert_eq!(next.id(), last.id(), "the record of the last");
        assert!(last.destroy().is_err());
        assert_eq!(next.join().ok(), Some(7));
    });
}

/// Several threads wait for one end by a shared handle: each hears of it, also when one of them was destroyed meanwhile.
#[test]
fn all_that_wait_for_one_end_hear_of_it() {
    one(|| {
        let handle = Arc::new(spawn(park));
        let ended = Arc::new(AtomicU32::new(0));
        let waits = || {
            let (handle, ended) = (Arc::clone(&handle), Arc::clone(&ended));
            move || {
                handle.wait_for_end();
                // SeqCst: no other order is of interest.
                ended.fetch_add(1, SeqCst);
            }
        };
        let (first, second, third) = (spawn(waits()), spawn(waits()), spawn(waits()));
        settle();
        third.thread().destroy().unwrap();
        assert!(is_destroyed(third));
        settle();
        handle.thread().unpark();
        settle();
        // SeqCst: no other order is of interest.
        assert_eq!(ended.load(SeqCst), 2);
        [first, second].into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// The same for kernel threads, which sleep on the same word.
#[test]
fn all_kernel_threads_that_wait_for_one_end_hear_of_it() {
    let runtime = Runtime::new(1).unwrap();
    let handle = Arc::new(runtime.spawn(park));
    let (tx, rx) = std::sync::mpsc::channel();
    let waiters = [(); 3].map(|()| {
        let (handle, tx) = (Arc::clone(&handle), tx.clone());
        std::thread::spawn(move || {
            // SAFETY: no pointers.
            tx.send(unsafe { libc::gettid() }).unwrap();
            handle.wait_for_end();
            tx.send(0).unwrap();
        })
    });
    for _ in &waiters {
        let stat = format!("/proc/self/task/{}/stat", rx.recv().unwrap());
        while !std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" S") {
            std::thread::yield_now();
        }
    }
    handle.thread().unpark();
    for _ in &waiters {
        assert_eq!(rx.recv_timeout(Duration::from_secs(60)), Ok(0), "one of them sleeps for ever");
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}
