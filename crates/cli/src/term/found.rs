//! Terminals as the commands find them, and how their commands' ends are said.

use super::cut;
use crate::ended::FAILED;
use crate::said::{Failure, failed};
use anyhow::{Result, anyhow, bail};
use chappe::dir::Dir;
use chappe::term::place::{self, Place, Role, TermError};
use chappe::term::view::Ended;

/// The directory that terminals are in.
pub fn directory(make: bool) -> Result<Dir> {
    Ok(chappe::open_directory(make)?)
}

/// The names of all, for completions; none where they cannot be listed.
pub fn names() -> Vec<String> {
    directory(false).ok().and_then(|dir| place::names(&dir).ok()).unwrap_or_default()
}

/// Whether nothing was ever made. A directory that CHAPPE_DIR names, and that is not there, is a mistake.
pub fn is_fresh() -> bool {
    let is_named = std::env::var_os("CHAPPE_DIR").is_some_and(|dir| !dir.is_empty());
    !is_named && chappe::directory().is_ok_and(|path| !path.exists())
}

/// A terminal, to look at it or to use it.
pub fn find(name: &str, write: bool) -> Result<Place> {
    let dir = match directory(false) {
        Ok(dir) => dir,
        // Nothing was ever made.
        Err(_) if is_fresh() => bail!("there is no terminal `{name}`"),
        Err(e) => return Err(e),
    };
    let place = Place::find(&dir, name, write)?;
    cut::say_if_cut();
    Ok(place)
}

/// A terminal, and how its command has ended.
pub type One = (Option<(Ended, u64)>, Place);

/// All that may be looked at, by name, and what is wrong with those that cannot be looked at.
///
/// # Errors
/// The directory cannot be looked at.
pub fn all() -> Result<(Vec<One>, Vec<anyhow::Error>)> {
    let names = match directory(false) {
        Ok(dir) => place::names(&dir)?,
        Err(_) if is_fresh() => Vec::new(),
        Err(e) => return Err(e),
    };
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for name in names {
        match find(&name, false).and_then(|place| Ok((place.ended()?, place))) {
            Ok(one) => all.push(one),
            // Another user's private one; or it was removed meanwhile.
            Err(e) if matches!(e.downcast_ref(), Some(TermError::NotYours(..) | TermError::Missing(_))) => {}
            Err(e) => wrong.push(e),
        }
    }
    all.sort_by(|(_, one), (_, other)| numbered(one.name()).cmp(&numbered(other.name())));
    Ok((all, wrong))
}

/// A name as it is sorted: `sh-2` stands before `sh-10`.
fn numbered(name: &str) -> (&str, u64, &str) {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (base, name[base.len()..].parse().unwrap_or(0), name)
}

/// The processes that run on though their terminal was hung up: nohup(1) has such.
pub fn outlived(place: &Place, ended: Option<(Ended, u64)>) -> Vec<u32> {
    let is_unknown = matches!(ended, Some((Ended::Unknown, _)));
    if is_unknown { place.left().unwrap_or_default() } else { Vec::new() }
}

/// A state as JSON has it, the status, and the signal.
pub fn parts(ended: Option<Ended>) -> (&'static str, Option<u8>, Option<i32>) {
    match ended {
        None => ("running", None, None),
        Some(Ended::Exited(status)) => ("exited", Some(status), None),
        Some(Ended::Killed(signal)) => ("killed", None, Some(signal)),
        Some(Ended::Unknown) => ("unknown", None, None),
    }
}

/// The status to end with as the command has ended.
pub fn status_of(ended: Ended) -> u8 {
    match ended {
        Ended::Exited(status) => status,
        // There are 64 signals.
        Ended::Killed(signal) => 128 + (signal as u8 & 127),
        Ended::Unknown => FAILED,
    }
}

/// What there is to say of an end that is not known.
pub fn unknown(place: &Place) -> anyhow::Error {
    let name = place.name();
    match &outlived(place, Some((Ended::Unknown, 0)))[..] {
        [] => anyhow!("how the command of terminal `{name}` ended is not known: its keeper was killed"),
        left => anyhow!(
            "terminal `{name}` was hung up: its keeper was killed. {} all the same, and what becomes of it will not be known; `chappe term kill {name} --signal KILL` ends it",
            running(left)
        ),
    }
}

/// That these processes run.
fn running(all: &[u32]) -> String {
    let named: Vec<String> = all.iter().map(u32::to_string).collect();
    if named.len() == 1 { format!("Process {} runs", named[0]) } else { format!("Processes {} run", named.join(", ")) }
}

/// A job's `chappe` has started its command: says so to the job's terminal. Elsewhere nothing happens.
pub fn started(command: i32) {
    let Some(name) = std::env::var_os("CHAPPE_TERM") else { return };
    let Ok(place) = find(&name.to_string_lossy(), true) else { return };
    if place.is_job() && place.process(Role::Program) == Some(chappe::process::pid()) {
        place.is(Role::Job, command as u32);
    }
}

/// The system's reason, as a failure.
pub fn wrong(e: impl Into<anyhow::Error>) -> Failure {
    failed(e.into())
}
