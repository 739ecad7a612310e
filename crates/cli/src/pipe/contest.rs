//! Pipelines with deadlines that share the machine's processors: which of them ends early (synthesis, 6.4.2).
//!
//! Each `chappe pipe --importance` has an entry in the map `pipelines` of the user's arena: what it needs until its deadline, and when it said so. At each
//! look it reads the others', and if all together need more than there is, the least important one ends itself; nobody ends another.
//!
//! - I1: of pipelines that see the same excess one ends. Two looks at different moments may choose differently; so one that is to end takes its entry
//!   away first, then changes the map's count of ends, and ends only if nobody has changed that since before it read the others. Otherwise it looks
//!   again, where the one that was faster has no entry any more. One that has finished changes the count, too: nobody ends for it any more. A death between
//!   the two steps takes away an entry that would go anyway.
//! - I2: an entry counts while its process lives and has looked within [`AGE`]: one that is stopped needs nothing meanwhile. A pipeline that sees the entry of a
//!   process that has died removes it.
//! - I3: pipelines that may use different processors (taskset(1)) compete where they share some, directly or through others. They can be done in
//!   time together if no set of processors is needed by more than there are of it. The quota of the own control group bounds all of them.

use super::kernel::{self, Cpus};
use super::look;
use anyhow::{Context, Result};
use chappe::feedback::Jobs;
use chappe::feedback::jobs::{Need, excess_where, within};
use chappe::{Map, MapOptions};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where they meet.
const NAME: &str = "pipelines";
/// So many pipelines at once, and the count of ends.
const ENTRIES: u32 = 256;
/// The count of ends: no process has this key.
const ENDS: Key = [0, 0];
/// Beyond it a pipeline is stopped: it looks ten times a second.
const AGE: Duration = Duration::from_secs(2);
/// So many unions of what pipelines may use are looked at, at most: more than one only where they may use different processors.
const SETS: usize = 256;

/// A process: its number, and when it began.
type Key = [u64; 2];
/// What it needs and gets, and when it said so.
type Said = [u64; 6];

fn said(need: Need, now: Duration) -> Said {
    let Need { importance, load, doubt, width, gets } = need;
    let [importance, load, doubt, width, gets] = [importance, load, doubt, width, gets].map(f64::to_bits);
    [importance, load, doubt, width, gets, now.as_nanos() as u64]
}

/// What an entry says at this time, if it is not too old.
fn need([importance, load, doubt, width, gets, at]: Said, now: Duration) -> Option<Need> {
    let [importance, load, doubt, width, gets] = [importance, load, doubt, width, gets].map(f64::from_bits);
    let age = now.saturating_sub(Duration::from_nanos(at));
    (age <= AGE).then_some(Need { importance, load, doubt, width, gets })
}

/// One that takes part.
pub struct Contest {
    key: Key,
    map: Map<Key, Said>,
    jobs: Jobs,
    /// What the control group allows.
    quota: f64,
    /// On which processors a process may run.
    cpus: fn(i32) -> Option<Cpus>,
    /// How often somebody had ended when the others were read.
    ends: Option<Said>,
    /// It has ended early: what was needed.
    pub ended: Option<f64>,
}

/// Whether a process is there still.
fn lives(key: Key) -> bool {
    look::start_of(key[0] as i32) == Some(key[1])
}

fn count(set: &Cpus) -> f64 {
    f64::from(set.iter().map(|word| word.count_ones()).sum::<u32>())
}

fn or(a: &Cpus, b: &Cpus) -> Cpus {
    std::array::from_fn(|at| a[at] | b[at])
}

fn meet(a: &Cpus, b: &Cpus) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

/// Those that share processors with one of them, directly or through others (I3).
fn beside(own: Key, mut all: BTreeMap<Key, (Need, Cpus)>) -> BTreeMap<Key, (Need, Cpus)> {
    let mut shared = all[&own].1;
    let mut found = BTreeMap::new();
    loop {
        let (near, far) = all.into_iter().partition::<BTreeMap<_, _>, _>(|(_, (_, cpus))| meet(cpus, &shared));
        if near.is_empty() {
            return found;
        }
        shared = near.values().fold(shared, |sum, (_, cpus)| or(&sum, cpus));
        found.extend(near);
        all = far;
    }
}

