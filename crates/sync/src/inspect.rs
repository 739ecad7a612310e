//! Looking at an arena's objects, of whatever kind. Each kind's row says what is seen of it.
//!
//! Each answer is put together from single loads while other threads go on: every line of it was true at some moment
//! during the call, but not necessarily all of them at the same moment.

mod bodies;
mod locks;
mod pools;
pub(crate) mod row;
pub(crate) mod rows;
mod rwlocks;
mod semaphores;
mod tubes;

use crate::error::ObjectError;
use crate::handle::{full_name, what_is};
use crate::registry::Arena;
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, check_name};
use chappe_plat::atomic::Ordering;
use chappe_wait::waiters::{Waiter, waiters};
use row::{ObjectInfo, ObjectState};

impl Arena {
    /// The objects in it, by name.
    pub fn objects(&self) -> Vec<ObjectInfo> {
        objects(self.map())
    }

    /// One of the objects in it, by its name there.
    ///
    /// # Errors
    /// `Unknown`, which lists the objects that are there; `Arena` if it is not a valid name.
    pub fn object(&self, name: &str) -> Result<ObjectInfo, ObjectError> {
        look(self.map(), self.find(name)?).ok_or_else(|| self.unknown(name))
    }

    /// Removes one of the objects in it, of whatever kind, as the removal of that kind does.
    ///
    /// # Errors
    /// As [`Arena::object`]; or those of the kind's removal: it is in use, unless `force`.
    #[cfg(not(feature = "loom"))]
    pub fn remove_object(&self, name: &str, force: bool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let place = self.find(name)?;
        let Some(kind) = place.head.kind() else {
            return Err(
                format!("`{name}` is of a kind that this chappe does not know: it cannot be removed alone").into()
            );
        };
        rows::of(kind).remove(self.map(), place, &full_name(self.map().name(), name), force)
    }

    /// The waiters of one of the objects, in the order in which they will be served.
    ///
    /// # Errors
    /// As [`Arena::object`].
    pub fn waiters(&self, name: &str) -> Result<Vec<Waiter>, ObjectError> {
        let place = self.find(name)?;
        let kind = place.head.kind();
        Ok(kind.map_or_else(|| waiters(self.map(), place), |kind| rows::of(kind).line(self.map(), place)))
    }

    fn find(&self, name: &str) -> Result<Place, ObjectError> {
        check_name(name, "object")?;
        self.map().find(name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> ObjectError {
        let full = |name: &str| full_name(self.map().name(), name);
        let existing = self.objects().iter().map(|o| full(&o.name)).collect();
        ObjectError::Unknown { kind: "object", name: full(name), arena: self.name(), existing }
    }
}
pub(crate) fn objects(map: &'static Map) -> Vec<ObjectInfo> {
    // There may be a hundred thousand objects, listed twice a second: short names are sorted, not all that is known; most names differ in
    // their first bytes.
    let named = |place: Place| {
        let name = map.name_of(map.object(place.index));
        let mut first = [0; 8];
        let len = name.len().min(8);
        first[..len].copy_from_slice(&name.as_bytes()[..len]);
        (u64::from_be_bytes(first), name, place)
    };
    let mut all: Vec<(u64, String, Place)> = map.objects().into_iter().map(named).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    all.into_iter().filter_map(|(_, name, place)| looked(map, place, name)).collect()
}

pub(crate) fn look(map: &'static Map, place: Place) -> Option<ObjectInfo> {
    looked(map, place, map.name_of(map.object(place.index)))
}

/// If the object is still in its slot at the end, the name was read while it was there.
fn looked(map: &'static Map, place: Place, name: String) -> Option<ObjectInfo> {
    let o = map.object(place.index);
    let kind = place.head.kind();
    let state = match (unreadable(map, place), kind) {
        (Some(what), _) => ObjectState::Damaged { what: what.to_owned() },
        (None, kind) => rows::of(kind?).look(map, place, &name)?,
    };
    let waiting = match &state {
        ObjectState::Tube(tube) => (tube.senders_waiting.len() + tube.receivers_waiting.len()) as u32,
        ObjectState::Pool(pool) => pool.waiting,
        ObjectState::RwLock { waits_for_jobs, .. } => (waits_for_jobs.len() + waiters(map, place).len()) as u32,
        _ => waiters(map, place).len() as u32,
    };
    // Acquire: the second look, after the name was read: the slot was not used again meanwhile.
    let same = Head(o.head.load(Ordering::Acquire)) == place.head;
    same.then_some(ObjectInfo { name, kind: kind.map_or("object", |_| what_is(map, place)), state, waiting })
}

/// Why the state of an object in service cannot be told.
pub(crate) fn unreadable(map: &'static Map, place: Place) -> Option<&'static str> {
    let Some(kind) = place.head.kind() else { return Some("it is of a kind that there is not") };
    rows::of(kind).unreadable(map, place)
}
