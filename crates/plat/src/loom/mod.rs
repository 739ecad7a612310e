//! loom in place of the processor: the same words, but a load may answer what was there before.
//!
//! Everything else is the system itself, called while a model sets up its scene. See [`explore`] for what is modelled.

pub mod atomic;
pub mod clock;
pub mod explore;
pub mod fence;
pub mod futex;

#[path = "../real/admit.rs"]
mod admit;
#[path = "../real/code.rs"]
pub mod code;
#[path = "../real/dir.rs"]
pub mod dir;
#[path = "../real/forks.rs"]
pub mod forks;
#[path = "../real/lease.rs"]
pub mod lease;
#[path = "../real/life.rs"]
pub mod life;
#[path = "../real/mappings.rs"]
pub mod mappings;
#[path = "../real/marks.rs"]
pub mod marks;
#[path = "../real/memory.rs"]
pub mod memory;
#[path = "../real/pages.rs"]
pub mod pages;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[path = "../real/pair.rs"]
pub mod pair;
#[path = "../real/pi.rs"]
pub mod pi;
#[path = "../real/poll.rs"]
pub mod poll;
#[path = "../real/process.rs"]
pub mod process;
#[path = "../real/rseq.rs"]
pub mod rseq;
#[path = "../real/sections.rs"]
pub mod sections;
#[path = "../real/stacks.rs"]
pub mod stacks;
#[path = "../real/thread.rs"]
pub mod thread;
#[path = "../real/tls.rs"]
pub mod tls;
#[path = "../real/topology.rs"]
pub mod topology;

/// Whether all threads sleep: no model asks.
pub mod quiet {
    /// Nobody looks.
    pub fn serves_others() -> impl Sized {}
}

#[inline(always)]
pub(crate) fn step_point(_what: &'static str) {}

pub(crate) fn through<'a>(_seen: impl FnOnce() -> (&'a atomic::AtomicU64, u64)) {}

#[inline(always)]
pub(crate) fn recovering<R>(recovery: impl FnOnce() -> R) -> R {
    recovery()
}
