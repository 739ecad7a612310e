//! A fence between threads of this process that costs only one side.
//!
//! Of two threads that each store, then load what the other stores, at least one must see the other's store. With a full
//! fence in each that costs 5 ns each time. Here the frequent side has none that the processor knows of, and the rare side
//! has the kernel interrupt whoever runs (membarrier, private expedited: 0.2 to 2 us). Where the kernel does not offer
//! that, both have full ones, by themselves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

const REGISTER: libc::c_int = 1 << 4;
const EXPEDITED: libc::c_int = 1 << 3;

static PREPARED: OnceLock<()> = OnceLock::new();
/// Both sides are to fence. Never changes once it was prepared.
static BOTH: AtomicBool = AtomicBool::new(true);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: reads no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Finds out what there is, once a process. Whoever uses the two fences has called it before there was anything to share. A
/// forked child keeps what it has found; after exec it is another program.
pub fn prepare() {
    PREPARED.get_or_init(|| {
        // Relaxed: published by the cell.
        BOTH.store(!membarrier(REGISTER) || !membarrier(EXPEDITED), Ordering::Relaxed);
    });
}

/// The frequent side.
#[inline(always)]
pub fn light() {
    // Relaxed: see `BOTH`. SeqCst, both fences: between our store and our load.
    if BOTH.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
}

/// The rare side.
///
/// # Panics
/// If the kernel had what is needed, and refuses it now: a filter must be installed before the first tube is made.
pub fn heavy() {
    // SeqCst: as in `light`, for this thread.
    fence(Ordering::SeqCst);
    // Relaxed: see `BOTH`.
    if !BOTH.load(Ordering::Relaxed) {
        assert!(
            membarrier(EXPEDITED),
            "the kernel no longer allows membarrier: was a filter installed after the first tube was made?"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// On a line of its own: a store to it takes its time.
    #[derive(Default)]
    #[repr(align(128))]
    struct Line(AtomicU32);

    /// Two threads, each of which stores and then loads: never do both miss the other.
    #[test]
    fn of_two_who_store_and_look_one_sees_the_other() {
        const ROUNDS: u32 = 6_000;
        prepare();
        let words: [Line; 3] = Default::default();
        let [mine, its, round] = &words;
        let missed = std::thread::scope(|s| {
            let frequent = s.spawn(move || {
                let meet = |n| {
                    // Acquire: the next round.
                    while round.0.load(Ordering::Acquire) < n {
                        std::hint::spin_loop();
                    }
                    its.0.store(n, Ordering::Relaxed); // Relaxed: the fences are what is tried.
                    light();
                    mine.0.load(Ordering::Relaxed) >= n // Relaxed: as above.
                };
                (1..=ROUNDS).map(meet).collect::<Vec<_>>()
            });
            let meet = |n| {
                // Release: as above.
                round.0.store(n, Ordering::Release);
                // Not always before the other is there.
                (0..n % 64).for_each(|_| std::hint::spin_loop());
                mine.0.store(n, Ordering::Relaxed); // Relaxed: as above.
                heavy();
                let seen = its.0.load(Ordering::Relaxed) >= n; // Relaxed: as above.
                while its.0.load(Ordering::Relaxed) < n {
                    // Relaxed: for the next round.
                    std::thread::yield_now();
                }
                seen
            };
            let seen: Vec<_> = (1..=ROUNDS).map(meet).collect();
            let others = frequent.join().expect("the other thread");
            seen.iter().zip(others).filter(|(one, other)| !**one && !other).count()
        });
        assert_eq!(missed, 0);
    }
}
