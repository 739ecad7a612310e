//! The C library's own functions of the names that are replaced here: those that come after this library in the order in which
//! the linker looks.
//!
//! They are looked up once, when the library is loaded; earlier only if another library's constructor is faster.

use libc::{c_char, c_int, c_uint, c_void, clockid_t, sem_t, timespec};
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! functions {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) -> $back:ty;)*) => {
        /// Where each of them is.
        mod kept {
            use super::*;
            $(
                #[allow(non_upper_case_globals, reason = "named as the function is")]
                pub static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            )*
        }
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// As the C library's manual has it. It may end the thread, if it is a cancellation point.
            #[inline]
            #[allow(non_snake_case, reason = "as the C library has it")]
            pub unsafe fn $name($($arg: $type),*) -> $back {
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $back;
                let at = found(&kept::$name, concat!(stringify!($name), "\0"));
                // SAFETY: the C library has functions of these names with these types.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(at) };
                // SAFETY: the caller's.
                unsafe { function($($arg),*) }
            }
        )*
        /// Looks all of them up. What is not there is told when it is called.
        pub fn look_up() {
            $(
                kept::$name.store(find(concat!(stringify!($name), "\0")), Ordering::Relaxed); // Relaxed: as in `found`.
            )*
        }
    };
}

fn find(name: &'static str) -> *mut c_void {
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) }
}

fn found(kept: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    // Relaxed: an address of code that was there before; every thread that looks it up finds the same.
    let at = kept.load(Ordering::Relaxed);
    if !at.is_null() {
        return at;
    }
    let at = find(name);
    if at.is_null() {
        // There is nothing to go on with: the program calls what its own C library has not got.
        // SAFETY: always safe.
        unsafe { libc::abort() };
    }
    kept.store(at, Ordering::Relaxed); // Relaxed: as above.
    at
}

functions! {
    /// The C library's.
    sem_init(at: *mut sem_t, shared: c_int, value: c_uint) -> c_int;
    /// The C library's.
    sem_destroy(at: *mut sem_t) -> c_int;
    /// The C library's.
    sem_wait(at: *mut sem_t) -> c_int;
    /// The C library's.
    sem_trywait(at: *mut sem_t) -> c_int;
    /// The C library's.
    sem_timedwait(at: *mut sem_t, limit: *const timespec) -> c_int;
    /// The C library's.
    sem_clockwait(at: *mut sem_t, clock: clockid_t, limit: *const timespec) -> c_int;
    /// The C library's.
    sem_post(at: *mut sem_t) -> c_int;
    /// The C library's.
    sem_getvalue(at: *mut sem_t, value: *mut c_int) -> c_int;
    /// The C library's.
    pthread_cancel(thread: libc::pthread_t) -> c_int;
    /// The C library's.
    _exit(status: c_int) -> ();
    /// The C library's.
    _Exit(status: c_int) -> ();
    /// The C library's.
    quick_exit(status: c_int) -> ();
    /// The C library's.
    daemon(keeps_directory: c_int, keeps_files: c_int) -> c_int;
}
