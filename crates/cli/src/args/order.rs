//! In which order waiters are served.

use crate::time::{Grace, parse_grace};

/// In which order waiters are served.
#[derive(clap::Args, Debug)]
pub struct Order {
    /// Serve waiters by their --priority, and those of the same priority in the order of arrival
    #[arg(long)]
    pub priority: bool,
    /// With --priority: a waiter that has waited for so long is overtaken by no later one (`never`: the lowest may wait for ever)
    #[arg(long, value_name = "DURATION", value_parser = parse_grace, default_value = "1s", requires = "priority")]
    pub aging: Grace,
}

impl Order {
    /// As the library has it.
    pub fn discipline(&self) -> chappe::Discipline {
        if self.priority { chappe::Discipline::Priority { aging: self.aging.0 } } else { chappe::Discipline::Fifo }
    }
}
