//! A query that is used: the engine is chosen by what it costs, and its parameters can be changed at any time.
//!
//! Closures are made at once, and a vector plan with the first batch, in microseconds. Machine code takes 50 to some 500 us, on a thread that does
//! nothing else, and it pays when (Synthesis 3.2.1)
//!
//! ```text
//! Cost(create) + m * Cost(machine) < m * Cost(now)       so  m > Cost(create) / (Cost(now) - Cost(machine))
//! ```
//!
//! `Cost(now)` is measured while the query runs (at the 16th, 64th, 256th ... use, and where it is expected to pay), `Cost(create)` is what compiling took lately in
//! this process, and `m`, which nobody knows, is taken to be four times what has come so far: compiling begins at a quarter
//! of the break-even point. So a query over few records is never compiled, and one over many runs as machine code after
//! a small part of them. The engine in use goes on until the code is there.
//!
//! Whatever the engine, the answers are the same; without the feature `jit`, where the system forbids code made at run time, for a query
//! of another user ([`Trust::Foreign`]), and in a forked child, there is no machine code.
//!
//! A version of the query (with its parameters as constants, and all that was made of it) is published as a whole:
//! [`crate::published`]. Evaluators take it up at their next use.

use crate::closure::Closures;
use crate::compiler::Measured;
use crate::cost::{Machine, Test};
use crate::form::Form;
use crate::interpret::Interpreter;
use crate::ir::Value;
use crate::published::{Published, Reader};
use crate::query::{Bound, Query};
use crate::records::Records;
use crate::refused::{FOREIGN_OPS, LiveError, Trust};
use crate::schema::Schema;
use crate::vector::{Scratch, Vectors};
use crate::version::Version;
use std::sync::Arc;
use std::time::Instant;

/// A query in use, to be shared among threads; each has an [`Evaluator`] of its own.
pub struct Live {
    trust: Trust,
    now: Published<Version>,
}

impl Live {
    /// With the parameters' first values.
    ///
    /// # Errors
    /// Parameters that do not fit; too large a query of another user.
    pub fn new(query: &Query, params: &[(&str, Value)], trust: Trust) -> Result<Arc<Live>, LiveError> {
        Live::of(query.bind(params)?, trust)
    }

    /// A filter of one's own, from its text.
    ///
    /// # Errors
    /// What is wrong with the text or the parameters.
    ///
    /// ```
    /// use chappe_synth::{Live, Schema, Value};
    /// let trade = Schema::parse("price: f64, qty: i32, sym: str[8]").unwrap();
    /// let filter = Live::filter(&trade, "qty >= $min && sym == 'X'", &[("min", Value::Int(10))]).unwrap();
    /// let mut evaluator = filter.evaluator();
    /// let mut record = [0; 24];
    /// record[8] = 10;
    /// record[12] = b'X';
    /// assert!(evaluator.test(&record));
    /// filter.set(&[("min", Value::Int(11))]).unwrap();
    /// assert!(!evaluator.test(&record));
    /// ```
    pub fn filter(schema: &Schema, text: &str, params: &[(&str, Value)]) -> Result<Arc<Live>, LiveError> {
        Live::new(&Query::filter(schema, text)?, params, Trust::Own)
    }

    /// A query that has its parameters, as chains of several do.
    ///
    /// # Errors
    /// Too large a query of another user.
    pub fn of(bound: Bound, trust: Trust) -> Result<Arc<Live>, LiveError> {
        let ops = bound.program().ops.len();
        if trust == Trust::Foreign && ops > FOREIGN_OPS {
            return Err(LiveError::Foreign(ops));
        }
        Ok(Arc::new(Live { trust, now: Published::new(Version::new(bound, trust)) }))
    }

