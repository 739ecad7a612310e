//! `chappe metrics`: the figures as Prometheus reads them, to stdout, to a file for node_exporter, or to any scraper.
//!
//! The text is the exposition format 0.0.4. Each scrape is one snapshot, taken while the scraper waits. The listener is for a scraper on a
//! trusted network: it answers every client.

use super::figures::{ALL, Figure, Sort};
use super::http::{self, Answer};
use super::snapshot::{ArenaSeen, Seen, Snapshot};
use crate::args::metrics::Metrics;
use crate::said::{Failure, failed, write};
use anyhow::{Context, Result, anyhow};
use chappe::{Fact, FactSort, ObjectState};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// Runs it, with what makes the text.
pub fn run(a: &Metrics, text: impl Fn() -> Result<String>) -> Result<u8, Failure> {
    match (&a.output, a.listen) {
        (Some(file), _) => replace(file, &text().map_err(failed)?).map_err(failed)?,
        (None, Some(address)) => listen(address, text).map_err(failed)?,
        (None, None) => write(text().map_err(failed)?.as_bytes())?,
    }
    Ok(0)
}

/// The text of this machine's arenas, or of one of them.
pub fn text(arena: Option<&str>) -> Result<String> {
    Ok(exposition(&Snapshot::take(arena, None)?))
}

/// A value of a label: the three characters that the format escapes.
pub fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub fn head(out: &mut String, name: &str, sort: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {sort}");
}

/// A figure of an arena: the metric, its help, its value.
type OfArena = (&'static str, &'static str, fn(&ArenaSeen) -> u32);

const OF_ARENAS: [OfArena; 4] = [
    ("chappe_arena_members", "Member slots in use.", |a| a.members.0),
    ("chappe_arena_members_limit", "Member slots that the arena has.", |a| a.members.1),
    ("chappe_arena_objects", "Objects in the arena.", |a| a.objects.0),
    ("chappe_arena_objects_limit", "Objects that the arena has room for.", |a| a.objects.1),
];

/// Everything in a snapshot. Each metric stands once, its series together, as the format wants it.
pub fn exposition(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    head(&mut out, "chappe_arena_up", "gauge", "1 if the arena could be looked at.");
    for arena in &snapshot.arenas {
        let _ = writeln!(out, "chappe_arena_up{{arena=\"{}\"}} 1", label(&arena.name));
    }
    for (arena, _) in &snapshot.refused {
        let _ = writeln!(out, "chappe_arena_up{{arena=\"{}\"}} 0", label(arena));
    }
    for (name, help, of) in OF_ARENAS {
        head(&mut out, name, "gauge", help);
        for arena in &snapshot.arenas {
            let _ = writeln!(out, "{name}{{arena=\"{}\"}} {}", label(&arena.name), of(arena));
        }
    }
    let mut kinds: Vec<&str> = snapshot.objects.iter().map(|o| o.info.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let of_kind = || snapshot.objects.iter().filter(move |o| o.info.kind == kind);
        for figure in ALL.iter().filter(|f| f.sort != Sort::Rate) {
            let series: Vec<(&Seen, f64)> = of_kind().filter_map(|o| Some((o, (figure.of)(o)?))).collect();
            if series.is_empty() {
                continue;
            }
            let name = metric(kind, figure);
            head(&mut out, &name, if figure.sort == Sort::Counter { "counter" } else { "gauge" }, figure.help);
            for (o, value) in series {
                let (arena, object) = (label(&o.arena.name()), label(o.own_name()));
                let _ = writeln!(out, "{name}{{arena=\"{arena}\",name=\"{object}\"}} {value}");
            }
        }
    }
    facts(&mut out, snapshot);
    out
}

/// What a figure of a kind of objects is called. Prometheus refuses the whole text if a name has other characters in it.
fn metric(kind: &str, figure: &Figure) -> String {
    format!("chappe_{}_{}{}", named(kind), figure.name, figure.suffix)
}

