//! What a world keeps beside the engine: which clients added and finished, and so what each change must be.

use super::{Act, Client, World, is_mutex, view};
use crate::model::Model;
use crate::world::space;
use chappe_remote::engine::Change;
use chappe_remote::grant::End;
use chappe_remote::keys::{self, Object};

impl World {
    /// Units come from those that add, once each, and go to those that get them.
    pub fn count(&mut self, before: &Model, changes: &[Change]) {
        let value = |engine: &Model, name: &str| match view(engine, name).object.map(|object| object.what) {
            Some(Object::Sem { value }) => Some(i64::from(value)),
            _ => None,
        };
        let mut added = 0;
        for change in changes {
            let Change::Put(entry) = change else { continue };
            let Some(id) = entry.key.strip_prefix(&space().done("")) else { continue };
            let begun = id.split('.').next().unwrap_or(id);
            assert!(self.added.insert(begun.to_owned()), "{begun} has added twice");
            let of = |client: &&Client| keys::attempt(client.lease, client.attempts) == begun;
            let client = self.clients.iter().find(of).expect("a client's");
            let Some(Act::Add(_, n)) = client.acts.front() else { panic!("{begun} adds later than it may") };
            added = i64::from(*n);
        }
        for (key, _) in before.entries.iter().filter(|(key, _)| key.ends_with("/size")) {
            let Some((name, _)) = space().part(key) else { continue };
            let (Some(had), Some(has)) = (value(before, name), value(&self.engine, name)) else { continue };
            let mut given = 0;
            for change in changes {
                let Some((pool, keys::Part::Got(id))) = space().part(change.key()) else { continue };
                if pool == name && matches!(change, Change::Put(_)) {
                    given += self.wants(id);
                    let begun = id.split('.').next().unwrap_or(id).to_owned();
                    assert!(self.spent.insert(begun, change.clone()).is_none(), "{id} got units twice");
                }
            }
            assert_eq!(has, had + added - given, "{name} had {had}, {added} were added, {given} given");
        }
    }

    /// How many units the client wants whose attempt this is.
    fn wants(&self, id: &str) -> i64 {
        let own = |client: &&Client| id.starts_with(&keys::attempt(client.lease, client.attempts));
        match self.clients.iter().find(own).and_then(|client| client.acts.front()) {
            Some(Act::Hold(want, _)) => want.n.into(),
            other => panic!("{id} gets units, and its client does {other:?}"),
        }
    }

    /// The holder of a mutex is told how the last one ended.
    pub fn tells(&self, before: &Model, changes: &[Change], end: End) {
        for change in changes {
            let Change::Put(entry) = change else { continue };
            let Some((name, keys::Part::Held(_))) = space().part(&entry.key) else { continue };
            let holder: keys::Holder = keys::read(&entry.value).expect("a holder");
            let handed_over = before.entries.contains_key(&entry.key);
            let finished = if handed_over { end == End::Finished } else { self.finished.contains(name) };
            let died = is_mutex(before, name) && !finished;
            assert_eq!(holder.owner_died, died, "the last holder of {name} had finished: {finished}");
        }
    }

    /// Whether the holder of what is gone by now has finished with it.
    pub fn leave(&mut self, changes: &[Change], end: End) {
        for change in changes {
            let Some((name, keys::Part::Held(_))) = space().part(change.key()) else { continue };
            match (change, end) {
                (Change::Deleted { .. }, End::Left) => _ = self.finished.remove(name),
                (Change::Deleted { .. }, End::Finished) => _ = self.finished.insert(name.to_owned()),
                _ => {}
            }
        }
    }
}
