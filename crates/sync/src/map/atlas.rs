//! The protocol of an arena's map: a table in the arena's blocks, and the threads that wait for it to change. Which threads may change it
//! is up to the body: see its invariants I1 to I3.
//!
//! - I4: a thread that waits for a change sets its bit in the wait queue before it looks at the table; a changer looks at those bits after
//!   the change. So one of the two sees the other. If a changer dies in between, recovery notifies all waiters, and they look.
//!
//! Waiters are notified as with a condition variable, all at once.
//!
//! Explored: the table, `tests/crash_table.rs`. Left out there: removal and reuse.

use crate::condvar;
use chappe_arena::Dead;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Admin, ArenaError, Map, Place, Visit};
use chappe_plat::{clock, process};
use chappe_structures::table::{Shape, Table};
use chappe_wait::body;
use chappe_wait::body::{Body, Form};

/// The types of a map's keys and values, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// Of keys.
    pub keys: u64,
    /// Of values.
    pub values: u64,
}

/// A map of an arena, in the view of one process.
#[derive(Clone, Copy)]
pub struct Atlas<'m> {
    /// Its memory and the threads that use it.
    pub body: Body<'m>,
    /// The table.
    pub table: Table<'m>,
    /// The types of its keys and values.
    pub types: Types,
}

/// In the last number of its form: its keys are ordered.
const ORDERED: u32 = 1 << 31;

fn form_of(shape: Shape, types: Types) -> Form {
    let spare = shape.spare | if shape.ordered { ORDERED } else { 0 };
    Form { numbers: [shape.entries, shape.key, shape.value, spare], types: [types.keys, types.values] }
}

impl<'m> Atlas<'m> {
    /// The map at a place, in service or removed; `None` if that map does not exist any more.
    pub fn of(map: &'m Map, place: Place) -> Option<Atlas<'m>> {
        Atlas::in_body(Body::of(map, place)?)
    }

    fn in_body(body: Body<'m>) -> Option<Atlas<'m>> {
        let Form { numbers: [entries, key, value, spare], types: [keys, values] } = body.form;
        let shape = Shape { entries, key, value, spare: spare & !ORDERED, ordered: spare & ORDERED != 0 };
        if !shape.is_possible() || shape.bytes() > body.room {
            return None;
        }
        // SAFETY: within the body, as checked above; it was zeroed when the map was made, and is accessed by atomic words only.
        let table = unsafe { Table::new(body.at, shape) };
        Some(Atlas { body, table, types: Types { keys, values } })
    }

    /// I4: notifies all threads that wait for a change.
    #[inline(always)]
    pub fn changed(&self) {
        let map = self.body.map();
        let at = self.body.place();
        if map.waits_on(at.index, self.body.object()) {
            condvar::notify_all(map, at);
        }
    }
}

/// Finishes a notification that was interrupted: wakes its waiters. The object is a map in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    condvar::drain(map, object, head);
}

/// Recovers a map from a member's death.
pub(crate) fn recover(body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
    let Some(atlas) = Atlas::in_body(*body) else { return };
    // R5 of the table: after the state.
    atlas.table.recover(visit, dead.member as u16, || dead.is_unswept(body.map()));
    if body.place().head.in_service() {
        // I4: it may have changed something without notifying.
        atlas.changed();
    }
}

/// Makes a map. The caller holds `admin` and has checked that the name is free. Without a shape it has no table here: a private map's
/// is elsewhere.
pub fn make(map: &'static Map, admin: &Admin, name: &str, shape: Option<(Shape, Types)>) -> Result<Place, ArenaError> {
    let form = shape.map(|(shape, types)| (shape.bytes(), form_of(shape, types)));
    body::make(map, admin, name, Kind::Map, form, |at| {
        if let Some((shape, _)) = shape {
            // SAFETY: at least so many bytes, zeroed, from a multiple of 64.
            let table = unsafe { Table::new(at, shape) };
            table.seed_with(clock::now() ^ u64::from(process::pid()) << 40);
        }
    })
}
