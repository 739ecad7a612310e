//! The deterministic sweep: in each of a few plain orders, a kill or stop of each process at each state it comes to;
//! with several, all combinations.

use crate::event::Event;
use crate::offer::Cost;
use crate::search::Strategy;
use crate::state::Engine;

/// The plain orders.
#[derive(Clone, Copy)]
enum Order {
    /// Whoever runs goes on; then the next; the kernel last.
    Default,
    /// As before, but the kernel first.
    KernelFirst,
    /// Whoever runs goes on; then the last process.
    Backwards,
    /// Another after each step.
    Each,
    /// Another after each three steps.
    Third,
}

const ORDERS: [Order; 5] = [Order::Default, Order::KernelFirst, Order::Backwards, Order::Each, Order::Third];

pub(crate) struct Sweep {
    orders: usize,
    order: usize,
    begun: bool,
    /// Which of the kills and stops offered in the schedule happen: their numbers, rising.
    plan: Vec<u32>,
    /// How many were offered so far.
    offered: u32,
    /// How many of the plan have happened.
    done: usize,
}

impl Sweep {
    pub fn new(orders: u32) -> Sweep {
        Sweep { orders: orders as usize, order: 0, begun: false, plan: Vec::new(), offered: 0, done: 0 }
    }

    fn next_plan(&mut self) -> bool {
        if self.done == self.plan.len() && self.offered > self.plan.last().map_or(0, |l| l + 1) {
            // All of it happened, and something was offered after it: one more.
            self.plan.push(self.plan.last().map_or(0, |l| l + 1));
            return true;
        }
        if self.done < self.plan.len() {
            // The last one was never offered.
            self.plan.pop();
        }
        match self.plan.last_mut() {
            Some(last) => {
                *last += 1;
                true
            }
            None => false,
        }
    }
}

impl Strategy for Sweep {
    fn begin(&mut self) -> bool {
        if self.begun && !self.next_plan() {
            self.order += 1;
        }
        self.begun = true;
        self.offered = 0;
        self.done = 0;
        self.order < self.orders
    }

    fn choose(&mut self, e: &mut Engine) -> Event {
        for o in e.offers.iter().filter(|o| matches!(o.cost, Cost::Kill | Cost::Stop)) {
            if self.plan.get(self.done) == Some(&self.offered) {
                self.done += 1;
                self.offered += 1;
                return o.event;
            }
            self.offered += 1;
        }
        let run = |o: &&crate::offer::Offer| matches!(o.event, Event::Run(_));
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
