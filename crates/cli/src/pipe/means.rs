//! By which means a stage gets its share of a processor: the best that is permitted, and the next when that is refused.
//!
//! | means | what the system does | needs |
//! |---|---|---|
//! | [`Kind::Deadline`] | so many microseconds in each 4 ms (1 ms of a source), whatever else computes (SCHED_DEADLINE) | CAP_SYS_NICE, all processors allowed |
//! | [`Kind::Weight`] | a control group with a weight | a group in which chappe may make others |
//! | [`Kind::Nice`] | a niceness below zero and a short slice; the slice alone where that is refused | CAP_SYS_NICE or RLIMIT_NICE; nothing |
//! | [`Kind::None`] | nothing | |
//!
//! - A reservation is a task's, and a share is a stage's: it is parted among the stage's tasks by what each of them uses.
//! - All reservations together are at most 95 % of the processors, less what the system keeps for others (EBUSY). A stage that asks for
//!   more gets half of the difference, or keeps what it had.
//! - What is begun by a task with a reservation has none (RESET_ON_FORK): it gets its own when it is seen.
//! - RLIMIT_RTTIME does not bind such tasks: it is of SCHED_FIFO and SCHED_RR alone (tried on Linux 6.18). No task here has these.
//! - A stage's first process has its reservation from exec on ([`First`]): set by itself between fork and exec, of 4 ms or, if it is a source, of
//!   1 ms ([`SOURCE`]).
//! - A task that has a policy of its own (chrt), or takes one in mid-run, is left alone.
//! - A refusal in mid-run is no end: what the stage has goes back, and the next means is tried.
//!
//! M1: a task that was touched is given back as it was ([`Means::give_back`]); if the system does not permit that without RESET_ON_FORK,
//! it keeps that flag, which means nothing to a task of the fair scheduler that has no negative niceness.

use super::group::{Group, Hierarchy, USUAL, weight};
use super::kernel::{Attributes, DEADLINE, Kernel, RESET_ON_FORK};
use std::collections::BTreeMap;
use std::io;

/// Of a reservation, in nanoseconds; the controller looks as often.
pub const PERIOD: u64 = 4_000_000;
/// The same of a source, which waits for a timer or a device and for no pipe. A task that has used up its reservation waits for the period's end, and the
/// earlier a deadline is the sooner the task runs: with 4 ms each of these is four ticks of a kilohertz.
pub const SOURCE: u64 = 1_000_000;
/// The least and the most that a task has of a processor. One that has little may have what is unreserved.
const LEAST: f64 = 0.001;
const MOST: f64 = 0.8;
/// Nanoseconds: the system refuses less.
const SHORTEST: u64 = 1_024;
/// So many tasks of a stage may have reservations.
pub const TASKS: usize = 32;
/// A slice of the fair scheduler that is soon over, and soon comes: nanoseconds.
const SLICE: u64 = 500_000;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// A reservation.
    Deadline,
    /// A group's weight.
    Weight,
    /// A niceness.
    Nice,
    /// An ordinary task.
    None,
}

impl Kind {
    /// For JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Deadline => "deadline",
            Kind::Weight => "weight",
            Kind::Nice => "nice",
            Kind::None => "none",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Deadline => "reservations (SCHED_DEADLINE)",
            Kind::Weight => "a control group's weight",
            Kind::Nice => "niceness and slices",
            Kind::None => "nothing beyond what everybody has",
        }
    }

    fn next(self) -> Kind {
        match self {
            Kind::Deadline => Kind::Weight,
            Kind::Weight => Kind::Nice,
            Kind::Nice | Kind::None => Kind::None,
        }
    }
}

/// A task that is to have a part of a stage's share.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Its process.
    pub pid: i32,
    /// Itself.
    pub tid: i32,
    /// Which part of what the stage uses it uses.
    pub part: f64,
}

/// What a stage's first process gives itself between fork and exec.
#[derive(Clone, Copy, Debug)]
pub struct First {
    before: Attributes,
    tries: [Attributes; 3],
}

