//! How a process ends whose first thread has ended by `pthread_exit`, or was cancelled.
//!
//! Such a process goes on until the last of its threads has ended; then the C library calls `exit(0)`. The C library counts this library's
//! threads among them, which never end. So when the first thread ends, and this library has threads, one more begins: it looks in /proc,
//! ever more rarely, whether other threads are left, and if not calls `exit(0)` itself, with the signal mask of the first thread.
//!
//! Without /proc, or without memory for the stack of one thread more, such a process does not end. A thread that is not the program's, but
//! that the kernel counts (io_uring's workers), keeps it alive as well.

use crate::locals;
use chappe::{kernel_thread as thread, process};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The thread that waits and calls `exit`.
const NAME: &CStr = c"chappe-last";
/// What runs at exit may need as much as on a thread of the program's. Where there is no room for that, it has less.
const STACKS: [usize; 2] = [8 << 20, 256 << 10];
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(250);

/// The first thread's signal mask, when it ended.
struct Mask(UnsafeCell<MaybeUninit<libc::sigset_t>>);

// SAFETY: written by the first thread before it sets GONE, and read behind that.
unsafe impl Sync for Mask {}

static MASK: Mask = Mask(UnsafeCell::new(MaybeUninit::uninit()));
/// The first thread ends, or has ended.
static GONE: AtomicBool = AtomicBool::new(false);
/// A thread looks already.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// In the first thread.
pub fn prepare() {
    thread::call_first(begins);
    locals::arm();
}

/// In a forked child, whose only thread is its first.
pub fn only_this_thread() {
    thread::only_this_thread();
    // Relaxed, both: no other thread runs.
    GONE.store(false, Ordering::Relaxed);
    LOOKS.store(false, Ordering::Relaxed);
    locals::arm();
}

/// The calling thread ends.
pub fn ends() {
    // SAFETY: these take nothing, and cannot fail; and a place for the mask, which no thread reads yet.
    unsafe {
        if libc::gettid() != libc::getpid() {
            return;
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), (*MASK.0.get()).as_mut_ptr());
    }
    // SeqCst: before the look at the counts; a thread that begins is counted, and then looks at this.
    GONE.store(true, Ordering::SeqCst);
    let (begun, ended) = thread::counts();
    if begun != ended {
        look();
    }
}

/// One of this library's threads begins.
fn begins(name: &CStr) {
    // SeqCst: as in `ends`.
    if GONE.load(Ordering::SeqCst) {
        look();
    }
    // The thread may open a file, and the program's next descriptor must get the number that it would get without this library. This does
    // not apply to the thread that calls `exit`, which runs functions of the program. A thread inherits its starter's descriptors, so
    // `look` comes before this.
    if name != NAME {
        process::have_no_files();
    }
}

fn look() {
    // SeqCst: only one of the threads that want to.
    if LOOKS.swap(true, Ordering::SeqCst) {
        return;
    }
    let name = NAME.to_str().expect("it is ASCII");
    if !STACKS.into_iter().any(|size| thread::background_with(name, size, wait_and_exit).is_ok()) {
        // The next one that begins tries again.
        LOOKS.store(false, Ordering::SeqCst); // SeqCst: as above.
    }
}

fn wait_and_exit() {
    let mut pause = SHORTEST;
    while !is_over() {
        std::thread::sleep(pause);
        pause = (pause * 5 / 4).min(LONGEST);
    }
    // SAFETY: the mask was stored before GONE was set; this is the program's last thread.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, (*MASK.0.get()).as_ptr(), std::ptr::null_mut());
        libc::exit(0);
    }
}

/// Whether there are only this library's threads. None of those starts a thread of the program's.
fn is_over() -> bool {
    let before = thread::counts();
    let left = process::left_by_the_first();
    // Otherwise one of this library's threads may have begun or ended between the looks, and another have been taken for it.
    let is_quiet = thread::counts() == before;
    is_quiet && left == Some(before.0 - before.1)
}
