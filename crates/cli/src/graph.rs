//! `chappe graph`: graphs of stages for shell users.

mod edit;
mod file;
mod repl;
mod show;

use crate::args::GraphCommand;
use crate::said::{Failure, failed, tell, write};
use crate::signals::{self, Set};
use crate::within;
use anyhow::anyhow;
use chappe::stream::{Kinds, Lost, Stopper, explain, link, process};
use file::{after, read};
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

/// Something was late, and that was asked for; or a sender of a tube that was read has not ended well, as `chappe recv` has it.
const LATE_OR_BROKEN: u8 = 3;

/// Runs the command.
///
/// # Errors
/// What is wrong with the text, with its place; the stage that failed.
pub fn run(command: &GraphCommand, json: bool) -> Result<u8, Failure> {
    match command {
        GraphCommand::Run { file, quiet, lazy, late, show } => {
            let graph = read(file, *lazy)?;
            let signals = Set::of(&signals::heeded(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]));
            // Before any thread begins: all of them leave these to the one that waits for them.
            signals.block();
            let running = graph.run().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
            if !quiet && !json {
                running.on_late(|label, by| tell(format_args!("chappe: `{label}` is late by {by:.3} s")));
            }
            if !json {
                running.on_lost(|label, what| match what {
                    Lost::Gone => tell(format_args!("chappe: the device of `{label}` has gone, and is looked for")),
                    Lost::Back(away) => {
                        tell(format_args!("chappe: the device of `{label}` is there again, after {away:.1} s"))
                    }
                });
                running.on_stopped(|part, pid, stopped| match stopped {
                    true => tell(format_args!(
                        "chappe: @{part} is stopped (pid {pid}), and the others wait for it: `kill -CONT {pid}` lets it go on"
                    )),
                    false => tell(format_args!("chappe: @{part} goes on (pid {pid})")),
                });
            }
            let stopper = running.stopper();
            if within::thread("chappe-signals", move || stop_when_asked(signals, &stopper)).is_err() {
                // A signal ends it at once.
                signals.unblock();
            }
            let labels: Vec<String> = running.graph().nodes().iter().map(|n| n.label.clone()).collect();
            if *show {
                show::show(&running);
            }
            let report = running.wait().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
            after(&report, &labels, json, *quiet);
            Ok(if (*late && report.late() > 0) || report.broken() > 0 { LATE_OR_BROKEN } else { 0 })
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

/// The first signal stops the graph: its sources end, and each stage hands on what it has. Another one, or five seconds, end the process as the signal would
/// have.
fn stop_when_asked(signals: Set, stopper: &Stopper) {
    let Some(came) = std::iter::repeat_with(|| signals.wait(None)).flatten().next() else { return };
    stopper.stop();
    if signals.wait(Some(Duration::from_secs(1))).is_none() {
        // Beside the wait: the terminal may be what stands still.
        let say = || tell("chappe: stages of the graph have not ended yet; another Ctrl-C ends them at once");
        // Without a thread it is not said.
        let _ = within::thread("chappe-say", say);
        signals.wait(Some(Duration::from_secs(4)));
    }
    signals::die_by(came.signal);
}
