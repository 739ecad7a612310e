//! Several threads, or processes, that want the same lock for as long as they are let: what each got, and how long it
//! waited.
//!
//! All begin at once and take the lock again and again, until told to stop. Each time adds one to the number that the
//! lock guards; at the end it must be as great as all of them together say, or the lock let two in at once.

use crate::guarded::Guarded;
use crate::handoff::Sides;
use crate::process::{Child, Zeroable, now, pin, shared};
use crate::ticks::{labour, steps, tick, ticks};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So many at a time.
pub const MOST: usize = 64;

/// Nobody waits for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sixteen to an octave.
const BUCKETS: usize = 16 * 61;

/// What one of them did.
#[repr(align(128))]
struct Record {
    count: AtomicU64,
    worst: AtomicU64,
    passed: AtomicU64,
    waits: [AtomicU64; BUCKETS],
}

/// Where they meet, and leave what they did. One serves for contest after contest.
pub struct Board {
    met: AtomicU32,
    go: AtomicU32,
    stop: AtomicU32,
    done: AtomicU32,
    /// How often the lock was taken, where waits are timed.
    taken: AtomicU64,
    records: [Record; MOST],
}

// SAFETY: atomics, for which zero is a number.
unsafe impl Zeroable for Board {}

impl Board {
    /// Makes one.
    pub fn make() -> &'static Board {
        shared::<Board>()
    }
}

/// The threads that want the lock, and for how long.
#[derive(Clone, Copy)]
pub struct Contest {
    /// Threads of this process, or processes of one thread.
    pub sides: Sides,
    /// How many.
    pub workers: usize,
    /// Nanoseconds for which a worker of this number keeps it.
    pub inside: fn(usize) -> u64,
    /// Nanoseconds until it wants it again.
    pub outside: u64,
    /// Whether each is kept on one processor, in turns.
    pub pinned: bool,
    /// How long all this goes on.
    pub time: Duration,
    /// Whether each wait is timed: two looks at the clock more each time, and an atomic counter.
    pub timed: bool,
}

/// How long one waited, in ticks: sixteen buckets an octave.
struct Waits {
    buckets: Vec<u32>,
    worst: u64,
    passed: u64,
}

fn bucket(ticks: u64) -> usize {
    if ticks < 16 {
        return ticks as usize;
    }
    let octave = ticks.ilog2() as usize;
    (octave - 3) * 16 + (ticks >> (octave - 4)) as usize % 16
}

/// The least of a bucket.
fn least(bucket: usize) -> f64 {
    if bucket < 16 { bucket as f64 } else { (16 + bucket % 16) as f64 * (bucket as f64 / 16.0).floor().exp2() / 2.0 }
}

impl Waits {
    fn note(&mut self, ticks: u64, passed: u64) {
        self.buckets[bucket(ticks)] += 1;
        self.worst = self.worst.max(ticks);
        self.passed = self.passed.max(passed);
    }
}

/// What came of it.
pub struct Outcome {
    /// Nanoseconds an acquisition, over all.
    pub each: f64,
    /// How many each worker made.
    pub counts: Vec<u64>,
    /// The worst wait of each, in nanoseconds; zeroes unless timed.
    pub worst: Vec<f64>,
    /// How often the lock was taken by others in a wait of each, at most.
    pub passed: Vec<u64>,
    waits: Vec<u64>,
}

impl Outcome {
    /// Jain's index of fairness: 1 if all got the same, 1/n if one got all.
    pub fn jain(&self) -> f64 {
        let sum: f64 = self.counts.iter().map(|c| *c as f64).sum();
        let squares: f64 = self.counts.iter().map(|c| (*c as f64).powi(2)).sum();
        sum * sum / (squares * self.counts.len() as f64)
    }

