//! The files of named semaphores: `.posix` beside the arenas.
//!
//! | name | what it is |
//! |---|---|
//! | `sem.NAME` | a semaphore in service |
//! | `.new` | one that is being made, and not in service yet |
//! | `.unlinked-INODE` | one that was unlinked, for as long as a process has it mapped |
//! | `.memory-INODE-OFFSET` | what keeps the object of a `sem_t` in a file (`memory`) |
//! | `.lock` | held by a maker, and by a process that clears up |
//!
//! ```text
//!   .new: a page --> object's name written --> object made --> spot written --> renamed sem.NAME     under the lock
//!   sem.NAME --> renamed .unlinked --> no process has it mapped any more: object removed, file removed
//! ```
//!
//! Each file holds the `sem_t`, and from byte [`CALLED`] on the name of its object. A maker that is killed leaves `.new` and at most the
//! object that is named in it. The next maker finds both, and clears them up first: otherwise it could give the same name to its own
//! object, which would then be taken for the dead maker's. A process that is killed while it clears up leaves the file, and the object or
//! not. The kernel tells whether a process has a file mapped (`File::while_alone`), so forks, execs and kills need no bookkeeping. This is
//! checked at `sem_close` and `sem_unlink`, for that one semaphore. For all of them it is checked now and then: when so many were made that
//! a check costs each of them little ([`Tally`], in the lock's file), at the earliest with every [`OFTEN`]th, and earlier when the arena is
//! full.
//!
//! The directory is as private as that of the arenas. That is checked whenever it, or the arena's file, is not the one that this process
//! has checked before. In a directory that is shared by choice (CHAPPE_DIR) it is made as open as that.

use crate::named::{PAGE, Page, clear};
use crate::place::Found;
use crate::word::{self, Said};
use crate::{memory, place, real};
use chappe::{Arena, ArenaError, ArenaOptions, ObjectError, ObjectId};
use libc::{c_int, c_uint, mode_t, sem_t};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The arena.
const ARENA: &str = "posix";
/// Where the object's name stands in the file.
const CALLED: usize = 64;
/// How long that is at most.
const LONGEST: usize = 47;
/// Where it stands of what a `.memory` is.
const MORE: usize = 128;
/// The byte that says that it is all there.
const WHOLE: usize = CALLED - 1;
/// The file being made: by the holder of the lock, so there is one.
const NEW: &[u8] = b".new";
const _: () = assert!(CALLED + LONGEST < MORE && MORE + memory::NUMBERS + memory::LONGEST <= PAGE);
/// After how many new semaphores, at the earliest, there is a check for unused ones.
const OFTEN: u64 = 32;
/// The cost of checking whether a process has one, measured in entries of the directory that are read.
const LOOK: u64 = 16;
/// How many entries are read for one semaphore, in the long run; and where there is no room.
const SHARE: u64 = 16;
const SHARE_OF_FULL: u64 = 64;

/// Room for many threads of many processes; nothing but semaphores and pools of one permit. It takes the memory of those that there are.
const OPTIONS: ArenaOptions =
    ArenaOptions { members: Some(2048), objects: Some(131_072), cells: Some(64), data: Some(64) };

static LOCK: Mutex<()> = Mutex::new(());

/// Held by a thread that forks.
pub fn quiet() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory that was checked: where it is, and which files it and the arena were.
#[derive(PartialEq, Eq)]
struct Known {
    path: PathBuf,
    is: [(u64, u64); 2],
}

