//! `chappe schema`: what records are, by names.

use crate::args::SchemaCommand;
use crate::look;
use crate::names;
use crate::said::{Failure, all_done, failed, write};
use anyhow::{Context, Result};
use chappe::schemas;
use chappe::synth::Schema;
use serde_json::{Value, json};

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(command: &SchemaCommand, json: bool) -> Result<u8, Failure> {
    match command {
        SchemaCommand::Create { name, fields } => {
            let made = create(name, fields).map_err(failed)?;
            all_done((vec![made], Vec::new()), json)?;
        }
        SchemaCommand::Show { name } => {
            let found = schemas::find(name).and_then(|f| f.ok_or_else(|| schemas::SchemaError::Unknown(name.clone())));
            let text = found.map_err(|e| failed(e.into()))?;
            line(&if json { one(name, &text).to_string() } else { look::plain(&text) })?;
        }
        SchemaCommand::Ls { arena } => {
            for arena in
                arena.clone().map_or_else(chappe::Arena::list, |one| Ok(vec![one])).map_err(|e| failed(e.into()))?
            {
                for (own, text) in schemas::all(&arena).map_err(|e| failed(e.into()))? {
                    let name = called(&arena, &own);
                    let plain = || format!("{:<16} {}", look::plain(&name), look::plain(&text));
                    line(&if json { one(&name, &text).to_string() } else { plain() })?;
                }
            }
        }
        SchemaCommand::Rm { names } => {
            let remove = |name: &str| {
                schemas::remove(name)?;
                Ok(json!({ "removed": name }))
            };
            all_done(names::each(names, remove), json)?;
        }
    }
    Ok(0)
}

fn create(name: &str, fields: &str) -> Result<Value> {
    names::refuse_numbers(&[name.to_owned()], "schema", "'N: i64'")?;
    Schema::parse_text(fields).context("the schema makes no sense")?;
    schemas::keep(name, fields)?;
    Ok(one(name, fields))
}

fn one(name: &str, text: &str) -> Value {
    json!({ "name": name, "schema": text })
}

fn called(arena: &str, own: &str) -> String {
    if arena == "default" { own.to_owned() } else { format!("{arena}/{own}") }
}

/// The names of an arena's schemas.
pub fn names(arena: &str) -> Vec<String> {
    let all = schemas::all(arena).unwrap_or_default();
    all.into_iter().map(|(own, _)| called(arena, &own)).collect()
}

fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}
