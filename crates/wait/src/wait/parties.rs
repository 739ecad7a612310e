//! The waiter: which members of which arenas it is, and how it passes the time.

use crate::holds::Holds;
use crate::interrupt::Interrupt;
use chappe_arena::Map;
use chappe_plat::light;
use std::cell::Cell;

/// A thread's membership in one arena of a choice.
#[derive(Clone, Copy)]
pub struct Party {
    /// The arena.
    pub map: &'static Map,
    /// The thread's slot in it.
    pub member: u32,
    /// Which use of the slot.
    pub generation: u32,
    /// Where it says that it is inside what is biased to it.
    pub holds: Holds,
}

/// The waiter: a thread, with its attachment (its slot in an arena) where its wait word is, and, for a mixed choice, its private attachment.
#[derive(Clone, Copy)]
pub struct Parties {
    /// Where the wait word is: the named arena if there is one.
    pub main: Party,
    /// The private arena of a mixed choice.
    pub private: Option<Party>,
}

impl Party {
    /// A thread that is no member: it acts without having waited, or waits in no queue.
    #[inline(always)]
    pub fn nobody(map: &'static Map) -> Party {
        Party { map, member: u32::MAX, generation: 0, holds: Holds::NONE }
    }
}

impl Parties {
    /// The attachment that counts in an arm's arena.
    #[inline]
    pub fn party(&self, map: &Map) -> &Party {
        self.party_in(|| map)
    }

    /// The same, where the arena need not be asked for: mostly there is one.
    #[inline]
    pub(crate) fn party_in<'m>(&self, map: impl FnOnce() -> &'m Map) -> &Party {
        match &self.private {
            Some(p) if std::ptr::eq(p.map, map()) => p,
            _ => &self.main,
        }
    }
}

/// How a waiter spends its time before it sleeps.
pub struct Patience<'a> {
    /// Turns to spin; adapts to whether spinning has paid.
    pub budget: &'a Cell<u32>,
    /// Never sleep.
    pub forever: bool,
    /// Never spin.
    pub none: bool,
    /// What ends the wait early.
    pub interrupt: Option<&'a Interrupt>,
    /// The waiter's priority: see the discipline.
    pub priority: u8,
    /// The member at whose bell it sleeps, I10. The explorer's: light threads find theirs when they need it.
    pub bell: Option<u32>,
}

impl Patience<'_> {
    /// Whether the wait is to end early.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::has_come) || light::is_destroyed()
    }
}
