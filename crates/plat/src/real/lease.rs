//! Locks on single bytes of a file that live as long as anybody has the open file: leases of jobs.
//!
//! An OFD lock belongs to the open file description, which a child inherits. So it outlives the process that took
//! it, until the last descendant that has the descriptor is gone. The jobs' mark in their environment is for
//! those that closed it.

use super::process;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

fn range(kind: i32, at: u64) -> libc::flock {
    // SAFETY: an all-zero flock is a valid value; the fields that matter are set below.
    let mut f: libc::flock = unsafe { std::mem::zeroed() };
    f.l_type = kind as i16;
    f.l_whence = libc::SEEK_SET as i16;
    f.l_start = at as i64;
    f.l_len = 1;
    f
}

/// Takes the byte for this open file. False: another has it.
///
/// # Errors
/// The system's.
pub fn try_lock(file: &OwnedFd, at: u64) -> io::Result<bool> {
    let r = range(libc::F_WRLCK, at);
    // SAFETY: the descriptor is open and the struct valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &r) } == 0 {
        return Ok(true);
    }
    let e = io::Error::last_os_error();
    if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) { Ok(false) } else { Err(e) }
}

/// Whether another open file has the byte.
///
/// # Errors
/// The system's.
pub fn is_locked(file: &OwnedFd, at: u64) -> io::Result<bool> {
    let mut r = range(libc::F_RDLCK, at);
    // SAFETY: as above.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut r) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(r.l_type) != libc::F_UNLCK)
}

/// Whether another open file has any byte.
///
/// # Errors
/// The system's.
pub fn is_any_locked(file: &impl AsRawFd) -> io::Result<bool> {
    // To the end, however long it gets.
    let mut r = libc::flock { l_len: 0, ..range(libc::F_RDLCK, 0) };
    // SAFETY: as above.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut r) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(r.l_type) != libc::F_UNLCK)
}

/// Sleeps until nobody has the byte. Any number may wait at once.
///
/// # Errors
/// The system's.
pub fn wait_unlocked(file: &OwnedFd, at: u64) -> io::Result<()> {
    let mut r = range(libc::F_RDLCK, at);
    loop {
        // SAFETY: as above.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &r) } == 0 {
            break;
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    r.l_type = libc::F_UNLCK as i16;
    // SAFETY: as above.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &r) };
    Ok(())
}

/// What is known of a mark.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bearers {
    /// Processes that bear it; this one may be among them.
    pub bear: Vec<u32>,
    /// Processes that are just ending and may have borne it: their environment is gone before their files are closed,
    /// and what one still has open another may not have yet. Some milliseconds later they are not there.
    pub ending: Vec<u32>,
}

/// All that bear marks at one moment: one look at /proc, for any number of marks.
#[derive(Debug, Default)]
pub struct Marked {
    /// Processes, and what their environment has.
    bear: Vec<(u32, Vec<u8>)>,
    ending: Vec<u32>,
}

impl Marked {
    /// Looks whose environment, as they were started with it, has `variable`. Only those that we may look at.
    pub fn look(variable: &str) -> Marked {
        let prefix = format!("{variable}=");
        let mut all = Marked::default();
        let Ok(list) = std::fs::read_dir("/proc") else { return all };
        for pid in list.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
            let environ = process::read_all(&format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut values = environ.split(|b| *b == 0).filter_map(|v| v.strip_prefix(prefix.as_bytes())).peekable();
            if values.peek().is_some() {
                all.bear.extend(values.map(|v| (pid, v.to_vec())));
            } else if environ.is_empty() && ending(pid) {
                all.ending.push(pid);
            }
        }
        all
    }

    /// Whether nobody is just ending: then who bears a mark is all there is.
    pub fn is_settled(&self) -> bool {
        self.ending.is_empty()
    }

    /// Those that have `mark` as one of the variable's values, separated by commas.
    pub fn bearers(&self, mark: &str) -> Bearers {
        let has = |v: &[u8]| v.split(|b| *b == b',').any(|part| part == mark.as_bytes());
        let bear = self.bear.iter().filter(|(_, v)| has(v)).map(|(pid, _)| *pid).collect();
        Bearers { bear, ending: self.ending.clone() }
    }
}

/// The processes whose environment, as they were started with it, has `variable` with `mark` as one of its
/// values, separated by commas. Only those that we may look at.
pub fn bearers(variable: &str, mark: &str) -> Bearers {
    Marked::look(variable).bearers(mark)
}

/// Whether a process has lost its memory and not yet ended: no virtual size, no zombie, no thread of the kernel.
fn ending(pid: u32) -> bool {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let Some(stat) = process::read_all(&format!("/proc/{pid}/stat")) else { return false };
    let stat = String::from_utf8_lossy(&stat);
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let field: Vec<&str> = rest.split(' ').collect();
    let number = |i: usize| field.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    !matches!(field[0], "Z" | "X") && number(20) == 0 && number(6) & KERNEL_THREAD == 0
}
