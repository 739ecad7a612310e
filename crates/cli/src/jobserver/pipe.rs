//! What is lost where all clients share one fifo, because an old make knows no other form.
//!
//! Only the number of tokens that are out can be seen. A client has one job for its own slot, and one token for each job beyond that; a job
//! is a child of its (make), or a thread (rustc). So if more are out than the sum of that over all processes that have the fifo open, and
//! the orphans that a dead client left running, the surplus has no owner: a client that was killed had it.
//!
//! - I1: it comes back when several looks in a row have seen the same or more. A make takes a token just before it starts the job: for that moment
//!   the token has no job. A client that is stopped may be at that very point, so then nothing comes back.
//! - I2: the smallest of the numbers seen comes back.
//!
//! What this cannot see: a loss while a living client has children or threads that are no jobs (a shell with two background processes that
//! has the pipe open, a cargo with idle threads). It comes back when those have gone, at the latest when the job ends.

use super::scan::{Inode, Seen};
use std::time::Duration;

/// How often it is looked, while tokens are out.
pub const PACE: Duration = Duration::from_millis(200);
/// How many looks in a row must agree.
const LOOKS: u32 = 4;

/// What the last looks saw.
#[derive(Debug, Default)]
pub struct Losses {
    looks: u32,
    least: i64,
}

impl Losses {
    /// Takes note of a look, when so many tokens were out. Answers how many are lost.
    pub fn look(&mut self, seen: &Seen, of: Inode, out: i64) -> i64 {
        self.note(seen.most_tokens(of).map_or(0, |most| out - most))
    }

    fn note(&mut self, missing: i64) -> i64 {
        if missing <= 0 {
            *self = Losses::default();
            return 0;
        }
        self.least = if self.looks == 0 { missing } else { self.least.min(missing) };
        self.looks += 1;
        if self.looks < LOOKS {
            return 0;
        }
        std::mem::take(self).least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_several_counts_agree_on_is_believed() {
        let mut losses = Losses::default();
        let seen: Vec<i64> = [2, 3, 1, 2, 0, 2, 2, 2, 2].into_iter().map(|missing| losses.note(missing)).collect();
        assert_eq!(seen, [0, 0, 0, 1, 0, 0, 0, 0, 2]);
    }
}
