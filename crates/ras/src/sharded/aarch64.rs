//! The sections of [`super`] for aarch64.
//!
//! ```text
//! start:  mode lets us?     no -> false     E3: a load-acquire
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
    let area = rseq::thread_pointer().wrapping_add_signed(rseq::offset());
    // SAFETY: the calling thread's own area, or one that nobody writes.
    unsafe { take_at(area, mode, caches) }
}

/// As [`take`], by this area.
///
/// # Safety
/// There is an area.
#[inline(always)]
unsafe fn take_at(area: usize, mode: &AtomicU32, caches: &[Cache]) -> bool {
    // SAFETY: reads and writes what the arguments point to, within the slice, and the thread's own area. The descriptor is never
    // unmapped: it belongs to the program, or to a library that must not be unloaded while threads use it.
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
            ".quad 33f, {no}",
            ".popsection",
            symbol!("permit_take", "33", "44"),
            "adrp {tmp}, 22b",
            "add {tmp}, {tmp}, :lo12:22b",
            "str {tmp}, [{area}, #{descriptor}]",
            "33:",
            delay!(0),
            "ldar {n:w}, [{mode}]",
            "tst {n:w}, #{bit}",
            "b.eq {no}",
            delay!(1),
            "ldr {tmp:w}, [{area}, #{cpu_id}]",
            "cmp {tmp}, {count}",
            "b.hs {no}",
            "add {tmp}, {caches}, {tmp}, lsl #{stride}",
            delay!(2),
            "ldr {n:w}, [{tmp}]",
            "cbz {n:w}, {no}",
            "sub {n:w}, {n:w}, #1",
            delay!(3),
            "str {n:w}, [{tmp}]",
            "44:",
            ".pushsection __rseq_failure, \"ax\", %progbits",
            ".inst {signature}",
            "55:",
            "b {aborted}",
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
    let area = rseq::thread_pointer().wrapping_add_signed(rseq::offset());
    // SAFETY: the calling thread's own area, or one that nobody writes.
    unsafe { give_at(area, mode, caches, room) }
}

/// As [`give`], by this area.
///
/// # Safety
/// There is an area.
#[inline(always)]
unsafe fn give_at(area: usize, mode: &AtomicU32, caches: &[Cache], room: u32) -> bool {
    // SAFETY: reads and writes what the arguments point to, within the slice, and the thread's own area. The descriptor is never
    // unmapped: it belongs to the program, or to a library that must not be unloaded while threads use it.
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
            ".quad 33f, {no}",
            ".popsection",
            symbol!("permit_give", "33", "44"),
            "adrp {tmp}, 22b",
            "add {tmp}, {tmp}, :lo12:22b",
            "str {tmp}, [{area}, #{descriptor}]",
            "33:",
            delay!(0),
            "ldar {n:w}, [{mode}]",
            "tst {n:w}, #{bit}",
            "b.eq {no}",
            delay!(1),
            "ldr {tmp:w}, [{area}, #{cpu_id}]",
            "cmp {tmp}, {count}",
            "b.hs {no}",
            "add {tmp}, {caches}, {tmp}, lsl #{stride}",
            delay!(2),
            "ldr {n:w}, [{tmp}]",
            "cmp {n:w}, {room:w}",
            "b.hs {no}",
            "add {n:w}, {n:w}, #1",
            delay!(3),
            "str {n:w}, [{tmp}]",
            "44:",
            ".pushsection __rseq_failure, \"ax\", %progbits",
            ".inst {signature}",
            "55:",
            "b {aborted}",
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

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_plat::atomic::Ordering::SeqCst;

    /// An area that no kernel knows: what the instructions do when nothing comes between them.
    #[test]
    fn sections_take_and_give_in_this_processors_cache() {
        #[repr(C, align(32))]
        struct Area([AtomicU32; 8]);
        let area = Area([const { AtomicU32::new(0) }; 8]);
        let at = std::ptr::from_ref(&area) as usize;
        let set = |cpu: u32| area.0[rseq::CPU_ID / 4].store(cpu, SeqCst);
        let caches: Vec<Cache> = (0..3).map(|_| Cache(AtomicU32::new(0))).collect();
        let mode = AtomicU32::new(TAKE | GIVE);
        // SAFETY: an area, which lives.
        let take = || unsafe { take_at(at, &mode, &caches) };
        // SAFETY: as above.
        let give = || unsafe { give_at(at, &mode, &caches, 2) };
        set(1);
        assert_eq!([take(), give(), give(), give(), take()], [false, true, true, false, true]);
        let fills: Vec<u32> = caches.iter().map(|c| c.0.load(SeqCst)).collect();
        assert_eq!(fills, [0, 1, 0]);
        mode.store(TAKE, SeqCst);
        assert_eq!([give(), take(), take()], [false, true, false]);
        mode.store(8, SeqCst);
        caches[1].0.store(1, SeqCst);
        assert_eq!([give(), take()], [false, false]);
        mode.store(TAKE | GIVE, SeqCst);
        set(3);
        assert_eq!([give(), take()], [false, false]);
        set(u32::MAX);
        assert_eq!([give(), take()], [false, false]);
    }
}