/// Whether some can be done in time together: no set of processors is needed by more than there are of it (I3).
fn fit(cpus: &[Cpus], some: &[(usize, Need)], quota: f64, doubt: bool) -> bool {
    // First what no limit of sets may leave out: all that they may use, and then what each may.
    let mut sets = vec![some.iter().fold(Cpus::default(), |sum, (at, _)| or(&sum, &cpus[*at]))];
    for (at, _) in some {
        let cpus = cpus[*at];
        if sets.contains(&cpus) {
            continue;
        }
        for known in 0..sets.len() {
            let both = or(&sets[known], &cpus);
            if sets.len() < SETS && !sets.contains(&both) {
                sets.push(both);
            }
        }
        sets.push(cpus);
    }
    sets.iter().all(|set| {
        let inside = some.iter().filter(|(at, _)| or(&cpus[*at], set) == *set);
        within(count(set).min(quota), inside.map(|(_, need)| need), doubt)
    })
}

impl Contest {
    /// A pipeline of so many bytes, due in so many seconds.
    ///
    /// # Errors
    /// The arena has no room, or cannot be made.
    pub fn join(importance: f64, bytes: f64, deadline: f64) -> Result<Contest> {
        let pid = std::process::id();
        let start = look::start_of(pid as i32).context("/proc does not say when this process began")?;
        let options = MapOptions { entries: ENTRIES, ..MapOptions::default() };
        let map = Map::open_or_create(NAME, &options).context("pipelines with an importance meet in a map")?;
        let mut jobs = Jobs::new(1.0);
        jobs.add(importance, bytes, deadline);
        let quota = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        // Less than the processors that it may use: the control group's.
        let is_less = kernel::cpus(0).is_some_and(|cpus| quota < count(&cpus));
        let quota = if is_less { quota } else { f64::INFINITY };
        Ok(Contest { key: [pid.into(), start], map, jobs, quota, cpus: kernel::cpus, ends: None, ended: None })
    }

    /// So far it is after so many seconds, has used so many of a processor, and can use so many at once. Whether it is to end now.
    ///
    /// # Errors
    /// The map was removed, or is full.
    pub fn look(&mut self, at: f64, used: f64, bytes: f64, width: f64) -> Result<bool> {
        self.jobs.set_width(0, width);
        // What is idle elsewhere it cannot get.
        let own = (self.cpus)(self.key[0] as i32);
        if let Some(idle) = own.and_then(|own| chappe::topology::idle(|number| kernel::has(&own, number))) {
            self.jobs.idle(at, idle);
        }
        if self.ended.is_none()
            && let Some(sum) = self.would_end(at, used, bytes, look::now())?
            && self.ends_now()?
        {
            self.ended = Some(sum);
        }
        Ok(self.ended.is_some())
    }

    /// Says what it needs, and reads what the others do: whether it is the one to end, and what all need.
    fn would_end(&mut self, at: f64, used: f64, bytes: f64, now: Duration) -> Result<Option<f64>> {
        self.jobs.progress(0, at, used, bytes);
        let Some(own) = self.jobs.need(0, at) else { return Ok(None) };
        // I1: before the others are read.
        self.ends = self.map.get(&ENDS)?;
        let cpus = |key: Key| (self.cpus)(key[0] as i32);
        let Some(own_cpus) = cpus(self.key) else { return Ok(None) };
        let mut all = BTreeMap::from([(self.key, (own, own_cpus))]);
        for entry in self.map.iter()? {
            let (key, what) = entry?;
            if key == self.key || key == ENDS {
                continue;
            }
            if !lives(key) {
                self.map.remove(&key)?;
            } else if let (Some(need), Some(cpus)) = (need(what, now), cpus(key)) {
                all.insert(key, (need, cpus)); // I2.
            }
        }
        // Behind the dead, which may have filled the map.
        self.map.insert(&self.key, &said(own, now))?;
        let (keys, all): (Vec<Key>, Vec<(Need, Cpus)>) = beside(self.key, all).into_iter().unzip();
        let (needs, cpus): (Vec<Need>, Vec<Cpus>) = all.into_iter().unzip();
        let last = excess_where(&needs, self.jobs.idle_processors(), |some, doubt| fit(&cpus, some, self.quota, doubt));
        Ok(last.filter(|(last, _)| keys[*last] == self.key).map(|(_, sum)| sum))
    }

    /// It ends, unless another one has ended since it has read the others (I1).
    fn ends_now(&self) -> Result<bool> {
        self.leave();
        self.count_end(self.ends)
    }

    /// Changes the count of ends, unless somebody has since it was this.
    fn count_end(&self, ends: Option<Said>) -> Result<bool> {
        let next = [ends.map_or(1, |ends| ends[0].wrapping_add(1)), 0, 0, 0, 0, 0];
        Ok(self.map.compare_exchange(&ENDS, ends.as_ref(), Some(&next))?.is_ok())
    }

    fn leave(&self) {
        // A map that was removed has no entries.
        let _ = self.map.remove(&self.key);
    }
}