impl Known {
    /// What is there now; none if either is not.
    fn now(path: &Path) -> Option<Known> {
        let is = |at: &Path| std::fs::symlink_metadata(at).map(|facts| (facts.dev(), facts.ino())).ok();
        Some(Known { path: path.to_owned(), is: [is(path)?, is(&path.with_file_name(ARENA))?] })
    }
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Held by a thread that forks, too.
pub fn quiet_known() -> impl Sized {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The errno of the last call.
pub fn last() -> c_int {
    errno_of(&io::Error::last_os_error())
}

fn errno_of(e: &io::Error) -> c_int {
    e.raw_os_error().unwrap_or(libc::EINVAL)
}

fn no_arena(e: &ArenaError) -> c_int {
    match e {
        ArenaError::NotFound { .. } => libc::ENOENT,
        ArenaError::NoSpace { .. } => libc::ENOSPC,
        ArenaError::Io { source, .. } => errno_of(source),
        _ => libc::EACCES,
    }
}

/// Another number for each name and each try.
fn mixed(name: &[u8], tried: u64) -> u64 {
    // FNV-1a, and a multiplication that carries the last bytes to the top.
    let fed = name
        .iter()
        .chain(&tried.to_ne_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    (fed ^ fed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What is known of an open file.
///
/// # Errors
/// The system's.
pub fn facts(file: &OwnedFd) -> Result<libc::stat, c_int> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: an open descriptor, and a place for what is found.
    if unsafe { libc::fstat(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(last());
    }
    // SAFETY: the call has filled it.
    Ok(unsafe { found.assume_init() })
}

/// The contents of the lock's file. Only the holder of the lock reads and writes it; what is absent counts as 0. A holder that is killed
/// before it writes leaves a count that is one too small.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// How many were made since the last look.
    made: u64,
    /// What that look cost, in entries read.
    cost: u64,
}

impl Tally {
    /// Whether it is time to look again.
    fn is_due(self) -> bool {
        self.made >= OFTEN.max(self.cost / SHARE)
    }

    /// The same where there is no room.
    fn is_due_when_full(self) -> bool {
        self.made >= self.cost / SHARE_OF_FULL
    }
}

/// The right to make and to clear up, of this process and of this thread; given back by any death.
pub struct Locked {
    file: OwnedFd,
    _thread: MutexGuard<'static, ()>,
}

impl Locked {
    fn tally(&self) -> Tally {
        let mut bytes = [0; 16];
        // SAFETY: an open descriptor, and a place of that length.
        let n = unsafe { libc::pread(self.file.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if n != bytes.len() as isize {
            return Tally::default();
        }
        let [made, cost] = [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i])));
        Tally { made, cost }
    }

    /// If it cannot be written (there is no room), the next check comes earlier.
    fn note(&self, tally: Tally) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&tally.made.to_ne_bytes());
        bytes[8..].copy_from_slice(&tally.cost.to_ne_bytes());
        // SAFETY: an open descriptor, and bytes of that length.
        unsafe { libc::pwrite(self.file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    }
}

/// The directory.
pub struct Folder {
    path: PathBuf,
}

fn path() -> Result<PathBuf, c_int> {
    Ok(chappe::directory().map_err(|e| no_arena(&e))?.join(".posix"))
}

impl Folder {
    /// The directory, if there is one.
    ///
    /// # Errors
    /// `ENOENT`; `EACCES` if it could be another's.
    pub fn find() -> Result<Folder, c_int> {
        let path = path()?;
        let now = Known::now(&path);
        if now.is_some() && *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) == now {
            return Ok(Folder { path });
        }
        Arena::open(ARENA).map_err(|e| no_arena(&e))?;
        let folder = Folder { path: Folder::checked()? };
        // What was there before the checks, and is what was checked if it is there still.
        if now.is_some() && Known::now(&path) == now {
            *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        Ok(folder)
    }

    fn arena(&self) -> Result<Arena, ArenaError> {
        Arena::open_or_create_lasting(ARENA, &OPTIONS)
    }

    /// The directory, made if need be.
    ///
    /// # Errors
    /// The system's.
    pub fn make() -> Result<Folder, c_int> {
        Arena::open_or_create_lasting(ARENA, &OPTIONS).map_err(|e| no_arena(&e))?;
        match Folder::checked() {
            Err(libc::ENOENT) => {}
            checked => return Ok(Folder { path: checked? }),
        }
        let path = path()?;
        let above = std::fs::metadata(path.parent().ok_or(libc::EINVAL)?).map_err(|e| errno_of(&e))?.mode() & 0o3777;
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            // Whatever the umask.
            Ok(()) => {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(above)).map_err(|e| errno_of(&e))?
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(errno_of(&e)),
        }
        Ok(Folder { path: Folder::checked()? })
    }

    /// Refuses a directory that another user could have prepared. The directory that it is in was checked before.
    fn checked() -> Result<PathBuf, c_int> {
        let path = path()?;
        let (own, above) = (std::fs::symlink_metadata(&path), std::fs::metadata(path.parent().ok_or(libc::EINVAL)?));
        let (own, above) = (own.map_err(|e| errno_of(&e))?, above.map_err(|e| errno_of(&e))?);
        // SAFETY: takes nothing.
        let me = unsafe { libc::geteuid() };
        let is_shared = above.mode() & 0o022 != 0;
        let is_trusted = own.uid() == me || own.uid() == 0 || own.uid() == above.uid() || is_shared;
        if own.is_dir() && is_trusted { Ok(path) } else { Err(libc::EACCES) }
    }

    fn at(&self, name: &[u8]) -> Result<CString, c_int> {
        CString::new([self.path.as_os_str().as_bytes(), b"/", name].concat()).map_err(|_| libc::EINVAL)
    }

    fn raw_open(&self, name: &[u8], flags: c_int, mode: mode_t) -> Result<OwnedFd, c_int> {
        let path = self.at(name)?;
        // SAFETY: a C string.
        let fd = unsafe {
            libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | flags, c_uint::from(mode))
        };
        if fd < 0 {
            return Err(last());
        }
        // SAFETY: a fresh descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Opens the file of a semaphore.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self, name: &[u8]) -> Result<OwnedFd, c_int> {
        self.raw_open(&[b"sem.", name].concat(), 0, 0)
    }

    /// Takes the lock; waits for a living holder.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(&self) -> Result<Locked, c_int> {
        let thread = quiet();
        // Open to all users that may write in the directory, whatever the umask of the first and the kernel's protection of sticky
        // directories.
        let file =
            chappe::dir::Dir::open(&self.path).and_then(|dir| dir.open_or_make(".lock")).map_err(|e| errno_of(&e))?;
        // SAFETY: an all-zero flock is a valid value: of the whole file.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = libc::F_WRLCK as i16;
        // SAFETY: the descriptor is open and the struct valid.
        while unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &mut range) } != 0 {
            if last() != libc::EINTR {
                return Err(last());
            }
        }
        Ok(Locked { file, _thread: thread })
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), c_int> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        // SAFETY: C strings.
        let r = unsafe {
            libc::renameat2(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::RENAME_NOREPLACE)
        };
        if r == 0 { Ok(()) } else { Err(last()) }
    }

    fn remove_file(&self, name: &[u8]) -> Result<(), c_int> {
        let path = self.at(name)?;
        // SAFETY: a C string.
        if unsafe { libc::unlink(path.as_ptr()) } == 0 { Ok(()) } else { Err(last()) }
    }

    /// Makes a semaphore that is not there.
    ///
    /// # Errors
    /// The system's.
    pub fn create(&self, lock: &Locked, name: &[u8], mode: mode_t, value: c_uint) -> Result<(Page, libc::stat), c_int> {
        let full = [b"sem.", name].concat();
        // Before anything is made.
        if full.len() > 255 {
            return Err(libc::ENAMETOOLONG);
        }
        self.make_file(lock, name, &full, mode, value, &[])
    }

    /// Makes an object for a `sem_t` in memory that is a file with a name. Answers what it says; none if there is no room.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(&self, lock: &Locked, place: &memory::Place, value: c_uint) -> Result<Option<(u64, ObjectId)>, c_int> {
        let keeper = place.keeper();
        if let Some((word, _)) = self.read(&keeper) {
            // The same place once more.
            clear(&word);
            self.remove_file(&keeper)?;
        }
        let name = place.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let (page, _) = self.make_file(lock, name, &keeper, 0o600, value, &place.written())?;
        // SAFETY: a page of ours.
        match unsafe { word::read(page.0) } {
            Said::Ours(kind, spot) => Ok(Some((kind, spot))),
            // The C library's belongs where the program has its own.
            _ => self.remove_file(&keeper).map(|()| None),
        }
    }

    /// Makes the file `full`, which is not there; `more` is written at [`MORE`].
    fn make_file(
        &self,
        lock: &Locked,
        name: &[u8],
        full: &[u8],
        mode: mode_t,
        value: c_uint,
        more: &[u8],
    ) -> Result<(Page, libc::stat), c_int> {
        let tally = lock.tally();
        lock.note(Tally { made: tally.made.saturating_add(1), ..tally });
        if tally.is_due() {
            self.clear_up(lock);
        }
        let flags = libc::O_CREAT | libc::O_EXCL;
        let file = match self.raw_open(NEW, flags, mode) {
            Err(libc::EEXIST) => {
                self.clear_new(lock)?;
                self.raw_open(NEW, flags, mode)?
            }
            other => other?,
        };
        let made = self.fill(lock, &file, name, value).and_then(|page| {
            // SAFETY: it is shorter than the rest of the page, which no other process has found yet.
            unsafe { page.0.cast::<u8>().add(MORE).copy_from_nonoverlapping(more.as_ptr(), more.len()) };
            self.rename(NEW, full).inspect_err(|_| clear(page.0))?;
            Ok((page, facts(&file)?))
        });
        // Where it was not put in service.
        made.inspect_err(|_| _ = self.remove_file(NEW))
    }

    /// Writes the page.
    fn fill(&self, lock: &Locked, file: &OwnedFd, name: &[u8], value: c_uint) -> Result<Page, c_int> {
        chappe::dir::allocate(file.as_fd(), 0, PAGE as u64).map_err(|e| errno_of(&e))?;
        let page = Page::map(file)?;
        let spot = match self.object(&page, name, value) {
            Err(ObjectError::Arena(ArenaError::ObjectsFull { .. })) if lock.tally().is_due_when_full() => {
                self.clear_up(lock);
                self.object(&page, name, value)
            }
            // Another process has taken the arena away meanwhile: there is another one.
            Err(ObjectError::Arena(ArenaError::Removed { .. })) => Folder::make()?.object(&page, name, value),
            other => other,
        };
        match spot {
            // SAFETY: a page that no other process has found yet.
            Ok((kind, spot)) => unsafe { word::write(page.0, kind, spot) },
            // The C library's own, in this library's file: the program gets what it would have without this library.
            // SAFETY: as above.
            Err(_) => unsafe {
                if real::sem_init(page.0, 1, value) != 0 {
                    return Err(last());
                }
            },
        }
        Ok(page)
    }

    /// Makes the object, after its name was written.
    fn object(&self, page: &Page, name: &[u8], value: c_uint) -> Result<(u64, ObjectId), ObjectError> {
        let readable = |b: &u8| if b.is_ascii_alphanumeric() || b"._@:+-".contains(b) { char::from(*b) } else { '_' };
        let base: String = name.iter().map(readable).take(LONGEST - 7).collect();
        let base = if base.starts_with(['.', '-']) { format!("_{base}") } else { base };
        let arena = self.arena()?;
        let mut called = base.clone();
        let mut tried = 1;
        // Only the holder of the lock makes objects here.
        while arena.has(&called) {
            tried += 1;
            // Where many names begin alike, numbers in a row would all be tried.
            let number = if tried < 10 { format!("{tried}") } else { format!("{:06x}", mixed(name, tried) >> 40) };
            called = format!("{base}+{number}");
        }
        let mut bytes = [0u8; LONGEST + 1];
        bytes[..called.len()].copy_from_slice(called.as_bytes());
        // SAFETY: within the page, which no other process has found yet.
        let whole = unsafe {
            page.0.cast::<u8>().add(CALLED).cast::<[u8; LONGEST + 1]>().write_volatile(bytes);
            AtomicU8::from_ptr(page.0.cast::<u8>().add(WHOLE))
        };
        // Release: behind the name, of which a kill may leave a part: that may be another's.
        whole.store(1, Ordering::Release);
        place::make_shared(&arena, Some(&called), value)
    }

    /// What a file says: its `sem_t`, and its object's name.
    fn read(&self, name: &[u8]) -> Option<(sem_t, String)> {
        let file = self.raw_open(name, 0, 0).ok()?;
        let mut bytes = [0u8; CALLED + LONGEST + 1];
        // SAFETY: an open descriptor, and a place of that length.
        let n = unsafe { libc::pread(file.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if n != bytes.len() as isize {
            return None;
        }
        let called = bytes[CALLED..].split(|b| *b == 0).next().filter(|_| bytes[WHOLE] == 1).unwrap_or_default();
        // SAFETY: a `sem_t` is plain bytes.
        let word = unsafe { bytes.as_ptr().cast::<sem_t>().read_unaligned() };
        Some((word, String::from_utf8_lossy(called).into_owned()))
    }

    /// Takes the name of a semaphore away.
    ///
    /// # Errors
    /// The system's.
    pub fn unlink(&self, name: &[u8]) -> Result<(), c_int> {
        let full = [b"sem.", name].concat();
        let mut tries = 0;
        loop {
            // It may have been made so that no user can open it.
            let file = self.raw_open(&full, libc::O_NONBLOCK, 0).or_else(|_| self.raw_open(&full, libc::O_PATH, 0))?;
            let found = facts(&file)?;
            let inode = found.st_ino;
            // The same number again: the file system counts anew, or another was faster with its own.
            let more = if tries == 0 { String::new() } else { format!(".{}.{tries}", std::process::id()) };
            let hidden = format!(".unlinked-{inode}{more}").into_bytes();
            match self.rename(&full, &hidden) {
                Err(libc::EEXIST) => tries += 1,
                Err(e) => return Err(e),
                Ok(()) => {
                    if found.st_mode & 0o600 != 0o600 {
                        // It is to be opened once more.
                        let path = self.at(&hidden)?;
                        // SAFETY: a C string.
                        unsafe { libc::chmod(path.as_ptr(), 0o600) };
                        drop(file);
                        self.reap(&hidden);
                    } else if !self.is_reaped(&hidden, &chappe::dir::File::of(file), Some(inode)) {
                        // Another may have had its own descriptor of it just then.
                        self.reap(&hidden);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Removes one, if it was unlinked and no process has it mapped any more.
    pub fn reap_inode(inode: u64) {
        let hidden = format!(".unlinked-{inode}");
        // Most were not: one look.
        if path().is_ok_and(|path| std::fs::symlink_metadata(path.join(&hidden)).is_ok())
            && let Ok(folder) = Folder::find()
        {
            folder.reap(hidden.as_bytes());
        }
    }

    /// Whether it is gone.
    fn reap(&self, hidden: &[u8]) -> bool {
        let Ok(name) = std::str::from_utf8(hidden) else { return false };
        let Ok(file) = chappe::dir::Dir::open(&self.path).and_then(|dir| dir.open_file(name)) else { return false };
        self.is_reaped(hidden, &file, None)
    }

    /// The same for one that is open. `inode`: unless another file has the name, since the name was taken from whatever was there.
    fn is_reaped(&self, hidden: &[u8], file: &chappe::dir::File, inode: Option<u64>) -> bool {
        let is_it = |inode| {
            let is = std::fs::symlink_metadata(self.path.join(std::ffi::OsStr::from_bytes(hidden)));
            is.is_ok_and(|is| is.ino() == inode)
        };
        if inode.is_some_and(|inode| !is_it(inode)) {
            return false;
        }
        // Another process may do the same at the same time: then one's descriptor blocks the other. The blocked one tries again later.
        let reaped = file.while_alone(|| {
            let mut bytes = [0u8; size_of::<sem_t>()];
            if file.read_start(&mut bytes)? == bytes.len() {
                // SAFETY: a `sem_t` is plain bytes.
                let word = unsafe { bytes.as_ptr().cast::<sem_t>().read_unaligned() };
                clear(&word);
            }
            self.remove_file(hidden).map_err(io::Error::from_raw_os_error)
        });
        reaped.unwrap_or(false)
    }

    /// Removes what dead processes have left.
    fn clear_up(&self, lock: &Locked) {
        let mut tally = Tally::default();
        let mut users = memory::Users::default();
        for name in std::fs::read_dir(&self.path).into_iter().flatten().filter_map(|e| Some(e.ok()?.file_name())) {
            let name = name.as_bytes();
            let stays = match name {
                _ if name.starts_with(b".unlinked-") => !self.reap(name),
                _ if name.starts_with(b".memory-") => !self.let_go(name, &mut users),
                _ => false,
            };
            // What is gone costs nothing next time.
            tally.cost += if stays { LOOK } else { 1 };
        }
        lock.note(tally);
    }

    /// Removes what a dead maker has left: the holder of the lock has not begun yet. Before anything else is made, so that no other object
    /// gets the name that the dead maker's was to have.
    fn clear_new(&self, _lock: &Locked) -> Result<(), c_int> {
        let path = self.at(NEW)?;
        // It may have been made so that no user can open it.
        // SAFETY: a C string.
        unsafe { libc::chmod(path.as_ptr(), 0o600) };
        if let (Some((_, called)), Ok(arena)) = (self.read(NEW), Arena::open(ARENA))
            && !called.is_empty()
        {
            place::remove_named(&arena, &called);
        }
        self.remove_file(NEW)
    }

    /// Removes the file that keeps an object that was destroyed, or whose memory no process has any more. Answers whether it is gone.
    fn let_go(&self, keeper: &[u8], users: &mut memory::Users) -> bool {
        let Some((word, _)) = self.read(keeper) else { return false };
        // SAFETY: a `sem_t` of our own.
        let is_there = match unsafe { word::read(&word) } {
            Said::Ours(kind, spot) => Found::at(kind, spot).is_some_and(|found| found.is_there()),
            _ => false,
        };
        // If it cannot be opened now (want of descriptors), it is unknown whose it is.
        let Ok(file) = self.raw_open(keeper, 0, 0) else { return false };
        let mut bytes = [0; PAGE - MORE];
        // SAFETY: an open descriptor, and a place of that length.
        let n = unsafe { libc::pread(file.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), MORE as i64) };
        let place = usize::try_from(n).ok().and_then(|n| memory::Place::read(&bytes[..n]));
        // An object whose arena has lost its file is gone for newcomers, but is still of use to the processes that have it.
        if is_there && place.is_some_and(|place| place.is_in_use(users)) {
            return false;
        }
        if is_there {
            clear(&word);
        }
        self.remove_file(keeper).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all looks together read, for each semaphore made, where so many stay and the directory is looked at when `is_due` says so.
    fn read_for_each(made: u64, each: u64, is_due: impl Fn(Tally) -> bool) -> u64 {
        let (mut tally, mut read) = (Tally::default(), 0);
        for there in 0..made {
            tally.made += 1;
            if is_due(tally) {
                tally = Tally { made: 0, cost: there * each };
                read += tally.cost;
            }
        }
        read / made
    }

    #[test]
    fn to_look_for_the_dead_costs_each_that_is_made_the_same_however_many_there_are() {
        for made in [1_000, 100_000, 1_000_000] {
            for each in [1, LOOK] {
                assert!(read_for_each(made, each, Tally::is_due) <= SHARE * 2);
                assert!(read_for_each(made, each, Tally::is_due_when_full) <= SHARE_OF_FULL * 2);
            }
        }
        assert!(read_for_each(100_000, 1, |_| true) > 40_000, "what it was");
    }

    #[test]
    fn names_that_begin_alike_get_numbers_of_their_own() {
        let numbers = (0..10_000).map(|n| mixed(format!("a-long-beginning-{n}").as_bytes(), 10) >> 40);
        let different = numbers.collect::<std::collections::BTreeSet<u64>>().len();
        assert!(different > 9_950, "{different} of 10,000");
    }
}
