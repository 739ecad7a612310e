//! How far a command has come with what it reads, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// A bar, of so many bytes, or one that shows only that it goes on.
pub fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, style) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {elapsed}"),
    };
    bar.with_style(ProgressStyle::with_template(style).expect("a template that can be read"))
}

/// A bar, on a terminal, for what mostly takes no time: it comes when half a second has gone.
#[derive(Clone)]
pub struct Late {
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Late {
    /// Of so many bytes, if that is known; one that never comes, if it is not `wanted` or stderr is no terminal.
    pub fn new(wanted: bool, bytes: Option<u64>) -> Late {
        let bar = (wanted && stderr().is_terminal()).then(|| bar(bytes));
        bar.iter().for_each(|bar| bar.set_draw_target(ProgressDrawTarget::hidden()));
        Late { bar, began: Instant::now() }
    }

    /// So many bytes more.
    pub fn add(&self, bytes: usize) {
        const LATE: Duration = Duration::from_millis(500);
        let Some(bar) = self.bar.as_ref().filter(|bar| !bar.is_finished()) else { return };
        if bar.is_hidden() && self.began.elapsed() >= LATE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.inc(bytes as u64);
    }

    /// It goes, and comes no more.
    pub fn clear(&self) {
        self.bar.iter().filter(|bar| !bar.is_finished()).for_each(ProgressBar::finish_and_clear);
    }
}
