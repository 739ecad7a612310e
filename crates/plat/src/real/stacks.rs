//! Memory for stacks, and the guards below them. What happens to a thread that touches a guard: `faults`.
//!
//! Address space is reserved without memory behind it: a page comes when it is first written. Below each stack lies a guard. From Linux 6.13 on
//! it is a mark in the page table (`MADV_GUARD_INSTALL`); before, it takes a mapping of its own, of which a process has some 65,000
//! at most (`vm.max_map_count`).

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const GUARD_INSTALL: libc::c_int = 102;
const SET_VMA: libc::c_int = 0x5356_4d41;
const ANON_NAME: libc::c_ulong = 0;

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
