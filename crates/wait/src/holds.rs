//! What a thread says of the locks that are biased to it: one word, its hold, for each object of an arena. Invariants: those of the bias.

use chappe_arena::Map;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::{dir, fence};

/// One in so many acquisitions is a sample. The number is odd: else a thread that takes two locks in turn would never sample one of them.
pub const EVERY: u32 = 17;

/// Whether the environment allows biased locks: `CHAPPE_BIAS=off` forbids them. Read once, without a lock: a
/// signal handler may ask, or a forked child.
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[inline]
pub fn biases() -> bool {
    const ON: u32 = 1;
    const OFF: u32 = 2;
    static SWITCH: AtomicU32 = AtomicU32::new(0);
    // Relaxed: every reader finds the same.
    match SWITCH.load(Ordering::Relaxed) {
        ON => true,
        OFF => false,
        _ => {
            let on = std::env::var_os("CHAPPE_BIAS").is_none_or(|v| v != "off");
            SWITCH.store(if on { ON } else { OFF }, Ordering::Relaxed); // Relaxed: as above.
            on
        }
    }
}

/// The explorer has no environment.
#[cfg(any(feature = "sim", feature = "loom"))]
#[inline]
pub fn biases() -> bool {
    true
}

/// What a thread says of one lock. Only that thread writes it.
#[repr(C)]
pub struct Hold {
    /// INSIDE or OUTSIDE.
    pub inside: AtomicU32,
    /// How many times the owner has entered by this bias.
    pub entered: AtomicU32,
    /// `the epoch:32 | the owner's generation:32`, of its last bias.
    pub owner: AtomicU64,
}

/// A thread's holds in one private arena: the address of the first of as many as there can be objects. Null: the thread gets no bias.
#[derive(Clone, Copy, Debug)]
pub struct Holds(pub *const Hold);

// SAFETY: an address of atomic words that are never unmapped; only their thread is told to use them.
unsafe impl Send for Holds {}
// SAFETY: as above.
unsafe impl Sync for Holds {}

impl Holds {
    pub const NONE: Holds = Holds(std::ptr::null());

    /// Whether there are none.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// The holds of a member that is the calling thread. They stay with its slot, for the next occupant.
    #[inline]
    pub fn of(map: &Map, member: u32) -> Holds {
        // Without the fence, or with the bias switched off, no holds are needed. The fence is not looked for in vain: where the process has
        // several threads, the kernel registers it after a grace period only (10 to 70 ms; 20 s were seen while a processor stood still).
        if !map.is_private() || !biases() {
            return Holds::NONE;
        }
        fence::prepare();
        if !fence::is_asymmetric() {
            return Holds::NONE;
        }
        let its = &map.member(member).holds;
        // Relaxed, both: the occupant's own.
        let known = its.load(Ordering::Relaxed);
        if known != 0 {
            return Holds(known as *const Hold);
        }
        let Ok(base) = dir::map_private(map.geometry().objects as usize * size_of::<Hold>()) else {
            return Holds::NONE;
        };
        its.store(base as u64, Ordering::Relaxed); // Relaxed: as above.
        Holds(base.cast::<Hold>().cast_const())
    }

    /// The holds of a member that has been granted a bias.
    #[inline(always)]
    pub fn known(map: &Map, member: u32) -> Holds {
        // Relaxed: written before the first grant.
        Holds(map.member(member).holds.load(Ordering::Relaxed) as *const Hold)
    }

    /// # Safety
    /// The holds are the calling thread's, in the arena of `object`, and not null.
    #[inline(always)]
    pub unsafe fn at(&self, object: u32) -> &Hold {
        // SAFETY: mapped for so many, and never unmapped; zeros are valid words.
        unsafe { &*self.0.add(object as usize) }
    }
}
