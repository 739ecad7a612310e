//! Jobs with deadlines that share processors: which of them is ended early, when not all can be done in time (synthesis, 6.4.2).
//!
//! "If we have two jobs, A and B, with Estimate(A) + Estimate(B) > 1 then we may want to consider aborting the less important one and calling a short
//! emergency routine to recover." A job's estimate is here the part of a processor that it needs until its deadline: the strips that are left times
//! what a strip takes of a processor, as it was measured, by the time that is left. The sum counts as too much when it is above what there is by more
//! than the spread of the measurements can explain.
//!
//! - I1: a job is ended only for one at least as important that can be done in time without it, and not beside it. A job that needs more than all processors,
//!   or more than its threads can use at once (one that is late needs without bound), is hopeless: nothing is ended for it, and what it needs turns no
//!   other one out. It takes no more than its threads can use.
//!   Nor is it ended for one that would be late all the same, since others have the processors: one that needs more than it has, and all that less
//!   important jobs have, and what is idle.
//! - I2: a job whose measurements are fewer than ten counts as needing nothing.

use crate::Estimate;
use crate::estimate::KEPT;

/// How fast a sum has grown lately.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    /// The last look: when, and the sum.
    last: Option<(f64, f64)>,
    /// Weights: what was added counts for less the older it is.
    time: f64,
    more: f64,
}

impl Lately {
    fn next(&mut self, now: f64, sum: f64) {
        if let Some((then, before)) = self.last.replace((now, sum))
            && now > then
        {
            self.time = KEPT * self.time + (now - then);
            self.more = KEPT * self.more + (sum - before).max(0.0);
        }
    }

    /// A second; infinity: nobody knows yet.
    fn rate(&self) -> f64 {
        if self.time > 0.0 { self.more / self.time } else { f64::INFINITY }
    }
}

/// Whether these can have what they need, as far as one can tell, when so many processors are freed or idle: no scheduler gives them more than that and what
/// they have.
fn can_get(some: &[(usize, Need)], freed: f64) -> bool {
    let has: f64 = some.iter().map(|(_, need)| need.gets).sum();
    within(has + freed, some.iter().map(|(_, need)| need), true)
}

/// One job.
#[derive(Clone, Copy, Debug)]
struct Job {
    importance: f64,
    deadline: f64,
    width: f64,
    /// Its strips by the processor time that it has used.
    work: Estimate,
    used: f64,
    gets: Lately,
    is_over: bool,
}

impl Job {
    fn need(&self, now: f64) -> Option<Need> {
        let left = (self.work.end()? - self.used).max(0.0);
        let doubt = self.work.doubt();
        if self.is_over || !doubt.is_finite() {
            return None;
        }
        let time = self.deadline - now;
        let load = if time > 0.0 { left / time } else { f64::INFINITY };
        let doubt = if load.is_finite() { load * doubt } else { 0.0 };
        Some(Need { importance: self.importance, load, doubt, width: self.width, gets: self.gets.rate() })
    }
}

/// What a job needs at a moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Need {
    /// How important it is.
    pub importance: f64,
    /// The part of a processor that it needs until its deadline.
    pub load: f64,
    /// How far that may be off.
    pub doubt: f64,
    /// So many processors its threads can use at once.
    pub width: f64,
    /// So many it has had lately.
    pub gets: f64,
}

/// Which of these jobs is to be ended on so many processors, if they need more than there is, and what those need that are kept and this one.
///
/// From the most important one down each job is kept that can be done in time beside those that are kept already; of equally important ones first the one
/// that needs least, and of those the last. The answer is the least important job that is not kept, if one above it is (I1). So many processors are
/// idle, of those that the jobs may use (infinity: nobody knows it).
pub fn excess(processors: f64, idle: f64, needs: &[Need]) -> Option<(usize, f64)> {
    excess_where(needs, idle, |some, doubt| within(processors, some.iter().map(|(_, need)| need), doubt))
}

