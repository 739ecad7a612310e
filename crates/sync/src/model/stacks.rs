//! Stacks, maps and monitors of an arena, and mutexes with much data, for the explorer: made, entered, changed, removed.

use super::{Actor, MutexAt};
use crate::lock;
use crate::map::atlas;
use crate::monitor::form as monitor;
use crate::stack::form::{form_of, in_body};
use chappe_arena::layout::Kind;
use chappe_arena::{ArenaError, Map, Place};
use chappe_structures::pile::{Pile, Shape};
use chappe_structures::room;
use chappe_structures::room::{Announced, Member, Room};
use chappe_wait::body;
use chappe_wait::body::Body;

/// A stack of elements of 16 bytes.
#[derive(Clone, Copy)]
pub struct StackAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl StackAt {
    /// Makes it.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, capacity: u32, spare: u32) -> Result<StackAt, ArenaError> {
        let shape = Shape { capacity, size: 16, spare };
        let admin = map.admin();
        let form = Some((shape.bytes(), form_of(shape, 7)));
        let place = body::make(map, &admin, name, Kind::Stack, form, |_| ())?;
        Ok(StackAt { map, place })
    }

    /// The stack itself, if it is there.
    pub fn pile(&self) -> Option<Pile<'static>> {
        in_body(&Body::of(self.map, self.place)?)
    }

    /// Removes it.
    pub fn remove(&self) {
        self.map.unmake(&self.map.admin(), self.place);
    }
}

/// A map of an arena.
#[derive(Clone, Copy)]
pub struct MapAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl MapAt {
    /// Makes it.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str) -> Result<MapAt, ArenaError> {
        let shape = chappe_structures::table::Shape { entries: 2, key: 8, value: 8, spare: 2, ordered: false };
        let types = atlas::Types { keys: 1, values: 2 };
        let place = atlas::make(map, &map.admin(), name, Some((shape, types)))?;
        Ok(MapAt { map, place })
    }

    /// Removes it.
    pub fn remove(&self) {
        self.map.unmake(&self.map.admin(), self.place);
    }
}

/// A monitor of an arena: where its members wait. There is no lock around it: the world's processes are inside as the world says.
#[derive(Clone, Copy)]
pub struct MonitorAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl MonitorAt {
    /// Makes it, with so many conditions.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, conditions: u32) -> Result<MonitorAt, ArenaError> {
        let shape = room::Shape { members: map.geometry().members, conditions, bytes: 0 };
        let form = Some((shape.room(), monitor::form_of(shape, 7)));
        let place = body::make(map, &map.admin(), name, Kind::Monitor, form, |_| ())?;
        Ok(MonitorAt { map, place })
    }

    /// The room itself, if it is there.
    pub fn room(&self) -> Option<Room<'static>> {
        monitor::in_body(&Body::of(self.map, self.place)?)
    }

    /// Removes it.
    pub fn remove(&self) {
        self.map.unmake(&self.map.admin(), self.place);
    }
}

impl Actor {
    /// Enters an object that is a body of the arena, as one that changes it. False: it was removed.
    pub fn enters(&self, map: &'static Map, place: Place) -> bool {
        let admin = map.admin();
        Body::of(map, place).is_some_and(|body| body.enter(&admin, self.who.main.member))
    }

    /// Leaves it.
    pub fn exits(&self, map: &'static Map, place: Place) {
        let me = self.who.main.member;
        body::clear(map, place, me, &mut map.visitor_in(me));
    }

    /// Announces a wait for a monitor's condition.
    pub fn announces(&self, monitor: MonitorAt, condition: u32) -> Option<Announced> {
        Some(monitor.room()?.announce(self.in_room(), condition))
    }

    /// The member as monitors name it.
    pub fn in_room(&self) -> Member {
        Member { index: self.who.main.member as u16, generation: self.who.main.generation }
    }

    /// Takes a cell of a stack for an element, as one that pushes does first. False: there is none.
    pub fn takes_cell(&self, stack: StackAt) -> bool {
        stack.pile().is_some_and(|pile| pile.takes(self.who.main.member as u16))
    }
}

impl MutexAt {
    /// Makes a mutex with so many words of data, which `fill` gives; where they lie.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn of_words(
        map: &'static Map,
        name: &str,
        words: usize,
        fill: impl Fn(usize) -> u64,
    ) -> Result<(MutexAt, *const u64), ArenaError> {
        let mut data = std::ptr::null_mut();
        let place = lock::make(map, &map.admin(), name, words * 8, MutexAt::TYPE, |at| {
            data = at.cast::<u64>();
            // SAFETY: so many words, the mutex's, which no other thread knows of.
            (0..words).for_each(|i| unsafe { data.add(i).write(fill(i)) });
        })?;
        Ok((MutexAt { map, place }, data))
    }
}
