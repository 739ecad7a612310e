//! Plan 9's semaphores, as `include/chappe/plan9.h` has them.
//!
//! plan9-semaphores, sections 1, 3 and 5. The papers' names are short and common: a library that exported `lock` would
//! take it away from every program that is linked with it. So the exported symbol is `chappe_lock`, and the header,
//! which only programs that want the papers' interface include, has inline functions of the papers' names.
//!
//! A `long` has 64 bits here, and the value is its low half, which is what the kernel's futexes have. The upper half is 0, is never
//! written, and is looked at: a word in which it is not 0 is no semaphore. So a value that a program stores or reads as a `long` is
//! right, as long as it is between 0 and 2147483647. (While a thread waits at a `Usem`, its `u` is negative in the low half alone.)
//!
//! Errors are the paper's: -1, or 0 where only 0 and 1 are possible, and errno(3) says which; `chappe_last_error` says it in words.

use crate::failure::{Answer, Failure, answer};
use chappe::plan9::words;
use chappe::plan9::{semacquire, semrelease};
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI32, Ordering};

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("the value of a word is looked for in the low half of a long of 64 bits");

/// A semaphore and its `long`, in Plan 9's `Usem`.
#[repr(C)]
pub struct Usem {
    u: c_long,
    k: c_long,
}

/// The same in its `Lock`.
#[repr(C)]
pub struct Lock {
    key: c_long,
    sem: c_long,
}

/// The low half of a word that can be a semaphore.
fn word<'a>(addr: *mut c_long) -> Answer<&'a AtomicI32> {
    if addr.is_null() || !addr.is_aligned() {
        return Err(Failure::new(
            libc::EFAULT,
            c"a semaphore is a long in memory: NULL or a crooked address cannot be one",
        ));
    }
    // SAFETY: the caller's promise: a long lies there, which all touch by these calls alone, or before anybody else does.
    let halves = unsafe { &*addr.cast::<[AtomicI32; 2]>() };
    // Relaxed: it never changes.
    if halves[1].load(Ordering::Relaxed) != 0 {
        let text = c"the word holds no value of a semaphore: 0 to 2147483647 are possible";
        return Err(Failure::new(libc::EINVAL, text));
    }
    Ok(&halves[0])
}

fn said(errno: c_int) {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// Answers as the papers do.
fn answered<R: From<i8>>(act: impl FnOnce() -> Answer<R>, failed: i8) -> R {
    let mut result = None;
    let errno: c_int = -answer(|| {
        result = Some(act()?);
        Ok(0)
    });
    match result {
        Some(result) if errno == 0 => result,
        _ => {
            said(errno);
            failed.into()
        }
    }
}

/// `semacquire`: 1, 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semacquire(addr: *mut c_long, block: c_int) -> c_int {
    answered(|| Ok(semacquire(word(addr)?, block != 0)?.into()), -1)
}

/// `semrelease`: the new value, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semrelease(addr: *mut c_long, count: c_long) -> c_long {
    let release = || {
        let word = word(addr)?;
        match i32::try_from(count) {
            Ok(count) => Ok(c_long::from(semrelease(word, count)?)),
            Err(_) if count < 0 => {
                Err(Failure::new(libc::EINVAL, c"a semaphore cannot be released a negative number of times"))
            }
            Err(_) => Err(Failure::new(libc::EOVERFLOW, c"a semaphore cannot hold more than 2147483647")),
        }
    };
    answered(release, -1)
}

fn usem<'a>(s: *mut Usem) -> Answer<(&'a AtomicI32, &'a AtomicI32)> {
    let place = |offset: usize| s.cast::<c_long>().wrapping_add(offset);
    if s.is_null() {
        return Ok((word(std::ptr::null_mut())?, word(std::ptr::null_mut())?));
    }
    Ok((word(place(0))?, word(place(1))?))
}

/// `usemacquire`: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_usemacquire(s: *mut Usem) -> c_int {
    answered(
        || {
            let (u, k) = usem(s)?;
            words::usemacquire(u, k)?;
            Ok(0)
        },
        -1,
    )
}

/// `usemrelease`: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_usemrelease(s: *mut Usem) -> c_int {
    answered(
        || {
            let (u, k) = usem(s)?;
            words::usemrelease(u, k)?;
            Ok(0)
        },
        -1,
    )
}

/// `lock`: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_lock(l: *mut Lock) -> c_int {
    answered(
        || {
            let (key, sem) = usem(l.cast())?;
            words::lock(key, sem)?;
            Ok(0)
        },
        -1,
    )
}

/// `canlock`: 1, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_canlock(l: *mut Lock) -> c_int {
    answered(|| Ok(words::canlock(usem(l.cast())?.0).into()), 0)
}

/// `unlock`: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_unlock(l: *mut Lock) -> c_int {
    answered(
        || {
            let (key, sem) = usem(l.cast())?;
            words::unlock(key, sem)?;
            Ok(0)
        },
        -1,
    )
}
