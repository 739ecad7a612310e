//! The C library's entry points, turned to functions of this library: also the calls that the C library makes within itself (of stdio) come here.
//!
//! The first bytes of each function become a jump. Nobody comes into the middle of one: the only thread is here, the functions that are turned are
//! called at their beginning alone, and the caller has seen to it that no signal handler runs, or has been interrupted. None of the rest is used
//! again, so nothing is moved.

use libc::{c_int, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// `jmp *0(%rip)`, and behind it the address.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const LEN: usize = JUMP.len() + size_of::<usize>();
const PAGE: usize = 4096;
/// Of `dladdr1`: the symbol's entry.
const RTLD_DL_SYMENT: c_int = 1;

/// A function of the C library, and what takes its place.
pub struct Turned {
    pub name: &'static CStr,
    pub to: *const c_void,
}

// SAFETY: addresses of functions.
unsafe impl Sync for Turned {}

// SAFETY: the C library's.
unsafe extern "C" {
    fn dladdr1(at: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
}

/// Where the function begins, and the object that has it. None: it is not there, or too short for a jump.
fn entry(name: &CStr) -> Option<(usize, usize)> {
    let (mut info, mut symbol) = (MaybeUninit::<libc::Dl_info>::uninit(), std::ptr::null_mut::<c_void>());
    // SAFETY: a name, and places for what is told of its address.
    unsafe {
        let at = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        if at.is_null() || dladdr1(at, info.as_mut_ptr(), &raw mut symbol, RTLD_DL_SYMENT) == 0 || symbol.is_null() {
            return None;
        }
        let len = (*symbol.cast::<libc::Elf64_Sym>()).st_size as usize;
        (len >= LEN).then_some((at as usize, info.assume_init().dli_fbase as usize))
    }
}

/// Turns all of them, or none. False: the program stays as it is.
pub fn turn(all: &[Turned]) -> bool {
    let object = entry(c"abort").map(|(_, object)| object);
    let mut places = [0; 32];
    for (turned, place) in all.iter().zip(&mut places) {
        match entry(turned.name) {
            // The functions of another library that was put before the C library are not those that are known.
            Some((at, its)) if Some(its) == object => *place = at,
            _ => return false,
        }
    }
    let places = &places[..all.len()];
    let begin = places.iter().min().map_or(0, |first| first / PAGE * PAGE);
    let end = places.iter().max().map_or(0, |last| (last + LEN).next_multiple_of(PAGE));
    let protect = |access: c_int| {
        // SAFETY: pages of the C library's code.
        unsafe { libc::syscall(libc::SYS_mprotect, begin, end - begin, access) == 0 }
    };
    // Also to be run meanwhile: the call that takes it back is in the same library.
    if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        return false;
    }
    for (turned, place) in all.iter().zip(places) {
        let bytes = JUMP.into_iter().chain((turned.to as usize).to_ne_bytes());
        for (offset, byte) in bytes.enumerate() {
            // SAFETY: within the function, which is as long, and may be written now.
            unsafe { std::ptr::write_volatile((place + offset) as *mut u8, byte) };
        }
    }
    protect(libc::PROT_READ | libc::PROT_EXEC);
    true
}
