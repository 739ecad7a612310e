//! Pipes between processes: how full they are, and which side holds up the other. Of any running pipeline, whichever process has started
//! it.
//!
//! No part of chappe is in such a pipe, so this reads /proc: which process has which end, and what its first thread sleeps in. How many
//! bytes a pipe has can be asked at an end of it alone; so its read end is opened, asked and closed, some microseconds in all. **In that
//! time a writer whose last reader ends is not told so**: what it writes then is lost, as it would have been a moment before, and its next
//! write fails. Nothing else is done to the pipe, and its processes are not held up.

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Instant;

/// How many processes of a side are told of one by one.
pub const TOLD: usize = 8;

/// One process at a pipe's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its number.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
    /// Its first thread sleeps in a read or write of a pipe.
    pub sleeps: Option<Side>,
    fd: u32,
    /// Bytes that it has read and written in all, wherever.
    moved: Option<(u64, u64)>,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where bytes come out.
    Read,
    /// Where they go in.
    Write,
}

/// One pipe that joins processes.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeSeen {
    /// The kernel's number of it.
    pub inode: u64,
    /// Bytes in it, and for how many it has room; none if it may not be asked.
    pub fill: Option<(u32, u32)>,
    /// Processes that can write into it.
    pub writers: Vec<End>,
    /// Processes that can read from it.
    pub readers: Vec<End>,
    /// Bytes a second, where a process moves them that has its standard input or output here and there is a look before; it may move bytes elsewhere, too.
    pub rate: Option<f64>,
}

/// All pipes at one moment.
#[derive(Debug)]
pub struct Pipes {
    /// When.
    at: Instant,
    /// In the order in which pipelines run: by the first writer, then the first reader.
    pub all: Vec<PipeSeen>,
}

impl PipeSeen {
    /// "yes 4242 | gzip 4243".
    pub fn title(&self) -> String {
        let side = |ends: &[End]| match ends {
            [] => "nobody".to_owned(),
            [one] => format!("{} {}", one.name, one.pid),
            [one, rest @ ..] => format!("{} {} and {}", one.name, one.pid, rest.len()),
        };
        format!("{} | {}", side(&self.writers), side(&self.readers))
    }

    /// How full it is, 0 to 1.
    pub fn share(&self) -> Option<f64> {
        self.fill.map(|(bytes, room)| f64::from(bytes) / f64::from(room.max(1)))
    }

    /// Which side holds up which, in words.
    pub fn state(&self) -> &'static str {
        let sleeps = |ends: &[End], side| !ends.is_empty() && ends.iter().all(|e| e.sleeps == Some(side));
        match (sleeps(&self.writers, Side::Write), sleeps(&self.readers, Side::Read)) {
            (true, false) => "the reader is behind",
            (false, true) => "waits for the writer",
            _ => "flows",
        }
    }

    /// For `--json` and the page.
    pub fn as_json(&self) -> Value {
        let end = |e: &End| {
            let sleeps = e.sleeps.map(|s| if s == Side::Read { "read" } else { "write" });
            json!({ "pid": e.pid, "name": e.name, "sleeps_in": sleeps })
        };
        json!({
            "writers_in_all": self.writers.len(), "readers_in_all": self.readers.len(),
            "inode": self.inode, "bytes": self.fill.map(|f| f.0), "room": self.fill.map(|f| f.1), "bytes_per_second": self.rate,
            "writers": self.writers.iter().take(TOLD).map(end).collect::<Vec<_>>(),
            "readers": self.readers.iter().take(TOLD).map(end).collect::<Vec<_>>(), "state": self.state(),
        })
    }
}

