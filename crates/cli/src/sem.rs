//! `chappe sem`: semaphores for shell users.

use crate::args::SemCommand;
use crate::ended::TIMED_OUT;
use crate::line::{self, Line};
use crate::look::{ms, say_by_priority};
use crate::said::{Failure, all_done, done, failed, write};
use crate::{names, time};
use anyhow::anyhow;
use chappe::{Discipline, DownError, ObjectError, Priority, Semaphore};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(command: &SemCommand, json: bool) -> Result<u8, Failure> {
    match command {
        SemCommand::Create { names, value, barging, order } => {
            names::refuse_numbers(names, "semaphore", "--value N").map_err(failed)?;
            all_done(names::each(names, |name| create(name, *value, *barging, order.discipline())), json)?;
        }
        SemCommand::Up { name, count } => done(up(name, *count), json)?,
        SemCommand::Down { name, timeout, nonblock, priority } => {
            chappe::set_priority(Priority(*priority));
            let taken = down(name, *timeout, *nonblock, json)?;
            done(Ok(taken), json)?;
        }
        SemCommand::Value { name } => {
            let sem = Semaphore::open(name).map_err(|e| failed(e.into()))?;
            let value = sem.value();
            let text = if json { json!({ "name": sem.name(), "value": value }).to_string() } else { value.to_string() };
            write(format!("{text}\n").as_bytes())?;
        }
        SemCommand::Rm { names, force } => all_done(names::each(names, |name| remove(name, *force)), json)?,
    }
    Ok(0)
}

fn create(name: &str, value: u64, barging: bool, discipline: Discipline) -> anyhow::Result<Value> {
    let value = u32::try_from(value).map_err(|_| ObjectError::Value { value, most: Semaphore::MAX })?;
    let sem =
        if barging { Semaphore::create_barging(name, value)? } else { Semaphore::create_by(name, value, discipline)? };
    let mut made = json!({ "name": sem.name(), "value": value, "barging": barging });
    say_by_priority(&mut made, sem.discipline());
    Ok(made)
}

fn up(name: &str, count: u32) -> anyhow::Result<Value> {
    let sem = Semaphore::open(name)?;
    sem.up_many(count)?;
    Ok(json!({ "name": sem.name(), "added": count, "value": sem.value() }))
}

fn remove(name: &str, force: bool) -> anyhow::Result<Value> {
    Semaphore::remove(name, force)?;
    Ok(json!({ "removed": name }))
}

fn down(name: &str, timeout: Option<Duration>, nonblock: bool, json: bool) -> Result<Value, Failure> {
    chappe::set_label(&format!("chappe sem down {name}"));
    let sem = Semaphore::open(name).map_err(|e| failed(e.into()))?;
    let began = Instant::now();
    let line = || {
        let sem = sem.clone();
        Line::show(json, move || line::for_semaphore(&sem))
    };
    let got = match (sem.try_down(), timeout) {
        (Err(DownError::WouldBlock), None) if !nonblock => {
            let _line = line();
            sem.down()
        }
        (Err(DownError::WouldBlock), Some(patience)) => {
            let _line = line();
            sem.down_timeout(patience)
        }
        (got, _) => got,
    };
    got.map_err(|e| match (e, timeout) {
        (DownError::WouldBlock, _) => {
            let waiting = sem.waiters().len();
            let why =
                anyhow!("semaphore `{name}` has nothing to take: its value is {}, {waiting} waiting", sem.value());
            Failure { status: TIMED_OUT, why }
        }
        (DownError::Timeout, Some(patience)) => {
            let why = anyhow!("timed out after {} waiting for semaphore `{name}`", time::show(patience));
            Failure { status: TIMED_OUT, why }
        }
        (e, _) => failed(e.into()),
    })?;
    Ok(json!({ "name": sem.name(), "value": sem.value(), "waited_ms": ms(began.elapsed()) }))
}
