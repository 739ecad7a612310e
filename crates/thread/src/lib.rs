//! Light threads: as many as one likes, on a few kernel threads, on the same objects as kernel threads and other processes.
//!
//! ```
//! use chappe_sync::tube;
//! let (tx, rx) = tube::bounded(0);
//! for worker in 0..1_000 {
//!     let tx = tx.clone();
//!     chappe_thread::spawn(move || tx.send(worker * 2).unwrap());
//! }
//! drop(tx);
//! assert_eq!(rx.iter().sum::<u32>(), 999_000);
//! ```
//!
//! A light thread has a stack, a name, a level and a number. It may wait in any function that it calls, as a kernel
//! thread may. It costs a page of memory; to begin one, or to switch to one, takes some tens of nanoseconds. A *proc*
//! is a kernel thread that runs light threads. A light thread gives its processor up when it waits, yields or ends, and
//! not before. A thread that computes for long delays the others of its proc, unless another proc idles: that takes those
//! over that are ready and not pinned, after ten to twenty milliseconds. What another process grants to a thread behind
//! one that computes reaches it when that one gives way.
//!
//! # What waits lightly
//! Private tubes of all kinds, `select!` among them with `after`, `at`, `tick`, `never`, `readable` and `writable`; [`Io`], [`File`];
//! [`JoinHandle::join`], [`sleep`], [`park`].
//! Such a wait needs no attachment in an arena and no system call, and there can be as many as there are threads.
//!
//! Semaphores, pools, locks and everything that is named are waited for as lightly, but each thread that does so takes
//! an attachment of the arena until it ends: some 4,000 threads can for what is private, and as many for what is named. Another
//! process that grants something to a light thread rings its proc's doorbell (a word of the arena): a process sleeps in
//! as many places as it has procs, whatever the number of its threads. Before Linux 5.16 a light thread that waits for
//! a named object keeps its kernel thread for the length of the wait.
//!
//! For other calls that block (`std::fs`, `std::sync`, a C library) there is [`block_in_place`].
//!
//! # What is the kernel thread's
//! `thread_local!` of the standard library, guards of its mutexes across a wait, `std::thread::current()`, floating-point modes: a light
//! thread may find itself on another kernel thread after each wait. [`local!`] is the thread's own. [`Builder::pinned`] threads stay with
//! their proc. [`Builder::own_float_modes`] threads have modes of their own.
//!
//! # Error traps
//! An instruction that cannot be carried out (SIGFPE, SIGSEGV, SIGBUS, SIGILL, a stack that is used up) is its light
//! thread's own matter, if that has said so: see [`set_trap`]. Otherwise it ends the process, and the report names the thread.
//!
//! # Deaths and forks
//! Light threads end with their process. A forked child has none, and may begin some only if its
//! parent had not begun any.
//!
//! Papers: plan9-semaphores, 4 (procs and threads); synthesis, 3.2.3, 4.3 and 5.3 (run queue, quanta, threads that wait in the objects' own
//! queues).

#![deny(missing_docs)]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod asks;
mod due;
mod end;
mod file;
mod id;
pub mod image;
mod io;
mod local;
#[doc(hidden)]
pub mod migration;
mod modes;
mod naming;
mod offers;
pub mod outside;
mod over;
mod proc;
mod queue;
mod record;
mod report;
mod ring;
mod runtime;
mod scope;
mod stack;
mod step;
mod switch;
mod thread;
mod timers;
mod trap;
mod trapping;
mod watched;
mod words;

pub use asks::{Destroyed, Refusal};
pub use due::set_due;
pub use end::{Builder, JoinHandle, Result};
pub use file::{File, FileWay, file_way};
pub use id::ThreadId;
pub use io::Io;
pub use local::LocalKey;
pub use naming::set_name;
pub use offers::offer;
pub use runtime::Runtime;
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use thread::{Thread, set_signal, wait, wait_timeout};
pub use trap::{AfterTrap, Trap, TrapKind};
pub use trapping::set_trap;

