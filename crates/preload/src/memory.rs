//! Memory that is a file with a name: what lies in it outlives the processes that use it.
//!
//! A program makes a shared memory object, initialises semaphores in it, and ends; others come later, and go on with them. A family's arena
//! would be gone by then. So the object of such a `sem_t` is in the arena `posix`, and a file `.memory-INODE-OFFSET` in the
//! directory of named semaphores keeps it for as long as the memory has its name, or somebody has it mapped, or until it is
//! destroyed. Whoever initialises the same place once more takes the place of what was there.
//!
//! Whether a file without its name is mapped is looked up in /proc. Of other users' processes nothing can be seen: they count only if the
//! file's rights let others in.

use std::collections::BTreeSet;
use std::ffi::OsStr;
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
    /// Its name.
    pub path: Vec<u8>,
}

/// The longest name that is kept.
pub const LONGEST: usize = 3072;

impl Place {
    /// What lies at an address, if that is memory that is shared by way of a file which has a name.
    pub fn of(address: usize) -> Option<Place> {
        // The process's own entry is empty once its first thread has ended.
        let maps = std::fs::read("/proc/thread-self/maps").ok()?;
        let place = maps.split(|b| *b == b'\n').find_map(|line| Place::listed(line, address as u64))?;
        // A file system may have another device in this list than in what it says of its files.
        let facts = std::fs::metadata(OsStr::from_bytes(&place.path)).ok()?;
        (facts.ino() == place.inode && facts.is_file()).then(|| Place { device: facts.dev(), ..place })
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
        is_named.then(|| Place { device: 0, inode, offset: offset + (address - start), path: path.to_vec() })
    }

    /// What the file is called that keeps the object.
    pub fn keeper(&self) -> Vec<u8> {
        format!(".memory-{:x}-{:x}-{:x}", self.device, self.inode, self.offset).into_bytes()
    }

    /// As bytes, and back.
    pub fn written(&self) -> Vec<u8> {
        let numbers = [self.device, self.inode, self.offset, self.path.len() as u64];
        numbers.iter().flat_map(|n| n.to_le_bytes()).chain(self.path.iter().copied()).collect()
    }

    /// What [`Place::written`] has made.
    pub fn read(bytes: &[u8]) -> Option<Place> {
        let number = |i: usize| Some(u64::from_le_bytes(bytes.get(8 * i..8 * i + 8)?.try_into().ok()?));
        let len = usize::try_from(number(3)?).ok().filter(|len| *len <= LONGEST)?;
        let path = bytes.get(32..32 + len)?.to_vec();
        Some(Place { device: number(0)?, inode: number(1)?, offset: number(2)?, path })
    }

    /// Whether the file still has its name, or may be mapped. `mapped`: what all processes that can be seen have.
    pub fn is_in_use(&self, mapped: &mut Mapped) -> bool {
        let path = Path::new(OsStr::from_bytes(&self.path));
        match std::fs::metadata(path) {
            Ok(facts) if (facts.dev(), facts.ino()) == (self.device, self.inode) => true,
            // Nobody can tell.
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => true,
            _ => mapped.has(self.inode),
        }
    }
}

/// The inodes of all files that are mapped, as far as they can be seen; looked up when it is first asked.
#[derive(Default)]
pub struct Mapped(Option<BTreeSet<u64>>);

impl Mapped {
    fn has(&mut self, inode: u64) -> bool {
        self.0.get_or_insert_with(all_mapped).contains(&inode)
    }
}

fn all_mapped() -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let mut maps = std::fs::read(entry.path().join("maps")).unwrap_or_default();
        // As in `of`: others of its threads may go on.
        if maps.is_empty()
            && let Ok(tasks) = std::fs::read_dir(entry.path().join("task"))
        {
            let of = |task: std::fs::DirEntry| std::fs::read(task.path().join("maps")).unwrap_or_default();
            maps = tasks.flatten().map(of).find(|maps| !maps.is_empty()).unwrap_or_default();
        }
        let inode = |line: &[u8]| std::str::from_utf8(line.split(|b| *b == b' ').nth(4)?).ok()?.parse::<u64>().ok();
        all.extend(maps.split(|b| *b == b'\n').filter_map(inode));
    }
    all
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
        let path = std::env::temp_dir().join(format!("chappe-memory-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).expect("room");
        let file = std::fs::File::options().read(true).write(true).open(&path).expect("it is there");
        // SAFETY: the kernel chooses the place; the file is open.
        let at = unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        let place = Place::of(at as usize + 64).expect("it is a file's");
        assert_eq!((place.offset, place.path.as_slice()), (64, path.as_os_str().as_bytes()));
        assert!(place.is_in_use(&mut Mapped::default()));
        std::fs::remove_file(&path).expect("it was there");
        assert!(place.is_in_use(&mut Mapped::default()) && Place::of(at as usize).is_none());
        // SAFETY: nobody uses it.
        unsafe { libc::munmap(at, 4096) };
        assert!(!place.is_in_use(&mut Mapped::default()));
        assert_eq!(Place::of(&raw const place as usize), None);
    }
}
