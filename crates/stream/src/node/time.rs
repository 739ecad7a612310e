//! Devices that run by a clock, and deadlines (synthesis, 6.4). Ticks are in [`clocks`](super::clocks).

use super::absent::LOOK;
use crate::contest::{Entry, Spent};
use crate::kind::{Anew, End, Job, Kind, Plan};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::telling::References;
use crate::types::{Block, Element, Type};
use chappe_feedback::Estimate;
use chappe_plat::clock;
use chappe_sync::tube::Receiver;
use std::sync::Arc;
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
    /// So much later it was done.
    by: f64,
    rival: Option<Rival>,
}

/// A job that may be ended for a more important one.
struct Rival {
    name: String,
    importance: f64,
    /// Whose contest it is.
    graph: Arc<References>,
    spent: Spent,
    entry: Option<Entry>,
    /// When it was ended, in seconds from its begin.
    ended: Option<f64>,
}

impl Deadline {
    fn new(seconds: f64, total: f64, frame: usize, rival: Option<Rival>) -> Deadline {
        let job = Estimate::new(total, seconds);
        Deadline {
            job,
            total,
            seconds,
            frame,
            done: 0,
            began: 0,
            told: 0,
            late: false,
            at_warning: 0.0,
            by: 0.0,
            rival,
        }
    }

    /// Whether it was ended for another job.
    fn is_ended(&mut self, now: u64) -> bool {
        let Some(Rival { entry: Some(entry), ended, .. }) = &mut self.rival else { return false };
        if entry.is_ended() {
            ended.get_or_insert((now - self.began) as f64 / 1e9);
        }
        ended.is_some()
    }

    /// So many elements have come at this time.
    fn progress(&mut self, now: u64, elements: usize, out: &mut dyn Out) {
        if self.done == 0 {
            (self.began, self.told) = (now, now);
            if let Some(rival) = &mut self.rival {
                let deadline = now as f64 / 1e9 + self.seconds;
                rival.entry = Some(rival.graph.1.enter(&rival.name, rival.importance, self.total, deadline));
            }
        }
        self.done += (elements / self.frame) as u64;
        // A hundred looks at the job.
        if (now - self.told) as f64 >= self.seconds * 1e7 {
            self.told = now;
            let elapsed = (now - self.began) as f64 / 1e9;
            self.job.progress(elapsed, self.done as f64);
            if let Some(Rival { entry: Some(entry), graph, spent, .. }) = &self.rival {
                graph.1.progress(entry, now as f64 / 1e9, spent.so_far(), self.done as f64);
            }
            if let Some(end) = self.job.end() {
                // It goes first where threads are passed to another proc, if it would be late.
                let left = |until: f64| Duration::try_from_secs_f64(until - elapsed).unwrap_or_default();
                chappe_thread::set_due(Some((Instant::now() + left(self.seconds), left(end))));
            }
            if let Some(by) = self.job.news() {
                if !std::mem::replace(&mut self.late, true) {
                    self.at_warning = elapsed;
                }
                out.late(by);
            }
        }
    }

    /// All has come.
    fn over(&mut self, now: u64, out: &mut dyn Out) {
        let took = (now - self.began) as f64 / 1e9;
        chappe_thread::set_due(None);
        if self.is_ended(now) {
            return;
        }
        if let Some(Rival { entry: Some(entry), graph, .. }) = &self.rival {
            graph.1.over(entry);
        }
        if self.done > 0 && took > self.seconds {
            self.by = took - self.seconds;
            if !std::mem::replace(&mut self.late, true) {
                self.at_warning = took;
                out.late(self.by);
            }
        }
    }
}

impl Stage for Deadline {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let now = clock::now();
        if self.is_ended(now) {
            out.drop_frames((block.len() / self.frame) as u64);
            out.finish();
            return Ok(());
        }
        self.progress(now, block.len(), out);
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
        let by = if self.by > 0.0 { format!(", done {:.2} s too late", self.by) } else { String::new() };
        let ended = self.rival.as_ref().and_then(|rival| rival.ended);
        let ended = ended.map_or(String::new(), |at| format!(", ended after {at:.2} s for a more important job"));
        Some(format!("{} of {} frames, due in {} s{estimate}{warned}{by}{ended}", self.done, self.total, self.seconds))
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        match &self.rival {
            Some(Rival { entry: Some(entry), graph, ended: None, .. }) => graph.1.over(entry),
            Some(Rival { entry: None, graph, name, .. }) => graph.1.never(name),
            _ => {}
        }
    }
}

/// Gives a line when a job was ended for a more important one, and nothing if it ends by itself.
struct Emergency(Option<Receiver<String>>);

