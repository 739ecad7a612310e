//! Whole pages for large things, which can be given back while their addresses stay.

use std::io;
use std::ptr::{NonNull, null_mut};

/// Zeroed memory of its own; none if there is none.
pub fn map(len: usize) -> Option<NonNull<u8>> {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(null_mut(), len, rights, kind, -1, 0) };
    if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) }
}

/// Gives the memory back, but not its addresses: zeroes are there from now on.
///
/// # Errors
/// The system's: `EINVAL` if the memory is locked.
///
/// # Safety
/// It was mapped here, and whatever reads it meanwhile may find what was there or zeroes, each word by itself.
pub unsafe fn wipe(at: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    if unsafe { libc::madvise(at.as_ptr().cast(), len, libc::MADV_DONTNEED) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives back memory and addresses.
///
/// # Safety
/// It was mapped here, and no thread uses it any more.
pub unsafe fn unmap(at: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.as_ptr().cast(), len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiped_pages_are_zero_and_take_no_memory() {
        let len = 1 << 20;
        let at = map(len).unwrap();
        // SAFETY: so many bytes, ours alone.
        let bytes = || unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) };
        assert!(bytes().iter().all(|b| *b == 0));
        bytes().fill(7);
        // SAFETY: mapped above, and nobody reads it.
        unsafe { wipe(at, len) }.unwrap();
        let mut there = vec![0_u8; len / 4096];
        // SAFETY: asks of so many pages, a byte each.
        assert_eq!(unsafe { libc::mincore(at.as_ptr().cast(), len, there.as_mut_ptr()) }, 0);
        assert!(there.iter().all(|page| page & 1 == 0));
        assert!(bytes().iter().all(|b| *b == 0));
        // SAFETY: mapped above, and nobody uses it any more.
        unsafe { unmap(at, len) };
    }

    #[test]
    fn an_impossible_mapping_is_none() {
        assert!(map(isize::MAX as usize & !4095).is_none());
    }
}
