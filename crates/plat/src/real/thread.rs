//! This library's background threads, and what belongs to one thread.
//!
//! They are begun by the C library, which is ready for that in a forked child of a process with other threads. The standard
//! library is not: each thread that it begins or ends takes a lock of its own, which a child finds locked for ever
//! if another thread had it at the fork.

use std::ffi::{CStr, CString, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// What the body of a thread has.
const STACK: usize = 256 * 1024;
/// Stacks are multiples of this: of the page size, on all machines.
const WHOLE: usize = 64 * 1024;
/// What the kernel keeps of a thread's name.
const NAME: usize = 15;

type Begun = (CString, Box<dyn FnOnce() + Send>);

static BEGUN: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);
/// What each of them calls first; null: nothing.
static FIRST: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// How many of this library's threads have begun in this process, and how many have ended: never more than there are. The C library counts
/// them among the program's.
pub fn counts() -> (u32, u32) {
    // SeqCst, both: behind what its user has said before, see `call_first`.
    (BEGUN.load(Ordering::SeqCst), ENDED.load(Ordering::SeqCst))
}

/// In a forked child: this library's threads do not exist there.
pub fn only_this_thread() {
    BEGUN.store(0, Ordering::SeqCst); // SeqCst: as in `counts`.
    ENDED.store(0, Ordering::SeqCst); // SeqCst: as in `counts`.
}

/// Makes each of this library's threads that begins from now on call `what` with its name, after it was counted.
pub fn call_first(what: fn(&CStr)) {
    FIRST.store(what as *mut c_void, Ordering::SeqCst); // SeqCst: a thread that begins and finds none is counted by now.
}

/// Where the C library says how much of a stack it takes for itself. 0: not looked yet; 1: it does not say.
// Ordering: Relaxed: every thread finds the same.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Looks up what this library's first thread would look up otherwise, with the dynamic linker's lock.
pub fn prepare() {
    if TAKEN.load(Ordering::Relaxed) == 0 {
        // By name, and not by the linker: that would bind this file to a version of it that is the C library's own business.
        // SAFETY: a C string.
        let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
        TAKEN.store((at as usize).max(1), Ordering::Relaxed);
    }
}

/// How much of a stack is not the body's: the least stack, and what all libraries together have of thread-local data, which glibc
/// puts there, however much that is. 0 where the C library adds it by itself.
fn taken(attributes: *const libc::pthread_attr_t) -> usize {
    prepare();
    match TAKEN.load(Ordering::Relaxed) {
        0 | 1 => 0,
        // SAFETY: glibc's function of that name; the attributes are made.
        at => unsafe {
            std::mem::transmute::<usize, extern "C" fn(*const libc::pthread_attr_t) -> usize>(at)(attributes)
        },
    }
}

extern "C" fn begin(begun: *mut c_void) -> *mut c_void {
    // SAFETY: `background` has given this box away.
    let (name, body) = *unsafe { Box::from_raw(begun.cast::<Begun>()) };
    BEGUN.fetch_add(1, Ordering::SeqCst); // SeqCst: as in `counts`.
    let first = FIRST.load(Ordering::SeqCst); // SeqCst: as in `call_first`.
    if !first.is_null() {
        // SAFETY: `call_first` has stored it.
        unsafe { std::mem::transmute::<*mut c_void, fn(&CStr)>(first)(&name) };
    }
    // SAFETY: this thread, and a C string.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    // A panic has been told by then, and ends this thread alone.
    let _ = catch_unwind(AssertUnwindSafe(body));
    ENDED.fetch_add(1, Ordering::SeqCst); // SeqCst: as in `counts`.
    std::ptr::null_mut()
}

/// What a thread's own mistake raises. Where one of them is blocked the kernel ends the process without a word.
const OWN_MISTAKES: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// No signal handler runs in the calling thread while it does that, but of [`OWN_MISTAKES`]: a light thread whose stack is used up is told so.
pub fn undisturbed<R>(act: impl FnOnce() -> R) -> R {
    struct Kept(libc::sigset_t);
    impl Drop for Kept {
        fn drop(&mut self) {
            // SAFETY: the thread's own mask, as it was.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
    let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: both are places for masks, which the calls fill.
    let _kept = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        OWN_MISTAKES.iter().for_each(|signal| _ = libc::sigdelset(all.as_mut_ptr(), *signal));
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        Kept(before.assume_init())
    };
    act()
}

/// Starts a thread that no signal is ever delivered to but for what it does itself, and lets it go.
///
/// # Errors
/// The system's, when it refuses another thread.
pub fn background(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    background_with(name, STACK, body)
}

/// The same, with so many bytes of stack for the body.
///
/// # Errors
/// As [`background`].
pub fn background_with(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let name = CString::new(&name.as_bytes()[..name.len().min(NAME)])?;
    let begun: Box<Begun> = Box::new((name, Box::new(body)));
    let begun = Box::into_raw(begun);
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // The new thread inherits the mask.
    // SAFETY: both are valid places; the box is the thread's once it is there.
    let why = undisturbed(|| unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        let size = stack.saturating_add(taken(attributes.as_ptr()));
        let size = size.checked_next_multiple_of(WHOLE).unwrap_or(size);
        let mut why = libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), size);
        if why == 0 {
            why = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), begin, begun.cast());
        }
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        why
    });
    if why != 0 {
        // SAFETY: there is no thread that it could be of.
        drop(unsafe { Box::from_raw(begun) });
        return Err(io::Error::from_raw_os_error(why));
    }
    Ok(())
}

/// A slice that the kernel takes for a short one, in nanoseconds.
const SHORT: u64 = 100_000;

/// What the kernel knows of how a thread is scheduled.
#[repr(C)]
#[derive(Default)]
struct Scheduled {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks that the calling thread have the processor sooner and for less long at a time, where others want it too. Since
/// Linux 6.12; elsewhere, and where it is refused, nothing happens.
pub fn ask_for_short_slices() {
    let mut now = Scheduled { size: size_of::<Scheduled>() as u32, ..Scheduled::default() };
    // SAFETY: the place is ours, of the size that is said; the second call changes nothing but the calling thread's slice.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, now.size, 0) == 0 {
            now.runtime = SHORT;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0);
        }
    }
}

/// Takes a real-time priority away from the calling thread, which a thread inherits from its starter: from now on it is an ordinary one. A
/// thread without such a priority stays as it is.
pub fn be_ordinary() {
    let none: libc::c_int = 0;
    // SAFETY: of the calling thread alone; the priority is all that the kernel reads. A thread may always give its
    // priority up. By their numbers: some C libraries refuse these calls.
    unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, 0) as libc::c_int;
        if matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR) {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                0,
                libc::SCHED_OTHER | policy & libc::SCHED_RESET_ON_FORK,
                &raw const none,
            );
        }
    }
}
