//! Named semaphores: `sem_open`, `sem_close`, `sem_unlink`.
//!
//! Each is a file of a page that holds the `sem_t` (`folder` says where, and how files come and go), mapped shared by every process that
//! has it open; the object is in the arena `posix`, under a name made of the semaphore's. As with the C library, a name that is opened
//! again gives the same address for as long as it is open, and no descriptor is kept.

use crate::folder::{self, Folder};
use crate::heap;
use crate::place::{self, Found};
use crate::shield::shielded;
use crate::word::{self, Said};
use libc::{c_char, c_int, c_uint, mode_t, sem_t};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The greatest value.
pub const MOST: c_uint = c_int::MAX as c_uint;

/// Bytes of a file.
pub const PAGE: usize = 4096;

/// What is open: by device, inode and name.
type Key = (u64, u64, Vec<u8>);

/// What this process has open.
struct List {
    /// Where it is mapped, and how many times it was opened, and not closed.
    open: BTreeMap<Key, (usize, usize)>,
    /// What is mapped where.
    at: BTreeMap<usize, Key>,
}

static LIST: Mutex<List> = Mutex::new(List { open: BTreeMap::new(), at: BTreeMap::new() });

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a thread that forks.
pub fn quiet() -> impl Sized {
    list()
}

/// Whether what `sem_open` has given out is at this address.
pub fn is_open(at: *const sem_t) -> bool {
    list().at.contains_key(&(at as usize))
}

/// The name without its slashes; none if it is no name.
fn plain(name: &[u8]) -> Option<&[u8]> {
    let from = name.iter().position(|b| *b != b'/')?;
    let rest = &name[from..];
    // The C library's buffer ends there; the kernel refuses shorter ones for their length.
    (!rest.contains(&b'/') && rest.len() <= 255).then_some(rest)
}

/// The file of a semaphore, mapped.
pub struct Page(pub *mut sem_t);

impl Page {
    /// Maps a file.
    ///
    /// # Errors
    /// The system's.
    pub fn map(file: &OwnedFd) -> Result<Page, c_int> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, and the descriptor is open.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED { Err(folder::last()) } else { Ok(Page(at.cast())) }
    }

    /// Lets it be mapped for good.
    fn keep(self) -> *mut sem_t {
        let at = self.0;
        std::mem::forget(self);
        at
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody has the address.
        unsafe { libc::munmap(self.0.cast(), PAGE) };
    }
}

/// Whether the semaphore in a page is in service. One of the C library's always is.
fn is_alive(page: &Page) -> bool {
    // SAFETY: a page of ours, as long as a `sem_t` and longer.
    match unsafe { word::read(page.0) } {
        Said::Ours(kind, spot) => Found::at(kind, spot).is_some_and(|found| found.is_there()),
        Said::Foreign => true,
        Said::Moved(..) | Said::Broken => false,
    }
}

/// What opening an existing file comes to.
enum Tried {
    There(*mut sem_t),
    /// Its object is gone: as good as not there.
    Stale,
}

/// Counts one more opening, or maps the file.
fn attach(file: &OwnedFd, name: &[u8]) -> Result<Tried, c_int> {
    let facts = folder::facts(file)?;
    let mut list = list();
    if let Some((at, count)) = list.open.get_mut(&(facts.st_dev, facts.st_ino, name.to_owned())) {
        *count += 1;
        return Ok(Tried::There(*at as *mut sem_t));
    }
    if facts.st_size < PAGE as i64 {
        return Err(libc::EINVAL);
    }
    let page = Page::map(file)?;
    if !is_alive(&page) {
        return Ok(Tried::Stale);
    }
    Ok(Tried::There(opened(&mut list, page, name, &facts)))
}

fn opened(list: &mut List, page: Page, name: &[u8], facts: &libc::stat) -> *mut sem_t {
    let at = page.keep();
    let key = (facts.st_dev, facts.st_ino, name.to_owned());
    list.at.insert(at as usize, key.clone());
    list.open.insert(key, (at as usize, 1));
    at
}

