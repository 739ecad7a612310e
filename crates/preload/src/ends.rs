//! `chappe run --owned`: semaphores that are locks, and how a process ends.
//!
//! A semaphore that starts at 1, in memory or by a name that processes share, is taken for a lock: it belongs to the process that has taken
//! it, and returns when that process is killed (`chappe::owned`). The first post by another process shows that it is no lock. It also stops
//! being one when a process takes it for which its arena has no slot left, or in which no thread can be started: the death of that process
//! would not be detected.
//!
//! A process that ends by itself announces it: what it holds then is not returned, ever. A producer that has filled a slot and ends must
//! not give it back. By itself means `exit`, the return from `main`, `_exit`, `_Exit`, `quick_exit`, `daemon`, and whatever ends in one of
//! them; the bare system call, a signal and `exec` are deaths.
//!
//! Of the functions that end processes inside the C library, where their call of `_exit` cannot be intercepted, only `daemon` ends a
//! process that can hold something: it is replaced here. The children of `posix_spawn`, `system`, `popen` and `forkpty` have taken nothing;
//! the end of the last thread is an `exit`.

use crate::shield::{back, contained, fail, off};
use crate::{locals, real};
use libc::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

// Ordering: Relaxed: for this thread's own end, or for that of a process whose threads know what they do.
static CONCERNED: AtomicBool = AtomicBool::new(false);

/// This process uses one: others may have made it.
pub fn concern() {
    CONCERNED.store(true, Ordering::Relaxed);
}

/// The process ends in good order.
fn ending() {
    if !CONCERNED.load(Ordering::Relaxed) {
        return;
    }
    let was_on = off();
    contained((), chappe::owned::ending);
    back(was_on);
}

/// Runs at the end of `exit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    ending();
    locals::end();
}

macro_rules! ends {
    ($($name:ident)*) => { $(
        /// The C library's, once it is said that the process ends in good order.
        ///
        /// # Safety
        /// As the C library's.
        #[allow(non_snake_case, reason = "as the C library has it")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(status: c_int) -> ! {
            ending();
            // SAFETY: the caller's.
            unsafe { real::$name(status) };
            // SAFETY: always safe; the call before does not come back.
            unsafe { libc::abort() }
        }
    )* };
}

ends! { _exit _Exit quick_exit }

/// The C library's. Its caller ends in good order, and its child goes on.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn daemon(keeps_directory: c_int, keeps_files: c_int) -> c_int {
    // Relaxed: as in `ending`.
    if !CONCERNED.load(Ordering::Relaxed) {
        // SAFETY: the caller's.
        return unsafe { real::daemon(keeps_directory, keeps_files) };
    }
    let was_on = off();
    // SAFETY: the caller's: it calls what forks, and ends.
    let answer = unsafe {
        match libc::fork() {
            -1 => -1,
            0 => detach(keeps_directory != 0, keeps_files != 0),
            _ => _exit(0),
        }
    };
    back(was_on);
    answer
}

/// A session of its own, and what else a daemon has.
fn detach(keeps_directory: bool, keeps_files: bool) -> c_int {
    // SAFETY: plain calls, on C strings, and on descriptors that are said to be given up.
    unsafe {
        if libc::setsid() < 0 {
            return -1;
        }
        if !keeps_directory {
            libc::chdir(c"/".as_ptr());
        }
        if keeps_files {
            return 0;
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            return -1;
        }
        let mut facts = std::mem::MaybeUninit::<libc::stat>::uninit();
        let is_it =
            |facts: libc::stat| facts.st_mode & libc::S_IFMT == libc::S_IFCHR && facts.st_rdev == libc::makedev(1, 3);
        if libc::fstat(null, facts.as_mut_ptr()) != 0 || !is_it(facts.assume_init()) {
            libc::close(null);
            return fail(libc::ENODEV);
        }
        (0..3).for_each(|fd| _ = libc::dup2(null, fd));
        if null > 2 {
            libc::close(null);
        }
        0
    }
}
