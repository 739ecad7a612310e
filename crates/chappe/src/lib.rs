//! Pools of permits, semaphores, mutexes and channels for the threads and processes of one Linux machine. They make no system call unless a
//! thread must block, one call can choose among them, and a killed process loses nothing that others need.
//!
//! | | |
//! |---|---|
//! | [`Pool`] | permits that belong to their holders, and return when the holder dies; several at once: [`Pool::acquire_many`] |
//! | [`Semaphore`] | a counter of wake-ups; any thread may `up`, also in a signal handler; a death returns nothing |
//! | [`Mutex`], [`Condvar`] | data that one thread at a time may change; the next holder after one that died is told so |
//! | [`Barrier`] | threads or processes wait for each other, round by round; one that dies blocks nobody, and the others are told |
//! | [`RwLock`] | data that many read or one changes, first come, first served |
//! | [`Map`] | a dictionary of fixed room: look-ups and changes never wait for another thread, and a change by a thread that dies happened or did not |
//! | [`map::List`] | values in order, each once; a thread may go through it while others change it |
//! | [`Stack`], [`Counter`] | what was pushed last is popped first; a number that is added to: no thread waits there either |
//! | [`Server`], [`Service`] | data that requests change: any of the threads present carries them out, among threads or processes |
//! | [`Words`], [`Pair`] | up to eight words that change at once, all or none, without waiting for another thread; two neighbours by one instruction |
//! | [`HelpLock`], [`Monitor`] | locks for threads with deadlines: a waiter pushes the holder out of its section; conditions to wait for inside |
//! | [`tube`] | channels between threads, as crossbeam-channel's, in one choice with all the others |
//! | [`select!`], [`Select`] | exactly one of several operations, whichever can be done first |
//! | [`feedback`] | loops that measure and adjust: locked rates, filtered clocks, shares of a processor |
//! | [`ras`] | restartable sequences: for the threads of one process, without a locked instruction |
//! | [`plan9`] | semaphores on plain words, as Plan 9 has them |
//!
//! A [`Pool`] has N permits. A thread that acquires one has it until it gives it back, or ends, or is killed at any instruction: then the
//! permit goes to the next in line. There is no daemon: the state is in memory that the participants share, and the kernel reports deaths.
//! As long as no thread has to wait, no system call is made.
//!
//! ```
//! use chappe::Pool;
//!
//! // In this process only. Between processes: `Pool::open_or_create("gpu0", 1)`.
//! let gpu = Pool::private(1)?;
//! let permit = gpu.acquire()?; // waits in the order of arrival
//! assert!(gpu.try_acquire().is_err());
//! drop(permit); // or: this thread, or its whole process, ends in whatever way
//! assert_eq!(gpu.available(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One call chooses among any number of objects of any kind, and does exactly one thing:
//!
//! ```
//! use chappe::{Pool, Semaphore, select};
//! use std::time::Duration;
//!
//! let (gpus, stop) = ([Pool::private(1)?, Pool::private(1)?], Semaphore::private(0)?);
//! let busy = gpus[1].acquire()?;
//! let which = select! {
//!     acquire(gpus[0]) -> permit => { permit?; 0 }
//!     acquire(gpus[1]) -> permit => { permit?; 1 }
//!     down(stop) -> said => { said?; return Ok(()) }
//!     default(Duration::from_secs(1)) => panic!("one was free"),
//! };
//! assert_eq!(which, 0);
//! # drop(busy);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Between processes
//! A *named* object lives in an [`Arena`], one file of `/dev/shm/chappe-<uid>` (or of `CHAPPE_DIR`): `gpu0` is the object
//! `gpu0` of arena `default`, `lab/gpu0` that of arena `lab`. Any process of the same user can use it. Named and private
//! objects may meet in one choice.
//!
//! # Kinds of ownership
//! A [`Permit`] belongs to its thread. An [`OwnedPermit`] belongs to its process and moves between threads; so do [`OwnedPermits`]. A
//! [`MutexGuard`] belongs to its thread, an [`OwnedMutexGuard`] (a task's) to its process. [`Permit::lease`] keeps a permit taken while a
//! *job* runs that the holder started, also when the holder is killed.
//!
//! # Fork and exec
//! A forked child holds nothing of its parent's; guards that it inherits are void there. What a thread held
//! comes back when its process calls exec.
//!
//! # What is not promised
//! Protection from a process that writes wildly into the shared mapping; survival of power loss. A process that is
//! frozen, dumping core or in uninterruptible sleep is alive, and keeps what it holds.