    /// Changes parameters; the others keep their values. Every use that begins after this has returned is with the new ones, and every
    /// use is with all of one call's values or with none.
    ///
    /// # Errors
    /// As [`Query::bind`]; then nothing has changed.
    pub fn set(&self, params: &[(&str, Value)]) -> Result<(), LiveError> {
        let trust = self.trust;
        self.now.replace(|version| {
            let query = version.bound.query();
            let kept =
                query.params().iter().zip(version.bound.params()).map(|((name, _), v)| (name.as_str(), v.clone()));
            let all: Vec<(&str, Value)> = kept.chain(params.iter().cloned()).collect();
            let next = Version::new(query.bind(&all)?, trust);
            // What has paid for the values before will pay for these.
            for (form, machine) in Form::ALL.iter().zip(&version.machines) {
                if matches!(machine.get(), Some(Some(_))) {
                    next.compile(*form);
                }
            }
            if version.vectors.get().is_some() {
                next.vectors();
            }
            Ok(next)
        })
    }

    /// The version in use.
    pub fn version(&self) -> Arc<Version> {
        self.now.get(&mut self.now.reader()).clone()
    }

    /// Compiles now, on this thread, whatever it costs. Whether there is machine code for that form.
    pub fn compile(&self, form: Form) -> bool {
        let version = self.version();
        version.compile(form);
        version.machine(form).is_some()
    }

    /// To be used by one thread.
    pub fn evaluator(self: &Arc<Live>) -> Evaluator {
        Evaluator {
            reader: self.now.reader(),
            live: self.clone(),
            interpreter: Interpreter::default(),
            scratch: Scratch::default(),
            measured: Default::default(),
            straight: None,
            plain: 0,
        }
    }
}

/// A thread's way to a [`Live`] query: has room for what is computed, and measures what it costs.
pub struct Evaluator {
    live: Arc<Live>,
    reader: Reader<Version>,
    interpreter: Interpreter,
    scratch: Scratch,
    measured: [Measured; 4],
    straight: Option<Straight>,
    /// For how many records more the closures are used without a look for machine code, if the version stays.
    plain: u64,
}

/// The machine code for one record, and of which version it is: a use need not look for it.
struct Straight {
    version: u64,
    test: Test,
}

/// How many records closures are used for before the next look whether there is machine code.
const PLAIN: u64 = 63;

/// Batches smaller than this are not worth a vector plan.
const FEW: usize = 8;

impl Evaluator {
    /// Whether a record passes.
    ///
    /// # Panics
    /// When it is shorter than the schema's.
    #[inline]
    pub fn test(&mut self, record: &[u8]) -> bool {
        if let Some(straight) = &self.straight
            && self.live.now.is_newest(straight.version)
            && straight.test.is_here()
        {
            return straight.test.test(record);
        }
        self.test_otherwise(record)
    }

    /// Without machine code, or before it is known. Apart, so that what is inlined at each use is the machine code's path alone.
    #[inline(never)]
    fn test_otherwise(&mut self, record: &[u8]) -> bool {
        if self.plain > 0
            && self.live.now.is_newest(self.reader.version())
            && let Some(closures) = &self.reader.value().closures
        {
            self.plain -= 1;
            return closures.test(record);
        }
        self.test_slowly(record)
    }

    #[cold]
    #[inline(never)]
    fn test_slowly(&mut self, record: &[u8]) -> bool {
        let version = self.live.now.get(&mut self.reader);
        if let Some(machine) = version.machine(Form::Test) {
            let passes = machine.test(record);
            let test = Test::new(machine.clone());
            self.straight = Some(Straight { version: self.reader.version(), test });
            return passes;
        }
        let interpreter = &mut self.interpreter;
        let mut test = || match &version.closures {
            Some(closures) => closures.test(record),
            None => interpreter.run(version.bound.program(), &[], record),
        };
        if self.measured[Form::Test as usize].counts(1) {
            const AGAIN: u64 = 8;
            let start = Instant::now();
            for _ in 0..AGAIN {
                std::hint::black_box(test());
            }
            let ns = start.elapsed().as_nanos() as f64 / AGAIN as f64;
            self.measured[Form::Test as usize].took(version, Form::Test, ns);
        }
        let passes = test();
        self.plain = if version.closures.is_some() { self.measured[Form::Test as usize].ahead(PLAIN) } else { 0 };
        passes
    }

