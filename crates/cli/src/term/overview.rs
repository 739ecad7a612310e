//! Terminals among all else that there is: in `chappe ls`, `show`, `rm`, `metrics` and `doctor`.

use super::found::{One, all, find, outlived, unknown};
use super::show::{age, row, state};
use super::submit;
use crate::eyes::metrics::{head, label};
use crate::look::plain;
use crate::{look, time};
use anyhow::{Result, anyhow};
use chappe::term::place::Role;
use chappe::term::screen::Screen;
use chappe::term::view::Ended;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;

/// Whether there is one of this name.
pub fn is_there(name: &str) -> bool {
    find(name, false).is_ok()
}

/// For `chappe ls`: the name, how it is, and what JSON has.
type Listed = (String, String, Value);

fn listed((ended, place): &One) -> Listed {
    let mut json = row(place, *ended);
    json["kind"] = "terminal".into();
    json["arena"] = Value::Null;
    json["waiting"] = 0.into();
    (place.name().to_owned(), format!("{}, {}", state(place, *ended), plain(&place.command())), json)
}

/// For `chappe ls`: all, or the one of a name. With them, what is wrong with others.
///
/// # Errors
/// There is none of the name.
pub fn list(only: Option<&str>) -> Result<(Vec<Listed>, Vec<anyhow::Error>)> {
    if let Some(name) = only {
        let place = find(name, false)?;
        return Ok((vec![listed(&(place.ended()?, place))], Vec::new()));
    }
    let (all, wrong) = all()?;
    Ok((all.iter().map(listed).collect(), wrong))
}

/// `chappe show` of a terminal.
///
/// # Errors
/// It cannot be looked at.
pub fn show(name: &str, json: bool) -> Result<String> {
    if json {
        return super::show::show(name, 0, false, true);
    }
    let place = find(name, false)?;
    let ended = place.ended()?;
    let now =
        place.snapshot().ok_or_else(|| anyhow!("terminal `{name}` has not begun, or its memory makes no sense"))?;
    let screen = &now.screen;
    let (how, age) = (state(&place, ended), time::show(age(place.began())));
    let mut text = format!("{name}: terminal, {how}, made {age} ago, {}x{}", screen.columns(), screen.rows());
    let _ = writeln!(text, ", {} lines have left the screen", screen.base());
    let _ = writeln!(text, "  command: `{}`", plain(&place.command()));
    if !screen.title().is_empty() {
        let _ = writeln!(text, "  title: {}", plain(screen.title()));
    }
    let pid = |what: &str, role| place.running(role).map(|pid| format!("{what} pid {pid}"));
    let there = [pid("command", Role::Program), pid("keeper", Role::Keeper), pid("holder", Role::Holder)];
    let there: Vec<String> = there.into_iter().flatten().collect();
    if !there.is_empty() {
        let _ = writeln!(text, "  {}", there.join(", "));
    }
    if let Some((Some(at), pools)) = submit::waiting(&place) {
        let _ = writeln!(text, "  {} in line for {}", crate::line::ordinal(at), plain(&pools.join(", ")));
    }
    if place.is_recorded()? {
        text.push_str("  it is recorded\n");
    }
    let _ = writeln!(text, "  `chappe term show {name}` has its screen");
    Ok(text)
}

/// What `chappe top` shows of a terminal.
pub struct Seen {
    /// Its name.
    pub name: String,
    /// How its command is.
    pub state: String,
    /// How long ago it was made.
    pub age: Duration,
    /// How many bytes its command has written.
    pub written: u64,
    /// What it runs.
    pub command: String,
    /// What stands on its screen.
    pub lines: Vec<String>,
}

/// For `chappe top`; none where they cannot be looked at.
pub fn seen() -> Vec<Seen> {
    let lines = |screen: &Screen| (0..screen.rows()).map(|row| screen.text(row)).collect();
    let one = |(ended, place): &One| Seen {
        name: place.name().to_owned(),
        state: state(place, *ended),
        age: age(place.began()),
        written: place.taken(),
        command: place.command(),
        lines: place.snapshot().map(|now| lines(&now.screen)).unwrap_or_default(),
    };
    all().map(|(all, _)| all.iter().map(one).collect()).unwrap_or_default()
}

