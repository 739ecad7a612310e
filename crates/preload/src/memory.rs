//! Memory that is a file with a name: what lies in it outlives the processes that use it.
//!
//! A program makes a shared memory object, initialises semaphores in it, and ends; others come later, and go on with them. A family's arena
//! would be gone by then. So the object of such a `sem_t` is in the arena `posix`, and a file `.memory-INODE-OFFSET` in the directory of
//! named semaphores keeps it for as long as the memory has its name, or a process has it mapped or open, or until it is destroyed. If the
//! same place is initialised once more, the new object replaces the old.
//!
//! Whether a process has a file that has lost its name is looked up in /proc. A process that cannot be inspected (another user's, or one
//! that is hidden from its own user) counts as having it if it could have opened it: it is of the file's owner, or the file's rights let
//! others write. So the super-user's programs, which may open any file, do not keep those of others, nor does the first process keep any.
//! If /proc is hidden, every file counts as in use. A descriptor on its way in a socket is not seen, nor what processes in other PID
//! namespaces have.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// How far from its beginning.
    pub offset: u64,
    /// Its owner.
    pub owner: u64,
    /// Its rights.
    pub mode: u64,
    /// Its name.
    pub path: Vec<u8>,
}

/// The bytes of a place before its name.
pub const NUMBERS: usize = 48;

/// The longest name that is kept.
pub const LONGEST: usize = 3072;

impl Place {
    /// What lies at an address, if that is memory that is shared by way of a file which has a name.
    pub fn of(address: usize) -> Option<Place> {
        // The process's own entry is empty once its first thread has ended.
        let maps = fs::read("/proc/thread-self/maps").ok()?;
        let place = maps.split(|b| *b == b'\n').find_map(|line| Place::listed(line, address as u64))?;
        // A file system may have another device in this list than in what it says of its files.
        let facts = fs::metadata(OsStr::from_bytes(&place.path)).ok()?;
        (facts.ino() == place.inode && facts.is_file()).then(|| Place {
            device: facts.dev(),
            owner: facts.uid().into(),
            mode: facts.mode().into(),
            ..place
        })
    }

    /// `start-end rights offset device inode   path`.
    fn listed(line: &[u8], address: u64) -> Option<Place> {
        let mut fields = line.splitn(6, |b| *b == b' ');
        let mut next = || std::str::from_utf8(fields.next()?).ok();
        let (start, end) = next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let (rights, offset, _device, inode) = (next()?, hex(next()?)?, next()?, next()?.parse().ok()?);
        if !(start..end).contains(&address) || rights.as_bytes().get(3) != Some(&b's') {
            return None;
        }
        let path = fields.next()?;
        let path = &path[path.iter().position(|b| *b != b' ')?..];
        let is_named = path.starts_with(b"/") && !path.ends_with(b" (deleted)") && path.len() <= LONGEST;
        is_named.then(|| Place {
            device: 0,
            inode,
            offset: offset + (address - start),
            owner: 0,
            mode: 0,
            path: path.to_vec(),
        })
    }

    /// Whether users may write the file that have no access to a directory of these rights: the object must be where they have access.
    pub fn is_for_others(&self, directory: u32) -> bool {
        // SAFETY: takes nothing.
        let own = unsafe { libc::getegid() };
        let path = Path::new(OsStr::from_bytes(&self.path));
        fs::metadata(path).is_ok_and(|facts| {
            // A user's private group is no other user (where each user has one, the umask is 002).
            let group = if facts.gid() == own { 0 } else { 0o020 };
            facts.mode() & (0o002 | group) & !directory != 0
        })
    }

    /// What the file is called that keeps the object.
    pub fn keeper(&self) -> Vec<u8> {
        format!(".memory-{:x}-{:x}-{:x}", self.device, self.inode, self.offset).into_bytes()
    }

    /// As bytes, and back.
    pub fn written(&self) -> Vec<u8> {
        let numbers = [self.device, self.inode, self.offset, self.owner, self.mode, self.path.len() as u64];
        numbers.iter().flat_map(|n| n.to_le_bytes()).chain(self.path.iter().copied()).collect()
    }

    /// What [`Place::written`] has made.
    pub fn read(bytes: &[u8]) -> Option<Place> {
        let number = |i: usize| Some(u64::from_le_bytes(bytes.get(8 * i..8 * i + 8)?.try_into().ok()?));
        let len = usize::try_from(number(5)?).ok().filter(|len| *len <= LONGEST)?;
        let path = bytes.get(NUMBERS..NUMBERS + len)?.to_vec();
        let [device, inode, offset, owner, mode] = [number(0)?, number(1)?, number(2)?, number(3)?, number(4)?];
        Some(Place { device, inode, offset, owner, mode, path })
    }

