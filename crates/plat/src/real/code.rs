//! Machine code that is made at run time: pages of it, with a page of data in front, that stay for ever.
//!
//! ```text
//!   base              base + DISTANCE
//!   | data (rw-) .... | code (r-x) ... |
//! ```
//!
//! All of it is written while none of it can be executed. Then the code's part loses the right to be written for ever and gains the right
//! to be executed. No page ever has both rights. What lies between the data's page and the code is never touched and costs no memory.
//! Nothing is unmapped once it was sealed: a thread, or the kernel on its behalf, may hold an address of it at any time.

use std::ffi::CStr;
use std::io;

/// How far the code lies behind the data: whatever page size the architecture's kernels may have divides it, and
/// instructions that address relative to themselves reach that far.
#[cfg(target_arch = "x86_64")]
pub const DISTANCE: usize = 4096;
/// How far the code lies behind the data: whatever page size the architecture's kernels may have divides it, and
/// instructions that address relative to themselves reach that far.
#[cfg(not(target_arch = "x86_64"))]
pub const DISTANCE: usize = 65536;

const ASK: libc::c_ulong = 0xffff_ffff;
const NAME: &CStr = c"chappe sequence";

/// Whether this thread's personality makes executable whatever can be read: a page that may be written would be both.
pub(super) fn would_be_both() -> bool {
    // SAFETY: only asks. -1: nobody knows of such a thing.
    let personality = unsafe { libc::personality(ASK) };
    personality != -1 && personality & libc::READ_IMPLIES_EXEC != 0
}

/// A mapping in the making: all of it may be written, none of it executed.
pub struct Fresh {
    base: *mut u8,
    len: usize,
}

