//! What a search found.

use crate::coverage::{self, Coverage};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What kind of failure it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// An assertion of a thread, an invariant or the check.
    Panic,
    /// A thread sleeps for ever.
    Wedged,
    /// A thread runs for ever.
    NoProgress,
    /// Only a wait of a second or more that came to its end got the world on.
    Backstop,
    /// The world did not do the same thing twice.
    Nondeterminism,
    /// A thread wrote into memory that is another object's by now: see [`guard`](crate::guard).
    ForeignWrite,
}

/// How far a search depth first came: first without violence, then with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// All schedules with so many preemptions were played.
    pub whole: [Option<u32>; 2],
    /// All straight ones.
    pub straight: [Option<u32>; 2],
    /// The most preemptions of a schedule that was played.
    pub part: [Option<u32>; 2],
}

impl Reach {
    /// What two workers have done together.
    pub fn join(self, other: Reach) -> Reach {
        let both =
            |f: fn(Option<u32>, Option<u32>) -> Option<u32>, a: [_; 2], b: [_; 2]| [f(a[0], b[0]), f(a[1], b[1])];
        Reach {
            whole: both(Option::min, self.whole, other.whole),
            straight: both(Option::min, self.straight, other.straight),
            part: both(Option::max, self.part, other.part),
        }
    }
}

/// A failure, before it is told.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub fault: Fault,
    pub text: String,
}

/// What happened in a schedule, or in all of a search.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Steps of virtual threads.
    pub steps: u64,
    /// Processes killed.
    pub kills: u64,
    /// Those among them that were recovering from another's death: double faults.
    pub doubles: u64,
    /// Processes stopped.
    pub stops: u64,
    /// Waits that ended by their deadline.
    pub timeouts: u64,
    /// Of these, waits of a second or more.
    pub backstops: u64,
    /// Waits interrupted without a wake.
    pub spurious: u64,
    /// Stores that were held back.
    pub held: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.steps += other.steps;
        self.kills += other.kills;
        self.doubles += other.doubles;
        self.stops += other.stops;
        self.timeouts += other.timeouts;
        self.backstops += other.backstops;
        self.spurious += other.spurious;
        self.held += other.held;
    }
}

/// A failure, told.
#[derive(Clone, Debug)]
pub struct Found {
    /// What kind it is.
    pub fault: Fault,
    /// What was violated.
    pub text: String,
    /// What `CRASHSIM_REPLAY` replays.
    pub token: String,
    /// What happened, one line a step.
    pub story: String,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) name: String,
    pub(crate) how: String,
    pub(crate) schedules: u64,
    pub(crate) complete: bool,
    /// How many preemptions it is asked to play.
    pub(crate) preemptions: u32,
    /// Whether it is asked for kills, stops, interrupted sleeps or held stores.
    pub(crate) violent: bool,
    /// How far a search depth first came.
    pub(crate) reach: Option<Reach>,
    pub(crate) replayed: bool,
    pub(crate) skipped: bool,
    /// It is asked for kills or stops.
    pub(crate) falls: bool,
    pub(crate) counts: Counts,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) late: BTreeMap<String, u64>,
    pub(crate) longest: u64,
    pub(crate) took: Duration,
    pub(crate) found: Option<Found>,
    pub(crate) coverage: Coverage,
}

impl Report {
    /// How many schedules were played.
    pub fn schedules(&self) -> u64 {
        self.schedules
    }

    /// Whether the search came to its own end, rather than to the limit of schedules.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// What happened in all schedules together.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What [`reached`](crate::reached) was told, and how often.
    pub fn outcomes(&self) -> &BTreeMap<String, u64> {
        &self.outcomes
    }

    /// What came late to memory that was another object's by then, and did no harm, and how often: swaps that failed only because another
    /// word was there, and lines that are exempt. See [`guard`](crate::guard).
    pub fn late(&self) -> &BTreeMap<String, u64> {
        &self.late
    }

    /// Panics unless the world came to each of these outcomes: a search that explores nothing proves nothing.
    ///
    /// # Panics
    /// When one of them was never reached.
    pub fn assert_reached(&self, wanted: &[&str]) -> &Report {
        if !self.skipped && !self.replayed {
            for w in wanted {
                assert!(
                    self.outcomes.contains_key(*w),
                    "{}: `{w}` was never reached, only {:?}",
                    self.name,
                    self.outcomes
                );
            }
        }
        self
    }

