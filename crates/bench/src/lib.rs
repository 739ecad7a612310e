//! Measuring chappe beside its peers, and counting what it must not do.
//!
//! Absolute times mean little on a machine that others use, too: every table is made in one run, its rows take turns
//! round by round, and each row is given as a ratio to a baseline in the same table. Gates are on counts (system calls,
//! allocations, descriptors), in this crate's `tests`; never on times.
//!
//! | table | module |
//! |---|---|
//! | uncontended acquire and release | [`pair`] |
//! | passing a permit to and fro | [`handoff`] |
//! | choice, ready and blocked | [`choice`] |
//! | from SIGKILL to the next holder | [`death`] |
//! | what ten thousand pools take | [`footprint`] |
//! | semaphores, mutexes, choice over them, Plan 9's tables | [`sync`] |
//! | an `up` with many waiters, a thread's end beside many objects | [`queue`] |
//! | channels between threads, and between processes | [`tube`] |
//! | restartable sequences, biased locks, per-processor objects | [`ras`] |
//! | nonblocking structures and locks for threads with deadlines | [`realtime`] |
//! | the contests of nix-semaphores-tubes | [`nix`] |
//! | objects with and without locks, table 5.1 of the Synthesis thesis | [`objects`] |
//! | loops that measure and adjust, its chapter 6 | [`feedback`] |
//! | a clock that follows another machine's, through a [`relay`], its section 6.4.3 | [`far`] |
//! | pools and tubes of many machines | `remote`, a feature |
//! | waits of tasks, in four runtimes | `task`, a feature |
//! | `chappe pipe` beside the plain shell | [`stream`] |
//! | code made for what stays the same, its chapter 3 | `synth`, a feature |
//! | what the kernel takes for the operations of the Synthesis thesis | [`kernel`] |
//! | the thesis' own programs, by the kernel and under `chappe run --io` | [`emulated`] |
//! | text and data of each crate, its section 3.4.1 | [`size`] |
//! | a null system call by each way, its table 3.5 | [`ring`] |
//! | semaphores in C, and under `chappe run` | [`c`] |
//! | what ships beside the same code with what deaths need left out | [`robustness`] |

pub mod c;
pub mod choice;
pub mod command;
pub mod contend;
pub mod death;
pub mod emulated;
pub mod far;
pub mod feedback;
pub mod footprint;
pub mod guarded;
pub mod handoff;
pub mod kernel;
pub mod machine;
pub mod nix;
pub mod objects;
pub mod pair;
pub mod peers;
pub mod query;
pub mod queue;
pub mod ras;
pub mod raw;
pub mod realtime;
pub mod relay;
#[cfg(feature = "remote")]
pub mod remote;
pub mod ring;
pub mod robustness;
pub mod size;
pub mod spin;
pub mod steps;
pub mod stream;
pub mod sync;
#[cfg(feature = "synth")]
pub mod synth;
pub mod table;
#[cfg(feature = "tasks")]
pub mod task;
#[cfg(feature = "threads")]
pub mod thread;
pub mod ticks;
pub mod tube;
pub mod turns;
pub mod waiters;

pub use chappe_counts::{house, process, silence};