fn named(what: &str) -> String {
    what.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// What kinds say of themselves: a metric for each fact.
fn facts(out: &mut String, snapshot: &Snapshot) {
    let mut all: BTreeMap<String, Vec<(&Seen, &Fact)>> = BTreeMap::new();
    for o in &snapshot.objects {
        let ObjectState::Facts(facts) = &o.info.state else { continue };
        for fact in facts {
            let end = if fact.sort == FactSort::Total { "_total" } else { "" };
            let name = format!("chappe_{}_{}{end}", named(o.info.kind), named(fact.name));
            all.entry(name).or_default().push((o, fact));
        }
    }
    for (name, series) in all {
        let (o, first) = series[0];
        let what = if first.sort == FactSort::Flag {
            format!("1 if it is: {}.", first.name)
        } else {
            format!("Of a {}: {}.", o.info.kind, first.name)
        };
        head(out, &name, if first.sort == FactSort::Total { "counter" } else { "gauge" }, &what);
        for (o, fact) in series {
            let (arena, object) = (label(&o.arena.name()), label(o.own_name()));
            let _ = writeln!(out, "{name}{{arena=\"{arena}\",name=\"{object}\"}} {}", fact.value);
        }
    }
}

/// Puts the text where the file was, by a rename: a reader sees the old one or the new one. A link stays, and the file that it names is
/// replaced; what is no file (a FIFO, a device) is written to.
fn replace(file: &Path, text: &str) -> Result<()> {
    let there = std::fs::metadata(file);
    if there.as_ref().is_ok_and(|of| !of.is_file() && !of.is_dir()) {
        let written = std::fs::OpenOptions::new().write(true).open(file).and_then(|mut f| f.write_all(text.as_bytes()));
        return written.with_context(|| format!("cannot write {}", file.display()));
    }
    let named = there.and_then(|_| file.canonicalize());
    // A link to no file is written through as well: the file is made beside where it points.
    let named = named.or_else(|_| file.read_link().map(|to| file.parent().unwrap_or(Path::new("")).join(to)));
    let file = named.as_deref().unwrap_or(file);
    let name = file.file_name().ok_or_else(|| anyhow!("{} is not a file's name", file.display()))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = file.with_file_name(beside);
    let written = std::fs::File::create(&beside)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.flush()))
        .and_then(|()| std::fs::rename(&beside, file));
    if written.is_err() {
        // What is left of it is of no use. That it is not there is well.
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn listen(address: SocketAddr, text: impl Fn() -> Result<String>) -> Result<()> {
    let listener = http::listen(address)?;
    crate::said::tell(format_args!("chappe: metrics at http://{}/metrics", listener.local_addr()?));
    http::serve(listener, |request| match request.path.as_str() {
        "/metrics" => match text() {
            Ok(body) => Answer { status: "200 OK", content: "text/plain; version=0.0.4; charset=utf-8", body },
            Err(e) => Answer::refused("503 Service Unavailable", &e.to_string()),
        },
        _ => Answer::refused("404 Not Found", "see /metrics"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let dashboard = include_str!("../../../../docs/grafana.json");
        let _: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
        let of_objects = ALL.iter().filter(|f| f.sort != Sort::Rate).flat_map(|f| {
            let kinds = ["pool", "semaphore", "mutex", "tube"];
            kinds.map(|kind| format!("chappe_{kind}_{}{}", f.name, f.suffix))
        });
        let of_arenas = OF_ARENAS.iter().map(|(name, ..)| (*name).to_owned());
        let there: Vec<String> = of_objects.chain(of_arenas).chain(["chappe_arena_up".to_owned()]).collect();
        let asked = dashboard.match_indices("chappe_").map(|(at, _)| {
            let rest = &dashboard[at..];
            &rest[..rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(rest.len())]
        });
        let mut count = 0;
        for name in asked {
            assert!(there.iter().any(|t| t == name), "{name} is no metric of ours");
            count += 1;
        }
        assert!(count >= 10, "the dashboard asks for {count} metrics");
    }
}
