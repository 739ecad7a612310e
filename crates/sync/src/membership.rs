//! What the calling thread does with an arena as its member: it keeps it in memory, leaves it, removes it.

use crate::directory::open_directory;
use crate::lease;
use crate::registry::{Arena, HOOKS};
use chappe_arena::{ArenaError, Map, check_name};
use chappe_plat::atomic::Ordering;
use chappe_wait::attachment::{attachment, leave};
use chappe_wait::recover;
use chappe_wait::wait::State;

impl Arena {
    /// Removes the named arena. An attachment of this process, without anything held or awaited there, does not count as a use. An arena in
    /// use is refused unless `force`, which makes everything in it dead: its waiters get an error, and permits held there end with their guards.
    ///
    /// # Errors
    /// `NotFound`, `InUse`, or what is wrong with the file.
    pub fn remove(name: &str, force: bool) -> Result<(), ArenaError> {
        crate::fork::prepare();
        check_name(name, "arena")?;
        let dir = open_directory(false)?;
        let arena = Arena::open(name).ok();
        if !force && let Some(arena) = arena {
            arena.leave_if_idle();
        }
        let is_idle = |map: &'static Map, member, generation| {
            // Acquire: what it holds by then is seen below.
            let state = State(map.member(member).state.load(Ordering::Acquire));
            state.is_idle() && !recover::owns(map, member, generation)
        };
        Map::remove(&dir, name, force, is_idle, HOOKS)?;
        if let Some(arena) = arena {
            arena.map().end_presence();
            lease::forget(arena.map());
        }
        Ok(())
    }

    /// Gives up the thread's slot if it owns nothing there: its mere attachment should not keep the arena.
    fn leave_if_idle(&self) {
        leave(self.map(), |attachment| {
            !recover::owns(self.map(), attachment.joined.index, attachment.joined.generation)
        });
    }

    /// Keeps what of the arena is in use now in memory: the members, the objects and their data, except for a private object's data that lies on
    /// the heap. No operation on them is a page fault from then on, until the process ends or calls exec: for threads with deadlines, which also
    /// keep their own stacks and code there (`mlockall`). What is made later may lie elsewhere: call this again. The calling thread becomes a
    /// member first. Answers how many bytes are kept.
    ///
    /// A forked child has nothing kept in memory.
    ///
    /// Paper: nonblocking-real-time, 6 (memory pinning).
    ///
    /// # Errors
    /// `Unpinned` if the process may not lock so much memory; others if the thread cannot become a member.
    pub fn pin(&self) -> Result<u64, ArenaError> {
        attachment(self.map(), |_| ())?;
        let ranges = self.map().ranges_in_use();
        let bytes = ranges.iter().map(|(_, len)| *len as u64).sum();
        let refused = |source| ArenaError::Unpinned {
            name: self.map().name().into(),
            bytes,
            limit: chappe_plat::memory::most_pinned(),
            source,
        };
        for (address, len) in ranges {
            chappe_plat::memory::pin(address, len).map_err(refused)?;
        }
        Ok(bytes)
    }

    /// Gives up the calling thread's member slot. Permits that it still has there go back, and a mutex that it still has
    /// locked is condemned. The thread joins again when it next needs to. Inside of a section of a named helping lock or monitor, and in the
    /// waker of a task, which may be called in the middle of an operation, this does nothing.
    pub fn leave(&self) {
        leave(self.map(), |_| true);
    }
}
