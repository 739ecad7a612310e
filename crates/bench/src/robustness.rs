//! `bench robustness`: what it costs, in the commonest case, that processes may die: uncontended pairs by one thread, of
//! what ships and of *the same code* with what exists only for deaths left out.
//!
//! The second is another program, `chappe-bench-fragile`, from the same sources with the feature `fragile` of chappe-sync, and
//! below it, which nothing else has (`ROBUST` in the sources). `cargo xtask bench robustness` builds it.
//!
//! | left out | in | instead |
//! |---|---|---|
//! | which member the thread is, and whether it still is one of this process (thread-local, and a page that a fork wipes) | pool, mutex, tubes | nothing |
//! | whether a guard, or an end of a tube, is this process's and not a parent's | pool, mutex (also at each look at the data), tubes | nothing |
//! | the holder's name and the version in a cell | pool | a constant: taken, free |
//! | the holder's name in the word | mutex | a constant |
//! | giving back by a compare-and-swap, since it may have been taken away | pool | a swap |
//! | the sender's name in a slot | tube m:n | a constant |
//! | sending by a compare-and-swap, since a sender that is dead or stopped is passed over | tube m:n | a swap |
//! | the waiters as bits of members, which a kill leaves right | pool, tubes | one word, as a count would be |
//! | the members at the other end as bits | tubes | the same |
//!
//! Nothing is left out of a semaphore: a unit has no owner, and its word has room for the grants under way. Its row shows how much two
//! programs differ by chance.
//!
//! What cannot be left out, because the algorithm would be another one, has rows of the closest plain algorithms beside it:
//!
//! | stays | because of it | beside it |
//! |---|---|---|
//! | a look whether the object was removed | an object's slot is never anything else: a woken thread may remove it | all |
//! | a cell for each permit | each death returns its own | `sem_t` |
//! | `up` by a compare-and-swap | nothing may be added to what was removed | a counter: compare-and-swap, add |
//! | unlocking by a compare-and-swap | flags outlive the holder of the lock | the locks of Rust programs; pthread's, also robust |
//! | a slot is claimed before its index | a death between the two wedges no other thread | Vyukov's ring; the private tube |
//! | lengths, ends that close | they are not for deaths | rtrb's ring, which has neither |
//!
//! No intent is written, no system call made, and nothing is put on a robust list in any of these pairs: that is paid once a thread, and by
//! a thread that waits.
//!
//! Times: three processes of each program (their memory lies differently), one measured at a time, on one processor, in turns.
//! Private objects are the named ones' code on other memory, but for tubes. *instructions* and *locked* (locked operations and full
//! fences) are counted by single steps, and do not depend on the machine's mood; [`crate::steps`] says how.

pub mod pairs;
pub mod plain;
pub mod worker;

use crate::machine;
use crate::process::pin;
use crate::table::{Case, Column, Table};
use pairs::{GROUPS, OURS};
use std::cell::RefCell;
use std::fmt::Write;
use std::path::Path;
use worker::Worker;

/// Processes of each program.
const LIVES: usize = 3;
/// Pairs of one measurement.
const MANY: u32 = 20_000;
/// What the row of the same code is called.
pub const WITHOUT: &str = "the same, deaths left out";

/// What to measure, and how to say it.
#[derive(Clone, Copy)]
pub struct Plan<'p> {
    /// The program that was built with the feature `fragile`.
    pub fragile: &'p Path,
    /// How many rounds; none: only the counts.
    pub rounds: u32,
    /// One object a line.
    pub json: bool,
}

/// One process of each program.
type Life = RefCell<[Worker; 2]>;

/// Measures and prints.
///
/// # Errors
/// A program does not start, or the other one is not what it should be.
pub fn measure(plan: Plan<'_>) -> Result<(), String> {
    pin(0);
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let life = || -> Result<Life, String> { Ok(RefCell::new([Worker::start(&own)?, Worker::start(plan.fragile)?])) };
    let lives = (0..LIVES).map(|_| life()).collect::<Result<Vec<Life>, String>>()?;
    for (group, rows) in GROUPS {
        let mut names = vec![(OURS, 0, OURS), (WITHOUT, 1, OURS)];
        names.extend(rows.iter().map(|row| (*row, 0, *row)));
        let counts: Vec<_> =
            names.iter().map(|(_, program, row)| lives[0].borrow_mut()[*program].count(group, row)).collect();
        let counts = counts.into_iter().collect::<Result<Vec<_>, String>>()?;
        if *group != "semaphore" && counts[0].instructions <= counts[1].instructions && counts[0].instructions > 0 {
            return Err(format!(
                "{} is not built with the feature `fragile`: its {group} has as many instructions",
                plan.fragile.display()
            ));
        }
        let cases = names.iter().map(|(name, program, row)| {
            let mut turn = 0;
            let lives = &lives;
            Case::new(*name, move || {
                turn += 1;
                lives[turn % LIVES].borrow_mut()[*program].time(group, row, MANY)
            })
        });
        let title = format!("{group}, a pair, one thread");
        let table = if plan.rounds > 0 {
            Table::measure(title, plan.rounds, cases.collect())
        } else {
            Table::of(title, names.iter().map(|(name, ..)| ((*name).to_owned(), vec![f64::NAN])).collect())
        };
        print!("{}", if plan.json { json(group, &table, &counts) } else { report(&table, &counts) });
    }
    if !plan.json {
        println!("{}", machine::load());
    }
    Ok(())
}

fn report(table: &Table, counts: &[worker::Counts]) -> String {
    let column = |of: fn(&worker::Counts) -> u64| counts.iter().map(|c| of(c).to_string()).collect();
    table.report_with(&[Column::new("instr.", column(|c| c.instructions)), Column::new("locked", column(|c| c.locked))])
}

fn json(group: &str, table: &Table, counts: &[worker::Counts]) -> String {
    let mut text = String::new();
    for (name, count) in table.names().zip(counts) {
        let (row, first) = (table.row(name), table.row(OURS));
        let (least, median) = (row.quantile(0.0), row.quantile(0.5));
        // JSON has no word for what was not measured.
        let number = |n: f64| if n.is_finite() { format!("{n:.3}") } else { "null".to_owned() };
        let _ = writeln!(
            text,
            "{{\"pair\":\"{group}\",\"row\":\"{name}\",\"min_ns\":{},\"median_ns\":{},\"ratio\":{},\"ratio_of_minima\":{},\
             \"instructions\":{},\"locked\":{}}}",
            number(least),
            number(median),
            number(table.ratio(name)),
            number(least / first.quantile(0.0)),
            count.instructions,
            count.locked
        );
    }
    text
}
