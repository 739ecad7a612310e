//! The files that a graph touches: no stage writes a file that another stage reads or writes.
//!
//! A sink empties its file when it begins, so a source of the same file would find nothing, and what was in it would be lost. Two sinks of one
//! file write over each other. The check compares files, not paths: links and other spellings of a path lead to the same device and inode, and a
//! file that is to come is known by its directory and its name. Pipes and terminals are not compared: nothing in them is lost.

use chappe_synth::{Complaint, Span};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A file that a stage names.
#[derive(Clone, Debug)]
pub struct Touched {
    path: String,
    span: Span,
    is: Option<Is>,
}

/// Which file it is: device and inode, and a name in that directory if it is to come.
type Is = (u64, u64, OsString);

impl Touched {
    /// What a path leads to now.
    pub fn new(path: &str, span: Span) -> Touched {
        Touched { path: path.to_owned(), span, is: is(Path::new(path)) }
    }
}

fn is(path: &Path) -> Option<Is> {
    if let Ok(of) = path.metadata() {
        // Several nodes may lead to one device; no file system has the number 0.
        let device = of.file_type().is_block_device().then(|| (0, of.rdev(), OsString::new()));
        return device.or_else(|| of.is_file().then(|| (of.dev(), of.ino(), OsString::new())));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let of = parent.metadata().ok()?;
    Some((of.dev(), of.ino(), path.file_name()?.to_owned()))
}

/// A stage's use of a file.
pub struct Use<'a> {
    pub label: &'a str,
    pub file: &'a Touched,
    pub writes: bool,
}

impl Use<'_> {
    /// Why this may not be, beside what another one does with the same file.
    fn refused(&self, other: &Use<'_>) -> String {
        let (label, path, by) = (self.label, &self.file.path, other.label);
        if other.writes {
            return format!("`{label}` would write over {path}, which `{by}` writes: give each a file of its own");
        }
        format!(
            "`{label}` would write over {path} while `{by}` reads it: write another file, and rename that when the graph has ended"
        )
    }
}

/// Checks that no file is written that another stage reads or writes.
///
/// # Errors
/// One is, at the place of its name.
pub fn check(text: &str, mut uses: Vec<Use<'_>>) -> Result<(), Complaint> {
    // The sources first, wherever they stand.
    uses.sort_by_key(|it| it.writes);
    let mut seen: HashMap<&Is, &Use<'_>> = HashMap::new();
    for it in &uses {
        let Some(is) = &it.file.is else { continue };
        match seen.get(is) {
            Some(other) if it.writes => return Err(Complaint::new(text, it.file.span, it.refused(other))),
            Some(_) => {}
            None => _ = seen.insert(is, it),
        }
    }
    Ok(())
}

/// Why a stage may not write there, beside what the others do.
pub fn beside(others: &[Use<'_>], it: &Use<'_>) -> Option<String> {
    let is_same = |other: &&Use<'_>| it.writes && it.file.is.is_some() && it.file.is == other.file.is;
    others.iter().find(is_same).map(|other| it.refused(other))
}
