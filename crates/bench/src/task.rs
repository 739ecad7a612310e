//! Waits of tasks: chappe's futures beside tokio's, smol's (async-lock, async-channel) and kanal's, in one run. Each row of a table is one peer in one
//! runtime; ours is there in each: tokio with one thread and with two, smol's executor, and one by hand, which is a queue and nothing else.
//!
//! | table | an operation |
//! |---|---|
//! | pair | one task takes a unit, or a mutex, and gives it back |
//! | contended | 64 tasks do, and yield while they have it |
//! | channel | two tasks, two channels of one slot: there and back |
//! | choice | eight receivers: a message to one of them, and an answer |
//! | memory | bytes: a future, and what 100,000 that wait take besides |
//! | named | another process hands over to a sleeping task, or thread: there and back |
//! | crowd | an `up` that serves one of so many tasks, and wake-ups a second while all wait |

mod runtimes;

use crate::process::Child;
use crate::table::{Aim, Case, Table, Unit, times};
use chappe::tube::bounded;
use chappe::{Mutex, Semaphore, select_async};
use runtimes::{ALL, Job, Runtime, Yield, block_on};
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// How many pairs, and how many there and back.
const PAIRS: u32 = 200_000;
const TRIPS: u32 = 20_000;
/// The tasks that contend, and how often each.
const CROWD: u32 = 64;
const TURNS: u32 = 300;
/// The channels of a choice.
const ARMS: usize = 8;
/// The tasks that wait at once.
const MANY: u32 = 100_000;

/// What the tables are about, by peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Chappe,
    Tokio,
    Smol,
    Kanal,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Chappe => "chappe",
            Peer::Tokio => "tokio::sync",
            Peer::Smol => "async-lock, -channel",
            Peer::Kanal => "kanal",
        }
    }
}

fn job(of: impl Future<Output = ()> + Send + 'static) -> Job {
    Box::pin(of)
}

/// Nanoseconds an operation.
fn timed(runtime: Runtime, operations: u32, jobs: Vec<Job>) -> f64 {
    let begun = Instant::now();
    runtime.run(jobs);
    begun.elapsed().as_nanos() as f64 / f64::from(operations)
}

/// So many tasks, each of which takes the thing so often, and yields while it has it, or does not.
fn users(peer: Peer, locks: bool, tasks: u32, turns: u32, yields: bool) -> Vec<Job> {
    macro_rules! each {
        ($made:expr, $of:ident => $take:expr, $took:pat => $give:expr) => {{
            let made = Arc::new($made);
            let user = |_| {
                let $of = made.clone();
                job(async move {
                    for _ in 0..turns {
                        let $took = $take;
                        if yields {
                            Yield(false).await;
                        }
                        $give;
                    }
                })
            };
            (0..tasks).map(user).collect()
        }};
    }
    match (peer, locks) {
        (Peer::Chappe, false) => {
            each!(Semaphore::private(1).expect("room"), s => s.down_async().await.expect("a unit"), () => s.up().expect("room"))
        }
        (Peer::Chappe, true) => {
            each!(Mutex::private(0u64).expect("room"), m => m.lock_async().await.expect("it is whole"), guard => drop(guard))
        }
        (Peer::Tokio, false) => {
            each!(tokio::sync::Semaphore::new(1), s => s.acquire().await.expect("it is open"), permit => drop(permit))
        }
        (Peer::Tokio, true) => each!(tokio::sync::Mutex::new(0u64), m => m.lock().await, guard => drop(guard)),
        (_, false) => each!(async_lock::Semaphore::new(1), s => s.acquire().await, guard => drop(guard)),
        (_, true) => each!(async_lock::Mutex::new(0u64), m => m.lock().await, guard => drop(guard)),
    }
}

/// Two tasks, and a message there and back.
fn trips(peer: Peer) -> Vec<Job> {
    macro_rules! both {
        ($channel:expr, $send:ident, $recv:ident) => {{
            let ((to, mut here), (back, mut there)) = ($channel, $channel);
            // Some peers' receivers are shared, some are not.
            let _ = (&mut here, &mut there);
            let first = job(async move {
                for trip in 0..TRIPS {
                    to.$send(trip).await.ok().expect("the other is there");
                    assert_eq!(there.$recv().await.ok(), Some(trip));
                }
            });
            let second = job(async move {
                for _ in 0..TRIPS {
                    let trip = here.$recv().await.ok().expect("the other is there");
                    back.$send(trip).await.ok().expect("the other is there");
                }
            });
            vec![first, second]
        }};
    }
    /// tokio's `recv` answers an option.
    struct Answers<T>(tokio::sync::mpsc::Receiver<T>);
    impl<T> Answers<T> {
        async fn recv(&mut self) -> Result<T, ()> {
            self.0.recv().await.ok_or(())
        }
    }
    let tokio = || {
        let (to, from) = tokio::sync::mpsc::channel::<u32>(1);
        (to, Answers(from))
    };
    match peer {
        Peer::Chappe => both!(bounded::<u32>(1), send_async, recv_async),
        Peer::Tokio => both!(tokio(), send, recv),
        Peer::Smol => both!(async_channel::bounded::<u32>(1), send, recv),
        Peer::Kanal => both!(kanal::bounded_async::<u32>(1), send, recv),
    }
}

