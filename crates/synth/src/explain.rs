//! What a query has become, to read: its program, before and after its parameters became constants, each engine's cost, when
//! machine code pays, and the machine code.

use crate::closure::Closures;
use crate::cost::{Machine, break_even, create_ns, machine_ns};
use crate::form::Form;
use crate::interpret::Interpreter;
use crate::ir::{Op, Pattern, Program, Source, With};
use crate::query::Bound;
use crate::records::Records;
use crate::vector::{Scratch, Vectors};
use std::fmt::Write;
use std::time::Instant;

/// Tells all of it. The costs are measured here, over these records (over zeroed ones, if there are none), so it takes some
/// milliseconds.
pub fn explain(bound: &Bound, sample: Option<Records<'_>>) -> String {
    let mut out = String::new();
    let query = bound.query();
    let size = bound.program().record as usize;
    let zeros = vec![0; size * 256];
    let records = sample.filter(|r| !r.is_empty()).unwrap_or_else(|| Records::new(&zeros, size, size));
    let mut tell = |text: std::fmt::Arguments<'_>| _ = out.write_fmt(text);
    tell(format_args!("query    {}\n", query.text()));
    tell(format_args!("records  {}\n", query.schema()));
    if let Some(rows) = query.rows() {
        tell(format_args!("rows     {rows}\n"));
    }
    for ((name, kind), value) in query.params().iter().zip(bound.params()) {
        tell(format_args!("${name}: {kind} = {value}\n"));
    }
    tell(format_args!("\nas written, {} operations:\n{}", query.program().ops.len(), shown(query.program())));
    tell(format_args!("\nwith its parameters, {} operations:\n{}", bound.program().ops.len(), shown(bound.program())));
    tell(format_args!("\ncost, measured over {} records:\n", records.len()));
    costs(bound, records, &mut out);
    machine(bound, &mut out);
    out
}

fn shown(program: &Program) -> String {
    let mut out = String::new();
    let written = |pattern: &Pattern| match pattern {
        Pattern::Literal(n) => {
            let text = program.texts.get(*n as usize).map(|t| String::from_utf8_lossy(t).into_owned());
            format!("{:?}", text.unwrap_or_default())
        }
        Pattern::Param(n) => format!("parameter {n}"),
    };
    for (at, op) in program.ops.iter().enumerate() {
        let text = match op {
            Op::Word(n) => format!("word {}", *n as i64),
            Op::Double(bits) => format!("double {:?}", f64::from_bits(*bits)),
            Op::Bool(b) => format!("bool {b}"),
            Op::Param(n, t) => format!("parameter {n} {t:?}"),
            Op::Load { at, kind } => format!("load {} @ {at}", kind.name()),
            Op::Match { at, width, prefix, pattern } => {
                let how = if *prefix { "begins" } else { "is" };
                format!("{how} str[{width}] @ {at} {}", written(pattern))
            }
            Op::Text { test, of, with: With::Pattern(pattern) } => format!("{test:?} v{of} {}", written(pattern)),
            Op::Text { test, of, with: With::Value(with) } => format!("{test:?} v{of} v{with}"),
            Op::Un(op, a) => format!("{op:?} v{a}"),
            Op::Bin(op, a, b) => format!("{op:?} v{a} v{b}"),
            Op::Select(c, a, b) => format!("select v{c} v{a} v{b}"),
        };
        _ = writeln!(out, "  v{at} = {text}");
    }
    if let Some(filter) = program.filter {
        _ = writeln!(out, "  passes if v{filter}");
    }
    for c in &program.columns {
        _ = match c.source {
            Source::Copy { from, width } => writeln!(out, "  row @ {} = {width} bytes @ {from}", c.at),
            Source::Value(id) => writeln!(out, "  row @ {} = v{id}", c.at),
        };
    }
    for a in &program.aggregates {
        _ = match a.value {
            Some(id) => writeln!(out, "  {:?} v{id}", a.fold),
            None => writeln!(out, "  {:?}", a.fold),
        };
    }
    out
}

