//! `chappe map`: dictionaries for shell users.

use crate::args::MapCommand;
use crate::ended::TIMED_OUT;
use crate::said::{Failure, all_done, failed, stdin_is_there, stdout_is_there, tell, wanted, write};
use crate::{look, names, time};
use anyhow::{Context, anyhow, ensure};
use chappe::map::Event;
use chappe::{Map, MapError, MapOptions, ObjectError};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// The status of what was looked for, or expected, and is not so.
const NOT_SO: u8 = 1;

type Bytes = Map<[u8], [u8]>;

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(command: &MapCommand, json: bool) -> Result<u8, Failure> {
    match command {
        MapCommand::Create { names, entries, key_size, value_size, ordered } => {
            names::refuse_numbers(names, "map", "--entries N").map_err(failed)?;
            all_done(names::each(names, |name| create(name, *entries, *key_size, *value_size, *ordered)), json)?;
            Ok(0)
        }
        MapCommand::Put { name, key, value, raw, new, expected } => {
            let value = value.as_deref().map(OsStrExt::as_bytes);
            put(name, key, value, *raw, *new, expected.as_deref(), json)
        }
        MapCommand::Get { name, key, raw } => get(name, key, *raw, json),
        MapCommand::Ls { name } => list(name, json),
        MapCommand::Delete { name, keys, expected } => {
            let mut status = 0;
            for key in keys {
                status = status.max(delete(name, key, expected.as_deref(), json)?);
            }
            Ok(status)
        }
        MapCommand::Watch { name, key, timeout, changes, count } => {
            watch(name, key.as_deref(), *timeout, *changes, *count, json)
        }
        MapCommand::Rm { names, force } => {
            let remove = |name: &str| match Map::unmake(name, *force) {
                Ok(()) => Ok(json!({ "removed": name })),
                // The keys of the map before them.
                Err(e @ MapError::Object(ObjectError::Unknown { .. })) if name != names[0] => {
                    Err(anyhow!("{e}; keys are removed by `chappe map delete {} {name}`", names[0]))
                }
                Err(e) => Err(e.into()),
            };
            all_done(names::each(names, remove), json)?;
            Ok(0)
        }
    }
}

fn create(name: &str, entries: u64, key: u64, value: u64, ordered: bool) -> anyhow::Result<Value> {
    let fits = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let options = MapOptions { entries: fits(entries), key: fits(key), value: fits(value), ordered };
    let map = Bytes::create(name, &options).map_err(|e| match e {
        // What was asked for, and not what is handed on of it.
        MapError::Capacity { what, count, least, most } => {
            let count = match what {
                "entries" => entries,
                "bytes in a key" => key,
                "bytes in a value" => value,
                _ => count,
            };
            MapError::Capacity { what, count, least, most }
        }
        e => e,
    })?;
    let info = map.info()?;
    Ok(json!({
        "name": map.name(), "entries": entries, "key_size": key, "value_size": value, "ordered": ordered,
        "bytes": info.bytes,
    }))
}

fn open(name: &str) -> Result<Bytes, Failure> {
    Bytes::open(name).map_err(|e| failed(e.into()))
}

/// Bytes as JSON has them: text, or `{"hex": TEXT}`.
fn told(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>() }),
    }
}

/// Bytes as people see them: no control character gets to the terminal.
fn shown(bytes: &[u8], is_text: bool) -> String {
    if is_text {
        return look::plain(&String::from_utf8_lossy(bytes));
    }
    bytes.iter().fold("0x".to_owned(), |text, b| text + &format!("{b:02x}"))
}

fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}

fn put(
    name: &str,
    key: &OsStr,
    value: Option<&[u8]>,
    raw: bool,
    new: bool,
    expected: Option<&OsStr>,
    json: bool,
) -> Result<u8, Failure> {
    let map = open(name)?;
    let value = match value {
        Some(value) => value.to_vec(),
        None => read(map.options().value, raw).map_err(failed)?,
    };
    let key = key.as_bytes();
    let (old, done) = if new || expected.is_some() {
        let swapped = map.compare_exchange(key, expected.map(OsStrExt::as_bytes), Some(&value));
        match swapped.map_err(|e| failed(e.into()))? {
            Ok(()) => (expected.map(|e| e.as_bytes().to_vec()), true),
            Err(has) => (has, false),
        }
    } else {
        (map.insert(key, &value).map_err(|e| failed(e.into()))?, true)
    };
    if json {
        line(&json!({ "key": told(key), "old": old.as_deref().map(told), "done": done }).to_string())?;
    }
    Ok(if done { 0 } else { NOT_SO })
}

