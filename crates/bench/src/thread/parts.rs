//! Each row as one peer does it, in a process of its own: `chappe-bench thread-part PEER WHAT [NUMBER]` prints the figure.

#[allow(dead_code, unreachable_pub, reason = "the example's main is not ours")]
#[path = "../../../../examples/rust/http.rs"]
mod http;
#[allow(dead_code, unreachable_pub, reason = "the example's main is not ours")]
#[path = "../../../../examples/rust/power_series.rs"]
mod power_series;

use super::files;
use super::used::{Used, per};
use crate::raw::{self, Scope};
use chappe::thread::{self as light, Builder, Runtime};
use chappe::tube::bounded;
use chappe::{Semaphore, select};
use std::hint::black_box;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TRIPS: u32 = 200_000;
const MESSAGES: u32 = 300_000;
const BATCH: usize = 1_000;
const ROUNDS: usize = 200;
const STEPS: u64 = 30_000_000;
/// Yields among all threads.
const YIELDS: usize = 2_000_000;

/// Bytes of memory that this process has.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("it is there");
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096.0
}

fn compute() -> u64 {
    let mut x = black_box(88_172_645_463_325_252u64);
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

pub(super) fn on<T: Send>(procs: usize, body: impl FnOnce() -> T + Send) -> T {
    Runtime::new(procs).expect("a runtime").run(body)
}

/// The time, and that of the processors.
fn power(coefficients: usize, procs: usize) -> (f64, f64) {
    on(procs, || {
        power_series::hash(coefficients);
        let (begun, used) = (Instant::now(), Used::now());
        let hash = power_series::hash(coefficients);
        let took = (per(begun, 1), used.per(1));
        assert!(coefficients != 200 || hash == 1_874_883_932, "wrong hash {hash}");
        took
    })
}

fn rendezvous() -> f64 {
    let ((there, heard), (answer, back)) = (bounded::<u32>(0), bounded::<u32>(0));
    drop(light::spawn(move || {
        while let Ok(number) = heard.recv() {
            let _ = answer.send(number);
        }
    }));
    let begun = Used::now();
    for number in 0..TRIPS {
        there.send(number).expect("it listens");
        black_box(back.recv().expect("it answers"));
    }
    begun.per(TRIPS as usize)
}

fn alt() -> f64 {
    let [a, b, c] = [(); 3].map(|()| {
        let (to, from) = bounded::<u32>(0);
        drop(light::spawn(move || while to.send(1).is_ok() {}));
        from
    });
    let mut sum = 0;
    let begun = Used::now();
    for _ in 0..MESSAGES {
        select! {
            recv(a) -> n => sum += n.unwrap_or(0),
            recv(b) -> n => sum += n.unwrap_or(0),
            recv(c) -> n => sum += n.unwrap_or(0),
        }
    }
    let took = begun.per(MESSAGES as usize);
    assert_eq!(sum, MESSAGES);
    took
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Rounds of so many that begin, count and end, after a first that warms up.
fn create(mut begin: impl FnMut(), mut give_way: impl FnMut()) -> f64 {
    let mut begun = Used::now();
    for round in 0..=ROUNDS {
        COUNT.store(0, Ordering::Relaxed); // Relaxed: nobody counts now.
        (0..BATCH).for_each(|_| begin());
        // Acquire: theirs.
        while COUNT.load(Ordering::Acquire) < BATCH {
            give_way();
        }
        if round == 0 {
            begun = Used::now();
        }
    }
    begun.per(ROUNDS * BATCH)
}

fn count() {
    COUNT.fetch_add(1, Ordering::Release); // Release: it has begun.
}

/// The state that the yielding threads share.
#[derive(Default)]
struct Yielders {
    // Ordering: Release and Acquire: what was done comes before.
    came: AtomicUsize,
    // Ordering: Release and Acquire: what was done comes before.
    done: AtomicUsize,
    // Ordering: Release and Acquire: what was done comes before.
    start: AtomicBool,
}

impl Yielders {
    fn body(&self, each: usize, give_way: impl Fn()) {
        self.came.fetch_add(1, Ordering::Release);
        while !self.start.load(Ordering::Acquire) {
            give_way();
        }
        (0..each).for_each(|_| give_way());
        self.done.fetch_add(1, Ordering::Release);
    }

    fn measure(&self, threads: usize, each: usize, give_way: impl Fn()) -> f64 {
        while self.came.load(Ordering::Acquire) < threads {
            give_way();
        }
        let begun = Used::now();
        self.start.store(true, Ordering::Release);
        while self.done.load(Ordering::Acquire) < threads {
            give_way();
        }
        begun.per(each * threads)
    }
}

fn yields(threads: usize) -> f64 {
    let (all, each) = (Arc::new(Yielders::default()), YIELDS / threads);
    for _ in 0..threads {
        let all = Arc::clone(&all);
        drop(light::spawn(move || all.body(each, light::yield_now)));
    }
    all.measure(threads, each, light::yield_now)
}

/// So many that are blocked in `recv`: bytes of each, and nanoseconds until all are awake and gone, each.
fn memory(threads: usize) -> (f64, f64) {
    let (to, from) = bounded::<u8>(0);
    let before = resident();
    for _ in 0..threads {
        let from = from.clone();
        drop(light::spawn(move || {
            count();
            from.recv().unwrap_or_default()
        }));
    }
    // Acquire: theirs.
    while COUNT.load(Ordering::Acquire) < threads {
        light::yield_now();
    }
    light::yield_now();
    let bytes = (resident() - before) / threads as f64;
    drop(from);
    let begun = Used::now();
    drop(to);
    for _ in 0..2 {
        light::yield_now();
    }
    (bytes, begun.per(threads))
}

/// Wakes of the kernel's in a second while so many are blocked.
fn idle(threads: usize) -> f64 {
    let (to, from) = bounded::<u8>(0);
    let runtime = Runtime::new(2).expect("a runtime");
    for _ in 0..threads {
        let from = from.clone();
        drop(runtime.spawn(move || {
            count();
            from.recv().unwrap_or_default()
        }));
    }
    // Acquire: theirs.
    while COUNT.load(Ordering::Acquire) < threads {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let switches = || -> u64 {
        let me = std::process::id();
        let tasks = std::fs::read_dir("/proc/self/task").expect("it is there").flatten();
        let others = tasks.filter(|task| task.file_name().to_string_lossy() != me.to_string());
        let status = others.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        status
            .flat_map(|text| {
                let line = |l: &str| l.contains("ctxt_switches").then(|| l.split_whitespace().nth(1)?.parse().ok());
                text.lines().filter_map(line).flatten().collect::<Vec<u64>>()
            })
            .sum()
    };
    let before = switches();
    std::thread::sleep(Duration::from_secs(1));
    let woken = switches() - before;
    drop(to);
    woken as f64
}

/// Two threads on two procs, on one processor: when one runs the other's proc sleeps.
fn across() -> f64 {
    const TRIPS: u32 = 20_000;
    crate::process::pin(0);
    let runtime = Runtime::new(2).expect("a runtime");
    let ((there, heard), (answer, back)) = (bounded::<u32>(0), bounded::<u32>(0));
    let pinned = || Builder::new().pinned();
    let echo = pinned().spawn_on(&runtime, move || {
        while let Ok(number) = heard.recv() {
            let _ = answer.send(number);
        }
    });
    let other = pinned().spawn_on(&runtime, move || {
        let trip = |number| {
            there.send(number).expect("it listens");
            black_box(back.recv().expect("it answers"));
        };
        (0..TRIPS / 10).for_each(trip);
        let begun = Instant::now();
        (0..TRIPS).for_each(trip);
        per(begun, TRIPS as usize)
    });
    let took = other.and_then(|other| other.join().map_err(|_| std::io::ErrorKind::Other.into())).expect("a figure");
    drop(echo);
    took
}

/// The same by two kernel threads and a futex.
fn futex() -> f64 {
    const TRIPS: u32 = 20_000;
    // Ordering: Release and Acquire: the other's turn is over.
    static TURN: AtomicU32 = AtomicU32::new(0);
    crate::process::pin(0);
    let side = |mine: u32, theirs: u32| {
        for _ in 0..TRIPS {
            while TURN.load(Ordering::Acquire) != mine {
                raw::wait(&TURN, theirs, Scope::Private);
            }
            TURN.store(theirs, Ordering::Release);
            raw::wake(&TURN, Scope::Private);
        }
    };
    let other = std::thread::spawn(move || side(1, 0));
    let begun = Instant::now();
    side(0, 1);
    let took = per(begun, TRIPS as usize);
    other.join().expect("it ends");
    took
}

fn tubes() -> f64 {
    const TIMES: usize = 1_000_000;
    let begun = Used::now();
    for _ in 0..TIMES {
        drop(black_box(bounded::<u32>(0)));
    }
    begun.per(TIMES)
}

/// Bytes of a rendezvous tube, the allocator's own included.
fn tube_bytes() -> f64 {
    const TUBES: usize = 10_000;
    let used = || {
        // SAFETY: it answers numbers.
        unsafe { libc::mallinfo2() }.uordblks as f64
    };
    let mut all = Vec::with_capacity(TUBES);
    all.push(bounded::<u32>(0));
    let before = used();
    while all.len() < TUBES {
        all.push(bounded::<u32>(0));
    }
    (used() - before) / (TUBES - 1) as f64
}

fn fan() -> f64 {
    const THREADS: usize = 8;
    let (tell, told) = bounded(0);
    let begun = Instant::now();
    for _ in 0..THREADS {
        let tell = tell.clone();
        drop(light::spawn(move || tell.send(compute())));
    }
    (0..THREADS).for_each(|_| assert!(told.recv().is_ok()));
    per(begun, THREADS)
}

fn serve(root: &str) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("it is bound"));
    let stop = Semaphore::private(0).expect("a semaphore");
    on(2, || http::serve(listener, root.into(), &stop)).expect("it serves");
    0.0
}

/// Tokio's, on one kernel thread.
mod tokios {
    use super::{BATCH, COUNT, MESSAGES, ROUNDS, TRIPS, Used, YIELDS, Yielders, count};
    use std::hint::black_box;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use tokio::sync::mpsc::channel;
    use tokio::task::{spawn, yield_now};

    pub fn on<T>(body: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(body)
    }

    /// Its channels have one slot at least.
    pub async fn rendezvous() -> f64 {
        let ((there, mut heard), (answer, mut back)) = (channel(1), channel(1));
        spawn(async move {
            while let Some(number) = heard.recv().await {
                let _ = answer.send(number).await;
            }
        });
        let begun = Used::now();
        for number in 0..TRIPS {
            let _ = there.send(number).await;
            black_box(back.recv().await);
        }
        begun.per(TRIPS as usize)
    }

    pub async fn alt() -> f64 {
        let [mut a, mut b, mut c] = [(); 3].map(|()| {
            let (to, from) = channel::<u32>(1);
            spawn(async move { while to.send(1).await.is_ok() {} });
            from
        });
        let mut sum = 0;
        let begun = Used::now();
        for _ in 0..MESSAGES {
            let got = tokio::select! { n = a.recv() => n, n = b.recv() => n, n = c.recv() => n };
            sum += got.unwrap_or(0);
        }
        assert_eq!(sum, MESSAGES);
        begun.per(MESSAGES as usize)
    }

    pub async fn create() -> f64 {
        let mut begun = Used::now();
        for round in 0..=ROUNDS {
            COUNT.store(0, Ordering::Relaxed); // Relaxed: nobody counts now.
            (0..BATCH).for_each(|_| drop(spawn(async { count() })));
            // Acquire: theirs.
            while COUNT.load(Ordering::Acquire) < BATCH {
                yield_now().await;
            }
            if round == 0 {
                begun = Used::now();
            }
        }
        begun.per(ROUNDS * BATCH)
    }

    pub async fn yields(threads: usize) -> f64 {
        let (all, each) = (Arc::new(Yielders::default()), YIELDS / threads);
        for _ in 0..threads {
            let all = Arc::clone(&all);
            spawn(async move {
                all.came.fetch_add(1, Ordering::Release); // Release: one kernel thread; as in `Yielders`.
                while !all.start.load(Ordering::Acquire) {
                    yield_now().await;
                }
                for _ in 0..each {
                    yield_now().await;
                }
                all.done.fetch_add(1, Ordering::Release);
            });
        }
        while all.came.load(Ordering::Acquire) < threads {
            yield_now().await;
        }
        let begun = Used::now();
        all.start.store(true, Ordering::Release);
        while all.done.load(Ordering::Acquire) < threads {
            yield_now().await;
        }
        begun.per(each * threads)
    }

    pub async fn memory(threads: usize) -> f64 {
        let (to, from) = tokio::sync::watch::channel(0u8);
        let before = super::resident();
        for _ in 0..threads {
            let mut from = from.clone();
            spawn(async move { from.changed().await });
        }
        yield_now().await;
        let bytes = (super::resident() - before) / threads as f64;
        drop(to);
        bytes
    }
}

/// May's, on one worker.
mod mays {
    use super::{BATCH, ROUNDS, TRIPS, Used};
    use may::sync::mpsc::channel;
    use std::hint::black_box;

    pub fn on(body: impl FnOnce() -> f64 + Send + 'static) -> f64 {
        may::config().set_workers(1);
        // SAFETY: it uses no thread-local of its own across a wait.
        unsafe { may::coroutine::spawn(body) }.join().expect("a figure")
    }

    /// Its channels are unbounded.
    pub fn rendezvous() -> f64 {
        let ((there, heard), (answer, back)) = (channel(), channel());
        // SAFETY: as above.
        unsafe {
            may::coroutine::spawn(move || {
                while let Ok(number) = heard.recv() {
                    let _ = answer.send(number);
                }
            })
        };
        let begun = Used::now();
        for number in 0..TRIPS {
            let _ = there.send(number);
            let _ = black_box(back.recv());
        }
        begun.per(TRIPS as usize)
    }

    /// `may`'s `yield_now` does not let a coroutine that has not begun go first, so the batches are joined.
    pub fn create() -> f64 {
        let round = || {
            // SAFETY: as above.
            let batch: Vec<_> = (0..BATCH).map(|_| unsafe { may::coroutine::spawn(super::count) }).collect();
            batch.into_iter().for_each(|one| one.join().expect("it counts"));
        };
        round();
        let begun = Used::now();
        (0..ROUNDS).for_each(|_| round());
        begun.per(ROUNDS * BATCH)
    }
}

/// Corosensei has no scheduler: two coroutines, resumed in turns.
fn corosensei() -> f64 {
    use corosensei::{Coroutine, CoroutineResult};
    let each = YIELDS / 2;
    let mut both = [(); 2].map(|()| {
        Coroutine::new(move |yielder, ()| {
            for _ in 0..each {
                yielder.suspend(());
            }
        })
    });
    let begun = Used::now();
    loop {
        let over = both.each_mut().map(|one| matches!(one.resume(()), CoroutineResult::Return(())));
        if over == [true; 2] {
            return begun.per(each * 2);
        }
    }
}

/// Kernel threads.
mod kernel {
    use super::{TRIPS, per};
    use std::hint::black_box;
    use std::sync::mpsc::sync_channel;
    use std::time::Instant;

    pub fn rendezvous() -> f64 {
        let trips = TRIPS / 10;
        let ((there, heard), (answer, back)) = (sync_channel(0), sync_channel(0));
        std::thread::spawn(move || {
            while let Ok(number) = heard.recv() {
                let _ = answer.send(number);
            }
        });
        let begun = Instant::now();
        for number in 0..trips {
            let _ = there.send(number);
            let _ = black_box(back.recv());
        }
        per(begun, trips as usize)
    }

    pub fn create() -> f64 {
        const THREADS: usize = 2_000;
        let begun = Instant::now();
        for _ in 0..THREADS {
            let _ = std::thread::spawn(super::count).join();
        }
        per(begun, THREADS)
    }
}

/// The figure; `None`: no such part.
pub fn run(args: &[&str]) -> Option<f64> {
    let number = args.get(2).and_then(|number| number.parse().ok()).unwrap_or(0usize);
    let path = || args.get(2).expect("the name of a file");
    Some(match (args[0], *args.get(1)?) {
        ("chappe", "power") => power(200, number).0,
        ("chappe", "powercpu") => power(200, number).1,
        ("chappe", "rendezvous") => on(1, rendezvous),
        ("chappe", "alt") => on(1, alt),
        ("chappe", "create") => on(1, || create(|| drop(light::spawn(count)), light::yield_now)),
        ("chappe", "yield") => on(1, || yields(number)),
        ("chappe", "memory") => on(1, || memory(number)).0,
        ("chappe", "gone") => on(1, || memory(number)).1,
        ("chappe", "idle") => idle(number),
        ("chappe", "across") => across(),
        ("chappe", "make") => on(1, tubes),
        ("chappe", "tube") => tube_bytes(),
        ("chappe", "fan") => on(number, fan),
        ("chappe", "http") => serve(args.get(2)?),
        ("chappe", "read") => on(1, || files::light_threads(path(), false)),
        ("chappe", "readdirect") => on(1, || files::light_threads(path(), true)),
        ("kernel", "read") => files::one_kernel_thread(path(), false),
        ("kernel", "readdirect") => files::one_kernel_thread(path(), true),
        ("tokio", "read") => tokios::on(files::tokio_tasks(path(), false)),
        ("tokio", "readdirect") => tokios::on(files::tokio_tasks(path(), true)),
        ("kernel", "futex") => futex(),
        ("kernel", "rendezvous") => kernel::rendezvous(),
        ("kernel", "create") => kernel::create(),
        ("tokio", "rendezvous") => tokios::on(tokios::rendezvous()),
        ("tokio", "alt") => tokios::on(tokios::alt()),
        ("tokio", "create") => tokios::on(tokios::create()),
        ("tokio", "yield") => tokios::on(tokios::yields(number)),
        ("tokio", "memory") => tokios::on(tokios::memory(number)),
        ("may", "rendezvous") => mays::on(mays::rendezvous),
        ("may", "create") => mays::on(mays::create),
        ("corosensei", "yield") => corosensei(),
        _ => return None,
    })
}
