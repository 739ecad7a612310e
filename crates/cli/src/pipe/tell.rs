//! What is told of a pipeline while it runs and at its end: as text, as JSON, as a view, as a page. It gets the controller's events and how stages ended.

use super::contest::Contest;
use super::control::{Event, Row};
use super::history::{History, through};
use super::means::Kind;
use super::report::{Line, Summary};
use super::view::{Standing, Told, View};
use super::wait::status;
use crate::look::plain;
use crate::said::tell;
use crate::supervise::Ended;
use chappe::feedback::Estimate;
use chappe::feedback::jobs::in_words;
use serde_json::{Value, json};
use std::time::Duration;

/// What is known of the whole job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Job {
    /// Bytes a second.
    pub rate: Option<f64>,
    /// From the begin, in seconds.
    pub deadline: Option<f64>,
    /// Bytes in all.
    pub size: Option<f64>,
    /// The first stage reads what is to be done, and does not make it.
    pub reads: bool,
}

/// Follows the job.
struct Progress {
    job: Job,
    estimate: Option<Estimate>,
    /// What all have done, in bytes.
    done: f64,
    /// When the first byte was seen, and how many there were then.
    first: Option<(f64, f64)>,
    /// By how much it will be late, if that is to be told now.
    news: Option<f64>,
    /// Without a size: it has been told that the deadline has passed.
    is_over: bool,
}

impl Progress {
    fn new(job: Job) -> Progress {
        let estimate = job.size.map(|size| Estimate::new(size, job.deadline.unwrap_or(f64::INFINITY)));
        Progress { job, estimate, done: 0.0, first: None, news: None, is_over: false }
    }

    fn next(&mut self, at: f64, rows: &[Row]) -> Standing {
        let done = rows.first().map_or(0, |r| if self.job.reads { r.moved.0 } else { r.moved.1 }) as f64;
        self.done = done;
        let mut standing = Standing::default();
        if let Some(estimate) = &mut self.estimate {
            estimate.progress(at, done);
            standing.left = estimate.end().map(|end| (end - at).max(0.0));
            if self.job.deadline.is_some() {
                standing.estimate = estimate.now();
                standing.late = Some(estimate.is_late());
                self.news = estimate.news();
            }
        } else if let Some(deadline) = self.job.deadline {
            // Without a size only this can be told.
            standing.late = Some(at > deadline);
            self.news = (at > deadline && !std::mem::replace(&mut self.is_over, true)).then_some(0.0);
        }
        if let Some(rate) = self.job.rate.filter(|_| done > 0.0) {
            let (from, had) = *self.first.get_or_insert((at, done));
            standing.behind = Some(((at - from) - (done - had) / rate).max(0.0));
        }
        standing
    }
}

/// How many processors a pipeline can use at once: its stages wait for the one that has most to do.
fn at_once(rows: &[Row]) -> f64 {
    let used: f64 = rows.iter().map(|row| row.sums.0).sum();
    let longest = rows.iter().map(|row| row.sums.0 / row.at_once.max(1.0)).fold(0.0, f64::max);
    if longest > 0.0 { (used / longest).max(1.0) } else { f64::INFINITY }
}

/// How much is told.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub json: bool,
    pub quiet: bool,
    /// Between two looks that are told.
    pub interval: Duration,
}

/// Tells it.
pub struct Teller {
    manner: Manner,
    commands: Vec<String>,
    progress: Progress,
    pub history: History,
    view: Option<View>,
    kinds: Vec<Option<Kind>>,
    slices_only: bool,
    /// What was said first is said once for all stages.
    announced: bool,
    said: Vec<(f64, String)>,
    rows: Vec<Row>,
    /// Since the last look that was told: how many, the fills, the bytes then, and when.
    window: Vec<Window>,
    told_at: f64,
    at: f64,
    ended: Vec<Option<Ended>>,
    /// Whether it is to end early for a more important one.
    contest: Option<Contest>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    count: f64,
    used: f64,
    fill: f64,
    fill_most: f64,
    waits: (f64, f64),
    bytes: u64,
}

impl Teller {
    /// For these stages.
    pub fn new(commands: Vec<String>, job: Job, manner: Manner, view: Option<View>) -> Teller {
        let count = commands.len();
        Teller {
            manner,
            progress: Progress::new(job),
            history: History::default(),
            view,
            kinds: vec![None; count],
            slices_only: false,
            announced: false,
            said: Vec::new(),
            rows: vec![Row::default(); count],
            window: vec![Window::default(); count],
            told_at: 0.0,
            at: 0.0,
            ended: vec![None; count],
            contest: None,
            commands,
        }
    }

