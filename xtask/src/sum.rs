//! What stages come to: a line each, and the sum.

use crate::show::{Bar, processor_seconds};
use anyhow::{Result, bail};
use std::time::Instant;

/// What came of a stage.
#[derive(Default)]
pub struct Outcome {
    /// How many passed, if it ran any.
    pub tests: Option<u64>,
    /// How many storms it left out.
    pub left_out: u64,
    /// What its tests say that they could not test here.
    pub untested: Vec<String>,
    /// What the line says behind that.
    pub more: String,
    /// Seconds on the clock and of processors, where others work at the same time, or it has waited for its turn.
    pub took: Option<(f64, f64)>,
}

impl Outcome {
    /// Of work that says in a line what it did, or why it could not.
    pub fn said(said: String) -> Outcome {
        let untested = said.starts_with("not tested: ").then(|| said.clone()).into_iter().collect();
        Outcome { untested, more: said, ..Outcome::default() }
    }
}

/// All that the run has come to.
#[derive(Default)]
pub struct Sum {
    /// What tests say that they could not test here.
    pub untested: Vec<String>,
    /// How many tests passed.
    pub tests: u64,
    /// How many storms were left out.
    pub left_out: u64,
    /// Seconds of processors.
    pub processors: f64,
    /// How many stages began.
    pub stages: u64,
    /// The stages with this in their names alone.
    pub only: Option<String>,
    /// Whether a stage that fails ends the run: the rest is run all the same if this is there, and what failed is kept.
    pub failures: Option<Vec<String>>,
}

impl Sum {
    /// Whether a stage of this name is among those asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// Runs a stage, if it is among those asked for, and prints its line.
    ///
    /// # Errors
    /// What failed, with what to do; none if the run keeps going.
    pub fn go(&mut self, name: &str, advice: &str, work: impl FnOnce(&Bar) -> Result<Outcome>) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        self.stages += 1;
        let (bar, before, start) = (Bar::new(name), processor_seconds(), Instant::now());
        let result = work(&bar);
        let own = result.as_ref().ok().and_then(|outcome| outcome.took);
        let (seconds, processors) =
            own.unwrap_or_else(|| (start.elapsed().as_secs_f64(), processor_seconds() - before));
        self.processors += processors;
        match result {
            Ok(outcome) => {
                let left = if outcome.left_out > 0 {
                    format!(" ({} storms left out)", outcome.left_out)
                } else {
                    String::new()
                };
                let tests = outcome.tests.map(|n| format!("{n} tests{left}")).unwrap_or_default();
                bar.end("ok", (seconds, processors), &format!("{tests}{}", outcome.more));
                self.tests += outcome.tests.unwrap_or(0);
                self.left_out += outcome.left_out;
                self.untested.extend(outcome.untested);
                Ok(())
            }
            Err(e) => {
                bar.end("FAILED", (seconds, processors), "");
                let failure = format!("{e:#}\n{name}: {advice}");
                let Some(failures) = &mut self.failures else { bail!(failure) };
                failures.push(failure);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_stage_says_what_to_do() {
        let e = Sum::default().go("nothing", "mend it", |_| bail!("it broke")).unwrap_err().to_string();
        assert!(e.contains("it broke") && e.contains("mend it"), "{e}");
    }

    #[test]
    fn a_run_that_keeps_going_keeps_each_failure() {
        let mut sum = Sum { failures: Some(Vec::new()), ..Sum::default() };
        sum.go("one", "mend it", |_| bail!("it broke")).unwrap();
        sum.go("two", "", |_| Ok(Outcome::default())).unwrap();
        assert_eq!(sum.failures, Some(vec!["it broke\none: mend it".to_owned()]));
    }
}
