//! `chappe submit`: a terminal in which `chappe acquire` runs a command.
//!
//! The words behind `chappe`, the directory and the environment are the terminal's note, each with a zero byte behind it: how a job is run again, and which
//! pools it waits for. The note is whole when the terminal has its name.

use super::found::{directory, find};
use super::run;
use super::wanted::{Wanted, Within};
use crate::args::submit::Submit;
use crate::args::{Acquire, Cli, Command};
use crate::ended::{FAILED, label, not_started};
use crate::look::permits_text;
use crate::said::{Failure, write};
use crate::{elsewhere, line, program, take};
use anyhow::{Context, Result, anyhow, bail};
use chappe::Pool;
use chappe::term::place::{self, Place, Role, TermError};
use clap::Parser;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The pool of jobs that name none.
const POOL: &str = "jobs";

/// How the variables of a permit begin that this command may run under. A process with its mark keeps it taken.
const OF_A_PERMIT: [&str; 4] = ["CHAPPE_LEASE", "CHAPPE_PERMIT", "CHAPPE_COUNT", "CHAPPE_INDEX"];

/// A job as it is kept.
struct Job {
    /// The words behind `chappe`.
    words: Vec<OsString>,
    within: Within,
}

/// `chappe submit`.
///
/// # Errors
/// With env(1)'s statuses.
pub fn submit(a: &Submit, json: bool, file_size: bool) -> Result<u8, Failure> {
    let cannot = |why: anyhow::Error| Failure { status: FAILED, why };
    let job = match &a.retry {
        Some(name) => again(name),
        None => new(a),
    };
    let job = job.map_err(cannot)?;
    let acquire = asked(&job.words).map_err(cannot)?;
    let found = is_there(&acquire.command[0], &job.within);
    found.map_err(|e| not_started(&acquire.command[0], &e))?;
    let own = std::env::current_exe().context("cannot tell where chappe itself is").map_err(cannot)?;
    let command: Vec<OsString> = std::iter::once(own.into_os_string()).chain(job.words.iter().cloned()).collect();
    let (note, label) = (job.note(), label(&acquire.command));
    let begin = |name: &str| {
        let within = Some(&job.within);
        let wanted = Wanted {
            name,
            size: None,
            history: a.history,
            command: &command,
            label: label.clone(),
            within,
            note: &note,
            file_size,
        };
        run::begin(&wanted)
    };
    let (name, pid) = match &a.name {
        Some(name) => (name.clone(), begin(name)?),
        None => {
            let base = base_of(a.retry.as_deref(), &acquire.command[0]);
            let mut tried = next_number(&base).map_err(cannot)?;
            loop {
                let name = format!("{base}-{tried}");
                match begin(&name) {
                    // Another was faster.
                    Err(e) if matches!(e.why.downcast_ref(), Some(TermError::Taken(_))) => tried += 1,
                    begun => break (name, begun?),
                }
            }
        }
    };
    let text = if json { json!({ "name": name, "pid": pid }).to_string() } else { name };
    write(format!("{text}\n").as_bytes())?;
    Ok(0)
}

/// The job that is asked for.
fn new(a: &Submit) -> Result<Job> {
    let mut words = vec!["acquire".to_owned(), format!("--count={}", a.count), format!("--priority={}", a.priority)];
    // The pool of jobs that name none is made where it is not there.
    let create = if a.pool.is_empty() { a.create.or(Some(None)) } else { a.create };
    words.extend(create.map(|permits| permits.map_or("--create".into(), |permits| format!("--create={permits}"))));
    if a.pool.is_empty() {
        words.push(POOL.into());
    }
    words.extend(a.pool.iter().cloned());
    words.push("--".into());
    let words = words.into_iter().map(OsString::from).chain(a.command.iter().cloned()).collect();
    let directory = std::env::current_dir().context("cannot tell which directory this is")?.into_os_string();
    let is_left_out = |name: &OsStr| OF_A_PERMIT.iter().any(|part| name.as_bytes().starts_with(part.as_bytes()));
    let environment = std::env::vars_os().filter(|(name, _)| !is_left_out(name)).collect();
    Ok(Job { words, within: Within { directory, environment } })
}

/// A job that has ended, once more. The directory of arenas is this process's.
fn again(name: &str) -> Result<Job> {
    let place = find(name, false)?;
    let Some(mut job) = Job::of(&place) else {
        bail!("terminal `{name}` was not made by `chappe submit`: `chappe term run` runs its command again");
    };
    if place.ended()?.is_none() {
        bail!("the job of terminal `{name}` has not ended; `chappe term kill {name}` sends it a signal");
    }
    job.within.environment.retain(|(name, _)| name != "CHAPPE_DIR");
    job.within.environment.extend(std::env::var_os("CHAPPE_DIR").map(|dir| ("CHAPPE_DIR".into(), dir)));
    let directory = Path::new(&job.within.directory);
    if !directory.is_dir() {
        bail!("the directory of the job of terminal `{name}`, {}, is not there any more", directory.display());
    }
    Ok(job)
}

