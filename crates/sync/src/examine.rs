//! Examining an arena's objects: finds what is wrong, and repairs what can be repaired. `chappe doctor` uses it.
//!
//! The examiner leaves alone what the protocols repair themselves. It lists what dead members had before recovery returns it. It gives back what
//! belongs to a generation of a member that is over: the protocols never leave such a thing behind, but a word that was
//! overwritten can. It reports each word that makes no sense.

use crate::handle::{called, full_name, what_is};
use crate::inspect::row::Had;
use crate::inspect::{rows, unreadable};
use crate::owned;
use crate::registry::Arena;
use crate::rwlock::row;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Admin, ArenaError, LifeState, Map, Place, Reclaimed, Who, check_name};
use chappe_plat::atomic::Ordering;
use chappe_structures::record::NOBODY;
use chappe_tube::named::pipe::Pipe;
use chappe_tube::named::senders::sweep;
use chappe_wait::attachment::attachment;
use chappe_wait::wait::{State, waits_on};
use std::fmt;
use std::time::Duration;

/// Something that a member has of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Belonging {
    /// The object.
    pub object: String,
    /// What of it.
    pub what: Had,
}

impl fmt::Display for Belonging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let object = &self.object;
        match &self.what {
            Had::Permits(all) => write!(f, "permit {} of pool `{object}`", list(all)),
            Had::Leased(all) => write!(f, "permit {} of pool `{object}`, leased to a job", list(all)),
            Had::Owned { demoted: false } => write!(f, "owned semaphore `{object}`"),
            Had::Owned { demoted: true } => write!(f, "a unit of semaphore `{object}`"),
            Had::Lock => write!(f, "mutex `{object}`"),
            Had::Reads => write!(f, "readers-writer lock `{object}`, to read"),
            Had::Writes => write!(f, "readers-writer lock `{object}`, to write"),
            Had::Writing(n) => write!(f, "{n} unsent message(s) in tube `{object}`"),
            Had::Looking(n) => write!(f, "{n} unreleased message(s) of tube `{object}`"),
            Had::Sends => write!(f, "a sending end of tube `{object}`"),
            Had::Receives => write!(f, "a receiving end of tube `{object}`"),
            Had::Waits => write!(f, "a place in the line for `{object}`"),
        }
    }
}

/// An object that was removed while it was in use, and whose slot is therefore not free yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// What it was called.
    pub name: String,
    /// What it was.
    pub kind: &'static str,
    /// The members that still have it, or wait for it and have not been told yet.
    pub by: Vec<Who>,
}

/// What was wrong, and has been repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Righted {
    /// Members whose threads have ended, without the kernel's mark.
    pub lost: Vec<Who>,
    /// What belonged to nobody, and is free now: permits, mutexes, messages, ends.
    pub freed: Vec<Belonging>,
    /// Cells and blocks that nothing accounted for.
    pub reclaimed: Reclaimed,
    /// Ends of tubes that killed makers had left.
    pub ends: u32,
    /// Parts of readers-writer locks that killed makers and removers had left.
    pub locks: u32,
    /// Parts of owned semaphores that killed makers and removers had left.
    pub parts: u32,
    /// Objects that could not be found by their names.
    pub named: Vec<String>,
    /// Whether another thread had the right to change the set of objects all the time: then what needs that right was not repaired.
    pub busy: bool,
}

/// An object whose words make no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The object, or where it lies.
    pub object: String,
    /// What of it.
    pub what: String,
}

impl Arena {
    /// What a member has. Put together from single looks while other threads go on.
    pub fn belongings(&self, who: &Who) -> Vec<Belonging> {
        let map = self.map();
        let Some(generation) = map.occupant(who.member) else { return Vec::new() };
        let mut all = Vec::new();
        for index in 0..map.objects_used() {
            let place = place(map, index);
            let mut has = |what| all.push(Belonging { object: name(map, place), what });
            if let Some(kind) = place.head.kind().filter(|_| place.head.stands()) {
                rows::of(kind).had(map, place, who.member, generation).into_iter().for_each(&mut has);
            }
            let is_queue = place.head.kind().is_none_or(|kind| map.protocol(kind).is_queue());
            if place.head.in_service() && is_queue && waits_here(map, index, who.member) {
                all.push(Belonging { object: waited_for(map, place), what: Had::Waits });
            }
        }
        all
    }

    /// Repairs what belongs to nobody. Waits at most so long for the right to change the set of objects.
    ///
    /// # Errors
    /// Why this thread cannot be a member: its own death must be noticed.
    pub fn put_right(&self, most: Duration) -> Result<Righted, ArenaError> {
        let map = self.map();
        attachment(map, |_| ())?;
        let lost = (0..map.members_used()).filter_map(|i| map.mark_lost(i)).collect();
        let mut righted = Righted { lost, ..Righted::default() };
        if !righted.lost.is_empty() {
            map.recover_dead();
        }
        for index in 0..map.objects_used() {
            free(map, place(map, index), &mut righted.freed);
        }
        match map.admin_within(most) {
            Some(admin) => under_admin(map, &admin, &mut righted),
            None => righted.busy = true,
        }
        Ok(righted)
    }

