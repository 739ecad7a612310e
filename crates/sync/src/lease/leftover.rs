//! The files of leases whose arenas are gone.

use super::PREFIX;
use crate::directory::directory;
use crate::registry::Arena;
use chappe_arena::ArenaError;
use chappe_plat::dir::Dir;
use chappe_plat::lease as lock;
use std::path::PathBuf;

/// A file of leases whose arena is gone.
#[derive(Debug)]
#[non_exhaustive]
pub struct LeaseFile {
    /// Its path.
    pub path: PathBuf,
    /// The arena's name.
    pub arena: String,
    /// Whether a job still has it open.
    pub in_use: bool,
    /// Why it could not be removed.
    pub error: Option<std::io::Error>,
}

/// Removes the files of leases whose arenas are gone, unless a job still has them. Returns those that it found.
pub fn leftover_leases() -> Vec<LeaseFile> {
    let Ok(home) = directory() else { return Vec::new() };
    let Ok(dir) = Dir::open(&home) else { return Vec::new() };
    let names = dir.dotted_names().unwrap_or_default();
    names.iter().filter_map(|name| leftover(&dir, name)).collect()
}

/// Whether a job keeps a permit or a lock of an arena of this name, by a file of leases. The arena may be of another version.
pub fn has_leases(arena: &str) -> bool {
    let Some(dir) = directory().ok().and_then(|home| Dir::open(&home).ok()) else { return false };
    let names = dir.dotted_names().unwrap_or_default();
    names.iter().filter(|name| parsed(name).is_some_and(|(of, _)| of == arena)).any(|name| is_in_use(&dir, name))
}

/// The arena and its number, by the name of such a file.
fn parsed(name: &str) -> Option<(&str, u64)> {
    let (arena, id) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    Some((arena, u64::from_str_radix(id, 16).ok()?))
}

fn is_in_use(dir: &Dir, name: &str) -> bool {
    dir.open_file(name).is_ok_and(|file| lock::is_any_locked(&file, 0, 0).unwrap_or(true))
}

fn leftover(dir: &Dir, name: &str) -> Option<LeaseFile> {
    let (arena, id) = parsed(name)?;
    match Arena::open(arena) {
        Err(ArenaError::NotFound { .. }) => {}
        Ok(other) if other.map().id() != id => {}
        // The arena exists, or that cannot be told.
        _ => return None,
    }
    let path = dir.path().join(name);
    let in_use = is_in_use(dir, name);
    let error = if in_use { None } else { dir.unlink(name).err() };
    Some(LeaseFile { path, arena: arena.into(), in_use, error })
}
