//! Valgrind and the address sanitizer are told which memory is a stack.
//!
//! Otherwise valgrind takes a switch from one stack to another for a frame of gigabytes, and warns. A client request is
//! a sequence of instructions that does nothing on a processor, and that valgrind recognises (valgrind.h). Each stack
//! is registered once, when it is new.

use chappe_plat::sanitizer;
use std::ops::Range;

const REGISTER: usize = 0x1501;

/// This is a stack from now on.
pub(crate) fn is_stack(bytes: Range<usize>) {
    if !cfg!(miri) {
        request([REGISTER, bytes.start, bytes.end, 0, 0, 0]);
    }
    sanitizer::is_root(bytes);
}

/// This is none any more.
pub(crate) fn is_no_stack(bytes: Range<usize>) {
    sanitizer::is_no_root(bytes);
}

#[cfg(target_arch = "x86_64")]
fn request(what: [usize; 6]) {
    // SAFETY: as it stands above: registers are turned round and back, and one is exchanged with itself. Valgrind reads what `rax` leads to.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") what.as_ptr(),
            inout("rdx") 0usize => _,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn request(what: [usize; 6]) {
    // SAFETY: as above, of `x4`.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") what.as_ptr(),
            inout("x3") 0usize => _,
            options(nostack),
        );
    }
}
