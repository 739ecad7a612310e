//! `chappe term send` and `resize`.

use super::found::{find, wrong};
use crate::ended::TIMED_OUT;
use crate::said::{Failure, failed, tell, write};
use anyhow::{Result, anyhow, bail};
use chappe::term::typed::TypeError;
use chappe::term::view::Watch;
use chappe::term::{keys, place::Place};
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;

/// What is to be typed.
pub struct What<'a> {
    /// Text.
    pub text: &'a [String],
    /// Enter behind it.
    pub enter: bool,
    /// Keys behind that.
    pub keys: &'a [String],
    /// As pasted.
    pub paste: bool,
}

/// How long a holder may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// `chappe term send`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn send(name: &str, what: &What<'_>, patience: Duration, json: bool) -> Result<u8, Failure> {
    let place = find(name, true).map_err(failed)?;
    let bytes = bytes(&place, what).map_err(failed)?;
    let mut watch = Watch::begin(&place).map_err(wrong)?;
    let typed = place.writer(patience).and_then(|writer| writer.type_bytes(&bytes, Some(patience), &mut watch));
    let mark = typed.map_err(|e| match e {
        TypeError::Unread { .. } | TypeError::Busy => {
            Failure { status: TIMED_OUT, why: anyhow!("terminal `{name}`: {e}") }
        }
        e => failed(anyhow!("terminal `{name}`: {e}; `chappe term show {name}` shows it")),
    })?;
    let text = if json {
        json!({ "name": name, "line": mark.line, "mark": mark.to_string() }).to_string()
    } else {
        mark.to_string()
    };
    write(format!("{text}\n").as_bytes())?;
    Ok(0)
}

fn bytes(place: &Place, what: &What<'_>) -> Result<Vec<u8>> {
    let modes = place.snapshot().map(|now| now.screen.modes()).unwrap_or_default();
    // Keys alone leave stdin to the shell that reads its script, or the keys, from there.
    let are_keys_alone = what.text.is_empty() && (what.enter || !what.keys.is_empty());
    let is_stdin = what.text.is_empty() && !are_keys_alone || what.text == ["-"];
    let mut text = what.text.join(" ").into_bytes();
    if is_stdin {
        text.clear();
        std::io::stdin().read_to_end(&mut text).map_err(|e| anyhow!("cannot read stdin: {e}"))?;
    }
    // A shell's "\n" is a backslash and a letter.
    if !what.enter && (text.ends_with(br"\n") || text.ends_with(br"\r")) && !what.text.is_empty() {
        tell("chappe: the text ends with a backslash and a letter, and is typed so: --enter types Enter behind it");
    }
    let mut bytes = if what.paste { keys::paste(&text, modes) } else { text };
    if what.enter {
        bytes.push(b'\r');
    }
    for key in what.keys {
        let Some(sent) = keys::bytes(key, modes) else {
            bail!("`{key}` is no key: write Enter, Tab, Escape, Up, F5, C-c, M-x or a character");
        };
        bytes.extend(sent);
    }
    Ok(bytes)
}

/// `chappe term resize`.
///
/// # Errors
/// There is no room for it, or no holder that answers.
pub fn resize(name: &str, (columns, rows): (u16, u16)) -> Result<Value> {
    let place = find(name, true)?;
    let mut watch = Watch::begin(&place)?;
    let done = place.writer(ANSWER).and_then(|writer| writer.resize(columns, rows, Some(ANSWER), &mut watch));
    match done {
        Ok(true) => {}
        Ok(false) => bail!("no room for {columns}x{rows} of terminal `{name}`: the directory of arenas is full"),
        Err(TypeError::Unread { .. }) => bail!("the holder of terminal `{name}` does not answer: it is stopped"),
        Err(e) => bail!("terminal `{name}`: {e}"),
    }
    let now = place.snapshot().ok_or_else(|| anyhow!("terminal `{name}` has no state"))?;
    Ok(json!({ "name": name, "columns": now.screen.columns(), "rows": now.screen.rows() }))
}
