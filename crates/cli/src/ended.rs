//! How a command ends that runs another: with that one's status, or with one of its own that says why not.

use crate::said::{Failure, tell};
use crate::signals;
use crate::supervise::Ended;
use anyhow::anyhow;
use chappe::Arena;
use serde_json::json;
use std::ffi::OsString;
use std::io;

/// Status when the time was up.
pub const TIMED_OUT: u8 = 124;

/// Status when chappe itself failed.
pub const FAILED: u8 = 125;

/// Status when the command cannot be run.
const CANNOT_RUN: u8 = 126;

/// Status when there is no such command.
const NOT_FOUND: u8 = 127;

/// Answers the job's status, or ends as the job did by its signal.
pub fn as_it_did(ended: Ended, arena: Option<Arena>) -> u8 {
    match ended {
        Ended::Exited(status) => status,
        Ended::Killed(signal) => {
            if let Some(arena) = arena {
                arena.leave();
            }
            signals::die_by(signal)
        }
    }
}

/// Says something on stderr, as JSON if that is wanted.
pub fn say(json: bool, text: &str) {
    if json {
        tell(json!({ "error": text, "status": null }));
    } else {
        tell(format_args!("chappe: {text}"));
    }
}

/// The label of chappe in listings: the command.
pub fn label(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    words.join(" ")
}

/// Why a command was not started, with the status that says so.
pub fn not_started(command: &OsString, e: &io::Error) -> Failure {
    let status = match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => NOT_FOUND,
        // The fork failed.
        (_, Some(libc::EAGAIN | libc::ENOMEM)) => FAILED,
        _ => CANNOT_RUN,
    };
    let text = e.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default();
    Failure { status, why: anyhow!("cannot run `{}`: {reason}", command.to_string_lossy()) }
}