impl Fresh {
    /// Room for that many bytes of code, zeroed.
    ///
    /// # Errors
    /// The system's: no memory; `EINVAL` where pages are larger than [`DISTANCE`]; `EPERM` where the thread's personality makes all
    /// executable that can be read (`READ_IMPLIES_EXEC`): a page would be both.
    pub fn map(code: usize) -> io::Result<Fresh> {
        let len = DISTANCE.checked_add(code).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        if !DISTANCE.is_multiple_of(page) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if would_be_both() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever there is room.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Fresh { base: base.cast(), len })
    }

    /// Where the code will be.
    pub fn code_at(&self) -> *const u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.add(DISTANCE) }
    }

    /// Where the data is, aligned to a page.
    pub fn data_at(&self) -> *mut u8 {
        self.base
    }

    /// The code's room.
    pub fn code(&mut self) -> &mut [u8] {
        // SAFETY: within the mapping, which is ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(DISTANCE), self.len - DISTANCE) }
    }

    /// Makes the code executable, and unchangeable. It stays for ever, and so does the data, which may be written. A forked
    /// child has a copy of both; after exec they are gone.
    ///
    /// # Errors
    /// The system's: a policy may forbid code that is made at run time (`EACCES`, `EPERM`). Then nothing is left of it.
    pub fn seal(self) -> io::Result<()> {
        let (at, len) = (self.code_at().cast_mut().cast(), self.len - DISTANCE);
        // SAFETY: pages of our own mapping, which nobody else knows.
        if unsafe { libc::mprotect(at, len, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        settle(self.code_at(), len);
        // SAFETY: a name for readers of /proc/PID/maps, where the kernel keeps such names; else it refuses.
        unsafe { libc::prctl(libc::PR_SET_VMA, libc::PR_SET_VMA_ANON_NAME, self.base, self.len, NAME.as_ptr()) };
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: it was not sealed: nobody else has an address of it.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// What was written is what will be executed: on this architecture the processor ensures it.
#[cfg(not(target_arch = "aarch64"))]
pub(super) fn settle(_at: *const u8, _len: usize) {}

/// What was written is what will be executed: the instructions' cache is told.
#[cfg(target_arch = "aarch64")]
pub(super) fn settle(at: *const u8, len: usize) {
    let kinds: u64;
    // SAFETY: reads how long the caches' lines are.
    unsafe { std::arch::asm!("mrs {k}, ctr_el0", k = out(reg) kinds, options(nostack, nomem, preserves_flags)) };
    let (data, code) = (4usize << (kinds >> 16 & 15), 4usize << (kinds & 15));
    let (from, to) = (at as usize, at as usize + len);
    for line in (from & !(data - 1)..to).step_by(data) {
        // SAFETY: an address of ours; the instruction changes nothing that a program sees.
        unsafe { std::arch::asm!("dc cvau, {l}", l = in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: orders the one before the other.
    unsafe { std::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (from & !(code - 1)..to).step_by(code) {
        // SAFETY: as above.
        unsafe { std::arch::asm!("ic ivau, {l}", l = in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: as above.
    unsafe { std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

/// Whether all of these bytes can be read and executed now, as /proc tells: touches none of them. (The process's own list is empty once
/// its first thread has ended; the thread's is the host's in an emulator.) None: it cannot be seen, for want of /proc or of
/// descriptors.
///
/// Reads the whole list of mappings, which takes some 10 us for a hundred of them, and holds the lock of the address space against threads
/// that map at the same time.
pub fn can_be_executed(at: usize, len: usize) -> Option<bool> {
    let list = |path| super::process::read_all(path).filter(|maps| !maps.is_empty());
    let maps = list("/proc/self/maps").or_else(|| list("/proc/thread-self/maps"))?;
    Some(covers(&String::from_utf8_lossy(&maps), at, len))
}

/// The list is in order of addresses; one range may span several of its lines.
fn covers(maps: &str, at: usize, len: usize) -> bool {
    let Some(end) = at.checked_add(len) else { return false };
    let mut seen = at;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let Some((from, to)) = range.split_once('-') else { continue };
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let (from, to) = (number(from), number(to));
        if seen < end && from <= seen && seen < to {
            if !rights.starts_with('r') || !rights[1..].contains('x') {
                return false;
            }
            seen = to;
        }
    }
    seen >= end && seen > at
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00001000-00002000 r-xp 00000000 00:00 0    /lib/a
00002000-00004000 r-xp 00000000 00:00 0    /lib/b
00004000-00005000 rw-p 00000000 00:00 0
00006000-00007000 --xp 00000000 00:00 0
";

    #[test]
    fn a_range_is_code_if_each_byte_of_it_is() {
        for (at, len, is) in [
            (0x1000, 1, true),
            (0x1fff, 2, true),
            (0x1000, 0x3000, true),
            (0x1000, 0x3001, false),
            (0xfff, 2, false),
            (0x4000, 1, false),
            (0x5000, 1, false),
            (0x6000, 1, false),
            (0x3fff, usize::MAX, false),
            (0, 1, false),
        ] {
            assert_eq!(covers(MAPS, at, len), is, "{at:#x}, {len}");
        }
        assert_eq!(can_be_executed(a_range_is_code_if_each_byte_of_it_is as *const () as usize, 4), Some(true));
        // Not a constant: where the linker puts those beside code, they are in executable pages.
        let on_the_stack = [0_u32];
        assert_eq!(can_be_executed(on_the_stack.as_ptr() as usize, 4), Some(false));
    }

    #[test]
    fn no_code_is_made_under_read_implies_exec() {
        std::thread::spawn(|| {
            // SAFETY: of this thread, which ends.
            let set = unsafe { libc::personality(libc::READ_IMPLIES_EXEC as libc::c_ulong) };
            if set == -1 {
                println!("not tested: no_code_is_made_under_read_implies_exec: there are no personalities");
                return;
            }
            assert_eq!(Fresh::map(64).err().and_then(|e| e.raw_os_error()), Some(libc::EPERM));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn code_is_recognised_after_the_first_thread_has_ended() {
        extern "C" fn look(_: *mut libc::c_void) -> *mut libc::c_void {
            while super::super::process::state(super::super::process::pid()) != Some('Z') {
                std::thread::yield_now();
            }
            let seen = can_be_executed(look as *const () as usize, 4);
            // SAFETY: ends this process.
            unsafe { libc::_exit(if seen == Some(true) { 7 } else { 8 }) }
        }
        // SAFETY: the child begins a thread of the C library's, whose attributes are the usual ones, and ends its own.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(30);
                let mut thread = std::mem::zeroed();
                let begun = libc::pthread_create(&mut thread, std::ptr::null(), look, std::ptr::null_mut());
                libc::syscall(if begun == 0 { libc::SYS_exit } else { libc::SYS_exit_group }, 0);
            }
            child
        };
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    }

    #[test]
    fn sealed_code_runs_and_cannot_be_changed() {
        #[cfg(target_arch = "x86_64")]
        const SEVEN: [u8; 6] = [0xb8, 7, 0, 0, 0, 0xc3];
        #[cfg(target_arch = "aarch64")]
        const SEVEN: [u8; 8] = [0xe0, 0, 0x80, 0x52, 0xc0, 3, 0x5f, 0xd6];
        let mut fresh = Fresh::map(SEVEN.len()).unwrap();
        let (code, data) = (fresh.code_at(), fresh.data_at());
        assert_eq!(can_be_executed(code as usize, SEVEN.len()), Some(false));
        fresh.code()[..SEVEN.len()].copy_from_slice(&SEVEN);
        fresh.seal().unwrap();
        assert_eq!(can_be_executed(code as usize, SEVEN.len()), Some(true));
        assert_eq!(can_be_executed(data as usize, 1), Some(false));
        // SAFETY: just made; it takes nothing and gives a number.
        let seven = unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u32>(code) };
        assert_eq!(seven(), 7);
        // SAFETY: the kernel looks whether it may write before it does.
        let written = |at: *const u8| unsafe { libc::getrandom(at.cast_mut().cast(), 1, 0) };
        assert_eq!((written(data), written(code)), (1, -1));
    }
}
