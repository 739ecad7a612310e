//! The calls that tell the scheduler something, all in one place, so that a test can refuse them.
//!
//! Two traps of Linux (6.18, tried), each of which takes bandwidth away from the whole machine until it starts anew:
//! - A task that *sleeps* when it leaves SCHED_DEADLINE keeps its bandwidth reserved for ever. So a reservation is made next to nothing first
//!   ([`Attributes::least`]), which the system counts at once, and then given up.
//! - A change of a task that has ended and was not waited for is counted, too, and never taken back. So it is looked whether the task lives.

use std::ffi::CString;
use std::io::{self, Error};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `SCHED_DEADLINE`.
pub const DEADLINE: u32 = 6;
/// What a task starts is scheduled as others are: a task with a reservation could not fork without it.
pub const RESET_ON_FORK: u64 = 1;
/// Unreserved processor time is lent to tasks that have used up their own.
const RECLAIM: u64 = 2;

/// A task's scheduling, in the kernel's form of sched_setattr(2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    size: u32,
    /// SCHED_OTHER is 0.
    pub policy: u32,
    /// See above.
    pub flags: u64,
    /// -20 to 19.
    pub nice: i32,
    priority: u32,
    /// Nanoseconds; of SCHED_OTHER the slice, 0 for the system's.
    pub runtime: u64,
    deadline: u64,
    /// Nanoseconds; only of a reservation.
    pub period: u64,
}

impl Attributes {
    /// So much of a processor in each period.
    pub fn reservation(runtime: u64, period: u64) -> Attributes {
        let size = size_of::<Attributes>() as u32;
        let flags = RESET_ON_FORK | RECLAIM;
        Attributes { size, policy: DEADLINE, flags, runtime, deadline: period, period, ..Attributes::default() }
    }

    /// A reservation that the system counts as nothing: the least time in the longest period.
    pub fn least() -> Attributes {
        Attributes::reservation(1_024, 4_000_000_000)
    }

    /// An ordinary task, with a niceness and a slice.
    pub fn fair(nice: i32, slice: u64) -> Attributes {
        Attributes { size: size_of::<Attributes>() as u32, nice, runtime: slice, ..Attributes::default() }
    }
}

/// The calls.
pub trait Kernel {
    /// A task's scheduling.
    ///
    /// # Errors
    /// ESRCH: it has gone.
    fn attributes(&mut self, tid: i32) -> io::Result<Attributes>;

    /// Changes it.
    ///
    /// # Errors
    /// EPERM: not permitted; EBUSY: more than there is; ESRCH: it has gone.
    fn set_attributes(&mut self, tid: i32, to: &Attributes) -> io::Result<()>;

    /// Makes a directory: a group of processes.
    ///
    /// # Errors
    /// The system's.
    fn make_group(&mut self, path: &Path) -> io::Result<()>;

    /// Writes into a file of a group.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()>;

    /// Removes a group that is empty.
    ///
    /// # Errors
    /// The system's.
    fn remove_group(&mut self, path: &Path) -> io::Result<()>;
}

/// Changes a living task's scheduling; 0 is the calling one. A system call and nothing else, for between fork and exec.
///
/// # Errors
/// As [`Kernel::set_attributes`].
pub fn set(tid: i32, to: &Attributes) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the size says.
    let r = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, std::ptr::from_ref(to), 0) };
    if r < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Processors: a bit each, as the kernel has them.
pub type Cpus = [u64; libc::CPU_SETSIZE as usize / 64];

/// On which processors a process may run; none: it has gone.
pub fn cpus(pid: i32) -> Option<Cpus> {
    let mut set: Cpus = Default::default();
    // SAFETY: the kernel writes at most as many bytes as is said, in words of their own.
    let r = unsafe { libc::sched_getaffinity(pid, size_of_val(&set), (&raw mut set).cast()) };
    (r == 0).then_some(set)
}

