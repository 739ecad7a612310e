//! `chappe run --io`: the folder in which the programs' pipes find their lanes, for as long as the first program runs.
//!
//! A run whose chappe was killed goes on, and leaves its folder to the next such run: a pipe that finds none stays the kernel's.

use super::report;
use crate::args::{Job, Run};
use crate::ended::{FAILED, as_it_did};
use crate::said::{Failure, tell};
use crate::time::Grace;
use crate::under::Under;
use anyhow::{Context, Result, ensure};
use chappe_pipes::{Report, Run as Facts};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The library's file, beside the one for semaphores.
const LIBRARY: &str = "libchappe_io.so";
/// What tells the library of the run.
const VARIABLE: &str = "CHAPPE_RUN_IO";
/// What a folder's name begins with, before the process, when it began, and the namespace of processes that both are told in.
const BEGINS: &str = ".io-";

/// The library, which is where that for semaphores is.
///
/// # Errors
/// It is not there.
pub fn library(semaphores: &Path) -> Result<PathBuf> {
    let library = semaphores.with_file_name(LIBRARY);
    ensure!(
        library.is_file(),
        "cannot put memory under pipes: there is no {}; `cargo build --release -p chappe-io` makes it",
        library.display()
    );
    Ok(library)
}

/// Runs the program with what is to be in its environment and not, and stays beside it. What is told of its pipes stands on stderr.
///
/// # Errors
/// It was not started.
pub fn run(a: &Run, wanted: Vec<(&str, Option<OsString>)>, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let folder = Folder::new().map_err(failed)?;
    let told = a.report.then(|| Report::new(&folder.0).context("cannot make room for the report")).transpose();
    let told = told.map_err(failed)?;
    // What is not to be there is empty, which for these options is the same.
    let mut environment: Vec<(&str, OsString)> =
        wanted.into_iter().map(|(variable, value)| (variable, value.unwrap_or_default())).collect();
    environment.push((VARIABLE, folder.said(a.report)));
    let under = Under {
        command: &a.program,
        environment,
        lease: None,
        object: "",
        line: None,
        beside: None,
        how: &Job { grace: Grace(None), foreground: false, close: true },
        json,
        file_size,
    };
    let ran = under.run()?;
    drop(folder);
    if let Some(told) = told {
        if json { tell(report::json(told)) } else { tell(report::text(told)) }
    }
    Ok(as_it_did(ran.ended, None))
}

/// A run's folder, removed behind it.
struct Folder(PathBuf, Facts);

impl Folder {
    fn new() -> Result<Folder> {
        let directory = chappe::directory()?;
        let facts = Facts::of_this_process().context("cannot read /proc")?;
        sweep(&directory, facts.processes);
        let path = directory.join(format!("{BEGINS}{}-{}-{}", std::process::id(), facts.since, facts.processes));
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory);
        // New, and so this user's: the folder's owner has what the pipes bring.
        made.and_then(|()| fs::DirBuilder::new().mode(0o700).create(&path))
            .with_context(|| format!("cannot make the folder of this run's pipes, {}", path.display()))?;
        Ok(Folder(path, facts))
    }

    /// For the library: when the run began, its namespaces, whether there is a report, and the folder.
    fn said(&self, has_report: bool) -> OsString {
        let Facts { since, processes, times } = self.1;
        let mut said: OsString = format!("{since}:{processes}:{times}:{}:", u8::from(has_report)).into();
        said.push(&self.0);
        said
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is not removed now is by the next such run.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// When a process began, in ticks since the machine did.
fn began(pid: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the command's name, which may have anything in it.
    let word = text.rsplit_once(')').and_then(|(_, behind)| behind.split_ascii_whitespace().nth(19));
    word.and_then(|word| word.parse().ok()).with_context(|| format!("cannot tell when process {pid} began"))
}

/// Removes the folders of runs whose chappe is there no more, as far as this namespace of processes can tell.
fn sweep(directory: &Path, here: u64) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(BEGINS)?.rsplit_once('-'));
        if let Some((process, processes)) = of
            && processes.parse() == Ok(here)
            && let Some((pid, since)) = process.split_once('-')
            && began(pid).map_or(true, |began| began.to_string() != since)
        {
            // Another run may remove it just now.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
