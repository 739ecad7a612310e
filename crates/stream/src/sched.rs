//! Fine-grain scheduling: a thread's quantum follows the fill of its queues (synthesis, 4.3.3 and 6.3.1).
//!
//! "If a thread's input queue is filling or if its output queue is emptying, increase its share of CPU. Conversely, if a thread's input queue is emptying or
//! if its output queue is filling, decrease its share." Each thread of a graph has a [`Quantum`]: how long it goes on before it yields. At the end
//! of each turn it is multiplied by `1 + gain * (fill in - fill out)`, within bounds.
//!
//! Threads that compute beside graphs ([`background`]) use the time that the graphs leave. Their quantum shrinks as the
//! largest pressure (fill of a queue) of any stage grows. They stand at a low level of their proc, so a stage that is woken
//! waits for one such quantum, not for all of them.
//!
//! **Saturation** (6.3.4). If the stages of a pipeline need more time than there is, each processes as many blocks as
//! the others: their shares fall together, and the device before them drops frames, which is counted.
//!
//! **Cheating** (6.3.4). A thread that reads from itself has the same fill before and behind it, so its quantum stays:
//! its gain as a reader is its loss as a writer. A thread that keeps its input full gets a longer quantum at first, as
//! a thread that is behind does; but a longer quantum must empty the queue. If it has not after [`TRIES`] turns, the
//! quantum returns to the common one, each time for twice as many turns ([`Turns`]).

use crate::link::SLOTS;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::clock;
use chappe_thread::{Builder, JoinHandle, Runtime};

/// The quantum of a thread in balance, in nanoseconds: "on the order of a few hundred microseconds".
pub const QUANTUM: f64 = 200_000.0;
const LEAST: f64 = QUANTUM / 16.0;
const MOST: f64 = QUANTUM * 16.0;
/// How much of the imbalance is followed each turn.
const GAIN: f64 = 0.25;
/// The shortest turn of computing threads, so that they have their few per cent beside stages that want more than there is.
const SHORTEST: f64 = QUANTUM / 10.0;
/// The level of computing threads.
const LEVEL: u8 = 6;

/// So many turns a thread may have more than everybody without its queue getting emptier.
pub const TRIES: u32 = 8;
/// So many turns it has no more than everybody then, the first time, and at most.
const RESTS: (u32, u32) = (16, 4096);

/// The length of a thread's turns: the law, and a limit where more does not help.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    ns: f64,
    /// The input's fill a turn ago.
    before: f64,
    /// Turns of more than everybody's quantum in which the input got no emptier.
    vain: u32,
    /// Turns for which there is no more, and how many there will be the next time.
    rest: u32,
    rests: u32,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { ns: QUANTUM, before: 0.0, vain: 0, rest: 0, rests: RESTS.0 }
    }
}

impl Turns {
    /// The next turn, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.ns
    }

    /// A turn has ended with these fills: how long the next one is.
    pub fn next(&mut self, fill_in: f64, fill_out: f64) -> f64 {
        let fell = fill_in < std::mem::replace(&mut self.before, fill_in);
        let wanted = adjusted(self.ns, fill_in, fill_out);
        self.rest = self.rest.saturating_sub(1);
        if fell {
            (self.vain, self.rests) = (0, RESTS.0);
        }
        self.ns = if wanted <= QUANTUM || wanted < self.ns || fell {
            wanted
        } else if self.rest > 0 {
            self.ns.min(QUANTUM)
        } else if self.vain < TRIES {
            self.vain += 1;
            wanted
        } else {
            (self.vain, self.rest, self.rests) = (0, self.rests, (self.rests * 2).min(RESTS.1));
            QUANTUM
        };
        self.ns
    }
}

/// How long one thread goes on.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    turns: Turns,
    /// Blocks until the clock is looked at.
    left: u32,
    blocks: u32,
    began: u64,
    /// What a block takes, in nanoseconds.
    each: f64,
}

impl Default for Quantum {
    fn default() -> Quantum {
        Quantum { turns: Turns::default(), left: 1, blocks: 1, began: clock::now(), each: f64::INFINITY }
    }
}

