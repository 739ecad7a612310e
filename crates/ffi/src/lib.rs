//! The C library: what `include/chappe.h` and its parts declare.
//!
//! One module a header: `semaphore` is `include/chappe/semaphore.h`, which is generated from it (`cargo xtask header`), and so is the
//! manual page chappe_semaphore(3). `handle`, `failure`, `input`, `thread`, `uses` and `few` are what they stand on; `plan9`,
//! `nix`, `stdio`, `schema`, `libthread` (thread.h) and `libc9` have headers of their own that are written by hand.
//!
//! | | here |
//! |---|---|
//! | objects | a handle is an address in one table of this process (see `handle`): a closed one, or any other address, is told apart |
//! | results | 0 or more; an error is the negative number of errno(3), and its text `chappe_last_error` |
//! | memory | the caller's: permits, arms and texts lie where he wants them |
//! | panics | end at the border (see `failure`), as -EIO |
//! | fork | handles are copies that work in the child; what the parent holds is told apart by the process's incarnation |
//! | tasks | `dispatch`: one table of waits for the process, polled by the thread that dispatches; what a task locks is a `guard` |
//!
//! Functions are not `unsafe fn`: they are for C, where nothing else is, and none can be named in Rust from outside this crate. What
//! each relies on beyond what it checks stands where it is relied on: in `input` and `handle`.

#![allow(non_camel_case_types, reason = "C's names")]

mod arena;
mod barrier;
mod broadcast;
mod choice;
mod choosing;
mod condvar;
mod counter;
mod dispatch;
mod failure;
mod few;
mod guard;
mod handle;
mod input;
mod interrupt;
mod kept;
mod lending;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod libc9;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod libthread;
mod look;
mod map;
mod mutex;
mod nix;
mod parting;
mod permit;
mod plan9;
mod pool;
mod process;
mod publisher;
mod receiver;
#[cfg(feature = "remote")]
mod remote;
mod rwlock;
mod schema;
mod semaphore;
mod sender;
mod stdio;
mod subscription;
#[cfg(feature = "term")]
mod term;
mod thread;
mod tube;
mod uses;
mod waits;
mod words;
