//! How long the threads that watch an arena sleep.

use crate::map::Map;

/// The longest sleep of a watching thread.
pub(super) const BACKSTOP_NS: u64 = 1_000_000_000;
/// After this time a reaper looks again whether a process is gone, or whether the watcher has found a death that the reaper has seen.
pub(super) const CONFIRM_NS: u64 = 5_000_000;
/// After so many looks in vain the interval doubles.
const OFTEN: u32 = 64;
/// After so many looks at a removed arena the reaper ends.
pub(super) const ENOUGH: u32 = 3;
/// What each member adds to the time between two checks of the watcher by a reaper that stands by, up to so many members: all of them together look 125
/// times a second, or where there are more, so many times more often as there are more.
const PATIENCE_NS: u64 = 8_000_000;
const PATIENT: u32 = 4_096;
/// The longest sleep of a thread that must poll the processes.
pub(super) const POLL_NS: u64 = 50_000_000;

/// The time to the next look after so many looks in vain. A process is mostly gone as soon as the kernel has taken it down; about one that
/// cannot be inspected nothing may be known for long.
pub(super) fn soon(looks: u32) -> u64 {
    (CONFIRM_NS << (looks / OFTEN).min(8)).min(BACKSTOP_NS)
}

/// The longest sleep of a reaper that stands by.
pub(super) fn patience(map: &Map) -> u64 {
    BACKSTOP_NS.max(PATIENCE_NS * u64::from(map.members_used().min(PATIENT)))
}
