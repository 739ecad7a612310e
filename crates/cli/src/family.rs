//! Which processes descend from which, according to /proc.

use crate::first;
use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;

/// One living process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Its group.
    pub group: i32,
}

impl Process {
    /// "pid 4242 `sccache`".
    pub fn with_name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        format!("pid {} `{}`", self.pid, crate::look::plain(name.trim_end()))
    }
}

/// Every process that has not ended.
fn all() -> Vec<Process> {
    let Ok(list) = std::fs::read_dir("/proc") else { return Vec::new() };
    list.filter_map(|e| one(e.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

fn one(pid: i32) -> Option<Process> {
    parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// `pid (name) state parent group ...`, where the name may have anything in it. One whose memory is gone (no virtual
/// size) has ended in all but name; what files it still has open, the lease knows.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let after = stat.iter().rposition(|b| *b == b')')?;
    let mut fields = std::str::from_utf8(stat.get(after + 2..)?).ok()?.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let size = fields.nth(17)?;
    (!matches!(state, "Z" | "X") && size != "0").then_some(Process { pid, parent, group })
}

/// All that descend from `ancestor`, itself aside; parents before their children.
pub fn descendants(ancestor: i32) -> Vec<Process> {
    below(ancestor, &all())
}

fn below(ancestor: i32, all: &[Process]) -> Vec<Process> {
    let mut known = vec![ancestor];
    let mut found = Vec::new();
    while let Some(parent) = known.pop() {
        for p in all.iter().filter(|p| p.parent == parent && p.pid != parent) {
            known.push(p.pid);
            found.push(*p);
        }
    }
    found
}

/// Whether this child, which nobody has waited for, is the only one of a process of whose threads the first alone begins others, or those that have ended,
/// as far as the kernel says that. What threads and processes that have died began is the first one's, too, and of that the kernel lists all that stay: it
/// goes from one to the next.
pub fn is_only_child(pid: i32, of: u32) -> bool {
    let all = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    all.split_ascii_whitespace().eq([pid.to_string().as_str()])
}

/// A process's children, if the kernel lists them.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// Whether another process is in this process's group.
pub fn group_is_shared() -> bool {
    let (me, group) = (std::process::id() as i32, crate::terminal::own_group());
    group != me && !first::is_init(group)
        || all().iter().any(|p| p.group == group && p.pid != me && !first::is_init(p.pid))
}

/// Whether a process has a file open. A process that may not be inspected counts as not.
pub fn has_open(pid: i32, file: &Metadata) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let is_it = |entry: DirEntry| {
        std::fs::metadata(entry.path()).is_ok_and(|there| (there.dev(), there.ino()) == (file.dev(), file.ino()))
    };
    open.filter_map(Result::ok).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_trap() {
        let rest = "5 0 -1 4194304 9 9 9 9 0 0 0 0 20 0 1 0 99";
        let p = parse(7, format!("7 (a) b) S 3 5 {rest} 4096 1").as_bytes()).unwrap();
        assert_eq!(p, Process { pid: 7, parent: 3, group: 5 });
        assert!(parse(7, format!("7 (ended) Z 3 5 {rest} 4096 1").as_bytes()).is_none());
        assert!(parse(7, format!("7 (ending) R 3 5 {rest} 0 0").as_bytes()).is_none());
        assert!(parse(7, b"").is_none());
    }

    #[test]
    fn a_second_child_is_not_overlooked() {
        let script = "sleep 1000 & a=$!; echo $a; read x; sleep 1000 & echo; read x; kill $a $!";
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()).lines());
        let first: i32 = from.next().unwrap().unwrap().parse().unwrap();
        // A kernel without the list says nothing.
        let listed = std::fs::exists(format!("/proc/{0}/task/{0}/children", shell.id())).unwrap();
        assert_eq!(is_only_child(first, shell.id()), listed);
        to.write_all(b"\n").unwrap();
        assert_eq!(from.next().unwrap().unwrap(), "");
        assert!(!is_only_child(first, shell.id()));
        drop(to);
        shell.wait().unwrap();
    }

    #[test]
    fn descendants_of_descendants_are_found() {
        let p = |pid, parent| Process { pid, parent, group: 1 };
        let all = [p(5, 4), p(3, 2), p(4, 3), p(9, 1), p(2, 1)];
        let mut pids: Vec<i32> = below(2, &all).iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [3, 4, 5]);
        let order: Vec<i32> = below(1, &all).iter().map(|p| p.pid).collect();
        for p in &all {
            let at = |pid| order.iter().position(|o| *o == pid);
            assert!(p.parent == 1 || at(p.parent) < at(p.pid), "{order:?}");
        }
        assert!(below(9, &all).is_empty());
    }
}
