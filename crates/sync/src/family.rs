//! The arena that a process has in common with all that it forks: for objects whose users share memory and no name.
//!
//! An ordinary named arena, whose name is nobody's choice: so it is listed, looked after and refused like all others, and who has
//! an object's [`Spot`](crate::Spot), and did not come by fork, attaches it by that. What is special is its end: it has a user as
//! long as somebody has it mapped, and nobody says when that is over. So whoever makes one removes those that nobody has mapped any more,
//! which the kernel can tell (`File::while_alone`); a forked child's mapping counts from the fork on, and nothing is to be said,
//! and so nothing forgotten, at a fork, an exec or a death.
//!
//! A sweeper that is killed has removed some of them. One that nobody makes a successor for stays until then: 6 MB.

use crate::fork;
use crate::home::{Arena, ArenaOptions, directory, open_directory};
use chappe_arena::{ArenaError, Map, Standing};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{clock, process};
use std::sync::{Mutex, PoisonError};

/// What the names begin with.
const PREFIX: &str = "family-";

pub(crate) static FAMILY: Mutex<Option<&'static Map>> = Mutex::new(None);

/// 1: it is to be there before the next fork.
static WANTED: AtomicU32 = AtomicU32::new(0);

impl Arena {
    /// The arena that this process has in common with those that it forks from now on, and with the process that forked it, if that
    /// had one by then; it is made if there is none. Its name is `family-` and a number. Room for 512 members, 8,192 objects, 4 MiB of data.
    ///
    /// It is removed, when another one is made, as soon as no process has it mapped any more.
    ///
    /// # Errors
    /// As [`Arena::create`].
    pub fn family() -> Result<Arena, ArenaError> {
        fork::prepare();
        let mut family = FAMILY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = *family
            && map.mark() != Standing::Removed
            && map.directory() == Some(&directory()?)
            && !map.is_unlinked()
        {
            return Ok(Arena::of(map));
        }
        let data = Some(4 << 20);
        let options = ArenaOptions { members: Some(512), objects: Some(8192), cells: Some(1024), data };
        let arena = loop {
            let number = clock::now().rotate_left(24) ^ u64::from(process::pid());
            match Arena::create(&format!("{PREFIX}{number:x}"), &options) {
                Err(ArenaError::Exists { .. }) => {}
                made => break made?,
            }
        };
        sweep(&arena.name());
        *family = Some(arena.map());
        Ok(arena)
    }

    /// Has [`Arena::family`] made before this process forks, if it is not there by then: so that what children make there is in one
    /// arena.
    pub fn family_at_fork() {
        fork::prepare();
        // Relaxed: nothing comes with it.
        WANTED.store(1, Ordering::Relaxed);
    }
}

/// The process is about to fork, and holds no lock of ours.
pub(crate) fn before_fork() {
    // Relaxed: as above.
    if WANTED.load(Ordering::Relaxed) != 0 {
        // If there is no room, the child asks again, and is told.
        let _ = Arena::family();
    }
}

/// Removes those that nobody has mapped any more. What cannot be removed stays: it may be another's.
fn sweep(but: &str) {
    let Ok(dir) = open_directory(false) else { return };
    let names = dir.names().unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with(PREFIX) && *name != but) {
        let _ = Map::remove_unmapped(&dir, name);
    }
}
