//! The memory of one lane: the words in a page of their own, and the ring behind them.

use chappe_lane::Words;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// What the kernel's pipe is made to hold. More is for privileged users.
pub(crate) const WIDE: usize = 1 << 20;
/// What of it is not for the ring: pages that are half empty, and those that the pipe held before it was wide (the lane's I9).
const KEPT: usize = 128 << 10;
/// The ring.
pub(crate) const RING: usize = WIDE - KEPT;
/// Where the ring begins: the largest page of any machine.
pub(crate) const PAGE: usize = 64 << 10;

const _: () = assert!(size_of::<Words>() <= PAGE && RING.is_multiple_of(PAGE));

/// A lane's memory, mapped. Processes that are forked later have it as well. It stays mapped behind this value if a thread of the process still
/// owns an end there.
pub struct Place(NonNull<u8>);

// SAFETY: the words are atomics, and the lane says which end may touch which bytes of the ring.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// How many bytes one takes.
    pub(crate) const LEN: usize = PAGE + RING;

    /// Memory of this process and its children.
    ///
    /// # Errors
    /// The system's: there is no memory.
    pub fn new() -> io::Result<Place> {
        Place::map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// That of a file. Zeroes are a new lane.
    pub(crate) fn of(file: BorrowedFd) -> io::Result<Place> {
        Place::map(libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(flags: i32, fd: i32) -> io::Result<Place> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel likes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), Place::LEN, access, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let place = Place(NonNull::new(at.cast()).expect("the kernel maps nothing at 0 unasked"));
        place.words().make();
        Ok(place)
    }

    /// The lane's words.
    #[inline]
    pub fn words(&self) -> &Words {
        // SAFETY: mapped as long as this, large enough, aligned; zeroes are words, and all others are written by lanes.
        unsafe { self.0.cast::<Words>().as_ref() }
    }

    /// The two pieces of the ring at which `len` bytes from this position on lie.
    #[inline]
    fn pieces(&self, at: u64, len: usize) -> [(*mut u8, usize); 2] {
        assert!(len <= RING, "more than the ring has");
        let begin = (at % RING as u64) as usize;
        let first = len.min(RING - begin);
        // SAFETY: both are within the mapping.
        let (from, ring) = unsafe { (self.0.add(PAGE + begin), self.0.add(PAGE)) };
        [(from.as_ptr(), first), (ring.as_ptr(), len - first)]
    }

    #[inline]
    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (to, len) in self.pieces(at, bytes.len()) {
            // Most often there is one.
            if len == 0 {
                break;
            }
            let (piece, behind) = rest.split_at(len);
            // SAFETY: the piece is within the ring; nobody reads it before the writer's swap (the lane's I3).
            unsafe { to.copy_from_nonoverlapping(piece.as_ptr(), len) };
            rest = behind;
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u64, into: &mut [u8]) {
        let mut rest = &mut into[..];
        for (from, len) in self.pieces(at, rest.len()) {
            // As above.
            if len == 0 {
                break;
            }
            let (piece, behind) = rest.split_at_mut(len);
            // SAFETY: the piece is within the ring; what was written over meanwhile is not taken (the lane's I4).
            unsafe { from.copy_to_nonoverlapping(piece.as_mut_ptr(), len) };
            rest = behind;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A thread that owns an end here, whose handle was dropped and not released, has the words in its robust list: the C library and the
        // kernel go through that. Then the memory stays. The kernel has gone through it before a thread is no more of this process.
        // SAFETY: calls that touch no memory; signal 0 is none.
        let asked = |tid: u32| unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as libc::pid_t, 0) };
        let is_ours = |tid| asked(tid) == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH);
        if self.words().owners().any(is_ours) {
            return;
        }
        // SAFETY: mapped by `map`, and nobody has it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), Place::LEN) };
    }
}