use chappe_plat::clock;
use chappe_plat::light::{self, Waits};
use std::time::{Duration, Instant};

/// Begins a light thread: on the proc of the calling one, or, from a kernel thread, on one of the standard runtime.
///
/// It runs when its proc comes to it. A panic ends it alone, and [`JoinHandle::join`] tells.
///
/// # Panics
/// If there is no room for one more: see [`Builder::spawn`].
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).unwrap_or_else(|e| panic!("spawn: {e}"))
}

/// The calling light thread.
///
/// # Panics
/// If the caller is none: see [`try_current`].
pub fn current() -> Thread {
    try_current().expect("the caller is a kernel thread, not a light one")
}

/// The calling light thread's name, if it has one.
pub fn name() -> Option<String> {
    record::current()?.name().map(str::to_owned)
}

/// The calling light thread, if it is one.
pub fn try_current() -> Option<Thread> {
    record::current().map(Thread::of)
}

/// Lets the others of this proc that are ready go first. A kernel thread yields to others of its processor.
#[inline(always)]
pub fn yield_now() {
    proc::park::yield_and_back();
}

/// How often the proc of the calling light thread has switched from one to another, for tests that count.
#[doc(hidden)]
pub fn switches() -> u32 {
    record::current().map_or(0, |me| me.proc().switches())
}

#[track_caller]
fn wait_until(deadline: Option<u64>, what: Waits) {
    chappe_sync::inside::may_sleep();
    let me = record::current().expect("the caller has looked");
    light::safe_point(&me.core);
    me.core.waits.set(what);
    me.core.at.set(deadline.unwrap_or(0));
    light::park(deadline);
    me.core.waits.set(Waits::Nothing);
    light::safe_point(&me.core);
}

/// Waits for so long. A light thread gives its processor up meanwhile.
#[track_caller]
pub fn sleep(duration: Duration) {
    if record::current().is_none() {
        return std::thread::sleep(duration);
    }
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let until = clock::now().saturating_add(ns);
    while clock::now() < until {
        wait_until(Some(until), Waits::Sleep);
    }
}

/// Waits until that moment.
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.saturating_duration_since(Instant::now()));
}

/// Waits until somebody calls [`Thread::unpark`] of the calling light thread, or has done so since it last parked. It may come back for no
/// reason: look again. (Plan 9's `sleep` on its run queue.)
///
/// # Panics
/// If the caller is a kernel thread.
pub fn park() {
    assert!(record::current().is_some(), "a kernel thread parks with std::thread::park");
    wait_until(None, Waits::Parked);
}

/// The same for at most so long.
///
/// # Panics
/// As [`park`].
pub fn park_timeout(duration: Duration) {
    assert!(record::current().is_some(), "a kernel thread parks with std::thread::park_timeout");
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    wait_until(Some(clock::now().saturating_add(ns)), Waits::Parked);
}

/// Does something that blocks, or computes for long: the other threads of this proc go on on another kernel thread meanwhile. Costs some
/// microseconds. Within it the caller's waits block its kernel thread. (Plan 9's `ioproc`.)
///
/// ```
/// let read = chappe_thread::spawn(|| chappe_thread::block_in_place(|| std::fs::read_to_string("/proc/self/comm")));
/// assert!(read.join().unwrap().is_ok());
/// ```
pub fn block_in_place<R>(act: impl FnOnce() -> R) -> R {
    light::blocking(act)
}

/// Says that this handler of that signal wakes no thread: it stands in the way of no report on a deadlock.
#[doc(hidden)]
pub fn wakes_none(signal: i32, handler: usize) {
    chappe_plat::quiet::wakes_none(signal, handler);
}

/// What [`#[chappe::main]`](../chappe_macros/attr.main.html) makes of `main`: runs it as a light thread of the standard runtime, where a
/// deadlock is reported.
///
/// # Panics
/// As `body` does; if there is no runtime to be had.
pub fn run_main<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let runtime = Runtime::standard().unwrap_or_else(|e| panic!("no light threads: {e}"));
    runtime.report_deadlocks();
    runtime.run(body)
}