/// Whether so many processors do all of these in time, for all that is known, or (`doubt`) as far as one can tell.
pub fn within<'a>(processors: f64, needs: impl Iterator<Item = &'a Need>, doubt: bool) -> bool {
    let add = |(load, square), need: &Need| (load + need.load, square + need.doubt * need.doubt);
    let (load, square) = needs.fold((0.0, 0.0), add);
    load <= processors + if doubt { f64::sqrt(square) } else { 0.0 }
}

/// As [`excess`], where not all jobs may use the same processors: `fits` says whether some of them, with their numbers, can be done in time together, as
/// [`within`] does.
pub fn excess_where(needs: &[Need], idle: f64, fits: impl Fn(&[(usize, Need)], bool) -> bool) -> Option<(usize, f64)> {
    let mut ranked: Vec<(usize, Need)> = needs.iter().copied().enumerate().collect();
    ranked
        .sort_by(|(i, a), (j, b)| b.importance.total_cmp(&a.importance).then(a.load.total_cmp(&b.load)).then(j.cmp(i)));
    // Those that are kept; whether one of them gains by an end.
    let (mut kept, mut gains, mut last) = (Vec::with_capacity(needs.len()), false, None);
    for (rank, &(at, need)) in ranked.iter().enumerate() {
        let is_hopeless = need.load > need.width + need.doubt || !fits(&[(at, need)], true);
        // Where it would need more there is no doubt what it takes.
        let takes = if need.load > need.width { Need { load: need.width, doubt: 0.0, ..need } } else { need };
        kept.push((at, takes));
        if !fits(&kept, true) && gains {
            last = Some((at, need.load));
        }
        if is_hopeless || !fits(&kept, true) {
            kept.pop();
        } else {
            let freed: f64 = ranked[rank + 1..].iter().map(|(_, need)| need.gets).sum();
            gains |= need.load <= need.width && fits(&[(at, need)], false) && can_get(&kept, freed + idle);
        }
    }
    last.map(|(at, load)| (at, kept.iter().map(|(_, need)| need.load).sum::<f64>() + load))
}

/// So many processors, in words: a job that is late would need without bound.
pub fn in_words(needed: f64) -> String {
    if needed.is_finite() { format!("{needed:.2} processors") } else { "more processors than there can be".to_owned() }
}

/// Follows jobs that share processors. Times are seconds of one clock.
///
/// ```
/// use chappe_feedback::Jobs;
///
/// let mut jobs = Jobs::new(1.0); // one processor
/// let (a, b) = (jobs.add(2.0, 100.0, 60.0), jobs.add(1.0, 100.0, 60.0)); // 100 strips each, within a minute
/// let mut ended = None;
/// for second in 1..=20 {
///     // Each has half of the processor, and does a strip a second: it needs 50 s of the processor.
///     for job in [a, b] {
///         jobs.progress(job, f64::from(second), f64::from(second) * 0.5, f64::from(second));
///     }
///     ended = ended.or(jobs.excess(f64::from(second)));
/// }
/// assert_eq!(ended.map(|(job, _)| job), Some(b)); // the less important one
/// ```
#[derive(Clone, Debug)]
pub struct Jobs {
    processors: f64,
    /// How long the processors were idle.
    idle: Lately,
    jobs: Vec<Job>,
}

impl Jobs {
    /// None yet, on so many processors.
    pub fn new(processors: f64) -> Jobs {
        Jobs { processors, idle: Lately::default(), jobs: Vec::new() }
    }

    /// There are so many processors.
    pub fn set_processors(&mut self, processors: f64) {
        self.processors = processors;
    }

    /// For so many seconds the processors that the jobs may use were idle until now, together.
    pub fn idle(&mut self, now: f64, seconds: f64) {
        self.idle.next(now, seconds);
    }

    /// So many of them are idle, lately; infinity: nobody has said.
    pub fn idle_processors(&self) -> f64 {
        self.idle.rate()
    }

