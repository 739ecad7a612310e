//! Starting the stages, as a shell would: pipes between, each stage a process of `sh -c`, all in one group.
//!
//! Each gives itself its first reservation before exec ([`First`]): a source that waited for a look would be late at its first ticks.
//!
//! Chappe keeps none of the pipes' ends. Its own stdin and stdout, which the first and the last stage have, are let go, too: a process that
//! writes to chappe is to be told that the first stage is gone, and a process that reads from it that the last one is.

use super::kernel;
use super::means::First;
use super::split;
use crate::ended::FAILED;
use crate::said::Failure;
use crate::signals::send;
use crate::signals::{self, Set};
use crate::terminal::{self, Terminal};
use anyhow::{Context, anyhow};
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Wrong usage: the pipeline is not sh's language.
const USAGE: u8 = 2;

/// What the shell says of a text, if it says anything.
fn refused(text: &str) -> io::Result<Option<String>> {
    let said = Command::new("sh").args(["-n", "-c", "--", text]).stdin(Stdio::null()).output()?;
    Ok((!said.status.success()).then(|| {
        let text = String::from_utf8_lossy(&said.stderr);
        text.trim().to_owned()
    }))
}

/// The word that a simple command begins with, where nothing has to be expanded to know it.
fn first_word(stage: &str) -> Option<&str> {
    let text = stage.trim_start_matches([' ', '\t', '\n']);
    let end = text.find([' ', '\t', '\n', '<', '>']).unwrap_or(text.len());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '+' | '-');
    // What begins so may be a function's definition, an option or an assignment.
    Some(&text[..end]).filter(|word| !word.is_empty() && !word.starts_with('-') && word.chars().all(plain))
}

/// Which of these words are programs for the shell, and neither its own commands nor words of its language.
fn programs(words: &[&str]) -> io::Result<Vec<bool>> {
    const ASK: &str = "for w do p=$(command -v \"$w\"); case $p in /*) echo 1;; *) echo 0;; esac; done";
    let said = Command::new("sh").args(["-c", ASK, "sh"]).args(words).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(words.iter().zip(said.lines()).map(|(word, line)| word.contains('/') || line == "1").collect())
}

/// What the shell is told of each stage. A program takes the shell's place, as it does in a shell's own pipeline: it gets the signals, and its end is the
/// stage's.
fn told(stages: &[String]) -> io::Result<Vec<String>> {
    let words: Vec<&str> = stages.iter().map(|s| first_word(s).unwrap_or(":")).collect();
    let told = |(stage, is): (&String, bool)| {
        if is { format!("exec {}", stage.trim_start_matches([' ', '\t', '\n'])) } else { stage.clone() }
    };
    Ok(stages.iter().zip(programs(&words)?).map(told).collect())
}

/// Splits a pipeline, if it is one.
///
/// # Errors
/// What is wrong with it, with the status of wrong usage.
pub fn parse(text: &str) -> Result<split::Pipeline, Failure> {
    let usage = |why| Failure { status: USAGE, why };
    if text.contains('\0') {
        return Err(usage(anyhow!("the pipeline has a zero byte in it")));
    }
    // What chappe can say better than the shell, first.
    let pipeline = split::split(text).map_err(|wrong| usage(anyhow!("`{text}`: {wrong}")))?;
    let failed = |e: io::Error| Failure { status: FAILED, why: anyhow!("cannot run `sh`: {e}") };
    if let Some(why) = refused(text).map_err(failed)? {
        return Err(usage(anyhow!("the shell does not understand `{text}`: {why}")));
    }
    for (at, stage) in pipeline.stages.iter().enumerate() {
        if let Some(why) = refused(stage).map_err(failed)? {
            let stage = stage.trim();
            return Err(usage(anyhow!("the shell does not understand stage {}, `{stage}`: {why}", at + 1)));
        }
    }
    Ok(pipeline)
}

