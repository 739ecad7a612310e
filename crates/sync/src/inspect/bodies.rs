//! What observers see of objects whose whole state is a body of the arena (see `body`): maps, which have waiters, and the kinds without
//! waiters.

use super::row::{Fact, FactSort, Inspected, ObjectState};
use crate::barrier;
use crate::bodied::{Figures, look};
use crate::counter;
use crate::map::atlas::Atlas;
use crate::monitor::form as monitor;
use crate::server::form as server;
use chappe_arena::{Map, Place};
use chappe_wait::body::Body;

#[cfg(not(feature = "loom"))]
use super::row::Failure;

/// A kind that is a body and nothing else.
pub(super) struct Bodied {
    figures: Figures,
    #[cfg(not(feature = "loom"))]
    remove: fn(&str, bool) -> Result<(), Failure>,
}

impl Inspected for Bodied {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Shared(look(map, place, self.figures)?))
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        look(map, place, self.figures).is_none().then_some("its shape cannot be")
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        Some(Body::of(map, place)?.users().collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        (self.remove)(name, force)
    }
}

pub(super) static COUNTERS: Bodied = Bodied {
    figures: counter::figures,
    #[cfg(not(feature = "loom"))]
    remove: |name, force| Ok(crate::Counter::unmake(name, force)?),
};

pub(super) static SERVERS: Bodied = Bodied {
    figures: server::figures,
    #[cfg(not(feature = "loom"))]
    remove: |name, force| Ok(crate::remove_service(name, force)?),
};

/// The kinds that this machine, and this build, support.
#[cfg(all(not(feature = "loom"), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod some {
    use super::{Bodied, monitor};

    pub static STACKS: Bodied =
        Bodied { figures: crate::stack::form::figures, remove: |name, force| Ok(crate::Stack::unmake(name, force)?) };

    pub static WORDS: Bodied =
        Bodied { figures: crate::words::figures, remove: |name, force| Ok(crate::words::Words::unmake(name, force)?) };

    pub static HELP_LOCKS: Bodied = Bodied {
        figures: crate::helplock::figures,
        remove: |name, force| Ok(crate::HelpLock::<()>::unmake(name, force)?),
    };

    pub static MONITORS: Bodied =
        Bodied { figures: monitor::figures, remove: |name, force| Ok(crate::Monitor::<()>::unmake(name, force)?) };
}

/// The same on others: what can be told without the kind's own code.
#[cfg(not(all(not(feature = "loom"), any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod some {
    use super::{Bodied, Figures, monitor};

    const fn without(figures: Figures) -> Bodied {
        Bodied {
            figures,
            #[cfg(not(feature = "loom"))]
            remove: |name, _| Err(format!("`{name}` is of a kind that there is not on this machine").into()),
        }
    }

    pub static STACKS: Bodied = without(|_| None);
    pub static WORDS: Bodied = without(|_| None);
    pub static HELP_LOCKS: Bodied = without(|body| Some((0, 0, body.form.numbers[0])));
    pub static MONITORS: Bodied = without(monitor::figures);
}

pub(super) use some::{HELP_LOCKS, MONITORS, STACKS, WORDS};

pub(super) struct Barriers;

impl Inspected for Barriers {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        let info = barrier::info(Body::of(map, place)?)?;
        let number = |name, value: u32| Fact { name, value: value.into(), sort: FactSort::Number };
        let flag = |name, is_so: bool| Fact { name, value: is_so.into(), sort: FactSort::Flag };
        Some(ObjectState::Facts(vec![
            number("parties", info.parties),
            number("arrived", info.arrived),
            number("joined", info.joined),
            number("dead", info.dead),
            Fact { name: "rounds", value: info.rounds, sort: FactSort::Total },
            flag("broken", info.broken.is_some()),
            flag("breaks on death", info.breaks_on_death),
        ]))
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Body::of(map, place).and_then(barrier::info).is_none().then_some("its shape cannot be")
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        Some(Body::of(map, place)?.users().collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(barrier::Barrier::remove(name, force)?)
    }
}

pub(super) struct Maps;

impl Inspected for Maps {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Map(crate::map::info(map, place)?))
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Atlas::of(map, place).is_none().then_some("its shape cannot be")
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        Some(Body::of(map, place)?.users().collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::map::Map::<[u8], [u8]>::unmake(name, force)?)
    }
}