impl First {
    /// This share in each `period`; less if there is no more. None where reservations are not wanted, or where a stage inherits a policy that is
    /// not everybody's: then it keeps that.
    pub fn new(kind: Kind, share: f64, period: u64, kernel: &mut dyn Kernel) -> Option<First> {
        let before =
            kernel.attributes(0).ok().filter(|a| kind == Kind::Deadline && a.policy == libc::SCHED_OTHER as u32)?;
        let tries = [share, share / 2.0, LEAST].map(|share| Attributes::reservation(runtime(share, period), period));
        Some(First { before, tries })
    }

    /// Takes it, by `set`. Refused, the process has what everybody has until the controller looks, and that tells why.
    pub fn take(&self, mut set: impl FnMut(&Attributes) -> io::Result<()>) {
        let _ = self.tries.iter().any(|to| set(to).is_ok());
    }
}

fn runtime(share: f64, period: u64) -> u64 {
    ((share.clamp(LEAST, MOST) * period as f64) as u64).max(SHORTEST)
}

/// A task as it was, and as chappe has made it.
struct Touched {
    before: Attributes,
    now: Attributes,
}

impl Touched {
    /// What it has reserved, as nanoseconds of a period of this length.
    fn reserved(&self, period: u64) -> u64 {
        if self.now.policy == DEADLINE { self.now.runtime * period / self.now.period.max(1) } else { 0 }
    }
}

/// Those of one stage.
pub struct Means {
    stage: usize,
    kind: Kind,
    period: u64,
    touched: BTreeMap<i32, Touched>,
    /// The tasks that have a policy of their own.
    alone: Vec<i32>,
    group: Option<Group>,
    grouped: Vec<i32>,
    /// The niceness is refused; slices are not.
    slices_only: bool,
}

/// What came of it.
#[derive(Debug, Default, PartialEq)]
pub struct Given {
    /// The share that the stage has now.
    pub share: f64,
    /// What was refused, and why; the next means has been tried since.
    pub refused: Vec<(Kind, String)>,
}

fn is(e: &io::Error, code: i32) -> bool {
    e.raw_os_error() == Some(code)
}

