//! `chappe term`: programs in terminals that outlive them.
//!
//! [`run`] makes a terminal; its [`keeper`] starts the program and [`holder`]s; [`show`], [`wait`], [`typing`] and [`attach`] are what others do with it.
//! `chappe::term` has the memory that all of them share.

mod attach;
mod cut;
mod found;
mod holder;
mod keeper;
mod keyboard;
mod log;
pub mod overview;
mod png;
mod pty;
mod run;
mod scope;
mod show;
mod submit;
mod typing;
mod wait;
mod wanted;

use crate::args::term::TermCommand;
use crate::ended::label;
use crate::said::{Failure, all_done, done, print};
use anyhow::{Result, anyhow};
use chappe::ObjectError;
use chappe::term::place::{self, TermError};
use found::{directory, find};
pub use found::{names, started};
use serde_json::{Value, json};
pub use submit::submit;

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(command: &TermCommand, json: bool, file_size: bool) -> Result<u8, Failure> {
    match command {
        TermCommand::Run { name, size, history, private, log, attach, command } => {
            let wanted = wanted::Wanted {
                name,
                size: *size,
                history: *history,
                command,
                label: label(command),
                within: None,
                note: &[],
                private: *private,
                file_size,
            };
            run::run(&wanted, log.as_deref(), *attach, json)
        }
        TermCommand::Show { name, png: Some(to), .. } => {
            done(show::picture(name, to), json)?;
            Ok(0)
        }
        TermCommand::Log { name, limit } => log::log(name, *limit),
        TermCommand::Show { name, history, ansi, png: None } => {
            print(show::show(name, *history, *ansi, json).map(|text| (text, 0)))
        }
        TermCommand::Send { name, text, enter, key, paste, timeout } => {
            let what = typing::What { text, enter: *enter, keys: key, paste: *paste };
            typing::send(name, &what, *timeout, json)
        }
        TermCommand::Wait { name, regex, after, exit: _, timeout } => match regex {
            Some(regex) => wait::text(name, regex, *after, *timeout, json),
            None => wait::exit(name, *timeout, json),
        },
        TermCommand::Attach { name } => attach::attach(name),
        TermCommand::Ls => print(show::list(json).map(|text| (text, 0))),
        TermCommand::Rm { names } => {
            all_done(crate::names::each(names, remove), json)?;
            Ok(0)
        }
        TermCommand::Kill { name, signal } => {
            done(kill(name, *signal), json)?;
            Ok(0)
        }
        TermCommand::Resize { name, size } => {
            done(typing::resize(name, *size), json)?;
            Ok(0)
        }
    }
}

/// What was asked of an object, or of the terminal of its name where there is no object.
///
/// # Errors
/// Those of either.
pub fn or_else<T>(asked: Result<T>, name: &str, of_terminal: impl FnOnce() -> Result<T>) -> Result<T> {
    match asked {
        Err(e) if matches!(e.downcast_ref(), Some(ObjectError::Unknown { .. })) && overview::is_there(name) => {
            of_terminal()
        }
        asked => asked,
    }
}

/// `chappe term rm`.
///
/// # Errors
/// It is not there, or in use.
pub fn remove(name: &str) -> Result<Value> {
    let place = find(name, true)?;
    place.await_last_words()?;
    let dir = directory(false)?;
    place::remove(&dir, &place).map_err(|e| match e {
        // It is not: the directory is what refuses.
        TermError::NotYours(..) if place.is_own() => {
            let path = dir.path().display();
            anyhow!(
                "cannot remove terminal `{name}` without the right to write in {path}; `ls -ld {path}` says who has it"
            )
        }
        e => e.into(),
    })?;
    Ok(json!({ "removed": name, "kind": "terminal" }))
}

fn kill(name: &str, signal: i32) -> Result<Value> {
    let count = find(name, true)?.kill(signal)?;
    Ok(json!({ "name": name, "signal": signal, "processes": count }))
}
