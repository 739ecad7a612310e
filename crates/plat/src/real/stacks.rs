//! Memory for stacks, and what happens to a thread that overflows its stack.
//!
//! Address space is reserved without memory behind it: a page comes when it is first written. Below each stack lies a guard. From Linux 6.13 on
//! it is a mark in the page table (`MADV_GUARD_INSTALL`); before, it takes a mapping of its own, of which a process has some 65,000
//! at most (`vm.max_map_count`).

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const GUARD_INSTALL: libc::c_int = 102;
const SET_VMA: libc::c_int = 0x5356_4d41;
const ANON_NAME: libc::c_ulong = 0;
/// For the handler of a thread that has no stack for handlers.
const HANDLER_STACK: usize = 64 * 1024;

/// The size of a page.
pub fn page() -> usize {
    // Ordering: Relaxed: every thread is told the same.
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    let known = PAGE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: asks a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    PAGE.store(page, Ordering::Relaxed);
    page
}

/// Reserves so many bytes of address space, readable and writable, without memory behind them. The name is what /proc/PID/maps
/// calls it, where the kernel can. A core file has none of it, but for what [`dump`] names: it would be as large as the address space.
///
/// # Errors
/// The system's: an address space that is limited, or accounted for strictly.
pub fn reserve(len: usize, name: &std::ffi::CStr) -> io::Result<*mut u8> {
    // Miri has no such memory; what is reserved there is small.
    let no_reserve = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | no_reserve;
    // SAFETY: a new mapping; the name is a C string.
    unsafe {
        let at = libc::mmap(null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if cfg!(miri) {
            return Ok(at.cast());
        }
        libc::prctl(SET_VMA, ANON_NAME, at, len, name.as_ptr());
        // A page for each stack, not a huge one.
        libc::madvise(at, len, libc::MADV_NOHUGEPAGE);
        libc::madvise(at, len, libc::MADV_DONTDUMP);
        Ok(at.cast())
    }
}

/// A core file has this part, if the process dies.
///
/// # Safety
/// It was reserved.
pub unsafe fn dump(at: *mut u8, len: usize) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at.cast(), len, libc::MADV_DODUMP) };
}

/// Returns address space.
///
/// # Safety
/// It was reserved, and no thread uses it any more.
pub unsafe fn give_back(at: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.cast(), len) };
}

/// Makes a page whose access kills the process.
///
/// # Errors
/// The system's: `ENOMEM` if there are as many mappings as there may be.
///
/// # Safety
/// The page was reserved, and nothing is there.
pub unsafe fn guard(at: *mut u8, len: usize) -> io::Result<()> {
    // Ordering: Relaxed: a hint.
    static OLD: AtomicU32 = AtomicU32::new(0);
    if cfg!(miri) {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe {
        if OLD.load(Ordering::Relaxed) == 0 {
            if libc::madvise(at.cast(), len, GUARD_INSTALL) == 0 {
                return Ok(());
            }
            OLD.store(1, Ordering::Relaxed);
        }
        if libc::mprotect(at.cast(), len, libc::PROT_NONE) == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The kernel may take the memory; the next user of the stack may find zeros.
///
/// # Safety
/// No thread needs what is there.
pub unsafe fn forget(at: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at.cast(), len, libc::MADV_FREE) };
}

/// Gives the calling kernel thread a stack for signal handlers, if it has none: on that a stack that is used up can be told of. Lets the
/// signals of faults through, which kill a process outright where they are blocked.
pub fn prepare_for_overflow() {
    // SAFETY: of the calling thread alone.
    unsafe {
        let mut faults = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(faults.as_mut_ptr());
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
            libc::sigaddset(faults.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, faults.as_ptr(), null_mut());
    }
    // SAFETY: the places are ours; the stack is never given back.
    unsafe {
        let mut now = MaybeUninit::<libc::stack_t>::zeroed().assume_init();
        if libc::sigaltstack(std::ptr::null(), &raw mut now) != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        if let Ok(at) = reserve(HANDLER_STACK, c"chappe-handler") {
            dump(at, HANDLER_STACK);
            let mine = libc::stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: HANDLER_STACK };
            libc::sigaltstack(&raw const mine, null_mut());
        }
    }
}

/// Asked at a fault: whether there is a guard at this address, and what is to be said, written into the buffer; its length.
pub type Told = fn(usize, &mut [u8]) -> Option<usize>;

static TELL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static mut BEFORE: [MaybeUninit<libc::sigaction>; 2] = [MaybeUninit::uninit(); 2];

/// Reports stack overflows: a thread that touches a guard ends the process with a message instead of a bare signal. Other faults go to the
/// previous handler. Once.
pub fn watch_overflow(told: Told) {
    // AcqRel: once.
    if cfg!(miri) || !TELL.swap(told as *mut c_void, Ordering::AcqRel).is_null() {
        return;
    }
    for (at, signal) in [libc::SIGSEGV, libc::SIGBUS].into_iter().enumerate() {
        // SAFETY: the action is whole; what was there before is kept where the handler finds it.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = overflowed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, (&raw mut BEFORE[at]).cast());
        }
    }
}

extern "C" fn overflowed(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's.
    let address = unsafe { (*info).si_addr() } as usize;
    // Acquire: the function.
    let told = TELL.load(Ordering::Acquire);
    // SAFETY: `watch_overflow` has stored it.
    let told = unsafe { std::mem::transmute::<*mut c_void, Told>(told) };
    let mut text = [0; 256];
    if let Some(len) = told(address, &mut text) {
        // SAFETY: the buffer is ours.
        unsafe {
            libc::write(2, text.as_ptr().cast(), len.min(text.len()));
            libc::abort();
        }
    }
    // SAFETY: `watch_overflow` has kept it; called as the kernel would have.
    unsafe {
        let before = (&raw const BEFORE[usize::from(signal == libc::SIGBUS)]).cast::<libc::sigaction>();
        let action = (*before).sa_sigaction;
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            // It comes again at once, and ends the process.
            libc::sigaction(signal, before, null_mut());
        } else if (*before).sa_flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void)>(action)(
                signal, info, context,
            );
        } else {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(action)(signal);
        }
    }
}
