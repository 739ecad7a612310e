//! Searches: how the schedules of a world are chosen, and what is done with a failure.

use crate::chance::Chance;
use crate::depth::Depth;
use crate::event::{Event, parse};
use crate::replay::explain;
use crate::report::{Counts, Found, Report};
use crate::state::{Engine, Limits};
use crate::sweep::Sweep;
use crate::turn::play;
use crate::world::World;
use std::time::Instant;

/// Chooses among what can happen.
pub(crate) trait Strategy {
    /// Prepares the next schedule. False: there is none.
    fn begin(&mut self) -> bool {
        true
    }
    /// What is known without looking at the offers.
    fn scripted(&mut self, _: &mut Engine) -> Option<Event> {
        None
    }
    /// One of the offers.
    fn choose(&mut self, e: &mut Engine) -> Event;
    /// Whether states must be numbered.
    fn wants_trace(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
enum How {
    Depth { preemptions: u32 },
    Priorities { changes: u32 },
    Uniform,
    Sweep { orders: u32 },
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
    /// Whether states that were seen are left out: only for the test that this leaves out no outcome.
    prune: bool,
}

impl Search {
    fn new(name: &str, how: How, schedules: u64) -> Search {
        assert!(!name.is_empty() && !name.contains([':', ',']), "a search's name goes into its tokens");
        let limits = Limits { kills: 0, stops: 0, resume: false, spurious: 0, steps: 20_000, backstops: 0 };
        Search { name: name.to_owned(), how, limits, schedules, seed: 1, prune: true }
    }

    /// All schedules with at most so many preemptions, fewest first, each state once.
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

    /// A stopped process goes on when nobody else can.
    pub fn resume(mut self) -> Search {
        self.limits.resume = true;
        self
    }

    /// How many sleeps may be interrupted in one schedule.
    pub fn spurious(mut self, spurious: u32) -> Search {
        self.limits.spurious = spurious;
        self
    }

    /// Stop after so many schedules.
    pub fn schedules(mut self, schedules: u64) -> Search {
        self.schedules = schedules;
        self
    }

    /// Other dice.
    pub fn seed(mut self, seed: u64) -> Search {
        self.seed = seed;
        self
    }

    /// Searches the world that `world` builds.
    ///
    /// `CRASHSIM_REPLAY` replays the schedule of a token instead, and tells it, if it is of this search;
    /// `CRASHSIM_SCHEDULES` is another limit of schedules; `CRASHSIM_SEED` other dice; `CRASHSIM_STORY=short` leaves
    /// steps that changed nothing out of stories.
    ///
    /// # Panics
    /// When the environment's variables cannot be read.
    pub fn run(&self, world: impl Fn(&World) + Sync) -> Report {
        let mut search = self.clone();
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
        };
        if let Some(n) = number("CRASHSIM_SCHEDULES") {
            search.schedules = n.max(1);
        }
        if let Some(n) = number("CRASHSIM_SEED") {
            search.seed = n;
        }
        let replay = std::env::var("CRASHSIM_REPLAY").ok();
        search.run_with(world, replay.as_deref())
    }

    /// Replays one token, whatever the environment says.
    pub fn replay(&self, token: &str, world: impl Fn(&World) + Sync) -> Report {
        self.run_with(world, Some(token))
    }

    fn run_with(&self, world: impl Fn(&World) + Sync, replay: Option<&str>) -> Report {
        let world: &(dyn Fn(&World) + Sync) = &world;
        // A thread of its own: its thread-locals are fresh, and die with it.
        std::thread::scope(|s| {
            let handle =
                std::thread::Builder::new().name(self.name.clone()).spawn_scoped(s, || self.drive(world, replay));
            handle.expect("a thread").join().unwrap_or_else(|e| std::panic::resume_unwind(e))
        })
    }

    fn report(&self) -> Report {
        let Limits { kills, stops, resume, spurious, .. } = self.limits;
        let how = match self.how {
            How::Depth { preemptions } => format!("depth first, {preemptions} preemptions"),
            How::Priorities { changes } => format!("priorities, {changes} changes"),
            How::Uniform => "uniform".to_owned(),
            How::Sweep { .. } => "sweep".to_owned(),
        };
        let mut how = format!("{how}, {kills} kills, {stops} stops");
        for (on, text) in [(resume, ", resumed"), (spurious > 0, ", spurious wakes")] {
            if on {
                how += text;
            }
        }
        Report {
            name: self.name.clone(),
            how,
            schedules: 0,
            complete: false,
            replayed: false,
            skipped: false,
            counts: Counts::default(),
            outcomes: Default::default(),
            longest: 0,
            took: Default::default(),
            found: None,
        }
    }

    fn drive(&self, world: &dyn Fn(&World), replay: Option<&str>) -> Report {
        let mut report = self.report();
        let began = Instant::now();
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
            How::Depth { preemptions } => Box::new(Depth::new(preemptions, self.prune)),
            How::Priorities { changes } => Box::new(Chance::new(Some(changes), self.limits, self.dice())),
            How::Uniform => Box::new(Chance::new(None, self.limits, self.dice())),
            How::Sweep { orders } => Box::new(Sweep::new(orders)),
        });
        while report.schedules < self.schedules {
            if !strategy.as_mut().expect("given back by play").begin() {
                report.complete = true;
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
        report.took = began.elapsed();
        report
    }

    fn dice(&self) -> u64 {
        self.name.bytes().fold(self.seed, |h, b| crate::trace::mix(h, b.into()))
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
                let pruned = search.clone().schedules(200_000).run(program(seed));
                search.prune = false;
                let whole = search.clone().schedules(200_000).run(program(seed));
                assert!(pruned.assert_clean().complete());
                assert!(whole.assert_clean().complete());
                let outcomes = |r: &Report| r.outcomes().keys().cloned().collect::<Vec<_>>();
                assert_eq!(outcomes(&pruned), outcomes(&whole), "seed {seed}, {kills} kills");
                with += pruned.schedules();
                without += whole.schedules();
            }
        }
        assert!(with * 3 < without * 2, "{with} of {without}");
    }
}
