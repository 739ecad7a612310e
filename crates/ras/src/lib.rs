//! Restartable atomic sequences: mutual exclusion without a locked instruction.
//!
//! netbsd-restartable-sequences, on Linux' rseq.
//!
//! Never for memory that processes share: the fence that takes a bias or a slot away aborts the sequences of the calling process, and of no
//! other. Measured with a biased lock in a shared mapping: 175 and 279 updates lost in 4 s. So this crate has no access to named arenas,
//! and nothing that could be put into a named object.
//!
//! A self-test decides whether sequences are used, see [`gate`]; `chappe doctor` reports its result. Without sequences everything works by
//! locked instructions. `CHAPPE_SEQUENCES=off` in the environment switches them off, `CHAPPE_BIAS=off` biased locks alone.

pub mod counter;
#[cfg(not(feature = "sim"))]
pub mod delays;
pub mod free_list;
pub mod gate;
pub mod lock;
#[cfg(not(feature = "sim"))]
pub mod mechanism;
pub mod pair_counter;
pub mod per_cpu;
#[cfg(not(feature = "sim"))]
pub mod rasctl;
pub mod sequence;
pub mod sharded;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "sim")))]
mod symbol;
#[cfg(not(feature = "sim"))]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "synthesis/absent.rs")]
mod synthesis;
mod wide;

pub use counter::Counter;
pub use free_list::{FreeList, Taken};
pub use pair_counter::PairCounter;
pub use per_cpu::{PerCpu, SeizeError};
pub use sequence::Index;
