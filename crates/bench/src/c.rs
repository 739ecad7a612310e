//! Semaphores in C: the library's, the Nix paper's interface, and the C library's own, as they are and under `chappe run`; beside
//! Rust's.
//!
//! The rows in C are other programs (`c/pairs.c`, compiled once for each), which are told what to do and tell how long it took. The
//! one of the C library is there twice: alone, and with our library preloaded.

use crate::process::pin;
use crate::table::{Aim, Case, Table};
use chappe::Semaphore;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What is measured with.
pub struct Programs<'a> {
    /// Where `glibc`, `chappe` and `nix` lie: `c/pairs.c`, compiled with each.
    pub pairs: &'a Path,
    /// What `chappe run` preloads.
    pub preload: &'a Path,
}

/// One of the programs in C.
struct Worker {
    child: Child,
    tell: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Worker {
    fn start(program: &Path, preload: Option<&Path>) -> Result<Worker, String> {
        let mut command = Command::new(program);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|e| format!("{}: {e}", program.display()))?;
        let (Some(tell), Some(told)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        Ok(Worker { child, tell, told: BufReader::new(told) })
    }

    /// Nanoseconds.
    fn ask(&mut self, what: &str) -> f64 {
        let mut answer = String::new();
        let told = writeln!(self.tell, "{what}").and_then(|()| self.told.read_line(&mut answer));
        answer.trim().parse().unwrap_or_else(|_| panic!("`{what}` was answered by {answer:?}, {told:?}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // At the end of what it is told it ends, and takes its names along. It is ours.
        let _ = writeln!(self.tell, "end");
        let _ = self.told.read_line(&mut String::new());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PAIRS: u32 = 200_000;
const PASSES: u32 = 1_000;
/// For each process of a ring.
const ROUND: u32 = 500;
/// So many names are there before.
const MANY_NAMES: [u32; 4] = [1_000, 10_000, 30_000, 100_000];
/// And so many more are made, and so on.
const COUNT_OF_NAMES: u32 = 500;
/// What is done to a name: for the program, for people.
const NAMES: [(&str, &str); 5] = [
    ("create", "a name made"),
    ("same", "one opened and closed that this process has open"),
    ("other", "one opened and closed that another process has open"),
    ("close", "one closed"),
    ("unlink", "one unlinked"),
];
/// Before the clock runs.
const WARM: u32 = 20;

/// There and back between two threads.
fn passed(semaphores: &[Semaphore; 2], processors: usize) -> f64 {
    let [there, back] = semaphores;
    std::thread::scope(|s| {
        s.spawn(|| {
            pin(processors - 1);
            for _ in 0..PASSES + WARM {
                there.down().expect("it is there");
                back.up().expect("it is there");
            }
        });
        pin(0);
        let mut start = Instant::now();
        for turn in 0..PASSES + WARM {
            if turn == WARM {
                start = Instant::now();
            }
            there.up().expect("it is there");
            back.down().expect("it is there");
        }
        start.elapsed().as_nanos() as f64 / f64::from(PASSES)
    })
}

const GLIBC: &str = "sem_t, glibc";
const SHIM: &str = "sem_t, chappe run";
const RUST: &str = "Semaphore, Rust";
const C: &str = "chappe_semaphore, C";
const NIX: &str = "Sem, nix.h";

/// All tables, for people, and what we want of them.
///
/// # Errors
/// A program does not start.
pub fn measure(programs: &Programs<'_>, rounds: u32) -> Result<Vec<Aim>, String> {
    let worker =
        |name: &str, preload| Worker::start(&programs.pairs.join(name), preload).map(|w| Arc::new(Mutex::new(w)));
    let workers = [
        (GLIBC, worker("glibc", None)?),
        (SHIM, worker("glibc", Some(programs.preload))?),
        (C, worker("chappe", None)?),
        (NIX, worker("nix", None)?),
    ];
    let asked = |ask: String| {
        workers.each_ref().map(move |(name, worker)| {
            let (worker, ask) = (Arc::clone(worker), ask.clone());
            Case::new(*name, move || worker.lock().unwrap_or_else(PoisonError::into_inner).ask(&ask))
        })
    };
    let mut aims = Vec::new();
    let ratio = |r: f64| format!("{r:.2}");
    for kind in ["private", "shared"] {
        let make = |name: &str| match kind {
            "private" => Semaphore::private(0),
            _ => Semaphore::create(name, 0),
        };
        let rust = [make("c-one"), make("c-there"), make("c-back")].map(|s| s.expect("an arena of its own"));
        let [one, there, back] = rust;
        one.up().expect("it is there");
        let mut cases = Vec::from(asked(format!("pair {kind} {PAIRS}")));
        cases.push(Case::new(RUST, || {
            pin(0);
            let turn = |count: u32| {
                for _ in 0..count {
                    one.down().expect("it is there");
                    one.up().expect("it is there");
                }
            };
            turn(PAIRS / 4);
            let start = Instant::now();
            turn(PAIRS);
            start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
        }));
        let table = Table::measure(format!("down and up, {kind}"), rounds, cases);
        println!("{}", table.report());
        aims.push(Aim::at_most(format!("{kind} pair in C to Rust's"), 1.1, table.ratio_to(C, RUST), ratio));
        aims.push(Aim::at_most(format!("{kind} pair of nix.h to Rust's"), 1.1, table.ratio_to(NIX, RUST), ratio));
        aims.push(Aim::at_most(format!("{kind} pair under chappe run to glibc's"), 1.2, table.ratio(SHIM), ratio));
        let both = [there, back];
        for processors in [1, 2] {
            let mut cases = Vec::from(asked(format!("pass {kind} {processors} {PASSES}")));
            cases.push(Case::new(format!("{RUST}, threads"), || passed(&both, processors)));
            let how = if kind == "private" { "threads" } else { "processes" };
            let table = Table::measure(format!("there and back, {how}, processors: {processors}"), rounds, cases);
            println!("{}", table.report());
            let what = format!("there and back, {how}, on {processors}, under chappe run to glibc's");
            aims.push(Aim::at_most(what, 1.0, table.ratio(SHIM), ratio));
        }
        drop((one, both));
    }
    for tokens in [1, 4, 16] {
        let cases = Vec::from(asked(format!("ring shared {tokens} {ROUND}")));
        let what = format!("16 processes, one semaphore each, posting to one another; at work: {tokens}");
        let table = Table::measure(what, rounds, cases);
        println!("{}", table.report());
        let what = format!("16 processes, {tokens} at work, under chappe run to glibc's");
        aims.push(Aim::at_most(what, 1.05, table.ratio(SHIM), ratio));
    }
    for many in MANY_NAMES {
        for (how, what) in NAMES {
            let cases = asked(format!("names {how} {many} {COUNT_OF_NAMES}")).into_iter().take(2).collect();
            let table = Table::measure(format!("{what}, where there are {many}"), rounds, cases);
            println!("{}", table.report());
            let what = format!("{what}, where there are {many}, under chappe run to glibc's");
            aims.push(Aim::at_most(what, 3.0, table.ratio(SHIM), ratio));
        }
    }
    Ok(aims)
}
