//! Handles of objects by where they lie.

use crate::directory::open_directory;
use crate::error::ObjectError;
use crate::handle::{Handle, Maker};
use crate::registry::Arena;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{ArenaError, Map, Place};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{light, process};
use chappe_wait::attachment::attachment;
use chappe_wait::known::KNOWN;
use chappe_wait::object_id::{ObjectId, hash, meet, met, number};
use chappe_wait::private;

/// The arena of this number: met, mapped, or in the directory.
#[cold]
fn look_for(wanted: u64) -> Result<&'static Map, ObjectError> {
    let known = || light::lock(&KNOWN).iter().copied().find(|m| number(m) == wanted);
    if let Some(map) = known() {
        meet(map);
        return Ok(map);
    }
    let absent = |dir: String| ArenaError::NotFound { name: format!("number {wanted:x}"), dir };
    if wanted >> 63 == 0 {
        return Err(absent("any directory".into()).into());
    }
    let dir = open_directory(false)?;
    let names = dir.names().map_err(|e| chappe_arena::io_at("list", dir.path(), e))?;
    for name in names.iter().filter(|name| hash(name) == (wanted >> 32) as u32) {
        let map = Arena::open(name)?.map();
        if number(map) == wanted {
            meet(map);
            return Ok(map);
        }
    }
    Err(absent(dir.path().display().to_string()).into())
}

impl Handle {
    /// The object of a kind at a spot. If it is no longer there, operations fail.
    #[inline(always)]
    pub fn at_spot(kind: Kind, spot: ObjectId) -> Result<Handle, ObjectError> {
        let map = match met(spot.arena) {
            Some(map) => map,
            None => look_for(spot.arena)?,
        };
        if spot.object >= map.geometry().objects {
            return Err(no_such(kind, map, spot));
        }
        Ok(Handle::at(map, Place { index: spot.object, head: Head::live(spot.generation, kind) }))
    }

    /// Where it lies.
    pub fn object_id(&self) -> ObjectId {
        let arena = meet(self.map);
        ObjectId { arena, object: self.place.index, generation: self.place.head.generation() }
    }

    /// Makes an object without a chosen name: in a named arena it gets a name, after its kind; in this process's own arena it has none. It is
    /// not removed with its handle.
    pub fn unnamed(arena: &Arena, kind: Kind, make: Maker<'_>) -> Result<Handle, ObjectError> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let map = arena.map();
        if map.directory().is_none() {
            let admin = map.admin();
            return Ok(Handle::at(map, make(map, &admin, "")?));
        }
        // As a member, so that the arena is not removed meanwhile.
        attachment(map, |_| ())?;
        let admin = map.admin();
        // Names are reused, so that the number of places in the table of names that were ever in use stays bounded; one name is free, since there
        // are more names than objects.
        let most = map.geometry().objects + 1;
        // Relaxed: only to begin with another name each time.
        let name = std::iter::repeat_with(|| LAST.fetch_add(1, Ordering::Relaxed) % most)
            .map(|next| format!("{}@{}.{next}", kind.name().replace(' ', "-"), process::pid()))
            .find(|name| map.find(name).is_none())
            .expect("it goes on for ever");
        Ok(Handle::at(map, make(map, &admin, &name)?))
    }

    /// Removes what is at a spot. False: it is not there any more.
    pub fn remove_at(kind: Kind, spot: ObjectId) -> Result<bool, ObjectError> {
        let handle = Handle::at_spot(kind, spot)?;
        if handle.map.directory().is_none() {
            // In a forked child, this makes the copy usable first.
            private::usable();
        } else {
            // As a member, so that the arena is not removed meanwhile; or not as a member, if the thread cannot be one any more.
            let _ = attachment(handle.map, |_| ());
        }
        // `admin` would cost more than all else that is to be done: ten system calls.
        Ok(handle.map.condemn(handle.place))
    }
}

fn no_such(kind: Kind, map: &Map, spot: ObjectId) -> ObjectError {
    let name = format!("number {}", spot.object);
    ObjectError::Unknown { kind: kind.name(), name, arena: map.name().into(), existing: Vec::new() }
}
