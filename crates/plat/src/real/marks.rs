//! Marks in the environment of jobs: which processes bear one, and whether a look from here can tell that none does.
//!
//! A look at /proc shows the processes of one PID namespace and of those below it, and the environment of those that the caller
//! may trace. A process that the look does not show is not dead. So every mark has an [`Origin`]: where and as which user the
//! process lived that made it. All bearers are descendants of that process, so they live in its PID namespace or below.
//! [`Marked::can_tell`] compares the origin with what the caller sees.

use super::{clock, process};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// The inode of the PID namespace that all others are below (PROC_PID_INIT_INO).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// How much earlier than it did a process may seem to start, by a tick and by rounding.
const SLACK_MS: u64 = 20;

/// The namespaces that matter to what one process can learn of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Process numbers.
    Pid,
    /// User numbers.
    User,
    /// Clocks.
    Time,
    /// Files and their places.
    Mount,
    /// System V's and POSIX's named things.
    Ipc,
}

impl Namespace {
    /// Its name in /proc.
    pub fn file(self) -> &'static str {
        match self {
            Namespace::Pid => "pid",
            Namespace::User => "user",
            Namespace::Time => "time",
            Namespace::Mount => "mnt",
            Namespace::Ipc => "ipc",
        }
    }

    /// The inode of the caller's; 0 where that cannot be seen.
    pub fn own(self) -> u64 {
        // Not by the process's own entry, which is empty once its first thread has ended.
        self.of("thread-self").unwrap_or(0)
    }

    /// The inode of a process's; none where that cannot be seen.
    fn of(self, process: &str) -> Option<u64> {
        std::fs::metadata(format!("/proc/{process}/ns/{}", self.file())).ok().map(|m| m.ino())
    }
}

/// Where a mark was made: what decides whether a look from elsewhere would show its bearers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The PID namespace's inode; 0 where there was no /proc.
    pub pid_namespace: u64,
    /// The user namespace's inode.
    pub user_namespace: u64,
    /// The real user.
    pub uid: u32,
    /// When, in milliseconds since boot by the first time namespace's clock; 0 if unknown. No bearer has started before.
    pub at: u64,
}

impl Origin {
    /// A mark that the caller makes now.
    pub fn here() -> Origin {
        Origin {
            pid_namespace: Namespace::Pid.own(),
            user_namespace: Namespace::User.own(),
            // SAFETY: takes nothing, cannot fail.
            uid: unsafe { libc::getuid() },
            at: clock::common_boot().map_or(0, |ns| ns / 1_000_000),
        }
    }
}

/// The same clock's reading of a time in clock ticks, as /proc tells it.
fn at_of(ticks: u64) -> Option<u64> {
    // SAFETY: a plain call that takes a number.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|n| *n > 0)?;
    (ticks.saturating_mul(1000) / per_second).checked_add_signed(-clock::boot_offset()? / 1_000_000)
}

/// Why a look from here cannot tell that no process bears a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blind {
    /// Its bearers live in a PID namespace that is not to be seen from here.
    Namespace(u64),
    /// /proc hides the processes of that user (`hidepid`).
    Hidden(u32),
    /// So many processes may not be looked at; the first one's number.
    Unreadable(usize, u32),
}

impl std::fmt::Display for Blind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Blind::Namespace(0) => write!(f, "nothing says in which PID namespace it runs"),
            Blind::Namespace(inode) => write!(f, "it runs in PID namespace {inode}, which cannot be seen from here"),
            Blind::Hidden(uid) => write!(f, "/proc hides the processes of user {uid} (hidepid)"),
            Blind::Unreadable(1, pid) => write!(f, "process {pid} may not be looked at from here"),
            Blind::Unreadable(n, pid) => {
                write!(f, "{n} processes, {pid} the first of them, may not be looked at from here")
            }
        }
    }
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

impl Bearers {
    /// The process that people know the job by: of those whose parent does not bear the mark, the one that started first. Numbers
    /// wrap, so the lowest may be a process that the job started a moment ago.
    pub fn eldest(&self) -> Option<u32> {
        eldest(&self.bear, process::parent, process::start_time)
    }
}

fn eldest(bear: &[u32], parent: impl Fn(u32) -> Option<u32>, started: impl Fn(u32) -> Option<u64>) -> Option<u32> {
    let inherited = |pid: u32| parent(pid).is_none_or(|parent| bear.contains(&parent));
    bear.iter().copied().min_by_key(|pid| (inherited(*pid), started(*pid).unwrap_or(u64::MAX), *pid))
}