impl Drop for Contest {
    fn drop(&mut self) {
        self.leave();
        // I1: those that have read its entry look again. Where somebody else is faster they do so for that.
        if let Ok(ends) = self.map.get(&ENDS) {
            let _ = self.count_end(ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All on the same two processors, of which the control group leaves one.
    fn same(_: i32) -> Option<Cpus> {
        let mut set = Cpus::default();
        set[0] = 0b11;
        Some(set)
    }

    fn contest(key: Key, importance: f64, map: &Map<Key, Said>) -> Contest {
        let mut jobs = Jobs::new(1.0);
        jobs.add(importance, 1000.0, 100.0);
        Contest { key, map: map.clone(), jobs, quota: 1.0, cpus: same, ends: None, ended: None }
    }

    fn map() -> Map<Key, Said> {
        Map::private(&MapOptions { entries: 8, ..MapOptions::default() }).unwrap()
    }

    /// This process and the one that began it: two that live.
    fn living() -> [Key; 2] {
        [std::process::id(), std::os::unix::process::parent_id()]
            .map(|pid| [pid.into(), look::start_of(pid as i32).unwrap()])
    }

    /// Two that use half of a processor each, and need 70 s of it, in virtual time: which of them has ended when.
    fn pair(importance: [f64; 2], each: f64) -> [Option<f64>; 2] {
        let map = map();
        let keys = living();
        let mut two = [0, 1].map(|at| contest(keys[at], importance[at], &map));
        let mut ended = [None; 2];
        for second in 1..100 {
            let (at, used) = (f64::from(second), f64::from(second) * 0.5);
            for one in 0..2 {
                if ended[one].is_none() && two[one].look(at, used, used / each, 4.0).unwrap() {
                    ended[one] = Some(at);
                }
            }
        }
        ended
    }

    /// What nobody has told.
    const NEED: Need = Need { importance: 9.0, load: 0.9, doubt: 0.0, width: 4.0, gets: f64::INFINITY };

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
    fn of_two_that_read_each_other_at_once_one_ends() {
        let (map, keys) = (map(), living());
        let mut two = keys.map(|key| contest(key, 1.0, &map));
        let now = Duration::from_secs(100);
        for second in 1..20 {
            let (at, used) = (f64::from(second), f64::from(second) * 0.5);
            // Each finds in the map what the other one said a moment ago, when it needed less than it does now.
            let less = said(Need { importance: 1.0, load: 0.6, ..NEED }, now);
            let mut ends = [false; 2];
            for one in 0..2 {
                map.insert(&keys[1 - one], &less).unwrap();
                ends[one] = two[one].would_end(at, used, used / 0.07, now).unwrap().is_some();
            }
            if second > 15 {
                assert_eq!(ends, [true; 2]);
                assert_eq!([two[0].ends_now().unwrap(), two[1].ends_now().unwrap()], [true, false]);
                // The other one looks again, and is alone.
                assert_eq!(two[1].would_end(at, used, used / 0.07, now).unwrap(), None);
                return;
            }
        }
    }

    #[test]
    fn a_pipeline_that_has_finished_ends_no_other_one() {
        let (map, [own, other]) = (map(), living());
        let (mut one, more) = (contest(own, 1.0, &map), contest(other, 9.0, &map));
        let now = Duration::from_secs(100);
        map.insert(&other, &said(NEED, now)).unwrap();
        let mut ends = |k: u32| one.would_end(f64::from(k), f64::from(k) * 0.5, f64::from(k) * 7.0, now).unwrap();
        assert!((1..40).any(|k| ends(k).is_some()));
        drop(more);
        assert!(!one.ends_now().unwrap());
        assert!((40..60).all(|k| one.would_end(f64::from(k), 20.0, 280.0, now).unwrap().is_none()));
    }

    #[test]
    fn one_that_has_not_looked_for_long_counts_nothing_until_it_looks() {
        let (map, [own, other]) = (map(), living());
        let at = Duration::from_secs(50);
        map.insert(&other, &said(NEED, at)).unwrap();
        let mut one = contest(own, 1.0, &map);
        let mut ends = |k: u32, after: Duration| {
            let used = f64::from(k) * 0.5;
            one.would_end(f64::from(k), used, used / 0.07, at + after).unwrap().is_some()
        };
        assert!((1..40).all(|k| !ends(k, AGE + Duration::from_nanos(1))));
        assert!(ends(40, AGE));
        assert_eq!(map.len(), 2, "it has not died");
    }

    #[test]
    fn only_those_count_that_share_processors() {
        fn apart(pid: i32) -> Option<Cpus> {
            let mut set = Cpus::default();
            set[0] = if pid == std::process::id() as i32 { 0b01 } else { 0b10 };
            Some(set)
        }
        fn overlapping(pid: i32) -> Option<Cpus> {
            let mut set = Cpus::default();
            set[0] = if pid == std::process::id() as i32 { 0b01 } else { 0b11 };
            Some(set)
        }
        // 0.7 or so of a processor is needed here, and by the other one so much.
        for (cpus, load, ends) in [
            (apart as fn(i32) -> Option<Cpus>, 0.9, false),
            (overlapping, 0.9, false),
            (overlapping, 1.6, true),
            (same, 0.9, false),
        ] {
            let (map, [own, other]) = (map(), living());
            let mut one = contest(own, 1.0, &map);
            (one.cpus, one.quota) = (cpus, f64::INFINITY);
            let now = Duration::from_secs(50);
            map.insert(&other, &said(Need { load, ..NEED }, now)).unwrap();
            let mut ended = false;
            for k in 1..40 {
                let used = f64::from(k) * 0.5;
                ended |= one.would_end(f64::from(k), used, used / 0.07, now).unwrap().is_some();
            }
            assert_eq!(ended, ends, "{load}");
        }
    }

    /// By its definition: every set of processors, of so many.
    fn searched(all: &[(Need, Cpus)], cpus: u32) -> bool {
        (1..1u64 << cpus).all(|set| {
            let load: f64 = all.iter().filter(|(_, of)| of[0] & !set == 0).map(|(need, _)| need.load).sum();
            load <= f64::from(set.count_ones())
        })
    }

    #[test]
    fn jobs_fit_where_a_search_through_all_sets_of_processors_says_so() {
        let mut random = 45u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) % n
        };
        let mut fitted = [0; 2];
        for _ in 0..5_000 {
            let all: Vec<(Need, Cpus)> = (0..1 + below(6))
                .map(|_| {
                    let mut cpus = Cpus::default();
                    cpus[0] = 1 + below(15);
                    // Eighths: sums have no error, and come out even.
                    (Need { load: below(12) as f64 / 8.0, ..NEED }, cpus)
                })
                .collect();
            let some: Vec<(usize, Need)> = all.iter().map(|(need, _)| *need).enumerate().collect();
            let cpus: Vec<Cpus> = all.iter().map(|(_, cpus)| *cpus).collect();
            let fits = fit(&cpus, &some, f64::INFINITY, false);
            assert_eq!(fits, searched(&all, 4), "{all:?}");
            fitted[usize::from(fits)] += 1;
        }
        assert!(fitted.iter().all(|n| *n > 500), "{fitted:?}");
    }

    #[test]
    fn beyond_the_limit_of_sets_each_jobs_own_set_and_that_of_all_still_count() {
        // Each may use a processor and the next one: more unions than are looked at.
        let jobs = 20;
        let cpus: Vec<Cpus> = (0..jobs)
            .map(|at| {
                let mut set = Cpus::default();
                set[0] = 1 << at | 1 << ((at + 1) % jobs);
                set
            })
            .collect();
        let fits = |load: &dyn Fn(usize) -> f64| {
            let need = |at| Need { load: load(at), ..NEED };
            fit(&cpus, &(0..jobs).map(|at| (at, need(at))).collect::<Vec<_>>(), f64::INFINITY, false)
        };
        assert!(fits(&|_| 1.0));
        assert!(!fits(&|_| 1.0625), "they need 21.25 of 20 processors");
        assert!((0..jobs).all(|most| !fits(&|at| if at == most { 2.25 } else { 0.25 })), "one needs 2.25 of two");
    }

    #[test]
    fn an_entry_of_a_process_that_has_died_counts_nothing_and_goes() {
        let map = map();
        let [own, _] = living();
        let dead = |k: u64| [own[0], own[1] + 1 + k];
        let what = said(NEED, look::now());
        map.insert(&dead(0), &what).unwrap();
        let mut one = contest(own, 1.0, &map);
        assert!((1..90).all(|k| !one.look(f64::from(k), f64::from(k) * 0.5, f64::from(k) * 7.0, 4.0).unwrap()));
        assert_eq!(map.len(), 1);
        drop(one);
        assert!(map.len() == 1 && map.get(&ENDS).unwrap().is_some());
        // As many as there is room for.
        assert!((0..).any(|k| map.insert(&dead(k), &what).is_err()) && map.len() >= 8);
        let mut one = contest(own, 1.0, &map);
        assert!((1..20).all(|k| !one.look(f64::from(k), f64::from(k) * 0.5, f64::from(k) * 7.0, 4.0).unwrap()));
        assert_eq!(map.len(), 2);
    }
}
