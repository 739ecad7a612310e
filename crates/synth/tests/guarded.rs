//! No engine reads a byte outside of a record: random programs over records that lie against pages which may not be touched, first with
//! their first byte, then with their last. Programs that are wrong are refused.

mod dice;

use chappe_synth::closure::Closures;
use chappe_synth::engine::Machine;
use chappe_synth::interpret::Interpreter;
use chappe_synth::vector::{Scratch, Vectors};
use chappe_synth::{Form, Records};
use dice::Dice;

const PAGE: usize = 4096;

/// A page between two that may not be touched.
struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: a new mapping, and rights for its middle.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let middle = at.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(middle.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            Guarded(middle)
        }
    }

    /// So many bytes at its start, or at its end.
    fn place(&mut self, bytes: &[u8], end: bool) -> &[u8] {
        let at = if end { PAGE - bytes.len() } else { 0 };
        // SAFETY: within the page that may be written.
        unsafe {
            self.0.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            std::slice::from_raw_parts(self.0.add(at), bytes.len())
        }
    }
}

/// How many programs were right, and how many became machine code.
fn storm(seed: u64, rounds: usize, machine_every: usize) -> (usize, usize) {
    let mut dice = Dice(seed);
    let mut page = Guarded::new();
    let mut scratch = Scratch::default();
    let (mut right, mut compiled) = (0, 0);
    for _ in 0..rounds {
        let program = dice::program(&mut dice);
        let Ok(program) = program.verify() else { continue };
        right += 1;
        let size = program.record as usize;
        let count = 1 + dice.below(3);
        let bytes: Vec<u8> = (0..size * count).map(|_| dice.next() as u8).collect();
        let engines = (Closures::new(&program), Vectors::new(&program));
        let machines: Vec<Option<Machine>> = match right % machine_every == 0 {
            true => Form::ALL.iter().map(|f| Machine::new(&program, *f).ok()).collect(),
            false => Vec::new(),
        };
        compiled += machines.iter().flatten().count();
        let mut first = None;
        for end in [false, true] {
            let records = Records::new(page.place(&bytes, end), size, size);
            let mut interpreter = Interpreter::default();
            let mut passed = Vec::new();
            let (mut rows, mut more) = (Vec::new(), Vec::new());
            for at in 0..records.len() {
                if interpreter.run(&program, &[], records.get(at)) {
                    passed.push(at as u32);
                    interpreter.row(&program, records.get(at), &mut rows);
                }
            }
            let start: Vec<u64> = program.aggregates.iter().map(|a| a.fold.start()).collect();
            let mut states = start.clone();
            if let Some(closures) = &engines.0 {
                closures.project(records, &mut more);
                assert_eq!(more, rows, "{program:?}");
                closures.fold(records, &mut states);
            }
            more.clear();
            engines.1.project(&mut scratch, records, &mut more);
            assert_eq!(more, rows, "{program:?}");
            engines.1.fold(&mut scratch, records, &mut start.clone());
            let mut selected = Vec::new();
            if let [Some(test), Some(select), Some(project), Some(fold)] = &machines[..] {
                select.select(records, &mut selected);
                assert_eq!(selected, passed, "{program:?}");
                assert_eq!((0..count).filter(|at| test.test(records.get(*at))).count(), passed.len());
                more.clear();
                project.project(records, &mut more);
                assert_eq!(more, rows, "{program:?}");
                assert_eq!(fold.fold(records, &mut start.clone()), passed.len());
            }
            assert_eq!(*first.get_or_insert_with(|| rows.clone()), rows, "one place, another answer: {program:?}");
        }
    }
    (right, compiled)
}

#[test]
fn no_engine_reads_outside_of_a_record() {
    let (right, compiled) = storm(3, 3000, if cfg!(debug_assertions) { 100 } else { 20 });
    assert!(right > 1000 && right < 3000, "{right} of 3000 programs were right");
    assert!(!cfg!(feature = "jit") || compiled > 20, "{compiled}");
}

#[test]
#[ignore = "storm: 10^7 random programs, each tenth of those that are right as machine code; half an hour"]
fn no_engine_reads_outside_of_a_record_in_ten_million_programs() {
    let rounds = std::env::var("SYNTH_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    let seed = std::env::var("SYNTH_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(11);
    let (right, compiled) = storm(seed, rounds, 10);
    println!("{rounds} programs, {right} right, {compiled} pieces of machine code");
}
