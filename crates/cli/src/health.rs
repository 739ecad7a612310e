//! `chappe doctor`: what was found, to people and to programs.

use crate::look::{is_foreign, no_place_of_arenas, plain};
use crate::within::{Patience, too_long};
use anyhow::Result;
use chappe::doctor::{ArenaHealth, Finding, Sequences, Surroundings, examine, kernel, sequences, surroundings};
use chappe::synth::engine::{MachineError, machine_code};
use chappe::thread::{FileWay, file_way};
use chappe::{Arena, Capacity, directory};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How much longer than other things the self-test of sequences may take, where many want the processor.
const SELF_TEST: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct FindingView<'a> {
    kind: &'a str,
    what: &'a str,
    done: Option<&'a str>,
    advice: Option<&'a str>,
}

fn views<'a>(all: &'a [Finding]) -> Vec<FindingView<'a>> {
    let view = |f: &'a Finding| {
        let Finding { kind, what, done, advice, .. } = f;
        FindingView { kind, what, done: done.as_deref(), advice: advice.as_deref() }
    };
    all.iter().map(view).collect()
}

/// One arena: why it cannot be used, or how it is.
struct Seen {
    name: String,
    error: Option<String>,
    /// It is no arena.
    foreign: bool,
    findings: Vec<Finding>,
    capacity: Option<Capacity>,
}

impl Seen {
    fn of(health: ArenaHealth) -> Seen {
        let ArenaHealth { name, error, findings, capacity, .. } = health;
        let foreign = error.as_ref().is_some_and(is_foreign);
        Seen { name, error: error.map(|e| e.to_string()), foreign, findings, capacity }
    }
}

/// `chappe doctor`. Status 1 if an arena cannot be used, or something could not be looked at.
pub fn doctor(json: bool) -> Result<(String, u8)> {
    let patience = Patience::new();
    let here = directory()?.display().to_string();
    let names = patience.look(Duration::ZERO, Arena::list).ok_or_else(|| anyhow::anyhow!(too_long(&here)))??;
    let mut arenas = Vec::new();
    for name in names {
        let one = name.clone();
        let seen = patience.look(Duration::ZERO, move || examine(&one)).map(Seen::of);
        arenas.push(seen.unwrap_or_else(|| {
            let error = Some(too_long(&format!("arena `{name}`")));
            Seen { name, error, foreign: false, findings: Vec::new(), capacity: None }
        }));
    }
    let foreign = arenas.iter().filter(|a| a.foreign).count();
    if let Some(all) = no_place_of_arenas(arenas.len() - foreign, foreign) {
        arenas =
            vec![Seen { name: here.clone(), error: Some(all), foreign: true, findings: Vec::new(), capacity: None }];
    }
    let around = patience.look(Duration::ZERO, surroundings);
    let job_servers = patience.look(Duration::ZERO, crate::jobserver::clean_up);
    let terminals = patience.look(Duration::ZERO, terminals).transpose()?;
    let kernel = patience.look(Duration::ZERO, kernel);
    let sequences = patience.look(SELF_TEST, sequences);
    let files = patience.look(Duration::ZERO, file_way);
    let queries = patience.look(Duration::ZERO, machine_code);
    let unseen = [
        ("what is around the arenas", around.is_none()),
        ("what job servers have left", job_servers.is_none()),
        ("the terminals", terminals.is_none()),
        ("what the kernel has", kernel.is_none()),
        ("what sequences can do here", sequences.is_none()),
        ("how light threads wait for files", files.is_none()),
        ("whether queries become machine code", queries.is_none()),
    ];
    for (what, _) in unseen.iter().filter(|(_, is)| *is) {
        crate::said::complain(json, &too_long(what));
    }
    let status = u8::from(unseen.iter().any(|(_, is)| *is) || arenas.iter().any(|a| a.error.is_some()));
    let (around, job_servers) = (around.unwrap_or_default(), job_servers.unwrap_or_default());
    let kernel = kernel.unwrap_or_default();
    let terminals = terminals.unwrap_or_default();
    let all = Health { here, arenas, around, job_servers, terminals, kernel, sequences, files, queries };
    Ok((if json { as_json(&all) } else { as_text(&all) }, status))
}