/// A task that sends to one of eight after the other, and one that chooses.
fn choices(peer: Peer) -> Vec<Job> {
    match peer {
        Peer::Chappe => {
            let (to, from): (Vec<_>, Vec<_>) = (0..ARMS).map(|_| bounded::<u32>(1)).unzip();
            let (back, answers) = bounded::<u32>(1);
            let sends = job(async move {
                for trip in 0..TRIPS {
                    to[trip as usize * 5 % ARMS].send_async(trip).await.expect("it is there");
                    assert_eq!(answers.recv_async().await, Ok(trip));
                }
            });
            let chooses = job(async move {
                let f = &from;
                for _ in 0..TRIPS {
                    let got = select_async! {
                        recv(f[0]) -> m => m,
                        recv(f[1]) -> m => m,
                        recv(f[2]) -> m => m,
                        recv(f[3]) -> m => m,
                        recv(f[4]) -> m => m,
                        recv(f[5]) -> m => m,
                        recv(f[6]) -> m => m,
                        recv(f[7]) -> m => m,
                    }
                    .await;
                    back.send_async(got.expect("it is there")).await.expect("it is there");
                }
            });
            vec![sends, chooses]
        }
        _ => {
            let (to, mut from): (Vec<_>, Vec<_>) = (0..ARMS).map(|_| tokio::sync::mpsc::channel::<u32>(1)).unzip();
            let (back, mut answers) = tokio::sync::mpsc::channel::<u32>(1);
            let sends = job(async move {
                for trip in 0..TRIPS {
                    to[trip as usize * 5 % ARMS].send(trip).await.expect("it is there");
                    assert_eq!(answers.recv().await, Some(trip));
                }
            });
            let chooses = job(async move {
                let [a, b, c, d, e, f, g, h] = &mut from[..] else { return };
                for _ in 0..TRIPS {
                    let got = tokio::select! {
                        m = a.recv() => m,
                        m = b.recv() => m,
                        m = c.recv() => m,
                        m = d.recv() => m,
                        m = e.recv() => m,
                        m = f.recv() => m,
                        m = g.recv() => m,
                        m = h.recv() => m,
                    };
                    back.send(got.expect("it is there")).await.expect("it is there");
                }
            });
            vec![sends, chooses]
        }
    }
}

/// A table of peers in each runtime, and the aims: in each runtime ours to a peer's.
fn beside(
    title: &str,
    rounds: u32,
    peers: &[(Peer, f64)],
    operations: u32,
    jobs: impl Fn(Peer) -> Vec<Job>,
) -> Vec<Aim> {
    let mut aims = Vec::new();
    for runtime in ALL {
        let jobs = &jobs;
        let all = [(Peer::Chappe, 0.0)].into_iter().chain(peers.iter().copied());
        let case = |(peer, _): (Peer, f64)| Case::new(peer.name(), move || timed(runtime, operations, jobs(peer)));
        let table = Table::measure(format!("{title}: {}", runtime.name()), rounds, all.map(case).collect());
        println!("{}", table.report());
        for (peer, most) in peers {
            let is = table.ratio_to(Peer::Chappe.name(), peer.name());
            aims.push(Aim::at_most(format!("{title}, {} / {}", runtime.name(), peer.name()), *most, is, times));
        }
    }
    aims
}

/// Bytes of memory that the process has, from the kernel.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}

/// So many tasks that wait for a semaphore, each polled once.
fn waiting(s: &Semaphore, many: u32) -> Vec<Pin<Box<chappe::task::Down<'_>>>> {
    let begun = |_| {
        let mut one = Box::pin(s.down_async());
        assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        one
    };
    (0..many).map(begun).collect()
}

fn memory() -> Vec<Aim> {
    let s = Semaphore::private(0).expect("room");
    let m = Mutex::private(0u64).expect("room");
    let (tx, rx) = bounded::<u64>(1);
    let sizes = [
        ("down_async", size_of_val(&s.down_async())),
        ("lock_async", size_of_val(&m.lock_async())),
        ("recv_async", size_of_val(&rx.recv_async())),
        ("send_async of 8 bytes", size_of_val(&tx.send_async(0))),
    ];
    let before = resident();
    let all = waiting(&s, MANY);
    let each = (resident() - before) / f64::from(MANY);
    drop(all);
    let rows = sizes.iter().map(|(what, size)| ((*what).to_owned(), vec![*size as f64]));
    let held = ("one of 100,000 that wait, with its box".to_owned(), vec![each]);
    println!("{}", Table::counted("memory of a waiting future", Unit::Bytes, rows.chain([held]).collect()).report());
    let bytes = |figure: f64| format!("{figure:.0} B");
    let largest = sizes.iter().map(|(_, size)| *size).max().unwrap_or(0);
    vec![
        Aim::at_most("memory of a waiting future, the largest", 200.0, largest as f64, bytes),
        Aim::at_most("the same with all that is kept for it, of 100,000", 200.0, each, bytes),
    ]
}

