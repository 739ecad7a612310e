//! Names on other machines: `@REMOTE/NAME`, and every name under `--on URL`.
//!
//! [`place`] says where a name is and how to reach it, [`acquire`] runs a job under a remote permit, [`hold`] looks after that permit beside the
//! job, [`wait`] waits for it, [`keeper`] starts the process that does so when chappe is gone or stopped, [`stay`] is that
//! process, [`sem`] is `chappe sem`, [`tube`] is tubes, [`top`] is `chappe top`, [`pools`] is everything else.

mod acquire;
mod health;
mod held;
mod hold;
pub mod keeper;
mod line;
mod place;
mod pools;
mod sem;
pub mod stay;
mod top;
mod tube;
mod wait;

use crate::args::{Cli, Command, PoolCommand, SemCommand, TubeCommand};
use crate::eyes::metrics;
use crate::names;
use crate::said::{Failure, all_done, done, failed, print, write};
use anyhow::{Result, anyhow, bail, ensure};
use chappe::remote::etcd::Etcd;
use place::Place;
use serde_json::json;
use std::time::Duration;

/// An engine as a whole.
fn whole(name: Option<&str>, on: Option<&str>) -> Result<Place> {
    match (name, on) {
        (None, Some(url)) => Place::of(&[], Some(url)),
        (Some(name), None) => {
            let own = name.trim_start_matches('@').trim_end_matches('/');
            ensure!(!own.contains('/'), "`{name}` is an object on an engine: `@REMOTE` is all of one");
            Place::named(own)
        }
        _ => bail!("with --on there is no arena or engine to name"),
    }
}

/// Runs a command whose names are on an engine.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(cli: &Cli, file_size: bool) -> Result<u8, Failure> {
    let (on, json) = (cli.on.as_deref(), cli.json);
    let within = |names: &[String], timeout: Option<Duration>| -> Result<(Place, Etcd), Failure> {
        let place = Place::of(names, on).map_err(failed)?;
        let etcd = place.connect_within(timeout).map_err(|e| failed(anyhow!(e)))?;
        Ok((place, etcd))
    };
    let at = |names: &[String]| within(names, None);
    match &cli.command {
        Command::Acquire(a) => return acquire::run(a, on, json, file_size),
        Command::Pool(PoolCommand::Create { names, permits, mutex, .. }) => {
            let (place, etcd) = at(names)?;
            all_done(names::each(&place.names, |pool| pools::create(&place, &etcd, pool, *permits, *mutex)), json)
        }
        Command::Pool(PoolCommand::Resize { name, permits }) => {
            let (place, etcd) = at(std::slice::from_ref(name))?;
            done(pools::resize(&place, &etcd, &place.names[0], *permits), json)
        }
        Command::Pool(PoolCommand::Rm { names, force })
        | Command::Sem(SemCommand::Rm { names, force })
        | Command::Tube(TubeCommand::Rm { names, force })
        | Command::Rm { names, force } => {
            let (place, etcd) = at(names)?;
            let of: Option<&[&str]> = match &cli.command {
                Command::Pool(_) => Some(&["pool", "mutex"]),
                Command::Sem(_) => Some(&["semaphore"]),
                Command::Tube(_) => Some(&["tube"]),
                _ => None,
            };
            all_done(names::each(&place.names, |name| pools::remove(&place, &etcd, name, of, *force)), json)
        }
        Command::Sem(SemCommand::Create { names, value, .. }) => {
            names::refuse_numbers(names, "semaphore", "--value N").map_err(failed)?;
            let (place, etcd) = at(names)?;
            all_done(names::each(&place.names, |name| sem::create(&place, &etcd, name, *value)), json)
        }
        Command::Sem(SemCommand::Up { name, count }) => {
            let (place, etcd) = at(std::slice::from_ref(name))?;
            done(sem::up(&place, &etcd, &place.names[0], *count), json)
        }
        Command::Sem(SemCommand::Down { name, timeout, nonblock, .. }) => {
            let (place, etcd) = within(std::slice::from_ref(name), *timeout)?;
            done(Ok(sem::down(&place, &etcd, &place.names[0], *timeout, *nonblock, json)?), json)
        }
        Command::Sem(SemCommand::Value { name }) => {
            let (place, etcd) = at(std::slice::from_ref(name))?;
            let value = sem::value(&place, &etcd, &place.names[0]).map_err(failed)?;
            let named = json!({ "name": place.name(&place.names[0]), "value": value });
            write(format!("{}\n", if json { named.to_string() } else { value.to_string() }).as_bytes())
        }
        Command::Release { name, index, force } => {
            let (place, etcd) = at(std::slice::from_ref(name))?;
            done(pools::release(&place, &etcd, &place.names[0], *index, *force), json)
        }
        Command::Show { name, .. } => {
            let (place, etcd) = at(std::slice::from_ref(name))?;
            pools::show(&place, &etcd, &place.names[0], json).map_err(failed).and_then(|text| write(text.as_bytes()))
        }
        Command::Ls { arena } => {
            let place = whole(arena.as_deref(), on).map_err(failed)?;
            let etcd = place.connect().map_err(|e| failed(anyhow!(e)))?;
            pools::list(&place, &etcd, json).map_err(failed).and_then(|text| write(text.as_bytes()))
        }
        Command::Doctor { engine } => {
            let place = whole(engine.as_deref(), on).map_err(failed)?;
            return print(health::doctor(&place, json));
        }
        Command::Metrics(a) => {
            let place = whole(a.arena.as_deref(), on).map_err(failed)?;
            return metrics::run(a, || pools::exposition(&place));
        }
        Command::Top(a) => {
            let place = whole(a.arena.as_deref(), on).map_err(failed)?;
            return top::run(a, &place, json);
        }
        Command::Tube(command @ TubeCommand::Create { names, .. }) => {
            names::refuse_numbers(names, "tube", "--slots N").map_err(failed)?;
            let (place, etcd) = at(names)?;
            all_done(names::each(&place.names, |name| tube::create(&place, &etcd, name, command)), json)
        }
        Command::Tube(TubeCommand::Seal { name }) => {
            let (place, etcd) = at(std::slice::from_ref(name))?;
            done(tube::seal(&place, &etcd, &place.names[0]), json)
        }
        Command::Send(a) => {
            let (place, etcd) = within(std::slice::from_ref(&a.name), a.timeout)?;
            tube::send(&place, &etcd, a, json)
        }
        Command::Recv(a) => {
            let (place, etcd) = within(&a.names, a.timeout)?;
            return tube::recv(&place, &etcd, a, json);
        }
        _ => Err(failed(anyhow!("that cannot be on an engine"))),
    }?;
    Ok(0)
}
