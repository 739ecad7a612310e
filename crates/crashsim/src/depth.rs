//! Depth-first search with a bound of preemptions (Musuvathi and Qadeer's iterative context bounding): all schedules
//! without a preemption, then all with one, and so on. A state that was reached before with as many preemptions
//! left is not explored again, see `trace.rs`.

use crate::event::{Cost, Event};
use crate::state::Engine;
use crate::strategy::{Part, Strategy};
use crate::trace::{Mixer, mix};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// States remembered at most.
const MOST: usize = 6_000_000;

struct Node {
    /// Where its alternatives begin in `Depth::events`.
    first: usize,
    /// Which of them is being explored.
    at: usize,
}

pub(crate) struct Depth {
    bound: u32,
    most: u32,
    nodes: Vec<Node>,
    events: Vec<(Event, Cost)>,
    /// How many nodes of the present schedule have been passed.
    depth: usize,
    /// Preemptions of the present schedule.
    used: u32,
    /// The rest of the present schedule is known.
    tail: bool,
    begun: bool,
    prune: bool,
    part: Part,
    /// State to the most preemptions that were left in it.
    seen: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
}

impl Depth {
    pub fn new(most: u32, prune: bool, part: Part) -> Depth {
        Depth {
            bound: 0,
            most,
            nodes: Vec::new(),
            events: Vec::new(),
            depth: 0,
            used: 0,
            tail: false,
            begun: false,
            prune,
            part,
            seen: HashMap::default(),
        }
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
}

impl Strategy for Depth {
    fn begin(&mut self) -> bool {
        self.depth = 0;
        self.used = 0;
        self.tail = false;
        if self.begun && !self.advance() {
            self.bound += 1;
        }
        self.begun = true;
        self.bound <= self.most
    }

    fn preemptions(&self) -> Option<u32> {
        Some(self.bound)
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
        let left = self.bound - self.used;
        let key = mix(mix(e.trace.sum(), e.cur as u64), e.yielded);
        match self.seen.get(&key) {
            Some(l) if *l >= left && self.prune => {
                self.tail = true;
                return default;
            }
            _ if self.seen.len() < MOST => {
                self.seen.insert(key, left);
            }
            _ => {}
        }
        // What is divided among the workers is where a schedule leaves the default first.
        let divided = self.part.of > 1 && self.nodes.iter().all(|n| n.at == 0);
        self.nodes.push(Node { first: self.events.len(), at: 0 });
        self.depth += 1;
        let within = e.offers.iter().filter(|o| left > 0 || o.cost != Cost::Preemption).enumerate();
        let (part, depth) = (self.part, self.depth);
        let ours = within.filter(|(n, _)| *n == 0 || !divided || part.has(n + depth));
        self.events.extend(ours.map(|(_, o)| (o.event, o.cost)));
        default
    }
}
