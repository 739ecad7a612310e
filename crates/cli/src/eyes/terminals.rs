//! Terminals for `chappe top`: how their commands are, and how much they write. They lie beside the arenas, so no snapshot of an arena has them.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A terminal.
#[derive(Clone, Debug)]
pub struct TerminalSeen {
    /// Its name.
    pub name: String,
    /// How its command is.
    pub state: String,
    /// How long ago it was made.
    pub age: Duration,
    /// How many bytes its command has written.
    pub written: u64,
    /// The same a second since the last look; none at the first one.
    pub rate: Option<f64>,
    /// What it runs.
    pub command: String,
    /// What stands on its screen.
    #[cfg_attr(not(feature = "top"), expect(dead_code, reason = "for the screen alone"))]
    pub lines: Vec<String>,
}

impl TerminalSeen {
    /// For `--json` and the page.
    pub fn as_json(&self) -> Value {
        json!({
            "name": self.name, "state": self.state, "age_seconds": self.age.as_secs_f64(), "written_bytes": self.written,
            "written_bytes_per_second": self.rate, "command": self.command,
        })
    }
}

/// Looks again and again.
#[derive(Default)]
pub struct Looker {
    before: HashMap<String, (u64, Instant)>,
}

impl Looker {
    /// All of this user's.
    pub fn look(&mut self) -> Vec<TerminalSeen> {
        let now = Instant::now();
        let mut all = all();
        let before = std::mem::take(&mut self.before);
        for one in &mut all {
            one.rate = before.get(&one.name).map(|(written, at)| {
                // One of the same name may have been made anew.
                one.written.saturating_sub(*written) as f64 / now.duration_since(*at).as_secs_f64().max(1e-3)
            });
            self.before.insert(one.name.clone(), (one.written, now));
        }
        all
    }
}

#[cfg(feature = "term")]
fn all() -> Vec<TerminalSeen> {
    crate::term::overview::seen().into_iter().map(of).collect()
}

#[cfg(feature = "term")]
fn of(seen: crate::term::overview::Seen) -> TerminalSeen {
    let crate::term::overview::Seen { name, state, age, written, command, lines } = seen;
    TerminalSeen { name, state, age, written, rate: None, command, lines }
}

#[cfg(not(feature = "term"))]
fn all() -> Vec<TerminalSeen> {
    Vec::new()
}
