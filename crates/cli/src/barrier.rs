//! `chappe barrier`: steps of several scripts that wait for each other.

use crate::args::BarrierCommand;
use crate::ended::TIMED_OUT;
use crate::look::ms;
use crate::said::{Failure, all_done, done, failed};
use crate::{names, time};
use anyhow::anyhow;
use chappe::{Barrier, BarrierError};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The round has turned, and a party died in it.
const PARTY_DIED: u8 = 3;

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(command: &BarrierCommand, json: bool) -> Result<u8, Failure> {
    match command {
        BarrierCommand::Create { names, parties, break_on_death } => {
            names::refuse_numbers(names, "barrier", "--parties N").map_err(failed)?;
            all_done(names::each(names, |name| create(name, *parties, *break_on_death)), json)?;
        }
        BarrierCommand::Wait { name, parties, timeout, or_break } => {
            return wait(name, *parties, *timeout, *or_break, json);
        }
        BarrierCommand::Abort { names } => {
            all_done(names::each(names, |name| broken(name, Barrier::abort, true)), json)?
        }
        BarrierCommand::Reset { names } => {
            all_done(names::each(names, |name| broken(name, Barrier::reset, false)), json)?
        }
        BarrierCommand::Rm { names, force } => all_done(names::each(names, |name| remove(name, *force)), json)?,
    }
    Ok(0)
}

/// So many, if a barrier can have them.
fn fitting(parties: u64) -> Result<u32, BarrierError> {
    u32::try_from(parties).map_err(|_| BarrierError::Parties { parties, most: Barrier::MOST_PARTIES })
}

fn create(name: &str, parties: u64, breaks: bool) -> anyhow::Result<Value> {
    let parties = fitting(parties)?;
    let barrier = if breaks { Barrier::create_breaking(name, parties)? } else { Barrier::create(name, parties)? };
    Ok(json!({ "name": barrier.name(), "parties": parties, "breaks_on_death": breaks }))
}

fn broken(name: &str, does: fn(&Barrier) -> Result<(), BarrierError>, is: bool) -> anyhow::Result<Value> {
    let barrier = Barrier::open(name)?;
    does(&barrier)?;
    Ok(json!({ "name": barrier.name(), "broken": is }))
}

fn remove(name: &str, force: bool) -> anyhow::Result<Value> {
    Barrier::remove(name, force)?;
    Ok(json!({ "removed": name }))
}

fn opened(name: &str, parties: Option<u64>) -> anyhow::Result<Barrier> {
    let Some(parties) = parties else { return Ok(Barrier::open(name)?) };
    names::refuse_numbers(&[name.to_owned()], "barrier", "--parties N")?;
    Ok(Barrier::open_or_create(name, fitting(parties)?)?)
}

fn wait(
    name: &str,
    parties: Option<u64>,
    timeout: Option<Duration>,
    or_break: bool,
    json: bool,
) -> Result<u8, Failure> {
    chappe::set_label(&format!("chappe barrier wait {name}"));
    let barrier = opened(name, parties).map_err(failed)?;
    let began = Instant::now();
    let waited = barrier.arrive_once().and_then(|arrival| match timeout {
        Some(patience) if or_break => arrival.wait_timeout_or_break(patience),
        Some(patience) => arrival.wait_timeout(patience),
        None => arrival.wait(),
    });
    let (turn, died, pid) = match waited {
        Ok(turn) => (turn, 0, None),
        Err(e @ BarrierError::PartyDied { turn, died, pid, .. }) => {
            crate::ended::say(json, &e.to_string());
            (turn, died, Some(pid))
        }
        Err(BarrierError::Timeout) => {
            let patience = time::show(timeout.unwrap_or_default());
            // It has left, or is none of them any more.
            let there = barrier.info().map_or(0, |info| info.arrived);
            let others = format!("besides this process {there} of {} are there", barrier.parties() - 1);
            let why = anyhow!("timed out after {patience} waiting at barrier `{name}`; {others}");
            return Err(Failure { status: TIMED_OUT, why });
        }
        Err(e) => return Err(failed(e.into())),
    };
    let passed = json!({
        "name": barrier.name(), "index": turn.index, "round": turn.round, "died": died, "pid": pid,
        "waited_ms": ms(began.elapsed()),
    });
    done(Ok(passed), json)?;
    Ok(if died > 0 { PARTY_DIED } else { 0 })
}
