//! Which processes have files of a directory mapped, according to /proc: also files that have lost their names.
//!
//! Only processes that the caller may inspect, and whose PID namespace is the caller's or below it: the result says how many others there
//! are.

use super::process::{name, read_all};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What a path in /proc ends with once the file has lost that name.
const GONE: &str = " (deleted)";

/// The beginning of a file, as one process has it mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The process.
    pub pid: u32,
    /// What ps calls it.
    pub process: String,
    /// The address.
    pub at: u64,
    /// The file's inode number.
    pub inode: u64,
    /// The name by which the process opened it, in the directory; none for one that it made itself, which had none then.
    pub name: Option<String>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// The mappings of the processes that the caller may inspect.
    pub all: Vec<Mapping>,
    /// Processes that the caller may not inspect.
    pub unseen: u32,
}

impl Mappings {
    /// Looks at every process.
    pub fn look(directory: &Path) -> Mappings {
        let mut found = Mappings::default();
        let Ok(directory) = std::fs::canonicalize(directory) else { return found };
        let (Ok(facts), Ok(list)) = (std::fs::metadata(&directory), std::fs::read_dir("/proc")) else { return found };
        let place = Place { prefix: format!("{}/", directory.display()), device: facts.dev(), mounts: mounts("self") };
        for pid in list.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
            match read_all(&format!("/proc/{pid}/maps")) {
                Some(maps) => found.all.extend(place.of(pid, &String::from_utf8_lossy(&maps))),
                // It may just have ended.
                None => found.unseen += u32::from(std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)),
            }
        }
        found
    }
}

/// The anonymous mappings of a process that it may write and shares with no other: from where, to where.
///
/// # Errors
/// `NotFound`: there is no such process. `PermissionDenied`: the caller may not look.
pub fn private_of(pid: u32) -> std::io::Result<Vec<(u64, u64)>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
    let range = |line: &str| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (rights, inode) = (words.next()?, words.nth(2)?);
        (rights == "rw-p" && inode == "0").then_some((number(from)?, number(to)?))
    };
    Ok(text.lines().filter_map(range).collect())
}

/// Where the files lie.
struct Place {
    prefix: String,
    device: u64,
    mounts: Option<std::path::PathBuf>,
}

fn mounts(pid: &str) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

impl Place {
    fn of(&self, pid: u32, maps: &str) -> Vec<Mapping> {
        let mut all: Vec<Mapping> = maps.lines().filter_map(|line| self.one(pid, line)).collect();
        if let Some(first) = all.first() {
            let process = name(first.pid).unwrap_or_default();
            all.iter_mut().for_each(|m| m.process.clone_from(&process));
        }
        all
    }

    /// `start-end rights offset device inode path`, of the beginning of a file.
    fn one(&self, pid: u32, line: &str) -> Option<Mapping> {
        let at = line.find(&self.prefix)?;
        let (fields, path) = line.split_at(at);
        let mut fields = fields.split_ascii_whitespace();
        let start = u64::from_str_radix(fields.next()?.split('-').next()?, 16).ok()?;
        let (_rights, offset, device) = (fields.next()?, fields.next()?, fields.next()?);
        let inode = fields.next()?.parse().ok()?;
        // The same path may be another directory's in a container. (Some file systems have a device here that no file has.)
        let (major, minor) = device.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let ours = libc::makedev(number(major)?, number(minor)?) == self.device
            || (self.mounts.is_some() && mounts(&pid.to_string()) == self.mounts);
        if !ours || u64::from_str_radix(offset, 16) != Ok(0) {
            return None;
        }
        let name = &path[self.prefix.len()..];
        let name = name.strip_suffix(GONE).unwrap_or(name);
        let name = (!name.contains('/') && !name.starts_with('#')).then(|| name.to_owned());
        Some(Mapping { pid, process: String::new(), at: start, inode, name })
    }
}

/// Reads another process's memory. False: the caller may not, or there is none.
pub fn read_memory(pid: u32, at: u64, buffer: &mut [u8]) -> bool {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    memory.is_ok_and(|memory| memory.read_exact_at(buffer, at).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_file_and_whether_it_had_a_name() {
        let place = Place { prefix: "/dev/shm/chappe-0/".into(), device: libc::makedev(0, 0x1b), mounts: None };
        let one = |line| place.one(7, line).map(|m| (m.at, m.inode, m.name));
        let line =
            "7f8cb83f8000-7f8cb83fa000 rw-s 00000000 00:1b 2406944                    /dev/shm/chappe-0/a (deleted)";
        assert_eq!(one(line), Some((0x7f8c_b83f_8000, 2_406_944, Some("a".into()))));
        let line = "7f8cb83f8000-7f8cb83fa000 rw-s 00000000 00:1b 44    /dev/shm/chappe-0/b";
        assert_eq!(one(line), Some((0x7f8c_b83f_8000, 44, Some("b".into()))));
        let line = "7f8cb83f8000-7f8cb83fa000 rw-s 00000000 00:1b 44    /dev/shm/chappe-0/#44 (deleted)";
        assert_eq!(one(line), Some((0x7f8c_b83f_8000, 44, None)));
        for other in [
            "7f8cb83f8000-7f8cb83fa000 rw-s 00001000 00:1b 44    /dev/shm/chappe-0/b",
            "7f8cb83f8000-7f8cb83fa000 rw-s 00000000 00:1c 44    /dev/shm/chappe-0/b",
            "7f8cb83f8000-7f8cb83fa000 rw-s 00000000 00:1b 44    /dev/shm/chappe-01/b",
            "7f8cb83f8000-7f8cb83fa000 rw-p 00000000 00:00 0     [heap]",
            "",
        ] {
            assert_eq!(one(other), None, "{other}");
        }
    }
}
