//! Which processes have which fifo open, and which have lost their parent: one look at /proc that misses no process.
//!
//! The processes are listed again and again, and those that were not looked at yet are looked at, until a listing has none. Then the look
//! is complete, although processes were born and died meanwhile:
//!
//! - A descriptor comes by fork alone (the name stands for another fifo by then). A process that existed at the beginning of the last
//!   listing was looked at before it; one that was born during it has what its parents had. So if no process that was looked at has a fifo,
//!   none has.
//! - A child whose parent died is an orphan wherever it stands by now; one that was born during the last listing descends from one that was
//!   looked at and counted.
//!
//! A process counts as dead once its memory is gone: the files go next, then its children get another parent. So the child of such a
//! process is an orphan, too. A process that may not be inspected and descends from chappe counts as having everything. A process whose
//! parent may not even be asked for (another user's, where /proc is mounted with hidepid=1) counts as no part of the job.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// A process, and not another one that has its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// Its number.
    pub pid: i32,
    start: u64,
}

/// A file.
pub type Inode = (u64, u64);

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    holders: HashMap<Inode, Vec<Id>>,
    /// Those that some process may read.
    readable: HashSet<Inode>,
    /// With their parents.
    living: HashMap<Id, i32>,
    /// Those in the job whose parents have died, itself aside.
    pub orphans: HashSet<Id>,
    /// A process in the job may not be inspected.
    opaque: bool,
    /// How many children each process has, those among them that have ended and were not waited for.
    children: HashMap<i32, i64>,
    /// Of the living ones: how many threads each has, and whether it is stopped.
    shape: HashMap<Id, (i64, bool)>,
}

struct Entry {
    parent: i32,
    threads: i64,
    stopped: bool,
    start: u64,
    lives: bool,
    dark: bool,
}

impl Seen {
    /// The processes that have this fifo open. `None`: that cannot be told.
    pub fn holders(&self, of: Inode) -> Option<&[Id]> {
        match self.holders.get(&of) {
            None if self.opaque => None,
            found => Some(found.map_or(&[], Vec::as_slice)),
        }
    }

    /// Whether a process has this fifo open for reading.
    pub fn is_read(&self, of: Inode) -> bool {
        self.readable.contains(&of)
    }

    /// Whether the process lives.
    pub fn lives(&self, id: &Id) -> bool {
        self.living.contains_key(id)
    }

    /// How many tokens the processes that have this fifo open can have at most, each for a job: a client has a job without a token, and
    /// else one for each thread and each child. `None`: that cannot be told, or one is stopped, perhaps with a token that it has just
    /// taken.
    pub fn most_tokens(&self, of: Inode) -> Option<i64> {
        let mut most = i64::try_from(self.orphans.len()).ok()?;
        for holder in self.holders(of)? {
            let (threads, stopped) = self.shape.get(holder).copied()?;
            if stopped {
                return None;
            }
            let children = self.children.get(&holder.pid).copied().unwrap_or(0);
            most += (children - 1).max(0) + (threads - 1).max(0);
        }
        Some(most)
    }

    /// The process's parent, if it lives.
    pub fn parent(&self, id: &Id) -> Option<i32> {
        self.living.get(id).copied()
    }
}

/// How often the processes are listed at most.
const ROUNDS: usize = 200;

/// Looks. `me` is this process, `job` the job's first process; `name` is what the names of the fifos begin with.
/// `None`: too much was going on, or /proc cannot be read.
pub fn look(me: i32, job: i32, name: &str) -> Option<Seen> {
    let mut all: HashMap<i32, Entry> = HashMap::new();
    let mut seen = Seen::default();
    let slash = format!("/{name}");
    for _ in 0..ROUNDS {
        let mut news = false;
        for pid in fs::read_dir("/proc").ok()?.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
            if pid == me || all.contains_key(&pid) {
                continue;
            }
            news = true;
            let Some(mut entry) = entry_of(fs::read(format!("/proc/{pid}/stat"))).ok()? else { continue };
            if entry.lives {
                let id = Id { pid, start: entry.start };
                seen.living.insert(id, entry.parent);
                seen.shape.insert(id, (entry.threads, entry.stopped));
                entry.dark = !files(pid, &slash, |inode, reads| {
                    seen.holders.entry(inode).or_default().push(id);
                    if reads {
                        seen.readable.insert(inode);
                    }
                });
            }
            all.insert(pid, entry);
        }
        if !news {
            judge(&all, me, job, &mut seen);
            return Some(seen);
        }
    }
    None
}

fn judge(all: &HashMap<i32, Entry>, me: i32, job: i32, seen: &mut Seen) {
    for e in all.values() {
        *seen.children.entry(e.parent).or_default() += 1;
    }
    for (pid, e) in all.iter().filter(|(_, e)| e.lives) {
        let ours = e.parent == me || descends(all, me, e.parent);
        seen.opaque |= ours && e.dark;
        let orphan = match all.get(&e.parent) {
            _ if e.parent == me => *pid != job,
            Some(parent) => ours && !parent.lives,
            // It ended before its turn. Kernel threads and the first process have none.
            None => e.parent > 0,
        };
        if orphan {
            seen.orphans.insert(Id { pid: *pid, start: e.start });
        }
    }
}

fn descends(all: &HashMap<i32, Entry>, from: i32, mut pid: i32) -> bool {
    // The numbers were read at different times: they may even go round.
    for _ in 0..all.len() {
        match all.get(&pid) {
            Some(e) if e.parent == from => return true,
            Some(e) => pid = e.parent,
            None => return false,
        }
    }
    false
}

