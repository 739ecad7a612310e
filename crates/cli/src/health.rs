//! `chappe doctor`: what was found, to people and to programs.

use anyhow::Result;
use chappe::Finding;
use serde::Serialize;
use std::fmt::Write;

#[derive(Serialize)]
struct FindingView<'a> {
    what: &'a str,
    done: Option<&'a str>,
}

fn findings(all: &[Finding]) -> Vec<FindingView<'_>> {
    all.iter().map(|f| FindingView { what: &f.what, done: f.done.as_deref() }).collect()
}

/// `chappe doctor`. Status 1 if an arena cannot be used.
pub fn doctor(json: bool) -> Result<(String, u8)> {
    let found = chappe::doctor()?;
    let status = u8::from(found.arenas.iter().any(|a| a.error.is_some()));
    let job_servers = crate::jobserver::clean_up();
    if json {
        let arenas: Vec<_> = found
            .arenas
            .iter()
            .map(|a| {
                let capacity = a.capacity.as_ref().map(|c| {
                    serde_json::json!({
                        "members": c.members, "members_used": c.members_used,
                        "objects": c.objects, "objects_used": c.objects_used,
                        "cells": c.cells, "cells_used": c.cells_used,
                        "data": c.data, "data_used": c.data_used,
                    })
                });
                let error = a.error.as_ref().map(ToString::to_string);
                serde_json::json!({
                    "name": a.name, "error": error, "findings": findings(&a.findings), "capacity": capacity,
                })
            })
            .collect();
        let all = serde_json::json!({
            "directory": found.directory, "arenas": arenas, "kernel": findings(&found.kernel),
            "job_servers_removed": job_servers,
        });
        return Ok((format!("{all}\n"), status));
    }
    let mut text = format!("arenas in {}: {}\n", found.directory, found.arenas.len());
    for a in &found.arenas {
        match (&a.error, &a.capacity) {
            (Some(e), _) => {
                let _ = writeln!(text, "  {}: cannot be used: {e}", a.name);
            }
            (None, Some(c)) => {
                let _ = writeln!(
                    text,
                    "  {}: {} of {} members, {} of {} objects, {} of {} cells, {} of {} bytes of data in use",
                    a.name,
                    c.members_used,
                    c.members,
                    c.objects_used,
                    c.objects,
                    c.cells_used,
                    c.cells,
                    c.data_used,
                    c.data
                );
            }
            (None, None) => {}
        }
        finding_lines(&mut text, "    ", &a.findings);
    }
    for path in job_servers {
        let _ = writeln!(text, "{}: left by a killed `chappe jobserver`; removed", path.display());
    }
    if found.kernel.is_empty() {
        text.push_str("kernel: has all that chappe can use\n");
    } else {
        text.push_str("kernel:\n");
        finding_lines(&mut text, "  ", &found.kernel);
    }
    Ok((text, status))
}

fn finding_lines(text: &mut String, indent: &str, all: &[Finding]) {
    for f in all {
        let _ = match &f.done {
            Some(done) => writeln!(text, "{indent}{}; {done}", f.what),
            None => writeln!(text, "{indent}{}", f.what),
        };
    }
}
