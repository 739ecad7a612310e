//! How the function of a thread is called, and left from wherever it is: a jump back to the call, for which the C code need not have been
//! compiled in any special way. Nothing on the stack in between is run: there are only C's frames, and ours that own nothing.
//!
//! ```text
//!   call:   keep what a callee keeps -- where the stack is now, to `place` -- function(arg) -- what was kept, back -- return
//!   leave:  the stack to where `place` says -- into the last part of `call`
//! ```

use std::ffi::c_void;
use std::sync::OnceLock;

/// What a thread runs.
pub type Function = unsafe extern "C" fn(*mut c_void);

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_thread_call,\"ax\",@progbits",
    ".balign 16",
    ".hidden chappe_thread_call",
    ".globl chappe_thread_call",
    ".type chappe_thread_call, @function",
    "chappe_thread_call:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbp, 0",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 48",
    "mov [rdx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".cfi_endproc",
    ".size chappe_thread_call, . - chappe_thread_call",
    ".hidden chappe_thread_leave",
    ".globl chappe_thread_leave",
    ".type chappe_thread_leave, @function",
    "chappe_thread_leave:",
    "mov rsp, rdi",
    "jmp 2b",
    ".size chappe_thread_leave, . - chappe_thread_leave",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_thread_call,\"ax\",%progbits",
    ".balign 16",
    ".hidden chappe_thread_call",
    ".globl chappe_thread_call",
    ".type chappe_thread_call, @function",
    "chappe_thread_call:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-160]!",
    ".cfi_adjust_cfa_offset 160",
    ".cfi_rel_offset x29, 0",
    ".cfi_rel_offset x30, 8",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mov x9, sp",
    "str x9, [x2]",
    "mov x9, x0",
    "mov x0, x1",
    "blr x9",
    "2:",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #160",
    "ret",
    ".cfi_endproc",
    ".size chappe_thread_call, . - chappe_thread_call",
    ".hidden chappe_thread_leave",
    ".globl chappe_thread_leave",
    ".type chappe_thread_leave, @function",
    "chappe_thread_leave:",
    "mov sp, x0",
    "b 2b",
    ".size chappe_thread_leave, . - chappe_thread_leave",
    ".popsection",
);

// SAFETY: as they stand above.
unsafe extern "C" {
    fn chappe_thread_call(function: Function, arg: *mut c_void, place: *mut usize);
    fn chappe_thread_leave(place: usize) -> !;
}

/// Calls it; comes back when it returns, or when it is left.
///
/// # Safety
/// The function may be called with that; `place` stays for as long.
pub unsafe fn call(function: Function, arg: *mut c_void, place: *mut usize) {
    // SAFETY: the caller's promise.
    unsafe { chappe_thread_call(function, arg, place) }
}

/// Leaves the call that has written `place`.
///
/// # Safety
/// The caller is within that call, on its stack, and nothing in between is to be dropped.
pub unsafe fn leave(place: usize) -> ! {
    forget_frames(place);
    // SAFETY: the caller's promise.
    unsafe { chappe_thread_leave(place) }
}

/// The address sanitizer has marked what lies between the variables of the frames that are left, and is to forget that. Where there is none, nothing is
/// done.
fn forget_frames(place: usize) {
    type Forget = unsafe extern "C" fn(*const c_void, usize);
    static FORGET: OnceLock<Option<Forget>> = OnceLock::new();
    let forget = FORGET.get_or_init(|| {
        // SAFETY: it only answers.
        let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__asan_unpoison_memory_region".as_ptr()) };
        // SAFETY: the sanitizer's function of that name is one of these.
        (!at.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Forget>(at) })
    });
    if let Some(forget) = forget {
        let here = (&raw const place) as usize;
        // SAFETY: the part of our own stack that is left.
        unsafe { forget(here as *const c_void, place.saturating_sub(here)) };
    }
}
