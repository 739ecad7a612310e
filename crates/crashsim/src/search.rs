//! Searches: how the schedules of a world are chosen, and what is done with a failure.

use crate::chance::Chance;
use crate::depth::{Budget, Depth};
use crate::event::parse;
use crate::play::play;
use crate::replay::explain;
use crate::report::{Counts, Found, Report};
use crate::state::Limits;
use crate::strategy::{Part, Strategy};
use crate::sweep::Sweep;
use crate::world::World;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
enum How {
    Depth { preemptions: u32 },
    Priorities { changes: u32 },
    Uniform,
    Sweep { orders: u32 },
    Sampled,
}

impl How {
    /// Whether it goes by dice, and never comes to an end of itself.
    fn is_random(self) -> bool {
        matches!(self, How::Priorities { .. } | How::Uniform | How::Sampled)
    }
}

/// A search to be made.
///
/// ```
/// use chappe_crashsim::{Search, atomic::{AtomicU32, Ordering}};
///
/// Search::depth("two_adders", 2)
///     .run(|world| {
///         let sum = world.share(AtomicU32::new(0));
///         world.name(&*sum, "sum");
///         for name in ["a", "b"] {
///             world.process(name, move || {
///                 sum.fetch_add(1, Ordering::SeqCst);
///             });
///         }
///         world.check(move || assert_eq!(sum.peek(), 2));
///     })
///     .assert_clean();
/// ```
#[derive(Clone, Debug)]
pub struct Search {
    name: String,
    how: How,
    limits: Limits,
    schedules: u64,
    seed: u64,
    /// A sweep takes every n-th first kill.
    share: u32,
    /// Kills after the first hit only processes that recover from one.
    doubles: bool,
    /// Threads that search.
    workers: u32,
    /// Goes on for so long, however many schedules that are.
    time: Option<Duration>,
    /// Whether states that were seen are left out: only for the test that this leaves out no outcome.
    prune: bool,
    /// Whether it may end before it is complete: then it is one of those of which `CRASHSIM_PERCENT` takes a part.
    partial: bool,
}

impl Search {
    fn new(name: &str, how: How, schedules: u64) -> Search {
        assert!(!name.is_empty() && !name.contains([':', ',']), "a search's name goes into its tokens");
        let limits = Limits {
            kills: 0,
            stops: 0,
            resume: false,
            spurious: 0,
            holds: 0,
            steps: 20_000,
            backstops: 0,
            refused: None,
        };
        Search {
            name: name.to_owned(),
            how,
            limits,
            schedules,
            seed: 1,
            share: 1,
            doubles: false,
            workers: 1,
            time: None,
            prune: true,
            partial: how.is_random(),
        }
    }

    /// All schedules with at most so many preemptions, fewest first, each state once. A limit ([`Search::schedules`]) is shared: first come
    /// the schedules in which the next thread in turn goes on wherever one blocks, then those with all choices of the next; in either, each
    /// number of preemptions without kills, stops, interrupted sleeps and held stores, then with them.
    pub fn depth(name: &str, preemptions: u32) -> Search {
        Search::new(name, How::Depth { preemptions }, 100_000)
    }

    /// Random priorities, changed at `changes` random steps (Burckhardt and others' PCT).
    pub fn priorities(name: &str, changes: u32) -> Search {
        Search::new(name, How::Priorities { changes }, 10_000)
    }

    /// Every step by a fresh throw of dice.
    pub fn uniform(name: &str) -> Search {
        Search::new(name, How::Uniform, 10_000)
    }

    /// Kills or stops each process at each of its steps, in each of five plain orders; with several kills, at each
    /// combination of steps.
    pub fn sweep(name: &str) -> Search {
        Search::new(name, How::Sweep { orders: 5 }, 1_000_000)
    }

    /// A sweep of combinations of kills and stops drawn by dice, as many as there are schedules, in one plain order: where there are too many to play all.
    pub fn sampled_sweep(name: &str) -> Search {
        Search::new(name, How::Sampled, 10_000)
    }

    /// How many processes may be killed in one schedule.
    pub fn kills(mut self, kills: u32) -> Search {
        self.limits.kills = kills;
        self
    }

    /// How many processes may be stopped in one schedule.
    pub fn stops(mut self, stops: u32) -> Search {
        self.limits.stops = stops;
        self
    }

    /// A stopped process goes on when no other thread can.
    pub fn resume(mut self) -> Search {
        self.limits.resume = true;
        self
    }

