//! Light threads: how they begin, end, wait and are scheduled. Every test has a runtime of its own, mostly with one proc: then the order is known.

use chappe_sync::{
    DownError, Interrupt, Mutex as SharedMutex, Pool, Select, SelectError, Semaphore, interruptible, select, tube,
};
use chappe_thread::{Builder, Runtime, block_in_place, park, scope, sleep, spawn, try_current, yield_now};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn one<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    Runtime::new(1).unwrap().run(body)
}

fn each_way(body: impl Fn() + Sync) {
    for procs in [1, 2] {
        Runtime::new(procs).unwrap().run(&body);
    }
}

#[test]
fn a_thread_gives_its_result_and_its_panic() {
    each_way(|| {
        assert_eq!(spawn(|| 6 * 7).join().unwrap(), 42);
        let why = spawn(|| -> u32 { std::panic::resume_unwind(Box::new("no")) }).join().unwrap_err();
        assert_eq!(*why.downcast::<&str>().unwrap(), "no");
    });
    // From a kernel thread, too.
    assert_eq!(spawn(|| 7).join().unwrap(), 7);
}

#[test]
fn a_threads_argument_is_dropped_once_however_it_ends() {
    let count = Arc::new(AtomicU32::new(0));
    struct Counts(Arc<AtomicU32>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let runtime = Runtime::new(1).unwrap();
    let outer = Arc::clone(&count);
    runtime.run(move || {
        let new = || Counts(Arc::clone(&outer));
        let c = new();
        spawn(move || drop(c)).join().unwrap();
        let c = new();
        drop(spawn(move || c).join().unwrap());
        let c = new();
        let _ = spawn(move || {
            let _c = c;
            std::panic::resume_unwind(Box::new(()));
        })
        .join();
        assert_eq!(outer.load(SeqCst), 3);
        // Nobody wants the result: before it ends, and after.
        let c = new();
        drop(spawn(move || c));
        let c = new();
        let late = spawn(move || c);
        yield_now();
        assert!(late.is_finished());
        assert_eq!(outer.load(SeqCst), 4);
        drop(late);
        assert_eq!(outer.load(SeqCst), 5);
    });
    // The first is over, and the others have been given back.
    assert_eq!(runtime.live(), 0);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn large_closures_and_results_are_boxed() {
    one(|| {
        let large = [7u8; 5_000];
        let result = spawn(move || large).join().unwrap();
        assert!(result.iter().all(|byte| *byte == 7));
    });
}

#[test]
fn ready_threads_run_in_the_order_in_which_they_became_ready() {
    one(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = (0..5)
            .map(|n| {
                let order = Arc::clone(&order);
                spawn(move || {
                    for _ in 0..2 {
                        order.lock().unwrap().push(n);
                        yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    });
}

#[test]
fn levels_share_the_proc_by_halves() {
    one(|| {
        let counts: Arc<[AtomicU32; 3]> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = [0, 1, 2]
            .into_iter()
            .map(|level| {
                let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
                let body = move || {
                    while !stop.load(SeqCst) {
                        counts[usize::from(level)].fetch_add(1, SeqCst);
                        yield_now();
                    }
                };
                Builder::new().level(level).spawn(body).unwrap()
            })
            .collect();
        let judge = Builder::new().level(0).spawn({
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            move || {
                while counts.iter().map(|c| c.load(SeqCst)).sum::<u32>() < 10_000 {
                    yield_now();
                }
                stop.store(true, SeqCst);
            }
        });
        judge.unwrap().join().unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let [a, b, c] = [0, 1, 2].map(|level| counts[level].load(SeqCst));
        // Level 0 has two threads, of which one counts, and the turns of the levels that have nobody: 5/8. Level 1 has a quarter, level 2
        // an eighth.
        assert!(a.abs_diff(b * 5 / 4) < 100 && b.abs_diff(2 * c) < 100, "{a} {b} {c}");
    });
}

#[test]
fn every_kind_of_tube_carries_messages_between_light_threads() {
    each_way(|| {
        for slots in [Some(0), Some(1), Some(7), None] {
            let (tx, rx) = slots.map_or_else(tube::unbounded, tube::bounded);
            let senders: Vec<_> = (0..4u64)
                .map(|n| {
                    let tx = tx.clone();
                    spawn(move || (0..100).for_each(|m| tx.send(n * 1_000 + m).unwrap()))
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let rx = rx.clone();
                    spawn(move || rx.iter().collect::<Vec<u64>>())
                })
                .collect();
            drop(rx);
            senders.into_iter().for_each(|t| t.join().unwrap());
            let mut all: Vec<u64> = receivers.into_iter().flat_map(|t| t.join().unwrap()).collect();
            all.sort_unstable();
            let expected: Vec<u64> = (0..4).flat_map(|n| (0..100).map(move |m| n * 1_000 + m)).collect();
            assert_eq!(all, expected, "{slots:?}");
        }
        for slots in [0, 3] {
            let (tx, rx) = tube::spsc(slots);
            let sender = spawn(move || (0..100).for_each(|n| tx.send(n).unwrap()));
            assert_eq!(rx.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
            sender.join().unwrap();
        }
    });
}

#[test]
fn light_and_kernel_threads_meet_at_the_same_tubes() {
    for slots in [0, 1, 5] {
        let runtime = Runtime::new(1).unwrap();
        let (tx, rx) = tube::bounded(slots);
        let (back, answers) = tube::bounded(slots);
        std::thread::scope(|s| {
            let (k_rx, k_back) = (rx.clone(), back.clone());
            s.spawn(move || k_rx.iter().for_each(|n: u32| k_back.send(n).unwrap()));
            let k_tx = tx.clone();
            s.spawn(move || (0..200).for_each(|n| k_tx.send(n).unwrap()));
            runtime.run(move || {
                let light = spawn(move || rx.iter().for_each(|n| back.send(n).unwrap()));
                let sender = spawn(move || (200..400).for_each(|n| tx.send(n).unwrap()));
                let mut all: Vec<u32> = answers.iter().collect();
                all.sort_unstable();
                assert_eq!(all, (0..400).collect::<Vec<_>>());
                sender.join().unwrap();
                light.join().unwrap();
            });
        });
    }
}

#[test]
fn a_choice_takes_exactly_one() {
    each_way(|| {
        let (a, b, c) = (tube::bounded::<u32>(0), tube::bounded::<u32>(2), tube::bounded::<u32>(0));
        let done = Arc::new(AtomicU32::new(0));
        let senders: Vec<_> = [a.0.clone(), b.0.clone()]
            .into_iter()
            .map(|tx| spawn(move || (0..300).for_each(|n| tx.send(n).unwrap())))
            .collect();
        let sink = {
            let (rx, done) = (c.1.clone(), Arc::clone(&done));
            spawn(move || {
                for _ in 0..300 {
                    rx.recv().unwrap();
                    done.fetch_add(1, SeqCst);
                }
            })
        };
        let (mut from_a, mut from_b, mut to_c) = (0, 0, 0);
        while from_a + from_b + to_c < 900 {
            if to_c < 300 {
                select! {
                    recv(a.1) -> m => { assert_eq!(m, Ok(from_a)); from_a += 1 },
                    recv(b.1) -> m => { assert_eq!(m, Ok(from_b)); from_b += 1 },
                    send(c.0, to_c) -> r => { r.unwrap(); to_c += 1 },
                }
            } else {
                select! {
                    recv(a.1) -> m => { assert_eq!(m, Ok(from_a)); from_a += 1 },
                    recv(b.1) -> m => { assert_eq!(m, Ok(from_b)); from_b += 1 },
                }
            }
        }
        senders.into_iter().for_each(|t| t.join().unwrap());
        sink.join().unwrap();
        assert_eq!((from_a, from_b, to_c, done.load(SeqCst)), (300, 300, 300, 300));
    });
}

#[test]
fn choices_meet_choices() {
    each_way(|| {
        let (x, y) = (tube::bounded::<u32>(0), tube::bounded::<u32>(0));
        let total = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (x, y, total) = (x.clone(), y.clone(), Arc::clone(&total));
                spawn(move || {
                    for _ in 0..200 {
                        let got = if n % 2 == 0 {
                            select! { send(x.0, 1) -> r => { r.unwrap(); 0 }, recv(y.1) -> m => m.unwrap() }
                        } else {
                            select! { recv(x.1) -> m => m.unwrap(), send(y.0, 1) -> r => { r.unwrap(); 0 } }
                        };
                        total.fetch_add(got, SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        // Each meeting is one message, and two operations.
        assert_eq!(total.load(SeqCst), 800);
    });
}

#[test]
fn gone_ends_wake_those_who_wait() {
    each_way(|| {
        for slots in [0, 1] {
            let (tx, rx) = tube::bounded::<u32>(slots);
            let waits: Vec<_> = (0..3)
                .map(|_| {
                    let rx = rx.clone();
                    spawn(move || rx.recv().is_err())
                })
                .collect();
            yield_now();
            drop(tx);
            assert!(waits.into_iter().all(|t| t.join().unwrap()));
            let (tx, rx) = tube::bounded::<u32>(slots);
            (0..slots).for_each(|_| tx.send(0).unwrap());
            let waits = spawn(move || tx.send(1).is_err());
            yield_now();
            drop(rx);
            assert!(waits.join().unwrap());
        }
    });
}

#[test]
fn waits_end_when_their_time_is_up() {
    each_way(|| {
        let (tx, rx) = tube::bounded::<u32>(0);
        let before = Instant::now();
        let pause = Duration::from_millis(3);
        assert!(rx.recv_timeout(pause).is_err());
        assert!(tx.send_timeout(1, pause).is_err());
        assert!(select! { recv(rx) -> _ => false, default(pause) => true });
        assert!(select! { recv(rx) -> _ => false, recv(tube::after(pause)) -> moment => moment.is_ok() });
        sleep(pause);
        assert!(before.elapsed() >= pause * 5);
        let ready = Semaphore::private(0).unwrap();
        assert!(ready.down_timeout(pause).is_err());
    });
}

#[test]
fn unpark_before_park_is_not_lost() {
    each_way(|| {
        let thread = spawn(|| {
            yield_now();
            park();
            park();
        });
        thread.thread().unpark();
        thread.thread().unpark();
        while !thread.is_finished() {
            thread.thread().unpark();
            yield_now();
        }
        thread.join().unwrap();
    });
}

#[test]
fn private_objects_hand_over_between_light_threads() {
    each_way(|| {
        let semaphore = Semaphore::private(0).unwrap();
        scope(|s| {
            let down = s.spawn(|| (0..50).for_each(|_| semaphore.down().unwrap()));
            yield_now();
            (0..50).for_each(|_| semaphore.up().unwrap());
            down.join().unwrap();
        });
        let pool = Pool::private(1).unwrap();
        let inside = AtomicU32::new(0);
        scope(|s| {
            for _ in 0..6 {
                s.spawn(|| {
                    for _ in 0..20 {
                        let _permit = pool.acquire().unwrap();
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        let sum = SharedMutex::private(0u64).unwrap();
        scope(|s| {
            for _ in 0..6 {
                s.spawn(|| {
                    for _ in 0..20 {
                        let mut guard = sum.lock().unwrap();
                        let old = *guard;
                        yield_now();
                        *guard = old + 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock().unwrap(), 120);
    });
}

#[test]
fn two_threads_of_one_proc_are_two_owners_of_a_mutex() {
    one(|| {
        let mutex = SharedMutex::private(()).unwrap();
        let guard = mutex.lock().unwrap();
        scope(|s| {
            let other = s.spawn(|| mutex.try_lock().is_err());
            assert!(other.join().unwrap());
        });
        drop(guard);
        assert!(mutex.try_lock().is_ok());
    });
}

#[test]
fn a_mixed_choice_waits_for_tubes_and_semaphores() {
    each_way(|| {
        let stop = Semaphore::private(0).unwrap();
        let (tx, rx) = tube::bounded::<u32>(0);
        scope(|s| {
            let server = s.spawn(|| {
                let mut sum = 0;
                loop {
                    select! { recv(rx) -> m => sum += m.unwrap(), down(stop) -> _ => return sum }
                }
            });
            (1..=10).for_each(|n| tx.send(n).unwrap());
            stop.up().unwrap();
            assert_eq!(server.join().unwrap(), 55);
        });
    });
}

#[test]
fn a_blocking_call_lets_the_other_threads_of_its_proc_run() {
    one(|| {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let blocked = spawn(move || {
            block_in_place(move || {
                let mut byte = [0];
                std::io::Read::read_exact(&mut reader, &mut byte).unwrap();
                byte[0]
            })
        });
        // It runs, and blocks, and we go on: or this never ends.
        let other = spawn(move || block_in_place(|| std::io::Write::write_all(&mut writer, b"x").unwrap()));
        other.join().unwrap();
        assert_eq!(blocked.join().unwrap(), b'x');
    });
}

#[test]
fn locals_are_each_threads_own() {
    chappe_thread::local! {
        static COUNT: Cell<u32> = Cell::new(10);
    }
    let count = || COUNT.with(|c| c.replace(c.get() + 1));
    one(move || {
        assert_eq!((count(), count()), (10, 11));
        let other = spawn(move || {
            let first = count();
            yield_now();
            (first, count())
        });
        assert_eq!(count(), 12);
        assert_eq!(other.join().unwrap(), (10, 11));
    });
    assert_eq!(count(), 10);
}

#[test]
fn scoped_threads_are_waited_for() {
    each_way(|| {
        let mut numbers = [1, 2, 3];
        scope(|s| {
            for number in &mut numbers {
                s.spawn(move || {
                    yield_now();
                    *number *= 2;
                });
            }
        });
        assert_eq!(numbers, [2, 4, 6]);
    });
}

#[test]
fn names_sizes_and_bad_input() {
    one(|| {
        let name = Builder::new().name("north").spawn(chappe_thread::name).unwrap().join().unwrap();
        assert_eq!(name.as_deref(), Some("north"));
        let why = Builder::new().stack_size(100).spawn(|| ()).unwrap_err();
        assert!(why.to_string().contains("at least 16384"), "{why}");
        let deep = Builder::new().stack_size(1 << 20).spawn(|| {
            let room = std::hint::black_box([1u8; 300_000]);
            room.iter().map(|b| u32::from(*b)).sum::<u32>()
        });
        assert_eq!(deep.unwrap().join().unwrap(), 300_000);
        // It joins itself: that panics, and the panic is its own.
        let place = Arc::new(Mutex::new(None::<chappe_thread::JoinHandle<()>>));
        let (tell, told) = tube::bounded(1);
        let its = Arc::clone(&place);
        let myself = spawn(move || {
            let handle = its.lock().unwrap().take().unwrap();
            let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.wait_for_end()));
            tell.send(joined.is_err()).unwrap();
            std::mem::forget(handle);
        });
        *place.lock().unwrap() = Some(myself);
        assert_eq!(told.recv(), Ok(true));
    });
    assert!(try_current().is_none());
    let why = Runtime::new(0).unwrap_err();
    assert!(why.to_string().contains("1 to 64"), "{why}");
}

#[test]
fn ten_thousand_threads_wait_at_tubes_and_go() {
    each_way(|| {
        let (tx, rx) = tube::bounded::<()>(0);
        let threads: Vec<_> = (0..10_000)
            .map(|_| {
                let rx = rx.clone();
                spawn(move || rx.recv().is_err())
            })
            .collect();
        yield_now();
        drop(tx);
        assert!(threads.into_iter().all(|t| t.join().unwrap()));
    });
}

#[test]
fn unpark_from_a_signal_handler_wakes() {
    static WHO: Mutex<Option<chappe_thread::Thread>> = Mutex::new(None);
    static HIT: AtomicU32 = AtomicU32::new(0);
    // Stands in for the handler's static: set before the signal can come.
    static mut THREAD: Option<chappe_thread::Thread> = None;
    extern "C" fn wake(_: i32) {
        // SAFETY: written before the handler is installed, by nobody afterwards.
        unsafe { (&raw const THREAD).read() }.unwrap().unpark();
        HIT.fetch_add(1, SeqCst);
    }
    let runtime = Runtime::new(1).unwrap();
    runtime.run(|| {
        let waits = spawn(|| {
            while HIT.load(SeqCst) == 0 {
                park();
            }
        });
        *WHO.lock().unwrap() = Some(waits.thread());
        // SAFETY: the handler calls what signal handlers may.
        unsafe {
            (&raw mut THREAD).write(Some(waits.thread()));
            libc::signal(libc::SIGUSR2, wake as *const () as usize);
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGUSR2);
            // A proc's signals are blocked; here one is to come.
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        }
        yield_now();
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(libc::SIGUSR2) };
        waits.join().unwrap();
    });
    assert_eq!(HIT.load(SeqCst), 1);
}

#[test]
fn suspended_threads_stay_where_they_are_until_they_are_resumed() {
    one(|| {
        let turns = std::sync::Arc::new(AtomicU32::new(0));
        let own = std::sync::Arc::clone(&turns);
        let worker = spawn(move || {
            while own.fetch_add(1, SeqCst) < 1_000_000 {
                yield_now();
            }
        });
        yield_now();
        assert!(turns.load(SeqCst) > 0);
        worker.suspend();
        assert!(worker.is_suspended());
        // It is taken out at its next dispatch, which is in this.
        yield_now();
        let before = turns.load(SeqCst);
        (0..100).for_each(|_| yield_now());
        assert_eq!(turns.load(SeqCst), before, "it runs though it is suspended");
        // A look at a process whose other threads come and go may miss one: it is repeated then.
        let state = (0..10_000).find_map(|_| {
            let image = chappe_thread::image::Image::of(std::process::id()).ok()??;
            image.threads.iter().find(|t| t.number == worker.id().as_u32()).map(|t| t.state)
        });
        assert_eq!(state, Some(chappe_thread::image::State::Suspended));
        worker.resume();
        (0..10).for_each(|_| yield_now());
        assert!(turns.load(SeqCst) > before);
        turns.store(1_000_000, SeqCst);
        worker.join().unwrap();
    });
}

#[test]
fn a_wait_that_ends_while_the_thread_is_suspended_is_not_lost() {
    one(|| {
        let (tx, rx) = tube::unbounded();
        let waits = spawn(move || rx.recv().unwrap());
        yield_now();
        waits.suspend();
        tx.send(7).unwrap();
        (0..10).for_each(|_| yield_now());
        assert!(!waits.is_finished());
        waits.resume();
        (0..10).for_each(|_| yield_now());
        assert!(waits.is_finished());
        assert_eq!(waits.join().unwrap(), 7);
    });
}

#[test]
fn a_proc_whose_only_thread_is_suspended_sleeps_until_it_is_resumed_from_outside() {
    let runtime = chappe_thread::Runtime::new(1).unwrap();
    let turns = std::sync::Arc::new(AtomicU32::new(0));
    let own = std::sync::Arc::clone(&turns);
    let worker = runtime.spawn(move || {
        while own.fetch_add(1, SeqCst) < u32::MAX / 2 {
            yield_now();
        }
    });
    while turns.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    for _ in 0..100 {
        worker.suspend();
        worker.resume();
    }
    worker.suspend();
    let before = turns.load(SeqCst);
    worker.resume();
    while turns.load(SeqCst) == before {
        std::thread::yield_now();
    }
    turns.store(u32::MAX / 2, SeqCst);
    worker.join().unwrap();
}

#[test]
fn an_interruption_ends_the_waits_of_one_light_thread_and_not_of_its_neighbours() {
    each_way(|| {
        let (never, choice_ends) = (tube::bounded::<u8>(0), Arc::new(Interrupt::new()));
        let by = Arc::clone(&choice_ends);
        let choice = spawn(move || {
            let mut select = Select::new();
            let (from, other) = (&never.1, tube::never::<u8>());
            select.recv(from);
            select.recv(&other);
            interruptible(&by, || select.wait().map(drop).map_err(|e| matches!(e, SelectError::Interrupted)))
        });
        yield_now();
        choice_ends.interrupt();
        assert_eq!(choice.join().unwrap(), Err(true));

        let (stop, gate) = (Arc::new(Interrupt::new()), Arc::new(Semaphore::private(0).unwrap()));
        let (by, at) = (Arc::clone(&stop), Arc::clone(&gate));
        let one = spawn(move || interruptible(&by, || (yield_now(), at.down()).1));
        let at = Arc::clone(&gate);
        // It begins to wait while the other is within its scope.
        let neighbour = spawn(move || at.down());
        (0..5).for_each(|_| yield_now());
        stop.interrupt();
        assert!(matches!(one.join().unwrap(), Err(DownError::Interrupted)));
        assert!(!neighbour.is_finished());
        gate.up().unwrap();
        assert!(neighbour.join().unwrap().is_ok());
    });
}

#[test]
fn a_choice_takes_small_and_large_messages_from_who_comes_later() {
    each_way(|| {
        let ((to_small, small), (to_large, large)) = (tube::bounded::<String>(0), tube::bounded::<[u64; 9]>(0));
        let sender = spawn(move || {
            for n in 0..20u64 {
                // The chooser waits by now, or will find one of the two.
                yield_now();
                if n % 2 == 0 { to_small.send(n.to_string()).unwrap() } else { to_large.send([n; 9]).unwrap() }
            }
        });
        for n in 0..20u64 {
            select! {
                recv(small) -> m => assert_eq!(m.unwrap(), n.to_string()),
                recv(large) -> m => assert_eq!(m.unwrap(), [n; 9]),
            }
        }
        sender.join().unwrap();
        assert!(small.recv().is_err() && large.recv().is_err());
    });
}

#[test]
fn a_descriptor_tells_of_a_light_thread_that_comes_to_a_tube_without_slots() {
    let (tx, rx) = tube::bounded::<u8>(0);
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&rx.descriptor().unwrap());
    let is_readable = || {
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one place.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    };
    assert!(!is_readable());
    one(|| {
        let sender = spawn(move || tx.send(7));
        yield_now();
        assert!(is_readable());
        assert_eq!(rx.try_recv(), Ok(7));
        assert!(sender.join().unwrap().is_ok());
    });
}