impl Source for Emergency {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let Some(hear) = &self.0 else { return Ok(None) };
        match hear.recv_timeout(LOOK) {
            Ok(line) => {
                self.0 = None;
                Ok(Some(Block::bytes(line.into_bytes())))
            }
            Err(e) if e.is_timeout() => Ok(Some(Block::bytes(Vec::new()))),
            Err(_) => Ok(None),
        }
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
            "SECONDS total=FRAMES [importance=N]",
            "says early when so many frames will not be through in time; may be ended for a more important one",
            |call| {
                let input = call.input()?;
                let seconds = call.needs_number(0, "seconds", (1e-3, 1e9))?;
                let total = call.needs_number(1, "total", (1.0, 1e15))?;
                let (frame, importance) = (frame(input), call.number(2, "importance", (0.0, 1e9))?);
                let written = call.written();
                let (name, graph) = (written.name.as_ref().unwrap_or(&written.kind).clone(), call.references());
                let spent = Spent::default();
                let job = importance.map(|_| Job::Is(name.clone(), Arc::clone(&spent)));
                let make = move || {
                    let rival = |importance| Rival { name, importance, graph, spent, entry: None, ended: None };
                    stage(Deadline::new(seconds, total, frame, importance.map(rival)))
                };
                Ok(Plan { job, ..Plan::filter(input.clone(), make) })
            },
        ),
        Kind::new(
            "emergency",
            "JOB",
            "gives a line when the `deadline` of that name was ended for a more important one",
            |call| {
                call.no_input()?;
                let name = call.needs_text(0, "job")?.0.to_owned();
                let (job, graph) = (Some(Job::Waits(name.clone())), call.references());
                let plan = Plan::source(Type::of(Element::Line), move || {
                    Ok(Body::Source(Box::new(Emergency(Some(graph.1.rescue(&name))))))
                });
                Ok(Plan { job, ..plan.ends(End::Passive, End::Active).anew(Anew::Fresh) })
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
        let mut stage = Deadline::new(100.0, 10_000.0, 1, None);
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
    fn a_job_that_will_be_late_calls_its_callout_in_time_and_as_it_gets_worse() {
        let (called, stage, end) = job(|_| 80.0);
        assert!(end > 124.0 && called.len() == 1 && called[0] <= 80.0, "{called:?} {end}");
        let says = stage.says().unwrap();
        assert!(
            says.starts_with("10000 of 10000 frames, due in 100 s")
                && says.contains("said to be late after")
                && says.ends_with(", done 25.00 s too late"),
            "{says}"
        );
        // It slows down in its midst.
        let (called, ..) = job(|now| if now < 40.0 { 120.0 } else { 40.0 });
        assert!(called[0] > 40.0 && called[0] <= 80.0, "{called:?}");
        // It ends 30 s late, which is not known at first.
        assert!((2..=4).contains(&called.len()), "{called:?}");
    }

    /// Two jobs of 10,000 frames that are due after 100 s, on one processor, in virtual time: each has half of it until one ends, and a frame takes `each`
    /// seconds of it. What the stages did with the blocks that came in 200 s, and what their rescuers heard.
    fn pair(each: [f64; 2], importance: [f64; 2]) -> ([Kept; 2], [Option<String>; 2], [String; 2]) {
        let graph = Arc::new(References::default());
        graph.1.begin(1);
        let names = ["a", "b"].map(str::to_owned);
        let hears = [0, 1].map(|at| graph.1.rescue(&names[at]));
        let spents = [Spent::default(), Spent::default()];
        let mut stages = [0, 1].map(|at| {
            let (name, graph, spent) = (names[at].clone(), Arc::clone(&graph), Arc::clone(&spents[at]));
            let rival = Rival { name, importance: importance[at], graph, spent, entry: None, ended: None };
            Deadline::new(100.0, 10_000.0, 1, Some(rival))
        });
        let mut outs = [Kept::default(), Kept::default()];
        let mut done = [0.0; 2];
        for second in 1..=200u64 {
            let now = second * 1_000_000_000;
            let live = [0, 1].map(|at| !outs[at].finished && done[at] < 10_000.0);
            for at in (0..2).filter(|at| live[*at]) {
                let time = if live[0] && live[1] { 0.5 } else { 1.0 };
                let frames = (time / each[at]) as usize;
                done[at] += frames as f64;
                spents[at].add((time * 1e9) as u64, 0);
                if stages[at].is_ended(now) {
                    outs[at].finish();
                } else {
                    stages[at].progress(now, frames, &mut outs[at]);
                }
                if done[at] >= 10_000.0 {
                    stages[at].over(now, &mut outs[at]);
                }
            }
        }
        let heard = hears.map(|hear| hear.try_recv().ok());
        (outs, heard, stages.map(|stage| stage.says().unwrap()))
    }

    #[test]
    fn the_less_important_of_two_jobs_ends_and_its_emergency_hears() {
        // 70 s of the processor each: alone either is done in time, and both are not.
        let (outs, heard, says) = pair([0.007, 0.007], [2.0, 1.0]);
        assert!(!outs[0].finished && outs[1].finished && says[0].starts_with("10"), "{says:?}");
        assert_eq!(heard[0], None);
        let line = heard[1].clone().unwrap();
        assert!(
            line.starts_with("b ended early: all jobs would have needed 1.") && line.ends_with(" processors\n"),
            "{line}"
        );
        assert!(says[1].contains("ended after 1") && says[1].contains("for a more important job"), "{says:?}");
        let (outs, heard, _) = pair([0.007, 0.007], [1.0, 2.0]);
        assert!(outs[0].finished && !outs[1].finished && heard[0].is_some() && heard[1].is_none());
        // 40 s each: nobody ends.
        let (outs, heard, _) = pair([0.004, 0.004], [2.0, 1.0]);
        assert!(!outs[0].finished && !outs[1].finished && heard == [None, None] && outs[0].late + outs[1].late == 0);
    }

    #[test]
    fn a_job_that_is_done_in_time_calls_nobody_and_one_that_stands_at_the_end_does() {
        for rate in [103.0, 130.0, 1_000.0] {
            assert_eq!(job(|_| rate).0, [0.0; 0], "{rate}");
        }
        // All is well until the last blocks.
        let (called, _, end) = job(|now| if now < 97.0 { 102.0 } else { 2.0 });
        assert!(called[0] > 97.0 && (1..=4).contains(&called.len()) && called.is_sorted(), "{called:?} {end}");
    }
}
