//! What the file system of a world has.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is known of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its inode number.
    pub inode: u64,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u32,
    /// Its length in bytes.
    pub len: u64,
    /// How many names it has; 0 once unlinked.
    pub links: u64,
}

pub(crate) struct Folder {
    pub path: PathBuf,
    pub facts: Facts,
    pub names: BTreeMap<String, usize>,
    /// The process that has the lock.
    pub locked: Option<usize>,
}

pub(crate) struct Inode {
    pub facts: Facts,
    pub memory: *mut u8,
}

/// The file system of a world.
#[derive(Default)]
pub(crate) struct Files {
    pub folders: Vec<Folder>,
    pub inodes: Vec<Inode>,
    pub mapped: Vec<(usize, u64)>,
    /// Locked bytes: inode, which, and the process.
    pub bytes: Vec<(u64, u64, usize)>,
    /// This world has several PID namespaces.
    pub namespaces: bool,
    /// What is left of the space, if it is bounded.
    pub room: Option<u64>,
    /// This kernel has no futex_waitv.
    pub no_waitv: bool,
}

impl Files {
    /// A process is gone: so are its locks.
    pub fn release_all(&mut self, process: usize) {
        for f in &mut self.folders {
            if f.locked == Some(process) {
                f.locked = None;
            }
        }
        self.bytes.retain(|b| b.2 != process);
    }

    pub fn maps(&self, process: usize, inode: u64) -> bool {
        self.mapped.contains(&(process, inode))
    }

    pub fn next_inode(&self) -> u64 {
        100 + self.folders.len() as u64 * 1000 + self.inodes.len() as u64
    }
}
