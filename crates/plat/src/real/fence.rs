//! A fence between threads that costs only one side: of this process here, of several processes in [`process_shared`].
//!
//! Of two threads that each store, then load what the other stores, at least one must see the other's store. With a full fence in each that
//! costs 5 ns each time. Here the frequent side has none that the processor knows of, and the rare side makes the kernel interrupt the
//! running threads (membarrier, private expedited: 0.2 to 2 us). Where the kernel does not offer that, both sides automatically have full
//! fences.
//!
//! Across processes (global expedited) the kernel interrupts those that have registered, and no others, and does not report it. So the
//! frequent side announces where both can see it, before anything depends on it, that it goes without fences; and a rare side whose process
//! may not ask the kernel has to look now and then.

use super::topology;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

const GLOBAL: libc::c_int = 1 << 1;
const REGISTER_GLOBAL: libc::c_int = 1 << 2;
const EXPEDITED: libc::c_int = 1 << 3;
const REGISTER: libc::c_int = 1 << 4;

/// Not yet determined.
const UNKNOWN: u8 = 0;
/// Both sides are to fence.
const BOTH: u8 = 1;
/// The rare side fences for both.
const ONE: u8 = 2;

/// What there is. The first answer stays, since both sides must go by the same one.
static FENCES: AtomicU8 = AtomicU8::new(UNKNOWN);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: reads no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Finds out what there is. A thread that uses one of the two fences has called it before there was anything to share. A
/// forked child keeps what was found, and the registration; after exec it is another program.
///
/// Without a lock: a child that was forked while another thread registered finds out by itself (see `forks`). Several threads that come
/// at once all register, which is the same as once.
#[inline]
pub fn prepare() {
    // Acquire: behind the registration.
    if FENCES.load(Ordering::Acquire) == UNKNOWN {
        find_out();
    }
}

#[cold]
fn find_out() {
    let found = if membarrier(REGISTER) && membarrier(EXPEDITED) { ONE } else { BOTH };
    // AcqRel: the registration comes before. Acquire: another thread's registration.
    let _ = FENCES.compare_exchange(UNKNOWN, found, Ordering::AcqRel, Ordering::Acquire);
}

/// Whether the frequent side has none that the processor knows of. After [`prepare`].
#[inline(always)]
pub fn is_asymmetric() -> bool {
    // Relaxed: it has not changed since `prepare`.
    FENCES.load(Ordering::Relaxed) == ONE
}