/// What comes on stdin, which is a little more than the most at most. A line is read as its text: `get` ends it with a newline again.
fn read(most: u32, raw: bool) -> anyhow::Result<Vec<u8>> {
    stdin_is_there()?;
    if std::io::stdin().is_terminal() {
        tell("chappe: the value is read from the terminal, up to Ctrl-D");
    }
    let mut value = Vec::new();
    std::io::stdin().take(u64::from(most) + 2).read_to_end(&mut value).context("cannot read the value from stdin")?;
    if !raw {
        value.pop_if(|last| *last == b'\n');
    }
    ensure!(
        value.len() <= most as usize,
        "what stdin brings is longer than the {most} bytes that a value of this map has at most"
    );
    Ok(value)
}

fn get(name: &str, key: &OsStr, raw: bool, json: bool) -> Result<u8, Failure> {
    let key = key.as_bytes();
    let Some(value) = open(name)?.get(key).map_err(|e| failed(e.into()))? else { return Ok(NOT_SO) };
    if json {
        line(&json!({ "key": told(key), "value": told(&value) }).to_string())?;
    } else {
        write(&value)?;
        if !raw {
            line("")?;
        }
    }
    Ok(0)
}

fn list(name: &str, json: bool) -> Result<u8, Failure> {
    let map = Map::open_as_bytes(name).map_err(|e| failed(e.into()))?;
    let entries = map.iter().and_then(Iterator::collect);
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = entries.map_err(|e: MapError| failed(e.into()))?;
    entries.sort();
    let mut text = String::new();
    for (key, value) in &entries {
        if json {
            text += &json!({ "key": told(key), "value": told(value) }).to_string();
        } else {
            let is_text = map.is_of_bytes();
            text += &format!("{}\t{}", shown(key, is_text), shown(value, is_text));
        }
        text.push('\n');
    }
    write(text.as_bytes())?;
    Ok(0)
}

fn delete(name: &str, key: &OsStr, expected: Option<&OsStr>, json: bool) -> Result<u8, Failure> {
    let (map, key) = (open(name)?, key.as_bytes());
    let (old, done) = match expected {
        None => {
            let old = map.remove(key).map_err(|e| failed(e.into()))?;
            let done = old.is_some();
            (old, done)
        }
        Some(expected) => {
            let swapped = map.compare_exchange(key, Some(expected.as_bytes()), None);
            match swapped.map_err(|e| failed(e.into()))? {
                Ok(()) => (Some(expected.as_bytes().to_vec()), true),
                Err(has) => (has, false),
            }
        }
    };
    if json {
        line(&json!({ "key": told(key), "old": old.as_deref().map(told), "done": done }).to_string())?;
    }
    Ok(if done { 0 } else { NOT_SO })
}

fn watch(
    name: &str,
    key: Option<&OsStr>,
    timeout: Option<Duration>,
    changes: bool,
    count: Option<u64>,
    json: bool,
) -> Result<u8, Failure> {
    stdout_is_there().map_err(failed)?;
    chappe::set_label(&format!("chappe map watch {name}"));
    let map = Map::open_as_bytes(name).map_err(|e| failed(e.into()))?;
    let is_text = map.is_of_bytes();
    let mut watch = map.watch(key.map(OsStrExt::as_bytes));
    let tell = |event: &Event| {
        let text = if json {
            let (old, new) = (event.old.as_deref().map(told), event.new.as_deref().map(told));
            json!({ "key": told(&event.key), "old": old, "new": new }).to_string()
        } else {
            match &event.new {
                Some(new) => format!("{}\t{}", shown(&event.key, is_text), shown(new, is_text)),
                None => format!("-\t{}", shown(&event.key, is_text)),
            }
        };
        wanted(format!("{text}\n").as_bytes())
    };
    if changes {
        watch.changes().map_err(|e| failed(e.into()))?;
    }
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let events = match watch.next(timeout) {
            Err(MapError::Dead { .. }) => return Ok(0),
            other => other.map_err(|e| failed(e.into()))?,
        };
        if events.is_empty() {
            let patience = time::show(timeout.unwrap_or_default());
            let why = anyhow!("nothing has changed in map `{name}` for {patience}");
            return Err(Failure { status: TIMED_OUT, why });
        }
        for event in events.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if !tell(event)? {
                return Ok(0);
            }
        }
        left = left.saturating_sub(events.len() as u64);
    }
    Ok(0)
}