impl Job {
    /// The job of a terminal; None: it has none.
    fn of(place: &Place) -> Option<Job> {
        let note = place.note();
        let mut parts = note.split(|byte| *byte == 0).map(|part| OsStr::from_bytes(part).to_owned());
        let count = parts.next()?.to_str()?.parse().ok()?;
        let directory = parts.next()?;
        let words: Vec<OsString> = parts.by_ref().take(count).collect();
        let pair = |both: OsString| {
            let at = both.as_bytes().iter().skip(1).position(|byte| *byte == b'=')? + 1;
            Some((
                OsString::from_vec(both.as_bytes()[..at].to_vec()),
                OsStr::from_bytes(&both.as_bytes()[at + 1..]).into(),
            ))
        };
        (words.len() == count)
            .then(|| Job { words, within: Within { directory, environment: parts.filter_map(pair).collect() } })
    }

    fn note(&self) -> Vec<u8> {
        let mut all = format!("{}\0", self.words.len()).into_bytes();
        let mut put = |parts: &[&[u8]]| {
            all.extend(parts.concat());
            all.push(0);
        };
        put(&[self.within.directory.as_bytes()]);
        self.words.iter().for_each(|word| put(&[word.as_bytes()]));
        self.within.environment.iter().for_each(|(name, value)| put(&[name.as_bytes(), b"=", value.as_bytes()]));
        all
    }
}

/// What a job's words ask for. Pools that are not there are an error, or made.
fn asked(words: &[OsString]) -> Result<Acquire> {
    let cli = parsed(words)?;
    let is_elsewhere = elsewhere::asked(&cli)?;
    let Command::Acquire(acquire) = cli.command else { bail!("this is no job") };
    if !is_elsewhere {
        // In the terminal it would be said too late.
        for pool in take::pools(&acquire)? {
            let (has, count) = (pool.permits(), acquire.count);
            if has < count {
                let name = pool.name();
                bail!("pool `{name}` has only {}: a job for {count} would wait until it is resized", permits_text(has));
            }
        }
    }
    Ok(acquire)
}

fn parsed(words: &[OsString]) -> Result<Cli> {
    let own = OsString::from("chappe");
    Cli::try_parse_from(std::iter::once(&own).chain(words)).map_err(|e| anyhow!("{e}"))
}

/// Whether the command is there: else the job would wait in line for nothing.
fn is_there(command: &OsStr, within: &Within) -> std::io::Result<()> {
    if command.as_bytes().contains(&b'/') {
        return program::runnable(&Path::new(&within.directory).join(command));
    }
    program::find(command).map(|_| ())
}

/// What the names of a command's jobs begin with.
fn base_of(retried: Option<&str>, command: &OsStr) -> String {
    if let Some(name) = retried {
        let number = name.rsplit_once('-').filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
        return number.map_or(name, |(base, _)| base).to_owned();
    }
    let own = Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    let fit = |c: char| if c.is_ascii_alphanumeric() || "._@:+-".contains(c) { c } else { '_' };
    let base: String = own.chars().map(fit).take(64).collect();
    let base = base.trim_start_matches(['.', '-', '@']);
    if base.is_empty() { "job".into() } else { base.into() }
}

/// The number behind the greatest that is in use.
fn next_number(base: &str) -> Result<u64> {
    let names = place::names(&directory(true)?)?;
    let number = |name: &String| name.strip_prefix(base)?.strip_prefix('-')?.parse::<u64>().ok();
    Ok(names.iter().filter_map(number).max().map_or(1, |last| last.saturating_add(1)))
}

/// Where a job stands that has no permit yet; None: it runs, or is no job.
pub fn waiting(place: &Place) -> Option<Option<usize>> {
    let pid = place.process(Role::Program)?;
    let Command::Acquire(acquire) = parsed(&Job::of(place)?.words).ok()?.command else { return None };
    if acquire.pools.iter().any(|name| elsewhere::is_remote(name)) {
        return None;
    }
    let pools: Vec<Pool> = acquire.pools.iter().filter_map(|name| Pool::open(name).ok()).collect();
    // First the line: who leaves it has a permit.
    let at = line::place_of(pid, pools.iter().map(Pool::waiters));
    let has_one =
        || pools.iter().flat_map(Pool::holders).any(|held| held.who.pid == pid && held.who.elsewhere().is_none());
    (at.is_some() || !has_one()).then_some(at)
}
