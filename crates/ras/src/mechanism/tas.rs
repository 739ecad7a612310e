//! The test-and-sets of the paper's tables, on a plain word: 0 is clear, anything else is set.
//!
//! netbsd-restartable-sequences, figure 1 and section 4. Each answers what the word held, as the paper's does: false, it was clear, and now
//! is set by the caller; true, it was already set. [`release`] clears it.
//!
//! ```text
//!     begin     area.descriptor = this sequence    from here on the kernel aborts
//!               if area.cpu_id < 0: again          this thread has no area: nothing would be aborted
//!               if *word != 0: set
//!     commit    *word = 1
//! ```
//!
//! **Those by sequence are atomic against threads of the same processor only**, as the paper's: for threads that are confined to one
//! processor. Those by interlocked instructions may be mixed with them there.
//!
//! - I1: the commit is the only store, and the last instruction. Aborted before it, nothing was done. So a thread that was aborted eight
//!   times in a row (a debugger steps through it), or has no area, uses an interlocked instruction: a sequence that this interrupts is
//!   aborted, since its thread was taken off the processor for it.

use crate::gate;
use crate::rasctl::{self, RasError};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{pi, rseq};
use outcome::Outcome;

#[cfg(target_arch = "aarch64")]
#[path = "tas/aarch64.rs"]
mod machine;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "tas/absent.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
#[path = "tas/x86_64.rs"]
mod machine;
mod outcome;

/// How often a sequence is tried before it is done by other means.
const TRIES: u32 = 8;

/// Proof that there are sequences here: its owner has asked the gate.
#[derive(Clone, Copy, Debug)]
pub struct Sequences(());

impl Sequences {
    /// Asks. None: there are none; see `chappe doctor`.
    pub fn there() -> Option<Sequences> {
        gate::sequences().then_some(Sequences(()))
    }

    /// Does not ask the gate.
    ///
    /// # Safety
    /// The gate was asked before, and there are sequences.
    #[inline(always)]
    pub(super) unsafe fn known() -> Sequences {
        Sequences(())
    }
}

/// By a sequence, in place.
#[inline(always)]
pub fn inline_sequence(_there: Sequences, word: &AtomicU32) -> bool {
    match machine::test_and_set(rseq::offset(), word) {
        Outcome::Clear => false,
        Outcome::Set => true,
        Outcome::Again => again(word),
    }
}

/// By a sequence, which is called.
#[inline(never)]
pub fn called_sequence(there: Sequences, word: &AtomicU32) -> bool {
    inline_sequence(there, word)
}

/// By a sequence, which is called through a pointer that the compiler does not know.
#[inline(always)]
pub fn sequence_through_pointer(there: Sequences, word: &AtomicU32) -> bool {
    std::hint::black_box(called_sequence as fn(Sequences, &AtomicU32) -> bool)(there, word)
}

/// I1.
#[cold]
fn again(word: &AtomicU32) -> bool {
    rseq::enter();
    for _ in 1..TRIES {
        match machine::test_and_set(rseq::offset(), word) {
            Outcome::Clear => return false,
            Outcome::Set => return true,
            Outcome::Again => {}
        }
    }
    interlocked_inline(word)
}

/// By an exchange, in place. On any processor.
#[inline(always)]
pub fn interlocked_inline(word: &AtomicU32) -> bool {
    // Acquire: what the last holder wrote.
    word.swap(1, Ordering::Acquire) != 0
}

/// By an exchange, in a function that is called. On any processor.
#[inline(never)]
pub fn interlocked_called(word: &AtomicU32) -> bool {
    interlocked_inline(word)
}

/// By the kernel: a system call. On any processor; the word must be cleared by [`system_call_release`], and by the same thread. It
/// answers true, too, where the kernel refuses: `Mechanism::SystemCall` is not there then.
pub fn system_call(word: &AtomicU32) -> bool {
    pi::try_lock(word).is_err()
}

/// Clears a word that [`system_call`] has set: another system call. False: it was not this thread's.
pub fn system_call_release(word: &AtomicU32) -> bool {
    pi::unlock(word).is_ok()
}

/// Clears a word that one of the others has set: a plain store.
#[inline(always)]
pub fn release(word: &AtomicU32) {
    // Release: what was written under it.
    word.store(0, Ordering::Release);
}

/// Keeps the compiler from moving loads and stores across. The processor keeps those of one thread in order as far as threads on
/// the same one can tell.
#[inline(always)]
pub(super) fn in_order() {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
}

/// The first argument is nothing: its register may be that of the result, which the body writes before it commits.
type Body = extern "C" fn(usize, *mut u32) -> u32;

/// By a sequence that was installed with `rasctl`, and is called in its wrapper.
#[derive(Clone, Copy, Debug)]
pub struct Synthesised {
    entry: Body,
}

/// Installs the body, if it is not installed yet: one of the sixteen.
///
/// # Errors
/// Those of [`rasctl::install`]; `Overlap` where another range that overlaps with the body is installed.
pub fn synthesised() -> Result<Synthesised, RasError> {
    let (addr, len) = machine::body();
    // SAFETY: the body is code of this program, made for this: one store, last; its argument is where it was when it begins anew.
    let entry = match unsafe { rasctl::install(addr, len) } {
        Err(RasError::Overlap) => rasctl::entry_of(addr, len).ok_or(RasError::Overlap)?,
        other => other?,
    };
    // SAFETY: the body takes a word's address, second, and gives what it held, where C's functions do.
    Ok(Synthesised { entry: unsafe { std::mem::transmute::<*const (), Body>(entry) } })
}

impl Synthesised {
    /// The test-and-set.
    #[inline(always)]
    pub fn test_and_set(&self, word: &AtomicU32) -> bool {
        (self.entry)(0, word.as_ptr()) != 0
    }

    /// The range that is installed, for [`rasctl::restarts`] and [`rasctl::purge`].
    pub fn range() -> (*const u8, usize) {
        machine::body()
    }
}
