//! `chappe-bench pool`: all tables about pools, and the aims beside what was reached. `chappe-bench sync`: all about
//! semaphores, mutexes, choice over them, and Plan 9's. `chappe-bench tube`: all about channels.
//!
//! Each about two minutes on two processors. `--quick` makes a fifth of the rounds.

use chappe_bench::house::House;
use chappe_bench::table::Aim;
use chappe_bench::{choice, death, footprint, handoff, machine, pair, sync, tube};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (what, rounds) = match args[..] {
        [what @ ("pool" | "sync" | "tube")] => (what, 25),
        [what @ ("pool" | "sync" | "tube"), "--quick"] => (what, 5),
        _ => {
            eprintln!("usage: chappe-bench pool|sync|tube [--quick]");
            return ExitCode::from(2);
        }
    };
    // Programs that need locks have threads; with none, the C library leaves out half of its work.
    std::thread::spawn(|| {
        loop {
            std::thread::park()
        }
    });
    let house = House::new("bench");
    println!("{}", machine::facts());
    let mut aims = Vec::new();
    if what == "sync" {
        aims.extend(sync::measure(&house, rounds));
    } else if what == "tube" {
        aims.extend(tube::measure(&house, rounds));
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
