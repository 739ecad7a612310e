//! Pools and semaphores as arms of a choice.

use crate::permit;
use crate::semaphore_word;
use chappe_arena::{Map, Place};
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Refused, Site, Taken};
use chappe_wait::wait::{Grant, Party};

/// A pool in an arena.
#[derive(Clone, Copy)]
pub struct PoolAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl Arm for PoolAt {
    fn site(&self) -> Site {
        Site::of(self.map, self.place)
    }
    fn attempt(&self, me: &Party, _told: bool) -> Result<Taken, Refused> {
        let o = self.map.object(self.place.index);
        if let Some(taken) = permit::take_one(o, self.place, me) {
            return Ok(taken);
        }
        // As in `Pool`: a mere try leaves a bias alone.
        let last = if self.map.is_private() { None } else { permit::take_last(o, self.place, me) };
        last.map_or_else(|| permit::take(self.place, me), Ok)
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, _aim: Mode) -> Collected {
        grant.map_or(Collected::Void, |grant| permit::collect(me, self.place, grant, number))
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
    fn site(&self) -> Site {
        semaphore_word::arm::site(self.map, self.place, self.map.object(self.place.index))
    }
    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        if semaphore_word::take_one(self.map.object(self.place.index), self.place).is_some() {
            return Ok(Taken::UNIT);
        }
        semaphore_word::take(self.map, self.place).map(|()| Taken::UNIT)
    }
    fn look(&self, _me: &Party, how: Looking) -> Result<Mark, Refused> {
        semaphore_word::arm::look_at(self.map, self.place, how)
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, _number: u32, aim: Mode) -> Collected {
        semaphore_word::arm::collect(me, self.place, grant, aim)
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
    pub(super) fn operation(&self) -> &dyn Arm {
        match self {
            AnyAt::Pool(p) => p,
            AnyAt::Semaphore(s) => s,
        }
    }
}
