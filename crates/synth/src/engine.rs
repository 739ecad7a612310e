//! What using and making an engine costs, and the thread that compiles.

use crate::live::Version;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

#[cfg(feature = "jit")]
pub use crate::machine::{Machine, Test};
#[cfg(not(feature = "jit"))]
pub use absent::{Machine, Test};

/// How a query is used: what machine code is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// One record: whether it passes.
    Test = 0,
    /// Many: which pass.
    Select = 1,
    /// Many: a row for each that passes.
    Project = 2,
    /// Many: added up.
    Fold = 3,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 4] = [Form::Test, Form::Select, Form::Project, Form::Fold];
}

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The feature `jit` is not built in.
    #[error("no machine code: this program was built without the feature `jit`")]
    Absent,
    /// The processor is one that Cranelift does not know.
    #[error("no machine code for this processor: {0}")]
    Processor(String),
    /// The program has something that only the other engines do.
    #[error("no machine code for this query: {0}")]
    Unsupported(&'static str),
    /// Cranelift did not take it.
    #[error("no machine code for this query: {0}")]
    Compiler(String),
    /// The system does not allow code that is made at run time, or has no memory.
    #[error("the system allows no machine code made at run time: {0}")]
    System(#[from] std::io::Error),
}

/// What compiling took lately in this process, in ns: a mean in which each new one counts for a quarter. 0: nobody has compiled yet.
static CREATE: AtomicU64 = AtomicU64::new(0);
/// Before anybody has compiled.
const GUESS: u64 = 150_000;

/// What compiling is expected to take.
pub fn create_ns() -> f64 {
    // Relaxed: an estimate.
    match CREATE.load(Ordering::Relaxed) {
        0 => GUESS as f64,
        ns => ns as f64,
    }
}

#[cfg(feature = "jit")]
fn compiled_in(took: std::time::Duration) {
    let ns = took.as_nanos() as u64;
    // Relaxed, both: an estimate; of two that finish at once one may be forgotten.
    let before = CREATE.load(Ordering::Relaxed);
    CREATE.store(if before == 0 { ns } else { (3 * before + ns) / 4 }.max(1), Ordering::Relaxed);
}

/// What machine code of so many operations is expected to take for a record, in ns.
pub fn machine_ns(ops: usize, form: Form) -> f64 {
    let base = if form == Form::Test { 2.0 } else { 0.6 };
    base + 0.15 * ops as f64
}

/// From how many records on machine code is cheaper than what takes `now_ns` a record; none: never.
pub fn break_even(now_ns: f64, machine_ns: f64) -> Option<u64> {
    let saved = now_ns - machine_ns;
    (saved > 0.05).then(|| (create_ns() / saved).ceil() as u64)
}

/// What one form of a query has cost one evaluator.
#[derive(Default, Debug)]
pub struct Measured {
    records: u64,
    uses: u64,
    /// The use that is measured next.
    next: u64,
}

impl Measured {
    /// So many records more. Whether this use is to be measured: the 16th, 64th, 256th ..., and the one at which machine code is
    /// expected to pay, until it was asked for; before that, uses of many records at the 1st and 4th.
    #[inline]
    pub fn counts(&mut self, records: u64) -> bool {
        self.records += records;
        self.uses += 1;
        self.uses >= self.next && self.comes()
    }

    /// How many uses of one record each come before one that is to be looked at, at most so many: they count as made.
    pub fn ahead(&mut self, most: u64) -> u64 {
        let free = self.next.saturating_sub(self.uses + 1).min(most);
        self.uses += free;
        self.records += free;
        free
    }

    #[cold]
    fn comes(&mut self) -> bool {
        self.next = self.uses.saturating_mul(4);
        self.uses >= 16 || self.records >= 256
    }

    /// A use took so long for each record: asks for machine code if it will pay.
    pub fn took(&mut self, version: &Arc<Version>, form: Form, ns: f64) {
        let ops = version.bound.program().ops.len();
        let Some(even) = break_even(ns, machine_ns(ops, form)).filter(|_| cfg!(feature = "jit")) else { return };
        let enough = even / 4;
        if self.records >= enough {
            if ask(version.clone(), form) {
                self.next = u64::MAX;
            }
            return;
        }
        // As many records a use as before: then it is this use.
        let uses = (enough as f64 / self.records as f64 * self.uses as f64).ceil() as u64;
        self.next = self.next.min(uses.max(self.uses + 1));
    }
}

thread_local! {
    static COMPILED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many pieces of machine code the calling thread has made: none, on a thread that only uses queries.
pub fn compiled_here() -> u64 {
    COMPILED.get()
}

type Work = (Arc<Version>, Form);

/// The channel to the compiling thread, and the incarnation of the process that has it: a forked child has another, and
/// no such thread.
static COMPILER: Mutex<Option<(u64, Sender<Work>)>> = Mutex::new(None);

/// Has a version compiled by the thread for that. False: not now.
fn ask(version: Arc<Version>, form: Form) -> bool {
    // Taken: by another that asks, or, in a forked child, for ever: then it goes without.
    let Ok(mut compiler) = COMPILER.try_lock() else { return false };
    let here = process::incarnation();
    if compiler.as_ref().is_none_or(|(who, _)| *who != here) {
        let (send, receive) = mpsc::channel::<Work>();
        let body = move || {
            for (version, form) in receive {
                version.compile(form);
            }
        };
        if chappe_plat::thread::background_with("chappe-synth", 1 << 21, body).is_err() {
            return false;
        }
        if let Some(others) = compiler.replace((here, send)) {
            // The parent's: its other end is in memory that nobody serves here.
            std::mem::forget(others);
        }
    }
    compiler.as_ref().is_some_and(|(_, send)| send.send((version, form)).is_ok())
}

/// Whether queries can become machine code in this process: makes some, of a small query.
///
/// # Errors
/// Why not: the feature `jit` is missing, the processor is none that Cranelift knows, or the system forbids it. Queries then run as closures.
pub fn machine_code() -> Result<(), MachineError> {
    let schema = crate::Schema::parse("x: i64").expect("a schema of one field");
    let query = crate::Query::filter(&schema, "x > 0").expect("a predicate over that field");
    Machine::new(query.program(), Form::Test).map(drop)
}

#[cfg(feature = "jit")]
impl Machine {
    /// As [`Machine::compile`], and remembers what it took.
    ///
    /// # Errors
    /// Where there can be none.
    pub fn new(program: &crate::ir::Verified, form: Form) -> Result<Machine, MachineError> {
        let machine = Machine::compile(program, form)?;
        COMPILED.set(COMPILED.get() + 1);
        compiled_in(machine.took());
        Ok(machine)
    }
}

#[cfg(not(feature = "jit"))]
mod absent {
    //! What stands for machine code where there is none.

    use super::{Form, MachineError};
    use crate::ir::Verified;
    use crate::records::Records;

    /// There is none of these.
    pub enum Machine {}

    /// Nor of these.
    pub struct Test(std::sync::Arc<Machine>);

    impl Test {
        /// See the other one.
        pub fn new(machine: std::sync::Arc<Machine>) -> Test {
            Test(machine)
        }

        /// See the other one.
        pub fn is_here(&self) -> bool {
            self.0.is_here()
        }

        /// See the other one.
        pub fn test(&self, record: &[u8]) -> bool {
            self.0.test(record)
        }
    }

    impl Machine {
        /// There is none.
        ///
        /// # Errors
        /// Always.
        pub fn new(_: &Verified, _: Form) -> Result<Machine, MachineError> {
            Err(MachineError::Absent)
        }

        /// See the other one.
        pub fn is_here(&self) -> bool {
            match *self {}
        }

        /// See the other one.
        pub fn test(&self, _: &[u8]) -> bool {
            match *self {}
        }

        /// See the other one.
        pub fn select(&self, _: Records<'_>, _: &mut Vec<u32>) {
            match *self {}
        }

        /// See the other one.
        pub fn project(&self, _: Records<'_>, _: &mut Vec<u8>) -> usize {
            match *self {}
        }

        /// See the other one.
        pub fn fold(&self, _: Records<'_>, _: &mut [u64]) -> usize {
            match *self {}
        }
    }
}
