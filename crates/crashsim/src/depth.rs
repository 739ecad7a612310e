//! Depth-first search with a bound of preemptions (Musuvathi and Qadeer's iterative context bounding): all schedules
//! without a preemption, then all with one, and so on. A state that was reached before with as many preemptions
//! left is not explored again, see `trace.rs`.
//!
//! A kill at each step multiplies the schedules, and so does the choice of the next thread wherever one blocks: those without a preemption
//! alone can use up a search's limit. So a limited search is divided into *rounds*, each with a share of what those before it have left:
//! one bound of preemptions, without kills, stops, interrupted sleeps and held stores (*calm*) or with them; first *straight*, where the
//! next thread in turn goes on wherever one blocks or ends, then with all choices of the next.
//!
//! A round that does not fit into its share would only play what happens near a schedule's end, where the search turns first. So it goes
//! through the schedule's *blocks*, the last one first: each has its share of the round, and plays the schedules that leave the default in it.

use crate::event::{Cost, Event};
use crate::report::Reach;
use crate::state::Engine;
use crate::strategy::{Part, Strategy};
use crate::trace::{Mixer, mix};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::iter::once;
use std::ops::Range;
use std::time::{Duration, Instant};

/// States remembered at most.
const MOST: usize = 6_000_000;
/// Blocks of a schedule at most, and how many schedules each is to have at least.
const BLOCKS: u64 = 8;
const FEWEST: u64 = 4;

/// What a search may spend.
#[derive(Clone, Copy)]
pub(crate) enum Budget {
    /// As much as it takes.
    Whole,
    Schedules(u64),
    Time(Instant, Duration),
}

#[derive(Clone, Copy)]
struct Round {
    preemptions: u32,
    violent: bool,
    straight: bool,
}

struct Node {
    /// Where its alternatives begin in `Depth::events`.
    first: usize,
    /// Which of them is being explored.
    at: usize,
}

pub(crate) struct Depth {
    rounds: Vec<Round>,
    /// Which of them is being played.
    round: usize,
    /// The blocks of the round that are yet to come, and the present one.
    blocks: Vec<Range<usize>>,
    block: Range<usize>,
    /// How much is spent when the round ends, and the block.
    ends: [u64; 2],
    /// A block of the round was left before its end.
    cut: bool,
    budget: Budget,
    /// Schedules begun.
    begun: u64,
    reach: Reach,
    nodes: Vec<Node>,
    events: Vec<(Event, Cost)>,
    /// How many decisions the default schedule has.
    length: usize,
    /// How many nodes of the present schedule have been passed.
    depth: usize,
    /// Preemptions of the present schedule.
    used: u32,
    /// The present schedule leaves the default at one of its nodes.
    deviates: bool,
    /// The rest of the present schedule is known.
    tail: bool,
    prune: bool,
    part: Part,
    /// State to the most preemptions that were left in it, in this round.
    seen: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
}

impl Depth {
    /// With at most so many preemptions; `violent`: with violence, too.
    pub fn new(most: u32, violent: bool, budget: Budget, prune: bool, part: Part) -> Depth {
        let kinds: &[bool] = if violent { &[false, true] } else { &[false] };
        let rounds = |straight| {
            let round = move |preemptions, violent| Round { preemptions, violent, straight };
            (0..=most).flat_map(move |preemptions| kinds.iter().map(move |violent| round(preemptions, *violent)))
        };
        let straight = rounds(true).filter(|_| !matches!(budget, Budget::Whole));
        let mut all = Depth {
            rounds: straight.chain(rounds(false)).collect(),
            round: 0,
            blocks: Vec::new(),
            block: 0..0,
            ends: [0; 2],
            cut: false,
            budget,
            begun: 0,
            reach: Reach::default(),
            nodes: Vec::new(),
            events: Vec::new(),
            length: 0,
            depth: 0,
            used: 0,
            deviates: false,
            tail: false,
            prune,
            part,
            seen: HashMap::default(),
        };
        all.open_round();
        all
    }

    fn spent(&self) -> u64 {
        match self.budget {
            Budget::Whole => 0,
            Budget::Schedules(_) => self.begun,
            Budget::Time(began, _) => began.elapsed().as_nanos() as u64,
        }
    }

    /// Where a share of what is left ends.
    fn share(&self, all: u64, part: u64) -> u64 {
        let spent = self.spent();
        spent + all.saturating_sub(spent).div_ceil(part)
    }

