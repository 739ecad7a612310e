//! Whether a job will be done in time (synthesis, 6.4.2).
//!
//! `Estimate(J) = strips * ET / (Deadline - Now)`: above 1 the deadline will be missed. The time of a strip need not be known, "since
//! the locked loop measures it". Here the mean and the spread of the last strips are measured, and the job is called late when the estimate is above 1 by
//! more than the spread can explain, or when it is past its deadline.

/// Follows a job towards its deadline. Times are seconds since its begin.
///
/// ```
/// use chappe_feedback::Estimate;
///
/// let mut job = Estimate::new(100.0, 60.0); // 100 strips, a minute
/// for second in 1..30 {
///     job.progress(f64::from(second), f64::from(second) * 1.2);
/// }
/// assert!(job.is_late()); // a quarter of its time has not passed twice, and it will take 83 s
/// assert!((job.end().unwrap() - 83.3).abs() < 1.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    total: f64,
    deadline: f64,
    at: f64,
    done: f64,
    /// Weights: samples count for less the older they are.
    time: f64,
    work: f64,
    /// The mean square of a sample's deviation, in strips.
    spread: f64,
    samples: f64,
    /// By how much it would be late when that was told last.
    told: Option<f64>,
}

/// It is told again when it is twice as late as was told, and by this part of its time.
const WORSE: f64 = 0.05;

/// What a look at the job leaves of the weight of older ones.
pub(crate) const KEPT: f64 = 0.98;

impl Estimate {
    /// A job of so many strips (bytes, records) that is to be done at `deadline`.
    pub fn new(total: f64, deadline: f64) -> Estimate {
        Estimate { total, deadline, at: 0.0, done: 0.0, time: 0.0, work: 0.0, spread: 0.0, samples: 0.0, told: None }
    }

    /// So many strips are done at `now`. Steps of equal length are best.
    pub fn progress(&mut self, now: f64, done: f64) {
        let (time, work) = (now - self.at, (done - self.done).max(0.0));
        if time <= 0.0 {
            return;
        }
        if self.samples > 0.0 {
            let expected = self.rate() * time;
            self.spread = KEPT * self.spread + (work - expected).powi(2);
        }
        self.time = KEPT * self.time + time;
        self.work = KEPT * self.work + work;
        self.samples = KEPT * self.samples + 1.0;
        (self.at, self.done) = (now, done);
    }

    /// The total has become known, or another.
    pub fn set_total(&mut self, total: f64) {
        self.total = total;
    }

    /// Strips a second, lately.
    pub fn rate(&self) -> f64 {
        if self.time > 0.0 { self.work / self.time } else { 0.0 }
    }

    /// The paper's estimate: what part of the time that is left the job needs. Nothing before the first progress.
    pub fn now(&self) -> Option<f64> {
        let left = (self.total - self.done).max(0.0);
        if left == 0.0 {
            return Some(0.0);
        }
        if self.samples < 1.0 {
            return None;
        }
        let time = self.deadline - self.at;
        Some(if time <= 0.0 || self.rate() <= 0.0 { f64::INFINITY } else { left / self.rate() / time })
    }

    /// When it will be done at this rate.
    pub fn end(&self) -> Option<f64> {
        (self.rate() > 0.0).then(|| self.at + (self.total - self.done).max(0.0) / self.rate())
    }

    /// How far the estimate may be off, as a part of it: three standard errors of the rate, and of what is still to come.
    pub(crate) fn doubt(&self) -> f64 {
        if self.samples < 10.0 || self.work <= 0.0 {
            return f64::INFINITY;
        }
        let deviation = (self.spread / self.samples).sqrt();
        let strips = self.work / self.samples;
        let to_come = ((self.total - self.done) / strips).max(1.0);
        3.0 * deviation / strips * (1.0 / self.samples + 1.0 / to_come).sqrt()
    }

    /// Whether it will miss its deadline, as far as one can tell, or has missed it.
    pub fn is_late(&self) -> bool {
        let unfinished = self.done < self.total;
        unfinished && (self.at >= self.deadline || self.now().is_some_and(|estimate| estimate > 1.0 + self.doubt()))
    }

