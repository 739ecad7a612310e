//! Directories and files in memory: as much of a file system as arenas need.
//!
//! Every call is a step. A lock of a directory is a record lock of the process: dropped when the process is gone. So are the locks of
//! single bytes ([`Bytes`]). They exist only in worlds of several PID namespaces, which they keep apart. A file's memory lies at the same
//! address in all processes.

pub use crate::disk::Facts;
use crate::disk::{Files, Folder, Inode};
use crate::memory;
use crate::state::Block;
use crate::trace::{FILES, Touch};
use crate::turn::{Mode, block, me, mode, saw, turn_in_order, with};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::Location;
use std::path::{Path, PathBuf};

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

fn error<T>(code: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(code))
}

/// Takes a turn, acts on the file system, and notes it.
fn act<R>(at: &'static Location<'static>, what: impl FnOnce() -> String, then: impl FnOnce(&mut Files) -> R) -> R {
    turn_in_order();
    let r = with(|e| then(&mut e.files));
    saw(FILES, 70, Touch::Write, at, |_| what());
    r
}

/// The index of the running process.
fn process() -> usize {
    if mode() == Mode::Outside { 0 } else { with(|e| e.threads[me()].process) }
}

/// An open directory of arenas.
pub struct Dir {
    folder: usize,
    path: PathBuf,
}

/// An open file of a [`Dir`].
pub struct File(usize);

/// Exclusive right to create and remove in a directory; given back on drop and by any death.
pub struct Locked(usize);

impl Drop for Locked {
    fn drop(&mut self) {
        turn_in_order();
        with(|e| {
            e.files.folders[self.0].locked = None;
            e.unlocked();
        });
        saw(FILES, 71, Touch::Write, Location::caller(), |_| "unlocks the directory".to_owned());
    }
}

impl Dir {
    /// Makes the directory with `mode` if it is not there.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn make(path: &Path, mode: u32) -> io::Result<()> {
        act(
            Location::caller(),
            || format!("makes directory {}", path.display()),
            |f| {
                if f.folders.iter().all(|d| d.path != path) {
                    let facts = Facts { inode: f.next_inode(), uid: 1000, gid: 1000, mode, len: 0, links: 1 };
                    f.folders.push(Folder { path: path.to_owned(), facts, names: BTreeMap::new(), locked: None });
                }
            },
        );
        Ok(())
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// `ENOENT`.
    #[track_caller]
    pub fn open(path: &Path) -> io::Result<Dir> {
        let found = act(
            Location::caller(),
            || format!("opens directory {}", path.display()),
            |f| f.folders.iter().position(|d| d.path == path),
        );
        match found {
            Some(folder) => Ok(Dir { folder, path: path.to_owned() }),
            None => error(ENOENT),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of it.
    ///
    /// # Errors
    /// None.
    pub fn facts(&self) -> io::Result<Facts> {
        Ok(with(|e| e.files.folders[self.folder].facts))
    }

    /// Takes the lock under which arenas are created and removed. Waits for a living holder.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn lock(&self) -> io::Result<Locked> {
        let at = Location::caller();
        loop {
            let me = process();
            let taken = act(
                at,
                || "tries to lock the directory".to_owned(),
                |f| {
                    let d = &mut f.folders[self.folder];
                    let free = d.locked.is_none();
                    if free {
                        d.locked = Some(me);
                    }
                    free
                },
            );
            if taken || mode() == Mode::Failing {
                return Ok(Locked(self.folder));
            }
            block(Block::Lock, &[], None, "the lock of a directory");
        }
    }

    /// As [`Dir::lock`]: here no living process has it for long.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn lock_within(&self, _most: std::time::Duration) -> io::Result<Option<Locked>> {
        self.lock().map(Some)
    }

    /// Makes a file of `len` zero bytes without a name. Its holes are there from the beginning.
    ///
    /// # Errors
    /// `ENOSPC` when the world has no room for it.
    #[track_caller]
    pub fn create_unnamed(&self, len: u64, _holes: &[Range<u64>]) -> io::Result<File> {
        act(
            Location::caller(),
            || format!("creates a file of {len} bytes"),
            |f| {
                if let Some(room) = &mut f.room {
                    match room.checked_sub(len) {
                        Some(left) => *room = left,
                        None => return error(ENOSPC),
                    }
                }
                let facts = Facts { inode: f.next_inode(), uid: 1000, gid: 1000, mode: 0o600, len, links: 0 };
                f.inodes.push(Inode { facts, memory: memory::zeroed(len as usize, 4096) });
                Ok(File(f.inodes.len() - 1))
            },
        )
    }

    /// Gives an unnamed file its name; the name must be free.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken.
    #[track_caller]
    pub fn link(&self, file: &File, name: &str) -> io::Result<()> {
        act(
            Location::caller(),
            || format!("names a file {name}"),
            |f| {
                let names = &mut f.folders[self.folder].names;
                if names.contains_key(name) {
                    return error(EEXIST);
                }
                names.insert(name.to_owned(), file.0);
                f.inodes[file.0].facts.links += 1;
                Ok(())
            },
        )
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `ENOENT`.
    #[track_caller]
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let found =
            act(Location::caller(), || format!("opens {name}"), |f| f.folders[self.folder].names.get(name).copied());
        found.map(File).map_or_else(|| error(ENOENT), Ok)
    }