    fn open_round(&mut self) {
        let all = match self.budget {
            Budget::Whole => u64::MAX,
            Budget::Schedules(all) => all,
            Budget::Time(_, all) => all.as_nanos() as u64,
        };
        // A straight round is small, and what it does not need is left to the others.
        let part = if self.rounds[self.round].straight { 3 } else { self.rounds.len() - self.round };
        self.ends[0] = self.share(all, part as u64);
        let blocks = match self.budget {
            // How long the default schedule is shows when it has been played.
            _ if self.length == 0 => 1,
            Budget::Whole => 1,
            Budget::Schedules(_) => ((self.ends[0] - self.begun) / FEWEST).clamp(1, BLOCKS),
            Budget::Time(..) => BLOCKS,
        } as usize;
        let from = |n: usize| self.length * n / blocks;
        // The search takes the last of these first.
        self.blocks = (0..blocks).map(|n| from(n)..if n + 1 == blocks { usize::MAX } else { from(n + 1) }).collect();
        self.cut = false;
        self.seen.clear();
        self.open_block();
    }

    fn open_block(&mut self) {
        self.ends[1] = self.share(self.ends[0], self.blocks.len() as u64);
        self.block = self.blocks.pop().expect("a round has a block");
        self.nodes.clear();
        self.events.clear();
    }

    /// Turns to the next alternative, the deepest first. False: there is none within the bound.
    fn advance(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            node.at += 1;
            if node.first + node.at < self.events.len() {
                return true;
            }
            self.events.truncate(node.first);
            self.nodes.pop();
        }
        false
    }

    /// Turns to the next schedule. False: there is none.
    fn next(&mut self) -> bool {
        self.length = self.length.max(if self.deviates { 0 } else { self.nodes.len() });
        let cut = self.spent() >= self.ends[1];
        if self.advance() && !cut {
            return true;
        }
        self.cut |= !self.nodes.is_empty();
        if !self.blocks.is_empty() {
            self.open_block();
            return true;
        }
        let Round { preemptions, violent, straight } = self.rounds[self.round];
        if !self.cut {
            let Reach { whole, straight: most, .. } = &mut self.reach;
            (if straight { most } else { whole })[usize::from(violent)] = Some(preemptions);
        }
        self.round += 1;
        if self.round == self.rounds.len() {
            return false;
        }
        self.open_round();
        true
    }
}

impl Strategy for Depth {
    fn begin(&mut self) -> bool {
        if self.begun > 0 && !self.next() {
            return false;
        }
        self.begun += 1;
        self.depth = 0;
        self.used = 0;
        self.tail = false;
        self.deviates = self.nodes.iter().any(|node| node.at > 0);
        let costs = || self.nodes.iter().map(|node| self.events[node.first + node.at].1);
        let preempted = costs().filter(|cost| *cost == Cost::Preemption).count() as u32;
        let violent = costs().any(|cost| !matches!(cost, Cost::Free | Cost::Preemption));
        let part = &mut self.reach.part[usize::from(violent)];
        *part = (*part).max(Some(preempted));
        true
    }

    fn reach(&self) -> Option<Reach> {
        Some(self.reach)
    }

    fn wants_trace(&self) -> bool {
        true
    }

    fn scripted(&mut self, _: &mut Engine) -> Option<Event> {
        let node = self.nodes.get(self.depth)?;
        self.depth += 1;
        let (event, cost) = self.events[node.first + node.at];
        self.used += u32::from(cost == Cost::Preemption);
        Some(event)
    }

    fn choose(&mut self, e: &mut Engine) -> Event {
        let default = e.offers[0].event;
        if self.tail {
            return default;
        }
        let Round { preemptions, violent, straight } = self.rounds[self.round];
        let left = preemptions - self.used;
        let key = mix(mix(e.trace.sum(), e.cur as u64), e.yielded);
        match self.seen.get(&key) {
            // Each block goes along the default schedule.
            Some(l) if *l >= left && self.prune && self.deviates => {
                self.tail = true;
                return default;
            }
            _ if self.seen.len() < MOST => {
                self.seen.insert(key, left);
            }
            _ => {}
        }
        // What is divided among the workers, and the blocks, is where a schedule leaves the default first.
        let open = self.deviates || self.block.contains(&self.depth);
        let divided = self.part.of > 1 && !self.deviates;
        self.nodes.push(Node { first: self.events.len(), at: 0 });
        self.depth += 1;
        let affordable = |cost: Cost| match cost {
            Cost::Free => !straight,
            Cost::Preemption => left > 0,
            Cost::Kill | Cost::Stop | Cost::Spurious | Cost::Hold => violent,
        };
        let (first, others) = e.offers.split_first().expect("something happens next");
        let within = once(first).chain(others.iter().filter(|o| affordable(o.cost))).enumerate();
        let (part, depth) = (self.part, self.depth);
        let ours = within.filter(|(n, _)| *n == 0 || open && (!divided || part.has(n + depth)));
        self.events.extend(ours.map(|(_, o)| (o.event, o.cost)));
        default
    }
}
