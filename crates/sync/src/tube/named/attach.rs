//! The ends of tubes that this process has, and how many handles of each. The arena records the first handle's coming and the last
//! one's going.
//!
//! A forked child has copies of its parent's handles, and is another process. With its first use of a handle it comes to that handle's
//! end, and to no other: a child that only sends is no receiver, so the receivers are gone when its parent dies. An end that may have only
//! one handle stays the parent's.

use super::error::TubeError;
use crate::fork::{ATTACHED, KeptGuard};
use crate::handle::shown;
use chappe_arena::{ArenaError, Joined, Map, Place, Who};
use chappe_plat::process;
use chappe_tube::named::arms::{Mapped, Not};
use chappe_tube::named::pipe::{Pipe, Side, Unattached};
use chappe_wait::attachment::{attachment, process_attachment};
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Refused, Site, Taken};
use chappe_wait::role::has_own_core;
use chappe_wait::wait::Party;
use std::cell::Cell;
use std::ops::Deref;

/// An end of a tube that this process has.
struct Entry {
    /// The entry's name in its handles; the same in a child.
    id: u64,
    pipe: Mapped,
    side: Side,
    handles: usize,
    /// The member that stands for the process; `None`: the entry is the parent's, and not used here.
    by: Option<Joined>,
    /// The end was inherited, and cannot be this process's as well.
    stays: bool,
    /// A handle of the end has broken off.
    broken: bool,
}

/// All ends of one process, and which process that is.
#[derive(Default)]
struct Table {
    incarnation: u64,
    entries: Vec<Entry>,
    next: u64,
}

impl Table {
    fn lock() -> KeptGuard<Table> {
        ATTACHED.lock()
    }

    /// The table, of this very process.
    fn ours() -> KeptGuard<Table> {
        let mut table = Table::lock();
        let now = process::incarnation();
        if table.incarnation != now {
            for entry in &mut table.entries {
                (entry.by, entry.stays, entry.broken) = (None, false, false);
            }
            table.incarnation = now;
        }
        table
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.entries.iter().position(|e| e.id == id)
    }

    /// The entry of an end: this process's own, or one that it has inherited and may use.
    fn entry(&self, pipe: &Mapped, side: Side) -> Option<usize> {
        let is_it = |e: &Entry| std::ptr::eq(e.pipe.map, pipe.map) && e.pipe.place == pipe.place && e.side == side;
        let own = self.entries.iter().position(|e| e.by.is_some() && is_it(e));
        own.or_else(|| self.entries.iter().position(|e| !e.stays && !pipe.is_single(side) && is_it(e)))
    }

    /// Brings an inherited end into the child's possession. The caller holds `admin`.
    fn inherit(&mut self, at: usize, joined: Joined) {
        let (pipe, side) = (self.entries[at].pipe, self.entries[at].side);
        let own = self.entry(&pipe, side).is_some_and(|other| other != at);
        let entry = &mut self.entries[at];
        if own || entry.stays || !pipe.is_live() || pipe.enter(side, joined.index, joined.generation).is_err() {
            entry.stays = true;
        } else {
            entry.by = Some(joined);
        }
    }
}

/// The part of an attachment that a handle holds.
pub(crate) struct Attachment {
    pub pipe: Mapped,
    side: Side,
    id: u64,
    incarnation: Cell<u64>,
    /// A receiver's: how many deaths of senders it was told of.
    told: Cell<u32>,
}

/// An end as an arm of this process: in a forked child it comes to its end before anything else.
pub(crate) struct Own<A> {
    pub arm: A,
    pub at: Attachment,
}

impl<A> Deref for Own<A> {
    type Target = A;
    fn deref(&self) -> &A {
        &self.arm
    }
}

impl<A> Own<A> {
    /// The tube, if this process has the end, and the tube is in service: else its memory may be another's.
    pub fn here(&self) -> Option<&Mapped> {
        (self.at.here().is_ok() && self.at.pipe.is_live()).then_some(&self.at.pipe)
    }

    fn ours(&self) -> Result<(), Refused> {
        self.at.here().map_err(|_| Refused::Inherited(0))
    }
}

impl<A: Arm> Arm for Own<A> {
    fn site(&self) -> Site {
        self.arm.site()
    }
    fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
        self.ours()?;
        self.arm.attempt(me, told)
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        if matches!(how, Looking::Free | Looking::Mark) {
            self.ours()?;
        }
        self.arm.look(me, how)
    }
    fn pass_on(&self) {
        if self.here().is_some() {
            self.arm.pass_on();
        }
    }
}

fn end_name(side: Side) -> &'static str {
    if side == Side::Senders { "sender" } else { "receiver" }
}

