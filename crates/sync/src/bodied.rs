//! The public API shared by the objects that are a body of an arena (see `body`) and nothing else: opening, making and removing; errors.

use crate::called::plain_name;
use crate::error::ObjectError;
use crate::handle::Handle;
use crate::registry::ArenaOptions;
use chappe_arena::layout::USUAL_MEMBERS;
use chappe_arena::layout::{BLOCK, Kind, MAX_BLOCKS};
use chappe_arena::{Admin, ArenaError, Map, Place, Who};
use chappe_plat::ROBUST;
use chappe_wait::attachment::{enter, party_at_hand, tidy};
use chappe_wait::body;
use chappe_wait::body::{Body, Form, blocks_wanted};
use chappe_wait::waiters::bytes;
use std::ptr::NonNull;

/// Why a stack, counter, server, helping lock, monitor, or named words were not made, opened, or changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedError {
    /// The name is unknown, or taken; or it is an object of another kind, or in use; or the arena cannot take another member.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It is of another type.
    #[error("{kind} `{name}` is there, and not of {wanted}; open it as what it was made as, or take another name")]
    OtherType {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The type asked for.
        wanted: String,
    },
    /// It exists, and was made with other numbers.
    #[error("{kind} `{name}` is there with {has}, not {wanted}; open it as it is, or remove it first")]
    OtherShape {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The numbers it was made with.
        has: String,
        /// The numbers asked for.
        wanted: String,
    },
    /// No such object is possible.
    #[error("a {kind} cannot have {count} {what}: between {least} and {most} are possible")]
    Capacity {
        /// Its kind.
        kind: &'static str,
        /// Which number.
        what: &'static str,
        /// The number asked for.
        count: u64,
        /// The least possible.
        least: u64,
        /// The most possible.
        most: u64,
    },
    /// It has no room for another element.
    #[error("{kind} `{name}` is full: it was made for {capacity}; take some out, or make a larger one")]
    Full {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Its capacity.
        capacity: u32,
    },
    /// More threads are in the middle of a change than it has room for: try again.
    #[error("more than {most} threads are changing {kind} `{name}` at this moment; try again")]
    Busy {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// How many there may be.
        most: u32,
    },
    /// It was removed.
    #[error("{kind} `{name}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl From<ArenaError> for SharedError {
    fn from(e: ArenaError) -> SharedError {
        SharedError::Object(e.into())
    }
}

/// The state of such an object, composed of single looks while other threads continue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedInfo {
    /// Its kind: "stack", "counter", "words", "server", "helping lock", "monitor".
    pub kind: &'static str,
    /// How many elements or words it has; a counter's value.
    pub value: i64,
    /// Its capacity in elements; 0: no such limit.
    pub capacity: u32,
    /// The bytes of an element, or of the data.
    pub size: u32,
    /// The threads that have changed it, and may do so again.
    pub users: Vec<Who>,
    /// How many bytes of the arena's data it takes.
    pub bytes: u64,
}

/// What a kind says of a body: its value or count, its capacity, and the bytes of each element. `None`: its shape is impossible.
pub(crate) type Figures = fn(&Body<'static>) -> Option<(i64, u32, u32)>;

/// The state of an object; `None` if its shape is impossible.
pub(crate) fn look(map: &'static Map, place: Place, figures: Figures) -> Option<SharedInfo> {
    let (body, kind) = (Body::of(map, place)?, place.head.kind()?);
    let (value, capacity, size) = figures(&body)?;
    let users = body.users().filter(|m| map.dead(*m).is_none()).map(|m| map.who(m)).collect();
    Some(SharedInfo { kind: kind.name(), value, capacity, size, users, bytes: bytes(map, place) })
}

/// What is recorded of a type, to compare when it is attached: its name without modules, and its size.
pub(crate) fn type_name<T>() -> String {
    format!("{} ({} bytes)", plain_name::<T>(), size_of::<T>())
}

pub(crate) fn type_hash<T>() -> u64 {
    chappe_arena::hash(&type_name::<T>())
}

/// Whether a count is within limits.
pub(crate) fn fits(kind: Kind, what: &'static str, count: u64, least: u32, most: u32) -> Result<u32, SharedError> {
    match u32::try_from(count) {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(SharedError::Capacity { kind: kind.name(), what, count, least: least.into(), most: most.into() }),
    }
}

/// How to make an object: its bytes and form in an arena of so many members, and a function that fills the zeroed bytes.
pub(crate) struct Plan<'a> {
    pub kind: Kind,
    pub of: &'a dyn Fn(u32) -> (usize, Form),
    pub fill: &'a dyn Fn(NonNull<u8>, Form),
}