    /// It may end early for a more important pipeline.
    pub fn compete(&mut self, contest: Option<Contest>) {
        self.contest = contest;
    }

    /// Whether it is to end early, and what all would have needed.
    pub fn ended_early(&self) -> Option<f64> {
        self.contest.as_ref()?.ended
    }

    fn contend(&mut self, at: f64) {
        let used = self.rows.iter().map(|row| row.sums.0).sum();
        let Some(contest) = self.contest.as_mut().filter(|contest| contest.ended.is_none()) else { return };
        match contest.look(at, used, self.progress.done, at_once(&self.rows)) {
            Ok(true) => {
                let need = in_words(contest.ended.unwrap_or_default());
                let what = format!(
                    "(and the whole) ends early: all pipelines together would need {need}, and more important ones run"
                );
                self.warning(1, "emergency", &what);
            }
            Ok(false) => {}
            Err(e) => {
                self.contest = None;
                self.warning(
                    1,
                    "alone",
                    &format!("(and the whole) takes no part among pipelines any more: {}", crate::look::chain(&e)),
                );
            }
        }
    }

    /// All stages have begun.
    pub fn started(&mut self, pids: &[i32], attached: bool) {
        self.has_begun(pids, attached);
        let of = self.progress.job;
        if of.deadline.is_some() && of.size.is_none() && (self.manner.json || !self.manner.quiet) {
            let what = "(and the whole) is told to be late at the deadline only: how much there is to do is not known. Say it with --size, or let stdin be a file";
            self.warning(1, "no-size", what);
        }
    }

    fn has_begun(&self, pids: &[i32], attached: bool) {
        if self.manner.json {
            let stages: Vec<Value> = self
                .commands
                .iter()
                .zip(pids)
                .enumerate()
                .map(|(at, (command, pid))| json!({ "stage": at + 1, "command": command.trim(), "pid": pid }))
                .collect();
            tell(json!({ "event": "started", "attached": attached, "stages": stages }));
        }
    }

    /// The group of the stages.
    pub fn of_group(&mut self, group: i32) {
        if let Some(view) = &mut self.view {
            view.of_group(group);
        }
    }

    fn name(&self, stage: usize) -> String {
        let command = self.commands[stage - 1].trim();
        let short: String = command.chars().take(40).collect();
        let dots = if short.len() < command.len() { "..." } else { "" };
        format!("stage {stage} `{}{dots}`", plain(&short))
    }

    /// Something that people are to know.
    fn say(&mut self, text: String) {
        if !self.manner.json {
            if let Some(view) = &mut self.view {
                view.erase();
            }
            tell(format_args!("chappe: {}", plain(&text)));
        }
        self.said.push((self.at, text));
    }

