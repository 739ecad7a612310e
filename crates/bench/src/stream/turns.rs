//! Five stages between two devices of 1 kHz on one processor, beside eight light threads that compute: scheduled by the fill of their queues (synthesis,
//! 6.3.1), and in equal turns.
//!
//! Each stage takes 100 us of processor for a block, so the five need half of it. The devices are kernel threads of their own, as hardware is: one makes a block
//! each millisecond and loses it where its ring of eight is full; the other takes one each millisecond. It begins after a tenth of the time, once its ring is half
//! full, as players do; from then on a ring that is empty is an underrun. The processor is reserved for the light threads as far as the system lets it.

use crate::process::now;
use crate::table::Aim;
use chappe::stream::{Block, Body, End, Fault, Graph, Kind, Kinds, Options, Out, Plan, Source, Stage, Type, sched};
use chappe::thread::{Builder, Runtime};
use chappe::tube::{self, Receiver, Sender};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCKS: u64 = 2_000;
const PERIOD: u64 = 1_000_000;
const WORK: u64 = 100_000;
/// Blocks that the device takes, or misses.
const DUE: u64 = BLOCKS - BLOCKS / 5;
const RING: usize = 8;
const COMPUTING: usize = 8;

fn until(due: u64) {
    let at = now();
    if due > at {
        std::thread::sleep(Duration::from_nanos(due - at));
    }
}

/// A number's time of processor on this machine: turns of a loop in a nanosecond, taken once.
fn turns(ns: u64) -> u64 {
    static EACH: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    let each = EACH.get_or_init(|| {
        let time = |n: u64| {
            let began = now();
            spin(n);
            (now() - began) as f64 / n as f64
        };
        (0..20).map(|_| time(100_000)).fold(f64::INFINITY, f64::min)
    });
    (ns as f64 / each) as u64
}

/// The one loop that is timed and used: a second copy may be compiled to something else.
#[inline(never)]
fn spin(turns: u64) {
    (0..turns).for_each(|i| {
        black_box(i);
    });
}

fn compute(ns: u64) {
    spin(turns(ns));
}

struct Makes(Receiver<f32>);

impl Source for Makes {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        Ok(self.0.recv().ok().map(|number| Block::f32(vec![number])))
    }
}

/// The device that makes; answers how many found no room.
fn make(ring: Sender<f32>) -> u64 {
    hardware();
    let began = now();
    let lost = |number: &u64| {
        until(began + number * PERIOD);
        ring.try_send(*number as f32).is_err()
    };
    (0..BLOCKS).filter(lost).count() as u64
}

/// The device that takes; answers how often there was nothing.
fn take(ring: Receiver<f32>) -> u64 {
    hardware();
    let warm = now() + BLOCKS / 10 * PERIOD;
    let patience = warm + BLOCKS * PERIOD / 2;
    while now() < warm || (ring.len() < RING / 2 && now() < patience) {
        if now() < warm {
            let _ = ring.try_recv();
        }
        until(now() + PERIOD / 2);
    }
    let mut began = now();
    let missed = |number: &u64| {
        let due = began + number * PERIOD;
        until(due);
        // Hardware does not do later what it has not done in time: where the machine stood still, so did the device.
        began += Some(now().saturating_sub(due)).filter(|late| *late > PERIOD).unwrap_or(0);
        ring.try_recv().is_err()
    };
    let missed = (0..DUE).filter(missed).count() as u64;
    // What comes later goes nowhere.
    while ring.recv().is_ok() {}
    missed
}

/// Nothing that computes holds hardware up.
fn hardware() {
    // SAFETY: a parameter that lives; the calling thread.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = 50;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param);
    }
}

/// Nine tenths of a processor for the calling thread, in each millisecond, whatever else the machine does: it is light threads that are compared. A thread
/// like any other is away for a millisecond whenever another program computes, and for several beside a few: longer than any order of turns can make good.
fn reserve() -> std::io::Result<()> {
    let wanted = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_DEADLINE as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: PERIOD / 10 * 9,
        sched_deadline: PERIOD,
        sched_period: PERIOD,
    };
    // SAFETY: attributes that live; the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

struct Works;

impl Stage for Works {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        compute(WORK);
        out.put(block)
    }
}

struct Takes(Sender<f32>);

impl Stage for Takes {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        // The device goes on longer than the graph.
        let _ = self.0.send(block.numbers()[0]);
        Ok(())
    }
}