/// For `chappe metrics`.
pub fn metrics() -> String {
    let mut out = String::new();
    let all = all().map(|(all, _)| all).unwrap_or_default();
    if all.is_empty() {
        return out;
    }
    let mut metric = |name: &str, sort: &str, help: &str, of: &dyn Fn(&One) -> Option<f64>| {
        head(&mut out, name, sort, help);
        for one in &all {
            if let Some(value) = of(one) {
                let _ = writeln!(out, "{name}{{name=\"{}\"}} {value}", label(one.1.name()));
            }
        }
    };
    metric("chappe_terminal_running", "gauge", "1 as long as the command has not ended.", &|(ended, place)| {
        Some(f64::from(u8::from(ended.is_none() || !outlived(place, *ended).is_empty())))
    });
    let status = |(ended, _): &One| match ended.as_ref()?.0 {
        Ended::Exited(status) => Some(status.into()),
        Ended::Killed(signal) => Some(f64::from(128 + signal)),
        Ended::Unknown => None,
    };
    metric("chappe_terminal_exit_status", "gauge", "How it has ended: 128 and the signal if one ended it.", &status);
    metric("chappe_terminal_age_seconds", "gauge", "How long ago it was made.", &|(_, place)| {
        Some(age(place.began()).as_secs_f64())
    });
    metric("chappe_terminal_written_bytes_total", "counter", "What the command has written.", &|(_, place)| {
        Some(place.taken() as f64)
    });
    metric("chappe_terminal_holders_total", "counter", "Holders so far: one more than were killed.", &|(_, place)| {
        Some(place.holders() as f64)
    });
    out
}

/// What is wrong with a terminal: its kind, what, and what to do.
type Sick = (&'static str, String, Option<String>);

/// Examines all: how many there are, and what is wrong.
///
/// # Errors
/// The directory cannot be looked at.
pub fn examine() -> Result<(usize, Vec<Sick>)> {
    let (all, wrong) = all()?;
    let mut sick: Vec<Sick> = wrong.iter().map(|e| ("terminal-unusable", look::chain(e), None)).collect();
    for (ended, place) in &all {
        let name = place.name();
        let is_gone = |role| place.had(role) && place.running(role).is_none();
        if place.snapshot().is_none() && !place.is_alive().unwrap_or(true) {
            let what = format!("terminal `{name}` was never begun: `chappe` was killed while it made it");
            let advice = Some(format!("remove it: `chappe term rm {name}`"));
            sick.push(("terminal-unbegun", what, advice));
        } else if ended.is_none() && is_gone(Role::Keeper) && matches!(place.ended(), Ok(None)) {
            let what = format!(
                "terminal `{name}` has lost its keeper: how its command ends will not be known, and a killed holder is not replaced"
            );
            sick.push(("terminal-keeper", what, None));
        } else if !outlived(place, *ended).is_empty() {
            sick.push(("terminal-hung-up", unknown(place).to_string(), None));
        } else if matches!(ended, Some((Ended::Unknown, _))) {
            let what = format!("how the command of terminal `{name}` ended is not known: its keeper was killed");
            let advice = Some(format!("`chappe term show {name}` has its screen, `chappe term rm {name}` removes it"));
            sick.push(("terminal-unknown", what, advice));
        }
        if place.holders() > 1 {
            let killed = place.holders() - 1;
            let what = format!(
                "terminal `{name}` has its holder number {}: {killed} were killed, nothing was lost",
                killed + 1
            );
            sick.push(("terminal-holders", what, None));
        }
        if matches!(ended, Some((Ended::Exited(_) | Ended::Killed(_), _)))
            && place.left().is_ok_and(|all| !all.is_empty())
        {
            let what = format!("the command of terminal `{name}` has ended, and has left processes");
            let advice = Some(format!("`chappe term kill {name}` ends them"));
            sick.push(("terminal-left", what, advice));
        }
    }
    Ok((all.len(), sick))
}
