//! The wrapper's machine code for x86_64: the pseudo-code is in the head of `synthesis.rs`.
//!
//! The body may use every register but r10 and r11, and finds the flags undefined.

use chappe_plat::code::DISTANCE;
use chappe_plat::rseq::{CPU_ID, DESCRIPTOR, SIGNATURE};

std::arch::global_asm!(
    ".pushsection .rodata.chappe_ras_head,\"a\",@progbits",
    ".macro chappe_ras_mark name",
    ".globl \\name",
    ".hidden \\name",
    "\\name:",
    ".endm",
    ".balign 64",
    "chappe_ras_mark chappe_ras_head",
    ".long 0, 0",
    "chappe_ras_mark chappe_ras_head_start",
    ".quad 0",
    "chappe_ras_mark chappe_ras_head_length",
    ".quad 0",
    "chappe_ras_mark chappe_ras_head_stub",
    ".quad 0",
    "chappe_ras_mark chappe_ras_head_area",
    ".quad 0",
    "chappe_ras_mark chappe_ras_head_enter",
    ".quad 0",
    // A thread without an area: a purged sequence needs none.
    "2: test r11, r11",
    "jz 3f",
    "call qword ptr [rip + chappe_ras_head_enter]",
    "jmp 1f",
    // Never executed: an instruction that traps, whose operand is the signature.
    ".byte 0x0f, 0xb9, 0x3d",
    ".long {signature}",
    "chappe_ras_mark chappe_ras_head_abort",
    "lock inc qword ptr [rip + chappe_ras_head - {distance} + 8]",
    "jmp 1f",
    ".balign 32",
    "chappe_ras_mark chappe_ras_head_entry",
    "1: mov r10, qword ptr [rip + chappe_ras_head_area]",
    "mov r11, qword ptr [rip + chappe_ras_head - {distance}]",
    "cmp dword ptr fs:[r10 + {cpu}], 0",
    "jl 2b",
    "3: mov qword ptr fs:[r10 + {descriptor}], r11",
    "chappe_ras_mark chappe_ras_head_end",
    "chappe_ras_mark chappe_ras_tail",
    "ret",
    "chappe_ras_mark chappe_ras_tail_end",
    ".purgem chappe_ras_mark",
    ".popsection",
    signature = const SIGNATURE,
    distance = const DISTANCE,
    cpu = const CPU_ID,
    descriptor = const DESCRIPTOR,
);

/// Calls [`super::entered::entered`] and leaves every register as it was, but r10, r11 and what vector registers have beyond 128
/// bits. The wrapper calls it before anything of the body has run: below the stack pointer there is nothing.
#[unsafe(naked)]
pub extern "C" fn enter() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "sub rsp, 512",
        "and rsp, -64",
        "fxsave64 [rsp]",
        "cld",
        "call {entered}",
        "fxrstor64 [rsp]",
        "lea rsp, [rbp - 56]",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "pop rbp",
        "ret",
        entered = sym super::entered::entered,
    )
}