    /// One more: so important, of so many strips, that is to be done by then. Answers its number.
    pub fn add(&mut self, importance: f64, strips: f64, deadline: f64) -> usize {
        let work = Estimate::new(strips, f64::INFINITY);
        self.jobs.push(Job {
            importance,
            deadline,
            width: f64::INFINITY,
            work,
            used: 0.0,
            gets: Lately::default(),
            is_over: false,
        });
        self.jobs.len() - 1
    }

    /// A job's threads can use so many processors at once; before it is said, as many as there are.
    pub fn set_width(&mut self, job: usize, processors: f64) {
        self.jobs[job].width = processors;
    }

    /// A job has used so many seconds of a processor in all until now, and done so many strips.
    pub fn progress(&mut self, job: usize, now: f64, used: f64, done: f64) {
        let job = &mut self.jobs[job];
        job.used = used;
        job.gets.next(now, used);
        job.work.progress(used, done);
    }

    /// A job has ended, or was ended.
    pub fn over(&mut self, job: usize) {
        self.jobs[job].is_over = true;
    }

    /// What a job needs; nothing before it is known, or when it is over.
    pub fn need(&self, job: usize, now: f64) -> Option<Need> {
        self.jobs[job].need(now)
    }

    /// The job that is to be ended, and what is needed, by [`excess`]. It counts as over from now on.
    pub fn excess(&mut self, now: f64) -> Option<(usize, f64)> {
        let known = self.jobs.iter().enumerate().filter_map(|(at, job)| Some((at, job.need(now)?)));
        let (numbers, needs): (Vec<usize>, Vec<Need>) = known.unzip();
        let (last, sum) = excess(self.processors, self.idle_processors(), &needs)?;
        self.over(numbers[last]);
        Some((numbers[last], sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    /// A job of the simulation: strips, seconds of a processor for each (with this noise), and its deadline.
    #[derive(Clone, Copy)]
    struct Told {
        strips: f64,
        each: f64,
        noise: f64,
        deadline: f64,
    }

    struct Ran {
        /// When each was done.
        ends: [f64; 2],
        /// When one was ended first, and which.
        ended: Option<(f64, usize)>,
    }

    /// Two jobs on one processor in virtual time, a hundred looks a deadline. The processor is shared as fine-grain scheduling does it: each has what it needs
    /// until its deadline, and what is left over or missing is shared alike.
    fn simulated(random: &mut Random, told: [Told; 2], ends_one: bool) -> Ran {
        let mut jobs = Jobs::new(1.0);
        let numbers = [0, 1].map(|at| jobs.add(2.0 - at as f64, told[at].strips, told[at].deadline));
        let (mut used, mut done, mut ends, mut ended) = ([0.0; 2], [0.0; 2], [f64::INFINITY; 2], None);
        let step = told[0].deadline.min(told[1].deadline) / 100.0;
        let mut now = 0.0;
        while now < 4.0 * told[0].deadline.max(told[1].deadline) {
            let live = |at: usize| ends[at].is_infinite() && !(ends_one && ended.is_some_and(|(_, who)| who == at));
            if !live(0) && !live(1) {
                break;
            }
            let needs = [0, 1].map(|at| {
                let left = (told[at].strips - done[at]) * told[at].each / (told[at].deadline - now).max(step);
                if live(at) { left.max(1e-9) } else { 0.0 }
            });
            now += step;
            for at in 0..2 {
                let time = step * needs[at] / (needs[0] + needs[1]);
                if time <= 0.0 {
                    continue;
                }
                used[at] += time;
                done[at] += time / told[at].each * (1.0 + random.within(-told[at].noise, told[at].noise));
                jobs.progress(numbers[at], now, used[at], done[at].min(told[at].strips));
                if done[at] >= told[at].strips {
                    ends[at] = now;
                    jobs.over(numbers[at]);
                }
            }
            jobs.idle(now, 0.0);
            ended = ended.or(jobs.excess(now).map(|(who, _)| (now, who)));
        }
        Ran { ends, ended }
    }

    fn pair(random: &mut Random, least: f64, most: f64) -> [Told; 2] {
        let sum = random.within(least, most);
        let first = random.within(0.2, 0.8) * sum;
        let noise = random.within(0.0, 0.6);
        [first, sum - first].map(|load| {
            let deadline = random.within(80.0, 120.0);
            Told { strips: 10_000.0, each: load * deadline / 10_000.0, noise, deadline }
        })
    }

    #[test]
    fn the_less_important_job_is_ended_early_and_hardly_ever_without_need() {
        let mut random = Random::new(45);
        let (mut in_time, mut false_alarms, mut too_much, mut ended, mut early, mut saved) = (0, 0, 0, 0, 0, 0);
        for _ in 0..3_000 {
            let told = pair(&mut random, 0.5, 1.6);
            // Left alone.
            let ran = simulated(&mut random, told, false);
            let both = ran.ends[0] <= told[0].deadline && ran.ends[1] <= told[1].deadline;
            let load = [0, 1].map(|at| told[at].each * told[at].strips / told[at].deadline);
            if both {
                in_time += 1;
                false_alarms += u32::from(ran.ended.is_some());
            } else if load[0] + load[1] > 1.1 && load[0] < 0.9 {
                let ran = simulated(&mut random, told, true);
                too_much += 1;
                if let Some((at, who)) = ran.ended {
                    assert_eq!(who, 1, "the less important one");
                    ended += 1;
                    early += u32::from(at <= 0.8 * told[0].deadline.min(told[1].deadline));
                    saved += u32::from(ran.ends[0] <= told[0].deadline);
                }
            }
        }
        println!(
            "false alarms {false_alarms} of {in_time}; ended {ended}, a fifth of the time before {early}, the other saved {saved}, of {too_much}"
        );
        assert!(in_time > 500 && too_much > 500, "{in_time} {too_much}");
        assert!(false_alarms * 100 <= in_time, "{false_alarms} of {in_time}");
        let nearly_all = |n: u32| f64::from(n) >= 0.99 * f64::from(too_much);
        assert!(nearly_all(ended) && nearly_all(early) && nearly_all(saved), "{ended} {early} {saved} of {too_much}");
    }

    #[test]
    fn a_hopeless_job_ends_no_other_one() {
        let mut random = Random::new(7);
        let job = |load: f64| Told { strips: 10_000.0, each: load * 0.01, noise: 0.2, deadline: 100.0 };
        assert_eq!(simulated(&mut random, [job(1.5), job(0.3)], false).ended, None);
        // One that cannot be done is ended for one that can.
        assert_eq!(simulated(&mut random, [job(0.3), job(1.5)], false).ended.map(|(_, who)| who), Some(1));
        // Alone it is late, and no contest.
        let mut jobs = Jobs::new(1.0);
        let one = jobs.add(1.0, 1000.0, 10.0);
        (1..=20).for_each(|k| jobs.progress(one, f64::from(k) * 0.1, f64::from(k) * 0.1, f64::from(k)));
        assert_eq!(jobs.excess(2.0), None);
        assert!(jobs.need(one, 2.0).unwrap().load > 1.0);
    }

    /// By all sets of jobs: the best of those that can be done together has the most important jobs. Of the others the least important one is ended, if
    /// one of the set is as important and is not done in time beside it.
    fn searched(processors: f64, needs: &[Need]) -> Option<usize> {
        let before = |i: usize, j: usize| {
            let key = |at: usize| (-needs[at].importance, needs[at].load, -(at as f64));
            key(i).partial_cmp(&key(j)).unwrap()
        };
        let mut order: Vec<usize> = (0..needs.len()).collect();
        order.sort_by(|i, j| before(*i, *j));
        let has = |set: u32, at: usize| set >> at & 1 == 1;
        let takes = |at: usize| needs[at].load.min(needs[at].width);
        let load = |set: u32| (0..needs.len()).filter(|at| has(set, *at)).map(takes).sum::<f64>();
        let can = |set: u32| (0..needs.len()).all(|at| !has(set, at) || needs[at].load <= needs[at].width);
        let sets = (0..1u32 << needs.len()).filter(|set| can(*set) && load(*set) <= processors);
        let best = sets.max_by_key(|set| order.iter().map(|at| has(*set, *at)).collect::<Vec<_>>()).unwrap();
        let ends = |j: &usize| {
            let above: u32 = order.iter().take_while(|i| *i != j).map(|i| 1 << i).sum::<u32>() & best;
            !has(best, *j) && above != 0 && load(above | 1 << j) > processors
        };
        order.iter().rev().copied().find(ends)
    }

    const NEED: Need = Need { importance: 0.0, load: 0.0, doubt: 0.0, width: f64::INFINITY, gets: f64::INFINITY };

    fn needs(told: &[(f64, f64)]) -> Vec<Need> {
        let need = |(importance, load): &(f64, f64)| Need { importance: *importance, load: *load, width: 4.0, ..NEED };
        told.iter().map(need).collect()
    }

    #[test]
    fn of_many_jobs_one_is_ended_only_where_a_more_important_one_gains() {
        let late = f64::INFINITY;
        for (processors, told, ended) in [
            // Beside a hopeless job the others have room, and it ends none.
            (1.0, &[(3.0, 1.5), (2.0, 0.3), (1.0, 0.1)][..], None),
            (1.0, &[(3.0, late), (2.0, 0.3), (1.0, 0.1)], None),
            (1.0, &[(3.0, late), (2.0, 0.3), (1.0, 0.8)], Some(2)),
            (1.0, &[(2.0, 0.3), (1.0, late)], Some(1)),
            // By the end of the one that is nearly done nobody gains.
            (1.0, &[(3.0, 0.9), (2.0, 0.9), (1.0, 0.0001)], Some(1)),
            // One of several processes.
            (4.0, &[(2.0, 3.5), (1.0, 2.0)], Some(1)),
        ] {
            let found = excess(processors, f64::INFINITY, &needs(told));
            assert_eq!(found.map(|(at, _)| at), ended, "{told:?}");
        }
    }

    #[test]
    fn no_job_is_ended_for_one_that_others_keep_from_its_time() {
        let need = |importance, load, gets| Need { importance, load, gets, ..NEED };
        let ended = |idle, all: &[Need]| excess(2.0, idle, all).map(|(at, _)| at);
        // Three get a fifth of a processor each of two, and need two thirds each and more: without both others one would have three fifths.
        let three = [3.0, 2.0, 1.0].map(|importance| need(importance, 0.7, 0.2));
        assert_eq!(ended(0.0, &three), None);
        // Alone with each other one is enough.
        let alone = three.map(|one| Need { gets: 2.0 / 3.0, ..one });
        assert_eq!((ended(0.0, &alone), ended(0.0, &alone[..2])), (Some(2), None));
        // What is idle can be had, too.
        assert_eq!(ended(1.0, &three), Some(2));
        // One that can do with what is there is a reason.
        let small = need(2.0, 0.3, 0.25);
        assert_eq!(ended(0.0, &[small, need(1.0, 1.8, 0.25)]), Some(1));
        assert_eq!(ended(0.0, &[Need { load: 0.6, ..small }, need(1.0, 1.8, 0.25)]), None);
        // So far as one can tell.
        assert_eq!(ended(0.0, &[Need { load: 0.6, doubt: 0.3, ..small }, need(1.0, 2.8, 0.25)]), Some(1));
        // One that is late whatever ends keeps what it has.
        for (gets, found) in [(2.0 / 3.0, Some(2)), (0.3, None)] {
            let late = Need { width: 1.0, ..need(3.0, f64::INFINITY, 2.0 / 3.0) };
            assert_eq!(ended(0.0, &[late, need(2.0, 0.9, gets), need(1.0, 1.2, gets)]), found, "{gets}");
        }
    }

    #[test]
    fn a_job_takes_no_more_than_its_threads_can_use_and_needs_more_in_vain() {
        let need = |importance, load, width| Need { importance, load, width, ..NEED };
        let excess = |processors, all: &[Need]| excess(processors, f64::INFINITY, all);
        // One thread on four processors: nothing is ended for it, and it leaves three to others.
        let alone = need(2.0, 1.5, 1.0);
        assert_eq!(excess(4.0, &[alone, need(1.0, 3.0, 4.0)]), None);
        assert_eq!(excess(4.0, &[alone, need(1.0, 3.5, 4.0)]), None);
        assert_eq!(excess(4.0, &[need(2.0, 2.0, 4.0), need(1.0, f64::INFINITY, 1.0)]), None);
        let (at, needed) = excess(4.0, &[need(2.0, 3.5, 4.0), need(1.0, f64::INFINITY, 1.0)]).unwrap();
        assert_eq!((at, in_words(needed).as_str()), (1, "more processors than there can be"));
        // However little is known of what it needs.
        let vast = Need { doubt: 1e5, ..need(1.0, 1e6, 1.0) };
        assert_eq!(excess(1.0, &[need(2.0, 0.25, 1.0), vast]).map(|(at, _)| at), Some(1));
        assert_eq!(excess(2.0, &[need(2.0, 0.25, 1.0), vast]), None);
        // What a late one needs that stays is none of what is told.
        let needed = excess(1.0, &[need(3.0, f64::INFINITY, 1.0), need(2.0, 0.5, 1.0), need(1.0, 0.75, 1.0)]);
        assert_eq!(needed.map(|(at, needed)| (at, in_words(needed))), Some((2, "1.25 processors".to_owned())));
    }

    #[test]
    fn the_job_that_is_ended_is_the_one_that_a_search_through_all_sets_finds() {
        let mut random = Random::new(6);
        let (mut ended, mut left) = (0, 0);
        let excess = |processors, all: &[Need]| excess(processors, f64::INFINITY, all);
        for _ in 0..20_000 {
            let processors = [1.0, 2.0, 4.0][(random.any() % 3) as usize];
            // Eighths: sums have no error, and come out even.
            let told: Vec<(f64, f64)> = (0..random.any() % 7)
                .map(|_| {
                    let load = (random.any() % 10) as f64 / 8.0 * processors;
                    ((random.any() % 4) as f64, if load > 1.1 * processors { f64::INFINITY } else { load })
                })
                .collect();
            let mut all = needs(&told);
            all.iter_mut().for_each(|need| need.width = [1.0, 4.0][(random.any() % 2) as usize]);
            let found = excess(processors, &all);
            assert_eq!(found.map(|(at, _)| at), searched(processors, &all), "{processors}: {told:?}");
            ended += u32::from(found.is_some());
            left += u32::from(found.is_none());
            // One end after the other, until all that can be done fit.
            let mut rest = all;
            while let Some((at, _)) = excess(processors, &rest) {
                rest.remove(at);
            }
            let can = |need: &&Need| need.load <= processors.min(need.width);
            let sum: f64 = rest.iter().filter(can).map(|need| need.load).sum();
            assert!(sum <= processors, "{processors}: {told:?}");
        }
        assert!(ended > 1000 && left > 1000, "{ended} {left}");
    }

    #[test]
    fn a_job_without_measurements_counts_nothing() {
        let mut jobs = Jobs::new(1.0);
        let (a, b) = (jobs.add(2.0, 1e9, 10.0), jobs.add(1.0, 1e9, 10.0));
        for k in 1..=9 {
            [a, b].into_iter().for_each(|job| jobs.progress(job, f64::from(k), f64::from(k), f64::from(k)));
            assert_eq!(jobs.excess(f64::from(k)), None);
        }
        assert_eq!(jobs.need(a, 9.0), None);
    }
}
