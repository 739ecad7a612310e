//! `chappe term wait`: for a text, or for the end of the command.
//!
//! Each look takes the lines that are new since the last one, and those that can still change: what is on the screen. A line that goes on
//! in the next row is one.

use super::found::{find, parts, status_of, unknown, wrong};
use crate::ended::{FAILED, TIMED_OUT};
use crate::said::{Failure, failed, tell, write};
use anyhow::anyhow;
use chappe::term::place::Place;
use chappe::term::view::{Line, Snapshot, Watch};
use regex::Regex;
use serde_json::json;
use std::time::{Duration, Instant};

/// How many rows a line has at most that is looked at as one: what never ends is looked at in pieces.
const MOST_ROWS: usize = 4096;

/// When the time is up, as the watch and the process know it.
struct Limit(Option<Instant>);

impl Limit {
    fn of(patience: Option<Duration>) -> Limit {
        Limit(patience.and_then(|patience| Instant::now().checked_add(patience)))
    }

    /// Sleeps until something has changed; false: the time is up.
    fn sleep(&self, watch: &Watch<'_>) -> bool {
        match self.0 {
            None => watch.sleep_for(None),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                !left.is_zero() && watch.sleep_for(Some(left))
            }
        }
    }
}

/// `chappe term wait REGEX`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn text(
    name: &str,
    regex: &str,
    after: Option<u64>,
    patience: Option<Duration>,
    json: bool,
) -> Result<u8, Failure> {
    let regex = Regex::new(regex).map_err(|e| Failure { status: 2, why: anyhow!("{e}") })?;
    let place = find(name, false).map_err(failed)?;
    let mut watch = Watch::begin(&place).map_err(wrong)?;
    let limit = Limit::of(patience);
    let (mut from, mut lost) = (after.map(|line| line.saturating_add(1)), 0);
    loop {
        watch.look();
        // Before the lines: what came before the end is among them.
        let is_over = place.is_complete().map_err(wrong)?;
        if let Some(now) = place.snapshot() {
            let begin = from.unwrap_or(now.screen.base());
            let (found, next, missed) = search(&place, &now, begin, after, &regex);
            lost += missed;
            from = Some(next);
            if let Some((line, text)) = found {
                return tell_found(&regex, line, &text, lost, json);
            }
        }
        if is_over {
            say_lost(lost, json);
            return Err(failed(anyhow!("the command of terminal `{name}` has ended without a line that has this")));
        }
        if !limit.sleep(&watch) {
            say_lost(lost, json);
            return Err(Failure { status: TIMED_OUT, why: anyhow!("terminal `{name}` has no line that has this yet") });
        }
    }
}

/// The first whole line from a number on that fits, from where to go on, and how many lines were lost.
fn search(
    place: &Place,
    now: &Snapshot,
    begin: u64,
    after: Option<u64>,
    regex: &Regex,
) -> (Option<(u64, String)>, u64, u64) {
    // The line before the first one may go on in it.
    let lines = place.lines(now, begin.saturating_sub(u64::from(after == begin.checked_sub(1))));
    // What is lost is counted once.
    let there = lines.lines.first().map_or(begin, |line| line.number);
    let (mut next, mut rest) = (begin.max(there), &lines.lines[..]);
    while let Some(first) = rest.first() {
        let len =
            rest.iter().take(MOST_ROWS).position(|line| !line.wraps).map_or(rest.len().min(MOST_ROWS), |last| last + 1);
        let (whole, later) = rest.split_at(len);
        rest = later;
        let last = first.number + len as u64 - 1;
        if last < now.screen.base() {
            next = next.max(last + 1);
        }
        // It began before: its first row is not asked for.
        if after.is_some_and(|after| first.number <= after) {
            continue;
        }
        let text: String = whole.iter().map(Line::text).collect();
        if regex.is_match(&text) {
            return (Some((first.number, text)), next, lines.lost);
        }
    }
    (None, next, lines.lost)
}

fn tell_found(regex: &Regex, line: u64, text: &str, lost: u64, json: bool) -> Result<u8, Failure> {
    say_lost(lost, json);
    let text = if json {
        let found = regex.find(text).map(|found| found.as_str());
        json!({ "line": line, "text": text, "match": found, "lost": lost }).to_string()
    } else {
        text.to_owned()
    };
    write(format!("{text}\n").as_bytes())?;
    Ok(0)
}

fn say_lost(lost: u64, json: bool) {
    if lost > 0 && !json {
        tell(format_args!("chappe: {lost} lines left the history before they were looked at"));
    }
}

/// `chappe term wait --exit`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn exit(name: &str, patience: Option<Duration>, json: bool) -> Result<u8, Failure> {
    let place = find(name, false).map_err(failed)?;
    let mut watch = Watch::begin(&place).map_err(wrong)?;
    let limit = Limit::of(patience);
    loop {
        watch.look();
        let ended = place.ended().map_err(wrong)?;
        // What it wrote to its end is on the screen, too.
        if let Some((how, _)) = ended
            && place.is_complete().map_err(wrong)?
        {
            let (_, status, signal) = parts(Some(how));
            if (status, signal) == (None, None) {
                return Err(Failure { status: FAILED, why: unknown(name) });
            }
            if json {
                write(format!("{}\n", json!({ "status": status, "signal": signal })).as_bytes())?;
            }
            return Ok(status_of(how));
        }
        if !limit.sleep(&watch) {
            return Err(Failure { status: TIMED_OUT, why: anyhow!("the command of terminal `{name}` runs") });
        }
    }
}
