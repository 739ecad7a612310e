//! `chappe tube`: making, sealing and removing tubes.

use crate::args::{Ends, TubeCommand};
use anyhow::Result;
use chappe::tube::named::{Kind, Tube, TubeError, TubeOptions};
use serde_json::{Value, json};

/// Runs the command.
///
/// # Errors
/// The tube's.
pub fn run(command: &TubeCommand) -> Result<Value> {
    match command {
        TubeCommand::Create { name, size, slots, kind, drops } => create(name, *size, *slots, *kind, *drops),
        TubeCommand::Seal { name } => {
            Tube::<[u8]>::open(name)?.seal()?;
            Ok(json!({ "sealed": name }))
        }
        TubeCommand::Rm { name, force } => {
            Tube::<[u8]>::remove(name, *force)?;
            Ok(json!({ "removed": name }))
        }
    }
}

fn create(name: &str, size: u64, slots: u64, ends: Ends, drops: bool) -> Result<Value> {
    let fits = |what, count: u64| {
        u32::try_from(count).map_err(|_| TubeError::Capacity { what, count, most: u64::from(u32::MAX) })
    };
    let kind = match ends {
        Ends::Spsc => Kind::Spsc,
        Ends::Mpsc => Kind::Mpsc,
        Ends::Spmc => Kind::Spmc,
        Ends::Mpmc => Kind::Mpmc,
    };
    let (size, slots) = (fits("bytes a record", size)?, fits("slots", slots)?);
    let tube = Tube::<[u8]>::create(name, &TubeOptions { slots, size, kind, drops, ..TubeOptions::default() })?;
    let info = tube.info()?;
    let kind = format!("{kind:?}").to_lowercase();
    Ok(json!({ "name": tube.name(), "slots": slots, "size": size, "kind": kind, "bytes": info.bytes }))
}
