//! Random searches: every step by dice, or by random priorities that change at a few random steps (Burckhardt,
//! Kothari, Musuvathi and Nagarakatti's PCT: a mistake that needs d switches in the right places among k steps of n
//! threads is found with probability 1/(n k^(d-1)) at least).
//!
//! Deaths are planned beforehand: a victim and one of its own steps, both at random, so that short operations
//! are hit as often as long ones.

use crate::event::{Cost, Event};
use crate::state::{Engine, Limits};
use crate::strategy::Strategy;
use crate::trace::mix;

/// One in so many decisions lets a deadline come early.
const EARLY: u64 = 24;
/// One in so many decisions interrupts a sleep.
const SPURIOUS: u64 = 40;
/// One in so many stores is held.
const HELD: u64 = 3;

#[derive(Clone, Copy)]
struct Plan {
    stop: bool,
    victim: u64,
    /// The share of the victim's steps, or of all steps, before it happens: out of 2^16.
    share: u64,
    /// What its time is counted in.
    by: By,
    done: bool,
}

/// What a planned death waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// So many of all steps.
    All,
    /// So many of the victim's own.
    Own,
    /// After so many steps of a recoverer from an earlier death.
    Recovery,
}

pub(crate) struct Chance {
    changes: Option<u32>,
    limits: Limits,
    seed: u64,
    round: u64,
    state: u64,
    priorities: Vec<u64>,
    low: u64,
    points: Vec<u64>,
    plans: Vec<Plan>,
    /// How many steps a schedule has, from experience.
    usual: u64,
    /// How many steps each process makes, from experience.
    usual_of: Vec<u32>,
    /// How many of them in recoveries, at most.
    usual_recovery: u32,
    steps: u64,
}

impl Chance {
    pub fn new(changes: Option<u32>, limits: Limits, seed: u64) -> Chance {
        Chance {
            changes,
            limits,
            seed,
            round: 0,
            state: 0,
            priorities: Vec::new(),
            low: 0,
            points: Vec::new(),
            plans: Vec::new(),
            usual: 60,
            usual_of: Vec::new(),
            usual_recovery: 0,
            steps: 0,
        }
    }

    fn dice(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state, 0x1234_5678)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.dice() % n.max(1)
    }

    fn planned(&mut self, e: &Engine) -> Option<Event> {
        for i in 0..self.plans.len() {
            let plan = self.plans[i];
            if plan.done {
                continue;
            }
            let mortal = |p: usize| !e.processes[p].immortal;
            let count = (0..e.processes.len()).filter(|p| mortal(*p)).count() as u64;
            if count == 0 {
                continue;
            }
            let mut p = (0..e.processes.len()).filter(|p| mortal(*p)).nth((plan.victim % count) as usize)?;
            if e.processes[p].after.is_some() {
                // Its time is counted from its beginning.
                continue;
            }
            let due = match plan.by {
                By::Own => {
                    let usual = u64::from(self.usual_of.get(p).copied().unwrap_or(20)) + 2;
                    u64::from(e.processes[p].steps) >= (plan.share * usual) >> 16
                }
                By::All => e.steps >= (plan.share * (self.usual + 2)) >> 16,
                By::Recovery => {
                    let long = (plan.share * (u64::from(self.usual_recovery) + 2)) >> 16;
                    let recoverer =
                        |p: &usize| mortal(*p) && e.recovers(*p) && u64::from(e.processes[*p].recovery) >= long;
                    let found = (0..e.processes.len()).find(recoverer);
                    p = found.unwrap_or(p);
                    found.is_some()
                }
            };
            if due {
                self.plans[i].done = true;
                let event = if plan.stop { Event::Stop(p as u8) } else { Event::Kill(p as u8) };
                if e.possible(event) {
                    return Some(event);
                }
            }
        }
        None
    }

    fn priority(&mut self, event: Event) -> u64 {
        let actor = match event {
            Event::Run(t) | Event::Die(t) => usize::from(t),
            Event::Mark(t) => 64 + usize::from(t),
            Event::Gone(p) => 128 + usize::from(p),
            Event::Flush(t) => 192 + usize::from(t),
            _ => return 0,
        };
        while self.priorities.len() <= actor {
            let p = (1 << 40) + self.below(1 << 32);
            self.priorities.push(p);
        }
        self.priorities[actor]
    }

    fn lower(&mut self, thread: usize) {
        self.priority(Event::Run(thread as u8));
        self.low -= 1;
        self.priorities[thread] = self.low;
    }
}

