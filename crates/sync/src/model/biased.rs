//! Private locks that are biased at once to the thread that takes them, for the explorer: otherwise this takes hundreds of acquisitions.

use super::{Actor, Held, MutexAt, PoolAt};
use crate::bias::{self, Holds};
use crate::{lock, permit};
use chappe_arena::{ArenaError, Map};
use chappe_wait::operation::Taken;
use chappe_wait::wait::{Discipline, Party};

impl MutexAt {
    /// Makes a mutex without a name, in a private arena.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn biased(map: &'static Map) -> Result<MutexAt, ArenaError> {
        let place = lock::make(map, &map.admin(), "", 0, 0, |_| ())?;
        bias::at_once(map.object(place.index));
        Ok(MutexAt { map, place })
    }

    /// Revokes the bias, as any thread that only looks at the lock may.
    pub fn settle(self) {
        bias::settled(self.map, self.map.object(self.place.index));
    }

    /// The owner of the bias, if the lock is biased: a member.
    pub fn bias(self) -> Option<u32> {
        bias::owner_of(self.map, self.map.object(self.place.index))
    }
}

impl PoolAt {
    /// Makes a pool of one permit without a name, in a private arena.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn biased(map: &'static Map) -> Result<PoolAt, ArenaError> {
        let place = permit::make_pool(map, &map.admin(), "", 1, Discipline::Fifo)?;
        bias::at_once(map.object(place.index));
        Ok(PoolAt { map, place })
    }

    /// The owner of the bias, if the pool is biased: a member.
    pub fn bias(self) -> Option<u32> {
        bias::owner_of(self.map, self.map.object(self.place.index))
    }
}

impl Actor {
    fn holds(&self, map: &Map) -> Holds {
        Holds::of(map, self.party(map).member)
    }

    /// Locks by the bias, if the actor owns it.
    pub(super) fn enter(&self, mutex: MutexAt) -> bool {
        let MutexAt { map, place } = mutex;
        // SAFETY: the actor's own.
        map.is_private()
            && unsafe { lock::enter(map.object(place.index), place, self.party(map).member, self.holds(map)) }
    }

    /// After locking without the bias: may give the actor the bias.
    pub(super) fn locked(&self, mutex: MutexAt, mine: u64) {
        let MutexAt { map, place } = mutex;
        if map.is_private() {
            // SAFETY: as above.
            unsafe { lock::consider(map, map.object(place.index), place, mine, self.holds(map)) };
        }
    }

    /// Takes the permit by the bias, if the actor owns it; or without it, and then perhaps gets the bias.
    ///
    /// `None`: another member has the permit.
    pub fn take_biased(&self, pool: PoolAt) -> Option<Held> {
        let PoolAt { map, place } = pool;
        let (o, me): (_, &Party) = (map.object(place.index), self.party(map));
        // SAFETY: as above.
        let entered = unsafe { permit::enter(o, place, me) };
        let taken: Taken = match entered {
            Some(taken) => taken,
            None => {
                let taken = permit::take_one(o, place, me)?;
                // SAFETY: as above.
                unsafe { permit::consider(map, o, place, taken, self.holds(map)) };
                taken
            }
        };
        Some(Held { pool, taken })
    }
}
