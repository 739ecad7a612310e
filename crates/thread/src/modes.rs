//! Floating-point modes of a light thread's own (rounding, flush to zero, traps): for threads that ask for them, at no
//! cost to the others.
//!
//! The switch leaves the modes as they are. A thread that keeps its own has the bit MODES in its control word, which
//! the dispatcher reads anyway; so the proc notes, before it switches to such a thread, that the next landing has to
//! see to the modes. The note of the side that leaves a stack (`proc::landed`) says the same, in a bit beside those
//! that every landing looks at anyway.
//!
//! | leaves | comes | the landing |
//! |---|---|---|
//! | one of those that share | one with its own | keeps the shared modes with the proc, sets the thread's |
//! | one with its own | another with its own | keeps the first's, sets the second's |
//! | one with its own | one of those that share, or the kernel thread | keeps the thread's, sets the shared ones; the bit goes |
//!
//! - M1: while a thread with its own modes runs on a proc, the proc's note has the bit: so the landing after it looks.
//! - M2: a thread that is away (`block_in_place`) has its modes on its own kernel thread, and puts that one's back before it returns to its proc.

use std::cell::Cell;

/// What the processor has: of x86-64 MXCSR, and above it the control word of the x87; of AArch64 FPCR, and above it FPSR.
pub(crate) type Modes = u64;

/// Those that the processor has now.
#[cfg(target_arch = "x86_64")]
pub(crate) fn now() -> Modes {
    let (mut sse, mut x87) = (0u32, 0u16);
    // SAFETY: writes these two words.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut sse, in(reg) &raw mut x87, options(nostack, preserves_flags));
    }
    u64::from(sse) | u64::from(x87) << 32
}

/// The processor has these from now on.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set(modes: Modes) {
    /// An exception of the x87 that does not trap.
    const MASKS: u16 = 0x3f;
    let (sse, x87) = (modes as u32, (modes >> 32) as u16);
    if x87 & MASKS != MASKS {
        // What another thread has come by is not to trap here.
        // SAFETY: forgets exceptions of the x87.
        unsafe { std::arch::asm!("fnclex", options(nostack, nomem, preserves_flags)) };
    }
    // SAFETY: reads these two words, which the processor has had before.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const sse, in(reg) &raw const x87, options(nostack, preserves_flags));
    }
}

/// Those that the processor has now.
#[cfg(target_arch = "aarch64")]
pub(crate) fn now() -> Modes {
    let (control, status): (u64, u64);
    // SAFETY: reads two registers.
    unsafe {
        std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, nomem, preserves_flags));
    }
    control & u64::from(u32::MAX) | status << 32
}

/// The processor has these from now on.
#[cfg(target_arch = "aarch64")]
pub(crate) fn set(modes: Modes) {
    let (control, status) = (modes & u64::from(u32::MAX), modes >> 32);
    // SAFETY: the processor has had these before.
    unsafe {
        std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status, options(nostack, nomem, preserves_flags));
    }
}

/// From the modes of one to those of another; none: it has those that all share, which are at `shared` while it does not.
pub(crate) fn pass(from: Option<&Cell<Modes>>, to: Option<&Cell<Modes>>, shared: &Cell<Modes>) {
    match (from, to) {
        (None, None) => {}
        (from, to) => {
            from.unwrap_or(shared).set(now());
            set(to.unwrap_or(shared).get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modes that differ from those that a thread begins with, and trap nothing.
    fn others() -> [Modes; 2] {
        #[cfg(target_arch = "x86_64")]
        // Rounding down and flush to zero; the x87 in single precision, and rounding up.
        return [now() | 0x2000 | 0x8000, now() & !(0x300 << 32) | 0x800 << 32];
        #[cfg(target_arch = "aarch64")]
        return [now() | 1 << 24, now() | 2 << 22];
    }

    #[test]
    #[cfg_attr(miri, ignore = "instructions of the processor")]
    fn a_float_mode_stays_set_until_it_is_passed_on() {
        let before = now();
        let [first, second] = others();
        assert!(first != before && second != before && first != second);
        let (a, b, shared) = (Cell::new(first), Cell::new(second), Cell::new(0));
        pass(None, None, &shared);
        assert_eq!((now(), shared.get()), (before, 0));
        pass(None, Some(&a), &shared);
        assert_eq!((now(), shared.get()), (first, before));
        pass(Some(&a), Some(&b), &shared);
        assert_eq!((now(), a.get()), (second, first));
        set(first);
        pass(Some(&b), None, &shared);
        assert_eq!((now(), b.get()), (before, first));
    }
}
