//! A wait: what it is for, what has begun, and how it ended.

use super::discipline::Arrival;
use super::parties::Patience;
use super::state::Grant;

/// What a wait is for.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// The arm that is looked at first.
    pub first: usize,
    /// The caller's, so that a waiter that must wait again keeps its place.
    pub arrival: Arrival,
    /// How much of the object is needed; see the drainers. 0 on a tube: the waiter only looks.
    pub need: u32,
    /// Where the other end of a tube without slots finds the message to be handed over; 0 for none.
    pub packet: u64,
    /// When to give up.
    pub deadline: Option<u64>,
    /// What to do until then.
    pub patience: &'a Patience<'a>,
}

/// A wait whose bits are set.
pub struct Begun {
    pub number: u64,
    pub first: usize,
    pub enlisted: usize,
    pub dead: Option<usize>,
    /// The member looked without the fence that it should have had: it is to look again soon.
    pub(crate) is_blind: bool,
}

/// How a wait ended.
pub enum Ended {
    /// Granted: what, in which wait.
    Granted(Grant, u32),
    /// The time was up first.
    TimedOut,
    /// This arm's object is not, or no longer, in service.
    Dead(usize),
    /// This arm's object has not so much as was asked for.
    TooMany,
}
