//! Finds what is wrong, and repairs what can be repaired.
//!
//! [`examine`] looks into one arena, [`surroundings`] at what lies and runs around them, [`kernel`] and [`sequences`] at what the system
//! can do, [`doctor`] at all. Nothing here waits for another process: neither for a lock that a stopped process has, nor for a process that
//! does not answer.

mod arena;
mod around;
mod finding;
mod sequences;

use chappe_arena::ArenaError;
use chappe_plat::{futex, process};
use chappe_sync::{Arena, directory};

pub use arena::examine;
pub use around::surroundings;
pub use finding::{ArenaHealth, Finding, Surroundings};
pub use sequences::{Sequences, sequences};

/// How all is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Doctor {
    /// Where the arenas lie.
    pub directory: String,
    /// Each arena of the directory.
    pub arenas: Vec<ArenaHealth>,
    /// What lies and runs around them.
    pub surroundings: Surroundings,
    /// What this kernel lacks, and what is done instead.
    pub kernel: Vec<Finding>,
    /// Whether there are restartable sequences.
    pub sequences: Sequences,
}

/// What this process's reaper has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Dead members found.
    pub sweeps: u64,
    /// How many times only the one-second backstop found something. Should be 0.
    pub backstops: u64,
}

/// Counts of this process's recoveries.
pub fn recoveries() -> Recovered {
    let (sweeps, backstops) = chappe_sync::reaped();
    Recovered { sweeps, backstops }
}

/// Looks at every arena of the directory and at what is around them, recovers the dead members, frees what has no owner, and reports what
/// this kernel lacks.
///
/// # Errors
/// What is wrong with the directory.
pub fn doctor() -> Result<Doctor, ArenaError> {
    Ok(Doctor {
        arenas: Arena::list()?.iter().map(|name| examine(name)).collect(),
        directory: directory()?.display().to_string(),
        surroundings: surroundings(),
        kernel: kernel(),
        sequences: sequences(),
    })
}

/// What this kernel lacks, and what is done instead.
pub fn kernel() -> Vec<Finding> {
    let mut kernel = Vec::new();
    if !futex::wait_any_supported() {
        kernel.push(
            Finding::new("no-futex-waitv", "no futex_waitv (Linux 5.16, or CHAPPE_NO_WAITV is set)")
                .done("deaths of processes are watched by pidfd, of single threads by looking 20 times a second"),
        );
    }
    if let Err(e) = process::watch_exit(process::pid()) {
        kernel.push(
            Finding::new("no-pidfd", format!("no pidfd ({e})"))
                .done("a process's end is seen by its life words and its entry in /proc"),
        );
    }
    if let Err(why) = chappe_plat::life::fit() {
        kernel.push(Finding::new("unseen-deaths", format!("joining arenas is refused here: {why}")));
    }
    if process::namespace() == 0 {
        kernel.push(Finding::new("no-proc", "/proc is not mounted").advice(
            "mount it: without it jobs that outlive their holder are not seen, nor processes that are stopped",
        ));
    }
    kernel
}
