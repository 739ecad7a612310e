//! What the memory at an address is: this process's own, or shared with others.

use super::process::read_all;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// What Linux 6.11 takes and fills, in an ioctl on the list of mappings.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_size: u32,
    name: u64,
    build: u64,
}

/// This thread's: the process's is that of its first thread, and empty once that has ended.
const MAPS: &str = "/proc/thread-self/maps";

const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611_u32 as libc::Ioctl;
const SHARED: u64 = 8;

/// Whether a write at an address is visible to the other processes that map the same memory, forked children included; otherwise they have
/// a copy of it. 3 us; before Linux 6.11 as long as it takes to read the list of mappings.
///
/// # Errors
/// `EFAULT` if nothing is mapped there; the system's, where there is no /proc.
pub fn is_shared(address: usize) -> io::Result<bool> {
    let maps = File::open(MAPS)?;
    let mut query = Query { size: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
    // SAFETY: the struct is as large as it says, and no buffer is asked to be filled.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } == 0 {
        return Ok(query.rights & SHARED != 0);
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        _ => listed(address as u64, &read_all(MAPS).ok_or_else(io::Error::last_os_error)?),
    }
}

/// Has so many bytes in memory, and keeps them there: no access to them is a page fault from now on. They stay until the process ends or calls exec.
///
/// # Errors
/// The system's: `EPERM` or `ENOMEM` where the process may not lock so much.
pub fn pin(address: usize, len: usize) -> io::Result<()> {
    // SAFETY: it changes nothing of what is there.
    if len == 0 || unsafe { libc::mlock(address as *const libc::c_void, len) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How many bytes this process may lock.
pub fn most_pinned() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it writes the struct alone.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0 { limit.rlim_cur } else { 0 }
}

/// The same by the list: `start-end rights ...`, where the fourth right is `s` or `p`.
fn listed(address: u64, maps: &[u8]) -> io::Result<bool> {
    let text = String::from_utf8_lossy(maps);
    let there = text.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        (number(start)?..number(end)?).contains(&address).then(|| rest.as_bytes().get(3) == Some(&b's'))
    });
    there.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_told_from_private_memory() {
        let page = |flags| {
            // SAFETY: the kernel chooses the place; it stays mapped.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags | libc::MAP_ANONYMOUS, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at as usize
        };
        let (shared, private, local) = (page(libc::MAP_SHARED), page(libc::MAP_PRIVATE), 0u8);
        let list = || read_all(MAPS).expect("/proc");
        for (address, expected) in
            [(shared, true), (shared + 4095, true), (private, false), (&raw const local as usize, false)]
        {
            assert_eq!(is_shared(address).ok(), Some(expected), "{address:x}");
            assert_eq!(listed(address as u64, &list()).ok(), Some(expected), "{address:x}, by the list");
        }
        for nowhere in [0, 8, usize::MAX - 7] {
            assert_eq!(is_shared(nowhere).unwrap_err().raw_os_error(), Some(libc::EFAULT));
            assert_eq!(listed(nowhere as u64, &list()).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
    }
}
