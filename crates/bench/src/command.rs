//! `chappe-bench pool`: all tables about pools, and the aims beside what was reached. `chappe-bench sync`: all about
//! semaphores, mutexes, choice over them, and Plan 9's. `chappe-bench tube`: all about channels. `chappe-bench ras`: restartable
//! sequences and what is made with them. `chappe-bench realtime`: nonblocking structures, and locks for threads with deadlines. `chappe-bench robustness`: what ships beside what was built without what deaths need:
//! `--fragile` names that program. `chappe-bench c`: semaphores in C, with the programs that it is given.
//!
//! `chappe-bench tube stress`: of the tables about channels those of many threads that choose.
//!
//! `chappe-bench waiters [N...]`: so many processes that wait in one arena (63, 200, 1,000 and 4,000 unless told).
//!
//! `chappe-bench queue [N...]`: what an `up` costs with so many waiters, and a thread's end beside many objects.
//!
//! `chappe-bench synth`: queries that become code, beside interpreters and hand-written Rust.
//!
//! `chappe-bench query CHAPPE [MIB]`: questions about text beside mawk, jq, DuckDB, polars, ripgrep and tshark, where those are installed.
//!
//! `chappe-bench remote CHAPPE DIRECTORY`: pools and tubes of many machines, with the engines and peers of that directory.
//!
//! `chappe-bench thread`: light threads beside Go's and others'.
//!
//! `chappe-bench task`: waits of tasks beside tokio's, smol's and others'.
//!
//! `chappe-bench stream`: `chappe pipe` beside the plain shell, graphs beside calls, turns and a JACK server.
//!
//! Each about two minutes on two processors, `ras` longer. `--quick` makes a fifth of the rounds; `--counts` of the last one none
//! at all.

use crate::house::House;
use crate::ras::{self, again};
use crate::robustness::{self as cost, worker};
use crate::table::Aim;
use crate::{c, choice, death, footprint, handoff, machine, pair, query, queue, realtime, stream, sync, tube, waiters};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: chappe-bench pool|sync|tube|ras|realtime [--quick]\n       \
                     chappe-bench tube stress\n       \
                     chappe-bench robustness --fragile PROGRAM [--quick | --counts] [--json]\n       \
                     chappe-bench c PAIRS PRELOAD [--quick]\n       \
                     chappe-bench waiters [N...]\n       \
                     chappe-bench queue [N...]\n       \
                     chappe-bench stream CHAPPE [RUNS] [stages|turns|notes|cook|shown|file|jack|source|pipe] [--seconds N] [--quick]    (built with the feature `stream`)\n       \
                     chappe-bench query CHAPPE [MIB] [--quick]\n       \
                     chappe-bench remote CHAPPE ENGINES [--quick]    (built with the feature `remote`)\n       \
                     chappe-bench synth [--quick]    (built with the feature `jit`)\n       \
                     chappe-bench task [--quick]    (built with the feature `tasks`)\n       \
                     chappe-bench thread [--go PROGRAM] [--boost PROGRAM] [--quick]    (built with the feature `threads`)";

