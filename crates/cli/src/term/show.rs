//! `chappe term show` and `ls`.

use super::found::{all, find, outlived, parts, unknown};
use super::{png, submit};
use crate::said::{complain, tell};
use crate::{line, look, time};
use anyhow::{Context, Result, anyhow};
use chappe::term::modes;
use chappe::term::place::{Place, Role};
use chappe::term::view::{Ended, Line, Snapshot};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// `chappe term show`.
pub fn show(name: &str, history: u64, ansi: bool, json: bool) -> Result<String> {
    let place = find(name, false)?;
    let ended = place.ended()?;
    let now =
        place.snapshot().ok_or_else(|| anyhow!("terminal `{name}` has not begun, or its memory makes no sense"))?;
    let lines = place.lines(&now, now.screen.base().saturating_sub(history));
    let shown = used(lines.lines);
    if json {
        return Ok(format!("{}\n", view(&place, &now, ended, &shown, lines.lost)?));
    }
    if matches!(ended, Some((Ended::Unknown, _))) {
        tell(format_args!("chappe: {}", unknown(&place)));
    }
    if lines.lost > 0 && history > 0 {
        tell(format_args!("chappe: {} of these lines are not kept any more", lines.lost));
    }
    let mut text = String::new();
    for line in shown {
        let line = if ansi { String::from_utf8_lossy(&line.encoded).into_owned() } else { line.text() };
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// `chappe term show --png`.
pub fn picture(name: &str, to: &Path) -> Result<Value> {
    let place = find(name, false)?;
    let is_over = place.ended()?.is_some();
    let now =
        place.snapshot().ok_or_else(|| anyhow!("terminal `{name}` has not begun, or its memory makes no sense"))?;
    let file = File::create(to).with_context(|| format!("cannot make {}", to.display()))?;
    png::write(&now.screen, !is_over, BufWriter::new(file))
        .with_context(|| format!("cannot write {}", to.display()))?;
    Ok(json!({ "name": name, "file": to.display().to_string() }))
}

/// Without the empty rows at the end.
fn used(mut lines: Vec<Line>) -> Vec<Line> {
    let used = lines.iter().rposition(|line| !line.encoded.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(used);
    lines
}

fn view(place: &Place, now: &Snapshot, ended: Option<(Ended, u64)>, lines: &[Line], lost: u64) -> Result<Value> {
    let screen = &now.screen;
    let cursor = screen.cursor();
    let mut view = row(place, ended);
    let lines: Vec<Value> =
        lines.iter().map(|line| json!({ "line": line.number, "text": line.text(), "wraps": line.wraps })).collect();
    let more = json!({
        "columns": screen.columns(), "rows": screen.rows(),
        "cursor": { "row": cursor.row, "column": cursor.column, "line": screen.line(),
            "visible": screen.modes().has(modes::CURSOR) },
        "title": screen.title(), "alternate": screen.modes().has(modes::ALTERNATE), "bells": screen.bells(),
        "lost": lost, "lines": lines,
        "keeper": place.running(Role::Keeper), "holder": place.running(Role::Holder),
        "pid": place.running(Role::Program), "holders": place.holders(), "recorded": place.is_recorded()?,
    });
    if let (Value::Object(view), Value::Object(more)) = (&mut view, more) {
        view.extend(more);
    }
    Ok(view)
}

/// A terminal as JSON has it, in a list.
pub fn row(place: &Place, ended: Option<(Ended, u64)>) -> Value {
    let (mut state, status, signal) = parts(ended.map(|(how, _)| how));
    let waiting = if ended.is_none() { submit::waiting(place) } else { None };
    if waiting.is_some() {
        state = "waiting";
    }
    if !outlived(place, ended).is_empty() {
        state = "hung-up";
    }
    let seconds = |ns: u64| (ns > 0).then_some(ns as f64 / 1e9);
    json!({
        "name": place.name(), "user": place.user(), "command": place.command(), "state": state, "place": waiting.as_ref().and_then(|(at, _)| *at), "pools": waiting.map(|(_, pools)| pools),
        "status": status, "signal": signal,
        "began": seconds(place.began()), "ended": ended.and_then(|(_, at)| seconds(at)),
    })
}

/// `chappe term ls`.
pub fn list(json: bool) -> Result<String> {
    let (all, wrong) = all()?;
    wrong.iter().for_each(|e| complain(json, &e.to_string()));
    if json {
        let rows: Vec<Value> = all.iter().map(|(ended, place)| row(place, *ended)).collect();
        return Ok(format!("{}\n", Value::from(rows)));
    }
    let wide = all.iter().map(|(_, place)| place.name().len()).max().unwrap_or(0).max(4);
    let states: Vec<String> = all.iter().map(|(ended, place)| state(place, *ended) + &whose(place)).collect();
    let middle = states.iter().map(String::len).max().unwrap_or(0).max(5);
    let mut text = String::new();
    if !all.is_empty() {
        let _ = writeln!(text, "{:wide$}  {:middle$}  {:>8}  COMMAND", "NAME", "STATE", "AGE");
    }
    for ((_, place), state) in all.iter().zip(states) {
        let age = time::show(age(place.began()));
        let _ = writeln!(text, "{:wide$}  {state:middle$}  {age:>8}  {}", place.name(), look::plain(&place.command()));
    }
    Ok(text)
}

/// Whose it is, if it is another user's.
fn whose(place: &Place) -> String {
    if place.user() == chappe::process::uid() { String::new() } else { format!(", user {}", place.user()) }
}

/// How it is, in a few words.
pub fn state(place: &Place, ended: Option<(Ended, u64)>) -> String {
    match ended.map(|(how, _)| how) {
        None => match submit::waiting(place) {
            None => "running".into(),
            Some((None, _)) => "waiting".into(),
            Some((Some(at), pools)) => format!("{} in line for {}", line::ordinal(at), pools.join(", ")),
        },
        Some(Ended::Exited(status)) => format!("exited {status}"),
        Some(Ended::Killed(signal)) => format!("killed {signal}"),
        Some(Ended::Unknown) if !outlived(place, ended).is_empty() => "hung up, runs on".into(),
        Some(Ended::Unknown) => "unknown".into(),
    }
}

/// How long ago that was.
pub fn age(began: u64) -> Duration {
    let then = SystemTime::UNIX_EPOCH + Duration::from_nanos(began);
    // The clock may have been set back.
    SystemTime::now().duration_since(then).unwrap_or_default()
}
