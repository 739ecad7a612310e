//! Handles to objects of any kind: where an object lies, and how it is found by name.

use crate::error::ObjectError;
use crate::owned;
use crate::registry::{Arena, ArenaOptions};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place, Standing, check_name};
use chappe_plat::atomic::{Ordering, fence};
use chappe_wait::attachment::{attachment, tidy};
use chappe_wait::private;
use std::sync::Arc;

/// `lab/gpu0` is `gpu0` in arena `lab`; without a slash the arena is `default`.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}

/// The arena and the object of a name.
///
/// # Errors
/// It is no name; perhaps a path, or the object is none.
fn named(name: &str, kind: Kind) -> Result<(&str, &str), ArenaError> {
    if name.starts_with(['/', '.']) && name.contains('/') {
        let why = "it is a path, and objects are no files: an object is called NAME, or ARENA/NAME".to_owned();
        return Err(ArenaError::Name { name: name.into(), what: kind.name(), why });
    }
    let (arena, object) = split(name);
    check_name(object, kind.name())?;
    Ok((arena, object))
}

pub(crate) fn full_name(arena: &str, name: &str) -> String {
    if arena == "default" { name.to_owned() } else { format!("{arena}/{name}") }
}

/// Removes a private object with its last handle.
struct Own {
    map: &'static Map,
    place: Place,
}

impl Own {
    pub fn new(map: &'static Map, place: Place) -> Arc<Own> {
        Arc::new(Own { map, place })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // In a forked child, this makes the copy of the private arena usable first.
        private::usable();
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }
}

/// Where an object is.
#[derive(Clone)]
pub(crate) struct Handle {
    pub map: &'static Map,
    pub place: Place,
    pub object: &'static Object,
    _own: Option<Arc<Own>>,
}

