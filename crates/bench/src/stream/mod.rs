//! Streams beside what people have today: `chappe pipe` beside the plain shell; and graphs beside calls by hand, beside equal turns, beside `cat`, and at a JACK server.

pub mod cat;
#[cfg(feature = "stream")]
pub mod cook;
#[cfg(feature = "stream")]
pub mod device;
#[cfg(feature = "stream")]
pub mod file;
#[cfg(feature = "stream")]
pub mod notes;
pub mod part;
pub mod pipe;
#[cfg(feature = "stream")]
pub mod shown;
#[cfg(feature = "stream")]
pub mod stages;
#[cfg(feature = "stream")]
pub mod turns;

use crate::table::Aim;
use std::path::Path;

/// What can be measured alone.
pub const PARTS: [&str; 9] = ["stages", "turns", "notes", "cook", "shown", "file", "jack", "source", "pipe"];

/// Measures and prints: one part, or all. `seconds` is how long each row of the JACK server goes on.
///
/// # Errors
/// What is missing.
pub fn measure(chappe: &Path, runs: usize, only: Option<&str>, seconds: u64) -> Result<Vec<Aim>, String> {
    if !chappe.exists() {
        return Err(format!("there is no {}", chappe.display()));
    }
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let mut aims = Vec::new();
    #[cfg(feature = "stream")]
    {
        if wanted("stages") {
            aims.extend(stages::measure(runs));
        }
        if wanted("turns") {
            aims.extend(turns::measure(runs));
        }
        if wanted("notes") {
            aims.extend(notes::measure(runs));
        }
        if wanted("cook") {
            cook::measure(runs as u32)?;
        }
        if wanted("shown") {
            shown::measure(chappe, runs as u32)?;
        }
        if wanted("file") {
            aims.extend(file::measure(chappe, runs)?);
        }
        if wanted("jack") {
            aims.extend(device::measure(chappe, runs, seconds)?);
        }
    }
    #[cfg(not(feature = "stream"))]
    let _ = seconds;
    if wanted("source") {
        aims.extend(pipe::measure_source(chappe, runs)?);
    }
    if wanted("pipe") {
        aims.extend(pipe::measure(chappe, runs)?);
    }
    Ok(aims)
}
