//! `chappe graph`: graphs of stages for shell users.

use crate::args::GraphCommand;
use crate::{Failure, failed, tell, write};
use anyhow::{Context, anyhow};
use chappe::stream::{Graph, Kinds, Options, Report, explain, link};
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// Something was late, and that was asked for.
const LATE: u8 = 3;

/// Runs the command.
///
/// # Errors
/// What is wrong with the text, with its place; the stage that failed.
pub fn run(command: &GraphCommand, json: bool) -> Result<u8, Failure> {
    match command {
        GraphCommand::Run { file, quiet, lazy, late } => {
            let graph = read(file, *lazy)?;
            let running = graph.run().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
            if !quiet && !json {
                running.on_late(|label, by| tell(format_args!("chappe: `{label}` is late by {by:.3} s")));
            }
            let labels: Vec<String> = running.graph().nodes().iter().map(|n| n.label.clone()).collect();
            let report = running.wait().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
            if json {
                tell(told(&report, &labels));
            } else if !quiet || report.dropped() > 0 {
                tell(shown(&report).trim_end());
            }
            Ok(if *late && report.late() > 0 { LATE } else { 0 })
        }
        GraphCommand::Check { file } => {
            let graph = read(file, false)?;
            let links = link::link(&graph);
            let (nodes, threads, queues) = (graph.nodes().len(), links.threads.len(), links.queues.len());
            let text = if json {
                json!({ "nodes": nodes, "threads": threads, "queues": queues }).to_string()
            } else {
                format!("{}: {nodes} stages, {threads} threads, {queues} queues; all types agree", file.display())
            };
            write(format!("{text}\n").as_bytes())?;
            Ok(0)
        }
        GraphCommand::Explain { file, svg } => {
            let graph = read(file, true)?;
            let text = if *svg { explain::svg(&graph) } else { explain::text(&graph) };
            write(text.as_bytes())?;
            Ok(0)
        }
        GraphCommand::Kinds => {
            let mut text = String::new();
            for kind in Kinds::standard().iter() {
                let (name, usage, about) = (kind.name, kind.usage, kind.about);
                let _ = if json {
                    writeln!(text, "{}", json!({ "name": name, "usage": usage, "about": about }))
                } else {
                    writeln!(text, "{name} {usage}\n    {about}")
                };
            }
            write(text.as_bytes())?;
            Ok(0)
        }
    }
}

fn read(file: &Path, lazy: bool) -> Result<Graph, Failure> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.with_context(|| format!("cannot read {}", file.display())).map_err(failed)?;
    let options = Options { lazy, ..Options::default() };
    Graph::with(&text, options).map_err(|e| failed(anyhow!("{}: {e}", file.display())))
}

fn told(report: &Report, labels: &[String]) -> serde_json::Value {
    let nodes = report.nodes.iter().map(|n| {
        let c = &n.counts;
        json!({ "label": n.label, "blocks": c.blocks, "elements": c.elements, "dropped": c.dropped, "late": c.late,
            "latest": c.latest, "says": n.says })
    });
    let queues = report.queues.iter().map(|q| {
        json!({ "from": labels[q.from], "to": labels[q.to], "puts": q.counts.puts, "full": q.counts.full, "empty": q.counts.empty })
    });
    json!({ "seconds": report.seconds, "nodes": nodes.collect::<Vec<_>>(), "queues": queues.collect::<Vec<_>>() })
}

fn shown(report: &Report) -> String {
    let mut text = format!("{:<16} {:>10} {:>14} {:>10} {:>8}\n", "STAGE", "BLOCKS", "ELEMENTS", "DROPPED", "LATE");
    for node in &report.nodes {
        let c = &node.counts;
        let _ =
            writeln!(text, "{:<16} {:>10} {:>14} {:>10} {:>8}", node.label, c.blocks, c.elements, c.dropped, c.late);
        if let Some(says) = &node.says {
            let _ = writeln!(text, "    {says}");
        }
    }
    let _ = writeln!(text, "{:.3} s", report.seconds);
    text
}