impl Strategy for Chance {
    fn begin(&mut self) -> bool {
        if self.round > 0 {
            self.usual = (self.usual * 7 + self.steps) / 8;
        }
        self.round += 1;
        self.state = mix(self.seed, self.round);
        self.priorities.clear();
        self.low = 1 << 30;
        self.points.clear();
        for _ in 0..self.changes.unwrap_or(0) {
            let point = self.below(self.usual);
            self.points.push(point);
        }
        self.plans.clear();
        for (most, stop) in [(self.limits.kills, false), (self.limits.stops, true)] {
            if most > 0 && self.below(8) > 0 {
                for nth in 0..=self.below(u64::from(most)) {
                    let by = match self.below(4) {
                        0 => By::All,
                        1 if nth > 0 => By::Recovery,
                        _ => By::Own,
                    };
                    let plan = Plan { stop, victim: self.dice(), share: self.below(1 << 16), by, done: false };
                    self.plans.push(plan);
                }
            }
        }
        true
    }

    fn choose(&mut self, e: &mut Engine) -> Event {
        self.steps = e.steps;
        for (p, process) in e.processes.iter().enumerate() {
            if self.usual_of.len() <= p {
                self.usual_of.push(0);
            }
            self.usual_of[p] = self.usual_of[p].max(process.steps);
            self.usual_recovery = self.usual_recovery.max(process.recovery);
        }
        if let Some(event) = self.planned(e) {
            return event;
        }
        let early = |o: &crate::event::Offer| o.cost == Cost::Preemption && matches!(o.event, Event::Fire(_));
        let ordinary = |o: &crate::event::Offer| matches!(o.cost, Cost::Free | Cost::Preemption) && !early(o);
        for (one_in, of) in [(EARLY, Cost::Preemption), (SPURIOUS, Cost::Spurious), (HELD, Cost::Hold)] {
            let fits = |o: &&crate::event::Offer| if of == Cost::Preemption { early(o) } else { o.cost == of };
            let count = e.offers.iter().filter(fits).count() as u64;
            if count > 0 && self.below(one_in) == 0 {
                let n = self.below(count) as usize;
                return e.offers.iter().filter(fits).nth(n).expect("counted").event;
            }
        }
        if !matches!(e.offers[0].event, Event::Run(_) | Event::Die(_) | Event::Mark(_) | Event::Gone(_)) {
            return e.offers[0].event;
        }
        if self.changes.is_none() {
            let count = e.offers.iter().filter(|o| ordinary(o)).count() as u64;
            let n = self.below(count) as usize;
            return e.offers.iter().filter(|o| ordinary(o)).nth(n).expect("counted").event;
        }
        // A thread that gave way, or has run for so long that it is no longer offered, spins: others go first from now on.
        let spins = e.yielded & 1 << e.cur != 0
            || (e.runnable(e.cur) && e.offers.iter().all(|o| o.event != Event::Run(e.cur as u8)));
        if spins || self.points.contains(&e.steps) {
            self.lower(e.cur);
        }
        let mut best = (0, e.offers[0].event);
        for i in 0..e.offers.len() {
            let offer = e.offers[i];
            if ordinary(&offer) {
                let p = self.priority(offer.event);
                if p > best.0 {
                    best = (p, offer.event);
                }
            }
        }
        best.1
    }
}
