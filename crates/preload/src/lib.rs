//! The library that `chappe run` puts in front of a program's C library: POSIX semaphores on chappe's.
//!
//! A program that was not written for chappe, and is not rebuilt, gets for its `sem_t`: strict FIFO (a thread that gives and takes again at
//! once overtakes no waiter, unless `--barging` allows it), waits in which a kill leaves no other thread stuck, and a line in `chappe ls`.
//! Apart from that it sees what POSIX says, and where POSIX leaves it open, what glibc 2.36 does.
//!
//! | | |
//! |---|---|
//! | `word` | the 32 bytes of a `sem_t`: where the object lies |
//! | `place` | `sem_init`, `sem_destroy`: in which arena, and for how long |
//! | `named`, `folder` | `sem_open`, `sem_close`, `sem_unlink`, and their files |
//! | `memory` | semaphores in files that outlive their makers |
//! | `calls` | the others |
//! | `wait`, `cancel`, `stack` | waiting: time limits, signals, jumps, cancellation |
//! | `asked` | the options of `chappe run` |
//! | `ends` | `--owned`: which are locks, and how a process ends that holds one |
//! | `last` | how a process ends whose first thread has ended before others |
//! | `shield`, `forks`, `heap`, `locals` | what keeps this library and the program out of each other's way |
//! | `real` | the C library's own functions |
//!
//! Differences from the C library:
//!
//! - Named semaphores are in the arenas' directory: other users' programs have others, and so have programs that run without this library.
//! - A `sem_t` that was not initialised by this library is the C library's, and passed to it untouched in every call. That includes static
//!   memory that was never initialised (POSIX does not allow it, and it works), and a semaphore for which there is no room.
//! - A semaphore in a file that may be written by users without access to the arenas' directory (another user's programs, or those of the
//!   file's group) is the C library's, so that they can use it. If the file is opened to them afterwards, they see a semaphore that they
//!   cannot use.
//! - What lies in memory of a file without a name (memfd) lasts as long as a process of the family maps memory that they share, and not
//!   while it is only on its way to another process as a descriptor.
//! - If the arenas' directory or the arena `posix` cannot be used (another version's, another user's, broken), `sem_open` says EACCES, and
//!   `sem_init` takes the C library's semaphore.
//! - A program that was not written for it sees more system calls than before: where it forbids them to itself (seccomp), it has to allow
//!   what chappe needs to wait: futex, futex_waitv, and the start of a thread.
//! - A copy of a `sem_t` is the same semaphore, not another one.
//! - `sem_post` with a waiter leaves the value at 0: the unit is the waiter's at once.
//! - `sem_post` wakes the waiter of the highest priority under SCHED_FIFO or SCHED_RR, and of those the one that came first, as POSIX has it
//!   (priority scheduling option). The priority is the one that the thread had when it began to wait, or up to a tick of the coarse clock
//!   before: see `rank`.
//! - A wait on CLOCK_REALTIME does not notice that the clock is set forward.
//! - After a jump out of a signal handler that has interrupted a wait (`siglongjmp`; POSIX does not allow it) the thread cannot be cancelled
//!   before it waits again.
//! - What the program gets by `dlsym` from a handle of the C library, or by `dlvsym`, is the C library's.
//! - A thread starts with the first wait on a semaphore that processes share: it detects deaths. Its descriptors are its own.
//!
//! The greatest value is glibc's SEM_VALUE_MAX, 2,147,483,647.

mod asked;
mod block;
mod calls;
mod cancel;
mod ends;
mod folder;
mod forks;
mod heap;
mod last;
mod locals;
mod memory;
mod named;
mod place;
mod rank;
mod real;
mod shield;
mod stack;
mod wait;
mod word;

use libc::{c_char, c_int};

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

// SAFETY: the C library's.
unsafe extern "C" {
    static mut environ: *const *const c_char;
}

extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    // This is before the C library itself has been told, which is told the same.
    // SAFETY: there is one thread, and it is here.
    unsafe {
        if environ.is_null() {
            environ = environment;
        }
    }
    forks::prepare();
    real::look_up();
    last::prepare();
    // Before the program can change its environment.
    chappe::keep_environment();
    asked::OWNED.is_on();
    asked::BARGING.is_on();
}