/// Whether a processor is one of them.
pub fn has(cpus: &Cpus, number: u32) -> bool {
    cpus.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

/// The real one.
pub struct Real;

/// Whether a task has ended; 0 is the calling one.
fn has_ended(tid: i32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{tid}/stat")) else { return tid != 0 };
    text.rfind(')').is_none_or(|at| text[at..].starts_with(") Z") || text[at..].starts_with(") X"))
}

impl Kernel for Real {
    fn attributes(&mut self, tid: i32) -> io::Result<Attributes> {
        let mut now = Attributes::default();
        let size = size_of::<Attributes>();
        // SAFETY: the kernel writes at most as many bytes as the size says.
        let r = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut now, size, 0) };
        if r < 0 {
            return Err(Error::last_os_error());
        }
        // It answers its own size, which may be greater.
        now.size = size as u32;
        Ok(now)
    }

    fn set_attributes(&mut self, tid: i32, to: &Attributes) -> io::Result<()> {
        if to.policy == DEADLINE && has_ended(tid) {
            return Err(Error::from_raw_os_error(libc::ESRCH));
        }
        set(tid, to)
    }

    fn make_group(&mut self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        use std::io::Write;
        // Never a new file: in a group all files are there.
        std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn remove_group(&mut self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a C string.
        if unsafe { libc::rmdir(path.as_ptr()) } == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

/// One for tests: it remembers, and refuses what it is told to refuse.
#[cfg(test)]
pub mod fake {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    /// What it knows.
    #[derive(Default)]
    pub struct Fake {
        /// Each task's scheduling; those that are not here have gone.
        pub tasks: BTreeMap<i32, Attributes>,
        /// What is refused, by policy, with what.
        pub refuses: BTreeMap<u32, i32>,
        /// Niceness below zero is refused.
        pub refuses_nice: bool,
        /// Groups, and what was written last into their files.
        pub groups: BTreeSet<PathBuf>,
        pub files: BTreeMap<PathBuf, String>,
        /// Groups are refused.
        pub refuses_groups: bool,
        /// All reservations together, in thousandths.
        pub most: u64,
        /// What tasks have kept reserved that slept when they left their policy.
        pub leaked: u64,
    }

    impl Fake {
        /// With these tasks.
        pub fn new(tids: &[i32]) -> Fake {
            let tasks = tids.iter().map(|t| (*t, Attributes::fair(0, 0))).collect();
            Fake { tasks, most: 1_800, ..Fake::default() }
        }

        /// What is reserved, in thousandths of a processor.
        pub fn reserved(&self, without: i32) -> u64 {
            let others = self.tasks.iter().filter(|(tid, a)| **tid != without && a.policy == DEADLINE);
            others.map(|(_, a)| a.runtime * 1000 / a.period).sum()
        }
    }

    fn error(code: i32) -> Error {
        Error::from_raw_os_error(code)
    }

    impl Kernel for Fake {
        fn attributes(&mut self, tid: i32) -> io::Result<Attributes> {
            self.tasks.get(&tid).copied().ok_or_else(|| error(libc::ESRCH))
        }

        fn set_attributes(&mut self, tid: i32, to: &Attributes) -> io::Result<()> {
            if !self.tasks.contains_key(&tid) {
                return Err(error(libc::ESRCH));
            }
            if let Some(code) = self.refuses.get(&to.policy) {
                return Err(error(*code));
            }
            if self.refuses_nice && to.nice < 0 {
                return Err(error(libc::EPERM));
            }
            if to.policy == DEADLINE && self.reserved(tid) + to.runtime * 1000 / to.period > self.most {
                return Err(error(libc::EBUSY));
            }
            let before = self.tasks.insert(tid, *to).filter(|a| a.policy == DEADLINE && to.policy != DEADLINE);
            self.leaked += before.map_or(0, |a| a.runtime * 1000 / a.period);
            Ok(())
        }

        fn make_group(&mut self, path: &Path) -> io::Result<()> {
            if self.refuses_groups {
                return Err(error(libc::EACCES));
            }
            self.groups.insert(path.into());
            Ok(())
        }

        fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
            if self.refuses_groups {
                return Err(error(libc::EACCES));
            }
            self.files.insert(path.into(), text.into());
            Ok(())
        }

        fn remove_group(&mut self, path: &Path) -> io::Result<()> {
            if self.groups.remove(path) { Ok(()) } else { Err(error(libc::ENOENT)) }
        }
    }
}
