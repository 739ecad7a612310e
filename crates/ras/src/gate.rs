//! The gate: whether sequences may be used in this process.
//!
//! netbsd-restartable-sequences, section 3.1, has a kernel that rolls a preempted thread back. On Linux the kernel declares that it does so
//! (rseq), but some kernels declared it wrongly: some kernels of 2026 for arm64 let a sequence go on after another thread had run on its
//! processor. So neither the declaration nor a version number is trusted: at its first use a process tests it, once.
//!
//! # The verdict
//! One word; it is decided once, and never changes.
//!
//! ```text
//!   UNDECIDED --> DECIDING by a process --> one of the verdicts
//! ```
//!
//! | bits | |
//! |---|---|
//! | 0-7 | UNDECIDED, DECIDING, or which verdict |
//! | 8-31 | how many preemptions were seen, or the kernel's error number |
//! | 32-63 | of DECIDING: the process that decides, by its incarnation |
//!
//! - I1 The verdict is the same for every caller, for ever: the first that is found is kept.
//! - I2 No thread waits for ever: there is no lock. A thread that finds another thread deciding waits for it a bounded time, and then tests
//!   for itself: the other may be the same thread, interrupted by the signal handler that asks.
//! - I3 A forked child has its parent's verdict. If the fork came while another thread was deciding, the word names another process, and
//!   the child decides.
//! - I4 What is not proven is false: also if no thread can be started for the test.
//!
//! The test itself: see `gate/trial.rs`.
//!
//! # Switches
//! `CHAPPE_SEQUENCES=off` in the environment switches all sequences off, `CHAPPE_BIAS=off` the biased locks alone. They are read
//! once.

#[cfg(all(target_arch = "aarch64", not(feature = "sim")))]
mod aarch64;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "sim")))]
mod section;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "sim")))]
mod trial;
mod verdict;
#[cfg(all(target_arch = "x86_64", not(feature = "sim")))]
mod x86_64;

use chappe_plat::atomic::{AtomicU64, Ordering, low_half};
use chappe_plat::futex::{self, Scope};
use chappe_plat::{clock, process};
pub use verdict::Verdict;
use verdict::{DECIDING, KIND, PROVEN, UNDECIDED};

/// How long a thread waits for another thread that decides: more than a trial can take.
const PATIENCE: u64 = 8_000_000_000;

static WORD: AtomicU64 = AtomicU64::new(UNDECIDED);

/// Whether sequences may be used in this process: one load once it is decided.
///
/// The first call of a process decides: it starts two short-lived threads, and takes a millisecond, or up to five seconds if many threads
/// compete for the processor. A program that cannot afford that later, or may ask in a signal handler, calls [`verdict`] at its start.
#[inline(always)]
pub fn sequences() -> bool {
    if cfg!(feature = "sim") {
        // What is explored has sections of its own.
        return true;
    }
    // Acquire: a thread that sees the verdict sees the area's offset, too.
    match WORD.load(Ordering::Acquire) & KIND {
        PROVEN => true,
        UNDECIDED | DECIDING => decide().is_proven(),
        _ => false,
    }
}

/// Whether sequences may be used in this process, and why not. As [`sequences`], the first call decides.
pub fn verdict() -> Verdict {
    // Acquire: as in `sequences`.
    Verdict::of(WORD.load(Ordering::Acquire)).unwrap_or_else(decide)
}

pub use chappe_sync::biases;

fn is_off(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|v| v == "off")
}

#[cold]
fn decide() -> Verdict {
    let deciding = DECIDING | process::incarnation() << 32;
    let deadline = clock::now() + PATIENCE;
    loop {
        // Acquire: as in `sequences`.
        let now = WORD.load(Ordering::Acquire);
        if let Some(verdict) = Verdict::of(now) {
            return verdict;
        }
        if now == deciding && clock::now() < deadline {
            futex::wait(low_half(&WORD), now as u32, Some(deadline), Scope::Private);
            continue;
        }
        // I2, I3: no thread decides, or another process did, or it takes too long. Acquire: as above. Relaxed: nothing is published.
        if now == deciding || WORD.compare_exchange(now, deciding, Ordering::Relaxed, Ordering::Acquire).is_ok() {
            return keep(find());
        }
    }
}

/// I1: the first is kept.
fn keep(found: Verdict) -> Verdict {
    // Acquire: as in `sequences`.
    let mut now = WORD.load(Ordering::Acquire);
    loop {
        if let Some(verdict) = Verdict::of(now) {
            return verdict;
        }
        // AcqRel: publishes what was prepared. Acquire: as above.
        match WORD.compare_exchange(now, found.word(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                futex::wake(low_half(&WORD), u32::MAX, Scope::Private);
                return found;
            }
            Err(seen) => now = seen,
        }
    }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "sim")))]
fn find() -> Verdict {
    use chappe_plat::rseq::{self, Area};
    // First of all: a caller that has asked knows where areas are, whatever the answer.
    let area = rseq::prepare();
    if is_off("CHAPPE_SEQUENCES") {
        return Verdict::SwitchedOff;
    }
    match area {
        Area::Library | Area::Own => trial::Trial::default().run(),
        Area::None(e) => Verdict::NoArea(e),
        Area::NoFence(e) => Verdict::NoFence(e),
        Area::Architecture => Verdict::Architecture,
    }
}

/// No sequences where there are none; nor in the explorer, whose threads are no threads of the kernel's.
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), feature = "sim"))]
fn find() -> Verdict {
    if is_off("CHAPPE_SEQUENCES") { Verdict::SwitchedOff } else { Verdict::Architecture }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_comes_out_of_its_word_as_it_went_in() {
        for verdict in [
            Verdict::Proven { aborts: 7 },
            Verdict::NoArea(38),
            Verdict::NoFence(22),
            Verdict::Unproven,
            Verdict::Broken,
            Verdict::SwitchedOff,
            Verdict::Architecture,
        ] {
            assert_eq!(Verdict::of(verdict.word()), Some(verdict));
        }
        assert_eq!((Verdict::of(UNDECIDED), Verdict::of(DECIDING | 5 << 32)), (None, None));
    }

    #[cfg(not(feature = "sim"))]
    #[test]
    fn the_first_verdict_stays() {
        let first = verdict();
        assert_eq!(keep(Verdict::Broken), first);
        assert_eq!(verdict(), first);
        assert_eq!(sequences(), first.is_proven());
    }
}
