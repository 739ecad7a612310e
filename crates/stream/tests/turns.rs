//! Turns of light threads beside others that compute: by the fill of queues, and in turn (synthesis, 6.3.1 and 6.3.4).

use chappe_stream::sched::{QUANTUM, background_on};
use chappe_stream::{Block, Body, Fault, Graph, Kind, Options, Out, Plan, Stage};
use chappe_thread::{Builder, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Takes so long of the thread's own processor time for each block.
struct Burns(Duration);

/// This kernel thread's processor time: what others of the machine take does not count.
fn own_time() -> Duration {
    // SAFETY: the call fills the time in.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }
}

fn burn(how_long: Duration) {
    let began = own_time();
    while own_time() - began < how_long {
        std::hint::spin_loop();
    }
}

impl Stage for Burns {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        burn(self.0);
        out.put(block)
    }
}

/// A device that plays the n-th block n ms after the first, and some blocks behind it.
struct Plays {
    slack: Duration,
    first: Option<Instant>,
    at: u32,
    missed: Arc<AtomicU64>,
}

impl Stage for Plays {
    fn put(&mut self, _: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let now = Instant::now();
        let due = *self.first.get_or_insert(now) + Duration::from_millis(self.at.into()) + self.slack;
        self.at += 1;
        if now > due {
            self.missed.fetch_add(1, Ordering::Relaxed);
            out.late((now - due).as_secs_f64());
        }
        Ok(())
    }
}

const BLOCKS: u64 = 3_000;
const STAGES: usize = 5;
const COMPUTING: usize = 8;

/// Blocks that came too late, in per cent, and the share of the processor that the computing threads had.
fn run(by_fill: bool, slack: Duration) -> (f64, f64) {
    let missed = Arc::new(AtomicU64::new(0));
    let mut options = Options::default();
    options.kinds.add(Kind::new("burns", "US", "computes", |call| {
        let us = call.needs_number(0, "us", (0.0, 1e6))? as u64;
        let gives = call.input()?.clone();
        Ok(Plan::filter(gives, move || Ok(Body::Stage(Box::new(Burns(Duration::from_micros(us)))))))
    }));
    let ours = Arc::clone(&missed);
    options.kinds.add(Kind::new("plays", "", "a device", move |call| {
        call.input()?;
        let missed = Arc::clone(&ours);
        Ok(Plan::sink(move || Ok(Body::Stage(Box::new(Plays { slack, first: None, at: 0, missed })))))
    }));
    let stages = "| burns 100 | pump ".repeat(STAGES - 1);
    let text = format!("clock 1000 count={BLOCKS} {stages} | burns 100 | plays");
    let graph = Graph::with(&text, options).unwrap();
    let runtime = Runtime::new(1).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let step = Duration::from_micros(10);
    let computing: Vec<_> = (0..COMPUTING)
        .map(|_| {
            let over = Arc::clone(&over);
            if by_fill {
                return background_on(&runtime, move |turn| {
                    let mut steps = 0u64;
                    while !over.load(Ordering::Relaxed) {
                        burn(step);
                        steps += 1;
                        turn.check();
                    }
                    steps
                });
            }
            let body = move || {
                let (mut steps, mut began) = (0u64, Instant::now());
                while !over.load(Ordering::Relaxed) {
                    burn(step);
                    steps += 1;
                    if began.elapsed().as_nanos() as f64 >= QUANTUM {
                        chappe_thread::yield_now();
                        began = Instant::now();
                    }
                }
                steps
            };
            Builder::new().level(0).spawn_on(&runtime, body).unwrap()
        })
        .collect();
    let began = Instant::now();
    let report = graph.run_on(&runtime).unwrap().wait().unwrap();
    let took = began.elapsed();
    over.store(true, Ordering::Relaxed);
    let steps: u64 = computing.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(report.node("plays").unwrap().counts.blocks, BLOCKS);
    assert_eq!(report.late(), missed.load(Ordering::Relaxed));
    (missed.load(Ordering::Relaxed) as f64 / BLOCKS as f64 * 100.0, steps as f64 * 1e-5 / took.as_secs_f64())
}

#[test]
#[ignore = "storm: measures"]
fn five_stages_beside_eight_computing_threads_are_never_late_and_in_turn_they_are() {
    let slack = Duration::from_millis(16);
    let mut rows = Vec::new();
    for _ in 0..3 {
        rows.push((run(true, slack), run(false, slack)));
    }
    for ((late, share), (late_in_turn, share_in_turn)) in &rows {
        println!(
            "by fill: {late:.2} % late, {:.0} % computing; in turn: {late_in_turn:.2} % late, {:.0} % computing",
            share * 100.0,
            share_in_turn * 100.0
        );
    }
    let least = rows.iter().map(|r| r.0.0).fold(f64::INFINITY, f64::min);
    assert_eq!(least, 0.0, "{rows:?}");
    assert!(rows.iter().all(|r| r.1.0 > 10.0), "{rows:?}");
}