    /// Takes the name away.
    ///
    /// # Errors
    /// `ENOENT`.
    #[track_caller]
    pub fn unlink(&self, name: &str) -> io::Result<()> {
        act(
            Location::caller(),
            || format!("unlinks {name}"),
            |f| match f.folders[self.folder].names.remove(name) {
                Some(file) => {
                    f.inodes[file].facts.links -= 1;
                    Ok(())
                }
                None => error(ENOENT),
            },
        )
    }

    /// The inode that a name stands for now; `None` if there is no such name.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn inode_of(&self, name: &str) -> io::Result<Option<u64>> {
        act(
            Location::caller(),
            || format!("looks what {name} is"),
            |f| Ok(f.folders[self.folder].names.get(name).map(|i| f.inodes[*i].facts.inode)),
        )
    }

    /// Whether a file of this name has lost it: the name is gone, or another file has it.
    #[track_caller]
    pub fn has_lost(&self, _folder: u64, name: &str, inode: u64) -> bool {
        self.inode_of(name).is_ok_and(|now| now != Some(inode))
    }

    /// The names in it that do not begin with a dot, sorted.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn names(&self) -> io::Result<Vec<String>> {
        act(
            Location::caller(),
            || "lists the directory".to_owned(),
            |f| Ok(f.folders[self.folder].names.keys().filter(|n| !n.starts_with('.')).cloned().collect()),
        )
    }
}

impl File {
    /// What is known of it now.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn facts(&self) -> io::Result<Facts> {
        Ok(act(Location::caller(), || "looks at a file".to_owned(), |f| f.inodes[self.0].facts))
    }

    /// Maps the first `len` bytes, shared, for the rest of the process's life.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn map(&self, len: usize) -> io::Result<*mut u8> {
        let p = process();
        Ok(act(
            Location::caller(),
            || format!("maps {len} bytes"),
            |f| {
                assert!(len as u64 <= f.inodes[self.0].facts.len, "mapped beyond the end of the file");
                let inode = f.inodes[self.0].facts.inode;
                f.mapped.push((p, inode));
                f.inodes[self.0].memory
            },
        ))
    }

    /// Reads up to `buf.len()` bytes from the start, without mapping.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn read_start(&self, buf: &mut [u8]) -> io::Result<usize> {
        act(
            Location::caller(),
            || "reads the start of a file".to_owned(),
            |f| {
                let n = buf.len().min(f.inodes[self.0].facts.len as usize);
                // SAFETY: the file has at least n bytes of memory, which lives until the schedule has ended.
                unsafe { std::ptr::copy_nonoverlapping(f.inodes[self.0].memory, buf.as_mut_ptr(), n) };
                Ok(n)
            },
        )
    }
}

/// An open file whose bytes can be locked, each by one process at a time.
pub struct Bytes(u64);

/// Opens the file of this inode to lock bytes of it. None: there is no need to, in a world of one PID namespace. No step: the
/// locks are.
///
/// # Errors
/// None.
pub fn bytes_of(_directory: &Path, _name: &str, inode: u64) -> io::Result<Option<Bytes>> {
    Ok((mode() != Mode::Outside && with(|e| e.files.namespaces)).then_some(Bytes(inode)))
}

impl Bytes {
    #[track_caller]
    fn try_to(&self, at: u64) -> bool {
        let (me, inode) = (process(), self.0);
        act(
            Location::caller(),
            || format!("tries to lock byte {at:x}"),
            |f| {
                let free = f.bytes.iter().all(|b| (b.0, b.1) != (inode, at));
                if free {
                    f.bytes.push((inode, at, me));
                }
                free
            },
        )
    }

    /// Locks byte `at`. False: another holder has it.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn try_lock(&self, at: u64) -> io::Result<bool> {
        Ok(self.try_to(at) || mode() == Mode::Failing)
    }

    /// Locks byte `at`; waits for a living holder.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn lock(&self, at: u64) -> io::Result<()> {
        while !self.try_to(at) && mode() != Mode::Failing {
            block(Block::Lock, &[], None, "the lock of a byte");
        }
        Ok(())
    }

    /// Gives byte `at` up.
    #[track_caller]
    pub fn unlock(&self, at: u64) {
        give_up(0, self.0, at, true);
    }

    /// Whether another holder has byte `at`.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn is_locked(&self, at: u64) -> io::Result<bool> {
        let inode = self.0;
        let what = || format!("looks whether byte {at:x} is locked");
        Ok(act(Location::caller(), what, |f| f.bytes.iter().any(|b| (b.0, b.1) == (inode, at))))
    }

    /// Keeps what is locked of it locked until [`give_up`].
    pub fn keep(self) -> i32 {
        0
    }
}

/// Gives up byte `at` of the file of this inode, if this process has it.
#[track_caller]
pub fn give_up(_kept: i32, inode: u64, at: u64, _unlocks: bool) {
    let me = process();
    turn_in_order();
    with(|e| {
        e.files.bytes.retain(|b| *b != (inode, at, me));
        e.unlocked();
    });
    saw(FILES, 72, Touch::Write, Location::caller(), |_| format!("unlocks byte {at:x}"));
}

/// Zeroed memory of this process alone.
///
/// # Errors
/// None.
pub fn map_private(len: usize) -> io::Result<*mut u8> {
    Ok(memory::zeroed(len, 4096))
}
