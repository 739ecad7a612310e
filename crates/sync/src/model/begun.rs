//! Waits of which only the first part is done, for the explorer: who waits so may be granted what it waits for, and take it never.

use super::{Actor, SemaphoreAt};
use crate::wait::{Patience, Terms, arrive, begin};
use std::cell::Cell;

impl Actor {
    /// Gets in line for a unit, and does not sleep.
    pub fn get_in_line(&self, semaphore: SemaphoreAt) {
        let budget = Cell::new(0);
        let patience = Patience { budget: &budget, forever: false, none: true };
        let tickets = arrive(&self.who);
        begin(
            &self.who,
            &[&semaphore],
            Terms { first: 0, tickets, need: 1, packet: 0, deadline: None, patience: &patience },
        );
    }
}
