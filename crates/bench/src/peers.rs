//! The peers: what a program would use instead, each used as its manual says.

use crate::process::{Zeroable, shared};
use crate::raw::Scope;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What one holds at a time, or some do.
pub trait Lock: Sync {
    /// Takes it.
    fn lock(&self);
    /// Gives it back.
    fn unlock(&self);
}

/// An object of the C library, or any other that all zeroes make, in a page that forked children share; and beside it,
/// in the same cache line, a number that it guards.
pub struct InPage<T> {
    object: UnsafeCell<T>,
    number: UnsafeCell<u64>,
}

impl<T> InPage<T> {
    /// The object, for the calls that change it.
    pub fn object(&self) -> *mut T {
        self.object.get()
    }

    /// The number, for the holder of the object.
    pub fn number(&self) -> *mut u64 {
        self.number.get()
    }
}

// SAFETY: T is an object made for use by several at once, touched only through its calls; the number by its holder.
unsafe impl<T> Sync for InPage<T> {}
// SAFETY: as above; it is initialised before it is used.
unsafe impl<T> Zeroable for InPage<T> {}

/// What a pthread mutex does beside locking.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Nothing.
    Normal,
    /// Says that its owner died.
    Robust,
    /// Lends the owner the priority of its waiters.
    Inheriting,
}

/// A pthread mutex: one holder.
pub struct PthreadMutex(&'static InPage<libc::pthread_mutex_t>);

impl PthreadMutex {
    /// Makes one.
    pub fn new(flavour: Flavour, scope: Scope) -> PthreadMutex {
        let place = shared::<InPage<libc::pthread_mutex_t>>();
        // SAFETY: no other thread uses the page yet; the attribute lives across the calls.
        unsafe {
            let mut attr: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attr);
            if scope == Scope::Shared {
                libc::pthread_mutexattr_setpshared(&mut attr, libc::PTHREAD_PROCESS_SHARED);
            }
            match flavour {
                Flavour::Normal => {}
                Flavour::Robust => {
                    libc::pthread_mutexattr_setrobust(&mut attr, libc::PTHREAD_MUTEX_ROBUST);
                }
                Flavour::Inheriting => {
                    libc::pthread_mutexattr_setprotocol(&mut attr, libc::PTHREAD_PRIO_INHERIT);
                }
            }
            assert_eq!(libc::pthread_mutex_init(place.object(), &attr), 0);
        }
        PthreadMutex(place)
    }

    /// The page that it is in.
    pub fn place(&self) -> &'static InPage<libc::pthread_mutex_t> {
        self.0
    }
}

impl Lock for PthreadMutex {
    #[inline]
    fn lock(&self) {
        // SAFETY: `new` initialised it.
        if unsafe { libc::pthread_mutex_lock(self.0.object()) } == libc::EOWNERDEAD {
            // SAFETY: it was just given to us in the inconsistent state.
            unsafe { libc::pthread_mutex_consistent(self.0.object()) };
        }
    }
    #[inline]
    fn unlock(&self) {
        // SAFETY: we hold it.
        unsafe { libc::pthread_mutex_unlock(self.0.object()) };
    }
}

/// A POSIX semaphore: N permits; a death returns nothing.
pub struct Semaphore(&'static InPage<libc::sem_t>);

impl Semaphore {
    /// Makes one.
    pub fn new(count: u32, scope: Scope) -> Semaphore {
        let place = shared::<InPage<libc::sem_t>>();
        // SAFETY: no other thread uses the page yet.
        assert_eq!(unsafe { libc::sem_init(place.object(), (scope == Scope::Shared).into(), count) }, 0);
        Semaphore(place)
    }

    /// The page that it is in.
    pub fn place(&self) -> &'static InPage<libc::sem_t> {
        self.0
    }
}

impl Lock for Semaphore {
    #[inline]
    fn lock(&self) {
        // SAFETY: `new` initialised it. A signal ends the wait early: again.
        while unsafe { libc::sem_wait(self.0.object()) } != 0 {}
    }
    #[inline]
    fn unlock(&self) {
        // SAFETY: as above.
        unsafe { libc::sem_post(self.0.object()) };
    }
}

/// A System V semaphore: N permits, that return at death if asked to (SEM_UNDO).
pub struct SysV {
    id: i32,
    flags: i16,
}

impl SysV {
    /// Makes one.
    pub fn new(count: u32, undo: bool) -> SysV {
        // SAFETY: plain system calls.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        assert!(id >= 0, "no System V semaphore: {}", io::Error::last_os_error());
        // SAFETY: SETVAL takes a number.
        assert_eq!(unsafe { libc::semctl(id, 0, libc::SETVAL, count) }, 0);
        SysV { id, flags: if undo { libc::SEM_UNDO as i16 } else { 0 } }
    }

    #[inline]
    fn change(&self, by: i16) {
        let mut one = libc::sembuf { sem_num: 0, sem_op: by, sem_flg: self.flags };
        // SAFETY: one operation is given.
        while unsafe { libc::semop(self.id, &mut one, 1) } != 0 {
            assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
        }
    }
}

impl Lock for SysV {
    #[inline]
    fn lock(&self) {
        self.change(-1);
    }
    #[inline]
    fn unlock(&self) {
        self.change(1);
    }
}

impl Drop for SysV {
    fn drop(&mut self) {
        // SAFETY: takes numbers; ours alone.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }
}

/// flock(2) on a file: one holder; the kernel frees it at death. A process that asks opens the file anew.
pub struct FileLock {
    path: PathBuf,
    opened: std::sync::Mutex<Option<(u32, OwnedFd)>>,
}

impl FileLock {
    /// Makes the file.
    pub fn new(directory: &Path) -> FileLock {
        let path = directory.join("flock");
        std::fs::write(&path, "").expect("cannot write in the directory of arenas");
        FileLock { path, opened: std::sync::Mutex::new(None) }
    }

    /// The descriptor of this process: an inherited one would be the parent's lock.
    pub fn descriptor(&self) -> i32 {
        let mut opened = self.opened.lock().expect("nobody panics here");
        let me = std::process::id();
        if opened.as_ref().is_none_or(|(pid, _)| *pid != me) {
            let file = std::fs::File::open(&self.path).expect("the file was just made");
            // The parent's copy stays open in us: a flock ends with its holder's last descriptor, so it is closed.
            *opened = Some((me, file.into()));
        }
        opened.as_ref().map_or(-1, |(_, fd)| fd.as_raw_fd())
    }
}

impl Lock for FileLock {
    fn lock(&self) {
        flock(self.descriptor(), libc::LOCK_EX);
    }
    fn unlock(&self) {
        flock(self.descriptor(), libc::LOCK_UN);
    }
}

/// The bare call.
#[inline]
pub fn flock(fd: i32, operation: i32) {
    // SAFETY: takes numbers.
    while unsafe { libc::flock(fd, operation) } != 0 {
        assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
    }
}
