//! What making machine code costs, and using it is expected to.

use crate::form::{Form, MachineError};
use chappe_plat::atomic::{AtomicU64, Ordering};

#[cfg(feature = "jit")]
pub use crate::machine::{Machine, Test};
#[cfg(not(feature = "jit"))]
pub use absent::{Machine, Test};

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

thread_local! {
    static COMPILED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many pieces of machine code the calling thread has made: none, on a thread that only uses queries.
pub fn compiled_here() -> u64 {
    COMPILED.get()
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