pub mod doctor;
#[cfg(feature = "term")]
pub mod terminal;
/// For the Python package and the C library.
#[doc(hidden)]
pub mod woken;

pub use chappe_arena::{ArenaError, LifeState, Who};
pub use chappe_feedback as feedback;
/// A struct as the schema of a tube's records: the trait, and what derives it. Feature `synth`.
#[cfg(feature = "synth")]
pub use chappe_macros::Fields;
#[cfg(feature = "thread")]
pub use chappe_macros::main;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use chappe_plat::pair::Pair;
/// What the shim for POSIX semaphores needs of the system; not for users of the crate.
#[doc(hidden)]
pub use chappe_plat::thread as kernel_thread;
#[doc(hidden)]
pub use chappe_plat::{alarm, dir, durations, forks, marks, memory, process, room, topology};
pub use chappe_ras as ras;
/// Pools that many machines share, on an engine. Feature `remote`.
#[cfg(feature = "remote")]
pub use chappe_remote as remote;
/// Questions about CSV, JSON lines and lines by a pattern. Feature `rows`.
#[cfg(feature = "rows")]
pub use chappe_rows as rows;
/// Streams: stages as a typed graph, joined by calls, queues and pumps. Feature `stream`.
#[cfg(all(feature = "stream", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use chappe_stream as stream;
pub use chappe_sync::map::{self, Map, MapError, MapInfo, MapOptions};
#[doc(hidden)]
pub use chappe_sync::owned;
pub use chappe_sync::plan9;
#[doc(hidden)]
pub use chappe_sync::raw;
#[doc(hidden)]
pub use chappe_sync::schemas;
pub use chappe_sync::task;
pub use chappe_sync::tries;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use chappe_sync::words::{self, Words, WordsError};
pub use chappe_sync::{
    AcquireError, Arena, ArenaOptions, Arrival, Barrier, BarrierError, BarrierInfo, Bias, Broke, Capacity, Condvar,
    Counter, Discipline, DownError, Fact, FactSort, Holder, Interrupt, LEASE_VARIABLE, Lease, LeaseError, LockError,
    LockResult, Mutex, MutexGuard, ObjectError, ObjectId, ObjectInfo, ObjectState, OwnedLockResult, OwnedMutexGuard,
    OwnedPermit, OwnedPermits, Permit, Permits, Pool, PoolError, PoolInfo, Priority, ReadGuard, ReadResult,
    ReceivingEnd, Role, RwLock, RwLockError, Select, SelectError, SelectedOperation, Semaphore, SendingEnd, Serve,
    Server, Service, SharedError, SharedInfo, Turn, Unseen, UpError, Waiter, WriteGuard, WriteResult, acquire_any,
    acquire_any_deadline, acquire_any_timeout, directory, interruptible, remove_service, select, select_async,
    select_biased, select_biased_async, set_label, set_priority, set_role, try_acquire_any, tube,
};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use chappe_sync::{HelpError, HelpGuard, HelpLock, Inside, Monitor, MonitorError, PushError, Stack, lock_all};
#[doc(hidden)]
pub use chappe_sync::{
    LockJob, LockLease, keep_environment, keeps_descendants, lock_jobs, open_directory, prepare_forks,
};
/// Queries over records that become code: filters, projections, aggregates. Features `synth`, and `jit` for machine code.
#[cfg(feature = "synth")]
pub use chappe_synth as synth;
#[cfg(feature = "synth")]
pub use chappe_synth::Fields;
/// Terminals whose screen, history and end outlive their programs. Feature `term`.
#[cfg(feature = "term")]
pub use chappe_term as term;
/// Light threads: a million of them, on the same objects. Feature `thread`, on by default.
#[cfg(all(feature = "thread", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use chappe_thread as thread;
pub use doctor::{ArenaHealth, Doctor, Finding, Recovered, Sequences, Surroundings, doctor, recoveries};
#[cfg(feature = "term")]
pub use terminal::Terminal;
