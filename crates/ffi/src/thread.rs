//! Which thread it is: permits and locks belong to the one that took them, and C hands them on without a word.
//!
//! It is told by its thread pointer, which is what pthread_self(3) answers with glibc and musl, read from its register without a call:
//! a lock asks twice, in a few nanoseconds.

/// The calling thread, among those that live; never 0. A thread that began later may have the number of one that has ended, whose
/// permits and locks are nobody's by then; a forked child's has that of the thread that forked.
#[inline(always)]
pub fn here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let here: usize;
        // SAFETY: the first word of a thread's control block is its own address; nothing is changed.
        unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) here, options(pure, readonly, nostack, preserves_flags)) };
        here
    }
    #[cfg(target_arch = "aarch64")]
    {
        let here: usize;
        // SAFETY: a register that every program may read; nothing is changed.
        unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) here, options(pure, nomem, nostack, preserves_flags)) };
        here
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        // SAFETY: it only answers.
        unsafe { libc::pthread_self() as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::here;

    #[test]
    fn each_living_thread_has_its_own() {
        let mine = here();
        assert!(mine != 0 && mine == here());
        std::thread::scope(|s| assert_ne!(s.spawn(here).join().unwrap(), mine));
    }
}