    /// How many sleeps may be interrupted in one schedule.
    pub fn spurious(mut self, spurious: u32) -> Search {
        self.limits.spurious = spurious;
        self
    }

    /// Kills after a schedule's first hit processes only while they recover from a death ([`recovering`](crate::recovering)).
    /// With [`Search::sweep`] and two kills: for each first kill, the recoverer's death at each of its steps; with
    /// three, its recoverer's as well.
    pub fn of_recoverers(mut self) -> Search {
        self.doubles = true;
        self
    }

    /// A sweep takes every `share`-th first kill or stop only, other ones in each order; what comes after it is taken whole.
    pub fn share(mut self, share: u32) -> Search {
        self.share = share.max(1);
        self
    }

    /// Plain stores go through store buffers, as x86 has them, and so many of them in one schedule may wait there for as
    /// long as the explorer likes (see the head of `buffer.rs`). Not for sweeps, which never hold one.
    pub fn store_buffers(mut self, holds: u32) -> Search {
        self.limits.holds = holds;
        self
    }

    /// So many threads of the system share the search: each takes a part of the orders of events, or throws dice of its own.
    pub fn workers(mut self, workers: u32) -> Search {
        self.workers = workers.max(1);
        self
    }

    /// Stop after so many schedules.
    pub fn schedules(mut self, schedules: u64) -> Search {
        self.schedules = schedules;
        self.partial = true;
        self
    }

    /// The limit of schedules is one that is never reached: the caller asserts that the search is complete, and `CRASHSIM_PERCENT` leaves
    /// it whole.
    pub fn whole(mut self) -> Search {
        self.partial = self.how.is_random();
        self
    }

    /// Other dice.
    pub fn seed(mut self, seed: u64) -> Search {
        self.seed = seed;
        self
    }

    /// Searches the world that `world` builds.
    ///
    /// `CRASHSIM_REPLAY` replays the schedule of a token instead, and tells it, if it is of this search; `CRASHSIM_SCHEDULES` is another
    /// limit of schedules; `CRASHSIM_SECONDS` one of time in its place; `CRASHSIM_PERCENT` a part of the schedules of each search that is
    /// random or has a limit of its own; `CRASHSIM_SHARE` another share of sweeps; `CRASHSIM_SEED` other dice; `CRASHSIM_WORKERS` how many
    /// threads search; `CRASHSIM_STORY=short` leaves steps that changed nothing out of stories; into the directory `CRASHSIM_COVERAGE` each
    /// search writes which places of the source it came to.
    ///
    /// # Panics
    /// When the environment's variables cannot be read.
    pub fn run(&self, world: impl Fn(&World) + Sync) -> Report {
        self.run_as_told(&world)
    }

