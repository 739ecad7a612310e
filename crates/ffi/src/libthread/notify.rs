//! Notes: Linux' signals by Plan 9's names, and their handlers.
//!
//! A handler runs where the kernel delivers the signal: on the stack of the thread that runs in a proc at that moment,
//! or has run there last. It may use `nbsend`, `nbsendp` and `nbsendul` on a channel with a buffer and elements of 32
//! bytes at most: these allocate no memory, and take no lock that the interrupted thread may hold. A handler must not
//! wait or yield. After it the interrupted thread goes on where it was.

use super::task::current;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Handles a note: 0, if it does not.
type Handler = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;

/// Which signal is which note.
const NOTES: [(c_int, &CStr); 8] = [
    (libc::SIGHUP, c"hangup"),
    (libc::SIGINT, c"interrupt"),
    (libc::SIGQUIT, c"quit"),
    (libc::SIGALRM, c"alarm"),
    (libc::SIGTERM, c"kill"),
    (libc::SIGPIPE, c"sys: write on closed pipe"),
    (libc::SIGUSR1, c"sys: usr1"),
    (libc::SIGUSR2, c"sys: usr2"),
];

/// As many handlers as there can be.
const MOST: usize = 32;
static HANDLERS: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

extern "C" fn comes(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let note = NOTES.iter().find(|(number, _)| *number == signal).map_or(c"sys: trap", |(_, note)| *note);
    let me = current().inspect(|me| me.notes(true));
    let handled = HANDLERS.iter().any(|handler| {
        let handler = handler.load(Ordering::Acquire); // Acquire: as it was put there.
        // SAFETY: the program's own handler.
        handler != 0
            && unsafe { std::mem::transmute::<usize, Handler>(handler)(context, note.as_ptr().cast_mut()) } != 0
    });
    me.inspect(|me| me.notes(false));
    if !handled {
        // As it would have been.
        // SAFETY: it is delivered when this returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// `threadnotify`: 1; 0: there are too many handlers, or none such.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadnotify(handler: Option<Handler>, put: c_int) -> c_int {
    static INSTALLED: Once = Once::new();
    let Some(handler) = handler else { return 0 };
    let (from, to) = if put != 0 { (0, handler as usize) } else { (handler as usize, 0) };
    // AcqRel: as it is put there. Relaxed: another place.
    let changes = |place: &AtomicUsize| place.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let changed = HANDLERS.iter().any(changes);
    INSTALLED.call_once(|| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: valid places; what it calls does nothing that a handler may not.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = comes as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            for (signal, _) in NOTES {
                libc::sigaction(signal, action, null_mut());
            }
        }
    });
    changed.into()
}
