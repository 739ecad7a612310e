//! `chappe term wait`: for a text, or for the end of the command.
//!

use super::found::{find, parts, status_of, unknown, wrong};
use super::log;
use crate::ended::{FAILED, TIMED_OUT};
use crate::said::{Failure, failed, tell, write};
use anyhow::anyhow;
use chappe::term::place::Role;
use chappe::term::search::{After, Found, Search};
use chappe::term::view::Watch;
use regex::Regex;
use serde_json::json;
use std::time::{Duration, Instant};

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
    after: Option<After>,
    patience: Option<Duration>,
    json: bool,
) -> Result<u8, Failure> {
    let regex =
        Regex::new(regex).map_err(|e| Failure { status: 2, why: anyhow!("the pattern cannot be read: {e}") })?;
    let place = find(name, false).map_err(failed)?;
    let mut watch = Watch::begin(&place).map_err(wrong)?;
    let limit = Limit::of(patience);
    let mut search = Search::new(regex, after);
    loop {
        watch.look();
        // Before the lines: what came before the end is among them.
        let is_over = place.is_complete().map_err(wrong)?;
        if let Some(found) = place.snapshot().and_then(|now| search.look(&place, &now)) {
            return tell_found(&found, json);
        }
        if is_over {
            say_lost(search.lost(), json);
            return Err(failed(anyhow!("the command of terminal `{name}` has ended without a line that has this")));
        }
        if !limit.sleep(&watch) {
            say_lost(search.lost(), json);
            return Err(Failure { status: TIMED_OUT, why: anyhow!("terminal `{name}` has no line that has this yet") });
        }
    }
}

fn tell_found(found: &Found, json: bool) -> Result<u8, Failure> {
    let Found { line, text, matched, lost } = found;
    say_lost(*lost, json);
    let said = match json {
        true => json!({ "line": line, "text": text, "match": matched, "lost": lost }).to_string(),
        false => text.clone(),
    };
    write(format!("{said}\n").as_bytes())?;
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
            log::await_end(&place);
            let (_, status, signal) = parts(Some(how));
            if (status, signal) == (None, None) {
                // The hang-up may be about to end it.
                place.await_last_words().map_err(wrong)?;
                return Err(Failure { status: FAILED, why: unknown(&place) });
            }
            if json {
                write(format!("{}\n", json!({ "status": status, "signal": signal })).as_bytes())?;
            }
            return Ok(status_of(how));
        }
        if !limit.sleep(&watch) {
            let is_in_line = place.is_job() && !place.had(Role::Job);
            let what = if is_in_line { "waits for its permit" } else { "runs" };
            return Err(Failure { status: TIMED_OUT, why: anyhow!("the command of terminal `{name}` {what}") });
        }
    }
}
