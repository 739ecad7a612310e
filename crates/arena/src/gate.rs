//! Gates: locks that keep the threads of several PID namespaces apart while they change a robust word.
//!
//! A robust word (a member's life word and tgid word, the arena's `admin` and `watch`) names a thread by its number in its own PID namespace.
//! While the C library claims or releases such a word, the thread's robust list names it as pending. If the thread dies then, the
//! kernel marks the word if it holds *that number*. In one namespace the number is nobody else's. In another namespace a living thread
//! may have the same one (each container has a thread 1), and own the word: it would be marked though its owner lives.
//!
//! So a thread of a named arena passes a gate before it changes a word, and stays in it until the word is not pending any more. A gate
//! is a lock on one byte of the arena's file (`chappe_plat::dir::Bytes`). One byte belongs to each member slot, one to each guest's word (visit.rs),
//! one to `admin`, and one to `watch`.
//!
//! - G1: only the thread in a slot's gate claims or releases the slot's words, or marks them in the kernel's place.
//! - G2: it claims only a word that is free or marked. So a word that is pending is free, marked, or names the thread in the gate.
//! - G3: the kernel opens a gate after it has processed the robust lists of all threads of the holder's process. So when the next
//!   thread passes, no dead thread has a word of the slot pending.
//! - G4: hence a mark is genuine: the kernel marks a word only at the death of the thread that claimed it. A word
//!   that is not pending stands in the list of the thread that claimed it, and in no other.
//!
//! One word is outside G3. If a thread that does not lead its process calls exec, its tgid word is marked while the kernel is still on its
//! way to the life words in its list (tgid_word.rs), which may be other threads' by then. The kernel compares them with the number that the caller
//! has taken over, its process's. In another namespace this may be the number of the thread that claims the slot next:
//!
//! - G5: a thread does not claim a slot whose tgid word is marked if it has the number of the dead thread's process, in another namespace.
//!   Threads with other numbers do.
//!
//! A process member (owned permits) has a second byte, its presence, which it keeps locked all its life: see member.rs.
//!
//! Death in a gate: the kernel opens it when the process has ended. If only the thread ends, the gate stays shut until its process ends;
//! the slot is out of use until then. A process that is stopped in a gate keeps one slot from being used, or the waiters for `admin`
//! waiting, as it does when it is stopped while it holds `admin`.
//!
//! If the file cannot be opened (a sandbox, no descriptors, another root, its name is gone) and threads of one namespace alone have used
//! the arena, there is nothing to keep apart: the gate is passed without a lock. If threads of several namespaces have used it, the gate
//! cannot be passed: joining is refused. A thread that passes without a lock just when the first thread of a second namespace comes is not
//! protected from it.
//!
//! Private arenas need no gates: one process has them. The explorer's worlds have gates if they have several namespaces.

use crate::error::ArenaError;
use crate::layout::Header;
use chappe_plat::atomic::Ordering;
use chappe_plat::dir::{Bytes, bytes_of};
use chappe_plat::light::Shield;
use chappe_plat::process;
use std::path::Path;

/// The byte of `admin`. All lie behind the end of the largest arena.
pub(crate) const ADMIN: u64 = 1 << 56;
/// The byte of the watcher's word.
pub(crate) const WATCH: u64 = ADMIN + 1;
/// The bytes of the slots.
const SLOTS: u64 = ADMIN + (1 << 16);
/// The bytes of the slots' presence.
const PRESENCE: u64 = ADMIN + (1 << 17);
/// The bytes of the guests' words.
const GUESTS: u64 = ADMIN + 2;

/// The value of [`crate::layout::Header::namespace`] once threads of several PID namespaces have used the arena.
const SEVERAL: u64 = u64::MAX;

/// The byte of a member slot.
pub(crate) fn slot(i: u32) -> u64 {
    SLOTS + u64::from(i)
}

/// The byte of a guest's word.
pub(crate) fn guest(i: usize) -> u64 {
    GUESTS + i as u64
}

/// The byte that the process member in a slot keeps locked.
pub(crate) fn presence(i: u32) -> u64 {
    PRESENCE + u64::from(i)
}

/// The gates of one arena, for one thread.
pub(crate) struct Gates(Option<Bytes>);

/// The right of the thread to be in a gate, until this is dropped.
pub(crate) struct Pass<'a> {
    bytes: Option<&'a Bytes>,
    at: u64,
    /// As the lock of the administration.
    _shield: Shield,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes {
            bytes.unlock(self.at);
        }
    }
}

impl Pass<'_> {
    /// Whether a lock is held: without one there is nothing to keep apart.
    pub fn counts(&self) -> bool {
        self.bytes.is_some()
    }
}

impl Gates {
    /// No gates: every pass succeeds.
    pub const NONE: Gates = Gates(None);

    /// Those of an arena: its header, and which file of which directory it is.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn of(header: &Header, directory: &Path, name: &str, inode: u64) -> Result<Gates, ArenaError> {
        match bytes_of(directory, name, inode) {
            // In one of the explorer's worlds.
            Ok(None) => Ok(Gates(None)),
            Ok(bytes) => {
                is_of_one_namespace(header);
                Ok(Gates(bytes))
            }
            Err(_) if is_of_one_namespace(header) => Ok(Gates(None)),
            Err(source) => Err(ArenaError::Unreachable { path: directory.join(name).display().to_string(), source }),
        }
    }

    /// Whether the process member in slot `i` shows by its presence that its process exists; true if that cannot be determined. For a
    /// process of another PID namespace, whose id is useless here.
    pub fn is_present(&self, i: u32) -> bool {
        // Only an arena of one namespace has no gates.
        self.0.as_ref().is_some_and(|bytes| bytes.is_locked(presence(i)).unwrap_or(true))
    }

    /// Passes a gate. None: another thread is in it, or the system refuses.
    pub fn try_pass(&self, at: u64) -> Option<Pass<'_>> {
        let (bytes, _shield) = (self.0.as_ref(), Shield::raise());
        let passed = bytes.is_none_or(|b| b.try_lock(at).unwrap_or(false));
        passed.then_some(Pass { bytes, at, _shield })
    }

    /// Passes a gate; blocks while another living thread is in it.
    pub fn pass(&self, at: u64) -> Pass<'_> {
        let (bytes, _shield) = (self.0.as_ref(), Shield::raise());
        if let Some(b) = bytes {
            // The system refuses only for want of memory. Then the gate is passed without a lock.
            let _ = b.lock(at);
        }
        Pass { bytes, at, _shield }
    }

    /// Makes the calling process keep byte `at` locked. Answers the descriptor for `chappe_plat::dir::give_up`; `None` without gates, or if
    /// another process has the byte.
    pub fn keep(self, at: u64) -> Option<i32> {
        let bytes = self.0?;
        bytes.try_lock(at).unwrap_or(false).then(|| bytes.keep())
    }
}

/// Whether only threads of the caller's PID namespace have used the arena so far. Notes that the caller uses it.
fn is_of_one_namespace(header: &Header) -> bool {
    let (word, here) = (&header.namespace, process::namespace());
    // AcqRel: before the caller changes any word; only the first namespace finds nothing.
    let seen = word.compare_exchange(0, here, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|seen| seen);
    let one = here != 0 && (seen == 0 || seen == here);
    if !one && seen != SEVERAL {
        word.store(SEVERAL, Ordering::Release); // Release: as above; it never changes again.
    }
    one
}
