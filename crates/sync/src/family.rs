//! The family's arena, which a process has in common with all that it forks: for objects whose users share memory and no name.
//!
//! It is an ordinary named arena, whose name nobody has chosen: so it is listed, maintained and refused like all others. A process that
//! has an object's [`ObjectId`](crate::ObjectId), and did not come by fork, attaches the arena by that name. Only its end is special: it has a user
//! as long as a process has it mapped, and no process announces when that is over. So a process that makes such an arena removes those
//! that no process has mapped any more, which the kernel can tell (`File::while_alone`). A forked child's mapping counts from the fork on.
//! Nothing has to be announced at a fork, an exec or a death, so nothing can be forgotten.
//!
//! If another process removes its file, its users go on: its name is no choice, so no second arena can come under it. What is made
//! from then on is made in another arena.
//!
//! So the last one, some 2 MB, stays until another is made, or until a command of `chappe` looks (`run`, `ls`, `doctor`, `top`), which sweeps too. A
//! process that ends cannot remove it: as long as it runs, it has the arena mapped itself. A sweeper that is killed
//! has removed some of them. Only a file that has exactly such a name, which no arena can be given, and begins as an arena does, is removed.

use crate::directory::open_directory;
use crate::fork;
use crate::registry::{Arena, ArenaOptions, PREFIX, is_familys};
use chappe_arena::{ArenaError, Map, Standing};
use chappe_plat::dir::Dir;
use chappe_plat::{clock, light, process};
use chappe_wait::known::FAMILY;
use std::io;
use std::path::Path;

impl Arena {
    /// The arena that this process has in common with those that it forks from now on, and with the process that forked it, if that
    /// one had it by then; it is made if there is none. Its name is `family-` and a number of 16 digits. Room for 2,048 members, 16,384
    /// objects, 4 MiB of data. [`Arena::family_but`] gives another one when it is full.
    ///
    /// It is removed when no process has it mapped any more and another one is made, or a command of `chappe` looks: then what was in it is
    /// lost, even for processes that still have an object's [`ObjectId`](crate::ObjectId).
    ///
    /// # Errors
    /// As [`Arena::create`].
    pub fn family() -> Result<Arena, ArenaError> {
        Arena::family_but(&[]).map(|(arena, _)| arena)
    }

    /// As [`Arena::family`], but none of these, which are full: another one that the family has already, or a new one (true: it was made by
    /// this call, so that nothing else is in it). It is [`Arena::family`] from then on.
    ///
    /// ```
    /// use chappe_sync::{Arena, Semaphore};
    /// let full = Arena::family()?;
    /// let (next, is_new) = Arena::family_but(&[full])?;
    /// assert!(next != full && is_new);
    /// Semaphore::unnamed(&next, 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Arena::create`].
    pub fn family_but(full: &[Arena]) -> Result<(Arena, bool), ArenaError> {
        fork::prepare();
        let mut family = light::lock(&FAMILY);
        while let Some(at) = family.iter().position(|map| !full.contains(&Arena::of(map))) {
            if serves(family[at]) {
                family[..=at].rotate_right(1);
                return Ok((Arena::of(family[0]), false));
            }
            family.remove(at);
        }
        let data = Some(4 << 20);
        let options = ArenaOptions { members: Some(2048), objects: Some(16_384), cells: Some(4096), data };
        let arena = Arena::apart(&options)?;
        family.insert(0, arena.map());
        Ok((arena, true))
    }

    /// Another arena of that kind, for what [`Arena::family`] has no room for: its name is not chosen, and it is removed when such an arena
    /// is made after no process has it mapped any more.
    ///
    /// # Errors
    /// As [`Arena::create`].
    pub fn apart(options: &ArenaOptions) -> Result<Arena, ArenaError> {
        fork::prepare();
        let arena = loop {
            let number = clock::now().rotate_left(24) ^ u64::from(process::pid());
            match Arena::make(&format!("{PREFIX}{number:016x}"), options, true) {
                Err(ArenaError::Exists { .. }) => {}
                made => break made?,
            }
        };
        sweep(&arena.name());
        Ok(arena)
    }

    /// Removes the arenas of this kind that no process has mapped any more.
    #[doc(hidden)]
    pub fn sweep_families() {
        sweep("");
    }

    /// Makes [`Arena::family`] before this process forks, if it does not exist by then: so that what children make there is in one
    /// arena.
    pub fn family_at_fork() {
        // If there is no room, the child asks again, and gets the error.
        fork::prepare_with(|| drop(Arena::family()));
    }
}

/// Whether other processes can still find it. A process that can no longer see its directory (for want of rights) keeps its arena.
fn serves(map: &Map) -> bool {
    let is_there = |dir: &Path| !matches!(Dir::open(dir), Err(e) if e.kind() == io::ErrorKind::NotFound);
    map.mark() != Standing::Removed && map.directory().is_some_and(is_there) && !map.is_unlinked()
}

/// Removes those that no process has mapped any more. What cannot be removed stays: it may be another user's.
fn sweep(but: &str) {
    let Ok(dir) = open_directory(false) else { return };
    let names = dir.names().unwrap_or_default();
    for name in names.iter().filter(|name| is_familys(name) && *name != but) {
        let _ = Map::remove_unmapped(&dir, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_apart_has_the_room_that_was_asked_for_and_is_not_the_familys() {
        let options = ArenaOptions { members: Some(8), objects: Some(8), cells: Some(8), data: Some(8 << 20) };
        let apart = Arena::apart(&options).unwrap();
        assert!(is_familys(&apart.name()));
        assert_eq!(apart.capacity().data, 8 << 20);
        assert!(apart != Arena::family().unwrap());
        Arena::remove(&apart.name(), false).unwrap();
    }

    #[test]
    fn a_full_family_gets_one_more_arena_and_uses_the_first_again() {
        let full = Arena::family().unwrap();
        let (next, is_new) = Arena::family_but(&[full]).unwrap();
        assert!(is_new && next != full && Arena::family().unwrap() == next);
        assert_eq!(Arena::family_but(&[next]).unwrap(), (full, false));
        assert_eq!(Arena::family().unwrap(), full);
        assert_eq!(Arena::family_but(&[full]).unwrap(), (next, false));
    }

    #[test]
    fn only_what_has_such_a_name_to_the_letter_is_a_familys() {
        assert!(is_familys("family-0123456789abcdef"));
        for other in
            ["family-tree", "family-0123456789abcde", "family-0123456789abcdef0", "family-0123456789abcdeF", "x"]
        {
            assert!(!is_familys(other), "{other}");
        }
        assert!(Arena::create("family-0123456789abcdef", &ArenaOptions::default()).is_err());
    }
}
