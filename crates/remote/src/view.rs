//! What a client knows of a pool, a mutex or a semaphore: as the engine had it at one revision, read whole, and then kept up by a watch.

use crate::engine::{Change, Entry, LeaseId, Revision};
use crate::keys::{self, Holder, Object, Part, Space, Ticket};
use std::collections::BTreeMap;

/// A pool as the engine had it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// When.
    pub revision: Revision,
    /// What it is; `None`: there is no such object.
    pub object: Option<Known>,
    /// Its permits that are held.
    pub held: BTreeMap<u32, Held>,
    /// Its queue, in the order of arrival.
    pub queue: BTreeMap<(Revision, String), Waiting>,
    /// The attempts that have got their units and may not know, and since when.
    pub got: BTreeMap<String, Revision>,
}

/// An object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    /// What it is.
    pub what: Object,
    /// Since when it is there.
    pub created: Revision,
    /// Since when it is so.
    pub modified: Revision,
}

/// What a program knows of a permit that it gave back while nobody waited: the next attempt tries for it before it looks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The pool or mutex.
    pub object: Known,
    /// The revision of the namespace's format.
    pub format: Revision,
    /// What was given back.
    pub given: Given,
}

/// What is given to a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Given {
    /// These permits of a pool.
    Permits(Vec<u32>),
    /// A mutex.
    Mutex {
        /// Its last holder died.
        owner_died: bool,
    },
    /// Units of a semaphore.
    Units {
        /// How many are left.
        rest: u32,
    },
}

impl Given {
    /// Which permits are held from then on.
    pub fn indices(&self) -> &[u32] {
        match self {
            Given::Permits(indices) => indices,
            Given::Mutex { .. } => &[0],
            Given::Units { .. } => &[],
        }
    }

    /// Whether it is a mutex whose last holder died.
    pub fn owner_died(&self) -> bool {
        *self == Given::Mutex { owner_died: true }
    }
}

/// A permit that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Its holder.
    pub holder: Holder,
    /// Since when: the token.
    pub token: Revision,
    /// The holder's lease.
    pub lease: Option<LeaseId>,
}

/// A ticket of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// What it wants.
    pub ticket: Ticket,
    /// The waiter's lease.
    pub lease: Option<LeaseId>,
}

impl View {
    /// As these are all its keys.
    pub fn of(space: &Space, pool: &str, entries: &[Entry], revision: Revision) -> View {
        let mut view = View { revision, ..View::default() };
        for entry in entries {
            view.put(space, pool, entry);
        }
        view
    }

    /// Follows changes that come together. What is no newer than what is known already is passed over.
    pub fn follow(&mut self, space: &Space, pool: &str, changes: &[Change]) {
        let seen = self.revision;
        for change in changes.iter().filter(|change| change.revision() > seen) {
            self.revision = change.revision();
            match change {
                Change::Put(entry) => self.put(space, pool, entry),
                Change::Deleted { key, .. } => self.delete(space, pool, key),
            }
        }
    }

    fn put(&mut self, space: &Space, pool: &str, entry: &Entry) {
        match space.part(&entry.key) {
            Some((own, Part::Size)) if own == pool => {
                let known = |what| Known { what, created: entry.created, modified: entry.modified };
                self.object = keys::read(&entry.value).map(known);
            }
            Some((own, Part::Held(index))) if own == pool => {
                // What cannot be read is held all the same.
                let unread = || Holder { id: "?".into(), owner_died: false, who: keys::Who::default() };
                let holder = keys::read(&entry.value).unwrap_or_else(unread);
                self.held.insert(index, Held { holder, token: entry.modified, lease: entry.lease });
            }
            Some((own, Part::Ticket(id))) if own == pool => {
                if let Some(ticket) = keys::read(&entry.value) {
                    let lease = entry.lease;
                    self.queue.insert((entry.created, id.to_owned()), Waiting { ticket, lease });
                }
            }
            Some((own, Part::Got(id))) if own == pool => {
                self.got.insert(id.to_owned(), entry.modified);
            }
            _ => {}
        }
    }

    fn delete(&mut self, space: &Space, pool: &str, key: &str) {
        match space.part(key) {
            Some((own, Part::Size)) if own == pool => self.object = None,
            Some((own, Part::Held(index))) if own == pool => {
                self.held.remove(&index);
            }
            Some((own, Part::Ticket(id))) if own == pool => self.queue.retain(|(_, at), _| at != id),
            Some((own, Part::Got(id))) if own == pool => {
                self.got.remove(id);
            }
            _ => {}
        }
    }

    /// The first of the queue.
    pub fn head(&self) -> Option<(&(Revision, String), &Waiting)> {
        self.queue.first_key_value()
    }

    /// Which place an attempt has in the queue, from 0.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.queue.keys().position(|(_, at)| at == id)
    }

    /// How many permits it has.
    pub fn permits(&self) -> u32 {
        self.object.map_or(0, |object| object.what.permits())
    }

    /// What could be given to a waiter for `n`. `turn` spreads those that look at the same time.
    pub fn free(&self, n: u32, turn: u32) -> Option<Given> {
        match self.object?.what {
            Object::Pool { permits } => {
                let from = turn.checked_rem(permits).unwrap_or(0);
                let all = (from..permits).chain(0..from);
                let mut free: Vec<u32> = all.filter(|index| !self.held.contains_key(index)).take(n as usize).collect();
                free.sort_unstable();
                (free.len() == n as usize).then_some(Given::Permits(free))
            }
            Object::Mutex { taken } => (n == 1 && self.held.is_empty()).then_some(Given::Mutex { owner_died: taken }),
            Object::Sem { value } => value.checked_sub(n).map(|rest| Given::Units { rest }),
            Object::Tube { .. } => None,
        }
    }

    /// What an attempt has got here, and the token of that.
    pub fn held_by(&self, id: &str) -> Option<(Vec<u32>, bool, Revision)> {
        if let Some(token) = self.got.get(id) {
            return Some((vec![], false, *token));
        }
        let own = || self.held.iter().filter(|(_, held)| held.holder.id == id);
        let token = own().map(|(_, held)| held.token).max()?;
        let owner_died = own().any(|(_, held)| held.holder.owner_died);
        Some((own().map(|(index, _)| *index).collect(), owner_died, token))
    }
}