    /// Takes what the controller tells.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Means { stage, kind, slices_only, refused } => self.means(stage, kind, slices_only, refused),
            Event::Warning { stage, kind, what } => self.warning(stage, kind, &what),
            Event::Look { at, stages } => self.look(at.as_secs_f64(), stages),
        }
    }

    fn means(&mut self, stage: usize, kind: Kind, slices_only: bool, refused: Option<(Kind, String)>) {
        let first = self.kinds[stage - 1].is_none();
        self.kinds[stage - 1] = Some(kind);
        self.slices_only |= slices_only;
        if self.manner.json {
            let why = refused.map(|(from, why)| format!("{}: {why}", from.name()));
            tell(json!({ "event": "means", "stage": stage, "means": kind.name(), "refused": why }));
            return;
        }
        let begun = self.announced;
        if let Some((from, why)) = refused.filter(|_| begun || stage == 1 || !first) {
            let text =
                format!("{}: {} refused: {why}; it goes on with {}", self.name(stage), from.words(), kind.words());
            self.say(text);
        }
        if !begun && self.kinds.iter().all(Option::is_some) {
            self.announced = true;
            if !self.manner.quiet {
                let mut kinds: Vec<Kind> = self.kinds.iter().flatten().copied().collect();
                kinds.sort_unstable();
                kinds.dedup();
                let words: Vec<&str> = kinds.iter().map(|k| k.words()).collect();
                let slices = if self.slices_only { "; niceness below zero is refused, slices are shorter" } else { "" };
                let count = self.kinds.len();
                let s = if count == 1 { "" } else { "s" };
                self.say(format!("{count} stage{s}, by {}{slices}", words.join(" and ")));
            }
        }
    }

    fn warning(&mut self, stage: usize, kind: &str, what: &str) {
        let text = format!("{} {what}", self.name(stage));
        if self.manner.json {
            tell(json!({ "event": "warning", "stage": stage, "kind": kind, "what": text }));
            self.said.push((self.at, text));
        } else if kind != "takes-all" {
            self.say(text);
        } else {
            // That is no fault.
            self.said.push((self.at, text));
        }
    }

    fn look(&mut self, at: f64, rows: Vec<Row>) {
        self.at = at;
        self.history.add(at, &rows);
        for (window, row) in self.window.iter_mut().zip(&rows) {
            let (mean, most) = row.fill.unwrap_or_default();
            window.count += 1.0;
            window.used += row.used;
            window.fill += mean;
            window.fill_most = window.fill_most.max(most);
            window.waits = (window.waits.0 + row.waits.0, window.waits.1 + row.waits.1);
        }
        self.rows = rows;
        let standing = self.progress.next(at, &self.rows);
        self.contend(at);
        if let Some(by) = self.progress.news {
            let what = match standing.left {
                Some(left) if left.is_finite() => {
                    format!("will be done in {left:.0} s, {by:.0} s after the deadline, as far as one can tell")
                }
                _ => "is not done at the deadline".to_owned(),
            };
            self.warning(1, "late", &format!("(and the whole) {what}"));
        }
        if at - self.told_at >= self.manner.interval.as_secs_f64() - 0.05 {
            self.tell_window(at, standing);
        }
    }

    fn tell_window(&mut self, at: f64, standing: Standing) {
        let seconds = (at - std::mem::replace(&mut self.told_at, at)).max(1e-3);
        let told: Vec<Told> = (0..self.rows.len())
            .map(|k| {
                let (window, row) = (&mut self.window[k], &self.rows[k]);
                let bytes = through(row);
                let rate = bytes.saturating_sub(window.bytes) as f64 / seconds;
                let count = window.count.max(1.0);
                let told = Told {
                    command: self.commands[k].trim().to_owned(),
                    bytes,
                    rate,
                    fill: row.fill.map(|_| (window.fill / count, window.fill_most)),
                    used: window.used / count,
                    share: row.share,
                    reserved: row.reserved.filter(|_| !row.alone),
                    waits: (window.waits.0 / count, window.waits.1 / count),
                    age: row.fill.filter(|_| rate > 0.0).map(|_| f64::from(row.waiting) / rate),
                    processes: row.processes,
                    stopped: row.stopped,
                    alone: row.alone,
                    ended: self.ended[k].map(shown),
                };
                *window = Window { bytes, ..Window::default() };
                told
            })
            .collect();
        if self.manner.json {
            let stages: Vec<Value> = told.iter().enumerate().map(|(at, t)| t.as_json(at + 1)).collect();
            tell(json!({
                "event": "look", "seconds": at, "stages": stages, "estimate": standing.estimate.filter(|e| e.is_finite()),
                "ends_in_seconds": standing.left.filter(|l| l.is_finite()), "late": standing.late,
                "behind_ms": standing.behind.map(|b| (b * 1e3).round()),
            }));
        }
        if let Some(view) = &mut self.view {
            view.draw(&told, &standing);
        }
    }

    /// A stage has ended.
    pub fn ended(&mut self, stage: usize, ended: Ended) {
        self.ended[stage - 1] = Some(ended);
        let Ended::Killed(signal) = ended else { return };
        // What these are for needs no word: the reader had enough, or the user.
        if matches!(signal, libc::SIGPIPE | libc::SIGINT | libc::SIGTERM | libc::SIGHUP) {
            return;
        }
        self.warning(stage, "killed", &format!("was killed by signal {signal}"));
    }

    /// All is over.
    pub fn done(&mut self, outcome: Option<Ended>) -> Summary {
        if let Some(view) = &mut self.view {
            view.end();
        }
        let late = self.progress.job.deadline.map_or(0.0, |deadline| self.at - deadline);
        if let (Some(Ended::Exited(_)), None, true) = (outcome, self.ended_early(), late > 0.0) {
            self.warning(1, "late", &format!("(and the whole) was done {late:.1} s after the deadline"));
        }
        let seconds = self.at.max(1e-3);
        let lines: Vec<Line> = (0..self.rows.len())
            .map(|k| Line {
                command: self.commands[k].clone(),
                means: self.kinds[k].map_or_else(|| "ended before".to_owned(), |kind| kind.words().to_owned()),
                ended: self.ended[k].map_or_else(|| "unknown".to_owned(), shown),
                bytes: through(&self.rows[k]) as f64,
                used: self.rows[k].sums.0 / seconds,
                reserved: self.rows[k].sums.1 / seconds,
            })
            .collect();
        if self.manner.json {
            let stages: Vec<Value> = (0..lines.len())
                .map(|k| {
                    let (status, signal) = self.ended[k].map_or((None, None), Ended::parts);
                    json!({
                        "stage": k + 1, "status": status, "signal": signal, "bytes": through(&self.rows[k]),
                        "used": lines[k].used, "reserved": lines[k].reserved, "means": self.kinds[k].unwrap_or(Kind::None).name(),
                    })
                })
                .collect();
            let sum = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>();
            tell(json!({
                "event": "ended", "status": outcome.map(status), "seconds": self.at, "used": sum(|l| l.used),
                "reserved": sum(|l| l.reserved), "stages": stages,
            }));
        }
        let ended = outcome.map_or_else(|| "attached, and let go".to_owned(), shown);
        Summary {
            pipeline: self.commands.join("|"),
            seconds: self.at,
            ended,
            lines,
            said: std::mem::take(&mut self.said),
        }
    }
}