/// Bytes in a pipe, and its room, asked at a read end of one of its processes.
fn fill(pid: u32, fd: u32) -> Option<(u32, u32)> {
    let mut options = OpenOptions::new();
    let end: File = options.read(true).custom_flags(libc::O_NONBLOCK).open(format!("/proc/{pid}/fd/{fd}")).ok()?;
    let mut bytes: libc::c_int = 0;
    // SAFETY: writes one number.
    let told = unsafe { libc::ioctl(end.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    // SAFETY: takes numbers.
    let room = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETPIPE_SZ) };
    (told == 0 && room > 0).then_some((bytes.max(0) as u32, room as u32))
}

/// What a process has moved, and what it sleeps in.
fn process(pid: u32) -> (String, Option<Side>, Option<(u64, u64)>) {
    let read = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let wchan = read("wchan");
    let sleeps = if wchan.contains("pipe_write") {
        Some(Side::Write)
    } else if wchan.contains("pipe_read") {
        Some(Side::Read)
    } else {
        None
    };
    let io = read("io");
    let line = |key: &str| io.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok());
    (read("comm").trim_end().to_owned(), sleeps, line("rchar:").zip(line("wchar:")))
}

/// Ends of pipes of one process: inode, descriptor, side. A pipe that was opened for both has both.
fn ends(pid: u32) -> Vec<(u64, u32, Side)> {
    // It is gone, or another user's.
    let Ok(all) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in all.flatten() {
        let Ok(to) = fs::read_link(entry.path()) else { continue };
        let to = to.to_string_lossy();
        let Some(inode) = to.strip_prefix("pipe:[").and_then(|t| t.strip_suffix(']')?.parse().ok()) else { continue };
        let Some(fd) = entry.file_name().to_str().and_then(|t| t.parse().ok()) else { continue };
        // What the link itself may: read, write, or both.
        let mode = entry.path().symlink_metadata().map_or(0, |m| m.mode());
        found.extend((mode & 0o400 != 0).then_some((inode, fd, Side::Read)));
        found.extend((mode & 0o200 != 0).then_some((inode, fd, Side::Write)));
    }
    found
}

impl Pipes {
    /// Looks at those that this user may look at, and that join two processes.
    pub fn look(before: Option<&Pipes>) -> Pipes {
        let at = Instant::now();
        let me = std::process::id();
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != me);
        let mut all: BTreeMap<u64, [Vec<(u32, u32)>; 2]> = BTreeMap::new();
        for pid in pids {
            for (inode, fd, side) in ends(pid) {
                let of = &mut all.entry(inode).or_default()[side as usize];
                // A process that has an end twice has it once here: as a standard one, if it is that.
                match of.iter_mut().find(|(other, _)| *other == pid) {
                    Some((_, first)) => *first = fd.min(*first),
                    None => of.push((pid, fd)),
                }
            }
        }
        let mut known: HashMap<u32, _> = HashMap::new();
        let mut seen: Vec<PipeSeen> = all
            .into_iter()
            .filter(|(_, [readers, writers])| {
                // What one process has for itself, and what all share (make's tokens), is no pipeline.
                let apart = readers.iter().any(|r| writers.iter().all(|w| w.0 != r.0))
                    || writers.iter().any(|w| readers.iter().all(|r| w.0 != r.0));
                apart && !readers.is_empty() && !writers.is_empty()
            })
            .map(|(inode, sides)| {
                let [readers, writers] = sides.map(|side| {
                    let end = |(pid, fd): (u32, u32)| {
                        let (name, sleeps, moved) = known.entry(pid).or_insert_with(|| process(pid)).clone();
                        End { pid, name, sleeps, fd, moved }
                    };
                    side.into_iter().map(end).collect::<Vec<End>>()
                });
                let fill = readers.first().and_then(|r| fill(r.pid, r.fd));
                PipeSeen { inode, fill, writers, readers, rate: None }
            })
            .collect();
        seen.sort_by_key(|p| (p.writers.first().map(|e| e.pid), p.readers.first().map(|e| e.pid)));
        if let Some(before) = before {
            let seconds = at.duration_since(before.at).as_secs_f64().max(1e-3);
            let old: HashMap<u64, &PipeSeen> = before.all.iter().map(|p| (p.inode, p)).collect();
            for pipe in &mut seen {
                pipe.rate = old.get(&pipe.inode).and_then(|then| rate(then, pipe, seconds));
            }
        }
        Pipes { at, all: seen }
    }
}