    /// Made once, not for each world: there are hundreds.
    fn run_as_told(&self, world: &(dyn Fn(&World) + Sync)) -> Report {
        let mut search = self.clone();
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
        };
        if let Some(n) = number("CRASHSIM_PERCENT").filter(|_| search.partial) {
            search.schedules = (search.schedules * n / 100).max(1);
        }
        if let Some(n) = number("CRASHSIM_SCHEDULES") {
            search.schedules = n.max(1);
            search.partial = true;
        }
        if let Some(n) = number("CRASHSIM_SECONDS") {
            search.time = Some(Duration::from_secs(n));
            search.schedules = u64::MAX;
        }
        if let Some(n) = number("CRASHSIM_SEED") {
            search.seed = n;
        }
        if let Some(n) = number("CRASHSIM_SHARE") {
            search.share = n.clamp(1, 1 << 20) as u32;
        }
        if let Some(n) = number("CRASHSIM_WORKERS") {
            search.workers = n.clamp(1, 64) as u32;
        }
        let replay = std::env::var("CRASHSIM_REPLAY").ok();
        let report = search.run_with(world, replay.as_deref());
        if let Some(directory) = std::env::var_os("CRASHSIM_COVERAGE").filter(|_| !report.replayed && !report.skipped) {
            let written = crate::coverage::write(directory.as_ref(), &search.name, &report.coverage);
            written.unwrap_or_else(|e| panic!("CRASHSIM_COVERAGE={}: {e}", directory.display()));
        }
        report
    }

    /// Replays one token, whatever the environment says.
    pub fn replay(&self, token: &str, world: impl Fn(&World) + Sync) -> Report {
        self.run_with(&world, Some(token))
    }

    fn run_with(&self, world: &(dyn Fn(&World) + Sync), replay: Option<&str>) -> Report {
        let workers = if replay.is_some() { 1 } else { self.workers };
        // Threads of its own: their thread-locals are fresh, and die with them.
        std::thread::scope(|s| {
            let all: Vec<_> = (0..workers)
                .map(|which| {
                    let named = std::thread::Builder::new().name(self.name.clone());
                    let part = Part { which, of: workers };
                    named.spawn_scoped(s, move || self.drive(world, replay, part)).expect("a thread")
                })
                .collect();
            let ended = |t: std::thread::ScopedJoinHandle<'_, Report>| {
                t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))
            };
            all.into_iter().map(ended).reduce(|mut sum, next| {
                sum.join(next);
                sum
            })
        })
        .expect("one worker at least")
    }

    /// Whether anything befalls the threads beside the schedule.
    fn violent(&self) -> bool {
        let Limits { kills, stops, spurious, holds, .. } = self.limits;
        kills + stops + spurious + holds > 0
    }

    fn report(&self) -> Report {
        let Limits { kills, stops, resume, spurious, holds, .. } = self.limits;
        let how = match self.how {
            How::Depth { preemptions } => format!("depth first, {preemptions} preemptions"),
            How::Priorities { changes } => format!("priorities, {changes} changes"),
            How::Uniform => "uniform".to_owned(),
            How::Sweep { .. } if self.share > 1 => format!("sweep, 1 in {}", self.share),
            How::Sweep { .. } => "sweep".to_owned(),
            How::Sampled => "sweep, by dice".to_owned(),
        };
        let mut how = format!("{how}, {kills} kills, {stops} stops");
        for (on, text) in [
            (resume, ", resumed"),
            (spurious > 0, ", spurious wakes"),
            (holds > 0, ", store buffers"),
            (self.doubles, ", of recoverers"),
        ] {
            if on {
                how += text;
            }
        }
        Report {
            name: self.name.clone(),
            how,
            schedules: 0,
            complete: false,
            preemptions: match self.how {
                How::Depth { preemptions } => preemptions,
                _ => 0,
            },
            violent: self.violent(),
            reach: None,
            replayed: false,
            skipped: false,
            falls: kills + stops > 0,
            counts: Counts::default(),
            outcomes: Default::default(),
            late: Default::default(),
            longest: 0,
            took: Default::default(),
            found: None,
            coverage: Default::default(),
        }
    }

    fn drive(&self, world: &dyn Fn(&World), replay: Option<&str>, part: Part) -> Report {
        let mut report = self.report();
        let (began, mut ended) = (Instant::now(), false);
        if let Some(token) = replay {
            let (name, deviations) = parse(token).unwrap_or_else(|| panic!("`{token}` is not a crashsim token"));
            if name != self.name {
                report.skipped = true;
                return report;
            }
            report.replayed = true;
            report.schedules = 1;
            report.found = crate::replay::follow(&self.name, world, self.limits, &deviations, &mut report.counts);
            report.took = began.elapsed();
            return report;
        }
        let mut strategy: Option<Box<dyn Strategy>> = Some(match self.how {
            How::Depth { preemptions } => {
                let budget = match self.time {
                    Some(time) => Budget::Time(began, time),
                    None if self.partial => Budget::Schedules(self.schedules.div_ceil(part.of.into())),
                    None => Budget::Whole,
                };
                Box::new(Depth::new(preemptions, self.violent(), budget, self.prune, part))
            }
            How::Priorities { changes } => Box::new(Chance::new(Some(changes), self.limits, self.dice(part))),
            How::Uniform => Box::new(Chance::new(None, self.limits, self.dice(part))),
            How::Sweep { orders } => Box::new(Sweep::new(orders, self.share, self.doubles, part)),
            How::Sampled => Box::new(Sweep::sampled(self.limits.kills + self.limits.stops, self.dice(part), part)),
        });
        while report.schedules < self.schedules.div_ceil(part.of.into()) {
            if self.time.is_some_and(|most| report.schedules.is_multiple_of(64) && began.elapsed() > most) {
                break;
            }
            if !strategy.as_mut().expect("given back by play").begin() {
                ended = true;
                break;
            }
            let played = play(world, &mut strategy, self.limits, false);
            report.schedules += 1;
            report.counts.add(&played.counts);
            for outcome in played.outcomes {
                *report.outcomes.entry(outcome).or_default() += 1;
            }
            report.longest = report.longest.max(played.counts.steps);
            if let Some(failure) = played.failure {
                report.found =
                    Some(explain(&self.name, world, self.limits, &failure, &played.record).unwrap_or(Found {
                        fault: failure.fault,
                        text: format!("{} (and the same schedule did not fail again)", failure.text),
                        token: String::new(),
                        story: String::new(),
                    }));
                break;
            }
        }
        report.reach = strategy.as_ref().and_then(|strategy| strategy.reach());
        let most = Some(report.preemptions);
        report.complete = ended && report.reach.is_none_or(|reach| reach.whole[usize::from(report.violent)] == most);
        report.coverage = crate::coverage::take();
        report.late = crate::guarded::take_late();
        report.took = began.elapsed();
        report
    }

    fn dice(&self, part: Part) -> u64 {
        let seed = if part.which == 0 { self.seed } else { crate::trace::mix(self.seed, part.which.into()) };
        self.name.bytes().fold(seed, |h, b| crate::trace::mix(h, b.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::{AtomicU32, Ordering::SeqCst};
    use crate::futex::{self, Scope};
    use crate::trace::mix;
    use std::cell::Cell;

    /// Small programs, made by dice: three threads, three words, whatever comes.
    fn program(seed: u64) -> impl Fn(&World) + Sync {
        move |world| {
            let words = world.share([const { AtomicU32::new(0) }; 3]);
            let seen = world.share(Cell::new(0u64));
            let plain = world.share(Cell::new(0u64));
            for t in 0..3u64 {
                let p = world.process("p", move || {
                    for step in 0..3u64 {
                        let dice = mix(seed, t * 100 + step);
                        let (a, b) = (&words[dice as usize >> 8 & 1], &words[2]);
                        let got = match dice % 6 {
                            0 => a.load(SeqCst),
                            1 => a.fetch_add(t as u32 + 1, SeqCst),
                            2 => a.swap(7, SeqCst),
                            3 => a.compare_exchange(0, t as u32 + 4, SeqCst, SeqCst).unwrap_or_else(|v| v + 50),
                            4 => {
                                let now = 1_000_000_000_000 + 10;
                                futex::wait(a, 0, Some(now), Scope::Shared) as u32
                            }
                            _ => futex::wake(a, 1, Scope::Shared),
                        };
                        seen.set(seen.get() ^ mix(t * 10 + step, got.into()));
                        // Memory that a lock orders: whose critical section came last shows in it.
                        if dice >> 20 & 1 == 1 && b.swap(1, SeqCst) == 0 {
                            plain.set(plain.get() * 10 + t + 1);
                            b.store(0, SeqCst);
                        }
                    }
                });
                if t == 2 {
                    p.immortal();
                }
            }
            world.check(move || {
                let last: Vec<_> = words.iter().map(AtomicU32::peek).collect();
                crate::reached(format!("{last:?} {:x} {}", seen.get(), plain.get()));
            });
        }
    }

    /// A stale store behind a step that touches nothing.
    fn stale(world: &World) {
        let word = world.share(AtomicU32::new(0));
        for name in ["one", "other"] {
            world.process(name, move || {
                if word.load(SeqCst) == 0 {
                    crate::step_point("seen");
                    assert_eq!(word.swap(1, SeqCst), 0, "stale");
                }
            });
        }
    }

    #[test]
    fn a_step_that_touches_nothing_does_not_end_the_search() {
        Search::depth("stale", 1).run(stale).assert_caught();
    }

    #[test]
    fn leaving_out_known_states_leaves_out_no_outcome() {
        let (mut with, mut without) = (0, 0);
        for seed in 0..3 {
            for kills in [0, 1] {
                let mut search = Search::depth("pruning", 1).kills(kills);
                let pruned = search.clone().schedules(200_000).whole().run(program(seed));
                // By blocks, each with a share that is large enough.
                let shared = search.clone().schedules(400_000).run(program(seed));
                search.prune = false;
                let whole = search.clone().schedules(200_000).whole().run(program(seed));
                let outcomes = |r: &Report| r.outcomes().keys().cloned().collect::<Vec<_>>();
                for report in [&pruned, &shared, &whole] {
                    assert!(report.assert_clean().complete());
                    assert_eq!(outcomes(report), outcomes(&whole), "seed {seed}, {kills} kills");
                }
                with += pruned.schedules();
                without += whole.schedules();
            }
        }
        assert!(with * 3 < without * 2, "{with} of {without}");
    }
}