    /// Whether the file still has its name, or a process may have it.
    pub fn is_in_use(&self, users: &mut Users) -> bool {
        let path = Path::new(OsStr::from_bytes(&self.path));
        match fs::metadata(path) {
            Ok(facts) if (facts.dev(), facts.ino()) == (self.device, self.inode) => true,
            // It cannot be determined.
            Err(e) if e.kind() != io::ErrorKind::NotFound => true,
            _ => users.look().may_have(self),
        }
    }
}

/// Which processes have which files, as far as it can be seen; looked up when it is first asked.
#[derive(Default)]
pub struct Users(Option<Seen>);

impl Users {
    fn look(&mut self) -> &Seen {
        self.0.get_or_insert_with(|| Seen::all(Path::new("/proc")))
    }
}

#[derive(Default)]
struct Seen {
    /// The inodes of all files that are mapped shared. (Their devices may have other numbers there.)
    mapped: BTreeSet<u64>,
    /// The devices and inodes of all that are open.
    open: BTreeSet<(u64, u64)>,
    /// Whose the processes are that cannot be looked into.
    closed: BTreeSet<u64>,
    /// There are processes of which nothing is known.
    hidden: bool,
}

impl Seen {
    fn may_have(&self, place: &Place) -> bool {
        let lets_others_write = place.mode & 0o022 != 0;
        self.hidden
            || self.has(place)
            || self.closed.contains(&place.owner)
            || lets_others_write && !self.closed.is_empty()
    }

    fn has(&self, place: &Place) -> bool {
        self.mapped.contains(&place.inode) || self.open.contains(&(place.device, place.inode))
    }

