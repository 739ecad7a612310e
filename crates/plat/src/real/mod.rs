//! The shipping backend: Linux itself.

pub mod atomic;
pub mod clock;
pub mod dir;
pub mod fence;
pub mod futex;
pub mod lease;
pub mod life;
pub mod mappings;
pub mod poll;
pub mod process;
pub mod thread;

#[inline(always)]
pub(crate) fn step_point(_what: &'static str) {}

#[inline(always)]
pub(crate) fn recovering<R>(recovery: impl FnOnce() -> R) -> R {
    recovery()
}