/// What a stage is between fork and exec: in its group (none where stages stay in chappe's), with its first reservation.
fn prepare(
    command: &mut Command,
    leader: Option<i32>,
    tty: Option<i32>,
    mask: Set,
    file_size: bool,
    first: Option<First>,
) {
    // SAFETY: between fork and exec only system calls are made: no memory is allocated, no lock taken.
    unsafe {
        command.pre_exec(move || {
            if let Some(leader) = leader {
                libc::setpgid(0, leader);
                if let Some(tty) = tty {
                    // A background process that asks for the terminal is stopped, unless it blocks that signal.
                    Set::of(&[libc::SIGTTOU]).block();
                    terminal::set_foreground(tty, terminal::own_group());
                }
            }
            if file_size {
                signals::default(libc::SIGXFSZ);
            }
            if let Some(first) = &first {
                first.take(|to| kernel::set(0, to));
            }
            mask.set();
            Ok(())
        });
    }
}

/// Starts all stages, each with its first reservation. Answers their processes, the first of which leads their group if they have one.
///
/// # Errors
/// The system's; then none of them is left.
pub fn start(
    stages: &[String],
    own_group: bool,
    mask: Set,
    file_size: bool,
    terminal: &Terminal,
    firsts: &[Option<First>],
) -> Result<Vec<i32>, Failure> {
    let mut pids: Vec<i32> = Vec::new();
    let started = start_each(stages, own_group, mask, file_size, terminal, firsts, &mut pids);
    if let Err(why) = started {
        for pid in &pids {
            send(*pid, libc::SIGKILL);
            // SAFETY: our own child; no place for its status.
            unsafe { libc::waitpid(*pid, std::ptr::null_mut(), 0) };
        }
        terminal.take_back(pids.first().copied());
        return Err(Failure { status: FAILED, why });
    }
    let_go();
    Ok(pids)
}

fn start_each(
    stages: &[String],
    own_group: bool,
    mask: Set,
    file_size: bool,
    terminal: &Terminal,
    firsts: &[Option<First>],
    pids: &mut Vec<i32>,
) -> anyhow::Result<()> {
    let mut from: Option<PipeReader> = None;
    let texts = told(stages).context("cannot run `sh`")?;
    for (at, stage) in texts.iter().enumerate() {
        let mut command = Command::new("sh");
        command.args(["-c", "--", stage]);
        if let Some(from) = from.take() {
            command.stdin(Stdio::from(OwnedFd::from(from)));
        }
        if at + 1 < stages.len() {
            let (reader, writer) = io::pipe().context("cannot make a pipe")?;
            command.stdout(Stdio::from(OwnedFd::from(writer)));
            from = Some(reader);
        }
        let leader = own_group.then(|| pids.first().copied().unwrap_or(0));
        let tty = if at == 0 { terminal.ours() } else { None };
        prepare(&mut command, leader, tty, mask, file_size, firsts.get(at).copied().flatten());
        let child = command.spawn().with_context(|| format!("cannot start stage {}", at + 1))?;
        pids.push(child.id() as i32);
    }
    Ok(())
}

/// Chappe's stdin and stdout become /dev/null, unless they are a terminal, which is no pipe's end.
fn let_go() {
    let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") else { return };
    for fd in [0, 1] {
        // SAFETY: plain calls on descriptors that this process has for its whole life.
        unsafe {
            if libc::isatty(fd) == 0 {
                libc::dup2(null.as_fd().as_raw_fd(), fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_the_shells_place_and_nothing_else_does() {
        for (stage, expected) in [
            (" cat x ", "exec cat x "),
            ("/bin/cat<x", "exec /bin/cat<x"),
            ("cat <<E\nx\nE\n", "exec cat <<E\nx\nE\n"),
            // The shell's own, whose words may mean something else in a program of that name.
            ("echo x", "echo x"),
            ("read x", "read x"),
            ("while x; do y; done", "while x; do y; done"),
            ("(cat)", "(cat)"),
            ("x=1 cat", "x=1 cat"),
            ("$program x", "$program x"),
            ("'cat' x", "'cat' x"),
            ("cat() { x; }", "cat() { x; }"),
            ("no-such-program x", "no-such-program x"),
            ("-x", "-x"),
        ] {
            assert_eq!(told(&[stage.to_owned()]).unwrap(), [expected]);
        }
    }
}
