//! Devices that run by a clock, and deadlines (synthesis, 6.4). Ticks are in [`clocks`](super::clocks).

use crate::kind::{End, Kind, Plan};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Element, Type};
use chappe_feedback::Estimate;
use chappe_plat::clock;
use std::time::{Duration, Instant};

/// Sleeps lightly until this time of the machine's clock.
pub(super) fn sleep_until(due: u64) {
    let now = clock::now();
    if due > now {
        chappe_thread::sleep(Duration::from_nanos(due - now));
    }
}

/// Hands frames on at their rate, as a device does: the time of each is counted from the first, so the rate is right in the long run.
struct Pace {
    rate: f64,
    frame: usize,
    began: u64,
    frames: u64,
    /// So many nanoseconds may a block be late.
    slack: u64,
}

impl Stage for Pace {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let now = clock::now();
        if self.frames == 0 {
            self.began = now;
        }
        let due = self.began + (self.frames as f64 / self.rate * 1e9) as u64;
        if now > due + self.slack {
            out.late((now - due) as f64 / 1e9);
            // A device plays silence meanwhile, and goes on from here.
            self.began += now - due;
        }
        sleep_until(due);
        self.frames += (block.len() / self.frame) as u64;
        out.put(block)
    }
}

/// Follows a job towards its deadline, and says early that it will be late (6.4.2).
struct Deadline {
    job: Estimate,
    total: f64,
    seconds: f64,
    frame: usize,
    done: u64,
    began: u64,
    told: u64,
    late: bool,
    at_warning: f64,
}

impl Deadline {
    fn new(seconds: f64, total: f64, frame: usize) -> Deadline {
        let job = Estimate::new(total, seconds);
        Deadline { job, total, seconds, frame, done: 0, began: 0, told: 0, late: false, at_warning: 0.0 }
    }

    /// So many elements have come at this time.
    fn progress(&mut self, now: u64, elements: usize, out: &mut dyn Out) {
        if self.done == 0 {
            (self.began, self.told) = (now, now);
        }
        self.done += (elements / self.frame) as u64;
        // A hundred looks at the job.
        if (now - self.told) as f64 >= self.seconds * 1e7 {
            self.told = now;
            let elapsed = (now - self.began) as f64 / 1e9;
            self.job.progress(elapsed, self.done as f64);
            if let Some(end) = self.job.end() {
                // It goes first where threads are passed to another proc, if it would be late.
                let left = |until: f64| Duration::try_from_secs_f64(until - elapsed).unwrap_or_default();
                chappe_thread::set_due(Some((Instant::now() + left(self.seconds), left(end))));
            }
            if self.job.is_late() && !self.late {
                self.late = true;
                self.at_warning = elapsed;
                out.late((self.job.end().unwrap_or(elapsed) - self.seconds).max(0.0));
            }
        }
    }

    /// All has come.
    fn over(&mut self, now: u64, out: &mut dyn Out) {
        let took = (now - self.began) as f64 / 1e9;
        chappe_thread::set_due(None);
        if self.done > 0 && took > self.seconds && !self.late {
            self.late = true;
            self.at_warning = took;
            out.late(took - self.seconds);
        }
    }
}

impl Stage for Deadline {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.progress(clock::now(), block.len(), out);
        out.put(block)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        self.over(clock::now(), out);
        Ok(())
    }

    fn says(&self) -> Option<String> {
        let estimate = self.job.now().map_or(String::new(), |e| format!(", estimate {e:.2}"));
        let warned =
            if self.late { format!(", said to be late after {:.2} s", self.at_warning) } else { String::new() };
        Some(format!("{} of {} frames, due in {} s{estimate}{warned}", self.done, self.total, self.seconds))
    }
}

/// Elements of a frame; of records, bytes.
pub(super) fn frame(input: &Type) -> usize {
    if matches!(input.element, Element::Record(_)) { input.frame_bytes() } else { input.shape as usize }
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "pace",
            "[HZ] [slack=10ms]",
            "hands on at the rate, as a device does; what comes too late is counted",
            |call| {
                let input = call.input()?;
                let hz = call.number(0, "hz", (1e-3, 1e9))?.or(input.rate);
                let rate = hz.ok_or_else(|| {
                    call.mismatch(input, "something with a rate", "say how many frames a second: `pace 48000`")
                })?;
                let slack = (call.number_or(1, "slack", (0.0, 3600.0), 0.01)? * 1e9) as u64;
                let frame = frame(input);
                let gives = Type { rate: Some(rate), ..input.clone() };
                Ok(Plan::filter(gives, move || stage(Pace { rate, frame, began: 0, frames: 0, slack }))
                    .ends(End::Active, End::Active))
            },
        ),
        Kind::new(
            "deadline",
            "SECONDS total=FRAMES",
            "says early when so many frames will not be through in time",
            |call| {
                let input = call.input()?;
                let seconds = call.needs_number(0, "seconds", (1e-3, 1e9))?;
                let total = call.needs_number(1, "total", (1.0, 1e15))?;
                let frame = frame(input);
                Ok(Plan::filter(input.clone(), move || stage(Deadline::new(seconds, total, frame))))
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;

    /// A job of 10,000 frames that is due after 100 s, in virtual time: a block of 10 frames as often as `rate` says for each second. When `late` was
    /// called, by how much the stage thought, and when the last block came.
    fn job(rate: impl Fn(f64) -> f64) -> (Vec<f64>, Deadline, f64) {
        let mut stage = Deadline::new(100.0, 10_000.0, 1);
        let (mut out, mut now, mut called) = (Kept::default(), 0.0, Vec::new());
        for _ in 0..1_000 {
            let told = out.late;
            stage.progress(1 + (now * 1e9) as u64, 10, &mut out);
            if out.late > told {
                called.push(now);
            }
            now += 10.0 / rate(now);
        }
        let told = out.late;
        stage.over(1 + (now * 1e9) as u64, &mut out);
        if out.late > told {
            called.push(now);
        }
        (called, stage, now)
    }

    #[test]
    fn a_job_that_will_be_late_calls_its_callout_once_a_fifth_of_its_time_before() {
        let (called, stage, end) = job(|_| 80.0);
        assert!(end > 124.0 && called.len() == 1 && called[0] <= 80.0, "{called:?} {end}");
        let says = stage.says().unwrap();
        assert!(
            says.starts_with("10000 of 10000 frames, due in 100 s") && says.contains("said to be late after"),
            "{says}"
        );
        // It slows down in its midst.
        let (called, ..) = job(|now| if now < 40.0 { 120.0 } else { 40.0 });
        assert!(called.len() == 1 && called[0] > 40.0 && called[0] <= 80.0, "{called:?}");
    }

    #[test]
    fn a_job_that_is_done_in_time_calls_nobody_and_one_that_stands_at_the_end_does() {
        for rate in [103.0, 130.0, 1_000.0] {
            assert_eq!(job(|_| rate).0, [0.0; 0], "{rate}");
        }
        // All is well until the last blocks.
        let (called, _, end) = job(|now| if now < 97.0 { 102.0 } else { 2.0 });
        assert!(called.len() == 1 && called[0] > 97.0 && called[0] < end, "{called:?} {end}");
    }
}
