//! Plan 9's thread library, thread(2) and ioproc(2), as `include/chappe/thread.h` has it.
//!
//! plan9-semaphores, section 4: procs, their threads, and channels between them. All of it stands on what the rest of the house has:
//!
//! | there | here |
//! |---|---|
//! | a proc | a runtime with one proc: one kernel thread, which runs its threads in turn; that of one that has ended is the next one's |
//! | a thread | a light thread, with a [`Task`](task::Task) |
//! | a channel | a private tube of messages whose size is said at run time; `alt` is a choice among ends of tubes |
//! | an interrupt | the thread's own `Interrupt`, which ends its waits at tubes, and those of `chappe.h` |
//! | a lock, a rendez | words in the caller's memory, all zeros at first, and a queue of waiters (`qlock`) |
//! | the death of a thread | a jump back to where its function was called: nothing of its stack is run, as in Plan 9 |
//!
//! Names: an exported symbol is `chappe_` and Plan 9's name. The header defines Plan 9's names, for the programs that
//! include it.
//!
//! An error ends the program with a text that names the object and what to do, as the manual page says: "thread library functions do
//! not return on failure; if errors occur, the entire program is aborted".

pub mod alt;
pub mod call;
pub mod channel;
pub mod exec;
pub mod ioproc;
pub mod notify;
pub mod qlock;
pub mod task;

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Display;

/// Ends the program.
#[cold]
pub fn fatal(what: impl Display) -> ! {
    eprintln!("chappe: {what}");
    std::process::abort()
}

/// The exit status of a program that ends with that string: none, or an empty one, is success.
pub fn code(status: *const c_char) -> c_int {
    // SAFETY: the caller's promise: NULL, or a string.
    c_int::from(!status.is_null() && unsafe { *status } != 0)
}

/// A string of the caller's; NULL is an empty one.
pub fn text<'a>(string: *const c_char) -> std::borrow::Cow<'a, str> {
    if string.is_null() {
        return "".into();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_string_lossy()
}
