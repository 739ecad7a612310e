//! What a client knows of a pool: as the engine had it at one revision, read whole, and then kept up by a watch.

use crate::engine::{Change, Entry, LeaseId, Revision};
use crate::keys::{self, Holder, Part, Size, Space, Ticket};
use std::collections::BTreeMap;

/// A pool as the engine had it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// When.
    pub revision: Revision,
    /// How many permits it has, and since which revision; `None`: there is no such pool.
    pub size: Option<(u32, Revision)>,
    /// Its permits that are held.
    pub held: BTreeMap<u32, Held>,
    /// Its queue, in the order of arrival.
    pub queue: BTreeMap<(Revision, String), Waiting>,
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
                self.size = keys::read(&entry.value).map(|size: Size| (size.permits, entry.modified));
            }
            Some((own, Part::Held(index))) if own == pool => {
                // What cannot be read is held all the same.
                let unread = || Holder { id: "?".into(), who: keys::Who::default() };
                let holder = keys::read(&entry.value).unwrap_or_else(unread);
                self.held.insert(index, Held { holder, token: entry.modified, lease: entry.lease });
            }
            Some((own, Part::Ticket(id))) if own == pool => {
                if let Some(ticket) = keys::read(&entry.value) {
                    let lease = entry.lease;
                    self.queue.insert((entry.created, id.to_owned()), Waiting { ticket, lease });
                }
            }
            _ => {}
        }
    }

    fn delete(&mut self, space: &Space, pool: &str, key: &str) {
        match space.part(key) {
            Some((own, Part::Size)) if own == pool => self.size = None,
            Some((own, Part::Held(index))) if own == pool => {
                self.held.remove(&index);
            }
            Some((own, Part::Ticket(id))) if own == pool => self.queue.retain(|(_, at), _| at != id),
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

    /// `n` permits that are free, if there are as many. `turn` spreads those that look at the same time.
    pub fn free(&self, n: u32, turn: u32) -> Option<Vec<u32>> {
        let (permits, _) = self.size?;
        let from = turn.checked_rem(permits).unwrap_or(0);
        let mut free: Vec<u32> =
            (from..permits).chain(0..from).filter(|index| !self.held.contains_key(index)).take(n as usize).collect();
        free.sort_unstable();
        (free.len() == n as usize).then_some(free)
    }

    /// The permits that an attempt holds here, and their token.
    pub fn held_by(&self, id: &str) -> Option<(Vec<u32>, Revision)> {
        let own = || self.held.iter().filter(|(_, held)| held.holder.id == id);
        let token = own().map(|(_, held)| held.token).max()?;
        Some((own().map(|(index, _)| *index).collect(), token))
    }
}
