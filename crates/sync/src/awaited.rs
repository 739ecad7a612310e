//! What a task waits for, where the object's own arm would not do: what is taken is its process's, and it waits in the member of its seat.

use crate::condvar::notify;
use crate::lock::{self, Try};
use crate::many::{Many, collect, give_all, take_many};
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Refused, Site, Taken};
use chappe_wait::wait::{Grant, Party};
use std::cell::{Cell, RefCell};

/// Several permits, as what a task waits for: each is `holder`'s from the swap of its cell on, and no moment the waiting member's.
pub(crate) struct Several {
    pub pool: Site,
    pub need: u32,
    pub holder: Party,
    /// What was taken.
    pub into: RefCell<Many>,
}

impl Arm for Several {
    fn site(&self) -> Site {
        self.pool
    }
    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        take_many(self.pool.place, &self.holder, self.need, &mut self.into.borrow_mut())?;
        Ok(Taken::UNIT)
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, _aim: Mode) -> Collected {
        let into = &mut self.into.borrow_mut();
        match grant {
            Some(_) if collect(me, &self.holder, self.pool.place, self.need, number, into) => {
                Collected::Taken(Taken::UNIT)
            }
            _ => Collected::Void,
        }
    }
    fn give_back(&self, _taken: Taken) {
        give_all(self.pool.map, self.pool.place, &mut self.into.borrow_mut());
    }
}

/// A mutex, as what a task waits for: in the member of its seat, and for another member, its process, to hold.
pub(crate) struct Locks {
    mutex: Site,
    /// The word of the mutex when the process holds it.
    pub mine: u64,
    outcome: Cell<Try>,
}

impl Locks {
    pub fn new(mutex: Site, mine: u64) -> Locks {
        Locks { mutex, mine, outcome: Cell::new(Try::Busy) }
    }

    /// What the attempts, or the wait, came to.
    pub fn outcome(&self) -> Try {
        self.outcome.get()
    }

    fn came_to(&self, seen: Try) -> Result<Taken, Refused> {
        self.outcome.set(seen);
        match seen {
            Try::Locked | Try::Torn => Ok(Taken::UNIT),
            Try::Busy => Err(Refused::NoneFree),
            Try::Condemned | Try::Dead => Err(Refused::Dead(0)),
        }
    }

    /// The wait ended because the mutex is not in service any more.
    pub fn refused(&self) {
        let Site { map, place, .. } = self.mutex;
        self.outcome.set(if lock::condemned(map.object(place.index)) { Try::Condemned } else { Try::Dead });
    }
}

impl Arm for Locks {
    fn site(&self) -> Site {
        self.mutex
    }
    fn attempt(&self, _me: &Party, told: bool) -> Result<Taken, Refused> {
        let Site { map, place, .. } = self.mutex;
        if told {
            lock::untell(map.object(place.index));
        }
        self.came_to(lock::take(map, place, self.mine))
    }
    /// By a waiter that was told, and no longer wants it: I4 and I5 of the lock.
    fn look(&self, _me: &Party, _how: Looking) -> Result<Mark, Refused> {
        lock::untell(self.mutex.map.object(self.mutex.place.index));
        Ok(Mark::Nothing(0))
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, _aim: Mode) -> Collected {
        let Site { map, place, .. } = self.mutex;
        match grant {
            Some(grant) if grant.is_retry() => Collected::Nudged,
            Some(_) => match self.came_to(lock::collect(map, place, me.member, self.mine, number)) {
                Ok(taken) => Collected::Taken(taken),
                Err(_) => Collected::Void,
            },
            None => Collected::Void,
        }
    }
    fn give_back(&self, _taken: Taken) {
        let Site { map, place, .. } = self.mutex;
        lock::give(map, place, map.object(place.index), lock::free_word(place), self.mine);
    }
}

/// A condition variable, as what a task waits for.
pub(crate) struct Hears(pub Site);

impl Arm for Hears {
    fn site(&self) -> Site {
        self.0
    }
    fn collect(&self, _me: &Party, grant: Option<Grant>, _number: u32, aim: Mode) -> Collected {
        match grant {
            None => Collected::Void,
            Some(_) if aim == Mode::Take => Collected::Taken(Taken::UNIT),
            Some(_) => {
                // I3, while the word still says so: if the dropped task's process dies before this, recovery does it.
                notify(self.0.map, self.0.place);
                Collected::HandedBack
            }
        }
    }
}
