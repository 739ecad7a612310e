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
    /// With how many preemptions a search depth first ended.
    pub(crate) came_to: Option<u32>,
    pub(crate) replayed: bool,
    pub(crate) skipped: bool,
    /// It is a sweep of kills or stops: one in which none happens finds nothing.
    pub(crate) sweeps: bool,
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
        self.came_to = self.came_to.min(other.came_to);
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
    /// When the search found a failure, and when it is a sweep of kills or stops in which no process was killed or stopped: the world's
    /// processes are all immortal then, or the share of the sweep is smaller than the world.
    pub fn assert_clean(&self) -> &Report {
        println!("{self}");
        if let Some(f) = &self.found {
            panic!("\n{}\n\n{}\n", f.story, self.verdict(f));
        }
        let played = !self.replayed && !self.skipped;
        let fell = self.counts.kills + self.counts.stops > 0;
        assert!(
            fell || !self.sweeps || !played,
            "{}: a sweep that killed and stopped no process tests nothing",
            self.name
        );
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
            _ => match self.came_to {
                Some(n) => &format!("clean, as far as it went: to {n} preemptions"),
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
