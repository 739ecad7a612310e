//! The two tables of plan9-semaphores (section 7), on this machine, with the paper's figures below.
//!
//! Table 1: two threads that release each other's semaphore in turns, and a semaphore acquired many times, then released as
//! often. There each operation was a system call; the time is that of one operation (a round trip has four). On two
//! processors a thread need not sleep if it finds the word raised when it looks: a release that wakes after it has raised
//! leaves the other side the time of a system call for that.
//!
//! Table 2: locks by spinning and locks by semaphores. First the bare contest for one lock; then the shape of
//! McIlroy's power series: many threads that do hardly anything but talk over channels, all under one global lock.

use crate::contend::{Board, Contest};
use crate::guarded::{Guarded, InPlace};
use crate::handoff::{Course, Sides, semaphores};
use crate::machine::processors;
use crate::peers::{Lock, Semaphore, SysV};
use crate::process::{now, pin};
use crate::raw::{self, Scope};
use crate::spin::SpinLock;
use crate::sync::contended::{Contender, pit};
use crate::table::{Case, Table};
use chappe::plan9::{Lock as SemaphoreLock, Usem, semacquire, semrelease};
use chappe::{Mutex, Role};
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TABLE_1: &str = "
  The paper's table 1, microseconds a system call          ping-pong  semacquire  semrelease
    PentiumIII/Xeon, 598 MHz, 1 cpu                            2.18        1.35        1.91
    PentiumIII/Xeon, 797 MHz, 2 cpus                           0.887       0.949       1.38
    PentiumIV/Xeon, 2196 MHz, 4 cpus                           0.970       1.38        1.84
    AMD64, 2201 MHz, 2 cpus                                    1.08        0.266       0.326";

const TABLE_2: &str = "
  The paper's table 2, microseconds a lock operation       spin locks  semaphore locks
    PentiumIII/Xeon, 598 MHz, 1 cpu                             5.4          5.4
    PentiumIII/Xeon, 797 MHz, 2 cpus                           18.2          5.6
    AMD64, 2201 MHz, 2 cpus                                    22.6          2.5
    PentiumIV/Xeon, 2196 MHz, 4 cpus                           43.8          4.9";

/// Plan 9's calls on a plain word.
struct Word(AtomicI32);

impl Lock for Word {
    #[inline(always)]
    fn lock(&self) {
        while semacquire(&self.0, true).is_err() {}
    }
    #[inline(always)]
    fn unlock(&self) {
        semrelease(&self.0, 1).expect("it is a semaphore");
    }
}

/// A function that is given a maker of semaphores of any kind.
trait Use<'a> {
    fn with<S: Lock + 'a>(&mut self, name: &str, make: impl Fn(u32) -> S);
}

fn each_kind<'a>(mut to: impl Use<'a>) {
    to.with("semacquire, semrelease", |n| Word(AtomicI32::new(n as i32)));
    to.with("Usem", |n| Usem::new(n as i32));
    to.with("semaphore, private", |n| chappe::Semaphore::private(n).expect("a semaphore"));
    to.with("sem_t", |n| Semaphore::new(n, Scope::Private));
    to.with("semop, System V", |n| SysV::new(n, false));
}

struct PingPong<'c, 'a>(&'c mut Vec<Case<'a>>, Course);

impl<'a> Use<'a> for PingPong<'_, 'a> {
    fn with<S: Lock + 'a>(&mut self, name: &str, make: impl Fn(u32) -> S) {
        let (there, back, course) = (make(0), make(0), self.1);
        self.0.push(Case::new(name, move || semaphores(course, &there, &back, Role::Sleeper) / 4.0));
    }
}

/// Below what a System V semaphore can count to.
const MANY: u32 = 10_000;

struct OneSided<'c, 'a>(&'c mut Vec<Case<'a>>, bool);

impl<'a> Use<'a> for OneSided<'_, 'a> {
    fn with<S: Lock + 'a>(&mut self, name: &str, make: impl Fn(u32) -> S) {
        let (semaphore, acquires) = (make(MANY), self.1);
        self.0.push(Case::new(name, move || {
            let began = Instant::now();
            (0..MANY).for_each(|_| semaphore.lock());
            let between = Instant::now();
            (0..MANY).for_each(|_| semaphore.unlock());
            let (acquire, release) = (between - began, between.elapsed());
            (if acquires { acquire } else { release }).as_nanos() as f64 / f64::from(MANY)
        }));
    }
}

/// Table 1: measures and prints.
///
/// # Panics
/// When an object cannot be made.
pub fn table_1(rounds: u32) {
    for (place, on) in [("same processor", (0, 0)), ("two processors", (0, 1))] {
        if on.1 < processors() {
            let mut cases = Vec::new();
            each_kind(PingPong(&mut cases, Course { sides: Sides::Threads, on, trips: 500 }));
            print!("{}", Table::measure(format!("Plan 9, table 1: ping-pong, {place}"), rounds, cases).report());
        }
    }
    for (what, acquires) in [("acquire", true), ("release", false)] {
        let table = std::thread::scope(|s| {
            let measured = s.spawn(|| {
                pin(0);
                let mut cases = Vec::new();
                each_kind(OneSided(&mut cases, acquires));
                Table::measure(format!("Plan 9, table 1: {what}"), rounds, cases)
            });
            measured.join().expect("the measuring thread")
        });
        print!("{}", table.report());
    }
    println!("{TABLE_1}");
}

