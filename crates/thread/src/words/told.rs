//! What others have told a light thread and it has not heard yet: bits, in a word beside its record. One word has its
//! signals, another its events.
//!
//! | bits | what |
//! |---|---|
//! | 0-31 | which signals, or events |
//! | 32-63 | the generation of the thread that they are for (`asked`) |
//!
//! - T1: a teller reads the word first, then that the generation is its thread's, and then swaps. The bits of a later
//!   thread were put in by a teller that had read the later generation. So if they were in the word that was read, the
//!   generation is seen to be later; if they came after that, the swap fails. What is told late reaches no later thread,
//!   and takes nothing from it.
//! - T2: a thread takes no bits but those of its own generation. It may find what was told to the one before: its teller
//!   was late.
//!
//! Visibility: a teller releases, the thread acquires: it sees what was done before it was told.
//!
//! Deaths: the word is private to the process and ends with it. Left out: a teller that is stopped between two of its steps
//! while two million threads have the record.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::light::asked::GENERATION;

/// Tells the thread of that generation. False: it has ended, and nothing was changed.
pub(crate) fn tell(word: &AtomicU64, control: &AtomicU32, generation: u32, bits: u32) -> bool {
    // Acquire: T1, before the generation is read.
    let mut now = word.load(Ordering::Acquire);
    loop {
        // Relaxed: T1, after the word.
        if control.load(Ordering::Relaxed) >> GENERATION != generation {
            return false;
        }
        let next = u64::from(generation) << 32 | u64::from(of(now, generation) | bits);
        // AcqRel: what was done before it is told. Acquire: T1, as above.
        match word.compare_exchange(now, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
}

/// Takes those of `bits` that the thread of that generation was told. By the thread itself.
pub(crate) fn take(word: &AtomicU64, generation: u32, bits: u32) -> u32 {
    // Relaxed: the swap acquires; where there is none, the thread was told nothing.
    let mut now = word.load(Ordering::Relaxed);
    loop {
        let there = of(now, generation) & bits;
        if there == 0 {
            return 0;
        }
        // Acquire: what was done before it was told. Relaxed: once more.
        match word.compare_exchange(now, now & !u64::from(there), Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return there,
            Err(other) => now = other,
        }
    }
}

/// T2.
fn of(word: u64, generation: u32) -> u32 {
    if (word >> 32) as u32 == generation { word as u32 } else { 0 }
}
