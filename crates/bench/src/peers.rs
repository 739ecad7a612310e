//! The peers: what a program would use instead, each used as its manual says.

use crate::process::{Zeroable, shared};
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A lock between processes that a death frees.
pub trait Lock {
    /// Takes it.
    fn lock(&self);
    /// Gives it back.
    fn unlock(&self);
}

struct InPage<T>(UnsafeCell<T>);

// SAFETY: T is a process-shared object of the C library, touched only through its calls.
unsafe impl<T> Sync for InPage<T> {}
// SAFETY: as above; it is initialised before it is used.
unsafe impl<T> Zeroable for InPage<T> {}

/// A robust, process-shared pthread mutex: one holder; says that its owner died.
pub struct RobustMutex(&'static InPage<libc::pthread_mutex_t>);

impl RobustMutex {
    /// Makes one.
    #[expect(clippy::new_without_default, reason = "it takes a page that is never given back")]
    pub fn new() -> RobustMutex {
        let place = shared::<InPage<libc::pthread_mutex_t>>();
        // SAFETY: nobody else uses the page yet; the attribute lives across the calls.
        unsafe {
            let mut attr: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attr);
            libc::pthread_mutexattr_setpshared(&mut attr, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&mut attr, libc::PTHREAD_MUTEX_ROBUST);
            assert_eq!(libc::pthread_mutex_init(place.0.get(), &attr), 0);
        }
        RobustMutex(place)
    }
}

impl Lock for RobustMutex {
    #[inline]
    fn lock(&self) {
        // SAFETY: `new` initialised it.
        if unsafe { libc::pthread_mutex_lock(self.0.0.get()) } == libc::EOWNERDEAD {
            // SAFETY: it was just given to us in the inconsistent state.
            unsafe { libc::pthread_mutex_consistent(self.0.0.get()) };
        }
    }
    #[inline]
    fn unlock(&self) {
        // SAFETY: we hold it.
        unsafe { libc::pthread_mutex_unlock(self.0.0.get()) };
    }
}

/// A process-shared POSIX semaphore: N permits; a death returns nothing.
pub struct Semaphore(&'static InPage<libc::sem_t>);

impl Semaphore {
    /// Makes one.
    pub fn new(count: u32) -> Semaphore {
        let place = shared::<InPage<libc::sem_t>>();
        // SAFETY: nobody else uses the page yet.
        assert_eq!(unsafe { libc::sem_init(place.0.get(), 1, count) }, 0);
        Semaphore(place)
    }
}

impl Lock for Semaphore {
    #[inline]
    fn lock(&self) {
        // SAFETY: `new` initialised it. A signal ends the wait early: again.
        while unsafe { libc::sem_wait(self.0.0.get()) } != 0 {}
    }
    #[inline]
    fn unlock(&self) {
        // SAFETY: as above.
        unsafe { libc::sem_post(self.0.0.get()) };
    }
}

/// A System V semaphore with SEM_UNDO: N permits that return at death.
pub struct SysV(i32);

impl SysV {
    /// Makes one.
    pub fn new(count: u32) -> SysV {
        // SAFETY: plain system calls.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        assert!(id >= 0, "no System V semaphore: {}", io::Error::last_os_error());
        // SAFETY: SETVAL takes a number.
        assert_eq!(unsafe { libc::semctl(id, 0, libc::SETVAL, count) }, 0);
        SysV(id)
    }

    #[inline]
    fn change(&self, by: i16) {
        let mut one = libc::sembuf { sem_num: 0, sem_op: by, sem_flg: libc::SEM_UNDO as i16 };
        // SAFETY: one operation is given.
        while unsafe { libc::semop(self.0, &mut one, 1) } != 0 {
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
        unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
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
