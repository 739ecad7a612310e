//! A few words of the calling thread, which are found without a call, in a program as in a shared library.
//!
//! In a program a `thread_local!` is one load away. In a shared library it is a call of `__tls_get_addr` away, since the compiler cannot
//! know whether the library was loaded before the thread began; and the first such call of a thread may allocate memory, which a signal
//! handler must not. These words lie in the thread's initial block, at a distance from its thread pointer that the linker (in a program) or
//! the loader (in a library) has written down: two loads at most, also in a thread that began before the library was loaded. A library that
//! has such words can be loaded late only while the C library has room left in those blocks (about a kilobyte and a half for all libraries
//! together, including their `thread_local!`s).
//!
//! A thread finds zeros at first; a forked child finds its parent thread's values. No destructor sees them: they are for hints, and for
//! values that are also kept elsewhere.

/// How many there are.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const WORDS: usize = 4;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .tbss.chappe_tls,\"awT\",@nobits",
    ".balign 32",
    ".hidden chappe_tls",
    ".globl chappe_tls",
    ".type chappe_tls, @object",
    ".size chappe_tls, 32",
    "chappe_tls:",
    ".zero 32",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .tbss.chappe_tls,\"awT\",%nobits",
    ".balign 32",
    ".hidden chappe_tls",
    ".globl chappe_tls",
    ".type chappe_tls, %object",
    ".size chappe_tls, 32",
    "chappe_tls:",
    ".zero 32",
    ".popsection",
);

/// Their distance from the thread pointer: one number for the whole process.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn distance() -> usize {
    let at: usize;
    // SAFETY: reads what the linker or the loader has written, and nobody changes.
    unsafe {
        std::arch::asm!(
            "mov {at}, qword ptr [rip + chappe_tls@GOTTPOFF]",
            at = out(reg) at,
            options(nostack, preserves_flags, pure, nomem)
        )
    };
    at
}

/// Word number `WORD` of the calling thread.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn get<const WORD: usize>() -> usize {
    const { assert!(WORD < WORDS) };
    let value: usize;
    // SAFETY: the thread's own, at this distance for as long as it lives.
    unsafe {
        std::arch::asm!(
            "mov {value}, qword ptr fs:[{at} + {word}]",
            value = lateout(reg) value,
            at = in(reg) distance(),
            word = const WORD * 8,
            options(nostack, preserves_flags, readonly)
        )
    };
    value
}

/// Sets it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn set<const WORD: usize>(value: usize) {
    const { assert!(WORD < WORDS) };
    // SAFETY: as in `get`.
    unsafe {
        std::arch::asm!(
            "mov qword ptr fs:[{at} + {word}], {value}",
            value = in(reg) value,
            at = in(reg) distance(),
            word = const WORD * 8,
            options(nostack, preserves_flags)
        )
    };
}

/// Where they are.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn words() -> *mut usize {
    let (at, pointer): (usize, usize);
    // SAFETY: reads what the linker or the loader has written, and a register; nobody changes them.
    unsafe {
        std::arch::asm!(
            "mrs {pointer}, tpidr_el0",
            "adrp {at}, :gottprel:chappe_tls",
            "ldr {at}, [{at}, :gottprel_lo12:chappe_tls]",
            at = out(reg) at,
            pointer = out(reg) pointer,
            options(nostack, preserves_flags, pure, nomem)
        )
    };
    pointer.wrapping_add(at) as *mut usize
}

/// Word number `WORD` of the calling thread.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn get<const WORD: usize>() -> usize {
    const { assert!(WORD < WORDS) };
    // SAFETY: the thread's own, for as long as it lives. Volatile: a signal handler may have changed it.
    unsafe { words().add(WORD).read_volatile() }
}

/// Sets it.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn set<const WORD: usize>(value: usize) {
    const { assert!(WORD < WORDS) };
    // SAFETY: as in `get`.
    unsafe { words().add(WORD).write_volatile(value) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere {
    use std::cell::Cell;

    const WORDS: usize = 4;

    thread_local! {
        static NEAR: [Cell<usize>; WORDS] = const { [const { Cell::new(0) }; WORDS] };
    }

    /// Word number `WORD` of the calling thread.
    #[inline(always)]
    pub fn get<const WORD: usize>() -> usize {
        const { assert!(WORD < WORDS) };
        NEAR.with(|words| words[WORD].get())
    }

    /// Sets it.
    #[inline(always)]
    pub fn set<const WORD: usize>(value: usize) {
        const { assert!(WORD < WORDS) };
        NEAR.with(|words| words[WORD].set(value));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use elsewhere::{get, set};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_and_zeros_at_first() {
        let all = || [get::<0>(), get::<1>(), get::<2>(), get::<3>()];
        let test = move || {
            assert_eq!(all(), [0; 4]);
            set::<0>(1);
            set::<1>(2);
            set::<2>(usize::MAX);
            set::<3>(4);
            std::thread::scope(|s| {
                s.spawn(|| {
                    assert_eq!(all(), [0; 4]);
                    set::<2>(5);
                    assert_eq!(all(), [0, 0, 5, 0]);
                });
            });
            assert_eq!(all(), [1, 2, usize::MAX, 4]);
        };
        std::thread::scope(|s| s.spawn(test).join().unwrap());
    }
}
