//! `chappe graph`: graphs of stages for shell users.

mod edit;
mod repl;

use crate::args::GraphCommand;
use crate::signals::{self, Set};
use crate::{Failure, failed, tell, write};
use anyhow::anyhow;
use chappe::stream::{Graph, Kinds, Options, Report, Stopper, explain, link, process};
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

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
            let signals = Set::of(&signals::heeded(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]));
            // Before any thread begins: all of them leave these to the one that waits for them.
            signals.block();
            let running = graph.run().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
            if !quiet && !json {
                running.on_late(|label, by| tell(format_args!("chappe: `{label}` is late by {by:.3} s")));
            }
            if !json {
                running.on_stopped(|part, pid, stopped| match stopped {
                    true => tell(format_args!(
                        "chappe: @{part} is stopped (pid {pid}), and the others wait for it: `kill -CONT {pid}` lets it go on"
                    )),
                    false => tell(format_args!("chappe: @{part} goes on (pid {pid})")),
                });
            }
            let stopper = running.stopper();
            std::thread::spawn(move || stop_when_asked(signals, &stopper));
            let labels: Vec<String> = running.graph().nodes().iter().map(|n| n.label.clone()).collect();
            let report = running.wait().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
            after(&report, &labels, json, *quiet);
            Ok(if *late && report.late() > 0 { LATE } else { 0 })
        }
        GraphCommand::Check { file } => {
            let graph = read(file, false)?;
            let pieces = process::pieces(&graph);
            let links: Vec<link::Links> = pieces.iter().map(link::link).collect();
            let nodes = graph.nodes().len();
            let threads: usize = links.iter().map(|l| l.threads.len()).sum();
            let queues: usize = links.iter().map(|l| l.queues.len()).sum();
            let (processes, tubes) = (pieces.len(), process::tubes(&graph));
            let text = if json {
                json!({ "nodes": nodes, "threads": threads, "queues": queues, "processes": processes, "tubes": tubes })
                    .to_string()
            } else {
                let apart =
                    if processes > 1 { format!(", {processes} processes, {tubes} tubes") } else { String::new() };
                format!(
                    "{}: {nodes} stages, {threads} threads, {queues} queues{apart}; all types agree",
                    file.display()
                )
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
        GraphCommand::Edit { file } => edit::edit(file, json),
        GraphCommand::Repl { file } => repl::repl(file.as_deref()),
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

/// The summary at the end: with `quiet` only what was lost.
fn after(report: &Report, labels: &[String], json: bool, quiet: bool) {
    if json {
        tell(told(report, labels));
    } else if !quiet || report.dropped() > 0 || report.parts.iter().any(|p| p.restarts > 0) {
        tell(shown(report).trim_end());
    }
}

/// The first signal stops the graph: its sources end, and each stage hands on what it has. Another one, or five seconds, end the process as the signal would
/// have.
fn stop_when_asked(signals: Set, stopper: &Stopper) {
    let Some(came) = std::iter::repeat_with(|| signals.wait(None)).flatten().next() else { return };
    stopper.stop();
    if signals.wait(Some(Duration::from_secs(1))).is_none() {
        tell("chappe: stages of the graph have not ended yet; another Ctrl-C ends them at once");
        signals.wait(Some(Duration::from_secs(4)));
    }
    signals::die_by(came.signal);
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|e| {
        let is_text = file.as_os_str().as_encoded_bytes().contains(&b'|');
        let hint = if is_text { "; a graph's text itself is read from stdin if FILE is `-`" } else { "" };
        failed(anyhow!("cannot read {}: {e}{hint}", file.display()))
    })
}

fn read(file: &Path, lazy: bool) -> Result<Graph, Failure> {
    let text = text_of(file)?;
    let options = Options { lazy, ..Options::default() };
    Graph::with(&text, options).map_err(|e| failed(anyhow!("{}: {e}", file.display())))
}

fn told(report: &Report, labels: &[String]) -> serde_json::Value {
    let nodes = report.nodes.iter().map(|n| {
        let c = &n.counts;
        json!({ "label": n.label, "blocks": c.blocks, "elements": c.elements, "dropped": c.dropped, "late": c.late,
            "latest": c.latest, "again": c.again, "says": n.says, "process": n.process })
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

fn shown(report: &Report) -> String {
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
