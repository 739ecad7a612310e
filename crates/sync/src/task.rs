//! Waits of tasks: futures that any runtime can poll. They name none: a waker is all that they need of it.
//!
//! A task waits in the same line as the threads of all processes, from the first poll of its future on, and is served in its turn. A future
//! that is dropped before it was ready takes nothing: what it was granted in that moment goes to the next waiter. So each future here can
//! be a branch of a choice of the runtime's, or be given up at a time-out.
//!
//! When the object is private, the thread that gives calls the task's waker, perhaps more than once, and perhaps for nothing: a thread that was stopped
//! between a grant and the call may call the task that has the place by then. So tasks are granted things in their order, but need not be called in it. When it is named, one thread of this process,
//! which sleeps meanwhile, calls the wakers of all of them: with all signals blocked, which is what a thread that a waker starts inherits, and on
//! a stack of 256 KiB. A waker that blocks there keeps all tasks that wait in that arena from being woken. While a process has that thread, its
//! light threads' deadlocks are not reported: their wakes could come from there.
//!
//! A future that was granted something has it from then on, as a thread has that was woken: until it is polled, or dropped, no other gets it. So
//! poll it soon: a future that is kept for a later poll (as a branch of a choice that goes on with another one) may keep all others waiting.
//! One that is leaked (`mem::forget`), or that belongs to a light thread which dies, keeps its place in the line until the process ends, and what it
//! is granted with it.
//!
//! Of the tasks of a process that wait for one object at once, 64 have places in its line, or 8 (at mutexes, locks, tubes, barging semaphores, and what
//! serves by priority). The others come up in their order, as those are served: so tasks without number cost an object few places of its arena. Each has its
//! place by arrival, from its first poll on; but while all of those were granted something and were not polled yet, threads and other processes may overtake
//! the tasks that have no place. (Notifications are kept for nobody: each task that waits for one has a place.)
//!
//! What a tube has is kept for nobody: a task that waits there is told, tries, and waits again in its old place if another was faster. In a tube without
//! slots a thread that waits is met before a task that waits to receive.
//!
//! Where waiters are served by priority, a task has that of the thread which polls it first; and of those without a place, it is called by that.
//!
//! With the feature `futures`, the ends of tubes and broadcasts are streams and sinks of the `futures` crates as well (`stream()`, `sink()`).
//!
//! How a task waits: see the head of `chappe_wait::tasks`.

mod barrier;
#[doc(hidden)]
pub mod choice;
mod condvar;
#[doc(hidden)]
pub mod ends;
mod hear;
mod map;
mod mutex;
mod named_tube;
mod pool;
mod rwlock;
mod semaphore;
#[cfg(feature = "futures")]
mod streams;
mod subscription;
mod tube;
mod wait;

pub use barrier::OwnedArrival;
pub use mutex::Lock;
pub use pool::{Acquire, AcquireMany};
pub use rwlock::{BySeat, OwnedReadGuard, OwnedReadResult, OwnedWriteGuard, OwnedWriteResult, Read, Write};
pub use semaphore::Down;
#[cfg(feature = "futures")]
pub use streams::{Heard, Messages, Puts, Records, Sends};
pub use tube::{Receiving, Sending};
