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
use crate::keep::APART;
use crate::look::permits_text;
use crate::said::{Failure, stdout_is_there};
use crate::{elsewhere, line, program, take};
use anyhow::{Context, Result, anyhow, bail};
use chappe::Pool;
use chappe::term::place::{self, Place, Role, TermError};
use clap::Parser;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::SystemTime;

/// The pool of jobs that name none.
const POOL: &str = "jobs";

/// How the variables of a permit or lock begin that this command may run under. A process with its mark keeps it taken.
const OF_A_PERMIT: [&str; 7] =
    ["CHAPPE_LEASE", "CHAPPE_PERMIT", "CHAPPE_COUNT", "CHAPPE_INDEX", "CHAPPE_LOCK", "CHAPPE_TOKEN", "CHAPPE_REMOTE"];

/// A job as it is kept.
struct Job {
    /// The words behind `chappe`.
    words: Vec<OsString>,
    within: Within,
    /// Of one that has run: how many bytes of history it had.
    history: Option<u64>,
    /// Of one that has run: whether no other user may look at its terminal.
    private: bool,
}

/// How many bytes of history a job has.
const HISTORY: u64 = 4 << 20;

/// `chappe submit`.
///
/// # Errors
/// With env(1)'s statuses.
pub fn submit(a: &Submit, json: bool, file_size: bool) -> Result<u8, Failure> {
    let cannot = |why: anyhow::Error| Failure { status: FAILED, why };
    stdout_is_there().map_err(cannot)?;
    stand_apart().map_err(cannot)?;
    let job = match &a.retry {
        Some(name) => again(name),
        None => new(a),
    };
    let job = job.map_err(cannot)?;
    let cli = parsed(&job.words).map_err(cannot)?;
    let is_elsewhere = elsewhere::asked(&cli).map_err(cannot)?;
    let Command::Acquire(acquire) = cli.command else { return Err(cannot(anyhow!("this is no job"))) };
    if let Some(name) = &a.name {
        place::check(name).map_err(|e| cannot(e.into()))?;
    }
    // Before a pool is made for it.
    let found = is_there(&acquire.command[0], &job.within);
    found.map_err(|e| not_started(&acquire.command[0], &e))?;
    if !is_elsewhere {
        // In the terminal it would be said too late.
        have_room(&acquire).map_err(cannot)?;
    }
    let own = std::env::current_exe().context("cannot tell where chappe itself is").map_err(cannot)?;
    let command: Vec<OsString> = std::iter::once(own.into_os_string()).chain(job.words.iter().cloned()).collect();
    let (note, label) = (job.note(), label(&acquire.command));
    let history = a.history.or(job.history).unwrap_or(HISTORY);
    let begin = |name: &str| {
        let within = Some(&job.within);
        let wanted = Wanted {
            name,
            size: None,
            history,
            command: &command,
            label: label.clone(),
            within,
            note: &note,
            private: a.private || job.private,
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
                    Err(e)
                        if matches!(e.why.downcast_ref(), Some(TermError::Taken(_) | TermError::TakenByOther(_))) =>
                    {
                        tried += 1
                    }
                    begun => break (name, begun?),
                }
            }
        }
    };
    let text = if json { json!({ "name": name, "pid": pid }).to_string() } else { name.clone() };
    run::said(&text, &name)?;
    run::leave(&name)
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
    words.extend(a.grace.as_ref().map(|grace| format!("--grace={grace}")));
    words.push("--".into());
    let words = words.into_iter().map(OsString::from).chain(a.command.iter().cloned()).collect();
    let directory = std::env::current_dir().context("cannot tell which directory this is")?.into_os_string();
    let mut within = Within { directory, environment: std::env::vars_os().collect() };
    as_its_own(&mut within)?;
    Ok(Job { words, within, history: None, private: false })
}

/// Makes the environment that of a job by itself: without a permit's marks, and with its own. The directory of arenas is this process's, wherever the job goes.
fn as_its_own(within: &mut Within) -> Result<()> {
    let is_left_out = |name: &OsStr| OF_A_PERMIT.iter().any(|part| name.as_bytes().starts_with(part.as_bytes()));
    within.environment.retain(|(name, _)| !is_left_out(name) && name != "CHAPPE_DIR" && name != APART);
    if let Some(dir) = std::env::var_os("CHAPPE_DIR").filter(|dir| !dir.is_empty()) {
        let dir = std::path::absolute(dir).context("cannot tell which directory CHAPPE_DIR is")?;
        within.environment.push(("CHAPPE_DIR".into(), dir.into()));
    }
    within.environment.push((APART.into(), apart().into()));
    Ok(())
}