    /// Appends the numbers of the records that pass.
    ///
    /// # Panics
    /// When the records are shorter than the schema's.
    pub fn select(&mut self, records: Records<'_>, out: &mut Vec<u32>) {
        self.run(Form::Select, records, |engine, scratch, records| match engine {
            By::Machine(m) => m.select(records, out),
            By::Vectors(v) => v.select(scratch, records, out),
            By::Closures(c) => c.select(records, out),
            By::Interpreter(i, p) => {
                let passes = |at: &usize| i.run_beside(p, &[], records.get(*at), records.texts());
                out.extend((0..records.len()).filter(passes).map(|at| at as u32));
            }
        });
    }

    /// Appends a row for each record that passes: of the query's rows, or the record itself if it has none. How many.
    ///
    /// # Panics
    /// When the records are shorter than the schema's.
    pub fn project(&mut self, records: Records<'_>, out: &mut Vec<u8>) -> usize {
        let size = {
            let version = self.live.now.get(&mut self.reader);
            version.bound.program().columns.is_empty().then(|| version.bound.program().record as usize)
        };
        if let Some(size) = size {
            let mut chosen = Vec::new();
            self.select(records, &mut chosen);
            chosen.iter().for_each(|i| out.extend_from_slice(&records.get(*i as usize)[..size]));
            return chosen.len();
        }
        self.run(Form::Project, records, |engine, scratch, records| match engine {
            By::Machine(m) => m.project(records, out),
            By::Vectors(v) => v.project(scratch, records, out),
            By::Closures(c) => c.project(records, out),
            By::Interpreter(i, p) => {
                let passing = (0..records.len()).filter(|at| {
                    let record = records.get(*at);
                    let passes = i.run_beside(p, &[], record, records.texts());
                    if passes {
                        i.row(p, record, out);
                    }
                    passes
                });
                passing.count()
            }
        })
    }

    /// Adds the records that pass to the states of the query's aggregates, which began as [`crate::ir::Fold::start`] says. How many.
    ///
    /// # Panics
    /// When the records are shorter than the schema's, or there is not one state for each aggregate.
    pub fn fold(&mut self, records: Records<'_>, states: &mut [u64]) -> usize {
        self.run(Form::Fold, records, |engine, scratch, records| match engine {
            By::Machine(m) => m.fold(records, states),
            By::Vectors(v) => v.fold(scratch, records, states),
            By::Closures(c) => c.fold(records, states),
            By::Interpreter(i, p) => {
                let passing = (0..records.len()).filter(|at| {
                    let passes = i.run_beside(p, &[], records.get(*at), records.texts());
                    if passes {
                        i.fold(p, states);
                    }
                    passes
                });
                passing.count()
            }
        })
    }

    fn run<R>(
        &mut self,
        form: Form,
        records: Records<'_>,
        mut work: impl FnMut(By<'_>, &mut Scratch, Records<'_>) -> R,
    ) -> R {
        let version = self.live.now.get(&mut self.reader).clone();
        let needed = version.bound.program().record as usize;
        assert!(records.size() >= needed, "records of {} bytes, and the query is for {needed}", records.size());
        if let Some(machine) = version.machine(form) {
            return work(By::Machine(machine), &mut self.scratch, records);
        }
        let looks = self.measured[form as usize].counts(records.len() as u64) && !records.is_empty();
        let start = looks.then(Instant::now);
        let by = if records.len() >= FEW {
            By::Vectors(version.vectors())
        } else {
            match &version.closures {
                Some(closures) => By::Closures(closures),
                None => By::Interpreter(&mut self.interpreter, version.bound.program()),
            }
        };
        let done = work(by, &mut self.scratch, records);
        if let Some(start) = start {
            let ns = start.elapsed().as_nanos() as f64 / records.len() as f64;
            self.measured[form as usize].took(&version, form, ns);
        }
        done
    }

    /// Which engine the next use in this form would take.
    pub fn engine(&mut self, form: Form) -> &'static str {
        let version = self.live.now.get(&mut self.reader);
        match (version.machine(form), form, &version.closures) {
            (Some(_), _, _) => "machine code",
            (None, Form::Test, Some(_)) => "closures",
            (None, Form::Test, None) => "interpreter",
            (None, _, _) => "vector",
        }
    }
}

enum By<'a> {
    Machine(&'a Machine),
    Vectors(&'a Vectors),
    Closures(&'a Closures),
    Interpreter(&'a mut Interpreter, &'a crate::ir::Verified),
}