/// How many terminals there are, and what is wrong with them: its kind, what, and what to do.
type Terminals = (usize, Vec<(&'static str, String, Option<String>)>);

#[cfg(feature = "term")]
fn terminals() -> Result<Terminals> {
    crate::term::overview::examine()
}

#[cfg(not(feature = "term"))]
fn terminals() -> Result<Terminals> {
    Ok(Terminals::default())
}

/// All that is told.
struct Health {
    here: String,
    arenas: Vec<Seen>,
    around: Surroundings,
    job_servers: Vec<PathBuf>,
    terminals: Terminals,
    kernel: Vec<Finding>,
    sequences: Option<Sequences>,
    files: Option<FileWay>,
    queries: Option<Result<(), MachineError>>,
}

fn sequences_view(s: &Sequences) -> serde_json::Value {
    json!({
        "used": s.verdict.is_proven(), "verdict": s.verdict.name(), "why": s.verdict.to_string(), "area": s.area,
        "fence": s.fence, "concurrency_ids": s.concurrency_ids, "biases": s.biases,
        "mechanism": s.mechanism.as_ref().ok().map(|c| c.mechanism.name()), "mechanism_why": mechanism_why(s),
    })
}

fn mechanism_why(s: &Sequences) -> String {
    s.mechanism.as_ref().map_or_else(ToString::to_string, |c| c.why.clone())
}

fn sequences_text(s: &Sequences) -> String {
    let yes = |is: bool, what: &'static str| is.then_some(what);
    let area = match s.area {
        Some("library") => Some("the C library's area"),
        Some(_) => Some("an area of our own"),
        None => None,
    };
    let instead = yes(!s.verdict.is_proven(), "locked instructions instead");
    let fence = yes(s.fence, "a fence (membarrier)");
    let ids = yes(s.concurrency_ids, "concurrency ids");
    let unbiased = yes(!s.biases, "no biased locks (CHAPPE_BIAS=off)");
    let there: Vec<&str> = [instead, area, fence, ids, unbiased].into_iter().flatten().collect();
    let used = if s.verdict.is_proven() { "used" } else { "not used" };
    let mechanism = s.mechanism.as_ref().map_or("none", |c| c.mechanism.name());
    let why = mechanism_why(s);
    format!("sequences: {used}: {}; {}\nmechanism: {mechanism}: {}\n", s.verdict, there.join(", "), plain(&why))
}

fn query_way(made: &Result<(), MachineError>) -> String {
    match made {
        Ok(()) => "machine code".into(),
        Err(why) => {
            let why = crate::built::need("jit").map_or_else(|e| e.to_string(), |()| why.to_string());
            format!("closures, at 2 to 5 times the cost ({why})")
        }
    }
}

fn as_json(health: &Health) -> String {
    let Health { here, arenas, around, job_servers: servers, terminals, kernel, sequences, files, queries } = health;
    let one = |a: &Seen| {
        let capacity = a.capacity.as_ref().map(|c| {
            json!({
                "members": c.members, "members_used": c.members_used,
                "objects": c.objects, "objects_used": c.objects_used,
                "cells": c.cells, "cells_used": c.cells_used,
                "data": c.data, "data_used": c.data_used,
            })
        });
        json!({ "name": a.name, "error": a.error, "findings": views(&a.findings), "capacity": capacity })
    };
    let arenas: Vec<_> = arenas.iter().map(one).collect();
    let sick = |(kind, what, advice): &(&str, String, Option<String>)| json!({ "kind": kind, "what": what, "done": null, "advice": advice });
    let sick: Vec<_> = terminals.1.iter().map(sick).collect();
    let all = json!({
        "directory": here, "arenas": arenas, "around": views(&around.findings), "unseen": around.unseen,
        "job_servers_removed": servers, "terminals": terminals.0, "terminal_findings": sick, "kernel": views(kernel),
        "sequences": sequences.as_ref().map(sequences_view),
        "files": files.as_ref().map(|way| json!({ "ring": *way == FileWay::Ring, "way": way.to_string() })),
        "queries": queries.as_ref().map(|made| json!({ "machine_code": made.is_ok(), "way": query_way(made) })),
    });
    format!("{all}\n")
}

fn as_text(health: &Health) -> String {
    let Health { here, arenas, around, job_servers: servers, terminals, kernel, sequences, files, queries } = health;
    let mut text = format!("arenas in {here}: {}\n", arenas.len());
    for a in arenas {
        let name = plain(&a.name);
        match (&a.error, &a.capacity) {
            (Some(e), _) => {
                let _ = writeln!(text, "  {name}: cannot be used: {}", plain(e));
            }
            (None, Some(c)) => {
                let _ = writeln!(
                    text,
                    "  {name}: {} of {} members, {} of {} objects, {} of {} cells, {} of {} bytes of data in use",
                    c.members_used, c.members, c.objects_used, c.objects, c.cells_used, c.cells, c.data_used, c.data
                );
            }
            (None, None) => {}
        }
        lines(&mut text, "    ", &a.findings);
    }
    if !around.findings.is_empty() {
        text.push_str("around them:\n");
        lines(&mut text, "  ", &around.findings);
    }
    for path in servers {
        let _ = writeln!(text, "{}: left by a killed `chappe jobserver`; removed", path.display());
    }
    if around.unseen > 0 {
        let _ = writeln!(
            text,
            "processes: {} could not be looked at (other users', as a rule): whether they use an arena that has lost its \
             file is not known",
            around.unseen
        );
    }
    if terminals.0 > 0 || !terminals.1.is_empty() {
        let _ = writeln!(text, "terminals: {}", terminals.0);
    }
    for (_, what, advice) in &terminals.1 {
        let parts: Vec<&str> = std::iter::once(what.as_str()).chain(advice.as_deref()).collect();
        let _ = writeln!(text, "  {}", plain(&parts.join("; ")));
    }
    if kernel.is_empty() {
        text.push_str("kernel: has all that chappe can use\n");
    } else {
        text.push_str("kernel:\n");
        lines(&mut text, "  ", kernel);
    }
    text.push_str(&sequences.as_ref().map(sequences_text).unwrap_or_default());
    if let Some(way) = files {
        let _ = writeln!(text, "light threads wait for files by: {}", plain(&way.to_string()));
    }
    if let Some(made) = queries {
        let _ = writeln!(text, "queries over records run as: {}", plain(&query_way(made)));
    }
    text
}

fn lines(text: &mut String, indent: &str, all: &[Finding]) {
    for f in all {
        let parts: Vec<&str> =
            std::iter::once(f.what.as_str()).chain(f.done.as_deref()).chain(f.advice.as_deref()).collect();
        let _ = writeln!(text, "{indent}{}", plain(&parts.join("; ")));
    }
}
