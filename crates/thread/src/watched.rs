//! Valgrind is told which memory is a stack: else it takes a switch from one to another for a frame of gigabytes, and says so.
//!
//! A client request is a few instructions that do nothing on a processor, and that valgrind knows (valgrind.h). A thread's stack is made known once, when it is new.

use std::ops::Range;

const REGISTER: usize = 0x1501;

/// This is a stack from now on.
pub(crate) fn is_stack(bytes: Range<usize>) {
    request([REGISTER, bytes.start, bytes.end, 0, 0, 0]);
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
