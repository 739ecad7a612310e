//! The view: a line for each stage, drawn in place on stderr where that is a terminal.
//!
//! It is drawn only while chappe, or the stages, are in the terminal's foreground. What a stage writes to the terminal comes between, and
//! the next drawing is below it.

use super::history::Strip;
use super::report::bytes;
use crate::look::plain;
use crate::signals::Set;
use crate::terminal;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

/// How the job stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// The part of the time that is left that is needed.
    pub estimate: Option<f64>,
    /// Seconds until it is done.
    pub left: Option<f64>,
    /// Whether it will be late, or is.
    pub late: Option<bool>,
    /// How far it is behind the rate, in seconds.
    pub behind: Option<f64>,
}

/// A stage, as it is told at an interval. Shares are of one processor, fills of 1, ages seconds.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub command: String,
    pub bytes: u64,
    pub rate: f64,
    pub fill: Option<(f64, f64)>,
    pub used: f64,
    pub share: f64,
    pub reserved: Option<f64>,
    pub waits: (f64, f64),
    pub age: Option<f64>,
    pub processes: usize,
    pub stopped: bool,
    pub alone: bool,
    pub ended: Option<String>,
}

impl Told {
    /// For `--json`.
    pub fn as_json(&self, stage: usize) -> Value {
        json!({
            "stage": stage, "bytes": self.bytes, "bytes_per_second": self.rate.round(), "fill": self.fill.map(|f| f.0),
            "fill_most": self.fill.map(|f| f.1), "used": self.used, "share": self.share, "reserved": self.reserved,
            "waits_in": self.waits.0, "waits_out": self.waits.1, "age_ms": self.age.map(|a| (a * 1e3).round()),
            "processes": self.processes, "stopped": self.stopped, "left_alone": self.alone,
        })
    }

    fn line(&self, stage: usize, strip: &Strip, columns: usize) -> String {
        let percent = |part: f64| format!("{:.0}", part * 100.0);
        let fill = self.fill.map_or("-".into(), |f| percent(f.0));
        let share = match self.reserved {
            _ if self.alone => "all".into(),
            Some(reserved) => percent(reserved),
            None => percent(self.share),
        };
        let age = self.age.map_or("-".into(), |a| format!("{:.0}", a * 1e3));
        let state = match &self.ended {
            Some(ended) => ended.clone(),
            None if self.stopped => "stopped".into(),
            None => strip.marks(columns.saturating_sub(74)),
        };
        let command: String = plain(&self.command).chars().take(18).collect();
        format!(
            "{stage:>2} {command:<18} {:>9}/s {fill:>5} {:>5} {share:>5} {:>5} {:>5} {age:>6}  {state}",
            bytes(self.rate),
            percent(self.used),
            percent(self.waits.0),
            percent(self.waits.1),
        )
    }
}

const HEAD: &str = "   STAGE                     RATE  FILL  USED SHARE IN   OUT    AGE ms";

/// What is drawn, as lines.
fn lines(told: &[Told], strips: &[Strip], standing: &Standing, columns: usize) -> Vec<String> {
    let mut all = vec![HEAD.to_owned()];
    all.extend(told.iter().zip(strips).enumerate().map(|(at, (t, strip))| t.line(at + 1, strip, columns)));
    let mut last = String::new();
    if let Some(estimate) = standing.estimate.filter(|e| e.is_finite()) {
        let _ = write!(last, "estimate {:.0} % of the time that is left  ", estimate * 100.0);
    }
    if let Some(left) = standing.left.filter(|l| l.is_finite()) {
        let _ = write!(last, "done in {left:.0} s  ");
    }
    if let Some(behind) = standing.behind {
        let _ = write!(last, "{:.0} ms behind  ", behind * 1e3);
    }
    if standing.late == Some(true) {
        last += "LATE";
    }
    if !last.is_empty() {
        all.push(format!("   {}", last.trim_end()));
    }
    all.iter().map(|line| line.chars().take(columns.saturating_sub(1)).collect()).collect()
}

/// The view.
pub struct View {
    strips: Vec<Strip>,
    drawn: usize,
    group: i32,
}

impl View {
    /// One for so many stages, if it can be drawn.
    pub fn new(stages: usize, wanted: bool, quiet: bool) -> Option<View> {
        let there = std::io::stderr().is_terminal() && (wanted || !std::io::stdout().is_terminal());
        let term = std::env::var("TERM").unwrap_or_default();
        (there && !quiet && !matches!(term.as_str(), "" | "dumb")).then(|| View {
            strips: vec![Strip::default(); stages],
            drawn: 0,
            group: 0,
        })
    }

    /// The group of the stages, which may be in the foreground for chappe.
    pub fn of_group(&mut self, group: i32) {
        self.group = group;
    }

    /// Draws it, over what was drawn before.
    pub fn draw(&mut self, told: &[Told], standing: &Standing) {
        for (strip, told) in self.strips.iter_mut().zip(told) {
            strip.add(told.fill.map_or(0.0, |f| f.1));
        }
        let lines = lines(told, &self.strips, standing, terminal::columns(2));
        let mut text = String::new();
        if self.drawn > 0 {
            let _ = write!(text, "\x1b[{}A", self.drawn);
        }
        for line in &lines {
            let _ = write!(text, "\r{line}\x1b[K\r\n");
        }
        // Fewer lines than before.
        text += "\x1b[J";
        if self.put(&text) {
            self.drawn = lines.len();
        }
    }

    /// Takes it off the screen, since something else is to be said.
    pub fn erase(&mut self) {
        if self.drawn > 0 {
            let text = format!("\x1b[{}A\r\x1b[J", self.drawn);
            self.put(&text);
            self.drawn = 0;
        }
    }

    /// It stays as it is.
    pub fn end(&mut self) {
        self.drawn = 0;
    }

    /// In the background nothing is written.
    fn put(&self, text: &str) -> bool {
        if !terminal::is_of(2, self.group) {
            return false;
        }
        // Chappe is in the background where the stages have the terminal: `stty tostop` would stop it.
        let before = Set::blocked_now();
        Set::of(&[libc::SIGTTOU]).block();
        let mut err = std::io::stderr().lock();
        // If the terminal is gone, the view is not read.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        before.set();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_a_stage_does_and_fits_the_screen() {
        let told = Told {
            command: "./filter --with a long list of words".into(),
            rate: 192_000.0,
            fill: Some((0.12, 0.5)),
            used: 0.15,
            share: 0.17,
            reserved: Some(0.17),
            waits: (0.8, 0.0),
            age: Some(0.0021),
            ..Told::default()
        };
        let mut strip = Strip::default();
        strip.add(0.5);
        let standing = Standing { estimate: Some(1.2), left: Some(30.0), late: Some(true), behind: Some(0.012) };
        let all = lines(std::slice::from_ref(&told), std::slice::from_ref(&strip), &standing, 100);
        assert_eq!(all[1], " 1 ./filter --with a   192.0 kB/s    12    15    17    80     0      2  ▅");
        assert_eq!(all[2], "   estimate 120 % of the time that is left  done in 30 s  12 ms behind  LATE");
        assert!(
            lines(std::slice::from_ref(&told), std::slice::from_ref(&strip), &standing, 20)
                .iter()
                .all(|l| l.chars().count() < 20)
        );
        let stopped = Told { stopped: true, alone: true, fill: None, ..told };
        let all = lines(&[stopped], &[strip], &Standing::default(), 100);
        assert!(all[1].ends_with("stopped") && all[1].contains("  all ") && all.len() == 2, "{all:?}");
    }
}
