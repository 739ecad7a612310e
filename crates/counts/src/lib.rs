//! Counting what chappe must not do: system calls, allocations, descriptors.
//!
//! The tests of this crate hold the counts; none depends on time. The benchmarks measure beside them with the same tools.

pub mod footprint;
pub mod house;
pub mod process;
pub mod ring;
pub mod silence;
