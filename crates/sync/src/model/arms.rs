//! Pools and semaphores as arms of a choice.

use crate::operation::{Collected, Operation, Refused, Taken};
use crate::permit;
use crate::semaphore_word;
use crate::wait::{self, Arm, Grant, Party};
use chappe_arena::{Map, Place};

/// A pool in an arena.
#[derive(Clone, Copy)]
pub struct PoolAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl Arm for PoolAt {
    fn map(&self) -> &'static Map {
        self.map
    }
    fn place(&self) -> Place {
        self.place
    }
}

impl Operation for PoolAt {
    fn attempt(&self, me: &Party) -> Result<Taken, Refused> {
        let o = self.map.object(self.place.index);
        if let Some(taken) = permit::take_one(o, self.place, me) {
            return Ok(taken);
        }
        // As in `Pool`: a mere try leaves a bias alone.
        let last = if self.map.is_private() { None } else { permit::take_last(o, self.place, me) };
        last.map_or_else(|| permit::take(self.place, me), Ok)
    }
    fn collect(&self, me: &Party, grant: Grant, number: u32) -> Collected {
        permit::collect(me, self.place, grant, number)
    }
}

/// A semaphore in an arena.
#[derive(Clone, Copy)]
pub struct SemaphoreAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl Arm for SemaphoreAt {
    fn map(&self) -> &'static Map {
        self.map
    }
    fn place(&self) -> Place {
        self.place
    }
}

impl Operation for SemaphoreAt {
    fn attempt(&self, _me: &Party) -> Result<Taken, Refused> {
        if semaphore_word::take_one(self.map.object(self.place.index), self.place).is_some() {
            return Ok(Taken::UNIT);
        }
        semaphore_word::take(self.map, self.place).map(|()| Taken::UNIT)
    }
    fn collect(&self, _me: &Party, grant: Grant, _number: u32) -> Collected {
        semaphore_word::collect(grant)
    }
    fn is_ready(&self, _me: &Party) -> Result<bool, Refused> {
        semaphore_word::is_there(self.map, self.place)
    }
    fn is_barging(&self) -> bool {
        wait::is_barging(self.map.object(self.place.index))
    }
    fn mark_in_queue(&self) -> Option<u64> {
        semaphore_word::mark_in_queue(self.map, self.place)
    }
    fn hand_back(&self, me: &Party) -> bool {
        semaphore_word::hand_back(self.map, self.place.index, me.member)
    }
}

/// One arm of a choice.
#[derive(Clone, Copy)]
pub enum AnyAt {
    /// Take a permit.
    Pool(PoolAt),
    /// Consume a unit.
    Semaphore(SemaphoreAt),
}

impl AnyAt {
    pub(super) fn operation(&self) -> &dyn Operation {
        match self {
            AnyAt::Pool(p) => p,
            AnyAt::Semaphore(s) => s,
        }
    }
}
