//! Pages that are mapped twice: where one view may be written, and where the other may be executed.
//!
//! ```text
//!   write view   rw-   +--------------+
//!                      | same pages   |   of an unnamed file in memory
//!   run view     r-x   +--------------+
//! ```
//!
//! No mapping ever has both rights, so code can be added and replaced piece by piece without a moment in which a page may be written
//! and executed at one address; [`code::Fresh`](super::code::Fresh) serves what is made once and stays. Both views are left
//! out of forked children (MADV_DONTFORK): their parent may replace what lies there. A child asks [`Twofold::is_here`] before
//! it jumps.

use super::code::{settle, would_be_both};
use super::process;
use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

const NAME: &CStr = c"chappe synth";
const REGISTER_SYNC_CORE: libc::c_int = 1 << 6;
const SYNC_CORE: libc::c_int = 1 << 5;
/// Since Linux 6.3; unknown before, where all such files may be executed.
const EXEC: libc::c_uint = 0x10;

/// Two views of the same pages. They go when it is dropped, by the process that made it.
pub struct Twofold {
    write: *mut u8,
    run: *const u8,
    len: usize,
    incarnation: u64,
}

// SAFETY: the views belong to the process, not to a thread; `write` says which thread may write where.
unsafe impl Send for Twofold {}
// SAFETY: as above.
unsafe impl Sync for Twofold {}

impl Twofold {
    /// Both views of so many bytes, rounded up to whole pages, zeroed.
    ///
    /// # Errors
    /// The system's: no memory or descriptors; a policy that forbids code made at run time (`EACCES`, `EPERM`); `EPERM` where
    /// the thread's personality makes all executable that can be read (`READ_IMPLIES_EXEC`).
    pub fn map(len: usize) -> io::Result<Twofold> {
        if would_be_both() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let len = len.max(1).next_multiple_of(4096);
        // SAFETY: a name that stays; the result is a descriptor of our own.
        let mut fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | EXEC) };
        if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
            // SAFETY: as above.
            fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        }
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let both = Twofold::map_both(fd, len);
        // SAFETY: our own descriptor, which the mappings do not need.
        unsafe { libc::close(fd) };
        both
    }

    fn map_both(fd: libc::c_int, len: usize) -> io::Result<Twofold> {
        // SAFETY: our own descriptor. Memory is there from here on, or the call fails: a write never meets SIGBUS.
        if unsafe { libc::ftruncate(fd, len as libc::off_t) != 0 || libc::fallocate(fd, 0, 0, len as libc::off_t) != 0 }
        {
            return Err(io::Error::last_os_error());
        }
        let view = |rights: libc::c_int| {
            // SAFETY: a new mapping, wherever there is room.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED, fd, 0) };
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: our own mapping. Refused: then a child has it, and asks `is_here` all the same.
            unsafe { libc::madvise(at, len, libc::MADV_DONTFORK) };
            Ok(at.cast::<u8>())
        };
        let write = view(libc::PROT_READ | libc::PROT_WRITE)?;
        match view(libc::PROT_READ | libc::PROT_EXEC) {
            Ok(run) => Ok(Twofold { write, run, len, incarnation: process::incarnation() }),
            Err(e) => {
                // SAFETY: our own mapping, of which nobody knows.
                unsafe { libc::munmap(write.cast(), len) };
                Err(e)
            }
        }
    }

    /// How many bytes there are. Never 0.
    #[allow(clippy::len_without_is_empty, reason = "there is always a page")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Of which process it is: what [`incarnation_if_any`](process::incarnation_if_any) said there.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether this process made it: a forked child has no views.
    #[inline]
    pub fn is_here(&self) -> bool {
        process::incarnation_if_any() == Some(self.incarnation)
    }

    /// Writes code, and makes sure that every thread of this process that jumps there from now on executes it and nothing that was there before.
    /// Answers where it runs.
    ///
    /// # Errors
    /// `ESRCH` in a forked child.
    ///
    /// # Panics
    /// When it leaves the view.
    ///
    /// # Safety
    /// No thread executes these bytes, or writes them, until this returns.
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) -> io::Result<*const u8> {
        assert!(at <= self.len && bytes.len() <= self.len - at, "{} bytes at {at} of {}", bytes.len(), self.len);
        if !self.is_here() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // SAFETY: within both views; ours alone by the caller's word.
        let run = unsafe {
            self.write.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.run.add(at)
        };
        settle(run, bytes.len());
        synchronise();
        Ok(run)
    }
}

