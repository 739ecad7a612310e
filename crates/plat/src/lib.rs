//! The platform layer: the only crate that accesses anything outside the program.
//!
//! Atomics, futex words, the clock, memory mapping, directories of arenas, life words, processes and threads. Everything that the protocols
//! above do to shared memory or to the kernel goes through here, so that the source that ships is the source that is explored. With the
//! feature `sim` crashsim serves the same names, and each call is a step at which the explorer may switch, kill or stop. With `loom` a load
//! may answer what the word held before.
//!
//! Nothing here knows what a semaphore or a pool is.

#[cfg(not(target_endian = "little"))]
compile_error!("chappe's wait words put the futex half of a 64-bit word at its lower address: little-endian only");
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("chappe needs 64-bit Linux");
#[cfg(all(feature = "fragile", any(feature = "sim", feature = "loom")))]
compile_error!("what is explored is what ships, not what is only measured");

#[cfg(not(any(feature = "sim", feature = "loom")))]
#[path = "real/mod.rs"]
mod backend;

#[cfg(feature = "sim")]
#[path = "sim/mod.rs"]
mod backend;

#[cfg(all(feature = "loom", not(feature = "sim")))]
#[path = "loom/mod.rs"]
mod backend;

mod back;
pub mod dumped;
pub mod durations;
pub mod later;
pub mod light;
mod made;
pub mod probe;
pub mod room;
mod word;

#[cfg(all(feature = "loom", not(feature = "sim")))]
pub use backend::explore;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use backend::pair;
#[cfg(feature = "sim")]
pub use backend::poll;
#[cfg(all(feature = "uring", not(any(feature = "sim", feature = "loom"))))]
pub use backend::uring;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use backend::{
    alarm, alsa, child, faults, file, inherit, jack, mailbox, packets, sanitizer, serial, trap, twofold, viewed, wide,
};
pub use backend::{atomic, clock, dir, fence, futex, life, process, quiet, rseq, sections, thread};
#[cfg(not(feature = "sim"))]
pub use backend::{code, forks, lease, mappings, marks, memory, pi, poll, stacks, tls, topology};
pub use made::{Made, Pages, Row};
pub use word::{Life, OWNER_DIED, TID_MASK, WATCHED};

/// Whether that is there which is needed only because processes die, are stopped, or are forked. False in one build, which does
/// not ship: that of `cargo xtask bench robustness`, which measures what it costs in the commonest case. In that build a
/// death loses and wedges, and an arena has 64 members at most.
pub const ROBUST: bool = !cfg!(feature = "fragile");

/// Marks a point between two operations at which a kill or a switch is of interest to the explorer,
/// although no shared word is touched there. Costs nothing in the shipping build.
#[macro_export]
macro_rules! step {
    ($what:expr) => {
        $crate::step_point($what)
    };
}

/// Runs the recovery from a death. Announces it to the explorer, which kills there on purpose; costs nothing in the shipping build.
#[inline(always)]
pub fn recovering<R>(recovery: impl FnOnce() -> R) -> R {
    backend::recovering(recovery)
}

/// The caller comes to a slot, and to what belongs to it, through the use of it that a head names: one that it has just looked up, or was
/// given with a handle. `seen` answers the slot's word and that head. The explorer takes each write into another use for a failure; costs
/// nothing in the shipping build, where `seen` is not called.
///
/// Never said where it is checked whether an object is still there: a write behind a check that came too early would go unseen.
#[inline(always)]
pub fn through<'a>(seen: impl FnOnce() -> (&'a atomic::AtomicU64, u64)) {
    backend::through(seen);
}

/// What [`step!`] calls.
#[inline(always)]
pub fn step_point(what: &'static str) {
    backend::step_point(what);
}
