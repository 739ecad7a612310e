//! Jobs with deadlines that share processors: which of them is ended early, when not all can be done in time (synthesis, 6.4.2).
//!
//! "If we have two jobs, A and B, with Estimate(A) + Estimate(B) > 1 then we may want to consider aborting the less important one and calling a short
//! emergency routine to recover." A job's estimate is here the part of a processor that it needs until its deadline: the strips that are left times
//! what a strip takes of a processor, as it was measured, by the time that is left. The sum counts as too much when it is above what there is by more
//! than the spread of the measurements can explain.
//!
//! - I1: a job is ended only for a more important one that can be done in time without it: nobody gains by the end of one beside a job that needs more than there is.
//! - I2: a job whose measurements are fewer than ten counts as needing nothing.

use crate::Estimate;

/// One job.
#[derive(Clone, Copy, Debug)]
struct Job {
    importance: f64,
    deadline: f64,
    /// Its strips by the processor time that it has used.
    work: Estimate,
    used: f64,
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
        Some(Need { importance: self.importance, load, doubt })
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
}

/// Which of these jobs is to be ended on so many processors, if all together need more than there is, and what they need. Of equally important ones it is
/// the one that needs more, and of those the first.
pub fn excess(processors: f64, needs: &[Need]) -> Option<(usize, f64)> {
    let sum: f64 = needs.iter().map(|need| need.load).sum();
    let doubt = needs.iter().map(|need| need.doubt * need.doubt).sum::<f64>().sqrt();
    if sum <= processors + doubt {
        return None;
    }
    let by_rank = |a: &(usize, &Need), b: &(usize, &Need)| {
        a.1.importance.total_cmp(&b.1.importance).then(b.1.load.total_cmp(&a.1.load))
    };
    let (last, least) = needs.iter().enumerate().min_by(by_rank)?;
    // I1.
    let gains = |(at, need): (usize, &Need)| {
        at != last && need.importance >= least.importance && need.load <= processors.min(1.0)
    };
    needs.iter().enumerate().any(gains).then_some((last, sum))
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
///     // Each has half of the processor, and does 0.7 strips a second: it needs 71 s of the processor.
///     for job in [a, b] {
///         jobs.progress(job, f64::from(second) * 0.5, f64::from(second) * 0.7);
///     }
///     ended = ended.or(jobs.excess(f64::from(second)));
/// }
/// assert_eq!(ended.map(|(job, _)| job), Some(b)); // the less important one
/// ```
#[derive(Clone, Debug)]
pub struct Jobs {
    processors: f64,
    jobs: Vec<Job>,
}

impl Jobs {
    /// None yet, on so many processors.
    pub fn new(processors: f64) -> Jobs {
        Jobs { processors, jobs: Vec::new() }
    }

    /// There are so many processors.
    pub fn set_processors(&mut self, processors: f64) {
        self.processors = processors;
    }

    /// One more: so important, of so many strips, that is to be done by then. Answers its number.
    pub fn add(&mut self, importance: f64, strips: f64, deadline: f64) -> usize {
        let work = Estimate::new(strips, f64::INFINITY);
        self.jobs.push(Job { importance, deadline, work, used: 0.0, is_over: false });
        self.jobs.len() - 1
    }

    /// A job has used so many seconds of a processor in all, and done so many strips.
    pub fn progress(&mut self, job: usize, used: f64, done: f64) {
        let job = &mut self.jobs[job];
        job.used = used;
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

    /// The job that is to be ended, by [`excess`], and what all need. It counts as over from now on.
    pub fn excess(&mut self, now: f64) -> Option<(usize, f64)> {
        let known = self.jobs.iter().enumerate().filter_map(|(at, job)| Some((at, job.need(now)?)));
        let (numbers, needs): (Vec<usize>, Vec<Need>) = known.unzip();
        let (last, sum) = excess(self.processors, &needs)?;
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
                jobs.progress(numbers[at], used[at], done[at].min(told[at].strips));
                if done[at] >= told[at].strips {
                    ends[at] = now;
                    jobs.over(numbers[at]);
                }
            }
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
        (1..=20).for_each(|k| jobs.progress(one, f64::from(k) * 0.1, f64::from(k)));
        assert_eq!(jobs.excess(2.0), None);
        assert!(jobs.need(one, 2.0).unwrap().load > 1.0);
    }

    #[test]
    fn a_job_without_measurements_counts_nothing() {
        let mut jobs = Jobs::new(1.0);
        let (a, b) = (jobs.add(2.0, 1e9, 10.0), jobs.add(1.0, 1e9, 10.0));
        for k in 1..=9 {
            [a, b].into_iter().for_each(|job| jobs.progress(job, f64::from(k), f64::from(k)));
            assert_eq!(jobs.excess(f64::from(k)), None);
        }
        assert_eq!(jobs.need(a, 9.0), None);
    }
}