/// Every thread of this process executes a serialising instruction before it goes on: what its processor has fetched of older code at these
/// addresses is gone. Where the kernel does not offer that, code at new addresses needs none on x86, and elsewhere `settle` has
/// told the caches.
fn synchronise() {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    // Without a lock: see `forks`. To register twice is the same as once.
    static REGISTERED: AtomicU8 = AtomicU8::new(UNKNOWN);
    let membarrier = |command: libc::c_int| {
        // SAFETY: reads no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    // Acquire: behind the registration.
    let mut registered = REGISTERED.load(Ordering::Acquire);
    if registered == UNKNOWN {
        registered = if membarrier(REGISTER_SYNC_CORE) { YES } else { NO };
        // Release: the registration comes before.
        REGISTERED.store(registered, Ordering::Release);
    }
    if registered == YES {
        membarrier(SYNC_CORE);
    }
}

impl Drop for Twofold {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        // SAFETY: our own mappings; the caller that drops it declares that no thread runs or writes there.
        unsafe {
            libc::munmap(self.write.cast(), self.len);
            libc::munmap(self.run.cast_mut().cast(), self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::can_be_executed;
    use super::*;

    #[cfg(target_arch = "x86_64")]
    fn answers(n: u8) -> Vec<u8> {
        vec![0xb8, n, 0, 0, 0, 0xc3]
    }
    #[cfg(target_arch = "aarch64")]
    fn answers(n: u8) -> Vec<u8> {
        let mov = 0x5280_0000u32 | u32::from(n) << 5;
        [mov.to_le_bytes(), 0xd65f_03c0u32.to_le_bytes()].concat()
    }

    fn call(at: *const u8) -> u32 {
        // SAFETY: code that takes nothing and answers a number.
        unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u32>(at)() }
    }

    #[test]
    fn code_is_replaced_and_no_view_has_both_rights() {
        let pages = Twofold::map(100).unwrap();
        assert_eq!(pages.len(), 4096);
        for n in [7, 9, 200] {
            // SAFETY: nobody else knows of these pages.
            let run = unsafe { pages.write(64, &answers(n)) }.unwrap();
            assert_eq!(call(run), u32::from(n));
        }
        assert_eq!(can_be_executed(pages.run as usize, 4096), Some(true));
        assert_eq!(can_be_executed(pages.write as usize, 4096), Some(false));
        let written = |at: *const u8| {
            // SAFETY: the kernel looks whether it may write before it does.
            unsafe { libc::getrandom(at.cast_mut().cast(), 1, 0) }
        };
        assert_eq!((written(pages.write), written(pages.run)), (1, -1));
    }

    #[test]
    fn a_forked_child_has_none_and_knows_it() {
        let pages = Twofold::map(1).unwrap();
        // SAFETY: nobody else knows of these pages.
        unsafe { pages.write(0, &answers(1)) }.unwrap();
        // SAFETY: the child makes no call that a fork forbids, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let here = pages.is_here();
            // SAFETY: refused in a child.
            let refused = unsafe { pages.write(0, &answers(2)) }.is_err();
            // SAFETY: the kernel looks whether it may write before it does.
            let gone = unsafe { libc::getrandom(pages.write.cast(), 1, 0) } == -1;
            drop(pages);
            // SAFETY: ends this process.
            unsafe { libc::_exit(if !here && refused && gone { 0 } else { 1 }) }
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(call(pages.run), 1);
    }
}
