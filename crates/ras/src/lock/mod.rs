//! Locks that are biased to a processor, and plain ones; with the data that they protect, or alone.
//!
//! The biased lock's protocol is in the head of `cpu.rs`.

mod biased;
mod cpu;
mod parking;
mod patience;
mod plain;
mod raw;
#[cfg_attr(feature = "sim", path = "explored.rs")]
#[cfg_attr(all(not(feature = "sim"), target_arch = "x86_64"), path = "x86_64.rs")]
#[cfg_attr(all(not(feature = "sim"), target_arch = "aarch64"), path = "aarch64.rs")]
#[cfg_attr(all(not(feature = "sim"), not(any(target_arch = "x86_64", target_arch = "aarch64"))), path = "absent.rs")]
mod section;

pub use biased::{Builder, CpuLock, CpuLockGuard, PlainLock};
pub use cpu::RawCpuLock;
pub use plain::RawPlainLock;
pub use raw::RawLock;