impl Attachment {
    /// Attaches an end of the tube at this place.
    pub fn new(map: &'static Map, place: Place, side: Side) -> Result<Attachment, TubeError> {
        // If this thread has a core of its own, waiters at the other end are not to interrupt it. The kernel registers a process that has several
        // threads after a grace period only: that is not to pass under the arena's lock, nor at all if the next line begins the second thread.
        let registered = |pipe: Mapped| if has_own_core() { pipe } else { pipe.registered(side) };
        Pipe::of(map, place).filter(Mapped::is_live).map(registered);
        // As members, so that both deaths are seen: of the process, and of this thread in the middle of this.
        let joined = process_attachment(map)?;
        attachment(map, |_| ())?;
        map.recover_dead();
        let name = || shown(map, place);
        let single = |who: Who| TubeError::Single { name: name(), end: end_name(side), pid: who.pid, label: who.label };
        let mut table = Table::ours();
        let admin = map.admin();
        let Some(pipe) = Pipe::of(map, place).filter(Mapped::is_live) else {
            return Err(TubeError::Dead { name: name() });
        };
        let pipe = registered(pipe);
        let incarnation = Cell::new(table.incarnation);
        if let Some(at) = table.entry(&pipe, side) {
            if side == Side::Senders && pipe.is_sealed() {
                return Err(TubeError::Sealed { name: name() });
            }
            if pipe.is_single(side) {
                return Err(single(map.who(joined.index)));
            }
            if table.entries[at].by.is_none() {
                table.inherit(at, joined);
            }
            let entry = &mut table.entries[at];
            if !entry.stays {
                entry.handles += 1;
                return Ok(Attachment { pipe, side, id: entry.id, incarnation, told: told(&pipe, side) });
            }
        }
        pipe.attach(&admin, side, joined.index, joined.generation).map_err(|why| match why {
            Unattached::Dead => TubeError::Dead { name: name() },
            Unattached::Sealed => TubeError::Sealed { name: name() },
            Unattached::Taken(member) => single(map.who(member)),
        })?;
        table.next += 1;
        let id = table.next;
        table.entries.push(Entry { id, pipe, side, handles: 1, by: Some(joined), stays: false, broken: false });
        Ok(Attachment { pipe, side, id, incarnation, told: told(&pipe, side) })
    }

    /// Whether a sender has died, or broken off, of which this receiver was not told. It counts as told now.
    pub fn learns_of_death(&self) -> bool {
        self.pipe.learns(self.told.get()).map(|died| self.told.set(died)).is_some()
    }

    /// From now on, when the process leaves this end, it has not ended well.
    pub fn break_off(&self) {
        let mut table = Table::lock();
        if let Some(at) = table.find(self.id) {
            table.entries[at].broken = true;
        }
    }

    /// Another handle of the same end.
    pub fn another(&self) -> Result<Attachment, TubeError> {
        Attachment::new(self.pipe.map, self.pipe.place, self.side)
    }

    /// Ensures that the end is this process's.
    #[inline(always)]
    pub fn here(&self) -> Result<(), Not> {
        if process::is_incarnation(self.incarnation.get() as u32) { Ok(()) } else { self.inherited() }
    }

    #[cold]
    fn inherited(&self) -> Result<(), Not> {
        // Before the table is locked: this has a lock of its own.
        let joined = process_attachment(self.pipe.map);
        let mut table = Table::ours();
        let at = table.find(self.id).ok_or(Not::Inherited)?;
        if table.entries[at].by.is_none() && !table.entries[at].stays {
            let _admin = self.pipe.map.admin();
            table.inherit(at, joined.map_err(|_| Not::Inherited)?);
        }
        if table.entries[at].stays {
            return Err(Not::Inherited);
        }
        self.incarnation.set(table.incarnation);
        Ok(())
    }
}

/// The count of deaths that a new handle was told of.
fn told(pipe: &Mapped, side: Side) -> Cell<u32> {
    Cell::new(if side == Side::Receivers { pipe.known() } else { 0 })
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let map = self.pipe.map;
        // If this thread dies before it has told the waiters, recovery must see it. Without an attachment the thread is about
        // to end.
        let _: Result<(), ArenaError> = attachment(map, |_| ());
        let mut table = Table::lock();
        let ours = table.incarnation == process::incarnation();
        let Some(at) = table.find(self.id) else { return };
        // A thread that panics does not end well, whichever handle goes last.
        table.entries[at].broken |= std::thread::panicking();
        table.entries[at].handles -= 1;
        if table.entries[at].handles > 0 {
            return;
        }
        let entry = table.entries.swap_remove(at);
        if ours && let Some(joined) = entry.by {
            self.pipe.detach(self.side, joined.index, joined.generation, !entry.broken);
        }
    }
}
