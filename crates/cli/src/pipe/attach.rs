//! Finding the pipeline that a process is in: along pipes, from standard output to standard input.
//!
//! Several processes may have the same ends (a shell and what it runs): they are one stage, and those of them that descend from another come with it.

use super::look::pipe_of;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fs;

/// A stage that runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Running {
    /// Its processes that no other one of it has started.
    pub roots: Vec<i32>,
    /// What it calls itself.
    pub command: String,
}

/// A process by its pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    parent: i32,
    input: Option<u64>,
    output: Option<u64>,
}

fn parent(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.get(text.rfind(')')? + 4..)?.split(' ').next()?.parse().ok()
}

/// All processes that this user may look into.
fn all() -> BTreeMap<i32, Ends> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let us = std::process::id() as i32;
    pids.filter(|pid| *pid != us)
        .filter_map(|pid| Some((pid, Ends { parent: parent(pid)?, input: pipe_of(pid, 0), output: pipe_of(pid, 1) })))
        .collect()
}

/// The stages of the pipeline that a process is in, in their order.
fn stages(of: i32, all: &BTreeMap<i32, Ends>) -> Vec<Vec<i32>> {
    let Some(me) = all.get(&of) else { return Vec::new() };
    let same = |ends: &Ends| -> Vec<i32> {
        // A first stage has no pipe before it, nor a last one behind it: what they have there is many others', too.
        let is = |e: &Ends| match (ends.input, ends.output) {
            (Some(_), Some(_)) => e.input == ends.input && e.output == ends.output,
            (Some(_), None) => e.input == ends.input,
            _ => e.output == ends.output,
        };
        all.iter().filter(|(_, e)| is(e)).map(|(pid, _)| *pid).collect()
    };
    // One has its own pipes; others may only have inherited one of them (the shell that waits).
    let find = |is: &dyn Fn(&Ends) -> bool| all.iter().find(|(_, e)| is(e)).map(|(_, e)| *e);
    let mut found = vec![(*me, same(me))];
    let mut known: Vec<u64> = me.input.into_iter().chain(me.output).collect();
    while let Some(output) = found.last().and_then(|(e, _)| e.output) {
        let Some(next) = find(&|e: &Ends| e.input == Some(output)) else { break };
        // A ring has no end.
        if next.output.is_some_and(|o| known.contains(&o)) {
            break;
        }
        known.extend(next.output);
        found.push((next, same(&next)));
    }
    while let Some(input) = found.first().and_then(|(e, _)| e.input) {
        let Some(before) = find(&|e: &Ends| e.output == Some(input)) else { break };
        if before.input.is_some_and(|i| known.contains(&i)) {
            break;
        }
        known.extend(before.input);
        found.insert(0, (before, same(&before)));
    }
    found.into_iter().map(|(_, pids)| pids).collect()
}

/// Those that no other of them has started.
fn roots(pids: &[i32], all: &BTreeMap<i32, Ends>) -> Vec<i32> {
    pids.iter().copied().filter(|pid| !all.get(pid).is_some_and(|e| pids.contains(&e.parent))).collect()
}

fn command(pid: i32) -> String {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = text.split(|b| *b == 0).map(String::from_utf8_lossy).collect();
    words.join(" ").trim().to_owned()
}

/// Finds the pipeline.
///
/// # Errors
/// There is no such process, or it is in none.
pub fn find(pid: i32) -> Result<Vec<Running>> {
    if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        bail!("there is no process {pid}");
    }
    if pid == std::process::id() as i32 {
        bail!("process {pid} is this one");
    }
    if fs::read_dir(format!("/proc/{pid}/fd")).is_err() {
        bail!("process {pid} is another user's: only its owner, or root, may look at its pipes");
    }
    let all = all();
    let found = stages(pid, &all);
    let has_pipe = all.get(&pid).is_some_and(|e| e.input.is_some() || e.output.is_some());
    if !has_pipe {
        bail!("process {pid} has no pipe as standard input or output: it is in no pipeline");
    }
    let stage = |pids: &Vec<i32>| {
        let roots = roots(pids, &all);
        let command = command(roots.first().copied().unwrap_or(pid));
        Running { roots, command }
    };
    Ok(found.iter().map(stage).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(i32, i32, Option<u64>, Option<u64>)]) -> BTreeMap<i32, Ends> {
        rows.iter()
            .map(|(pid, parent, input, output)| (*pid, Ends { parent: *parent, input: *input, output: *output }))
            .collect()
    }

    #[test]
    fn a_pipeline_is_found_from_any_of_its_stages() {
        // 10 | 20 (which has started 21) | 30, begun by 1; 40 has nothing to do with them.
        let all = table(&[
            (1, 0, None, None),
            (10, 1, None, Some(7)),
            (20, 1, Some(7), Some(8)),
            (21, 20, Some(7), Some(8)),
            (30, 1, Some(8), None),
            (40, 1, None, None),
        ]);
        for pid in [10, 20, 21, 30] {
            assert_eq!(stages(pid, &all), [vec![10], vec![20, 21], vec![30]], "{pid}");
        }
        assert_eq!(roots(&[20, 21], &all), [20]);
    }

    #[test]
    fn a_ring_of_pipes_ends() {
        let all = table(&[(10, 1, Some(9), Some(7)), (20, 1, Some(7), Some(9))]);
        assert_eq!(stages(10, &all).len(), 1);
    }

    #[test]
    fn a_process_without_pipes_and_none_at_all_are_told_apart() {
        let why = |pid| find(pid).unwrap_err().to_string();
        assert!(why(i32::MAX).contains("there is no process"));
        assert!(why(std::process::id() as i32).contains("is this one"));
    }
}