/// A mark that no other job has.
fn apart() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{}", std::process::id(), now.as_nanos())
}

/// Under a permit or lock: begins this process anew, without its marks. The keeper of the terminal comes of this process, and would keep the permit taken: the job
/// may wait for just that one.
fn stand_apart() -> Result<()> {
    let marks = std::env::vars_os().map(|(name, _)| name);
    let marks: Vec<OsString> =
        marks.filter(|name| OF_A_PERMIT.iter().any(|part| name.as_bytes().starts_with(part.as_bytes()))).collect();
    if marks.is_empty() {
        return Ok(());
    }
    let mut again = std::process::Command::new("/proc/self/exe");
    again.args(std::env::args_os().skip(1)).env(APART, apart());
    marks.iter().for_each(|name| _ = again.env_remove(name));
    Err(again.exec()).context("cannot begin anew without the marks of a permit")
}

/// A job that has ended, once more.
fn again(name: &str) -> Result<Job> {
    let place = find(name, true)?;
    let user = place.user();
    if user != chappe::process::uid() {
        // Root: it would be root's job, with what that user chose.
        bail!("the job of terminal `{name}` is user {user}'s: only that user can run it again");
    }
    let Some(mut job) = Job::of(&place) else {
        bail!("terminal `{name}` was not made by `chappe submit`: `chappe term run` runs its command again");
    };
    if place.ended()?.is_none() {
        bail!("the job of terminal `{name}` has not ended; `chappe term kill {name}` sends it a signal");
    }
    as_its_own(&mut job.within)?;
    job.history = Some(place.history_bytes());
    job.private = !place.is_shown().context("cannot tell which users may look at it")?;
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
        let environment = parts.filter_map(pair).collect();
        (words.len() == count).then_some(Job {
            words,
            within: Within { directory, environment },
            history: None,
            private: false,
        })
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

/// Whether the pools of a job can ever give what it asks for. Those that are not there are an error, or made.
fn have_room(acquire: &Acquire) -> Result<()> {
    for pool in take::pools(acquire)? {
        let (has, count) = (pool.permits(), acquire.count);
        if has < count {
            let name = pool.name();
            bail!(
                "pool `{name}` has only {}: a job for {count} cannot run; `chappe pool resize {name} {count}` makes it larger",
                permits_text(has)
            );
        }
    }
    Ok(())
}

fn parsed(words: &[OsString]) -> Result<Cli> {
    let own = OsString::from("chappe");
    Cli::try_parse_from(std::iter::once(&own).chain(words)).map_err(|e| anyhow!("{e}"))
}

/// Whether the command is there, for the job: else that would wait in line for nothing.
fn is_there(command: &OsStr, within: &Within) -> io::Result<()> {
    let directory = Path::new(&within.directory);
    if command.as_bytes().contains(&b'/') {
        return program::runnable(&directory.join(command));
    }
    let path = within.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let mut why = io::Error::from_raw_os_error(libc::ENOENT);
    for place in std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin"))) {
        match program::runnable(&directory.join(place).join(command)) {
            Ok(()) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EACCES) => why = e,
            Err(_) => {}
        }
    }
    Err(why)
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

/// Where a job stands that does not run yet, and in whose line; None: it runs, or is no job.
pub fn waiting(place: &Place) -> Option<(Option<usize>, Vec<String>)> {
    let pid = place.process(Role::Program)?;
    if !place.is_own() {
        // Its pools are in its note.
        return (place.is_job() && !place.had(Role::Job)).then_some((None, Vec::new()));
    }
    let Command::Acquire(acquire) = parsed(&Job::of(place)?.words).ok()?.command else { return None };
    if acquire.pools.iter().any(|name| elsewhere::is_remote(name)) {
        return None;
    }
    let pools: Vec<Pool> = acquire.pools.iter().filter_map(|name| Pool::open(name).ok()).collect();
    // First the line: a job that leaves it begins its command.
    let at = line::place_of(pid, pools.iter().map(Pool::waiters));
    (at.is_some() || !place.had(Role::Job)).then_some((at, acquire.pools))
}
