//! What can happen next, and what each choice costs a bounded search.
//!
//! The default comes first: a dying thread dies; the thread that ran goes on; else the next thread in turn, then the kernel; and when no
//! thread can go on, time jumps to the earliest deadline.
//!
//! A kill or stop of a process is offered once for each state the process comes to (after each of its own steps, after each wake or
//! expiry): between two of these, killing it earlier or later is the same, because all that others see of a death are events of their own
//! (`Mark`, `Gone`). A process that has not begun is not there to be killed.

use crate::event::{Cost, Event, Offer};
use crate::report::Fault;
use crate::state::{BACKSTOP_NS, Block, Engine, Fall, State};

/// After so many steps without a break a thread is taken to spin, and others go first.
const FAIR: u32 = 400;
/// How many short waits of daemons may expire once all other threads are done.
const IDLE_JUMPS: u32 = 20;

/// Sets of threads: one bit each.
#[derive(Clone, Copy, Default)]
struct Sets {
    /// They are to die.
    doomed: u64,
    /// They can make a step.
    ready: u64,
    /// The kernel has words of theirs to mark.
    marks: u64,
    /// Stores of theirs wait.
    buffers: u64,
    /// They sleep, and something other than a wake may end it.
    blocked: u64,
}

/// The members of a set, in order.
fn each(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (next < 64).then_some(next)
    })
}

impl Engine {
    /// Whether all that must come to an end has.
    pub fn done(&self) -> bool {
        self.threads.iter().all(|t| {
            t.over()
                || t.daemon
                || t.state == State::Blocked(Block::Linger)
                || t.state == State::Unborn
                || (self.processes[t.process].stopped && !self.limits.resume)
        })
    }

    fn push(&mut self, event: Event, cost: Cost) {
        self.offers.push(Offer { event, cost });
    }

    /// Fills `offers`. The first is the default. Answers false if the world must be asked first whether the threads that sleep for ever are
    /// excused.
    pub fn offer(&mut self) -> bool {
        self.offers.clear();
        if let Some(t) = self.undecided {
            self.push(Event::Flush(t as u8), Cost::Free);
            self.push(Event::Hold(t as u8), Cost::Hold);
            return true;
        }
        let n = self.threads.len();
        let Sets { doomed, ready, marks, buffers, blocked } = self.sets();
        for t in each(doomed) {
            self.push(Event::Die(t as u8), Cost::Free);
        }
        let fair = self.run < FAIR;
        let mut cost = if self.offers.is_empty() { Cost::Free } else { Cost::Preemption };
        for k in 0..n {
            let t = if self.cur + k >= n { self.cur + k - n } else { self.cur + k };
            if ready & !self.yielded & 1 << t != 0 && (k > 0 || fair) {
                // One that was let run on although it is to die may go on as long as it likes.
                let own = k == 0 && self.threads[t].doomed;
                self.push(Event::Run(t as u8), if own { Cost::Free } else { cost });
                if k == 0 {
                    cost = Cost::Preemption;
                }
            }
        }
        for t in each(marks) {
            self.push(Event::Mark(t as u8), cost);
        }
        for p in 0..self.processes.len() {
            if self.can_go(p) {
                self.push(Event::Gone(p as u8), cost);
            }
        }
        for t in each(buffers) {
            self.push(Event::Flush(t as u8), Cost::Free);
        }
        if self.offers.is_empty() {
            // The threads that gave way, or ran for long: no other thread is there to go first.
            for k in 1..=n {
                let t = (self.cur + k) % n;
                if ready & 1 << t != 0 {
                    self.push(Event::Run(t as u8), Cost::Free);
                }
            }
        }
        let busy = !self.offers.is_empty();
        self.offer_deadlines(blocked, busy);
        if !busy && self.offers.is_empty() && !self.offer_at_rest() {
            return false;
        }
        self.offer_violence();
        true
    }

    /// What each thread is about, in one look at each: this is done at every step.
    fn sets(&self) -> Sets {
        let mut sets = Sets::default();
        for (t, thread) in self.threads.iter().enumerate() {
            let bit = 1u64 << t;
            let stopped = || self.processes[thread.process].stopped;
            match thread.state {
                State::Ready if !stopped() => sets.ready |= bit,
                State::Blocked(_) if thread.deadline.is_some() || self.limits.spurious > 0 => {
                    sets.blocked |= if stopped() { 0 } else { bit };
                }
                _ => {}
            }
            if thread.doomed && !thread.over() {
                sets.doomed |= bit;
            }
            if !thread.marks.is_empty() {
                sets.marks |= bit;
            }
            if !thread.buffer.is_empty() {
                sets.buffers |= bit;
            }
        }
        sets
    }

