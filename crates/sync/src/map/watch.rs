//! Waiting for a map to change.

use super::datum::Datum;
use super::error::MapError;
use super::made::Map;
use crate::condvar::{self, Heard};
use chappe_wait::attachment::party;
use chappe_wait::attachment::{attachment, watched};
use chappe_wait::operation::Site;
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::Parties;
use std::collections::BTreeMap;
use std::time::Duration;

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The key's bytes.
    pub key: Vec<u8>,
    /// Its value before; `None`: it was not there.
    pub old: Option<Vec<u8>>,
    /// Its value now; `None`: it was removed.
    pub new: Option<Vec<u8>>,
}

/// Observes the changes of a map: see [`Map::watch`].
pub struct Watch<'a, K: Datum + ?Sized, V: Datum + ?Sized> {
    map: &'a Map<K, V>,
    only: Option<Vec<u8>>,
    seen: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> Map<K, V> {
    /// Watches the map, or one key of it. Existing entries are reported as the first change. Each look compares the entries with those
    /// at the last look: changes that were undone in between are not seen, and of several changes to one key the result is.
    pub fn watch(&self, only: Option<&K>) -> Watch<'_, K, V> {
        Watch { map: self, only: only.map(|key| key.__bytes().to_vec()), seen: BTreeMap::new() }
    }
}

impl<K: Datum + ?Sized, V: Datum + ?Sized> Watch<'_, K, V> {
    /// The changes since the last look, sorted by key. Does not wait.
    ///
    /// # Errors
    /// `Dead`.
    pub fn changes(&mut self) -> Result<Vec<Event>, MapError> {
        let now = self.look()?;
        let mut events = Vec::new();
        for (key, old) in &self.seen {
            let new = now.get(key);
            if new != Some(old) {
                events.push(Event { key: key.clone(), old: Some(old.clone()), new: new.cloned() });
            }
        }
        for (key, new) in now.iter().filter(|(key, _)| !self.seen.contains_key(*key)) {
            events.push(Event { key: key.clone(), old: None, new: Some(new.clone()) });
        }
        events.sort_by(|a, b| a.key.cmp(&b.key));
        self.seen = now;
        Ok(events)
    }

    pub(crate) fn site(&self) -> Site {
        Site::of(self.map.handle.map, self.map.handle.place)
    }

    #[cfg(not(feature = "loom"))]
    pub(crate) fn name(&self) -> String {
        self.map.handle.shown()
    }

    /// By a waiter, once its bit is set: if the map changed before that, it notifies itself, and all other waiters.
    pub(crate) fn look_again(&self) {
        if self.look().map_or(true, |now| now != self.seen) {
            condvar::notify_all(self.map.handle.map, self.map.handle.place);
        }
    }

    fn look(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, MapError> {
        let table = &self.map.table;
        let mut value = vec![0; table.shape().value as usize];
        let mut all = BTreeMap::new();
        if let Some(key) = &self.only {
            if let Some(len) = table.get(key, &mut value) {
                all.insert(key.clone(), value[..len].to_vec());
            }
        } else {
            let mut walk = chappe_structures::table::Table::start();
            while let Some((key, len)) = table.step(&mut walk, &mut value) {
                all.insert(key, value[..len].to_vec());
            }
        }
        self.map.seen(all)
    }

    /// Waits until something has changed since the last look. Empty if the time was up.
    ///
    /// Blocks, on one futex; a waiter that dies leaves nothing behind. Fairness: every waiter is notified of each change.
    ///
    /// # Errors
    /// `Dead`; `Interrupted`, by an [`Interrupt`](crate::Interrupt); `System` if the thread that watches for deaths cannot be started;
    /// `Object` if the arena cannot take another member.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Vec<Event>, MapError> {
        let until = timeout.map_or(Until::Forever, Until::after);
        let deadline = if let Until::Time(at) = until { Some(at) } else { None };
        loop {
            let events = self.changes()?;
            if !events.is_empty() {
                return Ok(events);
            }
            let heard = attachment(self.map.handle.map, |attachment| {
                watched(attachment).map_err(MapError::System)?;
                let who = Parties { main: party(attachment), private: None };
                // I4 of the atlas: the map may have changed before the bit was set.
                let look = || self.look_again();
                Ok::<_, MapError>(condvar::wait(&who, &self.site(), deadline, &patience(attachment), look))
            })??;
            match heard {
                Heard::Notified => {}
                Heard::Interrupted => return Err(MapError::Interrupted),
                Heard::TimedOut => return self.changes(),
                Heard::Dead => {
                    self.map.seen(())?;
                }
            }
        }
    }
}