/// What a process's stat says. `None`: it is gone.
///
/// # Errors
/// That the look failed: out of descriptors, say.
fn entry_of(stat: io::Result<Vec<u8>>) -> io::Result<Option<Entry>> {
    match stat {
        Ok(stat) => Ok(parse(&stat)),
        Err(e) if is_gone(&e) => Ok(None),
        // It stays in the listing, so it must be known, or no listing would be without news.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Ok(Some(Entry { parent: 0, threads: 1, stopped: false, start: 0, lives: true, dark: false }))
        }
        Err(e) => Err(e),
    }
}

fn is_gone(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH)
}

/// `pid (name) state parent ...`, where the name may have anything in it.
fn parse(stat: &[u8]) -> Option<Entry> {
    let after = stat.iter().rposition(|b| *b == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(stat.get(after + 2..)?).ok()?.split(' ').collect();
    let state = *fields.first()?;
    let lives = !matches!(state, "Z" | "X") && *fields.get(20)? != "0";
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let (parent, start) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
    Some(Entry { parent, threads: number(17)?, stopped: matches!(state, "T" | "t"), start, lives, dark: false })
}

/// Calls `with` for each open file whose name has `slash` in it, and whether it is open for reading. False: the process may not be looked at.
fn files(pid: i32, slash: &str, mut with: impl FnMut(Inode, bool)) -> bool {
    let list = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(list) => list,
        Err(e) => return is_gone(&e),
    };
    for path in list.filter_map(|e| Some(e.ok()?.path())) {
        // The name first: to ask for more may wait for a file system that is far away.
        let named = fs::read_link(&path).is_ok_and(|to| to.to_string_lossy().contains(slash));
        if named && let Ok(m) = fs::metadata(&path) {
            // The mode of the link is that of the open file.
            let reads = fs::symlink_metadata(&path).is_ok_and(|link| link.mode() & libc::S_IRUSR != 0);
            with((m.dev(), m.ino()), reads);
        }
    }
    true
}

#[cfg(test)]
impl Seen {
    /// As if these had these files, these lived without one, and these were orphans.
    pub fn made_up(holders: &[(Inode, &[i32])], living: &[i32], orphans: &[i32]) -> Seen {
        let ids = |pids: &[i32]| pids.iter().map(|pid| Id { pid: *pid, start: 1 }).collect::<Vec<_>>();
        let all = holders.iter().flat_map(|(_, pids)| ids(pids)).chain(ids(living)).chain(ids(orphans));
        Seen {
            living: all.map(|id| (id, 1)).collect(),
            holders: holders.iter().map(|(inode, pids)| (*inode, ids(pids))).collect(),
            readable: holders.iter().map(|(inode, _)| *inode).collect(),
            orphans: ids(orphans).into_iter().collect(),
            opaque: false,
            ..Seen::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn entry(parent: i32, lives: bool) -> Entry {
        Entry { parent, threads: 1, stopped: false, start: 1, lives, dark: false }
    }

    #[test]
    fn orphans_are_those_without_a_living_parent() {
        let all = HashMap::from([
            (1, entry(0, true)),
            (10, entry(1, true)),
            (20, entry(10, true)), // the job
            (21, entry(20, true)),
            (22, entry(20, false)), // just ending
            (23, entry(22, true)),
            (24, entry(10, true)), // reparented
            (25, entry(24, true)),
            (30, entry(1, true)), // another's
            (31, entry(30, false)),
            (32, entry(31, true)), // another's orphan
            (33, entry(99, true)), // its parent ended before its turn
        ]);
        let mut seen = Seen::default();
        judge(&all, 10, 20, &mut seen);
        let mut pids: Vec<i32> = seen.orphans.iter().map(|o| o.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [23, 24, 33]);
    }

    #[test]
    fn an_unreadable_process_is_known_and_not_one_of_ours() {
        let failed = |number| entry_of(Err(io::Error::from_raw_os_error(number)));
        for number in [libc::EPERM, libc::EACCES] {
            let shut = failed(number).unwrap().expect("an entry");
            let all = HashMap::from([(20, entry(10, true)), (40, shut), (41, entry(40, true))]);
            let mut seen = Seen::default();
            judge(&all, 10, 20, &mut seen);
            assert_eq!((seen.orphans.len(), seen.opaque), (0, false));
        }
        for number in [libc::ENOENT, libc::ESRCH] {
            assert!(failed(number).unwrap().is_none());
        }
        assert!(failed(libc::EMFILE).is_err());
    }

    #[test]
    fn a_process_that_has_the_file_is_found_by_its_inode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs-1");
        let mut sleeper = std::process::Command::new("sleep");
        let file = File::create(&path).unwrap();
        let child = sleeper.arg("100").stdin(file.try_clone().unwrap()).spawn().unwrap();
        let m = file.metadata().unwrap();
        // Where too much is going on there is none.
        let seen = std::iter::repeat_with(|| look(std::process::id() as i32, 0, "jobs-")).flatten().next().unwrap();
        let pids: Vec<i32> = seen.holders((m.dev(), m.ino())).unwrap().iter().map(|h| h.pid).collect();
        let mut child = child;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(pids.contains(&(child.id() as i32)), "{pids:?}");
        assert!(seen.holders((0, 0)).is_some_and(<[Id]>::is_empty));
    }
}
