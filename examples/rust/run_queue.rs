//! Threads on procs: the run queue of Plan 9's real-time thread library (plan9-semaphores, section 4).
//!
//! A *proc* is a kernel thread that runs *threads*, here closures, one at a time. Each proc has a queue of threads
//! that are ready to run, and a `Usem` that counts them. To run a thread is to acquire the semaphore, asleep if the
//! queue is empty, and then to take from the queue, in which there is one for certain. To wake a thread, in whichever
//! proc, is to put it into its proc's queue and to release the semaphore: no lock is taken, so the waker never
//! blocks.
//!
//! Twelve threads on four procs stand in a ring, each beside one of another proc, and pass buckets on, as a fire
//! brigade does: a thread that is run has been given a bucket, and wakes its neighbour. No bucket may be lost, none
//! may be doubled, and nobody may be passed by.
//!
//! ```sh
//! cargo run --release -p chappe --example run_queue
//! ```

use chappe::plan9::Usem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PROCS: usize = 4;
const THREADS_EACH: usize = 3;
const THREADS: usize = PROCS * THREADS_EACH;
const BUCKETS: u64 = 5;
/// Times that a bucket is passed on, all together.
const STEPS: u64 = 240_000;

/// The threads of one proc that are ready: a place for each of them, and how many times it is to run.
///
/// Anybody puts, the proc itself takes. With a place of its own for every thread, neither ever waits for the other.
#[derive(Default)]
struct Queue {
    ready: [AtomicU32; THREADS_EACH],
}

impl Queue {
    fn put(&self, thread: usize) {
        // Release: what the waker did comes before the run.
        self.ready[thread].fetch_add(1, Ordering::Release);
    }

    /// The next one behind `last`, going round. There is one: the semaphore has said so.
    fn get(&self, last: usize) -> usize {
        let next = (1..=THREADS_EACH).map(|n| (last + n) % THREADS_EACH);
        // Acquire: pairs with the put. Only the proc itself takes, so what it sees stays until it does.
        let ready = |thread: &usize| self.ready[*thread].load(Ordering::Acquire) > 0;
        let thread = next.into_iter().find(ready).expect("the semaphore counts what is in the queue");
        self.ready[thread].fetch_sub(1, Ordering::Relaxed); // Relaxed: nobody but the proc looks at it.
        thread
    }
}

/// A proc: its queue, and how many are in it.
#[derive(Default)]
struct Proc {
    ready: Queue,
    nready: Usem,
}

/// What all procs share. Thread `t` of the ring is thread `t / PROCS` of proc `t % PROCS`.
#[derive(Default)]
struct System {
    procs: [Proc; PROCS],
    /// Steps that are still to be taken.
    left: AtomicU64,
    /// The longest that a wake-up took.
    longest_ns: AtomicU64,
}

impl System {
    /// Wakes a thread of whatever proc. Never blocks.
    fn wakeup(&self, thread: usize) {
        let start = Instant::now();
        let proc = &self.procs[thread % PROCS];
        proc.ready.put(thread / PROCS);
        proc.nready.release().expect("far below 2^31");
        // Relaxed: a statistic.
        self.longest_ns.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// What one proc came to.
#[derive(Default)]
struct Account {
    runs: [u64; THREADS_EACH],
    /// How often there was nothing to run, and it slept.
    slept: u64,
}

/// The life of a proc: runs its threads until all steps are taken.
fn proc(system: &System, number: usize) -> Account {
    let mut account = Account::default();
    let mut threads: Vec<_> = (0..THREADS_EACH).map(|index| thread(system, index * PROCS + number)).collect();
    let Proc { ready, nready } = &system.procs[number];
    let mut now = 0;
    loop {
        if !nready.try_acquire() {
            account.slept += 1;
            nready.acquire().expect("a semaphore");
        }
        now = ready.get(now);
        // Acquire: pairs with the last step; the thread that took it has woken us to end.
        if system.left.load(Ordering::Acquire) == 0 {
            return account;
        }
        threads[now]();
        account.runs[now] += 1;
    }
}

/// The body of a thread: what it does each time that it is run.
fn thread(system: &System, me: usize) -> impl FnMut() {
    // AcqRel: the last step comes after all others.
    move || match system.left.fetch_sub(1, Ordering::AcqRel) {
        1 => (0..PROCS).for_each(|first_of_proc| system.wakeup(first_of_proc)),
        // The end of the way for one bucket.
        n if n <= BUCKETS => {}
        _ => system.wakeup((me + 1) % THREADS),
    }
}

fn main() {
    let system = System { left: AtomicU64::new(STEPS), ..System::default() };
    let start = Instant::now();
    (0..BUCKETS as usize).for_each(|bucket| system.wakeup(bucket * 2 % THREADS));
    let accounts: Vec<Account> = std::thread::scope(|s| {
        let system = &system;
        let procs: Vec<_> = (0..PROCS).map(|number| s.spawn(move || proc(system, number))).collect();
        procs.into_iter().map(|p| p.join().expect("a proc does not fail")).collect()
    });
    let took = start.elapsed();

    println!("{:>4} {:>24} {:>10}", "proc", "runs of its threads", "slept");
    for (number, a) in accounts.iter().enumerate() {
        println!("{number:>4} {:>24} {:>10}", format!("{:?}", a.runs), a.slept);
    }
    let longest = Duration::from_nanos(system.longest_ns.into_inner());
    let each = took / u32::try_from(STEPS).expect("fewer");
    println!(
        "{STEPS} wake-ups in {took:.1?}: {each:.0?} each; the longest {longest:.1?}, preempted perhaps, never blocked"
    );

    let runs: Vec<u64> = (0..THREADS).map(|t| accounts[t % PROCS].runs[t / PROCS]).collect();
    assert_eq!(runs.iter().sum::<u64>(), STEPS, "a bucket was lost, or doubled");
    for (one, next) in runs.iter().zip(runs.iter().cycle().skip(1)) {
        assert!(one.abs_diff(*next) <= BUCKETS, "somebody was passed by: {runs:?}");
    }
    assert!(system.procs.iter().all(|p| !p.nready.try_acquire()), "a proc has ended, and something was ready");
}

#[test]
#[ignore = "storm: threads that race for seconds"]
fn no_bucket_is_lost() {
    main();
}