/// A process whose environment the caller may not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreadable {
    pid: u32,
    uid: u32,
    /// When, as [`Origin::at`]; none where that is hidden, too.
    started: Option<u64>,
}

/// All that bear marks at one moment: one look at /proc, for any number of marks.
#[derive(Debug, Default)]
pub struct Marked {
    /// Processes, and what their environment has.
    bear: Vec<(u32, Vec<u8>)>,
    ending: Vec<u32>,
    unreadable: Vec<Unreadable>,
    /// All that were there.
    pids: Vec<u32>,
    /// The PID namespaces of those; looked at when first asked.
    namespaces: OnceCell<HashSet<u64>>,
    /// Whether /proc shows other users' processes.
    hides: bool,
    here: Origin,
}

impl Marked {
    /// Looks whose environment, as they were started with it, has `variable`.
    pub fn look(variable: &str) -> Marked {
        let prefix = format!("{variable}=");
        let mut all = Marked { here: Origin::here(), ..Marked::default() };
        let Ok(list) = std::fs::read_dir("/proc") else { return all };
        // The first process is another user's, or the caller's own: it is visible to all where nothing is hidden.
        all.hides = !std::fs::exists("/proc/1").unwrap_or(true);
        for pid in list.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
            all.pids.push(pid);
            let environ = match read(&format!("/proc/{pid}/environ")) {
                Ok(environ) => environ,
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    all.unreadable.extend(unreadable(pid));
                    continue;
                }
                Err(_) => Vec::new(),
            };
            let mut values = environ.split(|b| *b == 0).filter_map(|v| v.strip_prefix(prefix.as_bytes())).peekable();
            if values.peek().is_some() {
                all.bear.extend(values.map(|v| (pid, v.to_vec())));
            } else if environ.is_empty() && ending(pid) {
                all.ending.push(pid);
            }
        }
        all
    }

    /// Whether no process is just ending: then the list of bearers is complete.
    pub fn is_settled(&self) -> bool {
        self.ending.is_empty()
    }

    /// Those that have `mark` as one of the variable's values, separated by commas.
    pub fn bearers(&self, mark: &str) -> Bearers {
        let bear = self.values().filter(|(_, value)| *value == mark.as_bytes()).map(|(pid, _)| pid).collect();
        Bearers { bear, ending: self.ending.clone() }
    }

    /// All marks, each with a process that bears it.
    pub fn values(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.bear.iter().flat_map(|(pid, all)| all.split(|b| *b == b',').map(|value| (*pid, value)))
    }

    /// Whether this look would have shown every bearer of a mark of that origin. `None`: it is unknown where it was made.
    ///
    /// # Errors
    /// Why not.
    pub fn can_tell(&self, origin: Option<&Origin>) -> Result<(), Blind> {
        let of = origin.copied().unwrap_or_default();
        // Without /proc here and there, locks are the only evidence: `doctor` says so.
        let known = origin.is_some() && of.pid_namespace == self.here.pid_namespace;
        if !known && self.here.pid_namespace != FIRST_PID_NAMESPACE && !self.shows(of.pid_namespace) {
            return Err(Blind::Namespace(of.pid_namespace));
        }
        let same_users = origin.is_some() && of.user_namespace == self.here.user_namespace;
        if same_users && of.uid == self.here.uid {
            return Ok(());
        }
        if self.hides {
            return Err(Blind::Hidden(of.uid));
        }
        let may_bear = |p: &&Unreadable| {
            (p.uid == of.uid || !same_users)
                && p.started.is_none_or(|started| started.saturating_add(SLACK_MS) >= of.at)
        };
        let mut may = self.unreadable.iter().filter(may_bear).peekable();
        let Some(first) = may.peek().map(|p| p.pid) else { return Ok(()) };
        Err(Blind::Unreadable(may.count(), first))
    }

    /// Whether a process of a PID namespace can be seen: then it is below the caller's, and all of it can be.
    fn shows(&self, namespace: u64) -> bool {
        let look = || self.pids.iter().filter_map(|pid| Namespace::Pid.of(&pid.to_string())).collect();
        namespace != 0 && self.namespaces.get_or_init(look).contains(&namespace)
    }
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut all = Vec::with_capacity(4096);
    std::fs::File::open(path)?.read_to_end(&mut all)?;
    Ok(all)
}

