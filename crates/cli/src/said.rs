//! What the command says: what was done, on stdout; what was not, on stderr, and with which status.

use crate::look;
use anyhow::{Result, ensure};
use serde_json::json;
use std::io::Write;
use std::sync::OnceLock;

/// Whether this process began without a stdin and a stdout: the standard library opens /dev/null in their place before `main`. Nothing is read from there,
/// and what is written there is lost.
static CLOSED: OnceLock<[bool; 2]> = OnceLock::new();

/// Runs when the program is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: it takes numbers and answers one.
    let closed = [0, 1].map(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1);
    // It runs once.
    let _ = CLOSED.set(closed);
}

/// Before something is taken that is to be written to stdout.
pub fn stdout_is_there() -> Result<()> {
    ensure!(
        !CLOSED.get().is_some_and(|closed| closed[1]),
        "cannot write to stdout: it is closed; give it a file, a pipe or /dev/null"
    );
    Ok(())
}

/// Before stdin is read for what is passed on.
pub fn stdin_is_there() -> Result<()> {
    ensure!(
        !CLOSED.get().is_some_and(|closed| closed[0]),
        "cannot read stdin: it is closed; give it a file, a pipe or /dev/null"
    );
    Ok(())
}

/// A command that did not do what it was asked, and the status that says so.
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// Why.
    pub why: anyhow::Error,
}

pub fn failed(why: anyhow::Error) -> Failure {
    Failure { status: 1, why }
}

/// What was changed is told only to programs.
pub fn done(result: Result<serde_json::Value>, json: bool) -> Result<(), Failure> {
    let value = result.map_err(failed)?;
    if json { write(format!("{value}\n").as_bytes()) } else { Ok(()) }
}

/// The same for several: those that were done, and then those that were not.
pub fn all_done((values, errors): (Vec<serde_json::Value>, Vec<anyhow::Error>), json: bool) -> Result<(), Failure> {
    for value in values {
        done(Ok(value), json)?;
    }
    let mut errors = errors.into_iter().rev();
    let last = errors.next();
    for e in errors.rev() {
        complain(json, &e.to_string());
    }
    last.map_or(Ok(()), |e| Err(failed(e)))
}

pub fn print(result: Result<(String, u8)>) -> Result<u8, Failure> {
    let (text, status) = result.map_err(failed)?;
    write(text.as_bytes())?;
    Ok(status)
}

/// Says what could not be done, and goes on.
pub fn complain(json: bool, text: &str) {
    if json { tell(json!({ "error": text })) } else { tell(format_args!("chappe: {}", look::plain(text))) }
}

/// Says as JSON that it failed.
pub fn tell_failure(text: &str, status: u8) {
    tell(if status == 1 { json!({ "error": text }) } else { json!({ "error": text, "status": status }) });
}

/// Says something on stderr. If there is no reader, that is no reason to fail.
pub fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes to stdout. That the reader has seen enough is no error.
pub fn write(text: &[u8]) -> Result<(), Failure> {
    wanted(text).map(drop)
}

/// The same, for a command that goes on to write: `false` if the reader has seen enough, so that the command ends.
pub fn wanted(text: &[u8]) -> Result<bool, Failure> {
    stdout_is_there().map_err(failed)?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritten(&e)),
        written => Ok(written.is_ok()),
    }
}

pub fn unwritten(e: &std::io::Error) -> Failure {
    failed(anyhow::anyhow!("cannot write to stdout: {e}"))
}
