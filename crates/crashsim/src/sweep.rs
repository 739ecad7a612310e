//! The deterministic sweep: in each of a few plain orders, a kill or stop of each process at each state it comes to;
//! with several, all combinations, or as many as the search has schedules, by dice, in the first order. Where later ones are to hit recoverers only,
//! all combinations with these: double faults.

use crate::event::{Cost, Event};
use crate::state::Engine;
use crate::strategy::{Part, Strategy};
use crate::trace::mix;

/// The plain orders.
#[derive(Clone, Copy)]
enum Order {
    /// The running thread goes on; then the next; the kernel last.
    Default,
    /// As before, but the kernel first.
    KernelFirst,
    /// The running thread goes on; then the last process.
    Backwards,
    /// Another after each step.
    Each,
    /// Another after each three steps.
    Third,
}

const ORDERS: [Order; 5] = [Order::Default, Order::KernelFirst, Order::Backwards, Order::Each, Order::Third];

/// Combinations by dice.
struct Dice {
    /// How many kills and stops one has at most.
    falls: u32,
    state: u64,
    /// How many were offered in a schedule, at most.
    most: u32,
}

pub(crate) struct Sweep {
    orders: usize,
    /// Every n-th first kill is taken.
    share: u32,
    /// Later ones hit only recoverers.
    doubles: bool,
    part: Part,
    order: usize,
    begun: bool,
    /// Which of the kills and stops offered in the schedule happen: their numbers, rising.
    plan: Vec<u32>,
    /// How many were offered so far.
    offered: u32,
    /// How many of the plan have happened.
    done: usize,
    dice: Option<Dice>,
}

impl Sweep {
    pub fn new(orders: u32, share: u32, doubles: bool, part: Part) -> Sweep {
        let (orders, plan) = (orders as usize, Vec::new());
        Sweep { orders, share, doubles, part, order: 0, begun: false, plan, offered: 0, done: 0, dice: None }
    }

    /// Combinations of so many kills and stops, by dice.
    pub fn sampled(falls: u32, seed: u64, part: Part) -> Sweep {
        Sweep { dice: Some(Dice { falls, state: seed, most: 0 }), ..Sweep::new(1, 1, false, part) }
    }

    /// The first of all kills: another one in each order, so that a share misses none in all of them.
    fn first(&self) -> u32 {
        self.order as u32 % self.share + self.share * self.part.which
    }

    fn next_plan(&mut self) -> bool {
        let next = self.plan.last().map_or(self.first(), |l| l + 1);
        if self.done == self.plan.len() && self.offered > next {
            // All of it happened, and something was offered after it: one more.
            self.plan.push(next);
            return true;
        }
        if self.done < self.plan.len() {
            // The last one was never offered.
            self.plan.pop();
        }
        let by = if self.plan.len() == 1 { self.share * self.part.of } else { 1 };
        match self.plan.last_mut() {
            Some(last) => {
                *last += by;
                true
            }
            None => false,
        }
    }
}

impl Strategy for Sweep {
    fn begin(&mut self) -> bool {
        if let Some(dice) = &mut self.dice {
            // The first schedule has none: it tells how many are offered.
            dice.most = dice.most.max(self.offered);
            self.plan.clear();
            for _ in 0..if dice.most > 0 { dice.falls } else { 0 } {
                dice.state = dice.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                self.plan.push((mix(dice.state, 0x1234_5678) % u64::from(dice.most)) as u32);
            }
            self.plan.sort_unstable();
            self.plan.dedup();
        } else if self.begun && !self.next_plan() {
            self.order += 1;
        }
        self.begun = true;
        self.offered = 0;
        self.done = 0;
        self.order < self.orders
    }

    fn choose(&mut self, e: &mut Engine) -> Event {
        for o in e.offers.iter().filter(|o| matches!(o.cost, Cost::Kill | Cost::Stop)) {
            let aside = |p: u8| self.doubles && self.done > 0 && !e.recovers(p.into());
            if matches!(o.event, Event::Kill(p) | Event::Stop(p) if aside(p)) {
                continue;
            }
            if self.plan.get(self.done) == Some(&self.offered) {
                self.done += 1;
                self.offered += 1;
                return o.event;
            }
            self.offered += 1;
        }
        let run = |o: &&crate::event::Offer| matches!(o.event, Event::Run(_));
        let first = e.offers[0].event;
        if !matches!(first, Event::Run(_) | Event::Mark(_) | Event::Gone(_)) {
            return first;
        }
        match ORDERS[self.order] {
            Order::Default => first,
            Order::KernelFirst => {
                let kernel = e.offers.iter().find(|o| matches!(o.event, Event::Mark(_) | Event::Gone(_)));
                kernel.map_or(first, |o| o.event)
            }
            Order::Backwards if first == Event::Run(e.cur as u8) => first,
            Order::Backwards => e.offers.iter().rfind(run).map_or(first, |o| o.event),
            Order::Each => e.offers.iter().filter(run).find(|o| o.event != first).map_or(first, |o| o.event),
            Order::Third if e.run % 3 != 2 => first,
            Order::Third => e.offers.iter().filter(run).find(|o| o.event != first).map_or(first, |o| o.event),
        }
    }
}
