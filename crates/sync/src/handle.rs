//! Handles to objects of any kind: where an object lies, and how it is found by name.

use crate::attachment::{attachment, tidy};
use crate::error::ObjectError;
use crate::registry::{Arena, ArenaOptions};
use crate::{owned, private};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place, check_name};
use chappe_plat::atomic::{Ordering, fence};
use std::sync::Arc;

/// `lab/gpu0` is `gpu0` in arena `lab`; without a slash the arena is `default`.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}

pub(crate) fn full_name(arena: &str, name: &str) -> String {
    if arena == "default" { name.to_owned() } else { format!("{arena}/{name}") }
}

/// Removes a private object with its last handle.
pub(crate) struct Own {
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
        tidy();
        let (arena, object) = split(name);
        check_name(object, kind.name())?;
        let unknown = |existing| {
            Err(ObjectError::Unknown { kind: kind.name(), name: name.into(), arena: arena.into(), existing })
        };
        let map = match Arena::open(arena) {
            Ok(a) => a.map(),
            Err(ArenaError::NotFound { .. }) => return unknown(Vec::new()),
            Err(e) => return Err(e.into()),
        };
        match find(map, object, kind)? {
            Some(place) => Ok(Handle::at(map, place)),
            None => {
                let its = |p: &Place| p.head.is_live(kind);
                let mut there: Vec<String> = map.objects().into_iter().filter(its).map(|p| called(map, p)).collect();
                there.sort();
                unknown(there)
            }
        }
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

    /// Makes an object by name, and its arena if need be; or attaches the object that is there.
    pub fn make(kind: Kind, name: &str, or_open: bool, make: Maker<'_>) -> Result<Handle, ObjectError> {
        Handle::make_with(&ArenaOptions::default(), kind, name, or_open, make)
    }

    /// The same; an arena that does not exist yet is made with these options.
    pub fn make_with(
        options: &ArenaOptions,
        kind: Kind,
        name: &str,
        or_open: bool,
        make: Maker<'_>,
    ) -> Result<Handle, ObjectError> {
        let (arena, object) = split(name);
        check_name(object, kind.name())?;
        loop {
            let map = Arena::open_or_create(arena, options)?.map();
            match Handle::make_in(map, kind, object, or_open, make) {
                // The arena was removed between the two steps: make another.
                Err(ObjectError::Arena(ArenaError::Removed { .. })) => {}
                other => return other,
            }
        }
    }

    /// Makes an object in this arena.
    pub fn create_in(arena: &Arena, kind: Kind, name: &str, make: Maker<'_>) -> Result<Handle, ObjectError> {
        check_name(name, kind.name())?;
        Handle::make_in(arena.map(), kind, name, false, make)
    }

    fn make_in(
        map: &'static Map,
        kind: Kind,
        name: &str,
        or_open: bool,
        make: Maker<'_>,
    ) -> Result<Handle, ObjectError> {
        tidy();
        if or_open && let Some(place) = find(map, name, kind)? {
            return Ok(Handle::at(map, place));
        }
        // As a member, so that the arena is not removed meanwhile.
        attachment(map, |_| ())?;
        let admin = map.admin();
        match find(map, name, kind)? {
            Some(place) if or_open => Ok(Handle::at(map, place)),
            Some(place) => Err(ObjectError::Exists { kind: kind.name(), name: called(map, place) }),
            None => Ok(Handle::at(map, make(map, &admin, name)?)),
        }
    }

    /// Its name; empty for a private one.
    pub fn name(&self) -> String {
        if self.map.directory().is_none() {
            return String::new();
        }
        called(self.map, self.place)
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