/// The frequent side.
#[inline(always)]
pub fn light() {
    // Relaxed: as in `is_asymmetric`. SeqCst, both fences: between the caller's store and its load.
    if is_asymmetric() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The frequent side, where [`is_asymmetric`] was found true before: none that the processor knows of.
#[inline(always)]
pub fn light_alone() {
    // SeqCst: as in `light`.
    compiler_fence(Ordering::SeqCst);
}

/// The rare side. If the kernel had what is needed and refuses it now, to this thread (a filter was installed), the thread visits all
/// processors instead, which takes some 20 us for each. False: that was refused as well. Then the caller cannot know what the other side
/// has stored just now.
#[must_use]
pub fn try_heavy() -> bool {
    // SeqCst: as in `light`, for this thread.
    fence(Ordering::SeqCst);
    !is_asymmetric() || membarrier(EXPEDITED) || go_round()
}

/// Runs on each processor on which a thread of this process can run. The thread that was running there has been interrupted, and is ordered
/// by that, as by a fence. (All threads of a process have the same processors to choose from, except in control groups of single threads.)
#[cold]
fn go_round() -> bool {
    let Ok(before) = topology::allowed() else { return false };
    // A processor that is not there, or not ours, is refused.
    let visited = (0..topology::possible() as u32).filter(|cpu| topology::allow(&[*cpu]).is_ok()).count();
    topology::allow(&before).is_ok() && visited >= before.len()
}

/// The rare side.
///
/// # Panics
/// Where [`try_heavy`] says false: a filter that refuses so much must be installed before the first tube, private mutex or
/// private pool of one permit is made.
pub fn heavy() {
    assert!(
        try_heavy(),
        "the kernel no longer allows membarrier, nor sched_setaffinity: was a filter installed after the first tube, mutex or pool was made?"
    );
}

/// Between processes.
pub mod process_shared {
    use super::{GLOBAL, Ordering, REGISTER_GLOBAL, compiler_fence, fence, membarrier};

    /// Whether there is such a fence, and this thread may ask for it.
    pub fn is_possible() -> bool {
        membarrier(GLOBAL)
    }

    /// Registers this process as one that goes without fences. False: it cannot, and must use them. A forked child is registered if its
    /// parent was; after exec the process is not.
    pub fn register() -> bool {
        membarrier(REGISTER_GLOBAL)
    }

    /// The frequent side; `plain` if this process is registered, and has said that it goes without.
    #[inline(always)]
    pub fn light(plain: bool) {
        // SeqCst, both: between the caller's store and its load.
        if plain {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The rare side, where the frequent one goes without. False: this thread may not ask for it (filters are a thread's). Then it
    /// cannot know what the other side has stored just now.
    #[must_use]
    pub fn try_heavy() -> bool {
        // SeqCst: as in `light`, for this thread.
        fence(Ordering::SeqCst);
        membarrier(GLOBAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    const ROUNDS: usize = 6_000;

    /// On a line of its own: a store to it takes its time.
    #[repr(align(128))]
    struct Line(AtomicU32);

    /// What two have in common. Zeros are one.
    struct Common {
        mine: Line,
        its: Line,
        round: Line,
        /// Of each round: whether the frequent side saw the other's store.
        seen: [AtomicBool; ROUNDS],
    }

    fn common() -> &'static Common {
        let (len, both) = (size_of::<Common>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, larger than a page's rest is no matter; it stays.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, both, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: just mapped, zeroed, aligned to a page.
        unsafe { &*at.cast::<Common>() }
    }

    impl Common {
        fn frequent(&self, light: impl Fn()) {
            for (at, seen) in self.seen.iter().enumerate() {
                let n = at as u32 + 1;
                // Acquire: the next round.
                while self.round.0.load(Ordering::Acquire) < n {
                    std::hint::spin_loop();
                }
                self.its.0.store(n, Ordering::Relaxed); // Relaxed: the fences are what is tried.
                light();
                seen.store(self.mine.0.load(Ordering::Relaxed) >= n, Ordering::Relaxed);
            }
        }

        /// Answers which rounds' stores of the other side it saw.
        fn rare(&self, heavy: impl Fn()) -> Vec<bool> {
            let meet = |n| {
                // Release: as above.
                self.round.0.store(n, Ordering::Release);
                // Not always before the other is there.
                (0..n % 64).for_each(|_| std::hint::spin_loop());
                self.mine.0.store(n, Ordering::Relaxed); // Relaxed: as above.
                heavy();
                let seen = self.its.0.load(Ordering::Relaxed) >= n; // Relaxed: as above.
                while self.its.0.load(Ordering::Relaxed) < n {
                    // Relaxed: for the next round.
                    std::thread::yield_now();
                }
                seen
            };
            (1..=ROUNDS as u32).map(meet).collect()
        }

        /// In how many rounds neither saw the other's.
        fn missed(&self, seen: &[bool]) -> usize {
            // Relaxed: the other side has ended.
            self.seen.iter().zip(seen).filter(|(its, mine)| !its.load(Ordering::Relaxed) && !**mine).count()
        }
    }

    /// Two threads, each of which stores and then loads: never do both miss the other.
    #[test]
    #[ignore = "storm: threads that race for seconds"]
    fn of_two_who_store_and_look_one_sees_the_other() {
        prepare();
        let common = common();
        let seen = std::thread::scope(|s| {
            s.spawn(|| common.frequent(light));
            common.rare(heavy)
        });
        assert_eq!(common.missed(&seen), 0);
    }

    /// The same of two processes.
    #[test]
    #[ignore = "storm: processes that race for seconds"]
    fn of_two_processes_one_sees_the_other() {
        let common = common();
        // SAFETY: the child touches nothing but the mapping, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let plain = process_shared::register();
            common.frequent(|| process_shared::light(plain));
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!plain)) };
        }
        let seen = common.rare(|| _ = process_shared::try_heavy());
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(common.missed(&seen), 0);
        assert_eq!(status == 0, process_shared::is_possible(), "who is able to ask can be registered");
    }
}
