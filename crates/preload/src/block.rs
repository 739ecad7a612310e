//! Where this library's thread-local data lie.
//!
//! The compiler has a shared library ask `__tls_get_addr` for them. The C library's answers out of a vector that it brings up to date in
//! whatever thread asks first after a dlopen, and for a longer one it asks the program's `malloc`: in a signal handler that posts, with the
//! code that it has interrupted perhaps in the midst of it. But all of this library's data lie in the thread's initial block, since
//! `chappe_plat::near` is there: so each is as far from those words as the linker has laid it. This library has a `__tls_get_addr` of its
//! own, which no other sees, and which is told so much.
//!
//! On aarch64 the loader gives such data descriptors, which are static ones for a block that lies so: there it is asked nothing.

// The argument: a module, always this one, and the distance from its block's beginning. Changes nothing but two registers.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl __tls_get_addr",
    ".hidden __tls_get_addr",
    ".type __tls_get_addr, @function",
    "__tls_get_addr:",
    "movq %fs:0, %rax",
    "addq chappe_near@GOTTPOFF(%rip), %rax",
    "leaq chappe_near@DTPOFF, %rcx",
    "subq %rcx, %rax",
    "addq 8(%rdi), %rax",
    "ret",
    ".size __tls_get_addr, . - __tls_get_addr",
    options(att_syntax)
);