    /// Tubes with slots that stay taken, because a thread has ended with leaked ones; and how many.
    pub fn kept_slots(&self) -> Vec<(String, u32)> {
        let map = self.map();
        let one = |place| {
            let pipe = Pipe::of(map, place)?;
            let kept = pipe.ring.held().filter(|(owner, _)| *owner == NOBODY).count() as u32;
            (kept > 0).then(|| (name(map, place), kept))
        };
        map.objects().into_iter().filter(|place| place.head.kind() == Some(Kind::Tube)).filter_map(one).collect()
    }

    /// Objects that were removed, and that a member still has.
    pub fn removed(&self) -> Vec<Removed> {
        let map = self.map();
        let all = (0..map.objects_used()).map(|index| place(map, index));
        all.filter(|place| place.head.is_dead() && !is_part(map, *place)).filter_map(|place| left(map, place)).collect()
    }

    /// Objects whose words make no sense: they were overwritten.
    pub fn damage(&self) -> Vec<Damage> {
        let map = self.map();
        let damaged = |place| {
            let what = nonsense(map, place)?;
            // Acquire: after all the others. The object may have been removed meanwhile.
            let same = map.object(place.index).head.load(Ordering::Acquire) == place.head.0;
            same.then(|| Damage { object: shown(map, place), what })
        };
        map.objects().into_iter().filter_map(damaged).collect()
    }

    /// Member slots whose lock word is invalid, so that no thread can have them: they were overwritten.
    pub fn lost_attachments(&self) -> Vec<u32> {
        let map = self.map();
        (0..map.members_used()).filter(|i| !map.is_intact(*i)).collect()
    }

    /// The member that has the right to change the set of objects at this moment, and keeps others from it; or, if it is no member, the number
    /// of its thread.
    pub fn changer(&self) -> Option<Result<Who, u32>> {
        let tid = self.map().admin_holder()?;
        Some(self.map().member_of(tid).ok_or(tid))
    }
}

fn place(map: &Map, index: u32) -> Place {
    // Acquire: the object as its maker left it.
    Place { index, head: Head(map.object(index).head.load(Ordering::Acquire)) }
}

fn name(map: &Map, place: Place) -> String {
    called(map, place)
}

/// A name that can be shown, whatever the name's bytes are.
fn shown(map: &Map, place: Place) -> String {
    let name = map.name_of(map.object(place.index));
    let kind = place.head.kind().map_or("object", |_| what_is(map, place));
    match check_name(&name, "object") {
        Ok(()) => format!("{kind} `{}`", full_name(map.name(), &name)),
        Err(_) => format!("{kind} in slot {}", place.index),
    }
}

/// The object that a member waits for: if it waits at a part, the whole.
fn waited_for(map: &Map, at: Place) -> String {
    match at.head.kind().and_then(|kind| rows::of(kind).whole(map, at)) {
        Some((index, what)) => format!("{}{what}", name(map, place(map, index))),
        None => name(map, at),
    }
}

fn waits_here(map: &Map, object: u32, member: u32) -> bool {
    // SeqCst: as the queue is looked at.
    let state = State(map.member(member).state.load(Ordering::SeqCst));
    !state.is_idle() && waits_on(map, object, member)
}

/// Gives back what is in nobody's name.
fn free(map: &'static Map, place: Place, freed: &mut Vec<Belonging>) {
    if let Some(kind) = place.head.kind().filter(|_| place.head.stands()) {
        let all = rows::of(kind).free(map, place).into_iter();
        freed.extend(all.map(|what| Belonging { object: name(map, place), what }));
    }
}

fn under_admin(map: &'static Map, admin: &Admin, righted: &mut Righted) {
    righted.ends = sweep(map, admin);
    righted.locks = row::sweep(map, admin);
    righted.parts = owned::sweep(map, admin);
    righted.reclaimed = map.reclaim(admin);
    for place in map.objects().into_iter().filter(|place| !is_part(map, *place)) {
        if map.name_again(admin, place) {
            righted.named.push(name(map, place));
        }
    }
}

/// Whether it is a part of another object, and has no name.
fn is_part(map: &Map, place: Place) -> bool {
    place.head.kind().is_some_and(|kind| rows::of(kind).is_part(map, place))
}

/// The members that still have a removed object. `None`: no member has it, and its slot is free for the next.
fn left(map: &Map, place: Place) -> Option<Removed> {
    let index = place.index;
    let mut members: Vec<u32> = (0..map.members_used()).filter(|m| waits_on(map, index, *m)).collect();
    members.extend(rows::of(place.head.kind()?).users(map, place)?);
    members.sort_unstable();
    members.dedup();
    let by: Vec<Who> = members.into_iter().map(|m| map.who(m)).filter(|who| who.life == LifeState::Alive).collect();
    let (name, kind) = (name(map, place), place.head.kind().map_or("object", Kind::name));
    (!by.is_empty()).then_some(Removed { name, kind, by })
}

/// What makes no sense in an object in service.
fn nonsense(map: &'static Map, place: Place) -> Option<String> {
    if let Some(what) = unreadable(map, place) {
        return Some(what.to_owned());
    }
    if let Some(what) = place.head.kind().and_then(|kind| rows::of(kind).nonsense(map, place)) {
        return Some(what);
    }
    let is_named = check_name(&map.name_of(map.object(place.index)), "object").is_ok();
    (!is_named && !is_part(map, place)).then(|| "its name is none".to_owned())
}
