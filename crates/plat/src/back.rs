//! Calls that come back after others have run on the same processor.
//!
//! A processor predicts where a `ret` goes from the calls that it has seen. A light thread that was switched to returns to its own callers,
//! but the predictions are of the thread before: each of those returns is mispredicted, at some ten nanoseconds each, which is more than
//! all the rest of a switch. Within the library both threads are in the same functions, so the predictions are right by chance; the return
//! into the program is the wrong one.
//!
//! So a function that mostly waits is called through a few instructions that return by an indirect jump, which the processor predicts by
//! where such jumps went lately: threads that take turns do so in the same order again and again.
//!
//! x86-64 only: on AArch64 this has not been measured, and is a plain call.

/// Defines a function of up to six words that calls another of that form and goes back by a jump. It may unwind.
#[macro_export]
macro_rules! back_by_jump {
    ($(#[$meta:meta])* $visible:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)? = $inner:path;) => {
        $(#[$meta])*
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        #[unsafe(naked)]
        #[allow(improper_ctypes_definitions, reason = "called by Rust alone")]
        $visible extern "C-unwind" fn $name($($arg: $kind),*) $(-> $result)? {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {inner}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_register rip, rcx",
                "jmp rcx",
                ".cfi_endproc",
                inner = sym $inner,
            )
        }
        $(#[$meta])*
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        #[inline(always)]
        #[allow(improper_ctypes_definitions, reason = "called by Rust alone")]
        $visible extern "C-unwind" fn $name($($arg: $kind),*) $(-> $result)? {
            $inner($($arg),*)
        }
    };
}
