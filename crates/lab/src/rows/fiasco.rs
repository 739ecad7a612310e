//! Pragmatic nonblocking synchronization for real-time systems.

use crate::row::{Absent, Lab, Paper, Row};
use chappe_bench::realtime::{counters, inversion, maps};
use chappe_bench::table::Table;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

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

/// Its tables and figures, in order.
pub const ROWS: &[Row] = &[
    Row {
        id: "fiasco-1",
        paper: Paper::Fiasco,
        part: "table 1",
        title: "lateness of a periodic handler",
        note: "`chappe lateness`: a second each time, in windows that take turns, beside threads that compute and use the same lock. Where SCHED_FIFO is not \
                   permitted the handler runs as everybody.",
        seconds: (6, 30),
        figures: Some((
            "microseconds, at the most, of a handler every 250 us",
            &["system|lateness", "Fiasco / L4Linux|65", "L4/x86 / L4Linux|541", "RTLinux|58"],
        )),
        measure: |lab| {
            let seen = lateness(lab).map_err(Absent::new)?;
            println!("scheduled as {}, beside {} threads that compute", seen["policy"], seen["hogs"]);
            for (what, title) in
                [("p50_us", "median"), ("p99_9_us", "99.9th percentile"), ("max_us", "the latest of a second")]
            {
                print!("{}", Table::of(format!("lateness: {title}"), column(&seen, what)).report());
            }
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "fiasco-2",
        paper: Paper::Fiasco,
        part: "table 2",
        title: "a counter by each way of synchronising",
        note: "Besides: what three priorities on one processor do to the highest (section 3), and look-ups in a map.",
        seconds: (6, 60),
        figures: Some((
            "cycles of a P5 and of a Pentium II",
            &[
                "way|P5|P-II",
                "unsynchronised|2|2",
                "CAS|13|12",
                "Fiasco's helping lock|245|245",
                "Massalin and Pu's lock, with a context switch|627|607",
                "IPC|653|810",
                "IPC, L4/x86|398|438",
                "IPC, L4/x86, small address space|184|300",
            ],
        )),
        measure: |lab| {
            counters::measure(lab.rounds);
            inversion::measure(lab.rounds * 4);
            maps::measure(&lab.house, lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
];
