//! Two neighbouring words that change together, in one step.

use crate::atomic::{AtomicU64, Ordering};
use crate::guarded::{self, Act};
use crate::trace::Touch;
use crate::turn::{saw, turn_in_order};
use std::panic::Location;

/// Two words of 8 bytes, aligned to 16. Each can be read alone as well.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Pair {
    /// The first.
    pub low: AtomicU64,
    /// The second.
    pub high: AtomicU64,
}

impl Pair {
    /// A pair that holds these.
    pub const fn new(low: u64, high: u64) -> Pair {
        Pair { low: AtomicU64::new(low), high: AtomicU64::new(high) }
    }

    /// Writes both words if both are as expected.
    ///
    /// # Errors
    /// What was there instead.
    #[track_caller]
    pub fn compare_exchange(&self, current: [u64; 2], new: [u64; 2]) -> Result<(), [u64; 2]> {
        turn_in_order();
        let was = [self.low.peek(), self.high.peek()];
        let done = was == current;
        if done {
            self.low.set(new[0]);
            self.high.set(new[1]);
        }
        let (code, how) = if done { (25, Touch::Write) } else { (26, Touch::Read) };
        for (word, i) in [(&self.low, 0), (&self.high, 1)] {
            let at = word.as_ptr() as usize;
            if current != new {
                guarded::touched(at, if done { Act::Wrote } else { Act::Failed }, Location::caller());
            }
            saw(at, code, how, Location::caller(), |n| {
                let show = |v: u64| n.show(at, v);
                let (name, from, to) = (n.of(at), show(current[i]), show(new[i]));
                let found = if done { String::new() } else { format!(" finds {}", show(was[i])) };
                format!("{name}: pair's compare_exchange {from} -> {to}{found}")
            });
        }
        if done { Ok(()) } else { Err(was) }
    }

    /// Both words at one moment.
    #[track_caller]
    pub fn load(&self) -> [u64; 2] {
        // Relaxed, both: a guess; the order is the explorer's.
        let guess = [self.low.load(Ordering::Relaxed), self.high.load(Ordering::Relaxed)];
        match self.compare_exchange(guess, guess) {
            Ok(()) => guess,
            Err(was) => was,
        }
    }
}
