//! Which pipe of a run has which lane: a file that the processes of the run share.
//!
//! A slot's word is 0 while it is free, then the inode number of a pipe, and then [`RETIRED`] if the kernel has given that number to a later
//! pipe.
//!
//! - I1 A slot is never another entered pipe's. What a process knows of a descriptor stays true as long as the descriptor is open, and no word
//!   of a lane is wiped under a call. When all slots are used, later pipes are the kernel's. A pipe that nobody has entered, and whose
//!   number the kernel has given before (of some 2^32), finds the old pipe's slot: all pipes of a run are entered.
//! - I2 A slot is taken by one swap: a process that dies here leaves nothing half made. The lane's words begin as zeroes.
//! - I3 The maker of a pipe enters it before any other process or thread has it: so no two enter the same.
//!
//! Edge E1: `slots` release by the maker, acquire by each that looks: `device` is there. A pipe of a file system (a FIFO) has its number on another
//! device, and no lane.

use crate::place::{PAGE, Place};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many pipes of a run have lanes.
const SLOTS: usize = 1024;
/// The number in a slot whose pipe is gone.
const RETIRED: u64 = u64::MAX;
const NAME: &CStr = c"chappe-pipes";

/// What the file begins with.
#[repr(C)]
struct Slots {
    /// Of all pipes that are no files: the kernel has one device for them.
    device: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

const _: () = assert!(size_of::<Slots>() <= PAGE);

/// The lanes of a run.
pub struct Table {
    slots: NonNull<Slots>,
    file: OwnedFd,
}

// SAFETY: the memory behind it is atomics.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// Of a new run, in memory. Its descriptor is closed by exec.
    ///
    /// # Errors
    /// The system's. `EFBIG`: the process may not make a file of that size (`ulimit -f`).
    pub fn new() -> io::Result<Table> {
        // SAFETY: a name; the descriptor is new.
        let file = unsafe {
            match libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        // Sparse: memory is there once it is used. The limit on files is for this one as well, and the kernel kills a process that exceeds it.
        let (file, len) = (File::from(file), (PAGE + SLOTS * Place::LEN) as u64);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a place for the limit.
        if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0 && limit.rlim_cur < len {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        file.set_len(len)?;
        Table::of(file.into())
    }

    /// That of a file which [`Table::new`] has made.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: OwnedFd) -> io::Result<Table> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel likes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Table { slots: NonNull::new(at.cast()).expect("the kernel maps nothing at 0 unasked"), file })
    }

    fn slots(&self) -> &Slots {
        // SAFETY: mapped as long as this, large enough and aligned; all bytes are atomics' bytes.
        unsafe { self.slots.as_ref() }
    }

    /// Gives a pipe a lane that has just been made. False: none is left.
    ///
    /// # Errors
    /// It is no pipe.
    pub fn enter(&self, pipe: &impl AsFd) -> io::Result<bool> {
        let Slots { device, slots } = self.slots();
        let (its_device, number) = identity(pipe)?.ok_or(io::ErrorKind::InvalidInput)?;
        device.store(its_device, Ordering::Relaxed); // Relaxed: E1.
        for slot in slots {
            // Relaxed, all: the number is that of a pipe which nobody has any more.
            let _ = slot.compare_exchange(number, RETIRED, Ordering::Relaxed, Ordering::Relaxed);
        }
        // Release: E1. Relaxed where it fails: another pipe has it.
        let take = |slot: &AtomicU64| slot.compare_exchange(0, number, Ordering::Release, Ordering::Relaxed).is_ok();
        Ok(slots.iter().any(take))
    }

    /// The lane of this descriptor's pipe. `None`: it has none, or it is no pipe.
    ///
    /// # Errors
    /// The system's.
    pub fn place(&self, fd: &impl AsFd) -> io::Result<Option<Place>> {
        let Slots { device, slots } = self.slots();
        let Some((its_device, number)) = identity(fd)? else { return Ok(None) };
        // Acquire: E1.
        let Some(slot) = slots.iter().position(|slot| slot.load(Ordering::Acquire) == number) else { return Ok(None) };
        // Relaxed: E1.
        if device.load(Ordering::Relaxed) != its_device {
            return Ok(None);
        }
        Place::of(self.file.as_fd(), (PAGE + slot * Place::LEN) as i64).map(Some)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and nobody has it any more.
        unsafe { libc::munmap(self.slots.as_ptr().cast(), PAGE) };
    }
}

/// The device and the number of a pipe.
fn identity(fd: &impl AsFd) -> io::Result<Option<(u64, u64)>> {
    let mut facts = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a place for the facts, which the call fills where it succeeds.
    let facts = unsafe {
        if libc::fstat(fd.as_fd().as_raw_fd(), facts.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        facts.assume_init()
    };
    Ok((facts.st_mode & libc::S_IFMT == libc::S_IFIFO).then_some((facts.st_dev, facts.st_ino)))
}