/// A named object.
#[derive(Clone)]
pub(crate) struct Bodied {
    pub handle: Handle,
    pub body: Body<'static>,
    pub kind: Kind,
}

impl Bodied {
    fn at(handle: Handle, kind: Kind) -> Result<Bodied, SharedError> {
        match Body::of(handle.map, handle.place) {
            Some(body) => Ok(Bodied { handle, body, kind }),
            None => Err(SharedError::Dead { kind: kind.name(), name: handle.name() }),
        }
    }

    /// Attaches an object by name.
    pub fn open(kind: Kind, name: &str) -> Result<Bodied, SharedError> {
        Bodied::at(Handle::open(kind, name)?, kind)
    }

    /// Makes an object by name; also makes its arena, with room for it, if there is none; or attaches an existing object.
    pub fn make(plan: &Plan<'_>, name: &str, or_open: bool) -> Result<Bodied, SharedError> {
        let kind = plan.kind;
        let (bytes, _) = (plan.of)(USUAL_MEMBERS);
        let blocks = blocks_wanted(bytes, USUAL_MEMBERS);
        if blocks > MAX_BLOCKS {
            let most = u64::from(MAX_BLOCKS) * BLOCK as u64;
            let (kind, what, count) = (kind.name(), "bytes in all", bytes as u64);
            return Err(SharedError::Capacity { kind, what, count, least: 1, most });
        }
        let room = ArenaOptions::with_room(u64::from(blocks) * BLOCK as u64);
        let make = &mut |map: &'static Map, admin: &Admin, name: &str| {
            let (bytes, form) = (plan.of)(map.geometry().members);
            body::make(map, admin, name, kind, Some((bytes, form)), |at| (plan.fill)(at, form))
        };
        Handle::make(&room, kind, name, make, |handle, there| {
            if there && !or_open { Err(handle.exists().into()) } else { Bodied::at(handle, kind) }
        })
    }

    /// Checks that it is of these types; `wanted` names them for the error.
    pub fn of_types(self, types: [u64; 2], wanted: impl FnOnce() -> String) -> Result<Bodied, SharedError> {
        if self.body.form.types == types {
            return Ok(self);
        }
        Err(SharedError::OtherType { kind: self.kind.name(), name: self.handle.name(), wanted: wanted() })
    }

    /// That it was made with other numbers.
    #[cfg(not(feature = "loom"))]
    pub fn other_shape(&self, has: String, wanted: String) -> SharedError {
        SharedError::OtherShape { kind: self.kind.name(), name: self.handle.name(), has, wanted }
    }

    #[cold]
    pub fn gone(&self) -> SharedError {
        SharedError::Dead { kind: self.kind.name(), name: self.handle.name() }
    }

    /// I2 of the body: whether what was seen belongs to this object.
    #[inline(always)]
    pub fn seen<T>(&self, what: T) -> Result<T, SharedError> {
        if self.body.is_live() { Ok(what) } else { Err(self.gone()) }
    }

    /// The calling thread's member and generation as a changer; registers it the first time.
    #[inline(always)]
    pub fn me(&self) -> Result<(u16, u32), SharedError> {
        if !ROBUST {
            return Ok((0, 0));
        }
        match party_at_hand(self.handle.map) {
            Some((me, _)) if self.body.may_change(me.member) => Ok((me.member as u16, me.generation)),
            _ => self.enter(),
        }
    }

    #[cold]
    fn enter(&self) -> Result<(u16, u32), SharedError> {
        let (member, generation) = enter(&self.body)?.ok_or_else(|| self.gone())?;
        Ok((member as u16, generation))
    }

    /// Recovers dead members; returns whether there were any.
    pub fn recovered(&self) -> bool {
        self.handle.map.recover_dead() > 0
    }
}

/// Removes an object by name, whatever is in it. Refused if another process has changed it and may do so again, or if `what` finds a
/// reason, unless `force`: then its users get `Dead`.
pub(crate) fn unmake(
    kind: Kind,
    name: &str,
    force: bool,
    figures: Figures,
    what: impl Fn(&SharedInfo) -> Option<String>,
) -> Result<(), SharedError> {
    let Some((handle, admin)) = Handle::to_remove(kind, name)? else { return Ok(()) };
    let (map, place) = (handle.map, handle.place);
    if !force && let Some(info) = look(map, place, figures) {
        let other = info.users.iter().find(|who| !who.is_of_this_process());
        let by = other.map(|who| format!("pid {} `{}` changes it", who.pid, who.label));
        let all: Vec<String> = what(&info).into_iter().chain(by).collect();
        if !all.is_empty() {
            return Err(handle.in_use(all.join("; ")).into());
        }
    }
    map.unmake(&admin, place);
    tidy();
    Ok(())
}
