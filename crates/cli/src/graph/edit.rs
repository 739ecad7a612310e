//! `chappe graph edit`: runs a graph, and changes it whenever its file is saved.

use super::file::{after, read, text_of};
use crate::said::{Failure, failed, tell};
use anyhow::anyhow;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What tells one state of a file from the next.
fn state(file: &Path) -> Option<(SystemTime, u64)> {
    let data = std::fs::metadata(file).ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// Runs it to its end.
///
/// # Errors
/// What is wrong with the text that it begins with; the stage that failed. A text that is wrong later is told, and changes nothing.
pub fn edit(file: &Path, json: bool) -> Result<u8, Failure> {
    if file == Path::new("-") {
        return Err(failed(anyhow!(
            "`graph edit` watches a file, and stdin is none: `graph repl` takes commands there"
        )));
    }
    // Before it is read: what is saved in between is seen.
    let mut seen = state(file);
    let running = read(file, false)?.run().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
    tell(format_args!("chappe: {} runs; what is saved there is changed in it", file.display()));
    while !running.is_finished() {
        std::thread::sleep(LOOK);
        let now = state(file);
        // An editor may take the file away for a moment.
        if now == seen || now.is_none() {
            continue;
        }
        seen = now;
        let changed = text_of(file).map_err(|f| f.why.to_string());
        match changed.and_then(|text| running.relink(&text).map_err(|e| format!("{}: {e}", file.display()))) {
            Ok(replaced) => {
                for one in replaced {
                    tell(format_args!("chappe: `{}`: `{}` is now `{}`", one.label, one.old, one.new));
                }
            }
            Err(why) => tell(format_args!("chappe: {why}\nchappe: the graph goes on as it was")),
        }
    }
    let labels: Vec<String> = running.graph().nodes().iter().map(|n| n.label.clone()).collect();
    let report = running.wait().map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
    after(&report, &labels, json, false);
    Ok(0)
}
