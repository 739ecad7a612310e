//! The switch from one stack to another: forty lines for each processor.
//!
//! The assembly declares all registers as clobbered, so the compiler saves those that are live and no others, mostly
//! two or three words. The registers that cannot be declared (the frame pointer, and one that the compiler reserves)
//! are pushed here. Floating-point modes (MXCSR, the x87 control word, FPCR) are left as they are: see `modes`.
//!
//! ```text
//!   a thread that is not running            a thread that has not begun
//!
//!   | what the compiler has saved |         | what it is to run          |  <- top of the stack
//!   | frame pointer, ...          |         | entry                      |
//!   | where to go on              |         | what entry is given        |
//!   +-----------------------------+ <- sp   | start                      |
//!                                           +----------------------------+ <- sp
//! ```
//!
//! `start` declares that it has no caller, so a backtrace ends there, and an unwinder stops.
//!
//! The two threads of a switch run on one kernel thread, one after the other: the switch needs no atomic operation. The
//! note passes in a register.

/// The function with which a new thread begins. Its arguments: the pointer that was put on its stack, its own address,
/// and its predecessor's note. It never returns.
pub(crate) type Entry = unsafe extern "C" fn(*mut (), *mut (), usize) -> !;

/// Prefetches the end of a stack that will be switched to soon. With tens of thousands of threads it is in no cache.
#[inline(always)]
pub(crate) fn expect(at: usize, lines: usize) {
    for line in 0..if cfg!(miri) { 0 } else { lines } {
        let at = at.wrapping_add(64 * line);
        // SAFETY: a hint: nothing is read, and no address is wrong.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!("prefetcht0 [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
    }
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_thread_start,\"ax\",@progbits",
    ".balign 16",
    ".hidden chappe_thread_start",
    ".globl chappe_thread_start",
    ".type chappe_thread_start, @function",
    "chappe_thread_start:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "pop rdi",
    "pop rsi",
    "xor ebp, ebp",
    "call rsi",
    "ud2",
    ".cfi_endproc",
    ".size chappe_thread_start, . - chappe_thread_start",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_thread_start,\"ax\",%progbits",
    ".balign 16",
    ".hidden chappe_thread_start",
    ".globl chappe_thread_start",
    ".type chappe_thread_start, %function",
    "chappe_thread_start:",
    ".cfi_startproc",
    ".cfi_undefined x30",
    "ldp x0, x1, [sp], #16",
    "mov x29, xzr",
    "mov x30, xzr",
    "blr x1",
    "brk #1",
    ".cfi_endproc",
    ".size chappe_thread_start, . - chappe_thread_start",
    ".popsection",
);

// SAFETY: as it stands above.
unsafe extern "C" {
    fn chappe_thread_start();
}

/// Prepares the stack of a thread that has not begun: answers its stack pointer.
///
/// # Safety
/// The memory below `top` is the thread's; `top` is aligned to 16.
pub(crate) unsafe fn prepare(top: *mut u8, entry: Entry, given: *mut ()) -> usize {
    let start = chappe_thread_start as *const () as usize;
    // SAFETY: the caller's promise.
    unsafe {
        let words = top.cast::<usize>();
        #[cfg(target_arch = "x86_64")]
        {
            // After `start` has popped the two the stack is aligned for a call.
            words.sub(3).write(entry as usize);
            words.sub(4).write(given as usize);
            words.sub(5).write(start);
            words.sub(5) as usize
        }
        #[cfg(target_arch = "aarch64")]
        {
            words.sub(1).write(entry as usize);
            words.sub(2).write(given as usize);
            words.sub(3).write(0);
            words.sub(4).write(start);
            words.sub(4) as usize
        }
    }
}

/// Leaves the calling thread's stack, stores its pointer at `from`, and goes on where the stack `to` was left, with
/// `note`. When a thread switches back, answers that thread's note. The note is in a register, so it costs no word of
/// memory.
///
/// # Safety `to` is the pointer of a stack that was left, or prepared, and that no other thread switches to. Afterwards
/// the caller may run on another kernel thread: references to thread-locals of the kernel thread may not be kept across
/// the call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut usize, to: usize, note: usize) -> usize {
    let told: usize;
    // SAFETY: the caller's promise; all registers are said to change.
    unsafe {
        std::arch::asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") from => _,
            inout("rsi") to => _,
            inout("rdx") note => told,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    told
}

/// The same.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut usize, to: usize, note: usize) -> usize {
    let told: usize;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "adr x9, 2f",
            "stp x19, x29, [sp, #-16]!",
            "stp x9, x30, [sp, #-16]!",
            "mov x10, sp",
            "str x10, [x0]",
            "mov sp, x1",
            "ldp x9, x30, [sp], #16",
            "br x9",
            "2:",
            "ldp x19, x29, [sp], #16",
            inout("x0") from => _,
            inout("x1") to => _,
            inout("x2") note => told,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
    told
}
