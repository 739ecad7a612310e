//! table 1 of nonblocking-real-time: lateness of a periodic handler.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::table::Table;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The row.
pub struct Lateness;

/// `chappe lateness`, of the program beside this one, or else of the one in PATH.
fn lateness(lab: &Lab) -> Result<Value, String> {
    let beside = lab.program.with_file_name("chappe");
    let program = if beside.exists() { beside.as_path() } else { Path::new("chappe") };
    let output = Command::new(program).args(["--json", "lateness", "--seconds", "1"]).output();
    let output = output.map_err(|_| "there is no `chappe` beside this program nor in PATH".to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("`chappe lateness` ended with {}: {}", output.status, said.trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("`chappe lateness` says no JSON: {e}"))
}

/// One column of all windows, in nanoseconds.
fn column(seen: &Value, what: &str) -> Vec<(String, Vec<f64>)> {
    let windows = seen["windows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |w: &Value| Some((w["window"].as_str()?.to_owned(), vec![w[what].as_f64()? * 1e3]));
    windows.iter().filter_map(of).collect()
}

impl Row for Lateness {
    fn about(&self) -> About {
        About {
            id: "fiasco-1",
            paper: Paper::Fiasco,
            part: "table 1",
            title: "lateness of a periodic handler",
            note: "`chappe lateness`: a second each time, in windows that take turns, beside threads that compute and use the same lock. Where SCHED_FIFO is not \
                   permitted the handler runs as everybody.",
            seconds: (6, 30),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds, at the most, of a handler every 250 us",
            &["system|lateness", "Fiasco / L4Linux|65", "L4/x86 / L4Linux|541", "RTLinux|58"],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        let seen = lateness(lab).map_err(Absent::new)?;
        println!("scheduled as {}, beside {} threads that compute", seen["policy"], seen["hogs"]);
        for (what, title) in
            [("p50_us", "median"), ("p99_9_us", "99.9th percentile"), ("max_us", "the latest of a second")]
        {
            print!("{}", Table::of(format!("lateness: {title}"), column(&seen, what)).report());
        }
        Ok(())
    }
}
