//! What a run shows: one line a stage, with its time on the clock and on the processors; on a terminal a bar meanwhile.

use crate::calls;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Seconds of processors that all processes have had which this one has started and which have ended, with those that these have waited for:
/// but cargo's of other threads, which build meanwhile.
pub fn processor_seconds() -> f64 {
    calls::seconds_of_all(None) - calls::seconds_elsewhere()
}

/// The line of a stage that goes on.
pub struct Bar {
    name: String,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    done: usize,
    of: usize,
    what: &'static str,
    shown: Instant,
}

const WIDTH: usize = 24;

impl Bar {
    /// A stage begins.
    pub fn new(name: &str) -> Bar {
        let now = Instant::now();
        let bar = Bar {
            name: name.to_owned(),
            began: now,
            state: Mutex::new(State { done: 0, of: 0, what: "", shown: now }),
        };
        bar.clear();
        bar
    }

    /// So much is to be done, of this.
    pub fn expect(&self, of: usize, what: &'static str) {
        let mut state = self.state.lock().expect("nothing panics here");
        (state.done, state.of, state.what) = (0, of, what);
        self.draw(&mut state);
    }

    /// One more is done.
    pub fn step(&self) {
        let mut state = self.state.lock().expect("nothing panics here");
        state.done += 1;
        if state.shown.elapsed() > Duration::from_millis(50) || state.done == state.of {
            self.draw(&mut state);
        }
    }

    fn draw(&self, state: &mut State) {
        if !std::io::stdout().is_terminal() {
            return;
        }
        state.shown = Instant::now();
        let full = WIDTH * state.done.min(state.of) / state.of.max(1);
        let bar = format!("{}{}", "#".repeat(full), "-".repeat(WIDTH - full));
        let seconds = self.began.elapsed().as_secs();
        print!("\r\x1b[K{:<24}[{bar}] {} of {} {}, {seconds} s", self.name, state.done, state.of, state.what);
        let _ = std::io::stdout().flush();
    }

    /// A line beside the bar, such as that of a mutant.
    pub fn say(&self, line: &str) {
        let mut state = self.state.lock().expect("nothing panics here");
        if std::io::stdout().is_terminal() {
            print!("\r\x1b[K");
        }
        println!("  {line}");
        self.draw(&mut state);
    }

    fn clear(&self) {
        if std::io::stdout().is_terminal() {
            print!("\r\x1b[K{:<24}", self.name);
            let _ = std::io::stdout().flush();
        }
    }

    /// The stage's line, once it has ended: its seconds on the clock and of processors.
    pub fn end(&self, verdict: &str, (seconds, processors): (f64, f64), more: &str) {
        if std::io::stdout().is_terminal() {
            print!("\r\x1b[K");
        }
        println!("{:<24}{verdict:<6} {seconds:>7.1} s {processors:>8.1} s of processors   {more}", self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_counted() {
        let before = processor_seconds();
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", spin]).status().is_ok_and(|s| s.success()));
        assert!(processor_seconds() > before);
    }
}
