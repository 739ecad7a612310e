//! The sections of [`super`] for x86_64.
//!
//! ```text
//! start:  mode lets us?     no -> false
//!         cpu < caches?     no -> false
//!         n = cache[cpu]
//!         take: n > 0?      give: n < room?      no -> false
//!         cache[cpu] = n - 1, n + 1
//! end:
//! ```
//!
//! If a thread is taken off the processor between `start` and `end`, the kernel resumes it at the abort address, which answers false.
//! Within it nothing is called, and nothing can trap. Its last instruction is its only store.

use super::cache::{Cache, GIVE, STRIDE, TAKE};
use crate::delays::delay;
use crate::symbol::symbol;
use chappe_plat::atomic::AtomicU32;
use chappe_plat::rseq;
use std::arch::asm;

/// Takes one from this processor's cache.
#[inline(always)]
pub(super) fn take(mode: &AtomicU32, caches: &[Cache]) -> bool {
    // SAFETY: the calling thread's own area, or one that nobody writes.
    unsafe { take_at(rseq::offset(), mode, caches) }
}

/// As [`take`], by the area at this distance from the thread pointer.
///
/// # Safety
/// There is an area.
#[inline(always)]
unsafe fn take_at(area: isize, mode: &AtomicU32, caches: &[Cache]) -> bool {
    // SAFETY: reads and writes what the arguments point to, within the slice, and the thread's own area. The descriptor is never
    // unmapped: it belongs to the program, or to a library that must not be unloaded while threads use it.
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
            ".quad 33f, {no}",
            ".popsection",
            symbol!("permit_take", "33", "44"),
            "lea {tmp}, [rip + 22b]",
            "mov qword ptr fs:[{area} + {descriptor}], {tmp}",
            "33:",
            delay!(0),
            "test dword ptr [{mode}], {bit}",
            "jz {no}",
            delay!(1),
            "mov {tmp:e}, dword ptr fs:[{area} + {cpu_id}]",
            "cmp {tmp}, {count}",
            "jae {no}",
            "shl {tmp}, {stride}",
            delay!(2),
            "mov {n:e}, dword ptr [{caches} + {tmp}]",
            "test {n:e}, {n:e}",
            "jz {no}",
            "dec {n:e}",
            delay!(3),
            "mov dword ptr [{caches} + {tmp}], {n:e}",
            "44:",
            ".pushsection __rseq_failure, \"ax\", @progbits",
            // What a disassembler takes for one instruction; its last four bytes are the signature.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "55:",
            "jmp {aborted}",
            ".popsection",
            area = in(reg) area,
            mode = in(reg) mode.as_ptr(),
            caches = in(reg) caches.as_ptr(),
            count = in(reg) caches.len(),
            tmp = out(reg) _,
            n = out(reg) _,
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            bit = const TAKE,
            stride = const STRIDE,
            descriptor = const rseq::DESCRIPTOR,
            cpu_id = const rseq::CPU_ID,
            signature = const rseq::SIGNATURE,
            no = label { return false },
            aborted = label { return false },
            options(nostack),
        );
    }
    true
}

/// Gives one to this processor's cache.
#[inline(always)]
pub(super) fn give(mode: &AtomicU32, caches: &[Cache], room: u32) -> bool {
    // SAFETY: the calling thread's own area, or one that nobody writes.
    unsafe { give_at(rseq::offset(), mode, caches, room) }
}

/// As [`give`], by the area at this distance from the thread pointer.
///
/// # Safety
/// There is an area.
#[inline(always)]
unsafe fn give_at(area: isize, mode: &AtomicU32, caches: &[Cache], room: u32) -> bool {
    // SAFETY: reads and writes what the arguments point to, within the slice, and the thread's own area. The descriptor is never
    // unmapped: it belongs to the program, or to a library that must not be unloaded while threads use it.
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
            ".quad 33f, {no}",
            ".popsection",
            symbol!("permit_give", "33", "44"),
            "lea {tmp}, [rip + 22b]",
            "mov qword ptr fs:[{area} + {descriptor}], {tmp}",
            "33:",
            delay!(0),
            "test dword ptr [{mode}], {bit}",
            "jz {no}",
            delay!(1),
            "mov {tmp:e}, dword ptr fs:[{area} + {cpu_id}]",
            "cmp {tmp}, {count}",
            "jae {no}",
            "shl {tmp}, {stride}",
            delay!(2),
            "mov {n:e}, dword ptr [{caches} + {tmp}]",
            "cmp {n:e}, {room:e}",
            "jae {no}",
            "inc {n:e}",
            delay!(3),
            "mov dword ptr [{caches} + {tmp}], {n:e}",
            "44:",
            ".pushsection __rseq_failure, \"ax\", @progbits",
            // What a disassembler takes for one instruction; its last four bytes are the signature.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "55:",
            "jmp {aborted}",
            ".popsection",
            area = in(reg) area,
            mode = in(reg) mode.as_ptr(),
            caches = in(reg) caches.as_ptr(),
            count = in(reg) caches.len(),
            room = in(reg) room,
            tmp = out(reg) _,
            n = out(reg) _,
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            bit = const GIVE,
            stride = const STRIDE,
            descriptor = const rseq::DESCRIPTOR,
            cpu_id = const rseq::CPU_ID,
            signature = const rseq::SIGNATURE,
            no = label { return false },
            aborted = label { return false },
            options(nostack),
        );
    }
    true
}