    fn offer_deadlines(&mut self, blocked: u64, busy: bool) {
        for t in each(blocked) {
            let thread = &self.threads[t];
            let State::Blocked(block) = thread.state else { continue };
            match thread.deadline {
                Some(d) if d <= self.now => self.push(Event::Fire(t as u8), Cost::Free),
                Some(_) if busy && !thread.backstop => self.push(Event::Fire(t as u8), Cost::Preemption),
                _ => {}
            }
            if busy && block == Block::Futex && self.counts.spurious < u64::from(self.limits.spurious) {
                self.push(Event::Spurious(t as u8), Cost::Spurious);
            }
        }
    }

    /// No thread can go on. Answers false if the world must be asked.
    fn offer_at_rest(&mut self) -> bool {
        if self.limits.resume
            && let Some(p) = self.processes.iter().position(|p| p.stopped && !p.ended)
        {
            self.push(Event::Resume(p as u8), Cost::Free);
            return true;
        }
        let done = self.done();
        let timers = (0..self.threads.len()).filter(|t| {
            let thread = &self.threads[*t];
            matches!(thread.state, State::Blocked(_)) && !self.processes[thread.process].stopped
        });
        let earliest = timers.filter_map(|t| self.threads[t].deadline.map(|d| (d, t))).min();
        if let Some((_, t)) = earliest
            && !self.threads[t].backstop
            && (!done || self.idle_jumps < IDLE_JUMPS)
        {
            self.push(Event::Fire(t as u8), Cost::Free);
            return true;
        }
        if done {
            let next = self.threads.iter().position(|t| t.last && t.state == State::Unborn);
            self.push(next.map_or(Event::End, |t| Event::Start(t as u8)), Cost::Free);
            return true;
        }
        if self.can_excuse && self.excused.is_none() {
            return false;
        }
        match earliest {
            Some((_, t)) if self.excused != Some(true) => self.push(Event::Fire(t as u8), Cost::Free),
            _ => self.push(Event::End, Cost::Free),
        }
        true
    }

    fn offer_violence(&mut self) {
        let kills = self.counts.kills < u64::from(self.limits.kills);
        let stops = self.counts.stops < u64::from(self.limits.stops);
        if !kills && !stops {
            return;
        }
        for p in 0..self.processes.len() {
            let process = &self.processes[p];
            if !process.can_fall() || !process.dirty {
                continue;
            }
            let only = process.only;
            if kills && only != Some(Fall::Stop) {
                self.push(Event::Kill(p as u8), Cost::Kill);
            }
            if stops && only != Some(Fall::Kill) {
                self.push(Event::Stop(p as u8), Cost::Stop);
            }
        }
    }

    /// Whether an event can happen now.
    pub fn possible(&self, event: Event) -> bool {
        let thread = |t: u8| self.threads.get(usize::from(t));
        let process = |p: u8| self.processes.get(usize::from(p));
        let mortal = |p: u8, not: Fall| process(p).is_some_and(|p| p.can_fall() && p.only != Some(not));
        match event {
            Event::Run(t) => usize::from(t) < self.threads.len() && self.runnable(usize::from(t)),
            Event::Die(t) => thread(t).is_some_and(|t| t.doomed && !t.over()),
            Event::Mark(t) => thread(t).is_some_and(|t| !t.marks.is_empty()),
            Event::Gone(p) => usize::from(p) < self.processes.len() && self.can_go(usize::from(p)),
            Event::Fire(t) => thread(t).is_some_and(|t| {
                matches!(t.state, State::Blocked(_)) && t.deadline.is_some() && !self.processes[t.process].stopped
            }),
            Event::Spurious(t) => thread(t).is_some_and(|t| t.state == State::Blocked(Block::Futex)),
            Event::Kill(p) => mortal(p, Fall::Stop),
            Event::Stop(p) => mortal(p, Fall::Kill),
            Event::Resume(p) => process(p).is_some_and(|p| p.stopped && !p.ended),
            Event::Start(t) => thread(t).is_some_and(|t| t.last && t.state == State::Unborn),
            Event::Flush(t) => thread(t).is_some_and(|t| !t.buffer.is_empty()),
            Event::Hold(t) => self.undecided == Some(usize::from(t)),
            Event::End => true,
        }
    }

    /// Whether everything of a process but its going has happened.
    pub fn can_go(&self, p: usize) -> bool {
        let process = &self.processes[p];
        process.ended && !process.gone && process.threads.iter().all(|t| self.threads[*t].marks.is_empty())
    }

    /// Judges a world in which nothing more happens.
    pub fn judge(&mut self, excused: bool) {
        if self.done() || excused || self.failure.is_some() {
            return;
        }
        let mut stuck = Vec::new();
        for (t, words) in self.sleepers() {
            if !self.threads[t].daemon {
                stuck.push(words);
            }
        }
        self.fail(Fault::Wedged, format!("wedged: {}, and nobody will ever wake it", stuck.join("; ")));
    }

    /// Whether a wait that begins now with this deadline is a backstop.
    pub fn is_backstop(&self, deadline: Option<u64>) -> bool {
        deadline.is_some_and(|d| d >= self.now.saturating_add(BACKSTOP_NS))
    }
}
