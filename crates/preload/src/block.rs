//! The place of this library's thread-local data.
//!
//! The compiler makes a shared library call `__tls_get_addr` for them. The C library's version reads a vector that it brings up to date in
//! the thread that asks first after a dlopen, and for a longer vector it calls the program's `malloc`: in a signal handler that posts, this
//! may interrupt that very code. But all of this library's data lie in the thread's initial block, since `chappe_plat::near` is there: so
//! each is as far from those words as the linker has placed it. This library has a `__tls_get_addr` of its own, which no other library
//! sees, and which uses that distance.
//!
//! On aarch64 the loader gives such data descriptors, which are static for a block that lies there: it calls no function.

// The argument: a module, always this one, and the distance from its block's beginning. Changes nothing but two registers.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl __tls_get_addr",
    ".hidden __tls_get_addr",
    ".type __tls_get_addr, @function",
    "__tls_get_addr:",
    "movq %fs:0, %rax",
    "addq chappe_tls@GOTTPOFF(%rip), %rax",
    "leaq chappe_tls@DTPOFF, %rcx",
    "subq %rcx, %rax",
    "addq 8(%rdi), %rax",
    "ret",
    ".size __tls_get_addr, . - __tls_get_addr",
    options(att_syntax)
);
