//! Fine-grain scheduling: a thread's quantum follows the fill of its queues (synthesis, 4.3.3 and 6.3.1).
//!
//! "If a thread's input queue is filling or if its output queue is emptying, increase its share of CPU. Conversely, if a thread's input queue is emptying or
//! if its output queue is filling, decrease its share." Each thread of a graph has a [`Quantum`]: how long it goes on before it yields. At the end
//! of each turn it is multiplied by `1 + gain * (fill in - fill out)`, within bounds.
//!
//! Threads that compute beside graphs ([`background`]) have what is left: their quantum shrinks with the largest pressure that any stage has, and they stand
//! at the lowest level of their proc, so that a stage that is woken waits for one such quantum, not for all of them.
//!
//! **Cheating** (6.3.4). A thread that reads from itself has the same fill before and behind it, and its quantum stays: what it gains as a reader it loses as a
//! writer. **Saturation.** Stages next to a device, whose queues fill by themselves, keep theirs; those further away, and computing threads, shrink first.

use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::clock;

/// The quantum of a thread in balance, in nanoseconds: "on the order of a few hundred microseconds".
pub const QUANTUM: f64 = 200_000.0;
const LEAST: f64 = QUANTUM / 16.0;
const MOST: f64 = QUANTUM * 16.0;
/// How much of the imbalance is followed each turn.
const GAIN: f64 = 0.25;
/// The level of computing threads.
const LEVEL: u8 = 6;

/// How long one thread goes on.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    ns: f64,
    /// Blocks until the clock is looked at.
    left: u32,
    blocks: u32,
    began: u64,
}

impl Default for Quantum {
    fn default() -> Quantum {
        Quantum { ns: QUANTUM, left: 1, blocks: 1, began: clock::now() }
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
        self.ns = adjusted(self.ns, fill_in, fill_out);
        self.blocks = (self.ns / each).clamp(1.0, 1e6) as u32;
        self.left = self.blocks;
        self.began = now;
        self.ns
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

/// The law of computing threads: what they have beside stages under this pressure, from 0 to 1.
pub fn beside(pressure: f64) -> f64 {
    (QUANTUM * (1.0 - pressure.clamp(0.0, 1.0))).max(LEAST)
}

/// The largest pressure lately, in millionths; it decays while computing threads look.
static PRESSURE: AtomicU64 = AtomicU64::new(0);

/// A stage has this pressure: its input's fill, or how empty a device's queue behind it is.
pub fn press(fill: f64) {
    // Relaxed: a hint to threads that compute.
    PRESSURE.fetch_max((fill.clamp(0.0, 1.0) * 1e6) as u64, Ordering::Relaxed);
}

/// A thread that computes beside graphs: calls [`Background::check`] often.
#[derive(Debug)]
pub struct Background {
    began: u64,
    ns: f64,
}

impl Background {
    /// Yields when the quantum is over. Some 25 ns otherwise.
    pub fn check(&mut self) {
        if (clock::now() - self.began) as f64 >= self.ns {
            chappe_thread::yield_now();
            // Relaxed: a hint, which fades: stages renew it each turn.
            let seen = PRESSURE.load(Ordering::Relaxed);
            PRESSURE.store(seen - seen / 4, Ordering::Relaxed);
            self.ns = beside(seen as f64 / 1e6);
            self.began = clock::now();
        }
    }
}

/// Begins a light thread that computes beside graphs, with what they leave it.
///
/// # Panics
/// If there is no room for one more.
pub fn background<T: Send + 'static>(
    body: impl FnOnce(&mut Background) -> T + Send + 'static,
) -> chappe_thread::JoinHandle<T> {
    let begun = chappe_thread::Builder::new().name("background").level(LEVEL).spawn(move || {
        body(&mut Background { began: clock::now(), ns: QUANTUM })
    });
    begun.unwrap_or_else(|e| panic!("background: {e}"))
}