/// What the one writer whose standard output this is has written, or else what the one reader whose standard input it is has read.
fn rate(then: &PipeSeen, now: &PipeSeen, seconds: f64) -> Option<f64> {
    let moved = |then: &[End], now: &[End], fd, of: fn((u64, u64)) -> u64| {
        let [now] = now else { return None };
        let was = then.iter().find(|e| e.pid == now.pid)?;
        let (was, is) = (of(was.moved?), of(now.moved?));
        (now.fd == fd).then(|| is.saturating_sub(was) as f64 / seconds)
    };
    let out = moved(&then.writers, &now.writers, 1, |m| m.1);
    out.or_else(|| moved(&then.readers, &now.readers, 0, |m| m.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asleep::Asleep;
    use std::io::Write;
    use std::process::Stdio;

    fn of(pid: u32) -> Option<PipeSeen> {
        Pipes::look(None).all.into_iter().find(|p| p.readers.iter().any(|r| r.pid == pid))
    }

    #[test]
    fn a_pipe_tells_its_ends_and_what_is_in_it() {
        // A process that never reads, and a writer whose standard output the pipe is.
        let mut reader = Asleep::new(Stdio::piped(), Stdio::null());
        let mut end = reader.0.stdin.take().unwrap();
        end.write_all(&[7; 1000]).unwrap();
        let writer = Asleep::new(Stdio::null(), Stdio::from(end));
        let (reads, writes) = (reader.0.id(), writer.0.id());
        // A child that another test starts has this process's descriptors until it is another program.
        let began = Instant::now();
        let pipe = loop {
            match of(reads) {
                Some(p) if p.readers.len() == 1 && p.writers.len() == 1 => break p,
                seen => assert!(began.elapsed().as_secs() < 60, "{seen:?}"),
            }
        };
        assert_eq!(pipe.fill, Some((1000, 65_536)));
        assert_eq!((pipe.readers[0].pid, pipe.writers[0].pid), (reads, writes));
        assert!(pipe.title().contains(" | "), "{}", pipe.title());
    }

    #[test]
    fn the_sleeping_end_of_a_pipe_says_which_end_is_slow() {
        let end = |sleeps| End { pid: 1, name: "a".into(), sleeps, fd: 0, moved: None };
        let pipe = |w, r| PipeSeen {
            inode: 1,
            fill: Some((10, 100)),
            writers: vec![end(w)],
            readers: vec![end(r)],
            rate: None,
        };
        assert_eq!(pipe(Some(Side::Write), None).state(), "the reader is behind");
        assert_eq!(pipe(None, Some(Side::Read)).state(), "waits for the writer");
        assert_eq!(pipe(None, None).state(), "flows");
    }

    #[test]
    fn rates_are_of_standard_ends_alone() {
        let end = |fd, moved| End { pid: 1, name: "a".into(), sleeps: None, fd, moved: Some(moved) };
        let pipe = |w: End, r: End| PipeSeen { inode: 1, fill: None, writers: vec![w], readers: vec![r], rate: None };
        let (then, now) = (pipe(end(1, (0, 100)), end(0, (50, 0))), pipe(end(1, (0, 300)), end(0, (250, 0))));
        assert_eq!(rate(&then, &now, 2.0), Some(100.0));
        // The writer has it elsewhere: what the reader reads tells.
        let now = pipe(end(5, (0, 300)), end(0, (450, 0)));
        assert_eq!(rate(&then, &now, 2.0), Some(200.0));
        let now = pipe(end(5, (0, 300)), end(7, (450, 0)));
        assert_eq!(rate(&then, &now, 2.0), None);
    }
}
