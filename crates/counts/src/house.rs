//! A directory for arenas that no other process uses, gone afterwards.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The environment names one at a time.
static ONLY: Mutex<()> = Mutex::new(());

/// Where this run's arenas lie. A thread that makes another in this process waits until this one is gone.
pub struct House {
    path: PathBuf,
    _only: MutexGuard<'static, ()>,
}

impl House {
    /// Makes it, and names it in the environment. Call before there are threads that read the environment.
    ///
    /// # Panics
    /// When /dev/shm refuses a directory.
    pub fn new(name: &str) -> House {
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let path = PathBuf::from(format!("/dev/shm/chappe-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("cannot make a directory in /dev/shm");
        // SAFETY: the caller promises that no other thread reads the environment meanwhile.
        unsafe { std::env::set_var("CHAPPE_DIR", &path) };
        House { path, _only: only }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // A directory left behind is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
