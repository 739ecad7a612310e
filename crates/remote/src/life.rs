//! Until when a lease is certain: arithmetic on one machine's clock, that no answer of the engine can be wrong about.
//!
//! ```text
//!   renewal sent         engine renews         answer comes
//!        |---------------------|---------------------|
//!        |<------------- TTL ------------->| deadline
//!                              |<------------- TTL ------------->| the engine ends the lease, at the earliest
//!                 term            kill
//!        |---------|---------------|-------|
//! ```
//!
//! - **L1** The deadline counts from when the renewal was *sent*: the engine counts from a later moment.
//! - **L2** A deadline that has passed never comes back: an answer that comes late does not revive a holder that may be dead.
//! - **L3** The job has ended by [`kill_at`](Life::kill_at), which lies before the deadline by what two clocks may differ over a TTL (1 %) and by
//!   the time that a killed job takes to end (0.4 s).
//!
//! The clock is the time since boot, which goes on while the machine sleeps (CLOCK_BOOTTIME): after a sleep longer than the TTL all is over
//! at once. The time of day is never read. A machine whose processes are all stopped together, as a virtual one can be, runs some
//! instructions after the deadline: there the fencing token protects, and nothing else.

use std::time::Duration;

/// The shortest time to live of a lease.
pub const SHORTEST: Duration = Duration::from_secs(2);
/// The longest.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// What is taken if nothing is said.
pub const USUAL: Duration = Duration::from_secs(10);
/// How long a killed job takes to end.
const ENDS_WITHIN: Duration = Duration::from_millis(400);

/// A lease's life, as its owner knows it. All times are since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    ttl: Duration,
    deadline: Duration,
    over: bool,
}

impl Life {
    /// Of a lease that was asked for at `sent`, and has this time to live.
    pub fn new(sent: Duration, ttl: Duration) -> Life {
        Life { ttl, deadline: sent + ttl, over: false }
    }

    /// A renewal was answered that was sent at `sent`.
    pub fn renewed(&mut self, sent: Duration, now: Duration, ttl: Duration) {
        if self.is_over(now) {
            return;
        }
        self.ttl = ttl;
        self.deadline = self.deadline.max(sent + ttl);
    }

    /// The engine says that the lease has ended.
    pub fn ended(&mut self) {
        self.over = true;
    }

    /// Whether the job must have ended by now. Once so, always so.
    pub fn is_over(&mut self, now: Duration) -> bool {
        self.over |= now >= self.kill_at();
        self.over
    }

    /// The time to live that the engine gave it.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// When the engine may give away what is held under it, at the earliest.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// When the job is asked to end.
    pub fn term_at(&self) -> Duration {
        self.kill_at().saturating_sub(self.ttl / 4)
    }

    /// When the job is killed.
    pub fn kill_at(&self) -> Duration {
        self.deadline.saturating_sub(self.ttl / 100 + ENDS_WITHIN)
    }

    /// How often it is renewed.
    pub fn every(&self) -> Duration {
        self.ttl / 5
    }

    /// How long a renewal may take, before another endpoint is asked.
    pub fn patience(&self) -> Duration {
        (self.ttl / 4).min(Duration::from_millis(1500))
    }
}

/// Whether a lease can have this time to live.
///
/// # Errors
/// What is possible.
pub fn check(ttl: Duration) -> Result<(), String> {
    let seconds = |d: Duration| format!("{}s", d.as_secs_f64());
    if (SHORTEST..=LONGEST).contains(&ttl) {
        return Ok(());
    }
    let why = if ttl < SHORTEST {
        "the engine gives no shorter one, and one lost packet would end the job"
    } else {
        "for so long nobody gets what a machine held that has lost its power"
    };
    Err(format!(
        "a time to live of {} is not possible, from {} to {} is: {why}",
        seconds(ttl),
        seconds(SHORTEST),
        seconds(LONGEST)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(tenths: u64) -> Duration {
        Duration::from_millis(tenths * 100)
    }

    #[test]
    fn the_deadline_counts_from_sending() {
        let mut life = Life::new(s(0), s(100));
        life.renewed(s(20), s(35), s(100));
        assert_eq!((life.deadline(), life.kill_at(), life.term_at()), (s(120), s(115), s(90)));
    }

    #[test]
    fn a_late_answer_revives_nobody() {
        let mut life = Life::new(s(0), s(100));
        life.renewed(s(80), s(95), s(100));
        assert!(life.is_over(life.deadline()), "nothing is left of it");
        let mut life = Life::new(s(0), s(100));
        // Sent in time, answered after the job must have ended.
        life.renewed(s(80), s(96), s(100));
        assert!(life.is_over(s(97)) && life.deadline() == s(100));
    }

    #[test]
    fn answers_that_overtake_each_other_do_not_shorten_it() {
        let mut life = Life::new(s(0), s(100));
        life.renewed(s(40), s(45), s(100));
        life.renewed(s(20), s(46), s(100));
        assert_eq!(life.deadline(), s(140));
    }

    #[test]
    fn the_job_has_ended_before_the_engine_may_give_its_permit_away() {
        for seconds in [2, 4, 10, 60, 3600] {
            let life = Life::new(Duration::ZERO, Duration::from_secs(seconds));
            assert!(life.term_at() < life.kill_at() && life.kill_at() + ENDS_WITHIN <= life.deadline());
            assert!(life.every() + life.patience() < life.term_at(), "one renewal may be lost: {seconds} s");
        }
        assert!(check(s(19)).is_err() && check(s(20)).is_ok() && check(LONGEST + s(1)).is_err());
    }
}
