//! Atomic words whose every operation is a step.
//!
//! All operations are sequentially consistent, whatever ordering is asked for: this explorer is about interleaving,
//! death and sleep. A search may have store buffers, as x86 has them (`buffer.rs`); whatever else a weak memory does is
//! loom's business. `compare_exchange_weak` never fails without cause.
//! The types have the size, alignment and bytes of the standard ones.
//!
//! No operation is `#[inline]`. A step is hundreds of instructions, a call a few, and what is explored has words in thousands of places: with a
//! step of its own in each it took several times as long to build.

use crate::guarded::{self, Act};
use crate::trace::{CLOCK, Touch};
use crate::turn::{Mode, buffered, me, mode, saw, turn, turn_in_order, with};
use std::panic::Location;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::{self as real, Ordering::SeqCst};

macro_rules! word {
    ($name:ident, $real:ident, $int:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(real::$real);

        impl $name {
            /// A word that holds `value`.
            pub const fn new(value: $int) -> Self {
                Self(real::$real::new(value))
            }

            /// Where it lies.
            pub const fn as_ptr(&self) -> *mut $int {
                self.0.as_ptr()
            }

            /// The value, for its only owner.
            pub fn get_mut(&mut self) -> &mut $int {
                self.0.get_mut()
            }

            /// The value, for its last owner.
            pub fn into_inner(self) -> $int {
                self.0.into_inner()
            }

            /// The value, without a step: for invariants, checks and other onlookers.
            pub fn peek(&self) -> $int {
                self.0.load(SeqCst)
            }

            /// Writes, as part of another step.
            #[allow(dead_code, reason = "one of the three is written so")]
            pub(crate) fn set(&self, value: $int) {
                self.0.store(value, SeqCst);
            }

            fn at(&self) -> usize {
                self.0.as_ptr() as usize
            }

            /// Reads.
            #[track_caller]
            pub fn load(&self, _order: Ordering) -> $int {
                turn();
                let own = if buffered() { with(|e| e.forwarded(me(), self.at(), size_of::<$int>())) } else { None };
                let v = own.map_or_else(|| self.0.load(SeqCst), |v| v as $int);
                saw(self.at(), 20, Touch::Read, Location::caller(), |n| {
                    format!("{}: reads {}", n.of(self.at()), n.show(self.at(), v as u64))
                });
                v
            }

            /// Writes.
            #[track_caller]
            pub fn store(&self, value: $int, order: Ordering) {
                if !buffered() || order == SeqCst {
                    self.change("store", Location::caller(), |_| value);
                    return;
                }
                turn();
                let from = Location::caller();
                with(|e| e.store(me(), self.at(), size_of::<$int>(), value as u64, from));
                guarded::came(self.at(), value as u64);
                saw(0, 0, Touch::Write, Location::caller(), |n| {
                    format!("{}: store {}, which is on its way", n.of(self.at()), n.show(self.at(), value as u64))
                });
            }

            /// Writes, and answers what was there.
            #[track_caller]
            pub fn swap(&self, value: $int, _order: Ordering) -> $int {
                self.change("swap", Location::caller(), |_| value)
            }

            /// Writes `new` if `current` is there.
            ///
            /// # Errors
            /// What was there instead.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                _success: Ordering,
                _failure: Ordering,
            ) -> Result<$int, $int> {
                turn_in_order();
                let r = self.0.compare_exchange(current, new, SeqCst, SeqCst);
                guarded::touched(self.at(), if r.is_ok() { Act::Wrote } else { Act::Failed }, Location::caller());
                let (code, how) = if r.is_ok() { (21, Touch::Write) } else { (22, Touch::Read) };
                saw(self.at(), code, how, Location::caller(), |n| {
                    let show = |v: $int| n.show(self.at(), v as u64);
                    let (name, from, to) = (n.of(self.at()), show(current), show(new));
                    match r {
                        Ok(_) => format!("{name}: compare_exchange {from} -> {to}"),
                        Err(v) => format!("{name}: compare_exchange {from} -> {to} finds {}", show(v)),
                    }
                });
                r
            }

            /// As [`Self::compare_exchange`].
            ///
            /// # Errors
            /// What was there instead.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Adds, wrapping.
            #[track_caller]
            pub fn fetch_add(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_add", Location::caller(), |old| old.wrapping_add(value))
            }

            /// Subtracts, wrapping.
            #[track_caller]
            pub fn fetch_sub(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_sub", Location::caller(), |old| old.wrapping_sub(value))
            }

            /// Bitwise and.
            #[track_caller]
            pub fn fetch_and(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_and", Location::caller(), |old| old & value)
            }

            /// Bitwise or.
            #[track_caller]
            pub fn fetch_or(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_or", Location::caller(), |old| old | value)
            }

            /// Bitwise exclusive or.
            #[track_caller]
            pub fn fetch_xor(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_xor", Location::caller(), |old| old ^ value)
            }

            /// The larger one.
            #[track_caller]
            pub fn fetch_max(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_max", Location::caller(), |old| old.max(value))
            }

            /// The smaller one.
            #[track_caller]
            pub fn fetch_min(&self, value: $int, _order: Ordering) -> $int {
                self.change("fetch_min", Location::caller(), |old| old.min(value))
            }

            #[inline]
            fn change(&self, what: &str, at: &'static Location<'static>, f: impl FnOnce($int) -> $int) -> $int {
                turn_in_order();
                let old = self.0.load(SeqCst);
                let new = f(old);
                self.0.store(new, SeqCst);
                self.changed(what, at, old, new);
                old
            }

            fn changed(&self, what: &str, at: &'static Location<'static>, old: $int, new: $int) {
                guarded::touched(self.at(), Act::Wrote, at);
                saw(self.at(), 23, Touch::Write, at, |n| {
                    let show = |v: $int| n.show(self.at(), v as u64);
                    format!("{}: {what} {} -> {}", n.of(self.at()), show(old), show(new))
                });
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.peek().fmt(f)
            }
        }

        impl crate::world::Word for $name {
            fn place(&self) -> usize {
                self.at()
            }
        }
    };
}