/// `cargo xtask bench robustness` builds the other program, and names it.
fn robustness(args: &[&str]) -> ExitCode {
    let (mut fragile, mut rounds, mut json) = (None, 60, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--fragile" => fragile = args.next().map(Path::new),
            "--quick" => rounds = 15,
            "--counts" => rounds = 0,
            "--json" => json = true,
            _ => fragile = None,
        }
    }
    let Some(fragile) = fragile else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if !json {
        println!("{}", machine::facts());
    }
    match cost::measure(cost::Plan { fragile, rounds, json }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// `cargo xtask bench thread` builds the programs in Go and with Boost, if it can, and names them.
#[cfg(feature = "threads")]
fn threads(args: &[&str]) -> ExitCode {
    let (mut go, mut boost, mut rounds) = (None, None, 9);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (*arg, args.as_slice().first()) {
            ("--go", Some(path)) => {
                go = Some(Path::new(path));
                args.next();
            }
            ("--boost", Some(path)) => {
                boost = Some(Path::new(path));
                args.next();
            }
            ("--quick", _) => rounds = 3,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    println!("{}", machine::facts());
    let aims = crate::thread::measure(go, boost, rounds);
    println!("{}\n\n{}", machine::load(), Aim::report(&aims));
    ExitCode::SUCCESS
}

/// Queries that become code.
#[cfg(feature = "synth")]
fn queries(args: &[&str]) -> ExitCode {
    let rounds = match args {
        [] => 25,
        ["--quick"] => 5,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let _house = busy_house("synth");
    println!("{}", machine::facts());
    let aims = crate::synth::all(rounds);
    println!("{}\n\n{}", machine::load(), Aim::report(&aims));
    ExitCode::SUCCESS
}

/// Waits of tasks.
#[cfg(feature = "tasks")]
fn tasks(args: &[&str]) -> ExitCode {
    let rounds = match args {
        [] => 15,
        ["--quick"] => 3,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    // No thread beside it: the first table forks.
    let _house = House::new("task");
    println!("{}", machine::facts());
    let aims = crate::task::measure(rounds);
    println!("{}\n\n{}", machine::load(), Aim::report(&aims));
    ExitCode::SUCCESS
}

/// `cargo xtask bench query` builds the command, and says where it is.
fn texts(args: &[&str]) -> ExitCode {
    let quick = args.contains(&"--quick");
    let args: Vec<&str> = args.iter().filter(|a| **a != "--quick").copied().collect();
    let (chappe, mib) = match args[..] {
        [chappe] => (chappe, Some(if quick { 64 } else { 1024 })),
        [chappe, mib] => (chappe, mib.parse().ok()),
        _ => ("", None),
    };
    let Some(mib) = mib.filter(|mib: &u64| *mib > 0) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let _house = busy_house("query");
    println!("{}", machine::facts());
    reported(&query::measure(Path::new(chappe), mib << 20, if quick { 3 } else { 9 }))
}

/// Prints the aims, or what is missing.
fn reported(measured: &Result<Vec<Aim>, String>) -> ExitCode {
    match measured {
        Ok(aims) => {
            println!("{}\n\n{}", machine::load(), Aim::report(aims));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// `cargo xtask bench c` builds the programs in C, and says where they are.
fn in_c(args: &[&str]) -> ExitCode {
    let (pairs, preload, rounds) = match args {
        [pairs, preload] => (pairs, preload, 25),
        [pairs, preload, "--quick"] => (pairs, preload, 5),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let _house = busy_house("c");
    println!("{}", machine::facts());
    let programs = c::Programs { pairs: Path::new(pairs), preload: Path::new(preload) };
    reported(&c::measure(&programs, rounds))
}

fn many_wait(args: &[&str]) -> ExitCode {
    let Ok(numbers) = args.iter().map(|n| n.parse()).collect::<Result<Vec<usize>, _>>() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let house = House::new("waiters");
    println!("{}", machine::facts());
    waiters::measure(&house, if numbers.is_empty() { &[63, 200, 1000, 4000] } else { &numbers });
    println!("{}", machine::load());
    ExitCode::SUCCESS
}

fn long_queues(args: &[&str]) -> ExitCode {
    let Ok(numbers) = args.iter().map(|n| n.parse()).collect::<Result<Vec<usize>, _>>() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let house = House::new("queue");
    println!("{}", machine::facts());
    queue::measure(&house, if numbers.is_empty() { &[10, 100, 1000, 3000] } else { &numbers });
    println!("{}", machine::load());
    ExitCode::SUCCESS
}

/// `cargo xtask bench stream` builds the command, and says where it is.
fn streams(args: &[&str]) -> ExitCode {
    let (mut runs, mut only, mut seconds) = (Some(10), None, Some(30));
    let (chappe, mut rest) = args.split_first().map_or(("", [].iter()), |(chappe, rest)| (*chappe, rest.iter()));
    while let Some(arg) = rest.next() {
        match *arg {
            "--quick" => (runs, seconds) = (Some(2), Some(5)),
            "--seconds" => seconds = rest.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0),
            part if stream::PARTS.contains(&part) => only = Some(part),
            number => runs = number.parse().ok().filter(|n| *n > 0),
        }
    }
    let (Some(runs), Some(seconds), false) = (runs, seconds, chappe.is_empty()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("{}", machine::facts());
    reported(&stream::measure(Path::new(chappe), runs, only, seconds))
}

/// `cargo xtask bench remote` builds the command, engines and peers, and says where they are.
#[cfg(feature = "remote")]
fn machines(chappe: &str, engines: &str, rest: &[&str]) -> ExitCode {
    println!("{}", machine::facts());
    let programs = crate::remote::Programs { chappe: Path::new(chappe), engines: Path::new(engines) };
    let quick = rest == ["--quick"];
    crate::far::measure(std::time::Duration::from_secs(if quick { 10 } else { 40 }));
    reported(&crate::remote::measure(&programs, quick).map_err(|why| why.to_string()))
}

/// A place for arenas, in a program of more than one thread: programs that need locks have threads; with none, the C library
/// leaves out half of its work.
fn busy_house(name: &str) -> House {
    // Before the thread: the environment names it.
    let house = House::new(name);
    std::thread::spawn(|| {
        loop {
            std::thread::park()
        }
    });
    house
}

/// All of the program, and of the one that is built without what deaths need.
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (what, rounds) = match args[..] {
        [worker::WORD] => {
            worker::serve();
            return ExitCode::SUCCESS;
        }
        [again::WORD, ref rest @ ..] => {
            let _house = busy_house("ras-part");
            ras::part(rest);
            return ExitCode::SUCCESS;
        }
        #[cfg(feature = "threads")]
        [crate::thread::WORD, ref rest @ ..] => {
            let _house = House::new(&format!("thread-{}", std::process::id()));
            return if crate::thread::part(rest) { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
        #[cfg(feature = "threads")]
        ["thread", ref rest @ ..] => return threads(rest),
        #[cfg(feature = "tasks")]
        ["task", ref rest @ ..] => return tasks(rest),
        #[cfg(feature = "synth")]
        ["synth", ref rest @ ..] => return queries(rest),
        [stream::part::WORD, ref rest @ ..] => {
            return if stream::part::serve(rest) { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
        ["stream", ref rest @ ..] => return streams(rest),
        ["query", ref rest @ ..] => return texts(rest),
        ["robustness", ref rest @ ..] => return robustness(rest),
        #[cfg(feature = "remote")]
        ["remote", chappe, engines, ref rest @ ..] => return machines(chappe, engines, rest),
        ["c", ref rest @ ..] => return in_c(rest),
        ["waiters", ref rest @ ..] => return many_wait(rest),
        ["queue", ref rest @ ..] => return long_queues(rest),
        [what @ ("pool" | "sync" | "tube" | "ras" | "realtime")] => (what, 25),
        [what @ ("pool" | "sync" | "tube" | "ras" | "realtime"), "--quick"] => (what, 5),
        ["tube", "stress"] => ("stress", 9),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let house = busy_house("bench");
    println!("{}", machine::facts());
    let mut aims = Vec::new();
    if what == "sync" {
        aims.extend(sync::measure(&house, rounds));
    } else if what == "realtime" {
        aims.extend(realtime::measure(&house, rounds));
    } else if what == "tube" {
        aims.extend(tube::measure(&house, rounds));
    } else if what == "stress" {
        aims.extend(tube::stress::measure(rounds));
    } else if what == "ras" {
        let again = again::Again::new(std::env::current_exe().expect("a program has a file"));
        aims.extend(ras::measure(&house, &again, rounds));
    } else {
        aims.extend(pair::measure(&house, rounds));
        aims.extend(handoff::measure(&house, rounds));
        aims.extend(choice::measure(&house, rounds));
        aims.extend(death::measure(&house, rounds * 12));
        aims.extend(footprint::measure());
    }
    println!("{}", machine::load());
    println!("\n{}", Aim::report(&aims));
    ExitCode::SUCCESS
}
