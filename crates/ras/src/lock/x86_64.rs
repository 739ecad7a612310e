//! The section of [`super`] for x86_64.
//!
//! ```text
//! start:  low = word                 E1: on this processor each load acquires
//!         low != 0      -> Busy
//!         cpu != bias   -> Elsewhere
//!         word = HELD_FAST
//! end:
//! ```
//!
//! If a thread is taken off the processor between `start` and `end`, the kernel makes it resume at the abort address. Within the section
//! nothing is called, and nothing can trap: lock and area are mapped. Its last instruction is its only store.

use super::raw::{HELD_FAST, Outcome};
use crate::delays::delay;
use crate::symbol::symbol;
use chappe_plat::atomic::AtomicU32;
use chappe_plat::rseq;
use std::arch::asm;

/// Locks if `word` is 0 and `bias` is the processor on which the thread runs.
#[inline(always)]
pub(super) fn lock(word: &AtomicU32, bias: &AtomicU32) -> Outcome {
    // SAFETY: the calling thread's own area, or one that nobody writes.
    unsafe { lock_at(rseq::offset(), word, bias) }
}

/// As [`lock`], by the area at this distance from the thread pointer.
///
/// # Safety
/// There is an area.
#[inline(always)]
unsafe fn lock_at(area: isize, word: &AtomicU32, bias: &AtomicU32) -> Outcome {
    // SAFETY: reads and writes what the arguments point to, aligned, and the thread's own area. The descriptor is never unmapped: it
    // belongs to the program, or to a library that must not be unloaded while threads use it.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"awR\", @progbits",
            ".balign 32",
            "22:",
            ".long 0, 0",
            ".quad 33f, 44f - 33f, 55f",
            ".popsection",
            ".pushsection __rseq_cs_ptr_array, \"awR\", @progbits",
            ".quad 22b",
            ".popsection",
            ".pushsection __rseq_exit_point_array, \"awR\", @progbits",
            ".quad 33f, {busy}",
            ".quad 33f, {elsewhere}",
            ".popsection",
            symbol!("lock", "33", "44"),
            "lea {tmp}, [rip + 22b]",
            "mov qword ptr fs:[{area} + {descriptor}], {tmp}",
            "33:",
            delay!(0),
            "mov {tmp:e}, dword ptr [{word}]",
            delay!(1),
            "test {tmp:e}, {tmp:e}",
            "jnz {busy}",
            "mov {tmp:e}, dword ptr fs:[{area} + {cpu_id}]",
            delay!(2),
            "cmp {tmp:e}, dword ptr [{bias}]",
            "jne {elsewhere}",
            delay!(3),
            "mov dword ptr [{word}], {held}",
            "44:",
            ".pushsection __rseq_failure, \"ax\", @progbits",
            // What a disassembler takes for one instruction; its last four bytes are the signature.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "55:",
            "jmp {aborted}",
            ".popsection",
            area = in(reg) area,
            word = in(reg) word.as_ptr(),
            bias = in(reg) bias.as_ptr(),
            tmp = out(reg) _,
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            descriptor = const rseq::DESCRIPTOR,
            cpu_id = const rseq::CPU_ID,
            held = const HELD_FAST as i32,
            signature = const rseq::SIGNATURE,
            busy = label { return Outcome::Busy },
            elsewhere = label { return Outcome::Elsewhere },
            aborted = label { return Outcome::Aborted },
            options(nostack),
        );
    }
    Outcome::Locked
}
