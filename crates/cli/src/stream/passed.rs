//! What has gone between a tube and a pipe.

use crate::args::Recv;
use crate::progress;
use crate::said::tell;
use anyhow::anyhow;
use indicatif::ProgressBar;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// How long a command waits before it looks again for another that may come.
pub const FOLLOW: Duration = Duration::from_millis(20);

/// How receiving came to its end.
pub enum Ended {
    Done,
    /// No sender is left, and one has not ended well.
    Died,
    TimedOut,
    /// Ctrl-C: what is added up was written.
    Stopped,
}

/// What went through.
pub struct Passed {
    pub records: u64,
    pub bytes: u64,
    pub again: u64,
    /// To a subscriber that was too slow.
    pub lost: u64,
    /// The tube one of whose senders has died, or broken off.
    pub died: Option<String>,
    /// Whether any was there, asked for or not.
    pub some: bool,
    began: Instant,
    pub bar: Option<ProgressBar>,
    /// The terminal has been told that nobody receives.
    is_told: bool,
}

impl Passed {
    /// The tube is full, and nobody receives. A terminal is told, once.
    pub fn waits_alone(&mut self, name: &str) {
        if let (Some(bar), false) = (&self.bar, self.is_told) {
            self.is_told = true;
            bar.println(format!(
                "chappe: `{name}` is full, and nobody receives from it: this waits (`chappe recv {name}` takes what is there)"
            ));
        }
    }

    /// A sender of this tube has not ended well. With `--follow` that is reported at once.
    pub fn sender_died(&mut self, name: &str, a: &Recv) {
        if a.follow {
            tell(format_args!("chappe: a sender of `{name}` died, or stopped with an error, in the middle"));
        }
        self.died = Some(name.to_owned());
    }

    /// On a terminal, with a bar; of so many bytes, if that is known.
    pub fn new(json: bool, bytes: Option<u64>) -> Passed {
        let bar = (!json && stderr().is_terminal()).then(|| progress::bar(bytes));
        Passed {
            records: 0,
            bytes: 0,
            again: 0,
            lost: 0,
            died: None,
            some: false,
            began: Instant::now(),
            bar,
            is_told: false,
        }
    }

    pub fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
        if let Some(bar) = &self.bar {
            bar.set_position(self.bytes);
        }
    }

    pub fn ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub fn told(&self) -> String {
        format!("{} record{}, {} bytes", self.records, if self.records == 1 { "" } else { "s" }, self.bytes)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

/// How many bytes stdin has, if it is a file.
pub fn length_of_stdin() -> Option<u64> {
    let facts = std::fs::metadata("/proc/self/fd/0").ok()?;
    facts.is_file().then_some(facts.len())
}

pub fn no_schema(name: &str) -> anyhow::Error {
    anyhow!("tube `{name}` has no schema: it says nothing of its records; make it with --schema")
}