    /// By how many seconds it will be late, as far as one can tell, if that is to be told now: when it is known first, and whenever it has become
    /// much worse since.
    pub fn news(&mut self) -> Option<f64> {
        if !self.is_late() {
            return None;
        }
        let late = (self.end().unwrap_or(self.at).max(self.at) - self.deadline).max(0.0);
        let is_news = self.told.is_none_or(|told| late >= 2.0 * told && late - told >= WORSE * self.deadline);
        is_news.then(|| *self.told.insert(late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    /// A job of a hundred seconds' deadline and 400 looks: when it was called late first, and when it was done.
    fn job(random: &mut Random, rate: f64, noise: f64) -> (Option<f64>, f64) {
        let (mut job, mut done, mut now) = (Estimate::new(10_000.0, 100.0), 0.0, 0.0);
        let mut called = None;
        while done < 10_000.0 {
            now += 0.25;
            done += (0.25 * rate * (1.0 + random.within(-noise, noise))).max(0.0);
            job.progress(now, done.min(10_000.0));
            if called.is_none() && job.is_late() {
                called = Some(now);
            }
        }
        (called, now)
    }

    #[test]
    fn late_jobs_are_called_late_a_fifth_of_the_time_before_and_others_are_not() {
        let mut random = Random::new(11);
        let (mut false_alarms, mut in_time, mut warned, mut late) = (0, 0, 0, 0);
        for _ in 0..4_000 {
            let (rate, noise) = (random.within(80.0, 130.0), random.within(0.0, 0.6));
            let (called, end) = job(&mut random, rate, noise);
            if end <= 100.0 {
                in_time += 1;
                false_alarms += u32::from(called.is_some());
            } else if end > 105.0 {
                late += 1;
                warned += u32::from(called.is_some_and(|at| at <= 80.0));
            }
        }
        assert!(in_time > 1_000 && late > 500);
        assert!(f64::from(false_alarms) <= 0.01 * f64::from(in_time), "{false_alarms} of {in_time}");
        assert!(f64::from(warned) >= 0.99 * f64::from(late), "{warned} of {late}");
    }

    #[test]
    fn a_job_that_slows_down_in_its_midst_is_called_late() {
        let mut job = Estimate::new(1_000.0, 100.0);
        let mut done = 0.0;
        let called = (1..=100).find(|second| {
            done += if *second < 40 { 12.0 } else { 4.0 };
            job.progress(f64::from(*second), done);
            job.is_late()
        });
        assert!(called.is_some_and(|at| at > 40 && at <= 80), "{called:?}");
    }

    #[test]
    fn a_forecast_is_told_again_when_it_gets_much_worse_and_not_for_chance() {
        let mut random = Random::new(14);
        let mut told = |rate: fn(f64) -> f64| {
            let (mut job, mut done, mut now, mut news) = (Estimate::new(10_000.0, 100.0), 0.0f64, 0.0, Vec::new());
            while done < 10_000.0 {
                now += 0.25;
                done += 0.25 * rate(now) * (1.0 + random.within(-0.3, 0.3));
                job.progress(now, done.min(10_000.0));
                news.extend(job.news());
            }
            (news, now - 100.0)
        };
        for _ in 0..100 {
            let (news, late) = told(|_| 70.0);
            assert!(news.len() == 1 && (news[0] - late).abs() < 0.5 * late, "{news:?} {late}");
            // It becomes slower and slower: told as often as it doubles.
            let (news, late) = told(|now| if now < 50.0 { 95.0 } else { (95.0 - 1.5 * (now - 50.0)).max(20.0) });
            assert!((2..=5).contains(&news.len()) && news.is_sorted(), "{news:?} {late}");
            assert!(late < 2.5 * news[news.len() - 1], "{news:?} {late}");
            assert!(told(|_| 130.0).0.is_empty());
        }
        // What stands is told at the deadline, and when it is late by more and more.
        let mut job = Estimate::new(100.0, 10.0);
        let mut news = Vec::new();
        for k in 1..=40 {
            job.progress(f64::from(k), 99.0);
            news.extend(job.news().map(|late| (k, late)));
        }
        assert_eq!(news.iter().map(|(k, _)| *k).collect::<Vec<_>>(), [10, 11, 13, 17, 25]);
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let mut job = Estimate::new(100.0, 10.0);
        assert_eq!((job.now(), job.end(), job.is_late()), (None, None, false));
        job.progress(1.0, 0.0);
        assert_eq!((job.now(), job.is_late()), (Some(f64::INFINITY), false));
        job.progress(10.0, 99.0);
        assert!(job.is_late());
        job.progress(11.0, 100.0);
        assert!(!job.is_late() && job.now() == Some(0.0));
    }
}
