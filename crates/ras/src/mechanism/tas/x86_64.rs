//! The test-and-set for x86_64: the pseudo-code is in the head of `tas.rs`.

use super::outcome::Outcome;
use crate::delays::delay;
use chappe_plat::atomic::AtomicU32;
use chappe_plat::rseq::{CPU_ID, DESCRIPTOR, SIGNATURE};
use std::arch::{asm, global_asm};

#[inline(always)]
pub(super) fn test_and_set(area: isize, word: &AtomicU32) -> Outcome {
    // SAFETY: the area is the thread's, or one that nobody writes; the word is the only other thing that is touched. I1 of the
    // head: one store, the last instruction.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"awR\"",
            ".balign 32",
            "5: .long 0, 0",
            ".quad 2f, 3f - 2f, 4f",
            ".popsection",
            ".pushsection __rseq_cs_ptr_array, \"awR\"",
            ".quad 5b",
            ".popsection",
            ".pushsection __rseq_exit_point_array, \"awR\"",
            ".quad 2f, {again}",
            ".quad 2f, {set}",
            ".popsection",
            // A symbol of its own for each copy, so that debuggers and profilers can tell where one is.
            ".ifndef .Lchappe_ras_tas",
            ".set .Lchappe_ras_tas, 0",
            ".endif",
            ".set .Lchappe_ras_tas, .Lchappe_ras_tas + 1",
            ".altmacro",
            ".macro chappe_ras_symbol n",
            ".set chappe_ras_tas_\\n, 2f",
            ".type chappe_ras_tas_\\n, @function",
            ".size chappe_ras_tas_\\n, 3f - 2f",
            ".endm",
            "chappe_ras_symbol %.Lchappe_ras_tas",
            ".purgem chappe_ras_symbol",
            ".noaltmacro",
            "lea {t}, [rip + 5b]",
            "mov qword ptr fs:[{area} + {descriptor}], {t}",
            "2:",
            delay!(0),
            "cmp dword ptr fs:[{area} + {cpu}], 0",
            "jl {again}",
            delay!(1),
            "cmp dword ptr [{word}], 0",
            "jne {set}",
            delay!(2),
            "mov dword ptr [{word}], 1",
            "3:",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "4: jmp {again}",
            ".popsection",
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            t = out(reg) _,
            area = in(reg) area,
            word = in(reg) word.as_ptr(),
            cpu = const CPU_ID,
            descriptor = const DESCRIPTOR,
            signature = const SIGNATURE,
            again = label { return Outcome::Again },
            set = label { return Outcome::Set },
            options(nostack),
        )
    };
    Outcome::Clear
}

// The body for the wrapper: takes the word's address as the second argument, gives what it held: see the one for aarch64.
global_asm!(
    ".pushsection .text.chappe_ras_tas_body,\"ax\",@progbits",
    ".globl chappe_ras_tas_body",
    ".hidden chappe_ras_tas_body",
    ".type chappe_ras_tas_body, @function",
    ".balign 16",
    "chappe_ras_tas_body:",
    "mov eax, dword ptr [rsi]",
    "test eax, eax",
    "jne 2f",
    "mov dword ptr [rsi], 1",
    "2:",
    ".globl chappe_ras_tas_body_end",
    ".hidden chappe_ras_tas_body_end",
    "chappe_ras_tas_body_end:",
    "ret",
    ".size chappe_ras_tas_body, . - chappe_ras_tas_body",
    ".popsection",
);

// SAFETY: only where they lie is used.
unsafe extern "C" {
    static chappe_ras_tas_body: u8;
    static chappe_ras_tas_body_end: u8;
}

/// Where the body begins, and how long it is.
pub(super) fn body() -> (*const u8, usize) {
    let (from, to) = (&raw const chappe_ras_tas_body, &raw const chappe_ras_tas_body_end);
    (from, to as usize - from as usize)
}
