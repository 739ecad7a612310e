//! `chappe run --owned`: semaphores that are locks, and how a process ends.
//!
//! A semaphore that starts at 1, in memory or by a name that processes share, is taken for a lock: it belongs to the process that has
//! taken it, and returns when that is killed (`chappe::owned`). The first post by another process shows that it was none.
//!
//! A process that ends by itself says so: what it holds then is not returned, ever. A producer that has filled a slot and goes must not
//! give it back. By itself means `exit`, the return from `main`, `_exit`, `_Exit`, `quick_exit`, and whatever ends in one of them; the
//! system call alone, a signal and `exec` are deaths.

use crate::shield::{back, contained, off};
use crate::{locals, real};
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What `chappe run --owned` sets to 1.
const VARIABLE: &str = "CHAPPE_RUN_OWNED";

/// 0: not looked yet; 1: no; 2: yes.
static OWNED: AtomicU8 = AtomicU8::new(0);

/// Whether semaphores that start at 1 are to be owned.
pub fn is_owned() -> bool {
    // Relaxed: whoever looks finds the same.
    match OWNED.load(Ordering::Relaxed) {
        0 => {
            let owned = std::env::var_os(VARIABLE).is_some_and(|v| v == "1");
            OWNED.store(1 + u8::from(owned), Ordering::Relaxed); // Relaxed: as above.
            owned
        }
        known => known == 2,
    }
}

static CONCERNED: AtomicBool = AtomicBool::new(false);

/// This process uses one: others may have made it.
pub fn concern() {
    // Relaxed: for this thread's own end, or for that of a process whose threads know what they do.
    CONCERNED.store(true, Ordering::Relaxed);
}

/// The process ends in good order.
fn ending() {
    // Relaxed: as above.
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
