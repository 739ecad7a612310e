//! Two neighbouring words that change together: CMPXCHG16B, and exclusive pairs on AArch64.
//!
//! This is as near as today's processors come to the 68020's CAS2 (synthesis, 5.1.3), whose two words might lie anywhere.
//!
//! Edges: a swap that succeeds acquires and releases both words; on x86-64 it is a full fence.

use super::atomic::{AtomicU64, Ordering};

/// Two words of 8 bytes, aligned to 16.
///
/// Each can be read alone as well. A reader that needs both at one moment uses [`Pair::load`].
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Pair {
    /// The first.
    pub low: AtomicU64,
    /// The second.
    pub high: AtomicU64,
}

impl Pair {
    /// A pair that holds these.
    pub const fn new(low: u64, high: u64) -> Pair {
        Pair { low: AtomicU64::new(low), high: AtomicU64::new(high) }
    }

    /// Writes both words if both are as expected. Wait-free on x86-64.
    ///
    /// # Errors
    /// What was there instead, both of one moment.
    #[inline(always)]
    pub fn compare_exchange(&self, current: [u64; 2], new: [u64; 2]) -> Result<(), [u64; 2]> {
        let was = self.exchange(current, new);
        if was == current { Ok(()) } else { Err(was) }
    }

    /// Both words at one moment. Needs the right to write: it is a swap of what is there for itself.
    #[inline(always)]
    pub fn load(&self) -> [u64; 2] {
        // Relaxed, both: a guess.
        let guess = [self.low.load(Ordering::Relaxed), self.high.load(Ordering::Relaxed)];
        self.exchange(guess, guess)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn exchange(&self, current: [u64; 2], new: [u64; 2]) -> [u64; 2] {
        let [mut low, mut high] = current;
        // SAFETY: sixteen aligned bytes that are only touched atomically. RBX, which LLVM keeps for itself, is put back. Every
        // x86-64 processor since 2006 has the instruction.
        unsafe {
            std::arch::asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b [rdi]",
                "mov rbx, rsi",
                in("rdi") std::ptr::from_ref(self),
                inout("rsi") new[0] => _,
                in("rcx") new[1],
                inout("rax") low,
                inout("rdx") high,
                options(nostack),
            );
        }
        [low, high]
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn exchange(&self, current: [u64; 2], new: [u64; 2]) -> [u64; 2] {
        let (low, high): (u64, u64);
        // SAFETY: sixteen aligned bytes that are only touched atomically. What was read is of one moment only if the store succeeds: so
        // something is stored in either case.
        unsafe {
            std::arch::asm!(
                "2:",
                "ldaxp {low}, {high}, [{at}]",
                "cmp {low}, {old_low}",
                "ccmp {high}, {old_high}, #0, eq",
                "csel {a}, {new_low}, {low}, eq",
                "csel {b}, {new_high}, {high}, eq",
                "stlxp {failed:w}, {a}, {b}, [{at}]",
                "cbnz {failed:w}, 2b",
                at = in(reg) std::ptr::from_ref(self),
                old_low = in(reg) current[0],
                old_high = in(reg) current[1],
                new_low = in(reg) new[0],
                new_high = in(reg) new[1],
                low = out(reg) low,
                high = out(reg) high,
                a = out(reg) _,
                b = out(reg) _,
                failed = out(reg) _,
                options(nostack),
            );
        }
        [low, high]
    }
}

const _: () = assert!(size_of::<Pair>() == 16 && align_of::<Pair>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_change_or_none() {
        let pair = Pair::new(1, 2);
        assert_eq!(pair.compare_exchange([1, 3], [7, 8]), Err([1, 2]));
        assert_eq!(pair.compare_exchange([0, 2], [7, 8]), Err([1, 2]));
        assert_eq!(pair.load(), [1, 2]);
        assert_eq!(pair.compare_exchange([1, 2], [u64::MAX, 1 << 63]), Ok(()));
        assert_eq!(pair.load(), [u64::MAX, 1 << 63]);
    }

    #[test]
    fn no_thread_sees_a_half() {
        let pair = Pair::new(0, 0);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..20_000 {
                        loop {
                            let [a, b] = pair.load();
                            assert_eq!(a, b.wrapping_mul(3));
                            if pair.compare_exchange([a, b], [a + 3, b + 1]).is_ok() {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(pair.load(), [120_000, 40_000]);
    }
}
