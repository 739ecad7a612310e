//! The reference: operation by operation, with the parameters as they are, slow and plain. What the engines answer must be
//! what this answers.
//!
//! It is the general function of the papers, of which the engines' are restrictions: it takes the program and the parameters
//! at each call. It also serves where nothing better may be had: for programs whose shared values make closures too large.

use crate::ir::{
    Op, Pattern, Program, Source, Type, Value, Verified, With, binary, load, matches, settled, text_of, text_test,
    unary,
};

/// Room for the values of a program.
#[derive(Default)]
pub struct Interpreter {
    values: Vec<u64>,
}

impl Interpreter {
    /// Computes all values of a record. Whether it passes the filter.
    ///
    /// # Panics
    /// When the record is shorter than the program's, or the parameters are not the program's.
    pub fn run(&mut self, program: &Verified, params: &[Value], record: &[u8]) -> bool {
        self.run_beside(program, params, record, &[])
    }

    /// The same of a record that has texts of any length beside it.
    ///
    /// # Panics
    /// As [`Interpreter::run`].
    pub fn run_beside(&mut self, program: &Verified, params: &[Value], record: &[u8], texts: &[u8]) -> bool {
        assert!(record.len() >= program.record as usize, "a record of {} bytes", record.len());
        self.values.clear();
        for op in &program.ops {
            let value = self.value(program, params, record, texts, op);
            self.values.push(value);
        }
        program.filter.is_none_or(|f| self.values[f as usize] != 0)
    }

    fn value(&self, program: &Program, params: &[Value], record: &[u8], texts: &[u8], op: &Op) -> u64 {
        let v = |id: u32| self.values[id as usize];
        let written = |pattern: Pattern| match pattern {
            Pattern::Literal(n) => Some(&program.texts[n as usize]),
            Pattern::Param(n) => match &params[n as usize] {
                Value::Text(t) => Some(t),
                _ => None,
            },
        };
        match *op {
            Op::Word(n) | Op::Double(n) => n,
            Op::Bool(b) => u64::from(b),
            Op::Param(n, _) => params[n as usize].bits(),
            Op::Load { at, kind } => load(record, at, kind),
            Op::Match { at, width, prefix, pattern } => {
                let Some(pattern) = written(pattern) else { return 0 };
                u64::from(matches(&record[at as usize..(at + width) as usize], prefix, pattern))
            }
            Op::Text { test, of, with } => {
                let with = match with {
                    With::Value(id) => text_of(v(id), texts),
                    With::Pattern(pattern) => {
                        let Some(pattern) = written(pattern) else { return 0 };
                        pattern
                    }
                };
                u64::from(text_test(test, text_of(v(of), texts), with))
            }
            Op::Un(op, a) => unary(op, v(a)),
            Op::Bin(op, a, b) => binary(op, v(a), v(b)),
            Op::Select(c, a, b) => {
                if v(c) != 0 {
                    v(a)
                } else {
                    v(b)
                }
            }
        }
    }

    /// A value of the record that ran last.
    pub fn get(&self, id: u32) -> u64 {
        self.values[id as usize]
    }

    /// Appends the output row of the record that ran last.
    pub fn row(&self, program: &Verified, record: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + program.row as usize, 0);
        for column in &program.columns {
            let to = start + column.at as usize;
            match column.source {
                Source::Copy { from, width } => {
                    out[to..to + width as usize].copy_from_slice(&record[from as usize..(from + width) as usize]);
                }
                Source::Value(id) => match program.type_of(id) {
                    Type::Bool => out[to] = self.get(id) as u8,
                    Type::Word => out[to..to + 8].copy_from_slice(&self.get(id).to_le_bytes()),
                    Type::Double => out[to..to + 8].copy_from_slice(&settled(self.get(id)).to_le_bytes()),
                },
            }
        }
    }

    /// Adds the record that ran last to the aggregates' states.
    pub fn fold(&self, program: &Verified, states: &mut [u64]) {
        for (state, a) in states.iter_mut().zip(&program.aggregates) {
            *state = a.fold.step(*state, a.value.map_or(0, |id| self.get(id)));
        }
    }
}
