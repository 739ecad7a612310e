//! The section of [`super`] for aarch64.
//!
//! ```text
//! start:  low = word, acquire        E1
//!         low != 0      -> Busy
//!         cpu != bias   -> Elsewhere
//!         word = HELD_FAST
//! end:
//! ```
//!
//! As on x86_64. The thread's later accesses cannot come before the load-acquire, and so not before the last holder's store-release.

use super::raw::{HELD_FAST, Outcome};
use crate::delays::delay;
use crate::symbol::symbol;
use chappe_plat::atomic::AtomicU32;
use chappe_plat::rseq;
use std::arch::asm;

/// Locks if `word` is 0 and `bias` is the processor on which the thread runs.
#[inline(always)]
pub(super) fn lock(word: &AtomicU32, bias: &AtomicU32) -> Outcome {
    let area = rseq::thread_pointer().wrapping_add_signed(rseq::offset());
    // SAFETY: the calling thread's own area, or one that nobody writes.
    unsafe { lock_at(area, word, bias) }
}

/// As [`lock`], by this area.
///
/// # Safety
/// There is an area.
#[inline(always)]
unsafe fn lock_at(area: usize, word: &AtomicU32, bias: &AtomicU32) -> Outcome {
    // SAFETY: reads and writes what the arguments point to, aligned, and the thread's own area. The descriptor is never unmapped: it
    // belongs to the program, or to a library that must not be unloaded while threads use it.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"awR\", %progbits",
            ".balign 32",
            "22:",
            ".long 0, 0",
            ".quad 33f, 44f - 33f, 55f",
            ".popsection",
            ".pushsection __rseq_cs_ptr_array, \"awR\", %progbits",
            ".quad 22b",
            ".popsection",
            ".pushsection __rseq_exit_point_array, \"awR\", %progbits",
            ".quad 33f, {busy}",
            ".quad 33f, {elsewhere}",
            ".popsection",
            symbol!("lock", "33", "44"),
            "adrp {tmp}, 22b",
            "add {tmp}, {tmp}, :lo12:22b",
            "str {tmp}, [{area}, #{descriptor}]",
            "33:",
            delay!(0),
            "ldar {tmp:w}, [{word}]",
            delay!(1),
            "cbnz {tmp:w}, {busy}",
            "ldr {tmp:w}, [{area}, #{cpu_id}]",
            delay!(2),
            "ldr {to:w}, [{bias}]",
            "cmp {tmp:w}, {to:w}",
            "b.ne {elsewhere}",
            delay!(3),
            "str {held:w}, [{word}]",
            "44:",
            ".pushsection __rseq_failure, \"ax\", %progbits",
            ".inst {signature}",
            "55:",
            "b {aborted}",
            ".popsection",
            area = in(reg) area,
            word = in(reg) word.as_ptr(),
            bias = in(reg) bias.as_ptr(),
            held = in(reg) HELD_FAST,
            tmp = out(reg) _,
            to = out(reg) _,
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            descriptor = const rseq::DESCRIPTOR,
            cpu_id = const rseq::CPU_ID,
            signature = const rseq::SIGNATURE,
            busy = label { return Outcome::Busy },
            elsewhere = label { return Outcome::Elsewhere },
            aborted = label { return Outcome::Aborted },
            options(nostack),
        );
    }
    Outcome::Locked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An area that no kernel knows: what the instructions do when nothing comes between them.
    #[test]
    fn the_section_locks_what_is_free_and_biased_to_this_processor() {
        #[repr(C, align(32))]
        struct Area([AtomicU32; 8]);
        let area = Area([const { AtomicU32::new(0) }; 8]);
        let set = |cpu: u32| area.0[rseq::CPU_ID / 4].store(cpu, chappe_plat::atomic::Ordering::SeqCst);
        let (word, bias) = (AtomicU32::new(0), AtomicU32::new(3));
        // SAFETY: an area, which lives.
        let go = || unsafe { lock_at(std::ptr::from_ref(&area) as usize, &word, &bias) };
        set(2);
        assert_eq!(go(), Outcome::Elsewhere);
        set(3);
        assert_eq!(go(), Outcome::Locked);
        assert_eq!(word.load(chappe_plat::atomic::Ordering::SeqCst), HELD_FAST);
        assert_eq!(go(), Outcome::Busy);
    }
}
