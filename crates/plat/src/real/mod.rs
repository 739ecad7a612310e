//! The shipping backend: Linux itself.

mod admit;
pub mod alarm;
pub mod alsa;
pub mod atomic;
pub mod child;
pub mod clock;
pub mod code;
pub mod dir;
pub mod faults;
pub mod fence;
pub mod file;
pub mod forks;
pub mod futex;
pub mod inherit;
pub mod jack;
pub mod lease;
pub mod life;
mod loaded;
pub mod mailbox;
pub mod mappings;
pub mod marks;
pub mod memory;
pub mod packets;
pub mod pages;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod pair;
pub mod pi;
pub mod poll;
pub mod process;
pub mod quiet;
pub mod rseq;
pub mod sanitizer;
pub mod sections;
pub mod serial;
pub mod stacks;
pub mod thread;
pub mod tls;
pub mod topology;
pub mod trap;
pub mod twofold;
#[cfg(feature = "uring")]
pub mod uring;
pub mod viewed;
pub mod wide;

#[inline(always)]
pub(crate) fn step_point(_what: &'static str) {}

#[inline(always)]
pub(crate) fn through<'a>(_seen: impl FnOnce() -> (&'a atomic::AtomicU64, u64)) {}

#[inline(always)]
pub(crate) fn recovering<R>(recovery: impl FnOnce() -> R) -> R {
    recovery()
}