fn open(name: &[u8], flags: c_int, mode: mode_t, value: c_uint) -> Result<*mut sem_t, c_int> {
    let short = plain(name).ok_or(libc::EINVAL)?;
    let creates = flags & libc::O_CREAT != 0;
    let exclusive = creates && flags & libc::O_EXCL != 0;
    if !creates {
        let tried = attach(&Folder::find()?.open(short)?, name)?;
        return if let Tried::There(at) = tried { Ok(at) } else { Err(libc::ENOENT) };
    }
    let found = Folder::find().ok();
    if !exclusive && let Some(folder) = &found {
        match folder.open(short) {
            Ok(file) => {
                if let Tried::There(at) = attach(&file, name)? {
                    return Ok(at);
                }
            }
            Err(libc::ENOENT) => {}
            Err(e) => return Err(e),
        }
    }
    if value > MOST {
        return Err(libc::EINVAL);
    }
    let folder = found.map_or_else(Folder::make, Ok)?;
    loop {
        let lock = folder.lock()?;
        match folder.open(short) {
            Ok(file) => match attach_if(&file, name, exclusive)? {
                Tried::There(at) => return Ok(at),
                Tried::Stale => folder.unlink(short)?,
            },
            Err(libc::ENOENT) => {}
            // As the C library has it, which only links.
            Err(_) if exclusive => return Err(libc::EEXIST),
            Err(e) => return Err(e),
        }
        match folder.create(&lock, short, mode, value) {
            Ok((page, facts)) => return Ok(opened(&mut list(), page, name, &facts)),
            Err(libc::EEXIST) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Attaches one in service; with `O_EXCL` its existence is an error.
fn attach_if(file: &OwnedFd, name: &[u8], exclusive: bool) -> Result<Tried, c_int> {
    if !exclusive {
        return attach(file, name);
    }
    // What lies beyond a file's end cannot be looked at.
    if folder::facts(file)?.st_size < PAGE as i64 {
        return Err(libc::EEXIST);
    }
    match Page::map(file) {
        Ok(page) if !is_alive(&page) => Ok(Tried::Stale),
        _ => Err(libc::EEXIST),
    }
}

/// POSIX' function: opens a semaphore by name, or makes it. The last two arguments count with `O_CREAT` alone.
///
/// # Safety
/// As POSIX has it: the name is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_open(name: *const c_char, flags: c_int, mode: mode_t, value: c_uint) -> *mut sem_t {
    // C programs give two or four arguments: these are in the same registers either way, and not looked at without O_CREAT.
    let mut at = libc::SEM_FAILED;
    shielded(|| {
        if !heap::has_room() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller's.
        match open(unsafe { CStr::from_ptr(name) }.to_bytes(), flags, mode, value) {
            Ok(found) => {
                at = found;
                0
            }
            Err(e) => e,
        }
    });
    at
}

/// POSIX' function: closes what `sem_open` has opened. It is unmapped when it was closed as many times as it was opened.
///
/// # Safety
/// As POSIX has it: no thread uses it any more, if this was the last time.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_close(at: *mut sem_t) -> c_int {
    shielded(|| {
        let mut list = list();
        let List { open, at: mapped } = &mut *list;
        let Some(key) = mapped.get(&(at as usize)) else { return libc::EINVAL };
        if let Some((_, count)) = open.get_mut(key).filter(|(_, count)| *count > 1) {
            *count -= 1;
            return 0;
        }
        let inode = key.1;
        open.remove(key);
        mapped.remove(&(at as usize));
        drop(list);
        drop(Page(at));
        Folder::reap_inode(inode);
        0
    })
}

/// POSIX' function: takes the name away. Processes that have the semaphore open go on with it.
///
/// # Safety
/// As POSIX has it: the name is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_unlink(name: *const c_char) -> c_int {
    shielded(|| {
        // SAFETY: the caller's.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let unlinked = plain(name).ok_or(libc::ENOENT).and_then(|short| Folder::find()?.unlink(short));
        match unlinked {
            Ok(()) => 0,
            Err(libc::EPERM) => libc::EACCES,
            Err(e) => e,
        }
    })
}

/// Removes what a page says, but not the page.
pub fn clear(at: *const sem_t) {
    // SAFETY: `at` is the beginning of a page.
    if let Said::Ours(kind, spot) = unsafe { word::read(at) } {
        place::remove(kind, spot);
    }
}