/// Why, without the system's number.
fn plain(e: &io::Error) -> String {
    e.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

impl Means {
    /// Begins with this one. Its reservations have this period.
    pub fn new(stage: usize, kind: Kind, period: u64) -> Means {
        Means {
            stage,
            kind,
            period,
            touched: BTreeMap::new(),
            alone: Vec::new(),
            group: None,
            grouped: Vec::new(),
            slices_only: false,
        }
    }

    /// What the stage's first process has taken counts as given. Answers the share that it is.
    pub fn adopt(&mut self, tid: i32, first: &First, kernel: &mut dyn Kernel) -> Option<f64> {
        let now = kernel.attributes(tid).ok().filter(|now| first.tries.contains(now))?;
        self.touched.insert(tid, Touched { before: first.before, now });
        Some(now.runtime as f64 / now.period as f64)
    }

    /// The one that is used now.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Gives a stage's tasks this share together.
    pub fn give(&mut self, share: f64, tasks: &[Task], kernel: &mut dyn Kernel) -> Given {
        let mut refused = Vec::new();
        loop {
            let done = match self.kind {
                Kind::Deadline => self.reserve(share, tasks, kernel),
                Kind::Weight => self.weigh(share, tasks, kernel),
                Kind::Nice => self.nice(share, tasks, kernel),
                Kind::None => Ok(share),
            };
            match done {
                Ok(share) => return Given { share, refused },
                Err(why) => {
                    refused.push((self.kind, why));
                    self.fall(kernel);
                }
            }
        }
    }

    /// To the next means, because this one does not do.
    pub fn fall(&mut self, kernel: &mut dyn Kernel) {
        self.give_back(kernel);
        self.kind = self.kind.next();
    }

    /// A task's scheduling before chappe changes it; none if it is gone, or has a policy of its own.
    fn touch(&mut self, tid: i32, kernel: &mut dyn Kernel) -> Option<&mut Touched> {
        if self.alone.contains(&tid) {
            return None;
        }
        let now = kernel.attributes(tid).ok()?;
        // A policy that chappe has not set the task has set itself, before or since.
        let ours = self.touched.get(&tid).map_or(libc::SCHED_OTHER as u32, |t| t.now.policy);
        if now.policy != ours {
            self.touched.remove(&tid);
            self.alone.push(tid);
            return None;
        }
        Some(self.touched.entry(tid).or_insert(Touched { before: now, now }))
    }

    fn reserve(&mut self, share: f64, tasks: &[Task], kernel: &mut dyn Kernel) -> Result<f64, String> {
        if tasks.len() > TASKS {
            return Err(format!("it has {} tasks, and {TASKS} may have reservations", tasks.len()));
        }
        let period = self.period;
        let mut wanted: Vec<(i32, u64)> = Vec::new();
        for task in tasks {
            let Some(touched) = self.touch(task.tid, kernel) else { continue };
            let runtime = runtime(share * task.part, period);
            let has = touched.reserved(period);
            // A change of less than a twentieth is not worth a call.
            if runtime.abs_diff(has) * 20 > has || touched.now.period != period {
                wanted.push((task.tid, runtime));
            }
        }
        // What is given back first may be given to another.
        let has = |me: &Self, tid: i32| me.touched.get(&tid).map_or(0, |t| t.reserved(period));
        wanted.sort_by_key(|(tid, runtime)| *runtime > has(self, *tid));
        for (tid, runtime) in wanted {
            let before = has(self, tid);
            let mut tries = vec![runtime];
            if runtime > before {
                tries.push(before + (runtime - before) / 2);
                if before == 0 {
                    tries.push(self::runtime(LEAST, period));
                }
            }
            for runtime in tries {
                let to = Attributes::reservation(runtime, period);
                match kernel.set_attributes(tid, &to) {
                    Ok(()) => {
                        self.touched.get_mut(&tid).expect("touched above").now = to;
                        break;
                    }
                    Err(e) if is(&e, libc::EBUSY) => {}
                    Err(e) if is(&e, libc::ESRCH) => {
                        self.touched.remove(&tid);
                        break;
                    }
                    Err(e) if is(&e, libc::EPERM) => {
                        return Err(format!(
                            "{}: it needs CAP_SYS_NICE, and that the task may run on all processors",
                            plain(&e)
                        ));
                    }
                    Err(e) => return Err(plain(&e)),
                }
            }
        }
        // A task that is gone has nothing.
        let there: Vec<i32> = tasks.iter().map(|t| t.tid).collect();
        self.touched.retain(|tid, _| there.contains(tid));
        Ok(self.touched.keys().map(|tid| has(self, *tid) as f64 / period as f64).sum())
    }

    fn weigh(&mut self, share: f64, tasks: &[Task], kernel: &mut dyn Kernel) -> Result<f64, String> {
        let mut pids: Vec<i32> = tasks.iter().map(|t| t.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        if self.group.is_none() {
            let first = pids.first().copied().unwrap_or(std::process::id() as i32);
            let hierarchy = Hierarchy::find(first as u32).map_err(|e| plain(&e))?;
            hierarchy.sweep(kernel);
            self.group = Some(hierarchy.make(self.stage, &pids, kernel).map_err(|e| plain(&e))?);
            self.grouped.clone_from(&pids);
        }
        let group = self.group.as_ref().expect("made above");
        // What they start is in it by itself; others are orphans that were found since.
        for pid in pids.iter().filter(|pid| !self.grouped.contains(pid)) {
            group.take(*pid, kernel).map_err(|e| plain(&e))?;
        }
        group.weigh(share, kernel).map_err(|e| plain(&e))?;
        self.grouped = pids;
        Ok(share)
    }

    fn nice(&mut self, share: f64, tasks: &[Task], kernel: &mut dyn Kernel) -> Result<f64, String> {
        // A step of niceness is a quarter of a weight.
        let steps = (weight(share) / USUAL).ln() / 1.25f64.ln();
        for task in tasks {
            let slices_only = self.slices_only;
            let Some(touched) = self.touch(task.tid, kernel) else { continue };
            let nice = (touched.before.nice - steps.round() as i32).clamp(-20, touched.before.nice);
            let to = Attributes::fair(if slices_only { touched.before.nice } else { nice }, SLICE);
            if to == touched.now {
                continue;
            }
            match kernel.set_attributes(task.tid, &to) {
                Ok(()) => touched.now = to,
                Err(e) if is(&e, libc::ESRCH) => drop(self.touched.remove(&task.tid)),
                Err(e) if !slices_only && (is(&e, libc::EPERM) || is(&e, libc::EACCES)) => {
                    self.slices_only = true;
                    return self.nice(share, tasks, kernel);
                }
                Err(e) => return Err(plain(&e)),
            }
        }
        let there: Vec<i32> = tasks.iter().map(|t| t.tid).collect();
        self.touched.retain(|tid, _| there.contains(tid));
        Ok(share)
    }

    /// Whether only slices are shorter, since niceness was refused.
    pub fn has_slices_only(&self) -> bool {
        self.kind == Kind::Nice && self.slices_only
    }

    /// Gives everything back (M1).
    pub fn give_back(&mut self, kernel: &mut dyn Kernel) {
        for (tid, touched) in std::mem::take(&mut self.touched) {
            if touched.now == touched.before {
                continue;
            }
            if touched.now.policy == DEADLINE {
                // Refused, the bandwidth of one that sleeps is lost; the task is not.
                let _ = kernel.set_attributes(tid, &Attributes::least());
            }
            let back = kernel.set_attributes(tid, &touched.before);
            if back.is_err_and(|e| is(&e, libc::EPERM)) {
                let mut kept = touched.before;
                kept.flags |= RESET_ON_FORK;
                // If that is refused, too, nothing more can be done.
                let _ = kernel.set_attributes(tid, &kept);
            }
        }
        if let Some(group) = self.group.take() {
            group.remove(&std::mem::take(&mut self.grouped), kernel);
        }
        self.alone.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::fake::Fake;
    use super::*;

    fn tasks(all: &[(i32, f64)]) -> Vec<Task> {
        all.iter().map(|(tid, part)| Task { pid: *tid, tid: *tid, part: *part }).collect()
    }

    fn share_of(kernel: &Fake, tid: i32) -> f64 {
        let now = kernel.tasks[&tid];
        if now.policy == DEADLINE { now.runtime as f64 / now.period as f64 } else { 0.0 }
    }

    #[test]
    fn a_share_is_parted_among_tasks_and_given_back() {
        let mut kernel = Fake::new(&[1, 2, 3]);
        kernel.tasks.insert(2, Attributes::fair(5, 0));
        let mut means = Means::new(1, Kind::Deadline, PERIOD);
        let given = means.give(0.4, &tasks(&[(1, 0.75), (2, 0.25), (3, 0.0)]), &mut kernel);
        assert!((given.share - 0.401).abs() < 1e-6 && given.refused.is_empty(), "{given:?}");
        assert!((share_of(&kernel, 1) - 0.3).abs() < 1e-6 && (share_of(&kernel, 3) - LEAST).abs() < 1e-6);
        assert_eq!(kernel.tasks[&1].flags & RESET_ON_FORK, RESET_ON_FORK);
        means.give_back(&mut kernel);
        assert_eq!(kernel.tasks[&1], Attributes::fair(0, 0));
        assert_eq!(kernel.tasks[&2], Attributes::fair(5, 0));
        // All of them slept.
        assert_eq!((kernel.leaked, kernel.reserved(0)), (0, 0));
    }

    #[test]
    fn a_stages_own_reservation_counts_as_given_and_is_given_back() {
        let mut kernel = Fake::new(&[0, 1, 2]);
        let first = First::new(Kind::Deadline, 0.25, SOURCE, &mut kernel).unwrap();
        // There was less left than it asked for; another program has chosen the same policy for itself.
        kernel.tasks.insert(1, first.tries[1]);
        kernel.tasks.insert(2, Attributes::reservation(300_000, SOURCE));
        let mut means = Means::new(1, Kind::Deadline, SOURCE);
        assert_eq!([1, 2].map(|tid| means.adopt(tid, &first, &mut kernel)), [Some(0.125), None]);
        kernel.refuses.insert(DEADLINE, libc::EPERM);
        let given = means.give(0.125, &tasks(&[(1, 1.0), (2, 0.0)]), &mut kernel);
        assert_eq!(given, Given { share: 0.125, refused: Vec::new() });
        kernel.refuses.clear();
        means.give_back(&mut kernel);
        assert_eq!((kernel.tasks[&1], kernel.leaked), (Attributes::fair(0, 0), 0));
        assert_eq!(kernel.tasks[&2].runtime, 300_000);
    }

    #[test]
    fn nothing_is_taken_for_another_means_nor_beside_an_inherited_policy() {
        let mut kernel = Fake::new(&[0]);
        assert!(
            [Kind::Weight, Kind::Nice, Kind::None].iter().all(|k| First::new(*k, 0.25, PERIOD, &mut kernel).is_none())
        );
        let mut fifo = Attributes::fair(0, 0);
        fifo.policy = libc::SCHED_FIFO as u32;
        kernel.tasks.insert(0, fifo);
        assert!(First::new(Kind::Deadline, 0.25, PERIOD, &mut kernel).is_none());
    }

    #[test]
    fn a_share_of_another_period_is_rewritten_within_the_systems_limits() {
        let mut kernel = Fake::new(&[0, 1, 2]);
        let first = First::new(Kind::Deadline, 0.2, PERIOD, &mut kernel).unwrap();
        kernel.tasks.insert(1, first.tries[0]);
        let mut means = Means::new(1, Kind::Deadline, SOURCE);
        assert_eq!(means.adopt(1, &first, &mut kernel), Some(0.2));
        means.give(0.2, &tasks(&[(1, 1.0), (2, 0.0)]), &mut kernel);
        let has = |tid| (kernel.tasks[&tid].runtime, kernel.tasks[&tid].period);
        assert_eq!((has(1), has(2)), ((200_000, SOURCE), (SHORTEST, SOURCE)));
    }

    #[test]
    fn no_task_gets_more_than_four_fifths_of_a_processor() {
        let mut kernel = Fake::new(&[1, 2]);
        Means::new(1, Kind::Deadline, PERIOD).give(1.6, &tasks(&[(1, 0.9), (2, 0.1)]), &mut kernel);
        assert_eq!(share_of(&kernel, 1), MOST);
    }

    #[test]
    fn a_share_beyond_the_capacity_is_given_as_far_as_it_goes() {
        let mut kernel = Fake::new(&[1, 2]);
        kernel.most = 500;
        let mut one = Means::new(1, Kind::Deadline, PERIOD);
        let mut two = Means::new(2, Kind::Deadline, PERIOD);
        one.give(0.4, &tasks(&[(1, 1.0)]), &mut kernel);
        // Half of the way from nothing would be too much, too.
        let given = two.give(0.4, &tasks(&[(2, 1.0)]), &mut kernel);
        assert!((given.share - LEAST).abs() < 1e-6 && given.refused.is_empty(), "{given:?}");
        assert_eq!(two.kind(), Kind::Deadline);
        let given = two.give(0.15, &tasks(&[(2, 1.0)]), &mut kernel);
        assert!((given.share - 0.0755).abs() < 1e-3, "{given:?}");
    }

    #[test]
    fn a_refusal_in_mid_run_gives_back_and_goes_on_with_the_next_means() {
        let mut kernel = Fake::new(&[1]);
        let mut means = Means::new(1, Kind::Deadline, PERIOD);
        means.give(0.2, &tasks(&[(1, 1.0)]), &mut kernel);
        assert_eq!(kernel.tasks[&1].policy, DEADLINE);
        kernel.refuses.insert(DEADLINE, libc::EPERM);
        kernel.refuses_groups = true;
        let given = means.give(0.4, &tasks(&[(1, 1.0)]), &mut kernel);
        assert_eq!(means.kind(), Kind::Nice);
        let kinds: Vec<Kind> = given.refused.iter().map(|(k, _)| *k).collect();
        assert_eq!(kinds, [Kind::Deadline, Kind::Weight]);
        assert!(given.refused[0].1.contains("CAP_SYS_NICE"), "{given:?}");
        let now = kernel.tasks[&1];
        assert_eq!((now.policy, now.nice, now.runtime), (0, -17, SLICE));
        means.give_back(&mut kernel);
        assert_eq!(kernel.tasks[&1], Attributes::fair(0, 0));
    }

    #[test]
    fn refused_niceness_leaves_slices_and_refused_slices_leave_nothing() {
        let mut kernel = Fake::new(&[1]);
        kernel.refuses_nice = true;
        let mut means = Means::new(1, Kind::Nice, PERIOD);
        assert!(means.give(0.4, &tasks(&[(1, 1.0)]), &mut kernel).refused.is_empty());
        assert!(means.has_slices_only());
        assert_eq!(kernel.tasks[&1], Attributes::fair(0, SLICE));
        kernel.refuses.insert(0, libc::EINVAL);
        kernel.tasks.insert(2, Attributes::fair(0, 0));
        let given = means.give(0.4, &tasks(&[(2, 1.0)]), &mut kernel);
        assert_eq!((means.kind(), given.refused.len()), (Kind::None, 1));
    }

    #[test]
    fn tasks_with_a_policy_of_their_own_or_ended_are_left_alone() {
        let mut kernel = Fake::new(&[1]);
        let mut fifo = Attributes::fair(0, 0);
        fifo.policy = libc::SCHED_FIFO as u32;
        kernel.tasks.insert(1, fifo);
        for kind in [Kind::Deadline, Kind::Nice] {
            let mut means = Means::new(1, kind, PERIOD);
            let given = means.give(0.4, &tasks(&[(1, 0.5), (9, 0.5)]), &mut kernel);
            assert_eq!((given.refused.len(), means.kind()), (0, kind));
            means.give_back(&mut kernel);
            assert_eq!(kernel.tasks[&1], fifo);
        }
    }

    #[test]
    fn a_task_that_sets_its_own_policy_in_mid_run_keeps_it() {
        let mut kernel = Fake::new(&[1]);
        let mut means = Means::new(1, Kind::Deadline, PERIOD);
        means.give(0.2, &tasks(&[(1, 1.0)]), &mut kernel);
        let mut fifo = Attributes::fair(0, 0);
        fifo.policy = libc::SCHED_FIFO as u32;
        kernel.tasks.insert(1, fifo);
        assert_eq!(means.give(0.4, &tasks(&[(1, 1.0)]), &mut kernel).share, 0.0);
        means.give_back(&mut kernel);
        assert_eq!(kernel.tasks[&1], fifo);
    }

    #[test]
    fn a_crowd_of_tasks_has_a_weight() {
        let all: Vec<(i32, f64)> = (1..=TASKS as i32 + 1).map(|tid| (tid, 0.01)).collect();
        let mut kernel = Fake::new(&all.iter().map(|t| t.0).collect::<Vec<_>>());
        let mut means = Means::new(1, Kind::Deadline, PERIOD);
        let given = means.give(0.4, &tasks(&all), &mut kernel);
        assert!(given.refused[0].1.contains("33 tasks"), "{given:?}");
        assert_ne!(means.kind(), Kind::Deadline);
    }
}