    fn all(proc: &Path) -> Seen {
        // Where there is no first process, others are hidden as well (the mount option `hidepid`).
        let mut seen = Seen { hidden: !proc.join("1").exists(), ..Seen::default() };
        let Ok(entries) = fs::read_dir(proc) else { return Seen { hidden: true, ..seen } };
        for entry in entries.flatten() {
            if !entry.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit) {
                continue;
            }
            // The first process is the system's, which cannot be inspected, and has no files of users.
            if let Err(e) = seen.look_into(&entry.path())
                && !is_gone(&e)
                && entry.file_name() != "1"
            {
                match owners(&entry.path()) {
                    Ok(owners) => seen.closed.extend(owners),
                    Err(e) => seen.hidden |= !is_gone(&e),
                }
            }
        }
        seen
    }

    fn look_into(&mut self, process: &Path) -> io::Result<()> {
        if self.look_at(process)? {
            return Ok(());
        }
        // Its first thread has ended, and its entry is empty. Others may go on.
        for thread in fs::read_dir(process.join("task"))?.flatten() {
            match self.look_at(&thread.path()) {
                Ok(true) => break,
                Err(e) if !is_gone(&e) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// False: nothing is mapped there.
    fn look_at(&mut self, process: &Path) -> io::Result<bool> {
        let maps = fs::read(process.join("maps"))?;
        if maps.is_empty() {
            return Ok(false);
        }
        let inode = |line: &[u8]| {
            let mut fields = line.split(|b| *b == b' ').skip(1);
            fields.next().filter(|rights| rights.get(3) == Some(&b's'))?;
            std::str::from_utf8(fields.nth(2)?).ok()?.parse::<u64>().ok()
        };
        self.mapped.extend(maps.split(|b| *b == b'\n').filter_map(inode));
        for file in fs::read_dir(process.join("fd"))?.flatten() {
            // What is closed meanwhile is not had.
            self.open.extend(fs::metadata(file.path()).map(|facts| (facts.dev(), facts.ino())).ok());
        }
        Ok(true)
    }
}

/// Whether the process has ended since it was listed.
fn is_gone(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The users in whose name a process acts, or has acted.
fn owners(process: &Path) -> io::Result<Vec<u64>> {
    let status = fs::read_to_string(process.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let all = line.unwrap_or_default().split_whitespace().map(str::parse::<u64>);
    let all: Result<Vec<u64>, _> = all.collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_place_of_which_file() {
        let of = |line: &str, at| Place::listed(line.as_bytes(), at);
        let line = "7f0000001000-7f0000003000 rw-s 00002000 00:1b 44                 /dev/shm/a b";
        let there = of(line, 0x7f00_0000_1010).expect("it is there");
        assert_eq!((there.inode, there.offset, there.path.as_slice()), (44, 0x2010, b"/dev/shm/a b".as_slice()));
        assert_eq!(Place::read(&there.written()), Some(there.clone()));
        assert_eq!(there.keeper(), b".memory-0-2c-2010");
        for other in [
            "7f0000001000-7f0000003000 rw-p 00002000 00:1b 44                 /dev/shm/a",
            "7f0000001000-7f0000003000 rw-s 00002000 00:1b 44                 /dev/shm/a (deleted)",
            "7f0000001000-7f0000003000 rw-s 00002000 00:01 44                 anon_inode:x",
            "7f0000003000-7f0000004000 rw-s 00002000 00:1b 44                 /dev/shm/a",
            "7f0000001000-7f0000003000 rw-s 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(of(other, 0x7f00_0000_1010), None, "{other}");
        }
        assert_eq!(Place::read(&[0xff; 64]), None);
    }

    #[test]
    fn a_file_is_in_use_while_it_has_its_name_and_while_it_is_mapped() {
        let path = Path::new("/dev/shm").join(format!("chappe-memory-{}", std::process::id()));
        fs::write(&path, [0; 4096]).expect("room");
        let file = fs::File::options().read(true).write(true).open(&path).expect("it is there");
        // SAFETY: the kernel chooses the place; the file is open.
        let at = unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        drop(file);
        let place = Place::of(at as usize + 64).expect("it is a file's");
        assert_eq!((place.offset, place.path.as_slice()), (64, path.as_os_str().as_bytes()));
        assert!(place.is_in_use(&mut Users::default()));
        fs::remove_file(&path).expect("it was there");
        assert!(place.is_in_use(&mut Users::default()) && Place::of(at as usize).is_none());
        // SAFETY: nobody uses it.
        unsafe { libc::munmap(at, 4096) };
        assert!(!Seen::all(Path::new("/proc")).has(&place));
        assert_eq!(Place::of(&raw const place as usize), None);
    }

    #[test]
    fn a_file_is_in_use_while_it_is_open() {
        // Where numbers of files are not used again at once: another's that is made meanwhile is not taken for it.
        let path = Path::new("/dev/shm").join(format!("chappe-memory-open-{}", std::process::id()));
        fs::write(&path, [0; 4096]).expect("room");
        let facts = fs::metadata(&path).expect("it is there");
        let place = Place {
            device: facts.dev(),
            inode: facts.ino(),
            offset: 0,
            owner: facts.uid().into(),
            mode: 0o600,
            path: path.as_os_str().as_bytes().to_vec(),
        };
        let file = fs::File::open(&path).expect("it is there");
        fs::remove_file(&path).expect("it was there");
        assert!(place.is_in_use(&mut Users::default()) && Seen::all(Path::new("/proc")).has(&place));
        drop(file);
        assert!(!Seen::all(Path::new("/proc")).has(&place));
    }

    #[test]
    fn an_unreadable_process_may_map_what_its_user_could_open() {
        let proc = tempfile::tempdir().expect("a directory");
        let process = |pid: &str, uids: &str| {
            let there = proc.path().join(pid);
            fs::create_dir_all(there.join("fd")).expect("room");
            fs::write(there.join("maps"), "0-1 rw-s 0 0:1 44 /x\n0-1 rw-p 0 0:1 5 /y\n").expect("room");
            fs::write(there.join("status"), format!("Name:\tx\nUid:\t{uids}\nGid:\t0\n")).expect("room");
            there
        };
        let place = |inode, mode| Place { device: 1, inode, offset: 0, owner: 7, mode, path: Vec::new() };
        let may = |inode, mode| Seen::all(proc.path()).may_have(&place(inode, mode));
        assert!(may(5, 0o600), "there is nobody: all are hidden");
        process("1", "0 0 0 0");
        process("20", "7 7 7 7");
        assert!(may(44, 0o600) && !may(5, 0o666));
        // What is no file cannot be read by any user.
        let close = |there: &Path| {
            fs::remove_file(there.join("maps")).expect("it was there");
            fs::create_dir(there.join("maps")).expect("room");
        };
        close(&process("1", "7 7 7 7"));
        assert!(!may(5, 0o666), "the system's");
        close(&process("19", "0 0 0 0"));
        assert!(!may(5, 0o644) && may(5, 0o666) && may(5, 0o620));
        close(&process("21", "8 7 8 8"));
        assert!(may(5, 0o600), "one of its owner's");
        fs::remove_file(proc.path().join("21/status")).expect("it was there");
        assert!(!may(5, 0o600), "it has ended");
        fs::write(proc.path().join("21/status"), "Uid:\tnobody\n").expect("room");
        assert!(may(5, 0o600), "nothing is known of it");
    }
}
