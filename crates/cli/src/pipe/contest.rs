//! Pipelines with deadlines that share the machine's processors: which of them ends early (synthesis, 6.4.2).
//!
//! Each `chappe pipe --importance` has an entry in the map `pipe-jobs` of the user's arena: what it needs until its deadline. At each look it reads the others', and
//! if all together need more than there is, the least important one ends itself; nobody ends another. The entry of a process that has died
//! counts nothing, and the next pipeline that sees it removes it. One that is stopped counts with what it said last.

use super::look;
use anyhow::{Context, Result};
use chappe::feedback::Jobs;
use chappe::feedback::jobs::{Need, excess};
use chappe::{Map, MapOptions};
use std::collections::BTreeMap;

/// Where they meet.
const NAME: &str = "pipe-jobs";
/// So many pipelines at once.
const PIPELINES: u32 = 256;

/// A process: its number, and when it began.
type Key = [u64; 2];

fn value(need: Need) -> [u64; 3] {
    [need.importance, need.load, need.doubt].map(f64::to_bits)
}

fn need(value: [u64; 3]) -> Need {
    let [importance, load, doubt] = value.map(f64::from_bits);
    Need { importance, load, doubt }
}

/// One that takes part.
pub struct Contest {
    key: Key,
    map: Map<Key, [u64; 3]>,
    jobs: Jobs,
    processors: f64,
    /// It has ended early: what all would have needed.
    pub ended: Option<f64>,
}

/// Whether a process is there still.
fn lives(key: Key) -> bool {
    look::start_of(key[0] as i32) == Some(key[1])
}

impl Contest {
    /// A pipeline of so many bytes, due in so many seconds.
    ///
    /// # Errors
    /// The arena has no room, or cannot be made.
    pub fn join(importance: f64, bytes: f64, deadline: f64) -> Result<Contest> {
        let pid = std::process::id();
        let start = look::start_of(pid as i32).context("/proc does not say when this process began")?;
        let options = MapOptions { entries: PIPELINES, ..MapOptions::default() };
        let map = Map::open_or_create(NAME, &options).context("pipelines with an importance meet in a map")?;
        let mut jobs = Jobs::new(1.0);
        jobs.add(importance, bytes, deadline);
        let processors = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        Ok(Contest { key: [pid.into(), start], map, jobs, processors, ended: None })
    }

    /// So far it is after so many seconds, and has used so many of a processor. Whether it is to end now.
    ///
    /// # Errors
    /// The map was removed, or is full.
    pub fn look(&mut self, at: f64, used: f64, bytes: f64) -> Result<bool> {
        if self.ended.is_some() {
            return Ok(true);
        }
        self.jobs.progress(0, used, bytes);
        let Some(own) = self.jobs.need(0, at) else { return Ok(false) };
        let mut all = BTreeMap::from([(self.key, own)]);
        for entry in self.map.iter()? {
            let (key, said) = entry?;
            if key == self.key {
                continue;
            }
            if lives(key) {
                all.insert(key, need(said));
            } else {
                self.map.remove(&key)?;
            }
        }
        // Behind the dead, which may have filled the map.
        self.map.insert(&self.key, &value(own))?;
        // By their keys: equal ones come in one order for all.
        let needs: Vec<Need> = all.values().copied().collect();
        let ends = excess(self.processors, &needs).filter(|(last, _)| all.keys().nth(*last) == Some(&self.key));
        if let Some((_, sum)) = ends {
            self.ended = Some(sum);
            self.leave();
        }
        Ok(self.ended.is_some())
    }

    fn leave(&self) {
        // A map that was removed has no entries.
        let _ = self.map.remove(&self.key);
    }
}

impl Drop for Contest {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(start: u64, importance: f64, map: &Map<Key, [u64; 3]>) -> Contest {
        let mut jobs = Jobs::new(1.0);
        jobs.add(importance, 1000.0, 100.0);
        Contest { key: [u64::from(std::process::id()), start], map: map.clone(), jobs, processors: 1.0, ended: None }
    }

    /// Two that use half of a processor each, and need 70 s of it, in virtual time: which of them has ended when.
    fn pair(importance: [f64; 2], each: f64) -> [Option<f64>; 2] {
        let map = Map::private(&MapOptions { entries: 8, ..MapOptions::default() }).unwrap();
        let start = look::start_of(std::process::id() as i32).unwrap();
        // The second is this process by another number of its start: that counts as one that has died, but for itself.
        let mut two = [contest(start, importance[0], &map), contest(start, importance[1], &map)];
        two[1].key[0] = u64::from(std::os::unix::process::parent_id());
        two[1].key[1] = look::start_of(two[1].key[0] as i32).unwrap();
        let mut ended = [None; 2];
        for second in 1..100 {
            let (at, used) = (f64::from(second), f64::from(second) * 0.5);
            for who in 0..2 {
                if ended[who].is_none() && two[who].look(at, used, used / each).unwrap() {
                    ended[who] = Some(at);
                }
            }
        }
        ended
    }

    #[test]
    fn the_less_important_of_two_pipelines_ends_itself_and_no_other() {
        let ended = pair([2.0, 1.0], 0.07);
        assert!(ended[0].is_none() && ended[1].is_some_and(|at| at < 30.0), "{ended:?}");
        let ended = pair([1.0, 2.0], 0.07);
        assert!(ended[1].is_none() && ended[0].is_some_and(|at| at < 30.0), "{ended:?}");
        // Of equals one.
        assert_eq!(pair([1.0, 1.0], 0.07).iter().flatten().count(), 1);
        assert_eq!(pair([2.0, 1.0], 0.04), [None; 2]);
    }

    #[test]
    fn an_entry_of_a_process_that_has_died_counts_nothing_and_goes() {
        let map = Map::private(&MapOptions { entries: 8, ..MapOptions::default() }).unwrap();
        let start = look::start_of(std::process::id() as i32).unwrap();
        map.insert(
            &[u64::from(std::process::id()), start + 1],
            &value(Need { importance: 9.0, load: 0.9, doubt: 0.0 }),
        )
        .unwrap();
        let mut one = contest(start, 1.0, &map);
        assert!((1..90).all(|k| !one.look(f64::from(k), f64::from(k) * 0.5, f64::from(k) * 7.0).unwrap()));
        assert_eq!(map.len(), 1);
        drop(one);
        assert_eq!(map.len(), 0);
        // As many as there is room for.
        let dead = |k: u64| [u64::from(std::process::id()), start + 1 + k];
        let said = value(Need { importance: 9.0, load: 0.9, doubt: 0.0 });
        assert!((0..).any(|k| map.insert(&dead(k), &said).is_err()) && map.len() >= 8);
        let mut one = contest(start, 1.0, &map);
        assert!((1..20).all(|k| !one.look(f64::from(k), f64::from(k) * 0.5, f64::from(k) * 7.0).unwrap()));
        assert_eq!(map.len(), 1);
    }
}
