//! Table 2 of nonblocking-real-time: a counter of one word, under each kind of synchronisation, no other thread about; and a server that counts for others.

use crate::table::{Aim, Case, Table, times};
use chappe::{HelpLock, Mutex, Pair, Semaphore, Words};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: u32 = 20_000;
const TURNS: u32 = 2_000;

/// The C library's mutex with priority inheritance that survives its holders, without anything around it.
struct Plain(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made to be used from many threads.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Box<Plain> {
        // SAFETY: zeros are a mutex; it stays in its box from here on.
        unsafe {
            let lock = Box::new(Plain(std::mem::zeroed()));
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutexattr_setprotocol(&raw mut attributes, libc::PTHREAD_PRIO_INHERIT);
            assert_eq!(libc::pthread_mutex_init(lock.0.get(), &raw const attributes), 0, "no such locks here");
            lock
        }
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        // SAFETY: made above.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        section();
        // SAFETY: as above; held.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// A server that counts for its clients, one request after the other: how long one takes.
fn served(ask: impl Fn(), serve: impl Fn() + Sync) -> f64 {
    std::thread::scope(|s| {
        s.spawn(|| (0..TURNS).for_each(|_| serve()));
        let start = std::time::Instant::now();
        (0..TURNS).for_each(|_| ask());
        start.elapsed().as_nanos() as f64 / f64::from(TURNS)
    })
}

fn over_semaphores(counter: &AtomicU64) -> f64 {
    let (asked, done) = (Semaphore::private(0).expect("room"), Semaphore::private(0).expect("room"));
    served(
        || {
            asked.up().expect("room");
            done.down().expect("an answer");
        },
        || {
            asked.down().expect("a request");
            counter.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
            done.up().expect("room");
        },
    )
}

fn spinning(counter: &AtomicU64) -> f64 {
    let turn = AtomicU64::new(0);
    let pass = |from: u64| {
        // Acquire, Release: the count between.
        while turn.load(Ordering::Acquire) != from {
            std::hint::spin_loop();
        }
        turn.store(from ^ 1, Ordering::Release); // Release: as above.
    };
    let at = |who: u64| {
        // Acquire: as above.
        while turn.load(Ordering::Acquire) != who {
            std::hint::spin_loop();
        }
    };
    served(
        || {
            pass(0);
            at(0);
        },
        || {
            at(1);
            counter.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
            pass(1);
        },
    )
}

fn between_tubes(counter: &AtomicU64) -> f64 {
    let (ask, asked) = chappe::tube::bounded::<()>(1);
    let (answer, answered) = chappe::tube::bounded::<()>(1);
    served(
        || {
            ask.send(()).expect("a server");
            answered.recv().expect("an answer");
        },
        || {
            asked.recv().expect("a request");
            counter.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
            answer.send(()).expect("somebody");
        },
    )
}

fn between_light_threads(counter: &'static AtomicU64) -> f64 {
    let one = chappe::thread::Runtime::new(1).expect("a proc");
    one.run(|| {
        let (ask, asked) = chappe::tube::bounded::<()>(0);
        let (answer, answered) = chappe::tube::bounded::<()>(0);
        let server = chappe::thread::spawn(move || {
            while asked.recv().is_ok() {
                counter.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
                answer.send(()).expect("somebody");
            }
        });
        let start = std::time::Instant::now();
        for _ in 0..TURNS {
            ask.send(()).expect("a server");
            answered.recv().expect("an answer");
        }
        let took = start.elapsed().as_nanos() as f64 / f64::from(TURNS);
        drop(ask);
        let _ = server.join();
        took
    })
}

/// How long one takes when it is repeated by a light thread.
fn lightly(one: &chappe::thread::Runtime, operation: impl Fn() + Sync) -> f64 {
    one.run(|| {
        let start = std::time::Instant::now();
        (0..COUNT).for_each(|_| operation());
        start.elapsed().as_nanos() as f64 / f64::from(COUNT)
    })
}

/// The table, and what was wanted.
pub fn measure(rounds: u32) -> Vec<Aim> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let counter = &COUNTER;
    let mut plain = 0u64;
    let pair = Pair::new(0, 0);
    let words = Words::private(1).expect("memory");
    let steps = HelpLock::steps("counter", 0u64).expect("memory");
    let inherited = HelpLock::inherited("counter", 0u64).expect("a lock");
    let (light, proc) = (HelpLock::light("counter", 0u64), chappe::thread::Runtime::new(1).expect("a proc"));
    let more = HelpLock::steps("counters", [0u64; 4]).expect("memory");
    let pthread = Plain::new();
    let (ours, theirs) = (Mutex::private(0u64).expect("room"), parking_lot::Mutex::new(0u64));
    let mut counted = 0u64;
    let table = Table::measure(
        "counter, nobody else about (table 2)",
        rounds,
        vec![
            Case::repeat("compare-and-swap", COUNT, || {
                // Relaxed, all: a count.
                let mut seen = counter.load(Ordering::Relaxed);
                while let Err(now) = counter.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed) {
                    seen = now;
                }
            }),
            Case::repeat("unsynchronised", COUNT, || {
                plain = black_box(plain) + 1;
            }),
            Case::repeat("fetch-and-add", COUNT, || counter.fetch_add(1, Ordering::Relaxed)), // Relaxed: a count.
            Case::repeat("Pair, two words by one instruction", COUNT, || {
                // Relaxed, both: the swap looks.
                let seen = [pair.low.load(Ordering::Relaxed), pair.high.load(Ordering::Relaxed)];
                pair.compare_exchange(seen, [seen[0] + 1, seen[1]])
            }),
            Case::repeat("Words::update of one", COUNT, || words.update([0], |w| w[0] += 1).expect("a word")),
            Case::repeat("HelpLock (a), steps", COUNT, || steps.with(|c| *c += 1).expect("whole")),
            Case::repeat("HelpLock (a), four words", COUNT, || more.with(|c| c[0] += 1).expect("whole")),
            Case::repeat("pthread, inheriting and robust", COUNT, || pthread.with(|| counted = black_box(counted) + 1)),
            Case::repeat("HelpLock (b), inherited", COUNT, || inherited.with(|c| *c += 1).expect("whole")),
            Case::new("HelpLock (c), light", || lightly(&proc, || light.with(|c| *c += 1).expect("whole"))),
            Case::repeat("chappe::Mutex", COUNT, || *ours.lock().expect("whole") += 1),
            Case::repeat("parking_lot::Mutex", COUNT, || *theirs.lock() += 1),
            Case::new("server thread over semaphores", || over_semaphores(counter)),
            Case::new("server thread, both spinning", || spinning(counter)),
            Case::new("server thread over tubes", || between_tubes(counter)),
            Case::new("server between light threads", || between_light_threads(counter)),
        ],
    );
    println!("{}", table.report());
    vec![
        Aim::at_most("HelpLock (a) beside compare-and-swap", 3.0, table.ratio("HelpLock (a), steps"), times),
        Aim::at_most(
            "HelpLock (b) beside pthread's of the same kind",
            1.1,
            table.ratio_to("HelpLock (b), inherited", "pthread, inheriting and robust"),
            times,
        ),
        Aim::at_most(
            "server between light threads beside one over semaphores",
            0.05,
            table.ratio_to("server between light threads", "server thread over semaphores"),
            times,
        ),
    ]
}
