//! What a search is to the loop that plays its schedules.

use crate::event::Event;
use crate::report::Reach;
use crate::state::Engine;

/// Chooses among what can happen.
pub(crate) trait Strategy {
    /// Prepares the next schedule. False: there is none.
    fn begin(&mut self) -> bool {
        true
    }
    /// What is known without looking at the offers.
    fn scripted(&mut self, _: &mut Engine) -> Option<Event> {
        None
    }
    /// One of the offers.
    fn choose(&mut self, e: &mut Engine) -> Event;
    /// How far it has come, if what it plays is bounded.
    fn reach(&self) -> Option<Reach> {
        None
    }
    /// Whether states must be numbered.
    fn wants_trace(&self) -> bool {
        false
    }
}

/// Which part of a search a thread takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub which: u32,
    pub of: u32,
}

impl Part {
    /// Whether this part has the n-th of what is divided.
    pub fn has(self, number: usize) -> bool {
        number % self.of as usize == self.which as usize
    }
}