/// Makes an object of a kind under the arena's lock: `(map, admin, name)`.
pub(crate) type Maker<'a> = &'a mut dyn FnMut(&'static Map, &Admin, &str) -> Result<Place, ArenaError>;

impl Handle {
    #[inline]
    pub fn at(map: &'static Map, place: Place) -> Handle {
        Handle { map, place, object: map.object(place.index), _own: None }
    }

    /// Makes an object for the threads of this process.
    pub fn private(make: Maker<'_>) -> Result<Handle, ObjectError> {
        let map = Arena::try_private()?.map();
        let admin = map.admin();
        let place = make(map, &admin, "")?;
        Ok(Handle { _own: Some(Own::new(map, place)), ..Handle::at(map, place) })
    }

    /// Attaches an object by name.
    pub fn open(kind: Kind, name: &str) -> Result<Handle, ObjectError> {
        let (arena, object) = named(name, kind)?;
        match Arena::open(arena) {
            Ok(arena) => Handle::open_in(arena.map(), kind, object),
            Err(ArenaError::NotFound { .. }) => {
                let (kind, name, existing) = (kind.name(), name.into(), Vec::new());
                Err(ObjectError::Unknown { kind, name, arena: arena.into(), existing })
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Attaches an object of an arena by its name there.
    pub fn open_in(map: &'static Map, kind: Kind, name: &str) -> Result<Handle, ObjectError> {
        tidy();
        if let Some(place) = find(map, name, kind)? {
            return Ok(Handle::at(map, place));
        }
        let its = |p: &Place| p.head.is_live(kind) && owned::name_of(map, *p).is_none();
        let mut existing: Vec<String> = map.objects().into_iter().filter(its).map(|p| called(map, p)).collect();
        existing.sort();
        let (name, arena) = (full_name(map.name(), name), map.name().into());
        Err(ObjectError::Unknown { kind: kind.name(), name, arena, existing })
    }

    /// As [`Handle::open`], with the right to remove the object; `None` if another thread has removed it meanwhile: another object may have
    /// its slot. The caller becomes a member, so that the arena stays, and what dead members left has been recovered.
    pub fn to_remove(kind: Kind, name: &str) -> Result<Option<(Handle, Admin)>, ObjectError> {
        let handle = Handle::open(kind, name)?;
        handle.map.allow("remove")?;
        attachment(handle.map, |_| ())?;
        handle.map.recover_dead();
        let admin = handle.map.admin();
        Ok(handle.map.is_there(handle.place).then_some((handle, admin)))
    }

    /// Makes an object by name, and its arena, with these options, if need be; or finds the object that is there. `attach` is told whether it was.
    pub fn make<R, E: From<ObjectError>>(
        options: &ArenaOptions,
        kind: Kind,
        name: &str,
        make: Maker<'_>,
        attach: impl Fn(Handle, bool) -> Result<R, E>,
    ) -> Result<R, E> {
        let (arena, object) = named(name, kind).map_err(ObjectError::from)?;
        loop {
            let map = Arena::open_or_create(arena, options).map_err(ObjectError::from)?.map();
            match Handle::make_in(map, kind, object, make, &attach) {
                // The arena was removed between the two steps: make another.
                Err(ObjectError::Arena(ArenaError::Removed { .. })) => {}
                other => return other?,
            }
        }
    }

    /// The same in an arena, by its name there.
    pub fn make_in<R, E>(
        map: &'static Map,
        kind: Kind,
        name: &str,
        make: Maker<'_>,
        attach: impl Fn(Handle, bool) -> Result<R, E>,
    ) -> Result<Result<R, E>, ObjectError> {
        loop {
            let (handle, there) = Handle::found_or_made(map, kind, name, make)?;
            let answer = attach(handle.clone(), there);
            // What was removed since it was found, or made, is not refused for what it was: another look finds what is there now.
            if answer.is_ok() || !handle.is_dead() {
                return Ok(answer);
            }
            // An attached thread still makes objects in an arena that was removed: each of them is dead at once.
            if map.mark() == Standing::Removed {
                return Err(ArenaError::Removed { name: map.name().into() }.into());
            }
        }
    }

    fn found_or_made(
        map: &'static Map,
        kind: Kind,
        name: &str,
        make: Maker<'_>,
    ) -> Result<(Handle, bool), ObjectError> {
        tidy();
        if let Some(place) = find(map, name, kind)? {
            return Ok((Handle::at(map, place), true));
        }
        // As a member, so that the arena is not removed meanwhile.
        attachment(map, |_| ())?;
        let admin = map.admin();
        Ok(match find(map, name, kind)? {
            Some(place) => (Handle::at(map, place), true),
            None => (Handle::at(map, make(map, &admin, name)?), false),
        })
    }

    /// That it was removed while a caller looked at it.
    #[cold]
    pub fn vanished(&self) -> ObjectError {
        let (name, arena) = (self.name(), self.map.name().to_owned());
        ObjectError::Unknown { kind: self.kind(), name, arena, existing: Vec::new() }
    }

    /// That there is such an object already.
    #[cold]
    pub fn exists(&self) -> ObjectError {
        ObjectError::Exists { kind: self.kind(), name: self.name() }
    }

    /// That it is in use.
    #[cold]
    pub fn in_use(&self, how: String) -> ObjectError {
        ObjectError::InUse { kind: self.kind(), name: self.name(), how }
    }

    /// What its kind is called.
    pub fn kind(&self) -> &'static str {
        self.place.head.kind().map_or("object", Kind::name)
    }

    /// What it is called in messages.
    pub fn shown(&self) -> String {
        shown(self.map, self.place)
    }

    /// Its name; empty for a private one.
    pub fn name(&self) -> String {
        if self.map.directory().is_none() {
            return String::new();
        }
        called(self.map, self.place)
    }

    /// See [`crate::raw::Identity`].
    pub fn identity(&self) -> u64 {
        u64::from(self.place.head.generation()) << 32 | u64::from(self.place.index + 1)
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        // Acquire: what the remover did before.
        Head(self.object.head.load(Ordering::Acquire)) != self.place.head
    }

    /// See [`seen`].
    pub fn seen<T>(&self, what: T) -> Option<T> {
        seen(self.object, self.place, what)
    }
}

/// What an observer has read of an object; `None` if the object was removed by then: its slot may have been another object's while the observer
/// read.
pub(crate) fn seen<T>(object: &Object, place: Place, what: T) -> Option<T> {
    // Acquire fence: the observer's reads come before this look.
    fence(Ordering::Acquire);
    // Relaxed: the fence above orders it.
    (Head(object.head.load(Ordering::Relaxed)) == place.head).then_some(what)
}

/// The object of this name, if it is of this kind.
pub(crate) fn find(map: &Map, name: &str, kind: Kind) -> Result<Option<Place>, ObjectError> {
    match map.find(name) {
        Some(place) if place.head.is_live(kind) && owned::name_of(map, place).is_none() => Ok(Some(place)),
        Some(place) => Err(ObjectError::OtherKind {
            name: full_name(map.name(), name),
            is: what_is(map, place),
            wanted: kind.name(),
        }),
        None => Ok(None),
    }
}

/// The kind of the object, in words.
pub(crate) fn what_is(map: &Map, place: Place) -> &'static str {
    owned::name_of(map, place).or_else(|| place.head.kind().map(Kind::name)).unwrap_or("something else")
}

/// What an object is called in messages.
pub(crate) fn shown(map: &Map, place: Place) -> String {
    if map.directory().is_none() { "a private one".into() } else { called(map, place) }
}

/// What an object is called by users; `?` for its own name if it was removed so long ago that its slot is another object's.
pub(crate) fn called(map: &Map, place: Place) -> String {
    let o = map.object(place.index);
    let name = map.name_of(o);
    full_name(map.name(), if its_slot(o, place).is_some() { &name } else { "?" })
}

/// The head that an observer finds after it has read of the slot, if the slot is not another object's by then. A free one may be about to be.
pub(crate) fn its_slot(object: &Object, place: Place) -> Option<Head> {
    // Acquire fence and Relaxed: as in `seen`.
    fence(Ordering::Acquire);
    let head = Head(object.head.load(Ordering::Relaxed));
    (head.generation() == place.head.generation()).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condvar;
    use chappe_arena::layout::REMOVED;
    use std::cell::Cell;

    #[test]
    fn an_object_that_is_removed_while_it_is_attached_is_made_anew() {
        let options = ArenaOptions { members: Some(8), objects: Some(8), cells: Some(8), data: Some(1 << 20) };
        let map = Arena::apart(&options).unwrap().map();
        let make = &mut |map, admin: &_, name: &_| condvar::make(map, admin, name);
        for found in [true, false] {
            if found {
                Handle::found_or_made(map, Kind::Condvar, "x", make).unwrap();
            }
            let looks = Cell::new(None);
            let attach = |handle: Handle, there| match looks.replace(Some(handle.place)) {
                Some(first) => Ok((handle, first)),
                None => {
                    assert_eq!(there, found);
                    map.unmake(&map.admin(), handle.place);
                    Err(handle.vanished())
                }
            };
            let (next, first) = Handle::make_in(map, Kind::Condvar, "x", make, attach).unwrap().unwrap();
            assert!(next.place != first && !next.is_dead());
            map.unmake(&map.admin(), next.place);
        }
        Handle::found_or_made(map, Kind::Condvar, "x", make).unwrap();
        let refused = Handle::make_in(map, Kind::Condvar, "x", make, |handle, _| Err::<(), _>(handle.exists()));
        assert!(matches!(refused, Ok(Err(ObjectError::Exists { .. }))), "one that stays is looked at once");
    }

    #[test]
    fn in_an_arena_that_is_removed_meanwhile_an_object_is_made_once_and_refused() {
        let options = ArenaOptions { members: Some(8), objects: Some(8), cells: Some(8), data: Some(1 << 20) };
        let map = Arena::apart(&options).unwrap().map();
        let make = &mut |map, admin: &_, name: &_| condvar::make(map, admin, name);
        let looks = Cell::new(0);
        let attach = |handle: Handle, _| {
            assert_eq!(looks.replace(1), 0, "it looks again for ever");
            // SeqCst: as the remover of an arena stores it.
            map.header().state.store(REMOVED, Ordering::SeqCst);
            map.unmake(&map.admin(), handle.place);
            Err::<(), _>(handle.vanished())
        };
        let refused = Handle::make_in(map, Kind::Condvar, "x", make, attach);
        assert!(matches!(refused, Err(ObjectError::Arena(ArenaError::Removed { .. }))));
    }
}
