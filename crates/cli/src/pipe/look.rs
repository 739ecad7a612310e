//! What a stage does, seen from outside: how much processor its processes use, how full its pipes are, and what it waits for.
//!
//! Two looks. The *quick* one, every 4 ms, asks each process's clock (one system call) and each pipe's fill. The *slow* one, some times a
//! second and one stage at a time, reads /proc: which processes were started, which task uses which part, bytes moved, what is waited for.
//!
//! **No end of a pipe is kept.** The holder of a read end hides from the writer that the last reader is gone (no SIGPIPE), and the holder
//! of a write end hides from the reader that the last writer is. So a pipe's end is opened by /proc/PID/fd, asked and closed, 2 us in all;
//! if the last reader ends in just that time, the writer is told when chappe's end closes. Chappe opens the reading end behind a stage's
//! input, and the writing end behind its output: so neither looks alive without a stage that has it.
//!
//! Processes that come and go between two slow looks are seen by what their parents have waited for (in hundredths of a second).

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Duration;

/// Nanoseconds of a tick of /proc's clock.
const TICK: u64 = 10_000_000;
/// So many slow looks the parts of tasks are remembered, about.
const MEMORY: f64 = 0.7;

/// A stage's process.
struct Process {
    pid: i32,
    /// When it began, by which it is told from a later one of the same number.
    start: u64,
    /// Its processor time, in nanoseconds.
    used: u64,
    /// What its children had used that it waited for, in ticks.
    waited: u64,
    /// By number.
    tasks: HashMap<i32, Task>,
    /// What it has read and written.
    moved: Option<(u64, u64)>,
}

/// A thread.
struct Task {
    /// Its time at the last slow look.
    time: u64,
    /// What it has used lately.
    used: f64,
    /// Slow looks that have seen it, some at most.
    looks: u32,
}

/// So many slow looks know nothing yet of what a task needs.
const NEW: u32 = 4;

/// What it is waiting for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// A process sleeps in a read of a pipe.
    pub input: bool,
    /// One sleeps in a write.
    pub output: bool,
    /// Some are stopped, and the others wait for them.
    pub stopped: bool,
}

/// The processes of one stage.
pub struct Processes {
    all: Vec<Process>,
    /// The pipes that are its standard input and output.
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// Whose descriptors are looked through, for each.
    at: [i32; 2],
    /// Time of those that came and went, not yet told.
    owed: u64,
    /// Time of those that were seen and have gone since the last slow look.
    seen_of_gone: u64,
    /// Part of the use that is of those that came and went, lately.
    pub brief: f64,
    /// As of the last slow look.
    pub waits: Waits,
    /// Bytes that it has taken in and put out through its pipes since it began.
    pub moved: (u64, u64),
    us: u64,
}

/// A process's clock.
fn clock(pid: i32) -> Option<u64> {
    // The kernel's form of a process's clock, which may be asked of any process.
    read((!pid << 3) | 2)
}

/// The time since the machine started, the same for all processes.
pub fn now() -> Duration {
    Duration::from_nanos(read(libc::CLOCK_MONOTONIC).unwrap_or(0))
}