impl Quantum {
    /// A block is done. Whether the turn is over.
    #[inline]
    pub fn block(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// The turn is over: how long the next one is, in nanoseconds.
    pub fn next(&mut self, fill_in: f64, fill_out: f64) -> f64 {
        let now = clock::now();
        let each = ((now - self.began) as f64 / f64::from(self.blocks)).max(1.0);
        // A turn in which the thread has waited for a queue says nothing of what its blocks take: so the least counts, and is forgotten slowly.
        self.each = each.min(self.each * 1.25);
        let ns = self.turns.next(fill_in, fill_out);
        self.blocks = (ns / self.each).clamp(1.0, 1e6) as u32;
        self.left = self.blocks;
        self.began = now;
        ns
    }

    /// The thread has waited: its turn begins now.
    pub fn restart(&mut self) {
        self.began = clock::now();
    }
}

/// The law: a quantum after a turn that ended with these fills.
pub fn adjusted(ns: f64, fill_in: f64, fill_out: f64) -> f64 {
    (ns * (1.0 + GAIN * (fill_in.clamp(0.0, 1.0) - fill_out.clamp(0.0, 1.0)))).clamp(LEAST, MOST)
}

/// The law of computing threads: what they have beside stages under this pressure, from 0 to 1. A block that waits in a queue of the linker's is pressure
/// enough for the shortest turns: each stage that a block goes through may wait for one such turn, and they lose nothing, since they have many more where no
/// block waits.
pub fn beside(pressure: f64) -> f64 {
    (QUANTUM * (1.0 - pressure.clamp(0.0, 1.0) * SLOTS as f64)).max(SHORTEST)
}

/// The largest pressure lately, in millionths; it fades with time, and stages renew it with each block.
static PRESSURE: AtomicU64 = AtomicU64::new(0);
/// When it has faded last.
static FADED: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds in which it fades to a third.
const FADES: f64 = 8e6;

/// A stage has this pressure: the fill of its input, or of what it puts into, whose reader is behind.
#[inline]
pub fn press(fill: f64) {
    let pressure = (fill.clamp(0.0, 1.0) * 1e6) as u64;
    // Relaxed: a hint to threads that compute. Looked at first: mostly it is no news, and costs no locked operation.
    if pressure > PRESSURE.load(Ordering::Relaxed) {
        PRESSURE.fetch_max(pressure, Ordering::Relaxed); // Relaxed: a hint by itself.
    }
}

/// The pressure at this time.
fn pressure(now: u64) -> f64 {
    // Relaxed: a hint, as above.
    let (since, seen) = (FADED.swap(now, Ordering::Relaxed), PRESSURE.load(Ordering::Relaxed));
    let left = seen as f64 * (-(now.saturating_sub(since) as f64) / FADES).exp();
    PRESSURE.store(left as u64, Ordering::Relaxed); // Relaxed: a hint by itself.
    left / 1e6
}

/// A thread that computes beside graphs: calls [`Background::check`] often.
#[derive(Debug)]
pub struct Background {
    began: u64,
    ns: f64,
}

impl Background {
    fn new() -> Background {
        Background { began: clock::now(), ns: QUANTUM }
    }

    /// Yields when the quantum is over. Some 25 ns otherwise.
    pub fn check(&mut self) {
        if (clock::now() - self.began) as f64 >= self.ns {
            chappe_thread::yield_now();
            self.began = clock::now();
            self.ns = beside(pressure(self.began));
        }
    }
}

/// Begins a light thread that computes beside graphs, with what they leave it.
///
/// # Panics
/// If there is no room for one more.
pub fn background<T: Send + 'static>(body: impl FnOnce(&mut Background) -> T + Send + 'static) -> JoinHandle<T> {
    begun(beside_graphs().spawn(move || body(&mut Background::new())))
}

/// The same, beside the graphs of these light threads ([`crate::Graph::run_on`]).
///
/// # Panics
/// As [`background`].
pub fn background_on<T: Send + 'static>(
    runtime: &Runtime,
    body: impl FnOnce(&mut Background) -> T + Send + 'static,
) -> JoinHandle<T> {
    begun(beside_graphs().spawn_on(runtime, move || body(&mut Background::new())))
}

fn beside_graphs() -> Builder {
    Builder::new().name("background").level(LEVEL)
}

