//! The arenas that this process has mapped.

use chappe_arena::Map;
use std::sync::Mutex;

pub static KNOWN: Mutex<Vec<&'static Map>> = Mutex::new(Vec::new());
/// The arenas of this process's family, which it has in common with those that forked it. The first is `Arena::family`.
pub static FAMILY: Mutex<Vec<&'static Map>> = Mutex::new(Vec::new());

/// After a fork, in the child: no arena takes the child for its parent, and no batch is one that a thread of the parent builds.
pub fn forget_parents_presence() {
    if let Ok(known) = KNOWN.try_lock() {
        known.iter().for_each(|map| {
            map.forget_parents_presence();
            map.forget_parents_batches();
        });
    }
}