const TALKERS: usize = 1000;
const MESSAGES: u32 = 100;

/// A channel without a buffer, whose state is looked at and changed under the global lock only.
#[derive(Default)]
struct Channel {
    /// Even: empty. Odd: a value is there. What the two sides sleep on.
    state: AtomicU32,
    value: AtomicU64,
}

impl Channel {
    fn send(&self, global: &impl Guarded, value: u64, nth: u32) {
        global.with(|operations| {
            *operations += 1;
            self.value.store(value, Ordering::SeqCst);
            self.state.store(2 * nth + 1, Ordering::SeqCst);
        });
        raw::wake(&self.state, Scope::Private);
        self.until(2 * nth + 2);
    }

    fn receive(&self, global: &impl Guarded, nth: u32) -> u64 {
        self.until(2 * nth + 1);
        let value = global.with(|operations| {
            *operations += 1;
            self.state.store(2 * nth + 2, Ordering::SeqCst);
            self.value.load(Ordering::SeqCst)
        });
        raw::wake(&self.state, Scope::Private);
        value
    }

    fn until(&self, state: u32) {
        while self.state.load(Ordering::SeqCst) != state {
            raw::wait(&self.state, state - 1, Scope::Private);
        }
    }
}

/// Half of the threads send to the other half; nanoseconds a lock operation, from when all are there to when the last
/// is done.
fn talk(global: &impl Guarded) -> f64 {
    let channels: Vec<Channel> = (0..TALKERS / 2).map(|_| Channel::default()).collect();
    let (start, talking, ended) = (Barrier::new(TALKERS + 1), AtomicUsize::new(TALKERS), AtomicU64::new(0));
    let (start, talking, ended) = (&start, &talking, &ended);
    let done = move || {
        if talking.fetch_sub(1, Ordering::SeqCst) == 1 {
            ended.store(now(), Ordering::SeqCst);
        }
    };
    // What a thread's first use costs is not the question.
    let arrive = || {
        global.with(|_| ());
        start.wait();
    };
    let before = global.with(|operations| *operations);
    let began = std::thread::scope(|s| {
        let thread = || std::thread::Builder::new().stack_size(64 << 10);
        for (at, channel) in channels.iter().enumerate() {
            let value = move |n: u32| at as u64 + u64::from(n);
            let sender = thread().spawn_scoped(s, move || {
                arrive();
                (0..MESSAGES).for_each(|n| channel.send(global, value(n), n));
                done();
            });
            let receiver = thread().spawn_scoped(s, move || {
                arrive();
                (0..MESSAGES).for_each(|n| assert_eq!(channel.receive(global, n), value(n)));
                done();
            });
            sender.and(receiver).expect("a thread");
        }
        let began = now();
        start.wait();
        began
    });
    let operations = global.with(|operations| *operations) - before;
    assert_eq!(operations, TALKERS as u64 * u64::from(MESSAGES), "two were in at once");
    (ended.load(Ordering::SeqCst) - began) as f64 / operations as f64
}

/// Table 2: measures and prints.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn table_2(rounds: u32) {
    let (board, rounds) = (Board::make(), (rounds / 3).max(1));
    // SAFETY: all zeroes are an unlocked one.
    let spin = unsafe { InPlace::<SpinLock>::zeroed() };
    // SAFETY: Plan 9's convention: a zeroed Lock is unlocked.
    let semaphore = unsafe { InPlace::<SemaphoreLock>::zeroed() };
    let mutex = Mutex::private(0u64).expect("a mutex");
    let parking = parking_lot::Mutex::new(0);
    let contenders = [
        Contender::new("spin lock, as Plan 9's was", &spin, board),
        Contender::new("plan9::Lock, by semaphores", &semaphore, board),
        Contender::new("mutex, private", &mutex, board),
        Contender::new("parking_lot::Mutex", &parking, board),
    ];
    for workers in [2, 8, 64] {
        let time = Duration::from_millis(25);
        let contest = Contest {
            sides: Sides::Threads,
            workers,
            inside: |_| 100,
            outside: 100,
            pinned: false,
            time,
            timed: false,
        };
        pit(format!("Plan 9, table 2: one lock, {workers} threads, 100 ns"), rounds, contest, &contenders);
    }
    let cases = vec![
        Case::new("spin lock, as Plan 9's was", || talk(&spin)),
        Case::new("plan9::Lock, by semaphores", || talk(&semaphore)),
        Case::new("mutex, private", || talk(&mutex)),
        Case::new("parking_lot::Mutex", || talk(&parking)),
    ];
    let title = format!("Plan 9, table 2: {TALKERS} threads, channels");
    print!("{}", Table::measure(title, rounds, cases).report());
    println!("{TABLE_2}");
}

/// Measures and prints.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn measure(rounds: u32) {
    table_1(rounds);
    table_2(rounds);
}