fn unreadable(pid: u32) -> Option<Unreadable> {
    let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    // The owner of the entry is root for a process that may not be dumped.
    let status = process::read_all(&format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let real = status.lines().find_map(|l| l.strip_prefix("Uid:")?.split_ascii_whitespace().next()?.parse().ok());
    Some(Unreadable { pid, uid: real.unwrap_or(owner), started: process::start_time(pid).and_then(at_of) })
}

/// The processes whose environment, as they were started with it, has `variable` with `mark` as one of its values, separated by commas.
/// Only processes that the caller may inspect.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const BELOW: u64 = 0xf000_0001;

    /// A look from a PID namespace below the first, by user 1000.
    fn look() -> Marked {
        let here = Origin { pid_namespace: BELOW, user_namespace: 7, uid: 1000, at: 500 };
        let namespaces = OnceCell::from(HashSet::from([BELOW, BELOW + 1]));
        Marked { here, namespaces, ..Marked::default() }
    }

    #[test]
    fn a_job_is_known_by_its_first_process_whatever_its_number() {
        // 32700 started 303 after the numbers had wrapped; 7 was started by 303 in the same tick; 900 has ended.
        let parents = HashMap::from([(32_700, 1), (303, 32_700), (7, 303)]);
        let started = HashMap::from([(32_700, 50), (303, 50), (7, 50)]);
        let eldest = |bear: &[u32]| eldest(bear, |p| parents.get(&p).copied(), |p| started.get(&p).copied());
        assert_eq!(eldest(&[7, 303, 900, 32_700]), Some(32_700));
        assert_eq!(eldest(&[7, 303, 900]), Some(303));
        assert_eq!((eldest(&[900]), eldest(&[])), (Some(900), None));
    }

    #[test]
    fn a_process_that_a_scan_cannot_show_is_not_dead() {
        let here = look().here;
        assert_eq!(look().can_tell(Some(&here)), Ok(()));
        let beside = Origin { pid_namespace: BELOW + 2, ..here };
        assert_eq!(look().can_tell(Some(&beside)), Err(Blind::Namespace(BELOW + 2)));
        let below = Origin { pid_namespace: BELOW + 1, ..here };
        assert_eq!(look().can_tell(Some(&below)), Ok(()), "somebody of it can be seen");
        assert_eq!(look().can_tell(None), Err(Blind::Namespace(0)));
        let first = Marked { here: Origin { pid_namespace: FIRST_PID_NAMESPACE, ..here }, ..look() };
        assert_eq!((first.can_tell(Some(&beside)), first.can_tell(None)), (Ok(()), Ok(())), "all are below");
        let no_proc = Origin { pid_namespace: 0, ..here };
        assert_eq!(look().can_tell(Some(&no_proc)), Err(Blind::Namespace(0)));
        let blind = Marked { here: no_proc, ..look() };
        assert_eq!(blind.can_tell(Some(&no_proc)), Ok(()), "nobody has /proc: the lock is all there is");
    }

    #[test]
    fn processes_of_the_marks_user_that_cannot_be_read_may_bear_it() {
        let here = look().here;
        let with = |uid, started| Marked { unreadable: vec![Unreadable { pid: 9, uid, started }], ..look() };
        let theirs = Origin { uid: 2000, at: 400, ..here };
        let unreadable = Err(Blind::Unreadable(1, 9));
        assert_eq!(with(2000, Some(450)).can_tell(Some(&theirs)), unreadable);
        assert_eq!(with(2000, None).can_tell(Some(&theirs)), unreadable);
        assert_eq!(with(2000, Some(300)).can_tell(Some(&theirs)), Ok(()), "it began before the mark was made");
        assert_eq!(with(3000, Some(450)).can_tell(Some(&theirs)), Ok(()), "a third user's");
        let no_clock = Origin { at: 0, ..theirs };
        assert_eq!(with(2000, Some(300)).can_tell(Some(&no_clock)), unreadable, "nobody knows when it was made");
        let other_users = Origin { user_namespace: 6, ..theirs };
        assert_eq!(with(3000, Some(450)).can_tell(Some(&other_users)), unreadable, "its user may be any here");
        let hides = Marked { hides: true, ..look() };
        assert_eq!(hides.can_tell(Some(&theirs)), Err(Blind::Hidden(2000)));
        assert_eq!(hides.can_tell(Some(&here)), Ok(()), "one's own are not hidden");
    }

    #[test]
    fn a_mark_is_made_before_whoever_bears_it_starts() {
        let made = Origin::here();
        assert_eq!(made.pid_namespace, process::namespace());
        let mut child = std::process::Command::new("true").spawn().expect("`true` can be run");
        let started = process::start_time(child.id()).and_then(at_of).expect("it is not waited for yet");
        child.wait().expect("it has ended");
        assert!(started + SLACK_MS >= made.at && made.at > 0, "{started} {made:?}");
    }
}
