//! Two words that are changed as one, by an interlocked instruction: for a thread that cannot change them in a section.
//!
//! x86-64 has `cmpxchg16b` (all but its first processors), AArch64 a pair of exclusive accesses; both are lock-free, and a signal
//! handler may interrupt itself in them. Elsewhere, and in what is explored, a lock is held over two stores: there a
//! handler must not add to a pair that its own thread may be adding to.

use chappe_plat::atomic::{AtomicU32, AtomicU64};
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), feature = "sim"))]
use locked as machine;

/// Two counters in 16 bytes.
#[repr(C, align(16))]
#[derive(Default)]
pub(crate) struct Wide {
    words: [AtomicU64; 2],
    lock: AtomicU32,
}

impl Wide {
    /// Adds to both at once. Answers what they were before.
    pub fn add(&self, a: u64, b: u64) -> (u64, u64) {
        machine::add(self, a, b)
    }
}

#[cfg(all(target_arch = "x86_64", not(feature = "sim")))]
mod machine {
    use super::{Wide, locked};

    pub fn add(wide: &Wide, a: u64, b: u64) -> (u64, u64) {
        // Of one process all threads take the same way.
        if !std::arch::is_x86_feature_detected!("cmpxchg16b") {
            return locked::add(wide, a, b);
        }
        let (mut x, mut y) = (0, 0);
        loop {
            let (new_x, new_y) = (u64::wrapping_add(x, a), u64::wrapping_add(y, b));
            let (found_x, found_y);
            // SAFETY: 16 bytes, aligned, which all change in this way; the processor has the instruction. The compiler keeps rbx
            // for itself, and finds it as it was.
            unsafe {
                std::arch::asm!(
                    "xchg rbx, {new_x}",
                    "lock cmpxchg16b xmmword ptr [rdi]",
                    "mov rbx, {new_x}",
                    new_x = inout(reg) new_x => _,
                    in("rcx") new_y,
                    in("rdi") wide.words.as_ptr(),
                    inout("rax") x => found_x,
                    inout("rdx") y => found_y,
                    options(nostack),
                );
            }
            if (found_x, found_y) == (x, y) {
                return (x, y);
            }
            (x, y) = (found_x, found_y);
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(feature = "sim")))]
mod machine {
    use super::Wide;

    pub fn add(wide: &Wide, a: u64, b: u64) -> (u64, u64) {
        let (x, y): (u64, u64);
        // SAFETY: 16 bytes, aligned, which all change in this way.
        unsafe {
            std::arch::asm!(
                "2:",
                "ldaxp {x}, {y}, [{place}]",
                "add {t}, {x}, {a}",
                "add {u}, {y}, {b}",
                "stlxp {failed:w}, {t}, {u}, [{place}]",
                "cbnz {failed:w}, 2b",
                place = in(reg) wide.words.as_ptr(),
                a = in(reg) a,
                b = in(reg) b,
                x = out(reg) x,
                y = out(reg) y,
                t = out(reg) _,
                u = out(reg) _,
                failed = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
        (x, y)
    }
}

#[cfg(any(not(target_arch = "aarch64"), feature = "sim"))]
mod locked {
    use super::Wide;
    use chappe_plat::atomic::{Ordering, give_way};

    pub fn add(wide: &Wide, a: u64, b: u64) -> (u64, u64) {
        // Acquire: the words are the last holder's. Relaxed: not the caller's yet.
        while wide.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            give_way();
        }
        let [x, y] = &wide.words;
        // Relaxed, all: within the lock.
        let before = (x.load(Ordering::Relaxed), y.load(Ordering::Relaxed));
        x.store(before.0.wrapping_add(a), Ordering::Relaxed);
        y.store(before.1.wrapping_add(b), Ordering::Relaxed);
        // Release: the words, to the next holder.
        wide.lock.store(0, Ordering::Release);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Add = fn(&Wide, u64, u64) -> (u64, u64);

    #[test]
    fn no_add_is_lost_or_seen_by_half() {
        #[cfg(not(target_arch = "aarch64"))]
        let ways: [Add; 2] = [Wide::add, locked::add];
        #[cfg(target_arch = "aarch64")]
        let ways: [Add; 1] = [Wide::add];
        for add in ways {
            let wide = Wide::default();
            std::thread::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        for _ in 0..50_000 {
                            let (x, y) = add(&wide, 1, u64::MAX);
                            assert_eq!(x.wrapping_add(y), 0);
                        }
                    });
                }
            });
            assert_eq!(add(&wide, 0, 0), (150_000, 150_000_u64.wrapping_neg()));
        }
    }
}