fn read(id: libc::clockid_t) -> Option<u64> {
    // SAFETY: writes the time.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(id, &raw mut t) != 0 {
            return None;
        }
        t
    };
    Some(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// The pipe that a descriptor of a process is.
pub fn pipe_of(pid: i32, fd: u32) -> Option<u64> {
    let to = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    to.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

/// Bytes in a pipe and its room, by a descriptor of a process that is that pipe.
fn fill(pid: i32, fd: u32, inode: u64) -> Option<(u32, u32)> {
    let mut options = OpenOptions::new();
    let options = if fd == 0 { options.read(true) } else { options.write(true) };
    let end: File = options.custom_flags(libc::O_NONBLOCK).open(format!("/proc/{pid}/fd/{fd}")).ok()?;
    if end.metadata().ok()?.ino() != inode {
        return None;
    }
    let mut bytes: libc::c_int = 0;
    // SAFETY: writes one number.
    let told = unsafe { libc::ioctl(end.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    // SAFETY: takes numbers.
    let room = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETPIPE_SZ) };
    (told == 0 && room > 0).then_some((bytes.max(0) as u32, room as u32))
}

/// What /proc/PID/stat says: state, start, and the ticks of children that it waited for.
struct Stat {
    state: char,
    start: u64,
    waited: u64,
}

/// When a process began, by the kernel's clock of /proc; nothing if there is none of that number.
pub fn start_of(pid: i32) -> Option<u64> {
    stat(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X')).map(|stat| stat.start)
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    let number = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
    Some(Stat { state: fields.first()?.chars().next()?, start: number(19)?, waited: number(13)? + number(14)? })
}

/// What it has read and written, wherever; it may be another user's.
fn io(pid: i32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok());
    line("rchar:").zip(line("wchar:"))
}

fn tids(pid: i32) -> Vec<i32> {
    let all = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that it started. A kernel without `children` files is asked about every process.
fn children(pid: i32, tids: &[i32]) -> Vec<i32> {
    let mut all = Vec::new();
    for tid in tids {
        match fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")) {
            Ok(text) => all.extend(text.split_ascii_whitespace().filter_map(|c| c.parse::<i32>().ok())),
            Err(_) => return crate::family::descendants(pid).iter().map(|p| p.pid).collect(),
        }
    }
    all
}

/// A task's time, from the scheduler's own count.
fn task_time(pid: i32, tid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl Processes {
    /// Those of a stage whose first processes these are.
    pub fn new(roots: &[i32]) -> Processes {
        let mut all = Processes {
            all: Vec::new(),
            input: roots.first().and_then(|pid| pipe_of(*pid, 0)),
            output: roots.first().and_then(|pid| pipe_of(*pid, 1)),
            at: [roots.first().copied().unwrap_or(0); 2],
            owed: 0,
            seen_of_gone: 0,
            brief: 0.0,
            waits: Waits::default(),
            moved: (0, 0),
            us: std::process::id().into(),
        };
        for pid in roots {
            all.add(*pid);
        }
        all
    }

    fn add(&mut self, pid: i32) {
        if pid as u64 == self.us || self.all.iter().any(|p| p.pid == pid) {
            return;
        }
        let Some(stat) = stat(pid).filter(|s| s.state != 'Z') else { return };
        let used = clock(pid).unwrap_or(0);
        let moved = io(pid);
        self.all.push(Process { pid, start: stat.start, used, waited: stat.waited, tasks: HashMap::new(), moved });
    }

    /// Whether a process of it lives.
    pub fn is_there(&self) -> bool {
        !self.all.is_empty()
    }

    /// How many processes there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// How many processors they can use at once, by how their threads have shared the work lately. Of those that come and go nobody knows it: as many as
    /// there are threads.
    pub fn at_once(&self) -> f64 {
        let parts: Vec<f64> = self.tasks().into_iter().map(|task| task.2).collect();
        let threads = parts.len().max(1) as f64;
        let most = parts.into_iter().fold(0.0, f64::max);
        if self.brief > 0.1 || most <= 0.0 { threads } else { (1.0 / most).clamp(1.0, threads) }
    }

    /// Their numbers.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.all.iter().map(|p| p.pid)
    }

    /// The quick look: nanoseconds of processor since the last one.
    pub fn used(&mut self) -> u64 {
        let mut used = 0;
        let mut gone = 0;
        self.all.retain_mut(|p| match clock(p.pid) {
            Some(now) => {
                used += now.saturating_sub(p.used);
                p.used = now;
                true
            }
            None => {
                gone += p.used;
                false
            }
        });
        self.seen_of_gone += gone;
        // Processes that were never seen are accounted for little by little: they used their time in the last tenth of a second.
        let part = self.owed.min((self.owed / 16).max(100_000));
        self.owed -= part;
        used + part
    }

    /// The fill of a pipe of it: its input, or its output.
    pub fn fill(&self, output: bool) -> Option<(u32, u32)> {
        let inode = if output { self.output } else { self.input }?;
        fill(self.at[usize::from(output)], u32::from(output), inode)
    }

    /// The slow look. Answers whether tasks have come or gone.
    pub fn look(&mut self) -> bool {
        let mut changed = false;
        let mut waited = 0;
        let (mut waits, mut stopped, mut busy) = (Waits::default(), false, false);
        let (mut found, mut at): (Vec<i32>, [Option<i32>; 2]) = (Vec::new(), [None; 2]);
        let before = self.all.len();
        let (input, output) = (self.input, self.output);
        let moved = &mut self.moved;
        self.all.retain_mut(|p| {
            let Some(now) = stat(p.pid).filter(|s| s.start == p.start && !matches!(s.state, 'Z' | 'X')) else {
                return false;
            };
            waited += now.waited.saturating_sub(p.waited);
            p.waited = now.waited;
            let tids = tids(p.pid);
            p.tasks.retain(|tid, _| tids.contains(tid));
            for tid in &tids {
                let time = task_time(p.pid, *tid);
                let task = p.tasks.entry(*tid).or_insert_with(|| {
                    changed = true;
                    Task { time, used: 0.0, looks: 0 }
                });
                task.used = MEMORY * task.used + time.saturating_sub(task.time) as f64;
                (task.time, task.looks) = (time, (task.looks + 1).min(NEW));
            }
            found.extend(children(p.pid, &tids));
            let ends = [input.is_some() && pipe_of(p.pid, 0) == input, output.is_some() && pipe_of(p.pid, 1) == output];
            if let Some(now) = io(p.pid)
                && let Some(then) = p.moved.replace(now)
            {
                // Without a pipe there, the first stage's input and the last one's output are files or the like.
                if ends[0] || input.is_none() {
                    moved.0 += now.0.saturating_sub(then.0);
                }
                if ends[1] || output.is_none() {
                    moved.1 += now.1.saturating_sub(then.1);
                }
            }
            let sleeps = fs::read_to_string(format!("/proc/{}/wchan", p.pid)).unwrap_or_default();
            let stops = matches!(now.state, 'T' | 't');
            stopped |= stops;
            busy |= !stops && !sleeps.contains("do_wait");
            for (side, name) in [(0, "pipe_read"), (1, "pipe_write")] {
                if ends[side] {
                    at[side] = at[side].or(Some(p.pid));
                }
                if ends[side] && sleeps.contains(name) {
                    if side == 0 { waits.input = true } else { waits.output = true }
                }
            }
            true
        });
        let gone = before - self.all.len();
        for pid in found {
            self.add(pid);
        }
        changed |= gone > 0 || self.all.len() > before - gone;
        let unseen = (waited * TICK).saturating_sub(std::mem::take(&mut self.seen_of_gone));
        self.owed += unseen;
        let known: f64 = self.all.iter().flat_map(|p| p.tasks.values()).map(|t| t.used).sum();
        let unseen_part = unseen as f64 / (unseen as f64 + known).max(1.0);
        self.brief += 0.05 * (unseen_part - self.brief);
        waits.stopped = stopped && !busy;
        self.waits = waits;
        for (known, found) in self.at.iter_mut().zip(at) {
            *known = found.unwrap_or(*known);
        }
        changed
    }

    /// Its tasks: process, task, and the part of what the stage uses that the task uses. One that is new has at least what all would have alike.
    pub fn tasks(&self) -> Vec<(i32, i32, f64)> {
        let all = self.all.iter().flat_map(|p| p.tasks.iter().map(move |(tid, task)| (p.pid, *tid, task)));
        let all: Vec<_> = all.collect();
        let sum: f64 = all.iter().map(|t| t.2.used).sum();
        let even = 1.0 / all.len().max(1) as f64;
        let part = |task: &Task| {
            let part = if sum > 0.0 { task.used / sum } else { even };
            if task.looks < NEW { part.max(even) } else { part }
        };
        all.into_iter().map(|(pid, tid, task)| (pid, tid, part(task))).collect()
    }

    /// How many of its tasks use a twentieth or more of what it uses.
    pub fn busy(&self) -> usize {
        self.tasks().iter().filter(|t| t.2 >= 0.05).count().max(1)
    }

    /// What it sleeps in, in the kernel's word.
    pub fn sleeps_in(&self) -> Option<String> {
        let first = self.all.last()?;
        let text = fs::read_to_string(format!("/proc/{}/wchan", first.pid)).ok()?;
        (!text.is_empty() && text != "0").then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_stat_with_brackets_in_its_name_is_read() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194304 9 9 9 9 11 12 30 4 20 0 1 0 99 4096 1";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.waited, stat.start), ('S', 34, 99));
        assert!(parse_stat("7 (a").is_none());
    }

    #[test]
    fn a_stage_is_seen_with_its_fill_and_no_end_is_kept() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut processes = Processes::new(&[child.id() as i32]);
        // Stopped, it takes nothing; by then it has become `cat`.
        to.write_all(b"x").unwrap();
        from.read_exact(&mut [0]).unwrap();
        // SAFETY: a plain system call on our own child.
        unsafe { libc::kill(child.id() as i32, libc::SIGSTOP) };
        let mut status = 0;
        // SAFETY: the status is a valid place; our own child.
        unsafe { libc::waitpid(child.id() as i32, &raw mut status, libc::WUNTRACED) };
        processes.look();
        assert!(processes.waits.stopped);
        to.write_all(&[7; 1000]).unwrap();
        assert_eq!(processes.fill(false), Some((1000, 65_536)));
        assert_eq!(processes.fill(true), Some((0, 65_536)));
        assert_eq!(processes.tasks().len(), 1);
        // SAFETY: as above.
        unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
        child.wait().unwrap();
        // A holder of the read end would hide this.
        assert_eq!(to.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        processes.used();
        assert!(!processes.is_there());
        assert_eq!(from.read(&mut [0; 2000]).unwrap(), 0);
    }

    #[test]
    fn a_stages_children_belong_to_it_after_its_first_process_ended() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!; read x"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = [0; 16];
        let n = child.stdout.as_mut().unwrap().read(&mut text).unwrap();
        let sleeper: i32 = std::str::from_utf8(&text[..n]).unwrap().trim().parse().unwrap();
        let mut processes = Processes::new(&[child.id() as i32]);
        assert!(processes.look());
        assert!(processes.pids().any(|pid| pid == sleeper));
        drop(child.stdin.take());
        child.wait().unwrap();
        processes.used();
        processes.look();
        assert_eq!(processes.pids().collect::<Vec<_>>(), [sleeper]);
        // SAFETY: a plain system call on what this test started.
        unsafe { libc::kill(sleeper, libc::SIGKILL) };
    }
}