/// One run, in per cent: underruns, blocks lost, and how much of the processor the computing threads had.
fn run(in_turn: bool) -> (f64, f64, f64) {
    let ((to_graph, from_device), (to_device, from_graph)) = (tube::bounded(RING), tube::bounded(RING));
    let (stop, turned) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut kinds = Kinds::standard();
    let from_device = Mutex::new(Some(from_device));
    kinds.add(Kind::new("makes", "", "a device that makes", move |_| {
        let ring = from_device.lock().ok().and_then(|mut ring| ring.take()).expect("one graph");
        let made = Plan::source(Type::sound(1, 1000.0), move || Ok(Body::Source(Box::new(Makes(ring)))));
        Ok(made.ends(End::Passive, End::Active))
    }));
    kinds.add(Kind::new("works", "", "a stage", |call| {
        Ok(Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Works)))))
    }));
    let to_device = Mutex::new(Some(to_device));
    kinds.add(Kind::new("takes", "", "a device that takes", move |_| {
        let ring = to_device.lock().ok().and_then(|mut ring| ring.take()).expect("one graph");
        Ok(Plan::sink(move || Ok(Body::Stage(Box::new(Takes(ring))))).ends(End::Active, End::Passive))
    }));
    let stages = "works | queue 8 | ".repeat(5);
    let text = format!("makes | queue 8 | {stages}takes");
    let graph = Graph::with(&text, Options { kinds, in_turn, ..Options::default() }).unwrap_or_else(|e| panic!("{e}"));
    let runtime = Runtime::new(1).expect("one proc");
    compute(1);
    if let Err(e) = runtime.run(reserve) {
        eprintln!("the processor is not reserved for the light threads, and other programs count: {e}");
    }
    let began = now();
    let computing: Vec<_> = (0..COMPUTING)
        .map(|_| {
            let (stop, turned) = (Arc::clone(&stop), Arc::clone(&turned));
            let turn = move |check: &mut dyn FnMut()| {
                // Relaxed: a flag, and a count.
                while !stop.load(Ordering::Relaxed) {
                    compute(5_000);
                    turned.fetch_add(5_000, Ordering::Relaxed); // Relaxed: a count.
                    check();
                }
            };
            let builder = Builder::new().name("computes");
            if in_turn {
                let body = move || {
                    let mut began = now();
                    turn(&mut || {
                        if now() - began >= sched::QUANTUM as u64 {
                            chappe::thread::yield_now();
                            began = now();
                        }
                    });
                };
                builder.level(0).spawn_on(&runtime, body).expect("a thread")
            } else {
                sched::background_on(&runtime, move |own| turn(&mut || own.check()))
            }
        })
        .collect();
    let running = graph.run_on(&runtime).unwrap_or_else(|e| panic!("{e}"));
    let taking = std::thread::spawn(move || take(from_graph));
    let making = std::thread::spawn(move || make(to_graph));
    let lost = making.join().expect("no panic");
    running.wait().unwrap_or_else(|e| panic!("{e}"));
    let missed = taking.join().expect("no panic");
    // Relaxed: the flag and the count, which is read when all have ended.
    stop.store(true, Ordering::Relaxed);
    let seconds = (now() - began) as f64;
    computing.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let share = |part: u64, of: u64| part as f64 / of as f64 * 100.0;
    // Relaxed: they have ended.
    (share(missed, DUE), share(lost, BLOCKS), turned.load(Ordering::Relaxed) as f64 / seconds * 100.0)
}

/// Measures and prints.
pub fn measure(runs: usize) -> Vec<Aim> {
    let (mut by_fill, mut in_turn) = (Vec::new(), Vec::new());
    for _ in 0..runs.min(10) {
        in_turn.push(run(true));
        by_fill.push(run(false));
    }
    println!(
        "five stages of 100 us between devices of 1 kHz, beside {COMPUTING} computing light threads, one processor"
    );
    println!("per cent of underruns + of blocks lost (and what the computing threads had of the processor), each run");
    let line = |name: &str, all: &[(f64, f64, f64)]| {
        let shown: Vec<String> =
            all.iter().map(|(missed, lost, had)| format!("{missed:.2} + {lost:.2} ({had:.0})")).collect();
        println!("  {name:<20} {}", shown.join("  "));
    };
    line("in equal turns", &in_turn);
    line("by fill", &by_fill);
    println!();
    let worst = by_fill.iter().map(|r| r.0 + r.1).fold(0.0, f64::max);
    let least = in_turn.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
    let share = |n: f64| format!("{n:.2} %");
    vec![
        Aim::at_most("underruns and blocks lost by fill, worst of all runs", 0.0, worst, share),
        Aim::at_most("10 % by underruns in equal turns, best of all runs", 1.0, 10.0 / least.max(1e-9), |r| {
            format!("{r:.2}")
        }),
    ]
}