    /// What the luckiest and the unluckiest got, as shares of what would have been fair.
    pub fn luck(&self) -> (f64, f64) {
        let fair = self.counts.iter().sum::<u64>() as f64 / self.counts.len() as f64;
        let of = |count: Option<&u64>| count.map_or(0.0, |c| *c as f64 / fair);
        (of(self.counts.iter().max()), of(self.counts.iter().min()))
    }

    /// The wait below which this share of all waits lies, in nanoseconds, to a sixteenth.
    pub fn wait(&self, share: f64) -> f64 {
        let wanted = (self.waits.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut sum = 0;
        let at = self.waits.iter().position(|n| {
            sum += n;
            sum >= wanted
        });
        at.map_or(0.0, |b| least(b) * tick())
    }
}

fn work(lock: &impl Guarded, contest: Contest, board: &Board, me: usize) {
    if contest.pinned {
        pin(me);
    }
    let (inside, outside) = (steps((contest.inside)(me)), steps(contest.outside));
    let mut waits = Waits { buckets: vec![0; BUCKETS], worst: 0, passed: 0 };
    // What a thread's first use costs is not the question.
    lock.with(|n| *n += 1);
    board.met.fetch_add(1, Ordering::SeqCst);
    while board.go.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let mut count = 0;
    // Relaxed: it only has to be seen some time.
    while board.stop.load(Ordering::Relaxed) == 0 {
        if contest.timed {
            // Relaxed, both: a count.
            let (seen, asked) = (board.taken.load(Ordering::Relaxed), ticks());
            let (got, taken) = lock.with(|n| {
                let got = (ticks(), board.taken.fetch_add(1, Ordering::Relaxed)); // Relaxed: a count.
                *n += 1;
                labour(inside);
                got
            });
            waits.note(got.saturating_sub(asked), taken - seen);
        } else {
            lock.with(|n| {
                *n += 1;
                labour(inside);
            });
        }
        count += 1;
        labour(outside);
    }
    let record = &board.records[me];
    record.count.store(count, Ordering::SeqCst);
    record.worst.store(waits.worst, Ordering::SeqCst);
    record.passed.store(waits.passed, Ordering::SeqCst);
    for (to, from) in record.waits.iter().zip(&waits.buckets) {
        to.store(u64::from(*from), Ordering::SeqCst);
    }
    board.done.fetch_add(1, Ordering::SeqCst);
}

/// Says when: begins once all have come, ends after the time. Nanoseconds.
fn referee(contest: Contest, board: &Board) -> f64 {
    until_all(&board.met, contest);
    let began = now();
    board.go.store(1, Ordering::SeqCst);
    std::thread::sleep(contest.time);
    board.stop.store(1, Ordering::SeqCst);
    let elapsed = now() - began;
    until_all(&board.done, contest);
    elapsed as f64
}

/// Ends this process, and its children with it, if a thread never comes: one that sleeps for ever cannot be joined.
fn until_all(count: &AtomicU32, contest: Contest) {
    let began = Instant::now();
    while count.load(Ordering::SeqCst) < contest.workers as u32 {
        if began.elapsed() > PATIENCE {
            let came = count.load(Ordering::SeqCst);
            eprintln!("{came} of {} came to the end: the others sleep, and nobody wakes them", contest.workers);
            std::process::exit(101);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Killed with the thread that forked it.
fn follow_parent() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Holds the contest.
///
/// # Panics
/// When a worker does, or the lock let two in at once.
pub fn contend(lock: &impl Guarded, contest: Contest, board: &'static Board) -> Outcome {
    assert!(contest.workers <= MOST, "no more than {MOST}");
    for flag in [&board.met, &board.go, &board.stop, &board.done] {
        flag.store(0, Ordering::SeqCst);
    }
    // Taken before any fork: the children's is the same.
    let _ = (tick(), steps(1));
    let before = lock.with(|n| *n);
    let elapsed = match contest.sides {
        Sides::Threads => std::thread::scope(|s| {
            for me in 0..contest.workers {
                s.spawn(move || work(lock, contest, board, me));
            }
            referee(contest, board)
        }),
        Sides::Processes => {
            let worker = |me| {
                Child::fork(|| {
                    follow_parent();
                    work(lock, contest, board, me);
                })
            };
            let children: Vec<Child> = (0..contest.workers).map(worker).collect();
            let elapsed = referee(contest, board);
            children.into_iter().for_each(|c| assert_eq!(c.end(), 0, "a worker"));
            elapsed
        }
    };
    let records = &board.records[..contest.workers];
    let counts: Vec<u64> = records.iter().map(|r| r.count.load(Ordering::SeqCst)).collect();
    let all: u64 = counts.iter().sum();
    assert_eq!(lock.with(|n| *n) - before, all + contest.workers as u64, "two were in at once");
    let worst = records.iter().map(|r| r.worst.load(Ordering::SeqCst) as f64 * tick()).collect();
    let passed = records.iter().map(|r| r.passed.load(Ordering::SeqCst)).collect();
    let waits = (0..BUCKETS).map(|b| records.iter().map(|r| r.waits[b].load(Ordering::SeqCst)).sum()).collect();
    Outcome { each: elapsed / all as f64, counts, worst, passed, waits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Flavour, PthreadMutex};
    use crate::raw::Scope;

    #[test]
    fn a_wait_is_found_in_its_bucket() {
        for ticks in [0, 1, 15, 16, 17, 31, 32, 33, 1000, 123_456_789, u64::MAX] {
            let low = least(bucket(ticks));
            assert!(low <= ticks as f64 && ticks as f64 - low <= ticks as f64 / 16.0, "{ticks}: {low}");
            assert!(bucket(ticks) < BUCKETS);
        }
        assert!((0..2000).all(|t| bucket(t) <= bucket(t + 1)));
    }

    #[test]
    fn fairness_is_told() {
        let outcome = |counts: &[u64]| Outcome {
            each: 1.0,
            counts: counts.to_vec(),
            worst: vec![],
            passed: vec![],
            waits: vec![],
        };
        assert_eq!(outcome(&[5, 5, 5]).jain(), 1.0);
        assert_eq!(outcome(&[8, 0, 0, 0]).jain(), 0.25);
        assert_eq!(outcome(&[30, 10]).luck(), (1.5, 0.5));
    }

    #[test]
    fn all_acquisitions_are_counted() {
        let mutex = PthreadMutex::new(Flavour::Robust, Scope::Shared);
        for sides in [Sides::Threads, Sides::Processes] {
            let contest = Contest {
                sides,
                workers: 3,
                inside: |_| 100,
                outside: 100,
                pinned: false,
                time: Duration::from_millis(10),
                timed: true,
            };
            let outcome = contend(&mutex, contest, Board::make());
            let waits: u64 = outcome.waits.iter().sum();
            assert_eq!(waits, outcome.counts.iter().sum::<u64>());
            assert!(waits > 0 && outcome.wait(1.0) <= outcome.worst.iter().copied().fold(0.0, f64::max));
        }
    }

    struct Open(std::cell::UnsafeCell<u64>);

    // SAFETY: it is not; this is the lock that must be found out, and its number is read and written in one step each.
    unsafe impl Sync for Open {}

    impl Guarded for Open {
        fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
            // SAFETY: the pointer is valid; what others do meanwhile is what the test is about.
            let mut mine = unsafe { self.0.get().read_volatile() };
            let answer = work(&mut mine);
            std::thread::yield_now();
            // SAFETY: as above.
            unsafe { self.0.get().write_volatile(mine) };
            answer
        }
    }

    #[test]
    #[should_panic(expected = "two were in at once")]
    fn a_lock_that_is_none_is_found_out() {
        let contest = Contest {
            sides: Sides::Threads,
            workers: 2,
            inside: |_| 1000,
            outside: 0,
            pinned: false,
            time: Duration::from_millis(20),
            timed: false,
        };
        contend(&Open(0.into()), contest, Board::make());
    }
}
