//! Devices that go away and come back: how often, and for how long.

use crate::stage::Lost;
use chappe_plat::clock;
use std::time::Duration;

/// How often a stage that waits looks around.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Counts a device's losses.
#[derive(Default)]
pub(super) struct Absent {
    /// Since when it is away.
    since: u64,
    losses: u64,
    seconds: f64,
    /// What is not told yet.
    news: Option<Lost>,
}

impl Absent {
    /// It has gone.
    pub fn begins(&mut self) {
        self.since = clock::now();
        self.losses += 1;
        self.news = Some(Lost::Gone);
    }

    /// It is there again: for how many seconds it was not.
    pub fn ends(&mut self) -> f64 {
        let seconds = (clock::now() - self.since) as f64 / 1e9;
        self.seconds += seconds;
        self.news = Some(Lost::Back(seconds));
        seconds
    }

    /// What is to be told.
    pub fn news(&mut self) -> Option<Lost> {
        self.news.take()
    }

    /// What a stage says of it at the end, behind something else.
    pub fn says(&self) -> String {
        match self.losses {
            0 => String::new(),
            n => format!(", {n} times lost, for {:.1} s", self.seconds),
        }
    }
}
