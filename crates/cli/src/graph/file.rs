//! A graph's text as a file has it, and its report at the end.

use crate::said::{Failure, failed, tell};
use anyhow::anyhow;
use chappe::stream::{Graph, Options, Report};
use serde_json::json;
use std::fmt::Write;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The summary at the end: with `quiet` only what was lost.
pub fn after(report: &Report, labels: &[String], json: bool, quiet: bool) {
    if json {
        tell(told(report, labels));
    } else if !quiet || report.dropped() > 0 || report.broken() > 0 || report.parts.iter().any(|p| p.restarts > 0) {
        tell(shown(report).trim_end());
    }
}

/// The most bytes of a graph's text.
const MOST: u64 = 1 << 24;

pub fn text_of(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().take(MOST + 1).read_to_string(&mut text).map(|_| text)
    } else {
        let mut text = String::new();
        std::fs::File::open(file).and_then(|file| file.take(MOST + 1).read_to_string(&mut text)).map(|_| text)
    };
    if text.as_ref().is_ok_and(|text| text.len() as u64 > MOST) {
        let file = file.display();
        return Err(failed(anyhow!("{file} has more than the {} MiB that a graph's text may have", MOST >> 20)));
    }
    text.map_err(|e| {
        let is_text = file.as_os_str().as_encoded_bytes().contains(&b'|');
        let hint = if is_text { "; a graph's text itself is read from stdin if FILE is `-`" } else { "" };
        match e.kind() {
            ErrorKind::InvalidData => failed(anyhow!(
                "{} is no text: a graph is lines of text in UTF-8; data are read by a stage of it (`file \"PATH\"`)",
                file.display()
            )),
            _ => failed(anyhow!("cannot read {}: {e}{hint}", file.display())),
        }
    })
}

pub fn read(file: &Path, lazy: bool) -> Result<Graph, Failure> {
    let text = text_of(file)?;
    let options = Options { lazy, ..Options::default() };
    Graph::with(&text, options).map_err(|e| failed(anyhow!("{}: {e}", file.display())))
}

fn told(report: &Report, labels: &[String]) -> serde_json::Value {
    let nodes = report.nodes.iter().map(|n| {
        let c = &n.counts;
        json!({ "label": n.label, "blocks": c.blocks, "elements": c.elements, "dropped": c.dropped, "late": c.late,
            "latest": c.latest, "again": c.again, "broken": c.broken, "says": n.says, "process": n.process })
    });
    let queues = report.queues.iter().map(|q| {
        json!({ "from": labels[q.from], "to": labels[q.to], "puts": q.counts.puts, "full": q.counts.full, "empty": q.counts.empty })
    });
    let parts = report
        .parts
        .iter()
        .map(|p| json!({ "name": p.name, "restarts": p.restarts, "again": p.again, "dropped_blocks": p.dropped }));
    json!({ "seconds": report.seconds, "nodes": nodes.collect::<Vec<_>>(), "queues": queues.collect::<Vec<_>>(),
        "parts": parts.collect::<Vec<_>>() })
}

pub fn shown(report: &Report) -> String {
    let mut text = format!("{:<16} {:>10} {:>14} {:>10} {:>8}\n", "STAGE", "BLOCKS", "ELEMENTS", "DROPPED", "LATE");
    for node in &report.nodes {
        let c = &node.counts;
        let label = node.process.as_ref().map_or_else(|| node.label.clone(), |p| format!("{} @{p}", node.label));
        let _ = writeln!(text, "{label:<16} {:>10} {:>14} {:>10} {:>8}", c.blocks, c.elements, c.dropped, c.late);
        if let Some(says) = &node.says {
            let _ = writeln!(text, "    {says}");
        }
    }
    for part in report.parts.iter().filter(|p| p.restarts > 0) {
        let _ = writeln!(
            text,
            "@{} was killed and begun anew {} times: {} blocks came once more, {} were dropped as they killed it twice",
            part.name, part.restarts, part.again, part.dropped
        );
    }
    let _ = writeln!(text, "{:.3} s", report.seconds);
    text
}
