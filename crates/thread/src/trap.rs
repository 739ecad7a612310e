//! What a light thread is told of an error trap, and what it may answer. How it gets there: `trapping`.

pub use chappe_plat::faults::Kind as TrapKind;
use std::fmt;

/// An instruction of a light thread that could not be carried out. [`JoinHandle::join`](crate::JoinHandle::join) answers
/// it for a thread that has ended by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trap {
    /// What could not be done.
    pub kind: TrapKind,
    /// The address in memory that was used; of an arithmetic error or an unknown instruction, that of the instruction.
    /// 0 where the processor does not say (an address that cannot be).
    pub address: usize,
    /// Where the instruction lies.
    pub instruction: usize,
    /// How many bytes the thread's stack has, if it was used up: the address is in the guard below it.
    pub used_up: Option<usize>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bytes) = self.used_up {
            return write!(f, "has used up its stack of {} KiB: give it more with Builder::stack_size", bytes / 1024);
        }
        write!(f, "got {}", self.kind)?;
        if matches!(self.kind, TrapKind::Memory | TrapKind::Bus) {
            write!(f, " at address {:#x}", self.address)?;
        }
        write!(f, " in the instruction at {:#x}", self.instruction)
    }
}

impl std::error::Error for Trap {}

/// What a light thread's handler of error traps answers: see [`set_trap`](crate::set_trap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterTrap {
    /// The cause is mended: the instruction is carried out once more, and comes back if it is not.
    Again,
    /// The thread ends here, alone: `join` answers the [`Trap`].
    End,
    /// As if there were no handler.
    Pass,
}
