//! Tables 1 and 2 of netbsd-restartable-sequences, as they are today: a test-and-set by each mechanism, and a release.
//!
//! *min*, *median*: all of it, with the loop and the release. *alone*: less what the loop and the release take by themselves, as the
//! paper's figures are. A processor that does several things at once does most of the release beside the rest, so neither says all: where
//! *alone* is near nothing, the test-and-set is free for a thread that releases as well.

use crate::process::pin;
use crate::ras::illegal::Emulator;
use crate::ras::index::{index, show};
use crate::table::{Case, Column, Table, nanoseconds};
use chappe::ras::mechanism::tas::{self, Sequences};
use chappe::ras::mechanism::{Flag, Mechanism};
use std::hint::black_box;
use std::sync::atomic::AtomicU32;

const MANY: u32 = 10_000;
const FEW: u32 = 500;
const MORE: u32 = 4;

const NOT_INLINED: &str = "interlocked, not inlined";
const LOOP: &str = "the loop alone";
const RELEASE: &str = "the loop and the release";
const BY_KERNEL: &str = "system calls x2: FUTEX_TRYLOCK_PI, UNLOCK_PI";
const FLOOR_OF_CALLS: &str = "system calls x2: the cheapest there is";

fn asks() {
    // SAFETY: takes nothing, cannot fail. Not the C library's: some remember the answer.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

type Pointer = fn(&AtomicU32) -> bool;

/// A test-and-set and a release.
fn pair<'a>(name: &str, count: u32, word: &'a AtomicU32, test_and_set: impl Fn(&AtomicU32) -> bool + 'a) -> Case<'a> {
    Case::repeat(name, count, move || {
        let old = test_and_set(word);
        tas::release(word);
        old
    })
}

fn table(rounds: u32) -> Table {
    pin(0);
    let (word, emulator) = (&AtomicU32::new(0), &Emulator::new());
    let mut cases = vec![
        pair(NOT_INLINED, MANY, word, tas::interlocked_called),
        pair("interlocked, inlined", MANY, word, tas::interlocked_inline),
        pair("interlocked, through a pointer", MANY, word, |w| black_box(tas::interlocked_called as Pointer)(w)),
    ];
    if let Some(there) = Sequences::there() {
        cases.push(pair("sequence, inlined", MANY, word, move |w| tas::inline_sequence(there, w)));
        cases.push(pair("sequence, not inlined", MANY, word, move |w| tas::called_sequence(there, w)));
        cases.push(pair("sequence, through a pointer", MANY, word, move |w| tas::sequence_through_pointer(there, w)));
    } else {
        println!("\nno sequences on this machine: tables 1 and 2 are without them");
    }
    match tas::synthesised() {
        Ok(made) => {
            cases.push(pair("sequence, synthesised (rasctl)", MANY, word, move |w| made.test_and_set(w)));
        }
        Err(why) => println!("\nno sequence is synthesised: {why}"),
    }
    cases.extend([
        pair("system call: FUTEX_TRYLOCK_PI", FEW, word, tas::system_call),
        Case::repeat(BY_KERNEL, FEW, || (tas::system_call(word), tas::system_call_release(word))),
        Case::repeat(FLOOR_OF_CALLS, FEW, || {
            asks();
            asks();
        }),
        pair("illegal instruction, emulated (SIGILL)", FEW, word, |w| emulator.test_and_set(w)),
        Case::repeat(RELEASE, MANY, || tas::release(word)),
        Case::repeat(LOOP, MANY, || false),
    ]);
    Table::measure("table 1: test-and-set and release", rounds * MORE, cases)
}

/// Without the loop and the release. Where the release is a call of its own, it stays.
fn alone(table: &Table, name: &str) -> f64 {
    let rest = match name {
        LOOP | RELEASE | BY_KERNEL | FLOOR_OF_CALLS => LOOP,
        _ => RELEASE,
    };
    table.row(name).quantile(0.5) - table.row(rest).quantile(0.5)
}

/// Measures and prints.
///
/// # Panics
/// When a sequence cannot be installed.
pub fn measure(rounds: u32) {
    let table = std::thread::scope(|s| s.spawn(|| table(rounds)).join().expect("the measuring thread"));
    let names: Vec<&str> = table.names().collect();
    let cells = names.iter().map(|n| nanoseconds(alone(&table, n))).collect();
    print!("{}", table.report_with(&[Column::new("alone", cells)]));
    println!("  alone: less `{RELEASE}`; the system calls x2, whose release is one of them, less `{LOOP}`");
    println!(
        "  the paper, in us: sequence 0.40, system call 35.6, emulated 56 (25 MHz R3000); 0.32, 21.5 (100 MHz i486)"
    );
    println!("\n{:<48}{:>9}{:>9}", "table 2: performance index M", "alone", "whole");
    let all = |n: &str| table.row(n).quantile(0.5);
    for name in names.iter().filter(|n| ![LOOP, RELEASE].contains(n)) {
        let (alone, whole) =
            (index(alone(&table, NOT_INLINED), alone(&table, name)), index(all(NOT_INLINED), all(name)));
        println!("  {name:<46}{:>9}{:>9}", show(alone), show(whole));
    }
    println!("  M = 100 (t_NI - t) / t_NI, t_NI: `{NOT_INLINED}`; 100: costs nothing, 0: no better, below: dearer");
    std::thread::scope(|s| {
        s.spawn(|| {
            // Sequences exclude threads of one processor only, and are refused elsewhere.
            pin(0);
            flags(rounds);
        });
    });
}

/// Section 5: a lock whose mechanism is chosen at start-up, and called through pointers. By one thread, which stays where it is.
fn flags(rounds: u32) {
    let (flags, missing): (Vec<_>, Vec<_>) = {
        let of = |m: Mechanism| Flag::of(m).map(|flag| (format!("flag: {m}"), flag));
        // The baseline first.
        let rest = Mechanism::ALL.into_iter().filter(|m| *m != Mechanism::Interlocked);
        std::iter::once(Mechanism::Interlocked).chain(rest).map(of).partition(Result::is_ok)
    };
    let flags: Vec<(String, Flag)> = flags.into_iter().flatten().collect();
    let cases = flags.iter().map(|(name, flag)| {
        let count = if flag.mechanism() == Mechanism::SystemCall { FEW } else { MANY };
        Case::repeat(name.clone(), count, || {
            flag.acquire();
            // SAFETY: this thread has just acquired it.
            unsafe { flag.release() };
        })
    });
    let title = "acquire and release through start-up's pointers";
    print!("{}", Table::measure(title, rounds * MORE, cases.collect()).report());
    missing.iter().filter_map(|m| m.as_ref().err()).for_each(|why| println!("  {why}"));
    println!("  the paper, in ns, on a 1 GHz Athlon: sequence 125, interlocked 135");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Child;
    use std::sync::atomic::Ordering::SeqCst;

    type TestAndSet<'a> = Box<dyn Fn(&AtomicU32) -> bool + 'a>;

    #[test]
    fn each_mechanism_sets_the_word_and_answers_what_it_was() {
        // In a process of its own: the emulator's handler is the whole process's.
        let child = Child::fork(|| {
            let (emulator, word) = (&Emulator::new(), &AtomicU32::new(0));
            let mut mechanisms: Vec<(&str, TestAndSet)> = vec![
                ("interlocked, inlined", Box::new(tas::interlocked_inline)),
                ("interlocked", Box::new(tas::interlocked_called)),
                ("system call", Box::new(tas::system_call)),
                ("emulated", Box::new(|w| emulator.test_and_set(w))),
            ];
            match (Sequences::there(), tas::synthesised()) {
                (Some(there), Ok(made)) => {
                    mechanisms.push(("inlined", Box::new(move |w| tas::inline_sequence(there, w))));
                    mechanisms.push(("not inlined", Box::new(move |w| tas::called_sequence(there, w))));
                    mechanisms.push(("pointer", Box::new(move |w| tas::sequence_through_pointer(there, w))));
                    mechanisms.push(("synthesised", Box::new(move |w| made.test_and_set(w))));
                }
                _ => println!("not tested: each_mechanism_sets_the_word_and_answers_what_it_was: no sequences"),
            }
            for (name, test_and_set) in mechanisms {
                assert!(!test_and_set(word), "{name}");
                assert!(word.load(SeqCst) != 0, "{name}");
                assert!(test_and_set(word), "{name}");
                tas::release(word);
                assert!(!test_and_set(word), "{name}");
                tas::release(word);
            }
        });
        assert_eq!(child.end(), 0);
    }
}
