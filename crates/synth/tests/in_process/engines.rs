//! All engines give the same answers, to the bit: on random expressions and records, and on random programs.

use crate::dice::{self, Dice};
use chappe_synth::closure::Closures;
use chappe_synth::engine::Machine;
use chappe_synth::interpret::Interpreter;
use chappe_synth::ir::Verified;
use chappe_synth::vector::{Scratch, Vectors};
use chappe_synth::{Form, Query, Records, Schema, Value};

/// What a program comes to over records.
#[derive(PartialEq, Debug, Default)]
struct Answers {
    passed: Vec<u32>,
    rows: Vec<u8>,
    states: Vec<u64>,
}

fn start(program: &Verified) -> Vec<u64> {
    program.aggregates.iter().map(|a| a.fold.start()).collect()
}

/// A state's NaN may be any.
fn settle(states: &mut [u64], program: &Verified) {
    use chappe_synth::ir::{Fold, Type, settled};
    for (state, a) in states.iter_mut().zip(&program.aggregates) {
        let double = a.value.is_some_and(|id| program.type_of(id) == Type::Double);
        if double && a.fold != Fold::Count {
            *state = settled(*state);
        }
    }
}

fn reference(program: &Verified, params: &[Value], records: Records<'_>) -> Answers {
    let mut answers = Answers { states: start(program), ..Answers::default() };
    let mut interpreter = Interpreter::default();
    for at in 0..records.len() {
        let record = records.get(at);
        if interpreter.run(program, params, record) {
            answers.passed.push(at as u32);
            interpreter.row(program, record, &mut answers.rows);
            interpreter.fold(program, &mut answers.states);
        }
    }
    settle(&mut answers.states, program);
    answers
}

fn by_closures(program: &Verified, records: Records<'_>) -> Option<Answers> {
    let closures = Closures::new(program)?;
    let mut answers = Answers { states: start(program), ..Answers::default() };
    closures.select(records, &mut answers.passed);
    assert_eq!(closures.project(records, &mut answers.rows), answers.passed.len());
    assert_eq!(closures.fold(records, &mut answers.states), answers.passed.len());
    settle(&mut answers.states, program);
    Some(answers)
}

fn by_vectors(program: &Verified, records: Records<'_>, scratch: &mut Scratch) -> Answers {
    let vectors = Vectors::new(program);
    let mut answers = Answers { states: start(program), ..Answers::default() };
    vectors.select(scratch, records, &mut answers.passed);
    assert_eq!(vectors.project(scratch, records, &mut answers.rows), answers.passed.len());
    assert_eq!(vectors.fold(scratch, records, &mut answers.states), answers.passed.len());
    settle(&mut answers.states, program);
    answers
}

/// One form by machine code, beside what it should be. False: there is none.
fn by_machine(program: &Verified, form: Form, records: Records<'_>, expected: &Answers) -> bool {
    let Ok(machine) = Machine::new(program, form) else { return false };
    match form {
        Form::Test => {
            let passed: Vec<u32> =
                (0..records.len()).filter(|at| machine.test(records.get(*at))).map(|a| a as u32).collect();
            assert_eq!(passed, expected.passed, "{program:?}");
        }
        Form::Select => {
            let mut passed = Vec::new();
            machine.select(records, &mut passed);
            assert_eq!(passed, expected.passed, "{program:?}");
        }
        Form::Project => {
            let mut rows = Vec::new();
            assert_eq!(machine.project(records, &mut rows), expected.passed.len());
            assert_eq!(rows, expected.rows, "{program:?}");
        }
        Form::Fold => {
            let mut states = start(program);
            assert_eq!(machine.fold(records, &mut states), expected.passed.len());
            settle(&mut states, program);
            assert_eq!(states, expected.states, "{program:?}");
        }
    }
    true
}

fn params(dice: &mut Dice) -> Vec<(&'static str, Value)> {
    vec![
        ("i", Value::Int(dice.bits() as i64)),
        ("u", Value::Uint(dice.bits())),
        ("d", Value::Double(f64::from_bits(dice.bits()))),
        ("b", Value::Bool(dice.below(2) == 0)),
        ("t", Value::Text(dice.of(&["A", "ABC", "ABCDEFGH", "nothing of the kind"]).as_bytes().to_vec())),
    ]
}