    /// The places of the source that it came to, and those at which a process was killed.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Adds what another worker found of the same search.
    pub(crate) fn join(&mut self, other: Report) {
        self.schedules += other.schedules;
        self.complete &= other.complete;
        self.reach = self.reach.zip(other.reach).map(|(one, other)| one.join(other));
        self.counts.add(&other.counts);
        for (outcome, times) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += times;
        }
        for (what, times) in other.late {
            *self.late.entry(what).or_default() += times;
        }
        self.longest = self.longest.max(other.longest);
        self.took = self.took.max(other.took);
        self.found = self.found.take().or(other.found);
        coverage::merge(&mut self.coverage, other.coverage);
    }

    /// The failure, if there was one.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Panics with the failure told in words, if there was one; prints the counts.
    ///
    /// # Panics
    /// When the search found a failure, and when it played none of what it is asked to play: no kill or stop (the world's processes are all
    /// immortal then, or the share of the sweep is smaller than the world); or, depth first and not complete, no preemption, alone or beside
    /// a kill (its limit is too small).
    pub fn assert_clean(&self) -> &Report {
        println!("{self}");
        if let Some(f) = &self.found {
            panic!("\n{}\n\n{}\n", f.story, self.verdict(f));
        }
        if !self.replayed && !self.skipped {
            let fell = self.counts.kills + self.counts.stops > 0;
            assert!(fell || !self.falls, "{}: a search that killed and stopped no process tests nothing", self.name);
            let preempted = |reach: Reach| reach.part[0] > Some(0) && (!self.violent || reach.part[1] > Some(0));
            assert!(
                self.complete || self.preemptions == 0 || self.reach.is_none_or(preempted),
                "{}: it played no preemption, or none beside a kill: give it more schedules",
                self.name
            );
        }
        self
    }

    /// Panics if the search found nothing, prints the counts and the verdict: for worlds with a planted mistake.
    ///
    /// # Panics
    /// When the search found no failure.
    pub fn assert_caught(&self) -> &Report {
        println!("{self}");
        match &self.found {
            Some(f) if self.replayed => println!("\n{}\n\n{}\n", f.story, self.verdict(f)),
            Some(f) => println!("{}", self.verdict(f)),
            None if self.skipped => {}
            None => panic!("{}: nothing found, but this world has a mistake that must be", self.name),
        }
        self
    }

    /// How many preemptions there were, in words.
    fn preempted(&self, reach: Reach) -> String {
        let number = |n: Option<u32>| n.map_or("none".to_owned(), |n| n.to_string());
        let kind = |violent: usize| {
            let [all, straight, some] = [reach.whole, reach.straight, reach.part].map(|of| number(of[violent]));
            format!("all to {all}, straight to {straight}, some to {some}")
        };
        let calm = format!("of schedules with n preemptions {}", kind(0));
        if self.violent { format!("{calm}; with violence {}", kind(1)) } else { calm }
    }

    fn verdict(&self, f: &Found) -> String {
        format!("{}: {:?}: {}\nreplay with CRASHSIM_REPLAY='{}'", self.name, f.fault, f.text, f.token)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { steps, kills, doubles, stops, timeouts, backstops, spurious, held } = self.counts;
        let end = match (&self.found, self.skipped, self.complete) {
            (Some(_), ..) => "FAILED",
            (_, true, _) => "skipped: another world is replayed",
            (_, _, true) => "clean, complete",
            _ => match self.reach {
                Some(reach) => &format!("clean, as far as it went: {}", self.preempted(reach)),
                None => "clean, as far as it went",
            },
        };
        write!(
            f,
            "crashsim {} [{}]: {} schedules, {steps} steps (longest {}), {kills} kills ({doubles} of recoverers), {stops} stops, \
             {timeouts} time-outs ({backstops} backstops), {spurious} spurious wakes, {held} held stores, {} sites, {:.1} s: {end}",
            self.name,
            self.how,
            self.schedules,
            self.longest,
            self.coverage.len(),
            self.took.as_secs_f64()
        )
    }
}
