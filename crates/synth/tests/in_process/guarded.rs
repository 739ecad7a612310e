//! No engine reads a byte outside of a record: random programs over records that lie against pages which may not be touched, first with
//! their first byte, then with their last. Programs that are wrong are refused.
//!
//! The storm of 10^7 programs takes 220 s of one processor (release, AMD EPYC): 7.77 million are right and run in the interpreter, as closures and
//! vectorised, each twice over one to three records; 777 thousand of them become machine code, in one of the four forms by turns. `SYNTH_PROGRAMS` and
//! `SYNTH_SEED` say how many, and which.

use crate::dice::{self, Dice};
use chappe_synth::closure::Closures;
use chappe_synth::engine::Machine;
use chappe_synth::interpret::Interpreter;
use chappe_synth::ir::{Op, Program, ProgramError};
use chappe_synth::vector::{Scratch, Vectors};
use chappe_synth::{Form, Records};

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

/// What a storm came to.
#[derive(Default, Debug)]
struct Storm {
    /// Programs that the verifier took.
    right: usize,
    /// Pieces of machine code that ran.
    compiled: usize,
}

/// Random programs, each over records at the start of a page and at its end. Those that are right run in all engines; of `machine_every` of
/// them one becomes machine code, in one of the four forms, by turns.
fn storm(seed: u64, rounds: usize, machine_every: usize) -> Storm {
    let mut dice = Dice(seed);
    let mut page = Guarded::new();
    let mut scratch = Scratch::default();
    let mut interpreter = Interpreter::default();
    let mut did = Storm::default();
    let (mut passed, mut selected) = (Vec::new(), Vec::new());
    let (mut rows, mut first, mut more, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Code of one program stays until that of the next is there, so that all of it lies in one mapping.
    let mut machine: Option<(Machine, Form)> = None;
    for _ in 0..rounds {
        let program = dice::program(&mut dice);
        let Ok(program) = program.verify() else { continue };
        did.right += 1;
        let size = program.record as usize;
        let count = 1 + dice.below(3);
        bytes.clear();
        bytes.extend((0..size * count).map(|_| dice.next() as u8));
        let engines = (Closures::new(&program), Vectors::new(&program));
        let form = Form::ALL[did.right / machine_every % Form::ALL.len()];
        let made = did.right.is_multiple_of(machine_every).then(|| Machine::new(&program, form).ok()).flatten();
        let compiled = made.is_some();
        if let Some(made) = made {
            did.compiled += 1;
            machine = Some((made, form));
        }
        let start: Vec<u64> = program.aggregates.iter().map(|a| a.fold.start()).collect();
        for end in [false, true] {
            let records = Records::new(page.place(&bytes, end), size, size);
            passed.clear();
            rows.clear();
            for at in 0..records.len() {
                if interpreter.run(&program, &[], records.get(at)) {
                    passed.push(at as u32);
                    interpreter.row(&program, records.get(at), &mut rows);
                }
            }
            if let Some(closures) = &engines.0 {
                more.clear();
                closures.project(records, &mut more);
                assert_eq!(more, rows, "{program:?}");
                closures.fold(records, &mut start.clone());
            }
            more.clear();
            engines.1.project(&mut scratch, records, &mut more);
            assert_eq!(more, rows, "{program:?}");
            engines.1.fold(&mut scratch, records, &mut start.clone());
            match machine.as_ref().filter(|_| compiled) {
                None => {}
                Some((machine, Form::Test)) => {
                    assert_eq!((0..count).filter(|at| machine.test(records.get(*at))).count(), passed.len());
                }
                Some((machine, Form::Select)) => {
                    selected.clear();
                    machine.select(records, &mut selected);
                    assert_eq!(selected, passed, "{program:?}");
                }
                Some((machine, Form::Project)) => {
                    more.clear();
                    machine.project(records, &mut more);
                    assert_eq!(more, rows, "{program:?}");
                }
                Some((machine, Form::Fold)) => {
                    assert_eq!(machine.fold(records, &mut start.clone()), passed.len(), "{program:?}");
                }
            }
            if end {
                assert_eq!(first, rows, "one place, another answer: {program:?}");
            } else {
                first.clone_from(&rows);
            }
        }
    }
    did
}

#[test]
fn no_engine_reads_outside_of_a_record() {
    let did = storm(3, 3000, if cfg!(debug_assertions) { 40 } else { 5 });
    assert!(did.right > 1000 && did.right < 3000, "{did:?}");
    assert!(!cfg!(feature = "jit") || did.compiled > 20, "{did:?}");
}

/// A program whose operations go round in a circle is refused, and so is all that is out of order.
#[test]
fn a_circle_of_operations_is_refused() {
    let circle = [Op::Bool(true), Op::Select(0, 2, 2), Op::Select(0, 1, 1)];
    let itself = [Op::Bool(true), Op::Select(0, 1, 1)];
    for ops in [&circle[..], &itself[..]] {
        let program = Program { ops: ops.to_vec(), record: 8, ..Program::default() };
        assert_eq!(program.verify().unwrap_err().to_string(), ProgramError::Order(1).to_string());
    }
}

#[test]
#[ignore = "storm: 10^7 random programs, each tenth of those that are right as machine code; some minutes in release"]
fn no_engine_reads_outside_of_a_record_in_ten_million_programs() {
    let rounds = std::env::var("SYNTH_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    let seed = std::env::var("SYNTH_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(11);
    let did = storm(seed, rounds, 10);
    println!("{rounds} programs: {did:?}");
}
