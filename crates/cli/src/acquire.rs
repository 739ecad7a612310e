//! `chappe acquire`: a permit of whichever pool has one first, and a job under it.
//!
//! The permit belongs to chappe and is leased before the job starts, so that it is free only when chappe has given it
//! back or died *and* the job, with what it left running, has ended. In this order at the end: the terminal goes back,
//! those who lost the lease are looked after, our copy of the lease is closed, the permit is given back, and chappe ends
//! as its job did.

use crate::Failure;
use crate::args::Acquire;
use crate::change::permits;
use crate::job::{Start, wants_own_group};
use crate::line::{Line, held_by, named};
use crate::look::{Name, arena_of};
use crate::supervise::{Ended, Watch};
use crate::terminal::Terminal;
use crate::{keep, signals, tell, time};
use anyhow::{Result, anyhow};
use chappe::{AcquireError, LEASE_VARIABLE, Permit, Pool, PoolError};
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

/// Status when the time was up.
const TIMED_OUT: u8 = 124;
/// Status when chappe itself failed.
const FAILED: u8 = 125;
/// Status when the command cannot be run.
const CANNOT_RUN: u8 = 126;
/// Status when there is no such command.
const NOT_FOUND: u8 = 127;

/// Runs the command. `file_size`: SIGXFSZ had its default action when we started.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Acquire, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    chappe::set_label(&label(&a.command));
    let pools = a.pools.iter().map(|name| open(name, a.create)).collect::<Result<Vec<_>>>().map_err(failed)?;
    let began = Instant::now();
    let (index, mut permit) = wait(a, &pools)?;
    let waited = began.elapsed();

    let pool = &pools[index];
    let name = Name::of(pool).permit(permit.index());
    let lease = permit.lease().map_err(|e| failed(e.into()))?;
    if json {
        let event = json!({
            "event": "acquired", "permit": name, "pool": pool.name(), "index": index, "permit_index": permit.index(),
            "waited_ms": ms(waited),
        });
        tell(event);
    }

    let command = filled_in(&a.command, &name, index);
    let environment = [
        ("CHAPPE_PERMIT", name.clone()),
        ("CHAPPE_INDEX", index.to_string()),
        ("CHAPPE_PERMIT_INDEX", permit.index().to_string()),
        (LEASE_VARIABLE, lease.cookie().to_owned()),
    ];
    let terminal = Terminal::find();
    let own_group = wants_own_group(&terminal);
    let watch = Watch::begin(own_group);
    let start = Start {
        command: &command,
        environment: &environment,
        lease: lease.as_fd(),
        mask: watch.before,
        file_size,
        own_group,
    };
    let job = start.start(&terminal).map_err(|e| not_started(&command[0], &e))?;
    let held_from = Instant::now();
    let ended = watch.stay(&job, &terminal, a.grace.0);

    let survivors = keep::survivors();
    if let Err(e) = keep::look_after(&survivors, &lease, watch.before) {
        say(json, &e.to_string());
    }
    drop(lease);
    let taken_away = !permit.is_valid();
    drop(permit);
    if json {
        let (status, signal) = match ended {
            Ended::Exited(status) => (Some(status), None),
            Ended::Killed(signal) => (None, Some(signal)),
        };
        let event = json!({
            "event": "ended", "permit": name, "status": status, "signal": signal,
            "held_ms": ms(held_from.elapsed()), "left_running": survivors.len(), "taken_away": taken_away,
        });
        tell(event);
    } else if taken_away {
        say(false, &format!("permit {name} was taken away while the command ran"));
    }
    match ended {
        Ended::Exited(status) => Ok(status),
        Ended::Killed(signal) => {
            if let Some(arena) = arena_of(pool) {
                arena.leave();
            }
            signals::die_by(signal)
        }
    }
}

fn say(json: bool, text: &str) {
    if json {
        tell(json!({ "error": text, "status": null }));
    } else {
        tell(format_args!("chappe: {text}"));
    }
}

fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// What listings call us: the command.
fn label(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    words.join(" ")
}

fn open(name: &str, create: Option<Option<u64>>) -> Result<Pool> {
    match create {
        None => Ok(Pool::open(name)?),
        Some(Some(n)) => Ok(Pool::open_or_create(name, permits(n)?)?),
        Some(None) => loop {
            match Pool::open(name) {
                Err(PoolError::Unknown { .. }) => {}
                other => return Ok(other?),
            }
            match Pool::create(name, 1) {
                // Somebody was faster.
                Err(PoolError::Exists { .. }) => {}
                other => return Ok(other?),
            }
        },
    }
}

fn wait<'a>(a: &Acquire, pools: &'a [Pool]) -> Result<(usize, Permit<'a>), Failure> {
    let arms: Vec<&Pool> = pools.iter().collect();
    let got = match (chappe::try_acquire_any(&arms), a.timeout) {
        (Err(AcquireError::WouldBlock), None) if !a.nonblock => {
            let _line = Line::show(pools);
            chappe::acquire_any(&arms)
        }
        (Err(AcquireError::WouldBlock), Some(patience)) => {
            let _line = Line::show(pools);
            chappe::acquire_any_timeout(&arms, patience)
        }
        (got, _) => got,
    };
    got.map_err(|e| match (e, a.timeout) {
        (AcquireError::WouldBlock, _) => {
            Failure { status: TIMED_OUT, why: anyhow!("no permit of {} is free; {}", named(pools), held_by(pools)) }
        }
        (AcquireError::Timeout, Some(patience)) => Failure {
            status: TIMED_OUT,
            why: anyhow!("timed out after {} waiting for {}; {}", time::show(patience), named(pools), held_by(pools)),
        },
        (e, _) => Failure { status: FAILED, why: e.into() },
    })
}

/// `{}` becomes the permit's name and `{#}` the pool's position, anywhere in any word.
fn filled_in(command: &[OsString], permit: &str, index: usize) -> Vec<OsString> {
    let index = index.to_string();
    let fill = |word: &OsString| {
        let mut rest = word.as_bytes();
        let mut out = Vec::with_capacity(rest.len());
        while let Some(at) = rest.iter().position(|b| *b == b'{') {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let (new, len) = if rest.starts_with(b"{}") {
                (permit.as_bytes(), 2)
            } else if rest.starts_with(b"{#}") {
                (index.as_bytes(), 3)
            } else {
                (b"{".as_slice(), 1)
            };
            out.extend_from_slice(new);
            rest = &rest[len..];
        }
        out.extend_from_slice(rest);
        OsString::from_vec(out)
    };
    command.iter().map(fill).collect()
}

fn not_started(command: &OsString, e: &io::Error) -> Failure {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_filled_in_wherever_they_stand() {
        let words = ["{}", "a{}b{#}c", "{", "{x}", "{{}}", "{#", "plain"].map(OsString::from);
        let filled = filled_in(&words, "gpu:1", 2);
        assert_eq!(filled, ["gpu:1", "agpu:1b2c", "{", "{x}", "{gpu:1}", "{#", "plain"]);
    }

    #[test]
    fn what_is_not_text_stays_as_it_is() {
        let word = OsString::from_vec(vec![0xff, b'{', b'}', 0xfe]);
        assert_eq!(filled_in(&[word], "p", 0)[0].as_bytes(), b"\xffp\xfe");
    }
}
