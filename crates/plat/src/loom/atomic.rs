//! The shipping build's words, as large as they are there; while a model runs, loom keeps what they hold.

use super::explore::{self, Word, in_order};
pub use std::sync::atomic::Ordering;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $value:ty, $variant:ident, $whole:expr) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// A word that holds `value`.
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// Where it lies.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            /// One operation: on the memory itself while the scene is set up, then on what stands for it in loom.
            fn act<R>(
                &self,
                order: Ordering,
                stores: bool,
                set_up: impl FnOnce(&std::sync::atomic::$name) -> R,
                live: impl FnOnce(&loom::sync::atomic::$name, Ordering) -> R,
            ) -> R {
                let at = self.as_ptr() as usize;
                match explore::word(at, $whole) {
                    None => set_up(&self.0),
                    Some(word) => in_order(order, stores, |order| match &*word {
                        Word::$variant(w) => live(w, order),
                        _ => unreachable!("a word of two sizes at {at:x}"),
                    }),
                }
            }

            /// As the processor's.
            pub fn load(&self, order: Ordering) -> $value {
                self.act(order, false, |w| w.load(order), |w, o| w.load(explore::of_load(o)))
            }
            /// As the processor's.
            pub fn store(&self, value: $value, order: Ordering) {
                self.act(order, true, |w| w.store(value, order), |w, o| w.store(value, explore::of_store(o)));
            }
            /// As the processor's.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.act(order, true, |w| w.swap(value, order), |w, o| w.swap(value, o))
            }
            /// As the processor's.
            ///
            /// # Errors
            /// What the word holds instead.
            pub fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                order: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.act(
                    order,
                    true,
                    |w| w.compare_exchange(from, to, order, failure),
                    |w, o| w.compare_exchange(from, to, o, explore::of_load(failure)),
                )
            }
            /// As the processor's.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.act(order, true, |w| w.fetch_add(value, order), |w, o| w.fetch_add(value, o))
            }
            /// As the processor's.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value.wrapping_neg(), order)
            }
            /// As the processor's.
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.act(order, true, |w| w.fetch_and(value, order), |w, o| w.fetch_and(value, o))
            }
            /// As the processor's.
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.act(order, true, |w| w.fetch_or(value, order), |w, o| w.fetch_or(value, o))
            }
            /// As the processor's.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.act(order, true, |w| w.fetch_max(value, order), |w, o| w.fetch_max(value, o))
            }
            /// As the processor's.
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                self.act(order, true, |w| w.fetch_min(value, order), |w, o| w.fetch_min(value, o))
            }
        }
    };
}

word!(
    /// A word of 32 bits.
    AtomicU32, u32, Half, false
);
word!(
    /// A word of 64 bits.
    AtomicU64, u64, Whole, true
);

/// A word of 32 bits with a sign. To loom it is the other: one word must not have two.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct AtomicI32(AtomicU32);

impl AtomicI32 {
    /// A word that holds `value`.
    pub const fn new(value: i32) -> Self {
        Self(AtomicU32::new(value as u32))
    }
    /// Where it lies.
    pub const fn as_ptr(&self) -> *mut i32 {
        self.0.as_ptr().cast()
    }
    /// What it held in the end.
    pub fn into_inner(self) -> i32 {
        self.0.0.into_inner() as i32
    }
    /// As the processor's.
    pub fn load(&self, order: Ordering) -> i32 {
        self.0.load(order) as i32
    }
    /// As the processor's.
    pub fn store(&self, value: i32, order: Ordering) {
        self.0.store(value as u32, order);
    }
    /// As the processor's.
    ///
    /// # Errors
    /// What the word holds instead.
    pub fn compare_exchange(&self, from: i32, to: i32, order: Ordering, failure: Ordering) -> Result<i32, i32> {
        let cast = |value| value as i32;
        self.0.compare_exchange(from as u32, to as u32, order, failure).map(cast).map_err(cast)
    }
    /// As the processor's, but it fails for no reason but another value.
    ///
    /// # Errors
    /// What the word holds instead.
    pub fn compare_exchange_weak(&self, from: i32, to: i32, order: Ordering, failure: Ordering) -> Result<i32, i32> {
        self.compare_exchange(from, to, order, failure)
    }
    /// As the processor's.
    pub fn fetch_add(&self, value: i32, order: Ordering) -> i32 {
        self.0.fetch_add(value as u32, order) as i32
    }
    /// As the processor's.
    pub fn fetch_sub(&self, value: i32, order: Ordering) -> i32 {
        self.0.fetch_add(value.wrapping_neg() as u32, order) as i32
    }
}

/// A word with a sign, as a futex sees it: its bits.
pub fn unsigned(word: &AtomicI32) -> &AtomicU32 {
    &word.0
}

/// A fence of its own.
pub fn fence(order: Ordering) {
    if explore::is_live() {
        loom::sync::atomic::fence(order);
    } else {
        std::sync::atomic::fence(order);
    }
}

/// The half of a 64-bit word that a futex can watch: its low 32 bits.
pub fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: as in the Linux backend; only the futex, which goes by the address, looks at it.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
}

/// As [`pause`].
pub fn give_way() {
    pause();
}

/// A spin: others go on first.
pub fn pause() {
    if explore::is_live() {
        loom::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}
