//! `chappe term run`: makes a terminal, and a process that keeps it.

use super::found::{directory, find, wrong};
use super::wanted::Wanted;
use super::{attach, log, wait};
use super::{keeper, pty};
use crate::ended::{FAILED, not_started};
use crate::said::{Failure, write};
use crate::{first, names, terminal};
use anyhow::{Result, anyhow};
use chappe::term::place::{self, Making, Place};
use chappe::term::view::Watch;
use serde_json::json;
use std::fmt::Display;
use std::io::{self, Read};
use std::path::Path;

/// Makes it, and says so.
///
/// # Errors
/// With env(1)'s statuses.
pub fn run(wanted: &Wanted<'_>, log: Option<&Path>, attach: bool, json: bool) -> Result<u8, Failure> {
    let cannot = |what: &str, e: &dyn Display| {
        let to = log.unwrap_or(Path::new("")).display();
        Failure { status: FAILED, why: anyhow!("{what} {to}: {e}") }
    };
    let to = log.map(log::create).transpose().map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => cannot("a recording needs a file of its own: remove, or do not name,", &e),
        _ => cannot("cannot make", &e),
    })?;
    let pid = match begin(wanted) {
        Ok(pid) => pid,
        Err(e) => {
            // It is empty, and was made just now.
            let _ = log.map(std::fs::remove_file);
            return Err(e);
        }
    };
    if let Some(to) = to {
        log::begin(wanted.name, to)
            .map_err(|e| cannot(&format!("terminal `{}` runs, and cannot be recorded into", wanted.name), &e))?;
    }
    if attach {
        return attach::attach(wanted.name);
    }
    let name = wanted.name;
    let text = if json { json!({ "name": name, "pid": pid }).to_string() } else { name.to_owned() };
    said(&text, name)?;
    leave(name)
}

/// Writes what a terminal is called that runs, whether that can be written or not.
///
/// # Errors
/// It cannot.
pub fn said(text: &str, name: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes()).map_err(|Failure { status, why }| Failure {
        status,
        why: anyhow!("{why}; the command runs all the same, in terminal `{name}`"),
    })
}

/// The status to end with when a terminal runs. As a container's first process this stays to the command's end: with it the terminal would end.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn leave(name: &str) -> Result<u8, Failure> {
    if first::has_init() { wait::exit(name, None, false) } else { Ok(0) }
}

/// Makes it; the process id of its command.
///
/// # Errors
/// With env(1)'s statuses; a name that is taken as [`place::TermError::Taken`].
pub fn begin(wanted: &Wanted<'_>) -> Result<u32, Failure> {
    let cannot = |why: anyhow::Error| Failure { status: FAILED, why };
    let names = [wanted.name.to_owned()];
    names::refuse_numbers(&names, "terminal", "--size NxN").map_err(cannot)?;
    let dir = directory(true).map_err(cannot)?;
    let (columns, rows) = wanted.size.or_else(|| terminal::size(0)).unwrap_or((80, 24));
    let cells = chappe::term::screen::fit(columns.into(), rows.into());
    let size = (cells.0 as u16, cells.1 as u16);
    let pty = pty::open(size.0, size.1).map_err(|e| cannot(anyhow!("cannot open a pseudo-terminal: {e}")))?;
    let (told, tells) = io::pipe().map_err(|e| cannot(anyhow!("cannot make a pipe: {e}")))?;
    let Wanted { history, note, private, .. } = *wanted;
    let making = Making { size: cells, history, command: &wanted.label, note, private };
    let place = Place::make(&dir, wanted.name, &making).map_err(|e| cannot(e.into()))?;
    // SAFETY: this process has one thread: the child has all that it needs.
    match unsafe { libc::fork() } {
        -1 => {
            let e = io::Error::last_os_error();
            // What cannot be removed is found by `doctor`.
            let _ = place::unmake(&dir, &place);
            return Err(cannot(anyhow!("cannot fork: {e}")));
        }
        0 => {
            drop(told);
            keeper::keep(&place, pty, wanted, size, tells)
        }
        _ => {}
    }
    // The keeper has its own: this process is not to keep the terminal alive.
    drop((tells, pty, place));
    let news = read_news(told).map_err(|e| cannot(e.into()))?;
    match news {
        News::Runs(pid) => {
            first_picture(wanted.name).map_err(wrong)?;
            Ok(pid)
        }
        News::Failed(errno) => Err(not_started(&wanted.command[0], &io::Error::from_raw_os_error(errno))),
        News::None => Err(cannot(anyhow!("the keeper of terminal `{}` was killed before it began", wanted.name))),
    }
}

/// What the keeper says: a process id, or a negative error number.
enum News {
    Runs(u32),
    Failed(i32),
    None,
}

fn read_news(mut from: io::PipeReader) -> io::Result<News> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(match bytes.try_into().map(i32::from_le_bytes) {
        Ok(pid @ 1..) => News::Runs(pid as u32),
        Ok(errno) => News::Failed(-errno),
        Err(_) => News::None,
    })
}

/// Waits for the holder's first state.
fn first_picture(name: &str) -> Result<()> {
    // An open file of its own: the one that the terminal was made with is the keeper's.
    let place = find(name, false)?;
    let mut watch = Watch::begin(&place)?;
    loop {
        watch.look();
        if place.snapshot().is_some() || watch.is_gone() {
            return Ok(());
        }
        watch.sleep(None);
    }
}