/// A forked process that answers each unit of one semaphore with one of another.
fn answers(there: &Semaphore, back: &Semaphore) -> Child {
    Child::fork(|| {
        while there.down().is_ok() {
            back.up().expect("room");
        }
    })
}

fn named(rounds: u32) -> Vec<Aim> {
    const HANDS: u32 = 3_000;
    let make = |name: &str| Semaphore::create(name, 0).expect("room");
    let pairs = [(make("task-there"), make("task-back")), (make("thread-there"), make("thread-back"))];
    let children: Vec<_> = pairs.iter().map(|(there, back)| answers(there, back)).collect();
    let [(task_there, task_back), (thread_there, thread_back)] = &pairs;
    let thread = Case::repeat("a thread", HANDS, || {
        thread_there.up().expect("room");
        thread_back.down().expect("a unit");
    });
    let task = Case::repeat("a task, polled by hand", HANDS, || {
        task_there.up().expect("room");
        block_on(task_back.down_async()).expect("a unit");
    });
    let table = Table::measure("another process hands over: there and back", rounds, vec![thread, task]);
    println!("{}", table.report());
    children.iter().for_each(Child::kill);
    children.into_iter().for_each(|child| _ = child.end());
    let is = table.ratio_to("a task, polled by hand", "a thread");
    vec![Aim::at_most("named hand-off, to a task / to a thread", 1.3, is, times)]
}

/// How often the process's threads have been woken so far.
fn switches() -> u64 {
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    std::fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(of).sum()
}

fn crowd(rounds: u32) -> Vec<Aim> {
    const SERVED: u32 = 1_000;
    let run = |many: u32| {
        move || {
            let s = Semaphore::create(&format!("crowd-{many}"), 0).expect("room");
            let mut all = waiting(&s, many + SERVED);
            let begun = Instant::now();
            for _ in 0..SERVED {
                s.up().expect("room");
            }
            let each = begun.elapsed().as_nanos() as f64 / f64::from(SERVED);
            black_box(&mut all);
            drop(all);
            Semaphore::remove(&format!("crowd-{many}"), true).expect("it is there");
            each
        }
    };
    let cases = vec![Case::new("100 wait", run(100)), Case::new("100,000 wait", run(MANY))];
    let table = Table::measure("an up while so many tasks wait", rounds.min(5), cases);
    println!("{}", table.report());
    let s = Semaphore::create("crowd-idle", 0).expect("room");
    let all = waiting(&s, MANY);
    std::thread::sleep(Duration::from_millis(500));
    let before = switches();
    std::thread::sleep(Duration::from_secs(2));
    // One is this thread's own sleep.
    let woken = (switches() - before).saturating_sub(1) as f64 / 2.0;
    drop(all);
    vec![
        Aim::at_most("an up, 100,000 waiting tasks / 100", 1.2, table.ratio_to("100,000 wait", "100 wait"), times),
        Aim::at_most("wake-ups a second while 100,000 wait", 0.0, woken, |figure| format!("{figure:.1}")),
    ]
}

/// All tables.
///
/// # Panics
/// If a peer fails.
pub fn measure(rounds: u32) -> Vec<Aim> {
    // First: it forks.
    let mut aims = named(rounds);
    let locks = [(Peer::Tokio, 0.8), (Peer::Smol, 1.0)];
    let contended = [(Peer::Tokio, 1.0), (Peer::Smol, 1.0)];
    let channels = [(Peer::Tokio, 0.8), (Peer::Kanal, 1.0), (Peer::Smol, 1.0)];
    for (what, mutex) in [("semaphore", false), ("mutex", true)] {
        let alone = |peer| users(peer, mutex, 1, PAIRS, false);
        aims.extend(beside(&format!("{what}: a pair"), rounds, &locks, PAIRS, alone));
        let crowded = |peer| users(peer, mutex, CROWD, TURNS, true);
        aims.extend(beside(&format!("{what}: 64 tasks"), rounds, &contended, CROWD * TURNS, crowded));
    }
    aims.extend(beside("channel: there and back", rounds, &channels, TRIPS, trips));
    aims.extend(beside("choice of 8", rounds, &[(Peer::Tokio, 0.7)], TRIPS, choices));
    aims.extend(memory());
    aims.extend(crowd(rounds));
    aims
}
