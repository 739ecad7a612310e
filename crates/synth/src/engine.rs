//! Machine code, what making it costs, and when that pays.

pub use crate::compiler::Measured;
pub use crate::cost::{Machine, Test, break_even, compiled_here, create_ns, machine_code, machine_ns};
pub use crate::form::{Form, MachineError};