/// Random queries with parameters. Each is run by every engine over `count` records; the general program with its parameters is what they
/// are held against. How many became machine code.
fn compare_queries(seed: u64, rounds: usize, count: usize, machine_every: usize) -> usize {
    let mut dice = Dice(seed);
    let schema: Schema = dice::schema();
    let mut scratch = Scratch::default();
    let (mut compiled, mut passed, mut queries) = (0, 0, 0);
    for round in 0..rounds {
        let depth = 1 + dice.below(4);
        let condition = dice::expression(&mut dice, 'b', depth, true);
        let (w, d) = (dice::expression(&mut dice, 'i', depth, true), dice::expression(&mut dice, 'd', depth, true));
        let u = dice::expression(&mut dice, 'u', depth, true);
        let list = match round % 3 {
            0 => format!("{w} as k, {d} as l, u, {condition} as m, {u} as n, a"),
            1 => format!(
                "count(), sum({w}) as k, sum({d}) as l, min({d}) as m, max({u}) as n, last({d}) as o, min({w}) as p"
            ),
            _ => "*".to_owned(),
        };
        // An expression may be too large.
        let query = match Query::new(&schema, Some(&condition), Some(&list)) {
            Ok(query) => query,
            Err(e) => {
                assert!(
                    e.message().contains("too large") || e.message().contains("nested"),
                    "{condition} / {list}: {e}"
                );
                continue;
            }
        };
        let all = params(&mut dice);
        let given: Vec<(&str, Value)> =
            all.iter().filter(|(n, _)| query.params().iter().any(|(p, _)| p == n)).cloned().collect();
        let bound = query.bind(&given).unwrap();
        let bytes = dice::records(&mut dice, &schema, count);
        let size = schema.size() as usize;
        let records = Records::new(&bytes, size, size);
        let expected = reference(query.program(), bound.params(), records);
        assert_eq!(reference(bound.program(), &[], records), expected, "specialised: {condition} / {list}");
        if let Some(answers) = by_closures(bound.program(), records) {
            assert_eq!(answers, expected, "closures: {condition} / {list}");
        }
        assert_eq!(by_vectors(bound.program(), records, &mut scratch), expected, "vector: {condition} / {list}");
        if round % machine_every == 0 {
            for form in Form::ALL {
                compiled += usize::from(by_machine(bound.program(), form, records, &expected));
            }
        }
        passed += expected.passed.len();
        queries += 1;
    }
    // Neither all nor none pass, or nothing was compared.
    let all = queries * count;
    assert!(passed > all / 10 && passed < all * 9 / 10, "{passed} of {all} passed");
    compiled
}

#[test]
fn engines_agree_on_random_queries() {
    let compiled = compare_queries(1, 1500, 20, if cfg!(debug_assertions) { 40 } else { 10 });
    assert!(!cfg!(feature = "jit") || compiled > 60, "{compiled}");
}

#[test]
fn engines_agree_on_more_than_one_block() {
    compare_queries(2, 12, 1300, 4);
}

#[test]
#[ignore = "storm: 10^6 random queries, some minutes"]
fn engines_agree_on_a_million_random_queries() {
    let rounds: usize = std::env::var("SYNTH_QUERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let seed = std::env::var("SYNTH_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(7);
    let compiled = compare_queries(seed, rounds, 4, 10);
    println!("{rounds} queries, {compiled} pieces of machine code");
}

#[test]
fn engines_agree_on_gaps_between_records() {
    let schema = Schema::parse("a: i32, b: f64").unwrap();
    let query = Query::new(&schema, Some("a > 3 && b < 2.5"), Some("b, a + 1 as c")).unwrap().bind(&[]).unwrap();
    let mut bytes = vec![0xffu8; 16 * 24 - 8];
    for at in 0..16usize {
        bytes[at * 24..at * 24 + 4].copy_from_slice(&(at as i32).to_le_bytes());
        bytes[at * 24 + 8..at * 24 + 16].copy_from_slice(&(at as f64 / 4.0).to_le_bytes());
    }
    let records = Records::new(&bytes, 16, 24);
    assert_eq!(records.len(), 16);
    let expected = reference(query.program(), &[], records);
    assert_eq!(expected.passed, [4, 5, 6, 7, 8, 9]);
    assert_eq!(by_closures(query.program(), records).unwrap(), expected);
    assert_eq!(by_vectors(query.program(), records, &mut Scratch::default()), expected);
    let machines = Form::ALL.iter().filter(|f| by_machine(query.program(), **f, records, &expected)).count();
    assert_eq!(machines, if cfg!(feature = "jit") { 4 } else { 0 });
}

#[test]
fn stages_behind_each_other_are_one() {
    let first = Schema::parse("price: f64, qty: i32, sym: str[8]").unwrap();
    let mut dice = Dice(5);
    let bytes = dice::records(&mut dice, &first, 700);
    let mut fused = None;
    let mut rows = (bytes.clone(), first.clone());
    for (condition, list) in [
        (Some("price > -50.0"), "price * 1.5 as p, qty, sym, double(qty) as q"),
        (None, "p + q as v, sym, qty % 7 as r, p < q as less"),
        (Some("!less || r != 3"), "*"),
        (Some("v < 1e6 || sym == 'AB'"), ""),
        (Some("r >= 0"), "v / 3.0 as v, sym, r, sym == 'AB' as ab"),
        (Some("!ab || r != 5"), ""),
        (None, "count(), sum(v), min(r), max(r), last(ab) as l"),
    ] {
        // Without a list it only chooses.
        let list = Some(list).filter(|list| !list.is_empty());
        let stage = Query::new(&rows.1, condition, list).unwrap().bind(&[]).unwrap();
        fused = Some(match fused.take() {
            None => stage.clone(),
            Some(before) => chappe_synth::Bound::then(&before, &stage).unwrap(),
        });
        let fused = fused.as_ref().unwrap();
        let size = rows.1.size() as usize;
        let step = reference(stage.program(), &[], Records::new(&rows.0, size, size));
        let whole = Records::new(&bytes, first.size() as usize, first.size() as usize);
        let once = reference(fused.program(), &[], whole);
        if list.is_none() {
            // What it has chosen, as the rows before have it.
            let chosen: Vec<u8> =
                step.passed.iter().flat_map(|at| rows.0[*at as usize * size..][..size].to_vec()).collect();
            assert_eq!(once.rows, chosen, "{condition:?}");
            rows.0 = chosen;
            continue;
        }
        assert_eq!((&once.rows, &once.states), (&step.rows, &step.states), "{condition:?} {list:?}");
        assert_eq!(by_vectors(fused.program(), whole, &mut Scratch::default()), once);
        for form in Form::ALL {
            by_machine(fused.program(), form, whole, &once);
        }
        rows = (step.rows, stage.query().rows().unwrap().clone());
    }
}
