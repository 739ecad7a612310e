//! `chappe lock`: a job under a readers-writer lock, alone or beside others that share it.
//!
//! The lock belongs to chappe, and the job to the lock's lease: when chappe is killed the next in line is let into the lock, and waits for the job there. It
//! is shown as the first waiter, and the job as what keeps the lock.

use crate::args::Lock;
use crate::ended::{FAILED, TIMED_OUT, as_it_did, label, say};
use crate::line::{self, Line};
use crate::look::{self, split};
use crate::said::{Failure, tell};
use crate::take::Until;
use crate::under::Under;
use crate::{names, time};
use anyhow::{Result, anyhow, bail};
use chappe::{Arena, LockLease, ObjectError, ReadGuard, RwLock, RwLockError, WriteGuard};
use serde_json::json;
use std::time::Instant;

/// The lock, for as long as this lives.
enum Held<'a> {
    Reads(#[expect(dead_code, reason = "held")] ReadGuard<'a, ()>),
    Writes(#[expect(dead_code, reason = "held")] WriteGuard<'a, ()>),
}

/// Why it was not locked.
enum Not {
    /// It is taken, or the time was up.
    Taken,
    Failed(anyhow::Error),
}

/// Runs the command. `file_size`: SIGXFSZ had its default action when chappe started.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Lock, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    chappe::set_label(&label(&a.command));
    let lock = open(&a.name).map_err(failed)?;
    if !a.nested && lock.is_leased_around() {
        let why = anyhow!(
            "this command runs under lock `{}` already, which comes back only when it has ended. One is enough for both; with --nested chappe \
             waits for it all the same, perhaps for ever",
            a.name
        );
        return Err(failed(why));
    }
    let began = Instant::now();
    let until = Until::of(a.timeout, a.nonblock);
    let (held, lease) = take(&lock, a, until, json)?;
    let waited = began.elapsed();
    if json {
        tell(json!({ "event": "acquired", "lock": a.name, "shared": a.shared, "waited_ms": look::ms(waited) }));
    }
    let under = Under {
        command: &a.command,
        environment: vec![("CHAPPE_LOCK", a.name.clone().into())],
        lease: lease.as_ref().map(LockLease::lease),
        object: &a.name,
        line: None,
        beside: None,
        how: &a.job,
        json,
        file_size,
    };
    let ran = under.run()?;
    drop(lease);
    let removed = lock.is_removed();
    drop(held);
    if json {
        let (status, signal) = ran.ended.parts();
        tell(json!({
            "event": "ended", "lock": a.name, "shared": a.shared, "status": status, "signal": signal,
            "held_ms": look::ms(ran.after), "left_running": ran.left.len(), "removed": removed,
        }));
    } else if removed {
        say(false, &format!("lock {} was removed while the command ran", a.name));
    }
    Ok(as_it_did(ran.ended, Arena::open(split(&a.name).0).ok()))
}

/// Attaches the lock, or makes it.
fn open(name: &str) -> Result<RwLock<()>> {
    names::refuse_numbers(&[name.to_owned()], "lock", "--timeout N")?;
    match RwLock::<()>::open_or_create(name, ()) {
        Err(ObjectError::OtherType { kind, name, bytes, .. }) => {
            bail!(
                "{kind} `{name}` guards {bytes} bytes of a program's data; `chappe lock` is for locks without: take another name"
            )
        }
        other => Ok(other?),
    }
}

/// Locks it, waits for the jobs of earlier holders that still run, and takes a lease for the one that is to come.
fn take<'a>(
    lock: &'a RwLock<()>,
    a: &Lock,
    until: Until,
    json: bool,
) -> Result<(Held<'a>, Option<LockLease>), Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let deadline = if let Until::Over(patience) = until { Instant::now().checked_add(patience) } else { None };
    let mut shown = None;
    let mut show = || {
        let name = a.name.clone();
        shown = shown.take().or_else(|| Line::show(json, move || line::for_lock(&name)));
    };
    let not = |not| match not {
        Not::Failed(why) => failed(why),
        Not::Taken => {
            let state = line::lock_text(&a.name);
            let why = match until {
                Until::Over(patience) => {
                    anyhow!("timed out after {} waiting for lock {}; {state}", time::show(patience), a.name)
                }
                _ => anyhow!("lock {} is not free; {state}", a.name),
            };
            Failure { status: TIMED_OUT, why }
        }
    };
    let held = match enter(lock, a.shared, Until::Now, deadline) {
        Err(Not::Taken) if !matches!(until, Until::Now) => {
            show();
            enter(lock, a.shared, until, deadline)
        }
        other => other,
    };
    let held = held.map_err(not)?;
    let writes = !a.shared;
    loop {
        if !lock.jobs_in_the_way(writes).map_err(|e| failed(e.into()))?.is_empty() {
            let waits = !matches!(until, Until::Now);
            if waits {
                show();
            }
            if !waits || !lock.outlive_jobs(writes, deadline).map_err(|e| failed(e.into()))? {
                // What is said of the lock is said without this one inside.
                drop(held);
                return Err(not(Not::Taken));
            }
        }
        if a.job.close {
            return Ok((held, None));
        }
        if let Some(lease) = lock.lease(writes).map_err(|e| failed(e.into()))? {
            return Ok((held, Some(lease)));
        }
    }
}

fn enter(lock: &RwLock<()>, shared: bool, until: Until, deadline: Option<Instant>) -> Result<Held<'_>, Not> {
    // A holder that died has left nothing torn: there is no data. Its job is waited for.
    if shared {
        let got = match (until, deadline) {
            (Until::Now, _) => lock.try_read(),
            (_, Some(deadline)) => lock.read_deadline(deadline),
            _ => lock.read(),
        };
        return match got {
            Ok(guard) | Err(RwLockError::OwnerDied(guard)) => Ok(Held::Reads(guard)),
            Err(e) => Err(refused(e)),
        };
    }
    let got = match (until, deadline) {
        (Until::Now, _) => lock.try_write(),
        (_, Some(deadline)) => lock.write_deadline(deadline),
        _ => lock.write(),
    };
    match got {
        Ok(guard) => Ok(Held::Writes(guard)),
        Err(RwLockError::OwnerDied(mut guard)) => {
            WriteGuard::make_consistent(&mut guard);
            Ok(Held::Writes(guard))
        }
        Err(e) => Err(refused(e)),
    }
}

fn refused<G>(e: RwLockError<G>) -> Not {
    match e {
        RwLockError::WouldBlock | RwLockError::Timeout => Not::Taken,
        e => Not::Failed(anyhow!("{e}")),
    }
}
