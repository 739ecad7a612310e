//! Blocks that are late where an idle proc takes threads by age, and where it takes first those that would be late (synthesis, 6.5): in simulation.

use chappe::thread::migration::{self, Late};

/// Runs of 20 s.
const RUNS: u64 = 20;

/// Simulates and prints.
pub fn measure() {
    for (how, Late { late, of, ms }) in ["by age", "late first"].into_iter().zip(migration::both(RUNS)) {
        let part = late as f64 / of as f64 * 100.0;
        println!("  {how:<10}  {late:>6} of {of} blocks late ({part:.1} %), the last one done after {ms} ms");
    }
}