word!(AtomicI32, AtomicI32, i32, "A 32-bit word with a sign; [`unsigned`] is what a futex watches.");
word!(AtomicU32, AtomicU32, u32, "A 32-bit word, which a futex can watch.");
word!(AtomicU64, AtomicU64, u64, "A 64-bit word.");

/// A fence: nothing to do where all is sequentially consistent. With store buffers, the thread's own is emptied by a
/// sequentially consistent one.
#[track_caller]
pub fn fence(order: Ordering) {
    if buffered() && order == SeqCst {
        turn_in_order();
        saw(0, 0, Touch::Read, Location::caller(), |_| "fences".to_owned());
    }
}

/// The asymmetric fence: a step after which all stores of all threads are visible.
#[track_caller]
pub fn fence_others() {
    turn_in_order();
    if mode() == Mode::Fibre {
        with(|e| (0..e.processes.len()).for_each(|p| e.drain_process(p)));
    }
    saw(0, 0, Touch::Read, Location::caller(), |_| "fences for others".to_owned());
}

/// The half of a 64-bit word that a futex can watch: its low 32 bits.
#[inline]
pub fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: an AtomicU64 is eight aligned bytes; on a little-endian machine the first four are its low half,
    // aligned for an AtomicU32, and live as long. Only one thread of the system touches them.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
}

/// A word with a sign, as a futex sees it: its bits.
#[inline]
pub fn unsigned(word: &AtomicI32) -> &AtomicU32 {
    // SAFETY: both are four aligned bytes of which every pattern is valid. Only one thread of the system touches them.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
}

/// As [`pause`].
pub fn give_way() {
    pause();
}

/// Gives way: the thread goes on only after another thread's step, if any can make one. When all runnable threads do nothing else, the
/// virtual clock runs on by itself.
#[track_caller]
pub fn pause() {
    if mode() != Mode::Fibre {
        return;
    }
    with(|e| e.give_way(me()));
    turn();
    saw(CLOCK, 24, Touch::Read, Location::caller(), |_| "spins".to_owned());
}

const _: () = {
    assert!(size_of::<AtomicI32>() == 4 && align_of::<AtomicI32>() == 4);
    assert!(size_of::<AtomicU32>() == 4 && align_of::<AtomicU32>() == 4);
    assert!(size_of::<AtomicU64>() == 8 && align_of::<AtomicU64>() == 8);
};