/// In which forms a query is used: one record at a time, and many at once.
fn forms(bound: &Bound) -> [Form; 2] {
    let many = if !bound.program().aggregates.is_empty() {
        Form::Fold
    } else if bound.program().columns.is_empty() {
        Form::Select
    } else {
        Form::Project
    };
    [Form::Test, many]
}

fn per_record(records: Records<'_>, mut run: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..16 {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_nanos() as f64 / records.len() as f64);
    }
    least
}

fn costs(bound: &Bound, records: Records<'_>, out: &mut String) {
    let program = bound.program();
    let start = Instant::now();
    let closures = Closures::new(program);
    let closures_took = start.elapsed();
    let start = Instant::now();
    let vectors = Vectors::new(program);
    let vectors_took = start.elapsed();
    let (mut rows, mut chosen, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
    let mut states: Vec<u64> = program.aggregates.iter().map(|a| a.fold.start()).collect();
    for form in forms(bound) {
        let mut best: Option<f64> = None;
        let mut tell = |name: &str, made: f64, ns: f64| {
            _ = writeln!(out, "  {:<8} {name:<13} made in {made:>8.1} us {ns:>9.2} ns a record", format!("{form:?}"));
        };
        if form == Form::Test {
            let mut interpreter = Interpreter::default();
            let ns = per_record(records, || {
                for at in 0..records.len() {
                    std::hint::black_box(interpreter.run(program, &[], records.get(at)));
                }
            });
            tell("interpreter", 0.0, ns);
            best = Some(ns);
            if let Some(closures) = &closures {
                let ns = per_record(records, || {
                    for at in 0..records.len() {
                        std::hint::black_box(closures.test(records.get(at)));
                    }
                });
                tell("closures", closures_took.as_nanos() as f64 / 1000.0, ns);
                best = Some(ns);
            }
        } else {
            let ns = per_record(records, || {
                rows.clear();
                chosen.clear();
                match form {
                    Form::Fold => _ = vectors.fold(&mut scratch, records, &mut states),
                    Form::Project => _ = vectors.project(&mut scratch, records, &mut rows),
                    _ => vectors.select(&mut scratch, records, &mut chosen),
                }
            });
            tell("vector", vectors_took.as_nanos() as f64 / 1000.0, ns);
            best = best.or(Some(ns));
        }
        let now = best.unwrap_or(0.0);
        let (code, ns) = match Machine::new(program, form) {
            Ok(m) => {
                let ns = per_record(records, || {
                    rows.clear();
                    chosen.clear();
                    match form {
                        Form::Test => {
                            (0..records.len()).for_each(|at| _ = std::hint::black_box(m.test(records.get(at))))
                        }
                        Form::Fold => _ = m.fold(records, &mut states),
                        Form::Project => _ = m.project(records, &mut rows),
                        Form::Select => m.select(records, &mut chosen),
                    }
                });
                tell("machine code", create_ns() / 1000.0, ns);
                ("", ns)
            }
            Err(_) => (" (estimated)", machine_ns(program.ops.len(), form)),
        };
        _ = match break_even(now, ns) {
            Some(m) => writeln!(out, "  {:<8} machine code pays from {m} records on{code}", format!("{form:?}")),
            None => writeln!(out, "  {:<8} machine code never pays{code}", format!("{form:?}")),
        };
    }
}

#[cfg(feature = "jit")]
fn machine(bound: &Bound, out: &mut String) {
    for form in forms(bound) {
        match Machine::listing(bound.program(), form) {
            Err(e) => _ = writeln!(out, "\n{form:?}: {e}"),
            Ok(listing) => {
                let (clif, assembly) = (listing.clif.trim_end(), listing.assembly.trim_end());
                _ = writeln!(out, "\n{form:?}, Cranelift's form:\n{clif}\n\n{form:?}, instructions:\n{assembly}");
                _ = writeln!(out, "\n{form:?}, {} bytes:", listing.bytes.len());
                for line in listing.bytes.chunks(32) {
                    let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
                    _ = writeln!(out, "  {}", hex.join(" "));
                }
            }
        }
    }
}

#[cfg(not(feature = "jit"))]
fn machine(bound: &Bound, out: &mut String) {
    let Err(why) = Machine::new(bound.program(), Form::Test);
    _ = writeln!(out, "\n{why}");
}
