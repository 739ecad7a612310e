//! What the watches of a world's clients are told.

use super::seen::keys_of;
use super::{Act, Doing, World, space};
use chappe_remote::engine::{Change, Entry, Revision};

impl World {
    /// What a watch from this revision on has already missed.
    pub fn catch_up(&mut self, c: usize, from: Revision) {
        // The model keeps no history: a watch begins as the machine wants it, right after what it read.
        let Some(Act::Hold(want, _)) = self.clients[c].acts.front().cloned() else { return };
        for (at, pool) in want.pools.iter().enumerate() {
            let of = |entry: &&Entry| entry.modified >= from;
            let news: Vec<Change> =
                self.engine.found(&space().pool(pool)).filter(of).cloned().map(Change::Put).collect();
            let Doing::Acquiring(machine) = &self.clients[c].doing else { return };
            let there = &machine.views()[at];
            let gone = keys_of(there, pool).into_iter().filter(|key| !self.engine.entries.contains_key(key));
            let gone: Vec<Change> = gone.map(|key| Change::Deleted { key, at: self.engine.revision }).collect();
            // What came and went meanwhile.
            let own = |change: &&Change| change.revision() >= from && space().pool(pool).have(change.key());
            let spent: Vec<Change> = self.spent.values().filter(own).cloned().collect();
            let spent = spent.into_iter().filter(|change| !news.contains(change));
            let mut all = [gone, news.clone(), spent.collect()].concat();
            all.sort_by_key(Change::revision);
            if let Some(watch) = &mut self.clients[c].watch
                && !all.is_empty()
            {
                watch[at].push_back(all);
            }
        }
    }

    pub fn spread(&mut self, changes: &[Change]) {
        for client in &mut self.clients {
            let (Some(watch), Some(Act::Hold(want, _))) = (&mut client.watch, client.acts.front()) else { continue };
            for (at, pool) in want.pools.iter().enumerate() {
                let own = space().pool(pool);
                let of: Vec<Change> = changes.iter().filter(|change| own.have(change.key())).cloned().collect();
                if !of.is_empty() {
                    watch[at].push_back(of);
                }
            }
        }
    }
}