/// How something ended, for people.
fn shown(ended: Ended) -> String {
    match ended {
        Ended::Exited(status) => format!("status {status}"),
        Ended::Killed(signal) => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64) -> Vec<Row> {
        vec![Row { moved: (bytes, bytes), ..Row::default() }]
    }

    #[test]
    fn a_job_that_is_too_slow_is_late_before_its_deadline() {
        let job = Job { deadline: Some(10.0), size: Some(1000.0), reads: true, ..Job::default() };
        let mut progress = Progress::new(job);
        let late = (1..100).find(|k| progress.next(f64::from(*k) * 0.1, &row(*k as u64 * 5)).late == Some(true));
        assert!(late.is_some_and(|k| k < 30), "{late:?}");
        let mut progress = Progress::new(job);
        assert!((1..50).all(|k| progress.next(f64::from(k) * 0.1, &row(k as u64 * 20)).late == Some(false)));
        let standing = progress.next(5.0, &row(1000));
        assert_eq!((standing.estimate, standing.late), (Some(0.0), Some(false)));
    }

    #[test]
    fn a_pipeline_uses_as_many_processors_as_its_busiest_stage_lets_it() {
        let of = |rows: &[(f64, f64)]| {
            let row = |&(used, at_once): &(f64, f64)| Row { sums: (used, 0.0), at_once, ..Row::default() };
            at_once(&rows.iter().map(row).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(10.0, 1.0), (0.5, 1.0)]), 1.05);
        assert_eq!(of(&[(10.0, 1.0), (10.0, 1.0), (5.0, 1.0)]), 2.5);
        assert_eq!((of(&[(10.0, 4.0), (1.0, 1.0)]), of(&[(10.0, 4.0), (5.0, 1.0)])), (4.4, 3.0));
        // Nobody knows it yet.
        assert_eq!(of(&[(0.0, 1.0), (0.0, 0.0)]), f64::INFINITY);
    }

    #[test]
    fn without_a_size_only_the_deadline_itself_is_known() {
        let mut progress = Progress::new(Job { deadline: Some(1.0), ..Job::default() });
        let standing = progress.next(0.5, &row(1));
        assert_eq!((standing.estimate, standing.late), (None, Some(false)));
        assert_eq!((progress.next(1.5, &row(2)).late, progress.news), (Some(true), Some(0.0)));
        assert_eq!((progress.next(2.0, &row(2)).late, progress.news), (Some(true), None));
    }

    #[test]
    fn how_far_it_is_behind_its_rate_is_counted_from_the_first_byte() {
        let mut progress = Progress::new(Job { rate: Some(100.0), reads: true, ..Job::default() });
        assert_eq!(progress.next(7.0, &row(0)).behind, None);
        assert_eq!(progress.next(8.0, &row(10)).behind, Some(0.0));
        assert_eq!(progress.next(9.0, &row(60)).behind, Some(0.5));
        assert_eq!(progress.next(10.0, &row(300)).behind, Some(0.0));
    }
}
