//! Section 5 of netbsd-restartable-sequences: what programs that compute, or serve, notice of the lock that they have.
//!
//! The paper found nothing: no difference between its sequences and interlocked instructions that was larger than chance, in an
//! LU decomposition by one to a hundred threads as in a web server. Here each lock's rounds are held against the pthread mutex's:
//! see [`Spread`].

use crate::ras::locks::{Locks, PTHREAD, of_each};
use crate::ras::lu::Problem;
use crate::ras::spread::Spread;
use crate::ras::web::{Load, run};
use crate::table::{Case, Column, Table};
use std::cell::Cell;

const THREADS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 100];

fn say(name: &str, ratios: &[f64]) {
    println!("  {name:<46}{}", Spread::of(ratios).show());
}

/// The decomposition.
///
/// # Panics
/// When a lock lets two in at once.
pub fn decomposition(locks: &Locks, rounds: u32) {
    let (size, rounds) = if rounds < 10 { (120, rounds.min(3)) } else { (1000, 5) };
    let problem = Problem::new(size);
    let mut ratios: Vec<(String, Vec<f64>)> = Vec::new();
    println!("\nLU decomposition, {size} x {size}: ms, the median of {rounds} rounds (ratio to {PTHREAD})");
    for threads in THREADS {
        let operations = Cell::new(0.0);
        let cases = of_each!(locks, [pthread, std, parking, mutex, cpu], |name, lock| {
            let operations = &operations;
            Case::new(name, || {
                let outcome = problem.solve(lock, threads);
                operations.set(outcome.operations);
                outcome.ns
            })
        });
        let table = Table::measure(format!("LU decomposition, {threads} threads"), rounds, cases);
        if threads == THREADS[0] {
            let heads: String = table.names().map(|n| format!("{n:>21}")).collect();
            println!("  threads{heads}{:>21}", "operations a thread");
            ratios.extend(table.names().skip(1).map(|n| (n.to_owned(), Vec::new())));
        }
        let cell = |n| format!("{:>13.2} ({:.2})", table.row(n).quantile(0.5) / 1e6, table.ratio(n));
        let cells: String = table.names().map(|n| format!("{:>21}", cell(n))).collect();
        println!("  {threads:>7}{cells}{:>21.0}", operations.get());
        ratios.iter_mut().for_each(|(name, all)| all.extend(table.ratios_to(name, PTHREAD)));
    }
    println!("  the paper: about 14,000 operations a thread; no difference (p 0.7)");
    println!("\nLU decomposition, all rounds, ratio to {PTHREAD}: middle (a tenth below to a tenth above)");
    ratios.iter().for_each(|(name, all)| say(name, all));
}

/// The web server.
///
/// # Panics
/// When the system refuses sockets, or a lock lets two in at once.
pub fn server(locks: &Locks, rounds: u32) {
    let (load, rounds) = match rounds {
        0..10 => (Load { threads: 8, requests: 100 }, 5),
        _ => (Load { threads: 8, requests: 1000 }, 15),
    };
    let cases = of_each!(locks, [pthread, std, parking, mutex, cpu], |name, lock| Case::new(name, || run(lock, load)));
    let table = Table::measure(format!("web server, {} threads: a request", load.threads), rounds, cases);
    let each = |n| format!("{:.0}", 1e9 / table.row(n).quantile(0.5));
    print!("{}", table.report_with(&[Column::new("req/s", table.names().map(each).collect())]));
    println!("\nweb server, all rounds, ratio to {PTHREAD}: middle (a tenth below to a tenth above)");
    table.names().skip(1).for_each(|name| say(name, &table.ratios_to(name, PTHREAD)));
    println!("  the paper: no difference");
}
