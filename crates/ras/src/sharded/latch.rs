//! Keeps sweeps and forks apart: a permit that is being swept is for a moment in no memory, and a child forked then would not have it.
//!
//! One word for all semaphores of a process: `incarnation:32 | forks:16 | sweeps:16`, how many of each are under way.
//!
//! - I1: a sweep begins only while no fork is under way; a fork waits until no sweep is.
//! - I2: the counts are those of the process whose incarnation the word has. For another process, which was forked, both are 0.
//! - I3: no thread waits for ever: a thread that forks within a sweep (a signal handler that interrupts one) goes on after [`PATIENCE`].
//!   The child of that fork, like that of a bare `clone`, may lack what was in hand.

use chappe_plat::atomic::{AtomicU64, Ordering, low_half};
use chappe_plat::forks::Around;
use chappe_plat::futex::{self, Scope};
use chappe_plat::{clock, process};

const SWEEP: u64 = 1;
const FORK: u64 = 1 << 16;
const HALF: u64 = 0xffff;

const PATIENCE: u64 = 1_000_000_000;

static WORD: AtomicU64 = AtomicU64::new(0);
static FORKS: Around = Around::new(before_fork, after_fork);

/// I2.
fn counts(word: u64) -> (u64, u64) {
    let ours = word >> 32 == process::incarnation() & u64::from(u32::MAX);
    if ours { (word >> 16 & HALF, word & HALF) } else { (0, 0) }
}

/// Changes both. False: they are to stay.
fn change(next: impl Fn(u64, u64) -> Option<(u64, u64)>) -> bool {
    // SeqCst, all: one of a sweep and a fork comes first.
    let mut now = WORD.load(Ordering::SeqCst);
    loop {
        let (forks, sweeps) = counts(now);
        let Some((forks, sweeps)) = next(forks, sweeps) else { return false };
        let word = (process::incarnation() << 32) + forks * FORK + sweeps * SWEEP;
        match WORD.compare_exchange(now, word, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return true,
            Err(seen) => now = seen,
        }
    }
}

extern "C" fn before_fork() {
    change(|forks, sweeps| Some((forks + 1, sweeps)));
    let deadline = clock::now().saturating_add(PATIENCE);
    loop {
        // SeqCst: as in `change`.
        let now = WORD.load(Ordering::SeqCst);
        if counts(now).1 == 0 || clock::now() >= deadline {
            return;
        }
        futex::wait(low_half(&WORD), now as u32, Some(deadline), Scope::Private);
    }
}

extern "C" fn after_fork() {
    change(|forks, sweeps| Some((forks.saturating_sub(1), sweeps)));
}

/// A sweep that is under way.
pub(super) struct Sweep(());

/// For a thread that may sweep later, perhaps in a signal handler.
pub(super) fn prepare() {
    process::incarnation();
    FORKS.ensure();
}

/// Begins a sweep. None: a fork is under way.
pub(super) fn begin() -> Option<Sweep> {
    change(|forks, sweeps| (forks == 0).then_some((0, sweeps + 1))).then_some(Sweep(()))
}

impl Drop for Sweep {
    fn drop(&mut self) {
        change(|forks, sweeps| Some((forks, sweeps.saturating_sub(1))));
        // SeqCst: as in `change`.
        if counts(WORD.load(Ordering::SeqCst)).0 != 0 {
            futex::wake(low_half(&WORD), u32::MAX, Scope::Private);
        }
    }
}