fn begun<T>(thread: std::io::Result<JoinHandle<T>>) -> JoinHandle<T> {
    thread.unwrap_or_else(|e| panic!("background: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// One processor in virtual time: a device that brings a block each millisecond and one that takes one, `stages` between them that take 100 us a block, and
    /// `computing` threads. By the fills, or in turn with equal quanta. Blocks that were lost or missed, of those that were due, in per cent; and the share of
    /// the computing threads.
    fn simulated(stages: usize, each: f64, computing: usize, by_fill: bool) -> (f64, f64) {
        const SLOTS: usize = 8;
        const DEVICE: f64 = 1e6;
        let mut queues = vec![0usize; stages + 1];
        let mut quanta = vec![Turns::default(); stages];
        let mut pressure = 0.0f64;
        let mut ring: VecDeque<usize> = (0..stages + computing).collect();
        let (mut now, mut device, mut bad, mut due, mut computed, mut turn) = (0.0, DEVICE, 0u32, 0u32, 0.0, 0u32);
        while now < 4e9 {
            let ready = |i: usize, queues: &[usize]| i >= stages || (queues[i] > 0 && queues[i + 1] < SLOTS);
            turn += 1;
            let wanted = |i: &usize| ready(*i, &queues) && (!by_fill || (*i < stages) == (turn % 2 == 0));
            let at = ring.iter().position(wanted).or_else(|| ring.iter().position(|i| ready(*i, &queues)));
            let mut run = DEVICE / 10.0;
            if let Some(at) = at {
                let who = ring.remove(at).unwrap();
                ring.push_back(who);
                if who >= stages {
                    run = if by_fill { beside(pressure) } else { QUANTUM };
                    pressure *= 0.75;
                    computed += run;
                } else {
                    let quantum = if by_fill { quanta[who].ns() } else { QUANTUM };
                    let blocks = ((quantum / each) as usize).max(1).min(queues[who]).min(SLOTS - queues[who + 1]);
                    queues[who] -= blocks;
                    queues[who + 1] += blocks;
                    run = blocks as f64 * each;
                    let fill = |q: usize| q as f64 / SLOTS as f64;
                    quanta[who].next(fill(queues[who]), fill(queues[who + 1]));
                    pressure = pressure.max(fill(queues[who]));
                }
            }
            now += run;
            while device <= now {
                device += DEVICE;
                if queues[0] < SLOTS {
                    queues[0] += 1
                } else {
                    bad += 1
                }
                // The device that takes begins when its queue is half full.
                if now > 1e9 {
                    due += 1;
                    if queues[stages] > 0 { queues[stages] -= 1 } else { bad += 1 }
                } else if queues[stages] > SLOTS / 2 {
                    queues[stages] -= 1;
                } else if queues[0] == SLOTS {
                    bad = 0;
                }
                if now <= 1e9 {
                    bad = 0;
                }
            }
        }
        (f64::from(bad) / f64::from(due) * 100.0, computed / now)
    }

    #[test]
    fn five_stages_beside_eight_computing_threads_miss_nothing_and_in_turn_a_tenth() {
        let (by_fill, share) = simulated(5, 100_000.0, 8, true);
        let (in_turn, _) = simulated(5, 100_000.0, 8, false);
        assert!(by_fill == 0.0 && in_turn > 10.0, "{by_fill} % {in_turn} %");
        assert!(share > 0.3, "the computing threads have what is left: {share}");
    }

    #[test]
    fn one_block_that_waits_makes_the_turns_of_computing_threads_the_shortest() {
        assert_eq!((beside(0.0), beside(1.0 / SLOTS as f64), beside(1.0)), (QUANTUM, SHORTEST, SHORTEST));
        assert_eq!(beside(0.5 / SLOTS as f64), QUANTUM / 2.0);
    }

    #[test]
    fn a_thread_that_feeds_itself_gains_nothing() {
        for fill in [0.0, 0.3, 1.0] {
            assert_eq!(adjusted(QUANTUM, fill, fill), QUANTUM);
        }
        // Two threads that feed each other: what one gains the other loses.
        let (a, b) = (adjusted(QUANTUM, 0.75, 0.25), adjusted(QUANTUM, 0.25, 0.75));
        assert!((a - QUANTUM + (b - QUANTUM)).abs() < 1e-6);
        assert!(adjusted(QUANTUM, 1.0, 0.0) > QUANTUM && adjusted(QUANTUM, 0.0, 1.0) < QUANTUM);
        let grown = (0..1000).fold(QUANTUM, |q, _| adjusted(q, 1.0, 0.0));
        assert_eq!(grown, MOST);
    }

    #[test]
    fn a_thread_with_a_full_queue_has_no_more_than_its_share_in_the_long_run() {
        let mut turns = Turns::default();
        let all: Vec<f64> = (0..20_000).map(|_| turns.next(1.0, 0.0)).collect();
        assert!(all.iter().all(|ns| *ns < QUANTUM * 8.0));
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        assert!(mean(&all[1_000..]) < QUANTUM * 1.1, "{}", mean(&all[1_000..]));
        // One whose queue gets emptier by it has all that there is.
        let mut turns = Turns::default();
        let grown = (0..40).map(|k| turns.next(1.0 - 0.01 * f64::from(k), 0.0)).fold(0.0, f64::max);
        assert_eq!(grown, MOST);
    }
}
