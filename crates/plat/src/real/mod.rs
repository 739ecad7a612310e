//! The shipping backend: Linux itself.

pub mod atomic;
pub mod clock;
pub mod code;
pub mod dir;
pub mod fence;
pub mod futex;
pub mod lease;
pub mod life;
pub mod mappings;
pub mod memory;
pub mod near;
pub mod pi;
pub mod poll;
pub mod process;
pub mod rseq;
pub mod sections;
pub mod thread;
pub mod topology;

#[inline(always)]
pub(crate) fn step_point(_what: &'static str) {}

#[inline(always)]
pub(crate) fn recovering<R>(recovery: impl FnOnce() -> R) -> R {
    recovery()
}
