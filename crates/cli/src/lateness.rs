//! `chappe lateness`: how late a periodic handler is beside hogs, and what the locks that they share add to that.
//!
//! nonblocking-real-time, 5.1, table 1: a handler every 250 us, the longest lateness. There a timer's interrupt, here an absolute sleep; there three systems, here
//! windows of one run that take turns.

mod measure;
mod svg;

use crate::args::lateness::{Lateness, Policy};
use crate::said::{Failure, failed, write};
use measure::{Plan, Window};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::Command;

/// What the handler got of what it asked for.
struct Got {
    policy: &'static str,
    why: Option<String>,
}

fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Fifo => "fifo",
        Policy::Deadline => "deadline",
        Policy::Other => "other",
    }
}

/// Microseconds at which this share of the samples is no later.
fn quantile(sorted: &[u32], share: f64) -> f64 {
    let at = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).map_or(0.0, |ns| f64::from(*ns) / 1e3)
}

/// A window's figures.
struct Figures {
    what: &'static str,
    periods: usize,
    missed: u64,
    p50: f64,
    p999: f64,
    most: f64,
}

impl Figures {
    fn of(window: &mut Window) -> Figures {
        window.late.sort_unstable();
        let at = |share| quantile(&window.late, share);
        let (p50, p999, most) = (at(0.5), at(0.999), at(1.0));
        Figures { what: window.what, periods: window.late.len(), missed: window.missed, p50, p999, most }
    }

    fn as_json(&self, none: f64) -> Value {
        json!({
            "window": self.what, "periods": self.periods, "missed": self.missed,
            "p50_us": self.p50, "p99_9_us": self.p999, "max_us": self.most, "added": self.p999 / none,
        })
    }
}

/// The longest lateness that cyclictest finds in a second, if it is installed.
fn cyclictest(plan: &Plan) -> Option<u64> {
    let args =
        ["-q", "-D", "1", "-i", &plan.period_us.to_string(), "-p", &plan.priority.to_string()].map(str::to_owned);
    let out = Command::new("cyclictest").args(args).output().ok().filter(|out| out.status.success())?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().rev().find_map(|line| line.split_once("Max:")?.1.trim().parse().ok())
}

/// Measures, and says what came of it.
pub fn run(a: &Lateness, json: bool) -> Result<u8, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        seconds: a.seconds,
        period_us: a.period,
        hogs: a.hogs.map_or(processors, usize::from),
        policy: a.policy,
        priority: a.priority,
    };
    let (mut windows, refused) = measure::measure(&plan).map_err(failed)?;
    let got = match refused {
        None => Got { policy: name(a.policy), why: None },
        Some(why) => Got { policy: "other", why: Some(why) },
    };
    let all: Vec<Figures> = windows.iter_mut().map(Figures::of).collect();
    let none = all[0].p999.max(0.001);
    let beside = cyclictest(&plan);
    if let Some(path) = &a.svg {
        let text = svg::histogram(&windows);
        std::fs::write(path, text)
            .map_err(|e| failed(anyhow::anyhow!("cannot write the histogram to {}: {e}", path.display())))?;
    }
    if json {
        let windows: Vec<Value> = all.iter().map(|f| f.as_json(none)).collect();
        let value = json!({
            "policy": got.policy, "refused": got.why, "period_us": a.period, "hogs": plan.hogs,
            "windows": windows, "cyclictest_max_us": beside,
        });
        write(format!("{value}\n").as_bytes())?;
        return Ok(0);
    }
    let mut text = format!("handler every {} us, scheduled as {}, beside {} hogs\n", a.period, got.policy, plan.hogs);
    if let Some(why) = got.why {
        let _ = writeln!(text, "{}: {why}", name(a.policy));
    }
    let _ = writeln!(
        text,
        "{:<34}{:>9}{:>10}{:>10}{:>10}{:>8}{:>8}",
        "lateness in us", "periods", "p50", "p99.9", "max", "missed", "added"
    );
    for f in &all {
        let Figures { what, periods, missed, p50, p999, most } = f;
        let added = p999 / none;
        let _ = writeln!(text, "{what:<34}{periods:>9}{p50:>10.1}{p999:>10.1}{most:>10.1}{missed:>8}{added:>7.2}x");
    }
    if let Some(most) = beside {
        let _ = writeln!(text, "cyclictest, a second without hogs: max {most}");
    }
    write(text.as_bytes())?;
    Ok(0)
}
